"""Hard matrices: families that `hard.py` times and whose bits `soak.py` compares.

A family is ``make(rng, m, k, n)``, which gives float64 matrices (m, k) and (k, n). They have
outliers, zeros, triangles, grading and cancellation as users have them; `widen.testing.FAMILIES`
are those that break products which are only usually right.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

Pair = tuple[np.ndarray, np.ndarray]
Rng = np.random.Generator
Make = Callable[[Rng, int, int, int], Pair]


@dataclass(frozen=True)
class Family:
    """Matrices, whether one side is flat and the other is not, and whether lines are very long."""

    make: Make
    one_sided: bool = False
    long: bool = False


def normal(rng: Rng, m: int, k: int, n: int) -> Pair:
    """Normal numbers, every bit of them random."""
    return rng.standard_normal((m, k)), rng.standard_normal((k, n))


def powers(rng: Rng, limit: int, *shape: int) -> np.ndarray:
    """Random powers of two, up to 2^limit and down to its inverse."""
    return np.ldexp(1.0, rng.integers(-limit, limit + 1, shape))


def phi(spread: float) -> Make:
    """(rand - 0.5) exp(spread randn)."""

    def make(rng: Rng, m: int, k: int, n: int) -> Pair:
        a, b = (
            (rng.random(size) - 0.5) * np.exp(spread * rng.standard_normal(size))
            for size in ((m, k), (k, n))
        )
        return a, b

    return make


def cauchy(rng: Rng, m: int, k: int, n: int) -> Pair:
    """Ratios of normal numbers."""
    (a, b), (c, d) = normal(rng, m, k, n), normal(rng, m, k, n)
    return a / c, b / d


def outliers(factor: float, sides: str) -> Make:
    """One entry of every row of A, of every column of B, or of both, is so many times larger."""

    def make(rng: Rng, m: int, k: int, n: int) -> Pair:
        a, b = normal(rng, m, k, n)
        if "A" in sides:
            a[np.arange(m), rng.integers(0, k, m)] *= factor
        if "B" in sides:
            b[rng.integers(0, k, n), np.arange(n)] *= factor
        return a, b

    return make


def outlier_columns(factor: float) -> Make:
    """Some columns of A are so many times larger; B is flat."""

    def make(rng: Rng, m: int, k: int, n: int) -> Pair:
        a, b = normal(rng, m, k, n)
        a[:, :: max(1, k // 4)] *= factor
        return a, b

    return make


def sparse(share: float) -> Make:
    """So much of the entries is not 0."""

    def make(rng: Rng, m: int, k: int, n: int) -> Pair:
        a, b = (x * (rng.random(x.shape) < share) for x in normal(rng, m, k, n))
        return a, b

    return make


def one_dense_row(rng: Rng, m: int, k: int, n: int) -> Pair:
    """Among sparse ones."""
    a, b = sparse(0.03)(rng, m, k, n)
    a[m // 2] = rng.standard_normal(k)
    return a, b


def triangles(upper: bool) -> Make:
    """A lower one times another, or times an upper one."""

    def make(rng: Rng, m: int, k: int, n: int) -> Pair:
        a, b = normal(rng, m, k, n)
        return np.tril(a), np.triu(b) if upper else np.tril(b)

    return make


def near_identity(rng: Rng, m: int, k: int, n: int) -> Pair:
    """As A times its inverse: ones, and 1e-13 beside them."""
    a, b = normal(rng, m, k, n)
    return np.eye(m, k) + 1e-13 * a, np.eye(k, n) + 1e-13 * b


def graded_together(rng: Rng, m: int, k: int, n: int) -> Pair:
    """Down the inner dimension by 2^-60, on both sides."""
    (a, b), grade = normal(rng, m, k, n), np.exp2(-np.linspace(0, 60, k))
    return a * grade, b * grade[:, None]


def graded_against(rng: Rng, m: int, k: int, n: int) -> Pair:
    """Rows, columns and inner dimension graded against each other by powers of two."""
    (a, b), inner = phi(0.5)(rng, m, k, n), powers(rng, 60, 1, k)
    return a * powers(rng, 100, m, 1) * inner, b * powers(rng, 100, 1, n) / inner.T


def graded_rows(rng: Rng, m: int, k: int, n: int) -> Pair:
    """A graded down the inner dimension by 2^-30; B is flat."""
    a, b = normal(rng, m, k, n)
    return a * np.exp2(-np.linspace(0, 30, k)), b


def cancelling(rng: Rng, m: int, k: int, n: int) -> Pair:
    """[A, -A x] and [x; 1], columns times powers of two: every element is a residual."""
    a, x = rng.standard_normal((m, k - 1)), rng.standard_normal((k - 1, 1))
    left, right = np.hstack([a, -(a @ x)]), np.vstack([x, np.ones((1, 1))])
    return left, right * powers(rng, 3, 1, n)


def permutation(rng: Rng, m: int, k: int, n: int) -> Pair:
    """A row of A picks a row of B."""
    a, b = np.zeros((m, k)), rng.standard_normal((k, n))
    a[np.arange(m), rng.permutation(max(m, k))[:m] % k] = 1.0
    return a, b


def diagonal(rng: Rng, m: int, k: int, n: int) -> Pair:
    """A diagonal A scales the rows of B."""
    return np.eye(m, k) * rng.standard_normal((m, 1)), rng.standard_normal((k, n))


def one_entry_lines(rng: Rng, m: int, k: int, n: int) -> Pair:
    """Every other row of A, and every third column of B, has one entry."""
    a, b = phi(2)(rng, m, k, n)
    a[::2] *= np.arange(k) == rng.integers(0, k, (len(a[::2]), 1))
    b[:, ::3] *= np.arange(k)[:, None] == rng.integers(0, k, len(b[0, ::3]))
    return a, b


FAMILIES = {
    "phi = 0.1": Family(phi(0.1)),
    **{f"phi = {spread}": Family(phi(spread)) for spread in (0, 0.5, 1, 2, 3, 4)},
    "Cauchy": Family(cauchy),
    "outliers of 1e4": Family(outliers(1e4, "AB")),
    "outliers of 1e8": Family(outliers(1e8, "AB")),
    "outliers of 1e4 in A": Family(outliers(1e4, "A"), one_sided=True),
    "outliers of 1e8 in A": Family(outliers(1e8, "A"), one_sided=True),
    "outliers of 1e4 in B": Family(outliers(1e4, "B"), one_sided=True),
    "outliers of 1e8 in B": Family(outliers(1e8, "B"), one_sided=True),
    "columns of 1e4 in A": Family(outlier_columns(1e4), one_sided=True),
    "columns of 1e8 in A": Family(outlier_columns(1e8), one_sided=True),
    "3 % dense": Family(sparse(0.03)),
    "10 % dense": Family(sparse(0.1)),
    "one dense row": Family(one_dense_row),
    "lower triangles": Family(triangles(upper=False)),
    "lower and upper": Family(triangles(upper=True)),
    "near the identity": Family(near_identity),
    "graded together": Family(graded_together),
    "graded against": Family(graded_against, long=True),
    "graded in A": Family(graded_rows, one_sided=True),
    "cancelling": Family(cancelling),
    "permutation": Family(permutation),
    "diagonal": Family(diagonal),
    "lines of one entry": Family(one_entry_lines),
}
