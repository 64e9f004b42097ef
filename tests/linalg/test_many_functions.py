"""Many elements of every function in every kind of format, against exact numbers; all counted.

Solutions, inverses and determinants of size 2 and 3 are quotients of integers by Cramer's rule;
least squares are flint's; roots, logarithms and known spectra are MPFR's, of 400 bits. Every result
must have the bits of the exact number, rounded, and lie within its radius.
"""

from __future__ import annotations

import gmpy2
import numpy as np
import pytest

import exact_systems as systems
import widen
from compared import compared, integer_or, rationals, typed
from helpers import assert_same_bits
from widen.formats import FORMATS

linalg = widen.linalg
KINDS = ["float64", "float32", "complex128", "complex64", "float64x2"]
REAL = ["float64", "float32", "float64x2"]
BITS = 400


def rng_of(*seed):
    return np.random.default_rng(seed)


def drawn(rng, shape, name):
    """Integers of 20 bits, so that determinants are near zero now and then; complex if asked."""
    size = 2.0 ** rng.integers(2, 20, shape[:1] + (1,) * (len(shape) - 1))
    x = np.rint(rng.standard_normal(shape) * size)
    return x + 1j * np.rint(rng.standard_normal(shape) * size) if "complex" in name else x


def integers_of(x):
    """Both parts as objects."""
    return [np.vectorize(int, otypes=[object])(part) for part in (x.real, np.imag(x))]


class Gauss:
    """Arrays of complex integers, enough of them for Cramer's rule."""

    def __init__(self, re, im):
        self.re, self.im = re, im

    def __mul__(self, other):
        re = self.re * other.re - self.im * other.im
        return Gauss(re, self.re * other.im + self.im * other.re)

    def __sub__(self, other):
        return Gauss(self.re - other.re, self.im - other.im)

    def over(self, other):
        """Quotients, as arrays of gmpy2's rationals."""
        down = other.re * other.re + other.im * other.im
        up = self * Gauss(other.re, -other.im)
        divide = np.frompyfunc(lambda p, q: gmpy2.mpq(int(p), int(q)), 2, 1)
        return divide(up.re, down), divide(up.im, down)


def entries(a):
    return [[Gauss(*integers_of(a[:, i, j])) for j in range(a.shape[2])] for i in range(a.shape[1])]


def determinant_of(m):
    if len(m) == 2:
        return m[0][0] * m[1][1] - m[0][1] * m[1][0]
    minors = [m[1][j] * m[2][k] - m[1][k] * m[2][j] for j, k in ((1, 2), (0, 2), (0, 1))]
    return m[0][0] * minors[0] - m[0][1] * minors[1] - (Gauss(0, 0) - m[0][2] * minors[2])


# ── quotients of integers ────────────────────────────────────────────────────


def regular(rng, count, n, name):
    a = drawn(rng, (count, n, n), name)
    det = determinant_of(entries(a))
    kept = (det.re != 0) | (det.im != 0)
    return a[kept.astype(bool)]


