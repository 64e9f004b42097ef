"""Speed on a GPU: `python bench/gpu.py` prints a table and appends dated rows to bench/results/.

Every ratio is to `a @ b` of torch in the same run, on random data (rand - 0.5) exp(phi randn),
medians of 10 after 3 warm-ups, timed by CUDA events. Small sizes come first, rows are written as
they are measured, and a row that fails says why and does not stop the others. `elapsed_s` is the
time since the run began, so that of the last row is the time of all of it: GPUs slow down in long
runs. `widen bench` measures other shapes in the same way.
"""

from __future__ import annotations

import argparse
import sys
import time
import traceback
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from widen.cli.errors import CommandError
from widen.cli.machines import Cpu, machine
from widen.cli.measure import Case, measure
from widen.cli.plot import check_plot, draw, square
from widen.cli.progress import progress_bar, share_of
from widen.cli.results import append, line, show, stamped, table

RESULTS = Path(__file__).parent / "results" / "gpu.jsonl"
SIZES = (2048, 4096, 8192, 16384)
QUICK = ("float64-fast", "float64-standard")

ROWS = {  # of square matrices, at every size
    "float64-fast": Case(0, 0, 0, accuracy="fast"),
    "float64-standard": Case(0, 0, 0),
    "float64-standard-encoded": Case(0, 0, 0, encoded=True),
    "float32-standard": Case(0, 0, 0, dtype="float32"),
    "complex128-standard": Case(0, 0, 0, dtype="complex128"),
    "float64-correct": Case(0, 0, 0, accuracy="correct", phi=0.1),
}
SHAPES = [  # m, k, n, batch; float64, "fast" and "standard"
    (16, 16, 16, 100000),
    (64, 64, 64, 10000),
    (8192, 256, 8192, 1),
    (8192, 8192, 256, 1),
    (1024, 65536, 1024, 1),
    (16384, 1024, 16384, 1),
    (4096, 4096, 4096, 8),
]


def cases(options: argparse.Namespace) -> list[tuple[str, Case]]:
    """The rows that were asked for, small ones first."""
    sizes = options.sizes or [n for n in SIZES if not options.quick or n <= 8192]
    named = [
        (name, replace(case, m=n, k=n, n=n))
        for n in sizes
        for name, case in ROWS.items()
        if not options.quick or name in QUICK
    ]
    if not options.quick:
        named += [
            (f"shapes-{accuracy}", Case(*shape, accuracy=accuracy))
            for shape in SHAPES
            for accuracy in ("fast", "standard")
        ]
    wanted = options.rows or [""]
    return [(name, case) for name, case in named if any(word in name for word in wanted)]


def attempt(name: str, case: Case, place: Cpu, repeats: int, tick: Any) -> dict[str, Any] | None:
    """Measure one row; None if that fails, which is said and not passed on."""
    try:
        return {"row": name, **measure(case, place, repeats, tick)}
    except Exception:
        print(f"{name}, {case}: failed", file=sys.stderr)
        traceback.print_exc()
        return None


def free(place: Cpu) -> None:
    """Give memory back, if the device still answers."""
    try:
        place.free()
    except Exception as error:
        print(f"memory was not given back: {error}", file=sys.stderr)


def run(todo: list[tuple[str, Case]], place: Cpu, options: argparse.Namespace) -> list[dict]:
    """Measure, print and append row after row."""
    started, facts = time.perf_counter(), place.facts()
    total, done, rows = sum(case.flops for _, case in todo), 0, []
    bar: AbstractContextManager[Any] = nullcontext(lambda share: None)
    if find_spec("rich"):
        bar = progress_bar(f"{len(todo)} rows")
    with bar as progress:
        for name, case in todo:
            tick = share_of(progress, done / total, case.flops / total)
            row = attempt(name, case, place, options.repeats, tick)
            free(place)
            done += case.flops
            if row is None:
                continue
            rows.append(stamped(row, facts, time.perf_counter() - started))
            print(f"{name:25} {line(row)}", flush=True)
            if not options.no_save:
                append(options.output, rows[-1])
    print(
        f"{len(rows)} rows, {len(todo) - len(rows)} failed, {time.perf_counter() - started:.0f} s"
    )
    return rows


def main() -> None:
    sys.stdout.reconfigure(errors="replace")  # where an encoding has no ³, a ? will do
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="fast and standard, n up to 8192")
    parser.add_argument(
        "--rows",
        action="append",
        metavar="NAME",
        help=f"rows with this in: {', '.join(ROWS)}, shapes",
    )
    parser.add_argument("--sizes", type=int, nargs="+", metavar="N", help="square sizes instead")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--repeats", type=int, default=10)
    parser.add_argument("--output", type=Path, default=RESULTS, metavar="FILE.jsonl")
    parser.add_argument("--no-save", action="store_true", help="append to no file")
    parser.add_argument("--plot", type=Path, metavar="FILE.png", help="draw TFLOP/s against n")
    options = parser.parse_args()
    todo = cases(options)
    if not todo:
        parser.error(f"no such rows; there are {', '.join(ROWS)}, shapes-fast, shapes-standard")
    try:
        place = machine(options.device)
        if options.plot is not None:
            check_plot(options.plot)
    except CommandError as error:
        parser.error(str(error))
    print(", ".join(f"{key} {value}" for key, value in place.facts().items()), flush=True)
    options.output.parent.mkdir(exist_ok=True, parents=True)
    rows = run(todo, place, options)
    if rows and find_spec("rich"):
        show(table(rows, place.facts(), place.library))
    if options.plot is not None and square(rows):
        draw(rows, options.plot, place.facts()["machine"], place.library)
    sys.exit(0 if len(rows) == len(todo) else 1)


if __name__ == "__main__":
    main()
