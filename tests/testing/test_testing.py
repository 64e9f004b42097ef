"""The references are checked by a third way: fractions, and a search among all floats."""

from __future__ import annotations

import ast
import sys
from fractions import Fraction
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import widen.testing as wt

SHAPES = [(1, 1, 1), (1, 2, 1), (2, 1, 3), (3, 4, 2), (5, 3, 7), (4, 7, 5), (7, 6, 6), (6, 5, 1)]
NARROW = ["float32", "float16", ml_dtypes.bfloat16]
families = pytest.mark.parametrize("name", list(wt.FAMILIES))


def fractions_of(x):
    return [[Fraction(float(v)) for v in row] for row in np.asarray(x)]


def fraction_product(a, b):
    rows, columns = fractions_of(a), fractions_of(np.asarray(b).T)
    return [
        [sum((x * y for x, y in zip(r, c, strict=True)), Fraction(0)) for c in columns]
        for r in rows
    ]


def nearest_float64(x):
    try:
        return float(x)  # integer / integer is correctly rounded in Python
    except OverflowError:
        return np.inf if x > 0 else -np.inf


def nearest_narrow(x, dtype):
    """Search the bit patterns of the format, which are ordered as their values are."""
    unsigned = np.dtype(f"u{np.dtype(dtype).itemsize}")

    def decode(pattern):
        return np.array(pattern, unsigned).view(dtype)

    infinity = int(np.array(np.inf, dtype).view(unsigned))
    above_all = 2 * Fraction(float(decode(infinity - 1))) - Fraction(float(decode(infinity - 2)))

    def value(pattern):
        return above_all if pattern == infinity else Fraction(float(decode(pattern)))

    low, high = 0, infinity
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if value(middle) <= abs(x) else (low, middle)
    if abs(x) >= above_all:
        best = infinity
    else:
        down, up = abs(x) - value(low), value(high) - abs(x)
        best = low if down < up or (down == up and low % 2 == 0) else high
    return float(-decode(best) if x < 0 else decode(best))


def rounded_elsewhere(values, dtype):
    nearest = nearest_float64 if dtype == "float64" else lambda x: nearest_narrow(x, dtype)
    return np.array([[nearest(x) for x in row] for row in values]).astype(dtype)


def assert_same_bits(x, y):
    assert x.dtype == y.dtype
    assert x.shape == y.shape
    assert x.tobytes() == y.tobytes()


def draw(name, m, k, n, seed=0):
    return wt.FAMILIES[name].make(np.random.default_rng(seed), m, k, n)


# ── correctly rounded products ───────────────────────────────────────────────


@families
@pytest.mark.parametrize("dtype", ["float64", *NARROW], ids=str)
def test_rounding_agrees_with_fractions(name, dtype):
    a, b = draw(name, 5, 6, 4)
    expected = rounded_elsewhere(fraction_product(a, b), dtype)
    assert_same_bits(wt.correctly_rounded(a, b, dtype), expected)


@families
@pytest.mark.parametrize("dtype", NARROW, ids=str)
def test_narrow_inputs_are_taken_exactly(name, dtype):
    a, b = (wt.as_format(x, dtype) for x in draw(name, 3, 4, 3))
    expected = rounded_elsewhere(fraction_product(a, b), dtype)
    assert_same_bits(wt.correctly_rounded(a, b, dtype), expected)
    assert wt.correctly_rounded(a, b).dtype == np.float64


@families
@pytest.mark.parametrize("dtype", ["complex128", "complex64"])
def test_complex_rounding_agrees_with_fractions(name, dtype):
    a, b = wt.complex_pair(wt.FAMILIES[name], np.random.default_rng(1), 3, 4, 2)
    stacked = np.hstack([a.real, a.imag])
    real = fraction_product(stacked, np.vstack([b.real, -b.imag]))
    imag = fraction_product(stacked, np.vstack([b.imag, b.real]))
    c = wt.correctly_rounded(a, b, dtype)
    part = c.real.dtype.name
    assert c.dtype == dtype
    assert_same_bits(c.real.copy(), rounded_elsewhere(real, part))
    assert_same_bits(c.imag.copy(), rounded_elsewhere(imag, part))


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(*[st.floats(allow_nan=False, allow_infinity=False)] * 2), min_size=1))
def test_any_dot_product(pairs):
    a, b = np.array([[x for x, _ in pairs]]), np.array([[y] for _, y in pairs])
    expected = rounded_elsewhere(fraction_product(a, b), "float64")
    assert_same_bits(wt.correctly_rounded(a, b), expected)


