"""Lines looked at and scaled: tables of their exponents, norms and flags, and leading integers."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from widen import bounds
from widen.bounds import Certificate, Goal
from widen.encoded import Encoded
from widen.gpu import tiles
from widen.gpu.encode import held
from widen.gpu.kernels.triton import lines, lines_words, short_lines
from widen.gpu.operands import Lines, Tensor, on_sides
from widen.gpu.replay.launch import general, launch

ROWS_OF_TABLE = 10

EVERY_BIT = Goal(norm=0, root=1, shift=0)
"""What the kernel is given where lines are scaled to their last bit."""


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
    blocks = [x.blocks(tile) for x, tile in zip((left, right), shapes, strict=True)]
    shares = [tiles.share(inner, b, t.inner, parts) for b, t in zip(blocks, shapes, strict=True)]
    blocks = [b * -(-inner // share) for b, share in zip(blocks, shares, strict=True)]
    grid = (sum(blocks[: len(operands)]),)
    ours, theirs = (
        {**_named(x, table), **t.named, "share": share, "NEAR": far}
        for x, table, t, share, far in zip(
            (left, right), (tables[0], tables[-1]), shapes, shares, near, strict=True
        )
    )
    common = {**on_sides(ours, theirs), "left_blocks": blocks[0], "inner": inner, "PARTS": parts}
    warps = max(shape.warps for shape in shapes)
    launch(
        largest, grid,
        {
            **common, "LEFT_WIDTH": 8 * left.bits.element_size(),
            "RIGHT_WIDTH": 8 * right.bits.element_size(),
        },
        warps=warps,
    )  # fmt: skip
    launch(
        norms, grid,
        {
            **common, **_named_leads(tables, leads, kept),
            **on_sides(left.named_fields, right.named_fields), "pitch": left.pitch,
        },
        warps=warps,
    )  # fmt: skip


def _named(x: Lines, table: Tensor) -> dict[str, Any]:
    """Lines whose parts are side by side, and their table, as kernels name them."""
    return {**x.named_pairs, "table": table, "count": x.count, "lines": x.shape[1]}


def _named_leads(
    tables: Sequence[Tensor], leads: Sequence[Tensor] | None, kept: int
) -> dict[str, Any]:
    """Room for leading integers of both sides, as kernels name it; no bits if there is none."""
    room, bits = (tables, -1) if leads is None else (leads, kept)
    return {"left_leads": room[0], "right_leads": room[-1], "LEAD": bits}


def quantise(
    operands: Sequence[Lines], tables: Sequence[Tensor], goal: Goal | None,
    test: Certificate | None, needs: Sequence[Tensor],
) -> None:  # fmt: skip
    """The rest of the tables: exponents, flags, weights; `needs` says what planes must hold."""
    left, right = operands[0], operands[-1]
    inner, parts = left.bits.shape[3], left.bits.shape[0]
    wanted = EVERY_BIT if goal is None else goal
    divisor, unit = (1 << 23, 0) if test is None else (test.divisor, test.unit)
    blocks = [-(-x.count // 256) for x in operands]
    launch(
        lines.scale, (sum(blocks),),
        {
            **on_sides(left.named_fields, right.named_fields), "left_table": tables[0],
            "left_needs": needs[0], "left_count": left.count, "right_table": tables[-1],
            "right_needs": needs[-1], "right_count": right.count, "left_blocks": blocks[0],
            "goal_norm": wanted.norm, "root": wanted.root, "goal_shift": wanted.shift,
            "divisor": divisor, "unit": unit, "rounding": 0.5 * math.log2(2 * inner) - 1,
            "entries": inner * parts, "full": int(wanted.full), "LINES": 256,
        },
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
        largest, norms = lines_words.largest, lines_words.norms
        tile = tiles.line_tile(tiles.SURVEY[parts], x.lines_near, inner)
        if x.small:
            tile = tiles.SURVEY_SMALL[parts]
            largest, norms = general(largest), general(norms)
        blocks = x.blocks(tile)
        share = tiles.share(inner, blocks, tile.inner, 1)
        grid = (blocks * -(-inner // share),)
        common = {
            **x.named_words, **x.named_fields, **tile.named, "table": table, "count": x.count,
            "lines": count, "inner": inner, "share": share, "words": words, "PARTS": parts,
        }  # fmt: skip
        launch(largest, grid, common, warps=tile.warps)
        launch(
            norms, grid,
            {
                **common, "leads": table if leads is None else leads[at], "enough": enough,
                "pitch": x.pitch, "LEAD": -1 if leads is None else kept,
            },
            warps=tile.warps,
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
    programs = sum(x.blocks(tile) for x, tile in zip(operands, shapes, strict=True))
    return size <= tiles.SHORT_BYTES and programs >= tiles.SHORT_PROGRAMS


def survey_short(
    operands: Sequence[Lines], tables: Sequence[Tensor], leads: Sequence[Tensor] | None, kept: int,
    zeros: Tensor,
) -> None:  # fmt: skip
    """What `survey` does in one launch, which makes `zeros` 0; tables need not be before."""
    left, right = operands[0].paired, operands[-1].paired
    inner, parts = left.shape[2], left.bits.shape[0]
    shapes = _short_tiles((left, right))
    blocks = [x.blocks(tile) for x, tile in zip((left, right), shapes, strict=True)]
    ours, theirs = (
        {**_named(x, table), **x.named_fields, **t.named, "NEAR": x.lines_near}
        for x, table, t in zip((left, right), (tables[0], tables[-1]), shapes, strict=True)
    )
    launch(
        short_lines.survey, (sum(blocks[: len(operands)]),),
        {
            **on_sides(ours, theirs), **_named_leads(tables, leads, kept), "left_blocks": blocks[0],
            "inner": inner, "pitch": left.pitch, "zeros": zeros, "cleared": zeros.numel(),
            "PARTS": parts,
        },
        warps=max(shape.warps for shape in shapes),
    )  # fmt: skip


MOST_LINES = 1 << 27
"""Kernels have 32 bits for the places of their tables."""


@dataclass(frozen=True)
class Surveys:
    """Lines surveyed: tables, room for what they need, leading integers, a zero to count in."""

    tables: list[Tensor]
    needs: Tensor
    leads: tuple[Tensor, Tensor] | None
    repaired: Tensor


def survey_all(
    sources: Sequence[Lines | Encoded],
    test: Certificate | None,
    kept: int,
    goals: Sequence[Goal | None],
) -> Surveys:
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
    line_tables = [held(x).table if isinstance(x, Encoded) else next(known) for x in sources]
    both = None
    if leads is not None and len(sources) == 2:
        new = iter(leads)
        ours, theirs = (held(x).leads if isinstance(x, Encoded) else next(new) for x in sources)
        assert ours is not None
        assert theirs is not None
        both = (ours, theirs)
    elif leads is not None:
        both = (leads[0], leads[0])
    return Surveys(
        line_tables,
        arena[starts[-1] : -1].view(len(goals), 2, 5),
        both,
        arena[-1:].view(torch.int32)[:1],
    )
