"""Certificates on a CPU: which elements keep their contract, and by how much."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

import numpy as np

from widen import bounds
from widen.backends.error_bounds import Losses, Terms, losses_of, ulp
from widen.backends.launch import launch
from widen.backends.operands import Array, Operand, Quantised, every
from widen.bounds import Certificate
from widen.formats import Part


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
    left: Quantised, right: Quantised, fmt: Part, out: Array, repaired: Array, terms: Terms,
    target: Array | None, *, rounded_once: bool = False,
) -> tuple[float, int]:  # fmt: skip
    """`error_bounds.bound_of` for `out`, (words, parts, batch, m, n), into `target` if it is there.

    Gives the largest bound of a finite element (0 if there is none) and how many are finite.
    """
    _, parts, batch, m, n = out.shape
    rows, columns = (_losses(side, batch) for side in (left, right))
    largest, finite = np.empty(batch * m), np.empty(batch * m, np.int64)
    launch(
        "error_bounds.bounds", batch * m, 4 * parts * batch * m * n, out[0], ulps_by_field(fmt),
        rows.lost, rows.norm, rows.shift, rows.exponent,
        columns.lost, columns.norm, columns.shift, columns.exponent, repaired, rounded_once,
        np.array([terms.both, terms.always, terms.factor]), terms.exponent,
        np.empty((0, 0, 0)) if target is None else target, largest, finite,
    )  # fmt: skip
    return float(largest.max()), int(finite.sum())


def _losses(lines: Quantised, batch: int) -> Losses:
    """What is known of the lines of every batch item."""
    found = losses_of(~lines.exact, lines.survey.q1, lines.exponents, lines.sigma)
    return Losses(*(every(x, batch) for x in (found.lost, found.norm, found.shift, found.exponent)))


@lru_cache(maxsize=64)
def ulps_by_field(fmt: Part) -> Array:
    """`error_bounds.ulp` of first words by their exponent fields: a number in every binade.

    Subnormal first words have no other ulp than 0: the smallest number, in every format.
    """
    fields = np.arange(0x7FF, dtype=np.int64) << 52
    return np.asarray(ulp(fields.view(np.float64), fmt))
