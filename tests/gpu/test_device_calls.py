"""Whole calls by the GPU's stages: shapes, plans, encoded operands and results of every kind.

On a GPU as users call them, otherwise what they come to, in Triton's interpreter.
"""

from __future__ import annotations

from contextlib import nullcontext

import numpy as np
import pytest
import torch

from widen.gpu.replay import launch as gpu_launch
from widen.options import Options
from widen.stages.compiling.once import Once
from widen.stages.problem import Encoding

pytest.importorskip("triton")
import widen
from device import ON, cases, moved
from helpers import assert_same_bits, assert_same_words, draw
from widen.calls.check import check_call, check_plan
from widen.calls.cpu_tensors import as_tensor
from widen.calls.results import check_out
from widen.contract import as_contract
from widen.formats import FORMATS
from widen.gpu import certify as gpu_certify
from widen.gpu import products as gpu_products
from widen.gpu import recorded as gpu_recorded
from widen.gpu.clock import Clock
from widen.gpu.products import typical_plan
from widen.words import Words

pytestmark = pytest.mark.device

SHAPE = (2, 9, 3) if ON == "cpu" else (70, 200, 130)


@pytest.fixture(autouse=True)
def any_device(monkeypatch):
    """Where there is no GPU, no device is the current one."""
    if ON == "cpu":
        monkeypatch.setattr(torch.cuda, "device", lambda device: nullcontext())


def there(x):
    """An array or `Words` where the stages run; what is encoded is there."""
    if isinstance(x, Words):
        return moved(x)
    return x if isinstance(x, (widen.Encoded, torch.Tensor)) else as_tensor(x).to(ON)


def here(x):
    return x.to_arrays() if isinstance(x, Words) else x.cpu().numpy()


def encode(x, side, *names):
    """`widen.encode` of an array, where the stages run."""
    if ON == "cuda":
        return widen.encode(there(x), side=side, dtype=list(names) or None)
    wanted = [
        Encoding(side, as_contract("standard"), FORMATS[name], None, None)
        for name in names or ("float64",)
    ]
    return gpu_products.encode(there(x), wanted)


def matmul(a, b, accuracy=None, dtype=None, out=None, plan=None):
    """`widen.matmul` of arrays, and its certified bound."""
    a, b = there(a), there(b)
    if ON == "cuda":
        found, info = widen.matmul(
            a, b, accuracy=accuracy, dtype=dtype, out=out, plan=plan, info=True
        )
        return here(found), here(info.bound)
    if plan is not None:
        accuracy, dtype = plan.contract, dtype or plan.result
    options = Options(accuracy, dtype, plan=plan)
    call = check_call(a, b, options, 1 << 30)
    if plan is not None:
        check_plan(call, plan)
    if out is not None:
        check_out(out, call, ON)
    target = gpu_products._target(call, out, torch.device(ON))
    bound = torch.empty(call.dims, dtype=torch.float64)
    gpu_products._run(call, None, target, bound, options, Clock(timed=False, bounds=True))
    return here(target), here(bound)


def assert_as_on_a_cpu(a, b, **options):
    found, bound = matmul(a, b, **options)
    wanted, info = widen.matmul(a, b, **options, info=True)
    if isinstance(wanted, Words):
        assert_same_words(found, wanted)
    else:
        assert_same_bits(found, wanted)
    assert np.array_equal(bound, info.bound, equal_nan=True)
    return info


@pytest.mark.parametrize("many", [False, True])
def test_the_largest_bound(monkeypatch, many):
    """Without bounds of all elements, a row at a time; norms and results beyond the range."""
    monkeypatch.setattr(gpu_certify, "BYTES_AN_ELEMENT", 1 << 40)
    a, b = np.full((3, 6), 1e308) / [[3], [7], [-9]], np.full((6, 4), 1e-10) / 3
    a[2, 2], b[:, 3] = np.nan, 1e308
    if many:
        a, b = np.stack([a, a / 3, a / 7]), np.stack([b, b / 5, b])
    wanted, info = widen.matmul(a, b, info="largest")
    assert info.not_finite == wanted.size - np.isfinite(wanted).sum() > 0
    if ON == "cuda":
        found, record = widen.matmul(there(a), there(b), info="largest")
        assert (record.bound, record.not_finite) == (info.bound, info.not_finite)
    else:
        call = check_call(there(a), there(b), Options(), 1 << 30)
        found = gpu_products._target(call, None, torch.device(ON))
        ledger = Clock(timed=False, bounds=True)
        gpu_products._run(call, None, found, None, Options(), ledger)
        assert ledger.largest == info.bound
        assert ledger.finite == wanted.size - info.not_finite
    assert_same_bits(here(found), wanted)
    assert_as_on_a_cpu(a, b)


