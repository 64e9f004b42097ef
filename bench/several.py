"""Products of three matrices and powers: "correct", rounded once, beside "standard".

`python bench/several.py` prints medians of CPU time; run it with OPENBLAS_NUM_THREADS=1.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import widen


def cpu_seconds(call: Callable[[], Any], count: int) -> float:
    """The median of CPU times, after a first call that compiles."""
    call()
    times = []
    for _ in range(count):
        started = time.process_time()
        call()
        times.append(time.process_time() - started)
    return statistics.median(times)


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--sizes", type=int, nargs="+", default=[200, 500])
    parser.add_argument("--count", type=int, default=5)
    given = parser.parse_args()
    rng = np.random.default_rng(0)
    print("| what | n | standard, ms | correct, ms | ratio |")
    print("| --- | --- | --- | --- | --- |")
    for n in given.sizes:
        near = [rng.standard_normal((n, n)) for _ in range(3)]
        wide = [x * 2.0 ** rng.integers(-100, 101, (n, n)) for x in near]
        calls: dict[str, Callable[[str], Any]] = {
            "a b c, Gaussian": lambda word, x=near: widen.multi_dot(x, accuracy=word),
            "a b c, 2^-100 to 2^100": lambda word, x=wide: widen.multi_dot(x, accuracy=word),
            "a^10, Gaussian": lambda word, x=near: widen.matrix_power(x[0], 10, accuracy=word),
        }
        for name, call in calls.items():
            times = [
                1e3 * cpu_seconds(lambda call=call, word=word: call(word), given.count)
                for word in ("standard", "correct")
            ]
            ratio = f"{times[1] / times[0]:.1f}"
            print(f"| {name} | {n} | {times[0]:.1f} | {times[1]:.1f} | {ratio} |", flush=True)


if __name__ == "__main__":
    main()
