"""Conversions of words between all formats, and from numbers of all kinds, against fractions."""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction

import flint
import gmpy2
import mpmath
import numpy as np
import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st

import widen
from helpers import assert_same_bits
from widen.definition import round_words
from widen.formats import BINARY, WORDS, complex_of
from widen.words.numbers import exact_parts
from widen.words.rounding import words_of_ratios

Words = widen.Words
RESULTS = {name: BINARY[name] for name in ("float64", "float32")}
GAPS = (1, 2, 23, 24, 25, 26, 52, 53, 54, 55, 60, 107, 108, 150, 300, 600)
LARGEST = Fraction(float(np.finfo(float).max))
EDGE = LARGEST + 2**970  # from here on a float64 is infinite


def hostile(rng, fmt, count):
    """Sums of a few pieces, whose bits are ties of some word, broken by a piece far below."""
    first = fmt.part.words[0]
    edges = (first.highest - 1, first.lowest, first.lowest + 30, 127, 0, -126, -149, -150)
    found = []
    for _ in range(count):
        exponent = int(rng.choice(edges) if rng.random() < 0.4 else rng.integers(-1074, 1024))
        value = Fraction(0)
        for _ in range(rng.integers(1, len(fmt.part.words) + 3)):
            bits = int(rng.choice((1, 2, 11, 24, 25, 53, 54)))
            piece = int(
                rng.choice(((1 << bits) - 1, (1 << bits) + 1, 1, rng.integers(1, 1 << bits)))
            )
            sign = int(rng.choice((-1, 1)))
            value += sign * piece * Fraction(2) ** (exponent - piece.bit_length())
            exponent -= int(rng.choice(GAPS))
        found.append(value)
    return found


def held(fmt, values):
    """The numbers that a format holds: canonical words of these, and what these words add up to."""
    rows = [row for row in (round_words(value, fmt) for value in values) if np.isfinite(row[0])]
    planes = [
        np.array(column, word.name)[None]
        for column, word in zip(zip(*rows, strict=True), fmt.words, strict=True)
    ]
    return Words.of(fmt, planes), [sum(map(Fraction, row)) for row in rows]


def columns(x):
    """Words (count, parts, elements) of a result, in float64."""
    planes = x.planes if isinstance(x, Words) else [x[None]]
    return np.stack([np.asarray(plane, float) for plane in planes])


def wanted(values, fmt):
    return np.array([round_words(value, fmt) for value in values]).T


EDGES = [EDGE - Fraction(1, 2**1074), 2**900 - EDGE, EDGE - 2**960, LARGEST, EDGE - 2**917]
"""Numbers within the last half unit below infinity, where words add up to infinity on the way."""


@pytest.mark.parametrize("name", WORDS)
def test_every_conversion_is_the_nearest(name):
    fmt = WORDS[name]
    rng = np.random.default_rng(list(WORDS).index(name))
    x, values = held(fmt, [*EDGES, *hostile(rng, fmt, 80)])
    both = Words.of(complex_of(fmt), [np.stack([plane[0], plane[0, ::-1]]) for plane in x.planes])
    with np.errstate(all="raise"):
        for target, other in WORDS.items():
            exact = wanted(values, other)
            assert (columns(x.astype(target))[:, 0] == exact).all(), target
            assert (columns(x.to_torch().astype(target))[:, 0] == exact).all(), target
            mirrored = np.stack([exact, exact[:, ::-1]], 1)
            assert (columns(both.astype(complex_of(other))) == mirrored).all(), target
        for target, other in RESULTS.items():
            exact = wanted(values, other)[0]
            assert (x.to_numpy(target) == exact).all(), target
            assert (x.to_torch().to_numpy(target) == exact).all(), target
            mirrored = both.to_numpy(complex_of(other).name)
            assert (mirrored.real == exact).all(), target
            assert (mirrored.imag == exact[::-1]).all(), target
        assert [float(number) for number in x[:9]] == wanted(values[:9], BINARY["float64"])[
            0
        ].tolist()


