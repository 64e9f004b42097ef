"""Paper 003 line by line: its listings and Algorithm 1 in Python floats, and the kernels."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
import torch

import widen
from device import ON
from helpers import assert_same_bits
from transcription_003 import (
    OPERATIONS,
    gts_add,
    gts_prod,
    product_of,
    slices_of,
    ts_add,
    ts_prod,
)
from widen.papers.triple_single import algorithm as blocked
from widen.papers.triple_single import gpu
from widen.papers.triple_single.algorithm import (
    TYPES,
    blocked_matmul,
    multiply_sliced,
    ozaki_matmul,
    slice_matrix,
)

pytestmark = pytest.mark.device

F = np.float32


def draw(rng, shape, name, phi=1.0):
    """Words of matrices (u - 0.5) exp(phi rn), filled to their last bit."""
    word = np.float64 if name in ("double", "DD", "D+S") else F
    found = [((rng.random(shape) - 0.5) * np.exp(phi * rng.standard_normal(shape))).astype(word)]
    while len(found) < {"double": 1, "TS": 3, "GTS": 3}.get(name, 2):
        kind = F if name == "D+S" else word
        half = np.spacing(np.abs(found[-1])) / 2
        found.append((half * rng.uniform(-0.99, 0.99, shape)).astype(kind))
    return found


def tensors(words):
    return [torch.from_numpy(word.copy()).to(ON) for word in words]


def assert_words(found, wanted):
    for ours, theirs in zip(found, wanted, strict=True):
        ours = ours.cpu().numpy() if isinstance(ours, torch.Tensor) else ours
        assert_same_bits(ours + ours.dtype.type(0), theirs + theirs.dtype.type(0))


# ── arithmetic ───────────────────────────────────────────────────────────────


def hard_triples(rng, count):
    """Numbers with zeros in their words, opposite signs and gaps: all branches of listing 7."""
    x = np.stack(draw(rng, (count,), "TS", 3.0))
    x[1] *= 2.0 ** -rng.integers(0, 30, count)
    x[2] *= 2.0 ** -rng.integers(0, 60, count)
    x[1, ::3] = 0
    x[2, ::2] = 0
    return x.astype(F)


def test_sums_of_three_words_are_listing_8():
    rng = np.random.default_rng(1)
    a = hard_triples(rng, 400)
    b = hard_triples(rng, 400)[0]
    b[:100] = -a[0, :100]
    b[100:150] = a[0, 100:150] * F(2.0**-24)
    wanted = [ts_add(tuple(x), (y, F(0), F(0))) for x, y in zip(a.T, b, strict=True)]
    found = a.copy()
    blocked.accumulate(found, b)
    assert_words(found, np.array(wanted).T)
    on_tensors = torch.from_numpy(a.copy()).to(ON)
    gpu.accumulate(on_tensors, torch.from_numpy(b).to(ON))
    assert_words(on_tensors, found)


@pytest.mark.parametrize(("name", "listings"), [("TS", "cpu"), ("GTS", "gpu")])
def test_products_and_sums_of_hard_numbers(name, listings):
    rng = np.random.default_rng(2)
    a, b = hard_triples(rng, 60).reshape(3, 6, 10), hard_triples(rng, 60).reshape(3, 10, 6)
    b[:, :, 1::2] = -b[:, :, 0::2]
    a[:, :, 1::2] = a[:, :, 0::2]
    a[:, 3], b[:, :, 3] = 0, 0
    found = blocked.multiply(list(a), list(b), listings)
    assert_words(found, product_of(list(a), list(b), name))


def test_what_the_listings_for_a_gpu_change():
    """Nothing where one operand of a sum has one word, as in Algorithm 1; last bits of products."""
    rng = np.random.default_rng(3)
    a, b = hard_triples(rng, 400).T, hard_triples(rng, 400).T
    ones = [(y[0], F(0), F(0)) for y in b]
    assert [ts_add(x, y) for x, y in zip(a, ones, strict=True)] == [
        gts_add(x, y) for x, y in zip(a, ones, strict=True)
    ]
    a, b = (np.stack(draw(rng, (400,), "TS")).T for _ in range(2))
    assert sum(ts_prod(x, y) != gts_prod(x, y) for x, y in zip(a, b, strict=True)) > 100


# ── blocked products ─────────────────────────────────────────────────────────


@pytest.mark.parametrize("name", OPERATIONS)
@pytest.mark.parametrize("shape", [(1, 1, 1), (3, 9, 4), (35, 33, 6)])
def test_blocked_products_have_the_transcriptions_bits(name, shape):
    m, k, n = shape
    rng = np.random.default_rng(k)
    a, b = draw(rng, (m, k), name), draw(rng, (k, n), name)
    wanted = product_of(a, b, name)
    listings = "gpu" if name == "GTS" else "cpu"
    assert_words(blocked.multiply(a, b, listings), wanted)
    assert_words(blocked.multiply(tensors(a), tensors(b), listings), wanted)
    if ON == "cuda" or k < 10:
        assert_words(gpu.multiply(tensors(a), tensors(b), listings), wanted)


@pytest.mark.parametrize("name", TYPES)
def test_tiles_change_no_bit(name):
    rng = np.random.default_rng(7)
    a, b = draw(rng, (40, 70), name), draw(rng, (70, 150), name)
    whole = blocked.multiply(a, b)
    piece = blocked.multiply([x[33:] for x in a], [x[:, 120:140] for x in b])
    assert_words(piece, [x[33:, 120:140] for x in whole])


@pytest.mark.parametrize(
    ("name", "listings", "bits"),
    [
        ("TS", "cpu", 68),
        ("TS", "gpu", 68),
        ("DF", "cpu", 44),
        ("D+S", "cpu", 72),
        ("DD", "cpu", 102),
    ],
)
def test_blocked_products_are_as_accurate_as_their_type(name, listings, bits):
    rng = np.random.default_rng(5)
    a, b = (widen.Words.from_words(draw(rng, (8, 8), name), TYPES[name]) for _ in range(2))
    c = blocked_matmul(a, b, listings)
    assert c.format.name == TYPES[name]
    x, y, z = ([[sum(Fraction(float(p[0, i, j])) for p in w.planes) for j in range(8)]
                for i in range(8)] for w in (a, b, c))  # fmt: skip
    for i in range(8):
        for j in range(8):
            terms = [x[i][h] * y[h][j] for h in range(8)]
            assert abs(z[i][j] - sum(terms)) <= sum(map(abs, terms)) / 2**bits


# ── Algorithm 1 ──────────────────────────────────────────────────────────────


@pytest.mark.parametrize("slices", [2, 9, 12])
@pytest.mark.parametrize("axis", [0, 1])
def test_slices_are_those_of_algorithm_1(slices, axis):
    x = draw(np.random.default_rng(slices), (4, 5), "TS")
    x[0][2], x[1][2], x[2][2] = 0, 0, 0
    x[0][0, 0] = 64.0  # ceil(log2 M) of a power of two
    found = np.stack(slice_matrix(tuple(x), slices, axis))
    lines = [[word[i] if axis else word[:, i] for word in x] for i in range(x[0].shape[1 - axis])]
    wanted = [slices_of(line, slices, x[0].shape[axis]) for line in lines]
    assert_same_bits(
        (found if axis else found.swapaxes(1, 2)).swapaxes(0, 1) + F(0), np.array(wanted) + F(0)
    )
    on_tensors = slice_matrix(tuple(tensors(x)), slices, axis)
    assert_same_bits(torch.stack(on_tensors).cpu().numpy(), found)


def test_slices_sum_to_the_matrix_and_their_products_are_exact():
    n = 1024
    x = draw(np.random.default_rng(3), (2, n), "TS")
    pieces = slice_matrix(tuple(x), 12, 1)
    for i in range(2):
        for j in range(0, n, 50):
            whole = sum(Fraction(float(word[i, j])) for word in x)
            assert sum(Fraction(float(piece[i, j])) for piece in pieces) == whole
    exact = pieces[0].astype(np.float64) @ pieces[1].astype(np.float64).T
    assert_same_bits((pieces[0] @ pieces[1].T).astype(np.float64), exact)


@pytest.mark.parametrize("orders", [None, 19, 12, 10, 1])
def test_the_scheme_has_the_transcriptions_bits(orders):
    rng = np.random.default_rng(9)
    a, b = draw(rng, (3, 6), "TS"), draw(rng, (6, 2), "TS")
    left, right = slice_matrix(tuple(a), 10, 1), slice_matrix(tuple(b), 10, 0)
    wanted = np.zeros((3, 3, 2), F)
    for i in range(3):
        for j in range(2):
            c = (F(0), F(0), F(0))
            for alpha in range(10):
                for beta in range(min(10, (orders or 19) - alpha)):
                    product = (left[alpha] @ right[beta])[i, j]
                    c = ts_add(c, (product, F(0), F(0)))
            wanted[:, i, j] = c
    assert_words(multiply_sliced(left, right, orders=orders), wanted)


def test_without_the_lowest_products_the_error_is_what_they_were():
    """n = 64: slice i is at most 2^(-9 i) of the largest, so 5 products or fewer of each order."""
    rng = np.random.default_rng(6)
    a, b = (widen.Words.from_words(draw(rng, s, "TS"), "float32x3") for s in ((8, 64), (64, 8)))
    whole, fewer = (ozaki_matmul(a, b, 6, "weights", orders).planes for orders in (None, 6))
    change = abs(sum(np.float64(x[0]) - y[0] for x, y in zip(whole, fewer, strict=True)))
    powers = [2.0 ** np.ceil(np.log2(abs(x.planes[0][0]).max(at))) for at, x in ((1, a), (0, b))]
    assert (change > 0).all()
    assert (change <= 6 * 64 * 2.0 ** (-9 * 6) * np.outer(*powers)).all()


def test_twelve_slices_are_more_accurate_than_the_blocked_product():
    rng = np.random.default_rng(4)
    n = 512
    a, b = (
        widen.Words.from_words(draw(rng, shape, "TS"), "float32x3") for shape in ((4, n), (n, 4))
    )
    x, y = ([sum(Fraction(float(p[0, i, j])) for p in w.planes) for i in range(w.shape[0])
             for j in range(w.shape[1])] for w in (a, b))  # fmt: skip
    errors = []
    for c in (ozaki_matmul(a, b, 12), blocked_matmul(a, b)):
        worst = Fraction(0)
        for i in range(4):
            for j in range(4):
                exact = sum(x[i * n + h] * y[h * 4 + j] for h in range(n))
                value = sum(Fraction(float(p[0, i, j])) for p in c.planes)
                worst = max(worst, abs(value - exact) / abs(exact))
        errors.append(float(worst))
    assert errors[0] < 1e-20
    assert errors[1] > 4 * errors[0]


def test_sums_by_weight_are_accurate_where_elements_cancel():
    rng = np.random.default_rng(8)
    n = 512
    a, b = (widen.Words.from_words(draw(rng, s, "TS"), "float32x3") for s in ((1, n), (n, 1)))
    x = [sum(Fraction(float(p[0, 0, h])) for p in a.planes) for h in range(n)]

    def exact(b):
        return sum(u * sum(Fraction(float(p[0, h, 0])) for p in b.planes) for h, u in enumerate(x))

    change = np.zeros((n, 1), F)
    change[-1] = -float(exact(b) / x[-1])  # all but 2^-24 of the element cancels
    b = widen.Words.from_words([*(p[0] for p in b.planes), change], "float32x3")
    errors = [
        float(abs(sum(Fraction(float(p[0, 0, 0])) for p in c.planes) / exact(b) - 1))
        for c in (ozaki_matmul(a, b), ozaki_matmul(a, b, order="weights"))
    ]
    assert errors[0] > 1e-18
    assert errors[1] < 1e-20


# ── arguments ────────────────────────────────────────────────────────────────


def words(shape, name="float32x3"):
    return widen.Words(np.ones(shape), dtype=name)


@pytest.mark.parametrize(
    ("a", "b", "message"),
    [
        (np.ones((2, 2)), words((2, 2)), "a is a ndarray; give widen.Words"),
        (words((2, 2), "float64x4"), words((2, 2)), "a is float64x4"),
        (words((2, 2), "float32x2"), words((2, 2)), "a is float32x2 and b float32x3"),
        (words((2, 3)), words((2, 3)), "do not match"),
        (words((2,)), words((2, 2)), "give a matrix"),
    ],
)
def test_errors_name_the_fix(a, b, message):
    with pytest.raises((TypeError, ValueError), match=message):
        blocked_matmul(a, b)


def test_errors_of_the_scheme():
    with pytest.raises(ValueError, match="slices=1; give a number from 2"):
        ozaki_matmul(words((2, 2)), words((2, 2)), 1)
    with pytest.raises(ValueError, match="use one of rows, weights"):
        ozaki_matmul(words((2, 2)), words((2, 2)), order="columns")
    with pytest.raises(ValueError, match="orders=0; give a number from 1 to 23"):
        ozaki_matmul(words((2, 2)), words((2, 2)), orders=0)
    with pytest.raises(ValueError, match="listings='rtx'"):
        blocked_matmul(words((2, 2)), words((2, 2)), "rtx")
    with pytest.raises(TypeError, match="takes float32x3"):
        ozaki_matmul(words((2, 2), "float32x2"), words((2, 2), "float32x2"))
    with pytest.raises(ValueError, match="scale the matrix"):
        ozaki_matmul(widen.Words(np.full((1, 1), 1e37), dtype="float32x3"), words((1, 1)))
    with pytest.raises(ValueError, match="b holds an infinity or a NaN"):
        ozaki_matmul(words((1, 1)), widen.Words(np.full((1, 1), np.inf), dtype="float32x3"))
    one = widen.Words(torch.ones((1, 1)), dtype="float32x3")
    torch.set_float32_matmul_precision("medium")
    try:
        with pytest.raises(ValueError, match="set_float32_matmul_precision"):
            ozaki_matmul(one, one)
    finally:
        torch.set_float32_matmul_precision("highest")
