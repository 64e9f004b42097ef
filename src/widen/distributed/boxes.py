"""Which part of a tensor a process holds: boxes, and who sends what to whom."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from torch.distributed.tensor import Shard

Box = tuple[tuple[int, int], ...]
"""First index and the one after the last, for every axis."""

Placements = tuple[Any, ...]
"""Where a tensor lies, one of `Replicate()` or `Shard(axis)` for every axis of a mesh."""


def chunk(start: int, stop: int, parts: int, at: int) -> tuple[int, int]:
    """One of the pieces that PyTorch cuts a stretch into: as long as the first, or shorter.

    >>> [chunk(0, 5, 4, at) for at in range(4)]
    [(0, 2), (2, 4), (4, 5), (5, 5)]
    """
    step = -(-(stop - start) // parts)
    return min(start + at * step, stop), min(start + (at + 1) * step, stop)


def box_of(
    shape: Sequence[int], placements: Placements, mesh: tuple[int, ...], place: tuple[int, ...]
) -> Box:
    """What the process at a place of a mesh holds of a tensor.

    >>> box_of((6, 4), (Shard(0), Shard(0)), (2, 2), (1, 0))
    ((3, 5), (0, 4))
    """
    box = [(0, size) for size in shape]
    for placement, parts, at in zip(placements, mesh, place, strict=True):
        if isinstance(placement, Shard):
            box[placement.dim] = chunk(*box[placement.dim], parts, at)
    return tuple(box)


@lru_cache(maxsize=1024)
def boxes(shape: tuple[int, ...], placements: Placements, mesh: tuple[int, ...]) -> tuple[Box, ...]:
    """What every process of a mesh holds, in the order of their places."""
    return tuple(box_of(shape, placements, mesh, place) for place in places(mesh))


@lru_cache(maxsize=64)
def places(mesh: tuple[int, ...]) -> tuple[tuple[int, ...], ...]:
    """All places of a mesh, the last axis passing fastest.

    >>> places((2, 2))
    ((0, 0), (0, 1), (1, 0), (1, 1))
    """
    coordinates: list[tuple[int, ...]] = [()]
    for size in mesh:
        coordinates = [(*place, at) for place in coordinates for at in range(size)]
    return tuple(coordinates)


def overlap(ours: Box, theirs: Box) -> Box:
    """What both boxes have."""
    pairs = zip(ours, theirs, strict=True)
    spans = ((max(x[0], y[0]), min(x[1], y[1])) for x, y in pairs)
    return tuple((start, max(start, stop)) for start, stop in spans)


def count(box: Box) -> int:
    """How many elements a box has."""
    return math.prod(stop - start for start, stop in box)


def within(box: Box, outer: Box) -> tuple[slice, ...]:
    """The index of a box in a larger one."""
    return tuple(
        slice(ours[0] - theirs[0], ours[1] - theirs[0])
        for ours, theirs in zip(box, outer, strict=True)
    )


def dims(box: Box) -> tuple[int, ...]:
    """The shape of a box."""
    return tuple(stop - start for start, stop in box)


@dataclass(frozen=True)
class Message:
    """A box that one process sends another, by their numbers in the mesh."""

    source: int
    target: int
    box: Box


def messages(
    held: Sequence[Box], wanted: Sequence[Box], mesh: tuple[int, ...]
) -> tuple[Message, ...]:
    """Who sends what, so that all have what they want: nothing that they hold themselves.

    Of several processes that hold the same, the one sends it whose place in the mesh is most like
    the receiver's.
    """
    at = places(mesh)
    holders: dict[Box, list[int]] = {}
    for rank, box in enumerate(held):
        if count(box):
            holders.setdefault(box, []).append(rank)
    messages = []
    for target, box in enumerate(wanted):
        for theirs, ranks in holders.items():
            piece = overlap(box, theirs)
            if not count(piece) or overlap(piece, held[target]) == piece:
                continue

            def distance(rank: int, target: int = target) -> tuple[int, int]:
                pairs = zip(at[rank], at[target], strict=True)
                return sum(x != y for x, y in pairs), (rank - target) % len(at)

            messages.append(Message(min(ranks, key=distance), target, piece))
    return tuple(messages)


@lru_cache(maxsize=1024)
def moved(
    shape: tuple[int, ...], held: Placements, wanted: Placements, mesh: tuple[int, ...]
) -> int:
    """How many elements all processes together send to change a tensor's placements.

    >>> from torch.distributed.tensor import Replicate
    >>> moved((8, 8), (Shard(0),), (Replicate(),), (4,))    # each three quarters of the tensor
    192
    """
    if held == wanted:
        return 0
    ours, theirs = boxes(shape, held, mesh), boxes(shape, wanted, mesh)
    return sum(count(message.box) for message in messages(ours, theirs, mesh))
