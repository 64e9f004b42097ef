"""A planned product computed: where operands lie, from exact parts, or from panels that pass."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch.distributed.tensor import Replicate, Shard

from widen.calls import dispatch
from widen.distributed import exact
from widen.distributed.boxes import Placements, boxes, dims, places
from widen.distributed.exact import Members, Task, Whole
from widen.distributed.jobs import Job, gone_axes, is_on_gpu
from widen.distributed.operands import Sharded, whole
from widen.distributed.recompute import Stretches, recompute
from widen.distributed.wire import Wire
from widen.stages.problem import Problem
from widen.words import Words

Tensor = torch.Tensor


def computed(job: Job, wire: Wire) -> Any:
    """The product, placed as it is wanted."""
    plan, record = job.plan, None
    if plan.inner or plan.panels:
        with np.errstate(all="ignore"):
            local = (_by_parts if plan.inner else _by_panels)(job, wire)
    else:
        local = _by_pieces(job, wire)
        if isinstance(local, tuple):
            local, record = local
    result = _placed(job, wire, local)
    if record is None:
        return result
    bound = record.bound
    if not isinstance(bound, float):
        bound = _placed(job, wire, bound.reshape(local.shape))
    return result, replace(record, bound=bound)


def _placed(job: Job, wire: Wire, local: Any) -> Any:
    """The result from what every process has computed, moved to where it is wanted."""
    plan, shapes, call = job.plan, job.plan.shapes, job.call
    words = local.format if isinstance(local, Words) else None
    planes = tuple(local.planes) if isinstance(local, Words) else (local,)
    result = Sharded("result", shapes.result, plan.result, job.left.mesh, planes, words)
    moved = result.fetched(wire, "result", boxes(shapes.result, plan.wanted, shapes.mesh))
    gone = gone_axes(call)
    lead = int(words is not None)
    placements = tuple(
        Shard(p.dim - sum(axis < p.dim for axis in gone)) if isinstance(p, Shard) else p
        for p in plan.wanted
    )
    for axis in reversed(gone):
        moved = (
            Words.of(words, [plane.squeeze(axis + lead) for plane in moved.planes])
            if words is not None
            else moved.squeeze(axis)
        )
    return whole(moved, call.dims, placements, job.left.mesh)


def _by_pieces(job: Job, wire: Wire) -> Any:
    """Every process multiplies its own rows and columns, whose inner dimension is whole."""
    plan, shapes = job.plan, job.plan.shapes
    left = job.left.fetched(wire, "left operand", boxes(shapes.left, plan.left, shapes.mesh))
    right = job.right.fetched(wire, "right operand", boxes(shapes.right, plan.right, shapes.mesh))
    c = _addend(job, wire, plan.result)
    scalars = replace(job.scalars, c=c)
    options = replace(job.options, dtype=job.call.fmt.name, accuracy=job.call.contract)
    if scalars.trivial:
        return dispatch.matmul(left, right, None, options)
    return dispatch.gemm(left, right, scalars, None, options)


def _addend(job: Job, wire: Wire, wanted: Placements) -> Any:
    """The process's part of c, with as many axes as the result has as a matrix."""
    addend, shapes = job.addend, job.plan.shapes
    if addend is None:
        return job.scalars.c
    nd, gone = len(shapes.result), gone_axes(job.call)
    kept = [axis for axis in range(nd) if axis not in gone]
    c = addend.spread(kept[len(kept) - addend.ndim :], nd)
    along = tuple(p if isinstance(p, Shard) and c.shape[p.dim] > 1 else Replicate() for p in wanted)
    return c.fetched(wire, "addend", boxes(c.shape, along, shapes.mesh))


def _by_parts(job: Job, wire: Wire) -> Any:
    """Every process has a stretch of the inner dimension; exact parts of elements are summed."""
    plan, shapes = job.plan, job.plan.shapes
    mesh, axes = shapes.mesh, plan.inner
    every = [boxes(shapes.left, plan.left, mesh), boxes(shapes.right, plan.right, mesh)]
    left = job.left.fetched(wire, "left operand", every[0])
    right = job.right.fetched(wire, "right operand", every[1])
    owned = boxes(shapes.result, plan.result, mesh)
    block_placements = tuple(
        Replicate() if axis in axes else p for axis, p in enumerate(plan.result)
    )
    block = boxes(shapes.result, block_placements, mesh)[wire.me]
    same = [
        number
        for number, place in enumerate(places(mesh))
        if all(
            x == y or at in axes for at, (x, y) in enumerate(zip(place, wire.place, strict=True))
        )
    ]
    members = Members(
        tuple(same),
        tuple(every[0][number][-1] for number in same),
        tuple(_shifted(owned[number][-2], block[-2][0]) for number in same),
        tuple(_shifted(owned[number][-1], block[-1][0]) for number in same),
        axes,
    )
    sizes = dims(block)
    task = _task(job, wire, sizes, _addend(job, wire, plan.result), dims(owned[wire.me]))
    planes = _merged(left, sizes[:-2]), _merged(right, sizes[:-2])
    way = _exact(job)
    operands = (
        way.operand(task, _joined(left, planes[0]), "left"),
        way.operand(task, _joined(right, planes[1]), "right"),
    )
    answer = way.inner_product(task, *operands, members)
    at = same.index(wire.me)
    sides = (
        Stretches(planes[0], -2, members.numbers, members.inner),
        Stretches(planes[1], -1, members.numbers, members.inner),
    )
    own = members.rows[at], members.columns[at]
    recompute(task, answer, sides, own, _recomputed(job, left, right))
    return _shaped(answer.tensor(job.call.fmt), dims(owned[wire.me]))


