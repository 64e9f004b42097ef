"""Paper 004's tables, its figure of accuracy, and the list of its items."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from operator import matmul
from statistics import geometric_mean
from typing import Any

import widen
from widen.papers.arrays import relative_error
from widen.papers.dgemm_fp8 import future, speed
from widen.papers.dgemm_fp8.algorithm import (
    INPUTS,
    dgemm_fp8tc,
    dgemm_fp16tc,
    minimum_products,
)
from widen.papers.dgemm_fp8.inputs import uniform
from widen.papers.dgemm_fp8.software import dgemm_in_software
from widen.papers.items import (
    Claim,
    Figure,
    Item,
    Outcome,
    Panel,
    Series,
    Setting,
    lines,
    verdict_of,
)
from widen.papers.rates import measured_beside, on_hopper

TABLES_1_2: dict[str, tuple[float | None, ...]] = {
    "FP4 TC": (1080e3, 720e3, 189.48),
    "FP6 TC": (360e3, 360e3, 94.74),
    "FP8 TC": (360e3, 360e3, 94.74),
    "INT8 TC": (12e3, 360e3, None),
    "FP16 TC": (180e3, 180e3, 47.37),
    "TF32 TC": (90e3, 90e3, None),
    "FP32": (5760, 5760, 23.69),
    "FP64 TC": (100, 2880, 0.3701),
}
"""Tables 1 and 2: TFLOP/s or TOP/s of a GB300 NVL72, a GB200 NVL72 and an RTX 5060 Ti."""

TABLE_3: dict[int, tuple[int | None, ...]] = {
    8: (25, 121, 121, 121, 196, 196),
    16: (25, 196, 121, 196, 196, 196),
    32: (36, 196, 121, 196, 196, 196),
    64: (36, 324, 121, 324, 196, 324),
    128: (36, 324, 121, 324, 196, 324),
    256: (36, 729, 121, 729, 196, 729),
    512: (49, 729, 121, 729, 196, 729),
    1024: (49, 2809, 121, 2809, 196, 2809),
    2048: (64, 2809, 121, 2809, 196, 2809),
    4096: (64, None, 121, None, 196, None),
    8192: (81, None, 121, None, 196, None),
    16384: (81, None, 121, None, 196, None),
    32768: (121, None, 121, None, 196, None),
    65536: (121, None, 121, None, 196, None),
    131072: (196, None, 196, None, 196, None),
    262144: (196, None, 196, None, 196, None),
}
"""As printed; None is a dash."""


def tables1_2(setting: Setting) -> Outcome:
    """Tables 1 and 2, and the rates of raw products here."""
    measured, rows, setup = measured_beside(setting, TABLES_1_2)
    claims = ratio_claims(measured, on_hopper(setting), setup)
    columns = ["TFLOP/s or TOP/s", "GB300 NVL72", "GB200 NVL72", "RTX 5060 Ti", "measured here"]
    remark = f"The last column is measured here, {setup}."
    return Outcome(columns, rows, claims, remarks=[remark])


def ratio_claims(measured: dict[str, float], hopper: bool, setup: str) -> list[Claim]:
    """Section 1's ratio on an H100, and that of FP8 and FP16, which the scheme lives on.

    Within a fifth is the same.
    """
    some = "FP16" in measured
    sixteen = measured["FP16"] / measured["FP64"] if some else 0.0
    eight = max(measured["FP8"], measured["FP8, our kernel"]) / measured["FP16"] if some else 0.0
    missing = "no FP16 and FP8 units here"
    about = partial(Claim, setup=setup)
    return [
        about(
            sentence="With tensor cores FP16 is 29.5 times as fast as FP64 on an H100",
            where="section 1",
            paper="29.5; by paper 002's table 29 without FP64 tensor cores, 15 with them",
            ours=f"{sixteen:.1f} times" if some else missing,
            verdict=verdict_of(0.8 * 29.5 <= sixteen <= 1.2 * 29.5 if some and hopper else None),
        ),
        about(
            sentence="FP8 tensor cores have twice the throughput of FP16",
            where="sections 4.1 and 5.4, table 2",
            paper="94.74 and 47.37 TFLOP/s",
            ours=f"{eight:.2f} times" if some else missing,
            verdict=verdict_of(1.6 <= eight <= 2.4 if some else None),
        ),
    ]


def table3(setting: Setting) -> Outcome:
    """Every cell by our own formulas, and some cells of every column by running them."""
    ours = minimum_products()
    rows = [[k, *row, ours[k] == row] for k, row in TABLE_3.items()]
    sizes = setting.choose((8, 64, 512, 2048), full=(8, 64, 512, 2048), quick=(8, 64))
    ran: Ran = {}
    for at, k in enumerate(sizes):
        a, b = (setting.machine.fetch(uniform(setting, shape, 2, k + s))
                for s, shape in enumerate(((2, k), (k, 2))))  # fmt: skip
        exact = widen.matmul(a, b, accuracy="correct")
        for inputs, accumulate in INPUTS:
            if minimum_products(inputs, accumulate, k) is None or (k > 64 and accumulate == "fp16"):
                continue
            product, what = dgemm_in_software(a, b, inputs, accumulate, info=True)
            ran[inputs, accumulate, k] = what.products[0], relative_error(product, exact)
        setting.progress((at + 1) / len(sizes))
    claims = table_claims(ours, ran)
    columns = ["k", *(f"{x.upper()} / {y.upper()}" for x, y in INPUTS), "ours is equal"]
    panels = [
        Panel(
            f"Sums in {kind.upper()}", "log2 k", "products",
            [Series(x.upper(), range(3, 19), [row[i] for row in ours.values()])
             for i, (x, y) in enumerate(INPUTS) if y == kind],
            log_y=True,
        )
        for kind in ("fp32", "fp16")
    ]  # fmt: skip
    return Outcome(columns, rows, claims, Figure(panels), ["A dash: no slice holds a bit."])


Ran = dict[tuple[str, str, int], tuple[int, float]]
"""Products and largest relative error by Type2, Type3 and k."""


def table_claims(ours: dict[int, tuple[int | None, ...]], ran: Ran) -> list[Claim]:
    """Table 3 by the formulas, and what was multiplied in software with its formats."""
    cells = [(x, y) for k, row in TABLE_3.items() for x, y in zip(row, ours[k], strict=True)]
    wrong = sum(x != y for x, y in cells)
    column = {types: at for at, types in enumerate(INPUTS)}
    counted = sum(count == TABLE_3[k][column[x, y]] for (x, y, k), (count, _) in ran.items())
    worst = max(error for _, error in ran.values())
    sizes = sorted({k for _, _, k in ran})
    about = partial(Claim, setup=f"full mantissas in (1, 2), k = {', '.join(map(str, sizes))}")
    return [
        about(
            sentence="Minimum number of products by formats and inner dimension",
            where="table 3",
            paper="96 cells",
            ours=f"{wrong} of {len(cells)} differ, by equations 1 to 5",
            verdict=verdict_of(not wrong),
        ),
        about(
            sentence="Full mantissas of one magnitude need so many",
            where="section 4.1, table 3",
            paper="every column",
            ours=f"{counted} of {len(ran)} products that ran, all six columns",
            verdict=verdict_of(counted == len(ran)),
        ),
        about(
            sentence="Sums of slices' products in Type3 have no rounding error",
            where="section 3, equation 11",
            paper="none",
            ours=f"rounded term by term in software, results err by {worst:.1e} at most",
            verdict=verdict_of(worst <= 2.0**-51),
        ),
    ]


def figure3(setting: Setting) -> Outcome:
    """Accuracy over m, with and without blocks of the inner dimension."""
    sizes = setting.choose((32, 64, 128), full=(1024, 2048, 4096, 8192), quick=(32, 64))
    block = setting.choose(16, full=1024, quick=16)
    draws = setting.choose(3, full=3, quick=2)
    versions: dict[str, Callable[[Any, Any], Any]] = {
        "ordinary product": matmul,
        "FP16TC": dgemm_fp16tc,
        "FP8TC": dgemm_fp8tc,
        f"FP16TC, k_bk = {block}": partial(dgemm_fp16tc, k_block=block),
        f"FP8TC, k_bk = {block}": partial(dgemm_fp8tc, k_block=block),
    }
    rows: list[list[Any]] = []
    same = True
    for at, m in enumerate(sizes):
        errors: dict[str, list[float]] = {name: [] for name in versions}
        for draw in range(draws):
            a, b = (uniform(setting, (m, m), 10, 2 * draw + s) for s in (1, 2))
            exact = widen.matmul(a, b, accuracy="correct")
            for name, run in versions.items():  # the reference is rounded: no error is below this
                errors[name].append(max(relative_error(run(a, b), exact), 2.0**-54))
        rows.append([m, *(geometric_mean(own) for own in errors.values())])
        for run in (dgemm_fp16tc, dgemm_fp8tc):
            same &= bool((run(a, b) == run(a, b, fp64emu=True)).all())
        setting.machine.free()
        setting.progress((at + 1) / len(sizes))
    panel = Panel(
        "Against the correctly rounded product", "m = n = k", "largest relative error",
        lines(list(versions), rows, "dashed"),
        log_x=True, log_y=True,
    )  # fmt: skip
    claims = error_claims(rows, block, same, f"{draws} draws of each")
    remark = "Inputs are uniform in (1, 10), as in the paper; geometric means over draws."
    return Outcome(["m", *versions], rows, claims, Figure([panel], 1), [remark])


def error_claims(rows: list[list[Any]], block: int, same: bool, draws: str) -> list[Claim]:
    """Section 5.3; rows are m and the errors of FP64, FP16, FP8, and of both in blocks."""
    worst = max(max(row[2:]) / row[1] for row in rows)
    grown = [row[at + 2] / row[at] for row in rows if row[0] > block for at in (2, 3)]
    sizes = ", ".join(str(row[0]) for row in rows)
    about = partial(Claim, where="section 5.3, figure 3", setup=f"m = {sizes}, {draws}")
    return [
        about(
            sentence="Errors are equivalent to, or lower than, those of an FP64 product",
            paper="at most equal",
            ours=f"at most {worst:.2g} times, with and without blocks",
            verdict=verdict_of(worst <= 1),
        ),
        about(
            sentence="Blocks of the inner dimension increase the error",
            paper="larger",
            ours=f"{min(grown):.2f} to {max(grown):.2f} times where there is more than one block, "
            f"{geometric_mean(grown):.2f} in the geometric mean",
            verdict=verdict_of(geometric_mean(grown) > 1),
        ),
        about(
            sentence="FP64emu has the bits of the hardware",
            paper="bitwise identical",
            ours="identical" if same else "not identical",
            verdict=verdict_of(same),
        ),
    ]


ITEMS = [
    Item("004-table1-2", "004", "Specifications of Blackwell GPUs",
         "INT8 and FP64 fall behind FP8, which has twice the rate of FP16.", tables1_2),
    Item("004-table3", "004", "Minimum number of products for DGEMM on tensor cores",
         "By input and accumulation format and inner dimension; a dash where it cannot be done.",
         table3),
    Item("004-fig1", "004", "Rates of raw products, by format and inner dimension",
         "Large products approach the peak; k = 1024 costs little, k = 256 more.", speed.figure1),
    Item("004-fig2", "004", "Rate of DGEMM-FP8TC and DGEMM-FP16TC",
         "FP8 overtakes FP16 from m = 8192 on; emulating FP64 costs little.", speed.figure2),
    Item("004-fig3", "004", "Accuracy of DGEMM-FP8TC and DGEMM-FP16TC",
         "As accurate as an FP64 product or more; blocks of k cost some of it.", figure3),
    Item("004-fig4", "004", "Where the time of DGEMM-FP8TC and DGEMM-FP16TC goes",
         "Products take most of the time of large problems.", speed.figure4),
    Item("004-fig5", "004", "Blocks of the inner dimension in DGEMM-FP16TC",
         "Fewer products, more accumulation; 4096 is best.", speed.figure5),
    Item("004-future-blocks", "004", "Inner blocks chosen automatically (not in the paper)",
         "The paper sets block sizes by hand; here a model of one constant does.",
         future.automatic),
    Item("004-future-groups", "004", "FP8 in fast mode with group-wise sums (not in the paper)",
         "66 products instead of 121, by 002's methods, which the paper leaves for the future.",
         future.groups),
]  # fmt: skip
