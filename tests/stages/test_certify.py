"""Certificates on a CPU against the definition, and what they promise in exact rationals."""

from __future__ import annotations

import itertools
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from staged import (
    BY_DATA,
    SIDES,
    awkward,
    families,
    numbers_of,
    operand_of,
    parts_of_numbers,
)
from widen import bounds, definition
from widen.contract import CONTRACTS
from widen.cpu import certify as cpu_certify
from widen.cpu import lines as cpu_lines
from widen.formats import FORMATS


@pytest.mark.covering(2)
@families
@pytest.mark.parametrize("accuracy", BY_DATA)
@parts_of_numbers
@pytest.mark.parametrize("precision", [53, 24])
@pytest.mark.parametrize("dropped", [0, 2**55])
def test_certificates(family, accuracy, operand, precision, dropped):
    shape, contract, parts = (7, 11, 6), CONTRACTS[accuracy], FORMATS[operand].parts
    a, b = awkward(family, shape, operand)
    goal = bounds.goal(contract, precision, 11, parts, None)
    test = bounds.certificate(contract, precision, 11, parts, dropped)
    matrices = list(zip((a, b), SIDES, strict=True))
    numbers = [numbers_of(x, side) for x, side in matrices]
    operands = [operand_of(x, side) for x, side in matrices]
    quantised = [cpu_lines.quantise(cpu_lines.survey(x, goal), goal) for x in operands]
    defined = [[definition.quantise_line(line, goal) for line in side] for side in numbers]
    for found, wanted in zip(quantised, defined, strict=True):
        weights, levels = cpu_certify.weights(found, test)
        assert weights[0].tolist() == [test.weight(line.q1) for line in wanted]
        assert levels[0].tolist() == [test.level(line.q1) for line in wanted]
        assert all(line.exact or line.sigma == test.level(line.q1) for line in wanted)

    # Leading integers, and the product of them that bounds |A||B| from below.
    kept = bounds.lead_bits(11)
    pairs = list(itertools.product(range(shape[0]), range(shape[2])))
    lead = np.zeros((1, shape[0], shape[2]))
    for i, j in pairs:
        lead[0, i, j] = definition.lead_product(
            numbers[0][i], defined[0][i], numbers[1][j], defined[1][j]
        )
    ours, theirs = (
        cpu_certify.leads(x, found, kept).astype(np.float64)
        for x, found in zip(operands, quantised, strict=True)
    )
    assert np.array_equal(ours @ theirs.swapaxes(1, 2), lead)

    open_elements = cpu_certify.uncertified(lead, 1.0, *quantised, test)[0]
    for i, j in pairs:
        certain = definition.certified(defined[0][i], defined[1][j], int(lead[0, i, j]), test)
        assert open_elements[i, j] == (not certain)


@pytest.mark.parametrize("accuracy", BY_DATA)
@pytest.mark.parametrize("parts", [1, 2])
@settings(max_examples=150)
@given(
    k=st.integers(1, 2**29 - 1),
    sizes=st.tuples(st.integers(2**15, 2**44), st.integers(2**15, 2**44)),
    flags=st.tuples(st.booleans(), st.booleans()),
    lead=st.integers(0, 2**53),
    short=st.tuples(st.integers(0, 80), st.integers(0, 80)),
)
def test_a_certificate_implies_the_contract(accuracy, parts, k, sizes, flags, lead, short):
    """Whatever is certified keeps lambda 2^(s+t) |A||B| above the error, in exact rationals.

    Lines that are exact may have stopped short of the goal.
    """
    test = bounds.certificate(CONTRACTS[accuracy], 53, k, parts, 0)
    rows = [
        definition.Line((), test.level(q1) - exact * before, 0, q1, q1, exact)
        for before, q1, exact in zip(short, sizes, flags, strict=True)
    ]
    if not definition.certified(*rows, lead, test):
        return
    v, u = (Fraction(x.q1) * Fraction(2) ** (x.sigma - bounds.NORM_BITS) for x in rows)
    error = (v * (not flags[1]) + u * (not flags[0])) / 2
    error += Fraction(k * parts, 4) * (not any(flags))
    sigmas = sum(row.sigma for row in rows)
    least = Fraction(lead) * Fraction(2) ** (sigmas - 2 * bounds.lead_bits(k))
    # squares: lambda^2 = 4 k u^2 or k^2 u^2; complex: error sqrt(2), |a||b| at least half of least
    square = Fraction(4 * k if accuracy == "standard" else k * k, 2**106)
    if parts == 2:
        error, least = error * error * 2, least / 2
        assert error <= square * least * least
    else:
        assert error * error <= square * least * least
