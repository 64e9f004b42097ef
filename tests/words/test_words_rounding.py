"""Words times powers of two, rounded once: against fractions, and against MPFR."""

from __future__ import annotations

import math
from fractions import Fraction

import gmpy2
import ml_dtypes
import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import widen
from widen.formats import BINARY, WORDS
from widen.words.numbers import words_of_exact

PLAIN = list(BINARY)
DTYPES = {name: ml_dtypes.bfloat16 if name == "bfloat16" else np.dtype(name) for name in PLAIN}


def hostile(name, seed=0, count=60):
    """Words with gaps and overlaps: ties of shorter formats, and what lies next to them.

    Every fifth number is near an end of its format's range, which may be beyond another's.
    """
    rng, fmt = np.random.default_rng(seed), WORDS[name]
    lowest, p = fmt.words[0].lowest, fmt.words[0].precision
    kinds = []
    for _ in range(count):
        kept = int(rng.integers(1, p))
        head = (2 * int(rng.integers(0, 2**kept)) + 1) * 2.0 ** int(rng.integers(-40, 40))
        if len(kinds) % 5 == 4:
            head *= 2.0 ** (int(rng.choice([-1, 1])) * (fmt.highest - 2 * p - 41))
        tails = rng.choice([0.0, 1.0, -1.0, 0.5, -0.75], len(fmt.words) - 1)
        steps = np.cumsum(rng.integers(1, 60, len(fmt.words) - 1))
        tails = [t * head * 2.0 ** -(p + int(s)) for t, s in zip(tails, steps, strict=True)]
        kinds.append([head * rng.choice([-1, 1]), *tails])
    smallest = 2.0**lowest
    kinds += [[w, *[0.0] * (len(fmt.words) - 1)] for w in (0.0, -0.0, smallest, -3 * smallest)]
    kinds += [[w, *[0.0] * (len(fmt.words) - 1)] for w in (np.inf, -np.inf, np.nan)]
    return widen.Words.from_words(np.array(kinds).T, fmt)


def exact(x, at):
    return sum((Fraction(float(plane[0, at])) for plane in x.planes), Fraction(0))


def wanted(x, at, exponent, fmt):
    """Words by the definition; special values as they are."""
    first = float(x.planes[0][0, at])
    if not math.isfinite(first) or first == 0:
        return [first, *[0.0] * (len(fmt.words) - 1)]
    return words_of_exact(exact(x, at) * Fraction(2) ** int(exponent), fmt)


def same(found, value):
    return (found == value and math.copysign(1, found) == math.copysign(1, value)) or (
        math.isnan(found) and math.isnan(value)
    )


def exponents_for(x, fmt, seed):
    """Exponents that put numbers near both ends of a format's range, and elsewhere."""
    rng = np.random.default_rng(seed)
    with np.errstate(all="ignore"):
        place = np.frexp(x.planes[0][0].astype(float))[1]
    low = fmt.words[-1].lowest - place + rng.integers(-3, fmt.words[0].precision + 2, x.size)
    high = fmt.highest - place + rng.integers(-2, 2, x.size)
    return np.where(rng.random(x.size) < 0.7, low, np.where(rng.random(x.size) < 0.5, high, 3))


@pytest.mark.parametrize("kind", ["numpy", "torch"])
@pytest.mark.parametrize("target", PLAIN)
@pytest.mark.parametrize("source", WORDS)
def test_floats_are_rounded_once(source, target, kind):
    x, fmt = hostile(source), BINARY[target]
    powers = exponents_for(x, fmt, 1)
    if kind == "torch":
        found = x.to_torch().round_to(getattr(torch, target), torch.from_numpy(powers))
        assert found.dtype == getattr(torch, target)
        found = found.double().numpy()
    else:
        found = x.round_to(target, powers)
        assert found.dtype == DTYPES[target]
        found = found.astype(float)
    for at in range(x.size):
        assert same(found[at], wanted(x, at, powers[at], fmt)[0]), (exact(x, at), powers[at])


@pytest.mark.parametrize("kind", ["numpy", "torch"])
@pytest.mark.parametrize("target", WORDS)
@pytest.mark.parametrize("source", WORDS)
@pytest.mark.covering(2)
def test_words_are_rounded_once(source, target, kind):
    x, fmt = hostile(source, count=20), WORDS[target]
    powers = exponents_for(x, fmt, 2)
    found = x.to_torch().round_to(fmt, powers) if kind == "torch" else x.round_to(fmt, powers)
    assert found.format == fmt
    for at in range(x.size):
        words = [float(plane[0, at]) for plane in found.planes]
        right = wanted(x, at, powers[at], fmt)
        assert all(map(same, words, right)), (exact(x, at), powers[at], words, right)


