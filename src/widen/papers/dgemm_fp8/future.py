"""What paper 004 leaves for the future: an automatic inner block, and FP8 with 66 products."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from operator import matmul
from typing import Any

import widen
from widen.papers.arrays import relative_error
from widen.papers.dgemm_fp8.algorithm import (
    automatic_block,
    dgemm_fp8_groups,
    dgemm_fp8tc,
    dgemm_fp16tc,
    minimum_products,
)
from widen.papers.dgemm_fp8.inputs import COUNTED, notes, uniform
from widen.papers.items import Claim, Figure, Outcome, Panel, Series, Setting, lines, verdict_of
from widen.papers.ozimmu.algorithm import products


def automatic(setting: Setting) -> Outcome:
    """Times over the length of inner blocks, and the length that is chosen without measuring."""
    m = setting.choose(64, full=4096, quick=8)
    depths = setting.choose([2048, 8192], full=[8192, 65536], quick=[512, 1024])
    seconds: Times = {}
    chosen = {}
    place = "gpu" if setting.gpu else "cpu"
    for at, k in enumerate(depths):
        a, b = uniform(setting, (m, k), 2, k), uniform(setting, (k, m), 2, k + 1)
        chosen[k] = automatic_block(k, place=place)
        powers = {1 << i for i in range(8, k.bit_length())}
        for size in sorted(powers | {chosen[k]}):
            run = partial(dgemm_fp16tc, a, b, k_block=size)
            run()
            seconds[k, size] = min(setting.machine.seconds(run) for _ in range(2))
        setting.machine.free()
        setting.progress((at + 1) / len(depths))
    rows: list[list[Any]] = [
        [k, size, minimum_products("fp16", "fp32", size), 1e3 * x, size == chosen[k]]
        for (k, size), x in seconds.items()
    ]
    shown = []
    for k in depths:
        own = [(size, 1e3 * x) for (depth, size), x in seconds.items() if depth == k]
        marks = ["auto" if size == chosen[k] else "" for size, _ in own]
        shown.append(Series(f"k = {k}", [x for x, _ in own], [y for _, y in own], "line", marks))
    panel = Panel(f"m = n = {m}", "k_bk", "time in ms", shown, log_x=True, log_y=True)
    claims = automatic_claims(
        seconds, chosen, setting.gpu and setting.full, f"m = n = {m}, best of 2"
    )
    columns = ["k", "k_bk", "products a block", "ms", "automatic"]
    return Outcome(columns, rows, claims, Figure([panel], 1), notes(setting, COUNTED))


Times = dict[tuple[int, int], float]
"""Seconds by k and block."""


def automatic_claims(
    seconds: Times, chosen: dict[int, int], decided: bool, setup: str
) -> list[Claim]:
    """The automatic block against the best of those that were measured, and against none."""
    best = {k: min(x for (depth, _), x in seconds.items() if depth == k) for k in chosen}
    slower = {k: seconds[k, size] / best[k] for k, size in chosen.items()}
    whole = {k: seconds[k, k] / seconds[k, size] for k, size in chosen.items()}
    said = "; ".join(
        f"k = {k}: {chosen[k]}, {slower[k]:.2f} of the best time, {whole[k]:.2f} times as fast as "
        "one block"
        for k in chosen
    )
    return [
        Claim(
            sentence="An automatic inner block (the paper has none) takes the time of the best one",
            where="our addition to section 4.3",
            paper="–",
            ours=said,
            setup=setup,
            verdict=verdict_of(max(slower.values()) <= 1.1 if decided else None),
            future=True,
        )
    ]


SLICES = 11
FEWER = products(SLICES)

VERSIONS: dict[str, Callable[[Any, Any], Any]] = {
    "ordinary product": matmul,
    "FP16TC": dgemm_fp16tc,
    "FP8TC": dgemm_fp8tc,
    "FP8 in groups": partial(dgemm_fp8_groups, slices=SLICES),
}


def groups(setting: Setting) -> Outcome:
    """Rates and errors of FP8 in fast mode and in groups, beside the paper's versions."""
    sizes = setting.choose((32, 64, 128), full=(1024, 2048, 4096, 8192, 16384), quick=(16, 32))
    rate: dict[tuple[str, int], float] = {}
    errors: dict[tuple[str, int], float] = {}
    for at, m in enumerate(sizes):
        a, b = (uniform(setting, (m, m), 2, m + s) for s in (0, 1))
        exact = widen.matmul(a, b, accuracy="correct")
        for name, run in VERSIONS.items():
            kept: list[Any] = []
            call = partial(_keep, kept, run, a, b)
            turns = range(3 if m < 16384 else 1)  # the first of each version compiles
            rate[name, m] = 2e-12 * m**3 / min(setting.machine.seconds(call) for _ in turns)
            errors[name, m] = max(relative_error(kept[0], exact), 2.0**-54)
            setting.machine.free()
        setting.progress((at + 1) / len(sizes))
    rows: list[list[Any]] = []
    for m in sizes:
        counts = (None, *(minimum_products(x, "fp32", m) for x in ("fp16", "fp8")), FEWER)
        rows += [[m, name, count, rate[name, m], errors[name, m]]
                 for name, count in zip(VERSIONS, counts, strict=True)]  # fmt: skip
    panels = [
        Panel(
            title, "m = n = k", unit,
            lines(list(VERSIONS), [[m, *(values[name, m] for name in VERSIONS)] for m in sizes],
                  "dashed"),
            log_x=True, log_y=True,
        )
        for title, unit, values in (
            ("Rate", "TFLOP/s of 2m³", rate),
            ("Against the correctly rounded product", "largest relative error", errors),
        )
    ]  # fmt: skip
    claims = group_claims(rate, errors, setting.gpu and setting.full)
    columns = ["m", "version", "products", "TFLOP/s", "largest relative error"]
    remark = f"{SLICES} slices to nearest with one shift a line, {FEWER} products."
    return Outcome(columns, rows, claims, Figure(panels), notes(setting, remark, COUNTED))


def _keep(kept: list[Any], run: Callable[[Any, Any], Any], a: Any, b: Any) -> None:
    kept[:] = [run(a, b)]


def group_claims(
    rate: dict[tuple[str, int], float], errors: dict[tuple[str, int], float], decided: bool
) -> list[Claim]:
    """FP8 with half of the products: whether it is as accurate as FP64, and faster than FP16."""
    sizes = sorted({m for _, m in rate})
    worse = max(errors["FP8 in groups", m] / errors["ordinary product", m] for m in sizes)
    gains = {
        other: rate["FP8 in groups", sizes[-1]] / rate[other, sizes[-1]]
        for other in ("FP8TC", "FP16TC")
    }
    about = partial(
        Claim,
        where="our answer to the conclusion's future work",
        paper="–",
        setup=f"m = {', '.join(map(str, sizes))}, one draw of each",
        future=True,
    )
    return [
        about(
            sentence="FP8 in fast mode with group-wise sums errs no more than an FP64 product",
            ours=f"at most {worse:.2g} times its largest relative error",
            verdict=verdict_of(worse <= 1),
        ),
        about(
            sentence="It is faster than DGEMM-FP8TC and than DGEMM-FP16TC",
            ours=", ".join(f"{x:.2f} times {name}" for name, x in gains.items())
            + f" at m = {sizes[-1]}",
            verdict=verdict_of(min(gains.values()) > 1 if decided else None),
        ),
    ]
