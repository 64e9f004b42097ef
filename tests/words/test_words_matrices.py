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


@pytest.mark.parametrize("kind", ["numpy", "torch"])
@pytest.mark.parametrize("name", FORMATS)
def test_several_axes(name, kind):
    x = numbers(name, (3, 2, 4))
    if kind == "torch":
        x = x.to_torch()
    q = exact(x)
    for axis in (None, 0, -1, (0, 2), (-1, 1), (0, 1, 2)):
        for keep in (False, True):
            assert_equal(x.max(axis, keep), q.max(axis, keepdims=keep), name)
            assert_equal(x.min(axis, keep), q.min(axis, keepdims=keep), name)
            whole = (x.round() + 3).prod(axis, keep)
            assert_equal(whole, (np.vectorize(round)(q) + 3).prod(axis, keepdims=keep), name)
            count = q.size // np.size(q.sum(axis))
            found, sums = x.mean(axis, keep), q.sum(axis, keepdims=keep)
            assert found.shape == np.shape(sums)
            size = max(abs(e) for e in np.ravel(np.asarray(sums / count - exact(found), object)))
            assert size <= Fraction(2) ** -(WORDS[name].precision - 5) * 4
            if not isinstance(axis, tuple):
                places = np.asarray(x.argmax(axis, keep)), np.asarray(x.argmin(axis, keep))
                assert np.array_equal(places[0], q.argmax(axis, keepdims=keep))
                assert np.array_equal(places[1], q.argmin(axis, keepdims=keep))
    for axes in ((0, 1), (1, 2), (-1, 0)):
        assert_equal(x.diagonal(1, *axes), np.diagonal(q, 1, *axes), name)
        assert_equal(x.trace(0, *axes), np.trace(q, 0, *axes), name)
    assert_equal(x.ravel(), q.ravel(), name)
    assert_equal(x.transpose(2, 0, 1).flatten(), q.transpose(2, 0, 1).ravel(), name)
    assert_equal(x[:1].squeeze(0), q[0], name)
    assert x.tolist() == q.tolist()
    for ord in (1, -1, np.inf, -np.inf):
        of_matrices = torch.linalg.matrix_norm if kind == "torch" else None
        for axis in ((0, 1), (2, 1)):
            lines = abs(q).sum(axis[0] if abs(ord) == 1 else axis[1], keepdims=True)
            other = axis[1] if abs(ord) == 1 else axis[0]
            right = lines.max(other, keepdims=True) if ord > 0 else lines.min(other, keepdims=True)
            norm = of_matrices or np.linalg.norm
            assert_equal(norm(x, ord, axis), right.squeeze(axis), name)
            assert norm(x, ord, axis, True).shape == right.shape


def test_pytorchs_own_arguments():
    x = numbers("float64x3", (4, 5))
    q, t = exact(x), x.to_torch()
    assert_equal(torch.max(t), q.max(), "float64x3")
    assert_equal(torch.min(t, -t), np.minimum(q, -q), "float64x3")
    values, places = torch.max(t, 1)
    assert_equal(values, q.max(1), "float64x3")
    assert np.array_equal(places.numpy(), q.argmax(1))
    assert torch.min(t, dim=0, keepdim=True).values.shape == (1, 5)
    found = torch.sort(t, 0, descending=True)
    assert_equal(found.values, np.sort(q, 0)[::-1], "float64x3")
    assert (np.take_along_axis(q, found.indices.numpy(), 0) == np.sort(q, 0)[::-1]).all()
    for a in range(5):  # equal numbers stay in order
        column, at = exact(found.values)[:, a], found.indices.numpy()[:, a]
        assert all(at[i] < at[i + 1] for i in range(3) if column[i] == column[i + 1])
    assert_equal(torch.tril(t, diagonal=1), np.tril(q, 1), "float64x3")
    assert_equal(torch.diagonal(t, dim1=1, dim2=0), np.diagonal(q, 0, 1, 0), "float64x3")
    assert torch.squeeze(t[:1], 1).shape == (1, 5)
    assert_equal(torch.diag(t[0], diagonal=-1), np.diag(q[0], -1), "float64x3")


