"""Paper 000's speed: figures 4 to 7 and 9, and Table 1."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from operator import matmul
from statistics import fmean
from typing import Any

from widen.papers.items import Claim, Figure, Item, Outcome, Panel, Series, Setting, verdict_of
from widen.papers.slicing.algorithm import STAGES, Ran
from widen.papers.tensor_core_dgemm.algorithm import dgemm_dp_cr, dgemm_tc, sgemm_tc
from widen.papers.tensor_core_dgemm.items import PAPER_SIZES, PHIS, drawn

NAMES = ("SplitA", "SplitB", "products", "summation")
"""The paper's words for `STAGES`."""

COLUMNS = ["φ", "n", "GFLOP/s", "slices", "products", *(f"share of {name}" for name in NAMES),
           "TFLOP/s of products", "ordinary, GFLOP/s"]  # fmt: skip

ON_A_CPU = (
    "On a CPU float32 BLAS plays the tensor cores, so times say nothing about the paper's; "
    "--device cuda --full measures them."
)

TITAN = {"cublasDgemm": (534.1, 534.1, 534.1), "DGEMM-TC-DP": (972.4, 823.0, 713.1),
         "DGEMM-TC-CR": (220.4, 193.5, 173.1), "DGEMM-DP-CR": (24.75, 21.17, 21.17)}  # fmt: skip
V100 = {"cublasDgemm": (6761.0, 6761.0, 6761.0), "DGEMM-TC-DP": (1064.0, 914.3, 790.8),
        "DGEMM-TC-CR": (255.0, 222.5, 198.5), "DGEMM-DP-CR": (293.1, 250.7, 250.7)}  # fmt: skip

LIMITED, RICH = 64, 32
"""FP64 is limited where FP16 products are this many times as fast (Titan RTX: 172), and rich where
they are at most this many times as fast (V100: 16)."""


def timed(setting: Setting, product: Callable[..., Any], n: int) -> tuple[Ran, float]:
    """What ran, and the seconds of a call; small calls are made once before."""
    kept: list[Any] = []
    if n <= 4096:
        product(info=True)
    seconds = setting.machine.seconds(lambda: kept.append(product(info=True)))
    return kept[0][1], seconds


def rates(
    setting: Setting, product: Callable[..., Any], sizes: tuple[int, ...], dtype: str
) -> list[list[Any]]:
    """Rows under `COLUMNS` of one routine, phi by phi."""
    rows: list[list[Any]] = []
    for at, phi in enumerate(PHIS):
        for step, n in enumerate(sizes):
            a, b = (setting.random((n, n), phi, 10 * n + at + s, dtype) for s in (0, 5))
            ran, seconds = timed(setting, partial(product, a, b), n)
            native = setting.seconds(partial(matmul, a, b), 3, 1)
            total, count = sum(ran.seconds.values()), fmean(ran.products)
            rows.append(
                [phi, n, 2e-9 * n**3 / seconds, fmean(left for left, _ in ran.slices), count,
                 *(ran.seconds[stage] / total for stage in STAGES),
                 2e-12 * n**3 * count / ran.seconds["multiply"], 2e-9 * n**3 / native]
            )  # fmt: skip
            setting.machine.free()
            setting.progress((at + (step + 1) / len(sizes)) / len(PHIS))
    return rows


def second_half(setting: Setting) -> Setting:
    """The same, whose progress goes on where half is done."""
    return replace(setting, progress=lambda done: setting.progress(0.5 + done / 2))


def figure(rows: list[list[Any]], ordinary: str) -> Figure:
    """Rate, where the time goes at the largest n, slices, products and their rate."""
    sizes = list(dict.fromkeys(row[1] for row in rows))
    names = [f"φ = {phi:g}" for phi in PHIS]

    def over_n(at: int) -> list[Series]:
        return [
            Series(name, sizes, [row[at] for row in rows if row[0] == phi])
            for name, phi in zip(names, PHIS, strict=True)
        ]

    def panel(title: str, label: str, at: int, *more: Series, log_y: bool = False) -> Panel:
        return Panel(title, "n", label, [*over_n(at), *more], log_x=True, log_y=log_y)

    native = Series(ordinary, sizes, [row[10] for row in rows if row[0] == PHIS[0]], "dashed")
    shares = [
        Series(name, names, [row[5 + at] for row in rows if row[1] == sizes[-1]], "stack")
        for at, name in enumerate(NAMES)
    ]
    panels = [
        panel("Rate of the whole product", "GFLOP/s of 2n³", 2, native, log_y=True),
        Panel(f"Where the time goes, n = {sizes[-1]}", "", "share of time", shares),
        panel("Slices of A (mean of all blocks)", "slices", 3),
        panel("Products of slices (mean of all blocks)", "products", 4),
        panel("Rate of the products alone", "TFLOP/s", 9),
    ]
    return Figure(panels)


