"""Paper 000's figures 3, 5 and 8 and its Table 1."""

from __future__ import annotations

from functools import partial
from operator import matmul
from typing import Any, Literal

import widen
from widen.papers.arrays import relative_error
from widen.papers.items import Claim, Figure, Item, Outcome, Panel, Series, Setting, verdict_of
from widen.papers.tensor_core_dgemm.algorithm import (
    determine_slices,
    dgemm_dp_cr,
    dgemm_tc,
    sgemm_tc,
)

PHIS = (0.1, 1.0, 2.0)
PAPER_SIZES = tuple(range(1024, 10241, 1024))
STAGES = {
    "split_left": "SplitA", "split_right": "SplitB", "multiply": "products", "sum": "summation",
}  # fmt: skip

FACTOR = 4.0
"""DP-mode counts as accurate as the ordinary product within this factor of its error."""

TITAN = {"cublasDgemm": (534.1, 534.1, 534.1), "DGEMM-TC-DP": (972.4, 823.0, 713.1),
         "DGEMM-TC-CR": (220.4, 193.5, 173.1), "DGEMM-DP-CR": (24.75, 21.17, 21.17)}  # fmt: skip
V100 = {"cublasDgemm": (6761.0, 6761.0, 6761.0), "DGEMM-TC-DP": (1064.0, 914.3, 790.8),
        "DGEMM-TC-CR": (255.0, 222.5, 198.5), "DGEMM-DP-CR": (293.1, 250.7, 250.7)}  # fmt: skip


def accuracy(setting: Setting, dtype: str) -> Outcome:
    """Errors of the ordinary product and of ours over n and phi; wrong elements of CR-mode."""
    sizes = setting.choose((64, 128, 256, 512), full=PAPER_SIZES, quick=(16, 32))
    double = dtype == "float64"
    name, ordinary = ("DGEMM-TC-DP", "DGEMM") if double else ("SGEMM-TC-SP", "SGEMM")
    rows: list[list[Any]] = []
    for at, phi in enumerate(PHIS):
        for step, n in enumerate(sizes):
            a, b = (setting.random((n, n), phi, 10 * n + at + s, dtype) for s in (0, 5))
            exact = widen.matmul(a, b, accuracy="correct")
            ours = dgemm_tc(a, b) if double else sgemm_tc(a, b)
            row = [phi, n, *(relative_error(c, exact) for c in (a @ b, ours))]
            if double:
                row.append(int((dgemm_tc(a, b, "cr") != exact).sum()))
            rows.append(row)
            setting.machine.free()
            setting.progress((at + (step + 1) / len(sizes)) / len(PHIS))
    worst = max(row[3] / row[2] for row in rows)
    claims = [
        Claim(
            sentence=f"The accuracy of {name} is equivalent to that of the ordinary {ordinary}",
            where="section 5.2, figure 3",
            paper="equivalent, some differences",
            ours=f"at most {worst:.2g} times its largest relative error",
            setup="sizes as in the table",
            verdict=verdict_of(worst <= FACTOR),
        )
    ]
    if double:
        wrong = sum(row[4] for row in rows)
        claims.append(
            Claim(
                sentence="CR-mode always obtains the correctly rounded result",
                where="section 5.2, figure 3",
                paper="no wrong element",
                ours=f"{wrong} wrong elements",
                setup="sizes as in the table",
                verdict=verdict_of(wrong == 0),
            )
        )

    def errors(label: str, at: int, style: Literal["line", "points"]) -> list[Series]:
        return [
            Series(
                f"{label}, φ = {phi:g}", sizes, [row[at] for row in rows if row[0] == phi], style
            )
            for phi in PHIS
        ]

    series = errors(name, 3, "line") + errors(ordinary, 2, "points")
    panel = Panel(
        "Against the correctly rounded product", "n", "largest relative error", series,
        log_x=True, log_y=True,
    )  # fmt: skip
    columns = ["φ", "n", f"error of {ordinary}", f"error of {name}"]
    return Outcome(
        columns + ["wrong elements in CR-mode"] * double, rows, claims, Figure([panel], 1),
        ["The reference is widen.matmul(accuracy='correct'); the paper used MPFR with 2048 bits."],
    )  # fmt: skip


