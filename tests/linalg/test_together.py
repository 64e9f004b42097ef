"""Batches of small systems, solved together: the bits of each alone, whatever is among them."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import exact_systems as systems
import widen
from helpers import assert_same_bits
from widen.formats import FORMATS
from widen.linalg import functions, together

linalg = widen.linalg
N = 6


def rng_of(*seed):
    return np.random.default_rng(seed)


FAMILIES = {
    "gaussian": lambda rng: rng.standard_normal((N, N)),
    "cond 1e7": lambda rng: systems.conditioned(rng, N, 7)[0],
    "cond 1e14": lambda rng: systems.conditioned(rng, N, 14)[0],
    "graded": lambda rng: systems.graded(rng, N)[0],
    "triangular": lambda rng: systems.triangular(rng, N)[0],
    "integers": lambda rng: systems.integers(rng, N)[0],
    "tied": lambda rng: systems.tied(rng, N)[0],
    "subnormal": lambda rng: systems.subnormal(rng, N)[0],
    "huge": lambda rng: systems.huge(rng, N)[0],
    "far apart": lambda rng: systems.far_apart(rng, N)[0],
}


def batch(seed, sides):
    """Two systems of each family, some right-hand sides of which are zero, tiny or huge."""
    rng = rng_of(seed, sides)
    a = np.stack([make(rng) for make in FAMILIES.values() for _ in range(2)])
    b = rng.standard_normal((len(a), N, sides))
    b[::2] *= 2.0 ** rng.integers(-600, 600, (len(b[::2]), 1, sides))
    b[3], b[7, 2] = 0.0, 0.0
    return a, b


def planes_of(x):
    return [plane[0] for plane in x.planes] if isinstance(x, widen.Words) else [x]


def assert_same(found, wanted):
    for p, q in zip(planes_of(found), planes_of(wanted), strict=True):
        assert_same_bits(np.asarray(p), np.asarray(q))


@pytest.fixture
def counted(monkeypatch):
    """How many systems went alone."""
    alone = []
    solver = functions.solve_real

    def watched(*given):
        alone.append(1)
        return solver(*given)

    monkeypatch.setattr(functions, "solve_real", watched)
    monkeypatch.setattr(functions.solved, "__defaults__", (watched,))
    return alone


@pytest.mark.parametrize("name", ["float64", "float32", "float64x2", "float32x3"])
@pytest.mark.parametrize("sides", [1, 5])
def test_a_batch_has_the_bits_of_its_systems(name, sides, counted):
    a, b = batch(1, sides)
    found, info = linalg.solve(a, b, dtype=name, info=True)
    assert 0 < len(counted) < len(a)  # some are hard, most are not
    for i in range(len(a)):
        alone, one = linalg.solve(a[i], b[i], dtype=name, info=True)
        assert_same(found[i], alone)
        finite = np.isfinite(info.radius[i])
        assert (finite == np.isfinite(one.radius)).all()
        assert (info.radius[i][finite] <= 4 * one.radius[finite] + 2.0**-1000).all()
    assert "together" in info.seconds


def test_inverses_complex_numbers_and_tensors():
    rng = rng_of(2)
    a = rng.standard_normal((9, 4, 4)) + 1j * rng.standard_normal((9, 4, 4))
    b = rng.standard_normal((9, 4, 2))
    assert_same(
        linalg.solve(a, b), np.stack([linalg.solve(x, y) for x, y in zip(a, b, strict=True)])
    )
    assert_same(linalg.inv(a), np.stack([linalg.inv(x) for x in a]))
    real = a.real.copy()
    found = linalg.inv(torch.from_numpy(real))
    assert isinstance(found, torch.Tensor)
    assert_same(found.numpy(), np.stack([linalg.inv(x) for x in real]))
    assert_same(linalg.solve(real, b[:1]), np.stack([linalg.solve(x, b[0]) for x in real]))


def test_elements_are_right_and_enclosed():
    """Against flint, one by one; with the radii that were claimed."""
    rng = rng_of(3)
    a, b = rng.standard_normal((40, 5, 5)), rng.standard_normal((40, 5, 2))
    found, info = linalg.solve(a, b, info=True)
    for i in range(len(a)):
        exact = systems.exact_solution(a[i], b[i])
        assert_same_bits(found[i], systems.rounded(exact))
        for value, radius, wanted in zip(
            found[i].reshape(-1), info.radius[i].reshape(-1), exact.reshape(-1), strict=True
        ):
            assert abs(systems.rational(value) - wanted) <= systems.rational(radius)


@given(st.integers(0, 2**32), st.sampled_from([2, 3]), st.sampled_from(["float64", "float32"]))
def test_small_integers(seed, n, name):
    """Zeros, ties and singular matrices in plenty."""
    rng = rng_of(seed)
    a = rng.integers(-2, 3, (8, n, n)).astype(float) * 2.0 ** rng.integers(-40, 40, (8, n, 1))
    b = rng.integers(-3, 4, (8, n, 1)).astype(float)
    singular = [systems.rational_matrix(x).det() == 0 for x in a]
    if any(singular):
        with pytest.raises(linalg.SingularMatrixError):
            linalg.solve(a, b)
        a = a[~np.array(singular)]
        b = b[~np.array(singular)]
    found = linalg.solve(a, b, dtype=name)
    for x, y, z in zip(a, b, found, strict=True):
        wanted = systems.rounded(systems.exact_solution(x, y), name)
        assert_same_bits(z.astype(float), wanted)


def test_parts_of_a_batch(monkeypatch):
    a, b = rng_of(4).standard_normal((30, 3, 3)), rng_of(5).standard_normal((30, 3, 1))
    whole = linalg.solve(a, b)
    monkeypatch.setattr(together, "ROOM", 40)
    assert_same_bits(linalg.solve(a, b), whole)


def test_what_is_not_exact_is_left_alone():
    """Scaling that loses a bit, NaN from inverses, and row sums above the goal prove nothing."""
    part = FORMATS["float64"]
    good, b = np.eye(2) + 1, np.ones((2, 1))
    lost = np.array([[2.0**-1074, 2.0**900], [1.0, 2.0]])
    singular = np.ones((2, 2))
    a = np.stack([good, lost, singular, good])
    found = together.solve_together(a, np.stack([b, b, b, b * 0]), part, 0.25)
    assert found.done.tolist() == [True, False, False, False]
    third = Fraction(float(found.planes[0][0, 0, 0]))
    assert abs(third - Fraction(1, 3)) <= Fraction(float(found.radius[0, 0, 0]))
    nothing = together.solve_together(a, np.stack([b] * 4), part, 0.0)
    assert not nothing.done.any()
