"""Paper 002's table of specifications, and its figures of accuracy."""

from __future__ import annotations

import math
from functools import partial
from itertools import product as pairs_of
from statistics import fmean, geometric_mean, stdev
from typing import Any

from widen.papers.items import Claim, Figure, Item, Outcome, Panel, Series, Setting, verdict_of
from widen.papers.ozimmu.accuracy import (
    FP64,
    Case,
    Errors,
    Method,
    drawn,
    label,
    mean_errors,
    steps,
)
from widen.papers.ozimmu.algorithm import VARIANTS
from widen.papers.ozimmu.future import long_inner
from widen.papers.rates import measured_beside, on_hopper

SPECIFICATIONS: dict[str, tuple[float | None, ...]] = {
    "FP64": (1.29, 9.7, 34, 40, 90),
    "FP64 TC": (None, 19.5, 67, 40, 90),
    "FP32": (82.6, 19.5, 67, 80, 180),
    "TF32 TC": (82.6, 156, 494, 1100, 5000),
    "BF16 TC": (165, 312, 989, 2250, 5000),
    "FP16 TC": (165, 312, 989, 2250, 5000),
    "INT8 TC": (661, 624, 1979, 4500, 10000),
    "FP8 TC": (661, None, 1979, 4500, 10000),
    "FP6 TC": (None, None, None, 4500, 10000),
    "INT4 TC": (1321, None, None, None, None),
    "FP4 TC": (None, None, None, 9000, 20000),
}
"""Table 1: TFLOPS or TOPS of dense products; H100 and H200 are as GH200."""

GPUS = ("RTX 4090", "A100", "GH200", "B200", "GB200")
MEASURE = (
    "The text does not name its measure; the largest relative error of an element, "
    "max |c − c*| / |c*|, fits its sentences best. Errors are geometric means over draws. "
)
WAYS = list(VARIANTS)
PHIS = [0.0, 0.5, 1.0, 2.0]


def table1(setting: Setting) -> Outcome:
    """Table 1, and the rates of raw products here."""
    measured, rows, setup = measured_beside(setting, SPECIFICATIONS)
    claims = specification_claims(measured, on_hopper(setting), setup)
    remark = f"The last column is measured here, {setup}, in TFLOP/s or TOP/s."
    return Outcome(["TFLOPS or TOPS", *GPUS, "measured here"], rows, claims, remarks=[remark])


def specification_claims(measured: dict[str, float], hopper: bool, setup: str) -> list[Claim]:
    """Section 1's ratio of INT8 and FP64, by what products reach; within a fifth is the same."""
    ratio = measured["INT8"] / measured["FP64"] if "INT8" in measured else None
    return [
        Claim(
            sentence="INT8 tensor cores are nearly 512 times (RTX 4090) and 60 times (GH200) as "
            "fast as FP64",
            where="section 1, table 1",
            paper="512 and 60; by its table 512 and 58 without FP64 tensor cores, 30 with them",
            ours="no INT8 unit here"
            if ratio is None
            else f"{ratio:.0f} times ({measured['INT8']:.0f} and {measured['FP64']:.3g}; FP64 "
            "products use tensor cores)",
            setup=setup,
            verdict=verdict_of(48 <= ratio <= 72 if hopper and ratio is not None else None),
        )
    ]


def error_panel(phi: float, series: list[Series]) -> Panel:
    """Errors of methods against n, for one phi."""
    return Panel(f"φ = {phi:g}", "n", "largest relative error", series, log_x=True, log_y=True)


