"""Hard matrices: families of pairs (a, b) that break products which are only usually right.

``FAMILIES`` is the table; every row works for any shape and repeats for a seed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

Float = NDArray[np.float64]
Pair = tuple[Float, Float]
Rng = np.random.Generator


@dataclass(frozen=True)
class Family:
    """A family of pairs of float64 matrices: ``make(rng, m, k, n)`` gives (m, k) and (k, n).

    Examples
    --------
    >>> a, b = FAMILIES["phi0.5"].make(np.random.default_rng(0), 2, 3, 4)
    >>> a.shape, b.shape
    ((2, 3), (3, 4))
    """

    name: str
    make: Callable[[Rng, int, int, int], Pair]
    why: str


def phi(rng: Rng, shape: tuple[int, ...], phi: float) -> Float:
    """(rand - 0.5) * exp(phi * randn): the field's usual test; phi spreads the exponents.

    Examples
    --------
    >>> x = phi(np.random.default_rng(0), (2, 2), 0.0)
    >>> bool((abs(x) <= 0.5).all())
    True
    """
    return np.asarray((rng.random(shape) - 0.5) * np.exp(phi * rng.standard_normal(shape)))


def _scaled(x: Float | float, exponents: NDArray[np.int64]) -> Float:
    return np.asarray(np.ldexp(x, exponents.astype(np.intc)))


def _phi(spread: float) -> Callable[[Rng, int, int, int], Pair]:
    def make(rng: Rng, m: int, k: int, n: int) -> Pair:
        return phi(rng, (m, k), spread), phi(rng, (k, n), spread)

    return make


def _positive(rng: Rng, m: int, k: int, n: int) -> Pair:
    return rng.random((m, k)), rng.random((k, n))


def _grade(rng: Rng, shape: tuple[int, int], limit: int) -> NDArray[np.int64]:
    return rng.integers(-limit, limit, shape, endpoint=True)


def _graded_inner(rng: Rng, m: int, k: int, n: int) -> Pair:
    a, b = _phi(0.5)(rng, m, k, n)
    inner = _grade(rng, (1, k), 500)
    return _scaled(a, inner), _scaled(b, -inner.T)


def _graded_against(rng: Rng, m: int, k: int, n: int) -> Pair:
    a, b = _phi(0.5)(rng, m, k, n)
    a = _scaled(a, _grade(rng, (m, 1), 500) + _grade(rng, (1, k), 200))
    return a, _scaled(b, _grade(rng, (k, 1), 200) + _grade(rng, (1, n), 500))


def _graded_rows(rng: Rng, m: int, k: int, n: int) -> Pair:
    a, b = _phi(0.5)(rng, m, k, n)
    return _scaled(a, _grade(rng, (m, 1), 500)), _scaled(b, _grade(rng, (1, n), 400))


def _one_huge(rng: Rng, m: int, k: int, n: int) -> Pair:
    a, b = _phi(0.5)(rng, m, k, n)
    common = rng.integers(k)  # every other row has its 1e200 where no column is small
    places = np.where(np.arange(m) % 2 == 0, common, rng.integers(k, size=m))
    a[np.arange(m), places] = rng.choice([-1e200, 1e200], m)
    b[common] *= 1e-200
    return a, b


def _cancellation(rng: Rng, m: int, k: int, n: int) -> Pair:
    """Pairs [x, -x + little] against [y, y]; b starts with powers of two, for the ties.

    Rows cycle through: exact zero; the last bit of every x survives; a tie 1 + 2**-53; that tie
    with a survivor 2**-150 below it or smaller.
    """
    a, b = phi(rng, (m, k), 2.0), phi(rng, (k, n), 1.0)
    if k == 1:
        return a, b
    half = k // 2
    b[0] = rng.choice([-1.0, 1.0], n) * _scaled(1.0, rng.integers(-30, 30, n))
    b[half : 2 * half] = b[:half]
    b[2 * half :] = 0.0
    x = a[:, :half]
    kind = (np.arange(m) + rng.integers(4)) % 4
    x[kind == 3] *= 2.0**-200
    a[:, half : 2 * half] = np.where(np.isin(kind, (1, 3))[:, None], np.nextafter(-x, 9.0), -x)
    a[kind >= 2, 0], a[kind >= 2, half] = 1.0, 2.0**-53
    order = rng.permutation(k)
    return a[:, order], b[order]


def _ties(rng: Rng, m: int, k: int, n: int) -> Pair:
    """3 times an odd M is odd and has 54 bits: a midpoint. Even integers added keep it one.

    Rows cycle through: on the midpoint, just above, just below (k = 1: only on it).
    """
    odd = rng.integers(int(1.1 * 2**51), int(1.3 * 2**51), m) * 2 + 1
    a = 2.0 * rng.integers(-(2**20), 2**20, (m, k)).astype(np.float64)
    b = np.ones((k, n))
    a[:, 0], b[0] = odd, 3.0
    if k > 1:
        side = np.array([0.0, 1.0, -1.0])[(np.arange(m) + rng.integers(3)) % 3]
        a[:, 1] = side * _scaled(1.0, -rng.integers(1, 400, m))
    signs = rng.choice([-1.0, 1.0], n)
    order = rng.permutation(k)
    a, b = _scaled(a, _grade(rng, (m, 1), 50)), _scaled(b * signs, _grade(rng, (1, n), 50))
    return a[:, order], b[order]


def _complementary(rng: Rng, m: int, k: int, n: int) -> Pair:
    a, b = _phi(4.0)(rng, m, k, n)
    support = rng.random(k) < 0.5
    sparse_rows, sparse_columns = np.arange(m) % 3 != 2, np.arange(n) % 4 != 3
    a[np.ix_(sparse_rows, support)] = 0.0
    b[np.ix_(~support, sparse_columns)] = 0.0
    return a, b


def _circulant(rng: Rng, m: int, k: int, n: int) -> Pair:
    return _rotated(phi(rng, (k,), 0.5), phi(rng, (k,), 0.5), m, n)


def _graded_circulant(rng: Rng, m: int, k: int, n: int) -> Pair:
    grade = -np.linspace(0, 400, k).astype(np.int64)
    return _rotated(_scaled(phi(rng, (k,), 0.5), grade), _scaled(rng.random(k), grade), m, n)


def _rotated(v: Float, w: Float, m: int, n: int) -> Pair:
    inner = np.arange(v.size)
    rows, columns = np.arange(m)[:, None], np.arange(n)[None, :]
    return v[(inner[None, :] - rows) % v.size], w[(columns - inner[:, None]) % v.size]


def _subnormals(rng: Rng, m: int, k: int, n: int) -> Pair:
    a, b = rng.uniform(-1.0, 1.0, (m, k)), rng.uniform(0.5, 2.0, (k, n))
    kinds = (np.arange(m) + rng.integers(3)) % 3  # subnormal; halfway down; spread over both
    lowest = np.where(kinds == 0, -1026, -540)
    spread = rng.integers(-1074, -1000, (m, k)) * (kinds == 2)[:, None]
    a = _scaled(a, np.where(kinds[:, None] == 2, spread, lowest[:, None]))
    return a, _scaled(b, np.where(np.arange(n) % 2 == 1, -rng.integers(480, 536, n), 0)[None, :])


def _extremes(rng: Rng, m: int, k: int, n: int) -> Pair:
    """Every exponent in one row and one column; seven rows of eight are matched by the columns."""
    inner = rng.integers(-1074, 1023, k, endpoint=True)
    inner[rng.permutation(k)[:2]] = np.array([-1074, 1023])[:k]
    rows = inner[None, :] + _grade(rng, (m, k), 20)
    loose = np.arange(m) % 8 == 7
    rows[loose] = rng.integers(-1074, 1023, (m, k), endpoint=True)[loose]
    columns = _grade(rng, (k, n), 20) - inner[:, None]
    return _signed(rng, rows), _signed(rng, columns)


def _signed(rng: Rng, exponents: NDArray[np.int64]) -> Float:
    significands = rng.choice([-1.0, 1.0], exponents.shape) * rng.uniform(1.0, 2.0, exponents.shape)
    return _scaled(significands, np.clip(exponents, -1074, 1023))


def _powers_of_two(rng: Rng, m: int, k: int, n: int) -> Pair:
    def draw(shape: tuple[int, int]) -> Float:
        powers = _scaled(1.0, rng.integers(-40, 40, shape))
        towards = rng.choice([0.0, 1.0, np.inf], shape)
        beside = np.where(towards == 1.0, powers, np.nextafter(powers, towards))
        return np.asarray(beside * rng.choice([-1.0, 1.0], shape))

    return draw((m, k)), draw((k, n))


def _integers(rng: Rng, m: int, k: int, n: int) -> Pair:
    return rng.integers(-9, 10, (m, k)).astype(float), rng.integers(-9, 10, (k, n)).astype(float)


def _zero_lines(rng: Rng, m: int, k: int, n: int) -> Pair:
    a, b = _phi(1.0)(rng, m, k, n)
    a[rng.random(m) < 0.3], b[:, rng.random(n) < 0.3] = 0.0, -0.0
    return a, b


_ROWS = [
    *(
        Family(f"phi{spread:g}", _phi(spread), f"exponents spread by exp({spread:g} randn)")
        for spread in (0, 0.1, 0.5, 1, 2, 4)
    ),
    Family("positive", _positive, "nothing cancels, so truncation shows as bias"),
    Family("graded inner", _graded_inner, "2**+-500 along the inner index cancels in products"),
    Family("graded against", _graded_against, "gradings that do not cancel; a few over/underflow"),
    Family("graded rows", _graded_rows, "rows and columns of every size; scaling must not matter"),
    Family("one huge", _one_huge, "1e200 in a row meets 1e-200: the small ones make the result"),
    Family("cancellation", _cancellation, "zeros, last bits and near-ties survive cancellation"),
    Family("ties", _ties, "on, just above and just below the midpoint of two floats"),
    Family("complementary sparsity", _complementary, "disjoint supports must give exact zeros"),
    Family("circulant", _circulant, "every row is the same numbers, rotated"),
    Family("graded circulant", _graded_circulant, "large meets small in every element"),
    Family("subnormals", _subnormals, "entries and results below 2**-1022"),
    Family("extremes", _extremes, "2**-1074 and 2**1023 in one row and one column"),
    Family("powers of two", _powers_of_two, "logarithms misround at powers and their neighbours"),
    Family("integers", _integers, "small integers: every product is exact anyway"),
    Family("zero lines", _zero_lines, "rows of zeros, columns of negative zeros: no exponent"),
]
FAMILIES: dict[str, Family] = {family.name: family for family in _ROWS}


def complex_pair(
    family: Family, rng: Rng, m: int, k: int, n: int
) -> tuple[NDArray[np.complex128], NDArray[np.complex128]]:
    """Complex matrices whose real and imaginary parts are two draws of a family.

    Examples
    --------
    >>> a, b = complex_pair(FAMILIES["integers"], np.random.default_rng(0), 2, 3, 4)
    >>> a.dtype, b.shape
    (dtype('complex128'), (3, 4))
    """
    (a, b), (c, d) = family.make(rng, m, k, n), family.make(rng, m, k, n)
    left, right = np.empty((m, k), np.complex128), np.empty((k, n), np.complex128)
    left.real, left.imag, right.real, right.imag = a, c, b, d  # a + 1j * c would make -0.0 0.0
    return left, right


def as_format(x: NDArray[Any], dtype: DTypeLike) -> NDArray[Any]:
    """Round to a narrower type, clipped into its range: no infinities appear.

    Examples
    --------
    >>> as_format(np.array([1e300, 0.1]), "float32").tolist()
    [3.4028234663852886e+38, 0.10000000149011612]
    """
    import ml_dtypes

    target: np.dtype[Any] = np.dtype(dtype)
    if target.kind == "c":
        result = np.empty(x.shape, target)
        result.real = as_format(x.real, result.real.dtype)
        result.imag = as_format(x.imag, result.real.dtype)
        return result
    finfo: Any = ml_dtypes.finfo  # has no type hints; knows NumPy's own types too
    largest = float(finfo(target).max)
    return np.asarray(np.clip(x, -largest, largest).astype(target))
