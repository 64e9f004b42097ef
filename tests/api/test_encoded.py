"""Encoded operands: the bits of the plain product, planes of their own, and clear refusals."""

from __future__ import annotations

import itertools

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import widen
from widen.contract import CONTRACTS
from widen.formats import FORMATS, PLAIN
from widen.systems import SYSTEMS
from widen.testing import FAMILIES, as_format, complex_pair, correctly_rounded
from widen.units import UNITS

EVERY_CONTRACT = [*CONTRACTS, 40]
CHOICES = list(itertools.product(UNITS, SYSTEMS))
contracts = pytest.mark.parametrize("accuracy", EVERY_CONTRACT)


def same_bits(x, y):
    x, y = np.asarray(x), np.asarray(y)
    return x.shape == y.shape and x.dtype == y.dtype and x.tobytes() == y.tobytes()


def pair(family="phi1", dtype="float64", seed=1, m=6, k=9, n=7):
    rng = np.random.default_rng(seed)
    target = np.dtype(ml_dtypes.bfloat16) if dtype == "bfloat16" else np.dtype(dtype)
    if target.kind == "c":
        a, b = complex_pair(FAMILIES[family], rng, m, k, n)
    else:
        a, b = FAMILIES[family].make(rng, m, k, n)
    return as_format(a, target), as_format(b, target)


def encodings(a, b, **options):
    """Both operands encoded, and every way to use them."""
    left = widen.encode(a, side="left", **options)
    right = widen.encode(b, side="right", **options)
    return [(left, b), (a, right), (left, right)]


@contracts
@pytest.mark.parametrize("dtype", PLAIN)
def test_same_bits_as_without(accuracy, dtype):
    for family in ("phi1", "cancellation", "graded inner"):
        a, b = pair(family, dtype)
        expected = widen.matmul(a, b, accuracy=accuracy)
        for x, y in encodings(a, b, accuracy=accuracy):
            assert same_bits(widen.matmul(x, y), expected)
            assert same_bits(widen.matmul(x, y, accuracy=accuracy), expected)


@contracts
@pytest.mark.parametrize("family", list(FAMILIES))
def test_same_bits_on_every_family(accuracy, family):
    a, b = pair(family, m=8, k=33, n=5)
    expected, info = widen.matmul(a, b, accuracy=accuracy, info=True)
    for x, y in encodings(a, b, accuracy=accuracy):
        result, encoded = widen.matmul(x, y, info=True)
        assert same_bits(result, expected)
        if accuracy != "correct":  # which may quantise in more than one way
            assert same_bits(encoded.bound, info.bound)
            assert encoded.repaired == info.repaired


@pytest.mark.parametrize(("unit", "system"), CHOICES)
def test_every_unit_and_system(unit, system):
    for accuracy, dtype in itertools.product(EVERY_CONTRACT, ["float64", "complex64"]):
        a, b = pair("phi2", dtype)
        options = {"accuracy": accuracy, "unit": unit, "system": system}
        expected = widen.matmul(a, b, **options)
        for x, y in encodings(a, b, **options):
            for call in ({}, options, {"unit": unit}, {"system": system}):
                result, info = widen.matmul(x, y, info=True, **call)
                assert same_bits(result, expected)
                assert info.unit == unit
                # A triangle that leaves nothing out is all digits.
                assert info.system in ((system, "digits") if system == "triangle" else (system,))


@pytest.mark.parametrize("dtype", PLAIN)
@contracts
def test_another_result_format(accuracy, dtype):
    a, b = pair("phi2", "float64")
    expected = widen.matmul(a, b, accuracy=accuracy, dtype=dtype)
    if dtype in ("float64", "float32"):
        for x, y in encodings(a, b, accuracy=accuracy, dtype=dtype):
            assert same_bits(widen.matmul(x, y, dtype=dtype), expected)
    complex_a, complex_b = pair("phi2", "complex128")
    if FORMATS[dtype].parts == 2:
        expected = widen.matmul(a, complex_b, accuracy=accuracy, dtype=dtype)
        left = widen.encode(a, side="left", accuracy=accuracy, dtype=dtype)
        assert same_bits(widen.matmul(left, complex_b, dtype=dtype), expected)
        expected = widen.matmul(complex_a, b, accuracy=accuracy, dtype=dtype)
        right = widen.encode(b, side="right", accuracy=accuracy, dtype=dtype)
        assert same_bits(widen.matmul(complex_a, right, dtype=dtype), expected)


