"""Paper 004's Table 3 and figures 2 to 5."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from operator import matmul
from typing import Any

import widen
from widen.papers.arrays import relative_error
from widen.papers.dgemm_fp8.algorithm import INPUTS, dgemm_fp8tc, dgemm_fp16tc, minimum_products
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

STAGES = {"slicing": ("split_left", "split_right"), "GEMM": ("multiply",), "accumulation": ("sum",)}

VERSIONS: dict[str, Callable[..., Any]] = {
    "FP16TC": dgemm_fp16tc,
    "FP16TC, FP64emu": partial(dgemm_fp16tc, fp64emu=True),
    "FP8TC": dgemm_fp8tc,
    "FP8TC, FP64emu": partial(dgemm_fp8tc, fp64emu=True),
    "FP8TC, digits 16 and 8": partial(dgemm_fp8tc, digits=(16, 8)),
}

COUNTED = (
    "Inputs are uniform in (1, 2), whose products Table 3 counts; the paper's, uniform in (1, 10), "
    "fill three bits more and would need one slice more by its own equations."
)


def uniform(setting: Setting, shape: tuple[int, int], top: float, stream: int) -> Any:
    """Return numbers uniform in (1, top)."""
    return 1 + (top - 1) * (setting.random(shape, 0.0, stream) + 0.5)


def table3(setting: Setting) -> Outcome:
    """Every cell by our own formulas, and some cells by running them."""
    ours = minimum_products()
    rows = [[k, *row, ours[k] == row] for k, row in TABLE_3.items()]
    wrong = sum(x != y for k, row in TABLE_3.items() for x, y in zip(row, ours[k], strict=True))
    ran = []
    for at, k in enumerate((64, 1024, 4096, 16384)):
        a, b = uniform(setting, (2, k), 2, k), uniform(setting, (k, 2), 2, k + 1)
        for name, run in (("fp16", dgemm_fp16tc), ("fp8", dgemm_fp8tc)):
            ran.append(run(a, b, info=True)[1].products[0] == minimum_products(name, "fp32", k))
        setting.progress((at + 1) / 4)
    claims = [
        Claim(
            sentence="Minimum number of products, 96 cells",
            where="table 3",
            paper="Table 3",
            ours=f"{wrong} differ",
            setup="sizes as in the table",
            verdict=verdict_of(not wrong),
        ),
        Claim(
            sentence="Full mantissas of one magnitude need so many",
            where="table 3",
            paper="FP16 and FP8, FP32 accumulation",
            ours=f"{sum(ran)} of {len(ran)} sizes",
            setup="sizes as in the table",
            verdict=verdict_of(all(ran)),
        ),
    ]
    columns = ["k", *(f"{x.upper()} / {y.upper()}" for x, y in INPUTS), "ours is equal"]
    panel = Panel(
        "Minimum number of products", "log2 k", "products",
        [Series(f"{x.upper()}, {y.upper()} sums", range(3, 19), [row[i] for row in ours.values()])
         for i, (x, y) in enumerate(INPUTS)],
        log_y=True,
    )  # fmt: skip
    return Outcome(columns, rows, claims, Figure([panel], 1), ["A dash: no slice holds a bit."])


def figure2(setting: Setting) -> Outcome:
    """Rates over m; the best of three executions, as in the paper."""
    sizes = setting.choose((64, 128, 256), full=(1024, 2048, 4096, 8192, 16384), quick=(16, 32))
    rows: list[list[Any]] = []
    for at, m in enumerate(sizes):
        a, b = (uniform(setting, (m, m), 2, m + s) for s in (0, 1))
        runs = [partial(run, a, b) for run in (matmul, *VERSIONS.values())]
        for run in () if at else runs:
            run()  # compiles
        best = [min(setting.machine.seconds(run) for _ in range(3)) for run in runs]
        rows.append([m, *(2 * m**3 / seconds / 1e9 for seconds in best)])
        setting.machine.free()
        setting.progress((at + 1) / len(sizes))
    names = ["ordinary product", *VERSIONS]
    last = dict(zip(names, rows[-1][1:], strict=True))
    decided = setting.gpu and setting.full
    best8 = max(last["FP8TC"], last["FP8TC, digits 16 and 8"])
    slower = last["FP8TC, FP64emu"] / last["FP8TC"], last["FP16TC, FP64emu"] / last["FP16TC"]
    claims = [
        Claim(
            sentence=f"FP8TC is faster than FP16TC for large m ({sizes[-1]} here)",
            where="section 5, figure 2",
            paper="1.26 times at 16384",
            ours=f"{best8 / last['FP16TC']:.2f} times",
            setup="sizes as in the table",
            verdict=verdict_of(best8 > last["FP16TC"] if decided else None),
        ),
        Claim(
            sentence="FP64emu costs little",
            where="section 5, figure 2",
            paper="modest degradation",
            ours=f"{slower[0]:.2f} (FP8) and {slower[1]:.2f} (FP16) of the rate without it",
            setup="sizes as in the table",
            verdict=verdict_of(min(slower) > 0.7 if decided else None),
        ),
    ]
    panel = Panel(
        "FP64-equivalent rate", "m = n = k", "GFLOP/s of 2m³",
        lines(names, rows, "dashed"),
        log_x=True, log_y=True,
    )  # fmt: skip
    return Outcome(["m", *(f"{name}, GFLOP/s" for name in names)], rows, claims,
                   Figure([panel], 1), [COUNTED])  # fmt: skip


def figure3(setting: Setting) -> Outcome:
    """Accuracy over m, with and without blocks of the inner dimension."""
    sizes = setting.choose((64, 128, 256), full=(1024, 2048, 4096, 8192), quick=(32, 64))
    block = setting.choose(64, full=1024, quick=16)
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
        a, b = (uniform(setting, (m, m), 10, m + s) for s in (0, 1))
        exact = widen.matmul(a, b, accuracy="correct")
        rows.append([m, *(relative_error(run(a, b), exact) for run in versions.values())])
        for run in (dgemm_fp16tc, dgemm_fp8tc):
            same &= bool((run(a, b) == run(a, b, fp64emu=True)).all())
        setting.machine.free()
        setting.progress((at + 1) / len(sizes))
    worst = max(max(row[2:4]) / row[1] for row in rows)
    blocked = max(max(row[4:]) / row[1] for row in rows)
    grown = min(max(row[4:]) / max(row[2:4]) for row in rows if row[0] > block)
    claims = [
        Claim(
            sentence="Errors are equivalent to, or lower than, those of an FP64 product",
            where="section 5, figure 3",
            paper="at most equal",
            ours=f"at most {worst:.2g} times; {blocked:.2g} times with blocks",
            setup="sizes as in the table",
            verdict=verdict_of(worst <= 1 and blocked <= 1),
        ),
        Claim(
            sentence="Blocks of the inner dimension increase the error",
            where="section 5, figure 3",
            paper="larger",
            ours=f"at least {grown:.2g} times, where there is more than one block",
            setup="sizes as in the table",
            verdict=verdict_of(grown >= 1),
        ),
        Claim(
            sentence="FP64emu has the same bits",
            where="section 5, figure 3",
            paper="bitwise identical",
            ours="identical" if same else "not",
            setup="sizes as in the table",
            verdict=verdict_of(same),
        ),
    ]
    panel = Panel(
        "Against the correctly rounded product", "m = n = k", "largest relative error",
        lines(list(versions), rows, "dashed"),
        log_x=True, log_y=True,
    )  # fmt: skip
    return Outcome(["m", *versions], rows, claims, Figure([panel], 1),
                   ["Inputs are uniform in (1, 10), as in the paper."])  # fmt: skip


def staged(run: Callable[..., Any]) -> tuple[Any, list[float]]:
    """What a call says of itself, and the paper's stages in ms; the better of two executions."""
    ran = min((run(info=True)[1] for _ in range(2)), key=lambda ran: sum(ran.seconds.values()))
    return ran, [1e3 * sum(ran.seconds[part] for part in parts) for parts in STAGES.values()]