@pytest.mark.parametrize("library", ["numpy", "torch"])
@pytest.mark.parametrize("name", WORDS)
def test_any_words_are_renormalised_to_the_nearest(name, library):
    """Terms in any order, none so large that they overflow on the way."""
    rng, fmt = np.random.default_rng(5), WORDS["float64x4"]
    x, values = held(fmt, hostile(rng, fmt, 80))
    fine = abs(x.planes[0][0]) < 2.0**1020
    values = [value for value, small in zip(values, fine, strict=True) if small]
    terms = np.stack([plane[0, fine] for plane in x.planes])[[2, 0, 3, 1]]
    terms = torch.from_numpy(terms) if library == "torch" else terms
    exact = wanted(values, WORDS[name])
    assert (columns(Words.from_words(terms, name))[:, 0] == exact).all()
    plain = terms[1]
    exact = wanted([Fraction(float(value)) for value in plain], WORDS[name])
    assert (columns(Words(plain, name))[:, 0] == exact).all()


@pytest.mark.parametrize("name", ["float64x2", "float64x4", "float32x3", "float64_float32"])
def test_narrower_products_are_the_nearest(name):
    fmt = WORDS[name]
    x, values = held(fmt, hostile(np.random.default_rng(3), fmt, 60))
    for target, other in {**RESULTS, **WORDS}.items():
        found = widen.matmul(x[:, None], np.ones((1, 1)), dtype=target, accuracy="correct")
        assert (columns(found)[:, 0, :, 0] == wanted(values, other)).all(), target


def test_a_tie_is_broken_below_the_range_of_the_result():
    x = Words.from_words(np.array([1 + 2.0**-24, 2.0**-160]), "float64x2")
    assert x.to_numpy(np.float32) == np.float32(1 + 2.0**-23)
    assert (-x).to_numpy(np.float32) == -np.float32(1 + 2.0**-23)
    assert (x * 1j).to_numpy(np.complex64) == np.complex64(1j * (1 + 2.0**-23))


# ── from exact numbers ───────────────────────────────────────────────────────


def assert_rounded(planes, values, fmt):
    for plane, exact, word in zip(planes, wanted(values, fmt), fmt.words, strict=True):
        signs = np.where(exact == 0, np.copysign(0.0, plane), exact)  # a tiny number may be -0
        assert_same_bits(np.asarray(plane), signs.astype(word.name))


@pytest.mark.parametrize("name", WORDS)
def test_many_ratios_are_rounded_as_one(name):
    """With ties, gaps, subnormals and overflow, in terms that may be lower, and thirds of them."""
    fmt = WORDS[name]
    values = [*EDGES, *hostile(np.random.default_rng(9), fmt, 80), Fraction(0), Fraction(1)]
    ratios = [(value.numerator, value.denominator, 0) for value in values]
    ratios += [(6 * top << 7, 2 * bottom, -7) for top, bottom, _ in ratios]  # three times
    ratios += [(top, 1, 1 - bottom.bit_length()) for top, bottom, _ in ratios[: len(values)]]
    ratios += [(top, 3 * bottom, 0) for top, bottom, _ in ratios[: len(values)]]
    ratios += [(-top << 1000, 5**400 * bottom, 3) for top, bottom, _ in ratios[: len(values)]]
    exact = [Fraction(top, bottom) * Fraction(2) ** power for top, bottom, power in ratios]
    assert_rounded(words_of_ratios(ratios, fmt), exact, fmt)


whole = st.integers(-(2**70), 2**70) | st.builds(
    lambda sign, a, b, c: sign * (2**a + 2**b - 2**c),
    st.sampled_from([-1, 1]), *[st.integers(0, 300)] * 3,
)  # fmt: skip
power = st.integers(-1200, 1100) | st.integers(-60, 60)


TIES = [(1 << 400) + (odd << 290) for odd in ((1 << 53) + 1, (1 << 53) + 3)]  # of second words
BROKEN = [(sign * tie + bit, 1, 0) for tie in TIES for sign in (-1, 1) for bit in (-1, 0, 1)]
NEAR = ((1 << 172) + (1 << 53) + 1) * 8  # the same where a ratio is cut


