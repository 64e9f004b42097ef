"""Dot products, and products of vectors, matrices and tensors by NumPy's names."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.exceptions import AxisError

from widen.api import matmul
from widen.functions.arrays import conjugate, delivered, operand, permuted, reshaped
from widen.options import Accuracy
from widen.words.axes import axes_of, axis_of


def dot(
    a: Any, b: Any, *, accuracy: Accuracy = "correct", dtype: Any = None, out: Any = None
) -> Any:
    """Dot products, correctly rounded: `np.dot` of vectors, matrices and more axes.

    Parameters
    ----------
    a, b
        Arrays, tensors, `Words` or lists. Of vectors this is their dot product, of matrices their
        product, of a number the multiples of the other; otherwise the last axis of a is summed
        with the last but one of b.
    accuracy
        As for `matmul`, ``"correct"`` by default.
    dtype, out
        As for `matmul`.

    Examples
    --------
    >>> import widen
    >>> widen.dot([1e16, 1.0, -1e16], [1.0, 1.0, 1.0])
    np.float64(1.0)
    """
    x, y = operand(a, "a"), operand(b, "b")
    if x.ndim == 0 or y.ndim == 0:
        return delivered(_multiples(x, y, accuracy, dtype), out)
    axes = (-1, -2 if y.ndim > 1 else -1)
    return tensordot(x, y, axes, accuracy=accuracy, dtype=dtype, out=out)


def _multiples(x: Any, y: Any, accuracy: Accuracy, dtype: Any) -> Any:
    """Products of a number with all of an array's: each is rounded once."""
    shape = tuple(x.shape) if y.ndim == 0 else tuple(y.shape)
    column, row = reshaped(x, (-1, 1)), reshaped(y, (1, -1))
    return reshaped_scalar(matmul(column, row, accuracy=accuracy, dtype=dtype), shape)


def reshaped_scalar(x: Any, shape: tuple[int, ...]) -> Any:
    """An array in another shape; of NumPy's arrays without axes, the number."""
    result = reshaped(x, shape)
    return result[()] if isinstance(result, np.ndarray) and not shape else result


def vdot(
    a: Any, b: Any, *, accuracy: Accuracy = "correct", dtype: Any = None, out: Any = None
) -> Any:
    """The dot product of all entries of a, conjugated, with those of b, correctly rounded.

    Parameters
    ----------
    a, b
        Arrays, tensors, `Words` or lists with as many entries as each other.
    accuracy, dtype, out
        As for `dot`.

    Examples
    --------
    >>> import widen
    >>> widen.vdot([1j, 2.0], [1j, 3.0])
    np.complex128(7+0j)
    """
    x, y = reshaped(operand(a, "a"), (-1,)), reshaped(operand(b, "b"), (-1,))
    return delivered(matmul(conjugate(x), y, accuracy=accuracy, dtype=dtype), out)


def inner(
    a: Any, b: Any, *, accuracy: Accuracy = "correct", dtype: Any = None, out: Any = None
) -> Any:
    """Dot products of the last axes of a and b, as `np.inner`, correctly rounded.

    Parameters
    ----------
    a, b
        Arrays, tensors, `Words` or lists whose last axes have one length; or a number.
    accuracy, dtype, out
        As for `dot`.

    Examples
    --------
    >>> import widen
    >>> widen.inner([[1.0, 2.0], [3.0, 4.0]], [1.0, 0.5])
    array([2., 5.])
    """
    x, y = operand(a, "a"), operand(b, "b")
    if x.ndim == 0 or y.ndim == 0:
        return delivered(_multiples(x, y, accuracy, dtype), out)
    return tensordot(x, y, (-1, -1), accuracy=accuracy, dtype=dtype, out=out)


def outer(
    a: Any, b: Any, *, accuracy: Accuracy = "standard", dtype: Any = None, out: Any = None
) -> Any:
    """All products of an entry of a and an entry of b, each rounded once.

    Parameters
    ----------
    a, b
        Arrays, tensors, `Words` or lists, whose entries are taken in order.
    accuracy, dtype, out
        As for `matmul`; every contract rounds a single product correctly.

    Examples
    --------
    >>> import widen
    >>> widen.outer([1.0, 2.0], [3.0, 4.0])
    array([[3., 4.],
           [6., 8.]])
    """
    x, y = reshaped(operand(a, "a"), (-1, 1)), reshaped(operand(b, "b"), (1, -1))
    return delivered(matmul(x, y, accuracy=accuracy, dtype=dtype), out)