@pytest.mark.covering(1)
@pytest.mark.parametrize("accuracy", ["standard", "fast"])
@pytest.mark.parametrize("kind", ["ones", "digits", "float16"])
def test_one_operand_is_exact_and_short(accuracy, kind):
    """What it multiplies was rounded: the certificate must see that this costs little."""
    _, k, n = SHAPE
    a, _ = draw("phi0.5", SHAPE, 3)
    rng = np.random.default_rng(5)
    b = {
        "ones": np.ones((k, n)),
        "digits": rng.integers(-9, 10, (k, n)).astype(float),
        "float16": rng.uniform(0.5, 1, (k, n)).astype(np.float16),
    }[kind]
    for left, right in ((a, b), (b.T, a.T)):
        assert assert_as_on_a_cpu(left, right, accuracy=accuracy, dtype="float64").repaired == 0


FORMATS_OF_PLANS = [
    ("float64x2", "float64x4"), ("float64", "float64x2"), ("float64x4", "float64"),
    ("float32", "float64"), ("float32", "float64x4"), ("float64x4", "float64x2"),
]  # fmt: skip


@cases(("planned", "asked"), *FORMATS_OF_PLANS, interpreted=2, slow=1)
def test_a_plan_for_another_format(planned, asked):
    """Planes of one format, integers of another: the contract is that of the call."""
    a = widen.Words(np.arange(-4.0, 6.0).reshape(2, 5), "float64x4")
    b = widen.Words(draw("phi1", (2, 5, 2), 11)[1], "float64x4") / 3.0
    wanted = Encoding("left", as_contract("standard"), FORMATS[planned], None, None)
    plan = typical_plan(wanted, (1, 2, 5, 2), 1 << 30)
    found, _ = matmul(a, b, dtype=asked, plan=plan)
    wanted = widen.matmul(a, b, dtype=asked)
    if asked == "float64":
        assert_same_bits(found, wanted)
    else:
        assert_same_words(found, wanted)


BATCHES = [((2, 1), (3,)), ((2, 1), (1, 3)), ((1, 3), (2, 1)), ((3,), (2, 1)), ((2, 3), (3,))]


@pytest.mark.covering(1)
@pytest.mark.parametrize(("ours", "theirs"), BATCHES if ON == "cuda" else BATCHES[1:4])
@pytest.mark.parametrize("encoded", ["left", "right", "both"])
def test_encoded_operands_broadcast(ours, theirs, encoded):
    rng = np.random.default_rng(13)
    a, b = rng.standard_normal((*ours, 2, 5)), rng.standard_normal((*theirs, 5, 3))
    left = encode(a, "left") if encoded != "right" else a
    right = encode(b, "right") if encoded != "left" else b
    found, bound = matmul(left, right)
    wanted, info = widen.matmul(a, b, info=True)
    assert_same_bits(found, wanted)
    assert np.array_equal(bound, info.bound)


@pytest.mark.covering(1)
@pytest.mark.parametrize("side", ["left", "right"])
def test_encoded_operands_for_several_formats(side):
    rng = np.random.default_rng(14)
    a, b = rng.standard_normal((2, 5)), rng.standard_normal((5, 3))
    names = ["float64", "float32", "float64x2"]
    made = encode(a if side == "left" else b, side, *names)
    assert made.formats == tuple(names)
    for name in names:
        found, bound = matmul(*((made, b) if side == "left" else (a, made)), dtype=name)
        wanted, info = widen.matmul(a, b, dtype=name, info=True)
        (assert_same_words if name == "float64x2" else assert_same_bits)(found, wanted)
        assert np.array_equal(bound, info.bound)


