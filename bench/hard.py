"""Speed on a GPU where many elements must be repaired: `python bench/hard.py`.

Prints a line for every family, contract and size, and appends it to bench/results/hard.jsonl:
milliseconds of `widen.matmul` (median of 10 after 3 warm-ups, by CUDA events), its ratio to `a @ b`
of torch in the same run, the share of elements repaired, and the stages of one call.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import torch

import widen
from widen.cli.machines import machine
from widen.cli.results import append, short, stamped

RESULTS = Path(__file__).parent / "results" / "hard.jsonl"
Tensor = torch.Tensor


def phi(shape: tuple[int, int], spread: float) -> Tensor:
    """(rand - 0.5) exp(spread randn)."""
    made = {"dtype": torch.float64, "device": "cuda"}
    return (torch.rand(shape, **made) - 0.5) * torch.exp(spread * torch.randn(shape, **made))


def grades(shape: tuple[int, int], limit: int) -> Tensor:
    """Random powers of two, up to 2^limit and down to its inverse."""
    exponents = torch.randint(-limit, limit + 1, shape, device="cuda")
    return ((exponents + 1023) << 52).view(torch.float64)


def spread(n: int) -> tuple[Tensor, Tensor]:
    """Exponents all over: three elements in four are not certified."""
    return phi((n, n), 4.0), phi((n, n), 4.0)


def graded(n: int) -> tuple[Tensor, Tensor]:
    """Rows, columns and inner dimension graded against each other."""
    a = phi((n, n), 0.5) * grades((n, 1), 300) * grades((1, n), 200)
    return a, phi((n, n), 0.5) * grades((n, 1), 200) * grades((1, n), 300)


def huge(rows: int) -> Callable[[int], tuple[Tensor, Tensor]]:
    """Some rows have a number far above all others, where columns are small."""

    def make(n: int) -> tuple[Tensor, Tensor]:
        a, b = phi((n, n), 0.5), phi((n, n), 0.5)
        a[:rows, 7] *= 1e200
        b[7] *= 1e-200
        return a, b

    return make


FAMILIES = {
    "phi = 4, standard": (spread, "standard"),
    "phi = 4, correct": (spread, "correct"),
    "graded, standard": (graded, "standard"),
    "graded, correct": (graded, "correct"),
    "one huge row, standard": (huge(1), "standard"),
    "32 huge rows, standard": (huge(32), "standard"),
}


def timed(work: Callable[[], Any], repeats: int) -> float:
    """Median milliseconds of a call."""
    times = []
    for turn in range(repeats + 3):
        start, stop = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        work()
        stop.record()
        stop.synchronize()
        if turn >= 3:
            times.append(start.elapsed_time(stop))
    return median(times)


def measure(name: str, n: int, repeats: int) -> dict[str, Any]:
    """One row."""
    make, accuracy = FAMILIES[name]
    torch.manual_seed(1)
    a, b = make(n)
    native = timed(lambda: a @ b, repeats)
    found = timed(lambda: widen.matmul(a, b, accuracy=accuracy), repeats)
    _, info = widen.matmul(a, b, accuracy=accuracy, info=True)
    return {
        "family": name, "n": n, "native_ms": native, "widen_ms": found,
        "ratio_to_native": native / found, "repaired": info.repaired / n**2,
        "products": info.plan.products, "repeats": repeats,
        "stages_ms": {stage: 1e3 * seconds for stage, seconds in info.seconds.items()},
    }  # fmt: skip


def main() -> None:
    """Measure what was asked for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--families", nargs="+", default=[""], help="those with one of these words")
    parser.add_argument("--sizes", type=int, nargs="+", default=[2048, 4096, 8192])
    parser.add_argument("--repeats", type=int, default=10)
    parser.add_argument("--output", type=Path, default=RESULTS, metavar="FILE.jsonl")
    options = parser.parse_args()
    started, facts = time.perf_counter(), machine("cuda").facts()
    print(json.dumps(facts))
    for name in FAMILIES:
        if not any(word in name for word in options.families):
            continue
        for n in options.sizes:
            row = measure(name, n, options.repeats)
            append(options.output, stamped(row, facts, time.perf_counter() - started))
            stages = ", ".join(f"{key} {short(ms)}" for key, ms in row["stages_ms"].items())
            print(
                f"{name:24} n = {n:5}  {short(row['widen_ms']):>6} ms, {short(row['native_ms'])} "
                f"native, {short(100 * row['repaired'])} % repaired ({stages})", flush=True,
            )  # fmt: skip


if __name__ == "__main__":
    main()
