"""Reconstruction on a CPU against the definition, and the one rounding against MPFR."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import gmpy2
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers import assert_same_bits
from staged import (
    encoded,
    families,
    parts_of_numbers,
    planes_of,
)
from widen import bounds, definition
from widen.cpu import multiply as cpu_multiply
from widen.cpu import reconstruct as cpu_reconstruct
from widen.formats import BINARY, FORMATS, Binary
from widen.units import UNITS


@families
@pytest.mark.parametrize("system", ["residues", "digits", "triangle"])
@parts_of_numbers
def test_reconstruction(family, system, operand):
    few = [UNITS[name] for name in ("fp64", "int8", "fp8")]
    for unit, result in itertools.product(few, ("float64", "float32")):
        operands, quantised, defined, layout, fmt = encoded(
            family, operand, "standard", unit, system
        )
        planes = planes_of(operands, quantised, layout)
        groups, partial = np.empty((layout.groups, 1, 5, 4)), np.empty((1, 5, 4), unit.engine)
        depth = unit.depth(bounds.plane_digit(unit, 13))
        cpu_multiply.multiply(
            *map(list, planes), layout.products, unit, depth, groups=groups, partial=partial
        )
        out = np.full((fmt.parts, 1, 5, 4), np.nan)
        form = FORMATS[result].part
        cpu_reconstruct.reconstruct(groups, layout, quantised, form, out[None])
        exact_groups = [[[int(x) for x in row] for row in group[0]] for group in groups]
        for i, row in enumerate(definition.integers(exact_groups, layout)):
            for j, x in enumerate(row):
                lost = defined[0][i].exponent + defined[1][j].exponent
                wanted = [definition.round_once(part * Fraction(2) ** -lost, form) for part in x]
                assert_same_bits(out[:, 0, i, j], np.array(wanted))


@parts_of_numbers
@pytest.mark.parametrize("unit", ["int8", "fp8"])
@pytest.mark.parametrize("system", ["residues", "digits"])
def test_the_integers_are_the_product_of_the_integers(operand, system, unit):
    """X = A'B' by way of planes, groups and weights, against X itself."""
    operands, quantised, defined, layout, _ = encoded(
        "phi4", operand, "standard", UNITS[unit], system
    )
    assert operands[0].shape == (1, 5, 13)
    assert len(quantised) == 2
    planes = [definition.encode(x, layout, side) for side, x in enumerate(defined)]
    found = definition.integers(definition.multiply(*planes, layout.products), layout)
    for i, j in itertools.product(range(5), range(4)):
        row, column = (
            [tuple(Fraction(part) for part in n) for n in side[at].integers]
            for side, at in zip(defined, (i, j), strict=True)
        )
        assert found[i][j] == definition.exact_dot(row, column)


def by_mpfr(value, form):
    """Rounded by MPFR, which knows subnormals and overflow."""
    with gmpy2.context(
        precision=form.precision,
        emax=form.highest,
        emin=form.lowest + 1,
        subnormalize=True,
        round=gmpy2.RoundToNearest,
    ):
        return float(gmpy2.mpfr(gmpy2.mpq(value.numerator, value.denominator)))


@st.composite
def rationals_near_ties(draw_from, form):
    """m 2^e with m near a multiple of half an ulp, anywhere from below the range to above it."""
    whole = draw_from(st.integers(0, 2 ** (form.precision + 1)))
    tail = draw_from(st.sampled_from([0, 0, 1, -1]))
    depth = draw_from(st.integers(1, 200))
    exponent = draw_from(
        st.one_of(
            st.integers(form.lowest - form.precision - 4, form.lowest + 3),
            st.integers(form.highest - form.precision - 4, form.highest + 2),
            st.integers(form.lowest, form.highest),
        )
    )
    value = (whole + Fraction(tail, 2**depth)) * Fraction(2) ** exponent
    return draw_from(st.sampled_from([1, -1])) * value


@pytest.mark.parametrize("name", [name for name, x in FORMATS.items() if isinstance(x, Binary)])
@settings(max_examples=400)
@given(st.data())
def test_round_once(name, data):
    form = FORMATS[name]
    value = data.draw(rationals_near_ties(form))
    found = definition.round_once(value, form)
    if value == 0:
        assert_same_bits(np.float64(found), np.float64(0.0))
    else:
        assert_same_bits(np.float64(found), np.float64(by_mpfr(value, form)))


@pytest.mark.parametrize("name", list(BINARY))
def test_round_once_at_the_ends_of_the_range(name):
    form = FORMATS[name]
    small, large = Fraction(2) ** form.lowest, Fraction(2) ** form.highest
    ulp = large / 2**form.precision
    tiny = Fraction(1, 2**3000)
    for value, wanted in [
        (small / 2, 0.0), (small / 2 + tiny, float(small)), (-small / 2, -0.0),
        (3 * small / 2, 2 * float(small)), (3 * small / 2 - tiny, float(small)),
        (large - ulp, float(large - ulp)), (large - ulp / 2 - tiny, float(large - ulp)),
        (large - ulp / 2, math.inf), (-large, -math.inf), (large * 2**50, math.inf),
    ]:  # fmt: skip
        assert_same_bits(np.float64(definition.round_once(value, form)), np.float64(wanted))
