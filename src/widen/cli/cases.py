"""What the demonstration multiplies, and how well a product does on it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import inf, log10
from time import perf_counter

import numpy as np
from numpy.typing import NDArray

from widen.cli.exact import exact_products

Matrix = NDArray[np.float64]
Product = Callable[[Matrix, Matrix], Matrix]

SEED = 20240229
FULL = -log10(2.0**-53)  # digits of a float64 that is the nearest one


@dataclass(frozen=True)
class Case:
    """Two matrices, and in words what is hard about them."""

    name: str
    why: str
    a: Matrix
    b: Matrix


@dataclass(frozen=True)
class Score:
    """How one product did on one case."""

    digits: float  # correct decimal digits of the worst element checked, 0 to FULL
    wrong: int  # elements that are not the float64 nearest to the exact value
    checked: int
    finite: bool
    seconds: float


def cases() -> list[Case]:
    """Return the demonstration's matrices, the same every time."""
    random = np.random.default_rng(SEED)
    return [
        Case(
            "random numbers",
            "300×300, normally distributed",
            random.standard_normal((300, 300)),
            random.standard_normal((300, 300)),
        ),
        Case(
            "long sums",
            "64×4096 by 4096×64, all positive",
            random.random((64, 4096)),
            random.random((4096, 64)),
        ),
        graded(random),
        residual(random),
        small_among_large(random),
        beyond_the_range(random),
    ]


def graded(random: np.random.Generator) -> Case:
    """Columns of A and rows of B scaled against each other: harmless sums of ugly numbers."""
    n = 200
    scale = random.integers(-300, 301, n)
    a = np.ldexp(random.standard_normal((n, n)), scale[None, :])
    b = np.ldexp(random.standard_normal((n, n)), -scale[:, None])
    return Case("graded matrices", "columns of A times 2^±300, rows of B by 2^∓300", a, b)


def residual(random: np.random.Generator) -> Case:
    """AX - I, as one product: [A, I]·[X; -I]."""
    n = 150
    a = random.standard_normal((n, n))
    identity = np.eye(n)
    left = np.hstack([a, identity])
    right = np.vstack([np.linalg.inv(a), -identity])
    return Case(
        "residual of an inverse", "A·inv(A) - I, n = 150: what refinement needs", left, right
    )


def small_among_large(random: np.random.Generator) -> Case:
    """Large terms that cancel and leave small ones: XY + small - XY."""
    x, y = random.standard_normal((2, 100, 100)) * 1e6
    small, other = random.standard_normal((2, 100, 100)) * 1e-3
    a, b = np.hstack([x, small, -x]), np.vstack([y, other, y])
    return Case("small among large", "terms of 10^12 cancel and leave 10^-6", a, b)


def beyond_the_range(random: np.random.Generator) -> Case:
    """The same with terms near 2^1200, which float64 cannot hold."""
    x, y = np.ldexp(random.standard_normal((2, 60, 60)), 600)
    small, other = random.standard_normal((2, 60, 60))
    a, b = np.hstack([x, small, -x]), np.vstack([y, other, y])
    return Case("overflow on the way", "terms of 2^1200 cancel and leave ordinary numbers", a, b)


def sample(case: Case, rows: int = 20, columns: int = 10) -> tuple[list[int], list[int]]:
    """Choose the rows and columns whose elements are checked."""
    random = np.random.default_rng(SEED)
    m, n = case.a.shape[0], case.b.shape[1]
    return random.permutation(m)[:rows].tolist(), random.permutation(n)[:columns].tolist()


def correct_digits(value: float, exact: Fraction) -> float:
    """Return how many decimal digits of a value are right, from 0 to FULL.

    >>> round(correct_digits(0.333, Fraction(1, 3)), 1)
    3.0
    """
    if not np.isfinite(value):
        return 0.0
    error = abs(Fraction(value) - exact)
    if error == 0:
        return FULL
    if exact == 0:
        return 0.0
    return min(max(-log10(error / abs(exact)), 0.0), FULL)


def score(product: Product, case: Case, runs: int = 2) -> Score:
    """Run a product on a case, time it and check a sample of its elements exactly."""
    seconds = inf
    for _ in range(runs):  # the first may compile kernels or wake threads
        started = perf_counter()
        c = product(case.a, case.b)
        seconds = min(seconds, perf_counter() - started)
    rows, columns = sample(case)
    exact = exact_products(case.a[rows], case.b[:, columns].T)
    values = c[np.ix_(rows, columns)].ravel().tolist()
    pairs = [(value, truth) for value, (truth,) in zip(values, exact, strict=True)]
    return Score(
        digits=min(correct_digits(value, truth) for value, truth in pairs),
        # Python's int / int rounds to nearest even, subnormals included.
        wrong=sum(value != truth.numerator / truth.denominator for value, truth in pairs),
        checked=len(pairs),
        finite=bool(np.isfinite(c).all()),
        seconds=seconds,
    )


def elements_that_change(product: Product, a: Matrix, b: Matrix, rows: int = 20) -> int:
    """Count the elements whose bits change when their row is multiplied alone."""
    whole = product(a, b)
    return sum(int(np.count_nonzero(product(a[i : i + 1], b)[0] != whole[i])) for i in range(rows))


def worst_digits(words: Sequence[Matrix], a: Matrix, b: Matrix, factor: float) -> float:
    """Return the correct digits of the worst element on the diagonal of factor a b.

    The product is given by its words, whose sum it is.
    """
    worst = inf
    for i in range(len(a)):
        ((product,),) = exact_products(a[i : i + 1], b[:, i : i + 1].T)
        exact = Fraction(factor) * product
        error = abs(sum(Fraction(float(word[i, i])) for word in words) / exact - 1)
        worst = min(worst, -log10(error) if error else inf)
    return max(worst, 0.0)