def figure4(setting: Setting) -> Outcome:
    """Where the time goes, version by version."""
    sizes = setting.choose((128, 256), full=(2048, 4096, 8192, 16384), quick=(16, 32))
    rows: list[list[Any]] = []
    panels = []
    for at, m in enumerate(sizes):
        a, b = (uniform(setting, (m, m), 2, m + s) for s in (0, 1))
        times = {}
        for name, run in VERSIONS.items():
            times[name] = staged(partial(run, a, b))[1]
            rows.append([m, name, *times[name]])
        panels.append(stacked(f"m = n = k = {m}", times))
        setting.machine.free()
        setting.progress((at + 1) / len(sizes))
    shares = [row[3] / sum(row[2:]) for row in rows if row[0] == sizes[-1]]
    claim = Claim(
        sentence="For large problems the products take most of the time",
        where="section 5, figure 4",
        paper="most of it at m = 16384",
        ours=f"{min(shares):.0%} or more at m = {sizes[-1]}",
        setup="sizes as in the table",
        verdict=verdict_of(min(shares) > 0.5 if setting.gpu and setting.full else None),
    )
    return Outcome(["m", "version", *(f"{stage}, ms" for stage in STAGES)], rows, [claim],
                   Figure(panels), [COUNTED])  # fmt: skip


