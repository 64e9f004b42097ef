"""An approximate inverse R of A with proof: the row sums of |I - R A| are below 1.

Then A and R are nonsingular, for R A = I - G has an inverse (Neumann's series). One inverse in
float64 does for condition numbers up to 1e13. Beyond, R is multiplied by the inverse of R A, with
one word more at a time: each step takes a factor of about 1e15 from the condition number, since the
computed inverse of a nearly singular matrix is that of a neighbour, which is all that is needed
(Rump's observation; whether it worked is what the row sums prove).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from widen import api
from widen.formats.arrays import library_of
from widen.linalg import arrays
from widen.linalg.bounds import (
    FORMATS,
    U,
    above,
    first_words,
    magnitudes,
    product,
    product_above,
    row_sums,
    word_count,
)
from widen.linalg.errors import NotProvenError
from widen.linalg.holding import WHOLE, Holding
from widen.linalg.operands import beside
from widen.linalg.progress import report
from widen.linalg.singular import check_nonsingular
from widen.words import Words

FEW, MANY = 0.25, 2.0**-7
"""Largest row sums to go on with: a step of refinement gains -log2 of this in bits. One right-hand
side takes cheap steps; as many as unknowns take steps that cost as much as a better R."""
HOPEFUL = 2.0**10
"""Times the goal: above, the bound of the ordinary product says that R is not close at all."""
SPARE = 12
"""Bits beyond the goal to which I - R A is computed where only its size matters."""
ROUGH = 4.0
"""Row sums above which R A may be nearly singular."""
UNRELATED, TRIES = 2.0**30, 3
"""Row sums above which R is an inverse of no neighbour of A, and how many others are tried then.