def figures4_5(setting: Setting) -> Outcome:
    """DP-mode over n."""
    sizes = setting.choose((128, 256, 384), full=PAPER_SIZES, quick=(32, 64))
    rows = rates(setting, dgemm_tc, sizes, "float64")
    claims = dp_claims(rows, drawn(sizes), setting.gpu and setting.full)
    remarks = [] if setting.gpu else [ON_A_CPU]
    return Outcome(COLUMNS, rows, claims, figure(rows, "a @ b"), remarks)


def dp_claims(rows: list[list[Any]], setup: str, decided: bool) -> list[Claim]:
    """What section 5.2 says about where the time goes; `decided` at the paper's sizes on a GPU.

    Said of its example and, here, of the largest n.
    """
    largest = max(row[1] for row in rows)
    shown = [row for row in rows if row[1] == largest or row[:2] == [0.1, 7168]]
    blocks = [(row[5], row[6]) for row in shown]
    places = [f"at n = {row[1]}, φ = {row[0]:g}" for row in shown]
    return [
        Claim(
            sentence="The products on tensor cores dominate the time",
            where="section 5.2, figure 5",
            paper="about 70 % at n = 7168, φ = 0.1",
            ours=", ".join(
                f"{row[7]:.0%} {place}" for row, place in zip(shown, places, strict=True)
            ),
            setup=setup,
            verdict=verdict_of(min(row[7] for row in shown) > 0.5 if decided else None),
        ),
        Claim(
            sentence="Splitting B costs more than splitting A, since B is split once more for "
            "every block of rows",
            where="section 5.2, figure 5",
            paper="more",
            ours=", ".join(
                f"{b:.1%} against {a:.1%} {place}"
                for (a, b), place in zip(blocks, places, strict=True)
            ),
            setup=setup,
            verdict=verdict_of(all(b > a for a, b in blocks) if decided else None),
        ),
    ]


def figures6_7(setting: Setting) -> Outcome:
    """CR-mode over n, and DP-mode beside it."""
    sizes = setting.choose((128, 256), full=PAPER_SIZES[1::2], quick=(32, 64))
    product = partial(dgemm_tc, mode="cr")
    return _beside_dp_mode(setting, product, "float64", sizes, cr_claims, "a @ b")


def _beside_dp_mode(
    setting: Setting, product: Callable[..., Any], dtype: str, sizes: tuple[int, ...],
    rule: Callable[..., list[Claim]], native: str,
) -> Outcome:  # fmt: skip
    """A product's rates over n, and what they say beside those of DP-mode."""
    rows = rates(setting, product, sizes, dtype)
    beside = rates(second_half(setting), dgemm_tc, sizes, "float64")
    claims = rule(rows, beside, drawn(sizes), setting.gpu and setting.full)
    remarks = [] if setting.gpu else [ON_A_CPU]
    return Outcome(COLUMNS, rows, claims, figure(rows, native), remarks)


def cr_claims(
    rows: list[list[Any]], beside: list[list[Any]], setup: str, decided: bool
) -> list[Claim]:
    """Why CR-mode is slower, section 5.2: more slices, more products, a dearer sum."""
    pairs = list(zip(rows, beside, strict=True))
    large = min(row[1] for row in rows) >= PAPER_SIZES[0]  # smaller ones run out of slices
    slices = [ours[3] - theirs[3] for ours, theirs in pairs]
    products = [ours[4] / theirs[4] for ours, theirs in pairs]
    # seconds of the sum for one product: share / (rate · products), up to one factor
    sums = [(x[8] / x[2] / x[4]) / (y[8] / y[2] / y[4]) for x, y in pairs]
    return [
        Claim(
            sentence="CR-mode takes more slices than DP-mode, and more products, for it leaves "
            "none out",
            where="section 5.2, figure 7",
            paper="more",
            ours=f"{min(slices):.1f} to {max(slices):.1f} slices more, {min(products):.1f} to "
            f"{max(products):.1f} times as many products",
            setup=setup,
            verdict=verdict_of(min(slices) > 0 and min(products) > 1 if large else None),
        ),
        Claim(
            sentence="The correctly rounded sum is much costlier than that in FP64",
            where="section 5.2, figure 7",
            paper="much costlier (NearSum)",
            ours=f"{min(sums):.2g} to {max(sums):.2g} times the time for a product; twice counts "
            "as much",
            setup=setup,
            verdict=verdict_of(min(sums) >= 2 if decided else None),
        ),
    ]


