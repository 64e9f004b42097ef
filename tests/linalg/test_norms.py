"""`norm` against exact sums, MPFR's roots and mpmath."""

from __future__ import annotations

import mpmath
import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import exact_systems as systems
import widen
from widen.linalg.powers import integer_root

linalg = widen.linalg
DIGITS = 120


def rng_of(*seed):
    return np.random.default_rng(seed)


def exact_moduli(a):
    return [abs(mpmath.mpc(complex(v))) if a.dtype.kind == "c" else abs(mpmath.mpf(float(v)))
            for v in a.reshape(-1)]  # fmt: skip


def exact_vector_norm(a, ord):
    with mpmath.workdps(DIGITS):
        sizes = exact_moduli(a)
        if ord == 0:
            return mpmath.mpf(sum(size != 0 for size in sizes))
        if np.isinf(ord):
            return max(sizes) if ord > 0 else min(sizes)
        if ord < 0 and 0 in sizes:
            return mpmath.mpf(0)
        p = mpmath.mpf(ord)
        return mpmath.fsum(size**p for size in sizes if size) ** (1 / p)


def exact_matrix_norm(a, ord):
    with mpmath.workdps(DIGITS):
        sizes = np.array(exact_moduli(a), object).reshape(a.shape)
        if ord == "fro":
            return mpmath.sqrt(mpmath.fsum(v * v for v in sizes.reshape(-1)))
        if ord in (1, -1, np.inf, -np.inf):
            sums = sizes.sum(0 if abs(ord) == 1 else 1).tolist()
            return max(sums) if ord > 0 else min(sums)
        tall = a if a.shape[0] >= a.shape[1] else a.conj().T
        matrix = mpmath.matrix(tall.tolist())
        solver = mpmath.svd_c if a.dtype.kind == "c" else mpmath.svd_r
        values = list(solver(matrix, compute_uv=False))
        return {"nuc": mpmath.fsum(values), 2: values[0], -2: values[-1]}[ord]


VECTORS = {
    "random": lambda: rng_of(1).standard_normal(9),
    "complex": lambda: rng_of(2).standard_normal(5) + 1j * rng_of(3).standard_normal(5),
    "with zeros": lambda: np.array([0.0, 1.5, -2.0]),
    "one": lambda: np.array([-0.1]),
    "far apart": lambda: np.array([1e-150, 1.0, 1e100]),
    "graded": lambda: 2.0 ** -np.arange(30.0) * rng_of(4).standard_normal(30),
}
ORDERS = [0, 1, 2, 3, 4, 7, 0.5, 1.5, 2.5, -1, -2, -0.5, 100, np.inf, -np.inf]


@pytest.mark.parametrize("ord", ORDERS)
@pytest.mark.parametrize("family", VECTORS)
def test_norms_of_vectors_are_rounded_once(family, ord):
    a = VECTORS[family]()
    found, info = linalg.norm(a, ord, info=True)
    wanted = exact_vector_norm(a, ord)
    assert info.decided
    assert found == float(wanted)
    with mpmath.workdps(DIGITS):
        slack = abs(wanted) * mpmath.mpf(10) ** -110  # of the reference
        assert abs(mpmath.mpf(float(found)) - wanted) <= mpmath.mpf(float(info.radius)) + slack


MATRICES = {
    "square": lambda: rng_of(5).standard_normal((5, 5)),
    "tall": lambda: rng_of(6).standard_normal((6, 2)),
    "wide": lambda: rng_of(7).standard_normal((3, 5)),
    "complex": lambda: rng_of(8).standard_normal((4, 3)) + 1j * rng_of(9).standard_normal((4, 3)),
    "row": lambda: rng_of(10).standard_normal((1, 6)),
}


