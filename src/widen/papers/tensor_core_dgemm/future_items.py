"""Beyond paper 000: what a number of slices for every row saves, and what it costs."""

from __future__ import annotations

from functools import partial
from typing import Any

import widen
from widen.papers.arrays import relative_error
from widen.papers.items import Claim, Figure, Item, Outcome, Panel, Series, Setting, verdict_of
from widen.papers.tensor_core_dgemm.algorithm import dgemm_tc
from widen.papers.tensor_core_dgemm.by_row import dgemm_tc_by_row
from widen.papers.tensor_core_dgemm.items import FACTOR, PHIS, blocks, products


def by_row(setting: Setting) -> Outcome:
    """Products by block and by row at the paper's sizes; errors and times of both."""
    rows: list[list[Any]] = []
    for phi, n, m, groups in blocks(setting):
        slices = ", ".join(
            f"{d}{'' if fast else ' (all products)'}: {len(own)}"
            for (d, fast), own in groups.items()
        )
        block, mean = products(groups)
        rows.append([phi, n, m, slices, block, mean, 1 - mean / block])
    n = setting.choose(512, full=10240, quick=64)
    runs: list[list[Any]] = []
    for step, phi in enumerate(PHIS):
        a, b = (setting.random((n, n), phi, step + s) for s in (0, 5))
        exact = widen.matmul(a, b, accuracy="correct")
        both = [partial(product, a, b) for product in (dgemm_tc, dgemm_tc_by_row)]
        errors = [relative_error(c, exact) for c in (a @ b, *(product() for product in both))]
        runs.append([phi, n, *errors, *(setting.seconds(product, 2, 0) for product in both)])
        setting.machine.free()
    names = [f"φ = {row[0]:g}, n = {row[1]}" for row in rows]
    panels = [
        Panel(
            "Products of slices for a row of A", "", "products",
            [Series("as the paper", names, [row[4] for row in rows], "bars"),
             Series("by row, in the mean", names, [row[5] for row in rows], "bars")],
        ),
        Panel(
            f"Error, m = n = k = {n}", "", "largest relative error",
            [Series(label, [f"φ = {phi:g}" for phi in PHIS], [run[at] for run in runs], "bars")
             for at, label in enumerate(("a @ b", "DP-mode", "DP-mode by row"), 2)],
            log_y=True,
        ),
    ]  # fmt: skip
    remarks = [
        "Rows that run out of slices may not leave products out (section 3.2): alone they cost "
        "more than in a block, which happens where slices are wide (n = 1024 and less) and φ is "
        "small.",
    ]
    columns = ["φ", "n = k", "m", "rows by their slices", "products", "by row", "saved"]
    claims = by_row_claims(rows, runs, not setting.quick, setting.gpu and setting.full)
    return Outcome(columns, rows, claims, Figure(panels), remarks)


def by_row_claims(
    rows: list[list[Any]], runs: list[list[Any]], decided: bool, timed: bool
) -> list[Claim]:
    """What slices by row save, and how accurate they are; rows and runs are those of `by_row`.

    `decided` for blocks of the paper's sizes, `timed` where seconds are those of a GPU.
    """
    wide = [row for row in rows if row[0] > 0.1]
    worst = max(run[4] / run[2] for run in runs)
    where, paper = "section 3.2, Algorithm 3", "one number of slices for a block of rows"
    return [
        Claim(
            sentence="If only the rows that need another slice get it, there are fewer products "
            "at φ = 1 and 2",
            where=where,
            paper=paper,
            ours="; ".join(
                f"φ = {row[0]:g}, n = {row[1]}: {row[4]} products, {row[5]:.1f} by row, "
                f"{row[6]:.1%} saved"
                for row in wide
            ),
            setup=f"blocks of {', '.join(str(row[2]) for row in wide)} rows; one draw of each",
            verdict=verdict_of(all(row[6] > 0 for row in wide) if decided else None),
            future=True,
        ),
        Claim(
            sentence="Results are as accurate as those of the ordinary product",
            where=where,
            paper=paper,
            ours=f"the largest relative error is at most {worst:.2g} times that of a @ b; at most "
            f"{FACTOR:g} counts as equivalent",
            setup=f"m = n = k = {runs[0][1]}; φ = 0.1, 1, 2; one draw of each",
            verdict=verdict_of(worst <= FACTOR),
            future=True,
        ),
        Claim(
            sentence="Fewer products make it faster than the paper's blocks at φ = 1 and 2",
            where=where,
            paper=paper,
            ours=", ".join(f"{run[6]:.3g} s for {run[5]:.3g} s at φ = {run[0]:g}" for run in runs),
            setup=f"m = n = k = {runs[0][1]}; one draw of each, medians of 2 calls",
            verdict=verdict_of(
                all(run[6] < run[5] for run in runs if run[0] > 0.1) if timed else None
            ),
            future=True,
        ),
    ]


ITEMS = [
    Item("000-future-rows", "000", "A number of slices for every row (not in the paper)",
         "Only the rows that need another slice get it.", by_row),
]  # fmt: skip
