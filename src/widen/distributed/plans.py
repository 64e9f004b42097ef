"""How a sharded product runs: where operands move, and the fewest bytes on the wire."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from torch.distributed.tensor import Replicate, Shard

from widen.distributed.boxes import Placements, boxes, count, moved
from widen.plan import Plan


@dataclass(frozen=True)
class Shapes:
    """Whole shapes of matrices, and what numbers take: all that the choice depends on.

    Attributes
    ----------
    left, right, result
        Shapes with two axes or more; those of the result have all batch axes.
    bytes
        Bytes of a number of each.
    packed
        Bytes of an element where exact parts are exchanged, or None where that is not served.
    mesh
        Sizes of the mesh's axes.
    """

    left: tuple[int, ...]
    right: tuple[int, ...]
    result: tuple[int, ...]
    bytes: tuple[int, int, int]
    packed: int | None
    mesh: tuple[int, ...]


@dataclass(frozen=True)
class Form:
    """What one axis of a mesh cuts: rows, columns, a batch axis, the inner dimension, or nothing.

    `left`, `right` and `result` are the placements that go with it.
    """

    word: str
    left: Any
    right: Any
    result: Any


@dataclass(frozen=True)
class DistributedPlan:
    """Where operands move and what processes do; ``print(plan)`` says it, with bytes and steps.

    Attributes
    ----------
    shapes
        The operands and the mesh.
    forms
        What every axis of the mesh cuts.
    held
        Placements of both operands as they are given.
    left
        Placements of the left operand when the product is computed.
    right
        Placements of the right operand then.
    result
        Placements of the result then.
    wanted
        Placements of the result that is given back.
    panels
        Whether gathered operands pass in panels of the inner dimension (SUMMA).
    plan
        What a process's own product is likely to be.

    Examples
    --------
    >>> import torch, torch.distributed as dist, widen
    >>> from torch.distributed.device_mesh import init_device_mesh
    >>> from torch.distributed.tensor import Shard, distribute_tensor
    >>> dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    >>> a = distribute_tensor(torch.eye(3), init_device_mesh("cpu", (1,)), [Shard(1)])
    >>> p = widen.plan(a, a)
    >>> dist.destroy_process_group()
    >>> p.forms, p.communicates    # one process sends nothing
    (('rows',), False)
    """

    shapes: Shapes
    forms: tuple[str, ...]
    held: tuple[Placements, Placements]
    left: Placements
    right: Placements
    result: Placements
    wanted: Placements
    panels: bool
    plan: Plan

    @property
    def inner(self) -> tuple[int, ...]:
        """Axes of the mesh that cut the inner dimension, so that parts of X are exchanged.

        >>> import torch, torch.distributed as dist, widen
        >>> from torch.distributed.device_mesh import init_device_mesh
        >>> from torch.distributed.tensor import Shard, distribute_tensor
        >>> dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
        >>> a = distribute_tensor(torch.eye(3), init_device_mesh("cpu", (1,)), [Shard(1)])
        >>> p = widen.plan(a, a)
        >>> dist.destroy_process_group()
        >>> p.inner
        ()
        """
        return tuple(axis for axis, word in enumerate(self.forms) if word == "inner")

    @property
    def bytes(self) -> dict[str, int]:
        """Bytes of numbers on the wire by step, of all processes together.

        What is agreed on beforehand (scales of lines, 2 x 80 bytes a line, on GPUs 2 x 56) is not
        counted, nor what hard data have repaired.

        >>> import torch, torch.distributed as dist, widen
        >>> from torch.distributed.device_mesh import init_device_mesh
        >>> from torch.distributed.tensor import Shard, distribute_tensor
        >>> dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
        >>> a = distribute_tensor(torch.eye(3), init_device_mesh("cpu", (1,)), [Shard(1)])
        >>> p = widen.plan(a, a)
        >>> dist.destroy_process_group()
        >>> p.bytes    # one process sends nothing
        {}
        """
        shapes = self.shapes
        bytes_of = {
            "left operand": shapes.bytes[0]
            * moved(shapes.left, self.held[0], self.left, shapes.mesh),
            "right operand": shapes.bytes[1]
            * moved(shapes.right, self.held[1], self.right, shapes.mesh),
            "exact parts": (shapes.packed or 0) * _exchanged(shapes, self.forms, self.result),
            "result": shapes.bytes[2] * moved(shapes.result, self.result, self.wanted, shapes.mesh),
        }
        return {step: size for step, size in bytes_of.items() if size}

    @property
    def communicates(self) -> bool:
        """Whether processes send each other anything.

        >>> import torch, torch.distributed as dist, widen
        >>> from torch.distributed.device_mesh import init_device_mesh
        >>> from torch.distributed.tensor import Shard, distribute_tensor
        >>> dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
        >>> a = distribute_tensor(torch.eye(3), init_device_mesh("cpu", (1,)), [Shard(1)])
        >>> p = widen.plan(a, a)
        >>> dist.destroy_process_group()
        >>> p.communicates
        False
        """
        return bool(self.inner) or bool(self.bytes)

    def __str__(self) -> str:
        left, right = self.shapes.left, self.shapes.right
        mesh = " x ".join(map(str, self.shapes.mesh))
        processes = math.prod(self.shapes.mesh)
        cuts = ", ".join(f"axis {axis} cuts {word}" for axis, word in enumerate(self.forms))
        lines = [
            f"widen plan: {_size(left)} times {_size(right)} on a mesh of {mesh}",
            f"  contract  {self.plan.contract}: {self.plan.contract.promise}",
            f"  mesh      {cuts}",
            f"  a         {_said(self.held[0])} -> {_said(self.left)}",
            f"  b         {_said(self.held[1])} -> {_said(self.right)}",
            f"  result    {_said(self.result)} -> {_said(self.wanted)}",
        ]
        if self.panels:
            lines.append("  panels    operands pass in panels of the inner dimension")
        for step, size in self.bytes.items():
            lines.append(f"  bytes     {step}: {size / processes:.0f} a process")
        if not self.bytes:
            lines.append("  bytes     none")
        return "\n".join(lines)


def _size(shape: tuple[int, ...]) -> str:
    return " x ".join(map(str, shape))


def _said(placements: Placements) -> str:
    words = [f"Shard({p.dim})" if isinstance(p, Shard) else "Replicate" for p in placements]
    return f"[{', '.join(words)}]"


def forms(shapes: Shapes) -> Iterator[Form]:
    """All that an axis of a mesh may cut."""
    nd = len(shapes.result)
    rows, columns = len(shapes.left) - 2, len(shapes.right) - 1
    yield Form("rows", Shard(rows), Replicate(), Shard(nd - 2))
    yield Form("columns", Replicate(), Shard(columns), Shard(nd - 1))
    for axis in range(nd - 2):
        placed = []
        for shape in (shapes.left, shapes.right):
            own = axis - (nd - len(shape))
            there = own >= 0 and shape[own] == shapes.result[axis]
            placed.append(Shard(own) if there else Replicate())
        yield Form(f"batch axis {axis}", placed[0], placed[1], Shard(axis))
    if shapes.packed is not None:
        yield Form("inner", Shard(rows + 1), Shard(columns - 1), Shard(nd - 2))
    yield Form("replicas", Replicate(), Replicate(), Replicate())


def _exchanged(shapes: Shapes, words: tuple[str, ...], result: Placements) -> int:
    """How many elements' exact parts all processes together send.

    Each has parts of a block that is cut as the other axes of the mesh say, and sends all of it but
    what it will own.
    """
    if "inner" not in words:
        return 0
    before = tuple(
        Replicate() if word == "inner" else placement
        for word, placement in zip(words, result, strict=True)
    )
    held, owned = (boxes(shapes.result, x, shapes.mesh) for x in (before, result))
    return sum(count(x) - count(y) for x, y in zip(held, owned, strict=True))


def choose(
    shapes: Shapes, held: tuple[Placements, Placements], wanted: Placements | None
) -> tuple[tuple[Form, ...], Placements]:
    """What every axis of the mesh cuts, and the result's placements: the fewest bytes on the wire.

    Of ways that send as many, the one where processes repeat the least of each other's work.
    Operands that every process has all of are multiplied by all, unless the result is wanted
    elsewhere.
    """
    every = list(forms(shapes))
    choices = []
    for axis in range(len(shapes.mesh)):
        both = held[0][axis].is_replicate() and held[1][axis].is_replicate()
        choices.append(every[-1:] if both and wanted is None else every)
    best: tuple[Any, ...] | None = None
    for order, combination in enumerate(itertools.product(*choices)):
        result = placed(combination, len(shapes.result))
        if result is None:
            continue
        cost = _cost(shapes, held, combination, result, wanted)
        key = (*cost, order)
        if best is None or key < best[0]:
            best = key, combination, result
    assert best is not None, "replicas are always possible"
    return best[1], best[2]


def placed(combination: tuple[Form, ...], nd: int) -> Placements | None:
    """The result's placements: the owner of exact parts is found by rows, or else by columns.

    Where an earlier axis cuts the inner dimension and a later one rows, rows are cut by the later
    one first, which no placements say: columns then; None where neither will do.
    """
    result = [form.result for form in combination]
    for axis, form in enumerate(combination):
        if form.word == "inner":
            later = {x.word for x in combination[axis + 1 :]}
            if "rows" in later and "columns" in later:
                return None
            if "rows" in later:
                result[axis] = Shard(nd - 1)
    return tuple(result)


def _cost(
    shapes: Shapes, held: tuple[Placements, Placements], combination: tuple[Form, ...],
    result: Placements, wanted: Placements | None,
) -> tuple[int, float]:  # fmt: skip
    """Bytes of all processes together, and how much work is repeated."""
    size = shapes.bytes[0] * moved(
        shapes.left, held[0], tuple(form.left for form in combination), shapes.mesh
    )
    size += shapes.bytes[1] * moved(
        shapes.right, held[1], tuple(form.right for form in combination), shapes.mesh
    )
    words = tuple(form.word for form in combination)
    size += (shapes.packed or 0) * _exchanged(shapes, words, result)
    if wanted is not None:
        size += shapes.bytes[2] * moved(shapes.result, result, wanted, shapes.mesh)
    return size, _repeated(shapes, combination, result)


def _repeated(shapes: Shapes, combination: tuple[Form, ...], result: Placements) -> float:
    """The work of the busiest process, in shares of the whole."""
    share = 1.0
    for axis, form in enumerate(combination):
        if form.word != "replicas":
            length = shapes.left[-1] if form.word == "inner" else shapes.result[result[axis].dim]
            parts = shapes.mesh[axis]
            share *= -(-length // parts) / max(length, 1)
    return share
