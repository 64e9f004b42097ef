"""Parts of matrices of `Words`, and other shapes of the same numbers: nothing is rounded."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from widen.formats.arrays import Wide, library_of, new_planes
from widen.words.axes import axes_of

if TYPE_CHECKING:
    from widen.words.array import Words


def _each(x: Words, function: Any) -> Words:
    return type(x).of(x.format, [function(plane) for plane in x.planes])


def triangle(x: Words, name: str, k: int) -> Words:
    """The lower (tril) or upper (triu) triangle, from the k-th diagonal on."""
    if x.ndim < 2:
        raise ValueError(f"{name} takes matrices; shape {x.shape} was given")
    return _each(x, lambda plane: getattr(library_of(plane), name)(plane, k))


def diagonal(x: Words, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Words:
    """Diagonals of the matrices that two axes make, along the last axis; a view."""
    if x.ndim < 2:
        raise ValueError(f"a diagonal is that of a matrix; shape {x.shape} was given")
    first, second = axes_of((axis1, axis2), x.ndim)
    return _each(x, lambda plane: library_of(plane).diagonal(plane, offset, 1 + first, 1 + second))


def diag(x: Words, k: int = 0) -> Words:
    """A diagonal, or the matrix of one."""
    if x.ndim == 2:
        return diagonal(x, k).copy()
    if x.ndim != 1:
        raise ValueError(f"diag takes a vector or a matrix; shape {x.shape} was given")
    n = x.shape[0] + abs(k)
    made = _each(x, lambda plane: _zeros(plane, (plane.shape[0], n, n)))
    if x.shape[0]:
        rows = range(max(0, -k), max(0, -k) + x.shape[0])
        columns = range(max(0, k), max(0, k) + x.shape[0])
        made[rows, columns] = x
    return made


def _zeros(like: Any, shape: tuple[int, ...]) -> Any:
    library = library_of(like)
    if hasattr(like, "new_zeros"):
        return like.new_zeros(shape)
    return library.zeros(shape, like.dtype)


def eye_planes(fmt: Wide, shape: tuple[int, int], k: int, place: Any) -> tuple[Any, ...]:
    """Planes of ones on the k-th diagonal, and zeros elsewhere."""
    planes = new_planes(fmt, (fmt.parts, *shape), place)
    for plane in planes:
        plane[...] = 0
    row, column = max(0, -k), max(0, k)
    count = min(shape[0] - row, shape[1] - column)
    if count > 0:
        planes[0][0][range(row, row + count), range(column, column + count)] = 1
    return planes


def squeeze(x: Words, axis: Any = None) -> Words:
    """Without axes of one entry, all of them or those given."""
    axes = axes_of(axis, x.ndim)
    if axis is not None and any(x.shape[at] != 1 for at in axes):
        raise ValueError(f"axis {axis} of shape {x.shape} has more than one entry")
    return x.reshape([s for at, s in enumerate(x.shape) if s != 1 or at not in axes])


def squeeze_if_single(x: Words, dim: Any = None) -> Words:
    """PyTorch's squeeze: axes of several entries stay."""
    single = tuple(at for at in axes_of(dim, x.ndim) if x.shape[at] == 1)
    return squeeze(x, single)


def flip(x: Words, axis: Any = None) -> Words:
    """Backwards along axes, all by default."""
    moved = tuple(1 + at for at in axes_of(axis, x.ndim))
    return _each(x, lambda plane: library_of(plane).flip(plane, moved))


def ravelled(x: Words) -> Words:
    """All numbers in one line, row by row; a view where the planes' reshape is one."""
    return x.reshape(-1) if x.size else x.reshape(0)


def transposed(x: Words, axes: Any = None) -> Words:
    """NumPy's transpose: `axes` is None or a sequence."""
    return x.transpose() if axes is None else x.transpose(*np.atleast_1d(axes).tolist())
