"""Paper 003's figures: blocked products and the Ozaki scheme, their times and errors.

Blocked TS products are by listings 15 and 17, the paper's for a GPU, unless a name says otherwise.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from widen.papers.items import (
    Claim,
    Figure,
    Item,
    Outcome,
    Panel,
    Setting,
    lines,
    verdict_of,
)
from widen.papers.triple_single.accuracy import fewer_products, fig25
from widen.papers.triple_single.algorithm import multiply
from widen.papers.triple_single.operands import COUNTS, INPUTS, WORDS, numbers, scheme

SLOW = 1 / 8
"""Of float64 against float32; the paper's GPUs have 1/32."""

CPU_LISTINGS = "TS, listings 8 and 10"
Rates = Mapping[tuple[str, int], float]
"""GFLOP/s by type and size."""


# ── figures 19 to 22: speed of blocked products ──────────────────────────────


def fig19_22(setting: Setting) -> Outcome:
    """GFLOP/s of blocked products, 2 n^3 operations of the type each."""
    sizes = setting.choose(
        [32, 64, 128, 256], full=[32, 64, 128, 256, 512, 1024, 2048, 4096, 8192], quick=[32, 64]
    )
    rates: dict[tuple[str, int], float] = {}
    cases = [(name, n) for name in (*WORDS, CPU_LISTINGS) for n in sizes]
    for done, (name, n) in enumerate(cases):
        setting.progress(done / len(cases))
        a, b = (numbers(setting, (n, n), name.split(",")[0], stream) for stream in (1, 2))
        seconds = setting.seconds(
            partial(multiply, a, b, "cpu" if name == CPU_LISTINGS else "gpu"),
            repeats=10 if setting.gpu and n <= 1024 else 3 if n <= 2048 else 1,
            warm_ups=1 if n <= 2048 else 0,  # TS of 8192 takes seconds
        )
        rates[name, n] = 2 * n**3 / seconds / 1e9
    names = sorted({name for name, _ in rates})
    panels = [
        Panel(
            title,
            "n",
            "GFLOP/s (operations of the type)",
            lines(shown, [[n, *(rates[name, n] for name in shown)] for n in sizes]),
            log_x=True,
            log_y=True,
        )
        for title, shown in (
            ("Figures 19 and 20", ("TS", CPU_LISTINGS, "D+S", "DD")),
            ("Figures 21 and 22", ("double", "DF")),
        )
    ]
    where = "Triton kernels, tiles in shared memory" if setting.gpu else "Numba kernels on a CPU"
    remark = (
        f"{INPUTS} 2 n³ operations of the type. {where}. TS by listings 15 and 17 unless it says "
        "otherwise. The paper has either figure for two GPUs, a GTX 1080 and an RTX 6000."
    )
    columns = ["n", *(f"{name}, GFLOP/s" for name in names)]
    rows = [[n, *(rates[name, n] for name in names)] for n in sizes]
    return Outcome(columns, rows, speed_claims(rates, setting.gpu), Figure(panels), [remark])


def speed_claims(rates: Rates, gpu: bool) -> list[Claim]:
    """TS against DD and D+S, and DF against double.

    DD and DF are the same operations in float64 and in float32: they show what float64 costs.
    """
    top = max(n for _, n in rates)
    share = rates["DD", top] / rates["DF", top]
    cost = f"DD, the operations of DF in float64, has {share:.2f} of DF's rate here"
    triples = {name: rates["TS", top] / rates[name, top] for name in ("D+S", "DD")}
    at_32 = 32 * rates["TS", top] / rates["DF", top]
    pairs = rates["DF", top] / rates["double", top]
    most = max(rates["DF", n] / rates["double", n] for _, n in rates)
    decided = gpu and share < SLOW
    return [
        Claim(
            sentence="Blocked TS products are faster than D+S and DD ones where float64 is slow",
            where="section 5.1, figures 19 and 20",
            paper="up to 5.9 times (GTX 1080), 15 times (RTX 6000; the number is hard to read)",
            ours=", ".join(f"{ratio:.2f} × {name}" for name, ratio in triples.items())
            + f"; {cost}; with DD at 1/32 of DF, TS would be {at_32:.1f} × DD",
            setup=f"n = {top}, one draw",
            verdict=verdict_of(min(triples.values()) > 1 if decided else None),
        ),
        Claim(
            sentence="Blocked DF products are faster than blocked double ones where float64 is "
            "slow",
            where="section 5.1, figures 21 and 22",
            paper="up to 2.1 times (GTX 1080), 1.4 times (RTX 6000)",
            ours=f"{pairs:.2f} × double, at most {most:.2f} at any size; {cost}",
            setup=f"n = {top}, one draw",
            verdict=verdict_of(pairs > 1 if decided else None),
        ),
    ]


