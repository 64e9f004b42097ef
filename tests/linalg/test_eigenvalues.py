"""Eigenvalues and singular values against mpmath, at 100 digits, and the proofs against traps."""

from __future__ import annotations

from fractions import Fraction

import mpmath
import numpy as np
import pytest
import torch

import exact_systems as systems
import widen
from widen.linalg import eigen

linalg = widen.linalg


def rng_of(*seed):
    return np.random.default_rng(seed)


def symmetric(a):
    return (a + a.T) / 2


def spectrum(rng, values):
    q = np.linalg.qr(rng.standard_normal((len(values), len(values))))[0]
    return symmetric((q * values) @ q.T)


MATRICES = {
    "one": lambda: np.array([[-0.1]]),
    "random": lambda: symmetric(rng_of(1).standard_normal((25, 25))),
    "cond 1e12": lambda: spectrum(rng_of(2), np.logspace(0, -12, 15)),
    "clusters": lambda: spectrum(
        rng_of(3), np.repeat(np.arange(1.0, 5.0), 4) + 1e-13 * rng_of(4).standard_normal(16)
    ),
    "Laplacian": lambda: 2 * np.eye(16) - np.eye(16, k=1) - np.eye(16, k=-1),
    "Wilkinson": lambda: np.diag(abs(np.arange(-10.0, 11))) + np.eye(21, k=1) + np.eye(21, k=-1),
    "hilbert": lambda: 1.0 / (np.arange(10)[:, None] + np.arange(10) + 1),
    "equal": lambda: 3.0 * np.eye(4),
    "small": lambda: symmetric(rng_of(5).standard_normal((6, 6))) * 2.0**-1000,
    "large": lambda: symmetric(rng_of(6).standard_normal((6, 6))) * 2.0**1000,
}


def exact_eigenvalues(a):
    with mpmath.workdps(100):
        scale = mpmath.mpf(float(abs(a).max()))
        values = mpmath.eigsy(mpmath.matrix(a.tolist()) / scale, eigvals_only=True)
        return sorted(value * scale for value in values)


@pytest.mark.parametrize("family", MATRICES)
def test_eigenvalues_are_rounded_once(family):
    a = MATRICES[family]()
    found, info = linalg.eigvalsh(a, info=True)
    wanted = exact_eigenvalues(a)
    assert info.decided.all()
    assert found.tolist() == [float(value) for value in wanted]
    for value, radius, exact in zip(found, info.radius, wanted, strict=True):
        with mpmath.workdps(100):
            assert abs(mpmath.mpf(float(value)) - exact) <= mpmath.mpf(float(radius)) * (1 + 1e-80)


def test_eigenvalues_in_several_words():
    a = MATRICES["random"]()
    found, info = linalg.eigvalsh(a, dtype="float64x3", info=True)
    assert info.decided.all()
    with mpmath.workdps(100):
        for value, exact in zip(found.to_fraction(), exact_eigenvalues(a), strict=True):
            assert abs(mpmath.mpf(value.numerator) / value.denominator / exact - 1) < 2.0**-160


def test_zeros_are_proven_by_the_rank():
    found, info = linalg.eigvalsh(np.ones((8, 8)), info=True)
    assert found.tolist() == [0.0] * 7 + [8.0]
    assert info.decided.all()
    assert linalg.eigvalsh(np.zeros((3, 3))).tolist() == [0.0] * 3


@pytest.mark.parametrize("family", ["random", "clusters", "Wilkinson", "hilbert"])
@pytest.mark.parametrize("noise", [0.0, 1e-12, 1e-6, 1e-3])
def test_enclosures_hold_for_any_vectors(family, noise):
    """The proof does not ask where X comes from."""
    a = MATRICES[family]()
    x = eigen.start(a)
    x = x + noise * rng_of(7).standard_normal(a.shape)
    found = eigen.enclose(a, x)
    assert found is not None
    with mpmath.workdps(100):
        for middle, radius, exact in zip(
            found.middles, found.radii, exact_eigenvalues(a), strict=True
        ):
            centre = mpmath.mpf(middle.numerator) / middle.denominator
            assert abs(centre - exact) <= mpmath.mpf(radius.numerator) / radius.denominator


def test_gaps_below_the_first_word_are_seen():
    """Eigenvalues 1 + 2^-53 (1 -+ 2^-20), vectors turned by (24, 7)/25: first words are equal."""
    low, high = (Fraction(1) + Fraction(1, 2**53) * (1 + Fraction(sign, 2**20)) for sign in (-1, 1))
    a = widen.Words([[low, 0], [0, high]], "float64x2")
    x = widen.Words([[Fraction(24, 25), Fraction(-7, 25)], [Fraction(7, 25), Fraction(24, 25)]],
                    "float64x4")  # fmt: skip
    found = eigen.enclose(a, x)
    assert abs(found.middles[0] - low) <= found.radii[0]
    assert abs(found.middles[1] - high) <= found.radii[1]


def test_vectors_that_are_not_orthonormal_prove_nothing():
    a = MATRICES["random"]()
    assert eigen.enclose(a, widen.Words(np.ones(a.shape), "float64x2")) is None


def test_hermitian_matrices():
    rng = rng_of(8)
    a, b = rng.standard_normal((2, 5, 5))
    h = symmetric(a) + 0.5j * (b - b.T)
    found, info = linalg.eigvalsh(h, info=True)
    whole = np.block([[h.real, -h.imag], [h.imag, h.real]])
    assert found.dtype == np.float64
    assert info.decided.all()
    assert found.tolist() == [float(value) for value in exact_eigenvalues(whole)[::2]]


