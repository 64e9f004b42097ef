"""Shortcuts that must not be seen: sketches of lines, and rounding by sums of floats."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

import widen
import widen.testing as wt
from helpers import draw, same_bits
from staged import known_lines
from widen import bounds, definition
from widen.contract import CONTRACTS
from widen.cpu import certify as cpu_certify
from widen.cpu import encode as cpu_encode
from widen.cpu import lines as cpu_lines
from widen.cpu import reconstruct as cpu_reconstruct
from widen.cpu.batches import lines, stack
from widen.cpu.operands import Quantised
from widen.formats import FORMATS
from widen.stages import error_bounds
from widen.systems import residues

families = pytest.mark.parametrize("family", wt.FAMILIES)


@families
@pytest.mark.parametrize("inner", [32, 95, 600])
@pytest.mark.parametrize("order", ["C", "F"])
def test_sketches_bound_sums_of_magnitudes(family, inner, order):
    a, b = draw(family, (70, inner, 66), 3)
    a[5], b[:, 7] = 0.0, np.inf
    a[9] *= 2.0**-1060
    operands = [
        lines(stack(np.array(x, order=order)[None]), side, 1)
        for x, side in ((a, "left"), (b, "right"))
    ]
    goal = bounds.goal(CONTRACTS["standard"], 53, inner, 1, None)
    quantised = [cpu_lines.quantise(cpu_lines.survey(x, goal), goal) for x in operands]
    leads = [
        cpu_certify.magnitudes(x, found, np.float64)
        for x, found in zip(operands, quantised, strict=True)
    ]
    ours, theirs = (cpu_certify.sketch(operands[i], quantised[i], i) for i in (0, 1))
    found = cpu_certify.sketch_products(ours, theirs, np.empty((1, 70, 66), np.float32))
    exact = ours.astype(float) @ theirs.astype(float).swapaxes(1, 2)
    exact *= cpu_certify.SKETCH_UNIT
    found *= cpu_certify.SKETCH_UNIT
    assert (exact <= leads[0] @ leads[1].swapaxes(1, 2)).all()
    assert (found * (1 - 2.0**-23 * (cpu_certify.SKETCH + 8)) <= exact).all()


def test_sketches_say_what_they_can():
    """Sorted leading integers to a sixteenth, in chunks: little is lost of even rows."""
    a, b = draw("phi0.1", (40, 1024, 40), 4)
    goal = bounds.goal(CONTRACTS["standard"], 53, 1024, 1, None)
    sketches, ordered = [], []
    for at, (x, side) in enumerate(((a, "left"), (b, "right"))):
        operand = lines(stack(x[None]), side, 1)
        quantised = cpu_lines.quantise(cpu_lines.survey(operand, goal), goal)
        sketches.append(cpu_certify.sketch(operand, quantised, at))
        leads = np.sort(cpu_certify.magnitudes(operand, quantised, np.float64))
        ordered.append(leads if at == 0 else leads[..., ::-1])
    ours, theirs = sketches
    found = cpu_certify.sketch_products(ours, theirs, np.empty((1, 40, 40), np.float32))
    found *= cpu_certify.SKETCH_UNIT
    assert (found > 0.85 * (ordered[0] @ ordered[1].swapaxes(1, 2))).all()


@families
@pytest.mark.parametrize("accuracy", ["fast", "standard"])
def test_no_bit_depends_on_sketches(family, accuracy, monkeypatch):
    a, b = draw(family, (40, 530, 33), 5)
    with_them, info = widen.matmul(a, b, accuracy=accuracy, info=True)
    monkeypatch.setattr(cpu_certify, "LEAST_SKETCHED", 1 << 40)
    without, other = widen.matmul(a, b, accuracy=accuracy, info=True)
    assert same_bits(with_them, without)
    assert info.repaired == other.repaired
    assert same_bits(info.bound, other.bound)


@families
@pytest.mark.parametrize("shape", [(5, 7, 6), (9, 300, 8)])
def test_no_bit_depends_on_the_first_look(family, shape, monkeypatch):
    """What float32 calls clear, one way or the other, is what the definitive look says."""
    items = [draw(family, shape, seed) for seed in range(6)]
    a, b = (np.stack(pair) for pair in zip(*items, strict=True))
    found, info = widen.matmul(a, b, info=True)
    definitive = cpu_certify.uncertified

    def nothing_is_clear(total, *given, **named):
        if total.dtype == np.float64:
            return definitive(total, *given, **named)
        return np.full(total.shape, not named.get("slack", given[3] if len(given) > 3 else 0.0))

    monkeypatch.setattr(cpu_certify, "uncertified", nothing_is_clear)
    wanted, other = widen.matmul(a, b, info=True)
    assert same_bits(found, wanted)
    assert info.repaired == other.repaired
    assert same_bits(info.bound, other.bound)


def hard_integers(rng, most):
    """Integers below 2^most next to midpoints, to powers of two, to zero, and of any length."""
    for length in range(1, most):
        whole = int(rng.integers(2**60)) << 70 >> max(130 - length, 0) | 1 << (length - 1)
        yield from (whole, -whole, (1 << length) - 1, 1 - (1 << length))
        for precision in (24, 53):
            if length > precision + 1:
                drop = length - precision
                middle = (whole >> drop << drop) + (1 << (drop - 1))
                yield from (middle + d for d in (-1, 0, 1))
                yield from (d - (1 << length) - (1 << (drop - 1)) for d in (-1, 0, 1))
    yield 0


@pytest.mark.parametrize("bits", [40.0, 100.0, 150.0])
@pytest.mark.parametrize("name", ["float64", "float32"])
@pytest.mark.parametrize("exponent", [0, 30, 560, -420])
@pytest.mark.parametrize("floats", [True, False])
def test_rounding_where_it_is_hard(bits, name, exponent, floats, monkeypatch):
    layout, fmt = residues(2**21, bits, 1), FORMATS[name].part
    integers = list(hard_integers(np.random.default_rng(6), int(bits)))
    groups = np.array(
        [[(x + p // 2) % p - p // 2 for x in integers] for p in layout.moduli], np.float64
    )
    if not floats:
        monkeypatch.setattr(cpu_reconstruct, "_expansion", lambda layout: None)
    assert (cpu_reconstruct._expansion(layout) is not None) == floats

    def quantised(count):
        zero, false = np.zeros((1, count), np.int64), np.zeros((1, count), bool)
        return Quantised(known_lines(false), zero + exponent, ~false, zero + 0.0)

    out = np.empty((1, 1, 1, len(integers)))
    sides = quantised(1), quantised(len(integers))
    cpu_reconstruct.reconstruct(groups[:, None, None], layout, sides, fmt, out[None])
    scale = Fraction(2) ** (-2 * exponent)
    wanted = np.array([definition.round_once(x * scale, fmt) for x in integers])
    assert same_bits(out[0, 0, 0], wanted)


@pytest.mark.parametrize("sigma", [0, 30, 51, 52, 53, 60, 75, 76, 77, 90, 200])
@pytest.mark.parametrize("top", [-1074, -1030, 0, 900])
@pytest.mark.parametrize("side", ["left", "right"])
def test_residues_of_integers_of_any_length(sigma, top, side):
    """In float64 up to 2^77, in integers beyond: balanced residues of the number rounded."""
    rng, layout = np.random.default_rng(7), residues(2**21, 100.0, 1)
    values = rng.standard_normal((3, 50)) * 2.0 ** -rng.integers(0, 60, (3, 50))
    values[:, 0], values[:, 1] = 1.5, 1.0  # the largest, near which halves are not uncommon
    values[:, 2:6] = 2.0 ** (-sigma - 1) * np.array([1.0, -3.0, 5.0, 2.0])
    values = np.ldexp(np.clip(values, -1.9, 1.9), top)
    values[1, :] *= 0.0
    matrix = values if side == "left" else np.ascontiguousarray(values.T)
    operand = lines(stack(matrix[None]), side, 1)
    zero, false = np.zeros((1, 3), np.int64), np.zeros((1, 3), bool)
    shift = sigma - top
    found = Quantised(known_lines(false, top=zero + top), zero + shift, ~false, zero + 0.0)
    planes = cpu_encode.encode(operand, found, layout, 0)[:, 0]
    for i, j in np.ndindex(values.shape):
        wanted = layout.write([round(Fraction(float(values[i, j])) * Fraction(2) ** shift)], 0)
        assert planes[:, i, j].tolist() == wanted


def test_a_step_beyond_the_range_is_an_infinite_bound():
    """Beside a line that lost nothing: infinity times 0 is no bound."""
    one, zero = np.ones((1, 1), np.int64), np.zeros((1, 1), np.int64)
    survey = known_lines(zero > 0, q1=one, q2=one)
    rounded = Quantised(survey, zero - 1100, zero > 0, zero + 1.0)
    exact = Quantised(survey, zero, zero == 0, zero + 1.0)
    out, target = np.ones((1, 1, 1, 1, 1)), np.empty((1, 1, 1))
    cases = [(rounded, exact, np.inf), (exact, rounded, np.inf), (exact, exact, 0.0)]
    with np.errstate(all="ignore"):  # as `call` has it
        for left, right, wanted in cases:
            never = np.zeros((1, 1, 1), bool)
            terms = error_bounds.terms_of(1, 1, 0)
            cpu_certify.error_bound(
                left, right, FORMATS["float64"], out, never, terms, target=target
            )
            assert target == wanted