TINY, HUGE = 2.0**-1074, np.finfo(float).max


@pytest.mark.parametrize(
    ("a", "b", "expected"),
    [
        ([TINY], [0.5], 0.0),  # a tie, to even
        ([-TINY], [0.5], -0.0),
        ([TINY], [0.75], TINY),
        ([3 * TINY], [0.5], 2 * TINY),  # a tie, to even
        ([TINY, 2.0**-600], [0.5, 2.0**-600], TINY),  # a tie and a little
        ([-TINY], [TINY], -0.0),
        ([1.0, 1.0], [1.0, -1.0], 0.0),
        ([-0.0], [1.0], 0.0),  # an exact zero
        ([2.0**1023], [2.0], np.inf),
        ([-(2.0**1023)], [2.0], -np.inf),
        ([HUGE, 2.0**970], [1.0, 1.0], np.inf),  # half an ulp above the largest
        ([HUGE, 2.0**970, -TINY], [1.0, 1.0, 1.0], HUGE),
        ([2.0**1023, -(2.0**1023)], [2.0, 1.0], 2.0**1023),  # only a term overflows
        ([1 + 2.0**-52, 2.0**-1022], [2.0**-1022, -1.0], TINY),
        ([(1 + 2.0**-52) * 2.0**-500], [(1 + 2.0**-52) * 2.0**-522], 2.0**-1022 + 2 * TINY),
        # Rounded to 53 bits first it would become the tie 1.5 TINY, and then 2 TINY.
        ([3 * TINY, -TINY], [0.5, 2.0**-60], TINY),
    ],
)
def test_edges_of_float64(a, b, expected):
    c = wt.correctly_rounded(np.array([a]), np.array([b]).T)
    assert_same_bits(c, np.array([[expected]]))


def test_scalars_and_addend_are_exact():
    rng = np.random.default_rng(3)
    a, b, c = wt.phi(rng, (3, 4), 2), wt.phi(rng, (4, 2), 2), wt.phi(rng, (3, 2), 2)
    alpha, beta = 0.1, -1e-300
    exact = [
        [Fraction(alpha) * x + Fraction(beta) * y for x, y in zip(*rows, strict=True)]
        for rows in zip(fraction_product(a, b), fractions_of(c), strict=True)
    ]
    got = wt.correctly_rounded(a, b, alpha=alpha, beta=beta, c=c)
    assert_same_bits(got, rounded_elsewhere(exact, "float64"))


def test_complex_scalars_promote():
    got = wt.correctly_rounded([[2.0]], [[3.0]], alpha=1j, beta=1 + 1j, c=[[1.0]])
    assert_same_bits(got, np.array([[1 + 7j]]))
    got = wt.correctly_rounded([[2.0 + 3j]], [[1.0]], alpha=5 + 7j)
    assert_same_bits(got, np.array([[-11 + 29j]]))
    assert wt.correctly_rounded([[1.0]], [[1.0]], dtype="complex64").dtype == np.complex64


def test_beta_zero_reads_nothing():
    assert wt.correctly_rounded([[1.0]], [[1.0]], c=[[np.nan]]) == 1.0


@pytest.mark.parametrize(("m", "k", "n"), [(0, 2, 3), (2, 0, 3), (2, 3, 0), (0, 0, 0)])
def test_empty_shapes(m, k, n):
    assert_same_bits(wt.correctly_rounded(np.ones((m, k)), np.ones((k, n))), np.zeros((m, n)))


def test_views_of_any_stride():
    a, b = draw("phi1", 5, 4, 3)
    expected = wt.correctly_rounded(a[::-2].copy(), b[:, ::-1].copy())
    assert_same_bits(wt.correctly_rounded(a[::-2], np.asfortranarray(b)[:, ::-1]), expected)


