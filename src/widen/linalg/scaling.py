"""A system with rows, columns and right-hand sides multiplied by powers of two, exactly.

Bounds count what underflows as 2^-1000 at most. That is nothing next to numbers near 1, and much
next to small ones: scaling is a part of the proof.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from widen.formats.arrays import library_of
from widen.linalg.arrays import moved_like, on_host
from widen.linalg.bounds import first_words
from widen.linalg.errors import SingularMatrixError
from widen.linalg.holding import WHOLE, Holding
from widen.words import Words

FAR = 2000
"""Powers of two are applied in two halves, each of which float64 holds."""


@dataclass(frozen=True)
class System:
    """A y = B with a_ij 2^(rows_i + columns_j) and b_ij 2^(rows_i + sides_j) for a and b.

    `a` is what this process holds of A. The solution that is wanted is
    x_ij = y_ij 2^(columns_i - sides_j). Every row of A, every column of A and every column of B
    that is not zero has its largest entry in [1/2, 1], or below 1/2 for rows that a column's factor
    made smaller.
    """

    a: Any
    b: Any
    rows: Any
    columns: Any
    sides: Any

    def exponents(self, at: Any, like: Any = None) -> Any:
        """The integers columns_i - sides_j of some sides; on the host, or where `like` is."""
        columns, sides = self.columns, self.sides[at]
        if like is not None:  # two vectors go there, not a matrix
            columns, sides = (moved_like(x, like) for x in (columns, sides))
        return columns[:, None] - sides[None, :]


def each_plane(x: Any, function: Callable[[Any], Any]) -> Any:
    """A function of arrays applied to an array, or to every plane of `Words`."""
    if isinstance(x, Words):
        return Words.of(x.format, [function(plane) for plane in x.planes])
    return function(x)


def times_powers(x: Any, exponents: Any, axis: int) -> Any:
    """Numbers x 2^exponents along an axis, -2 for rows and -1 for columns."""
    first = first_words(x)
    for part in (exponents >> 1, exponents - (exponents >> 1)):
        if part.any():
            powers = moved_like(np.ldexp(1.0, part), first)
            powers = powers[:, None] if axis == -2 else powers
            with np.errstate(all="ignore"):
                x = each_plane(x, powers.__mul__)
    return x


def is_equal(x: Any, y: Any) -> bool:
    """Whether two arrays, or `Words`, are the same numbers."""
    if isinstance(x, Words):
        return all(bool((p == q).all()) for p, q in zip(x.planes, y.planes, strict=True))
    return bool((x == y).all())


def exponents_of(x: Any, axis: int, held: Holding = WHOLE) -> tuple[Any, Any]:
    """Exponents e with 2^(e-1) <= largest < 2^e of columns (axis 0) or rows; which are zero.

    x is what this process holds of a matrix. The rows are its own, the columns whole ones.
    """
    first = abs(first_words(x))
    if first.shape[axis] == 0:
        most = np.zeros(first.shape[1 - axis])
    else:
        most = on_host(library_of(first).amax(first, axis))
    if axis == 0:
        most = held.largest(most)
    return np.frexp(most)[1].astype(np.int64), most == 0


def scale_matrix(a: Any, held: Holding = WHOLE) -> tuple[Any, Any, Any] | None:
    """The scaled matrix, and the exponents of its rows and columns; None if it is not exact."""
    rows, empty = map(held.gathered, exponents_of(a, 1))
    if empty.any():
        raise SingularMatrixError(f"row {int(empty.argmax())} of a is zero: a is singular")
    half = times_powers(a, -rows[held.own], -2)
    columns, empty = exponents_of(half, 0, held)
    if empty.any():
        _, empty = exponents_of(a, 0, held)
        if empty.any():
            raise SingularMatrixError(f"column {int(empty.argmax())} of a is zero: a is singular")
        return None  # it underflowed
    whole = times_powers(half, -columns, -1)
    back = times_powers(times_powers(whole, columns, -1), rows[held.own], -2)
    return (whole, -rows, -columns) if held.everywhere(is_equal(back, a)) else None


def scale_sides(b: Any, rows: Any) -> tuple[Any, Any] | None:
    """Right-hand sides with the rows' powers of two, and a power of two of their own."""
    if b.shape[1] == 0:
        return b, np.zeros(0, np.int64)
    first = abs(first_words(b))
    own, _ = exponents_of(first, 0)  # near 1 before the rows' powers, which may be large
    near = times_powers(b, -own, -1)
    moved = times_powers(near, rows, -2)
    more, empty = exponents_of(moved, 0)
    if not bool(library_of(first).isfinite(first_words(moved)).all()):
        return None
    whole = times_powers(moved, -more, -1)
    back = times_powers(times_powers(times_powers(whole, more, -1), -rows, -2), own, -1)
    if not is_equal(back, b) or (empty & (own != 0)).any():
        return None
    return whole, -(own + more)


def scaled_system(matrix: tuple[Any, Any, Any] | None, b: Any) -> System | None:
    """The system of a scaled matrix; None where powers of two do not bring numbers together."""
    if matrix is None:
        return None
    whole, rows, columns = matrix
    if max(abs(rows).max(initial=0), abs(columns).max(initial=0)) > FAR:
        return None
    sides = scale_sides(b, rows)
    return None if sides is None else System(whole, sides[0], rows, columns, sides[1])
