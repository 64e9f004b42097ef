"""Lists, numbers, integers, DLPack and `__array__`: taken exactly, or refused by name."""

from __future__ import annotations

from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import widen

INTEGERS = ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"]


class HasArray:
    """What becomes an array by NumPy's protocol alone."""

    def __init__(self, x):
        self.x = x

    def __array__(self, dtype=None, copy=None):
        return self.x if dtype is None else self.x.astype(dtype)


class HasDLPack:
    """What becomes an array by DLPack alone."""

    def __init__(self, x):
        self.x = x

    def __dlpack__(self, **options):
        return self.x.__dlpack__(**options)

    def __dlpack_device__(self):
        return self.x.__dlpack_device__()


A, B = [[1.5, 2.0], [3.0, -0.25]], [[1.0, 2.0], [0.5, 4.0]]
WANTED = (np.array(A) @ np.array(B)).tolist()


@pytest.mark.parametrize(
    "wrapped", [list, tuple, np.array, HasArray, HasDLPack, np.matrix, memoryview], ids=str
)
@pytest.mark.filterwarnings("ignore:the matrix subclass")
def test_kinds_of_operands(wrapped):
    kinds = (list, tuple, np.array)
    left = wrapped(A) if wrapped in kinds else wrapped(np.array(A))
    if wrapped is memoryview:  # no array, whatever is in it
        with pytest.raises(TypeError, match="a is a memoryview"):
            widen.matmul(left, B)
        return
    found = widen.matmul(left, B)
    assert type(found) is np.ndarray
    assert found.tolist() == WANTED
    assert widen.matmul(B, left).tolist() == (np.array(B) @ np.array(A)).tolist()
    assert widen.gemm(B, B, left, beta=2.0).tolist() == (np.array(B) @ B + 2 * np.array(A)).tolist()
    if not isinstance(left, (list, tuple)):  # a shape, perhaps
        assert widen.plan(left, np.array(B)).shape == (1, 2, 2, 2)
    assert widen.matmul(B, widen.encode(left, side="right")).tolist() == [[7.5, 1.5], [12.75, 0.0]]


def test_numbers_are_scalars():
    for x in (2, 2.0, 2j, True, np.float32(2)):
        with pytest.raises(ValueError, match="a is a scalar"):
            widen.matmul(x, B)
        if x != 2j:
            assert widen.gemm(A, B, x, beta=1.0)[0, 0] == WANTED[0][0] + complex(x).real


def test_lists_that_are_no_arrays():
    with pytest.raises(ValueError, match="b is a list that is no array"):
        widen.matmul(A, [[1.0], [1.0, 2.0]])
    with pytest.raises(TypeError, match=r"widen\.Words"):
        widen.matmul([[Fraction(1, 3)]], [[1.0]])
    with pytest.raises(TypeError, match=r"a holds str"):
        widen.matmul([["1.0"]], [[1.0]])
    with pytest.raises(TypeError, match=r"widen\.Words"):
        widen.matmul([[2**80]], [[1]])


def test_dlpack_that_fails_says_why():
    class Broken:
        def __dlpack__(self):
            raise NotImplementedError("not today")

        def __dlpack_device__(self):
            return (1, 0)

    class Elsewhere(Broken):
        def __dlpack_device__(self):
            return (10, 0)

    with pytest.raises(TypeError, match=r"a is a .*Broken, which does not become an array"):
        widen.matmul(Broken(), B)
    with pytest.raises(TypeError, match="device 10"):
        widen.matmul(B, Elsewhere())


# ── integers ─────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("kind", INTEGERS)
def test_integers_give_integers(kind):
    rng = np.random.default_rng(1)
    a, b = rng.integers(0, 5, (3, 4)).astype(kind), rng.integers(0, 5, (4, 2)).astype(kind)
    found = widen.matmul(a, b)
    assert found.dtype == kind
    np.testing.assert_array_equal(found, a @ b)
    assert widen.matmul(a, b, dtype="float32").dtype == np.float32
    assert widen.gemm(a, b, alpha=2.0).tolist() == (2.0 * (a @ b)).tolist()
    out = np.empty((3, 2), kind)
    assert widen.matmul(a, b, out=out) is out
    np.testing.assert_array_equal(out, a @ b)
    with pytest.raises(ValueError, match="out has shape"):
        widen.matmul(a, b, out=np.empty((2, 3), kind))
    floats = np.empty((3, 2))
    assert widen.matmul(a, b, out=floats) is floats
    found, info = widen.matmul(a, b, info=True)
    assert found.dtype == kind
    assert info.plan.contract.correct


@st.composite
def wide_integers(draw_from):
    """Integers that float64 holds, whose products have more than 53 bits."""
    k = draw_from(st.integers(1, 4))
    number = st.builds(lambda m, e: m << e, st.integers(-(2**30), 2**30), st.integers(0, 8))
    return [draw_from(st.lists(number, min_size=k, max_size=k)) for _ in range(2)]


