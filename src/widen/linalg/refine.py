"""Iterative refinement with a proven radius: the heart of `solve`.

With R from `preconditioner`, G = I - R A, |G| e <= alpha_i, alpha = max alpha_i < 1. Let x be any
approximation, rho the residual b - A x correctly rounded to k words (k those of R), z = R (b - A x)
exactly, and d the computed R rho. Then x* - x = (I - G)^-1 z =: e, so e - z = G e, and

    |x* - (x + d)|_i <= |e - z|_i + |z - d|_i <= alpha_i Z + E_i,
    Z >= max_i (|d_i| + E_i) / (1 - alpha)

where E_i >= |z - d|_i is the error of the product R rho, and of rho next to the exact residual. To
this comes the rounding of x + d to the words of x. No interval arithmetic, and no second residual.

The residual of the second step need not come from b again, where nearly all bits cancel. The first
x and d are floats, so x + d is a number of two words exactly, and b - A (x + d) = (b - A x) - A d:
rho less A d, correctly rounded, off by u |rho| besides.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from fractions import Fraction
from time import perf_counter
from typing import Any

import numpy as np

from widen import api
from widen.formats import WORDS, Part
from widen.formats.arrays import dtype_name, empty, library_of, place_of
from widen.linalg import ties
from widen.linalg.arrays import chosen, columns, filled, moved_like, on_host
from widen.linalg.bounds import (
    FORMATS,
    LOST,
    NEXT,
    PRECISION,
    U,
    above,
    as_words,
    first_words,
    largest,
    magnitudes,
    product,
    product_above,
    row_sums,
    sum_error,
)
from widen.linalg.decide import decide, decide_far, half_units, nearest, rounded
from widen.linalg.lifting import Lifting
from widen.linalg.preconditioner import Preconditioner
from widen.linalg.progress import report
from widen.linalg.scaling import System
from widen.words import Words
from widen.words.renormalise import two_sum

SPARE = 20
"""Bits of x beyond those that the result has and the condition number costs."""
NARROW = 53
"""Bits of results whose second residual is made of the first."""
WIDEST = 4
"""Words of x up to which a system is widened for open elements; then they are lifted."""


@dataclass
class Solution:
    """The words of a solution and upper bounds of its errors, and what they took."""

    planes: list[Any]
    radius: Any
    words: int = 0
    iterations: int = 0
    lifted: int = 0
    seconds: dict[str, float] = field(default_factory=dict)


@dataclass
class Active:
    """Columns that are still refined.

    Attributes
    ----------
    at
        Their numbers.
    x, b
        Approximations and right-hand sides.
    is_open
        Elements that are not decided.
    size
        The last bound of their distance from the solution, of every column.
    last
        The residual and the correction of the first step, until the second has used them.
    """

    at: Any
    x: Any
    b: Any
    is_open: Any
    size: Any
    last: tuple[Any, Any] | None = None

    def take(self, which: Any) -> Active:
        """Some of these columns."""
        return Active(
            self.at[which], columns(self.x, which), columns(self.b, which),
            columns(self.is_open, which), self.size[which],
            None if self.last is None else (columns(self.last[0], which),
                                            columns(self.last[1], which)),
        )  # fmt: skip


def exact_sum(x: Any, d: Any) -> Words:
    """The sums of floats as numbers of two words, exactly."""
    high, low = two_sum(x, d)
    return Words.of(WORDS["float64x2"], [high[None], low[None]])


class Refiner:
    """Refinement of one scaled system to results of one format."""

    def __init__(self, system: System, pre: Preconditioner, fmt: Part, enclosed: bool) -> None:
        self.system, self.pre, self.fmt, self.enclosed = system, pre, fmt, enclosed
        self.held = pre.held
        self.sizes = abs(first_words(pre.inverse))
        like = self.sizes
        n, m = system.b.shape
        names = [word.name for word in fmt.words]
        self.solution = Solution(
            [empty((n, m), name, place_of(like)) for name in names], filled(like, (n, m), math.inf)
        )
        self.lost = self.held.gathered(above(LOST * row_sums(self.sizes)))[:, None]
        self.encoded = api.encode(
            system.a, side="left", accuracy="correct", dtype=FORMATS[pre.words]
        )
        self.lifting: Lifting | None = None

    @property
    def first_width(self) -> int | None:
        """Words of x to begin with; None if no format is wide enough."""
        bits = self.fmt.precision + SPARE + math.log2(max(2.0, self.pre.condition))
        wide = [k for k in FORMATS if k > 1 and k >= self.pre.words and PRECISION[k] >= bits]
        return self.held.first(wide[0] if wide else 0) or None

    def run(self) -> Solution:
        """Refine until every element is decided, or lifted."""
        started = perf_counter()
        b, m = self.system.b, self.system.b.shape[1]
        like = first_words(b)
        everything = Active(
            moved_like(np.arange(m), like), None, b, abs(like) >= 0, filled(like, (m,), math.inf)
        )
        width = self.first_width
        if width is None:
            width = max(FORMATS) if self.enclosed else 0
        if width == 0:
            self._lift(everything)
        elif m:
            self._refine(everything, width)
        self.solution.seconds["refine"] = perf_counter() - started - self._lifting_time
        return self.solution

    @property
    def _lifting_time(self) -> float:
        return self.solution.seconds.get("lift", 0.0)

    # ── one step ─────────────────────────────────────────────────────────────

    def _start(self, b: Any) -> Any:
        if self.pre.words == 1:
            return self.held.gathered(product(self.pre.inverse, first_words(b)))
        wide = FORMATS[self.pre.words]
        return self.held.gathered(api.matmul(self.pre.inverse, b, dtype=wide))

    def _correction(self, residual: Any) -> tuple[Any, Any]:
        """The product d of R and the residual, and |z - d|'s bound E."""
        pre = self.pre
        sizes = self.sizes if pre.words == 1 else above(self.sizes)
        around = self.held.gathered(product_above(sizes, magnitudes(residual)))
        if pre.words == 1:
            # n u |R||rho| and a rounding of the product, u |R||rho| of the residual.
            n = len(around)
            d = self.held.gathered(product(pre.inverse, residual))
            return d, above((n + 3) * U * 1.01 * around + self.lost)
        d = api.matmul(pre.inverse, residual, accuracy="correct", dtype="float64")
        d = self.held.gathered(d)
        unit = 2.0 ** -PRECISION[pre.words]
        return d, above(2 * unit * around + U * abs(d) + self.lost)

    def _step(self, now: Active, width: int) -> tuple[Active, Any]:
        """Better approximations, and a radius of every element."""
        pre = self.pre
        x_before, b_before = (now.x, now.b) if now.last is None else now.last[::-1]
        residual = self.held.gathered(api.gemm(
            self.encoded, x_before, b_before[self.held.own], alpha=-1.0, beta=1.0,
            accuracy="correct", dtype=FORMATS[pre.words],
        ))  # fmt: skip
        d, error = self._correction(residual)
        if now.last is not None:
            before = self.held.gathered(product_above(self.sizes, abs(now.last[0])))
            error = above(error + U * 1.01 * before + self.lost)
        size = above(largest(above(abs(d) + error)) / (1 - pre.alpha))
        is_first = not isinstance(now.x, Words)
        x = as_words(exact_sum(now.x, d), width) if is_first else as_words(now.x, width) + d
        radius = above(error + pre.rows[:, None] * size + sum_error(width) * magnitudes(x))
        self.solution.iterations += 1
        # More words than two take the exact residual at once: u |rho| is much next to their bits.
        last = (residual, d) if is_first and self.fmt.precision <= NARROW else None
        return Active(now.at, x, now.b, now.is_open, size, last), radius

    # ── all steps ────────────────────────────────────────────────────────────

    def _refine(self, now: Active, width: int) -> None:
        now.x = self._start(now.b)
        most = max(WIDEST, width)
        while True:
            self.solution.words = width
            before = now.size
            now, radius = self._step(now, width)
            powers = self._powers(now)
            if self.enclosed:
                words, error = nearest(now.x, radius, powers, self.fmt)
                self._store(now.at, words, error, abs(radius) >= 0)
                done = self._is_close(now, radius) | (now.size > 0.5 * before)
                now.is_open = now.is_open & ~done
            else:
                self._decide(now, radius, powers)
            still = now.is_open.any(0)
            report(1 - int(now.is_open.sum()) / max(1, math.prod(self.system.b.shape)))
            if not bool(still.any()):
                return
            stopped = now.size > 0.5 * before
            floor = now.size <= 2.0 ** (12 - PRECISION[width]) * largest(magnitudes(now.x))
            stuck = (stopped | floor) & still
            if bool(stuck.any()) and not self.enclosed:
                at = chosen(stuck)
                part = now.take(at)
                self._ties(part, columns(radius, at))
                now.is_open[:, at] = part.is_open
                still = now.is_open.any(0)
                if not bool(still.any()):
                    return
                if bool((stuck & still).any()):
                    if width >= most:
                        self._lift(now.take(chosen(stuck & still)))
                        still = still & ~stuck
                    else:
                        width = NEXT[width]
                        now.size = filled(now.size, tuple(now.size.shape), math.inf)
            now = now.take(chosen(still))
            if not len(now.at):
                return
            now.x = as_words(now.x, width)

    def _powers(self, now: Active) -> Any:
        return self.system.exponents(on_host(now.at), self.sizes)

    def _is_close(self, now: Active, radius: Any) -> Any:
        """Columns whose radii are all below a unit in the last place, or nothing to the column."""
        sizes = magnitudes(now.x)
        unit = 2.0**-self.fmt.precision
        return (radius <= unit * (sizes + unit * largest(sizes))).all(0)

    def _store(self, at: Any, words: list[Any], error: Any, where: Any) -> None:
        """Put results in place, where they are wanted."""
        library = library_of(error)
        for target, word in zip((*self.solution.planes, self.solution.radius), (*words, error),
                                strict=True):  # fmt: skip
            target[:, at] = library.where(where, word, target[:, at])

    def _put(self, at: list[tuple[int, int]], values: list[tuple[float, ...]]) -> None:
        """Put results that were found one at a time in place."""
        if not at:
            return
        rows, sides = (moved_like(np.array(line), self.sizes) for line in zip(*at, strict=True))
        for k, target in enumerate(self.solution.planes):
            line = np.array([value[k] for value in values], dtype_name(target))
            target[rows, sides] = moved_like(line, self.sizes)
        first = np.array([value[0] for value in values])
        error = np.where(np.isfinite(first), half_units(abs(first), self.fmt), math.inf)
        self.solution.radius[rows, sides] = moved_like(error, self.sizes)

    def _decide(self, now: Active, radius: Any, powers: Any) -> None:
        """Settle the open elements whose enclosures round to one number."""
        decision = decide(now.x, radius, powers, self.fmt)
        self._store(now.at, decision.words, decision.error, decision.decided & now.is_open)
        now.is_open = now.is_open & ~decision.decided
        far = now.is_open & ~decision.ordinary
        if bool(far.any()):
            self._decide_far(now, radius, far)

    def _decide_far(self, now: Active, radius: Any, where: Any) -> None:
        at = on_host(now.at)
        decided = decide_far(now.x, radius, self.system.exponents(at), self.fmt, where)
        self._put([(i, int(at[j])) for i, j in decided], list(decided.values()))
        for i, j in decided:
            now.is_open[i, j] = False

    def _ties(self, now: Active, radius: Any) -> None:
        """Settle open elements of columns that refinement does not bring further."""
        self._decide_far(now, radius, now.is_open)
        candidate, dropped = ties.candidates(now.x, radius)
        where = now.is_open | dropped
        proven = ties.proven_equal(self.system.a, now.b, candidate, where, self.held)
        won = now.is_open & proven[None, :]
        if not bool(won.any()):
            return
        now.is_open = now.is_open & ~won
        first = candidate.planes[0][0]
        zeros = won & (first == 0)
        library = library_of(first)
        nothing = [library.zeros_like(plane[:, now.at]) for plane in self.solution.planes]
        self._store(now.at, nothing, half_units(library.zeros_like(first), self.fmt), zeros)
        at, host = on_host(now.at), on_host(candidate)
        exact = np.argwhere(on_host(won & (first != 0))).tolist()
        places = [(i, int(at[j])) for i, j in exact]
        values = [
            Fraction(2) ** int(self.system.columns[place[0]] - self.system.sides[place[1]])
            * sum((Fraction(float(plane[0, i, j])) for plane in host.planes), Fraction(0))
            for place, (i, j) in zip(places, exact, strict=True)
        ]
        self._put(places, [rounded(value, self.fmt) for value in values])

    def _lift(self, now: Active) -> None:
        """Settle the open elements of columns by integers."""
        started = perf_counter()
        if self.lifting is None:
            self.lifting = Lifting(self.system.a, self.pre)
        at, is_open = on_host(now.at), on_host(now.is_open)
        for j, column in enumerate(at.tolist()):
            wanted = np.flatnonzero(is_open[:, j]).tolist()
            b = columns(now.b, slice(j, j + 1))
            lifted = self.lifting.solve(b, wanted, self.system.exponents([column])[:, 0], self.fmt)
            self._put([(i, column) for i in lifted], list(lifted.values()))
            self.solution.lifted += len(lifted)
        self.solution.seconds["lift"] = self._lifting_time + perf_counter() - started