@pytest.mark.parametrize("name", FORMATS)
def test_blocks_and_identities(name):
    x = numbers(name, (2, 3))
    q = exact(x)
    for blocks in (
        lambda y: [[y, y[:, :1]], [y[:1], y[:1, :1]]],
        lambda y: [y, y],
        lambda y: [y[0], y[1]],
        lambda y: [[y[0], y[1]], [y[1], y[0]]],
        lambda y: y,
        lambda y: [[y[:, None], y[:, None]]],
    ):
        assert_equal(np.block(blocks(x)), np.block(blocks(q)), name)
    assert_equal(np.block([[x, np.ones((2, 1), np.float32)]]), np.hstack([q, [[1], [1]]]), name)
    assert_equal(np.hstack([x[0, 0], x[0, 1]]), q[0, :2], name)
    assert_equal(np.concatenate([x, x[0]], axis=None), np.concatenate([q, q[0]], axis=None), name)
    for shape in ((3, None, 0), (2, 5, 1), (4, 2, -1), (3, 3, 7), (0, 2, 0)):
        wanted = np.eye(*shape)
        found = widen.Words.eye(*shape, dtype=name)
        assert found.to_numpy().dtype == found.planes[0].dtype
        assert np.array_equal(found.to_numpy(), wanted)
        on_torch = widen.Words.eye(*shape, dtype=name, device="cpu")
        assert torch.is_tensor(on_torch.planes[0])
        assert np.array_equal(on_torch.to_numpy(), wanted)


def test_lists_give_the_same_words_back():
    values = ["0.1", "nan", "inf", "-inf", "-0.0", "1e-320"]
    x = widen.Words(values, "float64x2").reshape(2, 3)
    again = widen.Words(x.tolist(), "float64x2")
    for plane, other in zip(x.planes, again.planes, strict=True):
        assert plane.tobytes() == other.tobytes()
    assert widen.Words("0.5", "float64x2").tolist() == Fraction(1, 2)


def test_no_numbers():
    x = widen.Words(np.zeros((0, 3)), "float64x2")
    assert x.max(1).shape == (0,)
    assert x.argmax(1).shape == (0,)
    assert x.prod(0).to_numpy().tolist() == [1, 1, 1]
    assert float(x.prod()) == 1
    assert np.isnan(x.mean(0).to_numpy()).all()
    assert np.sort(x, 0).shape == (0, 3)
    assert x.ravel().shape == (0,)
    assert x.diagonal().shape == (0,)
    assert np.diag(x[:, 0]).shape == (0, 0)
    assert float(np.linalg.norm(x, 1)) == float(np.linalg.norm(x[:, 0], np.inf)) == 0
    assert x.tolist() == []
    assert x.round().shape == (0, 3)
    for call in (x.max, x.argmin, lambda: x.min(0)):
        with pytest.raises(ValueError, match="no numbers"):
            call()


def test_zeros_have_one_sign():
    # -0 and 0 are equal: which is found must not depend on the library
    for values in ([-0.0, 0.0], [0.0, -0.0], [-0.0]):
        x = widen.Words(np.array(values), "float64x2")
        for y in (x, x.to_torch()):
            for found in (y.max(), y.min(), np.sign(x)[0]):
                assert np.signbit(found.to_numpy()) == 0


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
        (lambda x: np.linalg.norm(x, 2), TypeError, "widen.linalg.norm"),
        (lambda x: np.linalg.norm(x[0], "fro"), ValueError, "ord=2"),
        (lambda x: np.linalg.norm(x[None], 1), ValueError, "3 axes"),
        (lambda x: np.flip(x, 4), ValueError, "axis 4"),
        (lambda x: np.squeeze(x, 7), ValueError, "axis 7"),
        (lambda x: x.argmax((0, 1)), TypeError, "one axis"),
        (lambda x: x.max((0, 0)), ValueError, "twice"),
        (lambda x: np.block([[x], x]), ValueError, "depths"),
        (lambda x: np.block([[x], []]), ValueError, "empty"),
        (lambda x: np.vstack([x, x[:, :2]]), ValueError, "do not fit"),
        (lambda x: np.stack([x, x[0]]), ValueError, "do not fit"),
        (lambda x: (x * 1j).tolist(), TypeError, "no complex"),
        (lambda x: widen.Words.eye(2, dtype="float64"), TypeError, "several words"),
    ],
)
def test_what_is_refused(call, error, text):
    with pytest.raises(error, match=text):
        call(numbers("float64x2", (3, 3)))
