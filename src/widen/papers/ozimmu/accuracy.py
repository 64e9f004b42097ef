"""Errors of paper 002's methods over many draws of random matrices, by two measures."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from statistics import geometric_mean
from typing import Any, NamedTuple

import widen
from widen.papers.items import Setting
from widen.papers.ozimmu.algorithm import VARIANTS, error_bound, ozimmu

FLOORS = 2.0**-54, 2.0**-70
"""What errors are raised to, so that they have a logarithm: the reference is rounded to float64,
which hides relative errors below, and of |A||B| so much less as elements cancel."""

Method = tuple[str, int]
"""A variant and its slices; ("fp64", 0) is the ordinary product."""

FP64: Method = ("fp64", 0)


class Errors(NamedTuple):
    """Largest errors of a product: relative to its elements, and to |A||B|."""

    relative: float
    against_magnitude: float


def label(method: Method) -> str:
    """Return the paper's name of a method.

    >>> label(("h", 9)), label(FP64)
    ('ozIMMU_H-9', 'FP64')
    """
    return f"{VARIANTS[method[0]].name}-{method[1]}" if method != FP64 else "FP64"


class Case:
    """Two random matrices, their correctly rounded product, and |A||B|."""

    def __init__(self, setting: Setting, m: int, n: int, phi: float, draw: int = 0) -> None:
        self.a = setting.random((m, n), phi, 2 * draw + 1)
        self.b = setting.random((n, m), phi, 2 * draw + 2)
        self.exact = widen.matmul(self.a, self.b, accuracy="correct")
        self.magnitude = abs(self.a) @ abs(self.b)

    def product(self, method: Method) -> Any:
        """Return a method's product."""
        variant, slices = method
        return self.a @ self.b if method == FP64 else ozimmu(self.a, self.b, slices, variant)

    def errors(self, product: Any) -> Errors:
        """Return a product's errors."""
        wrong = abs(product - self.exact)
        shares = (wrong / abs(self.exact)).max(), (wrong / self.magnitude).max()
        return Errors(*(max(float(x), floor) for x, floor in zip(shares, FLOORS, strict=True)))

    def bounded(self, product: Any, method: Method) -> float:
        """Return the largest ratio of error and section 5's bound."""
        wrong = abs(product - self.exact) - abs(self.exact) * 2.0**-53
        return float((wrong / error_bound(self.a, self.b, method[1], method[0])).max())


def drawn(
    setting: Setting, n: int, phi: float, draws: int, methods: Sequence[Method]
) -> dict[Method, list[Errors]]:
    """Return the errors of methods, draw by draw, of n×n matrices."""
    errors: dict[Method, list[Errors]] = {method: [] for method in methods}
    for draw in range(draws):
        case = Case(setting, n, n, phi, draw)
        for method in methods:
            errors[method].append(case.errors(case.product(method)))
    setting.machine.free()
    return errors


def mean_errors(errors: Sequence[Errors]) -> Errors:
    """Return the geometric means of both measures."""
    return Errors(*(geometric_mean(measure) for measure in zip(*errors, strict=True)))


def steps(setting: Setting, cases: list[Any]) -> Iterator[Any]:
    """Go through cases and report how many are done."""
    for done, case in enumerate(cases):
        setting.progress(done / len(cases))
        yield case
