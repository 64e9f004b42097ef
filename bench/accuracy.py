"""Accuracy against exact results: `python bench/accuracy.py` prints the table of the README.

Largest error of an element in units of u |A||B| (u = 2^-53), elements that are not the nearest
float64, and the elements widen repaired; 256 x 256 matrices (rand - 0.5) exp(phi randn).
"""

from __future__ import annotations

import argparse
from datetime import UTC, datetime
from pathlib import Path

import numpy as np

import widen
from widen.cli.results import append
from widen.testing import correctly_rounded, error_in_u, phi

RESULTS = Path(__file__).parent / "results" / "accuracy.jsonl"
N = 256


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--no-save", action="store_true", help="do not append to bench/results")
    given = parser.parse_args()
    print(f"n = {N}: largest error in u |A||B|, and elements that are not the nearest float64\n")
    print("| phi | NumPy | `fast` | `standard` | `correct` | repaired |")
    print("| --- | --- | --- | --- | --- | --- |")
    rows = []
    for spread in (0.0, 0.5, 1.0, 2.0, 4.0):
        rng = np.random.default_rng(7)
        a, b = phi(rng, (N, N), spread), phi(rng, (N, N), spread)
        exact = correctly_rounded(a, b)
        products = {"numpy": (a @ b, 0)}
        for accuracy in ("fast", "standard", "correct"):
            c, info = widen.matmul(a, b, accuracy=accuracy, info=True)
            products[accuracy] = (c, info.repaired)
        found = {
            name: (float(error_in_u(c, a, b).max()), int((c != exact).sum()), repaired)
            for name, (c, repaired) in products.items()
        }
        cells = [f"{error:.2g} u, {off} off" for error, off, _ in found.values()]
        repaired = [str(found[name][2]) for name in ("fast", "standard", "correct")]
        print(f"| {spread:g} | {' | '.join(cells)} | {', '.join(repaired)} |")
        rows.append(
            {
                "date": datetime.now(UTC).isoformat(timespec="seconds"),
                "numpy": np.__version__,
                "widen": widen.__version__,
                "n": N,
                "phi": spread,
                "error_u_and_off_and_repaired": found,
            }
        )
    for row in [] if given.no_save else rows:
        append(RESULTS, row)


if __name__ == "__main__":
    main()
