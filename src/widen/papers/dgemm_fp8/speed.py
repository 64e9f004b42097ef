"""Paper 004's figures of speed: raw products, rates, stages, blocks of the inner dimension."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from operator import matmul
from typing import Any

from widen.papers.dgemm_fp8.algorithm import dgemm_fp16tc
from widen.papers.dgemm_fp8.inputs import COUNTED, VERSIONS, notes, uniform
from widen.papers.items import Claim, Figure, Outcome, Panel, Series, Setting, lines, verdict_of
from widen.papers.ozimmu.items import GPUS, SPECIFICATIONS
from widen.papers.rates import ORDINARY, on_hopper, raw_rate, row_of

STAGES = {"slicing": ("split_left", "split_right"), "GEMM": ("multiply",), "accumulation": ("sum",)}

PEAKS = {
    name: SPECIFICATIONS[row_of(name, True)][GPUS.index("GH200")] or 0.0
    for name in ("FP64", "FP32", "FP16", "FP8")
}
"""Of a GH200, H100 or H200, TFLOP/s (paper 002, table 1)."""


def figure1(setting: Setting) -> Outcome:
    """Rates of raw products over m, with k = m and with short k."""
    sizes = setting.choose((128, 256, 512), full=(1024, 2048, 4096, 8192, 16384), quick=(32, 64))
    short = setting.choose((32, 128), full=(256, 1024), quick=(16,))
    whole = [*ORDINARY, *(("FP16", "FP8", "FP8, our kernel") if setting.gpu else ())]
    cut = ("FP16", "FP8") if setting.gpu else ("FP32",)
    cases: list[tuple[str, int | None]] = [(name, None) for name in whole]
    cases += [(name, k) for name in cut for k in short]
    rate: Rates = {}
    for at, m in enumerate(sizes):
        for name, k in cases:
            rate[name, k, m] = raw_rate(setting, name, m, k or m)
        setting.machine.free()
        setting.progress((at + 1) / len(sizes))
    labels = [f"{name}, k = {k or 'm'}" for name, k in cases]
    rows: list[list[Any]] = [[m, *(rate[name, k, m] for name, k in cases)] for m in sizes]
    panel = Panel("Raw products", "m = n", "TFLOP/s", lines(labels, rows), log_x=True, log_y=True)
    claims = raw_claims(rate, setting.gpu and setting.full, on_hopper(setting))
    return Outcome(["m", *labels], rows, claims, Figure([panel], 1), notes(setting))


Rates = dict[tuple[str, int | None, int], float]
"""TFLOP/s by format, inner dimension (None: as m) and m."""


def raw_claims(rate: Rates, decided: bool, hopper: bool) -> list[Claim]:
    """Section 5.2, and the peak that it has measured products approach."""
    m = max(size for _, _, size in rate)
    shares = {name: rate[name, None, m] / PEAKS[name] for name in PEAKS if (name, None, m) in rate}
    drops = {k: x / rate["FP16", None, m] for (name, k, size), x in rate.items()
             if (name, size) == ("FP16", m) and k}  # fmt: skip
    about = partial(Claim, where="section 5.2, figure 1", setup=f"m = n = {m}, best of 3")
    return [
        about(
            sentence="Large products approach the theoretical peak",
            paper="approach it, in every format",
            ours=", ".join(f"{name} {x:.0%}" for name, x in shares.items())
            + " of a GH200's peak; 80 % counts"
            if hopper
            else "a GPU whose peaks are not in the table",
            verdict=verdict_of(min(shares.values()) >= 0.8 if decided and hopper else None),
        ),
        about(
            sentence="FP16: almost no drop for k = 1024, a decrease for k = 256",
            paper="almost none, some",
            ours=", ".join(f"{x:.0%} of the rate with k = m for k = {k}" for k, x in drops.items())
            + "; 90 % counts as almost none"
            if drops
            else "no FP16 unit here",
            verdict=verdict_of(drops[1024] >= 0.9 > drops[256] if decided else None),
        ),
    ]


def executions(m: int, most: int) -> int:
    """How often a product is timed: once less where it takes a second."""
    return most if m < 16384 else most - 1


def figure2(setting: Setting) -> Outcome:
    """Rates over m; the best of three executions, as in the paper, of two at its largest m."""
    sizes = setting.choose((32, 64, 128), full=(1024, 2048, 4096, 8192, 16384), quick=(16, 32))
    rows: list[list[Any]] = []
    for at, m in enumerate(sizes):
        a, b = (uniform(setting, (m, m), 2, m + s) for s in (0, 1))
        runs = [partial(run, a, b) for run in (matmul, *VERSIONS.values())]
        for run in () if at else runs:
            run()  # compiles
        turns = range(executions(m, 3))
        best = [min(setting.machine.seconds(run) for _ in turns) for run in runs]
        rows.append([m, *(2 * m**3 / seconds / 1e9 for seconds in best)])
        setting.machine.free()
        setting.progress((at + 1) / len(sizes))
    names = ["ordinary product", *VERSIONS]
    rate = {(name, row[0]): x for row in rows for name, x in zip(names, row[1:], strict=True)}
    claims = rate_claims(rate, setting.gpu and setting.full)
    panel = Panel(
        "FP64-equivalent rate", "m = n = k", "GFLOP/s of 2m³", lines(names, rows, "dashed"),
        log_x=True, log_y=True,
    )  # fmt: skip
    columns = ["m", *(f"{name}, GFLOP/s" for name in names)]
    return Outcome(columns, rows, claims, Figure([panel], 1), notes(setting, COUNTED))


def rate_claims(rate: dict[tuple[str, int], float], decided: bool) -> list[Claim]:
    """Section 5.4 on rates by version and m; FP8 in the faster of its two ways."""
    sizes = sorted({m for _, m in rate})
    large = [m for m in sizes if m >= 8192] or sizes[-1:]
    gain = {
        m: max(rate["FP8TC", m], rate["FP8TC, digits 16 and 8", m]) / rate["FP16TC", m]
        for m in large
    }
    kept = [rate[f"{name}, FP64emu", m] / rate[name, m] for name in ("FP8TC", "FP16TC")
            for m in large]  # fmt: skip
    about = partial(
        Claim,
        where="section 5.4, figure 2",
        setup=", ".join(f"m = {m}, best of {executions(m, 3)}" for m in large),
    )
    return [
        about(
            sentence="DGEMM-FP8TC outperforms DGEMM-FP16TC for m ≥ 8192",
            paper="1.26 times at 16384",
            ours=", ".join(f"{x:.2f} times at {m}" for m, x in gain.items()),
            verdict=verdict_of(min(gain.values()) > 1 if decided else None),
        ),
        about(
            sentence="Emulating FP64 costs little",
            paper="modest degradation",
            ours=f"{min(kept):.2f} to {max(kept):.2f} of the rate without it; 0.8 counts as little",
            verdict=verdict_of(min(kept) >= 0.8 if decided else None),
        ),
    ]


def staged(run: Callable[..., Any], turns: int = 2) -> tuple[Any, list[float]]:
    """What a call says of itself, and the paper's stages in ms; the best of some executions."""
    ran = min((run(info=True)[1] for _ in range(turns)), key=lambda ran: sum(ran.seconds.values()))
    return ran, [1e3 * sum(ran.seconds[part] for part in parts) for parts in STAGES.values()]


