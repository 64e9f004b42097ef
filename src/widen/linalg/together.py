"""Many small systems at once: scaled, inverted and refined together, until few are left.

The inequalities are those of `preconditioner` and `refine`, for arrays (systems, n, m). A system is
done when all of its elements are decided. What is singular, ill-conditioned, badly scaled, or has a
zero or a tie, is left to `system`, one after the other: the answer is the same, as an exact answer
that is rounded once can be no other.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from widen import api
from widen.formats import Part
from widen.formats.arrays import empty, library_of, place_of
from widen.linalg.arrays import chosen, eye_like, filled
from widen.linalg.bounds import (
    FORMATS,
    LOST,
    PRECISION,
    U,
    above,
    as_words,
    magnitudes,
    product,
    product_above,
    row_sums,
    sum_error,
)
from widen.linalg.decide import decide
from widen.linalg.refine import SPARE, exact_sum
from widen.words import Words
from widen.words.arithmetic import plane_times_power

LEAST, LARGEST = 4, 64
"""Systems of a batch from which on, and unknowns up to which, they are solved together. At n = 64
one system alone takes 2 ms, of which calls are the larger part."""
ROOM = 1 << 20
"""Numbers of all matrices that are solved at one time."""
STEPS = 4
"""Steps of refinement: a condition number that needs more is better off with a better inverse."""
FAR = 1000
"""Exponents up to which systems are scaled here."""


@dataclass
class Systems:
    """Scaled systems: those of `scaling.System`, and the powers of two of the results."""

    a: Any
    b: Any
    powers: Any
    exact: Any

    def take(self, which: Any) -> Systems:
        """Some of them."""
        return Systems(self.a[which], self.b[which], self.powers[which], self.exact[which])


@dataclass
class Together:
    """Solutions of the systems that are `done`: words (systems, n, m), bounds of their errors."""

    planes: list[Any]
    radius: Any
    done: Any
    iterations: Any
    words: int
    condition: float


def are_taken(matrices: list[Any], sides: list[Any]) -> bool:
    """Whether systems are worth solving together."""
    if len(matrices) < LEAST or any(isinstance(x, Words) for x in (matrices[0], sides[0])):
        return False
    return bool(0 < matrices[0].shape[-1] <= LARGEST and sides[0].shape[-1] > 0)


def solve_together(a: Any, b: Any, fmt: Part, goal: float) -> Together:
    """Solutions of real systems a (systems, n, n), b (systems, n, m) of float64, if they are easy.

    Row sums of |I - R A| above the goal are not: see `preconditioner`.
    """
    count = max(1, ROOM // (a.shape[-1] * max(a.shape[-1], b.shape[-1])))
    parts = [_solved(a[at : at + count], b[at : at + count], fmt, goal)
             for at in range(0, a.shape[0], count)]  # fmt: skip
    library = library_of(b)

    def joined(pieces: Any) -> Any:
        return library.concatenate(list(pieces), 0)

    return Together(
        [joined(planes) for planes in zip(*(part.planes for part in parts), strict=True)],
        joined(part.radius for part in parts), joined(part.done for part in parts),
        joined(part.iterations for part in parts), max(part.words for part in parts),
        max(part.condition for part in parts),
    )  # fmt: skip


# ── scaling ──────────────────────────────────────────────────────────────────


def _exponents(x: Any, axis: int) -> Any:
    """Exponents of the largest numbers along an axis, which stays."""
    library = library_of(x)
    largest = library.amax(abs(x), axis)
    powers = library.frexp(library.where(library.isfinite(largest), largest, 0 * largest))[1]
    wide = powers.astype(np.int64) if library is np else powers.long()
    return wide[..., None, :] if axis == -2 else wide[..., None]


def _times(x: Any, exponents: Any) -> Any:
    """Numbers x 2^exponents in two steps, for powers of two that serve whole rows or columns."""
    half = exponents >> 1
    one = filled(x, tuple(exponents.shape), 1.0)
    with np.errstate(all="ignore"):
        return x * plane_times_power(one, half) * plane_times_power(one, exponents - half)


def _scaled(a: Any, b: Any) -> Systems:
    """Rows, columns and right-hand sides near 1, and which systems that left as they are."""
    rows = _exponents(a, -1)
    half = _times(a, -rows)
    columns = _exponents(half, -2)
    near = _times(half, -columns)
    own = _exponents(b, -2)
    moved = _times(_times(b, -own), -rows)
    more = _exponents(moved, -2)
    right = _times(moved, -more)
    is_same = (_times(_times(near, columns), rows) == a).all(-1).all(-1)
    is_same = is_same & (_times(_times(_times(right, more), rows), own) == b).all(-1).all(-1)
    for powers in (rows, columns, own, more):
        is_same = is_same & (abs(powers) <= FAR).all(-1).all(-1)
    turned = library_of(a).swapaxes(columns, -1, -2)
    return Systems(near, right, own + more - turned, is_same)


# ── inverses ─────────────────────────────────────────────────────────────────


def _inverses(a: Any) -> Any:
    """Ordinary inverses; NaN where the library refuses one, which is looked for by halves."""
    library = library_of(a)
    try:
        with np.errstate(all="ignore"):
            return library.linalg.inv(a)
    except library.linalg.LinAlgError:
        if a.shape[0] == 1:
            return a * math.nan
        half = a.shape[0] // 2
        return library.concatenate([_inverses(a[:half]), _inverses(a[half:])], 0)


def _row_sums(r: Any, a: Any) -> Any:
    """Row sums of |I - R A|: `preconditioner._ordinary_row_sums` for all systems."""
    n = a.shape[-1]
    g = eye_like(a, n) - product(r, a)
    slack = above(product_above(abs(r), row_sums(abs(a))[..., None])[..., 0] + 1, 4)
    return above(abs(g).sum(-1) + (n + 2) * U * 1.01 * slack, n)


# ── refinement ───────────────────────────────────────────────────────────────


def _solved(a: Any, b: Any, fmt: Part, goal: float) -> Together:
    """The same for as many systems as there is room for."""
    library, place = library_of(a), place_of(a)
    shape = tuple(b.shape)
    together = Together(
        [empty(shape, word.name, place) for word in fmt.words], filled(a, shape, math.inf),
        abs(b[:, 0, 0]) < 0, filled(a, shape[:1], 0.0), 0, 1.0,
    )  # fmt: skip
    systems = _scaled(a, b)
    with np.errstate(all="ignore"):
        r = _inverses(systems.a)
        rows = _row_sums(r, systems.a)
        alpha = library.amax(rows, -1)
        live = chosen(systems.exact & (alpha <= goal))  # false for NaN
    if not len(live):
        return together
    now, r, rows, alpha = systems.take(live), r[live], rows[live], alpha[live][:, None]
    sizes = row_sums(abs(r))
    together.condition = float(
        (library.amax(sizes, -1) * library.amax(row_sums(abs(now.a)), -1)).max()
    )
    together.words = _width(fmt, together.condition)
    if not together.words:
        return together
    n, lost = a.shape[-1], above(LOST * sizes)[..., None]
    x: Any = product(r, now.b)
    before = filled(a, (1, 1), math.inf)
    for step in range(1, STEPS + 1):
        residual = api.gemm(
            now.a, x, now.b, alpha=-1.0, beta=1.0, accuracy="correct", dtype="float64"
        )
        d = product(r, residual)
        around = product_above(abs(r), abs(residual))
        error = above((n + 3) * U * 1.01 * around + lost)
        size = above(library.amax(above(abs(d) + error), -2) / (1 - alpha))
        x = x + d if isinstance(x, Words) else as_words(exact_sum(x, d), together.words)
        radius = above(
            error + rows[..., None] * size[:, None, :] + sum_error(together.words) * magnitudes(x)
        )
        decision = decide(x, radius, now.powers, fmt)
        done = decision.decided.all(-1).all(-1)
        at = live[done]
        for target, words in zip(together.planes, decision.words, strict=True):
            target[at] = words[done]
        together.radius[at], together.done[at] = decision.error[done], True
        together.iterations[at] = float(step)
        left = chosen(~done & (size <= 0.5 * before).all(-1))  # the others come no nearer
        if not len(left):
            break
        now, live, r, rows, alpha = now.take(left), live[left], r[left], rows[left], alpha[left]
        lost, before, x = lost[left], size[left], x[left]
    return together


def _width(fmt: Part, condition: float) -> int:
    """Words of x: those of `refine.Refiner.first_width`; 0 if no format has so many."""
    bits = fmt.precision + SPARE + math.log2(max(2.0, condition))
    return next((k for k in FORMATS if k > 1 and PRECISION[k] >= bits), 0)
