"""How far computed vectors are from the spaces that they approximate, proven.

Let A be symmetric or Hermitian, x a vector with |A x - d x| <= rho, and C a set of eigenvalues such
that all others are delta or more away from d. With P the projector on the eigenvectors of the
others, |P (A - d) x| >= delta |P x|, so the sine of the angle between x and the space of C is at
most rho / (delta |x|) (Davis and Kahan).

C is a cluster: eigenvalues whose enclosures are connected. Inside, vectors are orthonormal, and
nothing is known of one alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from operator import itemgetter
from typing import Any

import numpy as np

from widen.formats import Part
from widen.linalg.bounds import above
from widen.linalg.intervals import Interval, Intervals, gaps

NARROW = 2.0**-30
"""Largest |I - X'X| of vectors whose angles are bounded."""


def clusters(x: Intervals) -> tuple[list[int], Any]:
    """The first member of every value's cluster, and lower bounds of gaps behind these.

    Middles are in ascending order. A gap is the distance of a middle from all values of other
    clusters, infinite where there is one cluster alone; the power of two of the intervals is 1.
    """
    n, apart = len(x), gaps(x.middles)
    widest = float(x.radii.max(initial=0.0))
    if not (apart > above(2 * widest)).all():
        return _clusters_of_ends(x)
    # No other interval reaches into a gap; the differences are at least half of what is taken from.
    distances = np.full(n, np.inf)
    distances[1:] = apart - x.radii[:-1]
    distances[:-1] = np.minimum(distances[:-1], apart - x.radii[1:])
    return list(range(n)), distances * (1 - 2.0**-50)


def _clusters_of_ends(x: Intervals) -> tuple[list[int], Any]:
    """The same by fractions."""
    pairs = x.pairs()
    labels: list[int] = []
    reach = None
    for i, (low, high) in enumerate(pairs):
        labels.append(labels[-1] if reach is not None and low <= reach else i)
        reach = high if reach is None else max(reach, high)
    starts = {label: min(low for low, _ in group) for label, group in _groups(labels, pairs)}
    ends = {label: max(high for _, high in group) for label, group in _groups(labels, pairs)}
    names = sorted(starts)
    place = {label: k for k, label in enumerate(names)}
    distances = np.full(len(x), np.inf)
    for i, label in enumerate(labels):
        at, middle = place[label], x.middle(i)
        beside = [middle - ends[names[k]] for k in (at - 1,) if k >= 0]
        beside += [starts[names[k]] - middle for k in (at + 1,) if k < len(names)]
        if beside:
            distances[i] = float(min(beside)) * (1 - 2.0**-50)
    return labels, distances


def _groups(labels: list[int], pairs: list[Interval]) -> Iterator[tuple[int, list[Interval]]]:
    """The intervals of every cluster."""
    for label, group in groupby(zip(labels, pairs, strict=True), key=itemgetter(0)):
        yield label, [pair for _, pair in group]


def sines(residuals: Any, distances: Any, phi: float) -> Any:
    """Upper bounds of the sines of the angles between vectors and their clusters' spaces."""
    if not phi <= NARROW:
        return np.ones(len(distances))
    safe = np.where(distances > 0, distances, 1.0)
    bounds = np.where(distances > 0, above(residuals / safe * (1 + phi)), 1.0)
    return np.minimum(np.where(np.isinf(distances), 0.0, bounds), 1.0)


def rounded_sines(sines: Any, rows: int, fmt: Part) -> Any:
    """The same for vectors that were rounded to a format.

    That adds 2^-p of every entry, half of the smallest number at least; both together to the sine,
    next to a norm that is 1 within 2^-23 or less.
    """
    unit = 2.0**-fmt.precision * (1 + 2.0**-20)
    added = unit + rows * 2.0 ** max(fmt.lowest, -1074)
    return np.minimum(above((sines + added) * (1 + 2.0**-20)), 1.0)
