"""Conversions of words between all formats, against fractions: hostile numbers of every range."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
import torch

import widen
from widen.backends.definition import round_words
from widen.formats import BINARY, WORDS, complex_of

Words = widen.Words
RESULTS = {name: fmt for name, fmt in BINARY.items() if fmt.result}
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
