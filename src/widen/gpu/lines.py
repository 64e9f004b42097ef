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
from widen.gpu import constants, tiles
from widen.gpu.encode import held
from widen.gpu.kernels.triton import lines, lines_words, short_lines, spans
from widen.gpu.kernels.triton import quantise as quantise_kernels
from widen.gpu.kernels.triton.numbers import MAGNITUDES as MAGNITUDES_LEAD
from widen.gpu.kernels.triton.numbers import SATURATED as SATURATED_LEAD
from widen.gpu.operands import Lines, Tensor, float64_bits, loose_on_sides, on_sides
from widen.gpu.replay.launch import Launching, assembly, general, launch, prepared
from widen.gpu.replay.meanwhile import soonest
from widen.gpu.short_tiles import SHORT, SHORT_PROGRAMS, ShortTile, Side, short_tiles

ROWS_OF_TABLE = 15
NEEDS = 8
"""What `quantise.scale` leaves of a side; then two counts that are made of a product."""
OPEN, HOPELESS = 6, 7
"""How many terms are left open, and how many sampled elements would be."""

MAGNITUDES = int(MAGNITUDES_LEAD)
"""Instead of a number of leading bits: magnitudes as bfloat16, for any lines."""

SATURATED = int(SATURATED_LEAD)
"""Added to a number of leading bits: those of numbers near the mean, for lines of wide spread."""

EVERY_BIT = Goal(norm=0, root=1, shift=0)
"""What the kernel is given where lines are scaled to their last bit."""


def survey(
    operands: Sequence[Lines], tables: Sequence[Tensor], leads: Sequence[Tensor] | None, kept: int,
    *, again: tuple[Tensor, int] | None = None,
) -> None:  # fmt: skip
    """Tables of lines (kernels/triton/numbers.py), zero before, up to their norms; and their leads.

    Leads alone where tables are known (`again`), and only if a number on the device is more than
    the one beside it. One operand or both: both take the same launches.
    """
    if again is None:
        find_largest(operands, tables)
    find_norms(operands, tables, leads, kept, again=again)


def find_largest(operands: Sequence[Lines], tables: Sequence[Tensor]) -> None:
    """The first row of tables: bits of the largest magnitude of every line."""
    _finding_largest(operands, tables).make()


def _finding_largest(operands: Sequence[Lines], tables: Sequence[Tensor]) -> Launching:
    left, right = operands[0].paired, operands[-1].paired
    kernel, grid, common, how = _looking(lines.largest, operands, tables)
    widths = {
        "LEFT_WIDTH": 8 * left.bits.element_size(), "RIGHT_WIDTH": 8 * right.bits.element_size(),
    }  # fmt: skip
    return prepared(kernel, grid, {**common, **widths}, **how)


def find_norms(
    operands: Sequence[Lines], tables: Sequence[Tensor], leads: Sequence[Tensor] | None, kept: int,
    *, again: tuple[Tensor, int] | None = None,
) -> None:  # fmt: skip
    """Norms and leads of lines whose largest magnitude is known, as `survey` has them."""
    _finding_norms(operands, tables, leads, kept, again=again).make()


def _finding_norms(
    operands: Sequence[Lines], tables: Sequence[Tensor], leads: Sequence[Tensor] | None, kept: int,
    *, again: tuple[Tensor, int] | None = None,
) -> Launching:  # fmt: skip
    left, right = operands[0].paired, operands[-1].paired
    kernel, grid, common, how = _looking(lines.norms, operands, tables)
    return prepared(
        kernel, grid,
        {
            **common, **_named_leads(tables, leads, kept), "SUMS": again is None,
            **on_sides(left.named_fields, right.named_fields), "pitch": left.pitch,
            "doubtful": tables[0] if again is None else again[0],
            "few": -1 if again is None else again[1],
        },
        **how,
    )  # fmt: skip


