"""`cholesky` against mpmath at 200 digits."""

from __future__ import annotations

import mpmath
import numpy as np
import pytest
import torch

import exact_systems as systems
import widen
from widen.linalg import NotProvenError, factors

linalg = widen.linalg


def rng_of(*seed):
    return np.random.default_rng(seed)


def definite(rng, n, digits):
    q = np.linalg.qr(rng.standard_normal((n, n)))[0]
    a = (q * np.logspace(0, -digits, n)) @ q.T
    return (a + a.T) / 2


MATRICES = {
    "one": lambda: np.array([[2.0]]),
    "random": lambda: definite(rng_of(1), 12, 3),
    "cond 1e10": lambda: definite(rng_of(2), 10, 10),
    "cond 1e15": lambda: definite(rng_of(3), 8, 15),
    "hilbert": lambda: systems.hilbert(14),
    "pascal": lambda: systems.pascal(16),
    "Laplacian": lambda: 2 * np.eye(9) - np.eye(9, k=1) - np.eye(9, k=-1),
    "small": lambda: definite(rng_of(4), 5, 2) * 2.0**-1001,
    "large": lambda: definite(rng_of(5), 5, 2) * 2.0**1001,
}


def exact_factor(a):
    with mpmath.workdps(200):
        scale = mpmath.mpf(4) ** (int(np.log2(abs(a).max())) // 2)
        factor = mpmath.cholesky(mpmath.matrix(a.tolist()) / scale) * mpmath.sqrt(scale)
        return np.array(factor.tolist(), object).reshape(a.shape)


@pytest.mark.parametrize("way", ["any", "integers", "words"])
@pytest.mark.parametrize("family", MATRICES)
def test_factors_are_rounded_once(family, way, monkeypatch):
    a = MATRICES[family]()
    if way == "integers":
        monkeypatch.setattr(factors, "_by_refinement", lambda a, fmt: None)
    if way == "words":
        monkeypatch.setattr(factors, "WORK", 0.0)
        if family == "hilbert":  # its condition number is 1e19: not all elements are decided
            assert linalg.cholesky(a, info=True)[1].decided.mean() > 0.5
            a = widen.Words([[f"1/{i + j + 1}" for j in range(30)] for i in range(30)], "float64x8")
            with pytest.raises(NotProvenError, match="above 1e30"):
                linalg.cholesky(a, dtype="float64")
            return
    found, info = linalg.cholesky(a, info=True)
    wanted = exact_factor(a)
    for value, radius, decided, exact in zip(
        found.ravel(), info.radius.ravel(), info.decided.ravel(), wanted.ravel(), strict=True
    ):
        with mpmath.workdps(200):
            assert abs(mpmath.mpf(float(value)) - exact) <= mpmath.mpf(float(radius)) + 1e-190
            if decided and abs(exact) > 1e-180:
                assert float(exact) == value
    if way != "words" or family in ("random", "cond 1e10"):
        assert info.decided.all()


def test_more_words():
    a = MATRICES["random"]()
    found = linalg.cholesky(a, dtype="float64x2")
    wanted = exact_factor(a)
    with mpmath.workdps(100):
        for value, exact in zip(found.to_fraction().ravel(), wanted.ravel(), strict=True):
            error = mpmath.mpf(value.numerator) / value.denominator - exact
            assert abs(error) <= abs(exact) * mpmath.mpf(2) ** -107


@pytest.mark.parametrize(
    ("a", "name"),
    [
        (np.array([[1.0, 1e-60], [1e-60, 1.0]]), "float32"),
        (np.array([[2.0**1000, 5e-324], [5e-324, 1.0]]), "float64"),
        (np.array([[1.0, 1e-60j], [-1e-60j, 1.0]]), "complex64"),
    ],
)
def test_radii_of_what_underflows(a, name):
    found, info = linalg.cholesky(a, dtype=name, info=True)
    assert found[1, 0] == 0  # it is about a[1, 0] / sqrt(a[0, 0]), and not zero
    assert info.decided.all()
    assert info.radius[1, 0] > 2.0**-999 or name == "float64"
    assert info.radius[1, 0] > 0
    assert linalg.cholesky(np.eye(2), dtype=name, info=True)[1].radius[1, 0] < 2.0**-999


def complex_definite(rng, n, digits):
    a = rng.standard_normal((n, n)) + 1j * rng.standard_normal((n, n))
    q = np.linalg.qr(a)[0]
    a = (q * np.logspace(0, -digits, n)) @ q.conj().T
    return (a + a.conj().T) / 2


@pytest.mark.parametrize("way", ["any", "integers", "words"])
@pytest.mark.parametrize("digits", [2, 9, 14])
def test_complex_factors_are_rounded_once(digits, way, monkeypatch):
    a = complex_definite(rng_of(digits), 6, digits)
    if way == "integers":
        monkeypatch.setattr(factors, "_by_refinement", lambda a, fmt: None)
    if way == "words":
        monkeypatch.setattr(factors, "WORK", 0.0)
    found, info = linalg.cholesky(a, info=True)
    assert info.decided.all()
    with mpmath.workdps(200):
        wanted = mpmath.cholesky(mpmath.matrix(a.tolist()))
        for i in range(6):
            for j in range(i + 1):
                exact = wanted[i, j]
                assert found[i, j] == complex(float(exact.real), float(exact.imag))
                assert abs(mpmath.mpc(complex(found[i, j])) - exact) <= info.radius[i, j]
    assert (found[np.triu_indices(6, 1)] == 0).all()


@pytest.mark.parametrize("name", ["complex128x2", "complex128x3", "complex128x8"])
def test_complex_factors_in_words_have_no_phase(name, monkeypatch):
    """L times a diagonal of modulus 1 has the same L L': refinement did not see that."""
    a = complex_definite(rng_of(11), 5, 2)
    found, info = linalg.cholesky(a, dtype=name, info=True)
    monkeypatch.setattr(factors, "_by_refinement", lambda a, fmt: None)
    exact = linalg.cholesky(a, dtype=name)
    assert info.decided.all()
    for ours, wanted in zip(found.planes, exact.planes, strict=True):
        assert (ours == wanted).all()


@pytest.mark.parametrize("a", [np.ones((3, 3)), -np.eye(2), np.array([[1.0, 2.0], [2.0, 1.0]])])
def test_what_is_not_definite_is_never_answered(a, monkeypatch):
    with pytest.raises(np.linalg.LinAlgError, match="not positive definite"):
        linalg.cholesky(a)
    monkeypatch.setattr(factors, "WORK", 0.0)
    with pytest.raises(np.linalg.LinAlgError, match="proven"):
        linalg.cholesky(a)


def test_batches_and_tensors():
    a = np.stack([np.eye(3), 4 * np.eye(3)])
    assert linalg.cholesky(a)[1].tolist() == (2 * np.eye(3)).tolist()
    tensor = linalg.cholesky(torch.from_numpy(a))
    assert isinstance(tensor, torch.Tensor)
    assert linalg.cholesky(np.zeros((0, 0))).shape == (0, 0)
    with pytest.raises(ValueError, match="Hermitian"):
        linalg.cholesky(np.eye(2) * 1j)
    with pytest.raises(ValueError, match="symmetric"):
        linalg.cholesky(np.eye(2, k=1))
