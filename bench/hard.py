"""Speed where data are hard: `python bench/hard.py --device cpu` (or cuda).

For every family of matrices and every format, the three contracts side by side: milliseconds
(medians after a warm-up), the share of elements repaired, planes multiplied. Rows go to
bench/results/hard.jsonl. Three rules are tested, and the command fails if one does not hold:

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
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

import widen
from widen.cli.machines import machine
from widen.cli.results import append, short, stamped

RESULTS = Path(__file__).parent / "results" / "hard.jsonl"
ACCURACIES = ("fast", "standard", "correct")
FORMATS = ("float64", "float32", "complex128", "float64x2")
Pair = tuple[np.ndarray, np.ndarray]


class Source:
    """Random matrices."""

    def __init__(self, n: int, seed: int) -> None:
        self.n, self.rng = n, np.random.default_rng(seed)

    def phi(self, spread: float, *shape: int) -> np.ndarray:
        """(rand - 0.5) exp(spread randn); n x n unless another shape is given."""
        size = shape or (self.n, self.n)
        return (self.rng.random(size) - 0.5) * np.exp(spread * self.rng.standard_normal(size))

    def normal(self, *shape: int) -> np.ndarray:
        """Normal numbers, every bit of them random."""
        return self.rng.standard_normal(shape or (self.n, self.n))

    def powers(self, limit: int, *shape: int) -> np.ndarray:
        """Random powers of two, up to 2^limit and down to its inverse."""
        return np.ldexp(1.0, self.rng.integers(-limit, limit + 1, shape))


def with_phi(spread: float) -> Callable[[Source], Pair]:
    return lambda source: (source.phi(spread), source.phi(spread))


def cauchy(source: Source) -> Pair:
    """Ratios of normal numbers."""
    return source.normal() / source.normal(), source.normal() / source.normal()


def outliers(factor: float, *, both: bool) -> Callable[[Source], Pair]:
    """One entry of every row (and of every column) is so many times larger."""

    def make(source: Source) -> Pair:
        a, b, n = source.normal(), source.normal(), source.n
        a[np.arange(n), source.rng.integers(0, n, n)] *= factor
        if both:
            b[source.rng.integers(0, n, n), np.arange(n)] *= factor
        return a, b

    return make


def outlier_columns(factor: float) -> Callable[[Source], Pair]:
    """Some columns of A are so many times larger; B is flat."""

    def make(source: Source) -> Pair:
        a, b = source.normal(), source.normal()
        a[:, :: max(1, source.n // 4)] *= factor
        return a, b

    return make


def sparse(share: float) -> Callable[[Source], Pair]:
    """So much of the entries is not 0."""

    def make(source: Source) -> Pair:
        a, b = (source.normal() * (source.rng.random((source.n,) * 2) < share) for _ in range(2))
        return a, b

    return make


def one_dense_row(source: Source) -> Pair:
    """Among sparse ones."""
    a, b = sparse(0.03)(source)
    a[source.n // 2] = source.normal(source.n)
    return a, b


def near_identity(source: Source) -> Pair:
    """A times its inverse: ones, and 1e-13 beside them."""
    a = source.normal()
    x = np.eye(source.n) + 1e-13 * a
    return x, x


def graded_together(source: Source) -> Pair:
    """Down the inner dimension by 2^-60, on both sides."""
    grade = np.exp2(-np.linspace(0, 60, source.n))
    return source.normal() * grade, source.normal() * grade[:, None]


def graded_against(source: Source) -> Pair:
    """Rows, columns and inner dimension graded against each other by powers of two."""
    n, spread = source.n, source.phi
    inner = source.powers(60, 1, n)
    a = spread(0.5) * source.powers(100, n, 1) * inner
    return a, spread(0.5) * source.powers(100, 1, n) / inner.T


def graded_rows(source: Source) -> Pair:
    """A graded down the inner dimension by 2^-30; B is flat."""
    return source.normal() * np.exp2(-np.linspace(0, 30, source.n)), source.normal()


def cancelling(source: Source) -> Pair:
    """[A, -A x] and [x; 1]: every element cancels."""
    n = source.n
    a, x = source.normal(n, n - 1), source.normal(n - 1, n)
    return np.hstack([a, -(a @ x)[:, :1]]), np.vstack([x, np.ones((1, n))])


@dataclass(frozen=True)
class Family:
    """Matrices, whether one side is flat and the other is not, and whether lines are very long."""

    make: Callable[[Source], Pair]
    one_sided: bool = False
    long: bool = False


FAMILIES = {
    "phi = 0.1": Family(with_phi(0.1)),
    **{f"phi = {spread}": Family(with_phi(spread)) for spread in (0, 0.5, 1, 2, 3, 4)},
    "Cauchy": Family(cauchy),
    "outliers of 1e4": Family(outliers(1e4, both=True)),
    "outliers of 1e8": Family(outliers(1e8, both=True)),
    "outliers of 1e4 in A": Family(outliers(1e4, both=False), one_sided=True),
    "outliers of 1e8 in A": Family(outliers(1e8, both=False), one_sided=True),
    "columns of 1e4 in A": Family(outlier_columns(1e4), one_sided=True),
    "columns of 1e8 in A": Family(outlier_columns(1e8), one_sided=True),
    "3 % dense": Family(sparse(0.03)),
    "10 % dense": Family(sparse(0.1)),
    "one dense row": Family(one_dense_row),
    "lower triangles": Family(lambda x: (np.tril(x.normal()), np.tril(x.normal()))),
    "lower and upper": Family(lambda x: (np.tril(x.normal()), np.triu(x.normal()))),
    "near the identity": Family(near_identity),
    "graded together": Family(graded_together),
    "graded against": Family(graded_against, long=True),
    "graded in A": Family(graded_rows, one_sided=True),
    "cancelling": Family(cancelling),
}


def operands(family: Family, fmt: str, n: int, device: str) -> tuple[Any, Any]:
    """Both matrices of a family in a format, on a device."""
    source = Source(n, 1)
    pair: list[Any] = list(family.make(source))
    if fmt == "float32":
        pair = [x.astype(np.float32) for x in pair]
    elif fmt == "complex128":
        other = family.make(source)
        pair = [x + 1j * y for x, y in zip(pair, other, strict=True)]
    if device != "cpu":
        import torch

        pair = [torch.from_numpy(np.ascontiguousarray(x)).to(device) for x in pair]
    if fmt == "float64x2":
        pair = [second_words(x, source) for x in pair]
    return pair[0], pair[1]


def second_words(x: Any, source: Source) -> widen.Words:
    """Numbers of two words whose first ones are x; a 0 stays 0."""
    share = (source.rng.random(tuple(x.shape)) - 0.5) * 2.0**-54
    if not isinstance(x, np.ndarray):
        import torch

        share = torch.from_numpy(share).to(x.device)
    return widen.Words.from_words([x, x * share], widen.float64x2)


def timed(work: Callable[[], Any], device: str, repeats: int) -> float:
    """Median milliseconds of a call."""
    if device == "cpu":
        times = []
        for _ in range(repeats):
            start = time.perf_counter()
            work()
            times.append(1e3 * (time.perf_counter() - start))
        return median(times)
    import torch

    times = []
    for _ in range(repeats + 2):
        start, stop = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        work()
        stop.record()
        stop.synchronize()
        times.append(start.elapsed_time(stop))
    return median(times[2:])


def measure(name: str, fmt: str, n: int, device: str, repeats: int) -> dict[str, Any]:
    """One row: a family in a format, all contracts."""
    a, b = operands(FAMILIES[name], fmt, n, device)
    row: dict[str, Any] = {"family": name, "dtype": fmt, "n": n, "repeats": repeats}
    for accuracy in ACCURACIES:
        _, info = widen.matmul(a, b, accuracy=accuracy, info="largest")  # compiles, too
        row[f"{accuracy}_ms"] = timed(
            partial(widen.matmul, a, b, accuracy=accuracy), device, repeats
        )
        row[f"{accuracy}_repaired"] = info.repaired / n**2
        row[f"{accuracy}_products"] = info.plan.products
    if fmt != "float64x2":
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
    parser.add_argument("--formats", nargs="+", default=FORMATS)
    parser.add_argument("--sizes", type=int, nargs="+", default=None)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--output", type=Path, default=RESULTS, metavar="FILE.jsonl")
    options = parser.parse_args()
    sizes = options.sizes or ([300, 1000] if options.device == "cpu" else [1024, 4096])
    started, facts = time.perf_counter(), machine(options.device).facts()
    print(json.dumps(facts))
    complaints = []
    for n in sizes:
        for fmt in options.formats:
            easy = None
            for name in FAMILIES:
                if not any(word in name for word in options.families):
                    continue
                row = measure(name, fmt, n, options.device, options.repeats)
                easy = row if name == "phi = 0.1" else easy
                row["broken"] = broken(row, easy)
                complaints += [f"{name}, {fmt}, n = {n}: {what}" for what in row["broken"]]
                append(options.output, stamped(row, facts, time.perf_counter() - started))
                print(line(row), flush=True)
    print("\n".join(complaints) or "every rule holds")
    sys.exit(1 if complaints else 0)


def line(row: dict[str, Any]) -> str:
    """A row as text."""
    parts = [
        f"{accuracy} {short(row[f'{accuracy}_ms']):>5} ms"
        f" ({row[f'{accuracy}_products']}, {short(100 * row[f'{accuracy}_repaired'])} %)"
        for accuracy in ACCURACIES
    ]
    native = f", native {short(row['native_ms'])} ms" if "native_ms" in row else ""
    warning = "  <- " + "; ".join(row["broken"]) if row["broken"] else ""
    title = f"{row['family']:22} {row['dtype']:10} n = {row['n']:4}"
    return f"{title}: {', '.join(parts)}{native}{warning}"


if __name__ == "__main__":
    main()