def test_double_double_words():
    a, b = draw("phi2", 2, 9, 2)
    x = wt.exact_product(a, b)
    high = x.rounded()
    low = (x - wt.Exact.of(high)).rounded()
    rest = [
        [x - y for x, y in zip(*rows, strict=True)]
        for rows in zip(fraction_product(a, b), fractions_of(high), strict=True)
    ]
    assert_same_bits(low, rounded_elsewhere(rest, "float64"))


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: wt.correctly_rounded([[np.nan]], [[1.0]]), ValueError, "finite"),
        (lambda: wt.correctly_rounded([[1.0]], [[np.inf]]), ValueError, "finite"),
        (lambda: wt.correctly_rounded([[1]], [[1]]), TypeError, "int64"),
        (lambda: wt.correctly_rounded([[1.0]], [[1.0]], "int8"), TypeError, "int8"),
        (lambda: wt.correctly_rounded([[1j]], [[1.0]], "float64"), TypeError, "complex128"),
        (lambda: wt.correctly_rounded([1.0], [[1.0]]), ValueError, r"\(m, k\)"),
        (lambda: wt.correctly_rounded([[1.0]], [[1.0]], beta=2.0), ValueError, "pass c"),
        (lambda: wt.correctly_rounded([[1.0]], [[1.0]], beta=2.0, c=[1.0]), ValueError, "shape"),
        (lambda: wt.exact_error([[1j]], [[1.0]], [[1.0]]), TypeError, "error_bounds"),
        (lambda: wt.error_bounds([1.0], [[1.0]], [[1.0]]), ValueError, "shape"),
        (lambda: wt.error_in_u([1.0], [[1.0]], [[1.0]]), ValueError, "shape"),
        (lambda: wt.check_contract([1.0], [[1.0]], [[1.0]], "correct"), ValueError, "shape"),
        (lambda: wt.check_contract([[1.0]], [[1.0]], [[1.0]], "best"), ValueError, "'best'"),
    ],
)
def test_errors_say_what_was_given(call, error, message):
    with pytest.raises(error, match=message):
        call()


@pytest.mark.parametrize(("module", "package"), [("flint", "python-flint"), ("gmpy2", "gmpy2")])
def test_a_missing_oracle_names_the_extra(monkeypatch, module, package):
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ImportError, match=package + r'.*pip install "widen\[test\]"'):
        wt.correctly_rounded([[1.0]], [[1.0]])


def test_imports_nothing_else_of_widen():
    for path in Path(wt.__file__).parent.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom):
                assert node.level <= 1
                assert not (node.module or "").startswith("widen")
            if isinstance(node, ast.Import):
                assert not any(alias.name.startswith("widen") for alias in node.names)


# ── hard matrices ────────────────────────────────────────────────────────────


@families
@pytest.mark.parametrize("shape", SHAPES)
def test_families_are_finite_and_repeat(name, shape):
    m, k, n = shape
    a, b = draw(name, m, k, n, seed=5)
    assert (a.shape, b.shape) == ((m, k), (k, n))
    assert a.dtype == b.dtype == np.float64
    assert np.isfinite(a).all()
    assert np.isfinite(b).all()
    for x, y in zip((a, b), draw(name, m, k, n, seed=5), strict=True):
        assert_same_bits(x.copy(), y.copy())
    assert wt.FAMILIES[name].name == name
    assert wt.FAMILIES[name].why


@families
@pytest.mark.parametrize("dtype", [*NARROW, "complex64"], ids=str)
def test_narrow_formats_have_no_infinities(name, dtype):
    for x in draw(name, 4, 4, 4):
        y = wt.as_format(x, dtype)
        assert y.dtype == dtype
        assert np.isfinite(y.astype(np.complex128)).all()


def midpoint_side(value):
    """0 on the midpoint of two neighbouring floats, else the relative distance from it."""
    down = Fraction(float(abs(value)))
    down = down if down <= abs(value) else Fraction(float(np.nextafter(float(down), 0)))
    up = Fraction(float(np.nextafter(float(down), np.inf)))
    return (2 * abs(value) - down - up) / (up - down)


def test_ties_are_on_above_and_below():
    a, b = draw("ties", 9, 7, 5)
    sides = [midpoint_side(x) for row in fraction_product(a, b) for x in row]
    assert all(abs(side) < Fraction(1, 2) + Fraction(1, 10) for side in sides)
    for wanted in (lambda s: s == 0, lambda s: s > 0, lambda s: s < 0):
        assert sum(map(wanted, sides)) >= 9
    assert min(abs(s) for s in sides if s) < Fraction(1, 2**60)
    lone = fraction_product(*draw("ties", 3, 1, 3))
    assert all(midpoint_side(x) == 0 for row in lone for x in row)


