"""NumPy's names for widen's functions: ``import widen.numpy as wnp`` reads like NumPy.

Arguments are NumPy's, in NumPy's order; `accuracy` comes after them. What is not here is NumPy's:
``np.exp``, not ``wnp.exp``.

>>> import widen.numpy as wnp
>>> wnp.dot([1e16, 1.0, -1e16], [1.0, 1.0, 1.0])
np.float64(1.0)
>>> wnp.exp
Traceback (most recent call last):
AttributeError: widen.numpy has no 'exp': it has dot, einsum, inner, linalg, ...; use numpy.exp
"""

from __future__ import annotations

from typing import Any

import numpy as np

from widen import api, functions
from widen.functions import arrays
from widen.functions.products import reshaped_scalar
from widen.numpy import linalg
from widen.options import Accuracy
from widen.words.axes import axes_of, kept_shape

__all__ = [
    "dot",
    "einsum",
    "inner",
    "linalg",
    "matmul",
    "matvec",
    "outer",
    "sum",
    "tensordot",
    "vdot",
    "vecdot",
    "vecmat",
]


def __getattr__(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(name)
    raise AttributeError(
        f"widen.numpy has no {name!r}: it has {', '.join(__all__)}; use numpy.{name}"
    )


def matmul(
    x1: Any, x2: Any, /, out: Any = None, *, dtype: Any = None, accuracy: Accuracy = None
) -> Any:
    """`np.matmul`, by `widen.matmul`.

    >>> import widen.numpy as wnp
    >>> wnp.matmul([[1.0, 2.0]], [[3.0], [4.0]])
    array([[11.]])
    """
    return api.matmul(x1, x2, out=out, dtype=dtype, accuracy=accuracy)


def dot(a: Any, b: Any, out: Any = None, *, accuracy: Accuracy = "correct") -> Any:
    """`np.dot`, by `widen.dot`.

    >>> import widen.numpy as wnp
    >>> print(wnp.dot([1.0, 2.0], [3.0, 4.0]))
    11.0
    """
    return functions.dot(a, b, out=out, accuracy=accuracy)


def vdot(a: Any, b: Any, /, *, accuracy: Accuracy = "correct") -> Any:
    """`np.vdot`, by `widen.vdot`.

    >>> import widen.numpy as wnp
    >>> print(wnp.vdot([1.0, 2.0], [3.0, 4.0]))
    11.0
    """
    return functions.vdot(a, b, accuracy=accuracy)


def inner(a: Any, b: Any, /, *, accuracy: Accuracy = "correct") -> Any:
    """`np.inner`, by `widen.inner`.

    >>> import widen.numpy as wnp
    >>> print(wnp.inner([1.0, 2.0], [3.0, 4.0]))
    11.0
    """
    return functions.inner(a, b, accuracy=accuracy)


def outer(a: Any, b: Any, out: Any = None, *, accuracy: Accuracy = "standard") -> Any:
    """`np.outer`, by `widen.outer`.

    >>> import widen.numpy as wnp
    >>> print(wnp.outer([1.0, 2.0], [3.0, 4.0]).tolist())
    [[3.0, 4.0], [6.0, 8.0]]
    """
    return functions.outer(a, b, out=out, accuracy=accuracy)


def tensordot(a: Any, b: Any, axes: Any = 2, *, accuracy: Accuracy = "standard") -> Any:
    """`np.tensordot`, by `widen.tensordot`.

    >>> import widen.numpy as wnp
    >>> print(wnp.tensordot([[1.0, 2.0], [3.0, 4.0]], [[1.0, 2.0], [3.0, 4.0]]))
    30.0
    """
    result = functions.tensordot(a, b, axes, accuracy=accuracy)
    return np.asarray(result) if isinstance(result, np.generic) else result  # as NumPy does


def einsum(
    subscripts: Any,
    *operands: Any,
    out: Any = None,
    dtype: Any = None,
    optimize: Any = False,
    accuracy: Accuracy = "standard",
) -> Any:
    """`np.einsum`, by `widen.einsum`.

    >>> import widen.numpy as wnp
    >>> print(wnp.einsum("ij,j->i", [[1.0, 2.0], [3.0, 4.0]], [1.0, 2.0]))
    [ 5. 11.]
    """
    return functions.einsum(
        subscripts, *operands, out=out, dtype=dtype, optimize=optimize, accuracy=accuracy
    )


def vecdot(
    x1: Any,
    x2: Any,
    /,
    out: Any = None,
    *,
    axis: int = -1,
    dtype: Any = None,
    accuracy: Accuracy = "correct",
) -> Any:
    """`np.vecdot`, by `widen.vecdot`.

    >>> import widen.numpy as wnp
    >>> print(wnp.vecdot([1.0, 2.0], [3.0, 4.0]))
    11.0
    """
    return functions.vecdot(x1, x2, axis=axis, out=out, dtype=dtype, accuracy=accuracy)


def matvec(
    x1: Any, x2: Any, /, out: Any = None, *, dtype: Any = None, accuracy: Accuracy = "standard"
) -> Any:
    """`np.matvec`, by `widen.matvec`.

    >>> import widen.numpy as wnp
    >>> print(wnp.matvec([[1.0, 2.0], [3.0, 4.0]], [1.0, 2.0]))
    [ 5. 11.]
    """
    return functions.matvec(x1, x2, out=out, dtype=dtype, accuracy=accuracy)


def vecmat(
    x1: Any, x2: Any, /, out: Any = None, *, dtype: Any = None, accuracy: Accuracy = "standard"
) -> Any:
    """`np.vecmat`, by `widen.vecmat`.

    >>> import widen.numpy as wnp
    >>> print(wnp.vecmat([1.0, 2.0], [[1.0, 2.0], [3.0, 4.0]]))
    [ 7. 10.]
    """
    return functions.vecmat(x1, x2, out=out, dtype=dtype, accuracy=accuracy)


def sum(
    a: Any,
    axis: Any = None,
    dtype: Any = None,
    out: Any = None,
    keepdims: bool = False,
    *,
    initial: Any = 0,
    where: Any = True,
) -> Any:
    """`np.sum`, by `widen.sum`; `initial` is one number more, before anything is rounded.

    >>> import widen.numpy as wnp
    >>> wnp.sum([1e16, 1.0, 5.0], initial=-1e16, where=[True, True, False])
    np.float64(1.0)
    """
    array = a if where is True else np.where(where, a, 0)
    if isinstance(axis, int) and axis in (0, -1) and np.ndim(array) == 0:
        axis = None  # NumPy lets a number have this axis
    if isinstance(initial, int) and initial == 0:
        return functions.sum(array, axis, dtype=dtype, out=out, keepdims=keepdims)
    array = np.asarray(array)
    if array.dtype.kind in "biu":
        array = array.astype(np.uint64 if array.dtype.kind == "u" else np.int64)
    axes = axes_of(axis, array.ndim)
    lines = arrays.as_lines(array, axes)
    first = np.asarray(initial).astype(array.dtype)
    if first != initial:
        raise TypeError(f"initial={initial!r} is no {array.dtype}; convert the array first")
    first = np.broadcast_to(first, (*lines.shape[:-1], 1))
    result = functions.sum(np.concatenate([first, lines], -1), -1, dtype=dtype)
    shape = kept_shape(array.shape, axes, keepdims)
    return arrays.delivered(reshaped_scalar(np.asarray(result), shape), out)
