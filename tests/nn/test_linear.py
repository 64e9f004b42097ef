"""`widen.nn.Linear`: PyTorch's layer with a contract."""

from __future__ import annotations

import copy
import io
import pickle
import subprocess
import sys

import numpy as np
import pytest
import torch

import widen
import widen.testing as wt
from helpers import assert_same_bits
from widen.nn import functional

DTYPES = [torch.float64, torch.float32, torch.complex128, torch.complex64, torch.bfloat16]
DTYPES += [torch.float16]


def numbers(*shape, dtype=torch.float64, seed=0):
    return torch.randn(shape, dtype=dtype, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("bias", [False, True])
def test_it_is_the_sum_rounded_once(dtype, bias):
    layer = widen.nn.Linear(17, 5, bias, dtype=dtype, accuracy="correct")
    x = numbers(2, 3, 17, dtype=dtype)
    y = layer(x)
    assert (y.dtype, y.shape) == (dtype, (2, 3, 5))
    wide = torch.complex128 if dtype.is_complex else torch.float64
    rows = x.reshape(6, 17).to(wide)
    right = layer.weight.detach().to(wide).mT
    if bias:
        rows = torch.cat([rows, torch.ones(6, 1, dtype=wide)], 1)
        right = torch.cat([right, layer.bias.detach().to(wide)[None]])
    name = str(dtype).removeprefix("torch.")
    if name in ("float16", "bfloat16"):  # 53 bits hold these sums, so that one rounding follows
        wanted = torch.from_numpy(wt.correctly_rounded(rows.numpy(), right.numpy())).to(dtype)
        assert torch.equal(y.detach().reshape(6, 5), wanted)
    else:
        wanted = widen.matmul(rows.numpy(), right.numpy(), accuracy="correct", dtype=name)
        assert_same_bits(y.detach().reshape(6, 5).numpy(), wanted)


@pytest.mark.parametrize("dtype", [torch.float64, torch.complex128])
@pytest.mark.parametrize("shape", [(4,), (3, 4), (2, 3, 4), (0, 4)])
def test_gradients(dtype, shape):
    x = numbers(*shape, dtype=dtype).requires_grad_()
    w, b = (numbers(*s, dtype=dtype, seed=1).requires_grad_() for s in ((5, 4), (5,)))
    assert torch.autograd.gradcheck(functional.linear, (x, w, b))
    assert torch.autograd.gradcheck(functional.linear, (x, w))


def test_gradients_are_sums_over_the_whole_batch():
    x, up = numbers(2, 3, 7), numbers(2, 3, 5, seed=1)
    layer = widen.nn.Linear(7, 5, dtype=torch.float64, accuracy="correct")
    layer(x).backward(up)
    rows, above = x.reshape(6, 7).numpy(), up.reshape(6, 5).numpy()
    assert_same_bits(layer.weight.grad.numpy(), wt.correctly_rounded(above.T, rows))
    ones = np.ones((6, 1))
    assert_same_bits(layer.bias.grad.numpy()[:, None], wt.correctly_rounded(above.T, ones))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_halves_have_gradients_in_halves(dtype):
    layer = widen.nn.Linear(7, 5, dtype=dtype)
    x = numbers(3, 7, dtype=dtype).requires_grad_()
    layer(x).sum().backward()
    assert {x.grad.dtype, layer.weight.grad.dtype, layer.bias.grad.dtype} == {dtype}


def test_a_weight_of_one_axis():
    x, w, b = numbers(3, 7), numbers(7, seed=1), numbers(1, seed=2)
    wanted = functional.linear(x, w[None], b)[:, 0]
    assert torch.equal(functional.linear(x, w, b), wanted)
    assert torch.equal(functional.linear(x, w), functional.linear(x, w[None])[:, 0])
    assert torch.allclose(wanted, torch.nn.functional.linear(x, w) + b)


def test_it_starts_as_pytorch_s_does_and_takes_its_parameters():
    torch.manual_seed(3)
    theirs = torch.nn.Linear(9, 4)
    torch.manual_seed(3)
    ours = widen.nn.Linear(9, 4)
    assert torch.equal(ours.weight, theirs.weight)
    assert list(ours.state_dict()) == list(theirs.state_dict())
    other = torch.nn.Linear(9, 4)
    ours.load_state_dict(other.state_dict())
    assert torch.equal(ours.bias, other.bias)
    theirs.load_state_dict(ours.state_dict())
    assert isinstance(ours, torch.nn.Linear)


def test_copies_and_files():
    layer = widen.nn.Linear(9, 4, accuracy=60)
    x = numbers(2, 9, dtype=torch.float32)
    file = io.BytesIO()
    torch.save(layer.state_dict(), file)
    file.seek(0)
    loaded = widen.nn.Linear(9, 4, accuracy=60)
    loaded.load_state_dict(torch.load(file, weights_only=True))
    copies = [copy.deepcopy(layer), pickle.loads(pickle.dumps(layer)), loaded]
    whole = io.BytesIO()
    torch.save(layer, whole)
    whole.seek(0)
    with torch.serialization.safe_globals([widen.nn.Linear, torch.nn.Linear, set]):
        copies.append(torch.load(whole, weights_only=True))
    for same in copies:
        assert same.accuracy == 60
        assert torch.equal(same(x), layer(x))


def test_it_is_mapped_and_compiled():
    layer, x = widen.nn.Linear(6, 4, dtype=torch.float64), numbers(5, 3, 6)
    assert torch.equal(torch.vmap(layer)(x), layer(x))
    fast = torch.compile(layer, backend="aot_eager", fullgraph=True)
    assert torch.equal(fast(x), layer(x))
    torch.compiler.reset()


def test_inside_a_scope_it_keeps_its_own_contract():
    layer, x = widen.nn.Linear(6, 4, dtype=torch.float64, accuracy="correct"), numbers(3, 6)
    outside = layer(x)
    with widen.emulate(accuracy=8) as log:
        assert torch.equal(layer(x), outside)
    assert not log.taken


def test_layers_of_a_model_are_replaced_and_share_parameters():
    shared = torch.nn.Linear(6, 6)
    model = torch.nn.Sequential(shared, torch.nn.ReLU(), torch.nn.Sequential(shared), shared)
    model.append(torch.nn.Linear(6, 2, bias=False).eval())
    before = dict(model.named_parameters())
    x = numbers(3, 6, dtype=torch.float32)
    outside = model(x)
    assert widen.nn.replace_linear(model, accuracy="correct") == 2
    assert {name: id(p) for name, p in model.named_parameters()} == {
        name: id(p) for name, p in before.items()
    }
    assert model[0] is model[2][0] is model[3]
    assert type(model[4]) is widen.nn.Linear
    assert not model[4].training
    assert model[4].bias is None
    assert torch.allclose(model(x), outside, atol=1e-6)
    assert widen.nn.replace_linear(model) == 0


@pytest.mark.parametrize(("call", "error", "message"), [
    (lambda x, w: functional.linear(x.numpy(), w), TypeError, r"x is a ndarray; linear takes tens"),
    (lambda x, w: functional.linear(x, w.float()), ValueError, r"dtypes differ, .* \.to\(torch.fl"),
    (lambda x, w: functional.linear(x, w.mT), ValueError, r"x of shape \(3, 7\) and weight of sha"),
    (lambda x, w: functional.linear(x, w, x[0]), ValueError, r"bias has shape \(7,\); .* \(5,\)"),
    (lambda x, w: functional.linear(x, w, accuracy="best"), ValueError, "accuracy='best' is not"),
    (lambda x, w: widen.nn.Linear(3, 2, accuracy="best"), ValueError, "accuracy='best' is not kno"),
    (lambda x, w: widen.nn.Conv2d, AttributeError, "has no attribute 'Conv2d'"),
])  # fmt: skip
def test_wrong_arguments_say_what_is_right(call, error, message):
    with pytest.raises(error, match=message):
        call(numbers(3, 7), numbers(5, 7))


def test_naming_it_does_not_import_pytorch():
    code = "import sys, widen; widen.nn.functional.linear; print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.stdout.strip() == "False", done.stderr
    assert dir(widen.nn) == ["Linear", "functional", "replace_linear"]


@pytest.mark.parametrize("name", ["widen.emulate", "widen.nn.Linear"])
def test_without_pytorch_the_error_says_what_to_install(name):
    code = f"""
import sys
sys.modules["torch"] = None
import widen
try:
    {name}()
except ImportError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert done.stdout == f"{name} needs PyTorch: pip install 'widen[torch]'\n", done.stderr


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_autocast_is_respected_as_pytorch_s_layer_does(dtype):
    theirs = torch.nn.Sequential(torch.nn.Linear(6, 5), torch.nn.Linear(5, 4))
    ours = copy.deepcopy(theirs)
    ours[1] = widen.nn.Linear.of(ours[1], accuracy="correct")
    x = numbers(3, 6, dtype=torch.float32)
    with torch.autocast("cpu", dtype=dtype):
        wanted, found = theirs(x), ours(x)
        wide = ours[1].double()(numbers(3, 5))
    assert (found.dtype, wide.dtype) == (dtype, torch.float64)
    assert torch.allclose(found, wanted, atol=0.05)
    ours[1].float()
    found.float().sum().backward()
    assert ours[0].weight.grad.dtype == torch.float32
    assert ours[0].weight.grad.abs().max() > 0
    with torch.autocast("cpu", dtype=dtype, enabled=False):
        assert ours(x).dtype == torch.float32
    assert widen.nn.Linear(6, 5, device="meta")(x.to("meta")).dtype == torch.float32
