"""What `widen.emulate` costs beside the products: microseconds for each operation inside a scope.

`python bench/emulate.py` prints medians of an addition, of a product that is left alone (too small
for `min_flops`), and of the same outside; the overhead is the difference. With `--compiler`, after
PyTorch's compiler was imported, from which the scope then hides itself. Times are those of the
thread on a core, so that other programs matter less. `--repeats` and `--count` say how many runs of
how many operations; rows go to bench/results/emulate.jsonl.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from statistics import median

import torch

import widen

RESULTS = Path(__file__).parent / "results" / "emulate.jsonl"


def microseconds(work: Callable[[], object], count: int, repeats: int) -> list[float]:
    """Of one call, in each of several runs."""
    found = []
    for _ in range(repeats):
        start = time.thread_time()
        for _ in range(count):
            work()
        found.append((time.thread_time() - start) / count * 1e6)
    return found


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--repeats", type=int, default=101)
    parser.add_argument("--compiler", action="store_true")
    parser.add_argument("--no-save", action="store_true")
    given = parser.parse_args()
    if given.compiler:
        import torch._dynamo as _
    x = torch.randn(4, 4, dtype=torch.float64)
    operations = {
        "another operation": lambda: torch.add(x, x),
        "a product left alone": lambda: torch.mm(x, x),
    }
    scope = widen.emulate(min_flops=10**9)
    load = os.getloadavg()[0]
    print(f"PyTorch {torch.__version__}, load {load:.1f}, compiler {given.compiler}")
    print("| operation | outside | inside | overhead | least overhead |")
    print("| --- | --- | --- | --- | --- |")
    rows = []
    for name, work in operations.items():
        outside, inside = [], []
        for _ in range(given.repeats):  # by turns, so that both see the same load
            outside += microseconds(work, given.count, 1)
            with scope:
                work()
                inside += microseconds(work, given.count, 1)
        row = {
            "date": datetime.now(UTC).isoformat(timespec="seconds"),
            "machine": platform.processor() or platform.machine(), "cores": os.cpu_count(),
            "load": load, "torch": torch.__version__, "compiler": given.compiler,
            "operation": name, "outside_us": median(outside), "inside_us": median(inside),
            "overhead_us": median(inside) - median(outside),
            "least_overhead_us": min(inside) - min(outside),
        }  # fmt: skip
        rows.append(row)
        print(f"| {name} | {row['outside_us']:.2f} us | {row['inside_us']:.2f} us | "
              f"{row['overhead_us']:.2f} us | {row['least_overhead_us']:.2f} us |")  # fmt: skip
    if not given.no_save:
        with RESULTS.open("a", encoding="utf-8") as file:
            file.writelines(json.dumps(row) + "\n" for row in rows)


if __name__ == "__main__":
    main()
