"""Certificates on a CPU: which elements keep their contract, and by how much."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from widen import bounds
from widen.backends.launch import launch
from widen.backends.operands import Array, Operand, Quantised, every
from widen.bounds import Certificate
from widen.formats import Format, Part
from widen.plan import Layout

TINY = 5e-324

STRIP = 1 << 15
"""Elements whose bounds are worked out at a time."""


def weights(lines: Quantised, test: Certificate) -> Array:
    """`Certificate.weight` of every line."""
    out = np.empty(lines.exponents.shape, np.int64)
    settings = np.array([test.divisor, test.unit])
    launch("lines.weights", len(out), out.size, lines.survey.q1, lines.sigma, settings, out)
    return out


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
        for of_lines in (weights(side, test), side.sigma, side.exact)
    ]
    always = min(test.always, 1 << 61)
    settings = np.array([test.shift, test.both, always])
    launch(
        "lines.certify", batch * lead.shape[1], lead.size, lead, factor, *per_line, settings, marks
    )
    return marks


def error_bound(
    left: Quantised, right: Quantised, k: int, layout: Layout, fmt: Format, out: Array,
    rounded_once: Array, scale: float, target: Array,
) -> None:  # fmt: skip
    """|c - AB| <= target, from the lines' norms and exponents (`bounds.Certificate`), rounded up.

    (2^-s ||b||_1 [row rounded] + 2^-t ||a||_1 [column rounded])/2 + parts k/4 2^-(s+t) [both], and
    what was dropped; complex numbers sqrt(2) of it; then half an ulp of each part. Every factor is
    rounded up and 2^-40 more covers the sums. `scale` is |alpha|.
    """
    rows = out.shape[3]
    strip = max(1, STRIP // max(1, out.shape[2] * out.shape[4]))
    for start in range(0, rows, strip):
        some = slice(start, min(start + strip, rows))
        error = _quantisation_error(left.cut(slice(None), some), right, k, layout)
        # A product may have underflowed to 0: the lines say what is exact.
        exact = left.exact[:, some, None] & right.exact[:, None, :] & (layout.dropped == 0)
        error = scale * (error * (1 + 2.0**-40) * layout.parts**0.5 + 4 * TINY) + TINY
        error = np.where(exact | rounded_once[:, some], 0.0, error)
        values = out[0, :, :, some]
        ulps = [_ulp(part, fmt.part) for part in values]
        half = 0.5 * ulps[0] if len(ulps) == 1 else _half_modulus(*ulps)
        total = np.where(error > 0, np.nextafter(error + half, np.inf), np.maximum(half, TINY))
        total[np.isinf(values).any(axis=0)] = np.inf
        total[np.isnan(values).any(axis=0)] = np.nan
        target[:, some] = total


def _quantisation_error(left: Quantised, right: Quantised, k: int, layout: Layout) -> Array:
    steps = [_power(-side.exponents) for side in (left, right)]
    norms = [
        np.ldexp(side.survey.q1.astype(np.float64), side.survey.top - bounds.NORM_BITS) + TINY
        for side in (left, right)
    ]
    lost = [
        np.where(side.exact, 0.0, step) for side, step in zip((left, right), steps, strict=True)
    ]
    rows, columns = (slice(None), slice(None), None), (slice(None), None, slice(None))
    error = 0.5 * _times(lost[0][rows], norms[1][columns])
    error += 0.5 * _times(norms[0][rows], lost[1][columns])
    error += 0.25 * layout.parts * k * _times(lost[0][rows], lost[1][columns])
    if layout.dropped:
        error += float(layout.dropped) * (steps[0][rows] * steps[1][columns])
    return error


def _times(x: Array, y: Array) -> Array:
    """Product in which 0 times infinity is 0."""
    product: Array = np.where((x == 0) | (y == 0), 0.0, x * y)
    return product


def _ulp(x: Array, fmt: Part) -> Array:
    """Twice what rounding may lose, given the number's first word: 2^(1 - precision) |x| or so.

    A last word may be too small for that, and where it is float32 after a large float64, too large.
    """
    smallest, length = np.ldexp(1.0, fmt.lowest), np.frexp(x)[1]
    last, others = fmt.words[-1], sum(word.precision for word in fmt.words[:-1])
    kept = np.where(length <= last.highest + others, fmt.precision, max(others, last.precision))
    ulp: Array = np.maximum(np.ldexp(1.0, length - kept), smallest)
    return np.where(x == 0, smallest, ulp)


def _half_modulus(x: Array, y: Array) -> Array:
    """|x + iy|/2 of powers of two, rounded up, also where there is no 2^-40 of it left to add."""
    large = np.maximum(x, y)
    ratio = np.minimum(x, y) / large
    half: Array = np.nextafter(large * (0.5 * np.sqrt(1 + ratio**2) * (1 + 2.0**-40)), np.inf)
    return half


def _power(exponents: Array) -> Array:
    """2^exponents, rounded up into the range of float64 (infinity above it)."""
    power: Array = np.maximum(np.ldexp(1.0, np.clip(exponents, -5000, 5000)), TINY)
    return power
