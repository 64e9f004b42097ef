"""Elements of planes (parts, *shape): indexed as an array of their shape would be.

The parts stand last meanwhile: NumPy and PyTorch put the axis of lists that a slice separates, as
in x[[0, 1], :, [2, 3]], before all others.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from widen.formats.arrays import is_tensor

if TYPE_CHECKING:
    from widen.words.array import Words


def is_open(key: Any) -> bool:
    """Whether an index has an ellipsis, with which NumPy gives a view of even a single number."""
    return any(one is Ellipsis for one in (key if isinstance(key, tuple) else (key,)))


def _whole(key: Any) -> tuple[Any, ...]:
    """An index of elements as one of planes with their parts last, all of which it takes."""
    given = key if isinstance(key, tuple) else (key,)
    return (*given, slice(None)) if is_open(key) else (*given, Ellipsis, slice(None))


def _parts_last(plane: Any) -> Any:
    return _turned(plane, (*range(1, plane.ndim), 0))


def _turned(plane: Any, axes: tuple[int, ...]) -> Any:
    """Axes in another order, in a tenth of the time of NumPy's moveaxis."""
    return plane.permute(axes) if is_tensor(plane) else plane.transpose(axes)


BASIC = (slice, int, type(None), type(Ellipsis))
"""Indices that leave the axis of parts where it is."""


def taken(plane: Any, key: Any) -> Any:
    """plane[key] of the elements; a view where the library gives one."""
    given = key if isinstance(key, tuple) else (key,)
    if all(type(one) in BASIC for one in given):
        return plane[(slice(None), *given)]
    found = _parts_last(plane)[_whole(key)]
    return _turned(found, (found.ndim - 1, *range(found.ndim - 1)))


def put(plane: Any, key: Any, values: Any) -> None:
    """plane[key] = values, which are (parts, *shape) and broadcast."""
    _parts_last(plane)[_whole(key)] = _parts_last(values)


def overlap(plane: Any, planes: tuple[Any, ...]) -> bool:
    """Whether values that are assigned may share memory with where they go."""
    if is_tensor(plane):
        place = plane.untyped_storage().data_ptr()
        return any(place == other.untyped_storage().data_ptr() for other in planes)
    return any(np.may_share_memory(plane, other) for other in planes)


def assign(array: Words, key: Any, numbers: Words) -> None:
    """array[key] = numbers, which have its format and broadcast."""
    target = array[key].shape
    extra = max(numbers.ndim - len(target), 0)
    shape = numbers.shape[extra:]
    fits = (x in (1, y) for x, y in zip(shape[::-1], target[::-1], strict=False))
    if math.prod(numbers.shape[:extra]) != 1 or not all(fits):
        raise ValueError(f"shape {numbers.shape} does not fit in place of shape {target}")
    if any(overlap(plane, array.planes) for plane in numbers.planes):
        numbers = numbers.copy()
    for plane, values in zip(array.planes, numbers.planes, strict=True):
        put(plane, key, values.reshape((values.shape[0], *shape)))
