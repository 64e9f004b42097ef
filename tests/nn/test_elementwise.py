"""Activations whose elements do not depend on their place: close to PyTorch's, and steady."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional

import widen
from widen.nn import elementwise

FUNCTIONS = {
    "sigmoid": torch.sigmoid,
    "silu": functional.silu,
    "gelu": functional.gelu,
    "gelu tanh": lambda x: functional.gelu(x, approximate="tanh"),
    "softplus": lambda x: functional.softplus(x, beta=2, threshold=5),
    "mish": functional.mish,
    "elu": lambda x: functional.elu(x, alpha=0.7),
    "selu": functional.selu,
    "celu": lambda x: functional.celu(x, alpha=1.3),
    "rsqrt": lambda x: (x * x + 0.5).rsqrt(),
}
DTYPES = [torch.float64, torch.float32, torch.bfloat16, torch.float16]


def numbers(dtype, size=3001):
    generator = torch.Generator().manual_seed(2)
    ordinary = 4 * torch.randn(size, dtype=torch.float64, generator=generator)
    extreme = torch.tensor([0.0, -0.0, 1e-30, -1e-30, 80.0, -80.0, 300.0, -300.0])
    return torch.cat([ordinary, extreme.double()]).to(dtype)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_values_and_gradients_are_pytorch_s_to_a_few_roundings(name, dtype):
    function, x = FUNCTIONS[name], numbers(dtype)
    results = []
    for scope in (widen.emulate(), widen.emulate(steady=True)):  # both without oneDNN's gelu
        leaf = x.clone().requires_grad_()
        with scope:
            y = function(leaf)
            y.sum().backward()
        results.append((y.detach(), leaf.grad))
    eps = torch.finfo(dtype).eps
    for theirs, ours in zip(*results, strict=True):
        assert ours.dtype == dtype
        assert torch.allclose(ours, theirs, rtol=16 * eps, atol=256 * eps)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_elements_do_not_depend_on_their_place(name, dtype):
    function, x = FUNCTIONS[name], numbers(dtype)
    with widen.emulate(steady=True):
        whole = function(x)
        for piece in (1, 3, 8, 13):
            rows = x[1 : 1 + 200 * piece].reshape(200, piece)
            alone = torch.cat([function(row.clone()) for row in rows])
            assert torch.equal(alone, whole[1 : 1 + 200 * piece])


def test_forms_in_place_and_with_out():
    x = numbers(torch.float32)
    with widen.emulate(steady=True):
        wanted = functional.silu(x)
        changed, out = x.clone(), torch.empty(0)
        assert functional.silu(changed, inplace=True) is changed
        torch.sigmoid(x, out=out)
        assert torch.equal(out, torch.sigmoid(x))
    assert torch.equal(changed, wanted)


def test_nothing_changes_unless_it_is_asked_for():
    x = numbers(torch.float32)
    with widen.emulate() as log:
        inside = functional.silu(x)
    assert torch.equal(inside, functional.silu(x))
    assert len(log) == 0


def test_gradients_of_gradients():
    x = torch.linspace(-3, 3, 11, dtype=torch.float64).requires_grad_()
    with widen.emulate(steady=True):
        assert torch.autograd.gradcheck(functional.silu, x)
        assert torch.autograd.gradgradcheck(functional.gelu, x)


def test_every_formula_replaces_an_operator():
    for name in elementwise.OPERATORS:
        assert hasattr(torch.ops.aten, name)