# ── figures 23 and 24: time of the Ozaki scheme ──────────────────────────────


def fig23_24(setting: Setting) -> Outcome:
    """Time of the Ozaki scheme beside the blocked product."""
    sizes = setting.choose([64, 128, 256], full=[256, 512, 1024, 2048, 4096], quick=[32, 64])
    rows: list[list[Any]] = []
    for done, n in enumerate(sizes):
        setting.progress(done / len(sizes))
        a, b = (numbers(setting, (n, n), "TS", stream) for stream in (1, 2))
        slow = n > 1024 or not setting.gpu
        repeats, warm_ups = (2, 0 if setting.gpu else 1) if slow else (10, 3)
        products = [partial(multiply, a, b, "gpu"), *(partial(scheme, a, b, d) for d in COUNTS)]
        rows.append([n, *(setting.seconds(product, repeats, warm_ups) for product in products)])
    labels = ["blocked TS", *(f"Ozaki scheme, {d} slices" for d in COUNTS)]
    panel = Panel(
        "TS matrix products", "n", "seconds", lines(labels, rows, "dashed"), log_x=True, log_y=True
    )
    remark = f"{INPUTS} Slicing and TS additions are counted; slices² float32 products."
    columns = ["n", *(f"{label}, s" for label in labels)]
    claims = time_claims(rows, setting.gpu)
    return Outcome(columns, rows, claims, Figure([panel], columns=1), [remark])


def time_claims(rows: Sequence[Sequence[float]], gpu: bool) -> list[Claim]:
    """Rows (n, seconds of the blocked product, seconds with 9 to 12 slices)."""
    times = [[seconds / row[1] for seconds in row[2:]] for row in rows]
    said = "; ".join(
        f"n = {row[0]}: {min(ratios):.2f} to {max(ratios):.2f}"
        for row, ratios in zip(rows, times, strict=True)
    )
    said += " times as long"
    shrinks = all(last < before for before, last in zip(*times[-2:], strict=True))
    setup = f"n = {rows[0][0]} to {rows[-1][0]}, 9 to 12 slices, medians"
    return [
        Claim(
            sentence="The Ozaki scheme takes longer than the blocked product at every size",
            where="section 5.2.1, figures 23 and 24",
            paper="longer with 9 to 12 slices, n = 256 to 4096, on both GPUs",
            ours=said,
            setup=setup,
            verdict=verdict_of(all(min(ratios) > 1 for ratios in times) if gpu else None),
        ),
        Claim(
            sentence="The difference shrinks at n = 4096, and larger matrices may turn it round",
            where="section 5.2.1",
            paper="shrinks",
            ours=said,
            setup=setup,
            verdict=verdict_of(shrinks if gpu and rows[-1][0] == 4096 else None),
        ),
    ]


ITEMS = [
    Item("003-fig19-22", "003", "Speed of blocked products of TS, D+S, DD, DF and double",
         "TS is up to 5.9 times as fast as D+S and DD on a GTX 1080, DF 2.1 times as double.",
         fig19_22),
    Item("003-fig23-24", "003", "Time of the Ozaki scheme and of the blocked product (23 and 24)",
         "The scheme takes longer than the blocked product at all sizes.", fig23_24),
    Item("003-fig25", "003", "Error of the Ozaki scheme and of the blocked product",
         "12 slices reach 1e-20 at n = 4096; the blocked product has 1e-17 to 1e-15.", fig25),
    Item("003-future-orders", "003", "Without the products of lowest order (not in the paper)",
         "The paper wants a faster scheme: how many products can be left out, at what error.",
         fewer_products),
]  # fmt: skip
