"""Eigenvalues and singular values that end: integers times a power of two, proven without limits.

No enclosure decides whether a value is exactly a number of a format, or a tie. Let 2^e be the unit
of a symmetric (or Hermitian) A: all entries are integers times 2^e. The characteristic polynomial
of 2^-e A has integer coefficients and begins with 1, so that a rational eigenvalue of A is an
integer times 2^e. Let c be such a number, and K the enclosures that contain it.

*By the rank.* c is an eigenvalue n - rank(A - cI) times. If that is |K|, all values of K are c.

*By their size.* The eigenvalues of B = 2^-e (A - cI) are at most t in K and at most L_i elsewhere.
The coefficients of B's polynomial below the power |K| are sums of products each of which has a
factor of K: at most (2^|K| t) prod(1 + L_i) in magnitude, for t <= 1. If that is below 1, these
integers are zero: 0 is an eigenvalue of B |K| times, so all values of K are c.

Singular values are the positive eigenvalues of J = [[0, A], [A', 0]].
"""

from __future__ import annotations

import math
from collections import Counter
from fractions import Fraction
from typing import Any

import numpy as np

from widen.formats import Part
from widen.linalg import operands
from widen.linalg.arrays import adjoint, filled, is_complex, on_host
from widen.linalg.bounds import first_words
from widen.linalg.decide import decide_exactly
from widen.linalg.eigen import labels_of
from widen.linalg.integers import to_integers
from widen.linalg.intervals import Interval, Intervals
from widen.linalg.lifting import candidate
from widen.linalg.modular import planes_of
from widen.linalg.singular import (
    NONE,
    WORK,
    Room,
    last_exponents,
    proven_rank,
    shifted_rank,
    work_of,
)
from widen.words import Words

RANK_WORK = 700
"""Rows up to which the rank is asked for where a value may be zero."""
MOST = WORK / 4
"""Multiplications modulo primes for all other numbers of one matrix: some seconds."""
MANY = 128
"""Values from which on their sizes are not looked at: that would take hundreds of words."""
SURE = 20
"""Bits between a unit and the width of an enclosure before a rank is asked for."""


