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
from widen.linalg.decide import decide_exactly
from widen.linalg.errors import NotProvenError
from widen.linalg.exact_values import ExactValues
from widen.linalg.progress import part as progress_part
from widen.linalg.scaling import is_equal, times_powers

WIDTHS = (2, 4, 8, 16)
"""Words of the eigenvectors, one after the other until all values are decided."""


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


@dataclass(frozen=True)
class Look:
    """What words of some width see: intervals, and the vectors of values in narrower ones."""

    width: int
    ends: list[tuple[Fraction, Fraction]]
    vectors: Callable[[list[Fraction], list[Fraction]], Vectors]


def narrowed(
    a: Any, done: Done, part: Part | None, looks: Callable[[Any], Iterator[Look]],
    *, vectors: bool, singular: bool,
) -> Values:  # fmt: skip
    """Intervals as narrow as `done` wants them, from looks at the matrix near 1.

    Numbers of a format, if one is given, and ties between them are proven where they are values.
    If vectors are wanted, looks go on until these are as accurate as the format, by proof.
    """
    name = "singular " if singular else "eigen"
    near, exponent = scaled_by_two(a, f"{name}values")
    scale, exact = Fraction(2) ** exponent, ExactValues(a, part, singular=singular)
    wanted = part if vectors else None
    least = WIDTHS[0] if wanted is None else words_for(wanted)
    found = None
    for look in looks(near):
        ends = exact.settled([(low * scale, high * scale) for low, high in look.ends])
        lows, highs = ([end[at] for end in ends] for at in (0, 1))
        kept = look.vectors([v / scale for v in lows], [v / scale for v in highs])
        found = Values(lows, highs, look.width, kept)
        if look.width >= least and done(lows, highs) and is_accurate(kept, wanted):
            break
    if found is None:
        raise NotProvenError(f"{name}vectors that are nearly orthonormal were not found")
    return found


def symmetric_values(
    a: Any, done: Done, part: Part | None = None, *, vectors: bool = False
) -> Values:
    """Intervals of the eigenvalues of a symmetric matrix, and eigenvectors: see `narrowed`."""
    if a.shape[0] == 0:
        return Values([], [], 0)
    return narrowed(a, done, part, _looks, vectors=vectors, singular=False)


def _looks(near: Any) -> Iterator[Look]:
    """At eigenvectors of more and more words; where they are not nearly orthonormal, none."""
    x = eigen.start(near)
    for place, width in enumerate(WIDTHS):
        with progress_part(1 - 0.5**place, 0.4 * 0.5**place):
            x = eigen.refine(near, as_words(x, width))
        enclosed = eigen.enclose(near, x)
        if enclosed is not None:
            pairs = zip(enclosed.middles, enclosed.radii, strict=True)
            ends = [(middle - radius, middle + radius) for middle, radius in pairs]
            yield Look(width, ends, partial(_vectors, enclosed))


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