def test_exact_results():
    """Bounds of 0 where the CPU has them: of integers, true zeros and underflows."""
    a = np.array([[1.0, -2.0, 4.0], [0.1, -0.1, 0.0], [1e-200, 0.0, 0.0]])
    b = np.array([[3.0, 1e-200], [3.0, 0.0], [0.5, 0.0]])
    info = assert_as_on_a_cpu(a, b, accuracy="correct")
    assert info.exact.tolist() == [[True, True], [True, False], [False, False]]
    assert_as_on_a_cpu(a, b, accuracy="standard")


@pytest.mark.parametrize("dtype", ["complex128", "complex128x2"])
def test_imaginary_parts_of_real_products_are_zero(monkeypatch, dtype):
    """Also where the result's batch axes do not merge, and it is computed elsewhere."""
    rng = np.random.default_rng(14)
    a, b = rng.standard_normal((2, 3, 2, 4)), rng.standard_normal((4, 2))
    wanted = widen.matmul(a, b, dtype=dtype)
    out = there(np.full_like(wanted, 7)) if dtype == "complex128" else moved(wanted)
    full = torch.empty

    def filled(*given, **more):
        made = full(*given, **more)
        return made.fill_(7) if made.dtype in (torch.float64, torch.complex128) else made

    monkeypatch.setattr(torch, "empty", filled)
    if dtype == "complex128":
        out = out.transpose(0, 1).contiguous().transpose(0, 1)
        assert_same_bits(matmul(a, b, dtype=dtype, out=out)[0], wanted)
    else:
        planes = [plane.transpose(1, 2).contiguous().transpose(1, 2) for plane in out.planes]
        out = Words.of(out.format, [plane.fill_(7) for plane in planes])
        assert_same_words(matmul(a, b, dtype=dtype, out=out)[0], wanted)


@pytest.mark.parametrize("dtype", ["float64", "float32", "complex128", "float64x2"])
def test_no_inner_dimension(dtype):
    a, b = np.empty((2, 0)), np.empty((0, 3))
    assert_as_on_a_cpu(a, b, dtype=dtype)


@pytest.mark.parametrize("shape", [(2, 0), (0, 3), (0, 0), (0, 2, 3), (0,)])
def test_encoded_operands_of_nothing(shape):
    x = np.empty(shape)
    other = np.zeros((2, shape[-1])).T
    for a, b in ((encode(x, "left"), other), (x, encode(other, "right"))):
        assert_same_bits(matmul(a, b)[0], widen.matmul(x, other))


def test_a_result_whose_elements_are_one_is_refused():
    a, b = np.ones((2, 3)), np.ones((3, 4))
    out = torch.empty((2, 1), dtype=torch.float64, device=ON).expand(2, 4)
    with pytest.raises(ValueError, match="share memory"):
        matmul(a, b, out=out)


@pytest.mark.gpu
@pytest.mark.skipif(ON == "cpu", reason="there is no GPU")
class TestOnAGpu:
    def test_native_knows_of_tf32(self):
        a = torch.rand(64, 64, device="cuda")
        before = torch.backends.cuda.matmul.fp32_precision
        plain = widen.matmul(a, a, accuracy="fast", native=True, info=True)[1]
        torch.backends.cuda.matmul.fp32_precision = "tf32"
        try:
            found = widen.matmul(a, a, accuracy="fast", native=True, info=True)[1]
        finally:
            torch.backends.cuda.matmul.fp32_precision = before
        assert (plain.unit, found.unit != "native") == ("native", True)

    def test_what_was_encoded_on_a_cpu_stays_there(self):
        a = np.random.default_rng(2).random((8, 8))
        encoded = widen.encode(a, side="right")
        for _ in range(2):
            with pytest.raises(ValueError, match="encoded on a CPU"):
                widen.matmul(torch.from_numpy(a).cuda(), encoded)

    def test_kernels_compile_where_there_is_no_home(self, monkeypatch):
        from widen.gpu.kernels.cuda import compiler, launcher, multiply

        if not launcher.is_hopper(torch.device("cuda")):
            pytest.skip("there is no Hopper GPU")

        def nowhere():
            raise RuntimeError("Could not determine home directory.")

        monkeypatch.setattr(compiler, "_cache_directory", nowhere)
        monkeypatch.setattr(multiply, "_launchers", Once())
        monkeypatch.setattr(gpu_recorded, "_recordings", gpu_recorded.Recordings())
        compiler._functions.clear()
        a = np.random.default_rng(2).random((300, 300))
        found = widen.matmul(*[torch.from_numpy(a).cuda()] * 2).cpu().numpy()
        assert_same_bits(found, widen.matmul(a, a))


