"""Exact products over several processes: scales agreed on, parts of X summed, one rounding.

A process has a stretch of the inner dimension of a block of rows and columns (`inner_product`), or
sees the stretches of others pass (`panel_product`). Either way lines are scaled as whole lines are,
so that X is the integer that one process would have, and its rounding the same number. What is not
decided by X (elements that no certificate holds for, whose rounding is open, or whose row or column
has one entry) is computed anew from whole rows and columns, by the ordinary product: an element's
bits depend on its row, its column and the contract alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from widen.calls.cpu_tensors import as_array, as_tensor
from widen.cpu import stages
from widen.cpu.batches import lines, stack
from widen.cpu.operands import Array, Operand, Quantised, Survey
from widen.cpu.partial import (
    Packing,
    PartialSums,
    Piece,
    Sums,
    piece,
    whole_lines,
    width_of,
)
from widen.cpu.reconstruct import reconstruct
from widen.cpu.scaling import ScaledBlock, Scaling, scale_special
from widen.distributed.wire import Wire
from widen.formats import PLAIN, Format
from widen.formats.arrays import new_planes, numpy_dtype
from widen.plan import Plan
from widen.planner import Needs, element_bytes
from widen.stages.problem import Problem, Scalars
from widen.words import Words

NOBODY = -(1 << 62)
"""Below everything that processes may say."""


@dataclass(frozen=True)
class Whole:
    """A product of whole lines, as a problem sees them: how many lines, and how long."""

    shape: tuple[int, int, int]


@dataclass(frozen=True)
class Task:
    """What a process computes: numbers of a block, what it wants of them, and who takes part.

    Attributes
    ----------
    problem
        Contract, format and shape (batch, m, k, n) of the block; its operands are `Whole`.
    result
        Format of the result.
    scalars
        alpha, beta, and this process's own part of c.
    wire
        The processes.
    """

    problem: Problem[Any]
    result: Format
    scalars: Scalars
    wire: Wire

    @property
    def parts(self) -> int:
        """1, or 2 for complex numbers."""
        return self.problem.fmt.parts


def operand(task: Task, x: Any, side: str) -> Operand:
    """A tensor (or `Words`) as lines, (batch, lines, inner); all its batches are one axis."""
    numbers = stack(as_array(x))
    batch = task.problem.shape[0] if int(np.prod(numbers.shape[:-2])) > 1 else 1
    matrices = numbers.reshaped((batch, *numbers.shape[-2:]))
    assert matrices is not None, "batches were merged before"
    return lines(matrices, side, task.parts)


def surveys(
    task: Task, pieces: tuple[Piece, Piece], axes: tuple[Sequence[int], Sequence[int]]
) -> list[Survey]:
    """What is known of whole rows and columns; their pieces lie along these axes of the mesh."""
    merged = []
    for own, along in zip(pieces, axes, strict=True):
        extremes = task.wire.reduce("scales", own.extremes(), "max", along)
        sums = task.wire.reduce("scales", own.sums(extremes), "sum", along)
        merged.append(whole_lines(extremes, sums))
    return merged


def planned(
    task: Task, seen: list[Survey], axes: Sequence[int]
) -> tuple[tuple[Quantised, Quantised], Plan]:
    """Exponents and the plan; processes along the axes take that of the first of them.

    Exponents are decided in integers, so that all processes have the same. How many planes there
    are comes from a logarithm, which unlike machines may round differently.
    """
    quantised, plan = stages.planned(task.problem, seen)
    if not axes:
        return quantised, plan
    first = all(task.wire.place[axis] == 0 for axis in axes)
    said = [-1 if plan.cap is None else plan.cap, int(8 * plan.bits)]
    agreed = task.wire.reduce("layout", np.array(said if first else [NOBODY] * 2), "max", axes)
    cap, bits = None if agreed[0] < 0 else int(agreed[0]), int(agreed[1]) / 8
    if (cap, bits) == (plan.cap, plan.bits):
        return quantised, plan
    quantised, needed = stages.lines_at(task.problem, seen, cap)
    return quantised, stages.plan_for(task.problem, Needs((bits, 0.0), needed.widths), cap)


def partial_sums(task: Task, quantised: tuple[Quantised, Quantised], plan: Plan) -> PartialSums:
    """What becomes of a stretch of the inner dimension."""
    test = task.problem.test_of(plan.layout.dropped)
    if all(bool(side.exact.all()) for side in quantised):
        test = None  # X is the exact product
    special = any(bool(side.survey.special.any()) for side in quantised)
    packing = Packing(task.parts, width_of(plan.bits), test is not None, special)
    return PartialSums(plan, quantised, test, packing)


@dataclass
class Answer:
    """Rounded numbers, (words, parts, batch, m, n) in float64, and which of them are open."""

    values: Array
    marks: Array = field(init=False)

    def __post_init__(self) -> None:
        self.marks = np.zeros(self.values.shape[2:], bool)

    def round(self, task: Task, whole: PartialSums, given: Any, at: Any) -> None:
        """Put the elements of a block in their place, from groups, marks and special values."""
        groups, marks, special = given
        plan, quantised = whole.plan, whole.lines
        values = np.empty((*self.values.shape[:2], *groups.shape[1:]))
        scaling = _scaling(task, at, groups.shape[1:])
        unsettled = reconstruct(
            groups, plan.layout, quantised, task.problem.fmt.part, values,
            slack=plan.contract.correct and plan.cap is not None, scaling=scaling,
        )  # fmt: skip
        open_elements = unsettled if marks is None else marks
        rows, columns = (side.survey for side in quantised)
        if not plan.contract.correct:
            single = rows.single[:, :, None] | columns.single[:, None, :]
            exact = quantised[0].exact[:, :, None] & quantised[1].exact[:, None, :]
            open_elements = open_elements | (single & ~exact)
        beside = rows.special[:, :, None] | columns.special[:, None, :]
        if special is not None:
            np.copyto(values[0], special, where=beside)
            values[1:, :, np.broadcast_to(beside, values.shape[2:])] = 0.0
        if scaling is not None:
            scale_special(values, scaling, np.broadcast_to(beside, values.shape[2:]))
        self.values[:, :, *at] = values
        self.marks[at] = open_elements & ~beside

    def replace(self, at: tuple[int, Array, Array], result: Any) -> None:
        """Take the elements that were open from a product of their rows and columns."""
        b, rows, columns = at
        place: Any = (b, *np.ix_(rows, columns))
        wanted, parts = self.marks[place], self.values.shape[1]
        for word, value in enumerate(stack(as_array(result)).parts(parts)):
            for part in range(parts):
                target = self.values[word, part]
                target[place] = np.where(wanted, value[part], target[place])

    def tensor(self, result: Format) -> Any:
        """The numbers as a tensor (or `Words`) of the result's format."""
        _, parts, *shape = self.values.shape
        if result.name in PLAIN:
            out = np.zeros(shape, numpy_dtype(result.name))
            if result.parts == 1:
                out[...] = self.values[0, 0]
            else:
                out.real = self.values[0, 0]
                out.imag = self.values[0, 1] if parts == 2 else 0.0
            return as_tensor(out)
        fmt: Any = result
        planes = new_planes(fmt, (fmt.parts, *shape), None)
        for plane, value in zip(planes, self.values, strict=True):
            plane[...] = 0.0
            plane[:parts] = value
        return as_tensor(Words.of(fmt, planes))


