"""Paper 001's numbers: operations, a norm, accuracy of both ways, rate of the running example."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

import widen
from widen.formats.arrays import library_of
from widen.papers.items import Claim, Figure, Item, Outcome, Panel, Series, Setting, verdict_of
from widen.papers.multiple_double.accuracy import NAMES, accuracy
from widen.papers.multiple_double.algorithm import sum_parts
from widen.papers.multiple_double.parts import parts_of_numbers, widths
from widen.papers.multiple_double.rewriting import dimensions, extract, rewrite_left, rewrite_right

COSTS = {2: (20, 23, 70), 4: (89, 336, 893), 8: (269, 1742, 5126), 16: (925, 11499, 33041)}
"""Operations with doubles of an addition, a multiplication and a division, by number of words."""

NORM_ERRORS = {2: 4.46815747097839e-32, 4: 8.23258305145073e-65,
               8: 5.56764060802733e-128, 16: 1.54394135726410e-257}  # fmt: skip
"""Magnitudes of the errors on the slide."""


def operations(setting: Setting) -> Outcome:
    """The table "Cost overhead", beside this library's kernels and the rewritten product."""
    from widen.papers.multiple_double import counts  # kernels, which a list of items does not need

    ours: dict[int, tuple[int, ...]] = {}
    rows: list[list[Any]] = []
    for done, (words, name) in enumerate(NAMES.items()):
        setting.progress(done / len(NAMES))
        ours[words] = counts.of_kernels(words)
        parts = sum(map(len, widths(words)))
        rows.append([name, *COSTS[words], *ours[words], parts, *counts.rewritten(words)])
    names = [name.split()[0] for name in NAMES.values()]
    panel = Panel(
        "A multiplication and an addition",
        "numbers",
        "operations with doubles",
        [
            Series("slides' arithmetic", names, [row[1] + row[2] for row in rows], "bars"),
            Series("this library's kernels", names, [row[4] + row[5] for row in rows], "bars"),
            Series("rewritten product", names, [row[8] for row in rows], "bars"),
        ],
        log_y=True,
    )
    remark = (
        "Operations here are counted by running the kernels of widen.Words on numbers that count, "
        "with what NaN, infinities and the sign of zero need. Additions of four words and more are "
        "exact sums rounded once. The rewritten product has 2·parts² operations for a "
        "multiplication and an addition, of which parts·(parts + 1) are not with zeros. The slides "
        "give 12 parts for a double double; the other numbers of parts are ours."
    )
    columns = ["numbers", "slides: add", "mul", "div", "here: add", "here: mul", "here: div",
               "parts", "rewritten product", "not with zeros"]  # fmt: skip
    claims = operations_claims(counts.of_pairs(), ours)
    return Outcome(columns, rows, claims, Figure([panel], columns=1), [remark])


def operations_claims(pairs: Sequence[int], kernels: Mapping[int, Sequence[int]]) -> list[Claim]:
    """The table's numbers and those counted: of double doubles, and of the kernels by words."""
    averages = [sum(numbers) / 3 for numbers in kernels.values()]
    theirs = [sum(COSTS[words]) / 3 for words in kernels]
    where, setup = "slide of multiple double arithmetic", "one operation each"
    return [
        Claim(
            where=where,
            setup=setup,
            sentence="An addition of double doubles takes 20 operations",
            paper="20",
            ours=f"{pairs[0]}; {kernels[2][0]} with NaN, infinities and the sign of zero",
            verdict=verdict_of(pairs[0] == 20),
        ),
        Claim(
            where=where,
            setup=setup,
            sentence="A multiplication of double doubles takes 23, a division 70",
            paper="23 and 70",
            ours=f"{pairs[1]} and {pairs[2]} with fused multiply-adds, which give the error of a "
            "product; fewer say nothing of arithmetic without them",
            verdict=verdict_of(
                pairs[1] == 23 and pairs[2] == 70 if pairs[1] >= 23 or pairs[2] >= 70 else None
            ),
        ),
        Claim(
            where=where,
            setup=setup,
            sentence="What an addition, a multiplication and a division cost on average, "
            "to a factor of two",
            paper=", ".join(f"{x:.1f}" for x in theirs),
            ours=", ".join(f"{x:.1f}" for x in averages),
            verdict=verdict_of(
                all(0.5 <= x / y <= 2 for x, y in zip(averages, theirs, strict=True))
            ),
        ),
    ]


