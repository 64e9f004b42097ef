"""Paper 002's figures of speed: time breakdowns, throughput, throughput against accuracy."""

from __future__ import annotations

from functools import partial
from operator import matmul
from typing import Any

from widen.papers.items import Claim, Figure, Item, Outcome, Panel, Series, Setting, verdict_of
from widen.papers.ozimmu.accuracy import FP64, Errors, Method, drawn, label, mean_errors, steps
from widen.papers.ozimmu.algorithm import VARIANTS, ozimmu
from widen.papers.ozimmu.timing import LONG, ON_A_CPU, RESTED, STEPS, breakdown, rate


def fig6_11(setting: Setting) -> Outcome:
    """Time breakdowns of all variants."""
    sizes = setting.choose([128, 256], full=[1024, 2048, 4096, 8192, 16384], quick=[32, 64])
    counts = setting.choose([4, 8], full=[4, 8, 12], quick=[3])
    rows: list[list[Any]] = []
    cases = [(n, k) for n in sizes for k in counts if n < 16384 or k <= 8]
    for n, k in steps(setting, cases):
        a, b = (setting.random((n, n), 0.0, stream) for stream in (1, 2))
        for variant, record in VARIANTS.items():
            spent = breakdown(setting, a, b, k, variant)
            rows.append([record.name, n, k, *(1e3 * spent[name] for name in STEPS)])
        setting.machine.free()
    k = 8 if 8 in counts else counts[-1]
    panels = [
        Panel(
            f"{record.name}-{k}",
            "n",
            "share of the time",
            [
                Series(
                    word,
                    [str(n) for n in sizes],
                    [
                        row[at] / sum(row[3:])
                        for row in rows
                        if (row[0], row[2]) == (record.name, k)
                    ],
                    "stack",
                )
                for at, word in enumerate(STEPS.values(), 3)
            ],
            y_range=(0, 1),
        )
        for record in VARIANTS.values()
    ]
    columns = ["method", "n", "slices", *(f"{word}, ms" for word in STEPS.values())]
    claims = breakdown_claims(rows, setting.gpu)
    remarks = ["Step (v), copy, is 2 AB − A here; with α = 1 and β = 0 there is nothing to do."]
    return Outcome(columns, rows, claims, Figure(panels), remarks + [ON_A_CPU] * (not setting.gpu))


def breakdown_claims(rows: list[list[Any]], gpu: bool) -> list[Claim]:
    """Section 4.2 and the conclusion, on shares (from n = 4096 on) and on times (of every case).

    Rows are method, n, slices and the ms of the five steps.
    """
    names = [record.name for record in VARIANTS.values()]
    largest = [row for row in rows if row[1] >= 4096]
    shares = {
        name: sorted(row[6] / sum(row[3:]) for row in largest or rows if row[0] == name)
        for name in names
    }
    splits = {
        name: [(row[3] + row[4]) / sum(row[3:]) for row in largest or rows if row[0] == name]
        for name in names
    }
    said = {name: f"{x[0]:.0%} to {x[-1]:.0%}" for name, x in shares.items()}
    grouped = [*shares["ozIMMU_EF"], *shares["ozIMMU_H"]]
    spent = {(row[0], row[1], row[2]): row[6] for row in rows}
    ratios = [
        max(spent["ozIMMU_EF", n, k], spent["ozIMMU_H", n, k])
        / min(spent["ozIMMU", n, k], spent["ozIMMU_RN", n, k])
        for _, n, k in spent
    ]
    part = {(row[0], row[1], row[2]): row[6] / sum(row[3:]) for row in largest or rows}
    less = [
        part[name, n, k] / part["ozIMMU", n, k]
        for name, n, k in part
        if name in ("ozIMMU_EF", "ozIMMU_H")
    ]
    apart = [x / y for x, y in zip(splits["ozIMMU_EF"], splits["ozIMMU_H"], strict=True)]
    decided = gpu and bool(largest)

    def claim(sentence: str, paper: str, ours: str, holds: bool) -> Claim:
        sizes = sorted({row[1] for row in largest or rows})
        return Claim(
            sentence=sentence,
            where="section 4.2 and conclusion, figures 2, 3 and 6 to 11",
            paper=paper,
            ours=ours,
            setup=f"n = {sizes[0]} to {sizes[-1]}, medians",
            verdict=verdict_of(holds if decided else None),
        )

    return [
        claim(
            "The accumulation in FP64 takes 40 to 50 % of the time of ozIMMU",
            "40–50 %",
            f"{said['ozIMMU']}: all that is waiting is added in one pass over memory here",
            shares["ozIMMU"][0] >= 0.3 and shares["ozIMMU"][-1] <= 0.6,
        ),
        claim(
            "EF and H reduce its share, to 10 to 20 %",
            "10–20 %",
            f"EF {said['ozIMMU_EF']}, H {said['ozIMMU_H']}, {min(less):.2f} to {max(less):.2f} of "
            "ozIMMU's share; 20 % or less counts",
            max(grouped) <= 0.2 and max(less) < 1,
        ),
        claim(
            "The execution times of FP64 accumulation are less in EF and H than in ozIMMU and RN",
            "less",
            f"{min(ratios):.2f} to {max(ratios):.2f} of the time, all n and k",
            max(ratios) < 1,
        ),
        claim(
            "On GH200 the shares of splitting in EF and H are comparable",
            "comparable",
            f"EF's share is {min(apart):.2f} to {max(apart):.2f} of H's",
            min(apart) >= 0.5 and max(apart) <= 2,
        ),
    ]


