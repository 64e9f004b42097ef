"""Certified bounds: never below the error, finite where they fit, and the largest of them alone."""

from __future__ import annotations

import itertools
import math
import tracemalloc
from fractions import Fraction

import numpy as np
import pytest

import widen
from helpers import ACCURACIES, assert_same_bits, draw, draw_words, word_arrays
from staged import known_lines
from widen.calls import native as ordinary
from widen.calls.check import check_call
from widen.cpu import certify as cpu_certify
from widen.cpu import memory as scratch_memory
from widen.cpu.operands import Quantised
from widen.formats import FORMATS, PLAIN
from widen.options import Options
from widen.stages import error_bounds

RESULTS = list(FORMATS)


# ── never below the error, and finite where it fits ──────────────────────────────────────────


def numbers(x):
    """Every number of an array or of words as two fractions, its parts."""
    words = word_arrays(x) if isinstance(x, widen.Words) else (x,)
    found = np.zeros((2, *x.shape), object)
    for word, place in itertools.product(words, np.ndindex(x.shape)):
        for at, part in enumerate((word[place].real, word[place].imag)):
            found[at, *place] += Fraction(float(part))
    return found


def squared_errors(c, a, b, alpha=1.0):
    """|c - alpha a b|^2 of every element, exactly."""
    (x, u), (y, v), (z, w) = numbers(a), numbers(b), numbers(c)
    real, imaginary = x @ y - u @ v, x @ v + u @ y
    p, q = Fraction(alpha.real), Fraction(alpha.imag)
    return (z - p * real + q * imaginary) ** 2 + (w - p * imaginary - q * real) ** 2


def assert_bounded(c, bound, a, b, alpha=1.0):
    """No error is above its bound, and no bound is infinite."""
    assert np.isfinite(bound).all()
    limits = np.vectorize(lambda x: Fraction(x) ** 2, otypes=[object])(bound)
    assert (squared_errors(c, a, b, alpha) <= limits).all()


def scaled(x, exponent):
    return np.ldexp(x.real, exponent) + (1j * np.ldexp(x.imag, exponent) if x.imag.any() else 0)


@pytest.mark.parametrize("accuracy", ["fast", "standard", 40])
@pytest.mark.parametrize("operand", ["float64", "complex128"])
@pytest.mark.parametrize("left", [-1000, -500, 0, 500, 1020])
def test_rows_and_columns_of_any_size(accuracy, operand, left):
    """Norms of rows may be beyond the range, and products below it."""
    a, b = draw("phi0.5", (2, 40, 2), 1, operand)
    for right in (-1020, -600, -60, 0, 900):
        if -2200 < left + right < 1000:
            x, y = scaled(a, left), scaled(b, right)
            c, info = widen.matmul(x, y, accuracy=accuracy, info=True)
            assert_bounded(c, info.bound, x, y)
            if left + right > -900 and right > -960:  # the bound moves with normal numbers
                _, usual = widen.matmul(scaled(a, 0), b, accuracy=accuracy, info=True)
                assert_same_bits(info.bound, np.ldexp(usual.bound, left + right))


def test_a_norm_beyond_the_range():
    a, b = np.full((1, 6), 1e308) * [1, 0.9, -0.8, 0.7, 1, 0.3], np.full((6, 1), 1e-10) / 3
    for accuracy in ("fast", "standard", 40):
        c, info = widen.matmul(a, b, accuracy=accuracy, info=True)
        assert_bounded(c, info.bound, a, b)
        assert info.bound < 1e-6 * abs(c)


@pytest.mark.parametrize(
    ("alpha", "size"),
    [(1e300, 2.0**-1000), (1e-300, 2.0**900), (5e-324, 2.0**1000), (1.7e308 + 1.7e308j, 2.0**-990),
     (1e-300 - 1e-308j, 2.0**950), (-1e300j, 1e-20), (1e-300, 1e-20)],
)  # fmt: skip
@pytest.mark.parametrize("operand", ["float64", "complex128"])
def test_extreme_scalars(alpha, size, operand):
    a, b = draw("phi0.5", (3, 40, 2), 2, operand)
    result = "complex128" if isinstance(alpha, complex) else operand
    for accuracy in ("standard", 30):
        c, info = widen.gemm(
            a * size, b, alpha=alpha, accuracy=accuracy, dtype=result, info=True
        )  # fmt: skip
        assert_bounded(c, info.bound, a * size, b, alpha)
        modulus = abs(alpha.real) * size + abs(alpha.imag) * size
        assert (info.bound <= 1e-5 * modulus + 1e-320).all()


