"""Speed where data are hard: `python bench/hard.py --device cpu` (or cuda).

For every family of matrices (`families.py`) and every format, the three contracts side by side:
milliseconds (medians after a warm-up), the share of elements repaired, planes multiplied. Rows go
to bench/results/hard.jsonl. On a CPU they are milliseconds of CPU time, by default of one thread,
so that other work on the machine counts little; a row has the load. Three rules are tested, and the
command fails if one does not hold:

- "fast" and "standard" take at most 1.3 times as long as "correct" (1.8 times where outliers or
  grading on one side meet flat lines on the other);
- "correct" takes at most twice as long as on phi = 0.1, unless a line spans more than 200 bits, and
  never more than four times as long;
- near the identity, float64x2 takes at most 1.3 times as long as random words.

Times of less than a millisecond are not compared.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Callable
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

import widen
from families import FAMILIES, Family
from shapes import threads_of
from soak import in_format
from widen.cli.machines import machine
from widen.cli.results import append, short, stamped

RESULTS = Path(__file__).parent / "results" / "hard.jsonl"
ACCURACIES = ("fast", "standard", "correct")
FORMATS = ("float64", "float32", "complex128", "float64x2")
EVERY_FORMAT = (
    *FORMATS, "float16", "complex64", "float32x2", "float32x3", "float64_float32", "float64x3",
    "float64x4", "complex64x2", "complex128x2",
)  # fmt: skip
"""Those of `--formats all`, on a CPU."""


def operands(family: Family, fmt: str, n: int, device: str) -> tuple[Any, Any]:
    """Both matrices of a family in a format, on a device."""
    rng = np.random.default_rng(1)
    pair: list[Any] = list(family.make(rng, n, n, n))
    if fmt not in FORMATS:
        if fmt.startswith("complex"):
            pair = [x + 1j * y for x, y in zip(pair, family.make(rng, n, n, n), strict=True)]
        with np.errstate(over="ignore", under="ignore", invalid="ignore"):
            return in_format(rng, pair[0], fmt), in_format(rng, pair[1], fmt)
    if fmt == "float32":
        with np.errstate(over="ignore", under="ignore"):
            pair = [x.astype(np.float32) for x in pair]
    elif fmt == "complex128":
        other = family.make(rng, n, n, n)
        pair = [x + 1j * y for x, y in zip(pair, other, strict=True)]
    if device != "cpu":
        import torch

        pair = [torch.from_numpy(np.ascontiguousarray(x)).to(device) for x in pair]
    if fmt == "float64x2":
        pair = [second_words(x, rng) for x in pair]
    return pair[0], pair[1]


def second_words(x: Any, rng: np.random.Generator) -> widen.Words:
    """Numbers of two words whose first ones are x; a 0 stays 0."""
    share = (rng.random(tuple(x.shape)) - 0.5) * 2.0**-54
    if not isinstance(x, np.ndarray):
        import torch

        share = torch.from_numpy(share).to(x.device)
    return widen.Words.from_words([x, x * share], widen.float64x2)


def timed(work: Callable[[], Any], device: str, repeats: int) -> float:
    """Median milliseconds of a call; of CPU time on a CPU."""
    if device == "cpu":
        times = []
        for _ in range(repeats):
            start = time.process_time()
            work()
            times.append(1e3 * (time.process_time() - start))
        return median(times)
    import torch

    from widen.gpu.code import workers

    work()
    workers.wait()  # slower kernels answer while others are compiled
    times = []
    for _ in range(repeats + 2):
        start, stop = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        work()
        stop.record()
        stop.synchronize()
        times.append(start.elapsed_time(stop))
    return median(times[2:])


def in_turn(calls: dict[str, Callable[[], Any]], device: str, repeats: int) -> dict[str, float]:
    """Median milliseconds of calls; on a CPU they take turns, so that a busy time slows all."""
    if device != "cpu":
        return {name: timed(work, device, repeats) for name, work in calls.items()}
    rounds = [
        {name: timed(work, device, 1) for name, work in calls.items()} for _ in range(repeats)
    ]
    return {name: median(times[name] for times in rounds) for name in calls}


def measure(name: str, fmt: str, n: int, device: str, repeats: int) -> dict[str, Any]:
    """One row: a family in a format, all contracts."""
    a, b = operands(FAMILIES[name], fmt, n, device)
    row: dict[str, Any] = {"family": name, "dtype": fmt, "n": n, "repeats": repeats}
    for accuracy in ACCURACIES:
        _, info = widen.matmul(a, b, accuracy=accuracy, info="largest")  # compiles, too
        row[f"{accuracy}_repaired"] = info.repaired / n**2
        row[f"{accuracy}_products"] = info.plan.products
    calls = {f"{x}_ms": partial(widen.matmul, a, b, accuracy=x) for x in ACCURACIES}
    row |= in_turn(calls, device, repeats)
    if isinstance(a, np.ndarray) or (device != "cpu" and fmt != "float64x2"):
        row["native_ms"] = timed(lambda: a @ b, device, repeats)
    return row


LEAST_COMPARED = 1.0
"""Milliseconds: shorter times say more about the machine than about the matrices."""


def broken(row: dict[str, Any], easy: dict[str, Any] | None) -> list[str]:
    """Which rules a row breaks, given the row of phi = 0.1."""
    family, correct = FAMILIES[row["family"]], row["correct_ms"]
    most, found = 1.8 if family.one_sided else 1.3, []
    for accuracy in ("fast", "standard"):
        if row[f"{accuracy}_ms"] > most * max(correct, LEAST_COMPARED):
            ratio = row[f"{accuracy}_ms"] / correct
            found.append(f"{accuracy} takes {ratio:.2f} times as long as correct")
    if easy is not None:
        ratio = correct / max(easy["correct_ms"], LEAST_COMPARED)
        if ratio > (4 if family.long else 2):
            found.append(f"correct takes {ratio:.2f} times as long as on phi = 0.1")
        ratio = row["standard_ms"] / max(easy["standard_ms"], LEAST_COMPARED)
        if (row["family"], row["dtype"]) == ("near the identity", "float64x2") and ratio > 1.3:
            found.append(f"standard takes {ratio:.2f} times as long as on random words")
    return found


def main() -> None:
    """Measure what was asked for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--families", nargs="+", default=[""], help="those with one of these words")
    parser.add_argument("--formats", nargs="+", default=FORMATS, help="or all, on a CPU")
    parser.add_argument("--threads", type=int, default=1, help="of a CPU")
    parser.add_argument("--sizes", type=int, nargs="+", default=None)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--output", type=Path, default=RESULTS, metavar="FILE.jsonl")
    options = parser.parse_args()
    sizes = options.sizes or ([300, 1000] if options.device == "cpu" else [1024, 4096])
    on_cpu = options.device == "cpu"
    formats = EVERY_FORMAT if on_cpu and "all" in options.formats else options.formats
    with threads_of(options.threads) if on_cpu else nullcontext():
        complaints = [what for n in sizes for fmt in formats for what in rows(fmt, n, options)]
    print("\n".join(complaints) or "every rule holds")
    sys.exit(1 if complaints else 0)


