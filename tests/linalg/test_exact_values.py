"""Eigenvalues and singular values that are numbers of a format, or ties: decided, and right.

The exact values are the roots of flint's characteristic polynomial, which arb isolates.
"""

from __future__ import annotations

from fractions import Fraction

import flint
import numpy as np
import pytest
import scipy.linalg
from hypothesis import given
from hypothesis import strategies as st

import widen
from widen.formats import FORMATS
from widen.linalg import exact_values
from widen.linalg.decide import rounded
from widen.linalg.exact_values import ExactValues
from widen.linalg.intervals import Intervals

linalg = widen.linalg
NAMES = ["float64", "float64x2", "float64x4"]


def exact_roots(a):
    """Eigenvalues of a real symmetric integer matrix: (value, whether it is exact), ascending."""
    entries = [int(x) for x in np.asarray(a).reshape(-1)]
    polynomial = flint.fmpz_mat(len(a), len(a), entries).charpoly()
    found = []
    with flint.ctx.workprec(3000):
        for factor, power in polynomial.factor()[1]:
            if factor.degree() == 1:
                found += [(Fraction(-int(factor[0]), int(factor[1])), True)] * power
                continue
            for root, count in factor.complex_roots():
                top, exponent = root.real.mid().man_exp()
                value = Fraction(int(top)) * Fraction(2) ** int(exponent)
                found += [(value, False)] * (count * power)
    return sorted(found)


def words_of(values, name):
    """Rows of words."""
    if isinstance(values, widen.Words):
        return list(zip(*(plane[0].tolist() for plane in values.planes), strict=True))
    return [(float(value),) for value in values]


def check_eigenvalues(a, name, scale=0):
    found, info = linalg.eigvalsh(np.ldexp(np.asarray(a, float), scale), dtype=name, info=True)
    assert info.decided.all()
    wanted = [value * Fraction(2) ** scale for value, _ in exact_roots(a)]
    assert words_of(found, name) == [rounded(value, FORMATS[name]) for value in wanted]
    for words, radius, exact in zip(words_of(found, name), info.radius, wanted, strict=True):
        assert abs(sum(map(Fraction, words)) - exact) <= Fraction(float(radius)) + Fraction(
            1, 2**2000
        )
    return info


def blocks():
    return scipy.linalg.block_diag(np.ones((3, 3)), [[2, 1], [1, 2]], 7, [[1, 2], [2, 3]])


SWAP = np.array([[0, 1], [1, 0]])
MATRICES = {
    "ones": np.ones((9, 9)),
    "diagonal": np.diag([3, -1, 0, 3, 2**40 + 1]),
    "identity and ones": 3 * np.eye(6) + 1,
    "hadamard": scipy.linalg.hadamard(8),
    "kron": np.kron([[2, 1], [1, 2]], np.eye(3) + 1),
    "toeplitz": scipy.linalg.toeplitz([0, 1, 0, 1]),
    "complete bipartite": np.kron(SWAP, np.ones((4, 4))),
    "cube": sum(np.kron(np.kron(np.eye(2**i), SWAP), np.eye(2 ** (3 - i))) for i in range(4)),
    "blocks": blocks(),
    "path": np.eye(5, k=1) + np.eye(5, k=-1),
}  # fmt: skip


@pytest.mark.parametrize("family", MATRICES)
@pytest.mark.parametrize("name", NAMES)
def test_integers_among_eigenvalues(family, name):
    for scale in (0, -60):
        check_eigenvalues(MATRICES[family], name, scale)