Where rounding errors of the elimination vanish (products of integer matrices, say), R is one of a
singular matrix that is not near. A few units of noise on A make R one of a neighbour again."""
WIDTHS = (1, 2, 3, 4, 8, 8, 8, 8, 16)
"""Words of R after each step of the ladder; 16 from then on."""
STEPS = 24
"""A condition number of 1e276 was not reached in 16 words, whatever the steps."""


@dataclass(frozen=True)
class Preconditioner:
    """The matrix R and proven row sums of |I - R A|.

    Attributes
    ----------
    inverse
        R, an array of float64 or `Words`: the rows that this process holds.
    held
        Which these are.
    rows
        alpha_i >= sum_j |I - R A|_ij.
    alpha
        The largest of them, below 1.
    words
        Words of R.
    condition
        Estimate of the condition number.
    """

    inverse: Any
    held: Holding
    rows: Any
    alpha: float
    words: int
    condition: float


def _ordinary_row_sums(r: Any, a: Any, held: Holding) -> Any:
    """Row sums of |I - R A| from an ordinary product and its bound.

    |fl(R A) - R A| <= n u |R||A| + ulp/2, and a rounding of the difference: together at most
    (n + 2) u (|R||A| + |I|).
    """
    n = a.shape[1]
    sums: Any = 0.0
    for at, panel in held.panels(a):
        sums = sums + abs(held.identity(a, at) - product(r, panel)).sum(1)
    sizes = held.gathered(row_sums(abs(a)))
    slack = above(product_above(abs(r), sizes[:, None])[:, 0] + 1, 4)
    return held.gathered(above(sums + (n + 2) * U * 1.01 * slack, n))


def _most(x: Any, held: Holding) -> float:
    """The largest magnitude of a matrix."""
    own = arrays.on_host(abs(first_words(x)))
    return float(held.largest(np.array([own.max(initial=0.0)]))[0])


def _norms(x: Any, axis: int, held: Holding) -> float:
    """log2 of the largest 2-norm of rows (axis 1) or columns (axis 0); nothing is proven by it.

    Of columns that are cut over processes, an upper bound.
    """
    most = _most(x, held)
    if not 0 < most < math.inf:
        return 0.0
    near = abs(first_words(x)) / most
    squares = held.largest(arrays.on_host((near * near).sum(axis)).max(initial=0.0, keepdims=True))
    return math.log2(most) + 0.5 * math.log2(float(squares[0]) * (1 if axis else held.count))


def _residual(r: Any, a: Any, spare: int | None, held: Holding) -> tuple[Any, Any]:
    """Row sums of |I - R A|, and the rows of I - R A that this process holds.

    It is known to `spare` bits behind the point in all of a row, or correctly rounded with None:
    the first is cheaper, and enough to see that row sums are small.
    """
    n = a.shape[1]
    accuracy: Any = "correct"
    if spare is not None:
        bits = _norms(r, 1, held) + _norms(a, 0, held) + math.log2(n)
        accuracy = max(53, math.ceil(bits) + spare)
    sums, pieces = 0.0, []
    for at, panel in held.panels(a):
        g, info = api.gemm(
            r, panel, held.identity(first_words(a), at), alpha=-1.0, beta=1.0, accuracy=accuracy,
            dtype="float64", info=True,
        )  # fmt: skip
        sums = sums + (abs(g) + info.bound).sum(1)
        pieces.append(g)
    return held.gathered(above(sums, n)), beside(pieces, 1)


def _noise(x: Any, step: int, held: Holding) -> Any:
    """Random numbers of about a few u of every entry of x and of its largest one."""
    size = abs(first_words(x))
    noise = np.random.default_rng(step + (held.own.start or 0)).standard_normal(tuple(size.shape))
    return (size + _most(x, held)) * (8 * U) * arrays.moved_like(noise, size)


def _ready(r: Any, rows: Any, a: Any, held: Holding) -> Preconditioner:
    norms = [float(held.gathered(row_sums(magnitudes(x))).max()) for x in (r, a)]
    return Preconditioner(r, held, rows, float(rows.max()), word_count(r), norms[0] * norms[1])


def precondition(a: Any, goal: float, held: Holding = WHOLE) -> Preconditioner:
    """An approximate inverse of a scaled matrix whose row sums are at most `goal`.

    `a` is what this process holds of the matrix.
    """
    first = first_words(a)
    spare = math.ceil(-math.log2(goal)) + SPARE
    r = held.inverse(first)
    with np.errstate(all="ignore"):
        if r is not None and not isinstance(a, Words):
            rows = _ordinary_row_sums(r, a, held)
            if float(rows.max()) <= goal:
                return _ready(r, rows, a, held)
            if float(rows.max()) > HOPEFUL * goal:
                check_nonsingular(a, held)
        if r is None:
            check_nonsingular(a, held)
            r = held.inverse(first + _noise(first, 0, held))
        return _ladder(a, r, goal, spare, held)


def _ladder(a: Any, r: Any, goal: float, spare: int, held: Holding) -> Preconditioner:
    """Better and better inverses, of more and more words."""
    first = first_words(a)
    identity = held.identity(first, slice(None))
    best, width = math.inf, 0
    for step in range(STEPS):
        if r is None:
            break
        if not held.everywhere(bool(library_of(first).isfinite(first_words(r)).all())):
            break
        report(1 - 0.8**step)  # nobody knows how many there will be
        rows, g = _residual(r, a, spare, held)
        alpha = float(rows.max())
        best = min(best, alpha)
        if alpha <= goal:
            return _ready(r, rows, a, held)
        if not alpha <= ROUGH:  # R A may be nearly singular: its inverse needs all of its bits
            if step < 2:
                check_nonsingular(a, held)
            if alpha > UNRELATED and step < TRIES:
                r = held.inverse(first + _noise(first, step, held))
                continue
            _, g = _residual(r, a, None, held)
        y = held.inverse(identity - g)
        if y is None:  # a singular R stays so whatever it is multiplied by
            r = r + _noise(r, step, held)
            continue
        width = min(width + 1, len(WIDTHS) - 1)
        wide = FORMATS[WIDTHS[width]]
        r = beside([api.matmul(y, panel, dtype=wide) for _, panel in held.panels(r)], 1)
    raise NotProvenError(
        f"a is nonsingular, but |I - R a| < 1 was not reached with an approximate inverse R of up "
        f"to 16 words (the smallest row sum found was {best:.1e}): its condition number is beyond "
        "1e250 or so"
    )