# ── axes of one entry ────────────────────────────────────────────────────────────────────────────


def with_stride(x, stride):
    """The same tensor or `Words`, this stride along axes of one entry."""
    if isinstance(x, Words):
        return Words.of(x.format, [with_stride(plane, stride) for plane in x.planes])
    strides = [stride if n == 1 else old for n, old in zip(x.shape, x.stride(), strict=True)]
    return x.as_strided(x.shape, strides)


def numbers(shape, dtype):
    x = np.random.default_rng([7, *shape]).standard_normal(shape)
    if dtype == "float64x2":
        return moved(widen.Words.from_words(np.array([x, x * 2.0**-60]), dtype))
    return there((x - 2j * x).astype(dtype) if dtype == "complex128" else x.astype(dtype))


ONES = [(1, 9), (9, 1), (1, 1), (1, 3, 9), (1, 9, 1), (9,)]
NOISE = [0, 1, 7, 16, 1 << 33]


@pytest.mark.parametrize("dtype", ["float64", "float32", "complex128", "float64x2"])
@pytest.mark.parametrize("shape", ONES)
def test_strides_of_axes_of_one_entry_are_not_looked_at(shape, dtype):
    """Not where they decide on kernels and tiles, nor where recordings are told apart."""
    plain = numbers(shape, dtype)
    for side in ("left", "right"):
        wanted = gpu_products.lines_of(plain, side, 1 + (dtype == "complex128"))
        for stride in NOISE:
            view = with_stride(plain, stride)
            found = gpu_products.lines_of(view, side, 1 + (dtype == "complex128"))
            assert found.words.data_ptr() == wanted.words.data_ptr()
            assert found.words.stride() == wanted.words.stride()
            assert found.bits.stride() == wanted.bits.stride()
            assert found.lines_near == wanted.lines_near
            assert gpu_products.in_one_block(view) == gpu_products.in_one_block(plain)
            assert gpu_recorded.key_of_operand(view) == gpu_recorded.key_of_operand(plain)


@pytest.mark.parametrize("mixed", [False, True])
def test_words_whose_axes_of_one_entry_differ_lie_in_one_block(mixed):
    """Kernels are told one set of strides for all words."""
    fmt = FORMATS["float64_float32" if mixed else "float64x2"]
    first, second = numbers((3, 1, 5), "float64x2").planes
    second = second.float() if mixed else second
    out = Words.of(fmt, [with_stride(first, 1), with_stride(second, 16)])
    assert gpu_products.in_one_block(out)
    bits = gpu_products.bits_of(out, 1)
    assert bits.block.data_ptr() == first.data_ptr()
    if mixed:
        assert bits.second.stride() == bits.block.stride()[1:]


@pytest.mark.parametrize(("left", "right"), [((1, 9), (9, 1)), ((9,), (1, 9, 2))])
def test_kernels_are_told_the_same_whatever_such_strides_are(monkeypatch, own_kernels, left, right):
    """So that no other one is compiled, and results have the CPU's bits."""
    noted = []

    def noting(run):
        def noted_run(launching):
            kernel, grid, arguments, *rest = launching
            told = [x if isinstance(x, int) else type(x) for x in arguments]
            noted.append((kernel.fn.__name__, grid, told, *rest))
            return run(launching)

        return noted_run

    for name in ("_by_triton", "_loaded"):
        monkeypatch.setattr(gpu_launch, name, noting(getattr(gpu_launch, name)))
    a, b = numbers(left, "float64"), numbers(right, "float64")
    expected, wanted = widen.matmul(here(a), here(b)), None
    for stride in (1, 1000):
        noted.clear()
        found, _ = matmul(with_stride(a, stride), with_stride(b, stride))
        assert_same_bits(found, np.asarray(expected))
        wanted = wanted or noted.copy()
        assert noted == wanted
    assert len(wanted) >= 4
