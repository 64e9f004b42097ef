"""Certificates on a CPU: which elements keep their contract, and by how much."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from widen import bounds
from widen.bounds import Certificate
from widen.cpu.operands import Array, Operand, Quantised, every
from widen.cpu.threads import launch
from widen.formats import Format
from widen.plan import Layout
from widen.stages.error_bounds import TINY, Losses, bound_of, power

STRIP = 1 << 15
"""Elements whose bounds are worked out at a time."""


def weights(lines: Quantised, test: Certificate) -> tuple[Array, Array]:
    """`Certificate.weight` and `Certificate.level` of every line."""
    found, levels = (np.empty(lines.exponents.shape, np.int64) for _ in range(2))
    settings = np.array([test.divisor, test.unit, test.goal.root, test.goal.shift])
    launch("certify.weights", len(found), found.size, lines.survey.q1, settings, found, levels)
    return found, levels


def leads(
    operand: Operand, lines: Quantised, kept: int,
    memory: Callable[[tuple[int, ...]], Array] = lambda shape: np.empty(shape, np.float32),
) -> Array:  # fmt: skip
    """Leading integers floor(|x| 2^(kept - top)), summed over the parts, as float32."""
    near = operand.lines_near
    batch, count, inner = operand.shape
    out = memory((batch, inner, count) if near else (batch, count, inner))
    found, jobs = lines.survey, batch * out.shape[1]
    for at, bits in enumerate(operand.bits()):
        launch(
            "lines.leads", jobs, bits.size, bits, near, found.top, found.special, kept, at > 0, out
        )
    return out.swapaxes(1, 2) if near else out


SKETCH, SKETCH_TILE = 32, 64
"""Numbers in the sketch of a line, and lines that are one job."""

LEAST_SKETCHED = 512
"""Inner length from which sketches say enough: shorter lines differ too much from each other."""


def sketched(operands: tuple[Operand, Operand]) -> bool:
    """Whether operands can be sketched: real, float64 or words, neither short nor very long."""
    inner = operands[0].shape[2]
    plain = all(len(side.parts) == 1 and (side.viewed or side.lower) for side in operands)
    return plain and inner >= LEAST_SKETCHED and bounds.lead_bits(inner) == bounds.LEAD_BITS


def sketch(operand: Operand, lines: Quantised, side: int) -> Array:
    """A line in a few numbers, (batch, lines, SKETCH), as float32.

    Products of left and right sketches are lower bounds of the product of leading integers
    (`bounds.LEAD_BITS` of them): no order of two lines has a smaller product than one sorted
    upwards and the other downwards, and sketches bound the sorted entries from below.
    """
    batch, count, _ = operand.shape
    out = np.empty((batch, count, SKETCH), np.float32)
    bits, jobs = operand.bits()[0], batch * -(-count // SKETCH_TILE)
    found = lines.survey
    launch(
        "sketch.sketch", jobs, bits.size,
        bits, operand.lines_near, found.top, found.special, side == 0, out,
    )  # fmt: skip
    return out


def sketch_products(ours: Array, theirs: Array, out: Array) -> Array:
    """Lower bounds of all products of leading integers, (batch, m, n), from sketches."""
    right = np.ascontiguousarray(theirs.swapaxes(1, 2))
    launch("sketch.products", out.shape[0] * out.shape[1], 8 * out.size, ours, right, out)
    return out


def uncertified(
    lead: Array, factor: float, left: Quantised, right: Quantised, test: Certificate
) -> Array:
    """Mask of the elements that `test` does not certify, given (a lower bound of) D."""
    batch = lead.shape[0]
    marks = np.empty(lead.shape, bool)
    per_line = [
        every(of_lines, batch)
        for side in (left, right)
        for of_lines in (*weights(side, test), side.exact)
    ]
    always = min(test.always, 1 << 61)
    settings = np.array([test.shift, test.both, always])
    launch(
        "certify.certify", batch * lead.shape[1], lead.size, lead, factor, *per_line, settings,
        marks,
    )  # fmt: skip
    return marks


def error_bound(
    left: Quantised, right: Quantised, k: int, layout: Layout, fmt: Format, out: Array,
    rounded_once: Array, scale: float, target: Array,
) -> None:  # fmt: skip
    """`error_bounds.bound_of` for `out`, (words, parts, batch, m, n), a strip of rows at a time."""
    rows = out.shape[3]
    strip = max(1, STRIP // max(1, out.shape[2] * out.shape[4]))
    columns = _losses(right, (slice(None), None, slice(None)))
    for start in range(0, rows, strip):
        some = slice(start, min(start + strip, rows))
        target[:, some] = bound_of(
            _losses(left.cut(slice(None), some), (slice(None), slice(None), None)), columns, k,
            out[0, :, :, some], fmt.part, rounded_once[:, some], scale, layout.dropped,
        )  # fmt: skip


def _losses(lines: Quantised, places: tuple[slice | None, ...]) -> Losses:
    """What is known of lines, at the places of their elements."""
    step = power(-lines.exponents)
    top = lines.survey.top - bounds.NORM_BITS
    norm = np.ldexp(lines.survey.q1.astype(np.float64), top) + TINY
    lost = np.where(lines.exact, 0.0, step)
    return Losses(lost[places], norm[places], step[places])
