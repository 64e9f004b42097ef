"""Lines looked at and scaled: tables of their exponents, norms and flags, and leading integers."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import astuple, dataclass

import torch

from widen import bounds
from widen.bounds import Certificate, Goal
from widen.encoded import Encoded
from widen.gpu import tiles
from widen.gpu.encode import held
from widen.gpu.kernels.triton import (
    lines,
)
from widen.gpu.kernels.triton import short_lines as short_kernels
from widen.gpu.kernels.triton import words as line_kernels
from widen.gpu.operands import Lines, Tensor
from widen.gpu.replay.launch import general, launch

ROWS_OF_TABLE = 10


def survey(
    operands: Sequence[Lines], tables: Sequence[Tensor], leads: Sequence[Tensor] | None, kept: int
) -> None:
    """Tables of lines (kernels/triton/numbers.py), zero before, up to their norms; and their leads.

    One operand or both: both take the same launches.
    """
    left, right = operands[0].paired, operands[-1].paired
    inner, parts = left.shape[2], left.bits.shape[0]
    small = left.small and right.small
    near = [x.lines_near and not small for x in (left, right)]
    shapes = [
        tiles.matrix_tile(tiles.SURVEY[parts], far, x.shape[1], inner)
        for far, x in zip(near, (left, right), strict=True)
    ]
    largest, norms = lines.largest, lines.norms
    if small:
        shapes = [tiles.SURVEY_SMALL[parts]] * 2
        largest, norms = general(largest), general(norms)
    blocks = [
        x.shape[0] * -(-x.shape[1] // t.lines) for x, t in zip((left, right), shapes, strict=True)
    ]
    shares = [tiles.share(inner, b, t.inner, parts) for b, t in zip(blocks, shapes, strict=True)]
    blocks = [b * -(-inner // share) for b, share in zip(blocks, shares, strict=True)]
    grid = (sum(blocks[: len(operands)]),)
    edges = tuple(
        edge for far, t in zip(near, shapes, strict=True) for edge in (far, t.lines, t.inner)
    )
    ours = (left.bits, tables[0], left.count, left.shape[1], *left.bits.stride()[1:])
    theirs = (right.bits, tables[-1], right.count, right.shape[1], *right.bits.stride()[1:])
    widths = (8 * left.bits.element_size(), 8 * right.bits.element_size())
    launch(
        largest, grid, (*ours, *theirs, blocks[0], *shares, inner), (parts, *widths, *edges),
        max(shape.warps for shape in shapes),
    )  # fmt: skip
    first, last = tables[0], tables[-1]
    if leads is not None:
        first, last = leads[0], leads[-1]
    launch(
        norms, grid,
        (*ours[:2], first, *ours[2:], *theirs[:2], last, *theirs[2:], blocks[0], *shares, inner,
         left.pitch),
        (parts, *left.fields, *right.fields, -1 if leads is None else kept, *edges),
        max(shape.warps for shape in shapes),
    )  # fmt: skip


def quantise(
    operands: Sequence[Lines], tables: Sequence[Tensor], goal: Goal | None,
    test: Certificate | None, needs: Sequence[Tensor],
) -> None:  # fmt: skip
    """The rest of the tables: exponents, flags, weights; `needs` says what planes must hold."""
    left, right = operands[0], operands[-1]
    inner, parts = left.bits.shape[3], left.bits.shape[0]
    norm, root, shift, full = (0, 1, 0, False) if goal is None else astuple(goal)
    divisor, unit = (1 << 23, 0) if test is None else (test.divisor, test.unit)
    blocks = [-(-x.count // 256) for x in operands]
    launch(
        lines.scale, (sum(blocks),),
        (tables[0], needs[0], left.count, tables[-1], needs[-1], right.count, blocks[0], norm, root,
         shift, divisor, unit, 0.5 * math.log2(2 * inner) - 1, inner * parts, int(full)),
        (*left.fields, *right.fields, 256),
    )  # fmt: skip


def survey_words(
    operands: Sequence[Lines], tables: Sequence[Tensor], leads: Sequence[Tensor] | None, kept: int,
    enough: int,
) -> None:  # fmt: skip
    """Tables of lines, zero before, up to their norms; and their leads.

    No line will be scaled so that its largest number is 2^enough or more.
    """
    for at, (x, table) in enumerate(zip(operands, tables, strict=True)):
        _, count, inner = x.shape
        words, parts = x.words.shape[:2]
        largest, norms = line_kernels.largest, line_kernels.norms
        tile = tiles.line_tile(tiles.SURVEY[parts], x.lines_near, inner)
        if x.small:
            tile = tiles.SURVEY_SMALL[parts]
            largest, norms = general(largest), general(norms)
        blocks = x.shape[0] * -(-count // tile.lines)
        share = tiles.share(inner, blocks, tile.inner, 1)
        grid = (blocks * -(-inner // share),)
        strides, shape = x.words.stride(), (tile.lines, tile.inner)
        launch(
            largest, grid, (x.words, table, x.count, count, inner, share, *strides, words),
            (parts, *x.fields, *shape), tile.warps,
        )  # fmt: skip
        launch(
            norms, grid,
            (x.words, table, table if leads is None else leads[at], x.count, count, inner, share,
             *strides, words, enough, x.pitch),
            (parts, *x.fields, -1 if leads is None else kept, *shape), tile.warps,
        )  # fmt: skip


def _short_tiles(operands: Sequence[Lines]) -> list[tiles.LineTile]:
    """Tiles of both operands (or of one, twice) if a program can look at a whole line."""
    parts, inner = operands[0].bits.shape[0], operands[0].shape[2]
    sizes = [x.bits.element_size() * parts for x in (operands[0], operands[-1])]
    return [
        tiles.matrix_tile(tiles.short_tiles(size, parts, inner), x.lines_near, x.shape[1], inner)
        for size, x in zip(sizes, (operands[0], operands[-1]), strict=True)
    ]


def are_short(operands: Sequence[Lines]) -> bool:
    """Whether `survey` will do for operands: short lines, and many of them."""
    size = max(x.bits.element_size() * x.bits.shape[0] * x.shape[2] for x in operands)
    shapes = _short_tiles(operands)[: len(operands)]
    programs = sum(
        x.shape[0] * -(-x.shape[1] // t.lines) for x, t in zip(operands, shapes, strict=True)
    )
    return size <= tiles.SHORT_BYTES and programs >= tiles.SHORT_PROGRAMS


def survey_short(
    operands: Sequence[Lines], tables: Sequence[Tensor], leads: Sequence[Tensor] | None, kept: int,
    zeros: Tensor,
) -> None:  # fmt: skip
    """What `survey` does in one launch, which makes `zeros` 0; tables need not be before."""
    left, right = operands[0].paired, operands[-1].paired
    inner, parts = left.shape[2], left.bits.shape[0]
    shapes = _short_tiles((left, right))
    blocks = [
        x.shape[0] * -(-x.shape[1] // t.lines) for x, t in zip((left, right), shapes, strict=True)
    ]
    first, last = (tables[0], tables[-1]) if leads is None else (leads[0], leads[-1])
    launch(
        short_kernels.survey, (sum(blocks[: len(operands)]),),
        (left.bits, tables[0], first, left.count, left.shape[1], *left.bits.stride()[1:],
         right.bits, tables[-1], last, right.count, right.shape[1], *right.bits.stride()[1:],
         blocks[0], inner, left.pitch, zeros, zeros.numel()),
        (parts, *left.fields, *right.fields, -1 if leads is None else kept,
         left.lines_near, shapes[0].lines, shapes[0].inner, right.lines_near, shapes[1].lines,
         shapes[1].inner),
        max(shape.warps for shape in shapes),
    )  # fmt: skip


MOST_LINES = 1 << 27
"""Kernels have 32 bits for the places of their tables."""


@dataclass(frozen=True)
class LookedAt:
    """Lines surveyed: tables, room for what they need, leading integers, a zero to count in."""

    tables: list[Tensor]
    needs: Tensor
    leads: tuple[Tensor, Tensor] | None
    repaired: Tensor


def look_at(
    sources: Sequence[Lines | Encoded],
    test: Certificate | None,
    kept: int,
    goals: Sequence[Goal | None],
) -> LookedAt:
    """Surveys of operands, room for their needs, leading integers if a test wants them; a zero.

    They will be scaled by each of the goals.
    """
    fresh = [source for source in sources if not isinstance(source, Encoded)]
    first = sources[0]
    device = held(first).planes.device if isinstance(first, Encoded) else first.bits.device
    if any(source.count >= MOST_LINES for source in fresh):
        raise ValueError(f"{MOST_LINES} rows or columns in all are too many; give parts of them")
    sizes = [ROWS_OF_TABLE * source.count for source in fresh]
    several = any(x.block is not None for x in fresh)
    short = bool(fresh) and not several and are_short(fresh)
    take = torch.empty if short else torch.zeros
    arena = take(sum(sizes) + len(goals) * 2 * 5 + 1, dtype=torch.int64, device=device)
    starts = [0, *itertools.accumulate(sizes)]
    tables = [
        arena[start:stop].view(ROWS_OF_TABLE, -1) for start, stop in itertools.pairwise(starts)
    ]
    leads = None
    if test is not None:
        planes = 1 if kept <= 7 else 2
        leads = [
            torch.empty((planes, *x.shape[:2], x.pitch), dtype=torch.int8, device=device)
            for x in fresh
        ]
    if short:
        survey_short(fresh, tables, leads, kept, arena[starts[-1] :])
    elif several:
        survey_words(fresh, tables, leads, kept, max(bounds.highest(goal) for goal in goals))
    elif fresh:
        survey(fresh, tables, leads, kept)
    known = iter(tables)
    found = [held(x).table if isinstance(x, Encoded) else next(known) for x in sources]
    both = None
    if leads is not None and len(sources) == 2:
        new = iter(leads)
        ours, theirs = (held(x).leads if isinstance(x, Encoded) else next(new) for x in sources)
        assert ours is not None
        assert theirs is not None
        both = (ours, theirs)
    elif leads is not None:
        both = (leads[0], leads[0])
    return LookedAt(
        found, arena[starts[-1] : -1].view(len(goals), 2, 5), both, arena[-1:].view(torch.int32)[:1]
    )
