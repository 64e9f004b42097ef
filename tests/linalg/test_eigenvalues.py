"""Eigenvalues and singular values against mpmath, at 100 digits, and the proofs against traps."""

from __future__ import annotations

from fractions import Fraction

import mpmath
import numpy as np
import pytest
import torch

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
@pytest.mark.parametrize("noise", [0.0, 1e-12, 1e-6, 1e-3, 1e-2])
@pytest.mark.parametrize("count", [2, 4])
def test_enclosures_hold_for_any_vectors(family, noise, count):
    """The proof does not ask where X comes from."""
    a = MATRICES[family]()
    x = eigen.start(a)
    x = x + noise * rng_of(7).standard_normal(a.shape)
    found = eigen.enclose(a, x, count)
    assert found is not None
    with mpmath.workdps(100):
        for ends, exact in zip(found.intervals.pairs(), exact_eigenvalues(a), strict=True):
            low, high = (mpmath.mpf(end.numerator) / end.denominator for end in ends)
            assert low <= exact <= high


def test_errors_of_vectors_count_squared():
    """Not only those of their angles: their lengths and products among each other are off, too."""
    a = MATRICES["random"]()
    for noise in (0.0, 1e-12, 1e-8):
        x = eigen.start(a) + noise * rng_of(7).standard_normal(a.shape)
        found = eigen.enclose(a, x, 4)
        assert found.phi > noise
        assert found.intervals.radii.max() < 200 * found.phi**2
        with mpmath.workdps(100):
            for ends, exact in zip(found.intervals.pairs(), exact_eigenvalues(a), strict=True):
                low, high = (mpmath.mpf(end.numerator) / end.denominator for end in ends)
                assert low <= exact <= high


@pytest.mark.parametrize("dtype", ["float64", "float64x2"])
def test_a_step_that_will_do_is_the_last(dtype, monkeypatch):
    """What it leaves is known from its norm: no other step is needed to see that."""
    a, sizes, refined = MATRICES["random"](), [], eigen._refined

    def counted(*given):
        x, size = refined(*given)
        sizes.append(size)
        return x, size

    monkeypatch.setattr(eigen, "_refined", counted)
    _, info = linalg.eigvalsh(a, dtype=dtype, info=True)
    assert info.decided.all()
    assert len(sizes) == 1
    assert 0 < sizes[0] < 2.0**-33


@pytest.mark.parametrize("family", ["random", "cond 1e12", "Wilkinson"])
def test_a_step_leaves_the_square_of_its_norm(family):
    """Or what a correction of 53 bits has lost."""
    a = MATRICES[family]()
    x = eigen.start(a).astype("float64x4")
    for _ in range(2):
        x, size = eigen._refined(a, x)
        found = eigen.enclose(a, x)
        assert found.phi < 8 * size**2 + 2.0**-47 * size + 2.0**-200


@pytest.mark.parametrize("noise", [0.0, 1e-8])
def test_values_are_the_same_without_vectors(noise):
    a = MATRICES["random"]() + 0.5j * (np.eye(25, k=1) - np.eye(25, k=-1))
    x = eigen.start(a) + noise * rng_of(7).standard_normal(a.shape)
    found, values = eigen.enclose(a, x, 3), eigen.enclose(a, x, 3, vectors=False)
    assert values.vectors is None
    assert values.residuals is None
    assert values.phi == found.phi
    assert values.intervals.pairs() == found.intervals.pairs()
    residuals = a @ found.vectors - found.vectors * found.intervals.middles.reshape(1, 25)
    norms = np.linalg.norm(abs(residuals).to_numpy(), axis=0)
    assert (norms <= found.residuals * (1 + 1e-9)).all()


def test_gaps_below_the_first_word_are_seen():
    """Eigenvalues 1 + 2^-53 (1 -+ 2^-20), vectors turned by (24, 7)/25: first words are equal."""
    low, high = (Fraction(1) + Fraction(1, 2**53) * (1 + Fraction(sign, 2**20)) for sign in (-1, 1))
    a = widen.Words([[low, 0], [0, high]], "float64x2")
    x = widen.Words([[Fraction(24, 25), Fraction(-7, 25)], [Fraction(7, 25), Fraction(24, 25)]],
                    "float64x4")  # fmt: skip
    found = eigen.enclose(a, x)
    for (start, end), value in zip(found.intervals.pairs(), (low, high), strict=True):
        assert start <= value <= end


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


