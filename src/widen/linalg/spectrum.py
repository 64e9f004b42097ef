"""Intervals of the eigenvalues of one symmetric matrix, with as many words as it takes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from widen.formats import Part
from widen.linalg import angles, eigen
from widen.linalg.arrays import adjoint
from widen.linalg.bounds import PRECISION, as_words, first_words
from widen.linalg.decide import decide_exactly
from widen.linalg.errors import NotProvenError
from widen.linalg.progress import part
from widen.linalg.scaling import is_equal, times_powers
from widen.linalg.singular import proven_rank

WIDTHS = (2, 4, 8, 16)
"""Words of the eigenvectors, one after the other until all values are decided."""
RANK_WORK = 700
"""Rows up to which the rank is asked for where a value may be zero."""


@dataclass(frozen=True)
class Vectors:
    """Vectors in words, and what is known of them.

    Attributes
    ----------
    sides
        The eigenvectors; or the left and the right singular vectors.
    sines
        Upper bounds of the sine of the angle between each vector and its cluster's space.
    labels
        The first member of each value's cluster.
    phi
        Upper bound of the 2-norm of I - X'X.
    """

    sides: tuple[Any, ...]
    sines: Any
    labels: list[int]
    phi: float


@dataclass(frozen=True)
class Values:
    """Intervals of values in order, the words that the vectors had, and these vectors."""

    lows: list[Fraction]
    highs: list[Fraction]
    words: int
    vectors: Vectors | None = None


Done = Callable[[list[Fraction], list[Fraction]], bool]


def words_for(part: Part) -> int:
    """Words of vectors that are then rounded to a format."""
    return next((k for k in WIDTHS if PRECISION[k] >= part.precision + 40), WIDTHS[-1])


def scaled_by_two(a: Any, what: str) -> tuple[Any, int]:
    """The matrix with its largest number near 1, and the exponent that was taken off."""
    most = float(abs(first_words(a)).max())
    exponent = int(np.frexp(most)[1]) if np.isfinite(most) else 1025
    powers = np.full(a.shape[0], -exponent)
    near = times_powers(a, powers, -2)
    if not is_equal(times_powers(near, -powers, -2), a):
        raise NotProvenError(f"the numbers of a are too far apart for {what}; scale a")
    return near, exponent


class Zeros:
    """How many values of a matrix are zero, which its rank tells; asked for once, if at all."""

    def __init__(self, a: Any) -> None:
        self.a, self.count = a, None if max(a.shape) <= RANK_WORK else -1

    def settled(self, pairs: list[tuple[Fraction, Fraction]]) -> list[tuple[Fraction, Fraction]]:
        """The same pairs of ends, with zeros in place of those that are proven to be zero.

        If as many intervals contain zero as there are zeros, these are they.
        """
        around = [i for i, (low, high) in enumerate(pairs) if low <= 0 <= high]
        if not around:
            return pairs
        if self.count is None:
            least, most = proven_rank(self.a)
            self.count = min(self.a.shape) - least if least == most else -1
        if len(around) != self.count:
            return pairs
        zero = (Fraction(0), Fraction(0))
        return [zero if i in around else pair for i, pair in enumerate(pairs)]


def symmetric_values(a: Any, done: Done, vectors: Part | None = None) -> Values:
    """Intervals of the eigenvalues of a symmetric matrix, as narrow as `done` wants them.

    With a format, eigenvectors are refined until they are as accurate as that, by proof.
    """
    if a.shape[0] == 0:
        return Values([], [], 0)
    near, exponent = scaled_by_two(a, "eigenvalues")
    scale, zeros = Fraction(2) ** exponent, Zeros(a)
    least = 2 if vectors is None else words_for(vectors)
    x, found = eigen.start(near), Values([], [], 0)
    for place, width in enumerate(WIDTHS):
        with part(1 - 0.5**place, 0.4 * 0.5**place):
            x = eigen.refine(near, as_words(x, width))
        enclosed = eigen.enclose(near, x)
        if enclosed is None:
            continue
        pairs = list(zip(enclosed.middles, enclosed.radii, strict=True))
        ends = zeros.settled([(middle - radius, middle + radius) for middle, radius in pairs])
        lows, highs = [low for low, _ in ends], [high for _, high in ends]
        kept = _vectors(enclosed, lows, highs)
        found = Values([v * scale for v in lows], [v * scale for v in highs], width, kept)
        if width >= least and done(found.lows, found.highs) and is_accurate(kept, vectors):
            break
    if not found.words:
        raise NotProvenError("eigenvectors that are nearly orthonormal were not found")
    return found


def _vectors(enclosed: eigen.Enclosed, lows: list[Fraction], highs: list[Fraction]) -> Vectors:
    labels = angles.clusters(lows, highs)
    distances = angles.gaps(enclosed.middles, lows, highs, labels)
    sines = angles.sines(enclosed.residuals, distances, enclosed.phi)
    return Vectors((enclosed.vectors,), sines, labels, enclosed.phi)


def is_accurate(vectors: Vectors, part: Part | None) -> bool:
    """Whether vectors are proven to be as accurate as a format."""
    if part is None:
        return True
    unit = 2.0**-part.precision
    return bool((vectors.sines <= unit).all()) and vectors.phi <= unit


def all_decided(fmt: Part) -> Done:
    """Whether all intervals round to one number of a format."""

    def done(lows: list[Fraction], highs: list[Fraction]) -> bool:
        pairs = zip(lows, highs, strict=True)
        return all(decide_exactly(low, high, fmt) is not None for low, high in pairs)

    return done


def check_symmetric(a: Any) -> None:
    """Whether a matrix is symmetric, or Hermitian, to the last bit."""
    if not is_equal(adjoint(a), a):
        raise ValueError(
            "a is not symmetric (or Hermitian) to the last bit; give (a + a.conj().T) / 2 if that "
            "is meant"
        )