@given(
    st.lists(st.tuples(whole, whole.filter(bool).map(abs), power), min_size=1, max_size=30),
    st.sampled_from(list(WORDS)),
)
@example(BROKEN, "float64x2")
@example([(3 * top + bit, 3, -300) for top, bit, _ in BROKEN], "float64x2")
@example([(NEAR + 1, 1, 0), (NEAR - 1, 1, 0), (3 * NEAR + 1, 3, 9), (NEAR, 1, 0)], "float64x2")
@example([((1 << 300) + 1, 1, 0), ((1 << 107) + 1, 3, -90)], "float64x2")  # a word is cut off
@example([((1 << 54) + 1, 1, -1129), (3, 1, -1076)], "float64x2")  # subnormal
@example([((1 << 54) - 1, 1, 970), ((1 << 53) - 1, 1, 971)], "float64x2")  # next to infinity
@example([((1 << 54) - 1, 1, 127)], "float64_float32")
@example([(1, 1, 10**30), (-1, 1, -(10**30))], "float32x2")
def test_any_ratios_are_rounded_once(ratios, name):
    fmt = WORDS[name]
    exact = [
        Fraction(top, bottom) * Fraction(2) ** max(min(power, 9999), -9999)
        for top, bottom, power in ratios
    ]
    assert_rounded(words_of_ratios(ratios, fmt), exact, fmt)


def decimal_texts():
    """Digits of ties and what is next to them, long and short, of every range."""
    fmt = WORDS["float64x2"]
    found = ["0.1", "-1.0e0", "12345678901234567890", "0.5", "1e22", "1e23", "-9007199254740993"]
    for value in hostile(np.random.default_rng(4), fmt, 25):
        digits = value.numerator * 5 ** (value.denominator.bit_length() - 1)
        places = value.denominator.bit_length() - 1
        found += [f"{digits}e-{places}", f"{digits}{'0' * 40}1E-{places + 41}"]
    rng = np.random.default_rng(6)
    for places in (-340, -320, -308, -45, -20, -1, 0, 3, 38, 308):
        found += [f"{x:.17g}{y:020d}e{places:+d}" for x, y in zip(
            rng.uniform(-9, 9, 4).round(15), rng.integers(0, 10**18, 4), strict=True
        )]  # fmt: skip
    return [*found, *(f"0.{'0' * gap}1" for gap in (5, 60, 300, 330)), f"1.{'0' * 80}1"]


@pytest.mark.parametrize("name", ["float64x2", "float64x16", "float32x3", "float64_float32"])
def test_text_of_many_numbers_is_rounded_once(name):
    fmt, texts = WORDS[name], decimal_texts()
    values = [Fraction(text) for text in texts]
    for numbers in (texts, np.array(texts), values, [Decimal(text) for text in texts]):
        x = Words(numbers, name)
        assert_rounded([plane[0] for plane in x.planes], values, fmt)
    both = Words([f"{text} - {text.lstrip('-')}j" for text in texts], complex_of(fmt))
    for part, exact in ((0, values), (1, [-abs(value) for value in values])):
        assert_rounded([plane[part] for plane in both.planes], exact, fmt)


@pytest.mark.parametrize("name", ["float64x2", "float64x3", "float32x4"])
def test_binary_numbers_of_other_libraries_are_rounded_once(name):
    fmt = WORDS[name]
    values = hostile(np.random.default_rng(8), WORDS["float64x4"], 60)
    pairs = [(value.numerator, 1 - value.denominator.bit_length()) for value in values]
    with gmpy2.context(precision=3000):
        kinds = [
            [mpmath.mp.make_mpf(mpmath.libmp.from_man_exp(*pair)) for pair in pairs],
            [gmpy2.mul_2exp(gmpy2.mpfr(top), 2000 + e) / 2**2000 for top, e in pairs],
            [gmpy2.mpq(value) for value in values],
            [flint.arb(pair) for pair in pairs],
            [flint.fmpq(*value.as_integer_ratio()) for value in values],
        ]
    for numbers in kinds:
        assert_rounded([plane[0] for plane in Words(numbers, name).planes], values, fmt)
    whole = [value.numerator for value in values]
    for numbers in (whole, [gmpy2.mpz(x) for x in whole], [flint.fmpz(x) for x in whole]):
        x = Words(numbers, name)
        assert_rounded([plane[0] for plane in x.planes], list(map(Fraction, whole)), fmt)


