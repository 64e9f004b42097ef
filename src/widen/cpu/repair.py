"""Repair: elements that are not certified become the correctly rounded ones, and no others.

Few of them by exact dot products; many in a row, a column or everywhere by an exact product of
those rows and columns. Either way the value is the same, so it does not matter which.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from widen.contract import CONTRACTS
from widen.cpu import kernels
from widen.cpu.encode import encode
from widen.cpu.lines import balanced_survey, exact_needs, quantise
from widen.cpu.multiply import multiply
from widen.cpu.operands import Array, Chosen, Operand, Quantised, word_table
from widen.cpu.reconstruct import reconstruct
from widen.cpu.scaling import ScaledBlock
from widen.cpu.threads import launch
from widen.formats import Format, Part
from widen.plan import Layout
from widen.planner import block_slices, make_plan
from widen.units import UNITS

FEWEST_OPEN = 256
"""Fewer elements than these are repaired by exact dot products, whatever their pattern."""

DENSE = 0.1
"""A row or column of which more than this share is to be repaired is repaired as a whole.

An exact dot product costs an element what some 700 products of planes do (14 ns a term on two cores
at k = 1024, against 0.02 for `a @ b`), and exact products of hard rows take 10 to 200 of them.
"""


WORTHWHILE = 32
"""Rows and columns a block of an exact product must have, or dot products are faster."""


def repair(
    chosen: Chosen, marks: Array, out: Array, scaling: ScaledBlock | None, fmt: Format,
    *, workspace: int,
) -> None:  # fmt: skip
    """Make every marked element of `out`, (words, parts, batch, m, n), correctly rounded."""
    rest = marks.copy()
    for b in np.flatnonzero(marks.sum(axis=(1, 2)) >= FEWEST_OPEN):
        for axis in (1, 0):
            rows = np.flatnonzero(rest[b].any(axis=1))
            columns = np.flatnonzero(rest[b].any(axis=0))
            if not rows.size:
                break
            dense = rest[b][np.ix_(rows, columns)].mean(axis=axis) > DENSE
            rows, columns = (rows[dense], columns) if axis == 1 else (rows, columns[dense])
            if rows.size and columns.size:
                place = (int(b), rows, columns)
                _by_products(chosen, place, rest, out, fmt, scaling=scaling, workspace=workspace)
    _by_dots(chosen, rest, out, scaling, fmt, workspace=workspace)


def _by_dots(
    chosen: Chosen, marks: Array, out: Array, scaling: ScaledBlock | None, fmt: Format,
    *, workspace: int,
) -> None:  # fmt: skip
    """The same by exact dot products."""
    for i, j in chosen.tiles(workspace // 4):
        where = np.nonzero(marks[:, i, j])
        if where[0].size:
            part = None if scaling is None else scaling.cut(i, j)
            ours, theirs = (
                operand.cut(slice(None), piece)
                for operand, piece in zip(chosen.operands, (i, j), strict=True)
            )
            spans = [
                lines.survey.spans[:, :, piece]
                for lines, piece in zip(chosen.lines, (i, j), strict=True)
            ]
            dots((ours, theirs), (spans[0], spans[1]), where, fmt.part, out[..., i, j], part)


def correct_singles(
    chosen: Chosen, singles: Array, out: Array, scaling: ScaledBlock | None, fmt: Format,
    *, workspace: int,
) -> None:  # fmt: skip
    """Round the elements of lines of one entry correctly: each is one product."""
    if scaling is not None or not _rounds_products(fmt, chosen.operands):
        _by_dots(chosen, singles, out, scaling, fmt, workspace=workspace)
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


def _by_products(
    chosen: Chosen, at: tuple[int, Array, Array], marks: Array, out: Array, fmt: Format, *,
    scaling: ScaledBlock | None, workspace: int,
) -> None:  # fmt: skip
    """Exact products of some rows and columns, written where marked; the marks are taken away.

    Where the workspace holds the planes of a few lines only, the marks stay, for dot products.
    """
    b, rows, columns = at
    k = chosen.operands[0].shape[2]
    # Copies of the chosen lines, two of rows and two of columns, take a quarter of the workspace,
    # blocks of planes a half.
    words = max(len(operand.words) for operand in chosen.operands)
    step = max(1, workspace // (4 * 4 * 8 * fmt.parts * words * k))
    if step < min(WORTHWHILE, rows.size, columns.size):
        return
    for i in range(0, rows.size, step):
        for j in range(0, columns.size, step):
            lines = rows[i : i + step], columns[j : j + step]
            operands = chosen.pick(b, *lines).operands
            for some_rows, some_columns, groups in exact_groups(*operands, fmt, workspace // 2):
                place: Any = (b, *np.ix_(lines[0][some_rows], lines[1][some_columns]))
                wanted = marks[place]
                part = None if scaling is None else scaling.pick(place)
                values = np.empty((*out.shape[:2], 1, *wanted.shape))
                groups.round_into(values, fmt, part)
                for word in np.ndindex(out.shape[:2]):
                    out[word][place] = np.where(wanted, values[word][0], out[word][place])
                marks[place] = False


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
    ours: Operand, theirs: Operand, fmt: Format, workspace: int
) -> Iterator[tuple[slice, slice, ExactGroups]]:
    """Exact products of all rows and columns of one batch item, block by block.

    Powers of two are moved along the inner dimension first, (A D)(D^-1 B), which is exact and
    undoes graded columns; terms that are zero in every element are left out. Gives nothing where
    the workspace does not hold blocks that are worth the trouble.
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
    plan = make_plan(CONTRACTS["correct"], fmt, shape, needs, unit="fp64", workspace=workspace)
    blocks = plan.blocks
    whole = blocks.inner == inner.size
    if (
        not whole
        or blocks.rows < min(WORTHWHILE, shape[1])
        or blocks.columns < min(WORTHWHILE, shape[3])
    ):
        return
    everything = slice(None)
    for _, rows, columns in block_slices(plan):
        pieces = (rows, columns)
        block = [line.cut(everything, piece) for line, piece in zip(lines, pieces, strict=True)]
        size = (1, rows.stop - rows.start, columns.stop - columns.start)
        groups, partial = np.empty((plan.layout.groups, *size)), np.empty(size)
        planes = [
            encode(side.cut(everything, piece), line, plan.layout, at, shift=shift)
            for at, (side, piece, line, shift) in enumerate(
                zip(sides, pieces, block, shifts, strict=True)
            )
        ]
        multiply(
            list(planes[0]), list(planes[1]), plan.layout.products, UNITS[plan.unit], plan.depth,
            groups=groups, partial=partial,
        )  # fmt: skip
        yield rows, columns, ExactGroups(groups, plan.layout, (block[0], block[1]))


def dots(
    operands: tuple[Operand, Operand], spans: tuple[Array, Array], where: tuple[Array, ...],
    fmt: Part, out: Array, scaling: ScaledBlock | None,
) -> None:  # fmt: skip
    """Correctly rounded elements by exact dot products: out[..., b, i, j] for those listed.

    Over the places where both lines may have entries that are not 0, by their spans.
    """
    (left, right), parts = operands, out.shape[1]
    scalar = np.zeros(parts, np.int64)
    alpha, beta, addend = (
        (scalar, scalar, np.zeros((1, 1, 1, 1, 1), np.int64))
        if scaling is None
        else (scaling.alpha, scaling.beta, scaling.addend)
    )
    places = [np.ascontiguousarray(index) for index in where]
    pairs = len(left.words) * len(right.words)
    work = 8 * left.shape[2] * pairs * places[0].size
    launch(
        kernels.repair.dots, places[0].size, work, left.stacked_bits(), right.stacked_bits(),
        *spans, *places, scaling is None, alpha, beta, addend, word_table(fmt), out,
    )  # fmt: skip


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
