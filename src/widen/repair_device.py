"""Repair of many elements on a GPU: exact products of the rows and columns concerned.

A dot product took 41 to 67 ps a term on an H200 (n = 2048 and 4096); 49 products of planes would
take 0.06 at 1600 TOP/s. So rows and columns with a share of open elements are multiplied again,
with planes enough to round them correctly. What does not fit even those is left to
`backends.torch.repair`, as are elements here and there.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator

import torch

from widen import bounds
from widen.backends import cuts, torch_repair
from widen.backends import torch as backend
from widen.backends.cuts import ALL, Piece
from widen.backends.torch_lines import Lines, Tensor
from widen.backends.torch_scaled import Scaling
from widen.bounds import Certificate
from widen.contract import CONTRACTS
from widen.formats import Binary, Format
from widen.systems import residues

FEW = 1 << 13
"""So few elements are repaired by dot products, whatever their pattern."""

DENSE = 1 / 1000
"""A row or column of which more than this share is open is computed again as a whole.

About where both should cost the same by the figures above; not tuned on a GPU.
"""

MOST = 0.8
"""Above this share of all rows or columns they are not picked out."""

MOST_BITS = 340.0
"""|X| that the 49 moduli of int8 hold; elements beyond it are repaired by dot products."""

STEPS = (144.0, 192.0, 240.0, 288.0, MOST_BITS)
"""|X| that planes hold: a few sizes only, since kernels are compiled for each."""

WORTHWHILE = 32
"""Rows and columns that a block must have, or dot products are faster."""


def repair_many(
    sides: list[Lines], tables: tuple[Tensor, Tensor], fmt: Format, out: Tensor, marks: Tensor,
    test: Certificate | None, repaired: Tensor, scaling: Scaling | None, workspace: int,
) -> int:  # fmt: skip
    """Decide about and repair elements of `out`, (parts, batch, m, n), where many are open.

    Reads the device: how many there are, and if many, where, and what planes they need. Gives the
    bytes of workspace it took.
    """
    most = 0
    if int(marks.count_nonzero()) <= FEW:
        return most
    for region in _regions(torch_repair.is_open(marks)):
        for rows, columns in _chunks(region, sides, fmt, workspace):
            pieces = (rows, columns)
            some = [cuts.lines(x, ALL, piece) for x, piece in zip(sides, pieces, strict=True)]
            found = cuts.elements(marks, rows, columns).contiguous()
            if test is not None:
                ours, theirs = (
                    cuts.table(table, side.shape, ALL, piece)
                    for table, side, piece in zip(tables, sides, pieces, strict=True)
                )
                torch_repair.certify_exactly(some[0], some[1], (ours, theirs), found, test)
                marks[..., rows, columns] = found
            wanted = torch_repair.is_unsettled(found)
            if int(wanted.sum()) <= DENSE * wanted.numel():
                continue
            part = None if scaling is None else scaling.taken(rows, columns)
            fresh = torch.empty((out.shape[0], *found.shape), dtype=out.dtype, device=out.device)
            exact, used = _exact_product(some, fmt, fresh, part)
            done = exact & wanted
            old = cuts.elements(out, rows, columns)
            out[..., rows, columns] = torch.where(done, fresh, old)
            marks[..., rows, columns] = torch.where(done, torch_repair.REPAIRED, found)
            repaired += done.sum()
            most = max(most, used)
    return most


def _regions(marked: Tensor) -> list[tuple[Piece, Piece]]:
    """Rows, and then columns, in which many elements are marked; everything, for a batch."""
    batch, m, n = marked.shape
    if batch > 1:
        many = int(marked.sum()) > max(FEW, DENSE * marked.numel())
        return [(ALL, ALL)] if many else []
    in_rows = marked[0].sum(1)
    rows = in_rows > DENSE * n
    in_columns = (marked[0] & ~rows[:, None]).sum(0)
    columns = in_columns > DENSE * m
    numbers = [rows.sum(), (in_rows * rows).sum(), columns.sum(), (in_columns * columns).sum()]
    high, above, wide, beside = torch.stack(numbers).tolist()
    regions: list[tuple[Piece, Piece]] = []
    if above > FEW:
        regions.append((ALL if high > MOST * m else rows.nonzero()[:, 0], ALL))
    if beside > FEW:
        regions.append((ALL, ALL if wide > MOST * n else columns.nonzero()[:, 0]))
    return regions


def _chunks(
    region: tuple[Piece, Piece], sides: list[Lines], fmt: Format, workspace: int
) -> Iterator[tuple[Piece, Piece]]:
    """Parts of a region whose copies, planes and residues fit the workspace."""
    batch, _, k = sides[0].shape
    batch = max(batch, sides[1].shape[0])
    planes = residues(128, MOST_BITS, fmt.parts).planes[0]
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


def _exact_product(
    sides: list[Lines], fmt: Format, out: Tensor, scaling: Scaling | None
) -> tuple[Tensor, int]:
    """Round the product of all these lines into `out`; give where it is the correctly rounded one.

    Lines keep every bit, or as many as two of their kind may have. The bytes this took come second.
    """
    k = sides[0].shape[2]
    even = torch_repair.balanced(sides[0], sides[1])
    cap = math.floor((MOST_BITS - 4 - math.log2(k * fmt.parts)) / 2)
    goal = bounds.goal(CONTRACTS["correct"], fmt.precision, k, fmt.parts, cap)
    tables, needs = torch_repair.tables_of(even.sides, goal)
    bits = sum(max(norm, 0) for norm in needs[:, 0].tolist()) / 256
    layout = residues(128, next(step for step in STEPS if step >= min(bits, MOST_BITS)), fmt.parts)
    planes = backend.encode(even.sides, tables, layout)
    groups = backend.multiply(planes[0], planes[1], layout, k)
    batches = (sides[0].shape[0], sides[1].shape[0])
    assert isinstance(fmt.part, Binary)
    exact = torch_repair.round_long(
        groups, layout, even.final(tables), batches, fmt.part, out, scaling
    )
    held = sum(side.nbytes for side in even.sides)
    return exact, held + sum(x.nbytes for x in (*planes, groups, out))