REAL = [name for name, fmt in FORMATS.items() if fmt.parts == 1]
COMPLEX = [name for name, fmt in FORMATS.items() if fmt.parts == 2]


def same_numbers(x, y):
    if not isinstance(x, widen.Words):
        return same_bits(x, y)
    return x.format == y.format and all(map(same_bits, x.planes, y.planes))


@contracts
@pytest.mark.parametrize("family", ["phi1", "graded inner", "integers"])
@pytest.mark.parametrize("kind", ["real", "complex", "words"])
def test_one_encoding_for_every_format(accuracy, family, kind):
    """The bits of a call without it, whatever else the operand was encoded for."""
    a, b = pair(family, "complex128" if kind == "complex" else "float64", m=3, k=5, n=2)
    if kind == "words":
        a, b = (widen.Words(x, "float64x2") / 3 for x in (a, b))
    names = COMPLEX if kind == "complex" else REAL
    left = widen.encode(a, side="left", accuracy=accuracy, dtype=names)
    right = widen.encode(b, side="right", accuracy=accuracy, dtype=names[::-1])
    for name in names:
        expected = widen.matmul(a, b, accuracy=accuracy, dtype=name)
        for x, y in ((left, b), (a, right), (left, right)):
            assert same_numbers(widen.matmul(x, y, dtype=name), expected)
        expected = widen.gemm(a, b, 0.75, beta=1.0, accuracy=accuracy, dtype=name)
        assert same_numbers(widen.gemm(left, b, 0.75, beta=1.0, dtype=name), expected)


@contracts
def test_formats_share_what_they_can(accuracy):
    a, b = pair("phi1", m=20, k=30, n=10)
    names = ["float64", "float64x2", "float64x4"]
    whole = widen.encode(a, side="left", accuracy=accuracy, dtype=names)
    each = [widen.encode(a, side="left", accuracy=accuracy, dtype=name) for name in names]
    assert whole.formats == tuple(names)
    assert whole.fmt.name == "float64"
    assert whole.nbytes < sum(x.nbytes for x in each)
    planes = [member.held.planes for member in (whole, *whole.others)]
    assert planes[1] is planes[2] or accuracy == 40  # every bit is kept for both
    for name in names:
        found, info = widen.matmul(whole, b, dtype=name, info=True)
        _, plain = widen.matmul(each[names.index(name)], b, dtype=name, info=True)
        assert same_numbers(found, widen.matmul(a, b, accuracy=accuracy, dtype=name))
        assert (info.products, info.repaired) == (plain.products, plain.repaired)
    assert "float64, float64x2, float64x4 results" in repr(whole)


def test_several_formats_of_batches_and_both_sides():
    rng = np.random.default_rng(3)
    a, b = rng.standard_normal((3, 1, 4, 5)), rng.standard_normal((2, 5, 6))
    left = widen.encode(a, side="left", dtype=("float64x2", "float32"))
    right = widen.encode(b, side="right", dtype=["float32", "float64x2"])
    for name in ("float32", "float64x2"):
        expected = widen.matmul(a, b, dtype=name)
        for x, y in ((left, b), (a, right), (left, right)):
            assert same_numbers(widen.matmul(x, y, dtype=name), expected)
            assert same_numbers(widen.matmul(x, y, dtype=name, workspace=1 << 16), expected)
    assert (left @ b).format.name == "float64x2"  # the first of its formats


