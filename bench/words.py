"""Products of numbers of several words on a CPU, beside NumPy's and python-flint's.

`python bench/words.py` prints a table and appends dated rows to bench/results/words.jsonl. Operands
are random, every word full. Ratios are of one run: to NumPy's float64 `a @ b`, timed in turn with
widen's product as bench/cpu.py does it (stolen time and OpenBLAS's threads included), and to
python-flint's `arb_mat` at the precision of the words, without and with its conversion from words
and back, once each, on one thread (it has no more).
"""

from __future__ import annotations

from cpu import alternate, machine  # first: it tells OpenBLAS not to spin

# isort: split
import argparse
import time
from pathlib import Path
from typing import Any

import flint
import numpy as np

import widen
from widen.cli.results import append
from widen.formats import WORDS

RESULTS = Path(__file__).parent / "results" / "words.jsonl"
FORMATS = {"float64x2": 106, "float64x4": 212, "float64x8": 424, "float64x16": 848}
"""Formats, and the precision that `arb_mat` multiplies at."""


def numbers(rng: np.random.Generator, n: int, name: str) -> widen.Words:
    """A matrix of random numbers in (-1/2, 1/2), all words of them full."""
    words = [(rng.random((n, n)) - 0.5) * 2.0 ** (-53 * at) for at in range(len(WORDS[name].words))]
    return widen.Words.from_words(np.array(words), name)


def by_flint(a: widen.Words, b: widen.Words, precision: int) -> tuple[float, float]:
    """Seconds of `arb_mat`'s product without and with conversion from words and back."""
    flint.ctx.prec = precision
    start = time.perf_counter()
    left, right = as_arb(a), as_arb(b)
    before = time.perf_counter()
    product = left * right
    after = time.perf_counter()
    from_arb(product, a)
    return after - before, time.perf_counter() - start


def as_arb(x: widen.Words) -> Any:
    """Words as an `arb_mat`: sums of exact floats, the quickest way that python-flint has."""
    rows, columns = x.shape
    found = flint.arb_mat(rows, columns, x.planes[0].ravel().tolist())
    for plane in x.planes[1:]:
        found += flint.arb_mat(rows, columns, plane.ravel().tolist())
    return found


def from_arb(x: Any, like: widen.Words) -> widen.Words:
    """The midpoints of an `arb_mat` as words, each the nearest float of the rest."""
    words = []
    for _ in like.planes:
        word = [float(entry.mid()) for entry in x.entries()]
        words.append(np.array(word).reshape(like.shape))
        x -= flint.arb_mat(*like.shape, word)
    return widen.Words.from_words(np.array(words), like.format)


def measure(name: str, n: int, rng: np.random.Generator, with_flint: bool) -> dict[str, Any]:
    """One row: a format."""
    a, b = numbers(rng, n, name), numbers(rng, n, name)
    x, y = a.planes[0][0], b.planes[0][0]
    large = FORMATS[name] > 106
    numpy_seconds, seconds = alternate(lambda: x @ y, lambda: widen.matmul(a, b), large)
    info = widen.matmul(a, b, info=True)[1]
    row = {
        "format": name,
        "n": n,
        "numpy_ms": numpy_seconds * 1e3,
        "widen_ms": seconds * 1e3,
        "ratio": seconds / numpy_seconds,
        "products": info.products,
        "repaired": info.repaired,
        "stages_ms": {stage: 1e3 * value for stage, value in info.seconds.items()},
    }
    if with_flint:
        bare, whole = by_flint(a, b, FORMATS[name])
        row |= {"arb_s": bare, "arb_converted_s": whole, "times_faster": bare / seconds}
        row["times_faster_converted"] = whole / seconds
    return row


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--size", type=int, default=1024, help="n of n x n matrices")
    parser.add_argument("--formats", default=",".join(FORMATS), help="which, with commas")
    parser.add_argument("--no-flint", action="store_true", help="leave python-flint out")
    parser.add_argument("--no-save", action="store_true", help="do not append to bench/results")
    options = parser.parse_args()
    here = machine()
    print(", ".join(f"{key} {value}" for key, value in here.items()))
    print(
        f"\n{'format':>11} {'NumPy ms':>9} {'widen ms':>9} {'ratio':>6} {'products':>8} "
        f"{'arb_mat s':>9} {'faster':>7} {'converted s':>11} {'faster':>7}  stages, ms"
    )
    rng, rows = np.random.default_rng(1), []
    for name in options.formats.split(","):
        row = measure(name, options.size, rng, not options.no_flint)
        rows.append(here | row)
        flint_columns = " " * 37
        if "arb_s" in row:
            flint_columns = (
                f"{row['arb_s']:9.2f} {row['times_faster']:7.1f} "
                f"{row['arb_converted_s']:11.2f} {row['times_faster_converted']:7.1f}"
            )
        stages = " ".join(f"{stage} {value:.0f}" for stage, value in row["stages_ms"].items())
        print(
            f"{name:>11} {row['numpy_ms']:9.1f} {row['widen_ms']:9.1f} {row['ratio']:6.1f} "
            f"{row['products']:8d} {flint_columns}  {stages}",
            flush=True,
        )
    if not options.no_save:
        for row in rows:
            append(RESULTS, row)
        print(f"{len(rows)} rows appended to {RESULTS}")


if __name__ == "__main__":
    main()
