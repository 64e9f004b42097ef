"""Exact products over several processes whose operands lie on GPUs: `exact` by residues as bytes.

The same steps as there, by the same names. Tables of lines are merged to those of whole lines,
every process multiplies to residues of its part of X, and the owners of elements add them up modulo
p and round once. What marks leave open is computed anew (`recompute`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch

from widen.distributed.exact import Members, Task, shared_stretch
from widen.distributed.wire import Wire
from widen.formats.arrays import format_of_array
from widen.gpu.batches import addend_lines, bits_of, is_half, lines_of, room_for
from widen.gpu.operands import Lines, cut, halves_of
from widen.gpu.partial import PartialSums, Sides, Tables
from widen.gpu.scaling import Scaling
from widen.gpu.whole_lines import (
    HIGHEST_ROWS,
    LARGEST_ROWS,
    SUMMED_ROWS,
    look_for_largest,
    look_for_norms,
    new_tables,
    scaled,
)

Tensor = torch.Tensor
Axes = Sequence[int]


def operand(task: Task, x: Tensor, side: str) -> Lines:
    """A tensor (batch, lines, inner) or (batch, inner, lines) as lines."""
    return lines_of(x, side, task.parts)


@dataclass(frozen=True)
class Answer:
    """Rounded numbers (batch, m, n), in the result's format, and which of them are open."""

    values: Tensor
    are_open: Tensor

    @cached_property
    def marks(self) -> np.ndarray[Any, Any]:
        """The open ones, on the host; one flag for all where there are none."""
        if not bool(self.are_open.any()):
            return np.broadcast_to(np.zeros((), bool), tuple(self.are_open.shape))
        return self.are_open.cpu().numpy()

    def replace(self, at: tuple[int, Any, Any], result: Tensor) -> None:
        """Take the elements that were open from a product of their rows and columns."""
        b, rows, columns = at
        where = self.values.device
        i, j = (torch.from_numpy(x).to(where) for x in (rows, columns))
        place = i[:, None], j[None, :]
        values, wanted = self.values[b], self.are_open[b][place]
        values[place] = torch.where(wanted, result, values[place])

    def tensor(self, result: object) -> Tensor:
        """The numbers."""
        return self.values


def tables_of(task: Task, sides: Sides, axes: tuple[Axes, Axes]) -> Tables:
    """Tables of whole lines, up to their norms; their stretches lie along these axes."""
    tables = new_tables(sides)
    look_for_largest(sides, tables)
    _merge(task.wire, tables, LARGEST_ROWS, "max", axes)
    look_for_norms(sides, tables)
    _merge(task.wire, tables, SUMMED_ROWS, "sum", axes)
    _merge(task.wire, tables, HIGHEST_ROWS, "max", axes)
    return tables


def _merge(
    wire: Wire, tables: Tables, rows: list[int], how: str, axes: tuple[Axes, Axes]
) -> None:  # fmt: skip
    """Merge rows of tables, both sides' at once where they lie along the same axes."""
    if tuple(axes[0]) == tuple(axes[1]):
        merged = wire.merge("scales", torch.cat([x[rows] for x in tables], 1), how, axes[0])
        parts = torch.split(merged, [x.shape[1] for x in tables], 1)
    else:
        parts = tuple(
            wire.merge("scales", table[rows], how, along)
            for table, along in zip(tables, axes, strict=True)
        )
    for table, part in zip(tables, parts, strict=True):
        table[rows] = part


def planned(task: Task, sides: Sides, tables: Tables, axes: Axes) -> PartialSums:
    """The plan, and what it makes of stretches; processes along the axes take the same."""
    lines = scaled(task.problem, sides, tables)
    agreed = task.wire.reduce("layout", lines.needs.cpu().numpy(), "max", axes)
    return lines.choose(agreed.tolist())


def inner_product(task: Task, left: Lines, right: Lines, members: Members) -> Answer:
    """The process's own elements of a product whose inner dimension is cut."""
    with _on(left):
        return _inner_product(task, (left, right), members)


def _on(x: Lines) -> AbstractContextManager[None]:
    """A context to launch kernels in, on the GPU where lines are."""
    device = x.bits.device
    return torch.cuda.device(device) if device.type == "cuda" else nullcontext()