def rows(fmt: str, n: int, options: argparse.Namespace) -> list[str]:
    """Measure, print and keep the rows of a format; which rules they break."""
    started, facts = time.perf_counter(), machine(options.device).facts()
    print(json.dumps(facts))
    easy, complaints = None, []
    for name in FAMILIES:
        if not any(word in name for word in options.families):
            continue
        row = measure(name, fmt, n, options.device, options.repeats)
        if options.device == "cpu":
            row |= {"threads": options.threads, "clock": "CPU", "load": os.getloadavg()[0]}
        easy = row if name == "phi = 0.1" else easy
        row["broken"] = broken(row, easy)
        complaints += [f"{name}, {fmt}, n = {n}: {what}" for what in row["broken"]]
        append(options.output, stamped(row, facts, time.perf_counter() - started))
        print(line(row), flush=True)
    return complaints


def line(row: dict[str, Any]) -> str:
    """A row as text."""
    parts = [
        f"{accuracy} {short(row[f'{accuracy}_ms']):>5} ms"
        f" ({row[f'{accuracy}_products']}, {short(100 * row[f'{accuracy}_repaired'])} %)"
        for accuracy in ACCURACIES
    ]
    native = f", native {short(row['native_ms'])} ms" if "native_ms" in row else ""
    warning = "  <- " + "; ".join(row["broken"]) if row["broken"] else ""
    title = f"{row['family']:22} {row['dtype']:12} n = {row['n']:4}"
    return f"{title}: {', '.join(parts)}{native}{warning}"


if __name__ == "__main__":
    main()
