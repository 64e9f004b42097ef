"""Repair of many elements on a GPU: exact products of the rows and columns concerned.

A dot product takes 20 to 60 ps a term on an H200; 49 products of planes would take 0.06 at 1600
TOP/s, and they with all that is around them 0.06 to 0.4. So rows and columns with a share of open
elements are multiplied again, with planes enough to round them correctly. What does not fit even
those is left to `gpu.repair`, as are elements here and there.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch

from widen import bounds
from widen.bounds import Goal
from widen.contract import CONTRACTS
from widen.formats import BINARY, Format
from widen.gpu import constants, tiles
from widen.gpu.constants import BYTE_BITS, NORM_TOO_LARGE
from widen.gpu.encode import encode_bytes
from widen.gpu.kernels.triton import exact_products as kernels
from widen.gpu.kernels.triton.numbers import NORM, SCALE
from widen.gpu.kernels.triton.reconstruct import UNSETTLED
from widen.gpu.lines import NEEDS, ROWS_OF_TABLE, quantise, survey
from widen.gpu.multiply import products
from widen.gpu.operands import ALL, Lines, Piece, Tensor, picked
from widen.gpu.reconstruct import ResultBlock, reconstruct_any
from widen.gpu.repair import REPAIRED
from widen.gpu.replay.launch import launch
from widen.gpu.scaling import Scaling
from widen.systems import residues

FEWEST_TERMS = 1 << 27
"""Elements with no more terms in all are repaired by dot products, whatever their pattern.

Both take as long with 2^27 terms at n = 2048 and 4096 (3.5 and 6 ms), 2^29 at 8192; terms of very
different size take up to four times as long, by dot products only.
"""

DENSE = 1 / 500
"""A row or column of which more than this share is open is computed again as a whole.

Both took as long with 1.6 % of all elements open at n = 2048, 0.2 % at 4096, 0.1 % at 8192.
"""

PICKED_SHARE = 0.8
"""Rows or columns are picked out up to this share of all of them."""

STEPS = (144.0, 172.0, 224.0, 280.0, BYTE_BITS)
"""|X| that planes hold: a few sizes only, since kernels are compiled for each.

