"""Repair: elements that are not certified become the correctly rounded ones, and no others.

Few of them by exact dot products; many in a row, a column or everywhere by an exact product of
those rows and columns. Either way the value is the same, so it does not matter which.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from widen.contract import CONTRACTS
from widen.cpu import kernels
from widen.cpu.dots import by_close_dots, by_dots
from widen.cpu.encode import encode
from widen.cpu.lines import balanced_survey, exact_needs, quantise
from widen.cpu.memory import Scratch
from widen.cpu.multiply import multiply
from widen.cpu.operands import Array, Chosen, Operand, Quantised
from widen.cpu.reconstruct import reconstruct
from widen.cpu.scaling import ScaledBlock
from widen.cpu.threads import launch
from widen.formats import Format
from widen.plan import Layout
from widen.planner import block_slices, make_plan
from widen.units import UNITS

FEWEST_OPEN = 256
"""Fewer elements than these are repaired by dot products, whatever their pattern."""

DENSE, DENSE_EXACT = 0.4, 0.1
"""A row or column of which more than this share is to be repaired is repaired as a whole.

A dot product in float64 takes 1.2 ns a term here, and an exact product of hard rows 10 to 20 planes
of 0.04 ns a term; one in the superaccumulator takes 16.
"""

A_LINE = 12
"""Elements that an exact product must be for, for each of its lines: these must be encoded."""

WORTHWHILE = 32
"""Rows and columns a block of an exact product must have, or dot products are faster."""


def repair(
    chosen: Chosen, marks: Array, out: Array, scaling: ScaledBlock | None, fmt: Format,
    *, workspace: int, scratch: Scratch,
) -> None:  # fmt: skip
    """Make every marked element of `out`, (words, parts, batch, m, n), correctly rounded."""
    call = Repair(chosen, marks.copy(), out, scaling, fmt, workspace, scratch)
    words = max(len(operand.words) for operand in chosen.operands)
    call.by_products(DENSE / (words * fmt.parts), A_LINE)
    if call.marks.any():
        by_close_dots(chosen, call.marks, out, scaling, fmt, workspace=workspace, scratch=scratch)
    if call.marks.any():
        call.by_products(DENSE_EXACT, 0)
        by_dots(chosen, call.marks, out, scaling, fmt, workspace=workspace, scratch=scratch)


def correct_singles(
    chosen: Chosen, singles: Array, out: Array, scaling: ScaledBlock | None, fmt: Format,
    *, workspace: int, scratch: Scratch,
) -> None:  # fmt: skip
    """Round the elements of lines of one entry correctly: each is one product."""
    if scaling is not None or not _rounds_products(fmt, chosen.operands):
        rest = singles.copy()
        by_close_dots(
            chosen, rest, out, scaling, fmt, workspace=workspace, scratch=scratch, single=True
        )
        by_dots(chosen, rest, out, scaling, fmt, workspace=workspace, scratch=scratch)
        return
    (left,), (right,) = (operand.parts for operand in chosen.operands)
    rows, columns = (lines.survey for lines in chosen.lines)
    for b in range(out.shape[2]):
        ours, theirs = left[b % len(left)], right[b % len(right)]
        at, to = (
            np.flatnonzero(side.single[b % len(side.single)] & ~side.special[b % len(side.single)])
            for side in (rows, columns)
        )
        row_places, column_places = rows.first[b % len(left), at], columns.first[b % len(right), to]
        in_rows = _products(ours[at, row_places][:, None], theirs[:, row_places].T, fmt)
        in_columns = _products(ours[:, column_places], theirs[to, column_places][None, :], fmt)
        target = out[0, 0, b]
        target[at] = np.where(singles[b, at], in_rows, target[at])
        target[:, to] = np.where(singles[b][:, to], in_columns, target[:, to])


def _rounds_products(fmt: Format, operands: tuple[Operand, Operand]) -> bool:
    """Whether `_products` of real numbers of one word rounds them once."""
    if fmt.name not in ("float64", "float32", "float16") or any(x.lower for x in operands):
        return False
    return all(x.parts[0].dtype.itemsize <= np.dtype(fmt.name).itemsize for x in operands)


def _products(x: Array, y: Array, fmt: Format) -> Array:
    """Products of numbers, rounded once; those that are 0 are +0."""
    wide = x.astype(np.float64) * y.astype(np.float64)  # of float32 and halves this is exact
    product = wide.astype(fmt.name).astype(np.float64)
    return np.where((x == 0) | (y == 0), 0.0, product)


@dataclass(frozen=True)
class Repair:
    """Elements that are to be repaired: `marks` are those that still are."""

    chosen: Chosen
    marks: Array
    out: Array
    scaling: ScaledBlock | None
    fmt: Format
    workspace: int
    scratch: Scratch

    def by_products(self, dense: float, a_line: int) -> None:
        """Those of rows and columns that have many."""
        for b, marks in enumerate(self.marks):
            if np.count_nonzero(marks) < FEWEST_OPEN:
                continue
            for axis in (1, 0):
                rows, columns = (np.flatnonzero(marks.any(axis=other)) for other in (1, 0))
                if not rows.size:
                    break
                lines, others = (rows, columns) if axis == 1 else (columns, rows)
                counts = np.count_nonzero(marks, axis=axis)[lines]
                many = counts > dense * others.size
                least = a_line * (np.count_nonzero(many) + others.size)
                if many.any() and counts[many].sum() >= least:
                    picked = (lines[many], others) if axis == 1 else (others, lines[many])
                    self._by_product(b, *picked)

    def _by_product(self, b: int, rows: Array, columns: Array) -> None:
        """Exact products of some rows and columns, written where marked.

        Where the workspace holds the planes of a few lines only, the marks stay.
        """
        k, fmt, out = self.chosen.operands[0].shape[2], self.fmt, self.out
        # Copies of the chosen lines, two of rows and two of columns, take a quarter of the
        # workspace, blocks of planes a half.
        words = max(len(operand.words) for operand in self.chosen.operands)
        step = max(1, self.workspace // (4 * 4 * 8 * fmt.parts * words * k))
        if step < min(WORTHWHILE, rows.size, columns.size):
            return
        for i in range(0, rows.size, step):
            for j in range(0, columns.size, step):
                lines = rows[i : i + step], columns[j : j + step]
                operands = self.chosen.pick(b, *lines).operands
                for some_rows, some_columns, groups in exact_groups(
                    *operands, fmt, self.workspace, self.scratch
                ):
                    place: Any = (b, *np.ix_(lines[0][some_rows], lines[1][some_columns]))
                    wanted = self.marks[place]
                    part = None if self.scaling is None else self.scaling.pick(place)
                    values = np.empty((*out.shape[:2], 1, *wanted.shape))
                    groups.round_into(values, fmt, part)
                    for word in np.ndindex(out.shape[:2]):
                        out[word][place] = np.where(wanted, values[word][0], out[word][place])
                    self.marks[place] = False


@dataclass(frozen=True)
class ExactGroups:
    """An exact product before its rounding."""

    groups: Array
    layout: Layout
    lines: tuple[Quantised, Quantised]

    def round_into(self, out: Array, fmt: Format, scaling: ScaledBlock | None) -> None:
        """Round it once."""
        reconstruct(self.groups, self.layout, self.lines, fmt.part, out, scaling=scaling)


def exact_groups(
    ours: Operand, theirs: Operand, fmt: Format, workspace: int, scratch: Scratch
) -> Iterator[tuple[slice, slice, ExactGroups]]:
    """Exact products of all rows and columns of one batch item, block by block.

    Powers of two are moved along the inner dimension first, (A D)(D^-1 B), which is exact and
    undoes graded columns; terms that are zero in every element are left out. Gives nothing where
    half of the workspace does not hold blocks that are worth the trouble.
    """
    tops = [
        np.max(
            [np.maximum(part[0].max(axis=0), -part[0].min(axis=0)) for part in side.parts], axis=0
        )
        for side in (ours, theirs)
    ]
    tops = [top.astype(np.float64) for top in tops]
    inner = np.flatnonzero((tops[0] > 0) & (tops[1] > 0) & np.isfinite(tops).all(axis=0))
    inner = inner if inner.size else np.arange(1)
    exponents = [np.frexp(top[inner])[1].astype(np.int64) for top in tops]
    balance = (exponents[1] - exponents[0]) // 2
    shifts = (balance, -balance)
    sides = [side.inner(inner) for side in (ours, theirs)]
    lines = [
        quantise(balanced_survey(side, shift), None)
        for side, shift in zip(sides, shifts, strict=True)
    ]
    needs = exact_needs(lines[0], lines[1], inner.size * fmt.parts)
    shape = (1, ours.shape[1], inner.size, theirs.shape[1])
    plan = make_plan(CONTRACTS["correct"], fmt, shape, needs, unit="fp64", workspace=workspace // 2)
    blocks = plan.blocks
    whole = blocks.inner == inner.size
    if (
        not whole
        or blocks.rows < min(WORTHWHILE, shape[1])
        or blocks.columns < min(WORTHWHILE, shape[3])
    ):
        return
    layout, sizes = plan.layout, (blocks.rows, blocks.columns)
    arrays = {f"planes {at}": 8 * layout.planes[at] * sizes[at] * inner.size for at in (0, 1)} | {
        "groups": 8 * layout.groups * sizes[0] * sizes[1]
    }
    scratch.kept.clear()
    scratch.make_room(workspace, workspace // 4, arrays)
    everything = slice(None)
    for _, rows, columns in block_slices(plan):
        pieces = (rows, columns)
        block = [line.cut(everything, piece) for line, piece in zip(lines, pieces, strict=True)]
        size = (1, rows.stop - rows.start, columns.stop - columns.start)
        groups, partial = scratch.take("groups", (layout.groups, *size)), np.empty(size)
        planes = [
            encode(
                side.cut(everything, piece), line, layout, at, shift=shift,
                memory=functools.partial(scratch.take, f"planes {at}"),
            )
            for at, (side, piece, line, shift) in enumerate(
                zip(sides, pieces, block, shifts, strict=True)
            )
        ]  # fmt: skip
        multiply(
            planes[0], planes[1], layout.products, UNITS[plan.unit], plan.depth,
            groups=groups, partial=partial,
        )  # fmt: skip
        yield rows, columns, ExactGroups(groups, layout, (block[0], block[1]))


def special_values(left: Operand, right: Operand, rows: Array, columns: Array, out: Array) -> None:
    """Overwrite the elements of special rows and columns, in their first words."""
    _, _, batch, m, n = out.shape
    work = batch * m * n * left.shape[2]
    launch(
        kernels.repair.special, batch * m, work, left.joined_bits(), right.joined_bits(),
        rows, columns, out[0],
    )  # fmt: skip
    if len(out) > 1:
        out[1:, :, rows[:, :, None] | columns[:, None, :]] = 0.0