def fig12_13(setting: Setting) -> Outcome:
    """Throughput and ratio to ozIMMU, against n."""
    sizes = setting.choose([128, 256], full=[1024, 2048, 4096, 8192, 16384], quick=[32, 64])
    counts = setting.choose([3, 8], full=[3, 5, 6, 8, 11], quick=[3])
    rows: list[list[Any]] = []
    speed: Speed = {}
    for n in steps(setting, sizes):
        a, b = (setting.random((n, n), 0.0, stream) for stream in (1, 2))
        repeats = setting.choose(3, full=10 if n < LONG else 3, quick=1)
        native = speed["FP64", n, 0] = rate(setting, partial(matmul, a, b), n, repeats)
        rows.append(["FP64", n, None, native, None, 1.0])
        for k in [k for k in counts if n < 16384 or k <= 8]:  # 11 slices take 0.5 s there
            for variant, record in VARIANTS.items():
                product = partial(ozimmu, a, b, k, variant)
                reached = speed[record.name, n, k] = rate(setting, product, n, repeats)
                ratio = reached / speed["ozIMMU", n, k]
                rows.append([record.name, n, k, reached, ratio, reached / native])
            setting.machine.free()
    ratio_of = {(row[0], row[1], row[2]): row[4] for row in rows}
    panels = [
        Panel(
            record.name,
            "n",
            "TFLOP/s",
            [
                *(
                    Series(f"k = {k}", sizes, [speed.get((record.name, n, k)) for n in sizes])
                    for k in counts
                ),
                Series("FP64", sizes, [speed["FP64", n, 0] for n in sizes], "dashed"),
            ],
            log_x=True,
            log_y=True,
        )
        for record in VARIANTS.values()
    ] + [
        Panel(
            f"{name} / ozIMMU",
            "n",
            "ratio of speeds",
            [
                Series(f"k = {k}", sizes, [ratio_of.get((name, n, k)) for n in sizes])
                for k in counts
            ],
            log_x=True,
        )
        for name in ("ozIMMU_EF", "ozIMMU_H")
    ]
    columns = ["method", "n", "slices", "TFLOP/s", "ratio to ozIMMU", "ratio to FP64"]
    claims = throughput_claims(speed, setting.gpu and setting.full)
    remarks = [RESTED if setting.gpu else ON_A_CPU]
    return Outcome(columns, rows, claims, Figure(panels), remarks)


Speed = dict[tuple[str, int, int], float]
"""TFLOP/s by method, n and slices; FP64 has 0 slices."""