@pytest.mark.parametrize(("m", "n"), [(5, 5), (7, 3), (3, 6), (1, 4)])
def test_singular_values_are_rounded_once(m, n):
    a = rng_of(m, n).standard_normal((m, n))
    found, info = linalg.svdvals(a, info=True)
    assert info.decided.all()
    with mpmath.workdps(100):
        short = mpmath.matrix((a if m >= n else a.T).tolist())
        squares = mpmath.eigsy(short.T * short, eigvals_only=True)
        wanted = sorted((mpmath.sqrt(value) for value in squares), reverse=True)
        assert found.tolist() == [float(value) for value in wanted]
        assert linalg.norm(a, 2) == float(wanted[0])
        assert linalg.cond(a) == float(wanted[0] / wanted[-1])


def test_singular_values_of_deficient_ranks():
    a = np.outer(np.arange(1.0, 4), np.arange(1.0, 4))
    assert linalg.svdvals(a).tolist() == [14.0, 0.0, 0.0]
    assert linalg.cond(a) == np.inf
    rng = rng_of(9)
    c = rng.standard_normal((4, 3)) + 1j * rng.standard_normal((4, 3))
    assert np.allclose(linalg.svdvals(c), np.linalg.svd(c)[1])


@pytest.mark.parametrize(
    ("a", "answer"),
    [
        (np.eye(3), True),
        (np.ones((3, 3)), False),
        (-np.eye(2), False),
        (systems.hilbert(12), True),
        (systems.pascal(14), True),
        (systems.pascal(14) - np.diag([0.0] * 13 + [1.0]), False),  # determinant 0
        (systems.pascal(14) - np.diag([0.0] * 13 + [2.0]), False),  # determinant -1
        (np.array([[1.0, 1.0], [1.0, 1.0 + 2.0**-52]]), True),
        (np.array([[1.0, 1.0 + 2.0**-52], [1.0 + 2.0**-52, 1.0]]), False),
        (np.zeros((0, 0)), True),
    ],
)
def test_definiteness_is_proven(a, answer):
    assert linalg.is_positive_definite(a) is answer


def test_batches_and_tensors():
    a = rng_of(10).standard_normal((2, 3, 4, 4))
    a = a + a.swapaxes(-1, -2)
    found = linalg.eigvalsh(a)
    assert found.shape == (2, 3, 4)
    assert (found[1, 2] == linalg.eigvalsh(a[1, 2])).all()
    tensor = linalg.eigvalsh(torch.from_numpy(a))
    assert isinstance(tensor, torch.Tensor)
    assert (tensor.numpy() == found).all()
    assert linalg.is_positive_definite(a).shape == (2, 3)
    assert linalg.norm(torch.from_numpy(a), 2).shape == (2, 3)
    assert linalg.svdvals(np.zeros((2, 0, 3))).shape == (2, 0)


@pytest.mark.parametrize("family", ["random", "cond 1e12", "clusters", "hilbert", "equal"])
@pytest.mark.parametrize("name", ["float64", "float64x2"])
def test_vectors_are_accurate_to_the_format(family, name):
    a = MATRICES[family]()
    values, vectors = linalg.eigh(a, dtype=name)
    n, unit = len(a), 2.0**-52 if name == "float64" else 2.0**-104
    wide = widen.Words(vectors, "float64x4")
    off = widen.gemm(wide.T, wide, np.eye(n), alpha=-1.0, beta=1.0, accuracy="correct")
    rest = widen.gemm(a, wide, wide * values, alpha=1.0, beta=-1.0, accuracy="correct")
    assert abs(off.to_numpy()).max() < 4 * unit
    assert abs(rest.to_numpy()).max() < 4 * n * unit * abs(a).max()
    assert (vectors[abs(wide.to_numpy()).argmax(0), range(n)] > 0).all()


def test_vectors_of_batches_and_tensors():
    a = np.stack([np.diag([2.0, 1.0]), np.array([[2.0, 1.0], [1.0, 2.0]])])
    values, vectors, info = linalg.eigh(torch.from_numpy(a), info=True)
    assert isinstance(vectors, torch.Tensor)
    assert values.tolist() == [[1.0, 2.0], [1.0, 3.0]]
    assert vectors[0].tolist() == [[0.0, 1.0], [1.0, 0.0]]
    assert info.decided.all()
    assert linalg.eigh(np.zeros((0, 0)))[1].shape == (0, 0)
    with pytest.raises(TypeError, match="real"):
        linalg.eigh(np.eye(2) * (1 + 0j))


def test_info_is_readable():
    _, info = linalg.eigvalsh(np.diag([1.0, 2.0]), info=True)
    assert "2 values within their radii, 2 of them" in str(info)


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda: linalg.eigvalsh(np.array([[1.0, 2.0], [3.0, 1.0]])), ValueError, "symmetric"),
        (lambda: linalg.eigvalsh(np.array([[1j]])), ValueError, "Hermitian"),
        (lambda: linalg.eigvalsh(np.eye(2), dtype="complex128"), ValueError, "real"),
        (lambda: linalg.svdvals(np.ones(3)), ValueError, "matrices"),
        (lambda: linalg.norm(np.eye(2), 1), ValueError, "use 2"),
        (lambda: linalg.cond(np.zeros((0, 3))), ValueError, "no size"),
        (
            lambda: linalg.is_positive_definite(np.array([[1.0, 5.0], [0.0, 1.0]])),
            ValueError,
            "sym",
        ),
        (lambda: linalg.is_positive_definite(np.array([[np.nan]])), ValueError, "NaN"),
    ],
)
def test_what_is_refused(call, error, text):
    with pytest.raises(error, match=text):
        call()
