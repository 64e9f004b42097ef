"""Units: as deep as their records say, exact, across stretches."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from helpers import assert_same_bits
from staged import (
    units,
)
from widen import bounds
from widen.cpu import multiply as cpu_multiply
from widen.systems import residues


@units
def test_the_exact_depth_of_a_unit(unit):
    """Largest digits, all of one sign, as deep as the record says: exact on the CPU's engine."""
    for digit in {unit.digit, max(1, unit.digit // 3), bounds.plane_digit(unit, 1000)}:
        depth = unit.depth(digit)
        assert depth * digit**2 <= unit.exact < (depth + 1) * digit**2
        length = min(depth, 2**18)
        for sign in (1, -1):
            ours = np.full((3, length), sign * digit, unit.engine)
            theirs = np.full((length, 2), digit, unit.engine)
            theirs[-1] = digit - 1  # the last bit counts
            wanted = sign * ((length - 1) * digit**2 + digit * (digit - 1))
            assert (np.matmul(ours, theirs) == wanted).all()
            assert int(np.matmul(ours, theirs)[0, 0]) == wanted


@units
def test_multiplication_across_stretches(unit):
    """An inner dimension of many depths: groups gather what the accumulator cannot."""
    k, rng = 3000, np.random.default_rng(32)
    digit = bounds.plane_digit(unit, k)
    ours = rng.integers(-digit, digit, (1, 1, 4, k), endpoint=True).astype(np.float64)
    theirs = rng.integers(-digit, digit, (1, 1, 5, k), endpoint=True).astype(np.float64)
    ours[0, 0, 0], theirs[0, 0, 0] = digit, digit
    layout = residues(digit, 1.0, 1)
    groups = np.empty((1, 1, 4, 5))
    partial = np.empty((1, 4, 5), unit.engine)
    cpu_multiply.multiply(
        list(ours),
        list(theirs),
        layout.products[:1],
        unit,
        unit.depth(digit),
        groups=groups,
        partial=partial,
    )
    wanted = [[sum(int(x) * int(y) for x, y in zip(r, c, strict=True)) for c in theirs[0, 0]]
              for r in ours[0, 0]]  # fmt: skip
    assert_same_bits(groups[0, 0] + 0.0, np.array(wanted, np.float64))


@units
def test_unit_records_refuse_what_cannot_be(unit):
    with pytest.raises(ValueError, match="one product"):
        replace(unit, digit=math.isqrt(unit.exact) + 1)
    with pytest.raises(ValueError, match="cannot stand in"):
        replace(unit, exact={"float64": 2**53, "float32": 2**24}[unit.engine] + 1)
