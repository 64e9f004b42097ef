"""Elements repaired by dot products: every bit, in every format; and what needs no first pass."""

from __future__ import annotations

from fractions import Fraction
from unittest import mock

import numpy as np
import pytest

import widen
import widen.testing as wt
from helpers import (
    assert_same_bits,
    assert_same_words,
    draw,
    draw_words,
    kernel_threads,
    word_arrays,
)
from widen import definition
from widen.cpu import dots, repair, stages
from widen.cpu import memory as scratch_memory
from widen.cpu.operands import marked
from widen.formats import BINARY, FORMATS, WORDS
from widen.stages.rounding import round_words

PLAIN = ["float64", "float32", "float16", "complex128", "complex64"]
SEVERAL = ["float64x2", "float32x3", "float64x4", "float64_float32", "complex128x2", "complex64x2"]
HARD = ["phi2", "one huge", "graded against", "subnormals", "cancellation", "zero lines"]


def everything_open(self):
    """A certificate that certifies nothing."""
    self.needs_product = False
    return np.ones(self.values.shape[2:], bool)


def by_dots(product, *given, **options):
    """A call that computes every element by a dot product."""
    with (
        mock.patch.object(stages.Stages, "certify", everything_open),
        mock.patch.object(repair, "FEWEST_OPEN", 10**9),
    ):
        return product(*given, **options)


def defined(a, b, fmt):
    """The words of a product, each element the exact value rounded once."""
    rows, columns = (
        [definition.numbers(*line) for line in zip(*turned, strict=True)]
        for turned in (word_arrays(a), [x.T for x in word_arrays(b)])
    )
    kind = complex if fmt.parts == 2 else float
    out = np.zeros((len(fmt.part.words), len(rows), len(columns), fmt.parts))
    for i, row in enumerate(rows):
        for j, column in enumerate(columns):
            for part, value in enumerate(definition.exact_dot(row, column)):
                out[:, i, j, part] = round_words(value, fmt.part)
    return tuple(np.ascontiguousarray(word).view(kind)[..., 0] for word in out)


@pytest.mark.parametrize("family", HARD)
@pytest.mark.parametrize("name", PLAIN)
@pytest.mark.parametrize("shape", [(7, 33, 6), (1, 1, 1), (3, 600, 2)])
def test_every_element_is_rounded_correctly(name, family, shape):
    a, b = draw(family, shape, 3, name)
    found = by_dots(widen.matmul, a, b)
    assert_same_bits(found, wt.correctly_rounded(a, b, found.dtype))


@pytest.mark.parametrize("family", HARD)
@pytest.mark.parametrize("name", SEVERAL)
def test_every_element_of_several_words_is_rounded_correctly(name, family):
    a, b = draw_words(family, (4, 19, 5), 4, name)
    assert_same_words(by_dots(widen.matmul, a, b), defined(a, b, FORMATS[name]))


@pytest.mark.parametrize("name", ["float64", "complex128", "float32"])
@pytest.mark.parametrize("family", ["phi2", "one huge", "zero lines"])
def test_gemm(name, family):
    a, b = draw(family, (6, 20, 5), 5, name)
    c = draw("phi2", (6, 20, 5), 6, name)[0][:, :5].copy()
    alpha, beta = (0.3 - 2j, 1j) if np.iscomplexobj(a) else (-0.3, 0.7)
    found = by_dots(widen.gemm, a, b, c, alpha=alpha, beta=beta)
    assert_same_bits(found, wt.correctly_rounded(a, b, found.dtype, alpha, beta, c))


def test_batches_layouts_threads_and_small_rooms():
    rng = np.random.default_rng(7)
    a, b = rng.standard_normal((3, 1, 9, 40)), rng.standard_normal((2, 11, 40)).swapaxes(1, 2)
    wanted = widen.matmul(a, b, accuracy="correct")
    assert_same_bits(by_dots(widen.matmul, a, b), wanted)
    assert_same_bits(by_dots(widen.matmul, a, b, workspace=2**16), wanted)
    narrow = a.astype("float32"), b.astype("float32")
    wanted = widen.matmul(*narrow, accuracy="correct")
    assert_same_bits(by_dots(widen.matmul, *narrow, workspace=2**16), wanted)
    # A few long sums are divided between threads.
    x, y = rng.standard_normal((2, 3000)), rng.standard_normal((3000, 1))
    wanted = widen.matmul(x, y, accuracy="correct")
    with mock.patch.object(dots, "LEAST_STRETCH", 64), kernel_threads(2):
        assert_same_bits(by_dots(widen.matmul, x, y), wanted)


def test_special_values_stay():
    a, b = draw("phi2", (6, 12, 5), 8)
    a[1, 3], b[2, 4], a[4] = np.nan, np.inf, 0.0
    with np.errstate(invalid="ignore"):
        wanted = a @ b
    found = by_dots(widen.matmul, a, b)
    assert np.array_equal(np.isnan(found), np.isnan(wanted))
    assert np.array_equal(np.isinf(found), np.isinf(wanted))
    fine = np.isfinite(wanted)
    a[1, 3], b[2, 4] = 0.0, 0.0
    assert_same_bits(found[fine], wt.correctly_rounded(a, b)[fine])