def tensordot(
    a: Any,
    b: Any,
    axes: Any = 2,
    *,
    accuracy: Accuracy = "standard",
    dtype: Any = None,
    out: Any = None,
) -> Any:
    """Products of tensors, summed over axes of both, as `np.tensordot`: one sum, rounded once.

    Parameters
    ----------
    a, b
        Arrays, tensors, `Words` or lists.
    axes
        How many last axes of a are summed with as many first ones of b; or two lists of axes.
    accuracy, dtype, out
        As for `matmul`.

    Examples
    --------
    >>> import numpy as np, widen
    >>> a, b = np.ones((2, 3, 4)), np.ones((4, 3, 5))
    >>> widen.tensordot(a, b, axes=([1, 2], [1, 0])).shape
    (2, 5)
    """
    x, y = operand(a, "a"), operand(b, "b")
    ours, theirs = _summed(axes, x.ndim, y.ndim)
    sizes = [[z.shape[axis] for axis in taken] for z, taken in ((x, ours), (y, theirs))]
    if sizes[0] != sizes[1]:
        raise ValueError(
            f"axes {ours} of shape {tuple(x.shape)} and {theirs} of shape {tuple(y.shape)} do not "
            "match; np.tensordot's rules apply"
        )
    left = [axis for axis in range(x.ndim) if axis not in ours]
    right = [axis for axis in range(y.ndim) if axis not in theirs]
    rows, columns = ([z.shape[axis] for axis in kept] for z, kept in ((x, left), (y, right)))
    inner_size = math.prod(sizes[0])
    first = reshaped(permuted(x, (*left, *ours)), (math.prod(rows), inner_size))
    second = reshaped(permuted(y, (*theirs, *right)), (inner_size, math.prod(columns)))
    product = matmul(first, second, accuracy=accuracy, dtype=dtype)
    return delivered(reshaped_scalar(product, (*rows, *columns)), out)


def _summed(axes: Any, left: int, right: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Axes of both that are summed."""
    if isinstance(axes, (int, np.integer)):
        count = int(axes)
        if not 0 <= count <= min(left, right):
            raise AxisError(f"axes={axes} but the operands have {left} and {right} axes")
        return tuple(range(left - count, left)), tuple(range(count))
    ours, theirs = axes
    first, second = (
        axes_of((chosen,) if np.ndim(chosen) == 0 else tuple(chosen), ndim)
        for chosen, ndim in ((ours, left), (theirs, right))
    )
    if len(first) != len(second):
        raise ValueError(f"axes={axes!r}: give as many axes of a as of b, each once")
    return first, second


def vecdot(
    x1: Any,
    x2: Any,
    *,
    axis: int = -1,
    accuracy: Accuracy = "correct",
    dtype: Any = None,
    out: Any = None,
) -> Any:
    """Dot products of vectors along an axis, the first conjugated, correctly rounded.

    Parameters
    ----------
    x1, x2
        Arrays, tensors, `Words` or lists; other axes are broadcast.
    axis
        The axis of both that is summed.
    accuracy, dtype, out
        As for `dot`.

    Examples
    --------
    >>> import numpy as np, widen
    >>> widen.vecdot(np.ones((3, 2)), np.array([1.0, 2.0]))
    array([3., 3., 3.])
    """
    vectors = []
    for x in (operand(x1, "x1"), operand(x2, "x2")):
        place = axis_of(axis, x.ndim)
        vectors.append(permuted(x, [*(i for i in range(x.ndim) if i != place), place]))
    left, right = conjugate(vectors[0]), vectors[1]
    row = reshaped(left, (*left.shape[:-1], 1, left.shape[-1]))
    column = reshaped(right, (*right.shape, 1))
    product = matmul(row, column, accuracy=accuracy, dtype=dtype)
    return delivered(reshaped_scalar(product, tuple(product.shape[:-2])), out)


def matvec(
    x1: Any, x2: Any, *, accuracy: Accuracy = "standard", dtype: Any = None, out: Any = None
) -> Any:
    """Matrices times vectors, (..., m, n) and (..., n), as `np.matvec`.

    Parameters
    ----------
    x1, x2
        Arrays, tensors, `Words` or lists: matrices and vectors, other axes are broadcast.
    accuracy, dtype, out
        As for `matmul`.

    Examples
    --------
    >>> import numpy as np, widen
    >>> widen.matvec([[1.0, 2.0], [3.0, 4.0]], np.ones((3, 2))).shape
    (3, 2)
    """
    x, y = _at_least(operand(x1, "x1"), 2, "x1"), _at_least(operand(x2, "x2"), 1, "x2")
    product = matmul(x, reshaped(y, (*y.shape, 1)), accuracy=accuracy, dtype=dtype)
    return delivered(reshaped(product, tuple(product.shape[:-1])), out)


def vecmat(
    x1: Any, x2: Any, *, accuracy: Accuracy = "standard", dtype: Any = None, out: Any = None
) -> Any:
    """Vectors, conjugated, times matrices, (..., n) and (..., n, m), as `np.vecmat`.

    Parameters
    ----------
    x1, x2
        Arrays, tensors, `Words` or lists: vectors and matrices, other axes are broadcast.
    accuracy, dtype, out
        As for `matmul`.

    Examples
    --------
    >>> import widen
    >>> widen.vecmat([1.0, 2.0], [[3.0, 4.0], [5.0, 6.0]])
    array([13., 16.])
    """
    x, y = _at_least(operand(x1, "x1"), 1, "x1"), _at_least(operand(x2, "x2"), 2, "x2")
    row = reshaped(conjugate(x), (*x.shape[:-1], 1, x.shape[-1]))
    product = matmul(row, y, accuracy=accuracy, dtype=dtype)
    return delivered(reshaped(product, (*product.shape[:-2], product.shape[-1])), out)


def _at_least(x: Any, ndim: int, name: str) -> Any:
    if x.ndim < ndim:
        kind = {1: "a vector", 2: "a matrix"}[ndim]
        raise ValueError(f"{name} has shape {tuple(x.shape)}; give {kind}, or an array of such")
    return x
