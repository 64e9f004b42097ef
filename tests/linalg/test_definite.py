"""`is_positive_definite`: both answers proven, with vectors that refute."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
import torch

import exact_systems as systems
import widen
from widen.linalg import definite, integers, null_vectors

linalg = widen.linalg


def rng_of(*seed):
    return np.random.default_rng(seed)


def hermitian(rng, n, shift):
    a = rng.standard_normal((n, n)) + 1j * rng.standard_normal((n, n))
    return (a @ a.conj().T + (a @ a.conj().T).conj().T) / 2 - shift * np.eye(n)


CASES = [
    (np.eye(3), True),
    (np.ones((3, 3)), False),
    (-np.eye(2), False),
    (systems.hilbert(12), True),
    (systems.pascal(14), True),
    (systems.pascal(14) - np.diag([0.0] * 13 + [1.0]), False),  # determinant 0
    (systems.pascal(14) - np.diag([0.0] * 13 + [2.0]), False),  # determinant -1
    (np.array([[1.0, 1.0], [1.0, 1.0 + 2.0**-52]]), True),
    (np.array([[1.0, 1.0 + 2.0**-52], [1.0 + 2.0**-52, 1.0]]), False),
    (np.array([[1.0, 2.0], [2.0, 1.0]]) * 2.0**-1060, False),
    (np.zeros((0, 0)), True),
    (np.zeros((2, 2)), False),
    (hermitian(rng_of(1), 5, 0.0), True),
    (hermitian(rng_of(1), 5, 1.0), False),
    (np.array([[1.0, 1j], [-1j, 1.0]]), False),  # singular
]


def exact_form(a, x):
    """The fraction x' a x."""

    def parts(z):
        if isinstance(z, widen.Words):
            return [z.real.to_fraction(), z.imag.to_fraction()]
        z = np.asarray(z)
        return [np.vectorize(Fraction, otypes=[object])(part) for part in (z.real, z.imag)]

    (b, c), (p, q) = parts(a), parts(x)
    return p.dot(b).dot(p) + q.dot(b).dot(q) + q.dot(c).dot(p) - p.dot(c).dot(q)


@pytest.mark.parametrize(("a", "answer"), CASES)
def test_both_answers_are_proven(a, answer, monkeypatch):
    for way in ("any", "eigenvalues"):
        if way == "eigenvalues":
            monkeypatch.setattr(definite, "_by_cholesky", lambda a: False)
        found, info = linalg.is_positive_definite(a, info=True)
        assert found is answer
        (vector,) = info.vectors
        if answer:
            assert vector is None
        else:
            is_zero = "element" in info.proven[0] or "a x is zero" in info.proven[0]
            assert exact_form(a, vector) < 0 or (is_zero and exact_form(a, vector) == 0)
    assert str(info).startswith("proven")


def test_a_vector_that_float64_cannot_hold():
    """Eigenvalues 2 and about -2^-120: a float64 vector is not turned finely enough."""
    a = widen.Words(
        [[1, Fraction(1) + Fraction(1, 2**120)], [Fraction(1) + Fraction(1, 2**120), 1]],
        "float64x4",
    )
    b = a * widen.Words([["1", "1/3"], ["1/3", "1/9"]], "float64x4")  # scaled: no short vector
    b[1, 0] = b[0, 1]
    found, info = linalg.is_positive_definite(b, info=True)
    assert found is False
    assert exact_form(b, info.vectors[0]) < 0


@pytest.mark.parametrize("shift", [0.0, 1e-3, -1e-3])
def test_the_factor_proves_nothing_that_is_wrong(shift):
    """Matrices of smallest eigenvalues around zero: the cheap proof and the enclosure agree."""
    for seed in range(20):
        rng = rng_of(seed, 3)
        q = np.linalg.qr(rng.standard_normal((6, 6)))[0]
        values = np.array([1.0, 2, 3, 4, 5, shift + rng.standard_normal() * 1e-15])
        a = (q * values) @ q.T
        a = (a + a.T) / 2
        exact = systems.rational_matrix(a)
        minors = [systems.rational_matrix(a[:k, :k]).det() for k in range(1, 7)]
        assert linalg.is_positive_definite(a) is all(minor > 0 for minor in minors)
        if definite._by_cholesky(a):
            assert exact.det() > 0