def fig1(setting: Setting) -> Outcome:
    """Accuracy of ozIMMU-k against n, for some phi."""
    sizes = setting.choose([64, 128, 256], full=[1024, 2048, 4096, 8192], quick=[32, 64])
    phis = PHIS if not setting.quick else [0.0, 2.0]
    draws = setting.choose(3, full=3, quick=1)
    methods: list[Method] = [FP64, *(("ozimmu", k) for k in range(5, 12))]
    means: dict[tuple[float, int, Method], Errors] = {}
    for phi, n in steps(setting, list(pairs_of(phis, sizes))):
        for method, errors in drawn(setting, n, phi, draws, methods).items():
            means[phi, n, method] = mean_errors(errors)
    rows: list[list[Any]] = [
        [phi, n, label(method), *errors] for (phi, n, method), errors in means.items()
    ]

    def curve(phi: float, method: Method) -> Series:
        errors = [means[phi, n, method].relative for n in sizes]
        return Series(label(method), sizes, errors, "dashed" if method == FP64 else "line")

    panels = [error_panel(phi, [curve(phi, method) for method in methods]) for phi in phis]
    setup = f"n = {sizes[-1]}, {draws} draws"
    claims = slices_claims(
        {phi: {m: means[phi, sizes[-1], m].relative for m in methods} for phi in phis}, setup
    )
    columns = ["φ", "n", "method", "largest relative error", "error / |A||B|"]
    remark = MEASURE + "The other column is relative to |A||B|. 002-future-blocks has n > 2^17."
    return Outcome(columns, rows, claims, Figure(panels), [remark])


def slices_claims(errors: dict[float, dict[Method, float]], setup: str) -> list[Claim]:
    """Section 1 on how many slices reach the error of FP64, within a factor of two."""
    needed = {phi: enough(own) for phi, own in errors.items()}
    said = ", ".join(f"φ = {phi:g}: {k or 'more than 11'}" for phi, k in needed.items())
    counts = [k or 99 for k in needed.values()]
    about = partial(Claim, where="section 1, figure 1", setup=setup)
    return [
        about(
            sentence="At least 7 or 8 slices are required for accurate results of "
            "well-conditioned products",
            paper="7 or 8",
            ours=f"{needed[0.0] or 'more than 11'} slices reach twice the error of FP64 at φ = 0",
            verdict=verdict_of(needed[0.0] in (7, 8)),
        ),
        about(
            sentence="As φ increases, more slices are required",
            paper="more",
            ours=said,
            verdict=verdict_of(counts == sorted(counts) and counts[0] < counts[-1]),
        ),
    ]


def enough(errors: dict[Method, float]) -> int | None:
    """Return the fewest slices that reach twice the error of FP64, or None."""
    reached = [k for (_, k), error in errors.items() if k and error <= 2 * errors[FP64]]
    return min(reached, default=None)


Drawn = dict[tuple[float, int], dict[Method, list[Errors]]]
"""Errors by phi and n, method and draw."""


def fig5(setting: Setting) -> Outcome:
    """Accuracy of the four variants for 7 to 11 slices, over n and over draws."""
    sizes = setting.choose([32, 64, 128], full=[1024, 2048, 4096], quick=[32, 64])
    phis = PHIS if not setting.quick else [0.0, 2.0]
    draws = setting.choose(25, full=25, quick=2)
    counts = list(range(7, 12))
    methods: list[Method] = [FP64, *pairs_of(WAYS, counts)]
    drawings: Drawn = {}
    shares: dict[Any, float] = {}
    for phi, n in steps(setting, list(pairs_of(phis, sizes))):
        drawings[phi, n] = drawn(setting, n, phi, draws, methods)
        case = Case(setting, n, n, phi)
        for method in methods[1:]:
            shares[phi, n, method] = case.bounded(case.product(method), method)
    rows = [
        [phi, n, label(method), *mean_errors(errors), shares.get((phi, n, method))]
        for (phi, n), own in drawings.items()
        for method, errors in own.items()
    ]
    shown: list[Method] = [*pairs_of(("ozimmu", "h"), (7, 8, 9)), FP64]

    def curve(phi: float, method: Method) -> Series:
        errors = [mean_errors(drawings[phi, n][method]).relative for n in sizes]
        colour = None if method == FP64 else method[1] - 7
        dashed = method[0] != "h"
        return Series(label(method), sizes, errors, "dashed" if dashed else "line", colour=colour)

    panels = [error_panel(phi, [curve(phi, method) for method in shown]) for phi in phis]
    setup = f"n = {', '.join(map(str, sizes))}, {draws} draws of each"
    claims = [*accuracy_claims(drawings, setup), *saved_slice_claims(drawings, phis[-1], setup)]
    claims.append(bound_claim(max(shares.values()), setup.replace(f"{draws} draws", "one draw")))
    columns = ["φ", "n", "method", "largest relative error", "error / |A||B|", "error / bound"]
    remark = MEASURE + "EF lies on ozIMMU and RN on H (see the table). The last column is the "
    remark += "largest ratio of error and section 5's bound in one draw, after the reference's own "
    remark += "rounding is taken off."
    return Outcome(columns, rows, claims, Figure(panels), [remark])


