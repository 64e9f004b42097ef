"""Intervals of the values of one matrix, with as many words as it takes; eigenvalues."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np

from widen.formats import Part
from widen.linalg import angles, eigen
from widen.linalg.arrays import adjoint
from widen.linalg.bounds import PRECISION, as_words, first_words
from widen.linalg.errors import NotProvenError
from widen.linalg.exact_values import ExactValues
from widen.linalg.intervals import Intervals
from widen.linalg.progress import part as progress_part
from widen.linalg.scaling import is_equal, times_powers

WIDTHS = (2, 3, 4, 8, 16)
"""Words of the eigenvectors, one after the other until all values are decided."""
SPARE = 28
"""Bits beyond a format that nearly always decide: values are within 2^-20 of half a unit rarely."""
SHORT = 40
"""Bits of the numbers of a matrix that may well have values which end."""


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
    """Intervals of values in order, the words of the vectors behind them, and these if wanted."""

    intervals: Intervals
    words: int
    vectors: Vectors | None = None

    @classmethod
    def of(cls, low: Fraction, high: Fraction, words: int = 0) -> Values:
        """One value between two ends."""
        return cls(Intervals.of([(low, high)]), words)


Done = Callable[[Intervals], bool]


@dataclass(frozen=True)
class Stop:
    """Where vectors are looked at, and how.

    Attributes
    ----------
    width
        Words of the vectors.
    bits
        How many are enough of these; None for as many as the words hold.
    count
        Words of the products by which values are proven, if they are more than the vectors'.
    looks
        False to pass by.
    """

    width: int
    bits: int | None = None
    count: int = 0
    looks: bool = True


def stops(part: Part | None, *, squared: bool, early: bool) -> list[Stop]:
    """The stops on the way to all values of a format; `early`: also at fewer words than it needs.

    Those decide values that end, nearly no others: their last bit is the format's own, or they have
    few bits more. The first words that may decide are looked at as soon as their bits are enough.
    Half of the bits do where errors count `squared`, as for eigenvalues without vectors. There one
    step did for random matrices of n = 300, 700 and 1500 and two words: sums of rows of its
    correction were 2^-42.5, 2^-40.9 and 2^-39.4, phi then 2^-85.8, 2^-82.2 and 2^-79.2, and radii
    beside the largest value 2^-155.8, 2^-155.5 and 2^-150.6 at most, of which the last comes from
    the errors of vectors and the others from those of products.
    """
    if part is None:
        return [Stop(width) for width in WIDTHS]
    count, bits = words_for(part), part.precision + SPARE
    first = count
    if squared:
        enough = (k for k in WIDTHS if 2 * PRECISION[k] >= part.precision + 2 * SPARE)
        first, bits = next(enough, count), bits // 2
    return [
        *(Stop(width, looks=early) for width in WIDTHS if width < first),
        Stop(first, bits, count),
        *(Stop(width, None, count) for width in WIDTHS if width >= first),
    ]


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


@dataclass(frozen=True)
class Look:
    """What words of some width see: intervals, and the vectors of values in narrower ones."""

    width: int
    intervals: Intervals
    vectors: Callable[[Intervals], Vectors]


def narrowed(
    a: Any, done: Done, part: Part | None, looks: Callable[[Any, list[Stop]], Iterator[Look]],
    *, vectors: bool, singular: bool,
) -> Values:  # fmt: skip
    """Intervals as narrow as `done` wants them, from looks at the matrix near 1.

    Numbers of a format, if one is given, and ties between them are proven where they are values.
    If vectors are wanted, looks go on until these are as accurate as the format, by proof.
    """
    name = "singular " if singular else "eigen"
    near, exponent = scaled_by_two(a, f"{name}values")
    exact = ExactValues(a, part, singular=singular)
    way = stops(
        part, squared=not (vectors or singular),
        early=not vectors and exact.unit > exponent - SHORT,
    )  # fmt: skip
    found = None
    for look in looks(near, way):
        intervals = exact.settled(look.intervals.times_power(exponent))
        kept = look.vectors(intervals.times_power(-exponent)) if vectors else None
        found = Values(intervals, look.width, kept)
        if done(intervals) and is_accurate(kept, part):
            break
    if found is None:
        raise NotProvenError(f"{name}vectors that are nearly orthonormal were not found")
    return found


def symmetric_values(
    a: Any, done: Done, part: Part | None = None, *, vectors: bool = False
) -> Values:
    """Intervals of the eigenvalues of a symmetric matrix, and eigenvectors: see `narrowed`."""
    if a.shape[0] == 0:
        return Values(Intervals.of([]), 0)
    looks = partial(_looks, vectors=vectors)
    return narrowed(a, done, part, looks, vectors=vectors, singular=False)


def _looks(near: Any, way: list[Stop], *, vectors: bool) -> Iterator[Look]:
    """At eigenvectors of more and more words; where they are not nearly orthonormal, none."""
    x = eigen.start(near)
    for place, stop in enumerate(way):
        with progress_part(1 - 0.5**place, 0.4 * 0.5**place):
            x = eigen.refine(near, as_words(x, stop.width), stop.bits)
        if not stop.looks:
            continue
        enclosed = eigen.enclose(near, x, stop.count, vectors=vectors)
        if enclosed is not None:
            yield Look(stop.width, enclosed.intervals, partial(_vectors, enclosed))


def _vectors(enclosed: eigen.Enclosed, intervals: Intervals) -> Vectors:
    labels, distances = angles.clusters(intervals)
    sines = angles.sines(enclosed.residuals, distances, enclosed.phi)
    return Vectors((enclosed.vectors,), sines, labels, enclosed.phi)


def is_accurate(vectors: Vectors | None, part: Part | None) -> bool:
    """Whether vectors are proven to be as accurate as a format."""
    if vectors is None or part is None:
        return True
    unit = 2.0**-part.precision
    return bool((vectors.sines <= unit).all()) and vectors.phi <= unit


def all_decided(fmt: Part) -> Done:
    """Whether all intervals round to one number of a format."""
    return lambda intervals: intervals.all_round(fmt)


def check_symmetric(a: Any) -> None:
    """Whether a matrix is symmetric, or Hermitian, to the last bit."""
    if not is_equal(adjoint(a), a):
        raise ValueError(
            "a is not symmetric (or Hermitian) to the last bit; give (a + a.conj().T) / 2 if that "
            "is meant"
        )
