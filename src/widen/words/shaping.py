"""Parts of matrices of `Words`, and arrays made of others: word by word, nothing is rounded."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from widen.formats.arrays import library_of

if TYPE_CHECKING:
    from widen.words.array import Words


def _each(x: Words, function: Any) -> Words:
    return type(x).of(x.format, [function(plane) for plane in x.planes])


def triangle(x: Words, name: str, k: int) -> Words:
    """The lower (tril) or upper (triu) triangle, from the k-th diagonal on."""
    if x.ndim < 2:
        raise ValueError(f"{name} takes matrices; shape {x.shape} was given")
    return _each(x, lambda plane: getattr(library_of(plane), name)(plane, k))


def diagonal(x: Words, offset: int = 0) -> Words:
    """The diagonal of matrices (..., m, n)."""
    if x.ndim < 2:
        raise ValueError(f"a diagonal is that of a matrix; shape {x.shape} was given")
    if x.ndim > 2:
        raise ValueError("the diagonal of a batch is x[..., range(n), range(n)]")
    return _each(x, lambda plane: library_of(plane).diagonal(plane, offset, 1, 2))


def diag(x: Words, k: int = 0) -> Words:
    """A diagonal, or the matrix of one."""
    if x.ndim == 2:
        return diagonal(x, k).copy()
    if x.ndim != 1:
        raise ValueError(f"diag takes a vector or a matrix; shape {x.shape} was given")
    n = x.shape[0] + abs(k)
    made = _each(x, lambda plane: _zeros(plane, (plane.shape[0], n, n)))
    rows = range(max(0, -k), max(0, -k) + x.shape[0])
    columns = range(max(0, k), max(0, k) + x.shape[0])
    made[rows, columns] = x
    return made


def _zeros(like: Any, shape: tuple[int, ...]) -> Any:
    library = library_of(like)
    if hasattr(like, "new_zeros"):
        return like.new_zeros(shape)
    return library.zeros(shape, like.dtype)


def squeeze(x: Words, axis: Any = None) -> Words:
    """Without axes of one entry, all of them or those given."""
    axes = tuple(range(x.ndim)) if axis is None else axis if isinstance(axis, tuple) else (axis,)
    axes = tuple(at % max(x.ndim, 1) for at in axes)
    if axis is not None and any(x.shape[at] != 1 for at in axes):
        raise ValueError(f"axis {axis} of shape {x.shape} has more than one entry")
    return x.reshape([s for at, s in enumerate(x.shape) if s != 1 or at not in axes])


def flip(x: Words, axis: Any = None) -> Words:
    """Backwards along axes, all by default."""
    axes = tuple(range(x.ndim)) if axis is None else axis if isinstance(axis, tuple) else (axis,)
    moved = tuple(1 + at % max(x.ndim, 1) for at in axes)
    return _each(x, lambda plane: library_of(plane).flip(plane, moved))


def stacked(arrays: Sequence[Any], join: Any, vertically: bool) -> Words:
    """Rows one below the other, or columns one beside the other, as NumPy's vstack and hstack."""
    if vertically:
        return join([x.reshape(1, -1) if x.ndim < 2 else x for x in arrays], 0)  # type: ignore[no-any-return]
    return join(arrays, 0 if arrays[0].ndim < 2 else 1)  # type: ignore[no-any-return]
