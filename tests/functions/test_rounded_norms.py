"""Norms: MPFR's root of the exact sum of squares, rounded once, also where a tie is near."""

from __future__ import annotations

import math
from fractions import Fraction

import gmpy2
import numpy as np
import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st

import widen
from helpers import assert_same_bits, draw, dtype_of
from widen.formats import BINARY, FORMATS, PLAIN
from widen.functions import roots
from widen.stages.rounding import round_once, round_words


def by_mpfr(values, fmt):
    """The norm by MPFR: the exact sum, a root with 8000 bits towards 0, and one bit for the rest.

    Emin and emax of MPFR are beyond all that float64 squares.
    """
    exact = sum((gmpy2.mpq(Fraction(float(x))) ** 2 for x in values), gmpy2.mpq(0))
    if not exact:
        return 0.0
    with gmpy2.context(precision=8000, round=gmpy2.RoundToZero):
        root = gmpy2.sqrt(gmpy2.mpfr(exact))
        value = Fraction(*map(int, root.as_integer_ratio()))
    if gmpy2.mpq(value) ** 2 != exact:
        value += value / 2**7000
    return round_once(value, fmt)


finite = st.floats(allow_nan=False, allow_infinity=False)


@given(st.lists(finite, min_size=1, max_size=6), st.sampled_from(list(BINARY)))
@example([3.0, 4.0], "float64")
@example([5e-324], "float64")
@example([5e-324, 5e-324], "float64")
@example([1.7976931348623157e308], "float64")
@example([1.7976931348623157e308, 1e300], "float64")
@example([1.0, 2.0**-30], "float64")
@example([1.0, 2.0**-600], "float64")
def test_vectors(values, name):
    x, fmt = np.array(values), BINARY[name]
    assert_same_bits(widen.norm(x, dtype=name), np.float64(by_mpfr(x, fmt)).astype(dtype_of(name)))


@given(st.integers(2**52, 2**53 - 1), st.integers(-600, 600), st.sampled_from([0, -40, -500]))
def test_ties(k, e, far):
    """The root of (3k)^2 + (4k)^2 is 5k, which has three bits more: ties of float64 are among them.

    Something far below decides them otherwise.
    """
    values = [math.ldexp(3 * (k >> 2), e), math.ldexp(4 * (k >> 2), e)]
    values += [math.ldexp(float(k), e + far - 100)] if far else []
    for name in ("float64", "float32"):
        found = widen.norm(values, dtype=name)
        assert_same_bits(found, np.float64(by_mpfr(values, BINARY[name])).astype(name))


def test_ties_are_left_to_integers(monkeypatch):
    """5 k is odd and has 54 bits: after a first look its rounding is open."""
    k = 2**53 // 5 + 3
    assert k % 2 == 1
    assert (5 * k).bit_length() == 54
    asked = []
    exact = roots.exact_norm
    monkeypatch.setattr(roots, "exact_norm", lambda *x: asked.append(x) or exact(*x))
    lines = np.array([[3.0 * k, 4.0 * k], [3.0, 4.0], [1.0, 1.0]])
    found = widen.norm(lines, axis=1)
    assert found.tolist() == [by_mpfr(line, BINARY["float64"]) for line in lines]
    assert len(asked) == 1


@pytest.mark.parametrize("name", PLAIN)
def test_formats(name):
    x, _ = draw("phi1", (6, 30, 1), 2, name)
    found = widen.norm(x, axis=1)
    fmt = FORMATS[name].part
    assert found.dtype == dtype_of(fmt.name)
    for line, value in zip(x, found, strict=True):
        parts = [*line.real.tolist(), *line.imag.tolist()] if fmt != FORMATS[name] else line
        assert float(value) == by_mpfr(np.array(parts, float), fmt)


@given(st.lists(st.tuples(finite, finite), min_size=1, max_size=4))
@example([(3.0, 4.0), (5.0, 12.0)])
@example([(1.0, 1.0), (2.0**-60, 0.0)])
def test_sums_of_moduli(pairs):
    x = np.array([complex(*pair) for pair in pairs])
    with gmpy2.context(precision=9000):
        total = gmpy2.mpfr(0)
        for a, b in pairs:
            total += gmpy2.sqrt(gmpy2.mpfr(gmpy2.mpq(Fraction(a) ** 2 + Fraction(b) ** 2)))
        exact = Fraction(*map(int, total.as_integer_ratio())) if total else Fraction(0)
    assert_same_bits(widen.norm(x, 1), np.float64(round_once(exact, BINARY["float64"])))


@pytest.mark.parametrize("ord", [None, 2, 1, 0, np.inf, -np.inf])
@pytest.mark.parametrize("kind", ["float64", "float32", "complex128"])
def test_norms_of_vectors_are_numpys(ord, kind):
    x, _ = draw("phi0", (5, 4, 3), 3, kind)
    for axis, keepdims in ((0, False), (1, True), (-1, False)):
        wanted = np.linalg.norm(x, ord, axis, keepdims)
        found = widen.norm(x, ord, axis, keepdims=keepdims)
        assert found.shape == wanted.shape
        np.testing.assert_allclose(found, wanted, rtol=1e-6)
        tensor = widen.norm(torch.from_numpy(x), ord, axis, keepdims=keepdims)
        assert_same_bits(tensor.numpy(), found)