def figure3(setting: Setting) -> Outcome:
    """Return the accuracy of DGEMM-TC."""
    return accuracy(setting, "float64")


def figure8(setting: Setting) -> Outcome:
    """Return the accuracy of SGEMM-TC."""
    return accuracy(setting, "float32")


def count(setting: Setting, n: int, phi: float) -> tuple[int, int, bool]:
    """Return slices, products and whether in fast mode, for an inner dimension of n.

    Some rows and columns are enough to see them.
    """
    m = setting.choose(64, full=256, quick=8)
    a, b = setting.random((m, n), phi, n + 1), setting.random((n, 2 * m), phi, n + 2)
    d, fast = determine_slices(a, b)
    return d, d * (d + 1) // 2 if fast else d * d, fast


def figure5(setting: Setting) -> Outcome:
    """Slices, products, and where the time goes."""
    sizes = setting.choose(
        (1024, 2048, 3072, 4096, 5120, 7168, 10240), full=PAPER_SIZES, quick=(256, 7168)
    )
    rows: list[list[Any]] = []
    for at, phi in enumerate(PHIS):
        for step, n in enumerate(sizes):
            rows.append([phi, n, *count(setting, n, phi)])
            setting.progress(0.7 * (at + (step + 1) / len(sizes)) / len(PHIS))
    n = setting.choose(384, full=10240, quick=64)
    shares, rates = {}, []
    for at, phi in enumerate(PHIS):
        a, b = (setting.random((n, n), phi, at + s) for s in (0, 5))
        dgemm_tc(a, b)
        ran = dgemm_tc(a, b, info=True)[1]
        total = sum(ran.seconds.values())
        shares[phi] = {stage: time / total for stage, time in ran.seconds.items()}
        blocks = len(ran.products)
        work = 2 * n**3 * sum(ran.products) / blocks
        rates.append(work / ran.seconds["multiply"] / 1e12)
        setting.progress(0.7 + 0.3 * (at + 1) / len(PHIS))
    example = next(row for row in rows if row[:2] == [0.1, 7168])
    claims = [
        Claim(
            sentence="At n = 7168, φ = 0.1 the products of slices are 66",
            where="section 5.2, figure 5",
            paper="66",
            ours=f"{example[3]}",
            setup="sizes as in the table",
            verdict=verdict_of(example[3] == 66),
        ),
        Claim(
            sentence="The products dominate the time",
            where="section 5.2, figure 5",
            paper="about 70 % at n = 7168, φ = 0.1",
            ours=f"{shares[0.1]['multiply']:.0%} at n = {n}, φ = 0.1",
            setup="sizes as in the table",
            verdict=verdict_of(
                shares[0.1]["multiply"] > 0.5 if setting.gpu and setting.full else None
            ),
        ),
    ]
    names = [f"φ = {phi:g}" for phi in PHIS]

    def over_n(at: int) -> list[Series]:
        return [
            Series(name, sizes, [row[at] for row in rows if row[0] == phi])
            for name, phi in zip(names, PHIS, strict=True)
        ]

    panels = [
        Panel("Number of slices d", "n", "slices of A, and of B", over_n(2)),
        Panel("Number of products, d(d + 1)/2 in fast mode", "n", "products", over_n(3)),
        Panel(
            f"Where the time goes, n = {n}", "", "share of time",
            [Series(STAGES[stage], names, [shares[phi][stage] for phi in PHIS], "stack")
             for stage in STAGES],
        ),
        Panel(
            f"Rate of the products, n = {n}", "", "TFLOP/s",
            [Series("FP16 products", names, rates, "bars")],
        ),
    ]  # fmt: skip
    remark = (
        "d is Algorithm 3's for some rows of A and columns of B with the full inner dimension n; "
        "the paper averages over blocks."
    )
    return Outcome(["φ", "n", "slices", "products", "fast mode"], rows, claims,
                   Figure(panels), [remark])  # fmt: skip


