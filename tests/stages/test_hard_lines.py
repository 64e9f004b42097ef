"""Lines of wide spread, with zeros, or of one entry: their bits, and their certificates."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import widen
from helpers import ACCURACIES, assert_same_bits, assert_same_words, draw, draw_words
from widen import bounds, definition
from widen.contract import CONTRACTS
from widen.cpu import lines as cpu_lines
from widen.cpu.batches import lines, stack
from widen.formats import FORMATS, PLAIN
from widen.systems.moduli import long_moduli

SIZES = st.integers(2**15, 2**44)


def test_rungs_are_what_moduli_hold():
    """Half of log2(P) - 1 less the margin of residues, and of needs in eighths of a bit."""
    held = 0.0
    for (p, _), rung in zip(long_moduli(128, 341.8), bounds.RUNGS, strict=True):
        held += math.log2(p)
        assert rung == math.floor(256 * ((held - 1 - 2.0**-7) / 2 - 0.07))
    steps = np.diff(bounds.RUNGS)
    assert steps.max() <= 256 * bounds.MOST_FILL
    assert steps.min() > 0  # GPUs halve what is left of up to 63
    assert len(bounds.RUNGS) < 64


@given(st.integers(1, 2**62))
def test_logarithms_in_256ths(x):
    found, exact = bounds.log2_in_256ths(x), 256 * math.log2(x)
    assert exact - 24 < found < exact + 1e-6


@given(SIZES, st.integers(2**30, 2**61), st.integers(1, 2**29), st.integers(0, 48), st.data())
def test_no_line_gets_more_than_it_may(q1, q2, entries, distance, data):
    nonzeros = data.draw(st.integers(1, entries))
    extra = bounds.extra_bits(q1, q2, nonzeros, distance * nonzeros, entries)
    rho = math.log2(math.sqrt(2) * entries * q2 / q1**2)
    assert 0 <= extra <= max(bounds.MOST_EXTRA, rho)


@given(st.integers(-40, 900), st.integers(2**30, 2**61))
def test_filled_lines_need_no_more_moduli(sigma, q2):
    filled = bounds.filled_up(sigma, q2)
    assert 0 <= filled - sigma <= bounds.MOST_FILL

    def norm(at):
        return 256 * (at - 15 + math.log2(q2) / 2)

    rung = next((rung for rung in bounds.RUNGS if rung >= norm(sigma)), None)
    if rung is not None and filled > sigma:
        assert norm(filled) <= next(x for x in bounds.RUNGS if x >= norm(sigma) - 1)


def test_flat_lines_get_nothing_and_wide_ones_do():
    rng = np.random.default_rng(1)
    goal = bounds.goal(CONTRACTS["standard"], 53, 256, 1, None)

    def extra(line):
        one = definition.quantise_line(definition.numbers(line), goal)
        plain = bounds.floor_log2_ratio(goal.root, one.q1) + goal.shift + bounds.NORM_BITS
        return one.sigma - plain

    flat = [extra(rng.standard_normal(256)) for _ in range(20)]
    wide = [
        extra(rng.standard_normal(256) * np.exp(4 * rng.standard_normal(256))) for _ in range(9)
    ]
    assert max(flat) <= bounds.MOST_FILL
    assert min(wide) >= 6


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("dtype", ["float64", "float32", "complex128"])
def test_what_is_known_of_lines(order, dtype):
    """Numbers that are not 0, where they are, how far down they go: on a CPU as defined."""
    rng = np.random.default_rng(2)
    x = rng.standard_normal((60, 200)) * np.exp2(rng.integers(-60, 1, (60, 200)))
    x *= rng.random((60, 200)) < rng.random((60, 1))
    x[3], x[4, 1:], x[5, :-1], x[6] = 0.0, 0.0, 0.0, x[6] * 2.0**-1040
    with np.errstate(under="ignore"):
        x = np.asarray(x.astype(dtype), order=order)
    goal = bounds.goal(CONTRACTS["standard"], 53, 200, 1 + (dtype == "complex128"), None)
    operand = lines(stack(x[None]), "left", 1 + (dtype == "complex128"))
    found = cpu_lines.survey(operand, goal)
    for i, row in enumerate(x):
        wanted = definition.quantise_line(definition.numbers(row), goal)
        seen = [int(fact[0, i]) for fact in (found.nonzeros, found.first, found.stop)]
        assert seen == [wanted.nonzeros, wanted.first, wanted.stop]
        assert bool(found.single[0, i]) == wanted.single


def nearest(x, y, result):
    """Products of two numbers, given as lists of words, rounded once."""
    exact = Fraction(0)
    for a in x:
        exact += sum(Fraction(float(a)) * Fraction(float(b)) for b in y)
    if result == "float64":
        return float(exact)
    found = np.float32(float(exact))  # perhaps rounded twice: a neighbour may be nearer
    near = (np.nextafter(found, np.float32(s)) for s in (-np.inf, np.inf))
    return min((found, *near), key=lambda z: (abs(Fraction(float(z)) - exact), z != found))


@pytest.mark.parametrize("accuracy", ["fast", "standard", 20])
@pytest.mark.parametrize("result", ["float64", "float32"])
@pytest.mark.parametrize("words", [1, 2])
def test_lines_of_one_entry_are_rounded_once(accuracy, result, words):
    """Whatever the operands are: float64 numbers for a float32, and numbers of several words."""
    rng = np.random.default_rng(3)
    scale = np.zeros((24, 24))
    scale[np.arange(24), rng.permutation(24)] = rng.standard_normal(24)
    b = rng.standard_normal((24, 30))
    parts = [b, b * 2.0**-55][:words]
    other = b if words == 1 else widen.Words.from_words(parts, widen.float64x2)
    found = widen.matmul(scale, other, accuracy=accuracy, dtype=result)
    for i, h in zip(*np.nonzero(scale), strict=True):
        for j in range(30):
            wanted = nearest([scale[i, h]], [part[h, j] for part in parts], result)
            assert found[i, j] == wanted


@pytest.mark.parametrize("accuracy", ACCURACIES)
@pytest.mark.parametrize("name", FORMATS)
def test_the_identity_permutations_and_scalings(accuracy, name):
    """Products with them are exact, or rounded once, in every format and under every contract."""
    same = assert_same_bits if name in PLAIN else assert_same_words
    if name in PLAIN:
        a = draw("phi4", (9, 11, 1), 4, name)[0]
    else:
        a = draw_words("phi4", (9, 11, 1), 4, name)[0]
    one, order = np.eye(11, dtype=np.float16), np.random.default_rng(4).permutation(11)
    for times, wanted in ((one, a), (one[:, order], a[:, order])):
        same(widen.matmul(a, times, accuracy=accuracy, dtype=name), wanted)
        same(widen.matmul(times.T, a.T, accuracy=accuracy, dtype=name), wanted.T)
    for factor in (-4.0, 1 / 3):
        times = (factor * one).astype(np.float32)
        wanted = widen.matmul(a, times, accuracy="correct", dtype=name)
        same(widen.matmul(a, times, accuracy=accuracy, dtype=name), wanted)
        same(widen.matmul(times, a.T, accuracy=accuracy, dtype=name), wanted.T)