def stacked(title: str, times: dict[str, list[float]]) -> Panel:
    """Return a panel of bars of the three stages."""
    names = [name.replace(", ", "\n") for name in times]
    return Panel(
        title, "", "time in ms",
        [Series(stage, names, [time[i] for time in times.values()], "stack")
         for i, stage in enumerate(STAGES)],
    )  # fmt: skip


def figure5(setting: Setting) -> Outcome:
    """Blocks of the inner dimension, with much and with little memory."""
    m, k = setting.choose((64, 16384), full=(16384, 16384), quick=(16, 16384))
    blocks = (1024, 2048, 4096, 8192, 16384)
    a, b = uniform(setting, (m, k), 2, 1), uniform(setting, (k, m), 2, 2)
    rows: list[list[Any]] = []
    panels = []
    memories = setting.choose(["8GB", "8MB"], full=["8GB", "1GB"], quick=["8GB"])
    for at, memory in enumerate(memories):
        times = {}
        for step, size in enumerate(blocks):
            how: dict[str, Any] = {"k_block": size, "memory": memory}
            ran, times[f"{size}"] = staged(partial(dgemm_fp16tc, a, b, **how))
            rows.append([memory, size, ran.products[0], ran.block[0], *times[f"{size}"]])
            setting.progress((at + (step + 1) / len(blocks)) / len(memories))
        panel = stacked(f"Working memory {memory}", times)
        panels.append(Panel(panel.title, "k_bk", panel.y_label, panel.series))
    counts = {row[1]: row[2] for row in rows}
    products = tuple(counts[size] for size in (1024, 4096, 16384))
    best = {
        memory: min((row for row in rows if row[0] == memory), key=lambda row: sum(row[4:]))[1]
        for memory in memories
    }
    costs = [row[6] for row in rows[: len(blocks)]]
    claims = [
        Claim(
            sentence="Products a block for k_bk = 1024, 4096, 16384",
            where="section 5, figure 5",
            paper="49, 64, 81",
            ours=", ".join(map(str, products)),
            setup="sizes as in the table",
            verdict=verdict_of(products == (49, 64, 81)),
        ),
        Claim(
            sentence="Smaller blocks cost less in products and more in accumulation",
            where="section 5, figure 5",
            paper="so",
            ours=f"accumulation {costs[0]:.3g} ms at 1024, {costs[-1]:.3g} ms at 16384",
            setup="sizes as in the table",
            verdict=verdict_of(costs[0] > costs[-1]),
        ),
        Claim(
            sentence="The best block size is 4096",
            where="section 5, figure 5",
            paper="4096, with 8 GB and with 1 GB",
            ours=", ".join(f"{size} with {memory}" for memory, size in best.items()),
            setup="sizes as in the table",
            verdict=verdict_of(
                set(best.values()) == {4096} if setting.gpu and setting.full else None
            ),
        ),
    ]
    columns = ["memory", "k_bk", "products a block", "outer block", *(f"{s}, ms" for s in STAGES)]
    return Outcome(columns, rows, claims, Figure(panels), [f"m = n = {m}, k = {k}.", COUNTED])


ITEMS = [
    Item("004-table3", "004", "Minimum number of products for DGEMM on tensor cores",
         "By input and accumulation format and inner dimension; a dash where it cannot be done.",
         table3),
    Item("004-fig2", "004", "Rate of DGEMM-FP8TC and DGEMM-FP16TC",
         "FP8 overtakes FP16 from m = 8192 on; emulating FP64 costs little.", figure2),
    Item("004-fig3", "004", "Accuracy of DGEMM-FP8TC and DGEMM-FP16TC",
         "As accurate as an FP64 product or more; blocks of k cost some of it.", figure3),
    Item("004-fig4", "004", "Where the time of DGEMM-FP8TC and DGEMM-FP16TC goes",
         "Products take most of the time of large problems.", figure4),
    Item("004-fig5", "004", "Blocks of the inner dimension in DGEMM-FP16TC",
         "Fewer products, more accumulation; 4096 is best.", figure5),
]  # fmt: skip