@pytest.mark.parametrize("name", ["float64", "complex64", "float64x2"])
def test_float64_is_enough_for_ordinary_numbers(name):
    a, b = (draw if name not in WORDS else draw_words)("phi0.5", (8, 50, 7), 9, name)
    with mock.patch.object(repair, "by_dots") as exact:
        by_dots(widen.matmul, a, b)
    assert not exact.called


def test_what_float64_leaves_open_goes_to_the_superaccumulator():
    a, b = draw("graded against", (8, 50, 7), 10)
    with mock.patch.object(repair, "by_dots", wraps=repair.by_dots) as exact:
        found = by_dots(widen.matmul, a, b)
    assert exact.called
    assert_same_bits(found, wt.correctly_rounded(a, b))


# ── sums ─────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("single", [False, True])
@pytest.mark.parametrize("count", [1, 2, 4])
def test_sums_are_exact_but_for_what_is_below_the_last_unit(single, count):
    from widen.cpu import kernels

    rng = np.random.default_rng(11)
    inner = 1 if single else 700
    x, y = (rng.uniform(-2, 2, inner) * 2.0 ** -rng.integers(0, 90, inner) for _ in range(2))
    x[:2], y[:2] = 1.5, 0.25
    terms = max((2 * inner - 1).bit_length(), 2)
    exponents = 2 - 53 + terms - (54 - terms) * np.arange(count)
    units, first = np.ldexp(1.0, exponents), np.array([[[0, min(1, count)]]])
    none, spans = np.zeros(1, np.int64), np.array([[0], [inner]])
    out, lost = np.empty((1, count, 1)), np.empty((1, 1), bool)
    lines = x[None, None, None], y[None, None, None]
    if single:
        given = none, none, none, first, units, out[0], lost[0]
        kernels.dots.single_products(0, 1, *lines, *given)
    else:
        given = spans, spans, none, none, first, units, out, lost
        kernels.dots.partial_sums(0, 1, *lines, *given)
    found = sum(
        Fraction(float(s)) * Fraction(float(u)) for s, u in zip(out[0, :, 0], units, strict=True)
    )
    exact = sum(Fraction(float(p)) * Fraction(float(q)) for p, q in zip(x, y, strict=True))
    assert abs(exact - found) <= 2 * inner * Fraction(float(units[-1])) / 2
    assert bool(lost[0, 0]) or exact == found
    assert bool(lost[0, 0]) == (exact != found) or not single
    assert (np.abs(out) <= 2.0**53).all()
    assert (out == np.rint(out)).all()


def test_marked_places_are_those_of_nonzero():
    marks = np.random.default_rng(12).random((2, 7, 9)) < 0.2
    for ours, theirs in zip(
        marked(marks[:, 1:6, ::2]), np.nonzero(marks[:, 1:6, ::2]), strict=True
    ):
        assert np.array_equal(ours, theirs)


# ── what needs no first pass ─────────────────────────────────────────────────


def watched_products():
    return mock.patch.object(stages, "multiply", wraps=stages.multiply)


@pytest.mark.parametrize("accuracy", ["fast", "standard"])
@pytest.mark.parametrize("name", ["float64", "complex128"])
def test_lines_of_one_entry_are_not_multiplied_in_planes(accuracy, name):
    a, b = draw("phi2", (12, 12, 10), 13, name)
    a = a * np.eye(12)[::-1]
    with watched_products() as products:
        found = widen.matmul(a, b, accuracy=accuracy)
        mirrored = widen.matmul(b.T.copy(), a.T.copy(), accuracy=accuracy)
    assert not products.called
    assert_same_bits(found, wt.correctly_rounded(a, b))
    assert_same_bits(mirrored, wt.correctly_rounded(b.T, a.T))


@pytest.mark.parametrize("accuracy", ["fast", "standard", "correct"])
def test_where_all_is_open_there_is_no_first_pass(accuracy):
    a, b = draw("positive", (40, 64, 38), 14)
    powers = 2.0 ** np.random.default_rng(14).integers(-90, 91, 64)
    a, b = a * powers, b / powers[:, None]
    a[3, 5] = np.inf
    with watched_products() as products:
        found, info = widen.matmul(a, b, accuracy=accuracy, info=True)
    assert not products.called
    assert info.repaired == 39 * 38
    fine = np.arange(40) != 3
    assert_same_bits(found[fine], wt.correctly_rounded(a[fine], b))


def test_other_products_have_a_first_pass():
    a, b = draw("phi2", (40, 64, 38), 15)
    for accuracy in ("fast", "standard", "correct"):
        with watched_products() as products:
            widen.matmul(a, b, accuracy=accuracy)
        assert products.called


def test_scratch_memory_stays_where_little_is_repaired():
    a, b = draw("phi2", (60, 64, 58), 16)
    a[5, 32:] *= 2.0**-200  # their largest entries do not meet
    b[:32, 7] *= 2.0**-200
    scratch_memory._kept.clear()
    _, info = widen.matmul(a, b, info=True)
    assert 0 < info.repaired < 60
    (held,) = scratch_memory._kept
    assert "groups" in held._buffers
    assert not held.kept


def test_binary_formats_are_covered():
    assert {*BINARY} - {"bfloat16"} == {name for name in PLAIN if not name.startswith("complex")}
