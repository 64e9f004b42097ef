"""`svd`, `svdvals` and `cond` against mpmath at 120 digits: values, angles, orthogonality."""

from __future__ import annotations

import mpmath
import numpy as np
import pytest
import torch

import widen
from widen.linalg import householder, singular_values
from widen.linalg import singular_vectors as core
from widen.linalg.arrays import adjoint

linalg = widen.linalg
DIGITS = 120


def rng_of(*seed):
    return np.random.default_rng(seed)


def complex_numbers(rng, *shape):
    return rng.standard_normal(shape) + 1j * rng.standard_normal(shape)


def with_values(rng, values, m=None):
    n = len(values)
    u = np.linalg.qr(rng.standard_normal((m or n, n)))[0]
    return (u * values) @ np.linalg.qr(rng.standard_normal((n, n)))[0]


MATRICES = {
    "one": lambda: np.array([[-0.1]]),
    "square": lambda: rng_of(1).standard_normal((7, 7)),
    "tall": lambda: rng_of(2).standard_normal((9, 4)),
    "wide": lambda: rng_of(3).standard_normal((3, 8)),
    "complex": lambda: complex_numbers(rng_of(4), 5, 5),
    "complex tall": lambda: complex_numbers(rng_of(5), 7, 3),
    "complex wide": lambda: complex_numbers(rng_of(6), 2, 5),
    "cond 1e14": lambda: with_values(rng_of(7), np.logspace(0, -14, 9)),
    "cond 1e20": lambda: with_values(rng_of(8), np.logspace(0, -20, 8), 11),
    "clusters": lambda: with_values(rng_of(9), np.repeat([3.0, 1.0, 1e-9], 3)),
    "small": lambda: rng_of(10).standard_normal((4, 3)) * 2.0**-990,
    "large": lambda: rng_of(11).standard_normal((4, 4)) * 2.0**1000,
    "hilbert": lambda: 1.0 / (np.arange(8)[:, None] + np.arange(8) + 1.0),
    "column": lambda: rng_of(12).standard_normal((5, 1)),
}
DEFICIENT = {
    "zero": np.zeros((3, 2)),
    "ones": np.ones((4, 3)),
    "rank 2": (rng_of(13).integers(-4, 5, (6, 2)) @ rng_of(14).integers(-4, 5, (2, 5))) * 1.0,
    "rank 1 complex": np.outer([1.0, 2j, 3 - 1j], [1.0, 1j]),
    "identity": np.eye(5),
    "permuted": np.eye(4)[[2, 0, 3, 1]] * 2.0,
}


def exact_svd(a):
    """u, s, v (columns) of the exact matrix, in descending order."""
    with mpmath.workdps(DIGITS):
        scale = mpmath.mpf(2) ** int(np.log2(abs(a).max()))
        tall = a if a.shape[0] >= a.shape[1] else a.conj().T
        matrix = mpmath.matrix(tall.tolist()) / scale
        u, s, v = (mpmath.svd_c if a.dtype.kind == "c" else mpmath.svd_r)(matrix)
        v = v.transpose_conj()
        values = [value * scale for value in s]
        return (u, values, v) if tall is a else (v, values, u)


def exact_columns(x):
    """A matrix of floats or words as columns of mpmath's numbers."""
    parts = [x.real, x.imag] if isinstance(x, widen.Words) and x.format.parts == 2 else [x]
    if isinstance(x, np.ndarray):
        return mpmath.matrix(x.tolist())
    sides = [mpmath.matrix([[mpmath.mpf(v.numerator) / v.denominator for v in row]
                            for row in part.to_fraction()]) for part in parts]  # fmt: skip
    return sides[0] if len(sides) == 1 else sides[0] + 1j * sides[1]


def sine_of(x, columns):
    """Of the angle between a vector and the space of orthonormal ones."""
    rest = x - columns * (columns.transpose_conj() * x)
    return mpmath.norm(rest) / mpmath.norm(x)


@pytest.mark.parametrize("family", MATRICES)
def test_values_are_rounded_once(family):
    a = MATRICES[family]()
    found, info = linalg.svdvals(a, info=True)
    _, wanted, _ = exact_svd(a)
    assert info.decided.all()
    assert found.tolist() == [float(value) for value in wanted]
    for value, radius, exact in zip(found, info.radius, wanted, strict=True):
        with mpmath.workdps(DIGITS):
            assert abs(mpmath.mpf(float(value)) - exact) <= mpmath.mpf(float(radius))
    with mpmath.workdps(DIGITS):
        assert linalg.cond(a) == float(wanted[0] / wanted[-1])
    assert linalg.norm(a, 2) == found[0]


