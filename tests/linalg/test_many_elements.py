"""Many elements of each function against exact numbers, with what `test_many_functions` has.

Inverses, pseudoinverses, triangles and determinants of many small matrices are flint's rationals.
Spectra are those of polynomials in the path's adjacency matrix, whose values and vectors are made
of cosines and sines, by MPFR. `CASES` counts all.
"""

from __future__ import annotations

import gmpy2
import numpy as np
import pytest
import test_many_functions as small

import exact_systems as systems
import widen
from compared import compared, integer_or, rationals, typed
from widen.formats import FORMATS

linalg = widen.linalg
BITS = 600


def rng_of(*seed):
    return np.random.default_rng(seed)


def random_matrices(rng, count, shape, name):
    """Numbers that the format holds."""
    x = rng.standard_normal((count, *shape))
    if "complex" in name:
        x = x + 1j * rng.standard_normal((count, *shape))
    return typed(x, name)


def as_real(a):
    a = a.astype("complex128") if a.dtype.kind == "c" else a.astype(float)
    return np.block([[a.real, -a.imag], [a.imag, a.real]]) if a.dtype.kind == "c" else a


def halves(whole, n, name):
    """The parts of exact solutions, from those of the real system of twice the size."""
    return [whole[:n], whole[n:]] if "complex" in name else [whole]


def exact_array(matrix):
    """A matrix of flint's rationals as an array of gmpy2's."""
    rows = [[systems.as_mpq(q) for q in row] for row in matrix.table()]
    return np.array(rows, object)


# ── rational answers ─────────────────────────────────────────────────────────