def _looking(
    kernel: Any, operands: Sequence[Lines], tables: Sequence[Tensor]
) -> tuple[Any, tuple[int], dict[str, Any], dict[str, Any]]:
    """A kernel that looks at every number: the kernel, its grid, what it is given, and how."""
    left, right = operands[0].paired, operands[-1].paired
    inner, parts = left.shape[2], left.bits.shape[0]
    small = left.small and right.small
    sides, blocks, warps = [], [], 0
    for x, table in ((left, tables[0]), (right, tables[-1])):
        near = x.lines_near and not small
        tile = tiles.matrix_tile(tiles.SURVEY[parts], near, x.shape[1], inner)
        tile = tiles.SURVEY_SMALL[parts] if small else tile
        share = tiles.share(inner, x.blocks(tile), tile.inner, parts)
        sides.append({**_named(x, table), **tile.named, "share": share, "NEAR": near})
        blocks.append(x.blocks(tile) * -(-inner // share))
        warps = max(warps, tile.warps)
    common = {**on_sides(*sides), "left_blocks": blocks[0], "inner": inner, "PARTS": parts}
    how = {"warps": warps, "loose": loose_on_sides(left, right)}
    return general(kernel) if small else kernel, (sum(blocks[: len(operands)]),), common, how


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
    test: Certificate | None, needs: Sequence[Tensor], *, k: int | None = None,
) -> None:  # fmt: skip
    """The rest of the tables: exponents, flags, weights; `needs` says what planes must hold.

    Of lines as long as the operands are, or of length `k`, of which these are stretches.
    """
    left, right = operands[0], operands[-1]
    inner, parts = left.bits.shape[3] if k is None else k, left.bits.shape[0]
    wanted = EVERY_BIT if goal is None else goal
    rungs = constants.rungs(left.bits.device)
    blocks = [-(-x.count // 256) for x in operands]
    launch(
        quantise_kernels.scale, (sum(blocks),),
        {
            **on_sides(left.named_fields, right.named_fields), "left_table": tables[0],
            "left_needs": needs[0], "left_count": left.count, "right_table": tables[-1],
            "right_needs": needs[-1], "right_count": right.count, "left_blocks": blocks[0],
            "goal_norm": wanted.norm, "root": wanted.root, "goal_shift": wanted.shift,
            "spread": wanted.spread, "rungs": rungs,
            "filled": len(bounds.RUNGS) if wanted.filled else 0,
            "weight": float64_bits(1.0 if test is None else test.line),
            "rounding": 0.5 * math.log2(2 * inner) - 1, "inner": inner,
            "entries": inner * parts, "full": int(wanted.full), "LINES": 256,
        },
        warps=8,
    )  # fmt: skip


def find_spans(operands: Sequence[Lines], tables: Sequence[Tensor]) -> None:
    """Rows of the tables that say where entries are that are not 0, of lines that have zeros."""
    for x, table in zip(operands, tables, strict=True):
        parts, _, count, inner = x.bits.shape
        tile = tiles.line_tile(tiles.SURVEY[parts], x.lines_near, inner)
        launch(
            spans.spans, (x.blocks(tile),),
            {
                **x.named_bits, **x.named_fields, **tile.named, "table": table, "count": x.count,
                "lines": count, "inner": inner, "entries": inner * parts, "PARTS": parts,
            },
            warps=tile.warps, loose=x.loose(even=x.even),
        )  # fmt: skip


def survey_words(
    operands: Sequence[Lines], tables: Sequence[Tensor], leads: Sequence[Tensor] | None, kept: int,
    enough: int, *, known: bool = False,
) -> None:  # fmt: skip
    """Tables of lines, zero before, up to their norms; and their leads, alone if they are `known`.

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
        grid, loose = (blocks * -(-inner // share),), x.loose(even=x.even)
        common = {
            **x.named_words, **x.named_fields, **tile.named, "table": table, "count": x.count,
            "lines": count, "inner": inner, "share": share, "words": words, "PARTS": parts,
        }  # fmt: skip
        if not known:
            launch(largest, grid, common, warps=tile.warps, loose=loose)
        launch(
            norms, grid,
            {
                **common, "leads": table if leads is None else leads[at], "enough": enough,
                "pitch": x.pitch, "LEAD": -1 if leads is None else kept, "SUMS": not known,
            },
            warps=tile.warps, loose=loose,
        )  # fmt: skip


def _short_tiles(operands: Sequence[Lines]) -> tuple[ShortTile, ...]:
    """The tiles with which a program can look at whole lines."""
    sides = [Side(x.bits.element_size(), x.bits.shape[0], x.lines_near) for x in operands]
    return short_tiles(tuple(sides), operands[0].shape[2])


def are_short(operands: Sequence[Lines]) -> bool:
    """Whether `survey_short` will do for operands: short lines, and many of them."""
    if max(x.bits.shape[0] * x.shape[2] for x in operands) > SHORT:
        return False
    programs = map(Lines.blocks, operands, _short_tiles(operands))
    return sum(programs) >= SHORT_PROGRAMS


def survey_short(
    operands: Sequence[Lines], tables: Sequence[Tensor], leads: Sequence[Tensor] | None, kept: int,
    zeros: Tensor,
) -> None:  # fmt: skip
    """What `survey` does in one launch, which makes `zeros` 0; tables need not be before.

    While its kernel is compiled elsewhere, the two of `survey` answer.
    """

    def in_two() -> list[Launching]:
        for x in (*tables, zeros):
            x.zero_()
        norms = _finding_norms(operands, tables, leads, kept)
        return [_finding_largest(operands, tables), norms]

    soonest([_looking_once(operands, tables, leads, kept, zeros)], in_two)


def _looking_once(
    operands: Sequence[Lines], tables: Sequence[Tensor], leads: Sequence[Tensor] | None, kept: int,
    zeros: Tensor,
) -> Launching:  # fmt: skip
    left, right = operands[0].paired, operands[-1].paired
    inner, parts = left.shape[2], left.bits.shape[0]
    ours, theirs = _short_tiles((left, right))
    sides = [
        {**_named(x, table), **x.named_fields, **tile.named, "NEAR": x.lines_near}
        for x, table, tile in ((left, tables[0], ours), (right, tables[-1], theirs))
    ]  # fmt: skip
    blocks = [left.blocks(ours), right.blocks(theirs)]
    return prepared(
        short_lines.survey, (sum(blocks[: len(operands)]),),
        {
            **on_sides(*sides), **_named_leads(tables, leads, kept), "left_blocks": blocks[0],
            "inner": inner, "pitch": left.pitch, "zeros": zeros, "cleared": zeros.numel(),
            "PARTS": parts, "ASSEMBLY": assembly(left.bits.device),
        },
        warps=ours.warps, loose=loose_on_sides(left, right),
    )  # fmt: skip


def _room_for_leads(operands: Sequence[Lines], kept: int) -> list[Tensor]:
    """Room for leading integers, or for magnitudes."""
    kind = torch.bfloat16 if kept == MAGNITUDES else torch.int8
    return [
        torch.empty((1, *x.shape[:2], x.pitch), dtype=kind, device=x.bits.device) for x in operands
    ]


def leads_again(
    operands: Sequence[Lines], tables: Sequence[Tensor], kept: int, doubtful: Tensor, few: int = -1
) -> tuple[Tensor, Tensor]:
    """Other leads of two operands whose lines were surveyed: SATURATED ones, or MAGNITUDES.

    Undefined where a count on the device, `doubtful`, is not more than `few`.
    """
    leads = _room_for_leads(operands, kept)
    if any(x.block is not None for x in operands):
        survey_words(operands, tables, leads, kept, 0, known=True)
    else:
        survey(operands, tables, leads, kept, again=(doubtful, few))
    ours, theirs = leads
    return ours, theirs


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
    # Even: what follows begins at multiples of 16 bytes, and kernels are not compiled for others.
    sizes = [ROWS_OF_TABLE * source.count // 2 * 2 + 2 for source in fresh]
    several = any(x.block is not None for x in fresh)
    short = bool(fresh) and not several and are_short(fresh)
    take = torch.empty if short else torch.zeros
    arena = take(sum(sizes) + len(goals) * 2 * NEEDS + 1, dtype=torch.int64, device=device)
    starts = [0, *itertools.accumulate(sizes)]
    tables = [
        arena[start : start + ROWS_OF_TABLE * source.count].view(ROWS_OF_TABLE, -1)
        for start, source in zip(starts, fresh, strict=False)
    ]
    leads = None if test is None else _room_for_leads(fresh, kept)
    if short:
        survey_short(fresh, tables, leads, kept, arena[starts[-1] :])
    elif several:
        survey_words(fresh, tables, leads, kept, max(bounds.highest(goal) for goal in goals))
    elif fresh:
        survey(fresh, tables, leads, kept)
    known = iter(tables)
    line_tables = [held(x).table if isinstance(x, Encoded) else next(known) for x in sources]
    both = None
    if leads is not None:
        new = iter(leads)
        every = [held(x).leads if isinstance(x, Encoded) else next(new) for x in sources]
        ours, theirs = every[0], every[-1]
        assert ours is not None
        assert theirs is not None
        both = (ours, theirs)
    needs = arena[starts[-1] : -1].view(len(goals), 2, NEEDS)
    return Surveys(line_tables, needs, both, arena[-1:].view(torch.int32)[:1])


def surveyed(tables: tuple[Tensor, Tensor], goals: int) -> Surveys:
    """Surveys of lines that have tables, in copies of these."""
    ours, theirs = tables
    needs = torch.zeros((goals, 2, NEEDS), dtype=torch.int64, device=ours.device)
    repaired = torch.zeros(1, dtype=torch.int32, device=ours.device)
    return Surveys([ours.clone(), theirs.clone()], needs, None, repaired)
