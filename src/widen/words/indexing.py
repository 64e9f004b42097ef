"""Elements of planes (parts, *shape): indexed as an array of their shape would be.

The parts stand last meanwhile: NumPy and PyTorch put the axis of lists that a slice separates, as
in x[[0, 1], :, [2, 3]], before all others.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from widen.formats.arrays import is_tensor, library_of


def is_open(key: Any) -> bool:
    """Whether an index has an ellipsis, with which NumPy gives a view of even a single number."""
    return any(one is Ellipsis for one in (key if isinstance(key, tuple) else (key,)))


def _whole(key: Any) -> tuple[Any, ...]:
    """An index of elements as one of planes with their parts last, all of which it takes."""
    given = key if isinstance(key, tuple) else (key,)
    return (*given, slice(None)) if is_open(key) else (*given, Ellipsis, slice(None))


def _parts_last(plane: Any) -> Any:
    return library_of(plane).moveaxis(plane, 0, -1)


def taken(plane: Any, key: Any) -> Any:
    """plane[key] of the elements; a view where the library gives one."""
    return library_of(plane).moveaxis(_parts_last(plane)[_whole(key)], -1, 0)


def put(plane: Any, key: Any, values: Any) -> None:
    """plane[key] = values, which are (parts, *shape) and broadcast."""
    _parts_last(plane)[_whole(key)] = _parts_last(values)


def overlap(plane: Any, planes: tuple[Any, ...]) -> bool:
    """Whether values that are assigned may share memory with where they go."""
    if is_tensor(plane):
        place = plane.untyped_storage().data_ptr()
        return any(place == other.untyped_storage().data_ptr() for other in planes)
    return any(np.may_share_memory(plane, other) for other in planes)