@pytest.mark.parametrize("name", ["float64", "float32", "float64x2", "float32x3"])
@pytest.mark.parametrize("family", ["tall", "wide", "complex", "cond 1e14", "clusters", "small"])
def test_vectors_are_within_their_angles(family, name):
    if name.startswith("float32") and family == "small":
        return
    a = MATRICES[family]()
    u, _, vh, info = linalg.svd(a, full_matrices=False, dtype=name, info=True)
    left, values, right = exact_svd(a)
    unit = 2.0 ** -{"float64": 53, "float32": 24, "float64x2": 107, "float32x3": 74}[name]
    assert info.angle.max() < 2.01 * unit
    assert info.cluster.tolist() == list(range(len(values)))
    with mpmath.workdps(DIGITS):
        for side, exact in ((u, left), (adjoint(vh), right)):
            columns = exact_columns(side)
            for i in range(len(values)):
                sine = sine_of(columns[:, i], exact[:, i])
                assert sine <= mpmath.mpf(float(info.angle[i]))
            off = columns.transpose_conj() * columns - mpmath.eye(len(values))
            assert mpmath.svd_c(off + 0j, compute_uv=False)[0] <= info.orthogonality


def off_identity(x):
    wide = widen.Words(x, "complex128x4" if x.dtype.kind == "c" else "float64x4")
    rest = widen.gemm(adjoint(wide), wide, np.eye(x.shape[1]), alpha=-1.0, beta=1.0)
    return abs(rest.to_numpy()).max()


@pytest.mark.parametrize("full", [True, False])
@pytest.mark.parametrize("family", [*MATRICES, *DEFICIENT])
def test_products_give_the_matrix_back(family, full):
    a = MATRICES[family]() if family in MATRICES else DEFICIENT[family]
    u, s, vh, info = linalg.svd(a, full, info=True)
    shapes = [x.shape for x in np.linalg.svd(a, full)]
    assert [u.shape, s.shape, vh.shape] == shapes
    k = len(s)
    assert max(off_identity(u), off_identity(vh.conj().T)) < 4 * 2.0**-52
    scale = abs(a).max() or 1.0
    rest = a / scale - (u[:, :k] * (s / scale)) @ vh[:k]
    assert abs(rest).max() < 20 * 2.0**-52 * max(a.shape)
    assert info.orthogonality < 2.0**-45
    assert (np.diff(s) <= 0).all()
    top = u[abs(u).argmax(0)[:k], range(k)]
    assert (top.real > 0).all()
    assert (top.imag == 0).all()


@pytest.mark.parametrize("family", DEFICIENT)
def test_deficient_ranks(family):
    a = DEFICIENT[family]
    found, info = linalg.svdvals(a, info=True)
    assert info.decided.all()
    rank = linalg.matrix_rank(a)
    assert (found > 0).sum() == rank
    u, _, vh, info = linalg.svd(a, info=True)
    assert info.angle.max() < 2.0**-52
    # What belongs to zeros is taken to zero, by either side.
    assert abs(a @ vh[rank:].conj().T).max(initial=0.0) < 1e-14
    assert abs(u[:, rank:].conj().T @ a).max(initial=0.0) < 1e-14


def test_known_values_of_scipy_s_matrices():
    from scipy.linalg import hadamard, helmert, invpascal, pascal

    assert linalg.svdvals(hadamard(8).astype(float)).tolist() == [8.0**0.5] * 8
    assert linalg.svdvals(pascal(1, exact=False).astype(float)).tolist() == [1.0]
    # Eigenvalues of Pascal's matrix come in pairs x, 1/x: so do its inverse's.
    a, b = (f(6, exact=True).astype(float) for f in (pascal, invpascal))
    assert linalg.svdvals(a).tolist() == linalg.svdvals(b).tolist()
    assert abs(linalg.svdvals(helmert(5, full=True)) - 1).max() < 1e-15


