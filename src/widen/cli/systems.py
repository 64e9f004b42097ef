"""Linear systems of the demonstration, and their exact solutions."""

from fractions import Fraction

import numpy as np

from widen.cli.cases import SEED, Matrix


def systems() -> list[tuple[str, Matrix, Matrix]]:
    """Return names, matrices and right-hand sides, the same every time."""
    random = np.random.default_rng(SEED)
    n = 12
    hilbert = 1.0 / (np.arange(n)[:, None] + np.arange(n) + 1)
    rows, columns = 10.0 ** random.integers(-12, 13, (2, n))
    scaled = random.standard_normal((n, n)) * rows[:, None] * columns
    # The last row is nearly a sum of others: digits cancel, whatever the scales.
    scaled[-1] = scaled[:-1].sum(axis=0) + scaled[-1] * 1e-6
    return [
        ("Hilbert matrix, n = 12", hilbert, np.ones(n)),
        ("badly scaled, n = 12", scaled, random.standard_normal(n)),
    ]


def exact_solution(a: Matrix, b: Matrix) -> list[Fraction]:
    """Return the exact solution of a system, by elimination in fractions.

    >>> exact_solution(np.array([[2.0, 1.0], [1.0, 1.0]]), np.array([1.0, 0.0]))
    [Fraction(1, 1), Fraction(-1, 1)]
    """
    rows = [[*map(Fraction, row), Fraction(side)]
            for row, side in zip(a.tolist(), b.tolist(), strict=True)]  # fmt: skip
    for k in range(len(rows)):
        at = next(i for i in range(k, len(rows)) if rows[i][k])
        rows[k], rows[at] = rows[at], rows[k]
        rows[k] = [value / rows[k][k] for value in rows[k]]
        for i, row in enumerate(rows):
            if i != k and row[k]:
                rows[i] = [x - row[k] * y for x, y in zip(row, rows[k], strict=True)]
    return [row[-1] for row in rows]
