"""Paper 002's figures of speed: time breakdowns, throughput, throughput against accuracy."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from functools import partial
from operator import matmul
from statistics import median
from typing import Any

from widen.papers.items import Claim, Figure, Item, Outcome, Panel, Series, Setting, verdict_of
from widen.papers.ozimmu.algorithm import VARIANTS, ozimmu, run
from widen.papers.ozimmu.items import LONG, REST, Case, rate, steps

STEPS = {
    "split A": "split A",
    "split B": "split B",
    "multiply": "Gemm in INT8-TC",
    "accumulate": "accumulation in FP64",
}
"""The library's steps by the paper's words for (i) to (iv); (v), alpha and beta, is not there."""

ON_A_CPU = (
    "On a CPU float64 BLAS plays the int8 unit, so times say nothing about the paper's claims; "
    "--device cuda --full measures them."
)


RESTED = (
    f"Medians of 10 calls after 4, the card at rest for {REST:g} s before; from n = {LONG} on of 3 "
    "after 1, without rest: calls of more than about 0.1 s together reach its power limit."
)


def breakdown(setting: Setting, a: Any, b: Any, slices: int, variant: str) -> dict[str, float]:
    """Return the median seconds of every step."""
    seconds: dict[str, list[float]] = {name: [] for name in STEPS}
    for turn in range(setting.choose(4, full=8 if len(a) < LONG else 4, quick=2)):
        spent: dict[str, float] = defaultdict(float)
        run(a, b, slices, variant, timed(setting, spent))
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


def fig6_11(setting: Setting) -> Outcome:
    """Time breakdowns of all variants."""
    sizes = setting.choose([128, 256], full=[1024, 2048, 4096, 8192, 16384], quick=[32, 64])
    counts = setting.choose([4, 8], full=[4, 8, 12], quick=[3])
    rows: list[list[Any]] = []
    for n, k in steps(setting, [(n, k) for n in sizes for k in counts]):
        a, b = (setting.random((n, n), 0.0, stream) for stream in (1, 2))
        for variant, record in VARIANTS.items():
            spent = breakdown(setting, a, b, k, variant)
            total = sum(spent.values())
            shares = [spent[name] / total for name in STEPS]
            rows.append([record.name, n, k, 1e3 * total, *shares])
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
                    [row[4 + at] for row in rows if (row[0], row[2]) == (record.name, k)],
                    "stack",
                )
                for at, word in enumerate(STEPS.values())
            ],
            y_range=(0, 1),
        )
        for record in VARIANTS.values()
    ]
    columns = ["method", "n", "slices", "ms", *STEPS.values()]
    claims = breakdown_claims(setting, rows)
    remarks = [] if setting.gpu else [ON_A_CPU]
    return Outcome(columns, rows, claims, Figure(panels), remarks)


def breakdown_claims(setting: Setting, rows: list[list[Any]]) -> list[Claim]:
    """Return what section 4.2 and the conclusion say of the shares."""
    largest = [row for row in rows if row[1] >= 4096]
    shares = {
        record.name: sorted(row[7] for row in largest or rows if row[0] == record.name)
        for record in VARIANTS.values()
    }
    said = {name: f"{x[0]:.0%} to {x[-1]:.0%}" for name, x in shares.items()}
    grouped = [*shares["ozIMMU_EF"], *shares["ozIMMU_H"]]
    decided = setting.gpu and bool(largest)
    return [
        Claim(
            sentence="The accumulation in FP64 takes 40 to 50 % of the time of ozIMMU",
            where="section 4.2, figures 6 to 11",
            paper="40–50 %",
            ours=f"{said['ozIMMU']}: all that is waiting is added in one pass over memory here",
            setup="sizes as in the table",
            verdict=verdict_of(min(shares["ozIMMU"]) >= 0.3 if decided else None),
        ),
        Claim(
            sentence="EF and H reduce it to 10 to 20 %",
            where="section 4.2, figures 6 to 11",
            paper="10–20 %",
            ours=f"EF {said['ozIMMU_EF']}, H {said['ozIMMU_H']}",
            setup="sizes as in the table",
            verdict=verdict_of(max(grouped) <= 0.2 if decided else None),
        ),
        Claim(
            sentence=(
                "The execution times of FP64 accumulation are less in EF and H than in "
                "ozIMMU and RN"
            ),
            where="section 4.2, figures 6 to 11",
            paper="less",
            ours=f"RN {said['ozIMMU_RN']}, EF {said['ozIMMU_EF']}",
            setup="sizes as in the table",
            verdict=verdict_of(
                max(grouped) < max(*shares["ozIMMU"], *shares["ozIMMU_RN"]) if decided else None
            ),
        ),
    ]


def fig12_13(setting: Setting) -> Outcome:
    """Throughput and ratio to ozIMMU, against n."""
    sizes = setting.choose([128, 256], full=[1024, 2048, 4096, 8192, 16384], quick=[32, 64])
    counts = setting.choose([3, 8], full=[3, 6, 8, 9, 12], quick=[3])
    more = setting.choose([], full=[10, 11], quick=[])  # of 4096, for the claim
    rows: list[list[Any]] = []
    speed: dict[Any, float] = {}
    cases = [(n, k) for n in sizes for k in (0, *counts, *(more if n == 4096 else []))]
    for n, k in steps(setting, cases):
        if k == 0:
            a, b = (setting.random((n, n), 0.0, stream) for stream in (1, 2))
            repeats = setting.choose(3, full=10 if n < LONG else 3, quick=1)
            native = speed["FP64", n, 0] = rate(setting, partial(matmul, a, b), n, repeats)
            rows.append(["FP64", n, None, native, None, 1.0])
            continue
        for variant, record in VARIANTS.items():
            product = partial(ozimmu, a, b, k, variant)
            rate_reached = speed[record.name, n, k] = rate(setting, product, n, repeats)
            ratio = rate_reached / speed["ozIMMU", n, k]
            rows.append([record.name, n, k, rate_reached, ratio, rate_reached / native])
        setting.machine.free()
    panels = [
        Panel(
            record.name,
            "n",
            "TFLOP/s",
            [
                *(
                    Series(f"k = {k}", sizes, [speed[record.name, n, k] for n in sizes])
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
                Series(
                    f"k = {k}",
                    sizes,
                    [speed[name, n, k] / speed["ozIMMU", n, k] for n in sizes],
                )
                for k in counts
            ],
            log_x=True,
        )
        for name in ("ozIMMU_EF", "ozIMMU_H")
    ]
    columns = ["method", "n", "slices", "TFLOP/s", "ratio to ozIMMU", "ratio to FP64"]
    claims = throughput_claims(setting, speed, sizes, counts)
    remarks = [RESTED if setting.gpu else ON_A_CPU]
    return Outcome(columns, rows, claims, Figure(panels), remarks)


def throughput_claims(
    setting: Setting, speed: dict[Any, float], sizes: list[int], counts: list[int]
) -> list[Claim]:
    """Return what section 4.3 says of a GH200, whose GPU is that of an H200."""
    decided = setting.gpu and 16384 in sizes
    n = sizes[-1]

    def ratio(name: str, k: int) -> float | None:
        return speed[name, n, k] / speed["FP64", n, 0] if k in counts else None

    def against_fp64(k: int, wanted: dict[str, float]) -> Claim:
        ratios = {name: ratio(name, k) for name in wanted}
        reached = [x is not None and x >= wanted[name] for name, x in ratios.items()]
        return Claim(
            sentence=f"Speed against FP64 at n = 16384 with {k} slices",
            where="section 4.3, figures 12 and 13",
            paper=", ".join(f"{name} {x}" for name, x in wanted.items()),
            ours=", ".join(f"{name} {x:.2f} at n = {n}" for name, x in ratios.items() if x)
            or "not measured at this size",
            setup="sizes as in the table",
            verdict=verdict_of(all(reached) if decided else None),
        )

    at = 4096 if 4096 in sizes else n
    from_eight = sorted({k for _, n, k in speed if n == at and k >= 8}) or counts[-1:]
    gain = [speed[name, at, k] / speed["ozIMMU", at, k]
            for name in ("ozIMMU_EF", "ozIMMU_H") for k in from_eight]  # fmt: skip
    return [
        against_fp64(3, {"ozIMMU": 2.7, "ozIMMU_RN": 2.2, "ozIMMU_EF": 3.0, "ozIMMU_H": 3.0}),
        against_fp64(6, {"ozIMMU_EF": 1.0, "ozIMMU_H": 1.0}),
        Claim(
            sentence="EF and H are 1.2 to 1.6 times as fast as ozIMMU",
            where="section 4.3, figures 12 and 13",
            paper="1.2–1.6",
            ours=(
                f"{min(gain):.2f} to {max(gain):.2f} for {from_eight[0]} slices or more at n = {at}"
            ),
            setup="sizes as in the table",
            verdict=verdict_of(min(gain) >= 1.2 if setting.gpu and at == 4096 else None),
        ),
    ]


def fig14(setting: Setting) -> Outcome:
    """Throughput against accuracy."""
    n = setting.choose(256, full=4096, quick=48)
    counts = list(range(6, 11))
    case = Case(setting, n, n, 0.0)
    a, b = case.a, case.b
    repeats = setting.choose(3, full=10, quick=1)
    native = rate(setting, partial(matmul, a, b), n, repeats)
    rows: list[list[Any]] = [["FP64", None, native, *case.errors(a @ b)]]
    for variant, record in steps(setting, list(VARIANTS.items())):
        for k in counts:
            rate_reached = rate(setting, partial(ozimmu, a, b, k, variant), n, repeats)
            rows.append([record.name, k, rate_reached, *case.errors(ozimmu(a, b, k, variant))])
    shown = []
    for name in ("FP64", *(record.name for record in VARIANTS.values())):
        own = [row for row in rows if row[0] == name]
        marks = [str(row[1]) for row in own] if name != "FP64" else []
        x, y = [max(row[3], 2.0**-54) for row in own], [row[2] for row in own]
        shown.append(Series(name, x, y, "points", marks))
    panel = Panel(
        f"n = {n}, φ = 0; numbers are slices",
        "largest relative error",
        "TFLOP/s",
        shown,
        log_x10=True,
        log_y=True,
    )
    speed = {(row[0], row[1]): row[2] for row in rows}
    error = {(row[0], row[1]): row[3] for row in rows}
    h7, oz6 = ("ozIMMU_H", 7), ("ozIMMU", 6)
    claim = Claim(
        sentence="GH200: H-7 and EF-7 perform like ozIMMU-6 and are more accurate",
        where="section 4.3, figure 14",
        paper="comparable speed, more accurate",
        ours=f"H-7 {speed[h7]:.3g} TFLOP/s, error {error[h7]:.1e}; "
        f"ozIMMU-6 {speed[oz6]:.3g}, {error[oz6]:.1e}",
        setup="sizes as in the table",
        verdict=verdict_of(
            (speed[h7] >= 0.9 * speed[oz6] and error[h7] < error[oz6]) if setting.gpu else None
        ),
    )
    columns = ["method", "slices", "TFLOP/s", "largest relative error", "error / |A||B|"]
    remarks = [] if setting.gpu else [ON_A_CPU]
    return Outcome(columns, rows, [claim], Figure([panel]), remarks)


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