def solutions(name, count):
    a = regular(rng_of(1), count // 2, 2, name)
    b = drawn(rng_of(2), (len(a), 2, 1), name)
    found, info = linalg.solve(typed(a, name), typed(b, name), dtype=name, info=True)
    m, (p, q) = entries(a), (entries(b)[0][0], entries(b)[1][0])
    det = determinant_of(m)
    tops = [p * m[1][1] - m[0][1] * q, m[0][0] * q - m[1][0] * p]
    exact = [np.stack(x, 1)[..., None] for x in zip(*(top.over(det) for top in tops), strict=True)]
    return compared(found, exact[: FORMATS[name].parts], name, info.radius)


def inverses(name, count):
    a = regular(rng_of(3), count // 4, 2, name)
    found, info = linalg.inv(typed(a, name), dtype=name, info=True)
    (p, q), (r, s) = entries(a)
    zero, det = Gauss(0, 0), determinant_of(entries(a))
    lines = [x.over(det) for x in (s, zero - q, zero - r, p)]
    exact = [np.stack(x, 1).reshape(-1, 2, 2) for x in zip(*lines, strict=True)]
    return compared(found, exact[: FORMATS[name].parts], name, info.radius)


def determinants(name, count):
    a = drawn(rng_of(4), (count, 3 if "complex" not in name else 2, 3 - ("complex" in name)), name)
    found = linalg.det(typed(a, name), dtype=name)
    det = determinant_of(entries(a))
    exact = det.over(Gauss(det.re * 0 + 1, det.re * 0))
    return compared(found, exact[: FORMATS[name].parts], name)


def logarithms(name, count):
    a = drawn(rng_of(5), (count, 2, 2), "float64")
    signs, found = linalg.slogdet(a.astype(name) if name == "float32" else a)
    det = determinant_of(entries(a)).re
    with gmpy2.context(precision=BITS):
        for sign, value, exact in zip(signs, found, det.tolist(), strict=True):
            assert sign == (exact > 0) - (exact < 0)
            wanted = gmpy2.log(abs(gmpy2.mpz(exact))) if exact else None
            assert value == (
                -np.inf if wanted is None else systems.nearest(gmpy2.mpq(wanted), "float64")
            )
    return 2 * count


def ranks(name, count):
    """Of products of integers with a known factor, by flint."""
    rng, total = rng_of(6), count
    x = rng.integers(-2, 3, (total, 4, 2)) @ rng.integers(-2, 3, (total, 2, 5))
    found = linalg.matrix_rank(x.astype(name if name in ("float32", "float64") else float))
    for rank, matrix in zip(found.tolist(), x, strict=True):
        assert rank == systems.rational_matrix(matrix.astype(float)).rank()
    return total


# ── least squares, by flint ──────────────────────────────────────────────────


def exact_squares(a, b):
    """A'A x = A'b for real integers."""
    return systems.exact_solution(a.T @ a, a.T @ b)


def as_real(a):
    return np.block([[a.real, -a.imag], [a.imag, a.real]]) if a.dtype.kind == "c" else a


def least_squares(name, count, pseudo=False):
    rng, total, m, n = rng_of(7, pseudo), 0, 40, 3
    while total < count:
        a = np.rint(rng.standard_normal((m, n)) * 50)
        b = np.eye(m) if pseudo else np.rint(rng.standard_normal((m, 300)) * 1000)
        if "complex" in name:
            a = a + 1j * np.rint(rng.standard_normal((m, n)) * 50)
        if pseudo:
            found, info = linalg.pinv(typed(a, name), dtype=name, info=True)
        else:
            found, info = linalg.lstsq(typed(a, name), typed(b, name), dtype=name, info=True)
        real = as_real(a)
        right = np.concatenate([b, 0 * b]) if a.dtype.kind == "c" else b
        whole = exact_squares(real, right)
        exact = [whole[:n], whole[n:]] if a.dtype.kind == "c" else [whole]
        total += compared(found, exact, name, info.radius)
    return total


def pseudoinverses(name, count):
    return least_squares(name, count, True)


# ── roots ────────────────────────────────────────────────────────────────────


def norms(name, count):
    x = drawn(rng_of(8), (count, 5), name)
    kind = FORMATS[name].part.name
    found, info = linalg.norm(typed(x, name), axis=1, dtype=kind, info=True)
    re, im = integers_of(x)
    with gmpy2.context(precision=BITS):
        root = np.frompyfunc(lambda v: gmpy2.sqrt(gmpy2.mpz(int(v))), 1, 1)
        exact = rationals(root((re * re + im * im).sum(1)))
    assert info.decided.all()
    return compared(found, [exact], kind)


def factors(name, count):
    """Cholesky's by columns, in 400 bits."""
    total, n = 0, 24
    while total < count:
        rng = rng_of(9, total)
        x = np.rint(rng.standard_normal((n, n)) * 8)
        a = x @ x.T + n * np.eye(n)
        found, info = linalg.cholesky(typed(a, name), dtype=name, info=True)
        assert info.decided.all()
        with gmpy2.context(precision=BITS):
            rest = np.frompyfunc(lambda v: gmpy2.mpfr(int(v)), 1, 1)(a)
            exact = np.full((n, n), gmpy2.mpq(0), object)
            for k in range(n):
                column = rest[k:, k] / gmpy2.sqrt(rest[k, k])
                exact[k:, k] = rationals(column)
                rest[k:, k:] = rest[k:, k:] - np.multiply.outer(column, column)
        compared(found, [exact], name, info.radius + 1e-90)
        total += n * (n + 1) // 2
    return total


# ── known spectra ────────────────────────────────────────────────────────────


def sines(angles, factor):
    """Exact factors times sines of multiples of pi, as rationals of 400 bits, squared if asked."""
    with gmpy2.context(precision=BITS):
        return np.array([gmpy2.mpq(factor(gmpy2.sin(gmpy2.const_pi() * p / q))) for p, q in angles])


def eigenvalues(name, count):
    """2 - 2 cos x = 4 sin(x/2)^2 of a path's Laplacian, times a power of two."""
    total = 0
    for n in sizes_for(count):
        a = (2 * np.eye(n) - np.eye(n, k=1) - np.eye(n, k=-1)) * 2.0**-5
        found, info = linalg.eigvalsh(a, dtype=name, info=True)
        exact = sines([(k, 2 * n + 2) for k in range(1, n + 1)], lambda s: 4 * s * s / 32)
        whole = np.array([integer_or(x) for x in exact], object)
        assert info.decided.all()
        total += compared(found, [whole], name, info.radius)
    return total


def singular_values(name, count):
    """2 sin((2k - 1) pi / (4n + 2)) of a bidiagonal matrix of ones."""
    total = 0
    for n in sizes_for(count):
        a = np.eye(n) - np.eye(n, k=1)
        found, info = linalg.svdvals(a, dtype=name, info=True)
        exact = sines([(2 * k - 1, 4 * n + 2) for k in range(n, 0, -1)], lambda s: 2 * s)
        whole = np.array([integer_or(x) for x in exact], object)
        assert info.decided.all()
        total += compared(found, [whole], name, info.radius)
        if name == "float64":
            largest, smallest = linalg.norm(a, 2), linalg.cond(a)
            assert_same_bits(np.float64(largest), systems.nearest(whole[0], name))
            assert_same_bits(np.float64(smallest), systems.nearest(whole[0] / whole[-1], name))
            total += 2
    return total


def sizes_for(count):
    """Sizes of matrices with so many values together."""
    return [7, 12, *([61] * (count // 61))] if count > 100 else [7, 12]


# ── factors whose residuals are bounded ──────────────────────────────────────


def fractions(x):
    return systems.fractions_of(x if isinstance(x, widen.Words) else x.astype(float))


def residuals(name, count, lower=False):
    """Exact products of the factors as they are returned, against the bounds."""
    total, n = 0, 16
    while total < count:
        a = rng_of(10, total, lower).standard_normal((n, n)).astype("float32").astype(float)
        if lower:
            lu, pivots, info = linalg.lu_factor(a, dtype=name, info=True)
            whole = fractions(lu)
            left = np.tril(whole, -1) + np.eye(n, dtype=int)
            right, rows = np.triu(whole), a.copy()
            for i, p in enumerate(pivots.tolist()):
                rows[[i, p]] = rows[[p, i]]
        else:
            q, r, info = linalg.qr(a, dtype=name, info=True)
            left, right = fractions(q), fractions(r)
            rows = a
        rest = abs(systems.fractions_of(rows) - left.dot(right))
        bound = systems.fractions_of(np.asarray(info.residual))
        assert (rest <= bound).all()
        total += n * n
    return total


def triangles(name, count):
    return residuals(name, count, True)


# ── the table ────────────────────────────────────────────────────────────────

CASES = [
    *((solutions, name, 40_000) for name in KINDS[:4]), (solutions, "float64x2", 2_000),
    *((inverses, name, 30_000) for name in KINDS[:4]), (inverses, "float64x2", 2_000),
    *((least_squares, name, 40_000) for name in KINDS),
    *((pseudoinverses, name, 12_000) for name in KINDS),
    *((determinants, name, 20_000) for name in REAL), (determinants, "complex128", 300),
    *((factors, name, 6_000) for name in REAL),
    *((norms, name, 2_000) for name in KINDS),
    *((logarithms, name, 3_000) for name in REAL[:2]),
    *((ranks, name, 300) for name in REAL[:2]),
    *((eigenvalues, name, 150) for name in REAL),
    *((singular_values, name, 150) for name in REAL),
    *((residuals, name, 512) for name in REAL),
    *((triangles, name, 512) for name in REAL),
]  # fmt: skip
ENCLOSED = (solutions, inverses, least_squares, pseudoinverses, factors, eigenvalues)


def test_enough_is_compared():
    assert sum(count for _, _, count in CASES) >= 600_000
    assert sum(count for function, _, count in CASES if function in ENCLOSED) >= 500_000
    assert sum(count for function, _, count in CASES if function is least_squares) >= 200_000


@pytest.mark.slow
@pytest.mark.parametrize(
    ("function", "name", "count"), CASES, ids=lambda x: getattr(x, "__name__", str(x))
)
def test_elements_are_rounded_once_and_within_their_radii(function, name, count):
    assert function(name, count) >= 0.9 * count  # singular matrices are left out
