"""`qr`, `lu_factor` and `lu_solve`: residuals and orthogonality, exactly, and against mpmath."""

from __future__ import annotations

import warnings
from fractions import Fraction

import mpmath
import numpy as np
import pytest
import torch

import exact_systems as systems
import widen
from widen.linalg import SingularMatrixError, triangles

linalg = widen.linalg
UNITS = {"float64": 53, "float32": 24, "float64x2": 107, "float64x4": 215, "float32x3": 74}


def rng_of(*seed):
    return np.random.default_rng(seed)


def complex_numbers(rng, shape):
    return rng.standard_normal(shape) + 1j * rng.standard_normal(shape)


def complex_name(name):
    return name.replace("float64", "complex128").replace("float32", "complex64")


def exact_parts(x):
    """Real and imaginary parts as object arrays of fractions."""
    if isinstance(x, widen.Words):
        return [x.real.to_fraction(), x.imag.to_fraction()]
    return [systems.fractions_of(np.asarray(part, float)) for part in (x.real, x.imag)]


def exact_product(x, y):
    (a, b), (c, d) = x, y
    return [a.dot(c) - b.dot(d), a.dot(d) + b.dot(c)]


def moduli(x):
    """Squares of moduli, exactly."""
    return x[0] * x[0] + x[1] * x[1]


def assert_within(rest, radius):
    """The moduli of exact numbers are at most these floats."""
    for square, r in zip(moduli(rest).reshape(-1), np.asarray(radius).reshape(-1), strict=True):
        assert square <= Fraction(float(r)) ** 2


SHAPES = [(1, 1), (5, 5), (7, 3), (3, 6), (4, 1), (1, 4), (20, 18)]


@pytest.mark.parametrize("name", UNITS)
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("kind", ["real", "complex"])
@pytest.mark.covering(2)
def test_factors_are_orthonormal_and_give_the_matrix_back(shape, name, kind):
    rng = rng_of(*shape)
    a = rng.standard_normal(shape) if kind == "real" else complex_numbers(rng, shape)
    dtype = name if kind == "real" else complex_name(name)
    q, r, info = linalg.qr(a, dtype=dtype, info=True)
    k = min(shape)
    assert (q.shape, r.shape) == ((shape[0], k), (k, shape[1]))
    unit = 2.0 ** -UNITS[name]
    (qr, qi), exact_r = exact_parts(q), exact_parts(r)
    rest = [x - y for x, y in zip(exact_parts(a), exact_product((qr, qi), exact_r), strict=True)]
    assert_within(rest, info.residual)
    assert info.residual.max() < 10 * max(shape) * unit * abs(a).max()
    off = exact_product((qr.T, -qi.T), (qr, qi))
    off[0] = off[0] - np.eye(k, dtype=int)
    sums = [sum(float(v) ** 0.5 for v in row) for row in moduli(off)]
    assert max(sums) <= info.orthogonality * (1 + 1e-12)
    assert info.orthogonality < 4 * k * unit
    for part in exact_r:
        assert not np.tril(part, -1).any()
    assert not np.diagonal(exact_r[1]).any()
    assert (np.diagonal(exact_r[0]) >= 0).all()
    assert "orthonormal" in str(info)


@pytest.mark.parametrize("digits", [0, 8, 15])
def test_factors_of_full_rank_are_the_exact_ones(digits):
    """R' is the Cholesky factor of A'A: at 200 digits by mpmath."""
    rng = rng_of(digits)
    a = systems.conditioned(rng, 6, digits)[0][:, :5]
    q, r = linalg.qr(a)
    with mpmath.workdps(200):
        exact = mpmath.matrix(a.tolist())
        upper = mpmath.cholesky(exact.T * exact).T
        left = exact * upper**-1
        for i in range(5):
            for j in range(5):
                error = abs(mpmath.mpf(float(r[i, j])) - upper[i, j])
                assert error <= 2.0**-53 * abs(upper[i, j]) + 1e-31 * 10.0**digits
            for k in range(6):
                assert (
                    abs(mpmath.mpf(float(q[k, i])) - left[k, i]) <= 2.0**-53 + 1e-31 * 10.0**digits
                )


@pytest.mark.parametrize(
    "a",
    [np.zeros((4, 3)), np.ones((4, 3)), np.ones((2, 5)), np.diag([1.0, 0.0, 2.0]),
     np.ones((3, 3)) * (1 + 1j), np.array([[0.0, 1.0], [0.0, 0.0]])],
)  # fmt: skip
def test_deficient_ranks_have_orthonormal_factors(a):
    for mode in ("reduced", "complete"):
        q, r, info = linalg.qr(a, mode, info=True)
        assert info.orthogonality < 1e-15
        assert info.residual.max() < 1e-15
        assert abs(q @ r - a).max() < 1e-14


def test_modes_shapes_and_scales():
    a = rng_of(1).standard_normal((2, 5, 3))
    q, r = linalg.qr(a, "complete")
    assert (q.shape, r.shape) == ((2, 5, 5), (2, 5, 3))
    alone = linalg.qr(a, "r")
    assert np.array_equal(alone, linalg.qr(a)[1])
    assert np.array_equal(alone, r[:, :3])
    again = linalg.qr(torch.from_numpy(a))
    assert np.array_equal(again[0].numpy(), q[:, :, :3])
    powers = 2.0 ** np.array([-900, 0, 900])
    scaled = linalg.qr(a[0] * powers)
    assert np.array_equal(scaled[0], q[0, :, :3])
    assert np.array_equal(scaled[1], alone[0] * powers)
    for shape in ((0, 3), (3, 0), (0, 0)):
        for mode in ("reduced", "complete"):
            found = [x.shape for x in linalg.qr(np.zeros(shape), mode)]
            assert found == [x.shape for x in np.linalg.qr(np.zeros(shape), mode)]