MASKS, NEAREST = ("ozimmu", "ef"), ("rn", "h")
MEASURES = ("relative", "against |A||B|")


def accuracy_claims(drawings: Drawn, setup: str) -> list[Claim]:
    """Section 4.1 on the four variants, by both measures, where slices decide and not additions.

    More accurate is what draws show beyond chance: by the geometric mean and two standard errors.
    """
    by_measure = [compared(drawings, measure) for measure in (0, 1)]
    apart = [max((max(x, 1 / x) for x in alike), default=None) for alike, _ in by_measure]
    gains = [{phi: spread(logs) for phi, logs in better.items()} for _, better in by_measure]
    said = [
        f"{name}: "
        + ", ".join(f"{x:.2f} ({low:.2f}–{high:.2f}) at φ = {phi:g}"
                    for phi, (low, x, high) in gain.items())
        for name, gain in zip(MEASURES, gains, strict=True)
    ]  # fmt: skip
    every = [each for gain in gains for each in gain.values()]
    more = True if all(low > 1 for low, _, _ in every) else None
    less = any(high < 1 for _, _, high in every)
    about = partial(Claim, where="section 4.1, figure 5", setup=setup)
    return [
        about(
            sentence="ozIMMU and ozIMMU_EF are comparable, as are ozIMMU_RN and ozIMMU_H",
            paper="comparable",
            ours="where slices decide, mean errors differ by factors of at most "
            + " and ".join(f"{x:.2f} ({y})" for x, y in zip(apart, MEASURES, strict=True) if x),
            verdict=verdict_of(all(x < 2 for x in apart if x) if all(gains) else None),
        ),
        about(
            sentence="ozIMMU_RN and ozIMMU_H are more accurate than ozIMMU and ozIMMU_EF",
            paper="more accurate",
            ours="errors of ozIMMU and EF over those of RN and H where slices decide, geometric "
            f"means (and two standard errors); {'; '.join(said)}",
            verdict=verdict_of((False if less else more) if all(gains) else None),
        ),
    ]


def compared(drawings: Drawn, measure: int) -> tuple[list[float], dict[float, list[float]]]:
    """Compare variants where slices decide: those that split alike, and masks with nearest.

    Of the first the ratios of mean errors; of the second logarithms of ratios, draw by draw, by
    phi. Slices decide where ozIMMU errs more than four times as much as with the most slices.
    """
    alike: list[float] = []
    better: dict[float, list[float]] = {}
    for (phi, _), own in drawings.items():
        mean = {method: mean_errors(errors)[measure] for method, errors in own.items()}
        most = max(k for _, k in mean)
        counts = [k for way, k in mean
                  if way == "ozimmu" and mean[way, k] > 4 * mean[way, most]]  # fmt: skip
        alike += [mean[x, k] / mean[y, k] for k in counts for x, y in (MASKS, NEAREST)]
        if counts:
            each = [(own[x, k], own[y, k]) for k in counts for x, y in pairs_of(MASKS, NEAREST)]
            better.setdefault(phi, []).extend(
                fmean(math.log(x[draw][measure] / y[draw][measure]) for x, y in each)
                for draw in range(len(own[FP64]))
            )
    return alike, better