def norm(setting: Setting) -> Outcome:
    """The 2-norm of 64 random complex numbers on the unit circle, which is 8."""
    rng = np.random.default_rng(setting.seed)
    rows: list[list[Any]] = []
    for done, words in enumerate(NAMES):
        setting.progress(done / len(NAMES))
        x, y = (widen.Words(rng.standard_normal(64), dtype=f"float64x{words}") for _ in range(2))
        length = np.sqrt(x * x + y * y)
        x, y = x / length, y / length
        length_of_all = np.sqrt((x * x + y * y).sum())
        error = (length_of_all - 8).words.sum()
        rows.append([NAMES[words], float(error), NORM_ERRORS[words]])
    remark = (
        "The numbers are normal ones over their length, all in the format itself; by NumPy on the "
        "CPU on every device, which would give the same bits."
    )
    columns = ["numbers", "norm - 8", "the slide's |norm - 8|"]
    return Outcome(columns, rows, norm_claims([row[1] for row in rows]), remarks=[remark])


def norm_claims(errors: Sequence[float]) -> list[Claim]:
    """The slide's four errors and ours."""
    theirs = list(NORM_ERRORS.values())
    return [
        Claim(
            sentence="The norm is right to the last digits of double, quad, octo and hexa doubles",
            where="slide of multiple double arithmetic",
            paper=", ".join(f"{error:.1e}" for error in theirs),
            ours=", ".join(f"{error:.1e}" for error in errors),
            setup="64 numbers, one draw; at most ten times the slide's error",
            verdict=verdict_of(all(abs(x) <= 10 * y for x, y in zip(errors, theirs, strict=True))),
        )
    ]


# ── rate ─────────────────────────────────────────────────────────────────────

STEPS = ("split", "rewrite", "multiply", "add up")


def rate(setting: Setting) -> Outcome:
    """The running example in both ways, and the time of its steps."""
    m, k, n = setting.choose((60, 30, 720), full=(682, 341, 8192), quick=(6, 5, 24))
    rows: list[list[Any]] = []
    size = dimensions(m, k, n, 12, 1)
    bare = setting.random(size[:2], 0.0, 1), setting.random(size[1:], 0.0, 2)
    seconds = setting.seconds(lambda: bare[0] @ bare[1])
    random = 2 * math.prod(size) / seconds / 1e12
    rows.append(["float64 a @ b", *size, None, None, seconds, None, random, None])
    shapes = [(1, (m, k, n)), (2, (n, k, m))]
    if setting.full:
        shapes += [(1, (n, k, n))]
    for done, (way, shape) in enumerate(shapes):
        setting.progress(done / len(shapes))
        rows.append(timed(setting, way, *shape))
    own = [own_rate(setting, *shape) for way, shape in shapes if way == 1]
    columns = ["product", "M", "K", "N", *(f"{step}, s" for step in STEPS),
               "float64 TFLOP/s", "double double TFLOP/s"]  # fmt: skip
    panel = Panel(
        "Time of the steps, as shares",
        "",
        "%",
        [
            Series(step, [row[0] for row in rows[1:]],
                   [100 * row[4 + at] / sum(row[4:8]) for row in rows[1:]], "stack")
            for at, step in enumerate(STEPS)
        ],
    )  # fmt: skip
    remark = (
        f"The running example: double doubles {m} × {k} times {k} × {n} (way 1), {n} × {k} times "
        f"{k} × {m} (way 2)"
        + (f"; {n} × {k} × {n} is a larger product, not the slides'. " if setting.full else ". ")
        + "Double double TFLOP/s are 2mkn over the time of all four steps; the last rows are the "
        "library's own products, which have no such steps."
    )
    claims = rate_claims(
        random,
        {row[0]: row[4:9] for row in rows[1:3]},
        f"double doubles {m} × {k} × {n}, medians of 5 calls",
        decided=setting.gpu and setting.full,
    )
    return Outcome(columns, rows + own, claims, Figure([panel], columns=1), [remark])