def test_all_that_is_written_is_read_among_many():
    """What is special alone is so in an array, whose numbers are rounded together."""
    texts = [
        " 0.1\n", "1/3", "-2 / 7 ", "1_000.5", "1_0__.2_5e3", "\u0663.\u0664", ".5", "5.", "+7",
        "-.25e+2",
        "nan", "-INF", "Infinity", "0", "-0", "-0.0e5", "0e999999999999999999999", "1e100000",
        "-1e-100000", "1e-99999999999999999999999", "-1e99999999999999999999999", "9" * 5000,
        "0." + "3" * 5000, "1" + "0" * 4400 + "/3" + "0" * 4400,
    ]  # fmt: skip
    x = Words(texts, "float64x3")
    for at, text in enumerate(texts):
        alone = Words(text, "float64x3")
        for plane, single in zip(x.planes, alone.planes, strict=True):
            assert_same_bits(plane[:, at], np.asarray(single))
    third = round_words(Fraction(1, 3), WORDS["float64x3"])
    assert x[1].words.tolist() == x[-1].words.tolist() == list(third)
    plain = x.to_numpy()
    assert plain[[3, 4, 6, 7, 8, 9]].tolist() == [1000.5, 10250.0, 0.5, 5.0, 7.0, -25.0]
    assert plain[5] == 3.4
    assert plain[11:22].tolist() == [
        -math.inf, math.inf, 0, 0, 0, 0, math.inf, 0, 0, -math.inf, math.inf
    ]  # fmt: skip
    assert np.signbit(plain[13:20]).tolist() == [False, True, True, False, False, True, False]
    assert exact_parts("-0.0") == (0, 0)


@pytest.mark.parametrize("text", [
    "", " ", ".", "+", "-.", "e5", ".e5", "1e", "1e+", "1 2", "0x10", "1.2.3", "1/", "/3", "1/-3",
    "1.5/2", "--1", "1e5.0", "one", "\u00b2", "infinite", "1,5", "1" * 9999 + "x",
    " " * 9999 + "x", "1" + " " * 9999 + "-" + " " * 9999 + "x",
], ids=lambda text: ascii(text[:9]))  # fmt: skip
def test_text_that_is_no_number_among_many(text):
    numbers = ["0.1"] * 40 + [text] + ["0.2"] * 40
    with pytest.raises(ValueError, match="is not a number; give text such as"):
        Words(numbers, "float64x2")
    with pytest.raises(ValueError, match="is not a number; give text such as"):
        Words(np.array(numbers), "complex128x2")


def test_a_number_of_the_wrong_kind_among_many_is_named():
    for numbers, error, message in (
        (["1"] * 40 + ["1-2j"], TypeError, "'1-2j' is complex and float64x2 is not; use a complex"),
        (["1"] * 40 + [None], TypeError, "None is a builtins.NoneType, not a number; give int"),
        (["1"] * 40 + ["3/0"], ValueError, "'3/0' divides by zero; give"),
        ([mpmath.iv.mpf(1)] * 40, TypeError, "ivmpf of mpmath is not a number"),
        (np.full(40, "2020-01-01", "M8[D]"), TypeError, "is a numpy.datetime64, not a number"),
    ):
        with pytest.raises(error, match=message):
            Words(numbers, "float64x2")
    assert Words(["1+0j", "2-0j"] * 20, "float64x2").to_numpy().tolist() == [1, 2] * 20
