"""Quantising on a CPU against the definition: exponents, norms, exactness."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from numba import njit

from staged import (
    SIDES,
    accuracies,
    awkward,
    families,
    goals_of,
    numbers_of,
    operand_of,
    parts_of_numbers,
)
from widen import bounds, definition
from widen.contract import CONTRACTS
from widen.cpu import encode as cpu_encode
from widen.cpu import lines as cpu_lines
from widen.cpu.kernels import goals
from widen.formats import FORMATS
from widen.systems import residues


@families
@accuracies
@parts_of_numbers
def test_exponents_norms_and_flags(family, accuracy, operand):
    a, b = awkward(family, (7, 11, 6), operand)
    parts = FORMATS[operand].parts
    for (side, matrix), order in itertools.product(zip(SIDES, (a, b), strict=True), "CF"):
        given_lines = operand_of(matrix, side, order)
        for goal in goals_of(accuracy, 11, parts):
            wanted = [definition.quantise_line(line, goal) for line in numbers_of(matrix, side)]
            for survey in (cpu_lines.survey(given_lines), cpu_lines.survey(given_lines, goal)):
                found = cpu_lines.quantise(survey, goal)
                assert found.exponents[0].tolist() == [line.exponent for line in wanted]
                assert found.exact[0].tolist() == [line.exact for line in wanted]
                assert found.sigma[0].tolist() == [line.sigma for line in wanted]
                assert survey.top[0].tolist() == [line.top for line in wanted]
                assert survey.q1[0].tolist() == [line.q1 for line in wanted]
                assert survey.q2[0].tolist() == [line.q2 for line in wanted]
                assert not survey.special.any()


@families
@accuracies
def test_quantised_integers_are_within_half_of_the_scaled_numbers(family, accuracy):
    a, _ = awkward(family, (5, 9, 4), "float64")
    for goal, row in itertools.product(goals_of(accuracy, 9, 1), numbers_of(a, "left")):
        line = definition.quantise_line(row, goal)
        scale = Fraction(2) ** line.exponent
        errors = [abs(x[0] * scale - n[0]) for x, n in zip(row, line.integers, strict=True)]
        assert max(errors) <= Fraction(1, 2)
        assert not any(errors) or not line.exact
        magnitudes = [abs(n[0]) for n in line.integers]
        assert sum(magnitudes) <= Fraction(line.q1) * Fraction(2) ** (
            line.sigma - bounds.NORM_BITS
        ) + Fraction(9, 2)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_special_lines_are_marked_and_hold_nothing(value):
    a = np.ones((4, 5))
    a[2, 3] = value
    for goal in (None, bounds.goal(CONTRACTS["standard"], 53, 5, 1, None)):
        survey = cpu_lines.survey(operand_of(a, "left"), goal)
        assert survey.special.tolist() == [[False, False, True, False]]
        quantised = cpu_lines.quantise(survey, goal)
        planes = cpu_encode.encode(operand_of(a, "left"), quantised, residues(128, 40.0, 1), 0)
        assert not planes[:, 0, 2].any()


# Functions that kernels call have no way in from Python.
floor_log2_ratio = njit(lambda x, y: goals.floor_log2_ratio(x, y))
ceil_sqrt = njit(lambda x: goals.ceil_sqrt(x))


@given(st.integers(1, 2**53 - 1), st.integers(1, 2**53 - 1))
@example(1, 1)
@example(2**52, 2**52 - 1)
def test_floor_log2_ratio(numerator, denominator):
    wanted = bounds.floor_log2_ratio(numerator, denominator)
    assert Fraction(2) ** wanted <= Fraction(numerator, denominator) < Fraction(2) ** (wanted + 1)
    assert floor_log2_ratio(numerator, denominator) == wanted


@given(st.integers(0, 2**61 - 1))
@example(2**61 - 1)
@example((2**30 + 1) ** 2)
@example((2**30 + 1) ** 2 - 1)
@example((2**30 + 1) ** 2 + 1)
def test_ceil_sqrt(square):
    wanted = math.isqrt(square - 1) + 1 if square else 0
    assert ceil_sqrt(square) == wanted
