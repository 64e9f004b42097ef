"""Paper 001 step by step: transcriptions of the slides in Python numbers, and the fast version."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
import torch

import widen
from device import ON
from helpers import assert_same_bits
from transcription_001 import parts_of_number, product_of, sum_number
from widen.papers import multiple_double
from widen.papers.arrays import leading_bits
from widen.papers.multiple_double import gpu
from widen.papers.multiple_double.algorithm import EXPONENTS, groups, multiply_words, sum_parts
from widen.papers.multiple_double.parts import parts_of_lines, parts_of_numbers, widths
from widen.papers.multiple_double.rewriting import dimensions, extract, rewrite_left, rewrite_right

pytestmark = pytest.mark.device

COUNTS = (2, 4, 8, 16)
SLIDES = {"way": 1, "equalise": True, "balance": True, "group": None, "grid": "number"}


def product(a, b, **options):
    """The product of words by the slides' defaults."""
    return multiply_words(a, b, **{**SLIDES, **options})


def draw(rng, shape, words, kind="equal"):
    """Words (words, *shape), each at most half a unit in the last place of the one before it."""
    leading = {
        "equal": lambda: rng.uniform(0.5, 1, shape),
        "signs": lambda: rng.uniform(-1, 1, shape),
        "wide": lambda: (rng.random(shape) - 0.5) * np.exp(4 * rng.standard_normal(shape)),
        "holes": lambda: np.trunc(rng.uniform(-4, 4, shape)) * 2.0 ** rng.integers(-20, 20, shape),
    }[kind]()
    found = [leading]
    for _ in range(words - 1):
        found.append(np.spacing(np.abs(found[-1])) * rng.uniform(-0.5, 0.5, shape))
        if kind == "holes" and len(found) < 5:
            found[-1] = np.where(rng.random(shape) < 0.5, found[-1], 2.0**-30 * found[-1])
    return np.stack(found)


# ── staging ──────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("kind", ["equal", "signs", "wide", "holes"])
@pytest.mark.parametrize("words", COUNTS)
@pytest.mark.parametrize("steps", [(False, False), (True, False), (False, True), (True, True)])
def test_parts_are_those_of_the_slides(words, kind, steps):
    x = draw(np.random.default_rng(words), (3, 5), words, kind)
    equalise, balance = steps
    found = parts_of_numbers(x, equalise=equalise, balance=balance)
    wanted = [parts_of_number(x[:, i, j], *steps) for i in range(3) for j in range(5)]
    assert_same_bits(found.reshape(-1, 15) + 0.0, np.array(wanted).T + 0.0)
    on_tensors = parts_of_numbers(torch.from_numpy(x).to(ON), equalise=equalise, balance=balance)
    assert_same_bits(on_tensors.cpu().numpy(), found)


def test_the_examples_of_the_slides():
    # Quarters of a double of exponent 0 have exponents 0, -13, -26, -39; the 53rd bit comes last.
    x = np.full((2, 1, 1), 1 - 2.0**-53)
    x[1] = -(2.0**-60)
    whole = parts_of_numbers(x, equalise=False, balance=False)[:, 0, 0]
    assert [math.frexp(part)[1] for part in whole[:4]] == [0, -13, -26, -39]
    assert whole[:4].sum() == x[0, 0, 0]
    # Signs: b = 2^-52 for an x_h of exponent 0.
    ones = np.array([0.75, -(2.0**-55)]).reshape(2, 1, 1)
    equal = parts_of_numbers(ones, equalise=True, balance=False)[:, 0, 0]
    assert equal[:4].sum() == 0.75 - 2.0**-52
    assert equal[4:].sum() == 2.0**-52 - 2.0**-55
    # Balance: x_1 of exponent -25 gets the exponent -13, x_0 keeps 0, the sum is the same.
    sparse = np.array([0.75 + 2.0**-26 + 2.0**-39 + 2.0**-52, 0.0]).reshape(2, 1, 1)
    even = parts_of_numbers(sparse, equalise=False, balance=True)[:4, 0, 0]
    assert [math.frexp(part)[1] for part in even] == [0, -13, -26, -39]
    assert even.sum() == sparse[0, 0, 0]


@pytest.mark.parametrize("words", COUNTS)
def test_equal_signs(words):
    x = draw(np.random.default_rng(3), (40, 50), words, "signs")
    parts = parts_of_numbers(x, equalise=True, balance=True)
    assert ((parts >= 0).all(axis=0) | (parts <= 0).all(axis=0)).all()