def test_formats_that_are_refused():
    a = np.ones((2, 3))
    for dtype, text in (
        ([], "at least one"),
        (["float64", "complex128"], "real results or for complex"),
        (["float64", "int8"], "not a result's format"),
    ):
        with pytest.raises(ValueError, match=text):
            widen.encode(a, side="left", dtype=dtype)
    encoded = widen.encode(a, side="left", dtype=["float64", "float64x2", "float64"])
    assert encoded.formats == ("float64", "float64x2")
    with pytest.raises(ValueError, match="float64, float64x2 results, the call gives float32"):
        widen.matmul(encoded, a.T, dtype="float32")


SHAPES = [
    ((9,), (9,)),
    ((9,), (9, 4)),
    ((5, 9), (9,)),
    ((3, 5, 9), (9, 4)),
    ((5, 9), (3, 9, 4)),
    ((3, 5, 9), (3, 9, 4)),
    ((3, 1, 5, 9), (1, 2, 9, 4)),
    ((2, 5, 9), (3, 1, 9, 4)),
    ((9,), (3, 9, 4)),
    ((3, 5, 9), (9,)),
    ((1, 5, 9), (3, 9, 4)),
    ((1, 1), (1, 1)),
    ((2, 0), (0, 3)),
    ((0, 9), (9, 3)),
    ((2, 9), (9, 0)),
    ((0, 2, 9), (9, 3)),
    ((0,), (0,)),
]


@pytest.mark.parametrize(("left", "right"), SHAPES)
@pytest.mark.parametrize("accuracy", ["standard", "correct"])
def test_vectors_batches_and_empty_operands(left, right, accuracy):
    rng = np.random.default_rng(2)
    a, b = rng.standard_normal(left), rng.standard_normal(right)
    expected = widen.matmul(a, b, accuracy=accuracy)
    for x, y in encodings(a, b, accuracy=accuracy):
        result = widen.matmul(x, y)
        assert same_bits(result, expected)
        assert type(result) is type(expected)
        if np.ndim(expected):
            out = np.full(expected.shape, np.nan)
            assert widen.matmul(x, y, out=out) is out
            assert same_bits(out, expected)


@pytest.mark.parametrize("workspace", [65536, "200KB", "1MB"])
@contracts
def test_small_workspaces(accuracy, workspace):
    a, b = pair("phi2", m=50, k=120, n=70)
    expected = widen.matmul(a, b, accuracy=accuracy)
    for x, y in encodings(a, b, accuracy=accuracy):
        assert same_bits(widen.matmul(x, y, workspace=workspace), expected)


def test_one_encoding_serves_operands_of_any_size_and_scale():
    _, b = pair("phi1", k=40, n=6)
    for accuracy in EVERY_CONTRACT:
        encoded = widen.encode(b, side="right", accuracy=accuracy)
        for family, seed in itertools.product(FAMILIES, (3, 4)):
            a, _ = pair(family, seed=seed, m=5, k=40)
            assert same_bits(widen.matmul(a, encoded), widen.matmul(a, b, accuracy=accuracy))


@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    family=st.sampled_from(list(FAMILIES)),
    accuracy=st.sampled_from(EVERY_CONTRACT),
    m=st.integers(1, 12),
    k=st.integers(1, 40),
    n=st.integers(1, 12),
)
def test_same_bits_for_any_shape(seed, family, accuracy, m, k, n):
    a, b = pair(family, seed=seed, m=m, k=k, n=n)
    expected = widen.matmul(a, b, accuracy=accuracy)
    for x, y in encodings(a, b, accuracy=accuracy):
        assert same_bits(widen.matmul(x, y), expected)


@contracts
@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("family", ["phi1", "one huge"])
def test_it_cannot_go_stale(accuracy, order, family):
    a, b = pair(family)  # the second family has elements to repair from the numbers themselves
    expected = widen.matmul(a, b, accuracy=accuracy)
    for side, source in (("left", a), ("right", b)):
        mutable = np.array(source, order=order)
        encoded = widen.encode(mutable, side=side, accuracy=accuracy)
        mutable[...] = np.nan
        result = widen.matmul(encoded, b) if side == "left" else widen.matmul(a, encoded)
        assert same_bits(result, expected)


