"""Arithmetic on arrays of several words: `python bench/elementwise.py`, `--gpu` on a GPU.

Every time is compared with what its memory traffic needs: the bytes of operands and result at the
rate of a copy in the same run, on as many threads. Medians; rows go to bench/results/.
"""

from __future__ import annotations

import argparse
import json
import platform
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any

import numba
import numpy as np

import widen
from widen.cli.machines import cpu_name
from widen.formats import WORDS

RESULTS = Path(__file__).parent / "results" / "elementwise.jsonl"
OPERATIONS: dict[str, Callable[[Any, Any], Any]] = {
    "add": lambda x, y: x + y,
    "multiply": lambda x, y: x * y,
    "divide": lambda x, y: x / y,
    "sqrt": lambda x, y: x.sqrt(),
}


def operand(fmt: Any, size: int, rng: np.random.Generator) -> widen.Words:
    """Random canonical numbers that use all their words."""
    p = fmt.words[0].precision
    planes = [
        np.ldexp(rng.random((1, size)) + 0.5, -(p + 2) * at).astype(word.name)
        for at, word in enumerate(fmt.words)
    ]
    block = np.stack(planes) if len(set(fmt.words)) == 1 else planes
    return widen.Words.of(fmt, tuple(block))


def seconds_on_cpu(function: Callable[[], object]) -> float:
    found = []
    for _ in range(9):
        start = time.perf_counter()
        function()
        found.append(time.perf_counter() - start)
    return median(found[2:])


def seconds_on_gpu(function: Callable[[], object]) -> float:
    import torch

    found = []
    for _ in range(13):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        function()
        end.record()
        end.synchronize()
        found.append(begin.elapsed_time(end) / 1e3)
    return median(found[3:])


def copy_rate_of_cpu() -> float:
    """Bytes read and written a second by copies of 160 MB, shared by the threads."""
    threads = numba.get_num_threads()
    source, target = np.ones(2 * 10**7), np.zeros(2 * 10**7)
    cuts = np.linspace(0, source.size, threads + 1).astype(int)
    with ThreadPoolExecutor(threads) as pool:

        def copy() -> None:
            spans = [slice(a, b) for a, b in pairwise(cuts)]
            list(pool.map(lambda span: np.copyto(target[span], source[span]), spans))

        return 2 * source.nbytes / seconds_on_cpu(copy)


def copy_rate_of_gpu() -> float:
    import torch

    source = torch.rand(1 << 27, device="cuda", dtype=torch.float64)
    target = torch.empty_like(source)
    return 2 * source.nbytes / seconds_on_gpu(lambda: target.copy_(source))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--gpu", action="store_true", help="on the current CUDA device")
    parser.add_argument("--size", type=int, default=0, help="numbers, of two words (default 10^7)")
    parser.add_argument("--no-save", action="store_true", help="do not append to bench/results")
    options = parser.parse_args()
    size = options.size or (1 << 26 if options.gpu else 10**7)
    seconds_of, device = seconds_on_cpu, cpu_name()
    rate = copy_rate_of_gpu() if options.gpu else copy_rate_of_cpu()
    if options.gpu:
        import torch

        seconds_of, device = seconds_on_gpu, torch.cuda.get_device_name()
    machine = {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "device": device,
        "threads": None if options.gpu else numba.get_num_threads(),
        "python": platform.python_version(),
        "numpy": np.__version__,
        "numba": numba.__version__,
        "widen": widen.__version__,
        "copy_gb_s": rate / 1e9,
    }
    print(", ".join(f"{key} {value}" for key, value in machine.items()))
    print(f"\n{'format':>16} {'numbers':>9} " + " ".join(f"{name:>26}" for name in OPERATIONS))
    rng, rows = np.random.default_rng(1), []
    for name, fmt in WORDS.items():
        count = size // (1 if len(fmt.words) == 2 else len(fmt.words) ** 2)
        x, y = operand(fmt, count, rng), operand(fmt, count, rng)
        if options.gpu:
            x, y = x.to_torch("cuda"), y.to_torch("cuda")
        cells = []
        for operation, apply in OPERATIONS.items():
            seconds = seconds_of(lambda: apply(x, y))  # noqa: B023
            need = x.nbytes * (2 if operation == "sqrt" else 3) / rate
            row = {"format": name, "size": count, "operation": operation, "seconds": seconds}
            rows.append(machine | row | {"of_traffic": seconds / need})
            cells.append(f"{seconds / count * 1e9:9.2f} ns, {seconds / need:5.2f} x copy")
        print(f"{name:>16} {count:9d} " + " ".join(f"{cell:>26}" for cell in cells), flush=True)
    if not options.no_save:
        with RESULTS.open("a") as file:
            file.writelines(json.dumps(row) + "\n" for row in rows)
        print(f"{len(rows)} rows appended to {RESULTS}")


if __name__ == "__main__":
    main()
