"""Elements that exact parts leave open, computed anew from whole rows and columns."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import torch

from widen.cpu.operands import Array
from widen.distributed.exact import Task
from widen.distributed.wire import Wire, as_bytes, from_bytes
from widen.words import Words

Product = Callable[[list[Any], list[Any], Any], Any]
"""The ordinary product of planes of rows, planes of columns and an addend, or None."""


@dataclass(frozen=True)
class Stretches:
    """The same lines, of which several processes have a stretch of the inner dimension each.

    Attributes
    ----------
    planes
        This process's: tensors (batch, m, k) or (batch, k, n), with parts before them for words.
    axis
        That of the lines: -2 for rows, -1 for columns.
    numbers, inner
        The processes by their numbers in the mesh, and the stretch that each has.
    """

    planes: list[Any]
    axis: int
    numbers: tuple[int, ...]
    inner: tuple[tuple[int, int], ...]

    @property
    def along(self) -> int:
        """The axis of the inner dimension."""
        return -3 - self.axis

    def length(self, number: int) -> int:
        """How long a process's stretch is."""
        start, stop = self.inner[self.numbers.index(number)]
        return stop - start

    def chosen(self, b: int, flags: Array) -> list[Any]:
        """Some lines of a batch item, of every plane."""
        lines = torch.from_numpy(np.flatnonzero(flags)).to(self.planes[0].device)
        return [
            x.select(-3, b if x.shape[-3] > 1 else 0).index_select(self.axis, lines)
            for x in self.planes
        ]

    def gathered(self, wire: Wire, needed: Array) -> list[list[Any]]:
        """Whole lines that this process needs, (batch, lines): planes of every batch item."""
        if self.planes[0].shape[-3] == 1:  # one matrix for all items
            needed = np.asarray(needed.any(axis=0, keepdims=True))
        others = [number for number in self.numbers if number != wire.me]
        own = torch.from_numpy(needed.astype(np.uint8).reshape(-1))
        flags = wire.exchange(
            "repair", dict.fromkeys(others, own), dict.fromkeys(others, own.numel())
        )
        outgoing, incoming = {}, {}
        for other in others:
            theirs = flags[other].cpu().numpy().reshape(needed.shape) > 0
            parts = [
                as_bytes(part.contiguous())
                for b, of_item in enumerate(theirs)
                for part in self.chosen(b, of_item)
            ]
            data = torch.cat(parts)
            if data.numel():
                outgoing[other] = data
            size = sum(self._size(plane, other) * int(needed.sum()) for plane in self.planes)
            if size:
                incoming[other] = size
        received = wire.exchange("repair", outgoing, incoming)
        return self._put_together(wire, needed, received)

    def _size(self, plane: Any, number: int) -> int:
        """Bytes of a line of a plane in another process."""
        parts = plane.shape[0] if plane.ndim == 4 else 1
        return int(parts * plane.element_size() * self.length(number))

    def _put_together(self, wire: Wire, needed: Array, received: dict[int, Any]) -> list[list[Any]]:
        starts = dict.fromkeys(self.numbers, 0)
        order = sorted(range(len(self.numbers)), key=lambda at: self.inner[at])
        items = []
        for b, flags in enumerate(needed):
            own = self.chosen(b, flags)
            stretches = []
            for at in order:
                number = self.numbers[at]
                if number == wire.me:
                    stretches.append(own)
                    continue
                pieces = []
                for like in own:
                    shape = list(like.shape)
                    shape[self.along] = self.length(number)
                    size = like.element_size() * int(np.prod(shape))
                    start = starts[number]
                    starts[number] += size
                    pieces.append(
                        from_bytes(received[number][start : start + size], like).reshape(shape)
                        if size
                        else like.new_empty(shape)
                    )
                stretches.append(pieces)
            items.append([torch.cat(parts, self.along) for parts in zip(*stretches, strict=True)])
        return items


class Answer(Protocol):
    """Rounded elements, of which some are open: of `exact`, or of `exact_gpu`."""

    @property
    def marks(self) -> Array:
        """The open ones, (batch, m, n)."""

    def replace(self, at: tuple[int, Array, Array], result: Any) -> None:
        """Take the open ones of a batch item, rows and columns from their product."""


def recompute(
    task: Task, answer: Answer, sides: tuple[Stretches, Stretches], own: tuple[slice, slice],
    product: Product,
) -> None:  # fmt: skip
    """Make the open elements of an answer final.

    The answer's elements are `own` rows and columns of the lines. Every process sends the others
    its stretch of the lines that they need.
    """
    wire, (batch, m, _, n) = task.wire, task.problem.shape
    axes = range(len(wire.shape))
    if not wire.reduce("repair", np.array([answer.marks.any()]), "max", axes)[0]:
        return
    rows, columns = np.zeros((batch, m), bool), np.zeros((batch, n), bool)
    rows[:, own[0]] = answer.marks.any(axis=2)
    columns[:, own[1]] = answer.marks.any(axis=1)
    ours, theirs = sides[0].gathered(wire, rows), sides[1].gathered(wire, columns)
    if len(ours) == 1:
        rows = np.broadcast_to(rows.any(axis=0), rows.shape)
    if len(theirs) == 1:
        columns = np.broadcast_to(columns.any(axis=0), columns.shape)
    for b in np.flatnonzero(answer.marks.any(axis=(1, 2))):
        at = (
            int(b),
            np.flatnonzero(rows[b]) - own[0].start,
            np.flatnonzero(columns[b]) - own[1].start,
        )
        whole = ours[b if len(ours) > 1 else 0], theirs[b if len(theirs) > 1 else 0]
        answer.replace(at, product(*whole, _addend(task, at)))


def _addend(task: Task, at: tuple[int, Array, Array]) -> list[Any] | None:
    """What belongs to c of some rows and columns, plane by plane."""
    c, (b, rows, columns) = task.scalars.c, at
    if c is None:
        return None
    planes = c.planes if isinstance(c, Words) else [c]
    ours, theirs = (torch.from_numpy(x).to(planes[0].device) for x in (rows, columns))
    return [x.select(-3, b).index_select(-2, ours).index_select(-1, theirs) for x in planes]
