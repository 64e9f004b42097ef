"""Speed of shapes that are not square: `python bench/shapes.py --device cpu` (or cuda).

Thin, short, long, odd, small and batched products beside the ordinary product of the same run, the
two in turn, the quickest call of each after a warm-up. Rows go to bench/results/shapes.jsonl. With
`--check` the command fails where a rule does not hold: on a CPU at most so many times NumPy's time,
on a GPU at least so many times the speed of PyTorch.

On a CPU `--threads 1 2` chooses numbers of threads; both sides have as many. Seconds on a busy
machine say little: the load is a part of every row, and so is the ratio of CPU times.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

os.environ.setdefault("OPENBLAS_THREAD_TIMEOUT", "4")  # as in bench/cpu.py, before NumPy

import widen
from widen.cli.machines import machine
from widen.cli.results import append, short, stamped

RESULTS = Path(__file__).parent / "results" / "shapes.jsonl"


@dataclass(frozen=True)
class Shape:
    """A product (batch, m, k, n), and its rule: a ratio of times (CPU) or of speeds (GPU)."""

    m: int
    k: int
    n: int
    rule: float | None = None
    batch: int = 1
    accuracy: str = "standard"
    phi: float = 0.1
    encoded: bool = False

    @property
    def title(self) -> str:
        """The shape as people write it."""
        batch = f"{self.batch} × " if self.batch > 1 else ""
        return f"{batch}{self.m} × {self.k} × {self.n}" + (", B encoded" if self.encoded else "")


CPU = [
    Shape(2048, 2048, 1, 12.0),
    Shape(1, 2048, 2048, 12.0),
    Shape(4096, 4096, 1, 12.0),
    Shape(1, 4096, 4096, 12.0),
    Shape(1, 1_000_000, 1, 12.0),
    Shape(2048, 2048, 4),
    Shape(4, 2048, 2048),
    Shape(2048, 2048, 16),
    Shape(16, 2048, 2048),
    Shape(64, 4096, 4096),
    Shape(4096, 64, 4096),
    Shape(64, 65536, 64),
    Shape(64, 64, 64, batch=1000),
]

GPU = [
    Shape(64, 8192, 8192, 0.35), Shape(16, 16384, 16384, 0.3), Shape(1, 16384, 16384, 0.3),
    Shape(100, 10000, 10000, 0.4), Shape(64, 8192, 8192, 0.6, encoded=True),
    Shape(16, 16384, 16384, 0.6, encoded=True), Shape(100, 10000, 10000, 0.6, encoded=True),
    Shape(10000, 100, 10000, 0.5), Shape(8192, 256, 8192, 0.9), Shape(50000, 512, 512, 0.8),
    Shape(333, 200000, 333, 0.7), Shape(1024, 65536, 1024, 0.95),
    Shape(10000, 10000, 10000, 1.6), Shape(20000, 20000, 20000, 1.65),
    Shape(12288, 12288, 12288), Shape(12345, 12345, 12345),
    Shape(1024, 1024, 1024, 0.75), Shape(2048, 2048, 2048, 1.0),
    Shape(64, 64, 64, 0.25, batch=10000),
    Shape(16384, 16384, 16384, 1.8), Shape(4096, 4096, 4096, 0.85, accuracy="correct"),
    Shape(8192, 8192, 8192, 1.05, accuracy="correct"),
    Shape(16384, 16384, 16384, 1.12, accuracy="correct"),
]  # fmt: skip


def threads_of(count: int) -> AbstractContextManager[Any]:
    """A context in which kernels and BLAS have so many threads."""
    import numba
    from threadpoolctl import threadpool_limits

    numba.set_num_threads(count)
    return threadpool_limits(count, user_api="blas")


def timed(works: list[Callable[[], Any]], device: str, seconds: float) -> list[tuple[float, float]]:
    """Milliseconds of the quickest of several calls, made in turn, and of the least CPU time."""
    wait = _nothing
    if device != "cpu":
        import torch

        wait = torch.cuda.synchronize
    for work in works * 2:
        work()
    found, begun = [], time.perf_counter()
    while len(found) < 7 or time.perf_counter() < begun + seconds:
        times = []
        for work in works:
            wait()
            start, used = time.perf_counter(), time.process_time()
            work()
            wait()
            took = time.perf_counter() - start
            times.append((1e3 * took, 1e3 * (time.process_time() - used)))
        found.append(times)
    return [
        (min(wall for wall, _ in times), min(cpu for _, cpu in times))
        for times in zip(*found, strict=True)
    ]


def _nothing() -> None:
    """A CPU is done when a call returns."""


def measure(shape: Shape, device: str, accuracy: str, seconds: float) -> dict[str, Any]:
    """One row: a shape under a contract."""
    where = machine(device)
    generator = where.generator(1)
    batch = (shape.batch,) if shape.batch > 1 else ()
    a = where.random(generator, (*batch, shape.m, shape.k), "float64", shape.phi)
    b = where.random(generator, (*batch, shape.k, shape.n), "float64", shape.phi)
    right = widen.encode(b, side="right", accuracy=accuracy) if shape.encoded else b
    work = partial(widen.matmul, a, right, accuracy=accuracy)
    _, info = widen.matmul(a, right, accuracy=accuracy, info="largest")
    work()
    where.settle()
    (native, native_cpu), (ours, our_cpu) = timed([lambda: a @ b, work], device, seconds)
    return {
        "shape": shape.title,
        "accuracy": accuracy,
        "native_ms": native,
        "widen_ms": ours,
        "ratio": ours / native if device == "cpu" else native / ours,
        "cpu_ratio": our_cpu / native_cpu if device == "cpu" else None,
        "system": info.plan.system,
        "products": info.plan.products,
        "repaired": info.repaired,
        "rule": shape.rule,
    }


def broken(row: dict[str, Any], device: str) -> str:
    """What a row breaks, or nothing."""
    if row["rule"] is None:
        return ""
    fine = row["ratio"] <= row["rule"] if device == "cpu" else row["ratio"] >= row["rule"]
    limit = "at most" if device == "cpu" else "at least"
    return (
        ""
        if fine
        else f"{row['shape']} {row['accuracy']}: {row['ratio']:.2f}, {limit} {row['rule']}"
    )


def main() -> int:
    """Measure what was asked for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--threads", type=int, nargs="+", help="of a CPU; as many as there are")
    parser.add_argument("--shapes", nargs="+", default=[""], help="those with one of these words")
    parser.add_argument("--accuracies", nargs="+", help="instead of each shape's own")
    parser.add_argument("--seconds", type=float, default=1.0, help="for each row, or seven calls")
    parser.add_argument("--check", action="store_true", help="fail if a rule does not hold")
    parser.add_argument("--no-save", action="store_true", help="do not append to bench/results")
    options = parser.parse_args()
    started, facts = time.perf_counter(), machine(options.device).facts()
    print(json.dumps(facts))
    complaints = []
    on_cpu = options.device == "cpu"
    for count in (options.threads or [os.cpu_count()]) if on_cpu else [0]:
        with threads_of(count) if on_cpu else nullcontext():
            for shape in CPU if on_cpu else GPU:
                if not any(word in shape.title for word in options.shapes):
                    continue
                for accuracy in options.accuracies or [shape.accuracy]:
                    row = measure(shape, options.device, accuracy, options.seconds)
                    row |= {"threads": count, "load": os.getloadavg()[0]}
                    wrong = broken(row, options.device)
                    complaints += [wrong] if wrong else []
                    if not options.no_save:
                        append(RESULTS, stamped(row, facts, time.perf_counter() - started))
                    print(line(row, wrong), flush=True)
    print("\n".join(complaints) or "every rule holds")
    return 1 if complaints and options.check else 0


def line(row: dict[str, Any], wrong: str) -> str:
    """A row as text."""
    threads = f", {row['threads']} threads" if row["threads"] else ""
    return (
        f"{row['shape']:24} {row['accuracy']:9}{threads}: {short(row['widen_ms']):>6} ms, native "
        f"{short(row['native_ms']):>6} ms, ratio {short(row['ratio']):>5}, of CPU times "
        f"{short(row['cpu_ratio']):>5} ({row['products']} {row['system']}, load {row['load']:.1f})"
        + ("  <- rule" if wrong else "")
    )


if __name__ == "__main__":
    sys.exit(main())