def figure9(setting: Setting) -> Outcome:
    """SP-mode over n, and DP-mode beside it."""
    sizes = setting.choose((128, 256, 384), full=PAPER_SIZES[1::2], quick=(32, 64))
    native = "a @ b in float32"
    return _beside_dp_mode(setting, sgemm_tc, "float32", sizes, sp_claims, native)


def sp_claims(
    rows: list[list[Any]], beside: list[list[Any]], setup: str, decided: bool
) -> list[Claim]:
    """What section 5.3 says of the speed of SGEMM-TC."""
    pairs = list(zip(rows, beside, strict=True))
    fewer = [theirs[3] - ours[3] for ours, theirs in pairs]
    against_double = [ours[2] / theirs[2] for ours, theirs in pairs]
    against_native = [ours[2] / ours[10] for ours in rows]
    where = "section 5.3, figure 9"
    return [
        Claim(
            sentence="SGEMM-TC is slower than the ordinary SGEMM on a GPU with fast FP32",
            where=where,
            paper="slower (Titan RTX)",
            ours=f"{min(against_native):.2g} to {max(against_native):.2g} times its rate",
            setup=setup,
            verdict=verdict_of(max(against_native) < 1 if decided else None),
        ),
        Claim(
            sentence="SGEMM-TC is faster than DGEMM-TC",
            where=where,
            paper="faster",
            ours=f"{min(against_double):.2g} to {max(against_double):.2g} times its rate",
            setup=setup,
            verdict=verdict_of(min(against_double) > 1 if decided else None),
        ),
        Claim(
            sentence="SGEMM-TC takes fewer slices than DGEMM-TC",
            where=where,
            paper="fewer",
            ours=f"{min(fewer):.1f} to {max(fewer):.1f} fewer",
            setup=setup,
            verdict=verdict_of(min(fewer) > 0),
        ),
    ]


# ── Table 1 ──────────────────────────────────────────────────────────────────


def table1(setting: Setting) -> Outcome:
    """Rates of the ordinary product and of the three versions, and what DP-mode ran."""
    n = setting.choose(256, full=10240, quick=64)
    rates: dict[str, list[float]] = {name: [] for name in TITAN}
    counts, throughputs = [], []
    for at, phi in enumerate(PHIS):
        a, b = (setting.random((n, n), phi, at + s) for s in (0, 5))
        native = setting.seconds(partial(matmul, a, b), 3, 1)
        rates["cublasDgemm"].append(2e-9 * n**3 / native)
        versions: list[Callable[..., Any]] = [dgemm_tc, partial(dgemm_tc, mode="cr"), dgemm_dp_cr]
        small = [x[:1024, :1024] for x in (a, b)]
        for step, (name, version) in enumerate(zip(list(TITAN)[1:], versions, strict=True)):
            version(*small)  # compiles
            ran, seconds = timed(setting, partial(version, a, b), n)
            rates[name].append(2e-9 * n**3 / seconds)
            if step == 0:
                counts.append(fmean(ran.products))
                throughputs.append(2e-9 * n**3 * counts[-1] / ran.seconds["multiply"])
            setting.progress((at + (step + 1) / 3) / len(PHIS))
        setting.machine.free()
    rows: list[list[Any]] = [[name, *TITAN[name], *V100[name], *rates[name]] for name in TITAN]
    rows.append(["products of DP-mode", *[None] * 6, *counts])
    columns = ["GFLOP/s"] + [
        f"{place}, φ = {phi:g}" for place in ("Titan RTX", "V100", "here") for phi in PHIS
    ]
    bars = [
        Series(name.replace("cublasDgemm", "a @ b"), [f"φ = {phi:g}" for phi in PHIS], rates[name],
               "bars") for name in TITAN
    ]  # fmt: skip
    panel = Panel(f"Rates, m = n = k = {n}", "", "GFLOP/s of 2n³", bars, log_y=True)
    claims = table1_claims(rates, counts, throughputs, drawn([n]), setting.gpu and setting.full)
    remarks = [f"Here m = n = k = {n}; the paper has 10240."] + [ON_A_CPU] * (not setting.gpu)
    return Outcome(columns, rows, claims, Figure([panel], 1), remarks)