def test_batches_and_tensors():
    a = rng_of(10).standard_normal((2, 3, 4, 4))
    a = a + a.swapaxes(-1, -2)
    found = linalg.eigvalsh(a)
    assert found.shape == (2, 3, 4)
    assert (found[1, 2] == linalg.eigvalsh(a[1, 2])).all()
    tensor = linalg.eigvalsh(torch.from_numpy(a))
    assert isinstance(tensor, torch.Tensor)
    assert (tensor.numpy() == found).all()


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


def hermitian(rng, n):
    a, b = rng.standard_normal((2, n, n))
    return symmetric(a) + 0.5j * (b - b.T)


VECTORS = {
    **{name: MATRICES[name] for name in ("one", "random", "cond 1e12", "Wilkinson", "small")},
    "complex": lambda: hermitian(rng_of(20), 6),
    "complex values apart by 1e-13": lambda: (
        np.kron(np.eye(2), hermitian(rng_of(21), 3)) + np.diag([0.0] * 3 + [1e-13] * 3)
    ),
}


@pytest.mark.parametrize("name", ["float64", "float32", "float64x2"])
@pytest.mark.parametrize("family", VECTORS)
def test_vectors_are_within_their_angles(family, name):
    if name == "float32" and family == "small":
        return
    a = VECTORS[family]()
    n = len(a)
    values, vectors, info = linalg.eigh(a, dtype=name, info=True)
    unit = 2.0 ** -{"float64": 53, "float32": 24, "float64x2": 107}[name]
    assert info.angle.max() < 2.01 * unit
    assert info.cluster.tolist() == list(range(n))
    assert info.decided.all() or family == "one"  # it ends, which 16 words do not show
    with mpmath.workdps(100):
        scale = mpmath.mpf(float(abs(a).max()))
        solver = mpmath.eighe if a.dtype.kind == "c" else mpmath.eigsy
        wanted, exact = solver(mpmath.matrix(a.tolist()) / scale)
        order = sorted(range(n), key=lambda i: wanted[i])
        wide = (
            vectors
            if name == "float64x2"
            else widen.Words(
                vectors,
                ("complex128x2" if a.dtype.kind == "c" else "float64x2")
                if name == "float64"
                else ("complex64x2" if a.dtype.kind == "c" else "float32x2"),
            )
        )
        parts = [wide.real.to_fraction(), wide.imag.to_fraction()]
        for at, i in enumerate(order):
            x = mpmath.matrix(
                [
                    mpmath.mpc(
                        *(mpmath.mpf(p[k, at].numerator) / p[k, at].denominator for p in parts)
                    )
                    for k in range(n)
                ]
            )
            v = exact[:, i]
            rest = x - v * (v.transpose_conj() * x)[0, 0]
            assert mpmath.norm(rest) / mpmath.norm(x) <= mpmath.mpf(float(info.angle[at]))
    assert values.shape == (n,)


def test_equal_eigenvalues_are_a_cluster():
    a = np.kron(np.eye(3), np.array([[2.0, 1.0], [1.0, 5.0]]))
    _, vectors, info = linalg.eigh(a, info=True)
    assert info.cluster.tolist() == [0, 0, 0, 3, 3, 3]
    assert info.angle.max() < 2.0**-52
    assert abs(vectors.T @ vectors - np.eye(6)).max() < 2.0**-50
    assert "2 clusters" in str(info)


def test_info_is_readable():
    _, info = linalg.eigvalsh(np.diag([1.0, 2.0]), info=True)
    assert "2 values within their radii, 2 of them" in str(info)


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda: linalg.eigvalsh(np.array([[1.0, 2.0], [3.0, 1.0]])), ValueError, "symmetric"),
        (lambda: linalg.eigvalsh(np.array([[1j]])), ValueError, "Hermitian"),
        (lambda: linalg.eigvalsh(np.eye(2), dtype="complex128"), ValueError, "real"),
    ],
)
def test_what_is_refused(call, error, text):
    with pytest.raises(error, match=text):
        call()
