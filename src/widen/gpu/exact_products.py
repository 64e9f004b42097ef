"""Repair of many elements on a GPU: exact products of the rows and columns concerned.

A dot product takes 20 to 60 ps a term on an H200; 49 products of planes would take 0.06 at 1600
TOP/s, and they with all that is around them 0.06 to 0.4. So rows and columns with a share of open
elements are multiplied again, with planes enough to round them correctly. What does not fit even
those is left to `gpu.repair`, as are elements here and there. Numbers of one word and of several go
the same way.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import torch

from widen import bounds
from widen.bounds import Goal
from widen.contract import CONTRACTS
from widen.formats import BINARY
from widen.gpu import tiles
from widen.gpu.constants import BYTE_BITS, MOST_BITS, NORM_TOO_LARGE
from widen.gpu.encode import encode_bytes, encode_words
from widen.gpu.kernels.triton import exact_products as kernels
from widen.gpu.kernels.triton.numbers import NORM, SCALE
from widen.gpu.kernels.triton.reconstruct import UNSETTLED
from widen.gpu.lines import quantise, survey_all
from widen.gpu.multiply import multiply
from widen.gpu.operands import ALL, Lines, Piece, Target, Tensor, picked, room_like, tensors_of
from widen.gpu.reconstruct import ResultBlock, reconstruct_any
from widen.gpu.repair import REPAIRED
from widen.gpu.replay.launch import launch
from widen.systems import residues

FEWEST_TERMS = 1 << 28
"""Elements with no more terms in all are repaired by dot products, whatever their pattern.

With 2^27 open terms, outliers of 1e4 in A at n = 4096, "standard" took 7.3 ms by products and 5.7
by dot products. A term of several words is as many as it has pairs of them.
"""

DENSE = 1 / 500
"""A row or column of which more than this share is open is computed again as a whole.

Both took as long with 1.6 % of all elements open at n = 2048, 0.2 % at 4096, 0.1 % at 8192.
"""

SCATTERED = 1 / 1000
"""Dot products of this share of all elements take as long as the planes of "correct" for them all.

That is 2.7 ms at n = 4096.
"""

PLAINLY = 1 / 16
"""From this share of open terms on, nobody looks for rows and columns: everything is."""

PICKED_SHARE = 0.8
"""Rows or columns are picked out if they, and dot products of the rest, take at most this share."""

STEPS = (144.0, 172.0, 224.0, 280.0, BYTE_BITS, 448.0, 640.0, 1024.0, MOST_BITS)
"""|X| that planes hold: a few sizes only, since kernels are compiled for each.

Numbers (rand - 0.5) exp(phi randn) need 160 bits at phi = 0.5, k = 2048, 165 at 4096, 168 at 8192,
and 213 at phi = 4, k = 2048. Planes beyond the bytes' are for numbers of several words.
"""

WORTHWHILE = 32
"""Rows and columns that a block must have, or dot products are faster."""

NOWHERE = 1 << 20
"""Further down than exponents of any number."""


Region = tuple[Piece, Piece]
"""Some rows and columns."""

EVERYTHING: list[Region] = [(ALL, ALL)]

Product = Callable[[ResultBlock], tuple[Tensor, int]]
"""Rounds a block's product into it; gives where it is the nearest number, and bytes it took."""


def fewest_terms(sides: tuple[Lines, Lines]) -> int:
    """`FEWEST_TERMS` of numbers of as many words as these have."""
    return FEWEST_TERMS // (len(sides[0].words) * len(sides[1].words))


def repair_by_products(
    block: ResultBlock, marks: Tensor, repaired: Tensor, found: list[Region], product: Product,
    workspace: int | None = None,
) -> int:  # fmt: skip
    """Repair elements of a block where many are open, by the products of their lines (`regions`).

    Of so many of them at a time as fit the workspace; of all if there is none.

    Reads the device. Gives the bytes of workspace it took.
    """
    most = 0
    for region in found:
        chunks = [region] if workspace is None else _chunks(region, block, workspace)
        for chunk in chunks:
            codes = picked(marks, *chunk)
            if codes.shape == marks.shape:
                used = _repair_everything(block, marks, repaired, product)
            else:
                used = _repair_some(block, marks, repaired, chunk, product)
            most = max(most, used)
    return most