@pytest.mark.parametrize("words", COUNTS)
@pytest.mark.parametrize("axis", [0, 1])
def test_parts_of_a_row_lie_on_one_grid(words, axis):
    x = draw(np.random.default_rng(words), (4, 6), words, "wide")
    parts = parts_of_lines(x, axis)
    bits = np.cumsum([bits for word in widths(words) for bits in word])
    top = np.frexp(np.abs(x[0]).max(axis=axis, keepdims=True))[1]
    for part, below in zip(parts[:-1], bits[:-1], strict=True):
        scaled = np.ldexp(part, below - top)
        assert (scaled == np.rint(scaled)).all()
        assert (np.abs(scaled) <= 2.0**13 + 1).all()
    for i in range(4):
        for j in range(6):
            left = sum(map(Fraction, x[:, i, j])) - sum(map(Fraction, parts[:, i, j]))
            at = (0, j) if axis == 0 else (i, 0)
            assert abs(left) <= Fraction(2) ** int(top[at] - bits[-2] - 52)


# ── rewriting, adding up ─────────────────────────────────────────────────────


@pytest.mark.parametrize("way", [1, 2])
def test_rewritten_matrices_and_extracted_parts(way):
    rng = np.random.default_rng(5)
    a, b = rng.integers(1, 100, (12, 2, 3)) * 1.0, rng.integers(1, 100, (12, 3, 4)) * 1.0
    left, right = rewrite_left(a, way), rewrite_right(b, way)
    assert (*left.shape, right.shape[1]) == dimensions(2, 3, 4, 12, way)
    for i, k, s, q in np.ndindex(2, 3, 12, 12):
        if way == 1:
            assert left[12 * i + s, 12 * k + q] == (a[s - q, i, k] if s >= q else 0)
        else:
            assert left[i, 12 * k + q] == a[q, i, k]
    for k, j, q, s in np.ndindex(3, 4, 12, 12):
        if way == 1:
            assert right[12 * k + q, j] == b[q, k, j]
        else:
            assert right[12 * k + q, 12 * j + s] == (b[s - q, k, j] if s >= q else 0)
    parts = extract(left @ right, 12, way)
    for s in range(12):
        wanted = sum(a[p] @ b[s - p] for p in range(s + 1))
        assert_same_bits(np.ascontiguousarray(parts[s]), wanted)


def test_the_running_example_has_the_slides_dimensions():
    assert dimensions(682, 341, 8192, 12, 1) == (8184, 4092, 8192)  # of (8192, 4096, 8192)
    assert 682 * 8192 == 5_586_944


@pytest.mark.parametrize("words", COUNTS)
def test_sums_of_parts(words):
    rng = np.random.default_rng(words)
    scale = 2.0 ** -np.arange(0, 200, 8).reshape(-1, 1, 1)
    products = [rng.standard_normal((25, 3, 4)) * scale for _ in range(2)]
    found = sum_parts(products, words)
    for i, j in np.ndindex(3, 4):
        wanted = sum_number([part for product in products for part in product[:, i, j]], words)
        assert_same_bits(found[:, i, j].copy(), np.array(wanted))
    strided = [torch.from_numpy(x.transpose(1, 2, 0).copy()).to(ON) for x in products]
    on_tensors = gpu.sum_parts([x.permute(2, 0, 1) for x in strided], words)
    assert_same_bits(on_tensors.cpu().numpy(), found)


def test_groups_are_disjoint_and_sum_up():
    x = draw(np.random.default_rng(8), (20, 30), 2, "wide")
    parts = parts_of_numbers(x, equalise=True, balance=True)
    for by, most in (("sign", 2), ("exponent", EXPONENTS), ("both", 2 * EXPONENTS)):
        found = list(groups(parts, by))
        assert 1 < len(found) <= most
        assert_same_bits(sum(found), parts + 0.0)
        assert (sum((part[0] != 0).astype(int) for part in found) == 1).all()
        if by != "exponent":
            assert all((part[0] >= 0).all() or (part[0] <= 0).all() for part in found)
        if by != "sign":
            spread = [np.ptp(np.frexp(part[0][part[0] != 0])[1]) for part in found]
            assert sum(spread) <= 2 * max(spread)  # only the last of each sign is wide
    assert next(groups(parts, None)) is parts


# ── the product ──────────────────────────────────────────────────────────────


@pytest.mark.parametrize("words", COUNTS[:3])
@pytest.mark.parametrize("steps", [(False, False), (True, True)])
def test_the_product_has_the_transcriptions_bits(words, steps):
    rng = np.random.default_rng(words)
    a, b = draw(rng, (2, 3), words), draw(rng, (3, 2), words)
    a, b = leading_bits(abs(a), 20), leading_bits(abs(b), 20)  # sums of their parts are exact
    equalise, balance = steps
    wanted = product_of(a, b, *steps)
    for way in (1, 2):
        found = product(a, b, way=way, equalise=equalise, balance=balance)
        assert_same_bits(found, wanted)


