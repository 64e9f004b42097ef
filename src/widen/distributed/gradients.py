"""Gradients of sharded products: axes of DTensors exchanged and joined, each process its own."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from torch.distributed.tensor import Replicate, Shard

from widen.distributed.boxes import boxes
from widen.distributed.operands import Sharded, sharded, whole
from widen.distributed.wire import Wire


def matrices(x: Any, ndim: int, kept: list[int], rows: list[int], columns: list[int]) -> Any:
    """A batch of matrices of x, with `ndim` axes: which of them are the batch, rows and columns.

    Of axes that become one, the first may be cut, if it is cut evenly; others are gathered.
    """
    full = sharded(x, "x")
    full = full.spread(range(ndim - full.ndim, ndim), ndim)
    order = [*kept, *rows, *columns]
    groups = [[axis] for axis in kept] + [rows, columns]
    wanted = []
    for axis, placement in enumerate(full.placements):
        if not isinstance(placement, Shard):
            wanted.append(placement)
            continue
        group = next(group for group in groups if placement.dim in group)
        others = math.prod(full.shape[at] for at in group if at != placement.dim)
        first = all(full.shape[at] == 1 for at in group[: group.index(placement.dim)])
        twice = sum(p == placement for p in full.placements) > 1
        even = full.shape[placement.dim] % full.mesh.shape[axis] == 0 and not twice
        wanted.append(placement if others == 1 or (first and even) else Replicate())
    moved = _moved(full, tuple(wanted), "gradients")
    local = moved.planes[0].permute(order)
    sizes = [local.shape[at] for at in range(len(kept))]
    shape = [full.shape[axis] for axis in kept]
    for axes, start in ((rows, len(kept)), (columns, len(kept) + len(rows))):
        sizes.append(math.prod(local.shape[start : start + len(axes)]))
        shape.append(math.prod(full.shape[axis] for axis in axes))
    placements = tuple(
        Shard(next(at for at, group in enumerate(groups) if p.dim in group))
        if isinstance(p, Shard)
        else p
        for p in moved.placements
    )
    return whole(local.reshape(sizes), tuple(shape), placements, full.mesh)


def like(grad: Any, x: Any) -> Any:
    """A gradient with the shape and the placements of x; axes of length 1 come and go."""
    ours, target = sharded(grad, "gradient"), sharded(x, "x")
    axes = [axis for axis, size in enumerate(ours.shape) if size != 1]
    flat = _without_ones(ours, axes)
    own = [axis for axis, size in enumerate(target.shape) if size != 1]
    full = flat.spread(own, target.ndim)
    moved = _moved(full, target.placements, "gradients")
    return whole(moved.planes[0], target.shape, target.placements, target.mesh)


def _without_ones(x: Sharded, axes: Sequence[int]) -> Sharded:
    """The same without axes of length 1, which every process shall have."""
    placements = tuple(
        p if not isinstance(p, Shard) or p.dim in axes else Replicate() for p in x.placements
    )
    moved = _moved(x, placements, "gradients")
    (plane,) = moved.planes
    placed = tuple(
        Shard(list(axes).index(p.dim)) if isinstance(p, Shard) else p for p in placements
    )
    local = plane.reshape([plane.shape[axis] for axis in axes])
    return Sharded(x.name, tuple(x.shape[axis] for axis in axes), placed, x.mesh, (local,))


def _moved(x: Sharded, placements: Any, step: str) -> Sharded:
    """The same with other placements."""
    wanted = boxes(x.shape, placements, tuple(x.mesh.shape))
    local = x.fetched(Wire(x.mesh, "the gradient of a product"), step, wanted)
    return Sharded(x.name, x.shape, placements, x.mesh, (local,))


def uncut(x: Any, axis: int) -> Any:
    """The same with an axis that every process has all of."""
    wanted = [Replicate() if p == Shard(axis % x.ndim) else p for p in x.placements]
    return x if tuple(wanted) == x.placements else x.redistribute(placements=wanted)


def ones(x: Any) -> Any:
    """A column of ones to multiply x with, which every process has."""
    local = x.to_local().new_ones(x.shape[-1], 1)
    return whole(local, (x.shape[-1], 1), (Replicate(),) * x.device_mesh.ndim, x.device_mesh)
