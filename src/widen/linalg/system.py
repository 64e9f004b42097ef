"""One real system: scaled, preconditioned, refined; or solved in integers where that must be."""

from __future__ import annotations

from time import perf_counter
from typing import Any

import numpy as np

from widen.formats import Part
from widen.linalg.arrays import filled, moved_like
from widen.linalg.bounds import LARGEST, first_words
from widen.linalg.decide import half_units, rounded
from widen.linalg.errors import NotProvenError
from widen.linalg.holding import WHOLE, Holding
from widen.linalg.integers import solve_by_elimination
from widen.linalg.preconditioner import FEW, MANY, Preconditioner, precondition
from widen.linalg.progress import part, report
from widen.linalg.refine import Refiner, Solution
from widen.linalg.scaling import System, scale_matrix, scaled_system

FEW_SIDES = 8
"""Unknowns for each right-hand side from which on the ordinary inverse is enough to go on with."""


def goal_for(n: int, sides: int) -> float:
    """Row sums of |I - R A| to go on with."""
    return FEW if sides * FEW_SIDES <= n or sides <= 1 else MANY


def solve_real(
    a: Any, b: Any, fmt: Part, enclosed: bool = False
) -> tuple[Solution, Preconditioner | None]:
    """The solution of a x = b, real and finite: a (n, n), b (n, m), float64 or words of it."""
    return Solver(a, b.shape[1], fmt, enclosed).solve(b)


class Solver:
    """A matrix, made ready once for all of its right-hand sides.

    Parameters
    ----------
    a
        What this process holds of a real, finite matrix (n, n), float64 or words of it.
    sides
        How many right-hand sides there will be.
    fmt, enclosed
        The result's format, and whether an enclosure is enough.
    held
        Which rows this process holds.
    """

    def __init__(
        self, a: Any, sides: int, fmt: Part, enclosed: bool = False, held: Holding = WHOLE
    ) -> None:
        self.a, self.sides, self.fmt, self.enclosed, self.held = a, sides, fmt, enclosed, held
        self.n = n = a.shape[1]
        self.pre: Preconditioner | None = None
        self.seconds: dict[str, float] = {}
        if n > LARGEST:
            raise NotProvenError(f"systems of up to {LARGEST} unknowns are proven; this has {n}")
        started = perf_counter()
        self.scaled = scale_matrix(a, held) if n else None
        self.seconds["scale"] = perf_counter() - started

    def solve(self, b: Any) -> tuple[Solution, Preconditioner | None]:
        """The solution for some right-hand sides (n, m), which all processes have."""
        if self.n == 0:
            like = first_words(self.a)
            nothing = [np.zeros(b.shape, word.name) for word in self.fmt.words]
            planes = [moved_like(plane, like) for plane in nothing]
            return Solution(planes, filled(like, tuple(b.shape), 0.0)), None
        started = perf_counter()
        system = scaled_system(self.scaled, b)
        if system is None:
            return self._by_elimination(b), None
        self.seconds["scale"] += perf_counter() - started
        report(0.05)
        try:
            pre = self._prepared(system)
            with part(0.6, 0.4):
                solution = Refiner(system, pre, self.fmt, self.enclosed).run()
        except NotProvenError as reason:
            try:
                return self._by_elimination(b), None
            except NotProvenError:  # it would take too long
                raise reason from None
        solution.seconds = {**self.seconds, **solution.seconds}
        return solution, pre

    def _prepared(self, system: System) -> Preconditioner:
        """The approximate inverse, which the first right-hand sides have made."""
        if self.pre is None:
            started = perf_counter()
            with part(0.05, 0.55):
                self.pre = precondition(system.a, goal_for(self.n, self.sides), self.held)
            self.seconds["invert"] = perf_counter() - started
        return self.pre

    def _by_elimination(self, b: Any) -> Solution:
        """The same from fractions, all elements of which are rounded one at a time."""
        started = perf_counter()
        exact = solve_by_elimination(self.a, b, self.held)
        words = [rounded(value, self.fmt) for value in exact.reshape(-1).tolist()]
        like, shape = first_words(self.a), exact.shape
        arrays = [
            np.array([word[k] for word in words], part.name).reshape(shape)
            for k, part in enumerate(self.fmt.words)
        ]
        first = arrays[0].astype(float)
        radius = np.where(np.isfinite(first), half_units(abs(first), self.fmt), np.inf)
        solution = Solution([moved_like(x, like) for x in arrays], moved_like(radius, like))
        solution.lifted = exact.size
        solution.seconds["eliminate"] = perf_counter() - started
        return solution
