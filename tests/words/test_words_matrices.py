"""NumPy's and PyTorch's functions of matrices and of order, on words, against fractions."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
import torch

import widen
from widen.formats import WORDS

FORMATS = ["float64x2", "float64x4", "float32x3", "float64_float32"]


def numbers(name, shape, seed=1):
    """Numbers with equal first words, some equal in all."""
    rng = np.random.default_rng(seed)
    first = rng.integers(-2, 3, shape).astype(float)
    second = rng.integers(-2, 3, shape) * 2.0 ** -WORDS[name].words[0].precision / 4
    return widen.Words.from_words(np.stack([first, second]), name)


def exact(x):
    return np.asarray(x.to_fraction(), object)


def assert_equal(found, wanted, name):
    assert found.format.name == name
    assert found.shape == np.shape(wanted)
    assert (exact(found) == np.asarray(wanted, object)).all()


@pytest.mark.parametrize("kind", ["numpy", "torch"])
@pytest.mark.parametrize("name", FORMATS)
def test_parts_of_matrices(name, kind):
    x = numbers(name, (4, 3))
    if kind == "torch":
        x = x.to_torch()
    library = torch if kind == "torch" else np
    q = exact(x)
    for k in (-1, 0, 2):
        keep = np.subtract.outer(np.arange(4), np.arange(3)) >= -k
        assert_equal(library.tril(x, k), np.where(keep, q, Fraction(0)), name)
        keep = np.subtract.outer(np.arange(4), np.arange(3)) <= -k
        assert_equal(library.triu(x, k), np.where(keep, q, Fraction(0)), name)
        assert_equal(library.diag(x, k), np.diagonal(q, k), name)
        made = library.diag(x[:, 0], k)
        assert made.shape == (4 + abs(k), 4 + abs(k))
        assert_equal(library.diagonal(made, k), q[:, 0], name)
        assert (exact(made) != 0).sum() == (q[:, 0] != 0).sum()
    assert_equal(library.trace(x), np.diagonal(q).sum(), name)
    products = x[0].reshape(-1, 1) * x[1].reshape(1, -1)
    assert_equal(library.outer(x[0], x[1]), exact(products), name)
    assert_equal(library.vstack([x, x[0]]), np.vstack([q, q[:1]]), name)
    assert_equal(library.hstack([x, x]), np.hstack([q, q]), name)
    assert_equal(library.hstack([x[0], x[1]]), np.hstack([q[0], q[1]]), name)
    assert_equal(library.flip(x, (0,)), q[::-1], name)
    assert_equal(library.squeeze(x[:1]), q[0], name)


@pytest.mark.parametrize("kind", ["numpy", "torch"])
@pytest.mark.parametrize("name", FORMATS)
def test_order(name, kind):
    x = numbers(name, (5, 6))
    if kind == "torch":
        x = x.to_torch()
    library = torch if kind == "torch" else np
    q = exact(x)
    largest = library.amax if kind == "torch" else np.max
    smallest = library.amin if kind == "torch" else np.min
    for axis in (0, 1, -1):
        assert_equal(largest(x, axis), q.max(axis), name)
        assert_equal(smallest(x, axis), q.min(axis), name)
        assert np.array_equal(np.asarray(library.argmax(x, axis)), q.argmax(axis))
        assert np.array_equal(np.asarray(library.argmin(x, axis)), q.argmin(axis))
        indices = np.asarray(library.argsort(x, axis))
        assert (np.take_along_axis(q, indices, axis) == np.sort(q, axis)).all()
    if kind == "numpy":
        assert_equal(np.sort(x, axis=0), np.sort(q, 0), name)
        assert_equal(np.sort(x, axis=None), np.sort(q, None), name)
        assert_equal(np.max(x, axis=1, keepdims=True), q.max(1, keepdims=True), name)
        assert_equal(np.max(x), q.max(), name)
        assert int(np.argmin(x)) == q.argmin()
    y = x * -1
    assert_equal(library.maximum(x, y), np.maximum(q, -q), name)
    assert_equal(library.minimum(x, y), np.minimum(q, -q), name)
    assert_equal(library.sign(x), np.vectorize(lambda v: Fraction((v > 0) - (v < 0)))(q), name)


@pytest.mark.parametrize("name", FORMATS)
def test_sums_and_powers_of_two(name):
    x = numbers(name, (3, 4))
    q = exact(x)
    whole = np.round(x)
    assert_equal(whole, np.vectorize(round)(q), name)
    wanted = np.prod(np.vectorize(round)(q) + 3, axis=0)
    assert_equal(np.prod(whole + 3, axis=0), wanted, name)
    assert_equal(np.mean(x, axis=1), q.sum(1) / 4, name)
    assert_equal(np.ldexp(x, 3), q * 8, name)
    assert_equal(np.ldexp(x, np.array([0, 1, -1, 5])), q * [1, 2, Fraction(1, 2), 32], name)
    mantissa, exponent = np.frexp(x)
    assert (exact(mantissa) * np.vectorize(lambda e: Fraction(2) ** int(e))(exponent) == q).all()
    size = abs(mantissa.to_numpy())
    assert ((size == 0) | ((size >= 0.5) & (size < 1))).all()


@pytest.mark.parametrize("name", FORMATS)
def test_norms_of_sums_and_of_largest(name):
    x = numbers(name, (3, 4))
    q = abs(exact(x))
    assert_equal(np.linalg.norm(x, 1), q.sum(0).max(), name)
    assert_equal(np.linalg.norm(x, np.inf), q.sum(1).max(), name)
    assert_equal(np.linalg.norm(x[0], 1), q[0].sum(), name)
    assert_equal(np.linalg.norm(x, np.inf, axis=1), q.max(1), name)


def test_nan_is_found():
    x = widen.Words([1.0, float("nan"), 3.0], "float64x2")
    assert np.isnan(np.max(x).to_numpy())
    assert int(np.argmax(x)) == 1
    assert np.isnan(np.maximum(x, 2.0).to_numpy()).tolist() == [False, True, False]
    assert np.isnan(np.minimum(widen.Words([1.0], "float64x2"), np.array([np.nan])).to_numpy())


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda x: np.max(x * 1j), TypeError, "no order"),
        (lambda x: np.max(x[:0]), ValueError, "no numbers"),
        (lambda x: np.max(x, axis=5), ValueError, "axis 5"),
        (lambda x: np.tril(x[0]), ValueError, "matrices"),
        (lambda x: np.diag(x[0, 0]), ValueError, "vector or a matrix"),
        (lambda x: np.squeeze(x, 0), ValueError, "more than one entry"),
        (lambda x: np.linalg.norm(x, 3), TypeError, "ord=3"),
    ],
)
def test_what_is_refused(call, error, text):
    with pytest.raises(error, match=text):
        call(numbers("float64x2", (3, 3)))