def table1_claims(
    rates: dict[str, list[float]], counts: list[float], throughputs: list[float], setup: str,
    decided: bool,
) -> list[Claim]:  # fmt: skip
    """What Table 1 shows and sections 4.3 and 5.2 say of it.

    Rates by name and products of DP-mode, phi by phi; `throughputs` are GFLOP/s of the products
    alone. `decided` at the paper's size on a GPU.
    """
    dp, native = rates["DGEMM-TC-DP"], rates["cublasDgemm"]
    falls = [rate / dp[0] for rate in dp[1:]]
    printed = [rate / TITAN["DGEMM-TC-DP"][0] for rate in TITAN["DGEMM-TC-DP"][1:]]
    expected = [counts[0] / count for count in counts[1:]]
    rest = [fall / wanted for fall, wanted in zip(falls, expected, strict=True)]
    faster = [x / y for x, y in zip(dp, native, strict=True)]
    dearer = [x / y for x, y in zip(rates["DGEMM-TC-CR"], dp, strict=True)]
    gap = max(throughputs) / max(native)
    limited = None if LIMITED > gap > RICH or not decided else gap >= LIMITED
    speed = (
        f"{min(faster):.2g} to {max(faster):.2g} times its rate; FP16 products run at {gap:.3g} "
        "times the rate of FP64 here"
    )

    def listed(numbers: list[float], form: str = ".3f") -> str:
        return ", ".join(format(x, form) for x in numbers)

    return [
        Claim(
            sentence="The number of products and their rate determine the speed",
            where="section 4.3",
            paper="ideally",
            ours=f"rates at φ = 1 and 2 are {listed(falls)} of that at φ = 0.1; by our products "
            f"({listed(counts, '.4g')}) they would be {listed(expected)}; within 10 % counts as "
            "determined",
            setup=setup,
            verdict=verdict_of(all(abs(x - 1) <= 0.1 for x in rest) if decided else None),
        ),
        Claim(
            sentence="Rates at φ = 1 and 2 against that at φ = 0.1",
            where="section 5.2, table 1",
            paper=f"{listed(printed)} (Titan RTX), as for 66, 78 and 90 products",
            ours=f"{listed(falls)}, with {listed(counts, '.4g')} products; within 5 % counts as "
            "the same",
            setup=setup,
            verdict=verdict_of(
                all(abs(x / y - 1) <= 0.05 for x, y in zip(falls, printed, strict=True))
                if decided
                else None
            ),
        ),
        Claim(
            sentence="DGEMM-TC-DP is faster than the ordinary DGEMM where FP64 is limited",
            where="section 5.2, table 1",
            paper="1.3 to 1.8 times its rate (Titan RTX, FP16 products 172 times as fast)",
            ours=speed,
            setup=setup,
            verdict=verdict_of(min(faster) > 1 if limited else None),
        ),
        Claim(
            sentence="DGEMM-TC-DP is not faster than the ordinary DGEMM where FP64 is rich",
            where="section 5.2, table 1",
            paper="0.12 to 0.16 times its rate (V100, FP16 peak 16 times that of FP64)",
            ours=speed,
            setup=setup,
            verdict=verdict_of(max(faster) < 1 if limited is False else None),
        ),
        Claim(
            sentence="CR-mode has about a quarter of DP-mode's rate",
            where="section 5.2, table 1",
            paper="0.23 to 0.24 (Titan RTX), 0.24 to 0.25 (V100)",
            ours=f"{listed(dearer, '.2f')}; a sixth to a third counts as about a quarter",
            setup=setup,
            verdict=verdict_of(
                all(1 / 6 <= x <= 1 / 3 for x in dearer) if decided else None
            ),
        ),
    ]  # fmt: skip


ITEMS = [
    Item("000-fig4-5", "000", "Rate, slices, products and time of DGEMM-TC in DP-mode",
         "The products take most of the time; wider ranges need more slices.", figures4_5),
    Item("000-fig6-7", "000", "Rate, slices, products and time of DGEMM-TC in CR-mode",
         "More slices, all products and a dearer sum.", figures6_7),
    Item("000-fig9", "000", "Rate, slices, products and time of SGEMM-TC in SP-mode",
         "Slower than SGEMM, faster than DGEMM-TC.", figure9),
    Item("000-table1", "000", "Rates of DGEMM, DGEMM-TC and DGEMM-DP-CR",
         "Faster than cublasDgemm on a Titan RTX, slower on a V100.", table1),
]  # fmt: skip
