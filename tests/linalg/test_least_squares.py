"""`lstsq` and `pinv` against the exact solutions of the normal equations, by python-flint."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import exact_systems as systems
import widen
from helpers import assert_same_bits
from widen.formats import WORDS
from widen.linalg import SingularMatrixError

linalg = widen.linalg


def rng_of(*seed):
    return np.random.default_rng(seed)


def exact_least_squares(a, b):
    """Rationals; for wide matrices those of minimum norm."""
    left, right = systems.rational_matrix(a), systems.rational_matrix(b)
    if a.shape[0] >= a.shape[1]:
        found = (left.transpose() * left).solve(left.transpose() * right)
    else:
        found = left.transpose() * (left * left.transpose()).solve(right)
    values = np.empty((a.shape[1], b.shape[1]), object)
    for i in range(a.shape[1]):
        for j in range(b.shape[1]):
            values[i, j] = systems.as_mpq(found[i, j])
    return values


def tall(rng, m, n, digits):
    u = np.linalg.qr(rng.standard_normal((m, m)))[0][:, :n]
    v = np.linalg.qr(rng.standard_normal((n, n)))[0]
    return (u * np.logspace(0, -digits, n)) @ v


PROBLEMS = {
    "random": lambda rng: rng.standard_normal((12, 5)),
    "cond 1e6": lambda rng: tall(rng, 15, 6, 6),
    "cond 1e14": lambda rng: tall(rng, 20, 7, 14),
    "line": lambda rng: np.vander(np.arange(1.0, 30), 2),
    "polynomial": lambda rng: np.vander(np.arange(0.0, 2.0, 0.1), 9),
    "wide": lambda rng: rng.standard_normal((4, 9)),
    "square": lambda rng: rng.standard_normal((5, 5)),
    "graded": lambda rng: rng.standard_normal((8, 3)) * 2.0 ** rng.integers(-200, 200, (8, 3)),
    "graded columns": lambda rng: rng.standard_normal((8, 3)) * 2.0 ** np.array([-500, 0, 500]),
    "integers": lambda rng: rng.integers(-5, 6, (9, 4)).astype(float),
    "column": lambda rng: np.ones((7, 1)),
}


@pytest.mark.parametrize("name", ["float64", "float32", "float64x2"])
@pytest.mark.parametrize("family", PROBLEMS)
def test_least_squares_are_rounded_once(family, name):
    rng = rng_of(3)
    a = PROBLEMS[family](rng)
    b = rng.standard_normal((len(a), 2))
    found = linalg.lstsq(a, b, dtype=name)
    wanted = systems.rounded(exact_least_squares(a, b), name)
    if name in WORDS:
        for plane, words in zip(found.planes, wanted, strict=True):
            assert_same_bits(plane[0], words)
    else:
        assert_same_bits(found.astype(float), wanted)


@pytest.mark.parametrize("family", PROBLEMS)
def test_pseudoinverses_are_rounded_once(family):
    a = PROBLEMS[family](rng_of(4))
    assert_same_bits(linalg.pinv(a), systems.rounded(exact_least_squares(a, np.eye(len(a)))))


def test_complex_problems():
    rng = rng_of(5)
    a, c = rng.standard_normal((2, 7, 3))
    b, d = rng.standard_normal((2, 7, 1))
    found = linalg.lstsq(a + 1j * c, b + 1j * d)
    exact = exact_least_squares(np.block([[a, -c], [c, a]]), np.vstack([b, d]))
    assert_same_bits(found.real, systems.rounded(exact[:3]))
    assert_same_bits(found.imag, systems.rounded(exact[3:]))


@pytest.mark.parametrize("a", [np.ones((5, 2)), np.ones((2, 5)), np.zeros((3, 2))])
def test_deficient_ranks_are_never_answered(a):
    with pytest.raises(SingularMatrixError, match="full rank"):
        linalg.lstsq(a, np.ones(len(a)))


def test_shapes_and_tensors():
    a, b = rng_of(6).standard_normal((2, 6, 3)), rng_of(7).standard_normal((2, 6, 2))
    found = linalg.lstsq(a, b)
    assert found.shape == (2, 3, 2)
    assert linalg.lstsq(a[0], b[0, :, 0]).shape == (3,)
    assert (linalg.lstsq(torch.from_numpy(a), torch.from_numpy(b)).numpy() == found).all()
    assert linalg.lstsq(np.zeros((0, 3)), np.zeros(0)).tolist() == [0, 0, 0]
    assert linalg.pinv(np.zeros((4, 0))).shape == (0, 4)
    _, info = linalg.lstsq(a, b, info=True, accuracy="enclosed")
    assert info.radius.shape == (2, 3, 2)
    with pytest.raises(ValueError, match="b needs 6 rows"):
        linalg.lstsq(a, np.ones(5))
    with pytest.raises(ValueError, match="matrices"):
        linalg.pinv(np.ones(5))
