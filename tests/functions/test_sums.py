"""Sums: the exact value rounded once, along any axes, in any order."""

from __future__ import annotations

import itertools
import math
from contextlib import suppress
from fractions import Fraction

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import widen
from helpers import assert_same_bits, draw, dtype_of
from widen.formats import BINARY, FORMATS, PLAIN
from widen.stages.rounding import round_once

finite = st.floats(allow_nan=False, allow_infinity=False)


@given(st.lists(finite, max_size=12))
def test_floats_are_added_as_fsum_does(numbers):
    exact = sum(map(Fraction, numbers), Fraction(0))
    wanted = round_once(exact, BINARY["float64"])
    if math.isfinite(wanted) and numbers:
        with suppress(OverflowError):  # of what fsum adds on its way
            assert wanted == math.fsum(numbers)
    assert_same_bits(widen.sum(numbers if numbers else np.zeros(0)), np.float64(wanted))


@pytest.mark.parametrize("name", PLAIN)
@pytest.mark.parametrize("result", [None, "float16", "float32", "float64", "complex128"])
def test_formats(name, result):
    x, _ = draw("phi2", (7, 40, 1), 1, name)
    if result is not None and FORMATS[name].parts == 2 and FORMATS[result].parts == 1:
        with pytest.raises(ValueError, match="imaginary"):
            widen.sum(x, 1, dtype=result)
        return
    found = widen.sum(x, 1, dtype=result)
    kind = dtype_of(result or name)
    fmt = FORMATS[result or name].part
    assert found.dtype == kind
    for part in ("real", "imag"):
        values = getattr(np.asarray(x), part)
        for line, value in zip(values, getattr(np.asarray(found), part), strict=True):
            exact = sum((Fraction(float(v)) for v in line), Fraction(0))
            assert float(value) == round_once(exact, fmt)


@pytest.mark.parametrize("axis", [None, 0, 1, -1, (0, 2), (2, 1, 0), (-1, 0), ()])
@pytest.mark.parametrize("keepdims", [False, True])
def test_axes(axis, keepdims):
    x = np.arange(2 * 3 * 4.0).reshape(2, 3, 4) - 7
    wanted = x.sum(axis=axis, keepdims=keepdims)
    found = widen.sum(x, axis, keepdims=keepdims)
    assert np.shape(found) == np.shape(wanted)
    np.testing.assert_array_equal(found, wanted)
    assert type(found) is type(wanted)
    tensor = widen.sum(torch.from_numpy(x), axis, keepdims=keepdims)
    np.testing.assert_array_equal(tensor.numpy(), wanted)
    words = widen.sum(widen.Words(x, "float64x2"), axis, keepdims=keepdims)
    np.testing.assert_array_equal(words.to_numpy(), wanted)


def test_the_order_does_not_matter():
    x, _ = draw("phi2", (1, 60, 1), 3)
    numbers = x[0]
    found = {widen.sum(np.random.default_rng(i).permutation(numbers)) for i in range(8)}
    assert len(found) == 1
    assert widen.sum(np.stack([numbers] * 3), 1).tolist() == [found.pop()] * 3


def test_special_values():
    for numbers, wanted in (
        ([np.inf, 1.0], np.inf), ([np.inf, -np.inf], np.nan), ([np.nan, 1.0], np.nan),
        ([-0.0, -0.0], 0.0), ([1e308, 1e308, -1e308], 1e308), ([1e308, 1e308], np.inf),
        ([5e-324, 5e-324], 1e-323),
    ):  # fmt: skip
        assert_same_bits(widen.sum(numbers), np.float64(wanted))


@given(st.lists(st.integers(-(2**63), 2**63 - 1), max_size=5))
def test_integers_are_added_exactly_or_refused(numbers):
    exact = sum(numbers)
    x = np.array(numbers, np.int64)
    if -(2**63) <= exact < 2**63:
        assert int(widen.sum(x)) == exact
        assert int(widen.sum(torch.from_numpy(x))) == exact
    else:
        with pytest.raises(OverflowError, match="more than 64 bits"):
            widen.sum(x)
    unsigned = np.array([abs(n) for n in numbers], np.uint64)
    total = sum(map(abs, numbers))
    if total < 2**64:
        assert int(widen.sum(unsigned)) == total


@pytest.mark.parametrize("kind", ["bool", "int8", "uint8", "int32", "uint64"])
def test_dtypes_of_integers(kind):
    x = np.ones((3, 300), kind)
    found = widen.sum(x, 1)
    assert found.dtype == x.sum(1).dtype
    assert found.tolist() == [300] * 3
    assert widen.sum(x, dtype="float32").dtype == np.float32


def test_out_and_refusals():
    x, out = np.ones((2, 3)), np.empty(2)
    assert widen.sum(x, 1, out=out) is out
    assert out.tolist() == [3, 3]
    for bad in (np.empty(3), np.empty(2, np.float32), [0, 0]):
        with pytest.raises(ValueError, match="the result has shape"):
            widen.sum(x, 1, out=bad)
    with pytest.raises(ValueError, match="axis 2 does not exist"):
        widen.sum(x, 2)
    with pytest.raises(ValueError, match="twice"):
        widen.sum(x, (0, -2))
    with pytest.raises(TypeError, match="not an axis"):
        widen.sum(x, 1.0)
    with pytest.raises(TypeError, match="x is a set"):
        widen.sum({1.0})


def test_gradients():
    x = torch.randn(3, 4, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda y: widen.sum(y, 0), x)
    assert torch.autograd.gradgradcheck(lambda y: widen.sum(y * y), x)


def test_sizes_of_every_kind():
    for shape in itertools.product((0, 1, 3), repeat=2):
        x = np.ones(shape)
        for axis in (None, 0, 1):
            np.testing.assert_array_equal(widen.sum(x, axis), x.sum(axis))
    assert widen.sum(2.5) == 2.5
