"""NumPy's names of `numpy.linalg`, as far as widen has them: exact answers, rounded once."""

from __future__ import annotations

from typing import Any

from widen import api, functions
from widen import linalg as exact
from widen.functions.norms import OF_MATRICES, OF_VECTORS
from widen.linalg import (
    cholesky,
    cond,
    det,
    eigh,
    eigvalsh,
    inv,
    lstsq,
    matrix_rank,
    pinv,
    slogdet,
    solve,
    svd,
    svdvals,
)
from widen.options import Accuracy

__all__ = [
    "cholesky",
    "cond",
    "det",
    "eigh",
    "eigvalsh",
    "inv",
    "lstsq",
    "matmul",
    "matrix_power",
    "matrix_rank",
    "multi_dot",
    "norm",
    "outer",
    "pinv",
    "slogdet",
    "solve",
    "svd",
    "svdvals",
    "tensordot",
    "vecdot",
]


def __getattr__(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(name)
    raise AttributeError(
        f"widen.numpy.linalg has no {name!r}: it has {', '.join(__all__)}; use numpy.linalg.{name}"
    )


def matmul(x1: Any, x2: Any, /, *, accuracy: Accuracy = None) -> Any:
    """`np.linalg.matmul`, by `widen.matmul`."""
    return api.matmul(x1, x2, accuracy=accuracy)


def norm(x: Any, ord: Any = None, axis: Any = None, keepdims: bool = False) -> Any:
    """`np.linalg.norm`, by `widen.norm`, and the norms it does not have by `widen.linalg.norm`.

    >>> import widen.numpy as wnp
    >>> wnp.linalg.norm([[3.0, 0.0], [4.0, 0.0]]), wnp.linalg.norm([[3.0, 0.0], [4.0, 0.0]], 2)
    (np.float64(5.0), np.float64(5.0))
    """
    array = functions.arrays.operand(x, "x")
    axes = array.ndim if axis is None else len(axis) if isinstance(axis, tuple) else 1
    ours = OF_VECTORS if axes == 1 else OF_MATRICES
    if ord is None or ord in ours:
        return functions.norm(array, ord, axis, keepdims=keepdims)
    return exact.norm(array, ord, axis, keepdims)


def multi_dot(arrays: Any, *, out: Any = None, accuracy: Accuracy = "standard") -> Any:
    """`np.linalg.multi_dot`, by `widen.multi_dot`."""
    return functions.multi_dot(arrays, out=out, accuracy=accuracy)


def matrix_power(a: Any, n: int, *, accuracy: Accuracy = "standard") -> Any:
    """`np.linalg.matrix_power`, by `widen.matrix_power`."""
    return functions.matrix_power(a, n, accuracy=accuracy)


def vecdot(x1: Any, x2: Any, /, *, axis: int = -1, accuracy: Accuracy = "correct") -> Any:
    """`np.linalg.vecdot`, by `widen.vecdot`."""
    return functions.vecdot(x1, x2, axis=axis, accuracy=accuracy)


def tensordot(a: Any, b: Any, /, *, axes: Any = 2, accuracy: Accuracy = "standard") -> Any:
    """`np.linalg.tensordot`, by `widen.tensordot`."""
    return functions.tensordot(a, b, axes, accuracy=accuracy)


def outer(x1: Any, x2: Any, /, *, accuracy: Accuracy = "standard") -> Any:
    """`np.linalg.outer`, by `widen.outer`."""
    return functions.outer(x1, x2, accuracy=accuracy)
