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

from widen import api, functions
from widen.numpy import linalg
from widen.options import Accuracy

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
    x1: Any,
    x2: Any,
    /,
    out: Any = None,
    *,
    dtype: Any = None,
    accuracy: Accuracy = None,
) -> Any:
    """`np.matmul`, by `widen.matmul`.

    >>> import widen.numpy as wnp
    >>> wnp.matmul([[1.0, 2.0]], [[3.0], [4.0]])
    array([[11.]])
    """
    return api.matmul(x1, x2, out=out, dtype=dtype, accuracy=accuracy)


def dot(a: Any, b: Any, out: Any = None, *, accuracy: Accuracy = "correct") -> Any:
    """`np.dot`, by `widen.dot`."""
    return functions.dot(a, b, out=out, accuracy=accuracy)


def vdot(a: Any, b: Any, /, *, accuracy: Accuracy = "correct") -> Any:
    """`np.vdot`, by `widen.vdot`."""
    return functions.vdot(a, b, accuracy=accuracy)


def inner(a: Any, b: Any, /, *, accuracy: Accuracy = "correct") -> Any:
    """`np.inner`, by `widen.inner`."""
    return functions.inner(a, b, accuracy=accuracy)


def outer(a: Any, b: Any, out: Any = None, *, accuracy: Accuracy = "standard") -> Any:
    """`np.outer`, by `widen.outer`."""
    return functions.outer(a, b, out=out, accuracy=accuracy)


def tensordot(a: Any, b: Any, axes: Any = 2, *, accuracy: Accuracy = "standard") -> Any:
    """`np.tensordot`, by `widen.tensordot`."""
    return functions.tensordot(a, b, axes, accuracy=accuracy)


def einsum(
    subscripts: Any,
    *operands: Any,
    out: Any = None,
    dtype: Any = None,
    optimize: Any = False,
    accuracy: Accuracy = "standard",
) -> Any:
    """`np.einsum`, by `widen.einsum`."""
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
    """`np.vecdot`, by `widen.vecdot`."""
    return functions.vecdot(x1, x2, axis=axis, out=out, dtype=dtype, accuracy=accuracy)


def matvec(
    x1: Any,
    x2: Any,
    /,
    out: Any = None,
    *,
    dtype: Any = None,
    accuracy: Accuracy = "standard",
) -> Any:
    """`np.matvec`, by `widen.matvec`."""
    return functions.matvec(x1, x2, out=out, dtype=dtype, accuracy=accuracy)


def vecmat(
    x1: Any,
    x2: Any,
    /,
    out: Any = None,
    *,
    dtype: Any = None,
    accuracy: Accuracy = "standard",
) -> Any:
    """`np.vecmat`, by `widen.vecmat`."""
    return functions.vecmat(x1, x2, out=out, dtype=dtype, accuracy=accuracy)


def sum(
    a: Any, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: bool = False
) -> Any:
    """`np.sum`, by `widen.sum`."""
    return functions.sum(a, axis, dtype=dtype, out=out, keepdims=keepdims)