MPFR = {
    "float64": gmpy2.context(precision=53, emin=-1073, emax=1024, subnormalize=True),
    "float32": gmpy2.context(precision=24, emin=-148, emax=128, subnormalize=True),
}


@given(
    st.integers(-(2**120), 2**120), st.integers(-1, 1), st.integers(121, 400),
    st.integers(-1300, 900), st.sampled_from(list(MPFR)),
)  # fmt: skip
def test_floats_are_those_of_mpfr(head, tail, gap, exponent, target):
    value = Fraction(head) + Fraction(tail, 2**gap)
    x = widen.Words([value], "float64x16")
    assert x.to_fraction()[0] == value
    found = float(x.round_to(target, exponent)[0])
    with gmpy2.context(MPFR[target]):
        scaled = value * Fraction(2) ** exponent
        right = float(gmpy2.mpfr(gmpy2.mpq(scaled.numerator, scaled.denominator)))
    assert found == right


def test_the_product_rounds_alike():
    # (5/2 + 2^-60) 2^-1074: rounded twice it is 2 units, once 3
    x = widen.Words([Fraction(5, 2) + Fraction(1, 2**60)], "float64x2")
    assert x.round_to("float64", -1074)[0] == 3 * 5e-324
    power = np.array([[2.0**-1074]])
    assert widen.matmul(x.reshape(1, 1), power, dtype="float64", accuracy="correct") == 3 * 5e-324
    assert float(np.ldexp(x, -1074)[0]) == 3 * 5e-324


def test_shapes_and_complex_numbers():
    x = widen.Words([["0.1", "0.2"], ["0.3", "0.4"]], "float64x3")
    found = x.round_to("float32", np.array([0, 7]))
    assert found.tolist() == [
        [np.float32(0.1), np.float32(0.2) * 128],
        [np.float32(0.3), np.float32(0.4) * 128],
    ]
    assert x[0].round_to("float64", np.array([[1], [2]])).tolist() == [[0.2, 0.4], [0.4, 0.8]]
    z = widen.Words(["0.1+0.2j"], "complex128x2")
    assert z.round_to("complex64", 1).tolist() == [complex(np.complex64(0.2 + 0.4j))]
    assert x[0].round_to("complex128", 1).tolist() == [0.2, 0.4]
    t = z.to_torch().round_to(torch.complex64, 1)
    assert t.dtype == torch.complex64
    assert t[0] == complex(np.complex64(0.2 + 0.4j))
    wide = z.round_to("complex128x4", -1)
    assert (wide.real.to_fraction()[0], wide.imag.to_fraction()[0]) == (
        z.real.to_fraction()[0] / 2, z.imag.to_fraction()[0] / 2,
    )  # fmt: skip
    assert x[:0].round_to("float64", 3).shape == (0, 2)
    assert x[0, 0].round_to("float64", 10**9) == np.inf
    assert x[0, 0].round_to("float64", -(10**9)) == 0


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda x: x.round_to("float64", 0.5), TypeError, "integers"),
        (lambda x: x.round_to("int32"), TypeError, "not a format"),
        (lambda x: (x * 1j).round_to("float64"), TypeError, "imaginary"),
        (lambda x: x.round_to("float64", np.arange(3)), ValueError, "broadcast"),
        (lambda x: np.ldexp(x, 0.5), TypeError, "integers"),
    ],
)
def test_what_is_refused(call, error, text):
    with pytest.raises(error, match=text):
        call(widen.Words(["0.1", "0.2"], "float64x2"))


def test_decimal_places():
    x = widen.Words(["2.5", "3.5", "-0.3", "0.125", "1e30", "nan", "-inf", "-0.0"], "float64x2")
    assert [str(v) for v in np.round(x).to_numpy()] == [
        "2.0", "4.0", "-0.0", "0.0", "1e+30", "nan", "-inf", "-0.0",
    ]  # fmt: skip
    assert x[3].round(2).to_strings() == "0.12"
    assert np.round(widen.Words("1234.5678", "float64x4"), -2).to_fraction() == 1200
    assert np.round(widen.Words(["1.5+2.5j"], "complex128x2")).to_numpy().tolist() == [2 + 2j]
    assert torch.round(x.to_torch(), decimals=1)[3].to_strings() == "0.1"