@pytest.mark.parametrize("noise", [0.0, 1e-12, 1e-6, 1e-3])
@pytest.mark.parametrize("family", ["square", "tall", "complex", "complex tall", "clusters"])
def test_enclosures_hold_for_any_vectors(family, noise):
    """The proof does not ask where U and V come from."""
    a = MATRICES[family]()
    rng = rng_of(20)
    u, _, vh = np.linalg.svd(a, full_matrices=False)
    u = u + noise * rng.standard_normal(u.shape)
    v = vh.conj().T + noise * rng.standard_normal(vh.shape)
    kind = "complex128x2" if a.dtype.kind == "c" else "float64x2"
    found = core.enclose(a, core.Pair(widen.Words(u, kind), widen.Words(v, kind)))
    assert found is not None
    with mpmath.workdps(DIGITS):
        for (low, high), exact in zip(found.intervals.pairs(), exact_svd(a)[1], strict=True):
            assert mpmath.mpf(low.numerator) / low.denominator <= exact
            assert exact <= mpmath.mpf(high.numerator) / high.denominator


def test_vectors_that_are_not_orthonormal_prove_nothing():
    a = MATRICES["square"]()
    ones, fine = (widen.Words(x, "float64x2") for x in (np.ones(a.shape), np.eye(7)))
    assert core.enclose(a, core.Pair(ones, fine)) is None
    assert core.enclose(a, core.Pair(fine, ones)) is None


def test_columns_that_were_added_are_in_the_bound(monkeypatch):
    """What is returned is what is bounded, not what the values were proven by."""

    def skewed(x, width):
        whole, _ = householder.factor(x, len(x.planes), width)
        return whole * (1 + 2.0**-20)

    a = rng_of(16).standard_normal((4, 2))
    monkeypatch.setattr(householder, "completed", skewed)
    assert linalg.svd(a, info=True)[3].orthogonality >= 2.0**-20
    assert linalg.svd(a, dtype="float64x2", info=True)[3].orthogonality >= 2.0**-20


def test_angles_count_what_turning_complex_vectors_loses():
    """In the widest format there is no word left for that."""
    a = widen.Words(complex_numbers(rng_of(17), 3, 3), "complex128x16") / 3.0
    info = linalg.svd(a, info=True)[3]
    assert (info.angle > 128 * 2.0**-863).all()
    assert info.orthogonality > 128 * 2.0**-863


def test_too_many_rows_are_refused(monkeypatch):
    monkeypatch.setattr(singular_values, "LARGEST", 5)
    assert linalg.svdvals(np.ones((5, 1))).tolist() == [np.sqrt(5.0)]
    for shape in ((6, 1), (1, 6)):
        with pytest.raises(widen.linalg.NotProvenError, match="up to 5 rows"):
            linalg.svdvals(np.ones(shape))


def test_batches_tensors_and_empty_matrices():
    a = rng_of(15).standard_normal((2, 4, 3))
    u, s, vh = linalg.svd(a)
    assert (u.shape, s.shape, vh.shape) == ((2, 4, 4), (2, 3), (2, 3, 3))
    again = linalg.svd(torch.from_numpy(a))
    for x, y in zip(again, (u, s, vh), strict=True):
        assert isinstance(x, torch.Tensor)
        assert (x.numpy() == y).all()
    assert (s[1] == linalg.svdvals(a[1])).all()
    for shape in ((0, 3), (3, 0), (0, 0), (0, 2, 2)):
        for full in (True, False):
            found = linalg.svd(np.zeros(shape), full)
            wanted = np.linalg.svd(np.zeros(shape), full)
            assert [x.shape for x in found] == [x.shape for x in wanted]
            for x, y in zip(found, wanted, strict=True):
                assert np.allclose(x, y)


def test_words_as_operands():
    a = widen.Words([["1/3", "0.1"], ["2", "1/7"], ["1", "5"]], "float64x3")
    u, s, vh = linalg.svd(a, full_matrices=False)
    assert {x.format.name for x in (u, s, vh)} == {"float64x3"}
    rest = widen.gemm(u * s, vh, a, alpha=-1.0, beta=1.0, accuracy="correct")
    assert abs(rest.to_numpy()).max() < 2.0**-155


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda: linalg.svd(np.ones(3)), ValueError, "matrices"),
        (lambda: linalg.svd(np.array([[np.nan]])), ValueError, "NaN"),
        (lambda: linalg.svd(np.eye(2), dtype="complex128"), ValueError, "real"),
        (lambda: linalg.cond(np.zeros((0, 3))), ValueError, "no size"),
    ],
)
def test_what_is_refused(call, error, text):
    with pytest.raises(error, match=text):
        call()