@pytest.mark.parametrize("ord", [None, "fro", 1, -1, np.inf, -np.inf])
@pytest.mark.parametrize("axis", [(0, 1), (1, 0), (-1, -2), (0, 2)])
def test_norms_of_matrices_are_numpys(ord, axis):
    x = np.random.default_rng(4).standard_normal((3, 4, 5))
    wanted = np.linalg.norm(x, ord, axis)
    np.testing.assert_allclose(widen.norm(x, ord, axis), wanted, rtol=1e-14)
    kept = widen.norm(x, ord, axis, keepdims=True)
    assert kept.shape == np.linalg.norm(x, ord, axis, keepdims=True).shape
    np.testing.assert_allclose(widen.norm(x[0], ord), np.linalg.norm(x[0], ord), rtol=1e-14)


@pytest.mark.parametrize("name", ["float64x2", "float32x3", "float64_float32", "complex128x2"])
def test_words(name):
    fmt = FORMATS[name]
    x = widen.Words(["1/3", "2", "1e-40"], "float64x4").astype(fmt.part)
    exact = sum(v * v for v in x.to_fraction().tolist())
    if fmt.parts == 2:
        x = x.astype(fmt)
    found = widen.norm(x)
    assert found.format == fmt.part
    root = found.to_fraction()
    assert root == sum(map(Fraction, roots.rounded_root(exact, False, fmt.part)))
    assert abs(root * root - exact) < exact * Fraction(1, 2 ** (fmt.precision - 2))
    assert widen.norm(x.to_torch()).to_arrays() == found


@given(st.integers(1, 2**200), st.integers(-1200, 900), st.sampled_from(["float64x2", "float32x2"]))
def test_rounded_roots_of_words(n, e, name):
    """Against twice as many bits: the root is nowhere near where they would decide otherwise."""
    value = Fraction(n) * Fraction(2) ** e
    fmt = FORMATS[name]
    scaled = value * Fraction(4) ** 4000
    root = Fraction(math.isqrt(scaled.numerator // scaled.denominator), 2**4000)
    exact = root * root == value
    wanted = round_words(root if exact else root + Fraction(1, 2**4001), fmt)
    assert roots.rounded_root(value, False, fmt) == wanted


def test_special_values():
    for values, wanted in (
        ([np.inf, 1.0], np.inf), ([-np.inf, 2.0], np.inf), ([np.nan, np.inf], np.nan),
        ([np.nan, 1.0], np.nan), ([0.0, -0.0], 0.0), ([], 0.0),
    ):  # fmt: skip
        assert_same_bits(widen.norm(np.array(values)), np.float64(wanted))
    lines = np.array([[3.0, 4.0], [np.inf, 1.0], [np.nan, 1.0], [0.0, 0.0]])
    assert_same_bits(widen.norm(lines, axis=1), np.array([5.0, np.inf, np.nan, 0.0]))
    assert np.isnan(widen.norm(np.array([np.nan, 2j]), 1))


def test_one_answer():
    x = np.random.default_rng(5).standard_normal((4, 50))
    whole = widen.norm(x, axis=1)
    for i in range(4):
        for order in (slice(None), slice(None, None, -1)):
            assert widen.norm(x[i, order]) == whole[i]


def test_gradients():
    x = torch.randn(3, 4, dtype=torch.float64, requires_grad=True)
    for call in (
        widen.norm,
        lambda y: widen.norm(y, axis=1),
        lambda y: widen.norm(y, 1, axis=0, keepdims=True),
        lambda y: widen.norm(y, np.inf, axis=0),
        lambda y: widen.norm(torch.complex(y, 2 * y), axis=1),
    ):
        assert torch.autograd.gradcheck(call, x)
    assert torch.autograd.gradgradcheck(lambda y: widen.norm(y, axis=0), x)
    zero = torch.zeros(3, dtype=torch.float64, requires_grad=True)
    widen.norm(zero).backward()
    assert zero.grad.tolist() == [0, 0, 0]


def test_refusals():
    x = np.ones((2, 3))
    with pytest.raises(ValueError, match="not a norm of vectors"):
        widen.norm(x[0], "fro")
    with pytest.raises(ValueError, match="not a norm of matrices"):
        widen.norm(x, 3)
    with pytest.raises(ValueError, match="x holds NaN or infinity"):
        widen.norm(x * np.inf, "nuc")
    with pytest.raises(TypeError, match="no gradient"):
        widen.norm(torch.ones(2, dtype=torch.float64, requires_grad=True), 3)
    with pytest.raises(ValueError, match="by axis="):
        widen.norm(np.ones((2, 2, 2)), 1)
    with pytest.raises(ValueError, match="one axis or two"):
        widen.norm(np.ones((2, 2, 2)), axis=(0, 1, 2))
    assert widen.norm(np.ones((2, 2, 2))) == math.sqrt(8)
    with pytest.raises(ValueError, match="no numbers"):
        widen.norm(np.ones((2, 0)), -np.inf, axis=1)


@pytest.mark.parametrize("kind", ["float32", "float64", "complex128", "float64x2"])
def test_both_norms_are_the_same_numbers(kind):
    rng = np.random.default_rng(6)
    x = rng.standard_normal((2, 3, 3)) * 2.0 ** rng.integers(-30, 30, (2, 3, 3))
    x = x + 1j * x[::-1] if kind.startswith("complex") else x
    x = widen.Words(x / 3, kind) if kind == "float64x2" else x.astype(kind)
    for ord, axis in [
        *((ord, 1) for ord in (None, 0, 1, 2, 3, -1.5, np.inf, -np.inf)),
        *((ord, (0, 2)) for ord in ("fro", 1, -1, np.inf, -np.inf)),
        *((ord, (0, 1)) for ord in ("nuc", 2, -2) if kind == "float64"),
    ]:
        found, wanted = widen.norm(x, ord, axis), widen.linalg.norm(x, ord, axis)
        if kind == "float64x2":
            assert found.format == wanted.format
            assert (found == wanted).all()
        else:
            assert_same_bits(found, wanted)
