"""Linear systems of DTensors: a matrix is cut by rows over all processes, a batch by its items.

Answers are exact numbers, rounded once, so that they are those of one process, whatever the way.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from torch.distributed.tensor import Replicate, Shard

from widen.calls.cpu_tensors import as_array, as_tensor
from widen.distributed.boxes import Box, Placements, boxes, count, dims, overlap, within
from widen.distributed.operands import Sharded, sharded, whole
from widen.distributed.rows import LEAST, SharedRows
from widen.distributed.wire import MismatchError, Wire
from widen.formats import PLAIN
from widen.formats.arrays import format_of_array
from widen.linalg import operands
from widen.linalg.arrays import complex_of
from widen.linalg.errors import NotProvenError, SingularMatrixError
from widen.linalg.functions import solve as solve_here
from widen.linalg.operands import Given
from widen.linalg.system import Solver
from widen.words import Words


def solve(a: Any, b: Any, dtype: Any, accuracy: str, info: bool) -> Any:
    """The exact solution of a x = b, every element rounded once, placed as b is."""
    left, right = sharded(a, "a"), sharded(b, "b")
    if left.mesh != right.mesh:
        raise ValueError("a and b lie on different meshes; redistribute one to the other's")
    wire = Wire(left.mesh, "widen.linalg.solve")
    shape = _agreed(wire, lambda: _checked(left, right, accuracy, info))
    wire.agree(
        f"a {left.shape} {format_of_array(left.local).name} {list(left.placements)}, b "
        f"{right.shape} {format_of_array(right.local).name} {list(right.placements)}, "
        f"dtype={dtype}, accuracy={accuracy}"
    )
    placements = tuple(
        Shard(p.dim + len(shape) - right.ndim) if isinstance(p, Shard) else p
        for p in right.placements
    )
    if left.ndim > 2 or left.planes[0].is_cuda or len(wire.ranks) == 1:
        local = _by_items(wire, left, right, shape, placements, (dtype, accuracy))
    else:
        local = _by_rows(wire, left, right, (dtype, accuracy))
    return whole(local, shape, placements, left.mesh)


def _checked(left: Sharded, right: Sharded, accuracy: str, info: bool) -> tuple[int, ...]:
    """The shape of the solution."""
    if info:
        raise TypeError("info=True is not served for DTensors; leave it out")
    if left.words is not None or right.words is not None:
        raise TypeError("words of DTensors are not solved; gather them first")
    if operands.wants_gradient(left.local, right.local):
        raise TypeError(
            "solve of DTensors has no gradients; give a.detach(), or gather a and b, which every "
            "process then solves"
        )
    operands.check_accuracy(accuracy)
    if left.ndim < 2 or left.shape[-1] != left.shape[-2]:
        raise ValueError(f"a has shape {left.shape}; give square matrices (..., n, n)")
    n = left.shape[-1]
    if right.shape[-2:][:1] != (n,):
        raise ValueError(f"shapes {left.shape} and {right.shape} do not match: b needs {n} rows")
    if right.ndim == 1:
        return (*left.shape[:-1],)
    return (*operands.batch_shape(left.shape[:-2], right.shape[:-2]), n, right.shape[-1])


def _agreed(wire: Wire, attempt: Callable[[], Any]) -> Any:
    """What an attempt gives; where it fails in one process, an error in all of them."""
    failure, answer = None, None
    try:
        answer = attempt()
    except (ArithmeticError, ValueError, TypeError) as error:
        failure = error
    try:
        wire.agree(f"error: {type(failure).__name__}: {failure}" if failure else "")
    except MismatchError as mismatch:
        if failure is not None:
            raise failure from None
        for kind in (SingularMatrixError, NotProvenError):
            if f"error: {kind.__name__}: " in str(mismatch):
                raise kind(str(mismatch)) from None
        raise
    return answer


# ── one matrix, cut by rows ──────────────────────────────────────────────────


def _by_rows(wire: Wire, left: Sharded, right: Sharded, wanted: tuple[Any, str]) -> Any:
    """A process's part of the solution, from rows of a matrix that all processes share."""
    n, mesh = left.shape[-1], wire.shape
    by_rows = boxes(left.shape, (Shard(0),) * len(mesh), mesh)
    rows = left.fetched(wire, "matrix", by_rows)
    call = _agreed(wire, lambda: operands.given(wanted[0], a=rows, b=right.local))
    held = SharedRows(wire, n)
    matrix = call.arrays[0]
    if call.parts == 2:
        held, matrix = held.doubled(), _interleaved(matrix)
    vectors = right.spread([0], 2) if right.ndim == 1 else right
    own = boxes(vectors.shape, vectors.placements, mesh)[wire.me]
    planes = [np.zeros((call.fmt.parts, *dims(own)), word.name) for word in call.fmt.part.words]
    sides = int(np.prod((*vectors.shape[:-2], vectors.shape[-1])))
    solver = Solver(matrix, sides, call.fmt.part, wanted[1] == "enclosed", held)
    width = max(LEAST, held.width // 2)  # a panel is refined in some 30 arrays of its size
    for box, panel in _panels(wire, vectors, width):
        solution, _ = solver.solve(_sides(operands.widened(panel), call))
        here = overlap(own, box)
        if count(here):
            for plane, plane_of_solution in zip(planes, _split(solution.planes, call), strict=True):
                shaped = plane_of_solution.reshape(call.fmt.parts, *dims(box))
                plane[(slice(None), *within(here, own))] = shaped[(slice(None), *within(here, box))]
    local = _numbers(planes, call)
    return local[:, 0] if right.ndim == 1 else local


def _interleaved(a: Any) -> Any:
    """Rows of a complex matrix as those of a real one: each number a + ib is [[a, -b], [b, a]].

    So the rows that a process holds stay side by side.
    """
    rows, n = a.shape
    real = np.empty((rows, 2, n, 2))
    real[:, 0, :, 0], real[:, 0, :, 1] = a.real, -a.imag
    real[:, 1, :, 0], real[:, 1, :, 1] = a.imag, a.real
    return real.reshape(2 * rows, 2 * n)


def _sides(b: Any, call: Given) -> Any:
    """Right-hand sides of the real system."""
    if call.parts == 1:
        return operands.real_sides(b, 1, call.fmt.parts)
    return np.stack([b.real, np.zeros(b.shape) if b.dtype.kind == "f" else b.imag], 1).reshape(
        2 * len(b), -1
    )


def _split(planes: list[Any], call: Given) -> list[Any]:
    """Planes (parts, n, m) of the solution of the real system."""
    if call.parts == 1:
        return operands.split(planes, 1, call.fmt)
    return [np.stack([plane[0::2], plane[1::2]]) for plane in planes]


def _panels(wire: Wire, b: Sharded, width: int) -> Iterator[tuple[Box, Any]]:
    """Panels of right-hand sides (n, columns), which all processes get, and where they are."""
    n, m = b.shape[-2:]
    for item in np.ndindex(*b.shape[:-2]):
        for start in range(0, max(m, 1), width):  # who asks for nothing hears of singular ones
            at = [(i, i + 1) for i in item]
            stop = min(start + width, m)
            box: Box = (*at, (0, n), (start, stop))
            panel = b.fetched(wire, "right-hand sides", (box,) * len(wire.ranks))
            yield box, as_array(panel.reshape(n, stop - start))


def _numbers(planes: list[Any], call: Given) -> Any:
    """A tensor, or `Words`, of planes (parts, ...)."""
    if call.fmt.name not in PLAIN:
        fmt: Any = call.fmt
        return as_tensor(Words.of(fmt, planes))
    return as_tensor(planes[0][0] if call.fmt.parts == 1 else complex_of(planes[0]))


# ── whole matrices: batches, and GPUs ────────────────────────────────────────


def _by_items(
    wire: Wire, left: Sharded, right: Sharded, shape: tuple[int, ...], placements: Placements,
    wanted: tuple[Any, str],
) -> Any:  # fmt: skip
    """A process's part of the solutions, each of which one process finds.

    A batch is cut along its longest axis, one matrix by its right-hand sides.
    """
    mesh, dtype = wire.shape, wanted[0]
    nd = len(shape) + (right.ndim == 1)
    given = right.spread([nd - 2], nd) if right.ndim == 1 else right
    batch = shape[: nd - 2]
    axis = int(np.argmax(batch)) if max(batch, default=1) > 1 else nd - 1
    result = (*batch, left.shape[-1], given.shape[-1])
    ours, theirs = (_cut(x, axis, nd) for x in (left.shape, given.shape))
    cut: Any = Shard(axis)
    if axis == nd - 1:  # one matrix, which all have; so is one vector
        ours = Replicate()
        cut = theirs
    every = [(placement,) * len(mesh) for placement in (ours, theirs, cut)]
    matrices = left.fetched(wire, "matrix", boxes(left.shape, every[0], mesh))
    sides = given.fetched(wire, "right-hand sides", boxes(given.shape, every[1], mesh))
    own = boxes(result, every[2], mesh)
    solution = _agreed(wire, lambda: solve_here(matrices, sides, dtype=dtype, accuracy=wanted[1]))
    format_ = solution.format if isinstance(solution, Words) else None
    parts = tuple(solution.planes) if isinstance(solution, Words) else (solution,)
    if right.ndim == 1:
        parts, result = tuple(x[..., 0] for x in parts), result[:-1]
        own = tuple(box[:-1] for box in own)
    assert dims(own[wire.me]) == tuple(parts[0].shape[int(format_ is not None) :])
    answer = Sharded("x", result, every[2], left.mesh, parts, format_)
    return answer.fetched(wire, "solution", boxes(result, placements, mesh))


def _cut(shape: tuple[int, ...], axis: int, nd: int) -> Any:
    """An operand cut along an axis of the solution's, if it has that."""
    at = axis - (nd - len(shape))
    return Shard(at) if at >= 0 and shape[at] > 1 else Replicate()
