"""Many elements of a product on a GPU: what exact products of their rows and columns need."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from widen import bounds
from widen.bounds import Certificate, Goal
from widen.formats import BINARY
from widen.gpu import constants, tiles
from widen.gpu.constants import NORM_TOO_LARGE
from widen.gpu.encode import encode_bytes
from widen.gpu.kernels.triton import exact_products as kernels
from widen.gpu.kernels.triton.numbers import NORM, SCALE
from widen.gpu.kernels.triton.reconstruct import UNCERTIFIED, UNSETTLED
from widen.gpu.lines import ROWS_OF_TABLE, quantise, survey
from widen.gpu.multiply import products
from widen.gpu.operands import Lines, Tensor
from widen.gpu.reconstruct import ResultBlock, reconstruct, reconstruct_any
from widen.gpu.replay.launch import launch
from widen.systems import Residues, residues

LEAD_PRODUCT_BITS = 56.0
"""Products of leading integers are below 2^53 (`bounds.lead_bits`)."""

NOWHERE = 1 << 20
"""Further down than exponents of any number."""


def is_open(marks: Tensor) -> Tensor:
    """Whether elements are to be repaired, or tested and then perhaps repaired."""
    return (marks == int(UNCERTIFIED)) | is_unsettled(marks)


def is_unsettled(marks: Tensor) -> Tensor:
    """Whether elements are to be repaired."""
    return marks == int(UNSETTLED)


def certify_exactly(
    left: Lines, right: Lines, tables: tuple[Tensor, Tensor], marks: Tensor, test: Certificate
) -> None:
    """Decide about uncertified elements as `repair` does one by one, by an exact product.

    Leading integers are operands like others; their product is an exact float64.
    """
    kept = bounds.lead_bits(left.shape[2])
    sides = [_leads(side, table, kept) for side, table in zip((left, right), tables, strict=True)]
    layout = residues(128, LEAD_PRODUCT_BITS, 1)
    lead_tables = tables_of(sides, None)[0]
    planes = encode_bytes(sides, lead_tables, layout)
    batch, m, n = marks.shape
    exact = torch.empty((1, batch, m, n), dtype=torch.int64, device=marks.device)
    groups = products(planes[0], planes[1], constants.of_planes(layout), left.shape[2])
    block = ResultBlock((left, right), lead_tables, BINARY["float64"], exact)
    reconstruct(groups, layout, block, None, slack=False)
    tile, (rows, columns) = tiles.DECIDE, tables
    launch(
        kernels.decide, (batch * -(-m // tile.rows) * -(-n // tile.columns),),
        {
            "products": exact, "marks": marks, "rows_table": rows, "columns_table": columns,
            "m": m, "n": n, "left_batch": left.shape[0], "right_batch": right.shape[0],
            "shift": test.shift, "both": test.both, "always": min(test.always, 1 << 61),
            "ROWS": tile.rows, "COLUMNS": tile.columns,
        },
        warps=tile.warps,
    )  # fmt: skip


def tables_of(sides: list[Lines], goal: Goal | None) -> tuple[tuple[Tensor, Tensor], Tensor]:
    """Tables of two operands, and what their planes must hold, on the device."""
    device = sides[0].bits.device
    ours, theirs = (
        torch.zeros((ROWS_OF_TABLE, side.count), dtype=torch.int64, device=device) for side in sides
    )
    needs = torch.zeros((2, 5), dtype=torch.int64, device=device)
    survey(sides, (ours, theirs), None, 0)
    quantise(sides, (ours, theirs), goal, None, needs.unbind())
    return (ours, theirs), needs


def _leads(side: Lines, table: Tensor, kept: int) -> Lines:
    """The leading integers of lines, summed over the parts of a number, as float32."""
    out = _room(side, 1, torch.int32)
    shape, grid = _tile(side)
    _, out_batch, out_line, out_inner = out.stride()
    launch(
        kernels.leads, grid,
        {
            **_named(side), **shape.named, "out": out, "table": table, "count": side.count,
            "kept": kept, "out_batch_stride": out_batch, "out_line_stride": out_line,
            "out_inner_stride": out_inner,
        },
        warps=shape.warps,
    )  # fmt: skip
    return Lines(out, BINARY["float32"])


def _named(side: Lines) -> dict[str, Any]:
    """Lines of one word, as kernels name them."""
    parts, _, lines, inner = side.bits.shape
    return {
        **side.named_bits, **side.named_fields, "lines": lines, "inner": inner, "PARTS": parts,
    }  # fmt: skip


def _room(side: Lines, parts: int, dtype: torch.dtype) -> Tensor:
    """Room for other numbers in the place of lines, neighbours where these have them.

    Parts of a number lie side by side, as kernels that read both at once want them.
    """
    batch, count, inner = side.shape
    device = side.bits.device
    if side.lines_near:
        room = torch.empty((batch, inner, count, parts), dtype=dtype, device=device).transpose(1, 2)
    else:
        room = torch.empty((batch, count, inner, parts), dtype=dtype, device=device)
    return room.movedim(-1, 0)


def _tile(side: Lines) -> tuple[tiles.LineTile, tuple[int]]:
    shape = tiles.line_tile(tiles.SURVEY[1], side.lines_near, side.shape[2])
    return shape, (side.shape[0] * -(-side.shape[1] // shape.lines),)


@dataclass(frozen=True)
class Balanced:
    """Operands (A D) and (D^-1 B), scaled line by line: float64 that hold every bit, or say so."""

    sides: list[Lines]
    moved: list[Tensor]
    lost: list[Tensor]

    def final(self, tables: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
        """Tables for the last rounding: exponents of the lines as they were given.

        Lines that lost bits fit no planes.
        """
        for table, moved, lost in zip(tables, self.moved, self.lost, strict=True):
            table[int(SCALE)] += moved
            table[int(NORM)] += lost * NORM_TOO_LARGE
        return tables


def balanced(left: Lines, right: Lines) -> Balanced:
    """Powers of two moved along the inner dimension, which undoes graded columns."""
    ours, theirs = _tops(left), _tops(right)
    shift = (theirs - ours).div(2, rounding_mode="floor")
    used = (ours > -NOWHERE) & (theirs > -NOWHERE)
    sides, moves, losses = [], [], []
    for side, sign in ((left, 1), (right, -1)):
        shifts = torch.where(used, sign * shift, int(kernels.LEFT_OUT)).to(torch.int32)
        out = _room(side, side.bits.shape[0], torch.int64)
        moved, lost = (
            torch.empty(side.count, dtype=torch.int32, device=out.device) for _ in range(2)
        )
        shape, grid = _tile(side)
        out_part, out_batch, out_line, out_inner = out.stride()
        launch(
            kernels.balance, grid,
            {
                **_named(side), **shape.named, "out": out, "shifts": shifts, "moved": moved,
                "lost": lost, "out_part_stride": out_part, "out_batch_stride": out_batch,
                "out_line_stride": out_line, "out_inner_stride": out_inner,
            },
            warps=shape.warps,
        )  # fmt: skip
        sides.append(Lines(out, BINARY["float64"]))
        moves.append(moved)
        losses.append(lost)
    return Balanced(sides, moves, losses)


def round_long(groups: Tensor, layout: Residues, block: ResultBlock) -> Tensor:
    """Round X (or alpha X + beta c) of many planes; give where it is correctly rounded.

    By the kernels for any moduli: how many there are depends on the data, and one compiled for 49
    of them takes a minute to compile.
    """
    return reconstruct_any(groups, layout, block, None, slack=True) == 0


def _tops(side: Lines) -> Tensor:
    """Exponents (about) of the largest finite number of every term, -NOWHERE if all are 0."""
    fraction, exponent = side.fields
    width = 8 * side.bits.element_size()
    magnitude = side.bits & ((1 << (width - 1)) - 1)
    finite = torch.where(magnitude >> fraction == (1 << exponent) - 1, 0, magnitude)
    top = finite.amax(dim=(0, 1, 2)).to(torch.int64)
    bias = (1 << (exponent - 1)) - 1
    return torch.where(top > 0, (top >> fraction) - bias, -NOWHERE)