def error(found, a, b):
    """max |c - AB| / (|A||B|) of multiple doubles, exactly."""

    def value(x):
        return [[sum(map(Fraction, x[:, i, j])) for j in range(x.shape[2])]
                for i in range(x.shape[1])]  # fmt: skip

    x, y, c = value(a), value(b), value(found)
    worst = Fraction(0)
    for i in range(len(x)):
        for j in range(len(y[0])):
            terms = [x[i][h] * y[h][j] for h in range(len(y))]
            worst = max(worst, abs(c[i][j] - sum(terms)) / sum(map(abs, terms)))
    return float(worst)


@pytest.mark.parametrize("way", [1, 2])
def test_double_doubles_with_equal_exponents_are_accurate(way):
    rng = np.random.default_rng(1)
    a, b = draw(rng, (3, 341), 2), draw(rng, (341, 2), 2)
    assert error(product(a, b, way=way), a, b) < 2.0**-104


@pytest.mark.parametrize("words", COUNTS)
def test_one_grid_a_row_is_accurate(words):
    rng = np.random.default_rng(1)
    a, b = draw(rng, (2, 341), words), draw(rng, (341, 2), words)
    assert error(product(a, b, grid="row"), a, b) < 2.0 ** (2 - 52 * words)


def test_wide_exponents_lose_the_second_word_unless_rows_share_a_grid():
    rng = np.random.default_rng(1)
    a, b = draw(rng, (2, 341), 2, "wide"), draw(rng, (341, 2), 2, "wide")
    assert error(product(a, b), a, b) > 2.0**-80
    assert error(product(a, b, grid="row"), a, b) < 2.0**-88


def test_groups_change_no_exact_product():
    rng = np.random.default_rng(1)
    a, b = draw(rng, (3, 8), 2, "signs"), draw(rng, (8, 3), 2, "signs")
    for group in ("sign", "exponent", "both"):
        assert error(product(a, b, group=group), a, b) < 2.0**-103


def test_tensors_give_the_same_bits():
    rng = np.random.default_rng(4)
    a, b = draw(rng, (3, 8), 2), draw(rng, (8, 5), 2)
    for options in ({}, {"way": 2}, {"group": "sign"}, {"grid": "row"}):
        found = product(torch.from_numpy(a).to(ON), torch.from_numpy(b).to(ON), **options)
        assert found.device.type == ON
        assert_same_bits(found.cpu().numpy(), product(a, b, **options))


@pytest.mark.parametrize("words", COUNTS)
def test_words_in_and_out(words):
    rng = np.random.default_rng(words)
    a, b = (
        widen.Words.from_words(draw(rng, shape, words), f"float64x{words}")
        for shape in ((2, 5), (5, 3))
    )
    c = multiple_double.multiple_double_matmul(a, b, equalise=False, balance=False)
    assert (c.format, c.shape) == (a.format, (2, 3))
    raw = product(a.words, b.words, equalise=False, balance=False)
    again = widen.Words.from_words(c.words, a.format)
    assert_same_bits(again.words, c.words)  # canonical
    assert_same_bits(widen.Words.from_words(raw, a.format).words, c.words)
    assert error(c.words, a.words, b.words) < 2.0 ** (2 - 52 * min(words, 8))


def ones(*shape, dtype="float64x2", value=1.0):
    return widen.Words(np.full(shape, value), dtype=dtype)


@pytest.mark.parametrize(
    ("a", "b", "options", "words"),
    [
        (np.ones((3, 4)), ones(4, 3), {}, "a is a ndarray"),
        (ones(3, 4, dtype="float32x2"), ones(4, 3), {}, "a is float32x2"),
        (ones(3, 4, dtype="float64x3"), ones(4, 3), {}, "a is float64x3"),
        (ones(3, 4), ones(4, 3, dtype="float64x4"), {}, "a is float64x2 and b float64x4"),
        (ones(3, 4), ones(3, 4), {}, "do not match"),
        (ones(4), ones(4, 3), {}, "give a matrix"),
        (ones(3, 4), ones(4, 3, value=np.inf), {}, "cannot be split"),
        (ones(3, 4), ones(4, 3), {"way": 3}, "way=3"),
        (ones(3, 4), ones(4, 3), {"group": "size"}, "group='size'"),
        (ones(3, 4), ones(4, 3), {"grid": "matrix"}, "grid='matrix'"),
        (ones(1, 1, value=1e300), ones(1, 1), {"grid": "row"}, "power of two"),
    ],
)
def test_errors_name_the_fix(a, b, options, words):
    with pytest.raises((TypeError, ValueError), match=words):
        multiple_double.multiple_double_matmul(a, b, **options)
