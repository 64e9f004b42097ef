"""Elements that are exactly zero, short or halfway between two results, proven by exact residuals.

No enclosure decides a number that is halfway between two results, or whether one is zero. But such
numbers end: their words behind some point are zero. So a candidate c is what remains of an
enclosure's words when those within its radius are dropped.

Let T be elements of a solution with candidates, S the others, and Q the rows of A that have zeros
in the columns S and whose residual (b - A c)_i is exactly zero, with c = 0 on S. If |Q| >= |T| and
A is nonsingular, then x_T = c_T. Proof: the rows Q are independent and live on the columns T, so
|Q| = |T| and A_QT is nonsingular; A_QT x_T = b_Q = A_QT c_T.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from widen import api
from widen.formats.arrays import cast, library_of
from widen.linalg.bounds import first_words
from widen.linalg.holding import WHOLE, Holding
from widen.linalg.modular import planes_of
from widen.linalg.singular import last_exponents
from widen.words import Words

UP = 900
"""Residuals are multiplied by 2^900, so that what is not zero does not underflow."""


def candidates(x: Words, radius: Any) -> tuple[Words, Any]:
    """Numbers without the words that lie within the radius, and where something was dropped."""
    library = library_of(radius)
    planes, dropped = [], radius < 0  # nowhere yet
    for plane in x.planes:
        dropped = dropped | (abs(plane[0]) <= 2 * radius)
        planes.append(library.where(dropped, library.zeros_like(plane[0]), plane[0])[None])
    return Words.of(x.format, planes), dropped


def _lowest(x: Any) -> int:
    return int(min(last_exponents(plane).min(initial=1 << 20) for plane in planes_of(x)))


def proven_equal(
    a: Any, b: Any, candidate: Words, chosen: Any, held: Holding = WHOLE
) -> Any:  # fmt: skip
    """Columns in which the elements `chosen` are proven to be their candidates.

    `a` is what this process holds of the matrix.
    """
    library = library_of(chosen)
    zero = library.zeros_like(candidate.planes[0][0])
    planes = [library.where(chosen, plane[0], zero)[None] for plane in candidate.planes]
    c = Words.of(candidate.format, planes)
    size = float(abs(planes[0]).max())
    if not size < 2.0**100:  # the residual might overflow
        return chosen.any(0) & False
    up = 2.0 ** (UP - 100)
    lowest = -int(held.largest(np.array([-_lowest(a)]))[0])
    if min(lowest + _lowest(c), _lowest(b)) + UP - 100 < -1074:
        return chosen.any(0) & False  # it might underflow
    with np.errstate(all="ignore"):
        residual = api.gemm(
            a, c, b[held.own], alpha=-up, beta=up, accuracy="correct", dtype="float64"
        )
    pattern = cast(first_words(a) != 0, "float32")
    outside = library.matmul(pattern, cast(~chosen, "float32"))
    rows = held.gathered((outside == 0) & (residual == 0))
    return rows.sum(0) >= chosen.sum(0)
