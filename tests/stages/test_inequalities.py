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


@given(st.integers(-(2**80), 2**80), st.integers(-100, 100))
def test_shifts(value, shift):
    exact = value * Fraction(2) ** shift
    assert bounds.floor_shift(value, shift) == math.floor(exact)


@pytest.mark.parametrize("accuracy", BY_DATA)
def test_certificates_are_floats_of_few_bits(accuracy):
    """Products with counts and powers of two are exact, and no step of a line is out of range."""
    for k, parts, precision in itertools.product(INNER, (1, 2), (8, 53, 24, 863)):
        test = bounds.certificate(CONTRACTS[accuracy], precision, k, parts, 7)
        for constant in (test.line, test.entry, test.both, test.dropped):
            assert math.frexp(constant)[0] * 2**24 % 1 == 0
            assert (2**29 - 1) * Fraction(constant) == Fraction((2**29 - 1) * constant)
        goal = bounds.goal(CONTRACTS[accuracy], precision, k, parts, None)
        assert bounds.highest(goal) < 1000