def _repair_everything(
    block: ResultBlock, marks: Tensor, repaired: Tensor, product: Product
) -> int:
    fresh = room_like(block.out, tuple(marks.shape))
    exact, used = product(replace(block, out=fresh))
    others = torch.zeros(1, dtype=torch.int64, device=marks.device)
    take_settled(block, fresh, (~exact).view(torch.uint8), marks, repaired, others)
    return used


def _repair_some(
    block: ResultBlock, marks: Tensor, repaired: Tensor, region: Region, product: Product
) -> int:
    codes = picked(marks, *region).contiguous()
    wanted = codes == int(UNSETTLED)
    if int(wanted.sum()) <= DENSE * wanted.numel():
        return 0
    left, right = (x.cut(ALL, at) for x, at in zip(block.sides, region, strict=True))
    part = None if block.scaling is None else block.scaling.taken(*region)
    fresh = room_like(block.out, tuple(codes.shape))
    exact, used = product(replace(block, sides=(left, right), out=fresh, scaling=part))
    done = exact & wanted
    _copy_where(done, fresh, block.out, *region)
    marks[..., region[0], region[1]] = torch.where(done, REPAIRED, codes)
    repaired += done.sum()
    return used


def _copy_where(done: Tensor, fresh: Target, out: Target, rows: Piece, columns: Piece) -> None:
    """Write some elements of some rows and columns into a result."""
    for new, old in zip(tensors_of(fresh), tensors_of(out), strict=True):
        old[..., rows, columns] = torch.where(done, new, picked(old, rows, columns))