def _inner_product(task: Task, sides: Sides, members: Members) -> Answer:
    wire, (batch, m, _, n) = task.wire, task.problem.shape
    me = members.numbers.index(wire.me)
    rows, columns = members.rows[me], members.columns[me]
    room = _Room(task, (batch, rows.stop - rows.start, columns.stop - columns.start), sides[0])
    if batch * m * n == 0:
        return room.answer()
    tables = tables_of(task, sides, (members.axes, members.axes))
    whole = planned(task, sides, tables, members.axes)
    for items, panel in _panels(task, whole):
        here = whole.cut(items, slice(0, m), panel)
        sums = here.start()
        here.add(sums, sides[0].cut(items, slice(0, m)), sides[1].cut(items, panel))
        packed = here.pack(sums)
        del sums
        received = _to_owners(wire, packed, members, panel)
        mine = shared_stretch(columns, panel)
        if received[0].numel():
            at = (items, slice(0, rows.stop - rows.start),
                  slice(mine.start - columns.start, mine.stop - columns.start))  # fmt: skip
            room.round(whole.cut(items, rows, mine), received, at)
    return room.answer()


def panel_product(
    task: Task, held: Sides, _starts: tuple[int, int], axes: tuple[Axes, Axes],
    panels: Iterator[tuple[Lines, Lines]],
) -> Answer:  # fmt: skip
    """A process's block of a product, from panels of the inner dimension one after the other.

    Scales are agreed on first, from stretches of its rows and columns that it and those along
    `axes` hold; where these begin does not matter.
    """
    batch, m, _, n = task.problem.shape
    with _on(held[0]):
        room = _Room(task, (batch, m, n), held[0])
        tables = tables_of(task, held, axes)
        if batch * m * n == 0:
            list(panels)  # others need what is sent with them
            return room.answer()
        whole = planned(task, held, tables, ())
        sums = whole.start()
        for left, right in panels:
            whole.add(sums, left, right)
        for items, columns in _panels(task, whole):
            own = whole.cut(items, slice(0, m), columns)
            packed = own.pack(sums.cut(items, columns))
            if packed.numel():
                room.round(own, [packed], (items, slice(0, m), columns))
        return room.answer()


class _Room:
    """Where rounded elements go, and their marks."""

    def __init__(self, task: Task, shape: tuple[int, int, int], like: Lines) -> None:
        self.task, where = task, like.bits.device
        self.values = room_for(task.result, shape, where)
        if self.values.is_complex():
            self.values.imag.zero_()
        self.bits = bits_of(self.values, task.parts)
        self.open = torch.zeros(shape, dtype=torch.bool, device=where)
        self.scaling = _scaling(task, where)

    def round(
        self, own: PartialSums, given: Sequence[Tensor], at: tuple[slice, slice, slice]
    ) -> None:
        """Round a block of the elements from what all processes packed of it."""
        scaling = None if self.scaling is None else self.scaling.taken(at[1], at[2], at[0])
        self.open[at] = own.round(given, cut(self.bits, *at), scaling)

    def answer(self) -> Answer:
        """What is there."""
        fmt = self.task.result
        return Answer(halves_of(self.values, fmt.name) if is_half(fmt) else self.values, self.open)


def _scaling(task: Task, where: torch.device) -> Scaling | None:
    """alpha, beta and c of this process's elements."""
    scalars = task.scalars
    if scalars.trivial:
        return None
    addend = None
    if scalars.c is not None:
        addend = addend_lines(scalars.c.to(where), format_of_array(scalars.c))
    return Scaling(scalars.alpha, scalars.beta, addend)


def _panels(task: Task, whole: PartialSums) -> Iterator[tuple[slice, slice]]:
    """Batch items and columns whose residues and bytes half of the workspace holds."""
    batch, m, _, n = task.problem.shape
    room = max(1, task.problem.workspace // (2 * whole.element_bytes))
    items = max(1, min(batch, room // max(1, m * n)))
    columns = max(1, min(n, room // max(1, m)))
    for b in range(0, batch, items):
        for j in range(0, n, columns):
            yield slice(b, min(b + items, batch)), slice(j, min(j + columns, n))


def _to_owners(wire: Wire, packed: Tensor, members: Members, panel: slice) -> list[Tensor]:
    """All members' bytes of this process's elements, (bytes, batch, rows, columns) each."""
    me = members.numbers.index(wire.me)

    def part(owner: int) -> Tensor:
        columns = shared_stretch(members.columns[owner], panel)
        at = slice(columns.start - panel.start, columns.stop - panel.start)
        return packed[:, :, members.rows[owner], at]

    own = part(me)
    outgoing = {}
    for owner, number in enumerate(members.numbers):
        data = part(owner)
        if owner != me and data.numel():
            outgoing[number] = data.reshape(-1)
    incoming = {x: own.numel() for x in members.numbers if x != wire.me and own.numel()}
    received = wire.exchange("exact parts", outgoing, incoming)
    return [own, *(data.to(own.device).view(own.shape) for data in received.values())]
