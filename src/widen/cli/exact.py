"""Exact elements of products, in Python's integers: a reference that owes nothing to this library.

`widen.testing` has it for whole matrices, by FLINT, which those who run a command need not have.
"""

from fractions import Fraction
from operator import mul
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]


def exact_products(rows: Array, columns: Array) -> list[tuple[Fraction, ...]]:
    """Return the product of every row with every column (both as lines), one number a part.

    >>> exact_products(np.array([[1e16, 1.0, -1e16]]), np.ones((1, 3)))
    [(Fraction(1, 1),)]
    >>> exact_products(np.array([[1 + 2j]]), np.array([[3 - 1j]]))
    [(Fraction(5, 1), Fraction(5, 1))]
    """
    parts = [columns]
    if np.iscomplexobj(rows) or np.iscomplexobj(columns):
        rows = np.hstack([rows.real, rows.imag])
        parts = [
            np.hstack([columns.real, -columns.imag]),
            np.hstack([columns.imag, columns.real]),
        ]
    left = [over_one_denominator(row) for row in rows]
    right = [[over_one_denominator(column) for column in part] for part in parts]
    return [
        tuple(Fraction(sum(map(mul, x, y)), p * q) for y, q in column)
        for x, p in left
        for column in zip(*right, strict=True)
    ]


def over_one_denominator(line: Array) -> tuple[list[int], int]:
    """Return integers and a denominator that give a line of finite floats exactly.

    >>> over_one_denominator(np.array([0.5, 3.0, -0.125]))
    ([4, 24, -1], 8)
    """
    ratios = [value.as_integer_ratio() for value in line.astype(float).tolist()]
    common = max(q for _, q in ratios)  # powers of two: the largest is a multiple of all
    return [p * (common // q) for p, q in ratios], common
