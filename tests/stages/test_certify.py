"""Certificates on a CPU against the definition, and what they promise in exact rationals."""

from __future__ import annotations

import itertools
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import widen
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
        seen = cpu_certify.weighed(found, test, 1, 0)
        for at, line in enumerate(wanted):
            facts = (seen.weight[0, at], seen.step[0, at], *seen.spans[:3, 0, at].tolist())
            assert bounds.Weighed(*facts) == line.weighed(test)

    # Sums of short magnitudes, and which elements they leave open.
    pairs = list(itertools.product(range(shape[0]), range(shape[2])))
    ours, theirs = (
        cpu_certify.magnitudes(x, found, np.float64)
        for x, found in zip(operands, quantised, strict=True)
    )
    total, error = ours @ theirs.swapaxes(1, 2), 2.0**-48
    for i, j in pairs:
        exact = definition.magnitude(numbers[0][i], defined[0][i], numbers[1][j], defined[1][j])
        assert abs(Fraction(total[0, i, j]) - exact) <= error * exact
        shares = definition.share_entries(numbers[0][i], numbers[1][j])
        certain = not shares or definition.certified(defined[0][i], defined[1][j], exact, test)
        lines = quantised[0].pick(0, np.array([i])), quantised[1].pick(0, np.array([j]))
        one = total[:, i : i + 1, j : j + 1]
        clear = cpu_certify.uncertified(one, 1 + error, lines, test)[0, 0, 0]
        assert not clear or not certain or not shares
        assert cpu_certify.uncertified(one, 1 - error, lines, test)[0, 0, 0] or certain


def test_elements_too_close_to_call_are_decided_exactly(monkeypatch):
    """Nothing is clear: every element is decided by the definition's own sum, unless that is 0."""
    rng = np.random.default_rng(4)
    a, b = (rng.standard_normal(shape) * np.exp(2 * rng.standard_normal(shape))
            for shape in ((9, 30), (30, 8)))  # fmt: skip
    a[2], b[:, 3], a[4, 5:] = 0.0, 0.0, 0.0
    found, info = widen.matmul(a, b, info=True)
    decided, definitive = [], cpu_certify.uncertified

    def nothing_is_clear(total, factor, lines, test, slack=0.0, near=-1):
        return np.full(total.shape, factor < 1)

    def counted(self, *given):
        decided.append(given)
        return is_certified(self, *given)

    is_certified = cpu_certify.Looks._is_certified
    monkeypatch.setattr(cpu_certify, "uncertified", nothing_is_clear)
    monkeypatch.setattr(cpu_certify.Looks, "_is_certified", counted)
    again, other = widen.matmul(a, b, info=True)
    assert definitive is not cpu_certify.uncertified
    assert len(decided) == 8 * 7  # but those of a line of zeros
    assert found.tobytes() == again.tobytes()
    assert info.repaired == other.repaired


def test_sums_of_nothing_are_decided_at_once(monkeypatch):
    """Wide lines whose sums are 0: of a few places that both have, or of none."""
    a, b = np.full((40, 60), 1.0 / 3), np.full((60, 30), 1.0 / 3)
    a[:, ::2] *= 2.0**-400
    b[1::2] *= 2.0**-400
    a[:8, ::2] = 0.0
    b[1::2, :5] = 0.0
    monkeypatch.setattr(cpu_certify.Looks, "_is_certified", None)
    found, info = widen.matmul(a, b, info=True)
    assert info.repaired == 40 * 30 - 8 * 5
    assert (found[:8, :5] == 0).all()
    assert (found[8:, 5:] != 0).all()


@pytest.mark.parametrize("accuracy", BY_DATA)
@pytest.mark.parametrize("parts", [1, 2])
@pytest.mark.parametrize("precision", [8, 53, 863])
@settings(max_examples=150)
@given(
    k=st.integers(1, 2**29 - 1),
    sizes=st.tuples(*[st.integers(2**15, 2**44)] * 2),
    sigmas=st.tuples(st.integers(-40, 90), st.integers(-40, 90)),
    flags=st.tuples(st.booleans(), st.booleans()),
    spans=st.tuples(*[st.integers(0, 2**29)] * 4),
    nonzeros=st.tuples(*[st.integers(1, 2**29)] * 2),
    dropped=st.sampled_from([0, 1, 2**40]),
)
def test_a_certificate_implies_the_contract(
    accuracy, parts, precision, k, sizes, sigmas, flags, spans, nonzeros, dropped
):
    """What `needed` asks for keeps lambda 2^(s+t) |A||B| above the error, in exact rationals."""
    test = bounds.certificate(CONTRACTS[accuracy], precision, k, parts, dropped)
    # As far above or below the goal's scale as any line may be.
    level = precision + k.bit_length() // 2
    rows = [
        definition.Line((), level + sigma, 0, q1, q1, exact, many, *sorted((first, stop)))
        for q1, sigma, exact, many, first, stop in zip(
            sizes, sigmas, flags, nonzeros, spans[:2], spans[2:], strict=True
        )
    ]
    least = Fraction(test.needed(*(row.weighed(test) for row in rows)))
    shared = min(row.stop for row in rows) - max(row.first for row in rows)
    shared = min(max(shared, 0), *nonzeros)
    v, u = (
        min(Fraction(row.q1), Fraction(shared * parts * 2**16))
        * Fraction(2) ** (row.sigma - bounds.NORM_BITS)
        for row in rows
    )
    counted = [dropped > 0 or not row.exact for row in rows]
    error = (v * counted[1] + u * counted[0]) / 2
    error += Fraction(shared * parts, 4) * all(counted) + dropped
    # In units of 2^-(s+t); complex errors are sqrt(2) of their parts', |a||b| half of what it is.
    least *= Fraction(2) ** sum(row.sigma for row in rows)
    square = Fraction(4 * k if accuracy == "standard" else k * k, 4**precision)
    if parts == 2:
        assert error * error * 2 <= square * (least / 2) ** 2
    else:
        assert error * error <= square * least * least
