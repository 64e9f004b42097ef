"""Results in float16 and bfloat16: what float32 is promised, rounded once."""

from __future__ import annotations

from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest
import torch

import widen
import widen.testing as wt
from helpers import ACCURACIES, assert_same_bits, draw, dtype_of, slow_except
from widen.formats import BINARY
from widen.stages.rounding import round_once

HALVES = ["float16", "bfloat16"]
halves = pytest.mark.parametrize("name", HALVES)


def fractions(x):
    """The exact values of the words of an array."""
    return np.vectorize(lambda number: Fraction(float(number)), otypes=[object])(x)


@halves
@pytest.mark.parametrize("accuracy", ACCURACIES)
def test_halves_are_the_default_of_halves(name, accuracy):
    a, b = draw("phi1", (7, 30, 5), 1, name)
    found = widen.matmul(a, b, accuracy=accuracy)
    assert found.dtype == dtype_of(name)
    assert_same_bits(found, widen.matmul(a, b, accuracy=accuracy, dtype=name))
    assert widen.matmul(a, b.astype(np.float32)).dtype == np.float32
    assert widen.gemm(a, b, 1.0, beta=2.0, accuracy=accuracy).dtype == dtype_of(name)


def test_two_kinds_of_halves_give_float32():
    a, b = draw("phi1", (2, 3, 2), 1, "float16", "bfloat16")
    assert widen.matmul(a, b).dtype == np.float32


@halves
@pytest.mark.parametrize("family", wt.FAMILIES)
@pytest.mark.parametrize("accuracy", slow_except(["standard"], ["standard", "fast", 30]))
def test_they_round_what_wider_results_round(name, family, accuracy):
    """One integer is rounded to float32, and to its halves."""
    a, b = draw(family, (6, 20, 5), 2, "float32")
    with np.errstate(all="ignore"):
        single = widen.matmul(a, b, accuracy=accuracy, dtype="float32").astype(float)
    half, info = widen.matmul(a, b, accuracy=accuracy, dtype=name, info=True)
    exact = fractions(a) @ fractions(b)
    for i, j in np.ndindex(half.shape):
        if not (np.isfinite(single[i, j]) and np.isfinite(float(half[i, j]))):
            continue
        nearest = round_once(Fraction(single[i, j]), BINARY[name])
        if float(half[i, j]) != nearest:  # float32 was rounded to a midpoint
            middle = (Fraction(nearest) + Fraction(float(half[i, j]))) / 2
            assert Fraction(single[i, j]) == middle
        assert abs(Fraction(float(half[i, j])) - exact[i, j]) <= Fraction(info.bound[i, j])


@halves
def test_they_are_rounded_once(name):
    """A float32 in between is a tie, which the last bits decide otherwise."""
    fmt, one = BINARY[name], np.float64(1.0)
    tie, tiny = 2.0**-fmt.precision, 2.0**-40
    rows = np.array([[one, sign * tie, more * tiny] for sign in (1, -1) for more in (1, 0, -1)])
    column = np.ones((3, 1))
    found = widen.matmul(rows, column, accuracy="correct", dtype=name)
    assert_same_bits(found, wt.correctly_rounded(rows, column, dtype_of(name)))
    twice = widen.matmul(rows, column, accuracy="correct", dtype="float32")
    assert (twice.astype(dtype_of(name)) != found).any()


@halves
def test_overflow_and_the_smallest_numbers(name):
    fmt = BINARY[name]
    top = 2.0**fmt.highest
    step = 2.0 ** (fmt.highest - fmt.precision)
    low = 2.0**fmt.lowest
    values = [top, top - step, top - step / 2, top - step / 2 * (1 + 2.0**-30), -top]
    values += [low, low / 2, low / 2 * (1 + 2.0**-30), low * 1.5, low / 4, -low / 2, -low * 0.75]
    rows = np.array([[x / 2, x / 2] for x in values])
    column = np.ones((2, 1))
    found = widen.matmul(rows, column, accuracy="correct", dtype=name)
    assert_same_bits(found, wt.correctly_rounded(rows, column, dtype_of(name)))


@halves
@pytest.mark.parametrize("accuracy", ACCURACIES)
def test_encoded_operands_serve_halves_and_float32(name, accuracy):
    a, b = draw("phi1", (5, 30, 4), 3, name)
    encoded = widen.encode(b, side="right", accuracy=accuracy)
    assert encoded.fmt == BINARY[name]
    assert_same_bits(widen.matmul(a, encoded), widen.matmul(a, b, accuracy=accuracy))
    for result in ("float32", name):
        for other in ("float32", name):
            kept = widen.encode(b, side="right", accuracy=accuracy, dtype=other)
            found = widen.matmul(a, kept, dtype=result)
            assert_same_bits(found, widen.matmul(a, b, accuracy=accuracy, dtype=result))


@halves
def test_plans_of_halves(name):
    a, b = draw("phi1", (5, 30, 4), 3, name)
    for plan in (widen.plan(a, b), widen.plan((5, 30), (30, 4), dtype=name)):
        assert plan.result == name
        assert_same_bits(widen.matmul(a, b, plan=plan), widen.matmul(a, b))


@halves
@pytest.mark.parametrize("accuracy", ACCURACIES)
def test_tensors_and_gradients(name, accuracy):
    a, b = draw("phi0", (5, 8, 4), 4, name)
    dtype = getattr(torch, name)
    left, right = (torch.from_numpy(x.astype(float)).to(dtype).requires_grad_() for x in (a, b))
    product = widen.matmul(left, right, accuracy=accuracy)
    assert product.dtype == dtype
    wanted = widen.matmul(a, b, accuracy=accuracy).astype(float)
    np.testing.assert_array_equal(product.detach().double().numpy(), wanted)
    grad = torch.from_numpy(draw("phi0", (5, 1, 4), 5)[0] @ np.ones((1, 4))).to(dtype)
    product.backward(grad)
    with torch.no_grad():
        assert torch.equal(left.grad, widen.matmul(grad, right.mT, accuracy=accuracy))
        assert torch.equal(right.grad, widen.matmul(left.mT, grad, accuracy=accuracy))


@halves
def test_out_of_halves(name):
    a, b = draw("phi1", (3, 4, 2), 6, name)
    out = np.empty((3, 2), dtype_of(name))
    assert widen.matmul(a, b, out=out) is out
    assert_same_bits(out, widen.matmul(a, b))
    with pytest.raises(ValueError, match=f"dtype {name}"):
        widen.matmul(a, b, out=np.empty((3, 2), np.float32))
    tensor = torch.empty((3, 2), dtype=getattr(torch, name))
    operands = [torch.from_numpy(x.astype(float)).to(tensor.dtype) for x in (a, b)]
    assert widen.matmul(*operands, out=tensor) is tensor
    np.testing.assert_array_equal(tensor.double().numpy(), out.astype(float))


def test_bfloat16_by_any_of_its_names():
    a, b = draw("phi1", (3, 4, 2), 7)
    for dtype in ("bfloat16", ml_dtypes.bfloat16, np.dtype(ml_dtypes.bfloat16), torch.bfloat16):
        assert widen.matmul(a, b, dtype=dtype).dtype == ml_dtypes.bfloat16


def test_there_are_no_complex_halves():
    a, b = np.ones((2, 2), np.float16), np.ones((2, 2), np.complex64)
    with pytest.raises(ValueError, match="use complex64"):
        widen.matmul(a, b, dtype="float16")
    with pytest.raises(ValueError, match="dtype='complex64'"):
        widen.gemm(a, a, alpha=1j)
    assert widen.matmul(a, b).dtype == np.complex64
