"""Intervals of the eigenvalues of one symmetric matrix, with as many words as it takes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from widen.formats import Part
from widen.linalg import eigen
from widen.linalg.bounds import as_words, first_words
from widen.linalg.decide import decide_exactly
from widen.linalg.errors import NotProvenError
from widen.linalg.scaling import is_equal, times_powers
from widen.linalg.singular import proven_rank

WIDTHS = (2, 4, 8, 16)
"""Words of the eigenvectors, one after the other until all values are decided."""
RANK_WORK = 700
"""Rows up to which the rank is asked for where an eigenvalue may be zero."""


@dataclass(frozen=True)
class Values:
    """Intervals of values in order, the words that the eigenvectors had, and these vectors."""

    lows: list[Fraction]
    highs: list[Fraction]
    words: int
    vectors: Any = None


Done = Callable[[list[Fraction], list[Fraction]], bool]


def symmetric_values(a: Any, done: Done, least: int = 2) -> Values:
    """Intervals of the eigenvalues of a real symmetric matrix, as narrow as `done` wants them.

    Eigenvectors get `least` words or more.
    """
    n = a.shape[0]
    if n == 0:
        return Values([], [], 0)
    exponent = int(np.frexp(float(abs(first_words(a)).max()))[1])
    powers = np.full(n, -exponent)
    near = times_powers(a, powers, -2)
    if not is_equal(times_powers(near, -powers, -2), a):
        raise NotProvenError("the numbers of a are too far apart for eigenvalues; scale a")
    scale = Fraction(2) ** exponent
    x, found = eigen.start(near), Values([], [], 0)
    zeros: int | None = None
    for width in WIDTHS:
        x = eigen.refine(near, as_words(x, width))
        enclosed = eigen.enclose(near, x)
        if enclosed is None:
            continue
        pairs = list(zip(enclosed.middles, enclosed.radii, strict=True))
        around = [i for i, (middle, radius) in enumerate(pairs) if abs(middle) <= radius]
        if around and zeros is None and n <= RANK_WORK:
            least, most = proven_rank(a)
            zeros = n - least if least == most else -1
        if len(around) == zeros:  # as many as there are zeros: these are they
            for i in around:
                pairs[i] = (Fraction(0), Fraction(0))
        lows, highs = ([(m + sign * r) * scale for m, r in pairs] for sign in (-1, 1))
        found = Values(lows, highs, width, enclosed.vectors)
        if width >= least and done(lows, highs):
            break
    if not found.words:
        raise NotProvenError("eigenvectors that are nearly orthonormal were not found")
    return found


def all_decided(fmt: Part) -> Done:
    """Whether all intervals round to one number of a format."""

    def done(lows: list[Fraction], highs: list[Fraction]) -> bool:
        pairs = zip(lows, highs, strict=True)
        return all(decide_exactly(low, high, fmt) is not None for low, high in pairs)

    return done


def check_symmetric(a: Any) -> None:
    """Whether a real matrix is symmetric, to the last bit."""
    if not is_equal(eigen.transposed(a), a):
        raise ValueError("a is not symmetric (or Hermitian); give (a + a.T) / 2 if that is meant")
