"""`info.exact`: never True of a result that is not exact, and True of those it should be."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import widen
from helpers import ACCURACIES, word_arrays
from widen.formats import FORMATS
from widen.stages import exactness

RESULTS = list(FORMATS)


def numbers(x):
    """Every number as two fractions, its parts."""
    words = word_arrays(x) if isinstance(x, widen.Words) else (np.asarray(x),)
    found = np.zeros((2, *x.shape), object)
    for word in words:
        for place in np.ndindex(x.shape):
            for at, part in enumerate((word[place].real, word[place].imag)):
                found[at, *place] += Fraction(float(part)) if np.isfinite(part) else 0
    return found


def is_right(c, a, b, addend=None, alpha=1.0, beta=0.0):
    """Where c is alpha a b + beta addend, in fractions."""
    (x, u), (y, v), (z, w) = numbers(a), numbers(b), numbers(c)
    real, imaginary = x @ y - u @ v, x @ v + u @ y
    p, q = Fraction(alpha.real), Fraction(alpha.imag)
    real, imaginary = p * real - q * imaginary, p * imaginary + q * real
    if addend is not None:
        (r, s), p, q = numbers(addend), Fraction(beta.real), Fraction(beta.imag)
        real, imaginary = real + p * r - q * s, imaginary + p * s + q * r
    first = word_arrays(c)[0] if isinstance(c, widen.Words) else np.asarray(c)
    return (z == real) & (w == imaginary) & np.isfinite(first.astype(complex))


def few_bits(rng, shape, width, kind="float64", low=-3, high=4):
    """Numbers of few bits, at many places."""

    def draw():
        return np.ldexp(
            rng.integers(-(2**width), 2**width, shape).astype(float), rng.integers(low, high, shape)
        )

    return (draw() + 1j * draw() if kind.startswith("complex") else draw()).astype(kind)


@pytest.mark.parametrize("name", RESULTS)
@pytest.mark.parametrize("accuracy", ACCURACIES)
def test_claims_are_true(name, accuracy):
    rng = np.random.default_rng(list(name.encode()))
    fmt, kind = FORMATS[name], "complex128" if FORMATS[name].parts == 2 else "float64"
    proven = 0
    for width in (3, fmt.precision // 2 - 6, fmt.precision // 2 + 1, 40):
        a, b = (few_bits(rng, shape, max(1, min(width, 52)), kind) for shape in ((4, 5), (5, 3)))
        a[0, 1:], b[2:, 0] = 0, 0
        with np.errstate(all="ignore"):
            c, info = widen.matmul(a, b, accuracy=accuracy, dtype=name, info=True)
        assert info.exact.dtype == bool
        assert np.array_equal(info.exact, info.bound == 0)
        assert not (info.exact & ~is_right(c, a, b)).any()
        proven += int(info.exact.sum())
        if width <= 3 and fmt.precision > 20:  # 3 + 3 bits, 7 places each and 5 terms
            assert info.exact.all()
        _, largest = widen.matmul(a, b, accuracy=accuracy, dtype=name, info="largest")
        assert largest.exact is bool(info.exact.all())
    assert proven


@pytest.mark.parametrize("accuracy", ACCURACIES)
def test_sums(accuracy):
    rng = np.random.default_rng(5)
    for alpha, beta in [
        (-1.0, 1.0), (0.375, -2.5), (0.0, 3.0), (1.5, 0.0), (2.0 - 3j, 0.25j), (0.1, 1.0),
        (1.0, 1e-30),
    ]:  # fmt: skip
        kind = "complex128" if isinstance(alpha, complex) else "float64"
        for width in (4, 30):
            a, b = (few_bits(rng, shape, width, kind) for shape in ((4, 6), (6, 3)))
            c = few_bits(rng, (4, 3), width, kind)
            found, info = widen.gemm(
                a, b, c, alpha=alpha, beta=beta, accuracy=accuracy, info=True
            )  # fmt: skip
            assert not (info.exact & ~is_right(found, a, b, c, alpha, beta)).any()
            if width == 4 and alpha != 0.1 and beta != 1e-30:
                assert info.exact.all()


def test_words_with_an_addend_of_words():
    rng = np.random.default_rng(6)
    a, b = few_bits(rng, (3, 4), 20), few_bits(rng, (4, 2), 20)
    c = widen.matmul(a, b, dtype="float64x4")
    found, info = widen.gemm(a, b, c, alpha=-1.0, beta=1.0, accuracy="correct", info=True)
    assert info.exact.all()
    assert not found.any()
    shifted = c + 2.0**-190
    _, info = widen.gemm(a, b, shifted, alpha=-1.0, beta=1.0, dtype="float64", info=True)
    assert info.exact.all()


def test_a_zero_and_an_underflow():
    tiny = np.array([[1e-200, 0.0]]), np.array([[1e-200], [1.0]])
    zero = np.array([[0.1, -0.1]]), np.array([[0.3], [0.3]])
    for accuracy in ACCURACIES:
        c, info = widen.matmul(*tiny, accuracy=accuracy, info=True)
        assert (c[0, 0], info.exact[0, 0], info.bound[0, 0]) == (0, False, 5e-324)
    c, info = widen.matmul(*zero, accuracy="correct", info=True)
    assert (c[0, 0], info.exact[0, 0], info.bound[0, 0]) == (0, True, 0)
    assert "exact value" in str(info)
    subnormal = (
        np.array([[2.0**-537]]),
        np.array([[2.0**-537, 2.0**-538, -(2.0**-538), 3 * 2.0**-538]]),
    )
    c, info = widen.matmul(*subnormal, info=True)
    assert c[0].tolist() == [2.0**-1074, 0.0, 0.0, 2 * 2.0**-1074]
    assert info.exact[0].tolist() == [True, False, False, False]


def test_special_values_are_not_exact():
    a, b = np.array([[np.inf, 1.0], [np.nan, 1.0], [1e308, 1e308]]), np.array([[1.0], [1.0]])
    c, info = widen.matmul(a, b, info=True)
    assert not np.isfinite(c).any()
    assert not info.exact.any()
    assert not widen.matmul(a, b, info="largest")[1].exact
    assert widen.matmul(np.zeros((0, 2)), b, info="largest")[1].exact


def test_blocks_batches_and_systems():
    rng = np.random.default_rng(8)
    a, b = few_bits(rng, (2, 40, 30), 30), few_bits(rng, (30, 50), 30)
    a[1] = few_bits(rng, (40, 30), 5)
    for accuracy in ACCURACIES:
        _, whole = widen.matmul(a, b, accuracy=accuracy, info=True)
        _, cut = widen.matmul(a, b, accuracy=accuracy, workspace=1 << 16, info=True)
        assert np.array_equal(whole.exact, cut.exact)
        for system in ("digits", "triangle"):
            c, other = widen.matmul(a, b, accuracy=accuracy, system=system, info=True)
            some = np.s_[::6, ::7]  # fractions take their time
            right = np.array([is_right(c[i][some], a[i, ::6], b[:, ::7]) for i in range(2)])
            assert not (other.exact[:, ::6, ::7] & ~right).any()
            if system == "digits":
                assert np.array_equal(other.exact, whole.exact)


@settings(max_examples=60)
@given(st.data())
def test_any_small_product(data):
    entry = st.builds(lambda m, e: m * 2.0**e, st.integers(-9, 9), st.integers(-540, 500))
    a = np.array([[data.draw(entry) for _ in range(2)]])
    b = np.array([[data.draw(entry)] for _ in range(2)])
    for name in ("float64", "float32", "float64x2", "float64_float32"):
        c, info = widen.matmul(a, b, dtype=name, accuracy="correct", info=True)
        if info.exact.any():
            assert is_right(c, a, b).all()


@given(st.floats(allow_nan=False, allow_infinity=False), st.integers(-60, 60))
def test_last_bits(x, shift):
    value = Fraction(x)
    wanted = exactness.LAST_BIT_OF_ZERO
    if value:
        n = value.numerator
        wanted = (n & -n).bit_length() - value.denominator.bit_length()
        assert value / Fraction(2) ** wanted % 2 == 1
    assert exactness.last_bit(x) == exactness.last_bits(np.array([x]))[0] == wanted
