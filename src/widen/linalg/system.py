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
from widen.linalg.integers import solve_by_elimination
from widen.linalg.preconditioner import FEW, MANY, Preconditioner, precondition
from widen.linalg.progress import part, report
from widen.linalg.refine import Refiner, Solution
from widen.linalg.scaling import scaled_system

FEW_SIDES = 8
"""Unknowns for each right-hand side from which on the ordinary inverse is enough to go on with."""


def solve_real(
    a: Any, b: Any, fmt: Part, enclosed: bool = False
) -> tuple[Solution, Preconditioner | None]:
    """The solution of a x = b, real and finite: a (n, n), b (n, m), float64 or words of it."""
    n, m = a.shape[0], b.shape[1]
    if n > LARGEST:
        raise NotProvenError(f"systems of up to {LARGEST} unknowns are proven; this has {n}")
    like = first_words(a)
    if n == 0:
        nothing = [np.zeros((0, m), word.name) for word in fmt.words]
        planes = [moved_like(plane, like) for plane in nothing]
        return Solution(planes, filled(like, (0, m), 0.0)), None
    started = perf_counter()
    system = scaled_system(a, b)
    if system is None:
        return _by_elimination(a, b, fmt), None
    scaled = perf_counter()
    report(0.05)
    try:
        with part(0.05, 0.55):
            pre = precondition(system.a, FEW if m * FEW_SIDES <= n or m <= 1 else MANY)
        prepared = perf_counter()
        with part(0.6, 0.4):
            solution = Refiner(system, pre, fmt, enclosed).run()
    except NotProvenError as reason:
        try:
            return _by_elimination(a, b, fmt), None
        except NotProvenError:  # it would take too long
            raise reason from None
    times = {"scale": scaled - started, "invert": prepared - scaled}
    solution.seconds = {**times, **solution.seconds}
    return solution, pre


def _by_elimination(a: Any, b: Any, fmt: Part) -> Solution:
    """The same from fractions, all elements of which are rounded one at a time."""
    started = perf_counter()
    exact = solve_by_elimination(a, b)
    words = [rounded(value, fmt) for value in exact.reshape(-1).tolist()]
    like, shape = first_words(a), exact.shape
    arrays = [
        np.array([word[k] for word in words], part.name).reshape(shape)
        for k, part in enumerate(fmt.words)
    ]
    first = arrays[0].astype(float)
    radius = np.where(np.isfinite(first), half_units(abs(first), fmt), np.inf)
    solution = Solution([moved_like(x, like) for x in arrays], moved_like(radius, like))
    solution.lifted = exact.size
    solution.seconds["eliminate"] = perf_counter() - started
    return solution
