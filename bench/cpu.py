"""Speed on a CPU: `python bench/cpu.py` prints a table and appends dated rows to bench/results/.

Every ratio is to NumPy's `a @ b` of the same run, the two timed in turn, medians, after warm-up.
The floor is the bare BLAS products of the plan. `--quick` leaves out the sizes above 1024.

OpenBLAS keeps its threads spinning for some 50 ms after a product, on cores that the next stage
needs; the script tells it not to (OPENBLAS_THREAD_TIMEOUT=4, for both sides of every ratio).
`--spin` leaves OpenBLAS as it comes.
"""

from __future__ import annotations

import argparse
import os
import platform
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from statistics import median

if "--spin" not in sys.argv:
    os.environ.setdefault("OPENBLAS_THREAD_TIMEOUT", "4")  # read when NumPy is imported

import numba
import numpy as np

import widen
from widen.cli.machines import cpu_name
from widen.cli.results import append
from widen.testing import phi

RESULTS = Path(__file__).parent / "results" / "cpu.jsonl"
STAGES = ("quantise", "encode", "multiply", "certify", "reconstruct", "repair")
SHAPES = [(n, n, n) for n in (64, 128, 256, 512, 1024, 2048, 4096)] + [
    (4096, 64, 4096),
    (64, 65536, 64),
    (2048, 2048, 1),
    (1, 4096, 4096),
]


PAIRS, PATIENCE = 15, 40.0
"""Quiet pairs of calls to wait for, and for how many seconds."""


def stolen() -> float:
    """Seconds that the hypervisor of a virtual machine gave to others; 0 where nobody counts."""
    try:
        with open("/proc/stat", encoding="ascii") as file:
            return float(file.readline().split()[8]) / os.sysconf("SC_CLK_TCK")
    except (OSError, IndexError):
        return 0.0


def alternate(first: Callable[[], object], second: Callable[[], object], large: bool) -> tuple:
    """Median times of two functions, called in turn: three times if large.

    Otherwise for two seconds and until 15 pairs were quiet, which is when the hypervisor took less
    than 1 % of the processors' time, or for 40 s; the 15 quietest pairs count.
    """
    first(), second()
    pairs: list[tuple[float, float, float]] = []
    start = time.perf_counter()
    while True:
        begun, before, found = time.perf_counter(), stolen(), []
        for function in (first, second):
            if not large:
                function()  # once more, so that each runs as it would run by itself
            at = time.perf_counter()
            function()
            found.append(time.perf_counter() - at)
        now = time.perf_counter()
        share = (stolen() - before) / ((now - begun) * (os.cpu_count() or 1))
        pairs.append((share, found[0], found[1]))
        quiet = sum(pair[0] < 0.01 for pair in pairs)
        if large and len(pairs) == 3:
            break
        if not large and now > start + (2 if quiet >= PAIRS else PATIENCE):
            break
    if not large:
        pairs = sorted(pairs)[: max(PAIRS, quiet)]
    return median(pair[1] for pair in pairs), median(pair[2] for pair in pairs)


def floor(plan: widen.Plan, rng: np.random.Generator) -> float:
    """Seconds of the plan's bare BLAS products."""
    _, m, k, n = plan.shape
    a, b = rng.integers(-9, 9, (m, k)).astype(float), rng.integers(-9, 9, (k, n)).astype(float)
    out = np.empty((m, n))
    np.matmul(a, b, out=out)
    times = []
    for _ in range(5):
        start = time.perf_counter()
        np.matmul(a, b, out=out)
        times.append(time.perf_counter() - start)
    return median(times) * plan.products


def measure(shape: tuple[int, int, int], accuracy: str, rng: np.random.Generator) -> dict:
    """One row: a shape and a contract."""
    m, k, n = shape
    a, b = phi(rng, (m, k), 0.1), phi(rng, (k, n), 0.1)
    large = m * k * n > 1024**3
    numpy_seconds, seconds = alternate(
        lambda: a @ b, lambda: widen.matmul(a, b, accuracy=accuracy), large
    )
    infos = [widen.matmul(a, b, accuracy=accuracy, info=True)[1] for _ in range(1 if large else 5)]
    stages = {name: median(info.seconds[name] for info in infos) for name in STAGES}
    return {
        "shape": shape,
        "accuracy": accuracy,
        "numpy_ms": numpy_seconds * 1e3,
        "widen_ms": seconds * 1e3,
        "ratio": seconds / numpy_seconds,
        "products": infos[0].products,
        "floor_ms": floor(infos[0].plan, rng) * 1e3,
        "repaired": infos[0].repaired,
        "workspace_mb": infos[0].workspace / 1e6,
        "stages_ms": {name: value * 1e3 for name, value in stages.items()},
    }


def flint_seconds(n: int, rng: np.random.Generator) -> tuple[float, float]:
    """python-flint's exact product with conversion in and out, and widen's "correct" beside it."""
    from widen.testing import correctly_rounded

    a, b = phi(rng, (n, n), 0.1), phi(rng, (n, n), 0.1)
    start = time.perf_counter()
    exact = correctly_rounded(a, b)
    flint = time.perf_counter() - start
    widen.matmul(a, b, accuracy="correct")
    start = time.perf_counter()
    ours = widen.matmul(a, b, accuracy="correct")
    seconds = time.perf_counter() - start
    assert ours.tobytes() == exact.tobytes()
    return flint, seconds


def machine() -> dict[str, object]:
    """What every row says of the machine and the moment."""
    return {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "cpu": cpu_name(),
        "cores": numba.get_num_threads(),
        "openblas_thread_timeout": os.environ.get("OPENBLAS_THREAD_TIMEOUT", "default"),
        "python": platform.python_version(),
        "numpy": np.__version__,
        "numba": numba.__version__,
        "widen": widen.__version__,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="sizes up to 1024 only")
    parser.add_argument("--spin", action="store_true", help="leave OpenBLAS's threads as they come")
    parser.add_argument("--no-save", action="store_true", help="do not append to bench/results")
    options = parser.parse_args()
    here = machine()
    print(", ".join(f"{key} {value}" for key, value in here.items()))
    print(
        f"\n{'m x k x n':>18} {'accuracy':>9} {'NumPy ms':>9} {'widen ms':>9} {'ratio':>7} "
        f"{'products':>8} {'floor ms':>9}  stages, ms: " + " ".join(STAGES)
    )
    rng = np.random.default_rng(1)
    rows = []
    shapes = [s for s in SHAPES if not options.quick or max(s) <= 1024]
    for shape in shapes:
        for accuracy in ("fast", "standard", "correct"):
            row = measure(shape, accuracy, rng)
            rows.append(here | row)
            stages = " ".join(f"{value:.1f}" for value in row["stages_ms"].values())
            print(
                f"{' x '.join(map(str, shape)):>18} {accuracy:>9} {row['numpy_ms']:9.2f} "
                f"{row['widen_ms']:9.2f} {row['ratio']:7.2f} {row['products']:8d} "
                f"{row['floor_ms']:9.2f}  {stages}",
                flush=True,
            )
    flint, seconds = flint_seconds(1024, rng)
    rows.append(here | {"flint_s": flint, "correct_s": seconds, "ratio": flint / seconds})
    print(
        f"\npython-flint, n = 1024, exact product with conversion in and out: {flint:.2f} s; "
        f"widen 'correct', the same bits: {seconds:.3f} s, {flint / seconds:.1f} x faster"
    )
    if not options.no_save:
        for row in rows:
            append(RESULTS, row)
        print(f"{len(rows)} rows appended to {RESULTS}")


if __name__ == "__main__":
    main()
