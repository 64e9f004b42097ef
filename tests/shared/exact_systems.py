"""Exact solutions by python-flint, rounded by MPFR, and systems that are hard in known ways."""

from __future__ import annotations

from fractions import Fraction

import flint
import gmpy2
import numpy as np

import widen
from widen.formats import FORMATS

CONTEXTS = {"float64": gmpy2.ieee(64), "float32": gmpy2.ieee(32)}


def fractions_of(x):
    """Exact values of a real array or of real words, in an object array."""
    if isinstance(x, widen.Words):
        return x.to_fraction()
    values = np.empty(x.shape, object)
    values.reshape(-1)[:] = [Fraction(float(v)) for v in x.reshape(-1)]
    return values


def rational_matrix(x):
    """A matrix of flint's rationals."""
    exact = fractions_of(x)
    entries = [flint.fmpq(v.numerator, v.denominator) for v in exact.reshape(-1)]
    return flint.fmpq_mat(*exact.shape, entries)


def as_mpq(q):
    """A rational of flint as one of gmpy2."""
    return gmpy2.mpq(int(q.p), int(q.q))


def nearest(q, name):
    """The nearest float of a rational, by MPFR; zeros are +0."""
    with gmpy2.context(CONTEXTS[name]):
        return float(gmpy2.mpfr(q)) + 0.0


def nearest_words(q, name):
    """Canonical words of a rational: those of the sum of its own words.

    A word that is half a unit of the one before it has the sign that makes that one even, and a
    float32 behind a large float64 is the largest there is.
    """
    words, rest = _words(q, name)
    return _words(q - rest, name)[0] if rest and len(words) > 1 and words[0] else words


def _words(q, name):
    words = []
    for word in FORMATS[name].words:
        value = nearest(q, word.name)
        if np.isinf(value) and not words:
            return (value, *(0.0,) * (len(FORMATS[name].words) - 1)), 0
        if np.isinf(value):
            value = np.copysign(float(np.finfo(word.name).max), value)
        words.append(value)
        q = q - gmpy2.mpq(value)
    return tuple(words), q


def exact_solution(a, b):
    """The exact solution of a real system, as gmpy2's rationals."""
    found = rational_matrix(a).solve(rational_matrix(b))
    values = np.empty(b.shape, object)
    for i in range(b.shape[0]):
        for j in range(b.shape[1]):
            values[i, j] = as_mpq(found[i, j])
    return values


def rounded(exact, name="float64"):
    """Exact values rounded to a format: an array, or one for every word."""
    flat = [nearest_words(q, name) for q in exact.reshape(-1)]
    words = [np.array([w[k] for w in flat]).reshape(exact.shape)
             for k in range(len(FORMATS[name].words))]  # fmt: skip
    return words[0] if len(words) == 1 else words


def rational(x):
    """A float as a rational."""
    return gmpy2.mpq(float(x))


def as_rational(x):
    """A fraction of Python as a rational of gmpy2."""
    return gmpy2.mpq(x.numerator, x.denominator)


def power_of_two(e):
    return gmpy2.mpq(2) ** e


def inverse_of_fractions(x):
    """The exact inverse of an object array of fractions."""
    n = len(x)
    entries = [flint.fmpq(v.numerator, v.denominator) for v in x.reshape(-1)]
    found = flint.fmpq_mat(n, n, entries).inv()
    values = np.empty((n, n), object)
    for i in range(n):
        for j in range(n):
            values[i, j] = as_mpq(found[i, j])
    return values


# ── systems ──────────────────────────────────────────────────────────────────


def gaussian(rng, n):
    return rng.standard_normal((n, n)), rng.standard_normal((n, 2))


def conditioned(rng, n, digits):
    """Condition number of about 10^digits."""
    u, v = (np.linalg.qr(rng.standard_normal((n, n)))[0] for _ in range(2))
    return (u * np.logspace(0, -digits, n)) @ v, rng.standard_normal((n, 1))