def spread(logs: list[float]) -> tuple[float, float, float]:
    """Return the geometric mean of numbers between two standard errors less and more.

    >>> [round(x, 2) for x in spread([0.0, 0.0, math.log(8)])]
    [0.5, 2.0, 8.0]
    """
    middle, error = fmean(logs), stdev(logs) / math.sqrt(len(logs))
    low, high = math.exp(middle - 2 * error), math.exp(middle + 2 * error)
    return low, math.exp(middle), high


def bound_claim(worst: float, setup: str) -> Claim:
    """Section 5's bound."""
    return Claim(
        sentence="The error is below the bound of section 5",
        where="section 5",
        paper="always",
        ours=f"at most {worst:.3f} of it",
        setup=setup,
        verdict=verdict_of(worst <= 1),
    )


def saved_slice_claims(drawings: Drawn, phi: float, setup: str) -> list[Claim]:
    """Section 4.1 on a slice that rounding to nearest saves, draw by draw, at the largest phi."""
    named: dict[str, Method] = {
        "ozIMMU-9": ("ozimmu", 9), "ozIMMU-10": ("ozimmu", 10), "H-9": ("h", 9),
    }  # fmt: skip
    all_errors = {
        name: [e.relative for (own, _), by in drawings.items() if own == phi for e in by[method]]
        for name, method in {"FP64": FP64, **named}.items()
    }
    reached = {
        name: [x <= 2 * y for x, y in zip(errors, all_errors["FP64"], strict=True)]
        for name, errors in all_errors.items()
    }
    both = list(zip(reached["H-9"], reached["ozIMMU-9"], strict=True))
    saved, lost = sum(x > y for x, y in both), sum(x < y for x, y in both)
    counts = ", ".join(f"{name} in {sum(reached[name])}" for name in named)
    nine, ten, h = (geometric_mean(all_errors[name]) for name in named)
    about = partial(Claim, where="section 4.1, figure 5", setup=setup)
    return [
        about(
            sentence=f"φ = {phi:g}: occasionally H-9, as ozIMMU-10, is comparable to FP64 where "
            "ozIMMU-9 is worse",
            paper="so on the paper's matrices",
            ours=f"in {saved} of {len(both)} draws, the other way round in {lost}; within twice "
            f"the error of FP64 are {counts}",
            verdict=verdict_of(saved > lost if saved or lost else None),
        ),
        about(
            sentence=f"φ = {phi:g}: H with k slices may be as accurate as ozIMMU with k + 1",
            paper="H-9 about ozIMMU-10",
            ours=f"H-9 errs {nine / h:.1f} times less than ozIMMU-9 in the mean, ozIMMU-10 "
            f"{nine / ten:.0f} times",
            verdict=verdict_of(h <= 4 * ten),
        ),
    ]


ITEMS = [
    Item(
        "002-table1",
        "002",
        "Specifications of NVIDIA GPUs for dense data",
        "Low-precision units are far faster than FP64, and more so with every generation.",
        table1,
    ),
    Item(
        "002-fig1",
        "002",
        "Accuracy of ozIMMU for 5 to 11 slices",
        "Seven or eight slices give sufficiently accurate results; more are needed as φ increases.",
        fig1,
    ),
    Item(
        "002-fig5",
        "002",
        "Accuracy of the four variants for 7 to 11 slices",
        "Rounding to nearest (RN, H) is more accurate than bit masks (ozIMMU, EF) and can save a "
        "slice; group-wise accumulation (EF, H) costs no accuracy.",
        fig5,
    ),
    Item(
        "002-future-blocks",
        "002",
        "Blocks of the inner dimension beyond n = 2^17 (not in the paper)",
        "Slices have fewer than 7 bits for n > 2^17 and lose accuracy; blocks keep it.",
        long_inner,
    ),
]