Numbers (rand - 0.5) exp(phi randn) need 160 bits at phi = 0.5, k = 2048, 165 at 4096, 168 at 8192,
and 213 at phi = 4, k = 2048.
"""

WORTHWHILE = 32
"""Rows and columns that a block must have, or dot products are faster."""

NOWHERE = 1 << 20
"""Further down than exponents of any number."""


Product = Callable[[tuple[Lines, Lines], Format, Tensor, Scaling | None], tuple[Tensor, int]]
"""Rounds a product into a tensor; gives where it is the nearest number, and bytes it took."""


def repair_by_products(
    block: ResultBlock, marks: Tensor, repaired: Tensor, product: Product,
    workspace: int | None = None,
) -> int:  # fmt: skip
    """Repair elements of a block where many are open, by the products of their lines.

    Of so many of them at a time as fit the workspace; of all if there is none.

    Reads the device: how many there are, and if many, where. Gives the bytes of workspace it took.
    """
    sides, fmt, out = block.sides, block.fmt, block.out
    assert isinstance(out, torch.Tensor)
    scaling, most = block.scaling, 0
    fewest = FEWEST_TERMS // sides[0].shape[2]
    if int(marks.count_nonzero()) <= fewest:
        return most
    for region in _regions(marks == int(UNSETTLED), fewest):
        chunks = [region] if workspace is None else _chunks(region, sides, fmt, workspace)
        for rows, columns in chunks:
            pieces = (rows, columns)
            left, right = (x.cut(ALL, at) for x, at in zip(sides, pieces, strict=True))
            codes = picked(marks, rows, columns).contiguous()
            wanted = codes == int(UNSETTLED)
            if int(wanted.sum()) <= DENSE * wanted.numel():
                continue
            part = None if scaling is None else scaling.taken(rows, columns)
            fresh = torch.empty((out.shape[0], *codes.shape), dtype=out.dtype, device=out.device)
            exact, used = product((left, right), fmt, fresh, part)
            done = exact & wanted
            old = picked(out, rows, columns)
            out[..., rows, columns] = torch.where(done, fresh, old)
            marks[..., rows, columns] = torch.where(done, REPAIRED, codes)
            repaired += done.sum()
            most = max(most, used)
    return most


def _regions(marked: Tensor, fewest: int) -> list[tuple[Piece, Piece]]:
    """Rows, and then columns, in which many elements are marked; everything, for a batch."""
    batch, m, n = marked.shape
    if batch > 1:
        enough = int(marked.sum()) > max(fewest, DENSE * marked.numel())
        return [(ALL, ALL)] if enough else []
    in_rows = marked[0].sum(1)
    rows = in_rows > DENSE * n
    in_columns = (marked[0] & ~rows[:, None]).sum(0)
    columns = in_columns > DENSE * m
    numbers = [rows.sum(), (in_rows * rows).sum(), columns.sum(), (in_columns * columns).sum()]
    high, above, wide, beside = torch.stack(numbers).tolist()
    regions: list[tuple[Piece, Piece]] = []
    if above > fewest:
        regions.append((ALL if high > PICKED_SHARE * m else rows.nonzero()[:, 0], ALL))
    if beside > fewest:
        regions.append((ALL, ALL if wide > PICKED_SHARE * n else columns.nonzero()[:, 0]))
    return regions


def _chunks(
    region: tuple[Piece, Piece], sides: tuple[Lines, Lines], fmt: Format, workspace: int
) -> Iterator[tuple[Piece, Piece]]:
    """Parts of a region whose copies, planes and residues fit the workspace."""
    batch, _, k = sides[0].shape
    batch = max(batch, sides[1].shape[0])
    planes = residues(128, BYTE_BITS, fmt.parts).planes[0]
    line, element = batch * (planes + 32 * fmt.parts) * (k + 16), batch * (planes + 32 * fmt.parts)
    edge = int((math.sqrt(line * line + element * workspace) - line) / element)
    sizes = [
        side.shape[1] if isinstance(piece, slice) else len(piece)
        for side, piece in zip(sides, region, strict=True)
    ]
    if edge < min(WORTHWHILE, *sizes):
        return
    edge = edge // 256 * 256 if edge > 256 else edge
    yield from itertools.product(
        *(_steps(piece, size, edge) for piece, size in zip(region, sizes, strict=True))
    )


def _steps(piece: Piece, size: int, step: int) -> list[Piece]:
    starts = range(0, size, step)
    if isinstance(piece, slice):
        return [slice(start, min(start + step, size)) for start in starts]
    return [piece[start : start + step] for start in starts]


def exact_product(
    sides: tuple[Lines, Lines], fmt: Format, out: Tensor, scaling: Scaling | None
) -> tuple[Tensor, int]:
    """Round the product of all these lines into `out`; give where it is the correctly rounded one.

    Lines keep every bit, or as many as two of their kind may have. The bytes this took come second.
    """
    k = sides[0].shape[2]
    even = balanced(sides[0], sides[1])
    cap = math.floor((BYTE_BITS - 4 - math.log2(k * fmt.parts)) / 2)
    goal = bounds.goal(CONTRACTS["correct"], fmt.precision, k, fmt.parts, cap)
    tables, needs = tables_of(even.sides, goal)
    bits = sum(max(norm, 0) for norm in needs[:, 0].tolist()) / 256
    layout = residues(128, next(step for step in STEPS if step >= min(bits, BYTE_BITS)), fmt.parts)
    planes = encode_bytes(even.sides, tables, layout)
    groups = products(planes[0], planes[1], constants.of_planes(layout), k)
    block = ResultBlock(sides, even.final(tables), fmt, out, scaling=scaling)
    # The kernels for any moduli: how many there are depends on the data, and one that is made for
    # 49 of them takes a minute to compile.
    exact = reconstruct_any(groups, layout, block, None, slack=True) == 0
    held = sum(side.nbytes for side in even.sides)
    return exact, held + sum(x.nbytes for x in (*planes, groups, out))


def tables_of(sides: list[Lines], goal: Goal | None) -> tuple[tuple[Tensor, Tensor], Tensor]:
    """Tables of two operands, and what their planes must hold, on the device."""
    device = sides[0].bits.device
    ours, theirs = (
        torch.zeros((ROWS_OF_TABLE, side.count), dtype=torch.int64, device=device) for side in sides
    )
    needs = torch.zeros((2, NEEDS), dtype=torch.int64, device=device)
    survey(sides, (ours, theirs), None, 0)
    quantise(sides, (ours, theirs), goal, None, needs.unbind())
    return (ours, theirs), needs


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
    return shape, (side.blocks(shape),)


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


def _tops(side: Lines) -> Tensor:
    """Exponents (about) of the largest finite number of every term, -NOWHERE if all are 0."""
    fraction, exponent = side.fields
    width = 8 * side.bits.element_size()
    magnitude = side.bits & ((1 << (width - 1)) - 1)
    finite = torch.where(magnitude >> fraction == (1 << exponent) - 1, 0, magnitude)
    top = finite.amax(dim=(0, 1, 2)).to(torch.int64)
    bias = (1 << (exponent - 1)) - 1
    return torch.where(top > 0, (top >> fraction) - bias, -NOWHERE)