class ExactValues:
    """What is known of the values of one matrix that may be numbers of few bits.

    Parameters
    ----------
    a
        A symmetric or Hermitian matrix, whose eigenvalues are meant; or any, whose singular values.
    part
        The format of the results; None where zero alone matters.
    """

    def __init__(self, a: Any, part: Part | None, *, singular: bool) -> None:
        self.a, self.part, self.singular = a, part, singular
        self.spent = 0.0
        self.counts: dict[Fraction, int | None] = {}
        planes = [plane for x in _real_parts(a) for plane in _planes(x)]
        self.unit = min(int(last_exponents(p).min()) if 0 not in p.shape else NONE for p in planes)
        self.blocks: list[Any] | None = None
        self.short: Counter[Fraction] = Counter()

    def settled(self, intervals: Intervals) -> Intervals:
        """The same enclosures, with single numbers in place of those that are proven to be such."""
        ends: dict[int, Interval] = {}
        for c in self._candidates(intervals):
            inside = intervals.holding(c)
            if self._is_small(intervals, inside, c) or self._count(c) == len(inside):
                ends.update(dict.fromkeys(inside, (c, c)))
        return intervals.with_ends(ends)

    def _candidates(self, intervals: Intervals) -> set[Fraction]:
        """The candidates of all intervals: most have none, which is seen of all at once."""
        where = intervals.may_hold_zero()
        if self.part is not None:
            where |= intervals.may_hold_multiple(self.unit, SURE) & intervals.open(self.part)
        found = (self._candidate(*intervals.ends(i)) for i in np.flatnonzero(where).tolist())
        return {c for c in found if c is not None}

    def _candidate(self, low: Fraction, high: Fraction) -> Fraction | None:
        """A number that may be the value, and if so stays undecided for ever."""
        if low <= 0 <= high:
            return Fraction(0) if low < high else None
        if self.part is None or low == high or decide_exactly(low, high, self.part) is not None:
            return None
        unit = Fraction(2) ** self.unit
        if (high - low) * 2**SURE > unit:
            return None
        c = candidate(low, high, self.part)
        return c if c is not None and low <= c <= high and (c / unit).denominator == 1 else None

    def _is_small(self, intervals: Intervals, inside: list[int], c: Fraction) -> bool:
        """Whether the sizes of all eigenvalues prove it."""
        if len(intervals) > MANY or self.unit == NONE or (self.singular and not c):
            return False
        scale, pairs = Fraction(2) ** -self.unit, intervals.pairs()
        sizes = [max(abs(low - c), abs(high - c)) * scale for low, high in pairs]
        most = max(sizes[i] for i in inside)
        if most > 1:
            return False
        others = [size for i, size in enumerate(sizes) if i not in set(inside)]
        if self.singular:  # those of J besides: the negative ones, and zeros
            others += [(high + c) * scale for _, high in pairs]
            others += [abs(c) * scale] * abs(self.a.shape[0] - self.a.shape[1])
        return most == 0 or len(inside) + _log2(most) + sum(_log2(1 + x) for x in others) < -1

    def _count(self, c: Fraction) -> int | None:
        """How often c is a value, by ranks; None if that takes too long."""
        if c not in self.counts:
            self.counts[c] = self._zeros() if c == 0 else self._multiplicity(c)
        return self.counts[c]

    def _zeros(self) -> int | None:
        if max(self.a.shape) > RANK_WORK:
            return None
        least, most = proven_rank(self.a)
        return min(self.a.shape) - least if least == most else None

    def _multiplicity(self, c: Fraction) -> int | None:
        """Block by block: a matrix without connections has the values of its parts."""
        if self.blocks is None:
            self.blocks = _blocks(_augmented(self.a) if self.singular else self.a)
            for block in self.blocks:
                if block.shape[0] <= 2:
                    self.short.update(_rational_values(block, self.unit))
        total = self.short[c]
        for block in self.blocks:
            n = block.shape[0]
            if n <= 2:
                continue
            room = Room(MOST - self.spent)
            if work_of((n, n), 2) > room.most:
                return None
            least, most = shifted_rank(block, c, room)
            self.spent += room.spent
            if least != most:
                return None
            total += n - least
        return total


def _log2(x: Fraction) -> float:
    """At least the logarithm."""
    return math.log2(x.numerator) - math.log2(x.denominator) + 2.0**-20


def _planes(x: Any) -> list[Any]:
    """The words of real numbers, where they are."""
    return [plane[0] for plane in x.planes] if isinstance(x, Words) else [x]


def _real_parts(a: Any) -> list[Any]:
    return [operands.real(a), operands.imaginary(a)] if is_complex(a) else [a]


def _augmented(a: Any) -> Any:
    """The Hermitian matrix [[0, A], [A', 0]]."""
    (m, n), like = a.shape, first_words(operands.real(a))
    corners = [filled(like, (k, k), 0.0) for k in (m, n)]
    if is_complex(a) and not hasattr(a, "planes"):
        corners = [corner + 0j for corner in corners]
    top = operands.beside([corners[0], a], 1)
    return operands.beside([top, operands.beside([adjoint(a), corners[1]], 1)], 0)


def _blocks(a: Any) -> list[Any]:
    """The parts of a symmetric matrix that are connected."""
    labels = labels_of(on_host(first_words(a)) != 0)
    groups = [np.flatnonzero(labels == label).tolist() for label in np.unique(labels)]
    return [a] if len(groups) == 1 else [a[group][:, group] for group in groups]


def _rational_values(block: Any, unit: int) -> list[Fraction]:
    """The eigenvalues of a matrix of size 1 or 2 that are rational: integers times 2^unit."""
    n = block.shape[0]
    lines = np.full((n, 1), 0 if unit == NONE else unit)
    parts = [to_integers(planes_of(x), lines) for x in _real_parts(block)]
    p, r, scale = int(parts[0][0, 0]), int(parts[0][-1, -1]), Fraction(2) ** int(lines[0, 0])
    if n == 1:
        return [p * scale]
    square = (p - r) ** 2 + 4 * sum(int(x[0, 1]) ** 2 for x in parts)
    root = math.isqrt(square)
    if root * root != square:
        return []
    return [(p + r + root) // 2 * scale, (p + r - root) // 2 * scale]
