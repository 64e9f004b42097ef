"""Systems of floats as systems of integers, and their exact solution by elimination."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np

from widen.linalg.errors import NotProvenError, SingularMatrixError
from widen.linalg.holding import WHOLE, Holding
from widen.linalg.modular import planes_of
from widen.linalg.progress import report
from widen.linalg.singular import row_exponents

WORK = 1e8
"""n^3 (bits / 1000)^1.5 of an elimination that is tried: about a minute of one core."""


def to_integers(planes: list[Any], low: Any) -> Any:
    """The sums of planes times 2^-low, which are integers, in an object array."""
    total = np.zeros(planes[0].shape, object)
    for plane in planes:
        mantissa, exponent = np.frexp(plane)
        integers = (mantissa * 2.0**53).astype(np.int64).astype(object)
        shifts = np.where(plane == 0, 0, exponent.astype(np.int64) - 53 - low)
        up, down = np.maximum(shifts, 0).astype(object), np.maximum(-shifts, 0).astype(object)
        total = total + ((integers << up) >> down)  # zeros go out on the right
    return total


def integer_rows(*matrices: Any) -> tuple[list[Any], Any]:
    """Matrices of integers, and exponents: row i of each matrix is that of its own 2^-exponents."""
    low = row_exponents(*matrices)
    return [to_integers(planes_of(x), low[:, None]) for x in matrices], low


def row_lengths(rows: Any) -> Any:
    """Bits of the sums of magnitudes of rows of integers, 1 at least."""
    return np.array([max(1, int(abs(row).sum())).bit_length() for row in rows], np.int64)


def solve_by_elimination(a: Any, b: Any, held: Holding = WHOLE) -> Any:
    """The exact solution of a x = b, fractions in an object array, by Bareiss' elimination.

    For numbers so far apart that powers of two do not bring them together, and for condition
    numbers beyond every format. All divisions are exact: every entry is a minor. Where a is cut
    over processes, each gathers all of it, if that is tried: 599 rows at most, since a row has a
    bit or more.
    """
    (left, right), _ = integer_rows(a, b[held.own])
    n, sides = b.shape
    bits = int(held.gathered(row_lengths(left)).sum())
    if n**3 * (bits / 1000) ** 1.5 > WORK:
        raise NotProvenError(
            f"the exponents of a are so far apart, or its condition number is so large, that only "
            f"exact elimination is left, and for n = {n} and {bits} bits that takes too long; "
            "scale rows and columns, or cut the system"
        )
    width = n + sides
    flat = held.integers([x for p, q in zip(left, right, strict=True) for x in (*p, *q)])
    whole = [flat[at : at + width] for at in range(0, n * width, width)]
    last = 1
    for k in range(n):
        report((k / n) ** 2)
        at = next((i for i in range(k, n) if whole[i][k]), None)
        if at is None:
            raise SingularMatrixError(
                f"a is singular: exact elimination found no pivot in column {k}"
            )
        whole[k], whole[at] = whole[at], whole[k]
        pivot = whole[k]
        for i in range(k + 1, n):
            row, factor = whole[i], whole[i][k]
            whole[i] = [0] * (k + 1) + [
                (pivot[k] * row[j] - factor * pivot[j]) // last for j in range(k + 1, width)
            ]
        last = pivot[k]
    numerators = [[0] * sides for _ in range(n)]  # by Cramer's rule, over the determinant
    for i in range(n - 1, -1, -1):
        row = whole[i]
        for j in range(sides):
            rest = sum(row[k] * numerators[k][j] for k in range(i + 1, n))
            numerators[i][j] = (last * row[n + j] - rest) // row[i]
    solution = np.empty((n, sides), object)
    for i in range(n):
        for j in range(sides):
            solution[i, j] = Fraction(numerators[i][j], last)
    return solution