# ── LU ───────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("name", UNITS)
@pytest.mark.parametrize("shape", [(1, 1), (6, 6), (7, 3), (3, 6), (40, 36)])
@pytest.mark.parametrize("kind", ["real", "complex"])
@pytest.mark.covering(2)
def test_triangles_give_the_rows_back(shape, name, kind):
    rng = rng_of(*shape)
    a = rng.standard_normal(shape) if kind == "real" else complex_numbers(rng, shape)
    dtype = name if kind == "real" else complex_name(name)
    lu, pivots, info = linalg.lu_factor(a, dtype=dtype, info=True)
    k = min(shape)
    both = exact_parts(lu)
    lower, upper = [np.tril(x, -1)[:, :k] for x in both], [np.triu(x)[:k] for x in both]
    lower[0] = lower[0] + np.eye(shape[0], k, dtype=int)
    rows = triangles.permuted(a, pivots)
    rest = [x - y for x, y in zip(exact_parts(rows), exact_product(lower, upper), strict=True)]
    assert_within(rest, info.residual)
    assert info.residual.max() < 20 * k * 2.0 ** -UNITS[name] * abs(a).max()
    assert (moduli(lower) <= 2).all()
    assert "within" in str(info)


def test_pivots_are_those_of_others():
    a = rng_of(2).standard_normal((9, 9))
    from scipy.linalg import lu_factor, lu_solve

    ours = linalg.lu_factor(a)
    assert ours[1].tolist() == lu_factor(a)[1].tolist()
    assert np.allclose(lu_solve(ours, np.ones(9)), np.linalg.solve(a, np.ones(9)))
    lu, pivots = linalg.lu_factor(torch.from_numpy(a))
    p, lower, upper = torch.lu_unpack(lu, pivots)
    assert torch.allclose(p @ lower @ upper, torch.from_numpy(a))


@pytest.mark.parametrize("kind", ["real", "complex"])
@pytest.mark.parametrize("name", ["float64", "float64x2", "float64x4"])
def test_substitution(name, kind):
    rng = rng_of(3)
    a = rng.standard_normal((35, 35)) if kind == "real" else complex_numbers(rng, (35, 35))
    dtype = name if kind == "real" else complex_name(name)
    b = rng.standard_normal((35, 2))
    factors = linalg.lu_factor(a, dtype=dtype)
    found = linalg.lu_solve(factors, b)
    wanted = linalg.solve(a, b, dtype=dtype)
    difference = found - wanted
    rest = difference.to_numpy() if isinstance(difference, widen.Words) else difference
    assert abs(rest).max() < 1e5 * 2.0 ** -UNITS[name]
    vector = linalg.lu_solve(factors, b[:, 0])
    assert vector.shape == (35,)


def test_singular_matrices_and_shapes():
    lu, pivots = linalg.lu_factor(np.ones((3, 3)))
    assert (np.triu(lu)[1:] == 0).all()
    with pytest.raises(SingularMatrixError, match="zero on its diagonal"):
        linalg.lu_solve((lu, pivots), np.ones(3))
    lu, pivots = linalg.lu_factor(np.zeros((2, 3, 2)))
    assert (lu.shape, pivots.shape) == ((2, 3, 2), (2, 2))
    assert linalg.lu_factor(np.zeros((0, 4)))[0].shape == (0, 4)
    assert linalg.lu_solve(linalg.lu_factor(np.zeros((0, 0))), np.zeros((0, 2))).shape == (0, 2)


def test_factors_beyond_the_range_of_a_format_are_infinite():
    a = np.array([[1e100, 2e100], [1.0, 3.0]])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert np.isinf(linalg.qr(a, "r", dtype="float32")[0]).all()
        assert np.isinf(linalg.lu_factor(a, dtype="float32")[0][0]).all()
        for x in (a, torch.from_numpy(a)):
            q, _, info = linalg.qr(x, dtype="float32", info=True)
            assert np.isinf(np.asarray(info.residual)).all()
            assert info.orthogonality < 1e-6
            assert np.isfinite(np.asarray(q)).all()
            _, _, info = linalg.lu_factor(x, dtype="float32", info=True)
            assert np.isinf(np.asarray(info.residual)).all()


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda: linalg.qr(np.eye(2), "full"), ValueError, "reduced"),
        (lambda: linalg.qr(np.ones(3)), ValueError, "matrices"),
        (lambda: linalg.qr(np.array([[np.inf]])), ValueError, "infinity"),
        (lambda: linalg.lu_factor(np.ones(3)), ValueError, "matrices"),
        (lambda: linalg.lu_solve(linalg.lu_factor(np.eye(3)), np.ones(2)), ValueError, "rows"),
        (lambda: linalg.lu_solve(linalg.lu_factor(np.ones((2, 3))), np.ones(2)), ValueError, "squ"),
        (lambda: linalg.qr(np.eye(2) * 1j, dtype="float64"), ValueError, "imaginary"),
        (lambda: linalg.qr(np.array([[1e-300], [1e300], [1e-308]])), widen.linalg.NotProvenError,
         "too far apart"),
    ],
)  # fmt: skip
def test_what_is_refused(call, error, text):
    with pytest.raises(error, match=text):
        call()