def throughput_claims(speed: Speed, decided: bool) -> list[Claim]:
    """Section 4.3 on a GH200, whose GPU is that of an H200, and the conclusion's 1.2 to 1.6."""
    sizes = ", ".join(str(n) for n in sorted({n for _, n, _ in speed}))

    def claim(sentence: str, paper: str, ours: str, holds: bool) -> Claim:
        return Claim(
            sentence=sentence,
            where="conclusion" if "speedup" in sentence else "section 4.3, figure 13",
            paper=paper,
            ours=ours,
            setup=f"φ = 0, n = {sizes}, medians",
            verdict=verdict_of(holds if decided else None),
        )

    return [claim(*each) for each in (*against_fp64(speed), *against_masks(speed))]


Finding = tuple[str, str, str, bool]
"""A sentence, the paper's figures, ours, and whether it holds."""


def against_fp64(speed: Speed) -> list[Finding]:
    """Speeds against FP64 at the largest n; comparable is within a fourth."""
    at = max(n for _, n, _ in speed)
    wanted = {"ozIMMU": 2.7, "ozIMMU_RN": 2.2, "ozIMMU_EF": 3.0, "ozIMMU_H": 3.0}
    level = {"ozIMMU": 5, "ozIMMU_RN": 5, "ozIMMU_EF": 6, "ozIMMU_H": 6}

    def ratios(slices: dict[str, int]) -> dict[str, float]:
        speeds = {name: speed.get((name, at, k)) for name, k in slices.items()}
        return {name: x / speed["FP64", at, 0] for name, x in speeds.items() if x}

    def said(ratio_of: dict[str, float]) -> str:
        shown = ", ".join(f"{name} {x:.2f}" for name, x in ratio_of.items())
        return f"{shown} at n = {at}" if shown else "not measured"

    three, five = ratios(dict.fromkeys(wanted, 3)), ratios(level)
    return [
        (
            "With 3 slices all are faster than FP64 at n = 16384",
            ", ".join(f"{name} {x}" for name, x in wanted.items()),
            f"{said(three)}; nine tenths of the paper's ratios count",
            len(three) == 4 and all(x >= 0.9 * wanted[name] for name, x in three.items()),
        ),
        (
            "ozIMMU-5, RN-5, EF-6 and H-6 take about the time of FP64 at n = 16384",
            "comparable",
            f"{said(five)}; 0.8 to 1.25 count",
            len(five) == 4 and all(0.8 <= x <= 1.25 for x in five.values()),
        ),
    ]


def against_masks(speed: Speed) -> list[Finding]:
    """Speeds of EF and H against ozIMMU's, for every n and number of slices."""
    gains = {
        (n, k): [speed[name, n, k] / x for name in ("ozIMMU_EF", "ozIMMU_H")]
        for (own, n, k), x in speed.items()
        if own == "ozIMMU"
    }
    every = [x for pair in gains.values() for x in pair]
    spans = []
    for n in dict.fromkeys(n for n, _ in gains):
        own = [x for (size, _), pair in gains.items() if size == n for x in pair]
        spans.append(f"{min(own):.2f}–{max(own):.2f} at {n}")
    inside = sum(1.2 <= x <= 1.6 for x in every)
    eleven = gains.get((2048, 11), [0.0, 0.0])
    return [
        (
            "EF and H are faster than ozIMMU",
            "faster",
            f"in {sum(x > 1 for x in every)} of {len(every)} cases: {', '.join(spans)}",
            min(every) > 1,
        ),
        (
            "EF-11 and H-11 are 1.5 and 1.6 times as fast as ozIMMU-11 at n = 2048",
            "1.5 and 1.6",
            f"{eleven[0]:.2f} and {eleven[1]:.2f}; nine tenths of the paper's ratios count"
            if eleven[0]
            else "not measured",
            all(x >= 0.9 * y for x, y in zip(eleven, (1.5, 1.6), strict=True)),
        ),
        (
            "EF and H achieve a 1.2- to 1.6-fold speedup over ozIMMU",
            "1.2–1.6",
            f"{inside} of {len(every)} ratios lie there, all from {min(every):.2f} to "
            f"{max(every):.2f}",
            min(every) >= 1.2,
        ),
    ]


