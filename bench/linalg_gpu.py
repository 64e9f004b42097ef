"""widen.linalg on a GPU against PyTorch: `python bench/linalg_gpu.py`.

Medians of a few calls after one that compiles, ours right after PyTorch's, host and device
together. Solving is compared with `torch.linalg.inv`, since a proof needs an inverse; eigenvalues
in float64x2 with `torch.linalg.eigh`; LU in words counts 2n³/3 operations. `--check` fails where a
limit is passed. Rows go to bench/results/linalg-gpu.jsonl. `--profile` prints what the host did.
"""

from __future__ import annotations

import argparse
import cProfile
import io
import json
import pstats
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import torch

import widen
from widen.cli.machines import machine
from widen.cli.results import append, stamped

RESULTS = Path(__file__).parent / "results" / "linalg-gpu.jsonl"


@dataclass(frozen=True)
class Row:
    """A call of ours and PyTorch's, and its limit: a ratio of times, or a least TFLOP/s."""

    title: str
    ordinary: Callable[[], Any] | None
    ours: Callable[[], Any]
    limit: float
    flops: float = 0.0


def random(*shape: int) -> torch.Tensor:
    """Normal numbers on the GPU."""
    return torch.randn(*shape, dtype=torch.float64, device="cuda")


def conditioned(n: int, digits: int) -> torch.Tensor:
    """A matrix of condition number 10^digits."""
    u, v = (torch.linalg.qr(random(n, n))[0] for _ in range(2))
    return (u * torch.logspace(0, -digits, n, dtype=torch.float64, device="cuda")) @ v


def rows(n: int, large: int) -> Iterator[Row]:
    """The calls with limits, and some without (a limit of infinity)."""
    torch.manual_seed(1)
    linalg, b = widen.linalg, random(n, 1)
    matrices = {"Gaussian": random(n, n), "cond 1e8": conditioned(n, 8)}
    for (name, a), limit in zip(matrices.items(), (2.0, 3.0), strict=True):
        inverse = partial(torch.linalg.inv, a)
        yield Row(f"solve, {name}, n = {n}", inverse, partial(linalg.solve, a, b), limit)
    a = matrices["Gaussian"]
    inverse, many = partial(torch.linalg.inv, a), random(n, n)
    yield Row(f"solve, n right-hand sides, n = {n}", inverse, partial(linalg.solve, a, many), 8.0)
    yield Row(f"inv, n = {n}", inverse, partial(linalg.inv, a), 8.0)
    symmetric = a + a.T
    eigh = partial(torch.linalg.eigh, symmetric)
    ours = partial(linalg.eigvalsh, symmetric, dtype="float64x2")
    yield Row(f"eigvalsh, float64x2, n = {n}", eigh, ours, 2.0)
    a = random(large, large)
    ours = partial(linalg.lu_factor, a, dtype="float64x2")
    yield Row(f"lu_factor, float64x2, n = {large}", None, ours, 1.5, 2 * large**3 / 3)


def seconds(call: Callable[[], Any]) -> float:
    """How long a call takes, until its result is there."""
    torch.cuda.synchronize()
    started = time.perf_counter()
    call()
    torch.cuda.synchronize()
    return time.perf_counter() - started


def measured(row: Row, repeats: int) -> dict[str, Any]:
    """Seconds of both, and whether the limit holds."""
    first = seconds(row.ours)
    if row.ordinary is not None:
        seconds(row.ordinary)
    pairs = [
        (0.0 if row.ordinary is None else seconds(row.ordinary), seconds(row.ours))
        for _ in range(repeats)
    ]
    theirs, own = (median(times) for times in zip(*pairs, strict=True))
    found = {"row": row.title, "first_s": first, "torch_s": theirs, "widen_s": own}
    if row.flops:
        rate = row.flops / own / 1e12
        return found | {"tflops": rate, "limit": row.limit, "holds": rate >= row.limit}
    return found | {"ratio": own / theirs, "limit": row.limit, "holds": own <= row.limit * theirs}


def profiled(call: Callable[[], Any]) -> str:
    """What the host spent its time on, waiting for the device included."""
    profile = cProfile.Profile()
    profile.enable()
    call()
    torch.cuda.synchronize()
    profile.disable()
    text = io.StringIO()
    pstats.Stats(profile, stream=text).sort_stats("cumulative").print_stats(45)
    return text.getvalue()


def main() -> int:
    """Measure, print and keep rows."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--n", type=int, default=4096)
    parser.add_argument("--large", type=int, default=8192, help="n of lu_factor")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--rows", nargs="+", default=[""], help="those with one of these words")
    parser.add_argument("--profile", action="store_true")
    parser.add_argument("--check", action="store_true", help="fail if a limit is passed")
    parser.add_argument("--no-save", action="store_true", help="print, and append to no file")
    given = parser.parse_args()
    facts, started, broken = machine("cuda").facts(), time.perf_counter(), 0
    print(json.dumps(facts), flush=True)
    for row in rows(given.n, given.large):
        if not any(word in row.title for word in given.rows):
            continue
        found = measured(row, given.repeats)
        broken += not found["holds"]
        print(json.dumps(found), flush=True)
        if not given.no_save:
            append(RESULTS, stamped(found, facts, time.perf_counter() - started))
        if given.profile:
            print(profiled(row.ours), flush=True)
    return 1 if broken and given.check else 0


if __name__ == "__main__":
    sys.exit(main())
