"""The order of `Words`: largest and smallest numbers, sorting, signs.

Words are canonical, so that numbers are ordered word by word: the first words that differ decide.
NaN is larger than all numbers, and what is found where one is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from widen.formats.arrays import cast, library_of
from widen.words import arithmetic

if TYPE_CHECKING:
    from widen.words.array import Words


def _real_planes(x: Words) -> list[Any]:
    if x.format.parts == 2:
        raise TypeError("complex numbers have no order; take .real, .imag or abs(x)")
    return [plane[0] for plane in x.planes]


def _flat(x: Words, axis: Any) -> tuple[Words, int]:
    """Numbers and the axis along which they are compared: all in a line without one."""
    if axis is None:
        return x.reshape(-1), 0
    if not isinstance(axis, (int, np.integer)) or not -x.ndim <= axis < x.ndim:
        raise ValueError(f"axis {axis!r} does not exist: the array has {x.ndim} axes")
    return x, int(axis) % x.ndim


def _extreme(x: Words, axis: int, sign: int) -> tuple[list[Any], Any]:
    """The words of the largest (sign 1) or smallest numbers, and where they stand."""
    planes = _real_planes(x)
    library = library_of(planes[0])
    if planes[0].shape[axis] == 0:
        raise ValueError("there is no largest or smallest of no numbers")
    least = float("-inf")
    is_nan = library.isnan(planes[0])
    any_nan = is_nan.any(axis)
    left, words = ~is_nan, []
    for plane in planes:
        turned = plane if sign > 0 else -plane
        masked = library.where(left, turned, library.full_like(plane, least))
        best = library.amax(masked, axis)
        left = left & (turned == _expanded(best, axis))
        words.append(best if sign > 0 else 0 - best)
    words = [library.where(any_nan, library.full_like(word, float("nan") if not k else 0.0), word)
             for k, word in enumerate(words)]  # fmt: skip
    where = library.where(_expanded(any_nan, axis), is_nan, left)
    return words, where


def _expanded(x: Any, axis: int) -> Any:
    library = library_of(x)
    return np.expand_dims(x, axis) if library is np else x.unsqueeze(axis)


def extreme(x: Words, axis: Any, keepdims: bool, sign: int) -> Words:
    """The largest or smallest numbers along an axis, or of all."""
    numbers, at = _flat(x, axis)
    words, _ = _extreme(numbers, at, sign)
    if keepdims:
        words = [word.reshape((1,) * x.ndim) if axis is None else _expanded(word, at)
                 for word in words]  # fmt: skip
    return type(x).of(x.format, [word[None] for word in words])


def place(x: Words, axis: Any, sign: int) -> Any:
    """Where the first largest or smallest number along an axis stands, or of all."""
    numbers, at = _flat(x, axis)
    _, where = _extreme(numbers, at, sign)
    return cast(where, "int8").argmax(at)


def order(x: Words, axis: int) -> Any:
    """The indices that sort numbers along an axis; equal ones stay in order."""
    planes = _real_planes(x)
    library = library_of(planes[0])
    found = None
    for plane in planes[::-1]:
        along = plane if found is None else _taken(plane, found, axis)
        if library is np:
            step = np.argsort(along, axis=axis, kind="stable")
        else:
            step = library.sort(along, dim=axis, stable=True)[1]
        found = step if found is None else _taken(found, step, axis)
    return found


def _taken(x: Any, indices: Any, axis: int) -> Any:
    library = library_of(x)
    return np.take_along_axis(x, indices, axis) if library is np else x.gather(axis, indices)


def ordered(x: Words, axis: Any) -> Words:
    """Numbers sorted along an axis."""
    numbers, at = _flat(x, axis)
    indices = order(numbers, at)
    planes = [_taken(plane, indices, at)[None] for plane in _real_planes(numbers)]
    return type(x).of(x.format, planes)


def argument_order(x: Words, axis: Any) -> Any:
    """The indices that sort numbers along an axis, or all of them."""
    numbers, at = _flat(x, axis)
    return order(numbers, at)


def sign(x: Words) -> Any:
    """1, 0 or -1, as numbers of the same format; NaN stays."""
    first = _real_planes(x)[0]
    library = library_of(first)
    signs = library.sign(first)
    planes = [signs[None], *(library.zeros_like(plane) for plane in x.planes[1:])]
    return type(x).of(x.format, planes)


def take_second(x: Words, y: Words, operation: str) -> Any:
    """Where the second of two numbers is the one: x < y (or x > y), or y is NaN."""
    library = library_of(x.planes[0])
    is_nan = [library.isnan(z.planes[0]).any(0) for z in (x, y)]
    return (arithmetic.compare(operation, x, y) & ~is_nan[0]) | is_nan[1]