def test_cancellation_leaves_zeros_last_bits_and_near_ties():
    a, b = draw("cancellation", 8, 11, 5)
    exact = fraction_product(a, b)
    sizes = np.abs(a) @ np.abs(b)
    relative = np.array(
        [
            [abs(float(x)) / s for x, s in zip(*r, strict=True)]
            for r in zip(exact, sizes, strict=True)
        ]
    )
    assert (relative == 0).sum() == 10
    assert ((relative > 0) & (relative < 1e-14)).sum() >= 10
    sides = [midpoint_side(x) for row in exact for x in row if x]
    assert sum(side == 0 for side in sides) == 10
    assert sum(0 < abs(side) < Fraction(1, 2**60) for side in sides) == 10


def test_complementary_sparsity_mixes_zeros_and_others():
    c = wt.correctly_rounded(*draw("complementary sparsity", 9, 8, 9))
    assert (c == 0).sum() > 20
    assert (c != 0).sum() > 20


def test_graded_and_extreme_families_reach_their_ends():
    a, b = draw("extremes", 24, 16, 12)
    assert min(abs(a[a != 0])) < 2.0**-1050
    assert abs(a).max() >= 2.0**1022
    assert (np.ptp(np.frexp(a)[1], axis=1) > 1800).all()
    assert np.isfinite(wt.correctly_rounded(a, b)).mean() > 0.8
    against = wt.correctly_rounded(*draw("graded against", 30, 8, 30))
    assert 0 < np.isinf(against).sum() < 90
    balanced = np.abs(wt.correctly_rounded(*draw("graded inner", 8, 8, 8)))
    assert ((balanced > 1e-6) & (balanced < 1e3)).all()
    assert np.isfinite(wt.correctly_rounded(*draw("graded rows", 20, 8, 20))).all()


def test_subnormals_are_entries_and_results():
    a, b = draw("subnormals", 9, 6, 8)
    c = np.abs(wt.correctly_rounded(a, b))
    for x in (np.abs(a), c):
        assert ((x > 0) & (x < 2.0**-1022)).sum() > 10


def test_circulants_rotate():
    a, b = draw("circulant", 4, 4, 4)
    np.testing.assert_array_equal(a[1], np.roll(a[0], 1))
    np.testing.assert_array_equal(b[:, 1], np.roll(b[:, 0], 1))


# ── errors ───────────────────────────────────────────────────────────────────


def test_exact_error_and_its_bound():
    a, b = draw("phi2", 4, 6, 3)
    c = a @ b
    errors, bounds = wt.exact_error(c, a, b), wt.error_bounds(c, a, b)
    assert bounds.dtype == np.float64
    for i, row in enumerate(fraction_product(a, b)):
        for j, x in enumerate(row):
            error = abs(Fraction(float(c[i, j])) - x)
            assert errors[i, j] == error
            assert Fraction(np.nextafter(bounds[i, j], 0)) < error <= Fraction(bounds[i, j])


def test_complex_error_bound_is_rigorous_and_tight():
    a, b = wt.complex_pair(wt.FAMILIES["phi1"], np.random.default_rng(2), 3, 3, 3)
    c = a @ b
    bounds = wt.error_bounds(c, a, b)
    product = wt.exact_product(a, b)
    real, imag = (part.mpq() for part in product.parts)
    squares = (real - wt.Dyadic.of(c.real).mpq()) ** 2 + (imag - wt.Dyadic.of(c.imag).mpq()) ** 2
    for square, bound in zip(squares.flat, bounds.flat, strict=True):
        assert square <= Fraction(bound) ** 2
        assert square >= Fraction(np.nextafter(bound, 0)) ** 2


def test_known_perturbations_are_measured():
    a, b = np.array([[1.0, 2.0]]), np.array([[1.0], [-0.5]])  # AB = 0, |A||B| = 2
    assert wt.error_in_u([[3 * 2.0**-53]], a, b) == 1.5
    assert wt.error_in_u(np.array([[3 * 2.0**-24]], np.float32), a, b) == 1.5
    assert wt.error_in_u([[3 * 2.0**-24]], a, b, "float32") == 1.5
    assert wt.error_in_ulps([[3 * TINY]], a, b) == 3.0
    assert wt.error_in_u([[0.0, 1.0]], [[0.0]], [[1.0, 2.0]]).tolist() == [[0.0, np.inf]]
    assert wt.error_in_ulps([[1 - 2.0**-53]], [[1.0]], [[1.0]]) == 0.5
    assert wt.error_in_ulps([[2.0 + 4j]], [[1.0]], [[2 + (4 + 2.0**-50) * 1j]]) == 1.0
    assert wt.error_in_u([[3 + 4j]], [[0.6 + 0.8j]], [[1.0]]) > 2.0**54


