"""gemm: alpha a b + beta c is one exact sum, rounded once; what is not needed is not read."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import widen
from helpers import assert_same_bits
from widen.contract import CONTRACTS
from widen.cpu import kernels
from widen.cpu import reconstruct as cpu_reconstruct
from widen.cpu import threads as cpu_threads
from widen.systems import SYSTEMS
from widen.testing import FAMILIES, Dyadic, Exact, as_format, complex_pair, correctly_rounded
from widen.units import UNITS

EVERY_CONTRACT = [*CONTRACTS, 40]
SCALARS = [(1.0, 1.0), (-1.0, 1.0), (0.1, -3.7), (2.0**-30, 1 / 3), (-7.0, 2.0**20), (1 / 3, 0.0)]
families = pytest.mark.parametrize("family", list(FAMILIES))
contracts = pytest.mark.parametrize("accuracy", EVERY_CONTRACT)


def same_bits(x, y):
    x, y = np.asarray(x), np.asarray(y)
    return x.shape == y.shape and x.dtype == y.dtype and x.tobytes() == y.tobytes()


def pair(family, seed, m=6, k=9, n=7, dtype="float64"):
    rng = np.random.default_rng(seed)
    if np.dtype(dtype).kind == "c":
        a, b = complex_pair(FAMILIES[family], rng, m, k, n)
    else:
        a, b = FAMILIES[family].make(rng, m, k, n)
    return as_format(a, dtype), as_format(b, dtype)


def addend(a, b, seed):
    """An addend that cancels most of the product in some elements and is unrelated in others."""
    rng = np.random.default_rng(seed)
    dtype = np.result_type(a, b)
    near = correctly_rounded(a, b, dtype)
    shown = np.isfinite(near) & (rng.random(near.shape) < 0.5)
    return np.where(shown, -near, rng.standard_normal(near.shape).astype(dtype))


def exact_value(a, b, alpha, beta, c):
    """Alpha a b + beta c as exact numbers."""
    scalars = [Exact.of(np.array([[x]])) for x in (alpha, beta)]
    return scalars[0] * (Exact.of(a) @ Exact.of(b)) + scalars[1] * Exact.of(c)


def above(error, bound):
    """How many elements have a modulus above `bound`, compared exactly."""
    limit = Dyadic.of(np.where(np.isfinite(bound), bound, 0.0))
    return int(((error.squared_modulus() - limit * limit).positive() & np.isfinite(bound)).sum())


@families
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_rounded_once_on_every_family(family, dtype):
    a, b = pair(family, 1, dtype=dtype)
    c = addend(a, b, 2)
    for alpha, beta in SCALARS:
        result = widen.gemm(a, b, c, alpha=alpha, beta=beta, accuracy="correct")
        expected = correctly_rounded(a, b, dtype, alpha=alpha, beta=beta, c=c)
        assert same_bits(result, expected), (alpha, beta)


@families
@pytest.mark.parametrize("dtype", ["complex128", "complex64"])
def test_complex_scalars_rounded_once(family, dtype):
    a, b = pair(family, 3, 4, 6, 5, dtype=dtype)
    c = addend(a, b, 4)
    for alpha, beta in [(1 - 2j, 0.1 + 0.3j), (1j, -1.0), (0.7, 1j), (-1.0, 1.0), (0.1j, 0.0)]:
        result = widen.gemm(a, b, c, alpha=alpha, beta=beta, accuracy="correct")
        expected = correctly_rounded(a, b, dtype, alpha=alpha, beta=beta, c=c)
        assert same_bits(result, expected), (alpha, beta)


@pytest.mark.parametrize("family", ["phi1", "cancellation", "extremes"])
def test_complex_scalars_and_addends_for_real_operands(family):
    a, b = pair(family, 5)
    c = addend(a, b, 6)
    cases = [(1j, 0.0, c), (0.3 - 1j, 2.0, c), (1.0, 1j, c), (-1.0, 1.0, c + 1j), (1.0, 2j, 1j * c)]
    for alpha, beta, added in cases:
        result = widen.gemm(
            a, b, added, alpha=alpha, beta=beta, accuracy="correct", dtype="complex128"
        )
        expected = correctly_rounded(a, b, "complex128", alpha=alpha, beta=beta, c=added)
        assert same_bits(result, expected), (alpha, beta)


@pytest.mark.parametrize("unit", UNITS)
@pytest.mark.parametrize("system", SYSTEMS)
def test_every_unit_and_system_rounds_once(unit, system):
    for family, dtype in [("phi2", "float64"), ("cancellation", "float64"), ("phi1", "complex64")]:
        a, b = pair(family, 7, dtype=dtype)
        c = addend(a, b, 8)
        options = {"alpha": -0.3, "beta": 1.7, "accuracy": "correct"}
        result = widen.gemm(a, b, c, unit=unit, system=system, **options)
        assert same_bits(result, correctly_rounded(a, b, dtype, alpha=-0.3, beta=1.7, c=c))


@settings(max_examples=60, deadline=None)
@given(
    m=st.integers(1, 5),
    k=st.integers(1, 12),
    n=st.integers(1, 5),
    seed=st.integers(0, 2**32 - 1),
    family=st.sampled_from(list(FAMILIES)),
    alpha=st.floats(allow_nan=False, allow_infinity=False),
    beta=st.floats(allow_nan=False, allow_infinity=False),
)
def test_any_scalars(m, k, n, seed, family, alpha, beta):
    a, b = pair(family, seed, m, k, n)
    c = addend(a, b, seed)
    result = widen.gemm(a, b, c, alpha=alpha, beta=beta, accuracy="correct")
    assert same_bits(result, correctly_rounded(a, b, alpha=alpha, beta=beta, c=c))


@contracts
def test_one_and_nothing_is_matmul(accuracy):
    for dtype in ("float64", "float32", "complex128"):
        a, b = pair("phi1", 9, dtype=dtype)
        assert same_bits(widen.gemm(a, b, accuracy=accuracy), widen.matmul(a, b, accuracy=accuracy))


@contracts
@pytest.mark.parametrize("dtype", ["float64", "complex64"])
def test_without_beta_nothing_is_read_from_c(accuracy, dtype):
    a, b = pair("phi1", 10, dtype=dtype)
    expected = widen.gemm(a, b, alpha=0.3, accuracy=accuracy)
    for c in (None, np.full((6, 7), np.nan, dtype), np.full((6, 7), -np.inf, dtype)):
        for beta in (0, 0.0, -0.0, 0j):
            out = np.full((6, 7), 7.0, dtype)  # what is not written shows
            widen.gemm(a, b, c, alpha=0.3, beta=beta, accuracy=accuracy, out=out)
            assert same_bits(out, expected)
    target = np.full((6, 7), np.nan, dtype)
    assert widen.gemm(a, b, target, alpha=0.3, beta=0.0, accuracy=accuracy, out=target) is target
    assert same_bits(target, expected)


@contracts
@pytest.mark.parametrize("special", [np.nan, np.inf, -np.inf])
def test_without_alpha_nothing_is_read_from_a_and_b(accuracy, special):
    a, b = np.full((6, 9), special), np.full((9, 7), special)
    c = np.random.default_rng(11).standard_normal((6, 7))
    for alpha in (0, 0.0, -0.0, 0j):
        result, info = widen.gemm(
            a, b, c, alpha=alpha, beta=0.1, accuracy=accuracy, info=True,
            dtype="complex128" if isinstance(alpha, complex) else None,
        )  # fmt: skip
        exact = Exact.of(np.array([[0.1]])) * Exact.of(c)
        assert same_bits(result, exact.rounded(result.dtype))
        assert above(Exact.of(result) - exact, info.bound) == 0
        assert (info.bound <= 2.0**-53 * np.abs(c)).all()
    nothing = widen.gemm(a, b, alpha=0.0, accuracy=accuracy)
    assert same_bits(nothing, np.zeros((6, 7)))


@contracts
@pytest.mark.parametrize("workspace", [None, 65536])
def test_c_may_be_out(accuracy, workspace):
    a, b = pair("one huge", 12, 40, 30, 50)
    c = addend(a, b, 13)
    options = {"alpha": -1.0, "beta": 1.0, "accuracy": accuracy, "workspace": workspace}
    expected, info = widen.gemm(a, b, c, info=True, **options)
    assert info.repaired > 0 or isinstance(accuracy, int)  # which reads c once more
    for order in "CF":
        target = np.array(c, order=order)
        assert widen.gemm(a, b, target, out=target, **options) is target
        assert same_bits(target, expected)
    shifted = np.zeros((41, 50))
    shifted[:40] = c
    widen.gemm(a, b, shifted[:40], out=shifted[1:], **options)
    assert same_bits(shifted[1:], expected)
    square = a[:30].copy()
    result = widen.gemm(square, square, square, out=square, **options)
    assert same_bits(result, widen.gemm(a[:30], a[:30], a[:30], **options))


@pytest.mark.parametrize(
    "shape", [(1,), (7,), (1, 7), (6, 1), (1, 1), (6, 7), (1, 6, 7), (5, 1, 1), (5, 6, 7)]
)
def test_c_broadcasts_to_the_result(shape):
    rng = np.random.default_rng(14)
    a, b, c = rng.standard_normal((5, 6, 9)), rng.standard_normal((9, 7)), rng.random(shape)
    result = widen.gemm(a, b, c, beta=-0.7, accuracy="correct")
    full = np.broadcast_to(c, (5, 6, 7))
    assert same_bits(result, widen.gemm(a, b, full.copy(), beta=-0.7, accuracy="correct"))
    for item in range(5):
        assert same_bits(
            result[item], correctly_rounded(a[item], b, beta=-0.7, c=np.array(full[item]))
        )


def test_vectors_and_batches():
    rng = np.random.default_rng(15)
    v, w, a, b = (rng.standard_normal(shape) for shape in (9, 9, (6, 9), (4, 9, 7)))
    options = {"alpha": 0.3, "beta": -1.1, "accuracy": "correct"}
    c = rng.standard_normal(6)
    expected = correctly_rounded(a, w[:, None], alpha=0.3, beta=-1.1, c=c[:, None])[:, 0]
    assert same_bits(widen.gemm(a, w, c, **options), expected)
    c = rng.standard_normal((4, 7))
    result = widen.gemm(v, b, c, **options)
    for item in range(4):
        expected = correctly_rounded(v[None], b[item], alpha=0.3, beta=-1.1, c=c[item][None])[0]
        assert same_bits(result[item], expected)
    c = rng.standard_normal((4, 1, 7))
    result = widen.gemm(a, b, c, **options)
    for item in range(4):
        full = np.repeat(c[item], 6, axis=0)
        assert same_bits(result[item], correctly_rounded(a, b[item], alpha=0.3, beta=-1.1, c=full))


@pytest.mark.parametrize("c", [np.array(0.75), np.float64(0.75)])
def test_an_inner_product_takes_an_addend_of_no_dimensions(c):
    v, w = np.array([0.1, 0.2]), np.array([0.3, 0.4])
    result = widen.gemm(v, w, c, alpha=-1.0, beta=1.0, accuracy="correct")
    expected = correctly_rounded(v[None], w[:, None], alpha=-1.0, beta=1.0, c=[[0.75]])[0, 0]
    assert isinstance(result, np.float64)
    assert same_bits(result, expected)


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", ">f8"])
def test_c_of_other_formats_and_strides(dtype):
    a, b = pair("phi1", 16)
    c = np.random.default_rng(17).standard_normal((7, 6)).astype(dtype).T[:, ::-1]
    expected = correctly_rounded(a, b, alpha=2.0, beta=0.3, c=np.array(c, "float64"))
    for form in (c, c.copy(), np.asfortranarray(c)):
        form.flags.writeable = False
        assert same_bits(widen.gemm(a, b, form, alpha=2.0, beta=0.3, accuracy="correct"), expected)


@pytest.mark.parametrize("scale", [-1074, -1000, -500, 500, 1000, 1023])
def test_extreme_scalars(scale):
    alpha = 2.0**scale
    rng = np.random.default_rng(18)
    a, b = rng.standard_normal((5, 9)), rng.standard_normal((9, 4))
    c = rng.standard_normal((5, 4))
    for move_a, move_b in [(0, 0), (-scale // 2, -scale // 2), (500, 500), (-500, -500)]:
        left, right = (np.ldexp(x, np.clip(e, -960, 960)) for x, e in ((a, move_a), (b, move_b)))
        for beta in (0.0, 1.0, 2.0**-1074, -(2.0**1023)):
            result = widen.gemm(left, right, c, alpha=alpha, beta=beta, accuracy="correct")
            expected = correctly_rounded(left, right, alpha=alpha, beta=beta, c=c)
            assert same_bits(result, expected)


@pytest.mark.parametrize("system", SYSTEMS)
def test_the_smallest_products_of_three(system):
    """2^-3222 fits sums, and so does the limb of 32 bits of a b that it lies in."""
    rng = np.random.default_rng(19)
    a, b = (np.ldexp(rng.uniform(1, 2, 150), rng.integers(-300, 300, 150)) for _ in range(2))
    a, b = a.reshape(5, 30), b.reshape(30, 5)
    a[:, 0], b[0], c = 2.0**-1074, 2.0**-1074, rng.standard_normal((5, 5))
    for left, right in [(a, b), (a[:, :1], b[:1])]:
        for alpha in (2.0**-1074, -1e-310):
            expected = correctly_rounded(left, right, alpha=alpha, beta=1e-3, c=c)
            for accuracy in CONTRACTS:
                options = {"accuracy": accuracy, "system": system}
                result = widen.gemm(left, right, c, alpha=alpha, beta=1e-3, **options)
                assert same_bits(result, expected)


def test_huge_products_scaled_back_into_the_range():
    a, b = np.full((1, 3), 2.0**1000), np.full((3, 1), 2.0**1000)
    result = widen.gemm(a, b, alpha=2.0**-1000, accuracy="correct")
    assert result[0, 0] == 3 * 2.0**1000
    result = widen.gemm(a, b, [[1.0]] * np.ones((1, 1)), alpha=2.0**-1074, beta=1.0)
    assert result[0, 0] == 3 * 2.0**926
    tiny = widen.gemm(
        np.full((1, 3), 2.0**-1000), np.full((3, 1), 2.0**-1000), alpha=2.0**1000, accuracy="fast"
    )
    assert tiny[0, 0] == 3 * 2.0**-1000


@contracts
@pytest.mark.parametrize("dtype", ["float64", "float32", "complex128"])
def test_exact_cancellation_is_positive_zero(accuracy, dtype):
    rng = np.random.default_rng(19)
    a = rng.integers(-50, 50, (6, 9)).astype(dtype)
    b = rng.integers(-50, 50, (9, 7)).astype(dtype)
    product = a @ b
    for alpha, beta in [(1.0, -1.0), (-1.0, 1.0), (0.5, -0.5), (-0.25, 0.25)]:
        result = widen.gemm(a, b, product, alpha=alpha, beta=beta, accuracy=accuracy)
        assert same_bits(result, np.zeros((6, 7), dtype))
    negative_zero = widen.gemm(-np.zeros((2, 2)), np.ones((2, 2)), -np.zeros((2, 2)), beta=1.0)
    assert same_bits(negative_zero, np.zeros((2, 2)))


@contracts
def test_a_residual_is_what_the_product_lost(accuracy):
    rng = np.random.default_rng(20)
    a, x = rng.standard_normal((30, 40)), rng.standard_normal((40, 3))
    b = a @ x
    result, info = widen.gemm(a, x, b, alpha=-1.0, beta=1.0, accuracy=accuracy, info=True)
    assert above(Exact.of(result) - exact_value(a, x, -1.0, 1.0, b), info.bound) == 0
    if accuracy == "correct":
        assert same_bits(result, correctly_rounded(a, x, alpha=-1.0, beta=1.0, c=b))


@families
@pytest.mark.parametrize("accuracy", ["fast", "standard", "correct", 30])
def test_the_certified_bound_holds(family, accuracy):
    for dtype in ("float64", "float32", "complex128"):
        a, b = pair(family, 21, 8, 40, 6, dtype=dtype)
        c = addend(a, b, 22)
        for alpha, beta in [(1.0, 1.0), (-0.3, 0.7), (2.0**-40, 1.0), (1e30, -1e-30)]:
            result, info = widen.gemm(a, b, c, alpha=alpha, beta=beta, accuracy=accuracy, info=True)
            assert info.bound.shape == result.shape
            assert not np.isnan(info.bound).any()
            assert (info.bound >= 0).all()
            assert np.isinf(info.bound[~np.isfinite(result)]).all()
            shown = np.where(np.isfinite(result), result, 0)
            bound = np.where(np.isfinite(result), info.bound, np.inf)
            assert above(Exact.of(shown) - exact_value(a, b, alpha, beta, c), bound) == 0


def test_the_bound_of_an_exact_zero_is_small():
    a, b = np.array([[1e-200, 1e-200]]), np.array([[1e-100], [-1e-100]])
    result, info = widen.matmul(a, b, accuracy="correct", info=True)
    assert same_bits(result, np.zeros((1, 1)))
    assert info.bound[0, 0] <= 2.0**-1074


def test_complex_bounds_hold_with_complex_scalars():
    a, b = pair("phi2", 23, 8, 40, 6, dtype="complex128")
    c = addend(a, b, 24)
    for alpha, beta in [(1j, 1.0), (3 - 4j, 0.1j), (1e-20 + 1e-20j, 1.0)]:
        result, info = widen.gemm(a, b, c, alpha=alpha, beta=beta, info=True)
        assert above(Exact.of(result) - exact_value(a, b, alpha, beta, c), info.bound) == 0


@pytest.mark.parametrize(
    ("b", "units"), [([2.0**29, 4, 0.5j], 33), ([2.0**29 * (1 + 1j), 4 + 4j, 0], 46)]
)
def test_complex_bounds_hold_among_subnormal_numbers(b, units):
    """Errors are 32 units and half of one, or 32 and 32: no bound is between units."""
    a, b = np.array([[2.0**29, 8, 1]]), np.array(b)[:, None]
    for accuracy in ("correct", "standard"):
        result, info = widen.gemm(a, b, alpha=2.0**-1074, accuracy=accuracy, info=True)
        wanted = exact_value(a, b, 2.0**-1074, 0.0, np.zeros((1, 1)))
        assert above(Exact.of(result) - wanted, info.bound) == 0
        assert info.bound == units * 2.0**-1074


@contracts
def test_nan_and_infinities_in_c(accuracy):
    rng = np.random.default_rng(25)
    a, b, c = (rng.standard_normal(shape) for shape in ((6, 9), (9, 7), (6, 7)))
    clean = widen.gemm(a, b, c, alpha=0.5, beta=-2.0, accuracy=accuracy)
    c[1, 2], c[3, 4], c[5, 6] = np.nan, np.inf, -np.inf
    result, info = widen.gemm(a, b, c, alpha=0.5, beta=-2.0, accuracy=accuracy, info=True)
    assert np.isnan(result[1, 2])
    assert result[3, 4] == -np.inf
    assert result[5, 6] == np.inf
    others = np.isfinite(c)
    assert same_bits(result[others], clean[others])
    assert np.isnan(info.bound[1, 2])
    assert np.isinf(info.bound[3, 4])


@contracts
def test_nan_and_infinities_in_the_product_meet_c(accuracy):
    inf, nan = np.inf, np.nan
    a, b = np.array([[inf, 1.0], [1.0, 2.0], [nan, 1.0]]), np.array([[1.0], [1.0]])
    c = np.array([[-1.0], [inf], [inf]])
    options = {"accuracy": accuracy}
    result = widen.gemm(a, b, c, beta=1.0, **options)
    assert result[:2, 0].tolist() == [inf, inf]
    assert np.isnan(result[2, 0])
    result = widen.gemm(a, b, c, alpha=-2.0, beta=-1.0, **options)
    assert result[:2, 0].tolist() == [-inf, -inf]
    opposite = widen.gemm(a[:1], b, np.array([[-inf]]), beta=1.0, **options)
    assert np.isnan(opposite[0, 0])
    finite = widen.gemm(a[:1], b, np.array([[-1e300]]), beta=1e300, **options)
    assert finite[0, 0] == inf  # beta c is a finite number, however large


def test_special_lines_among_rounded_ones_stay_within_the_sums(monkeypatch):
    """The error of X, which columns that were rounded leave, times 2^-NOTHING is nowhere."""
    rng = np.random.default_rng(26)
    a, b = (np.ldexp(rng.standard_normal(s), rng.integers(-300, 300, s)) for s in ((6, 9), (9, 7)))
    clean = widen.gemm(a, b, alpha=2.5, accuracy="correct")
    a[3, 4], a[5, 2] = np.inf, np.nan
    seen = []

    def launch(kernel, jobs, work, *arguments):
        seen.extend(np.abs(x).max() for x in arguments[6:8] if kernel is kernels.scaling.scaled)
        if not seen or max(seen) < 5000:  # else it would write wherever that is
            found(kernel, jobs, work, *arguments)

    found = cpu_threads.launch
    monkeypatch.setattr(cpu_reconstruct, "launch", launch)
    result = widen.gemm(a, b, alpha=2.5, accuracy="correct")
    assert 0 < max(seen) < 5000
    assert np.isinf(result[3]).all()
    assert np.isnan(result[5]).all()
    assert same_bits(result[[0, 1, 2, 4]], clean[[0, 1, 2, 4]])


@contracts
def test_an_infinity_in_c_outweighs_any_finite_product(accuracy):
    a, b = np.array([[1e300]]), np.array([[1e300]])
    for sign in (1.0, -1.0):
        result = widen.gemm(sign * a, b, np.array([[-sign * np.inf]]), beta=1.0, accuracy=accuracy)
        assert result[0, 0] == -sign * np.inf


def test_overflow_of_the_sum_alone():
    a, b = np.array([[2.0**1000]]), np.array([[2.0**23]])
    for c, expected in [(2.0**1023, np.inf), (-(2.0**1023), 0.0), (2.0**970, None)]:
        result = widen.gemm(a, b, np.array([[c]]), beta=1.0, accuracy="correct")
        if expected is None:
            expected = correctly_rounded(a, b, beta=1.0, c=[[c]])[0, 0]
        assert same_bits(result[0, 0], np.float64(expected))
    single = np.array([[2.0**100]], "float32")
    result = widen.gemm(single, single, alpha=2.0**-100, accuracy="correct")
    assert same_bits(result, single)


BAD_SCALARS = [
    (np.nan, ValueError, "not finite"),
    (np.inf, ValueError, "not finite"),
    (-np.inf, ValueError, "not finite"),
    (complex(np.inf, 0), ValueError, "not finite"),
    (complex(0, np.nan), ValueError, "not finite"),
    pytest.param(10**400, ValueError, "not finite", id="10**400"),
    (None, TypeError, "not a number"),
    ("2", TypeError, "not a number"),
    (b"2", TypeError, "not a number"),
    (True, TypeError, "not a number"),
    (np.ones(3), TypeError, "not a number"),
    (np.ones((1, 1)), TypeError, "not a number"),
    ([1.0], TypeError, "not a number"),
]


@pytest.mark.parametrize("name", ["alpha", "beta"])
@pytest.mark.parametrize(("value", "error", "words"), BAD_SCALARS)
def test_scalars_that_are_refused(name, value, error, words):
    a, b, c = np.ones((2, 3)), np.ones((3, 2)), np.ones((2, 2))
    with pytest.raises(error, match=words) as caught:
        widen.gemm(a, b, c, **{name: value})
    assert str(caught.value).startswith(f"{name}=")
    assert "\n" not in str(caught.value)


def test_scalars_of_other_types():
    a, b, c = np.ones((1, 1)), np.ones((1, 1)), np.full((1, 1), 3.0)
    for two in (2, np.float32(2), np.int64(2), np.array(2.0), np.float64(2)):
        assert widen.gemm(a, b, c, alpha=two, beta=two)[0, 0] == 8.0


def test_an_integer_that_is_no_float_is_not_rounded_silently():
    a, b, c = np.ones((1, 1)), np.ones((1, 1)), np.full((1, 1), -(2.0**53))
    with pytest.raises(ValueError, match="alpha="):
        widen.gemm(a, b, c, alpha=2**53 + 1, beta=1.0, accuracy="correct")


@pytest.mark.parametrize(
    ("c", "error", "words"),
    [
        (np.ones((3, 2)), ValueError, ["(3, 2)", "broadcast", "(2, 2)"]),
        (np.ones((5, 2, 2)), ValueError, ["(5, 2, 2)", "broadcast", "(2, 2)"]),
        (np.ones(3), ValueError, ["(3,)", "broadcast"]),
        (np.full((2, 2), 2**53 + 1), ValueError, ["9007199254740993", "Words"]),
        ([["1", "2"], ["3", "4"]], TypeError, ["c holds str32", "c.astype(float)"]),
        (np.ma.ones((2, 2)), TypeError, ["c is a masked array", "c.filled(0)"]),
        (np.ones((2, 2), complex), ValueError, ["complex", "float64", "dtype='complex128'"]),
        (None, ValueError, ["beta=1", "no c", "beta=0"]),
    ],
)
def test_addends_that_are_refused(c, error, words):
    with pytest.raises(error) as caught:
        widen.gemm(np.ones((2, 3)), np.ones((3, 2)), c, beta=1.0)
    assert "\n" not in str(caught.value)
    for word in words:
        assert word in str(caught.value)


@pytest.mark.parametrize(
    "c", [np.full((2, 2), 2**53), np.ones((2, 2), bool), [[1, 2], [3, 4]], [0.1, 0.2], 7]
)
def test_addends_that_are_taken_exactly(c):
    a, b = np.full((2, 3), 0.1), np.full((3, 2), 0.3)
    given = widen.gemm(a, b, c, beta=1.0, accuracy="correct")
    as_floats = widen.gemm(a, b, np.asarray(c, float), beta=1.0, accuracy="correct")
    assert_same_bits(given, as_floats)


@pytest.mark.parametrize("scalars", [{"alpha": 1j}, {"beta": 1j}])
def test_complex_scalars_need_a_complex_result(scalars):
    a, b, c = np.ones((2, 3)), np.ones((3, 2)), np.ones((2, 2))
    with pytest.raises(ValueError, match="use dtype='complex128'"):
        widen.gemm(a, b, c, **scalars)
    single = [x.astype("float32") for x in (a, b, c)]
    with pytest.raises(ValueError, match="complex"):
        widen.gemm(*single, **scalars)


def test_empty_products_still_add():
    c = np.array([[0.1, -0.0], [np.inf, 3.0]])
    result = widen.gemm(np.ones((2, 0)), np.ones((0, 2)), c, alpha=5.0, beta=2.0)
    assert same_bits(result, np.array([[0.2, 0.0], [np.inf, 6.0]]))
    assert widen.gemm(np.ones((0, 3)), np.ones((3, 2)), np.ones((0, 2)), beta=1.0).shape == (0, 2)


def test_encoded_operands_scale_and_add():
    a, b = pair("phi1", 26)
    c = addend(a, b, 27)
    encoded = widen.encode(b, side="right", accuracy="correct")
    result = widen.gemm(a, encoded, c, alpha=-1.0, beta=1.0)
    assert same_bits(result, correctly_rounded(a, b, alpha=-1.0, beta=1.0, c=c))


@pytest.mark.parametrize("system", SYSTEMS)
@contracts
def test_complex_scalars_for_real_operands_keep_every_contract(accuracy, system):
    for family in ("phi1", "cancellation", "one huge"):
        a, b = pair(family, 28, 20, 30, 25)
        c = addend(a, b, 29)
        for alpha, beta in [(1j, 0.0), (0.3 - 1j, 1.0), (1.0, 1j)]:
            result, info = widen.gemm(
                a, b, c, alpha=alpha, beta=beta, accuracy=accuracy, system=system, info=True,
                dtype="complex128",
            )  # fmt: skip
            assert above(Exact.of(result) - exact_value(a, b, alpha, beta, c), info.bound) == 0
