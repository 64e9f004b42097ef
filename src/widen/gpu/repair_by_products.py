"""Repair of many elements on a GPU: exact products of the rows and columns concerned.

A dot product takes 20 to 60 ps a term on an H200; 49 products of planes would take 0.06 at 1600
TOP/s, and they with all that is around them 0.06 to 0.4. So rows and columns with a share of open
elements are multiplied again, with planes enough to round them correctly. What does not fit even
those is left to `gpu.repair`, as are elements here and there.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator

import torch

from widen import bounds
from widen.contract import CONTRACTS
from widen.formats import Format
from widen.gpu import exact_products
from widen.gpu.constants import BYTE_BITS, of_planes
from widen.gpu.encode import encode_bytes
from widen.gpu.multiply import products
from widen.gpu.operands import ALL, Lines, Piece, Tensor, cut_table, picked
from widen.gpu.reconstruct import ResultBlock
from widen.gpu.repair import REPAIRED
from widen.gpu.scaling import Scaling
from widen.systems import residues

FEWEST_TERMS = 1 << 26
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


def repair_by_products(block: ResultBlock, marks: Tensor, repaired: Tensor, workspace: int) -> int:
    """Decide about and repair elements of a block where many are open.

    Reads the device: how many there are, and if many, where, and what planes they need. Gives the
    bytes of workspace it took.
    """
    sides, tables, fmt, out = block.sides, block.tables, block.fmt, block.out
    assert isinstance(out, torch.Tensor)
    test, scaling, most = block.test, block.scaling, 0
    fewest = FEWEST_TERMS // sides[0].shape[2]
    if int(marks.count_nonzero()) <= fewest:
        return most
    for region in _regions(exact_products.is_open(marks), fewest):
        for rows, columns in _chunks(region, sides, fmt, workspace):
            pieces = (rows, columns)
            left, right = (x.cut(ALL, at) for x, at in zip(sides, pieces, strict=True))
            codes = picked(marks, rows, columns).contiguous()
            if test is not None:
                ours, theirs = (
                    cut_table(table, side.shape, ALL, piece)
                    for table, side, piece in zip(tables, sides, pieces, strict=True)
                )
                exact_products.certify_exactly(left, right, (ours, theirs), codes, test)
                marks[..., rows, columns] = codes
            wanted = exact_products.is_unsettled(codes)
            if int(wanted.sum()) <= DENSE * wanted.numel():
                continue
            part = None if scaling is None else scaling.taken(rows, columns)
            fresh = torch.empty((out.shape[0], *codes.shape), dtype=out.dtype, device=out.device)
            exact, used = _exact_product((left, right), fmt, fresh, part)
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


def _exact_product(
    sides: tuple[Lines, Lines], fmt: Format, out: Tensor, scaling: Scaling | None
) -> tuple[Tensor, int]:
    """Round the product of all these lines into `out`; give where it is the correctly rounded one.

    Lines keep every bit, or as many as two of their kind may have. The bytes this took come second.
    """
    k = sides[0].shape[2]
    even = exact_products.balanced(sides[0], sides[1])
    cap = math.floor((BYTE_BITS - 4 - math.log2(k * fmt.parts)) / 2)
    goal = bounds.goal(CONTRACTS["correct"], fmt.precision, k, fmt.parts, cap)
    tables, needs = exact_products.tables_of(even.sides, goal)
    bits = sum(max(norm, 0) for norm in needs[:, 0].tolist()) / 256
    layout = residues(128, next(step for step in STEPS if step >= min(bits, BYTE_BITS)), fmt.parts)
    planes = encode_bytes(even.sides, tables, layout)
    groups = products(planes[0], planes[1], of_planes(layout), k)
    block = ResultBlock(sides, even.final(tables), fmt, out, scaling=scaling)
    exact = exact_products.round_long(groups, layout, block)
    held = sum(side.nbytes for side in even.sides)
    return exact, held + sum(x.nbytes for x in (*planes, groups, out))
