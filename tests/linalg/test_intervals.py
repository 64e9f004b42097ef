"""Intervals of many values: what is decided at once is what fractions decide, in every format."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import widen
from widen.formats import BINARY, WORDS
from widen.linalg import exact_values, intervals
from widen.linalg.angles import _clusters_of_ends, clusters
from widen.linalg.decide import decide_exactly
from widen.linalg.intervals import Intervals, radius_of
from widen.linalg.singular_values import decomposed
from widen.linalg.spectrum import all_decided, symmetric_values

linalg = widen.linalg
PARTS = {name: fmt for name, fmt in {**BINARY, **WORDS}.items() if fmt.precision >= 24}
KINDS = ("random", "ends", "tie", "near a tie", "zero", "subnormal", "huge", "power")
COUNT = 24


def middle_of(rng, fmt, kind):
    """A number of some kind, exact, and a power of two near it."""
    value = Fraction(int(rng.integers(-(2**62), 2**62)), 2**62)
    for place in range(1, 8):
        value += Fraction(int(rng.integers(-(2**62), 2**62)), 2 ** (62 + 60 * place))
    unit = Fraction(1, 2**fmt.precision)
    if kind in ("ends", "tie", "near a tie"):
        words = decide_exactly(value, value, fmt)
        value = sum(map(Fraction, words))
        value += 0 if kind == "ends" else unit * int(rng.integers(-1, 2)) / 2
        if kind == "near a tie":
            value += unit / 2 ** int(rng.integers(1, 90)) * int(rng.integers(-1, 2))
    if kind == "zero":
        value = Fraction(0)
    if kind == "power":
        value = Fraction(1) - unit * int(rng.integers(-2, 3)) / 4
    shift = {"subnormal": fmt.lowest + 20, "huge": fmt.highest - 3}.get(kind, 0)
    return value * Fraction(2) ** max(-1000, min(shift, 1000))


def made(seed, fmt, width, exponent):
    """Intervals of all kinds with radii from nothing to much, and one whose ends are given."""
    rng = np.random.default_rng(seed)
    values = [middle_of(rng, fmt, KINDS[i % len(KINDS)]) for i in range(COUNT)]
    middles = widen.Words(values, f"float64x{width}")
    sizes = np.maximum(abs(middles.planes[0][0]), 2.0**-900)
    bits = rng.integers(fmt.precision - 12, fmt.precision + 60, COUNT)
    radii = sizes * 2.0 ** -bits.astype(float) * (rng.random(COUNT) < 0.9)
    return Intervals(middles, radii, exponent, {3: (Fraction(1), Fraction(1))})


def test_what_was_decided_once_is_kept_for_these_intervals_alone():
    fmt = WORDS["float64x2"]
    x = made(5, fmt, 3, 0)
    words, decided, radii = x.rounded(fmt)
    assert decided.any()
    for array in (*words, decided, radii):
        array[...] = 0  # a copy
    again, fresh = x.rounded(fmt), made(5, fmt, 3, 0).rounded(fmt)
    for one, other in zip((*again[0], *again[1:]), (*fresh[0], *fresh[1:]), strict=True):
        assert np.array_equal(one, other)
    zero = {int(np.flatnonzero(again[1])[0]): (Fraction(0), Fraction(0))}
    assert x.with_ends(zero).rounded(fmt)[0][0][[*zero]] == 0
    others = made(6, fmt, 3, 0)
    moved = x.replaced(np.ones(COUNT, bool), others)
    assert np.array_equal(moved.open(fmt)[4:], others.open(fmt)[4:])
    assert np.array_equal(
        x.times_power(7).rounded(fmt)[0][0][4:], made(5, fmt, 3, 7).rounded(fmt)[0][0][4:]
    )


@pytest.mark.parametrize("name", PARTS)
@given(
    seed=st.integers(0, 2**32), width=st.sampled_from([2, 4, 8]),
    exponent=st.sampled_from([0, 1, -70, 60, -900, 900, 1500]),
)  # fmt: skip
def test_what_is_decided_at_once_is_what_fractions_decide(name, seed, width, exponent):
    fmt = PARTS[name]
    x = made(seed, fmt, width, exponent)
    exact = [decide_exactly(*x.ends(i), fmt) for i in range(COUNT)]
    words, decided, radii = x.rounded(fmt)
    assert decided.tolist() == [sure is not None for sure in exact]
    assert x.all_round(fmt) == all(decided)
    closed = ~x.open(fmt)
    assert not (closed & ~decided).any()
    for i, sure in enumerate(exact):
        found = tuple(float(word[i]) for word in words)
        if sure is not None:
            assert found == sure
            assert not any(np.signbit(v) for v in found if v == 0)
        most, low_high = radius_of(found, *x.ends(i)), x.ends(i)
        if closed[i]:
            middle = sum(map(Fraction, found))
            assert max(low_high[1] - middle, middle - low_high[0]) <= Fraction(float(radii[i]))
            assert radii[i] <= most * (1 + 2.0**-45) + 2.0**-999
        else:
            assert radii[i] == most


@pytest.mark.parametrize("name", ["float32", "float64", "float32x2", "float64x2", "float64x4"])
def test_most_are_decided_at_once(name):
    """Enclosures with twenty bits more than the format, times a power of two."""
    fmt, rng = PARTS[name], np.random.default_rng(1)
    middles = widen.Words([middle_of(rng, fmt, "random") for _ in range(500)], "float64x8")
    radii = abs(middles.planes[0][0]) * 2.0 ** -(fmt.precision + 20)
    assert Intervals(middles, radii, -3).open(fmt).sum() < 20


@given(seed=st.integers(0, 2**32), unit=st.integers(-140, 30), exponent=st.integers(-90, 90))
def test_nothing_that_may_end_is_left_out(seed, unit, exponent):
    """Multiples of the unit in narrow intervals, zeros, and which intervals hold a number."""
    rng = np.random.default_rng(seed)
    one = Fraction(2) ** (unit - exponent)
    offsets = [0, 0, Fraction(1, 2), Fraction(1, 2**25), Fraction(-1, 2**60), Fraction(1, 3)]
    numbers = [int(rng.integers(-(2**20), 2**20)) * (i % 3 > 0) for i in range(6)]
    values = [one * (number + off) for number, off in zip(numbers, offsets, strict=True)]
    middles = widen.Words(values, "float64x4")
    radii = float(one) * 2.0 ** -rng.integers(15, 70, 6).astype(float)
    x = Intervals(middles, radii, exponent)
    may, zero = x.may_hold_multiple(unit, 20), x.may_hold_zero()
    whole = Fraction(2) ** unit
    for i, (low, high) in enumerate(x.pairs()):
        c = round((low + high) / 2 / whole) * whole
        if low <= c <= high and (high - low) * 2**20 <= whole:
            assert may[i]
        assert zero[i] or not low <= 0 <= high
        assert (i in x.holding(c)) == (low <= c <= high)
    assert not may[5]


@given(seed=st.integers(0, 2**32), near=st.integers(1, 100))
def test_clusters_are_those_of_fractions(seed, near):
    rng = np.random.default_rng(seed)
    places = np.cumsum(rng.integers(1, 5, 8))
    pairs = [Fraction(int(i)) + Fraction(int(rng.integers(0, 3)), 2**near) for i in places]
    middles = widen.Words(sorted([*pairs, pairs[0] + Fraction(1, 2**near)]), "float64x4")
    x = Intervals(middles, 2.0 ** -rng.integers(1, 130, 9).astype(float))
    labels, distances = clusters(x)
    wanted, exact = _clusters_of_ends(x)
    assert labels == wanted
    assert (distances <= exact * (1 + 2.0**-48)).all()
    assert (distances >= exact / 2).all()


@pytest.mark.parametrize("function", ["eigvalsh", "svdvals", "eigh"])
@pytest.mark.parametrize("name", ["float64", "float64x2", "float64x3"])
def test_fractions_decide_few_values_of_random_matrices(function, name, monkeypatch):
    a = np.random.default_rng(2).standard_normal((48, 48))
    seen = []

    def counted(low, high, fmt):
        seen.append(low)
        return decide_exactly(low, high, fmt)

    monkeypatch.setattr(intervals, "decide_exactly", counted)
    monkeypatch.setattr(exact_values, "decide_exactly", counted)
    *_, info = getattr(linalg, function)(a + a.T, dtype=name, info=True)
    assert info.decided.all()
    assert len(seen) <= 3


@pytest.mark.parametrize("kind", ["real", "complex"])
@pytest.mark.parametrize("vectors", [False, True])
def test_tensors_have_the_values_of_arrays(kind, vectors):
    """What runs on GPUs, on tensors of a CPU, which calls would turn into arrays."""
    rng, fmt = np.random.default_rng(4), WORDS["float64x2"]
    a = rng.standard_normal((12, 12)) + (
        1j * rng.standard_normal((12, 12)) if kind != "real" else 0
    )
    for matrix, function in ((a + a.conj().T, symmetric_values), (a[:, :9].copy(), decomposed)):
        one, other = (
            function(x, all_decided(fmt), fmt, vectors=vectors).intervals.rounded(fmt)
            for x in (matrix, torch.from_numpy(matrix))
        )
        assert one[1].all()
        assert other[1].all()
        for x, y in zip(one[0], other[0], strict=True):
            assert x.tolist() == y.tolist()