def new_answer(task: Task, shape: tuple[int, int, int]) -> Answer:
    """Room for (batch, m, n) numbers."""
    words = len(task.problem.fmt.part.words)
    return Answer(np.zeros((words, task.parts, *shape)))


def _scaling(task: Task, at: Any, shape: tuple[int, ...]) -> ScaledBlock | None:
    """alpha, beta and c of a block."""
    scalars = task.scalars
    if scalars.trivial:
        return None
    if scalars.c is None:
        addend = (np.broadcast_to(np.zeros(()), (task.parts, *shape)),)
        return Scaling(scalars.alpha, scalars.beta, addend).cut((slice(None),) * 3)
    words = stack(as_array(scalars.c)).parts(task.parts)
    return Scaling(scalars.alpha, scalars.beta, words).cut(at)


# ── the inner dimension cut: parts of X go to their owners ───────────────────


@dataclass(frozen=True)
class Members:
    """Processes that have stretches of the same rows and columns, in their order.

    Attributes
    ----------
    numbers
        Their numbers in the mesh.
    inner
        First place and the one after the last of the inner dimension that each has.
    rows, columns
        Which elements of the block each owns in the end.
    axes
        Axes of the mesh along which they lie.
    """

    numbers: tuple[int, ...]
    inner: tuple[tuple[int, int], ...]
    rows: tuple[slice, ...]
    columns: tuple[slice, ...]
    axes: tuple[int, ...]


