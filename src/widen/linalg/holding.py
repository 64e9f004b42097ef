"""Which rows of a system's matrices this process holds: all of them, if it is alone.

`solve` is written for matrices that are cut by rows. A and R lie in pieces, right-hand sides and
solutions are everywhere. Every product of a matrix and vectors is made of rows, so that processes
compute their own and gather what the others have; a product of two matrices sees the columns of the
second one pass in panels. `distributed.rows` has the case of many processes. All that decides what
happens next is the same in all of them, because it is computed from gathered numbers.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from widen.linalg import arrays
from widen.linalg.modular import eliminate, residues


class Holding:
    """All rows, in one process."""

    own = slice(None)
    """The rows that this process holds."""
    count = 1
    """How many processes there are."""

    def height(self, x: Any) -> int:
        """Rows of the whole matrix of which x is what this process holds."""
        return int(x.shape[0])

    def gathered(self, x: Any) -> Any:
        """All rows of an array or `Words`, of which x is what this process holds."""
        return x

    def panels(self, x: Any) -> Iterator[tuple[slice, Any]]:
        """All rows of some columns after others, and which columns they are."""
        yield slice(0, x.shape[1]), x

    def identity(self, like: Any, columns: slice) -> Any:
        """The process's rows of the identity in some columns, where `like` is."""
        return arrays.eye_like(like, like.shape[1])[self.own, columns]

    def largest(self, x: Any) -> Any:
        """The largest number of all processes at every place: integers, or floats >= 0."""
        return x

    def everywhere(self, flag: bool) -> bool:
        """Whether something holds in all processes."""
        return flag

    def first(self, number: int) -> int:
        """The integer that the first process has: logarithms may differ in the last bit."""
        return number

    def inverse(self, x: Any) -> Any:
        """The process's rows of an ordinary inverse, or None."""
        return arrays.inverse(x)

    def rank_modulo(self, a: Any, p: int) -> int:
        """The rank of a matrix modulo a prime."""
        return eliminate(residues(a, p), p)[0]

    def integers(self, x: list[int]) -> list[int]:
        """Integers of all rows, of any length, as many of each."""
        return x


WHOLE = Holding()