@pytest.mark.parametrize("ord", ["fro", "nuc", 1, -1, 2, -2, np.inf, -np.inf])
@pytest.mark.parametrize("family", MATRICES)
def test_norms_of_matrices_are_rounded_once(family, ord):
    a = MATRICES[family]()
    found, info = linalg.norm(a, ord, info=True)
    assert info.decided
    assert found == float(exact_matrix_norm(a, ord))
    wide = linalg.norm(a, ord, dtype="float64x2").to_fraction()
    with mpmath.workdps(DIGITS):
        error = mpmath.mpf(wide.numerator) / wide.denominator - exact_matrix_norm(a, ord)
        assert abs(error) <= exact_matrix_norm(a, ord) * mpmath.mpf(2) ** -107


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1, max_size=5))
def test_any_floats(values):
    a = np.array(values)
    squares = sum(v * v for v in map(systems.rational, values))
    total = sum(abs(v) for v in map(systems.rational, values))
    with np.errstate(all="ignore"):
        assert linalg.norm(a, 1) == systems.nearest(total, "float64")
    with mpmath.workprec(4000):
        root = mpmath.sqrt(mpmath.mpf(int(squares.numerator)) / int(squares.denominator))
        with mpmath.workprec(53):
            found = linalg.norm(a)
            assert found == float(root) or (np.isinf(found) and root >= mpmath.mpf(2) ** 1024)


def test_sums_that_double_rounding_would_spoil():
    a = np.array([1.0, 2.0**-53, 2.0**-53, 2.0**-110])
    assert linalg.norm(a, 1) == 1 + 2.0**-52
    b = np.array([[3 + 4j, 5 + 12j], [0, 8 - 15j]])
    assert linalg.norm(b, np.inf) == 18
    assert linalg.norm(b, 1) == 30
    found, info = linalg.norm(b, 1, dtype="float64x4", info=True)
    assert info.decided
    assert float(found) == 30


def test_shapes_are_numpy_s():
    a = rng_of(11).standard_normal((2, 3, 4))
    cases = [{}, {"axis": 1}, {"axis": -1, "ord": 1}, {"axis": (0, 2)}, {"axis": (2, 0), "ord": 1},
             {"axis": (1, 2), "ord": 2}, {"keepdims": True}, {"axis": 0, "keepdims": True},
             {"axis": (0, 1), "ord": np.inf, "keepdims": True}]  # fmt: skip
    for options in cases:
        found, wanted = linalg.norm(a, **options), np.linalg.norm(a, **options)
        assert found.shape == wanted.shape
        assert np.allclose(found, wanted)
        tensor = linalg.norm(torch.from_numpy(a), **options)
        assert isinstance(tensor, torch.Tensor)
        assert np.array_equal(tensor.numpy(), found)
    assert linalg.norm(a, 2).shape == (2,)  # the last two axes
    assert np.allclose(linalg.norm(a, 2), np.linalg.norm(a, 2, axis=(1, 2)))
    assert linalg.norm(np.zeros(0)) == 0
    assert linalg.norm(np.zeros((0, 3)), "nuc") == 0


def test_formats():
    a = widen.Words(["0.1", "1/3"], "float64x3")
    exact = a.to_fraction()
    found = linalg.norm(a, 1)
    assert found.format.name == "float64x3"
    words = systems.nearest_words(sum(systems.as_rational(v) for v in exact), "float64x3")
    assert tuple(float(plane[0]) for plane in found.planes) == words
    assert linalg.norm(np.array([3, 4], "f4")).dtype == np.float32
    assert linalg.norm(np.array([3e38, 3e38], "f4")) == np.inf


@given(st.integers(0, 10**60), st.integers(1, 9))
def test_integer_roots(value, degree):
    root = integer_root(value, degree)
    assert root**degree <= value < (root + 1) ** degree


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: linalg.norm(np.eye(2), 3), "norm of matrices"),
        (lambda: linalg.norm(np.eye(2), "frobenius"), "norm of matrices"),
        (lambda: linalg.norm(np.ones(2), "fro"), "norm of vectors"),
        (lambda: linalg.norm(np.ones(2), np.nan), "norm of vectors"),
        (lambda: linalg.norm(np.ones(2), 1e-9), "1e-6"),
        (lambda: linalg.norm(np.ones(2), axis=2), "axis"),
        (lambda: linalg.norm(np.eye(2), axis=(0, 0)), "axis"),
        (lambda: linalg.norm(np.ones((2, 2, 2)), axis=(0, 1, 2)), "one axis or two"),
        (lambda: linalg.norm(np.zeros(0), np.inf), "nothing"),
        (lambda: linalg.norm(np.zeros((0, 2)), 2), "no size"),
        (lambda: linalg.norm(np.array([np.nan])), "NaN"),
    ],
)
def test_what_is_refused(call, text):
    with pytest.raises(ValueError, match=text):
        call()
