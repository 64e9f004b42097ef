"""Correct rounding: every element has the bits of the exact value rounded once by MPFR."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import widen
import widen.testing as wt
from helpers import assert_same_bits, draw, dtype_of, results_for
from widen.formats import FORMATS, PLAIN
from widen.systems import SYSTEMS
from widen.units import UNITS

SHAPES = [
    (1, 1, 1), (1, 2, 1), (2, 1, 3), (3, 5, 7), (5, 4, 1), (1, 7, 9), (8, 8, 8), (9, 16, 17),
    (1, 300, 1), (300, 1, 1), (1, 1, 300), (300, 2, 3), (3, 300, 2), (1, 300, 300), (300, 300, 1),
    (17, 33, 300), (131, 257, 63), (64, 129, 65), (300, 1, 100),
]  # fmt: skip
LARGEST = pytest.param((300, 300, 300), marks=pytest.mark.slow)
PAIRS = [
    *((name, name) for name in PLAIN),
    ("float64", "float32"), ("float16", "float64"), ("bfloat16", "float16"),
    ("float32", "complex64"), ("complex64", "float64"), ("complex128", "bfloat16"),
]  # fmt: skip
NARROW_SHAPES = [(5, 1, 4), (13, 60, 11)]

families = pytest.mark.parametrize("family", wt.FAMILIES)


def test_more_than_a_million_elements_are_compared():
    elements = len(wt.FAMILIES) * sum(m * n for m, _, n in SHAPES)
    assert elements >= 1_000_000
    for axis in range(3):
        sizes = [shape[axis] for shape in SHAPES]
        assert (min(sizes), max(sizes)) == (1, 300)


@families
@pytest.mark.parametrize("shape", [*SHAPES, LARGEST], ids=str)
def test_float64(family, shape):
    a, b = draw(family, shape, seed=1)
    assert_same_bits(widen.matmul(a, b, accuracy="correct"), wt.correctly_rounded(a, b))


@families
@pytest.mark.parametrize("pair", PAIRS, ids=str)
def test_formats_and_results(family, pair):
    for shape in NARROW_SHAPES:
        a, b = draw(family, shape, 2, *pair)
        for result in results_for(*pair):
            found = widen.matmul(a, b, accuracy="correct", dtype=result)
            assert_same_bits(found, wt.correctly_rounded(a, b, result))


@families
def test_complex_of_some_size(family):
    a, b = draw(family, (60, 150, 50), 3, "complex128")
    assert_same_bits(widen.matmul(a, b, accuracy="correct"), wt.correctly_rounded(a, b))


@families
@pytest.mark.parametrize("unit", UNITS)
@pytest.mark.parametrize("system", [name for name in SYSTEMS if name != "residues"])
def test_units_and_systems(family, unit, system):
    a, b = draw(family, (11, 70, 13), seed=4)
    wanted = wt.correctly_rounded(a, b)
    assert_same_bits(widen.matmul(a, b, accuracy="correct", unit=unit), wanted)
    assert_same_bits(widen.matmul(a, b, accuracy="correct", unit=unit, system=system), wanted)


@families
@pytest.mark.parametrize("result", PLAIN)
@pytest.mark.parametrize(("alpha", "beta"), [(-1.0, 1.0), (0.1, -3e7), (3.0, 0.0), (0.0, 0.7)])
def test_gemm(family, result, alpha, beta):
    complex_scalars = FORMATS[result].parts == 2
    kind = "complex128" if complex_scalars else "float64"
    a, b = draw(family, (9, 40, 7), 5, kind)
    # The ordinary product cancels; where it overflows, something finite is added.
    with np.errstate(all="ignore"):
        c = a @ b
    c = np.where(np.isfinite(c), c, 1.0).astype(dtype_of(kind))
    if complex_scalars:
        alpha, beta = alpha * (1 - 2j), beta * (0.3 + 1j)
    found = widen.gemm(a, b, c, alpha=alpha, beta=beta, accuracy="correct", dtype=result)
    assert_same_bits(found, wt.correctly_rounded(a, b, result, alpha, beta, c))


def any_floats(shape):
    """Floats from all of the range, zeros and subnormals often."""
    numbers = st.floats(allow_nan=False, allow_infinity=False)
    few = st.sampled_from([0.0, -0.0, 1.0, -1.0, 2.0**-1074, -(2.0**-1022), 2.0**1023, 1 + 2**-52])
    return hnp.arrays(np.float64, shape, elements=st.one_of(numbers, few))


@st.composite
def any_pair(draw_from):
    m, k, n = (draw_from(st.integers(1, 6)) for _ in range(3))
    return draw_from(any_floats((m, k))), draw_from(any_floats((k, n)))


@given(any_pair(), st.sampled_from([*PLAIN]))
@example((np.array([[2.0**-1074, 2.0**1023]]), np.array([[2.0**1023], [2.0**-1074]])), "float64")
@example((np.array([[2.0**1023, 2.0**1023]]), np.array([[1.0], [-1.0]])), "float64")
@example((np.array([[2.0**1023, -(2.0**-1074)]]), np.array([[2.0], [2.0**-1074]])), "float64")
@example((np.array([[-(2.0**-1074)]]), np.array([[0.5]])), "float64")
def test_any_floats(pair, result):
    found = widen.matmul(*pair, accuracy="correct", dtype=result)
    assert_same_bits(found, wt.correctly_rounded(*pair, result))


@pytest.mark.parametrize("result", ["float64", "float32"])
def test_around_the_largest_and_the_smallest(result):
    """Midpoints beside the largest finite number and beside every small subnormal, and neighbours.

    An element is (halves of the ulp) + (something far below), so that one rounding decides.
    """
    form = FORMATS[result]
    top, low = form.highest, form.lowest
    rows, wanted_finite = [], []
    for tiny in (0.0, 1.0, -1.0):
        # 2^highest - 2^(highest - precision - 1) is where infinity begins.
        rows.append([1.0, -1.0, tiny, 0.0])
        wanted_finite.append(tiny < 0)
        rows += [[0.0, 0.0, tiny, halves] for halves in range(-9, 10)]
        wanted_finite += [True] * 19
    a = np.array(rows)
    columns = [top, top - form.precision - 1, low - 40, low - 1]
    # 2^1024 is no float64: both factors carry half of each exponent.
    halves = [exponent // 2 for exponent in columns]
    b = np.array(
        [[math.ldexp(1.0, whole - half)] for whole, half in zip(columns, halves, strict=True)]
    )
    a = np.ldexp(a, halves)
    found = widen.matmul(a, b, accuracy="correct", dtype=result)
    assert_same_bits(found, wt.correctly_rounded(a, b, result))
    assert np.isfinite(found[:, 0]).tolist() == wanted_finite
