"""A product of matrices of parts, rewritten into one product of float64 matrices, in two ways.

The parts of a product of numbers are c_s = sum of a_p b_(s-p), s below the number of parts: a
convolution, so a product with a triangular Toeplitz matrix. Every number becomes a small matrix:

====== ============================ ==========================
way    number of A                  number of B
====== ============================ ==========================
1      12 x 12, lower triangular    12 x 1
2      1 x 12                       12 x 12, upper triangular
====== ============================ ==========================
"""

from __future__ import annotations

from typing import Any

from widen.formats.arrays import library_of

WAYS = (1, 2)


def dimensions(m: int, k: int, n: int, parts: int, way: int) -> tuple[int, int, int]:
    """Dimensions (M, K, N) of the float64 product.

    >>> dimensions(682, 341, 8192, 12, way=1), dimensions(8192, 341, 682, 12, way=2)
    ((8184, 4092, 8192), (8192, 4092, 8184))
    """
    return (parts * m, parts * k, n) if way == 1 else (m, parts * k, parts * n)


def rewrite_left(a: Any, way: int) -> Any:
    """The left float64 matrix of a way, from parts (parts, m, k).

    >>> import numpy as np
    >>> parts = np.array([[[1.0]], [[2.0]], [[3.0]]])
    >>> rewrite_left(parts, way=1).tolist()
    [[1.0, 0.0, 0.0], [2.0, 1.0, 0.0], [3.0, 2.0, 1.0]]
    >>> rewrite_left(parts, way=2).tolist()
    [[1.0, 2.0, 3.0]]
    """
    numbers = library_of(a).moveaxis(a, 0, 2)
    if way == 1:  # rows (i, s) and columns (k, q)
        return _lower(numbers)
    return numbers.reshape(a.shape[1], -1)  # columns (k, p)


def rewrite_right(b: Any, way: int) -> Any:
    """The right one, from parts (parts, k, n).

    >>> import numpy as np
    >>> rewrite_right(np.array([[[1.0]], [[2.0]], [[3.0]]]), way=2).tolist()
    [[1.0, 2.0, 3.0], [0.0, 1.0, 2.0], [0.0, 0.0, 1.0]]
    """
    moveaxis = library_of(b).moveaxis
    if way == 1:  # rows (k, q)
        return moveaxis(b, 0, 1).reshape(-1, b.shape[2])
    return _lower(moveaxis(b, 0, 2).swapaxes(0, 1)).T  # rows (k, p) and columns (j, s)


def _lower(numbers: Any) -> Any:
    """Every number as a lower triangular Toeplitz matrix of its parts, given on the last axis."""
    xp = library_of(numbers)
    rows, columns, parts = numbers.shape
    padded = xp.concatenate([numbers, xp.zeros_like(numbers[..., :1])], -1)
    place = [[s - q if s >= q else parts for q in range(parts)] for s in range(parts)]
    blocks = padded[..., xp.asarray(place)]
    return xp.moveaxis(blocks, 2, 1).reshape(rows * parts, columns * parts)


def extract(c: Any, parts: int, way: int) -> Any:
    """(parts, m, n): the parts of the product from the float64 product."""
    moveaxis = library_of(c).moveaxis
    rows, columns = c.shape
    if way == 1:
        return moveaxis(c.reshape(rows // parts, parts, columns), 1, 0)
    return moveaxis(c.reshape(rows, columns // parts, parts), 2, 0)
