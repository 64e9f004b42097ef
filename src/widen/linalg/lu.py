"""A plain LU factorisation in float64, which NumPy does not have: a start, nothing is proven."""

from __future__ import annotations

from typing import Any

import numpy as np

from widen.formats.arrays import is_tensor, library_of
from widen.linalg.arrays import on_host

BLOCK = 64


def factor(a: Any) -> tuple[Any, Any]:
    """Both triangles in one matrix, and the order of rows: a[order] is about L U."""
    if is_tensor(a):
        packed, pivots = library_of(a).linalg.lu_factor(a)
        order = np.arange(a.shape[0])
        for i, at in enumerate((on_host(pivots) - 1).tolist()):
            order[[i, at]] = order[[at, i]]
        return packed, order
    return _factor_array(a)


def _factor_array(a: Any) -> tuple[Any, Any]:
    m = np.array(a, float)
    n = len(m)
    order = np.arange(n)
    with np.errstate(all="ignore"):
        for start in range(0, n, BLOCK):
            stop = min(start + BLOCK, n)
            for k in range(start, stop):
                at = k + int(np.argmax(np.abs(m[k:, k])))
                if at != k:
                    m[[k, at]], order[[k, at]] = m[[at, k]], order[[at, k]]
                m[k + 1 :, k] /= m[k, k]
                m[k + 1 :, k + 1 : stop] -= m[k + 1 :, k, None] * m[k, k + 1 : stop]
            for k in range(start + 1, stop):
                m[k, stop:] -= m[k, start:k] @ m[start:k, stop:]
            m[stop:, stop:] -= m[stop:, start:stop] @ m[start:stop, stop:]
    return m, order


def sign_of(order: Any) -> int:
    """The sign of a permutation.

    >>> sign_of([1, 0, 2]), sign_of([1, 2, 0])
    (-1, 1)
    """
    rest, sign = list(order), 1
    for i in range(len(rest)):
        while rest[i] != i:
            j = rest[i]
            rest[i], rest[j] = rest[j], rest[i]
            sign = -sign
    return sign
