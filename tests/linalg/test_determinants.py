"""`det`, `slogdet` and `matrix_rank` against python-flint's exact ones."""

from __future__ import annotations

import flint
import gmpy2
import mpmath
import numpy as np
import pytest
import torch

import exact_systems as systems
import widen
from helpers import assert_same_bits
from widen.formats import WORDS
from widen.linalg import NotProvenError, determinant, modular

linalg = widen.linalg


def exact_det(a):
    return systems.as_mpq(systems.rational_matrix(a).det())


def rng_of(*seed):
    return np.random.default_rng(seed)


MATRICES = {
    "gaussian": lambda: rng_of(1).standard_normal((20, 20)),
    "one": lambda: np.array([[0.1]]),
    "cond 1e5": lambda: systems.conditioned(rng_of(2), 30, 5)[0],
    "cond 1e12": lambda: systems.conditioned(rng_of(3), 20, 12)[0],
    "cond 1e20": lambda: systems.conditioned(rng_of(4), 15, 20)[0],
    "hilbert": lambda: systems.hilbert(12),
    "pascal": lambda: systems.pascal(14),
    "unimodular": lambda: systems.unimodular(rng_of(5), 9, 200),
    "singular": lambda: np.ones((5, 5)),
    "zero row": lambda: np.diag([1.0, 0.0, 3.0]),
    "graded": lambda: systems.graded(rng_of(6), 9)[0],
    "far apart": lambda: systems.far_apart(rng_of(7), 4)[0],
    "overflow": lambda: np.diag([2.0**600, -(2.0**600), 1.0]),
    "subnormal": lambda: np.array([[2.0**-600, 3.0 * 2.0**-560], [-(2.0**-500), 2.0**-470]]),
    "tie": lambda: np.array([[2.0**53, -1.0], [1.0, 1.0]]),
    "swapped": lambda: np.eye(5)[[1, 0, 2, 4, 3]][::-1],
}


@pytest.mark.parametrize("name", ["float64", "float32", "float64x2", "float64x16", "float32x3"])
@pytest.mark.parametrize("family", MATRICES)
def test_determinants_are_rounded_once(family, name):
    a = MATRICES[family]()
    found = linalg.det(a, dtype=name)
    words = [float(p[0]) for p in found.planes] if name in WORDS else [float(found)]
    assert tuple(words) == systems.nearest_words(exact_det(a), name)


@pytest.mark.parametrize("family", MATRICES)
def test_logarithms_are_rounded_once(family):
    a = MATRICES[family]()
    sign, logarithm = linalg.slogdet(a)
    exact = exact_det(a)
    assert sign == (exact > 0) - (exact < 0)
    if exact == 0:
        assert logarithm == -np.inf
        return
    with mpmath.workdps(60):
        wanted = mpmath.log(mpmath.mpf(int(abs(exact.numerator))) / int(exact.denominator))
        assert logarithm == float(wanted)


def test_complex_determinants():
    rng = rng_of(8)
    a = rng.integers(-9, 10, (6, 6)) + 1j * rng.integers(-9, 10, (6, 6))
    a = a.astype("complex64").astype("complex128") / 8
    matrix = flint.acb_mat(6, 6, [flint.acb(complex(v).real, complex(v).imag) for v in a.ravel()])
    with flint.ctx.workprec(300):
        exact = matrix.det()
    assert linalg.det(a) == complex(float(exact.real.mid()), float(exact.imag.mid()))


def exact_complex_det(a):
    """Parts of the determinant of a complex matrix, as rationals."""
    whole = np.empty(a.shape, object)
    for at in np.ndindex(*a.shape):
        whole[at] = (gmpy2.mpq(float(a[at].real)), gmpy2.mpq(float(a[at].imag)))
    return _expanded(whole)


def _expanded(a):
    if len(a) == 1:
        return a[0, 0]
    re = im = gmpy2.mpq(0)
    for j in range(len(a)):
        x, y = a[0, j]
        p, q = _expanded(np.delete(a[1:], j, 1))
        sign = -1 if j % 2 else 1
        re, im = re + sign * (x * p - y * q), im + sign * (x * q + y * p)
    return re, im


@pytest.mark.parametrize("n", [1, 2, 4])
def test_complex_signs_and_logarithms(n):
    rng = rng_of(n, 8)
    a = rng.standard_normal((n, n)) + 1j * rng.standard_normal((n, n))
    sign, logarithm = linalg.slogdet(a)
    re, im = exact_complex_det(a)
    with mpmath.workdps(60):
        p, q = (mpmath.mpf(int(v.numerator)) / int(v.denominator) for v in (re, im))
        size = mpmath.sqrt(p * p + q * q)
        assert sign == complex(float(p / size), float(q / size))
        assert logarithm == float(mpmath.log(size))
    assert linalg.slogdet(np.ones((2, 2)) * (1 + 1j)) == (0, -np.inf)
    assert linalg.slogdet(np.array([[1j]])) == (1j, 0.0)


