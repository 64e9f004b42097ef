"""Encoding and multiplying on a CPU against the definition: planes and groups."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from helpers import assert_same_bits
from staged import (
    awkward,
    encoded,
    families,
    numbers_of,
    operand_of,
    parts_of_numbers,
    planes_of,
    units,
)
from widen import bounds, definition
from widen.cpu import encode as cpu_encode
from widen.cpu import lines as cpu_lines
from widen.cpu import multiply as cpu_multiply
from widen.formats import FORMATS
from widen.systems import SYSTEMS, digits, residues
from widen.units import UNITS


@pytest.mark.covering(2)
@families
@units
@pytest.mark.parametrize("system", SYSTEMS)
@parts_of_numbers
def test_planes_and_groups(family, unit, system, operand):
    accuracies_here = ["standard", 40] if system == "residues" else ["standard"]
    for accuracy, order in itertools.product(accuracies_here, "CF"):
        operands, quantised, defined, layout, _ = encoded(
            family, operand, accuracy, unit, system, order
        )
        found = planes_of(operands, quantised, layout)
        wanted = [definition.encode(x, layout, side) for side, x in enumerate(defined)]
        for ours, theirs in zip(found, wanted, strict=True):
            assert_same_bits(ours[:, 0] + 0.0, np.array(theirs, np.float64))
            assert np.abs(ours).max() <= bounds.plane_digit(unit, 13)
        groups = np.full((layout.groups, 1, 5, 4), np.nan)
        depth = unit.depth(bounds.plane_digit(unit, 13))
        for cut in (depth, 3):  # an accumulator that is emptied early gives the same
            partial = np.full((1, 5, 4), np.nan, unit.engine)
            cpu_multiply.multiply(
                *map(list, found), layout.products, unit, cut, groups=groups, partial=partial
            )
            products = definition.multiply(*wanted, layout.products)
            assert_same_bits(groups[:, 0] + 0.0, np.array(products, np.float64))


@families
@parts_of_numbers
def test_planes_of_correct_products(family, operand):
    """At the first cap, where integers have more than 53 bits."""
    for system in ("residues", "digits"):
        operands, quantised, defined, layout, _ = encoded(
            family, operand, "correct", UNITS["fp64"], system
        )
        for side, found in enumerate(planes_of(operands, quantised, layout)):
            wanted = definition.encode(defined[side], layout, side)
            assert_same_bits(found[:, 0] + 0.0, np.array(wanted, np.float64))


@families
@parts_of_numbers
def test_planes_of_lines_kept_whole(family, operand):
    """Every bit of hard lines, thousands of them in one integer."""
    a, _ = awkward(family, (4, 6, 4), operand)
    quantised = cpu_lines.quantise(cpu_lines.survey(operand_of(a, "left")), None)
    defined = [definition.quantise_line(line, None) for line in numbers_of(a, "left")]
    width = max(abs(part) for line in defined for n in line.integers for part in n).bit_length()
    parts = FORMATS[operand].parts
    for layout in (
        residues(2**20, 100.0, parts),
        residues(128, 100.0, parts),
        digits(2**20, (width, 1), parts, 6, 1, 0),
    ):
        found = cpu_encode.encode(operand_of(a, "left"), quantised, layout, 0)
        wanted = definition.encode(defined, layout, 0)
        assert_same_bits(found[:, 0] + 0.0, np.array(wanted, np.float64))
