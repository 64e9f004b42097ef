"""An operand times itself, transposed, beside the general way: `python bench/symmetric.py`.

Both in one run, in turn, medians; the general way gets a copy of the transposed operand. Times are
those of the wall, and those of all processors together, which say more on a busy machine.
"""

from __future__ import annotations

import os

os.environ.setdefault("OPENBLAS_THREAD_TIMEOUT", "4")  # read when NumPy is imported

import argparse
import time
from collections.abc import Callable
from functools import partial
from statistics import median

import numpy as np

import widen


def seconds(call: Callable[[], object]) -> tuple[float, float]:
    """Seconds of the wall and of all processors that a call takes."""
    wall, busy = time.perf_counter(), time.process_time()
    call()
    return time.perf_counter() - wall, time.process_time() - busy


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", type=int, nargs="+", default=[1000, 2000])
    parser.add_argument("--repeats", type=int, default=5)
    given = parser.parse_args()
    print("     n  contract   half ms  whole ms  ratio   of processors' time")
    for n in given.sizes:
        x = np.random.default_rng(n).standard_normal((n, n))
        other = x.copy()
        for accuracy in ("fast", "standard", "correct"):
            calls = [partial(widen.matmul, x.T, right, accuracy=accuracy) for right in (x, other)]
            assert calls[0]().tobytes() == calls[1]().tobytes()
            times = [[seconds(call) for call in calls] for _ in range(given.repeats)]
            half, whole = (median(pair[at][0] for pair in times) for at in (0, 1))
            busy = [median(pair[at][1] for pair in times) for at in (0, 1)]
            print(
                f"{n:6}  {accuracy:9} {half * 1e3:8.0f} {whole * 1e3:9.0f} {half / whole:6.2f} "
                f"{busy[0] / busy[1]:12.2f}"
            )


if __name__ == "__main__":
    main()