def inverses(name, count, n=8):
    a = random_matrices(rng_of(1, n), -(-count // n**2), (n, n), name)
    found, info = linalg.inv(a, info=True)
    total = 0
    for matrix, ours, radius in zip(a, found, info.radius, strict=True):
        whole = exact_array(systems.rational_matrix(as_real(matrix)).inv())
        total += compared(ours, halves(whole[:, :n], n, name), name, radius)
    return total


def triangles(name, count, n=8):
    """Lower and upper ones in turn; what stands in the other triangle is not looked at."""
    total, systems_of_each = 0, -(-count // (2 * n * n))
    for lower in (True, False):
        a = random_matrices(rng_of(2, lower), systems_of_each, (n, n), name)
        b = random_matrices(rng_of(3, lower), systems_of_each, (n, n), name)
        found, info = linalg.solve_triangular(a, b, lower=lower, info=True)
        cut = np.tril if lower else np.triu
        for matrix, right, ours, radius in zip(a, b, found, info.radius, strict=True):
            whole = systems.exact_solution(as_real(cut(matrix)), as_real(right))
            total += compared(ours, halves(whole[:, :n], n, name), name, radius)
    return total


def pseudoinverses(name, count, m=60, n=4):
    """Of tall and of wide matrices in turn."""
    rng, total = rng_of(4), 0
    while total < count:
        (a,) = random_matrices(rng, 1, (m, n) if total % (2 * m * n) else (n, m), name)
        found, info = linalg.pinv(a, info=True)
        x = systems.rational_matrix(as_real(a))
        turned = x.transpose()
        tall = a.shape[0] == m
        whole = exact_array((turned * x).inv() * turned if tall else turned * (x * turned).inv())
        rows, columns = a.shape[::-1]
        total += compared(found, halves(whole[:, :columns], rows, name), name, info.radius)
    return total


def determinants(name, count):
    """Of sizes 2 to 12; beyond 3 flint's, by the other function those of integers."""
    total, rng = 0, rng_of(5)
    for n, share in ((2, 0.5), (3, 0.3), (5, 0.15), (8, 0.03), (12, 0.02)):
        a = random_matrices(rng, int(count * share), (n, n), name)
        found = linalg.det(a)
        dets = [systems.as_mpq(systems.rational_matrix(x.astype(float)).det()) for x in a]
        total += compared(found, [np.array(dets, object)], name)
    return total


# ── roots and logarithms ─────────────────────────────────────────────────────


NORMS = {
    None: lambda squares: gmpy2.sqrt(gmpy2.mpfr(sum(squares))),
    1: lambda squares: sum(map(gmpy2.sqrt, map(gmpy2.mpfr, squares))),
    np.inf: lambda squares: gmpy2.sqrt(gmpy2.mpfr(max(squares))),
    -np.inf: lambda squares: gmpy2.sqrt(gmpy2.mpfr(min(squares))),
    4: lambda squares: gmpy2.root(gmpy2.mpfr(sum(v * v for v in squares)), 4),
}


def norms(name, count):
    """Of integers, whose squares are exact; roots that are integers are exact in MPFR, too."""
    kind, each, total = FORMATS[name].part.name, count // len(NORMS), 0
    for at, (ord_, function) in enumerate(NORMS.items()):
        x = small.drawn(rng_of(7, at), (each, 5), name)
        found, info = linalg.norm(typed(x, name), ord_, axis=1, dtype=kind, info=True)
        assert info.decided.all()
        re, im = small.integers_of(x)
        squares = (re * re + im * im).tolist()
        with gmpy2.context(precision=BITS):
            exact = rationals(np.array([function(line) for line in squares], object))
        total += compared(found, [exact], kind, info.radius + 1e-90)
    return total


# ── spectra ──────────────────────────────────────────────────────────────────


class Spectrum:
    """p(T) for the path's adjacency matrix T, with integer coefficients: exact, in integers.

    T has the values 2 cos(k pi / (n + 1)) and the vectors sin(j k pi / (n + 1)).
    """

    def __init__(self, rng, n):
        self.n = n
        self.coefficients = rng.integers(-(2**14), 2**14, 6).tolist()
        path, power = np.eye(n, k=1) + np.eye(n, k=-1), np.eye(n)
        self.matrix = np.zeros((n, n))
        for c in self.coefficients:
            self.matrix += c * power
            power = power @ path

    def values(self):
        """The eigenvalues, k = 1 to n, as rationals of 600 bits; integers exactly."""
        with gmpy2.context(precision=BITS):
            values = []
            for k in range(1, self.n + 1):
                x = 2 * gmpy2.cos(gmpy2.const_pi() * k / (self.n + 1))
                total = gmpy2.mpfr(0)
                for c in reversed(self.coefficients):
                    total = total * x + c
                values.append(integer_or(gmpy2.mpq(total)))
            return np.array(values, object)

    def vectors(self):
        """The vectors in columns, of length 1, in MPFR."""
        n = self.n
        step, size = gmpy2.const_pi() / (n + 1), gmpy2.sqrt(gmpy2.mpfr(2) / (n + 1))
        sines = [gmpy2.sin(step * k) * size for k in range(2 * n + 2)]
        return np.array([[sines[j * k % (2 * n + 2)] for k in range(1, n + 1)]
                         for j in range(1, n + 1)], object)  # fmt: skip


def check_angles(found, vectors, angles):
    """The sine of the angle between each vector and the exact one is within its bound."""
    for k in range(found.shape[1]):
        x = [gmpy2.mpfr(v) for v in found[:, k].tolist()]
        size = sum(v * v for v in x)
        along = sum(v * w for v, w in zip(x, vectors[:, k].tolist(), strict=True))
        assert size - along * along <= gmpy2.mpfr(float(angles[k])) ** 2 * size


def eigenvalues(name, count, sizes=(5, 12, 61)):
    """Values, and as many vectors."""
    rng, total = rng_of(8), 0
    while total < count:
        for n in sizes:
            spectrum = Spectrum(rng, n)
            found, vectors, info = linalg.eigh(spectrum.matrix, dtype=name, info=True)
            exact = spectrum.values()
            order = np.argsort(exact)
            assert info.decided.all()
            assert info.cluster.tolist() == list(range(n))
            total += compared(found, [exact[order]], name, info.radius)
            with gmpy2.context(precision=BITS):
                if name in ("float64", "float32"):
                    check_angles(vectors, spectrum.vectors()[:, order], info.angle)
                    total += n
    return total


def singular_values(name, count, sizes=(5, 12, 61)):
    """Rows of p(T) in another order with other signs: |p|, and the same vectors on the right."""
    rng, total = rng_of(9), 0
    while total < count:
        for n in sizes:
            spectrum = Spectrum(rng, n)
            rows, signs = rng.permutation(n), rng.choice([-1.0, 1.0], (n, 1))
            a = spectrum.matrix[rows] * signs
            u, found, vh, info = linalg.svd(a, dtype=name, info=True)
            exact = abs(spectrum.values())
            order = np.argsort(-exact)
            assert info.decided.all()
            assert info.cluster.tolist() == list(range(n))
            total += compared(found, [exact[order]], name, info.radius)
            with gmpy2.context(precision=BITS):
                if name in ("float64", "float32"):
                    vectors = spectrum.vectors()[:, order]
                    check_angles(vh.T, vectors, info.angle)
                    check_angles(u, vectors[rows] * signs.astype(int), info.angle)
                    total += 2 * n
    return total


def quotients(name, count):
    """Condition numbers, and norms that are singular values."""
    rng, total = rng_of(10), 0
    while total < count:
        spectrum = Spectrum(rng, 4)
        exact = abs(spectrum.values())
        for function, wanted in (
            (lambda a, **kind: linalg.cond(a, **kind), max(exact) / min(exact)),
            (lambda a, **kind: linalg.norm(a, 2, **kind), max(exact)),
            (lambda a, **kind: linalg.norm(a, -2, **kind), min(exact)),
            (lambda a, **kind: linalg.norm(a, "nuc", **kind), sum(exact)),
        ):
            found, info = function(spectrum.matrix, dtype=name, info=True)
            line = np.array(integer_or(wanted), object)
            total += compared(found, [line.reshape(())], name, np.asarray(info.radius))
            assert info.decided
    return total


# ── the table ────────────────────────────────────────────────────────────────

CASES = [
    *((inverses, name, count) for name, count in
      (("float64", 50_000), ("float32", 20_000), ("complex128", 15_000))),
    *((triangles, name, count) for name, count in
      (("float64", 120_000), ("float32", 40_000), ("complex128", 40_000))),
    *((pseudoinverses, name, count) for name, count in (("float64", 120_000), ("float32", 20_000))),
    *((determinants, name, 70_000) for name in ("float64", "float32")),
    *((small.logarithms, name, 20_000) for name in ("float64", "float32")),
    *((small.factors, name, 60_000) for name in ("float64", "float32")),
    *((norms, name, 20_000) for name in ("float64", "float32", "complex128")),
    *((eigenvalues, name, count) for name, count in
      (("float64", 12_000), ("float32", 6_000), ("float64x2", 600))),
    *((singular_values, name, count) for name, count in
      (("float64", 12_000), ("float32", 6_000), ("float64x2", 300))),
    *((quotients, name, 200) for name in ("float64", "float32")),
]  # fmt: skip
FUNCTIONS = {
    inverses: (small.inverses,),
    pseudoinverses: (small.pseudoinverses,),
    determinants: (small.determinants,),
    triangles: (),
}
"""Functions of 200,000 elements and more, with those of the other file."""


def test_enough_is_compared():
    for function, others in FUNCTIONS.items():
        counts = [count for f, _, count in CASES if f is function]
        counts += [count for f, _, count in small.CASES if f in others]
        assert sum(counts) >= 200_000, function
    assert sum(count for _, _, count in CASES) >= 700_000


@pytest.mark.slow
@pytest.mark.parametrize(
    ("function", "name", "count"), CASES, ids=lambda x: getattr(x, "__name__", str(x))
)
def test_elements_are_rounded_once_and_within_their_radii(function, name, count):
    assert function(name, count) >= 0.99 * count
