"""Axes as a caller names them, and the shapes that are left when axes are added up."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.exceptions import AxisError


def axis_of(axis: Any, ndim: int) -> int:
    """An axis that a caller names, counted from 0.

    >>> axis_of(-1, 3)
    2
    """
    if not isinstance(axis, (int, np.integer)) or isinstance(axis, bool):
        raise TypeError(f"axis={axis!r} is not an axis; give an integer, or a tuple of them")
    if not -ndim <= axis < ndim:
        raise AxisError(f"axis {axis} does not exist: the array has {ndim} axes")
    return int(axis) % ndim


def axes_of(axis: Any, ndim: int) -> tuple[int, ...]:
    """The axes that a caller names, counted from 0: all of them, one, or several.

    >>> axes_of(None, 2), axes_of(-1, 3), axes_of((2, 0), 3)
    ((0, 1), (2,), (2, 0))
    """
    if axis is None:
        return tuple(range(ndim))
    places = tuple(
        axis_of(one, ndim) for one in (axis if isinstance(axis, (list, tuple)) else [axis])
    )
    if len(set(places)) < len(places):
        raise ValueError(f"axis={axis!r} names an axis twice")
    return places


def kept_shape(shape: Sequence[int], axes: tuple[int, ...], keepdims: bool) -> tuple[int, ...]:
    """The shape that is left after axes are added up.

    >>> kept_shape((2, 3, 4), (1,), keepdims=False), kept_shape((2, 3, 4), (1,), keepdims=True)
    ((2, 4), (2, 1, 4))
    """
    sizes = [(1 if at in axes else size, at in axes) for at, size in enumerate(shape)]
    return tuple(int(size) for size, added in sizes if keepdims or not added)
