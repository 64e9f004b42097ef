"""gemm by the GPU's stages gives the CPU's bits: on a GPU, or in Triton's interpreter."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest
import torch

import widen
from device import ON, cases, gemm, own_kernels, tensor
from helpers import assert_same_bits, draw
from widen.calls.check import check_call
from widen.formats import FORMATS
from widen.gpu import planning as gpu_planning
from widen.gpu import products as gpu_products
from widen.gpu.clock import Clock
from widen.options import Options
from widen.plan import Blocks
from widen.stages import error_bounds
from widen.stages.problem import Scalars

pytestmark = pytest.mark.device

# Triton's interpreter takes a second or more for a product: few of them there, and tiny.
SHAPE = (1, 7, 5) if ON == "cpu" else (70, 90, 130)
SMALL = (1, 4, 3) if ON == "cpu" else (30, 40, 50)


def assert_as_on_a_cpu(*operands, **options):
    wanted = widen.gemm(*operands, **options)
    assert_same_bits(gemm(*operands, **options), wanted)
    return wanted


def addend(a, b, seed, alpha=1.0, beta=1.0):
    """c of every kind: unrelated, 0, far above and below, and what cancels the rounded product."""
    with np.errstate(all="ignore"):
        product = widen.matmul(a, b, accuracy="correct")
        c = np.random.default_rng(seed).standard_normal(product.shape).astype(product.dtype)
        near = np.where(np.isfinite(product), -product * (alpha / beta), 1)
        tiny = np.finfo(product.dtype).smallest_subnormal
        choices = [c, near, c * 0, c * 1e30, near * (1 + 2.0**-52), c * 1e-30, c * 0 + 3 * tiny]
    kinds = np.arange(c.size).reshape(c.shape) % len(choices)
    return np.choose(kinds, choices).astype(product.dtype)


@cases(
    ("family", "accuracy"), ("one huge", "standard"), ("extremes", "fast"),
    ("graded against", "correct"), ("extremes", 200), ("phi1", "standard"),
    ("cancellation", "correct"), ("phi4", "standard"), ("zero lines", 40), interpreted=4,
)  # fmt: skip
def test_families_and_contracts(family, accuracy):
    a, b = draw(family, SHAPE, 1)
    assert_as_on_a_cpu(a, b, addend(a, b, 2), alpha=1.0, beta=1.0, accuracy=accuracy)


@own_kernels
@pytest.mark.covering(1)
@cases(
    ("alpha", "beta"), (-1.0, 1.0), (0.1, -3.7), (2.0**-600, 1 / 3), (1e300, 1e-300), (1 / 3, 0.0),
    (0.0, 0.1), interpreted=4,
)  # fmt: skip
@pytest.mark.parametrize("inner", [1, 2])
def test_scalars(inner, alpha, beta):
    """Outer products, whose lines have one entry, and short ones: elements that cost little."""
    rng, count = np.random.default_rng(3), 21 if ON == "cpu" else 100  # of 7 kinds of addends
    a, b = rng.standard_normal((1, inner)), rng.standard_normal((inner, count))
    b *= 2.0 ** rng.integers(-60, 60, b.shape)
    c = addend(a, b, 4, alpha, beta or 1.0)
    c[:, :7] *= 2.0 ** rng.integers(-200, 200, 7)
    assert_as_on_a_cpu(a, b, c, alpha=alpha, beta=beta)


@pytest.mark.parametrize("accuracy", ["correct", "standard"])
def test_a_residual_is_what_the_product_lost(accuracy):
    a, b = draw("phi1", (2, 9, 2), 5)
    c = widen.matmul(a, b, accuracy="correct")
    residual = assert_as_on_a_cpu(a, b, c, alpha=-1.0, beta=1.0, accuracy=accuracy)
    assert (np.abs(residual) > 0).all()
    assert (np.abs(residual) <= 2.0**-50).all()


def test_exact_cancellation_is_positive_zero():
    rng = np.random.default_rng(6)
    a, b = rng.integers(-50, 50, (2, 5)).astype(float), rng.integers(-50, 50, (5, 2)).astype(float)
    wanted = np.zeros((2, 2))
    assert_same_bits(gemm(a, b, a @ b, alpha=-0.25, beta=0.25), wanted)


def test_subnormal_results_and_overflow():
    a, b = (np.ldexp(x, -250) for x in draw("phi1", (1, 2, 8), 7))
    c = np.array([[1e-320, -5e-324, 0, 1e308, 1.7e308, -1.7e308, 2.0**-1070, 1.0]])
    assert_as_on_a_cpu(a, b, c, alpha=2.0**-560, beta=1.5)
    assert_as_on_a_cpu(a, b, c, alpha=1e307, beta=2.0**200, accuracy="correct")


@own_kernels
@cases(
    "names", ("float32", "float64", "float16"), ("bfloat16", "float32", "bfloat16"),
    ("float32", "float32", "float32"), interpreted=2,
)  # fmt: skip
def test_formats(names):
    operands, result, kind = names
    a, b = draw("phi1", (1, 5, 4), 8, operands)
    c = draw("phi2", (4, 1, 1), 9)[0].T.astype(ml_dtypes.bfloat16 if "b" in kind else kind)
    c = np.ascontiguousarray(c)
    wanted = widen.gemm(a, b, c.astype("float64"), alpha=0.3, beta=-0.7, dtype=result)
    assert_same_bits(gemm(a, b, c, alpha=0.3, beta=-0.7, dtype=result), wanted)


@cases("accuracy", "standard", "correct", "fast", 40, interpreted=1)
def test_special_values(accuracy):
    rng = np.random.default_rng(10)
    a, b, c = rng.random((2, 3)), rng.random((3, 9)), rng.random((2, 9))
    inf, nan = np.inf, np.nan
    a[1, 2], b[1, 2:5], b[2, 5], b[0, 6] = inf, [nan, inf, -inf], -inf, 0
    c[:, 4:] = [[inf, -inf, nan, 1e308, -inf], [nan, inf, -inf, -inf, inf]]
    assert_as_on_a_cpu(a, b, c, alpha=-0.5, beta=2.0, accuracy=accuracy)


@own_kernels
@cases(
    ("alpha", "beta"), (1.0, 1.0), (1 + 2.0**-600 * 1j, 0.1), (0.3 - 1j, 1e-300 + 2j), (1j, -1.0),
    interpreted=3, slow=2,
)  # fmt: skip
def test_complex(alpha, beta):
    a, b = draw("phi1", SMALL, 11, "complex128")
    c = addend(a, b, 12)
    c.imag *= 1e-40
    assert_as_on_a_cpu(a, b, c, alpha=alpha, beta=beta, accuracy="correct" if beta == 1 else None)


def test_complex_scalars_for_real_operands():
    a, b = draw("phi1", (1, 3, 2), 13, "float32")
    options = {"alpha": 0.3 - 1j, "beta": 2.0, "dtype": "complex64"}
    assert_as_on_a_cpu(a, b, addend(a, b, 14), **options)


def test_special_complex_values():
    rng = np.random.default_rng(15)
    a, b, c = (rng.random(shape) + 1j for shape in ((1, 2), (2, 6), (1, 6)))
    b[0, 3:] = complex(np.inf, 0), complex(1, -np.inf), complex(np.nan, 0)
    c[0, :3] = complex(np.inf, 1), complex(1e308, -np.inf), 1e308
    c[0, 3:] = 1, complex(0, np.inf), complex(np.nan, 1)
    for alpha, beta in [(1.0, 1.0), (2 - 1j, 1e300 + 1e300j)]:
        assert_as_on_a_cpu(a, b, c, alpha=alpha, beta=beta)


def test_what_is_not_read():
    c = np.random.default_rng(16).standard_normal((2, 3))
    c[0, 1], c[1] = np.inf, c[1] * 1e-310
    wrong, wide = np.full((2, 5), np.nan), np.full((5, 3), np.inf)
    assert_as_on_a_cpu(wrong, wide, c, alpha=0, beta=0.1)
    assert_as_on_a_cpu(wrong[:, :0], wide[:0], c, alpha=5.0, beta=2.0)
    assert_same_bits(gemm(wrong, wide, alpha=0), np.zeros((2, 3)))


def test_batches_vectors_and_broadcasting():
    rng = np.random.default_rng(17)
    a, b, v = rng.standard_normal((2, 2, 4)), rng.standard_normal((4, 3)), rng.standard_normal(4)
    for x, y, shape in [(a, b, (2, 1, 3)), (v, b, ()), (a, v, (2,))]:
        assert_as_on_a_cpu(x, y, rng.standard_normal(shape), beta=-0.7)


@cases("accuracy", "correct", "standard", interpreted=1)
def test_blocks(accuracy, monkeypatch):
    """Each has its rows, its columns and its part of c, here one column for all."""
    a, b = draw("one huge", (3, 4, 5), 20)
    c = np.random.default_rng(21).standard_normal((3, 1))
    given = {"alpha": -0.1, "beta": 0.3, "accuracy": accuracy}
    wanted, info = widen.gemm(a, b, c, info=True, **given)
    assert info.repaired > 0
    make, blocks = gpu_planning.cached_plan, Blocks(1, 2, 3, 4)
    monkeypatch.setattr(
        gpu_planning, "cached_plan", lambda *x, **y: replace(make(*x, **y), blocks=blocks)
    )
    found = gemm(a, b, c, bound=True, **given)
    assert_same_bits(found[0], wanted)
    assert np.allclose(found[1], info.bound, rtol=1e-9, atol=0)


@cases("accuracy", "fast", "correct", "standard", 40, interpreted=1)
@pytest.mark.parametrize("system", ["residues", "triangle"])
def test_bounds(accuracy, system):
    """What the triangle leaves out counts; its bits are those of the unit."""
    a, b = draw("phi1", SMALL, 18)
    options = {"accuracy": accuracy, "unit": "int8", "system": system}
    options |= {"alpha": -300.0, "beta": 0.7}
    c = addend(a, b, 19)
    wanted, info = widen.gemm(a, b, c, info=True, **options)
    found, bound = gemm(a, b, c, bound=True, **options)
    assert_same_bits(found, wanted)
    assert np.allclose(bound, info.bound, rtol=1e-9, atol=0)


@pytest.mark.parametrize("fmt", [fmt for fmt in FORMATS.values() if fmt.parts == 1])
def test_halves_of_ulps(fmt):
    word = fmt.words[0]
    x = np.ldexp(1.5, np.arange(word.lowest, word.highest))
    values = np.stack([x, np.random.default_rng(20).permutation(x)])
    ulps, others = error_bounds.ulp(values, fmt)
    tensors_of = torch.from_numpy(values).to(ON)
    assert_same_bits(error_bounds.ulp(tensors_of, fmt)[0].cpu().numpy(), ulps)
    half = error_bounds._half_ulp(values, fmt)
    found = error_bounds._half_ulp(tensors_of, fmt).cpu().numpy()
    assert np.allclose(found, half, rtol=1e-15, atol=0)
    unit = Fraction(2) ** -1074
    for h, u, v in zip(*(map(Fraction, y.tolist()) for y in (half, ulps, others)), strict=True):
        square = u**2 + v**2
        assert (2 * h) ** 2 >= square
        assert h <= 2 * unit or (2 * h - 4 * unit) ** 2 <= square * (1 + Fraction(1, 1 << 30))


def test_c_may_be_the_result():
    """Then the result is written elsewhere first: c is read again where elements are repaired."""
    x, c = torch.ones((2, 3, 3), device=ON), torch.ones((4, 3), device=ON)
    call = check_call(x[0], x[0], Options(), 1 << 30)
    for given, out, shared in [(c[:3], c[1:], True), (c[:3], x[0].clone(), False), (c, c, True)]:
        target = gpu_products._target(call, out, x.device, given)
        assert (target is out) == (not shared)
    call = check_call(x, x[0], Options(), 1 << 30)

    def addend(c):
        return gpu_products._scaling(call, Scalars(1.0, 1.0, c), x.device).addend

    assert addend(c[:3]).bits.data_ptr() == c.data_ptr()
    with pytest.raises(ValueError, match=r"c has shape \(4, 3\), .* result's \(2, 3, 3\)"):
        addend(c)
    number = addend(np.asarray(np.float16(0.5)))
    assert (number.bits == np.float64(0.5).view(np.int64).item()).all()


def test_scalars_that_are_tensors():
    a, b, c = torch.ones((1, 1)), torch.ones((1, 1)), torch.tensor(3.0)
    two = torch.tensor(2.0, dtype=torch.float64)
    assert widen.gemm(a, b, c, alpha=two, beta=two).item() == 8.0
    with pytest.raises(TypeError, match=r"alpha is a tensor on meta.*alpha\.item\(\)"):
        widen.gemm(a, b, c, alpha=torch.empty((), device="meta"), beta=1.0)
    assert widen.gemm(a, b, torch.tensor(3), beta=1.0).item() == 4.0


@pytest.mark.usefixtures("own_kernels")
def test_all_words_of_c_are_added_to_plain_products():
    """Those below the first decide what is left after cancellation."""
    a, b = np.array([[1.0, 2.0], [3.0, 5.0]]), np.array([[3.0, 1.0], [-0.5, 2.0]])
    c = widen.Words.from_words(np.array([-(a @ b), np.full((2, 2), 2.0**-60)]), "float64x2")
    wanted = widen.gemm(a, b, c, alpha=1.0, beta=1.0, accuracy="correct")
    assert (wanted == 2.0**-60).all()
    there = (tensor(a), tensor(b), c.to_torch(ON))
    if ON == "cuda":
        found = widen.gemm(*there, alpha=1.0, beta=1.0, accuracy="correct")
    else:
        options = Options("correct")
        call = check_call(*there[:2], options, 1 << 30)
        found = torch.empty(call.dims, dtype=torch.float64)
        scaling = gpu_products._scaling(call, Scalars(1.0, 1.0, there[2]), found.device)
        gpu_products._run(call, scaling, found, None, options, Clock(timed=False))
    assert_same_bits(found.cpu().numpy(), wanted)