@pytest.mark.parametrize("name", ["float64x2", "float32x3", "float64_float32", "complex128x2"])
@pytest.mark.parametrize("exponents", [(980, -700), (-500, -500), (0, -1000), (-50, 60)])
def test_words_of_any_size(name, exponents):
    if name.startswith("float32"):
        exponents = [exponent // 9 for exponent in exponents]
    a, b = draw_words("phi0.5", (2, 8, 2), 3, name)
    x, y = (
        widen.Words.from_words(np.array([scaled(w, by) for w in word_arrays(z)]), z.format)
        for z, by in zip((a, b), exponents, strict=True)
    )
    for accuracy in ("standard", 40):
        c, info = widen.matmul(x, y, accuracy=accuracy, info=True)
        assert_bounded(c, info.bound, x, y)


def test_a_budget_of_more_bits_than_floats_have():
    """Rows of 1350 bits, cut before their end: norms in units of it are beyond the range."""
    rng = np.random.default_rng(4)
    a = np.ldexp(rng.uniform(1, 2, (2, 40)), np.linspace(300, -1000, 40).astype(int))
    for right in (np.ones((40, 1)), a.T[:, :1], np.ldexp(a.T[:, 1:], 200)):
        for bits in (800, 1000, 1200):
            c, info = widen.matmul(a, right, accuracy=bits, dtype="float64x16", info=True)
            assert_bounded(c, info.bound, a, right)


# ── the kernel has the bits of the definition ────────────────────────────────────────────────


def lines(rng, batch, count):
    """Lines of all kinds: exact, rounded, zero, of any size, norms beyond any format's."""
    shape = (batch, count)
    top, sigma = rng.integers(-1074, 1024, shape), rng.integers(-20, 200, shape)
    sigma = np.where(rng.integers(4, size=shape) == 0, rng.integers(880, 2000, shape), sigma)
    q1 = np.where(rng.integers(5, size=shape) == 0, 0, rng.integers(1 << 15, 1 << 40, shape))
    zero = np.zeros(shape, np.int64)
    survey = known_lines(zero > 0, top=top, q1=q1)
    return Quantised(survey, sigma - top, rng.integers(2, size=shape) == 0, zero + 0.0)


@pytest.mark.parametrize("name", RESULTS)
def test_the_kernel_has_the_bits_of_the_definition(name):
    torch = pytest.importorskip("torch")
    fmt = FORMATS[name]
    rng = np.random.default_rng(list(name.encode()))
    parts, word, shape = fmt.parts, fmt.part.words[0], (2, 19, 23)
    out = np.ldexp(
        rng.uniform(-1, 1, (1, parts, *shape)), rng.integers(word.lowest, word.highest, shape)
    )
    out[rng.integers(9, size=out.shape) == 0] = 0.0
    for special in (np.inf, -np.inf, np.nan):
        out[rng.integers(30, size=out.shape) == 0] = special
    rows, columns = lines(rng, 1, 19), lines(rng, 2, 23)
    repaired = rng.integers(4, size=shape) == 0
    for dropped, alpha in ((0, 1.0), (0, 0.0), (12345, 3e300 - 4e300j), (1 << 200, 5e-324)):
        terms = error_bounds.terms_of(1000, parts, dropped, alpha)
        found = np.empty(shape)
        largest, finite = cpu_certify.error_bound(
            rows, columns, fmt.part, out, repaired, terms, target=found
        )
        ours, theirs = (
            error_bounds.losses_of(~x.exact, x.survey.q1, x.exponents, x.sigma).reshaped(to)
            for x, to in ((rows, (1, 19, 1)), (columns, (2, 1, 23)))
        )
        with np.errstate(all="ignore"):
            wanted = error_bounds.bound_of(ours, theirs, out[0], fmt.part, repaired, terms)
        assert np.array_equal(found, wanted, equal_nan=True)
        ours, theirs = (
            error_bounds.Losses(*map(torch.from_numpy, (x.lost, x.norm, x.shift, x.exponent)))
            for x in (ours, theirs)
        )
        tensors = map(torch.from_numpy, (out[0], repaired))
        values, once = tensors
        again = error_bounds.bound_of(ours, theirs, values, fmt.part, once, terms).numpy()
        assert np.array_equal(again, wanted, equal_nan=True)
        known = np.isfinite(out).all(axis=(0, 1))
        assert (largest, finite) == (wanted[known].max(), known.sum())


@pytest.mark.parametrize(("parts", "alpha"), [(1, 1.0), (1, -1e300), (2, 3e-320 + 4e-320j)])
def test_the_definition_is_the_formula(parts, alpha):
    """Against fractions: not below it, and not above it but for 2^-39 and a unit or two."""
    rng = np.random.default_rng(11)
    k, dropped, tiny, largest = 77, 5, Fraction(2) ** -1074, Fraction(np.finfo(float).max)
    sides = [lines(rng, 1, 20), lines(rng, 1, 20)]
    norms = [
        [Fraction(int(q)) * Fraction(2) ** int(e - 15) for q, e in zip(*pair, strict=True)]
        for pair in ((x.survey.q1[0], x.sigma[0]) for x in sides)
    ]
    rows, columns = (
        error_bounds.losses_of(~x.exact, x.survey.q1, x.exponents, x.sigma).reshaped(shape)
        for x, shape in zip(sides, ((1, 20, 1), (1, 1, 20)), strict=True)
    )
    terms = error_bounds.terms_of(k, parts, dropped, alpha)
    never, zeros = np.zeros((1, 20, 20), bool), np.zeros((parts, 1, 20, 20))
    fmt = FORMATS["float64"]
    with np.errstate(all="ignore"):
        found = error_bounds.bound_of(rows, columns, zeros, fmt, never, terms)[0]
    squared = (Fraction(alpha.real) ** 2 + Fraction(alpha.imag) ** 2) * parts
    seen = set()
    for i, j in np.ndindex(20, 20):
        lost = [not x.exact[0, at] for x, at in zip(sides, (i, j), strict=True)]
        units = (lost[0] * norms[1][j] + lost[1] * norms[0][i]) / 2 + dropped
        units += all(lost) * -(-parts * k // 4)
        step = Fraction(2) ** -int(sides[0].exponents[0, i] + sides[1].exponents[0, j])
        exact = squared * (units * step) ** 2
        seen.add((np.isfinite(found[i, j]), found[i, j] < 1e-300))
        if np.isinf(found[i, j]):
            assert exact * (1 + Fraction(2) ** -38) >= largest**2
            continue
        assert Fraction(found[i, j]) ** 2 >= exact
        assert (Fraction(found[i, j]) - 6 * tiny) ** 2 <= exact * (1 + Fraction(2) ** -38) or (
            found[i, j] <= 6 * 5e-324
        )
    assert len(seen) >= 2


@pytest.mark.parametrize("name", [name for name in RESULTS if FORMATS[name].parts == 1])
def test_ulps_by_exponent_field(name):
    fmt = FORMATS[name]
    x = np.concatenate([np.ldexp(1.9, np.arange(-1080, 1023)), [5e-324, 2.0**-1030, 0.0]])
    table = error_bounds.ulps_by_field(fmt)
    assert_same_bits(table[x.view(np.int64) >> 52], error_bounds.ulp(x, fmt))


# ── the largest alone ────────────────────────────────────────────────────────────────────────


def assert_largest(call, exactly=True):
    """`call` gives the same result with info="largest", and the largest of all bounds."""
    c, info = call(info=True)
    same, record = call(info="largest")
    values = [word_arrays(x)[0] if isinstance(x, widen.Words) else np.asarray(x) for x in (c, same)]
    assert_same_bits(values[1], values[0])
    known = np.isfinite(values[0])
    wanted = np.asarray(info.bound)[known]
    assert type(record.bound) is float
    if exactly:
        assert record.bound == wanted.max(initial=0.0)
    assert record.not_finite == info.not_finite == known.size - known.sum()
    assert (record.repaired, record.products) == (info.repaired, info.products)
    line = str(record).split("  bound")[1].split("\n")[0]
    assert line == str(info).split("  bound")[1].split("\n")[0] or not exactly
    assert "proven" in line
    return record


@pytest.mark.parametrize("accuracy", ACCURACIES)
@pytest.mark.parametrize("name", PLAIN)
def test_the_largest_bound(name, accuracy):
    a, b = draw("phi2", (31, 40, 27), 5, name)
    assert_largest(lambda info: widen.matmul(a, b, accuracy=accuracy, info=info))
    a[3, 3], b[0, 5] = np.inf, np.nan
    for room in (None, 2**16):
        assert_largest(
            lambda info: widen.matmul(a, b, accuracy=accuracy, workspace=room, info=info)  # noqa: B023
        )


@pytest.mark.parametrize("name", ["float64x2", "float32x3", "float64_float32", "complex128x2"])
def test_the_largest_bound_of_words(name):
    a, b = draw_words("phi2", (9, 12, 7), 6, name)
    assert_largest(lambda info: widen.matmul(a, b, workspace=2**16, info=info))


def test_the_largest_bound_of_every_kind_of_call():
    rng = np.random.default_rng(7)
    a, b = rng.standard_normal((20, 30)), rng.standard_normal((30, 10))
    c, batch = rng.standard_normal((20, 10)), rng.standard_normal((3, 4, 10, 5))
    encoded, plan = widen.encode(b, side="right"), widen.plan(a, b)
    calls = [
        lambda info: widen.matmul(a[0], b, info=info),
        lambda info: widen.matmul(a[0], b[:, 0], info=info),
        lambda info: widen.matmul(b, batch, info=info),
        lambda info: widen.matmul(batch, rng.standard_normal((5, 0)), info=info),
        lambda info: widen.matmul(a, encoded, info=info),
        lambda info: widen.matmul(a, b, plan=plan, info=info),
        lambda info: widen.matmul(a, b, system="triangle", unit="int8", info=info),
        lambda info: widen.matmul(a, b, out=np.empty((20, 10)), info=info),
        lambda info: widen.gemm(a, b, c, alpha=-2.0, beta=3.0, info=info),
        lambda info: widen.gemm(a, b, c, alpha=1j, beta=3.0, dtype="complex128", info=info),
        lambda info: widen.matmul(a, b, accuracy="fast", native=True, info=info),
    ]
    for call in calls:
        assert_largest(call)


@pytest.mark.parametrize(
    ("left", "right"),
    [((50, 8), (8, 60)), ((8,), (8, 60)), ((50, 8), (8,)), ((5, 1, 6, 8), (7, 8, 9)),
     ((40, 1, 8), (40, 8, 1)), ((8,), (8,))],
)  # fmt: skip
def test_the_largest_bound_of_the_ordinary_product_in_pieces(left, right):
    rng = np.random.default_rng(8)
    a, b = rng.standard_normal(left), rng.standard_normal(right)
    options = {"accuracy": "fast", "native": True, "workspace": 2**16}
    _, info = widen.matmul(a, b, info=True, **options)
    for kind in (np.asarray, pytest.importorskip("torch").from_numpy):
        x, y = kind(a), kind(b)
        record = assert_largest(
            lambda info: widen.matmul(x, y, info=info, **options),  # noqa: B023
            exactly=False,
        )
        assert record.unit == "native"
        # Sums in another order have other last bits.
        assert math.isclose(record.bound, info.bound.max(), rel_tol=1e-14)


def test_the_largest_bound_of_tensors():
    torch = pytest.importorskip("torch")
    a, b = (torch.from_numpy(x) for x in draw("phi2", (8, 12, 7), 9))
    assert_largest(lambda info: widen.matmul(a, b, info=info))
    assert_largest(lambda info: widen.gemm(a, b, alpha=0.5, info=info))


@pytest.mark.parametrize("info", ["largest", True])
def test_no_element_is_finite(info):
    a = np.array([[np.inf, 1.0], [np.nan, 1.0]])
    c, record = widen.matmul(a, np.ones((2, 3)), info=info)
    assert not np.isfinite(c).any()
    assert record.not_finite == 6
    assert info is True or math.isnan(record.bound)
    line = str(record).split("  bound")[1].split("\n")[0]
    assert "all 6 elements are infinite or NaN" in line
    assert "<=" not in line


def test_some_elements_are_finite():
    a = np.array([[np.inf, 1.0], [0.1, 1.0]])
    _, record = widen.matmul(a, np.full((2, 3), 0.1), info="largest")
    assert 0 < record.bound < 1e-15
    line = str(record).split("  bound")[1].split("\n")[0]
    assert "every finite |c - AB| <= " in line
    assert "3 others are infinite or NaN" in line


def test_a_bound_beyond_the_range_is_said():
    """A budget of few bits: the result is finite, what it allows is not."""
    a, b = np.array([[1e308, -1e308, 1e308, -1e308]]), np.array([[5.1, 5.1, 3.9, 3.9]]).T
    for info in (True, "largest"):
        c, record = widen.matmul(a, b, accuracy=1, info=info)
        assert np.isfinite(c).all()
        assert record.not_finite == 0
        assert "|c - AB| <= inf" in str(record)


@pytest.mark.parametrize("info", ["all", "", 1, 0, None, "Largest", 0.5, np.ones(2)])
def test_info_that_is_not_known(info):
    a = np.ones((2, 2))
    for call in (widen.matmul, widen.gemm):
        with pytest.raises(ValueError, match=r"info=.* is not known; use True .*'largest'"):
            call(a, a, info=info)


def test_info_of_numpy():
    assert isinstance(widen.matmul(np.ones((2, 2)), np.ones((2, 2)), info=np.True_)[1], widen.Info)


# ── memory ───────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("native", [False, True])
def test_the_largest_bound_takes_no_memory_of_the_results_size(native):
    rng = np.random.default_rng(10)
    a, b = rng.standard_normal((1200, 5)), rng.standard_normal((5, 1200))
    out, room = np.empty((1200, 1200)), 2_000_000  # of 11.5 MB
    accuracy = "fast" if native else "standard"

    def call():
        widen.matmul(a, b, accuracy=accuracy, out=out, workspace=room, info="largest")

    if native:  # whose product is not within the workspace: its bounds alone

        def call():
            checked = check_call(a, b, Options("fast"), room)
            return max(float(x.max()) for x in ordinary._products(checked, abs(a), abs(b), np))

    call()
    scratch_memory._kept.clear()
    tracemalloc.start()
    try:
        call()
        most = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert most <= 1.2 * room
