"""How far computed vectors are from the spaces that they approximate, proven.

Let A be symmetric or Hermitian, x a vector with |A x - d x| <= rho, and C a set of eigenvalues such
that all others are delta or more away from d. With P the projector on the eigenvectors of the
others, |P (A - d) x| >= delta |P x|, so the sine of the angle between x and the space of C is at
most rho / (delta |x|) (Davis and Kahan).

C is a cluster: eigenvalues whose enclosures are connected. Inside, vectors are orthonormal, and
nothing is known of one alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from widen.formats import Part
from widen.linalg.bounds import above

NARROW = 2.0**-30
"""Largest |I - X'X| of vectors whose angles are bounded."""


def clusters(lows: Sequence[Fraction], highs: Sequence[Fraction]) -> list[int]:
    """The first member of every value's cluster, for intervals in ascending order of value.

    >>> clusters([Fraction(0), Fraction(1), Fraction(4)], [Fraction(2), Fraction(3), Fraction(5)])
    [0, 0, 2]
    """
    labels: list[int] = []
    reach = None
    for i, (low, high) in enumerate(zip(lows, highs, strict=True)):
        labels.append(labels[-1] if reach is not None and low <= reach else i)
        reach = high if reach is None else max(reach, high)
    return labels


def gaps(
    middles: Sequence[Fraction], lows: Sequence[Fraction], highs: Sequence[Fraction],
    labels: Sequence[int],
) -> list[Fraction | None]:  # fmt: skip
    """Lower bounds of the distance of every middle from all values of other clusters.

    None where there is one cluster alone. Clusters are in order, so that the next ones are nearest.
    """
    distances: list[Fraction | None] = []
    ends: dict[int, Fraction] = {}
    starts: dict[int, Fraction] = {}
    for label, low, high in zip(labels, lows, highs, strict=True):
        ends[label] = max(ends.get(label, high), high)
        starts[label] = min(starts.get(label, low), low)
    names = sorted(starts)
    place = {label: k for k, label in enumerate(names)}
    for middle, label in zip(middles, labels, strict=True):
        at = place[label]
        beside = [middle - ends[names[k]] for k in (at - 1,) if k >= 0]
        beside += [starts[names[k]] - middle for k in (at + 1,) if k < len(names)]
        distances.append(min(beside) if beside else None)
    return distances


def sines(residuals: Any, distances: Sequence[Fraction | None], phi: float) -> Any:
    """Upper bounds of the sines of the angles between vectors and their clusters' spaces."""
    bounds = np.ones(len(distances))
    if not phi <= NARROW:
        return bounds
    for i, distance in enumerate(distances):
        if distance is None:
            bounds[i] = 0.0
        elif distance > 0:
            least = float(distance) * (1 - 2.0**-50)
            if least > 0:
                bounds[i] = float(above(float(residuals[i]) / least * (1 + phi)))
    return np.minimum(bounds, 1.0)


def rounded_sines(sines: Any, rows: int, fmt: Part) -> Any:
    """The same for vectors that were rounded to a format.

    That adds 2^-p of every entry, half of the smallest number at least; both together to the sine,
    next to a norm that is 1 within 2^-23 or less.
    """
    unit = 2.0**-fmt.precision * (1 + 2.0**-20)
    added = unit + rows * 2.0 ** max(fmt.lowest, -1074)
    return np.minimum(above((sines + added) * (1 + 2.0**-20)), 1.0)
