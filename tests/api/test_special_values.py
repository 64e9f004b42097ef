"""NaN, infinities, overflow, subnormals and signed zeros: what the sum of products defines."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import widen
from widen.contract import CONTRACTS
from widen.formats import FORMATS, PLAIN
from widen.systems import SYSTEMS
from widen.testing import FAMILIES, as_format, check_contract, correctly_rounded
from widen.units import UNITS

INF, NAN = np.inf, np.nan
EVERY_CONTRACT = [*CONTRACTS, 30]
CHOICES = list(itertools.product(UNITS, SYSTEMS))
contracts = pytest.mark.parametrize("accuracy", EVERY_CONTRACT)
results = pytest.mark.parametrize("dtype", PLAIN)
reals = pytest.mark.parametrize("dtype", ["float64", "float32"])


def same(x, y):
    """Equal bits, but for the bits of a NaN."""
    x, y = np.asarray(x), np.asarray(y)
    if x.shape != y.shape or x.dtype != y.dtype:
        return False
    if x.dtype.kind == "c":
        return same(x.real, y.real) and same(x.imag, y.imag)
    nan = np.isnan(x)
    signs = np.signbit(x) == np.signbit(y)
    return bool((nan == np.isnan(y)).all() and (nan | ((x == y) & signs)).all())


def stand_in(x):
    """Finite numbers by their signs, so that no sum of theirs is special."""
    x = float(x)
    return x if not np.isfinite(x) else (x > 0) * 1.0 - (x < 0) * 1.0


def by_definition(a, b):
    """Sums of products, term by term, where a row or a column is special; 0 elsewhere."""
    complex_ = np.iscomplexobj(a) or np.iscomplexobj(b)
    out = np.zeros((a.shape[0], b.shape[1]), complex if complex_ else float)
    mask = ~np.isfinite(a).all(axis=1)[:, None] | ~np.isfinite(b).all(axis=0)[None, :]
    for i, j in zip(*np.nonzero(mask), strict=True):
        real = imaginary = 0.0
        for x, y in zip(a[i], b[:, j], strict=True):
            p, q, r, s = (stand_in(v) for v in (x.real, x.imag, y.real, y.imag))
            real = real + p * r
            if complex_:
                real = real - q * s
                imaginary = imaginary + p * s + q * r
        out[i, j] = complex(real, imaginary) if complex_ else real
        if complex_:
            out.real[i, j], out.imag[i, j] = real, imaginary
    return out, mask


def check(a, b, **options):
    """Special where the definition is, with its value; everything else as if nothing were."""
    result = widen.matmul(a, b, **options)
    expected, mask = by_definition(a, b)
    assert same(result[mask], expected[mask].astype(result.dtype))
    assert not np.isfinite(result[mask]).any()
    clean_a = np.where(np.isfinite(a).all(axis=1)[:, None], a, 0).astype(a.dtype)
    clean_b = np.where(np.isfinite(b).all(axis=0)[None, :], b, 0).astype(b.dtype)
    clean = widen.matmul(clean_a, clean_b, **options)
    assert result[~mask].tobytes() == clean[~mask].tobytes()
    return result


def draw(seed, shape, dtype):
    rng = np.random.default_rng(seed)
    x = rng.standard_normal(shape)
    if np.dtype(dtype).kind == "c":
        x = x + 1j * rng.standard_normal(shape)
    return x.astype(dtype)


@contracts
@results
@pytest.mark.parametrize("value", [NAN, INF, -INF])
def test_one_special_entry(accuracy, dtype, value):
    a, b = draw(1, (6, 9), dtype), draw(2, (9, 7), dtype)
    a[2, 4] = value
    result = check(a, b, accuracy=accuracy)
    assert np.isfinite(np.delete(result, 2, axis=0)).all()
    b[1, 3] = value
    check(a, b, accuracy=accuracy)
    check(draw(3, (6, 9), dtype), b, accuracy=accuracy)


@contracts
@pytest.mark.parametrize("dtype", ["complex128", "complex64"])
@pytest.mark.parametrize(
    "value",
    [complex(INF, 0), complex(0, -INF), complex(NAN, 1), complex(INF, INF), complex(1, NAN)],
)
def test_one_special_part(accuracy, dtype, value):
    a, b = draw(4, (4, 5), dtype), draw(5, (5, 6), dtype)
    a[2, 4] = value
    check(a, b, accuracy=accuracy)
    b[0, 1] = value
    check(a, b, accuracy=accuracy)
    check(np.ascontiguousarray(a.real), b, accuracy=accuracy)
    check(a, np.ascontiguousarray(b.real), accuracy=accuracy)


@contracts
def test_infinity_times_zero_and_infinity_less_infinity(accuracy):
    cases = [
        ([INF], [0.0], NAN),
        ([INF], [-0.0], NAN),
        ([INF], [1e-300], INF),
        ([-INF], [5e-324], -INF),
        ([INF, 1.0], [1.0, -1e308], INF),
        ([INF, INF], [1.0, -1.0], NAN),
        ([INF, -INF], [1.0, -1.0], INF),
        ([INF, 1.0], [1.0, -INF], NAN),
        ([INF, 1.0], [-1.0, -INF], -INF),
        ([INF, 0.0], [INF, 1.0], INF),
        ([INF], [-INF], -INF),
        ([NAN, 0.0], [0.0, 1.0], NAN),
        ([0.0, 1.0], [NAN, 1.0], NAN),
        ([1e308, 1e308, -INF], [1e308, 1e308, 1.0], -INF),
        ([INF, -1e308, -1e308], [1.0, 1e308, 1e308], INF),
    ]
    for left, right, expected in cases:
        a, b = np.array([left]), np.array(right)[:, None]
        result, info = widen.matmul(a, b, accuracy=accuracy, info=True)
        assert same(result[0, 0], np.float64(expected)), (left, right)
        assert np.isnan(info.bound[0, 0]) if np.isnan(expected) else np.isinf(info.bound[0, 0])


SPECIALS = [NAN, INF, -INF, 0.0, -0.0, 1.0, -1.5, 5e-324, -1e308]


@settings(max_examples=100, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    dtype=st.sampled_from(["float64", "float32", "complex128", "complex64"]),
    accuracy=st.sampled_from(EVERY_CONTRACT),
    share=st.floats(0.01, 0.9),
)
def test_special_values_anywhere(seed, dtype, accuracy, share):
    rng = np.random.default_rng(seed)
    m, k, n = rng.integers(1, 7, 3)

    def operand(shape):
        x = draw(seed, shape, dtype)
        for part in (x.real, x.imag) if x.dtype.kind == "c" else (x,):
            where = rng.random(shape) < share
            with np.errstate(over="ignore"):
                part[where] = rng.choice(SPECIALS, shape)[where].astype(part.dtype)
        return x

    check(operand((m, k)), operand((k, n)), accuracy=accuracy)


@pytest.mark.parametrize(("unit", "system"), CHOICES)
def test_every_unit_and_system(unit, system):
    a, b = draw(6, (5, 8), "float64"), draw(7, (8, 6), "float64")
    a[1, 2], a[3, 4], b[2, 5], b[4, 0] = INF, NAN, 0.0, -INF
    for accuracy in EVERY_CONTRACT:
        check(a, b, unit=unit, system=system, accuracy=accuracy)
        check(a + 1j * b[:5].T[:5, :1], b, unit=unit, system=system, accuracy=accuracy)


@contracts
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_half_formats(accuracy, dtype):
    a = as_format(draw(8, (4, 5), "float64"), dtype if dtype == "float16" else "bfloat16")
    b = as_format(draw(9, (5, 3), "float64"), a.dtype)
    a[1, 2], b[0, 1] = INF, NAN
    result = widen.matmul(a, b, accuracy=accuracy, dtype="float32")
    wide = widen.matmul(a.astype("float32"), b.astype("float32"), accuracy=accuracy)
    assert same(result, wide)
    half = widen.matmul(a, b, accuracy=accuracy)
    assert half.dtype == a.dtype
    special = ~np.isfinite(wide)
    assert same(half.astype("float32")[special], wide[special])
    assert np.isfinite(half[~special].astype(float)).all()
    assert np.isnan(result[:, 1]).all()
    assert np.isinf(result[1, 0])


@contracts
def test_batches_with_specials_in_one_item(accuracy):
    a, b = draw(10, (3, 4, 5), "float64"), draw(11, (3, 5, 6), "float64")
    clean = widen.matmul(a, b, accuracy=accuracy)
    a[1, 2, 3], b[2, 0, 0] = INF, NAN
    result = widen.matmul(a, b, accuracy=accuracy)
    assert result[0].tobytes() == clean[0].tobytes()
    for item in (1, 2):
        assert same(result[item], widen.matmul(a[item], b[item], accuracy=accuracy))
    shared = widen.matmul(a, b[0], accuracy=accuracy)
    for item in range(3):
        assert same(shared[item], widen.matmul(a[item], b[0], accuracy=accuracy))


@contracts
def test_specials_in_small_blocks_and_long_rows(accuracy):
    a, b = draw(12, (30, 700), "float64"), draw(13, (700, 40), "float64")
    a[7, 699], b[0, 33] = INF, NAN
    small = check(a, b, accuracy=accuracy, workspace=65536)
    assert same(small, widen.matmul(a, b, accuracy=accuracy))


@contracts
@reals
def test_specials_among_many_open_elements(accuracy, dtype):
    """Repair by exact products of rows and columns knows nothing of the special ones."""
    spread = 300 if dtype == "float64" else 30
    rng = np.random.default_rng(41)
    a, b = draw(41, (60, 50), dtype), draw(42, (50, 40), dtype)
    a, b = (np.ldexp(x, rng.integers(-spread, spread, x.shape)) for x in (a, b))
    a[3, 4], a[9, 0], b[7, 5] = INF, NAN, -INF
    check(a, b, accuracy=accuracy)


@contracts
def test_encoded_operands_keep_their_specials(accuracy):
    a, b = draw(14, (6, 9), "float64"), draw(15, (9, 7), "float64")
    a[1, 1], b[3, 3] = -INF, INF
    expected = widen.matmul(a, b, accuracy=accuracy)
    left = widen.encode(a, side="left", accuracy=accuracy)
    right = widen.encode(b, side="right", accuracy=accuracy)
    for x, y in ((left, b), (a, right), (left, right)):
        assert same(widen.matmul(x, y), expected)


@contracts
@reals
def test_overflow_beyond_the_range(accuracy, dtype):
    top = FORMATS[dtype].highest
    large = np.ldexp(1.0, top - 1)
    a = np.array([[large, large], [-large, -large], [large, -large], [large, 0.0]], dtype)
    b = np.array([[2.0, 1.0], [2.0, 1.0]], dtype)
    expected = np.array([[INF, INF], [-INF, -INF], [0.0, 0.0], [INF, large]], dtype)
    result, info = widen.matmul(a, b, accuracy=accuracy, info=True)
    assert same(result, expected)
    assert np.isinf(info.bound[np.isinf(expected)]).all()
    assert np.isfinite(info.bound[np.isfinite(expected)]).all()


@contracts
def test_float64_operands_overflow_a_float32_result(accuracy):
    a = np.array([[1e30, 1e-30], [1e300, -1e300]])
    b = np.array([[1e9, 1e8, -1.0], [1.0, 1.0, -1.0]])
    result = widen.matmul(a, b, accuracy=accuracy, dtype="float32")
    assert same(result[0], np.array([INF, 1e38, -1e30], "float32"))
    assert result[1].tolist() == [INF, INF, 0.0]
    tiny = widen.matmul(a * 1e-290, b * 1e-290, accuracy=accuracy, dtype="float32")
    assert not tiny.any()


@reals
def test_rounding_at_the_edge_of_the_range(dtype):
    fmt = FORMATS[dtype]
    largest = np.finfo(dtype).max
    half = np.ldexp(1.0, fmt.highest - fmt.precision - 1)  # half an ulp of the largest number
    smallest = np.ldexp(1.0, fmt.lowest)
    a = np.array([[largest, half, smallest]], dtype)
    b = np.array(
        [[1.0, 1.0, 1.0, -1.0, -1.0], [0.0, 1.0, 1.0, -1.0, -1.0], [1.0, 0.0, -1.0, 0.0, 1.0]],
        dtype,
    )
    expected = np.array([[largest, INF, largest, -INF, -largest]], dtype)
    assert same(widen.matmul(a, b, accuracy="correct"), expected)
    assert same(correctly_rounded(a, b, dtype), expected)


@contracts
@results
def test_intermediate_overflow_is_no_overflow(accuracy, dtype):
    part = FORMATS[dtype].part
    large = np.ldexp(1.0, part.highest - 1)
    a = np.array([[large, large, 3.0, -large, -large]], dtype)
    b = np.array([[large], [large], [1.0], [large], [large]], dtype)
    result = widen.matmul(a, b, accuracy=accuracy)
    assert np.isfinite(result).all()
    assert check_contract(result, a, b, accuracy) == 0
    if accuracy == "correct":
        assert same(result, np.array([[3.0]], dtype))
    a = np.array([[large, large, -large, -large / 2]], dtype)
    assert same(
        widen.matmul(a, np.ones((4, 1), dtype), accuracy=accuracy), np.array([[large / 2]], dtype)
    )


@contracts
@pytest.mark.parametrize("family", ["subnormals", "extremes", "graded against"])
@results
def test_subnormals_and_extremes_keep_their_contract(accuracy, family, dtype):
    rng = np.random.default_rng(16)
    a, b = (as_format(x, FORMATS[dtype].part.name) for x in FAMILIES[family].make(rng, 9, 11, 8))
    if FORMATS[dtype].parts == 2:
        a, b = (np.stack([x, x[::-1]], axis=-1).view(dtype)[..., 0] for x in (a, b))
    result = widen.matmul(a, b, accuracy=accuracy)
    assert check_contract(result, a, b, accuracy) == 0


@reals
def test_subnormal_results_are_rounded_once(dtype):
    fmt = FORMATS[dtype]
    smallest = np.ldexp(1.0, fmt.lowest)
    a = np.array([[smallest, smallest, np.ldexp(1.0, fmt.lowest + 30)]], dtype)
    factors = [0.5, 0.5 + 2.0**-20, 1.5, 0.25, 0.75, 2.5, 0.4999]
    for factor, extra in itertools.product(factors, [0.0, 2.0**-31, -(2.0**-31), 2.0**-40]):
        b = np.array([[factor], [0.0], [extra]], dtype)
        expected = correctly_rounded(a, b, dtype)
        assert same(widen.matmul(a, b, accuracy="correct"), expected), (factor, extra)
        for sign in (a, b):
            sign *= -1
            expected = correctly_rounded(a, b, dtype)
            assert same(widen.matmul(a, b, accuracy="correct"), expected)


@contracts
@reals
def test_small_subnormal_sums_are_exact(accuracy, dtype):
    smallest = np.ldexp(1.0, FORMATS[dtype].lowest)
    rng = np.random.default_rng(17)
    a = (rng.integers(-100, 100, (6, 9)) * smallest).astype(dtype)
    b = rng.integers(-100, 100, (9, 7)).astype(dtype)
    exact = (a / smallest).astype(np.int64) @ b.astype(np.int64)
    expected = (exact * smallest).astype(dtype)
    assert same(widen.matmul(a, b, accuracy=accuracy), expected)


@contracts
@results
def test_exact_zeros_are_positive(accuracy, dtype):
    zeros = np.zeros((3, 4), dtype)
    one = np.ones((4, 2), dtype)
    positive = np.zeros((3, 2), dtype)
    for a, b in [(zeros, one), (-zeros, one), (zeros, -one), (-zeros, -one)]:
        assert same(widen.matmul(a, b, accuracy=accuracy), positive)
    rng = np.random.default_rng(18)
    x, y = rng.standard_normal((3, 4)).astype(dtype), rng.standard_normal((4, 2)).astype(dtype)
    a, b = np.concatenate([x, -x], axis=1), np.concatenate([y, y])
    for left, right in ((a, b), (-a, b), (a, -b)):
        assert same(widen.matmul(left, right, accuracy=accuracy), positive)
    lines = x.copy()
    lines[1] = -0.0
    assert same(widen.matmul(lines, y, accuracy=accuracy)[1], positive[1])


@contracts
def test_exact_zeros_of_every_size(accuracy):
    for scale in (-1074, -1022, -500, 0, 500, 1023):
        x = np.ldexp(1.0, scale)
        a, b = np.array([[x, x, -x]]), np.array([[1.0], [-0.5], [0.5]])
        if scale == -1074:
            b = np.array([[2.0], [-1.0], [1.0]])
        assert same(widen.matmul(a, b, accuracy=accuracy), np.zeros((1, 1)))


@contracts
@reals
def test_a_value_too_small_keeps_its_sign(accuracy, dtype):
    smallest = np.ldexp(1.0, FORMATS[dtype].lowest)
    a = np.array([[smallest, -smallest]], dtype)
    b = np.array([[-0.25, 0.25, 0.125], [0.0, 0.0, 0.25]], dtype)
    result = widen.matmul(a, b, accuracy=accuracy)
    assert same(result, np.array([[-0.0, 0.0, -0.0]], dtype))
    far = np.array([[-(2.0**-600)]]), np.array([[2.0**-600, -(2.0**-600)]])
    assert same(widen.matmul(*far, accuracy=accuracy, dtype=dtype), np.array([[-0.0, 0.0]], dtype))


@contracts
def test_a_complex_value_too_small_keeps_its_signs(accuracy):
    a = np.array([[complex(2.0**-600, -(2.0**-600))]])
    b = np.array([[2.0**-600 + 0j]])
    result = widen.matmul(a, b, accuracy=accuracy)
    assert same(result, np.array([[complex(0.0, -0.0)]]))
    assert np.signbit(result.imag).all()
    assert not np.signbit(result.real).any()


def test_no_warning_is_raised():
    a = np.array([[NAN, INF, 1e308, 5e-324]])
    with np.errstate(all="raise"):
        for accuracy in EVERY_CONTRACT:
            assert np.isnan(widen.matmul(a, a.T, accuracy=accuracy, info=True)[0]).all()
            big = np.array([[1e308, -5e-324]])
            assert np.isinf(widen.matmul(big, big.T, accuracy=accuracy, info=True)[0]).all()
            widen.matmul(np.array([[1.0, 5e-324]]), big.T, accuracy=accuracy, info=True)
            widen.gemm(a, a.T, np.array([[INF]]), alpha=1e300, beta=-1e300, accuracy=accuracy)