def take_settled(
    block: ResultBlock, fresh: Target, final: Tensor, marks: Tensor, repaired: Tensor,
    open_terms: Tensor,
) -> None:  # fmt: skip
    """Take over what another pass of all lines, `fresh`, has settled of what is to be repaired.

    `final` are the marks of that pass; `open_terms` counts terms of what it leaves open.
    """
    batch, m, n = marks.shape
    for ours, theirs in zip(tensors_of(fresh), tensors_of(block.out), strict=True):
        for at in itertools.product(*map(range, ours.shape[:-3])):
            batch_stride, row_stride, column_stride = theirs.stride()[-3:]
            launch(
                kernels.take, (batch * m * -(-n // tiles.TAKEN),),
                {
                    "fresh": ours[at], "out": theirs[at], "final": final, "marks": marks, "m": m,
                    "n": n, "batch_stride": batch_stride, "row_stride": row_stride,
                    "column_stride": column_stride, "COLUMNS": tiles.TAKEN,
                },
            )  # fmt: skip
    launch(
        kernels.settle, (-(-marks.numel() // tiles.SETTLED),),
        {
            "marks": marks, "final": final, "repaired": repaired, "open_terms": open_terms,
            "elements": marks.numel(), "terms": block.sides[0].shape[2],
            "ELEMENTS": tiles.SETTLED,
        },
    )  # fmt: skip


def regions(sides: tuple[Lines, Lines], marks: Tensor, open_terms: int) -> list[Region]:
    """Rows, and then columns, in which many elements are to be repaired; or EVERYTHING.

    Nothing, where there are few. Reads the device where the count does not say it.
    """
    k, fewest = sides[0].shape[2], fewest_terms(sides) // sides[0].shape[2]
    if open_terms > PLAINLY * marks.numel() * k:
        return EVERYTHING
    if int(marks.count_nonzero()) <= fewest:
        return []
    marked = marks == int(UNSETTLED)
    batch, m, n = marked.shape
    if batch > 1:
        enough = int(marked.sum()) > max(fewest, DENSE * marked.numel())
        return EVERYTHING if enough else []
    in_rows = marked[0].sum(1)
    rows = in_rows > DENSE * n
    in_columns = (marked[0] & ~rows[:, None]).sum(0)
    columns = in_columns > DENSE * m
    numbers = [rows.sum(), (in_rows * rows).sum(), columns.sum(), (in_columns * columns).sum()]
    high, above, wide, beside, total = torch.stack([*numbers, in_rows.sum()]).tolist()
    in_some_rows, in_some_columns = above > fewest, beside > fewest
    share = in_some_rows * high / m + in_some_columns * wide / n
    rest = total - in_some_rows * above - in_some_columns * beside
    if share + rest / (SCATTERED * m * n) > PICKED_SHARE:
        return EVERYTHING
    found: list[Region] = []
    if in_some_rows:
        found.append((rows.nonzero()[:, 0], ALL))
    if in_some_columns:
        found.append((ALL, columns.nonzero()[:, 0]))
    return found


def _chunks(region: Region, block: ResultBlock, workspace: int) -> Iterator[Region]:
    """Parts of a region whose copies, planes and residues fit the workspace."""
    sides, parts = block.sides, block.fmt.parts
    batch, _, k = sides[0].shape
    batch = max(batch, sides[1].shape[0])
    words = max(len(side.words) for side in sides)
    planes = residues(128, _most_bits(block), parts).planes[0]
    line, element = batch * (planes + 32 * parts * words) * (k + 16), batch * (planes + 32 * parts)
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


def _most_bits(block: ResultBlock) -> float:
    """Bits of X that planes may hold here."""
    return MOST_BITS if block.wide else BYTE_BITS


def exact_product(block: ResultBlock) -> tuple[Tensor, int]:
    """Round the product of a block's lines into it; give where it is the correctly rounded one.

    Lines keep every bit, or as many as two of their kind may have. The bytes this took come second.
    """
    sides, fmt = block.sides, block.fmt
    k, most = sides[0].shape[2], _most_bits(block)
    even = balanced(sides[0], sides[1])
    cap = math.floor((most - 4 - math.log2(k * fmt.parts)) / 2)
    goal = bounds.goal(CONTRACTS["correct"], fmt.precision, k, fmt.parts, cap)
    tables, norms, width = _quantised(even.sides, goal)
    bits = sum(max(norm, 0) for norm in norms) / 256
    layout = residues(128, next(step for step in STEPS if step >= min(bits, most)), fmt.parts)
    if layout.bases or any(side.block is not None for side in even.sides):
        planes = encode_words(even.sides, tables, layout, width)
    else:
        planes = encode_bytes(even.sides, tables, layout)
    groups = multiply(planes[0], planes[1], layout, k)
    # The kernels for any moduli: how many there are depends on the data, and one that is made for
    # 49 of them takes a minute to compile.
    final = replace(block, tables=even.final(tables), test=None)
    exact = reconstruct_any(groups, layout, final, None, slack=True) == 0
    held = (*(side.words for side in even.sides), *planes, *tensors_of(block.out))
    return exact, groups.nbytes + sum(x.nbytes for x in held)


def _quantised(
    sides: list[Lines], goal: Goal | None
) -> tuple[tuple[Tensor, Tensor], list[int], int]:
    """Tables of two operands, norms that planes must hold, and bits of the longest integer."""
    surveys = survey_all(sides, None, 0, [goal])
    ours, theirs = surveys.tables
    quantise(sides, (ours, theirs), goal, None, surveys.needs[0].unbind())
    needs = surveys.needs[0, :, :2].tolist()
    return (ours, theirs), [norm for norm, _ in needs], max(max(sigma for _, sigma in needs), 0) + 1


def _room(side: Lines) -> Tensor:
    """Room for other words in the place of lines, neighbours where these have them.

    Parts of a number lie side by side, as kernels that read both at once want them.
    """
    words, parts, batch, count, inner = side.words.shape
    shape = (inner, count) if side.lines_near else (count, inner)
    room = side.bits.new_empty((words, batch, *shape, parts), dtype=torch.int64)
    return (room.transpose(2, 3) if side.lines_near else room).movedim(-1, 1)


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
        out = _room(side)
        moved, lost = (
            torch.empty(side.count, dtype=torch.int32, device=out.device) for _ in range(2)
        )
        shape, grid = _tile(side)
        words, parts, _, lines, inner = out.shape
        out_word, out_part, out_batch, out_line, out_inner = out.stride()
        launch(
            kernels.balance, grid,
            {
                **side.named_words, **side.named_fields, **shape.named, "lines": lines,
                "inner": inner, "WORDS": words, "PARTS": parts, "out": out, "shifts": shifts,
                "moved": moved, "lost": lost, "out_word_stride": out_word,
                "out_part_stride": out_part, "out_batch_stride": out_batch,
                "out_line_stride": out_line, "out_inner_stride": out_inner,
            },
            warps=shape.warps,
        )  # fmt: skip
        several = None if side.block is None else out
        sides.append(Lines(out[0], BINARY["float64"], several, side.word_bits))
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
