"""The order of `Words`: largest and smallest numbers, sorting, signs.

Words are canonical, so that numbers are ordered word by word: the first words that differ decide.
NaN is larger than all numbers, and what is found where one is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from widen.formats.arrays import cast, library_of
from widen.words import arithmetic
from widen.words.axes import axes_of, kept_shape
from widen.words.sums import lines_along

if TYPE_CHECKING:
    from widen.words.array import Words


class ValuesAndIndices(NamedTuple):
    """Numbers and where they stand, as PyTorch's `max`, `min` and `sort` give them."""

    values: Words
    indices: Any


def _real_planes(x: Words) -> list[Any]:
    if x.format.parts == 2:
        raise TypeError("complex numbers have no order; take .real, .imag or abs(x)")
    return [plane[0] for plane in x.planes]


def _extreme(x: Words, sign: int) -> tuple[list[Any], Any]:
    """The words of the largest (sign 1) or smallest number of every row, and where it stands."""
    planes = _real_planes(x)
    library = library_of(planes[0])
    if planes[0].shape[0] and not planes[0].shape[1]:
        raise ValueError("there is no largest or smallest of no numbers; give at least one")
    if not planes[0].shape[0]:
        return [plane.reshape(0) for plane in planes], cast(planes[0], "int8")
    is_nan = library.isnan(planes[0])
    any_nan = is_nan.any(1)
    left, words = ~is_nan, []
    for plane in planes:
        turned = plane if sign > 0 else -plane
        masked = library.where(left, turned, library.full_like(plane, float("-inf")))
        best = library.amax(masked, 1)
        left = left & (turned == best[:, None])
        words.append(best + 0 if sign > 0 else 0 - best)  # no -0, whatever the library finds
    words = [library.where(any_nan, library.full_like(word, float("nan") if not k else 0.0), word)
             for k, word in enumerate(words)]  # fmt: skip
    where = library.where(any_nan[:, None], is_nan, left)
    return words, cast(where, "int8")


def extreme(x: Words, axis: Any, keepdims: bool, sign: int) -> Words:
    """The largest (sign 1) or smallest numbers along axes, or of all."""
    axes = axes_of(axis, x.ndim)
    words, _ = _extreme(lines_along(x, axes), sign)
    shape = kept_shape(x.shape, axes, keepdims)
    return type(x).of(x.format, [word.reshape((1, *shape)) for word in words])


def place(x: Words, axis: Any, sign: int, keepdims: bool = False) -> Any:
    """Where the first largest or smallest number along an axis stands, or of all."""
    if isinstance(axis, tuple):
        raise TypeError(f"axis={axis!r}: a place is one along one axis, or of all; give an integer")
    axes = axes_of(axis, x.ndim)
    _, where = _extreme(lines_along(x, axes), sign)
    places = where.argmax(1) if where.shape[0] else cast(where, "int64").reshape(0)
    return places.reshape(kept_shape(x.shape, axes, keepdims))[()]


def extreme_with_indices(
    x: Words, axis: int, sign: int, keepdims: bool = False
) -> ValuesAndIndices:
    """The largest or smallest numbers along an axis, and where the first of them stand."""
    return ValuesAndIndices(extreme(x, axis, keepdims, sign), place(x, axis, sign, keepdims))


def _flat(x: Words, axis: Any) -> tuple[Words, int]:
    """Numbers and the axis along which they are sorted: all in a line without one."""
    if axis is None or not x.ndim:
        return x.reshape(x.size), 0
    return x, axes_of(axis, x.ndim)[0]


def _indices(x: Words, axis: int) -> Any:
    """The indices that sort numbers along an axis; equal ones stay in order."""
    planes = _real_planes(x)
    library = library_of(planes[0])
    indices = None
    for plane in planes[::-1]:
        along = plane if indices is None else _taken(plane, indices, axis)
        if library is np:
            step = np.argsort(along, axis=axis, kind="stable")
        else:
            step = library.sort(along, dim=axis, stable=True)[1]
        indices = step if indices is None else _taken(indices, step, axis)
    return indices


def _taken(x: Any, indices: Any, axis: int) -> Any:
    library = library_of(x)
    return np.take_along_axis(x, indices, axis) if library is np else x.gather(axis, indices)


def argument_order(x: Words, axis: Any, descending: bool = False) -> Any:
    """The indices that sort numbers along an axis, or all of them; equal ones stay in order."""
    numbers, at = _flat(x, axis)
    if not descending:
        return _indices(numbers, at)
    library = library_of(x.planes[0])
    last = numbers.shape[at] - 1
    backwards = type(x).of(x.format, [library.flip(p, (1 + at,)) for p in numbers.planes])
    return last - library.flip(_indices(backwards, at), (at,))


def sorted_with_indices(x: Words, axis: Any, descending: bool = False) -> ValuesAndIndices:
    """Numbers sorted along an axis, or all of them in a line, and their indices."""
    numbers, at = _flat(x, axis)
    indices = argument_order(x, axis, descending)
    planes = [_taken(plane, indices, at)[None] for plane in _real_planes(numbers)]
    return ValuesAndIndices(type(x).of(x.format, planes), indices)


def ordered(x: Words, axis: Any) -> Words:
    """Numbers sorted along an axis, or all of them in a line."""
    return sorted_with_indices(x, axis).values


def sign(x: Words) -> Words:
    """1, 0 or -1, as numbers of the same format; NaN stays."""
    first = _real_planes(x)[0]
    library = library_of(first)
    signs = library.sign(first) + 0  # no -0
    planes = [signs[None], *(library.zeros_like(plane) for plane in x.planes[1:])]
    return type(x).of(x.format, planes)


def take_second(x: Words, y: Words, operation: str) -> Any:
    """Where the second of two numbers is the one: x < y (or x > y), or y is NaN."""
    library = library_of(x.planes[0])
    is_nan = [library.isnan(z.planes[0]).any(0) for z in (x, y)]
    return (arithmetic.compare(operation, x, y) & ~is_nan[0]) | is_nan[1]