@given(wide_integers(), st.sampled_from(["int64", "uint64"]))
def test_products_beyond_float64(pair, kind):
    x, y = ([abs(v) if kind == "uint64" else v for v in vector] for vector in pair)
    exact = sum(p * q for p, q in zip(x, y, strict=True))
    info = np.iinfo(kind)
    a, b = np.array([x], kind), np.array(y, kind)
    if info.min <= exact <= info.max:
        found = widen.matmul(a, b)
        assert found.dtype == kind
        assert int(found[0]) == exact
        if kind == "int64":
            assert int(widen.matmul(torch.tensor([x]), torch.tensor(y))[0]) == exact
    else:
        with pytest.raises(OverflowError, match=f"integers that {kind} does not hold"):
            widen.matmul(a, b)


@pytest.mark.parametrize("kind", ["int64", "uint64"])
def test_the_ends_of_the_range(kind):
    info = np.iinfo(kind)
    top = info.max
    for value in (top, info.min, top // 2 + 1, info.min + (1 if info.min else 0)):
        # value = h 2^32 + l
        high, low = divmod(int(value), 2**32)
        a, b = np.array([high, low], kind), np.array([2**32, 1], kind)
        assert int(widen.matmul(a, b)) == value
    with pytest.raises(OverflowError, match="give dtype='float64'"):
        widen.matmul(np.array([2**32, 1], kind), np.array([2**32, 0], kind))
    with pytest.raises(OverflowError, match="wider type"):
        widen.matmul(np.array([top >> 31, top & (2**31 - 1), 1], kind),
                     np.array([2**31, 1, 1], kind))  # fmt: skip


@given(st.integers(-(2**63), 2**63 - 1))
def test_an_integer_is_exact_or_refused(value):
    held = int(float(value)) == value
    for x in (np.array([value]), [value], torch.tensor([value])):
        one = torch.tensor([1.0], dtype=torch.float64) if torch.is_tensor(x) else [1.0]
        if held:
            assert int(widen.matmul(x, one)) == value
        else:
            with pytest.raises(ValueError, match=r"a holds -?\d+, which no float64 does.*Words"):
                widen.matmul(x, one)


def test_large_unsigned_integers():
    x = np.array([2**64 - 1], "uint64")
    with pytest.raises(ValueError, match="a holds 18446744073709551615"):
        widen.matmul(x, [1.0])
    assert widen.matmul(np.array([2**63 + 2**11], "uint64"), [1.0]) == float(2**63 + 2**11)


def test_booleans_are_as_numpy_has_them():
    rng = np.random.default_rng(2)
    a, b = rng.integers(0, 2, (5, 3)) > 0, rng.integers(0, 2, (3, 4)) > 0
    found = widen.matmul(a, b)
    assert found.dtype == bool
    np.testing.assert_array_equal(found, a @ b)
    np.testing.assert_array_equal(widen.matmul(a, b.astype(int)), a @ b.astype(int))
    assert type(widen.matmul(a[0], b[:, 0])) is np.bool_


@pytest.mark.parametrize("kind", ["bool", *INTEGERS])
@pytest.mark.parametrize("other", ["float16", "bfloat16", "float32", "float64", "complex64"])
def test_mixed_with_floats_they_are_promoted_as_numpy_does(kind, other):
    dtype = ml_dtypes.bfloat16 if other == "bfloat16" else other
    a, b = np.ones((2, 3), kind), np.full((3, 2), 0.5).astype(dtype)
    try:
        wanted = np.result_type(a.dtype, b.dtype)
    except TypeError:  # of bfloat16, which ml_dtypes leaves open
        wanted = np.dtype("float64")
    for found in (widen.matmul(a, b), widen.matmul(b.T, a.T)):
        assert found.dtype == wanted
        assert (found.astype(complex) == 1.5).all()


def test_integer_tensors():
    a, b = torch.tensor([[1, 2], [3, 4]]), torch.tensor([[5], [6]])
    assert torch.equal(widen.matmul(a, b), a @ b)
    assert torch.equal(widen.matmul(a.int(), b.to(torch.uint8)), (a @ b).int())
    assert widen.matmul(a, b.float()).dtype == torch.float32
    assert widen.matmul(a, b.bfloat16()).dtype == torch.bfloat16
    assert widen.matmul(a > 1, b > 0).dtype == torch.bool
    out = torch.empty((2, 1), dtype=torch.int64)
    assert widen.matmul(a, b, out=out) is out
    assert torch.equal(out, a @ b)
    with pytest.raises(TypeError, match="uint64"):
        widen.matmul(a.to(torch.uint64), b)
    assert widen.matmul(a.to(torch.uint16), b).tolist() == [[17.0], [39.0]]


def test_integers_with_words():
    words = widen.Words([[1, 2]], "float64x2")
    assert widen.matmul(words, np.array([[3], [4]])).dtype == widen.float64x2


def test_integers_in_a_differentiated_product():
    grown = torch.ones((2, 2), dtype=torch.float64, requires_grad=True)
    whole = torch.tensor([[1, 2], [3, 4]])
    product = widen.matmul(grown, whole)
    product.sum().backward()
    assert torch.equal(product.detach(), torch.tensor([[4.0, 6.0], [4.0, 6.0]]).double())
    assert torch.equal(grown.grad, torch.tensor([[3.0, 7.0], [3.0, 7.0]]).double())
