"""Products, means, traces and norms of `Words` along axes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from widen.words import arithmetic, joining, order, shaping, sums
from widen.words.axes import axes_of, kept_shape
from widen.words.sums import lines_along

if TYPE_CHECKING:
    from widen.words.array import Words


def mean(x: Words, axis: Any = None, keepdims: bool = False) -> Words:
    """The exact sum, rounded, over the count; NaN of no numbers."""
    whole = sums.total(x, axis, keepdims)
    count = 1
    for at in axes_of(axis, x.ndim):
        count *= x.shape[at]
    return arithmetic.binary("divide", *joining.as_words(whole, count))


def product(x: Words, axis: Any = None, keepdims: bool = False) -> Words:
    """Products along axes, or of all numbers, by halves; 1 of no numbers."""
    axes = axes_of(axis, x.ndim)
    lines = lines_along(x, axes).transpose(1, 0)
    if len(lines) == 0:
        shape = lines.shape[1:]
        one = arithmetic.operand(x, 1)
        assert one is not None
        lines = joining.broadcast(one.astype(x.format), (1, *shape)).copy()
    while len(lines) > 1:
        half = len(lines) // 2
        rest = lines[2 * half :]
        lines = lines[:half] * lines[half : 2 * half]
        lines = joining.joined([lines, rest], 0) if len(rest) else lines
    return lines[0].reshape(kept_shape(x.shape, axes, keepdims)).copy()


def trace(x: Words, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Words:
    """Sums of diagonals, added exactly and rounded once."""
    return sums.total(shaping.diagonal(x, offset, axis1, axis2), -1, False)


def vector_norm(x: Words, ord: Any = None, axis: Any = None, keepdims: bool = False) -> Words:
    """Norms of all numbers along axes: 1, 2, and the largest or smallest magnitude."""
    if ord in (None, 2, "fro"):
        return sums.norm(x, axis, keepdims)
    if ord == 1:
        return sums.total(arithmetic.absolute(x), axis, keepdims)
    if ord in (np.inf, -np.inf):
        if ord > 0 and 0 in (x.shape[at] for at in axes_of(axis, x.ndim)):
            return sums.total(arithmetic.absolute(x), axis, keepdims)  # 0 of no numbers
        return order.extreme(arithmetic.absolute(x), axis, keepdims, 1 if ord > 0 else -1)
    raise TypeError(f"words have norms of orders 1, 2, inf and -inf; ord={ord!r} was asked for")


def matrix_norm(x: Words, ord: Any = "fro", axis: Any = (-2, -1), keepdims: bool = False) -> Words:
    """Norms of matrices: "fro", and the largest or smallest sum of a column (1) or a row (inf)."""
    first, second = axes_of(axis, x.ndim)
    if ord in ("fro", None):
        return sums.norm(x, (first, second), keepdims)
    if ord not in (1, -1, np.inf, -np.inf):
        raise TypeError(
            f"matrices of words have norms 1, -1, inf, -inf and 'fro'; ord={ord!r} was asked for "
            "(widen.linalg.norm has the largest singular value, proven)"
        )
    added, other = (first, second) if abs(ord) == 1 else (second, first)
    lines = sums.total(arithmetic.absolute(x), added, True)
    if ord > 0 and x.shape[other] == 0:  # 0 of no lines
        return sums.total(lines, other, True).reshape(
            kept_shape(x.shape, (first, second), keepdims)
        )
    largest = order.extreme(lines, other, True, 1 if ord > 0 else -1)
    return largest.reshape(kept_shape(x.shape, (first, second), keepdims))


def norm(x: Words, ord: Any = None, axis: Any = None, keepdims: bool = False) -> Words:
    """NumPy's and PyTorch's `linalg.norm`: of vectors along one axis, of matrices along two."""
    if axis is None and ord is None:
        return sums.norm(x, None, keepdims)
    axes = tuple(range(x.ndim)) if axis is None else axis if isinstance(axis, tuple) else (axis,)
    if len(axes) == 1:
        if ord == "fro":
            raise ValueError("the norm 'fro' is one of matrices; a vector has ord=2")
        return vector_norm(x, ord, axes[0], keepdims)
    if len(axes) == 2:
        return matrix_norm(x, ord, axes, keepdims)
    raise ValueError(
        f"a norm is one of vectors or matrices; {len(axes)} axes were given: say axis="
    )