def table1(setting: Setting) -> Outcome:
    """Rates of the ordinary product and of the three versions."""
    n = setting.choose(256, full=10240, quick=64)
    names = list(TITAN)
    rates: dict[str, list[float]] = {name: [] for name in names}
    for at, phi in enumerate(PHIS):
        a, b = (setting.random((n, n), phi, at + s) for s in (0, 5))
        versions = (matmul, dgemm_tc, partial(dgemm_tc, mode="cr"), dgemm_dp_cr)
        runs = [partial(version, a, b) for version in versions]
        for step, (name, run) in enumerate(zip(names, runs, strict=True)):
            rates[name].append(2 * n**3 / setting.seconds(run, 3, 1) / 1e9)
            setting.progress((at + (step + 1) / len(names)) / len(PHIS))
        setting.machine.free()
    products = [count(setting, 10240, phi)[1] for phi in PHIS]
    ratios = [products[0] / p for p in products[1:]]
    printed = [x / TITAN["DGEMM-TC-DP"][0] for x in TITAN["DGEMM-TC-DP"][1:]]
    faster = [x / y for x, y in zip(rates["DGEMM-TC-DP"], rates["cublasDgemm"], strict=True)]
    slow = f"{min(faster):.2g} to {max(faster):.2g} times the ordinary product's rate"
    claims = [
        Claim(
            sentence=(
                "At n = 10240 the rates for φ = 1 and 2 against φ = 0.1 follow the "
                "number of products"
            ),
            where="section 5.2, table 1",
            paper=" and ".join(f"{x:.3f}" for x in printed) + " (rates, Titan RTX)",
            ours=" and ".join(f"{x:.3f}" for x in ratios)
            + f" (products, {', '.join(map(str, products))})",
            setup="sizes as in the table",
            verdict=verdict_of(
                all(abs(x - y) < 0.02 for x, y in zip(ratios, printed, strict=True))
            ),
        ),
        Claim(
            sentence=(
                "DGEMM-TC-DP is faster than the ordinary DGEMM where FP64 is slow "
                "(Titan RTX), "
                "slower where it is fast (V100)"
            ),
            where="section 5.2, table 1",
            paper="1.3 to 1.8 times, 0.12 to 0.16 times",
            ours=slow,
            setup="sizes as in the table",
            verdict=verdict_of(max(faster) < 1 if setting.gpu and setting.full else None),
        ),
        Claim(
            sentence="CR-mode costs a factor of about four",
            where="section 5.2, table 1",
            paper="0.23 to 0.24 of DP-mode's rate",
            ours=f"{rates['DGEMM-TC-CR'][0] / rates['DGEMM-TC-DP'][0]:.2f} at φ = 0.1",
            setup="sizes as in the table",
            verdict=verdict_of(
                rates["DGEMM-TC-CR"][0] / rates["DGEMM-TC-DP"][0] < 0.5
                if setting.gpu and setting.full
                else None
            ),
        ),
    ]
    rows: list[list[Any]] = [
        [name, *TITAN[name], *V100[name], *rates[name]] for name in names
    ]  # fmt: skip
    columns = ["GFLOP/s"] + [
        f"{place}, φ = {phi:g}" for place in ("Titan RTX", "V100", "here") for phi in PHIS
    ]
    figure = Figure(
        [
            Panel(
                f"Here, n = {n}", "", "GFLOP/s of 2n³",
                [Series(name.replace("cublasDgemm", "ordinary product"),
                        [f"φ = {phi:g}" for phi in PHIS], rates[name], "bars") for name in names],
                log_y=True,
            )
        ], 1,
    )  # fmt: skip
    return Outcome(columns, rows, claims, figure, [f"Here n = {n}; the paper has n = 10240."])


ITEMS = [
    Item("000-fig3", "000", "Accuracy of DGEMM and DGEMM-TC in DP-mode",
         "DP-mode is as accurate as cublasDgemm; CR-mode has no error.", figure3),
    Item("000-fig5", "000", "Slices, products and time of DGEMM-TC in DP-mode",
         "66 products at n = 7168, φ = 0.1; the products take most of the time.", figure5),
    Item("000-table1", "000", "Rates of DGEMM, DGEMM-TC and DGEMM-DP-CR",
         "Faster than cublasDgemm on a Titan RTX, slower on a V100.", table1),
    Item("000-fig8", "000", "Accuracy of SGEMM and SGEMM-TC in SP-mode",
         "SP-mode is as accurate as cublasSgemm.", figure8),
]  # fmt: skip
