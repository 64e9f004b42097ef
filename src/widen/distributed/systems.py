"""Linear systems of DTensors: every process solves for some of the right-hand sides."""

from __future__ import annotations

from typing import Any

from torch.distributed.tensor import Replicate, Shard

from widen.distributed.boxes import boxes, count
from widen.distributed.operands import Sharded, sharded, whole
from widen.distributed.wire import MismatchError, Wire
from widen.linalg.functions import solve as solve_here


def solve(a: Any, b: Any, dtype: Any, accuracy: str, info: bool) -> Any:
    """The exact solution of a x = b, every element rounded once, placed as b is.

    Every process gathers a, and solves for its share of the columns of b: a column's solution does
    not depend on the others.
    """
    left, right = sharded(a, "a"), sharded(b, "b")
    if left.mesh != right.mesh:
        raise ValueError("a and b lie on different meshes; redistribute one to the other's")
    wire = Wire(left.mesh, "widen.linalg.solve")
    mesh = wire.shape
    try:
        if info:
            raise TypeError("info=True is not served for DTensors; leave it out")
        if left.words is not None or right.words is not None:
            raise TypeError("words of DTensors are not solved; gather them first")
        if left.ndim < 2 or left.shape[-1] != left.shape[-2]:
            raise ValueError(f"a has shape {left.shape}; solve needs square matrices")
    except (TypeError, ValueError) as error:
        wire.agree(f"error: {type(error).__name__}: {error}")
        raise
    wire.agree(f"a {left.shape} {left.placements}, b {right.shape} {right.placements}, {dtype}, "
               f"{accuracy}")  # fmt: skip
    full = left.fetched(wire, "matrix", boxes(left.shape, (Replicate(),) * len(mesh), mesh))
    cut: Any = Replicate() if right.ndim == 1 else Shard(right.ndim - 1)
    wanted = (cut,) * len(mesh)
    own = boxes(right.shape, wanted, mesh)[wire.me]
    sides = right.fetched(wire, "right-hand sides", boxes(right.shape, wanted, mesh))
    failure = None
    try:
        # Who has no columns solves for one, so that all have the same to say of a.
        given = sides if count(own) or right.ndim == 1 else full.new_zeros((*full.shape[:-1], 1))
        solution = solve_here(full, given, dtype=dtype, accuracy=accuracy)
    except (ArithmeticError, ValueError, TypeError) as error:
        failure = error
    try:
        wire.agree(f"error: {type(failure).__name__}: {failure}" if failure else "solved")
    except MismatchError:
        if failure is None:
            raise
        raise failure from None
    if not (count(own) or right.ndim == 1):
        solution = solution[..., :0]
    shape = (*solution.shape[:-1], right.shape[-1]) if right.ndim > 1 else tuple(solution.shape)
    placed = (Shard(len(shape) - 1) if right.ndim > 1 else Replicate(),) * len(mesh)
    moved = tuple(
        Shard(p.dim + len(shape) - right.ndim) if isinstance(p, Shard) else p
        for p in right.placements
    )
    result = Sharded("x", shape, placed, left.mesh, (solution,))
    local = result.fetched(wire, "solution", boxes(shape, moved, mesh))
    return whole(local, shape, moved, left.mesh)
