"""Times of paper 002's methods: rates of whole products, and of the scheme's five steps."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from functools import partial
from statistics import median
from time import sleep
from typing import Any

from widen.papers.items import Setting
from widen.papers.ozimmu.algorithm import check, recipe_of, run

STEPS = {
    "split A": "split A",
    "split B": "split B",
    "multiply": "Gemm in INT8-TC",
    "accumulate": "accumulation in FP64",
    "copy": "copy",
}
"""The library's steps by the paper's words for (i) to (v)."""

ON_A_CPU = (
    "On a CPU float64 BLAS plays the int8 unit, so times say nothing about the paper's claims; "
    "--device cuda --full measures them."
)

REST, LONG = 0.2, 8192
"""Seconds before a series of timings, since a GPU that is warm from the last one runs slower; and
the size from which on few calls warm it anyway."""

RESTED = (
    f"Medians of 10 calls after 4, the card at rest for {REST:g} s before; from n = {LONG} on of 3 "
    "after 1, without rest: calls of more than about 0.1 s together reach its power limit."
)


def rate(setting: Setting, product: Callable[[], Any], n: int, repeats: int = 10) -> float:
    """Return the TFLOP/s of a product of n×n matrices, on a GPU that was at rest if n is small."""
    product()  # compiles
    if setting.gpu and n < LONG:
        sleep(REST)
    return 2 * n**3 / setting.seconds(product, repeats, 3 if n < LONG else 0) / 1e12


def breakdown(setting: Setting, a: Any, b: Any, slices: int, variant: str) -> dict[str, float]:
    """Return the median seconds of every step, C being the matrix A."""
    seconds: dict[str, list[float]] = {name: [] for name in STEPS}
    given = check(a, b, slices, variant, alpha=2.0, beta=-1.0, c=a)
    recipe = partial(recipe_of, slices=slices, variant=variant)
    for turn in range(setting.choose(4, full=8 if len(a) < LONG else 3, quick=2)):
        spent: dict[str, float] = defaultdict(float)
        run(given, recipe, timed(setting, spent))
        if turn > 0:  # the first compiles
            for name in STEPS:
                seconds[name].append(spent[name])
    return {name: median(times) for name, times in seconds.items()}


def timed(setting: Setting, spent: dict[str, float]) -> Callable[..., Any]:
    """Return a way to call steps that adds up their times."""

    def step(name: str, function: Callable[..., Any], *given: Any) -> Any:
        kept: list[Any] = []
        spent[name] += setting.machine.seconds(lambda: kept.append(function(*given)))
        return kept[0]

    return step
