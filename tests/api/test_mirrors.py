"""Halves of symmetric and Hermitian products that are copied: the bits of the whole."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import widen
from helpers import ACCURACIES, assert_same_bits, draw, draw_words, word_arrays
from widen.cpu import mirror
from widen.formats import COMPLEX, PLAIN


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch):
    monkeypatch.setattr(mirror, "SIZE", 4)
    monkeypatch.setattr(mirror, "LEAST", 1)


@pytest.fixture
def whole(monkeypatch):
    """A context in which nothing is mirrored."""

    def run(function, *operands, **options):
        with monkeypatch.context() as patched:
            patched.setattr(mirror, "seen", lambda problem: None)
            return function(*operands, info=True, **options)

    return run


def same(found, wanted):
    arrays = [word_arrays(x) if isinstance(x, widen.Words) else (x,) for x in (found, wanted)]
    for x, y in zip(*arrays, strict=True):
        assert_same_bits(x, y)


def check(whole, function, *operands, symmetric=True, **options):
    found, info = function(*operands, info=True, **options)
    wanted, other = whole(function, *operands, **options)
    assert (info.plan.symmetric, other.plan.symmetric) == (symmetric, False)
    same(found, wanted)
    assert np.array_equal(info.bound, other.bound, equal_nan=True)
    assert info.not_finite == other.not_finite
    return info


def adjoint(x):
    return x.conj().T


@pytest.mark.parametrize("accuracy", ACCURACIES)
@pytest.mark.parametrize("name", [name for name in PLAIN if name.startswith("complex")])
def test_adjoints(whole, name, accuracy):
    x, _ = draw("phi1", (13, 29, 2), 1, name)
    for left, right in ((adjoint(x), x), (x, adjoint(x))):
        info = check(whole, widen.matmul, left, right, accuracy=accuracy)
        assert info.plan.blocks.rows <= 4
        assert "conjugated" in str(info)
        check(whole, widen.matmul, left, right, accuracy=accuracy, workspace=1 << 16)


@pytest.mark.parametrize("accuracy", ACCURACIES)
@pytest.mark.parametrize("name", [name for name in COMPLEX if name not in PLAIN])
def test_adjoints_of_words(whole, name, accuracy):
    """Mirrored or not, which depends on how far down the words go."""
    x, _ = draw_words("phi1", (9, 11, 2), 2, name)
    found, _ = widen.matmul(adjoint(x), x, accuracy=accuracy, info=True)
    wanted, _ = whole(widen.matmul, adjoint(x), x, accuracy=accuracy)
    same(found, wanted)
    near = widen.Words(x.real.planes[0][0] + 1j * x.imag.planes[0][0], name)
    check(whole, widen.matmul, adjoint(near), near, accuracy=accuracy)


@pytest.mark.parametrize("accuracy", ACCURACIES)
@pytest.mark.parametrize("dtype", [None, "complex128x2", "complex64"])
def test_zeros_of_adjoints(whole, dtype, accuracy):
    """Imaginary parts that are zero are +0 in both halves, if nothing underflows."""
    rng = np.random.default_rng(3)
    x = rng.integers(-2, 3, (12, 9)) + 1j * rng.integers(-1, 2, (12, 9))
    x[:, :5] = x[:, :5].real
    x[:, 7] = 0
    x[3] = -x[3]
    check(whole, widen.matmul, adjoint(x), x, accuracy=accuracy, dtype=dtype)
    check(whole, widen.matmul, x, adjoint(x), accuracy=accuracy, dtype=dtype)


@pytest.mark.parametrize("accuracy", ACCURACIES)
@pytest.mark.parametrize("scale", [1e-160, 1e-300, 1e150, 1e300])
def test_adjoints_out_of_range(whole, scale, accuracy):
    """What may underflow is not mirrored: the signs of zeros would be wrong."""
    rng = np.random.default_rng(4)
    x = (rng.standard_normal((12, 9)) + 1j * rng.standard_normal((12, 9))) * scale
    small = scale < 1
    check(whole, widen.matmul, adjoint(x), x, symmetric=not small, accuracy=accuracy)
    near = x / scale * 1e-30
    check(
        whole, widen.matmul, adjoint(near), near, symmetric=False, accuracy=accuracy,
        dtype="complex64",
    )  # fmt: skip


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_special_values_of_adjoints(whole, value):
    x = np.random.default_rng(5).standard_normal((12, 9)) + 1j
    x[3, 4] = complex(1.0, value)
    check(whole, widen.matmul, adjoint(x), x, symmetric=False)


def test_others_are_not_adjoints(whole):
    x = np.random.default_rng(6).standard_normal((9, 9)) + 1j
    for left in (x, x.T.copy(), adjoint(x)[::-1], adjoint(x) * 2):
        check(whole, widen.matmul, left, x, symmetric=False)
    almost = adjoint(x)
    almost[8, 8] = np.nextafter(almost[8, 8].real, 9.0)
    check(whole, widen.matmul, almost, x, symmetric=False)


def test_adjoint_tensors():
    x = torch.randn(20, 30, dtype=torch.complex128, generator=torch.Generator().manual_seed(1))
    found, info = widen.matmul(x, x.mH, info=True)
    assert info.plan.symmetric
    y = np.asarray(x)
    same(found.numpy(), widen.matmul(y, adjoint(y)))


@pytest.mark.parametrize("accuracy", ACCURACIES)
@pytest.mark.parametrize("workspace", [None, 1 << 16])
@pytest.mark.parametrize("dtype", ["float64", "float64x2", "float32"])
def test_symmetric_sums(whole, dtype, workspace, accuracy):
    rng = np.random.default_rng(7)
    x, c = rng.standard_normal((13, 20)), rng.standard_normal((13, 13))
    options = {"accuracy": accuracy, "dtype": dtype, "workspace": workspace}
    for alpha, beta in ((-1.0, 1.0), (0.3, -0.7)):
        scaled = {"alpha": alpha, "beta": beta, **options}
        for addend in (c + c.T, np.eye(13), widen.Words(c + c.T, "float64x2")):
            info = check(whole, widen.gemm, x, x.T, addend, **scaled)
            assert info.plan.blocks.rows < 13
        found, info = widen.gemm(x, x.T, c, info=True, **scaled)
        assert info.plan.blocks.columns == 13 or not info.plan.symmetric
        same(found, whole(widen.gemm, x, x.T, c, **scaled)[0])


@pytest.mark.parametrize("accuracy", ACCURACIES)
def test_hermitian_sums(whole, accuracy):
    rng = np.random.default_rng(8)
    x, c = (rng.standard_normal((13, n)) + 1j * rng.standard_normal((13, n)) for n in (20, 13))
    hermitian, options = c + adjoint(c), {"accuracy": accuracy, "beta": 1.0}
    check(whole, widen.gemm, x, adjoint(x), hermitian, alpha=-1.0, **options)
    check(whole, widen.gemm, x, adjoint(x), np.eye(13), alpha=-1.0, **options)
    check(whole, widen.gemm, x, adjoint(x), c, alpha=-1.0, symmetric=False, **options)
    check(whole, widen.gemm, x, adjoint(x), hermitian, alpha=1j, symmetric=False, **options)
    check(whole, widen.gemm, x, adjoint(x), hermitian, alpha=-1.0, symmetric=False,
          dtype="complex64", **options)  # fmt: skip


def test_cancelled_sums(whole):
    """X'X - c where c is the exact product: zeros, all of them +0."""
    rng = np.random.default_rng(9)
    x = rng.integers(-3, 4, (11, 11)) + 1j * rng.integers(-3, 4, (11, 11))
    for y in (x, x.real.copy()):
        c = adjoint(y) @ y
        check(whole, widen.gemm, adjoint(y), y, c + 0.0, alpha=-1.0, beta=1.0)
        found = widen.gemm(adjoint(y), y, c + 0.0, alpha=-1.0, beta=1.0)
        assert not found.any()


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_special_addends(whole, value):
    x, c = np.random.default_rng(10).standard_normal((9, 12)), np.eye(9)
    c[2, 5] = c[5, 2] = value
    found, _ = widen.gemm(x, x.T, c, beta=1.0, info=True)
    wanted, _ = whole(widen.gemm, x, x.T, c, beta=1.0)
    same(found, wanted)


def test_batches(whole):
    x = np.random.default_rng(11).standard_normal((3, 13, 9))
    check(whole, widen.matmul, x, x.swapaxes(1, 2))
    z = x + 1j * x[::-1]
    check(whole, widen.matmul, z, z.conj().swapaxes(1, 2))
