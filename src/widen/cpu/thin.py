"""Thin products on a CPU: one side has a few lines, and no planes are written to memory.

Encoding dominates a product with a vector: planes of a matrix are written to memory and read again,
each for a few multiplications an entry. Here digits are multiplied as they are made, and summed to
the integers X themselves (`kernels.thin`), together with the magnitudes that certificates ask for.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from widen import bounds
from widen.cpu import kernels
from widen.cpu.operands import Array, Operand, Quantised
from widen.cpu.threads import launch
from widen.plan import Layout
from widen.planner import is_thin
from widen.stages.problem import Problem
from widen.systems import UnevenDigits
from widen.systems.uneven import STRETCH

SEGMENT = 256 * STRETCH
"""Entries of a line that are one job: a dot product of a million entries keeps all cores busy."""

LINES = 32
"""Lines that are one job: for them the other side's digits are written once."""

NEAR, LEAST_NEAR = 512, 64
"""Lines that are one job where neighbouring lines lie closer in memory than those of a line.

From so many lines on; it is done with fewer as if they were not near.
"""

LIMB = 32
"""Bits of the limbs that the kernel gives X in."""


@dataclass(frozen=True)
class Unwritten:
    """A side of a block, no planes of which are written.

    Attributes
    ----------
    operand, lines
        Its numbers and their lines.
    room
        Bytes that numbers of other formats may take as float64 at a time.
    """

    operand: Operand
    lines: Quantised
    room: int

    @property
    def least(self) -> Array:
        """The scaled magnitudes from which on they count in certificates, of every line."""
        return np.asarray(np.ldexp(1.0, _sigma(self.lines) + bounds.LOWEST_SHORT))


def _sigma(lines: Quantised) -> Array:
    """Exponents of the largest magnitudes after scaling; of special lines, any."""
    return np.where(lines.survey.special, 0, lines.sigma)


def may_be_thin(problem: Problem[Operand]) -> bool:
    """Whether planes of one side need not be written, if the plan is one of digits (`multiply`)."""
    operands = [source for source in problem.sources if isinstance(source, Operand)]
    plain = len(operands) == 2 and not any(operand.lower for operand in operands)
    return plain and problem.unit in (None, "fp64") and is_thin(problem.shape)


Sides = tuple[Unwritten, Unwritten]


def multiply(sides: Sides, layout: UnevenDigits, groups: Array | None) -> Array:
    """X in limbs, and sums of products of scaled magnitudes: (groups, batch, rows, columns).

    Added to those of other stretches, if there are any.
    """
    left, right = (side.operand.shape[1] for side in sides)
    few = int(right <= left)
    own = _products(sides[1 - few], sides[few], layout, 1 - few)
    own = own if few else own.swapaxes(2, 3)
    return own if groups is None else groups + own


def _products(large: Unwritten, small: Unwritten, layout: UnevenDigits, side: int) -> Array:
    """The same as (groups, batch, lines, few lines)."""
    batch, count, inner = large.operand.shape
    small_bits = small.operand.joined_bits()
    few, segments, batch = small_bits.shape[2], -(-inner // SEGMENT), max(batch, len(small_bits[0]))
    counts, betas = (
        np.array(pair if side == 0 else pair[::-1]) for pair in (layout.counts, layout.betas)
    )
    groups = np.empty((segments, layout.parts * _width(layout) + 1, batch, count, few))
    step = count if large.operand.viewed else max(1, large.room // large.operand.bytes_a_line)
    shift, least = large.lines.exponents, large.least
    for start in range(0, count, step):
        length = min(step, count - start)
        lines = slice(start, start + length)
        operand = large.operand.cut(slice(None), lines)
        near = operand.lines_near and length >= LEAST_NEAR
        jobs = segments * batch * -(-length // (NEAR if near else LINES))
        work = batch * length * inner * (1 + few * len(layout.products) // 8)
        launch(
            kernels.thin.products, jobs, work, operand.joined_bits(), near, shift[:, lines],
            least[:, lines], small_bits, small.lines.exponents, small.least, counts, betas,
            groups[:, :, :, lines],
        )  # fmt: skip
    return np.asarray(groups.sum(axis=0) if segments > 1 else groups[0])


def _width(layout: UnevenDigits) -> int:
    """Limbs of X: a sum of int64 numbers, times powers of two."""
    highest = sum(
        (count - 1) * beta for count, beta in zip(layout.counts, layout.betas, strict=True)
    )
    return highest // LIMB + 3


@lru_cache(maxsize=64)
def in_limbs(layout: UnevenDigits) -> Layout:
    """The layout that `multiply` gives X in."""
    width, parts = _width(layout), layout.parts
    weights = tuple(
        tuple(1 << LIMB * (group - part * width) if group // width == part else 0
              for group in range(parts * width))
        for part in range(parts)
    )  # fmt: skip
    return Layout("digits", parts, layout.planes, (), weights, 0, 0)


def magnitude_sums(groups: Array, lines: tuple[Quantised, Quantised]) -> Array:
    """Sums (batch, rows, columns) of products of magnitudes in units of each line's largest power.

    The same powers of two go to all of a line's magnitudes, so scaled ones are rounded down alike.
    """
    rows, columns = map(_sigma, lines)
    return np.asarray(np.ldexp(groups[-1], -(rows[:, :, None] + columns[:, None, :])))
