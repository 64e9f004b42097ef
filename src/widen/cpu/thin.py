"""Thin products on a CPU: one side has a few lines, the other is read and its planes not written.

Encoding dominates a product with a vector: planes of a matrix are written to memory and read again,
each for a few multiplications an entry. Here digits of the large side are multiplied as they are
made (`kernels.thin`). They weigh what digits of the plan's layout do, so its groups are the same.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from widen.cpu import kernels
from widen.cpu.memory import Scratch
from widen.cpu.operands import Array, Operand, Quantised
from widen.cpu.threads import launch
from widen.plan import Layout
from widen.systems import Digits

STRETCH = 512
"""Entries of a line that are multiplied at a time."""

SEGMENT = 128 * STRETCH
"""Entries of a line that are one job: a dot product of a million entries keeps all cores busy."""

TILE = 128
"""Lines that are one job where neighbouring lines lie closer in memory than those of a line."""


@dataclass(frozen=True)
class Unwritten:
    """A side of a block before its planes are written.

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
    def magnitude_shift(self) -> Array:
        """Exponents of magnitudes; what is in a special line becomes 0."""
        survey = self.lines.survey
        return np.where(survey.special, -2000, -survey.top)


Sides = tuple[Unwritten, Unwritten]


def multiply(
    sides: Sides, layout: Layout, groups: Array, scratch: Scratch, *, add: bool = False
) -> None:
    """Groups (+)= left digits times right digits, those of the side with more lines unwritten."""
    assert isinstance(layout, Digits)
    few = _few(sides)
    pairs = [(x, y, g) if few else (y, x, g) for x, y, g in layout.products]
    groups = groups if few else groups.swapaxes(2, 3)
    shifts = [side.lines.exponents for side in sides]
    planes = _write(sides[few], shifts[few], layout.beta, layout.planes[few], scratch)
    found = _products(sides[1 - few], shifts[1 - few], layout.beta, np.array(sorted(pairs)), planes)
    if add:
        groups += found
    else:
        groups[...] = found


def magnitude_products(sides: Sides, scratch: Scratch) -> Array:
    """Sums (batch, rows, columns) of products of magnitudes, in float64."""
    few = _few(sides)
    planes = _write(sides[few], sides[few].magnitude_shift, 0, 1, scratch)
    large, pairs = sides[1 - few], np.zeros((1, 3), np.int64)
    found = _products(large, large.magnitude_shift, 0, pairs, planes)[0]
    return np.ascontiguousarray(found.swapaxes(1, 2)) if few == 0 else found


def _few(sides: Sides) -> int:
    """The side with fewer lines."""
    left, right = (side.operand.shape[1] for side in sides)
    return int(right <= left)


def _write(side: Unwritten, shift: Array, beta: int, count: int, scratch: Scratch) -> Array:
    """Planes of a few lines."""
    bits = side.operand.joined_bits()
    _, batch, lines, inner = bits.shape
    shape = (count, batch, lines, -(-inner // STRETCH) * STRETCH)
    planes: Array = scratch.take("planes of few lines", shape)
    launch(kernels.thin.write, batch * lines, planes.size, bits, shift, beta, planes)
    return planes


def _products(side: Unwritten, shift: Array, beta: int, pairs: Array, planes: Array) -> Array:
    """Groups (groups, batch, lines, few lines) of digits, or of magnitudes if beta is 0."""
    batch, count, inner = side.operand.shape
    few, segments, batch = planes.shape[2], -(-inner // SEGMENT), max(batch, planes.shape[1])
    groups = np.empty((segments, int(pairs[:, 2].max()) + 1, batch, count, few))
    step = count if side.operand.viewed else max(1, side.room // side.operand.bytes_a_line)
    for start in range(0, count, step):
        length = min(step, count - start)
        lines = slice(start, start + length)
        operand = side.operand.cut(slice(None), lines)
        near = operand.lines_near and 2 * length >= TILE
        jobs = segments * batch * (-(-length // TILE) if near else length)
        work = batch * length * inner * (4 + few * len(pairs) // 4)
        launch(
            kernels.thin.products, jobs, work, operand.joined_bits(), near, shift[:, lines], beta,
            pairs, planes, groups[:, :, :, lines],
        )  # fmt: skip
    return np.asarray(groups.sum(axis=0) if segments > 1 else groups[0])
