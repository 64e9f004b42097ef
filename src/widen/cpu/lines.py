"""Lines looked at and scaled: exponents of first and last bits, integer norms, what planes need."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import astuple
from functools import lru_cache

import numpy as np

from widen import bounds
from widen.bounds import Goal
from widen.cpu import kernels
from widen.cpu.encode import CONVERSION
from widen.cpu.operands import FACTS, NOTHING, Array, Operand, Quantised, Survey
from widen.cpu.threads import SMALL, launch, share
from widen.planner import Needs

LINES_TILE = 128
"""How many lines are one job of some kernels."""

NEAR_LINES = 512
"""How many lines are one job of a survey where neighbouring lines are neighbours in memory.

It then reads 4 KiB at a time; with 128 lines, 1 x 4096 x 4096 takes twice as long.
"""


def survey(operand: Operand, goal: Goal | None = None, room: int = CONVERSION) -> Survey:
    """Look at every line: exponents of its first and last bits, and its integer norms.

    With a goal, the last bit is only looked for in lines that the goal may keep exactly. Other
    formats are converted to float64 in pieces of `room` bytes.
    """
    batch, lines, _ = operand.shape
    facts = Survey(np.empty((FACTS, batch, lines), np.int64), np.empty((batch, lines), bool))
    step = max(1, lines if operand.viewed else room // (2 * operand.bytes_a_line))
    for start in range(0, lines, step):
        stretch = slice(start, min(start + step, lines))
        part = operand if step >= lines else operand.cut(slice(None), stretch)
        bits = part.joined_bits()
        seen = _as_array(None if part.lower else goal)  # the last bits are those of other words
        launch(
            kernels.lines.survey, _tiles(part, part.lines_near), bits.size, bits, part.lines_near,
            seen, facts.facts[:, :, stretch], facts.special[:, stretch],
        )  # fmt: skip
        if goal is None:
            facts.last[:, stretch] = balanced_survey(part, np.zeros(part.shape[2], np.int64)).last
        elif part.lower:
            _last_bits(part, goal, facts, stretch)
    return facts


def survey_both(operands: Sequence[Operand], goal: Goal | None, room: int) -> list[Survey]:
    """`survey` of one or both sides; at the same time, where each side is a single line.

    A dot product of long vectors would keep one core busy otherwise.
    """
    alone = all(operand.shape[0] * operand.shape[1] == 1 for operand in operands)
    size = sum(operand.nbytes // 8 for operand in operands)
    if len(operands) < 2 or not alone or size <= SMALL:
        return [survey(operand, goal, room) for operand in operands]
    seen: dict[int, Survey] = {}

    def look(begin: int, end: int) -> None:
        for at in range(begin, end):
            seen[at] = survey(operands[at], goal, room)

    share(look, len(operands))
    return [seen[at] for at in range(len(operands))]


def _last_bits(operand: Operand, goal: Goal, facts: Survey, stretch: slice) -> None:
    """The last bits of lines of several words, lowest words first: most lines end there."""
    last = np.full(facts.last[:, stretch].shape, -NOTHING)
    for bits in reversed(operand.word_bits()):
        launch(
            kernels.lines.last_bits, _tiles(operand), operand.shape[1], bits, _as_array(goal),
            facts.facts[:, :, stretch], last,
        )  # fmt: skip
    facts.last[:, stretch] = last


def balanced_survey(operand: Operand, shift: Array) -> Survey:
    """First and last bits of lines whose entry h stands for x 2^shift[h]; no norms.

    The first bit of several words is that of the first word, which may be one above the value's.
    """
    shape = operand.shape[:2]
    facts, special = np.zeros((FACTS, *shape), np.int64), np.zeros(shape, bool)
    seen = Survey(facts, special)
    top, last = seen.top, seen.last
    top[...], last[...] = NOTHING, -NOTHING
    for bits in (bits for of_word in operand.word_bits() for bits in of_word):
        launch(
            kernels.lines.extremes, _tiles(operand), bits.size,
            bits, operand.lines_near, shift, top, last, special,
        )  # fmt: skip
    empty = special | (top == NOTHING)
    top[empty], last[empty] = 0, 0
    return seen


def _tiles(operand: Operand, near: bool = False) -> int:
    batch, lines, _ = operand.shape
    return batch * -(-lines // (NEAR_LINES if near else LINES_TILE))


@lru_cache(maxsize=64)
def _as_array(goal: Goal | None) -> Array:
    """A goal as kernels read it, with the rungs that it fills; a norm of 0 stands for none."""
    if goal is None:
        return np.array((0, 1, 0, 0, 0), np.int64)
    *settings, filled = astuple(goal)
    return np.array((*settings, *(bounds.RUNGS if filled else ())), np.int64)


def quantise(facts: Survey, goal: Goal | None) -> Quantised:
    """Exponents by `bounds.goal`."""
    shape = facts.top.shape
    exponents, exact, norm = np.empty(shape, np.int64), np.empty(shape, bool), np.empty(shape)
    launch(
        kernels.lines.scale, shape[0], exponents.size, facts.facts, facts.special, _as_array(goal),
        exponents, exact, norm,
    )  # fmt: skip
    return Quantised(facts, exponents, exact, norm)


def needs(left: Quantised, right: Quantised, k: int) -> Needs:
    """What planes must hold: |a'| <= 2^width, and log2 of the largest 2-norms."""
    ours, theirs = _side_needs(left, k), _side_needs(right, k)
    return Needs((ours[0], theirs[0]), (ours[1], theirs[1]))


def _side_needs(lines: Quantised, k: int) -> tuple[float, int]:
    norm = float(lines.norm.max(initial=-np.inf))
    if norm == -np.inf:
        return 0.0, 0
    # ||a'|| <= 2^norm + sqrt(2k)/2; floats err by far less than the margin.
    rounding = 0.5 * math.log2(2 * max(k, 1)) - 1
    least, most = sorted((norm, rounding))
    norm = most + math.log2(1 + 2.0 ** (least - most))
    # The sigma of an empty line is 0 or NOTHING, which is no width.
    return norm + 1e-6, max(int(lines.sigma.max()) + 1, 1)


def exact_needs(left: Quantised, right: Quantised, entries: int) -> Needs:
    """The same where norms were not taken: `entries` numbers of magnitude up to 2^width a line."""
    widths = [max(int(side.sigma.max()) + 1, 1) for side in (left, right)]
    norms = [width + 0.5 * np.log2(entries) for width in widths]
    return Needs((norms[0], norms[1]), (widths[0], widths[1]))
