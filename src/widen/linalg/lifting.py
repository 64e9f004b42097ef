"""As many bits of a solution as it takes, by integers: for ties, zeros and what is close to them.

Rows of A are multiplied by powers of two that make them integers, A' y = r with an integer r and
x = 2^t y. A step takes d = rint(R r) off, r <- r - A' d exactly, and adds it to the total; what is
left is e with A' e = r, so |e| <= max |R r| / (1 - alpha). When that is at most 2, y 2^shift lies
within 2 of the total, and r, total and shift go on by L bits. Residuals stay about as long as a row
of A', so that every step costs one product of a matrix and a vector, however many bits there are.

It ends. By Cramer's rule y_i = N / det A' with integers, so a number c = C / 2^q is y_i or differs
from it by 1 / (2^q |det A'|) or more, and |det A'| is at most the product of the rows' norms, 2^h
(Hadamard). When shift > h + q + 3, a candidate within the enclosure is the number.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np

from widen import api
from widen.formats import Part
from widen.linalg.arrays import moved_like, on_host
from widen.linalg.bounds import FORMATS, PRECISION, U, above, first_words, magnitudes, row_sums
from widen.linalg.decide import decide_exactly, rounded
from widen.linalg.errors import NotProvenError
from widen.linalg.integers import integer_rows, row_lengths, to_integers
from widen.linalg.modular import planes_of
from widen.linalg.preconditioner import Preconditioner
from widen.linalg.scaling import each_plane
from widen.stages.rounding import round_once
from widen.words import Words

STEP = 40
"""Bits of a step at most: d stays below 2^53."""
STALLS = 8
"""Corrections in a row or not that gain nothing, after which R is not close enough."""


@dataclass(frozen=True)
class Correction:
    """The numbers z 2^shift, each within bound 2^shift."""

    z: Any
    bound: float
    shift: int

    @property
    def largest(self) -> float:
        """Upper bound of |z| 2^-shift of the exact numbers."""
        return float(above(float(abs(self.z).max(initial=0.0)) + self.bound))

    def integers(self) -> Any:
        """The nearest integers, floats where they are below 2^54."""
        if self.shift + math.frexp(self.largest)[1] < 54:
            return np.rint(np.ldexp(self.z, self.shift))
        up, down = max(self.shift - 53, 0), max(53 - self.shift, 0)
        return np.array([int(math.ldexp(v, 53)) << up >> down for v in self.z], object)


class Lifting:
    """The matrix of a system as integers, to lift any of its right-hand sides.

    `a` and the integers are the rows that this process holds.
    """

    def __init__(self, a: Any, pre: Preconditioner) -> None:
        self.a, self.pre = a, pre
        self.held = held = pre.held
        (self.integers,), low = integer_rows(a)
        self.low = held.gathered(low)
        squares = [int((row * row).sum()).bit_length() + 1 for row in self.integers]
        self.determinant_bits = int(held.gathered(np.array(squares, np.int64)).sum()) / 2
        # A' d with |d| < 2^54 is an integer of so many bits.
        self.bits = int(held.gathered(row_lengths(self.integers)).max(initial=1)) + 55
        step = math.floor(-math.log2(max(pre.alpha, 2.0**-60))) - 3
        self.step = held.first(max(1, min(STEP, step)))
        self.norms = on_host(held.gathered(row_sums(magnitudes(pre.inverse))))

    def products(self, d: Any) -> Any:
        """The integers A' d of a vector of floats that are integers."""
        fit = [k for k in FORMATS if k > 1 and PRECISION[k] > self.bits]
        if not fit or d.dtype == object:
            own = self.integers.dot(np.array([int(v) for v in d], object))
            return self.held.integers(list(own))
        first = first_words(self.a)
        column = moved_like(d[:, None], first)
        exact = self.held.gathered(
            api.matmul(self.a, column, accuracy="correct", dtype=FORMATS[fit[0]])
        )
        return to_integers(planes_of(exact), self.low[:, None])[:, 0]

    def correction(self, r: Any) -> Correction:
        """R r and a bound of its error, for integers r in units of the integer rows.

        r is cut to the words of R: an error of 2^-p |r| next to 2^-p of rounding, both times |R|.
        """
        if not any(r):
            return Correction(np.zeros(len(r)), 0.0, 0)
        pre = self.pre
        shift = max(v.bit_length() + int(e) for v, e in zip(r, self.low, strict=True) if v)
        powers = [Fraction(2) ** (int(e) - shift) for e in self.low]
        values = np.array([v * p for v, p in zip(r, powers, strict=True)], object)
        right = Words(values[:, None], FORMATS[max(2, pre.words)])
        moved = each_plane(right, lambda plane: moved_like(plane, first_words(self.a)))
        z = self.held.gathered(api.matmul(pre.inverse, moved, accuracy="correct", dtype="float64"))
        z = on_host(z)[:, 0]
        error = 2.0 ** (1 - right.format.precision) * self.norms  # |r| <= 1
        return Correction(z, float(above(error + U * abs(z)).max()), shift)

    def solve(self, b: Any, wanted: list[int], exponents: Any, fmt: Part) -> dict[int, Any]:
        """Words of some elements of the solution 2^exponents_i x_i of A x = b."""
        (right,), own = integer_rows(b)
        gaps = [int(ours - low) for ours, low in zip(own, self.low, strict=True)]
        t = min(0, *gaps)
        r = [int(v) << (gap - t) for v, gap in zip(right[:, 0], gaps, strict=True)]
        totals = dict.fromkeys(wanted, 0)
        decided: dict[int, Any] = {}
        shift, stalls, before = 0, 0, math.inf
        z = self.correction(r)
        while totals:
            size = z.largest / (1 - self.pre.alpha) * (1 + 8 * U)
            if size > math.ldexp(2.0, min(1000, -z.shift)):
                d = z.integers()
                r = [v - int(w) for v, w in zip(r, self.products(d), strict=True)]
                for i in totals:
                    totals[i] += int(d[i])
                length = math.log2(size) + z.shift
                stalls, before = stalls + (length > before - 0.5), length
                if stalls > STALLS:
                    raise NotProvenError("exact lifting stalls: the approximate inverse is rough")
                z = self.correction(r)
                continue
            before = math.inf
            for i in list(totals):
                unit = t - shift + int(exponents[i])
                words = _settled(totals[i], unit, t + int(exponents[i]), self._spare(shift), fmt)
                if words is not None:
                    decided[i] = words
                    del totals[i]
            totals = {i: total << self.step for i, total in totals.items()}
            shift += self.step
            r = [v << self.step for v in r]
            z = replace(z, shift=z.shift + self.step)
        return decided

    def _spare(self, shift: int) -> int:
        """Largest q of a candidate C / 2^q that the enclosure at this shift proves."""
        return shift - math.ceil(self.determinant_bits) - 4