def figure4(setting: Setting) -> Outcome:
    """Where the time goes, version by version."""
    sizes = setting.choose((64, 128), full=(2048, 4096, 8192, 16384), quick=(16, 32))
    rows: list[list[Any]] = []
    panels = []
    for at, m in enumerate(sizes):
        a, b = (uniform(setting, (m, m), 2, m + s) for s in (0, 1))
        times = {
            name: staged(partial(run, a, b), executions(m, 2))[1] for name, run in VERSIONS.items()
        }
        rows += [[m, name, *time] for name, time in times.items()]
        panels.append(stacked(f"m = n = k = {m}", times))
        setting.machine.free()
        setting.progress((at + 1) / len(sizes))
    claims = [stage_claim(rows, setting.gpu and setting.full)]
    columns = ["m", "version", *(f"{stage}, ms" for stage in STAGES)]
    return Outcome(columns, rows, claims, Figure(panels), notes(setting, COUNTED))


def stage_claim(rows: list[list[Any]], decided: bool) -> Claim:
    """Section 5.4 on large problems; rows are m, version and the ms of the three stages.

    Of the paper's versions: two kinds of digits are ours.
    """
    m = max(row[0] for row in rows)
    others = {
        row[1]: 1 - row[3] / sum(row[2:]) for row in rows if row[0] == m and "digits" not in row[1]
    }
    return Claim(
        sentence="For large problems slicing and accumulation are a small fraction of the time",
        where="section 5.4, figure 4",
        paper="a small fraction",
        ours=", ".join(f"{name.replace(',', ' with')} {x:.1%}" for name, x in others.items())
        + "; a quarter counts as small",
        setup=f"m = n = k = {m}, best of {executions(m, 2)}",
        verdict=verdict_of(max(others.values()) <= 0.25 if decided else None),
    )