def test_ranks_of_no_matrices_are_integers():
    assert linalg.matrix_rank(np.zeros((0, 3, 2))).dtype == np.int64
    assert linalg.matrix_rank(np.zeros((1, 3, 2))).dtype == np.int64


@pytest.mark.parametrize(("rows", "columns", "rank"), [(4, 4, 2), (3, 6, 3), (5, 2, 1)])
def test_complex_ranks(rows, columns, rank):
    rng = rng_of(rows, columns)
    a, b = (
        rng.integers(-3, 4, shape) + 1j * rng.integers(-3, 4, shape)
        for shape in ((rows, rank), (rank, columns))
    )
    assert linalg.matrix_rank(a @ b) == rank


def test_batches_and_tensors():
    a = rng_of(9).standard_normal((2, 3, 4, 4))
    found = linalg.det(a)
    assert found.shape == (2, 3)
    assert found[1, 2] == linalg.det(a[1, 2])
    tensor = linalg.det(torch.from_numpy(a))
    assert isinstance(tensor, torch.Tensor)
    assert (tensor.numpy() == found).all()
    assert linalg.det(np.zeros((0, 0))) == 1
    assert linalg.det(np.zeros((3, 0, 0))).tolist() == [1, 1, 1]


@pytest.mark.parametrize(
    ("rows", "columns", "rank"), [(6, 6, 3), (9, 5, 4), (4, 70, 2), (70, 80, 65)]
)
def test_ranks(rows, columns, rank):
    rng = rng_of(rows, columns)
    a = rng.integers(-3, 4, (rows, rank)) @ rng.integers(-3, 4, (rank, columns))
    exact = flint.fmpz_mat(a.tolist()).rank()
    assert linalg.matrix_rank(a.astype(float)) == exact == rank
    assert linalg.matrix_rank(a + rng.standard_normal(a.shape)) == min(rows, columns)


def test_ranks_of_batches():
    a = np.stack([np.eye(3), np.ones((3, 3)), np.zeros((3, 3))])
    assert linalg.matrix_rank(a).tolist() == [3, 1, 0]
    assert linalg.matrix_rank(np.zeros((0, 4))) == 0


def test_what_is_too_large_for_a_proof_says_so(monkeypatch):
    monkeypatch.setattr("widen.linalg.singular.WORK", 0.0)
    monkeypatch.setattr("widen.linalg.determinant.WORK", 0.0)
    monkeypatch.setattr("widen.linalg.integers.WORK", 0.0)
    a = np.ones((20, 20))
    with pytest.raises(NotProvenError, match="too many primes"):
        linalg.matrix_rank(a)
    with pytest.raises(NotProvenError, match="primes are too many"):
        linalg.det(a)
    with pytest.raises(NotProvenError, match="modulo two primes"):
        linalg.inv(a)


@pytest.mark.parametrize(
    "shape", [(1, 1), (5, 5), (64, 64), (65, 65), (130, 130), (70, 150), (150, 70)]
)
def test_elimination_modulo_primes(shape):
    rng = rng_of(*shape)
    for p in (8388593, 4194319):
        a = rng.integers(0, p, shape)
        a[-1] = a[0] * 3 % p if shape[0] > 2 else a[-1]
        exact = flint.nmod_mat(*shape, a.ravel().tolist(), p)
        rank, determinant = modular.eliminate(a.astype(float), p)
        assert rank == exact.rank()
        if shape[0] == shape[1]:
            assert determinant == int(exact.det())


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda: linalg.matrix_rank(np.ones(3)), ValueError, "matrices"),
        (lambda: linalg.det(np.ones((2, 3))), ValueError, "square"),
        (lambda: linalg.det(np.array([[np.inf]])), ValueError, "infinity"),
    ],
)
def test_what_is_refused(call, error, text):
    with pytest.raises(error, match=text):
        call()


@pytest.mark.parametrize("n", [2, 5, 9, 16])
def test_three_ways_to_a_determinant(n):
    """Python's integers, primes and the enclosure by triangles, of floats and of words."""
    a = rng_of(n, 31).standard_normal((6, n, n))
    a[1] = systems.conditioned(rng_of(n), n, 9)[0]
    a[2, :, 0] = 0.0
    a[3] = np.rint(a[3] * 3)
    a[4] *= 2.0**-400
    exact = determinant.small_determinants(a)
    for matrix, known in zip(a, exact, strict=True):
        ((value, same),) = known.parts
        assert value == same
        assert determinant.exact_determinant(matrix).parts == known.parts
        try:
            found = determinant.enclosed_determinant(matrix)
        except linalg.SingularMatrixError:
            assert value == 0
            continue
        if found is not None:
            ((low, high),) = found.parts
            assert low <= value <= high
    words = widen.Words(a, "float64x2")
    assert determinant.small_determinants(words) == exact
    assert_same_bits(linalg.det(words, dtype="float64"), linalg.det(a))
    assert determinant.small_determinants(np.zeros((1, 17, 17))) is None