def test_infinities_and_nan_are_measured():
    a, b = [[2.0**1023]], [[2.0, 1.0, -2.0]]
    c = [[np.inf, np.inf, np.inf]]
    assert wt.error_in_u(c, a, b).tolist() == [[0.0, np.inf, np.inf]]
    assert wt.error_in_ulps(c, a, b).tolist() == [[0.0, np.inf, np.inf]]
    assert wt.error_in_ulps([[HUGE]], a, [[2.0]]) == 1.0
    assert wt.error_in_u([[np.nan]], [[1.0]], [[1.0]]) == np.inf


def test_square_roots_are_bracketed():
    x = wt.Dyadic.of([[0.0, 9.0, 2.0, 0.1, TINY, HUGE]])
    low, high = x.square_root()
    assert not (low * low - x).positive().any()
    assert not (x - high * high).positive().any()
    assert (high - low).zero().tolist() == [[True, True, False, False, True, False]]
    assert not (high - low - high.scaled(1, -120)).positive().any()


def test_magnitude_brackets():
    a, b = draw("phi4", 4, 5, 3)
    low, high = wt.magnitude(a, b)
    for i, row in enumerate(fraction_product(abs(a), abs(b))):
        for j, x in enumerate(row):
            assert Fraction(low[i, j]) <= x <= Fraction(high[i, j])
            assert high[i, j] <= np.nextafter(low[i, j], np.inf)
    low, high = wt.magnitude([[3 + 4j, 1 + 1j]], [[1.0], [1.0]])
    assert low < 5 + 2**0.5 + 1e-15
    assert 0 < high - low < 2e-15


def test_correct_results_keep_every_contract():
    for name in wt.FAMILIES:
        a, b = draw(name, 5, 6, 4)
        c = wt.correctly_rounded(a, b)
        assert [wt.check_contract(c, a, b, how) for how in CONTRACTS] == [0] * 4
        assert (wt.error_in_ulps(c, a, b) <= 0.5).all()
        for dtype in NARROW:
            narrow = wt.correctly_rounded(a, b, dtype)
            assert [wt.check_contract(narrow, a, b, how) for how in CONTRACTS] == [0] * 4
            assert (wt.error_in_ulps(narrow, a, b) <= 0.5).all()
        a, b = wt.complex_pair(wt.FAMILIES[name], np.random.default_rng(0), 3, 4, 2)
        c = wt.correctly_rounded(a, b)
        assert [wt.check_contract(c, a, b, how) for how in CONTRACTS] == [0] * 4
        assert (wt.error_in_ulps(c, a, b) <= 0.5).all()


CONTRACTS = ["standard", "fast", "correct", 60]


def limit(accuracy, k, u=2.0**-53):
    """The contract's bound for a = b = ones: |A||B| = ||a|| ||b|| = k."""
    return {"standard": 2 * k**0.5 * u * k, "fast": k * u * k, 30: 2.0**-30 * k}[accuracy]


@pytest.mark.parametrize("accuracy", ["standard", "fast", 30])
@pytest.mark.parametrize("dtype", ["float64", "complex128"])
def test_contracts_hold_at_their_limit_and_not_beyond(accuracy, dtype):
    k = 16
    a, b = np.ones((1, k), dtype), np.ones((k, 1), dtype)
    step = np.spacing(16.0)
    steps = np.floor(limit(accuracy, k) / step + 0.5)  # half an ulp is allowed
    inside, outside = 16 + steps * step, 16 + (steps + 1) * step
    c = np.array([[inside]], dtype)
    assert wt.check_contract(c, a, b, accuracy) == 0
    assert wt.check_contract(np.array([[outside]], dtype), a, b, accuracy) == 1
    assert wt.check_contract(c, a, b, "correct") == 1