def _exact(job: Job) -> Any:
    """How exact parts are computed where the operands lie."""
    if not is_on_gpu(job.left):
        return exact
    from widen.distributed import exact_gpu  # Triton is imported where there are GPUs

    return exact_gpu


def _shifted(stretch: tuple[int, int], start: int) -> slice:
    return slice(stretch[0] - start, stretch[1] - start)


def _task(job: Job, wire: Wire, block: tuple[int, ...], c: Any, owned: tuple[int, ...]) -> Task:
    """The problem of a block, with this process's own part of c."""
    call = job.call
    batch = math.prod(block[:-2])
    problem: Problem[Any] = Problem(
        Whole((batch, block[-2], call.k)), Whole((batch, block[-1], call.k)), call.contract,
        call.rounded, call.workspace, call.unit, call.system,
    )  # fmt: skip
    if c is not None:
        if isinstance(c, (int, float, complex)):
            wide = torch.complex128 if isinstance(c, complex) else torch.float64
            c = torch.full((), c, dtype=wide, device=job.left.planes[0].device)
        shape = (math.prod(owned[:-2]), *owned[-2:])
        if isinstance(c, Words):
            planes = [x.expand(-1, *owned).reshape(x.shape[0], *shape) for x in c.planes]
            c = Words.of(c.format, planes)
        else:
            c = c.expand(owned).reshape(shape)
    return Task(problem, call.fmt, replace(job.scalars, c=c), wire)


def _merged(x: Any, batch: tuple[int, ...]) -> list[Tensor]:
    """Planes of a local operand with one batch axis: 1 if there is one matrix for all items."""
    lead = int(isinstance(x, Words))
    merged = []
    for plane in x.planes if isinstance(x, Words) else [x]:
        head, matrix = plane.shape[:lead], plane.shape[-2:]
        if math.prod(plane.shape[lead:-2]) == 1:
            merged.append(plane.reshape(*head, 1, *matrix))
        else:
            items = math.prod(batch)
            merged.append(plane.expand(*head, *batch, *matrix).reshape(*head, items, *matrix))
    return merged


def _joined(x: Any, planes: list[Tensor]) -> Any:
    return Words.of(x.format, planes) if isinstance(x, Words) else planes[0]


def _shaped(x: Any, shape: tuple[int, ...]) -> Any:
    """A result whose batches are one axis in its own shape."""
    if isinstance(x, Words):
        return Words.of(x.format, [plane.reshape(plane.shape[0], *shape) for plane in x.planes])
    return x.reshape(shape)


def _recomputed(job: Job, left: Any, right: Any) -> Any:
    """The ordinary product of planes of whole rows and columns."""
    options = replace(job.options, dtype=job.call.fmt.name, accuracy=job.call.contract)
    c_format = None if job.addend is None else job.addend.words

    def product(ours: list[Tensor], theirs: list[Tensor], c: Any) -> Any:
        a, b = _joined(left, ours), _joined(right, theirs)
        if job.scalars.trivial:
            return dispatch.matmul(a, b, None, options)
        if c is not None:
            c = c[0] if c_format is None else Words.of(c_format, c)
        return dispatch.gemm(a, b, replace(job.scalars, c=c), None, options)

    return product


def _by_panels(job: Job, wire: Wire) -> Any:
    """SUMMA: panels of the inner dimension pass, and every process adds up its own block."""
    plan, shapes, call = job.plan, job.plan.shapes, job.call
    mesh = shapes.mesh
    rows, columns = plan.forms.index("rows"), plan.forms.index("columns")
    owned = boxes(shapes.result, plan.result, mesh)
    sizes = dims(owned[wire.me])
    task = _task(job, wire, sizes, _addend(job, wire, plan.result), sizes)
    starts = [x.boxes()[wire.me] for x in (job.left, job.right)]
    way = _exact(job)
    held = (
        way.operand(task, job.left.local, "left"),
        way.operand(task, job.right.local, "right"),
    )
    widest = max(x + y for x, y in map(dims, owned))
    item = max(shapes.bytes[:2])
    step = max(1, call.workspace // (4 * item * max(widest, 1)))

    def panels() -> Iterator[tuple[Any, Any]]:
        for start in range(0, call.k, step):
            inner = (start, min(start + step, call.k))
            ours = tuple((box[0], inner) for box in boxes(shapes.left, plan.left, mesh))
            theirs = tuple((inner, box[1]) for box in boxes(shapes.right, plan.right, mesh))
            left = job.left.fetched(wire, "left operand", ours)
            right = job.right.fetched(wire, "right operand", theirs)
            yield way.operand(task, left, "left"), way.operand(task, right, "right")

    begin = starts[0][1][0], starts[1][0][0]
    answer = way.panel_product(task, held, begin, ((columns,), (rows,)), panels())
    sides = (
        _stretches(job.left, wire, columns, 1, _merged(job.left.local, ())),
        _stretches(job.right, wire, rows, 0, _merged(job.right.local, ())),
    )
    own = slice(0, sizes[0]), slice(0, sizes[1])
    recompute(task, answer, sides, own, _recomputed(job, job.left.local, job.right.local))
    return _shaped(answer.tensor(call.fmt), sizes)


def _stretches(x: Sharded, wire: Wire, axis: int, inner: int, planes: list[Tensor]) -> Stretches:
    """Who has the other stretches of this process's lines: those along an axis of the mesh."""
    held = x.boxes()
    numbers = tuple(
        number
        for number, place in enumerate(places(wire.shape))
        if all(
            at == axis or x == y for at, (x, y) in enumerate(zip(place, wire.place, strict=True))
        )
    )
    along = tuple(held[number][inner] for number in numbers)
    return Stretches(planes, -2 if inner == 1 else -1, numbers, along)