def test_vectors_and_views_are_copied_too():
    rng = np.random.default_rng(5)
    a, v = rng.standard_normal((4, 9)), rng.standard_normal(18)
    expected = widen.matmul(a, v[::2], accuracy="correct")
    encoded = widen.encode(v[::2], side="right", accuracy="correct")
    v[...] = 7.0
    assert same_bits(widen.matmul(a, encoded), expected)
    z = rng.standard_normal((9, 3)) + 1j * rng.standard_normal((9, 3))
    expected = widen.matmul(a, z)
    encoded = widen.encode(z, side="right")
    z[...] = np.inf
    assert same_bits(widen.matmul(widen.encode(a, side="left", dtype=complex), encoded), expected)


def test_sources_may_be_of_any_kind():
    a, b = pair()
    expected = widen.matmul(a, b)
    frozen = b.copy()
    frozen.flags.writeable = False
    swapped = b.astype(">f8")
    for source in (frozen, swapped, np.asfortranarray(b), b[::-1, ::-1].copy()[::-1, ::-1]):
        assert same_bits(widen.matmul(a, widen.encode(source, side="right")), expected)


def test_it_can_be_used_again_and_again():
    a, b = pair(m=3)
    encoded = widen.encode(b, side="right")
    results = {widen.matmul(a, encoded).tobytes() for _ in range(5)}
    assert len(results) == 1
    plan = widen.plan(a, encoded)
    assert isinstance(plan, widen.Plan)
    assert plan.products == widen.matmul(a, encoded, info=True)[1].products


@contracts
def test_what_it_says_of_itself(accuracy):
    _, b = pair()
    encoded = widen.encode(b, side="right", accuracy=accuracy)
    assert isinstance(encoded, widen.Encoded)
    assert encoded.serves == (str(accuracy),)
    assert encoded.side == "right"
    assert encoded.dims == b.shape
    assert encoded.fmt.name == "float64"
    assert encoded.unit in UNITS
    assert encoded.system in SYSTEMS
    assert encoded.nbytes >= encoded.held.planes.nbytes + b.nbytes
    for word in ("right", "(9, 7)", "float64", repr(str(accuracy)), "planes", encoded.unit, "MB"):
        assert word in repr(encoded)
    assert "\n" not in repr(encoded)


def test_more_accuracy_takes_more_bytes():
    _, b = pair("phi0.1", k=500, n=40)
    sizes = [widen.encode(b, side="right", accuracy=x).nbytes for x in (10, "fast", "correct")]
    assert sizes == sorted(sizes)
    assert sizes[0] < sizes[-1]
    single = widen.encode(b.astype("float32"), side="right")
    assert single.nbytes < sizes[1]


def test_it_is_frozen():
    encoded = widen.encode(np.ones((2, 2)), side="left")
    with pytest.raises(AttributeError):
        encoded.side = "right"


def refusal(call, error=ValueError):
    with pytest.raises(error) as caught:
        call()
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_the_wrong_side_is_refused():
    a, b = pair(m=7, k=7, n=7)
    left, right = widen.encode(a, side="left"), widen.encode(b, side="right")
    message = refusal(lambda: widen.matmul(a, left))
    assert "encoded for the left side" in message
    assert "widen.encode(x, side='right')" in message
    message = refusal(lambda: widen.matmul(right, b))
    assert "encoded for the right side" in message
    assert "side='left'" in message


@pytest.mark.parametrize(("own", "asked"), list(itertools.permutations(EVERY_CONTRACT, 2)))
def test_another_accuracy_is_refused(own, asked):
    a, b = pair()
    encoded = widen.encode(b, side="right", accuracy=own)
    message = refusal(lambda: widen.matmul(a, encoded, accuracy=asked))
    assert f"accuracy={own}" in message
    assert f"asks for {asked}" in message
    word = asked if isinstance(asked, int) else repr(asked)
    assert f"widen.encode(x, accuracy={word})" in message
    other = widen.encode(a, side="left", accuracy=asked)
    refusal(lambda: widen.matmul(other, encoded))
    assert refusal(lambda: widen.matmul(a, widen.encode(b, side="right", accuracy=41), accuracy=40))