def _settled(total: int, unit: int, scale: int, spare: int, fmt: Part) -> Any:
    """The words of a number within (total +- 2) 2^unit, or None if they are not decided."""
    power = Fraction(2) ** unit
    low, high = (total - 2) * power, (total + 2) * power
    words = decide_exactly(low, high, fmt)
    if words is not None or spare < 0:
        return words
    c = candidate(low, high, fmt)
    if c is None or not low <= c <= high:
        return None
    y = c / Fraction(2) ** scale
    return rounded(c, fmt) if y.denominator.bit_length() - 1 <= spare else None


def candidate(low: Fraction, high: Fraction, fmt: Part) -> Fraction | None:
    """The only number between two that may be undecided for ever: where words end, or a tie.

    >>> from widen.formats import FORMATS
    >>> candidate(Fraction(-1), Fraction(1), FORMATS["float64"])
    Fraction(0, 1)
    """
    agreed = Fraction(0)
    for word in fmt.words:
        if low <= agreed <= high:
            return agreed
        ends = [round_once(end - agreed, word) for end in (low, high)]
        if ends[0] != ends[1]:
            # Between the largest number and infinity:
            tie = Fraction((1 << word.highest) - (1 << (word.highest - word.precision - 1)))
            if math.isinf(ends[0]) or math.isinf(ends[1]):
                return tie if high > 0 else -tie
            return agreed + (Fraction(ends[0]) + Fraction(ends[1])) / 2
        if math.isinf(ends[0]):
            return None
        agreed += Fraction(ends[0])
    return agreed
