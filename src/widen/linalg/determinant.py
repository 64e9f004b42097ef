"""Determinants of real and complex matrices: an enclosure from an LU, or the exact integer.

With approximate inverses X_L (unit lower) and X_U (upper) of the triangles of P A, let G = I - X_L
P A X_U. If the row sums of |G| are at most alpha < 1, det(I - sG) is not zero for 0 <= s <= 1, so
that det A = sign(P) det(I - G) / prod (X_U)_ii has a proven sign; and log det(I - G) is -tr G - tr
G^2/2 - tr G^3/3 - tr G^4/4 - ..., the rest at most n alpha^5 / (5 (1 - alpha)).

Where that does not decide, the determinant of the matrix of integers is found modulo primes until
their product exceeds twice Hadamard's bound: exact, for zeros and ties as well.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from widen import api
from widen.formats.arrays import library_of
from widen.linalg import arrays, lu
from widen.linalg.bounds import U, above, first_words, magnitudes, product, product_above
from widen.linalg.errors import NotProvenError, SingularMatrixError
from widen.linalg.integers import integer_rows
from widen.linalg.modular import eliminate, primes, reduced, residues
from widen.linalg.progress import report
from widen.linalg.scaling import scale_matrix
from widen.linalg.singular import BITS, WORK, row_bits, row_exponents, work_of
from widen.words.conversions import to_fraction

CLOSE = 0.1
"""Row sums of |G| up to which the series is used."""
SMALL, LONG = 16, 1000
"""Rows of matrices whose determinants are found in Python's integers at once, and bits of these:
n = 16 takes half of the time of an enclosure, n = 8 a thirtieth."""
FIXED = 256
"""Bits behind the point of the exponential function."""


@dataclass(frozen=True)
class Determinant:
    """The real (and imaginary) part of a determinant, each within [low, high]."""

    parts: tuple[tuple[Fraction, Fraction], ...]
    is_exact: bool

    @classmethod
    def exact(cls, *values: Fraction) -> Determinant:
        """A determinant that is known."""
        return cls(tuple((value, value) for value in values), True)


# ── modulo primes ────────────────────────────────────────────────────────────


def exact_determinant(*parts: Any) -> Determinant:
    """The determinant of a real matrix, or of a complex one by its parts, modulo primes."""
    n = parts[0].shape[0]
    bits = float(row_bits(*parts).clip(0).sum()) + 1
    count = math.floor((bits + 1) / BITS) + 2
    if work_of((n, n), count * len(parts)) > WORK:
        raise NotProvenError(
            f"the determinant is not decided by its enclosure, and {count} primes are too many for "
            f"n = {n}; ask for fewer digits, or scale the matrix so that it is better conditioned"
        )
    exponent = int(row_exponents(*parts).sum())
    totals, modulus = [0] * len(parts), 1
    for p in primes():
        report(0.3 + 0.7 * modulus.bit_length() / (bits + 1))
        if len(parts) == 2 and p % 4 != 1:
            continue
        scale = pow(2, -exponent, p)
        residues = [value * scale % p for value in _modulo(parts, p)]
        inverse = pow(modulus, -1, p)
        totals = [t + modulus * ((v - t) * inverse % p)
                  for t, v in zip(totals, residues, strict=True)]  # fmt: skip
        modulus *= p
        if modulus.bit_length() - 1 > bits + 1:
            break
    values = [t - modulus if 2 * t > modulus else t for t in totals]
    return Determinant.exact(*(value * Fraction(2) ** exponent for value in values))


def _modulo(parts: tuple[Any, ...], p: int) -> list[int]:
    """The parts of the determinant modulo p: with i and -i as roots of -1, if there are two."""
    if len(parts) == 1:
        return [eliminate(residues(parts[0], p), p)[1]]
    root = next(r for g in range(2, p) if (r := pow(g, (p - 1) // 4, p)) * r % p == p - 1)
    re, im = (residues(part, p) for part in parts)
    turned = reduced(im * float(root), p)
    plus = eliminate(reduced(re + turned, p), p)[1]
    minus = eliminate(reduced(re - turned, p), p)[1]
    half = pow(2, -1, p)
    return [(plus + minus) * half % p, (plus - minus) * half * pow(root, -1, p) % p]


# ── in Python's integers, small matrices ─────────────────────────────────────


def small_determinants(a: Any) -> list[Determinant] | None:
    """Exact determinants of real matrices (count, n, n), of few rows; None for more.

    Every entry of Bareiss' elimination is a minor, so that divisions are exact.
    """
    count, n = a.shape[0], a.shape[-1]
    if not 0 < n <= SMALL:
        return None
    (rows,), low = integer_rows(a.reshape(count * n, n))
    if abs(rows).max(initial=0).bit_length() > LONG:
        return None
    exponents = low.reshape(count, n).sum(axis=1).tolist()
    lines = rows.tolist()
    values = [_by_elimination(lines[at * n : (at + 1) * n]) for at in range(count)]
    return [Determinant.exact(value * Fraction(2) ** power)
            for value, power in zip(values, exponents, strict=True)]  # fmt: skip


def _by_elimination(rows: list[list[int]]) -> int:
    """The determinant of integers.

    >>> _by_elimination([[0, 2], [3, 4]])
    -6
    """
    n, sign, last = len(rows), 1, 1
    for k in range(n - 1):
        at = next((i for i in range(k, n) if rows[i][k]), None)
        if at is None:
            return 0
        if at != k:
            rows[k], rows[at] = rows[at], rows[k]
            sign = -sign
        top = rows[k]
        pivot = top[k]
        for i in range(k + 1, n):
            row = rows[i]
            factor = row[k]
            for j in range(k + 1, n):
                row[j] = (pivot * row[j] - factor * top[j]) // last
        last = pivot
    return sign * rows[-1][-1]


# ── by the triangles ─────────────────────────────────────────────────────────


def enclosed_determinant(a: Any) -> Determinant | None:
    """An enclosure of a real determinant, or None where the triangles are not good enough."""
    scaled = scale_matrix(a)
    if scaled is None:
        return None
    matrix, rows, columns = scaled
    n = matrix.shape[0]
    packed, order = lu.factor(first_words(matrix))
    report(0.1)
    library = library_of(packed)
    identity = arrays.eye_like(packed, n)
    lower = arrays.inverse(library.tril(packed, -1) + identity)
    upper = arrays.inverse(library.triu(packed))
    if lower is None or upper is None:
        return None
    lower, upper = library.tril(lower, -1) + identity, library.triu(upper)
    sorted_rows = matrix[arrays.moved_like(order, packed)]
    t, about_t = api.matmul(lower, sorted_rows, dtype="float64x2", info=True)
    report(0.2)
    g, about_g = api.gemm(t, upper, identity, alpha=-1.0, beta=1.0, dtype="float64x2", info=True)
    error = above(about_g.bound + product_above(about_t.bound, abs(upper)))
    logarithm = _logarithm(g, error)
    if logarithm is None:
        return None
    value, bound = logarithm
    top, relative = _exponential(value), Fraction(1.25) * bound + Fraction(1, 2**200)
    bottom, power = 1, -int(rows.sum()) - int(columns.sum())
    for pivot in arrays.on_host(upper.diagonal()).tolist():  # exactly
        mantissa, exponent = math.frexp(pivot)
        bottom *= int(mantissa * 2**53)
        power -= exponent - 53
    middle = lu.sign_of(order.tolist()) * top / bottom * Fraction(2) ** power
    reach = abs(middle) * relative
    return Determinant(((middle - reach, middle + reach),), False)


def _logarithm(g: Any, error: Any) -> tuple[Fraction, Fraction] | None:
    """The logarithm of det(I - G) and a bound of its error; None if G is not small.

    G is known within `error`.

    An error dG changes the logarithm by tr((I - G)^-1 dG), at most sum |dG| / (1 - alpha). Computed
    traces of powers are off by (n^2 + 3n + 8) u of those of |G|'s powers.
    """
    n = error.shape[0]
    around = above(magnitudes(g) + error)
    alpha = float(above(around.sum(1).max(), n))
    if not alpha < CLOSE:
        return None
    first, size = first_words(g), abs(first_words(g))
    square, sizes = product(first, first), product(size, size)
    traces = [(first * first.T).sum(), (square * first.T).sum(), (square * square.T).sum()]
    bounds = [(size * size.T).sum(), (sizes * size.T).sum(), (sizes * sizes.T).sum()]
    slack = (n * n + 3 * n + 8) * 2.0 * U
    rest = n * alpha**5 / (5 * (1 - alpha)) + float(error.sum()) / (1 - alpha)
    rest += sum(slack * float(b) / j for j, b in enumerate(bounds, 2))
    at = range(n)
    diagonal = sum(to_fraction(g[at, at]).tolist(), Fraction(0))
    value = -diagonal - sum(Fraction(float(t)) / j for j, t in enumerate(traces, 2))
    bound = Fraction(float(above(rest, n * n + 8)))
    return (value, bound) if abs(value) <= Fraction(1, 4) and bound <= Fraction(1, 4) else None


def _exponential(x: Fraction) -> Fraction:
    """exp(x) for |x| <= 1/4, within 2^-200 of itself: Taylor's series in integers."""
    one = 1 << FIXED
    step = (x.numerator << FIXED) // x.denominator
    term, total = one, one
    for k in range(1, 64):
        term = term * step // (k << FIXED)
        total += term
    return Fraction(total, one)


def determinant(*parts: Any) -> Determinant:
    """The determinant of a matrix (one part) or of a complex one (two), enclosed or exact."""
    n = parts[0].shape[0]
    if n == 0:
        return Determinant.exact(*(Fraction(1 - k) for k in range(len(parts))))
    if len(parts) == 1:
        try:
            enclosed = enclosed_determinant(parts[0])
        except SingularMatrixError:
            return Determinant.exact(Fraction(0))
        if enclosed is not None:
            return enclosed
    return exact_determinant(*parts)