def inner_product(task: Task, left: Operand, right: Operand, members: Members) -> Answer:
    """The process's own elements of a product whose inner dimension is cut."""
    wire, (batch, m, *_) = task.wire, task.problem.shape
    me = members.numbers.index(wire.me)
    start = members.inner[me][0]
    pieces = piece(left, start), piece(right, start)
    seen = surveys(task, pieces, (members.axes, members.axes))
    quantised, plan = planned(task, seen, members.axes)
    whole = partial_sums(task, quantised, plan)
    rows, columns = members.rows[me], members.columns[me]
    answer = new_answer(task, (batch, rows.stop - rows.start, columns.stop - columns.start))
    for items, cut in _panels(task, whole):
        both = _cut(quantised, items, slice(0, m), cut)
        sums = PartialSums(plan, both, whole.test, whole.packing)
        size = items.stop - items.start, m, cut.stop - cut.start
        totals = sums.start(size)
        sums.add(totals, left.cut(items, slice(0, m)), right.cut(items, cut))
        packed = sums.pack(totals)
        del totals
        mine = shared_stretch(columns, cut)
        if packed.size:
            received = _to_owners(wire, packed, members, cut)
            if mine.stop > mine.start and rows.stop > rows.start:
                own = PartialSums(
                    plan, _cut(quantised, items, rows, mine), whole.test, whole.packing
                )
                at = (items, slice(None), slice(mine.start - columns.start,
                                                mine.stop - columns.start))  # fmt: skip
                answer.round(task, own, own.unpack(received), at)
    return answer


def _cut(
    quantised: tuple[Quantised, Quantised], items: slice, rows: slice, columns: slice
) -> tuple[Quantised, Quantised]:
    return quantised[0].cut(items, rows), quantised[1].cut(items, columns)


def shared_stretch(ours: slice, theirs: slice) -> slice:
    """What two stretches have in common, which may be nothing."""
    start = max(ours.start, theirs.start)
    return slice(start, max(start, min(ours.stop, theirs.stop)))


def _panels(task: Task, whole: PartialSums) -> Iterator[tuple[slice, slice]]:
    """Batch items and columns whose groups and bytes half of the workspace holds."""
    batch, m, _, n = task.problem.shape
    element = element_bytes(whole.plan.layout) + 4 + 2 * whole.packing.bytes
    room = max(1, task.problem.workspace // (2 * element))
    items = max(1, min(batch, room // max(1, m * n)))
    columns = max(1, min(n, room // max(1, m)))
    for b in range(0, batch, items):
        for j in range(0, n, columns):
            yield slice(b, min(b + items, batch)), slice(j, min(j + columns, n))


def _to_owners(wire: Wire, packed: Array, members: Members, cut: slice) -> Array:
    """All members' bytes of this process's elements, (members, batch, rows, columns, bytes)."""
    me = members.numbers.index(wire.me)

    def part(owner: int) -> Array:
        columns = shared_stretch(members.columns[owner], cut)
        at = slice(columns.start - cut.start, columns.stop - cut.start)
        return np.ascontiguousarray(packed[:, members.rows[owner], at])

    own = part(me)
    outgoing = {}
    for owner, number in enumerate(members.numbers):
        if owner != me:
            data = part(owner)
            if data.size:
                outgoing[number] = torch.from_numpy(data.reshape(-1))
    incoming = {x: own.size for x in members.numbers if x != wire.me and own.size}
    received = wire.exchange("exact parts", outgoing, incoming)
    every = np.empty((len(members.numbers), *own.shape), np.uint8)
    for at, number in enumerate(members.numbers):
        if number == wire.me:
            every[at] = own
        elif own.size:
            every[at] = received[number].cpu().numpy().reshape(own.shape)
    return every


# ── panels that pass: every process adds up its own block ────────────────────


def panel_product(
    task: Task, held: tuple[Operand, Operand], starts: tuple[int, int],
    axes: tuple[Sequence[int], Sequence[int]], panels: Iterator[tuple[Operand, Operand]],
) -> Answer:  # fmt: skip
    """A process's block of a product, from panels of the inner dimension one after the other.

    Scales are agreed on first, from stretches of its rows and columns that it and those along
    `axes` hold. Its own begin at `starts`.
    """
    batch, m, _, n = task.problem.shape
    seen = surveys(task, (piece(held[0], starts[0]), piece(held[1], starts[1])), axes)
    quantised, plan = planned(task, seen, ())
    whole = partial_sums(task, quantised, plan)
    answer = new_answer(task, (batch, m, n))
    sums: Sums = whole.start((batch, m, n))
    for left, right in panels:
        whole.add(sums, left, right)
    if answer.values.size:
        own = whole.unpack(whole.pack(sums)[None])
        answer.round(task, whole, own, (slice(None),) * 3)
    return answer
