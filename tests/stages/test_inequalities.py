"""The formulas of `bounds`, over inner dimensions up to the longest."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from staged import (
    BY_DATA,
    INNER,
    units,
)
from widen import bounds
from widen.contract import CONTRACTS, as_contract


@units
def test_plane_digits(unit):
    for k in INNER:
        digit = bounds.plane_digit(unit, k)
        stretch = min(k, unit.span)
        assert 1 <= digit <= unit.digit
        assert k * digit**2 <= 2**53
        assert stretch * digit**2 <= unit.exact
        assert unit.depth(digit) >= stretch
        larger = digit + 1
        assert larger > unit.digit or k * larger**2 > 2**53 or stretch * larger**2 > unit.exact


def test_goals():
    for k, precision, parts in itertools.product(INNER, (53, 24), (1, 2)):
        extra = parts - 1
        fast = bounds.goal(CONTRACTS["fast"], precision, k, parts, None)
        assert (fast.norm, fast.root * 2**fast.shift) == (1, 2 ** (precision + 2 + extra))
        standard = bounds.goal(CONTRACTS["standard"], precision, k, parts, None)
        largest = Fraction(2) ** standard.shift
        assert standard.norm == 1
        assert (standard.root * largest) ** 2 <= 4 ** (precision + 1 + extra) * k
        assert ((standard.root + 1) * largest) ** 2 > 4 ** (precision + 1 + extra) * k
        assert bounds.goal(CONTRACTS["correct"], precision, k, parts, None) is None
        capped = bounds.goal(CONTRACTS["correct"], precision, k, parts, 80)
        assert capped.norm == 1
        assert capped.root == standard.root
        for bits in (1, 40, 120):
            budget = bounds.goal(as_contract(bits), precision, k, parts, None)
            step = Fraction(2) ** budget.shift
            assert budget.norm == 2
            assert (budget.root * step) ** 2 <= 4 ** (bits + 2 + extra) * k * parts
            assert ((budget.root + 1) * step) ** 2 > 4 ** (bits + 2 + extra) * k * parts


def test_lead_bits():
    for k in INNER:
        kept = bounds.lead_bits(k)
        assert 7 <= kept <= 14
        assert k * (2 ** (kept + 2)) ** 2 <= 2**53
        # As float32, in which they are first multiplied, they are exact themselves.
        assert 2 ** (kept + 2) <= 2**24


@given(st.integers(-(2**80), 2**80), st.integers(-100, 100))
def test_shifts(value, shift):
    exact = value * Fraction(2) ** shift
    assert bounds.ceil_shift(value, shift) == math.ceil(exact)
    assert bounds.floor_shift(value, shift) == math.floor(exact)


@pytest.mark.parametrize("accuracy", BY_DATA)
def test_certificate_weights_fit_their_kernels(accuracy):
    """Weights of lines at their goal are integers near 2^21, far from the end of an int64."""
    for k, parts, precision in itertools.product(INNER, (1, 2), (53, 24)):
        test = bounds.certificate(CONTRACTS[accuracy], precision, k, parts, 0)
        for q1 in (2**15, 2**15 + 1, k * parts * 2**16, k * parts * 2**15 + 1):
            assert 2**18 <= test.weight(q1) <= 2**24
        assert 0 <= test.both <= 2**24
        assert 2**23 <= test.divisor < 2**24
