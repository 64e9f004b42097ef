"""Products of DTensors: checked, agreed on, and computed with the bits of one process."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch.distributed.tensor import Replicate, Shard

from widen.calls import dispatch
from widen.distributed.boxes import Placements
from widen.distributed.compute import computed
from widen.distributed.jobs import job_of
from widen.distributed.operands import Sharded, sharded
from widen.distributed.plans import DistributedPlan
from widen.distributed.wire import Wire, is_checking
from widen.gpu.replay.private import wants_gradient
from widen.options import Accuracy, Options
from widen.stages.problem import Scalars
from widen.words import Words


def gemm(
    a: Any, b: Any, scalars: Scalars, out: Any, options: Options,
    out_placements: Placements | None = None,
) -> Any:  # fmt: skip
    """The sum alpha a b + beta c of DTensors, with the bits of one process."""
    ours, theirs = sharded(a, "a"), sharded(b, "b")
    if ours.mesh != theirs.mesh:
        raise ValueError("a and b lie on different meshes; redistribute one to the other's")
    wire = Wire(ours.mesh, "widen.gemm" if not scalars.trivial else "widen.matmul")
    try:
        job = job_of(ours, theirs, scalars, out, options, out_placements)
    except (TypeError, ValueError) as error:
        if is_checking() or _may_communicate(ours, theirs, out_placements):
            wire.agree(f"error: {type(error).__name__}: {error}")
        raise
    if is_checking() or job.plan.communicates:
        wire.agree(job.said)
    result = computed(job, wire)
    value, record = result if isinstance(result, tuple) else (result, None)
    if out is not None:
        targets = out.planes if isinstance(out, Words) else (out,)
        for target, plane in zip(
            targets, value.planes if isinstance(value, Words) else (value,), strict=True
        ):
            target.to_local().copy_(plane.to_local())
        value = out
    return value if record is None else (value, record)


def matmul(
    a: Any, b: Any, *, out_placements: Sequence[Any] | None = None, accuracy: Accuracy = None,
    dtype: Any = None, workspace: int | str | None = None,
) -> Any:  # fmt: skip
    """The product of two DTensors, with the bits of one process, where you want it.

    Parameters
    ----------
    a, b
        DTensors (or `Words` of them) on one mesh of one or two axes, with any placements.
    out_placements
        Where the result shall lie: `Shard` or `Replicate` for every axis of the mesh. The way with
        the fewest bytes on the wire is chosen, the result's included. By default it lies where that
        costs nothing more.
    accuracy, dtype, workspace
        As for `widen.matmul`.

    Examples
    --------
    >>> import torch, torch.distributed as dist, widen.distributed
    >>> from torch.distributed.device_mesh import init_device_mesh
    >>> from torch.distributed.tensor import Replicate, Shard, distribute_tensor
    >>> dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    >>> mesh = init_device_mesh("cpu", (1,))
    >>> a = distribute_tensor(torch.eye(3), mesh, [Shard(1)])
    >>> widen.distributed.matmul(a, a, out_placements=[Replicate()]).placements
    (Replicate(),)
    >>> dist.destroy_process_group()
    """
    options = Options(accuracy, dtype, workspace=workspace)
    if out_placements is None:
        return dispatch.matmul(a, b, None, options)
    if wants_gradient(a, b):
        return dispatch.matmul(a, b, None, options).redistribute(placements=out_placements)
    return gemm(a, b, Scalars(), None, options, tuple(out_placements))


def plan(a: Any, b: Any, options: Options) -> DistributedPlan:
    """What a product of DTensors would do; nothing is sent to find out."""
    return job_of(sharded(a, "a"), sharded(b, "b"), Scalars(), None, options, None).plan


def _may_communicate(a: Sharded, b: Sharded, wanted: Placements | None) -> bool:
    """Whether processes that were asked for the right thing would wait for this one."""
    rows, columns = max(a.ndim - 2, 0), b.ndim - 1
    for ours, theirs in zip(a.placements, b.placements, strict=True):
        local = {
            (Replicate(), Replicate()),
            (Shard(rows), Replicate()),
            (Replicate(), Shard(columns)),
        }
        if (ours, theirs) not in local or wanted is not None:
            return True
    return False