def test_batches_and_tensors():
    a = np.stack([np.eye(2), -np.eye(2), np.ones((2, 2))])
    found, info = linalg.is_positive_definite(torch.from_numpy(a), info=True)
    assert found.tolist() == [True, False, False]
    assert [x is None for x in info.vectors] == [True, False, False]
    assert info.vectors[2].tolist() == [-1.0, 1.0]
    assert isinstance(info.vectors[1], torch.Tensor)


@pytest.mark.parametrize(
    ("a", "text"),
    [
        (np.array([[1.0, 5.0], [0.0, 1.0]]), "symmetric"),
        (np.array([[1.0, 1j], [1j, 1.0]]), "Hermitian"),
        (np.array([[np.nan]]), "NaN"),
        (np.array([[np.inf]]), "infinity"),
        (np.ones((2, 3)), "square"),
    ],
)
def test_what_is_refused(a, text):
    with pytest.raises(ValueError, match=text):
        linalg.is_positive_definite(a)


def gram(x):
    """The exact product x x^H of integers."""
    return x @ x.conj().T


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("kind", ["real", "complex", "words"])
def test_semidefinite_matrices_are_refuted_by_a_vector(kind, seed):
    rng = rng_of(seed, 8)
    n, rank = int(rng.integers(2, 8)), int(rng.integers(1, 8))
    x = rng.integers(-4, 5, (n, min(rank, n - 1))).astype(float)
    a = gram(x + 1j * rng.integers(-2, 3, x.shape)) if kind == "complex" else gram(x)
    np.fill_diagonal(a, a.diagonal() * (a.diagonal() > 0) + (a.diagonal() == 0))  # no zero there
    if kind == "words":
        a = widen.Words(a, "float64x2") * widen.Words("1/3", "float64x2")
        a = (a + a.T) * 0.5
    found, info = linalg.is_positive_definite(a, info=True)
    if found:
        return
    (vector,) = info.vectors
    assert vector is not None
    assert exact_form(a, vector) <= 0
    if "zero" in info.proven[0]:
        assert exact_form(a, vector) == 0
        exact = [systems.fractions_of(p) for p in (a.real, a.imag)] if kind == "complex" else None
        if exact is not None:
            re, im = (systems.fractions_of(p) for p in (vector.real, vector.imag))
            assert not any(exact[0].dot(re) - exact[1].dot(im))
            assert not any(exact[0].dot(im) + exact[1].dot(re))
        else:
            assert not any(systems.fractions_of(a).dot(systems.fractions_of(vector)))


def test_vectors_of_many_bits(monkeypatch):
    x = rng_of(9).integers(-(2**20), 2**20, (12, 11)).astype(float)
    a = gram(x)
    found, info = linalg.is_positive_definite(a, info=True)
    assert found is False
    assert isinstance(info.vectors[0], widen.Words)
    assert exact_form(a, info.vectors[0]) == 0
    monkeypatch.setattr(null_vectors, "FORMATS", {1: "float64", 2: "float64x2"})
    _, info = linalg.is_positive_definite(a, info=True)
    assert info.vectors[0] is None
    assert "more bits than 16 words" in info.proven[0]
    monkeypatch.setattr(integers, "WORK", 0.0)
    _, info = linalg.is_positive_definite(a, info=True)
    assert info.vectors[0] is None
    assert "too long" in info.proven[0]


@pytest.mark.parametrize("phase", [1.0, 1j])
def test_numbers_that_are_far_apart_are_decided_by_minors(phase):
    """2^600 and 2^-600: no scaling of all numbers holds both, and only integers tell."""
    a = np.diag([2.0**600, 2.0**-600, 1.0]).astype(type(phase))
    for corner, answer in ((1.0 - 2.0**-53, True), (1.0, False), (1.0 + 2.0**-52, False)):
        a[0, 1], a[1, 0] = corner * phase, corner * np.conj(phase)
        found, info = linalg.is_positive_definite(a, info=True)
        assert found is answer
        assert "in integers" in info.proven[0]
        assert info.vectors == [None]


def test_numbers_that_are_far_apart_in_large_matrices_prove_nothing(monkeypatch):
    monkeypatch.setattr(definite, "WORK", 0.0)
    with pytest.raises(widen.linalg.NotProvenError, match="too far apart"):
        linalg.is_positive_definite(np.diag([2.0**600, 2.0**-600]))