@pytest.mark.parametrize(
    ("own", "asked"),
    [("float64", "float32"), ("float32", "float64"), ("complex128", "complex64")],
)
def test_another_precision_is_refused(own, asked):
    a, b = pair(dtype=own)
    encoded = widen.encode(b, side="right", dtype=own)
    message = refusal(lambda: widen.matmul(a, encoded, dtype=asked))
    assert own in message
    assert asked in message
    assert f"widen.encode(x, dtype={asked!r})" in message
    served = widen.encode(b, side="right", dtype=asked)
    assert same_bits(widen.matmul(a, served, dtype=asked), widen.matmul(a, b, dtype=asked))


def test_a_real_encoding_meets_a_complex_operand():
    a, b = pair(dtype="complex128")[0], pair()[1]
    message = refusal(lambda: widen.matmul(a, widen.encode(b, side="right")))
    assert "widen.encode(x, dtype='complex128')" in message
    served = widen.encode(b, side="right", dtype="complex128")
    assert same_bits(widen.matmul(a, served), widen.matmul(a, b))


def test_wider_operands_than_the_encoding_was_made_for():
    a, b = pair()[0], pair(dtype="float32")[1]
    message = refusal(lambda: widen.matmul(a, widen.encode(b, side="right")))
    assert "widen.encode(x, dtype='float64')" in message
    served = widen.encode(b, side="right", dtype="float64")
    assert same_bits(widen.matmul(a, served), widen.matmul(a, b))


def test_another_unit_or_system_is_refused():
    a, b = pair()
    encoded = widen.encode(b, side="right", unit="int8", system="digits")
    message = refusal(lambda: widen.matmul(a, encoded, unit="fp64"))
    assert "unit='int8'" in message
    assert "'fp64'" in message
    assert "encode it again" in message
    message = refusal(lambda: widen.matmul(a, encoded, system="residues"))
    assert "system='digits'" in message
    assert "'residues'" in message
    other = widen.encode(a, side="left", unit="fp64")
    message = refusal(lambda: widen.matmul(other, encoded))
    assert "different units or systems" in message
    assert "encode one again" in message


def test_mismatched_shapes_are_refused():
    _, b = pair()
    encoded = widen.encode(b, side="right")
    message = refusal(lambda: widen.matmul(np.ones((3, 8)), encoded))
    assert "(3, 8)" in message
    assert "(9, 7)" in message
    batch = widen.encode(np.ones((3, 9, 7)), side="right")
    message = refusal(lambda: widen.matmul(np.ones((2, 4, 9)), batch))
    assert "broadcast" in message


def test_bad_arguments_of_encode():
    b = np.ones((3, 2))
    assert "use 'left' or 'right'" in refusal(lambda: widen.encode(b, side="top"))
    assert "accuracy='exact'" in refusal(lambda: widen.encode(b, side="left", accuracy="exact"))
    assert "unit='int4'" in refusal(lambda: widen.encode(b, side="left", unit="int4"))
    assert "system='words'" in refusal(lambda: widen.encode(b, side="left", system="words"))
    assert "dtype=float65" in refusal(lambda: widen.encode(b, side="left", dtype="float65"))
    assert "imaginary" in refusal(lambda: widen.encode(b * 1j, side="left", dtype="float64"))
    message = refusal(lambda: widen.encode(b.astype(object), side="left"), TypeError)
    assert "x holds object" in message
    assert "x.astype(float)" in message
    refusal(lambda: widen.encode({1.0}, side="left"), TypeError)
    refusal(lambda: widen.encode(np.array(1.0), side="left"))
    with pytest.raises(TypeError, match="side"):
        widen.encode(b)


def test_correct_encodings_are_correctly_rounded():
    for family in FAMILIES:
        a, b = pair(family, seed=6, m=7, k=20, n=8)
        expected = correctly_rounded(a, b)
        for x, y in encodings(a, b, accuracy="correct"):
            assert same_bits(widen.matmul(x, y), expected), family