def stacked(title: str, times: dict[str, list[float]], x_label: str = "") -> Panel:
    """Return a panel of bars of the three stages."""
    names = [name.replace(", ", "\n") for name in times]
    return Panel(
        title, x_label, "time in ms",
        [Series(stage, names, [time[i] for time in times.values()], "stack")
         for i, stage in enumerate(STAGES)],
    )  # fmt: skip


def figure5(setting: Setting) -> Outcome:
    """Blocks of the inner dimension, with much and with little memory."""
    m, k = setting.choose((32, 16384), full=(16384, 16384), quick=(16, 16384))
    blocks = (1024, 2048, 4096, 8192, 16384)
    a, b = uniform(setting, (m, k), 2, 1), uniform(setting, (k, m), 2, 2)
    rows: list[list[Any]] = []
    panels = []
    memories = setting.choose(["8GB", "8MB"], full=["8GB", "1GB"], quick=["8GB"])
    turns = 1 if setting.full else 2
    dgemm_fp16tc(a[:64], b[:, :64])  # compiles
    for at, memory in enumerate(memories):
        times = {}
        for step, size in enumerate(blocks):
            how: dict[str, Any] = {"k_block": size, "memory": memory}
            ran, times[f"{size}"] = staged(partial(dgemm_fp16tc, a, b, **how), turns)
            rows.append([memory, size, ran.products[0], ran.block[0], *times[f"{size}"]])
            setting.progress((at + (step + 1) / len(blocks)) / len(memories))
        panels.append(stacked(f"Working memory {memory}", times, "k_bk"))
    claims = block_claims(
        rows, setting.gpu and setting.full, f"m = n = {m}, k = {k}, best of {turns}"
    )
    columns = ["memory", "k_bk", "products a block", "outer block", *(f"{s}, ms" for s in STAGES)]
    remarks = notes(setting, f"m = n = {m}, k = {k}.", COUNTED)
    return Outcome(columns, rows, claims, Figure(panels), remarks)


def block_claims(rows: list[list[Any]], decided: bool, setup: str) -> list[Claim]:
    """Section 5.4 on blocks; rows are memory, block, products, outer block, ms of three stages."""
    counts = {row[1]: row[2] for row in rows}
    products = tuple(counts[size] for size in (1024, 4096, 16384))
    by_memory = {memory: [row for row in rows if row[0] == memory]
                 for memory in dict.fromkeys(row[0] for row in rows)}  # fmt: skip
    ends = {memory: (own[0], own[-1]) for memory, own in by_memory.items()}
    best = {m: min(own, key=lambda row: sum(row[4:]))[1] for m, own in by_memory.items()}
    less = all(small[5] < large[5] for small, large in ends.values())
    more = all(small[6] > large[6] for small, large in ends.values())
    said = "; ".join(
        f"{memory}: products {small[5]:.3g} and {large[5]:.3g} ms, accumulation {small[6]:.3g} "
        f"and {large[6]:.3g}"
        for memory, (small, large) in ends.items()
    )
    about = partial(Claim, where="section 5.4, figure 5", setup=setup)
    return [
        about(
            sentence="Products a block for k_bk = 1024, 4096, 16384",
            paper="49, 64, 81",
            ours=", ".join(map(str, products)),
            verdict=verdict_of(products == (49, 64, 81)),
        ),
        about(
            sentence="With smaller blocks products cost less and accumulation more",
            paper="so",
            ours=f"k_bk = 1024 and 16384: {said}",
            verdict=verdict_of(less and more if decided else None),
        ),
        about(
            sentence="The best block size is 4096",
            paper="4096, with 8 GB and with 1 GB",
            ours=", ".join(f"{size} with {memory}" for memory, size in best.items()),
            verdict=verdict_of(set(best.values()) == {4096} if decided else None),
        ),
    ]
