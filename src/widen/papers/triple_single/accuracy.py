"""Paper 003's figure 25, errors of TS products; and how many products of slices they need."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from widen.papers.items import Claim, Figure, Outcome, Panel, Series, Setting, verdict_of
from widen.papers.triple_single.algorithm import (
    kept_products,
    multiply,
    multiply_sliced,
    slice_matrix,
)
from widen.papers.triple_single.operands import COUNTS, KINDS, errors, quad_product, scheme

PRODUCTS: dict[str, Callable[..., Any]] = {
    "blocked": partial(multiply, listings="gpu"),
    "blocked, listings 8 and 10": multiply,
    **{f"{d} slices": partial(scheme, slices=d) for d in COUNTS},
    "12 slices by weight": partial(scheme, slices=12, order="weights"),
}
"""The last one adds in an order of ours."""

FIRST, FILLED = KINDS
Errors = Mapping[tuple[str, int, str], tuple[float, float]]
"""Largest and median relative error by numbers, size and product."""


def fig25(setting: Setting) -> Outcome:
    """Relative errors of the Ozaki scheme and of the blocked product."""
    sizes = setting.choose([256, 512, 1024, 2048, 4096], full=[256, 512, 1024, 2048, 4096],
                           quick=[32, 64])  # fmt: skip
    sample = setting.choose((16, 64), full=(4096, 4096), quick=(4, 8))
    rows: list[list[Any]] = []
    cases = [(kind, n) for kind in KINDS for n in sizes]
    for done, (kind, n) in enumerate(cases):
        m, columns = (min(n, most) for most in sample)
        a, b = (KINDS[kind](setting, s, at) for at, s in ((1, (m, n)), (2, (n, columns))))
        exact = quad_product(a, b)
        for step, (name, product) in enumerate(PRODUCTS.items()):
            rows.append([kind, n, m * columns, name, *errors(product(a, b), exact)])
            setting.progress((done + (step + 1) / len(PRODUCTS)) / len(cases))
        setting.machine.free()
    measured = {(row[0], row[1], row[3]): (row[4], row[5]) for row in rows}
    panels = [
        Panel(
            f"{kind}, {name}",
            "n",
            "relative error",
            [
                Series(
                    product if "blocked" in product else f"Ozaki scheme, {product}",
                    sizes,
                    [measured[kind, n, product][at] for n in sizes],
                    "dashed" if product == "blocked" else "line",
                )
                for product in PRODUCTS
                if product != "blocked, listings 8 and 10"  # the line of the other listings
            ],
            log_x=True,
            log_y=True,
        )
        for kind in KINDS
        for at, name in enumerate(("largest", "median"))
    ]
    remark = (
        "Matrices are (u - 0.5) exp(rn). The paper does not say in which format: computed in "
        "float64, 53 bits of a TS number's 72, or with all words filled. The largest relative "
        "error hangs on the element that cancels most: it grows with their number, of each product "
        f"{sample[0]} rows and {sample[1]} columns at most. The reference is widen.matmul in "
        "float64x4, to its contract. Line 16 of Algorithm 1 as printed takes the last but one "
        "slice from the rest a second time; the rest itself is the last slice here. By weight: "
        "products of slices i and j are added by i + j, not row by row."
    )
    columns_shown = ["numbers", "n", "elements", "product", "largest relative error", "median",
                     "error / largest element"]  # fmt: skip
    whole = all(row[2] == row[1] ** 2 for row in rows)
    return Outcome(columns_shown, rows, error_claims(measured, whole), Figure(panels), [remark])


def error_claims(measured: Errors, whole: bool) -> list[Claim]:
    """What section 5.2.2 says of figure 25.

    The largest error of a sample says little of that of all elements, so that the paper's numbers
    are compared with those of whole products only. A claim holds if it does with either kind of
    numbers, since the paper does not name its own.
    """
    sizes = sorted({n for _, n, _ in measured})
    top = sizes[-1]
    elements = "all elements" if whole else "some rows and columns"
    setup = f"n = {sizes[0]} to {top}, {elements}, one draw; {FIRST}, then {FILLED}"

    def largest(name: str, n: int) -> list[float]:
        return [measured[kind, n, name][0] for kind in KINDS]

    def said(name: str, *at: int) -> str:
        return "; ".join(
            f"n = {n}: " + " and ".join(f"{error:.1e}" for error in largest(name, n)) for n in at
        )

    twelve, nine, plain = (largest(name, top) for name in ("12 slices", "9 slices", "blocked"))
    known = whole and {256, 512, 1024, 4096} <= set(sizes)
    nine_claim = small_claim = None
    if known:
        falls = [y / x for x, y in zip(*(largest("9 slices", n) for n in (512, 1024)), strict=True)]
        nine_claim = max(falls) >= 100
        small_claim = any(
            0.1 <= small / 1e-17 <= 10 and 0.1 <= large / 1e-15 <= 10
            for small, large in zip(largest("blocked", 256), plain, strict=True)
        )
    where = "section 5.2.2, figure 25"
    return [
        Claim(
            sentence="12 slices keep a relative error of 1e-20 at n = 4096",
            where=where,
            paper="1e-20",
            ours=said("12 slices", top),
            setup=setup,
            verdict=verdict_of(min(twelve) < 2e-20 if known else None),
        ),
        Claim(
            sentence="9 slices lose accuracy between n = 512 and n = 1024, here by a factor of 100 "
            "or more",
            where=where,
            paper="1e-21 and 1e-17 (how many slices is hard to read)",
            ours=said("9 slices", *([n for n in sizes if n in (512, 1024, 2048)] or [top])),
            setup=setup,
            verdict=verdict_of(nine_claim),
        ),
        Claim(
            sentence="More slices make the error smaller: 12 against 9 at the largest n",
            where=where,
            paper="smaller",
            ours=f"9 slices, {said('9 slices', top)}; 12 slices, {said('12 slices', top)}",
            setup=setup,
            verdict=verdict_of(
                all(x < y for x, y in zip(twelve, nine, strict=True)) if top >= 2048 else None
            ),
        ),
        Claim(
            sentence="The blocked product has errors of 1e-17 at n = 256 and 1e-15 at n = 4096, "
            "to a factor of ten",
            where=where,
            paper="1e-17 and 1e-15",
            ours=said("blocked", sizes[0], top),
            setup=setup,
            verdict=verdict_of(small_claim),
        ),
        Claim(
            sentence="12 slices are more accurate than the blocked product by orders of magnitude",
            where="section 6",
            paper="1e-20 against 1e-17 to 1e-14",
            ours=f"n = {top}: {min(y / x for x, y in zip(twelve, plain, strict=True)):.0f} times "
            "or more",
            setup=setup,
            verdict=verdict_of(
                all(100 * x <= y for x, y in zip(twelve, plain, strict=True))
                if top >= 2048
                else None
            ),
        ),
    ]


# ── without the products of lowest order ─────────────────────────────────────

ORDERS = (12, 13, 14, 15, None)


def fewer_products(setting: Setting) -> Outcome:
    """Errors of 9 to 12 slices by how many orders of products are computed, added by weight."""
    n = setting.choose(4096, full=4096, quick=64)
    m, columns = setting.choose((16, 64), full=(4096, 4096), quick=(4, 8))
    rows: list[list[Any]] = []
    for done, kind in enumerate(KINDS):
        a, b = (KINDS[kind](setting, s, at) for at, s in ((1, (m, n)), (2, (n, columns))))
        exact = quad_product(a, b)
        for at, slices in enumerate(COUNTS):
            setting.progress((done + at / len(COUNTS)) / len(KINDS))
            cut = slice_matrix(tuple(a), slices, 1), slice_matrix(tuple(b), slices, 0)
            for orders in ORDERS:
                run = partial(multiply_sliced, *cut, "weights", orders)
                largest, median, _ = errors(run(), exact)
                timed = slices == COUNTS[-1] and kind == FILLED
                repeats = 3 if setting.gpu else 5
                seconds = setting.seconds(run, repeats, warm_ups=0) if timed else None
                products = len(kept_products(slices, orders))
                rows.append([kind, slices, orders, products, largest, median, seconds])
        setting.machine.free()
    panels = [
        Panel(
            kind,
            "products of slices",
            "largest relative error",
            [
                Series(
                    f"{slices} slices",
                    [row[3] for row in rows if row[:2] == [kind, slices]],
                    [row[4] for row in rows if row[:2] == [kind, slices]],
                )
                for slices in COUNTS
            ],
            log_y=True,
        )
        for kind in KINDS
    ]
    remark = (
        f"n = {n}, {m * columns:,} elements. Products of slices i and j, counted from 0, are left "
        "out if i + j is not below the number of orders; a dash is all of them. They are added by "
        "i + j. Seconds are of products and sums."
    )
    shown = ["numbers", "slices", "orders", "products", "largest relative error", "median",
             "seconds"]  # fmt: skip
    setup = f"n = {n}, {m * columns:,} elements, one draw"
    claims = products_claims(rows, setup, whole=m == columns == n)
    return Outcome(shown, rows, claims, Figure(panels), [remark])


def products_claims(rows: list[list[Any]], setup: str, whole: bool) -> list[Claim]:
    """Rows (numbers, slices, orders, products, largest error, median, seconds).

    The largest error of some elements decides nothing: at n = 4096 15 orders are enough for 1,024
    elements, and not for all.
    """
    most = COUNTS[-1]
    complete = {row[0]: row for row in rows if row[1] == most and row[2] is None}
    enough = [
        orders
        for orders in ORDERS
        if orders is not None
        and all(
            row[4] <= 2 * complete[row[0]][4] for row in rows if row[1] == most and row[2] == orders
        )
    ]
    products = {row[2]: row[3] for row in rows if row[1] == most}
    seconds = {row[2]: row[6] for row in rows if row[1] == most and row[6] is not None}
    tried = [orders for orders in ORDERS if orders is not None]
    best = enough[0] if enough else tried[-1]
    of_best = [row for row in rows if row[1:3] == [most, best]]
    said = "" if enough else f"none of {', '.join(map(str, tried))} orders is enough; "
    said += f"{best} orders, {products[best]} of {products[None]} products, "
    said += f"{seconds[best] / seconds[None]:.2f} of the time: largest errors " + " and ".join(
        f"{row[4]:.1e} for {complete[row[0]][4]:.1e}" for row in of_best
    )
    said += ", medians " + " and ".join(
        f"{row[5]:.1e} for {complete[row[0]][5]:.1e}" for row in of_best
    )
    return [
        Claim(
            sentence=f"Products of lowest order can be left out of {most} slices without more than "
            "twice the largest error",
            where="section 6, future work: a faster scheme",
            paper="not tried",
            ours=said,
            setup=f"{setup}; {' and '.join(KINDS)}",
            verdict=verdict_of(bool(enough) if whole else None),
            future=True,
        )
    ]