def rate_claims(
    random: float, ways: Mapping[str, Sequence[float]], setup: str, decided: bool
) -> list[Claim]:
    """Rates and steps of the running example: the four times and TFLOP/s, by way."""
    shares = {name: times[2] / sum(times[:4]) for name, times in ways.items()}
    fastest = all(times[2] == max(times[:4]) for times in ways.values())
    return [
        Claim(
            sentence="The rewritten product runs as fast as a product of ordinary random numbers",
            where="slides of the A100 and of staging data",
            paper="13.75 TFLOP/s, random numbers 12.96 (A100, peak 19.5)",
            ours=", ".join(f"{name} {times[4]:.3g}" for name, times in ways.items())
            + f" TFLOP/s, random numbers {random:.3g}",
            setup=setup,
            verdict=verdict_of(
                min(times[4] for times in ways.values()) >= 0.95 * random if decided else None
            ),
        ),
        Claim(
            sentence="The float64 product remains the most computationally intensive step",
            where="slide of the overview",
            paper="most",
            ours=", ".join(f"{name} {share:.0%} of the time" for name, share in shares.items()),
            setup=setup,
            verdict=verdict_of(fastest if decided else None),
        ),
    ]


def timed(setting: Setting, way: int, m: int, k: int, n: int) -> list[Any]:
    """A row of the table of rates."""
    a, b = (example(setting, shape, at) for at, shape in ((1, (m, k)), (2, (k, n))))

    def parts() -> Any:
        return [parts_of_numbers(x, equalise=True, balance=True) for x in (a, b)]

    def rewrite() -> Any:
        return rewrite_left(left, way), rewrite_right(right, way)

    left, right = parts()
    rewritten = rewrite()
    pieces = extract(rewritten[0] @ rewritten[1], 12, way)
    steps = [
        setting.seconds(step, repeats=5, warm_ups=2)
        for step in (
            parts,
            rewrite,
            lambda: rewritten[0] @ rewritten[1],
            lambda: sum_parts([pieces], 2),
        )
    ]
    size = dimensions(m, k, n, 12, way)
    rates = 2 * math.prod(size) / steps[2] / 1e12, 2 * m * k * n / sum(steps) / 1e12
    return [f"way {way}, {m}×{k}×{n}", *size, *steps, *rates]


def own_rate(setting: Setting, m: int, k: int, n: int) -> list[Any]:
    """The same product by `widen.matmul`, to its contract."""
    a, b = (
        widen.Words.of(widen.float64x2, [word[None] for word in example(setting, shape, at)])
        for at, shape in ((1, (m, k)), (2, (k, n)))
    )
    seconds = setting.seconds(
        lambda: widen.matmul(a, b, dtype=widen.float64x2), repeats=5, warm_ups=2
    )
    rate = 2 * m * k * n / seconds / 1e12
    return [f"widen.matmul, {m}×{k}×{n}", m, k, n, None, None, seconds, None, None, rate]


def example(setting: Setting, shape: tuple[int, int], stream: int) -> Any:
    """Positive double doubles of one exponent."""
    first = setting.random(shape, 0.0, 100 * stream) / 2 + 0.75
    second = setting.random(shape, 0.0, 100 * stream + 1) * 2.0**-54
    return library_of(first).stack([first, second])


ITEMS = [
    Item("001-operations", "001", "Operations with doubles of multiple double arithmetic",
         "An addition, a multiplication and a division of double doubles average 37.7 operations.",
         operations),
    Item("001-norm", "001", "2-norm of 64 random complex numbers on the unit circle",
         "Errors of 4e-32, 8e-65, 6e-128 and 2e-257 in double, quad, octo and hexa doubles.", norm),
    Item("001-accuracy", "001", "Accuracy of both ways, of signs, exponents and groups",
         "Groups by sign and size, equal signs and balanced exponents keep the result accurate.",
         accuracy),
    Item("001-rate", "001", "Rate of the running example",
         "13.75 TFLOP/s of float64 products on an A100's FP64 tensor cores.", rate),
]  # fmt: skip