def integers(rng, n, size=9):
    """Integer solutions of integer systems."""
    a = np.zeros((n, n))
    while rational_matrix(a).det() == 0:
        a = rng.integers(-size, size + 1, (n, n)).astype(float)
    return a, a @ rng.integers(-size, size + 1, (n, 2)).astype(float)


def graded(rng, n):
    """Rows and columns of very different sizes."""
    powers = 2.0 ** rng.integers(-60, 60, (2, n))
    a = rng.standard_normal((n, n)) * powers[0][:, None] * powers[1]
    return a, rng.standard_normal((n, 2)) * 2.0 ** rng.integers(-100, 100, (n, 2))


def tied(rng, n):
    """Solutions halfway between two floats, next to thirds, rows and columns permuted.

    Rows in threes: y = 1; 2 x - y = an even integer of 54 bits, so that x has 54; 3 z - x = 1.
    """
    a, b = np.eye(n), np.ones((n, 1))
    for i in range(1, n, 3):
        a[i, i], a[i, i - 1] = 2.0, -1.0
        b[i] = 2.0 * rng.integers(1 << 52, 1 << 53)
        if i + 1 < n:
            a[i + 1, i + 1], a[i + 1, i] = 3.0, -1.0
    order = rng.permutation(n)
    return a[order][:, rng.permutation(n)], b[order]


def triangular(rng, n):
    """A permuted triangle, whose inverse has zeros."""
    a = np.tril(rng.integers(-4, 5, (n, n)).astype(float), -1) + np.diag(
        rng.integers(1, 4, n).astype(float)
    )
    return a[rng.permutation(n)][:, rng.permutation(n)], np.eye(n)


def hilbert(n):
    """The Hilbert matrix times the least common multiple of its denominators: integers."""
    return np.array([[float(Fraction(np.lcm.reduce(np.arange(1, 2 * n)).item(), i + j + 1))
                      for j in range(n)] for i in range(n)])  # fmt: skip


def pascal(n):
    """Binomials."""
    a = np.ones((n, n))
    for i in range(1, n):
        for j in range(1, n):
            a[i, j] = a[i - 1, j] + a[i, j - 1]
    return a


def vandermonde(n):
    return np.vander(np.arange(1.0, n + 1) / n)


def unimodular(rng, n, steps):
    """Integers of determinant 1 with a huge inverse."""
    a = np.eye(n)
    for _ in range(steps if n > 1 else 0):
        i, j = rng.choice(n, 2, replace=False)
        new = a[i] + rng.integers(-3, 4) * a[j]
        if abs(new).max() < 2.0**50:
            a[i] = new
    return a


def bidiagonal(rng, n, factor):
    """A hidden bidiagonal matrix: condition about factor^n."""
    a = np.eye(n) - factor * np.eye(n, k=1)
    return a[rng.permutation(n)][:, rng.permutation(n)]


def hidden(rng, a):
    """Rows and columns of integers added to one another: the same condition, no structure."""
    a = a.copy()
    n = len(a)
    for _ in range(n):
        i, j = rng.choice(n, 2, replace=False)
        a[i] += a[j]
    return a


def subnormal(rng, n):
    """Results around the smallest numbers of float64."""
    a = rng.standard_normal((n, n)) * 2.0 ** rng.integers(300, 500)
    return a, rng.standard_normal((n, 2)) * 2.0 ** rng.integers(-720, -560, (n, 2))


def huge(rng, n):
    """Results around the largest numbers of float64."""
    a = rng.standard_normal((n, n)) * 2.0**-500
    return a, rng.standard_normal((n, 2)) * 2.0**522


def far_apart(rng, n):
    """Exponents that no powers of two bring together."""
    return (
        rng.standard_normal((n, n)) * 2.0 ** rng.integers(-1000, 1000, (n, n)),
        rng.standard_normal((n, 1)),
    )


def near_ties(rng, n):
    """2^-30 to 2^-300 away from being halfway between two floats: 2 x - y = even, y = 1 + tiny."""
    a, b = tied(rng, n)
    ones = (a != 0).sum(1) == 1
    b[ones] += 2.0 ** -rng.integers(30, 53, (int(ones.sum()), 1))
    a[ones] *= 1 + 2.0**-50
    return a, b
