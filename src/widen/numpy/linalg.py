"""NumPy's names of `numpy.linalg`, as far as widen has them: exact answers, rounded once."""

from __future__ import annotations

from typing import Any

import numpy as np

from widen import api, functions
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
    """`np.linalg.matmul`, by `widen.matmul`.

    >>> import widen.numpy as wnp
    >>> wnp.linalg.matmul([[1.0, 2.0], [3.0, 4.0]], [[1.0], [2.0]]).tolist()
    [[5.0], [11.0]]
    """
    return api.matmul(x1, x2, accuracy=accuracy)


def norm(x: Any, ord: Any = None, axis: Any = None, keepdims: bool = False) -> Any:
    """`np.linalg.norm`, by `widen.norm`.

    >>> import widen.numpy as wnp
    >>> wnp.linalg.norm([[3.0, 0.0], [4.0, 0.0]]), wnp.linalg.norm([[3.0, 0.0], [4.0, 0.0]], 2)
    (np.float64(5.0), np.float64(5.0))
    """
    return functions.norm(x, ord, axis, keepdims=keepdims)


def multi_dot(arrays: Any, *, out: Any = None, accuracy: Accuracy = "standard") -> Any:
    """`np.linalg.multi_dot`, by `widen.multi_dot`.

    >>> import widen.numpy as wnp
    >>> a = [[1.0, 2.0], [3.0, 4.0]]
    >>> wnp.linalg.multi_dot([a, a, [1.0, 2.0]]).tolist()
    [27.0, 59.0]
    """
    return functions.multi_dot(arrays, out=out, accuracy=accuracy)


def matrix_power(a: Any, n: int, *, accuracy: Accuracy = "standard") -> Any:
    """`np.linalg.matrix_power`, by `widen.matrix_power`.

    >>> import widen.numpy as wnp
    >>> wnp.linalg.matrix_power([[1.0, 2.0], [3.0, 4.0]], 2).tolist()
    [[7.0, 10.0], [15.0, 22.0]]
    """
    return functions.matrix_power(a, n, accuracy=accuracy)


def vecdot(x1: Any, x2: Any, /, *, axis: int = -1, accuracy: Accuracy = "correct") -> Any:
    """`np.linalg.vecdot`, by `widen.vecdot`.

    >>> import widen.numpy as wnp
    >>> print(wnp.linalg.vecdot([1.0, 2.0], [3.0, 4.0]))
    11.0
    """
    return functions.vecdot(x1, x2, axis=axis, accuracy=accuracy)


def tensordot(x1: Any, x2: Any, /, *, axes: Any = 2, accuracy: Accuracy = "standard") -> Any:
    """`np.linalg.tensordot`, by `widen.tensordot`.

    >>> import widen.numpy as wnp
    >>> print(wnp.linalg.tensordot([[1.0, 2.0], [3.0, 4.0]], [[1.0, 2.0], [3.0, 4.0]]))
    30.0
    """
    result = functions.tensordot(x1, x2, axes, accuracy=accuracy)
    return np.asarray(result) if isinstance(result, np.generic) else result  # as NumPy does


def outer(x1: Any, x2: Any, /, *, accuracy: Accuracy = "standard") -> Any:
    """`np.linalg.outer`, by `widen.outer`.

    >>> import widen.numpy as wnp
    >>> wnp.linalg.outer([1.0, 2.0], [3.0, 4.0]).tolist()
    [[3.0, 4.0], [6.0, 8.0]]
    """
    return functions.outer(x1, x2, accuracy=accuracy)