def fig14(setting: Setting) -> Outcome:
    """Throughput against accuracy."""
    n = setting.choose(128, full=4096, quick=48)
    draws = setting.choose(5, full=25, quick=2)
    repeats = setting.choose(3, full=10, quick=1)
    methods: list[Method] = [FP64, *((way, k) for way in VARIANTS for k in range(6, 11))]
    errors = {m: mean_errors(e) for m, e in drawn(setting, n, 0.0, draws, methods).items()}
    a, b = (setting.random((n, n), 0.0, stream) for stream in (1, 2))
    speed: dict[Method, float] = {}
    for method in steps(setting, methods):
        product = partial(matmul, a, b)
        if method != FP64:
            product = partial(ozimmu, a, b, method[1], method[0])
        speed[method] = rate(setting, product, n, repeats)
    rows: list[list[Any]] = [[label(method), speed[method], *errors[method]] for method in methods]
    shown = []
    for way in ("fp64", *VARIANTS):
        own = [method for method in methods if method[0] == way]
        marks = [str(k) for _, k in own] if way != "fp64" else []
        name = VARIANTS[way].name if way != "fp64" else "FP64"
        x, y = [errors[method].relative for method in own], [speed[method] for method in own]
        shown.append(Series(name, x, y, "points" if way == "fp64" else "line", marks))
    panel = Panel(
        f"n = {n}, φ = 0; numbers are slices", "largest relative error",
        "TFLOP/s", shown, log_x10=True, log_y=True,
    )  # fmt: skip
    claims = trade_claims(speed, errors, setting.gpu, f"n = {n}, φ = 0, errors of {draws} draws")
    columns = ["method", "TFLOP/s", "largest relative error", "error / |A||B|"]
    remarks = [] if setting.gpu else [ON_A_CPU]
    return Outcome(columns, rows, claims, Figure([panel], 1), remarks)


def trade_claims(
    speed: dict[Method, float], errors: dict[Method, Errors], decided: bool, setup: str
) -> list[Claim]:
    """Section 4.4: both halves, speed and accuracy, of H and EF against ozIMMU.

    Comparable speed is a tenth less at most; more accurate is so by both measures.
    """

    def better(x: Method, y: Method) -> bool:
        more_accurate = all(p < q for p, q in zip(errors[x], errors[y], strict=True))
        return speed[x] >= 0.9 * speed[y] and more_accurate

    def said(method: Method) -> str:
        return f"{label(method)} {speed[method]:.3g} TFLOP/s, error {errors[method].relative:.1e}"

    named: list[Method] = [("h", 7), ("ef", 7), ("ozimmu", 6)]
    masks = [method for method in speed if method[0] == "ozimmu" and ("h", method[1] + 1) in speed]
    beaten = [y for y in masks if any(better((way, y[1] + 1), y) for way in ("h", "ef"))]
    about = partial(Claim, where="section 4.4, figure 14", setup=setup)
    return [
        about(
            sentence="GH200: H-7 and EF-7 perform like ozIMMU-6 and are more accurate",
            paper="comparable speed, more accurate",
            ours="; ".join(said(method) for method in named),
            verdict=verdict_of(all(better(x, named[2]) for x in named[:2]) if decided else None),
        ),
        about(
            sentence="H and EF give more accurate results at a speed comparable to ozIMMU's",
            paper="so",
            ours=f"H or EF with a slice more does so for {len(beaten)} of {len(masks)} numbers of "
            "slices of ozIMMU",
            verdict=verdict_of(len(beaten) == len(masks) if decided else None),
        ),
    ]


ITEMS = [
    Item(
        "002-fig6-11",
        "002",
        "Time breakdowns of the variants (figures 2, 3 and 6 to 11)",
        "Adding the products in float64 takes 40 to 50 % of ozIMMU's time, 10 to 20 % of EF's and "
        "H's.",
        fig6_11,
    ),
    Item(
        "002-fig12-13",
        "002",
        "Throughput of the variants (figures 12 and 13)",
        "EF and H are faster than ozIMMU; with few slices and n ≥ 4096 all are faster than FP64.",
        fig12_13,
    ),
    Item(
        "002-fig14",
        "002",
        "Throughput against accuracy",
        "At the same speed H and EF are more accurate than ozIMMU.",
        fig14,
    ),
]