def test_contract_is_exact_to_the_last_bit():
    """AB = 0, |A||B| = 2, k = 2: fast allows 2**-51 plus half an ulp of c, and not one bit more."""
    a, b = np.array([[1.0, 1.0]]), np.array([[1.0], [-1.0]])
    allowed = 4 * 2.0**-53
    assert wt.check_contract([[allowed]], a, b, "fast") == 0
    assert wt.check_contract([[np.nextafter(allowed, 1)]], a, b, "fast") == 1
    standard = 2 * 2**0.5 * 2.0**-53 * 2  # rounded: within half an ulp of the irrational bound
    assert wt.check_contract([[standard]], a, b, "standard") == 0
    assert wt.check_contract([[standard + 2 * np.spacing(standard)]], a, b, "standard") == 1


def test_planted_violations_are_counted():
    rng = np.random.default_rng(8)
    for dtype, unit in (("float64", 2.0**-53), ("float32", 2.0**-24), ("complex128", 2.0**-53)):
        a, b = wt.phi(rng, (6, 20), 1), wt.phi(rng, (20, 6), 1)
        if dtype == "complex128":
            a, b = wt.complex_pair(wt.FAMILIES["phi1"], rng, 6, 20, 6)
        c = wt.correctly_rounded(a, b, dtype)
        size = np.abs(a) @ np.abs(b)
        spoiled = c.copy()
        for i, j in ((0, 0), (2, 3), (5, 5)):
            spoiled[i, j] += 30 * unit * size[i, j]
        assert wt.check_contract(spoiled, a, b, "fast") == 3
        assert wt.check_contract(spoiled, a, b, "standard") == 3
        assert wt.check_contract(spoiled, a, b, "correct") == 3
        assert wt.check_contract(spoiled, a, b, 10) == 0
        assert wt.check_contract(spoiled, a, b, "fast", dtype="float16") == 0


def test_contract_of_infinities_and_nan():
    top = np.array([[2.0**1023]])
    assert wt.check_contract([[np.inf]], top, [[2.0]]) == 0
    assert wt.check_contract([[-np.inf]], top, [[2.0]]) == 1
    assert wt.check_contract([[np.inf]], top, [[1.0]]) == 1
    assert wt.check_contract([[np.inf]], top, [[2 - 2.0**-52]]) == 0  # within the bound
    assert wt.check_contract([[np.inf]], top, [[2 - 2.0**-50]]) == 1
    assert wt.check_contract([[HUGE]], top, [[2.0]]) == 0  # an ulp away
    assert wt.check_contract([[np.inf]], top, [[2 - 2.0**-52]], "correct") == 1
    assert wt.check_contract([[complex(np.inf, 0)]], top, [[2.0 + 0j]]) == 0
    assert wt.check_contract([[np.inf]], [[HUGE]], [[1.0]], 53) == 0
    assert wt.check_contract([[np.inf]], [[HUGE]], [[1.0]], 54) == 1  # an infinity has no half ulp
    assert wt.check_contract([[np.nan]], top, [[2.0]]) == 1
    for how in CONTRACTS:
        assert wt.check_contract([[np.nan]], [[1.0]], [[1.0]], how) == 1
        assert wt.check_contract([[complex(0, np.nan)]], [[1.0]], [[1.0]], how) == 1


def test_correct_contract_sees_the_sign_of_zero():
    assert wt.check_contract([[-0.0]], [[0.0]], [[1.0]], "correct") == 1
    assert wt.check_contract([[0.0]], [[-TINY]], [[0.25]], "correct") == 1
    assert wt.check_contract([[-0.0]], [[-TINY]], [[0.25]], "correct") == 0


def test_violations_compare_exactly():
    a, b = [[1.0, 2.0**-60]], [[1.0], [1.0]]
    assert wt.violations([[1.0]], [[2.0**-60]], a, b) == 0
    assert wt.violations([[1.0]], [[np.nextafter(2.0**-60, 0)]], a, b) == 1
    assert wt.violations([[3 + 4j]], [[5.0]], [[0.0]], [[0.0]]) == 0
    assert wt.violations([[3 + 4j]], [[np.nextafter(5.0, 0)]], [[0.0]], [[0.0]]) == 1
    edge, ones = [[HUGE, 2.0**970, -TINY]], np.ones((3, 1))  # all but an infinity
    assert wt.violations([[np.inf]], [[0.0]], edge, ones) == 1
    assert wt.violations([[np.inf]], [[TINY]], edge, ones) == 0
    assert wt.violations([[np.nan, np.inf]], [[np.inf, np.inf]], [[1.0]], [[1.0, 1.0]]) == 1
    assert wt.violations([[1.0, 1.0]], [[np.nan, -1.0]], [[1.0]], [[1.0, 1.0]]) == 2
