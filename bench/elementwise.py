"""Arithmetic on arrays of several words: `python bench/elementwise.py`, `--gpu` on a GPU.

Every time is compared with what its memory traffic needs: the bytes of operands and result at the
rate of a copy in the same run, on as many threads. Medians; rows go to bench/results/.
"""

from __future__ import annotations

import argparse
import platform
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

import widen
from widen.cli.machines import cpu_name
from widen.cli.results import append
from widen.formats import WORDS

RESULTS = Path(__file__).parent / "results" / "elementwise.jsonl"
OPERATIONS: dict[str, Callable[[Any, Any], Any]] = {
    "add": lambda x, y: x + y,
    "multiply": lambda x, y: x * y,
    "divide": lambda x, y: x / y,
    "sqrt": lambda x, y: x.sqrt(),
}


def operand(fmt: Any, size: int, rng: np.random.Generator) -> widen.Words:
    """Random canonical numbers that use all their words, repeated after a million."""
    p, some = fmt.words[0].precision, min(size, 10**6)
    planes = [
        np.resize(np.ldexp(rng.random(some) + 0.5, -(p + 2) * at), (1, size)).astype(word.name)
        for at, word in enumerate(fmt.words)
    ]
    block = np.stack(planes) if len(set(fmt.words)) == 1 else planes
    return widen.Words.of(fmt, tuple(block))


def seconds_on_cpu(function: Callable[[], object], copy: Callable[[], object]) -> list[float]:
    """Of the function and of a copy, in turn: others may use the machine, too."""
    pairs = []
    for _ in range(15):
        times = []
        for call in (function, copy):
            call()  # once more, so that each runs as it would by itself
            start = time.perf_counter()
            call()
            times.append(time.perf_counter() - start)
        pairs.append(times)
    pairs = sorted(pairs, key=sum)[:7]
    return [median(times) for times in zip(*pairs, strict=True)]


def seconds_on_gpu(function: Callable[[], object], copy: Callable[[], object]) -> list[float]:
    import torch

    found = []
    for call in (function, copy):
        times = []
        for _ in range(13):
            begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            begin.record()
            call()
            end.record()
            end.synchronize()
            times.append(begin.elapsed_time(end) / 1e3)
        found.append(median(times[3:]))
    return found


def copy_on_cpu(pool: ThreadPoolExecutor) -> tuple[Callable[[], object], int]:
    """A copy of 160 MB shared by the threads, and the bytes it reads and writes."""
    source, target = np.ones(2 * 10**7), np.zeros(2 * 10**7)
    cuts = np.linspace(0, source.size, pool._max_workers + 1).astype(int)
    spans = [slice(a, b) for a, b in pairwise(cuts)]

    def copy() -> None:
        list(pool.map(lambda span: np.copyto(target[span], source[span]), spans))

    return copy, 2 * source.nbytes


def copy_on_gpu() -> tuple[Callable[[], object], int]:
    import torch

    source = torch.rand(1 << 27, device="cuda", dtype=torch.float64)
    target = torch.empty_like(source)
    return (lambda: target.copy_(source)), 2 * source.nbytes


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--gpu", action="store_true", help="on the current CUDA device")
    parser.add_argument("--size", type=int, default=0, help="numbers, of two words (default 10^7)")
    parser.add_argument("--formats", default=",".join(WORDS), help="such as float64x2,float32x3")
    parser.add_argument("--no-save", action="store_true", help="do not append to bench/results")
    options = parser.parse_args()
    size = options.size or (1 << 26 if options.gpu else 10**7)
    if options.gpu:
        import torch

        seconds_of, device = seconds_on_gpu, torch.cuda.get_device_name()
        copy, moved = copy_on_gpu()
        threads, versions = None, {"torch": torch.__version__}
    else:
        import numba

        seconds_of, device, threads = seconds_on_cpu, cpu_name(), numba.get_num_threads()
        copy, moved = copy_on_cpu(ThreadPoolExecutor(threads))
        versions = {"numba": numba.__version__}
    machine = {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "device": device,
        "threads": threads,
        "python": platform.python_version(),
        "numpy": np.__version__,
        "widen": widen.__version__,
        **versions,
    }
    print(", ".join(f"{key} {value}" for key, value in machine.items()))
    rng, rows = np.random.default_rng(1), []
    if not options.gpu:
        a, b = rng.random(2 * size), rng.random(2 * size)
        seconds, copied = seconds_of(lambda: a + b, copy)
        ratio = seconds / (3 * a.nbytes / moved * copied)
        row = {"format": "float64", "size": 2 * size, "operation": "add", "seconds": seconds}
        rows.append(machine | row | {"copy_gb_s": moved / copied / 1e9, "ratio": ratio})
        print(f"NumPy's a + b of {2 * size} float64, the same bytes: {ratio:.2f} x copy")
    print(f"\n{'format':>16} {'numbers':>9} " + " ".join(f"{name:>26}" for name in OPERATIONS))
    for name in options.formats.split(","):
        fmt = WORDS[name]
        count = size // (1 if len(fmt.words) == 2 else len(fmt.words) ** 2)
        x, y = operand(fmt, count, rng), operand(fmt, count, rng)
        if options.gpu:
            x, y = x.to_torch("cuda"), y.to_torch("cuda")
        cells = []
        for operation, apply in OPERATIONS.items():
            seconds, copied = seconds_of(lambda: apply(x, y), copy)  # noqa: B023
            need = x.nbytes * (2 if operation == "sqrt" else 3) / moved * copied
            row = {"format": name, "size": count, "operation": operation, "seconds": seconds}
            rows.append(
                machine | row | {"copy_gb_s": moved / copied / 1e9, "ratio": seconds / need}
            )
            cells.append(f"{seconds / count * 1e9:9.2f} ns, {seconds / need:5.2f} x copy")
        print(f"{name:>16} {count:9d} " + " ".join(f"{cell:>26}" for cell in cells), flush=True)
    if not options.no_save:
        for row in rows:
            append(RESULTS, row)
        print(f"{len(rows)} rows appended to {RESULTS}")


if __name__ == "__main__":
    main()