@given(
    st.integers(1, 4).flatmap(
        lambda n: st.lists(st.integers(-3, 3), min_size=n * (n + 1) // 2, max_size=n * (n + 1) // 2)
    ),
    st.sampled_from(["float64", "float64x2"]),
)
def test_small_matrices_of_integers(entries, name):
    n = int(((8 * len(entries) + 1) ** 0.5 - 1) / 2)
    a = np.zeros((n, n), int)
    a[np.tril_indices(n)] = entries
    check_eigenvalues(a + np.tril(a, -1).T, name)


@pytest.mark.slow
@given(st.integers(0, 2**32), st.integers(1, 4), st.sampled_from(["float64", "float64x2"]))
def test_small_complex_matrices_of_integers(seed, n, name):
    """Hermitian ones by the real matrix of twice the size, and any by their singular values."""
    rng = np.random.default_rng(seed)
    re, im = rng.integers(-2, 3, (n, n)), rng.integers(-2, 3, (n, n))
    x = re + 1j * im
    a = x + x.conj().T
    doubled = np.block([[a.real, -a.imag], [a.imag, a.real]])
    wanted = [value for value, _ in exact_roots(doubled)][::2]
    values, info = linalg.eigvalsh(a, dtype=name, info=True)
    assert info.decided.all()
    assert words_of(values, name) == [rounded(value, FORMATS[name]) for value in wanted]
    zero, real = np.zeros((2 * n, 2 * n)), np.block([[re, -im], [im, re]])
    wanted = [value for value, _ in exact_roots(np.block([[zero, real], [real.T, zero]]))]
    values, info = linalg.svdvals(x, dtype=name, info=True)
    assert info.decided.all()
    assert words_of(values, name) == [rounded(v, FORMATS[name]) for v in wanted[::-2][:n]]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("method", ["rank", "size"])
def test_each_method_alone(name, method, monkeypatch):
    """And what is neither small nor of the rank stays undecided: no value is claimed."""
    if method == "rank":
        monkeypatch.setattr(ExactValues, "_is_small", lambda *given: False)
    else:
        monkeypatch.setattr(ExactValues, "_count", lambda *given: None)
    check_eigenvalues(3 * np.eye(6) + 1, name)
    monkeypatch.setattr(ExactValues, "_is_small", lambda *given: False)
    monkeypatch.setattr(ExactValues, "_count", lambda *given: None)
    values, info = linalg.eigvalsh(3 * np.eye(6) + 1, dtype="float64x2", info=True)
    assert not info.decided.any()
    exact = [3] * 5 + [9]
    for value, radius, wanted in zip(values.to_fraction(), info.radius, exact, strict=True):
        assert 0 <= abs(value - wanted) <= Fraction(float(radius))


def test_ties_in_float64():
    """Eigenvalues halfway between two floats: 2^53 + 1 and 2^53 + 3, which round to even."""
    middle = 2.0**53 + 2
    a = np.array([[middle, 1.0], [1.0, middle]])
    values, info = linalg.eigvalsh(a, info=True)
    assert info.decided.all()
    assert values.tolist() == [2.0**53, 2.0**53 + 4]
    assert info.radius.tolist() == [np.nextafter(1.0, 2)] * 2


@pytest.mark.parametrize("distance", [2.0**-90, 2.0**-150, -(2.0**-200)])
def test_values_beside_a_number_are_not_that_number(distance):
    """Eigenvalues 1 +- d, d below the words of the result: decided by more words, and not 1."""
    a = widen.Words(np.eye(2), "float64x8")
    a[0, 1] = a[1, 0] = widen.Words(distance, "float64x8")
    values, info = linalg.eigvalsh(a, dtype="float64x2", info=True)
    assert info.decided.all()
    for value, exact in zip(
        values.to_fraction(), (1 - abs(distance), 1 + abs(distance)), strict=True
    ):
        if abs(distance) > 2.0**-100:
            assert abs(value - Fraction(1)) == Fraction(abs(distance))
        assert abs(float(value) - exact) < 2.0**-50


def test_multiplicities_are_counted_once(monkeypatch):
    """Two values in an enclosure of 2 of which one is 2: not both are."""
    monkeypatch.setattr(ExactValues, "_is_small", lambda *given: False)  # for false enclosures
    a = np.diag([2.0, 3.0])
    exact = ExactValues(a, FORMATS["float64x2"], singular=False)
    tiny = Fraction(1, 2**90)
    wide = [(2 - tiny, 2 + tiny), (2 - tiny, 2 + tiny)]
    assert exact.settled(Intervals.of(wide)).pairs() == wide
    assert exact.counts == {Fraction(2): 1}
    right = [(2 - tiny, 2 + tiny), (3 - tiny, 3 + tiny)]
    assert exact.settled(Intervals.of(right)).pairs() == [(2, 2), (3, 3)]


def test_what_takes_too_long_stays_enclosed(monkeypatch):
    monkeypatch.setattr(exact_values, "MOST", 0.0)
    monkeypatch.setattr(exact_values, "MANY", 0)
    _, info = linalg.eigvalsh(3 * np.eye(6) + 1, dtype="float64x2", info=True)
    assert not info.decided.any()


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("family", [*MATRICES, "tall", "wide", "complex"])
def test_integers_among_singular_values(family, name):
    a = {
        "tall": np.kron(scipy.linalg.hadamard(4), np.ones((2, 1))),
        "wide": np.kron([[1, 2], [2, 1]], np.ones((1, 4))),
        "complex": np.kron([[2, 1j], [-1j, 2]], np.ones((2, 2))),
    }.get(family)
    a = MATRICES[family] if a is None else a
    found, info = linalg.svdvals(a, dtype=name, info=True)
    assert info.decided.all()
    if family == "complex":
        wanted = [Fraction(6), Fraction(2), Fraction(0), Fraction(0)]
    else:
        m, n = a.shape
        whole = np.block([[np.zeros((m, m)), a], [a.T, np.zeros((n, n))]])
        wanted = [value for value, _ in exact_roots(whole)][::-1][: min(m, n)]
    assert words_of(found, name) == [rounded(value, FORMATS[name]) for value in wanted]


def test_condition_numbers_and_norms():
    a = np.diag([6.0, -2.0, 3.0])
    for name in NAMES:
        found, info = linalg.cond(a, dtype=name, info=True)
        assert info.decided
        assert float(found) == 3.0
        for ord, wanted in ((2, 6.0), (-2, 2.0), ("nuc", 11.0)):
            found, info = linalg.norm(a, ord, dtype=name, info=True)
            assert info.decided
            assert float(found) == wanted


def test_vectors_of_matrices_with_integer_values():
    values, _, info = linalg.eigh(np.ones((5, 5)), dtype="float64x2", info=True)
    assert info.decided.all()
    assert words_of(values, "float64x2")[-1] == (5.0, 0.0)
    assert info.cluster.tolist() == [0, 0, 0, 0, 4]
    u, s, vh = linalg.svd(np.ones((6, 4)), dtype="float64x2")  # the rest of the QR is noise
    rest = widen.gemm(u[:, :4] * s, vh, np.ones((6, 4)), alpha=-1.0, beta=1.0, dtype="float64")
    assert abs(rest).max() < 2.0**-100


@pytest.mark.parametrize("kind", ["real", "complex"])
def test_orthogonal_factors_of_deficient_matrices_in_many_words(kind):
    """What words leave of dependent columns is so small that its squares underflow."""
    a = np.ones((6, 4)) if kind == "real" else np.kron([[2, 1j], [-1j, 2]], np.ones((3, 2)))
    name = "float64x8" if kind == "real" else "complex128x8"
    _, _, info = linalg.qr(a, dtype=name, info=True)
    assert info.orthogonality < 2.0**-420
    assert info.residual.max() < 2.0**-420
