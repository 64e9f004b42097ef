"""Arrays of `Words` made of others: side by side, repeated, chosen; nothing is rounded."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from widen.formats.arrays import library_of, new_planes, place_of
from widen.words import arithmetic, order
from widen.words.axes import axis_of
from widen.words.promotion import common_format

if TYPE_CHECKING:
    from widen.words.array import Words


def as_words(*given: Any) -> tuple[Words, ...]:
    """Operands of one call as words, where at least one of them is."""
    from widen.words.array import Words

    model = next(x for x in given if isinstance(x, Words))
    words = [arithmetic.operand(model, x) for x in given]
    for x, y in zip(given, words, strict=True):
        if y is None:
            raise TypeError(
                f"{type(x).__name__} of Python objects does not mix with {model.format.name}; give "
                f"widen.Words(it, dtype=widen.{model.format.name})"
            )
    return tuple(x for x in words if x is not None)


def joined(arrays: Sequence[Any], axis: Any, how: str = "concatenate") -> Words:
    """Arrays stacked along a new axis, or put one behind the other."""
    words = as_words(*arrays)
    fmt = words[0].format
    for x in words[1:]:
        fmt = common_format(fmt, x.format)
    words = tuple(x if x.format == fmt else x.astype(fmt) for x in words)
    if axis is None and how == "concatenate":
        words, axis = tuple(x.reshape(-1) for x in words), 0
    ndim = words[0].ndim + (how == "stack")
    if axis is None:
        raise TypeError("stack of words takes an axis; give x.reshape(-1) to join all elements")
    place = axis_of(axis, ndim)
    _check_shapes([x.shape for x in words], -1 if how == "stack" else place, how)
    library = library_of(words[0].planes[0])
    put = getattr(library, how if library is np or how == "stack" else "cat")
    planes = [put([x.planes[at] for x in words], place + 1) for at in range(len(words[0].planes))]
    target = new_planes(fmt, tuple(planes[0].shape), place_of(planes[0]))
    for new, plane in zip(target, planes, strict=True):
        new[...] = plane
    return type(words[0]).of(fmt, target)


def _check_shapes(shapes: list[tuple[int, ...]], free: int, how: str) -> None:
    """Whether shapes agree in all axes but one."""
    for shape in shapes[1:]:
        pairs = zip(shapes[0], shape, strict=False)
        same = all(x == y for at, (x, y) in enumerate(pairs) if at != free)
        if len(shape) != len(shapes[0]) or not same:
            raise ValueError(f"{how} of shapes {shapes[0]} and {shape}: they do not fit together")


def vertically(arrays: Sequence[Any]) -> Words:
    """Rows one below the other, as NumPy's vstack."""
    return joined([x.reshape(1, -1) if x.ndim < 2 else x for x in as_words(*arrays)], 0)


def horizontally(arrays: Sequence[Any]) -> Words:
    """Columns one beside the other, as NumPy's hstack."""
    words = [x.reshape(1) if x.ndim == 0 else x for x in as_words(*arrays)]
    return joined(words, 0 if words[0].ndim == 1 else 1)


def block(rows: Any) -> Words:
    """An array from nested lists of blocks, as NumPy's block."""
    depth = _depth(rows)
    leaves = _leaves(rows)
    if not leaves:
        raise ValueError("there are no blocks; give lists of arrays")
    words = iter(as_words(*leaves))
    tree = _replaced(rows, words)
    ndim = max(depth, *(x.ndim for x in _leaves(tree)))
    return _assembled(tree, depth, ndim)


def _depth(rows: Any) -> int:
    """How deep lists are nested, the same everywhere."""
    if not isinstance(rows, list):
        return 0
    if not rows:
        raise ValueError("a list of blocks is empty; give at least one block")
    depths = {_depth(row) for row in rows}
    if len(depths) > 1:
        raise ValueError("lists of blocks are nested to different depths; give rows of one depth")
    return 1 + depths.pop()


def _leaves(rows: Any) -> list[Any]:
    return [x for row in rows for x in _leaves(row)] if isinstance(rows, list) else [rows]


def _replaced(rows: Any, words: Any) -> Any:
    return [_replaced(row, words) for row in rows] if isinstance(rows, list) else next(words)


def _assembled(rows: Any, depth: int, ndim: int) -> Words:
    """Blocks of the innermost lists are joined along the last axis, those above before it."""
    if not isinstance(rows, list):
        grown: Words = rows.reshape((1,) * (ndim - rows.ndim) + rows.shape)
        return grown.copy() if depth == 0 else grown
    return joined([_assembled(row, depth - 1, ndim) for row in rows], ndim - depth)


def broadcast(x: Words, sizes: Any) -> Words:
    """The same numbers, repeated to a shape; a view."""
    shape = (sizes,) if isinstance(sizes, int) else tuple(sizes)
    grown = (1,) * (len(shape) - x.ndim)
    planes = [
        library_of(plane).broadcast_to(
            plane.reshape((plane.shape[0], *grown, *x.shape)), (plane.shape[0], *shape)
        )
        for plane in x.planes
    ]
    return type(x).of(x.format, planes)


def where(condition: Any, x: Any, y: Any) -> Words:
    """Numbers of x where the condition holds, of y elsewhere."""
    if hasattr(condition, "planes"):
        raise TypeError("where takes a condition of True and False, and words are none: use x != 0")
    ours, theirs = as_words(x, y)
    fmt = common_format(ours.format, theirs.format)
    pair = zip(ours.astype(fmt).planes, theirs.astype(fmt).planes, strict=True)
    shape = np.broadcast_shapes(np.shape(condition), ours.shape, theirs.shape)
    planes = []
    for p, q in pair:
        library = library_of(p)
        p, q = (
            broadcast(type(ours).of(fmt, [z]), tuple(shape)).planes[0] for z in (p, q)
        )  # one axis of parts in front of both
        planes.append(library.where(library.broadcast_to(condition, tuple(shape)), p, q))
    return type(ours).of(fmt, planes)


def chosen(operation: str) -> Callable[..., Any]:
    """The larger ("less") or the smaller ("greater") of two numbers; NaN if one of them is."""

    def apply(x: Any, y: Any) -> Words:
        ours, theirs = as_words(x, y)
        return where(order.take_second(ours, theirs, operation), theirs, ours)

    return apply


def outer(x: Any, y: Any) -> Words:
    """Products of all numbers of one array with all of another."""
    ours, theirs = as_words(x, y)
    return arithmetic.binary("multiply", ours.reshape(-1, 1), theirs.reshape(1, -1))
