"""Shapes, strides and result formats as `np.matmul` has them; values rounded once, item by item."""

from __future__ import annotations

import itertools

import ml_dtypes
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import widen
from widen.cpu import certify as cpu_certify
from widen.cpu import encode as cpu_encode
from widen.cpu import lines as cpu_lines
from widen.cpu import operands
from widen.cpu import reconstruct as cpu_reconstruct
from widen.cpu import repair as cpu_repair
from widen.formats import FORMATS, PLAIN
from widen.formats.arrays import lines_near, meaningful
from widen.gpu.batches import in_one_block
from widen.testing import correctly_rounded

RNG = np.random.default_rng(20)


def dtype_of(name):
    return np.dtype(ml_dtypes.bfloat16) if name == "bfloat16" else np.dtype(name)


def draw(shape, dtype="float64", seed=None):
    """Normal numbers, with an imaginary part if the format has one."""
    rng = RNG if seed is None else np.random.default_rng(seed)
    x = rng.standard_normal(shape)
    if dtype_of(dtype).kind == "c":
        x = x + 1j * rng.standard_normal(shape)
    return np.asarray(x).astype(dtype_of(dtype))


def reference(a, b, dtype=None):
    """The correctly rounded product, one pair of matrices at a time."""
    left = a[None, :] if a.ndim == 1 else a
    right = b[:, None] if b.ndim == 1 else b
    batch = np.broadcast_shapes(left.shape[:-2], right.shape[:-2])
    left = np.broadcast_to(left, (*batch, *left.shape[-2:]))
    right = np.broadcast_to(right, (*batch, *right.shape[-2:]))
    if dtype is None:
        dtype = np.result_type(a.dtype, b.dtype)
    out = np.zeros((*batch, left.shape[-2], right.shape[-1]), dtype)
    if left.shape[-1]:
        for index in np.ndindex(*batch):
            if out[index].size:
                out[index] = correctly_rounded(left[index], right[index], dtype)
    if a.ndim == 1:
        out = out[..., 0, :]
    if b.ndim == 1:
        out = out[..., 0]
    return out


def same_bits(x, y):
    x, y = np.asarray(x), np.asarray(y)
    return x.shape == y.shape and x.dtype == y.dtype and x.tobytes() == y.tobytes()


def check(a, b, **options):
    """Correct values, np.matmul's shape, and the same shape from every cheaper contract."""
    result = widen.matmul(a, b, accuracy="correct", **options)
    expected = reference(a, b, options.get("dtype"))
    assert same_bits(result, expected)
    assert np.shape(result) == np.matmul(np.zeros(a.shape), np.zeros(b.shape)).shape
    assert np.shape(widen.matmul(a, b, **options)) == np.shape(expected)
    return result


SHAPES = [
    ((5,), (5,)),
    ((5,), (5, 3)),
    ((2, 5), (5,)),
    ((1,), (1,)),
    ((1, 1), (1, 1)),
    ((2, 5), (5, 3)),
    ((5,), (4, 5, 3)),
    ((4, 2, 5), (5,)),
    ((4, 2, 5), (5, 3)),
    ((2, 5), (4, 5, 3)),
    ((4, 2, 5), (4, 5, 3)),
    ((4, 2, 5), (1, 5, 3)),
    ((1, 2, 5), (4, 5, 3)),
    ((3, 1, 2, 5), (1, 4, 5, 3)),
    ((3, 4, 2, 5), (4, 5, 3)),
    ((4, 2, 5), (3, 1, 5, 3)),
    ((2, 1, 3, 2, 4), (3, 1, 4, 2)),
    ((1, 1, 2, 5), (5, 3)),
    ((2, 3, 5), (2, 1, 5, 1)),
]

EMPTY = [
    ((0, 5), (5, 3)),
    ((2, 5), (5, 0)),
    ((0, 5), (5, 0)),
    ((2, 0), (0, 3)),
    ((0, 0), (0, 0)),
    ((0,), (0,)),
    ((0,), (0, 3)),
    ((2, 0), (0,)),
    ((0, 2, 5), (5, 3)),
    ((0, 2, 5), (0, 5, 3)),
    ((1, 2, 5), (0, 5, 3)),
    ((4, 2, 0), (0, 3)),
    ((3, 0, 2, 0), (1, 0, 4)),
    ((5,), (0, 5, 3)),
    ((0,), (4, 0, 3)),
    ((3, 1, 0, 5), (4, 5, 2)),
]


@pytest.mark.parametrize(("left", "right"), SHAPES)
@pytest.mark.parametrize("dtype", ["float64", "complex64"])
def test_shapes_of_matmul(left, right, dtype):
    check(draw(left, dtype), draw(right, dtype))


@pytest.mark.parametrize(("left", "right"), EMPTY)
@pytest.mark.parametrize("dtype", PLAIN)
@pytest.mark.parametrize("accuracy", ["standard", "fast", "correct", 40])
def test_empty_dimensions(left, right, dtype, accuracy):
    a, b = np.ones(left, dtype), np.ones(right, dtype)
    expected = np.matmul(a, b)
    result, info = widen.matmul(a, b, accuracy=accuracy, info=True)
    assert same_bits(result, np.zeros(expected.shape, dtype))
    assert not np.signbit(np.asarray(result).real).any()
    assert info.bound.shape == expected.shape
    assert info.repaired == 0


def test_two_vectors_give_a_numpy_scalar():
    for name in PLAIN:
        result = widen.matmul(draw(7, name), draw(7, name))
        assert isinstance(result, np.generic)
        assert not isinstance(result, np.ndarray)
        assert result.dtype == name
    assert widen.matmul(np.zeros(0), np.zeros(0)) == 0.0
    assert isinstance(widen.matmul(np.zeros(0), np.zeros(0)), np.float64)


def test_operands_broadcast_with_stride_zero():
    a, b = draw((3, 5)), draw((5, 2))
    repeated = np.broadcast_to(a, (4, 3, 5))
    assert repeated.strides[0] == 0
    expected = np.broadcast_to(check(a, b), (4, 3, 2))
    assert same_bits(check(repeated, b), expected)
    assert same_bits(check(repeated, np.broadcast_to(b, (4, 5, 2))), expected)
    row = np.broadcast_to(draw((1, 5)), (6, 5))
    column = np.broadcast_to(draw((5, 1)), (5, 7))
    constant = np.broadcast_to(np.array(0.1), (6, 5))
    for left, right in ((row, column), (constant, column), (row, draw((5, 7)))):
        check(left, right)


side = st.integers(0, 4)


@st.composite
def shape_pairs(draw_):
    """Pairs of shapes that np.matmul accepts, with broadcasting on both sides."""
    m, k, n = draw_(side), draw_(side), draw_(side)
    batch = draw_(st.lists(st.integers(0, 3), max_size=3))

    def own(last):
        if draw_(st.integers(0, 4)) == 0:
            return (k,)
        kept = batch[draw_(st.integers(0, len(batch))) :]
        return (*(1 if draw_(st.booleans()) else size for size in kept), *last)

    return own((m, k)), own((k, n))


@settings(max_examples=150, deadline=None)
@given(shapes=shape_pairs(), seed=st.integers(0, 2**32 - 1))
def test_any_shapes(shapes, seed):
    left, right = shapes
    check(draw(left, seed=seed), draw(right, seed=seed + 1))


@settings(max_examples=60, deadline=None)
@given(left=st.lists(side, min_size=1, max_size=4), right=st.lists(side, min_size=1, max_size=4))
def test_shapes_are_refused_where_matmul_refuses_them(left, right):
    a, b = np.ones(left), np.ones(right)
    try:
        expected = np.matmul(a, b).shape
    except ValueError:
        with pytest.raises(ValueError, match=r"np\.matmul's rules apply"):
            widen.matmul(a, b)
    else:
        assert np.shape(widen.matmul(a, b)) == expected


def memory_map(x, folder):
    path = folder / "x.npy"
    np.save(path, x)
    return np.load(path, mmap_mode="r")


def unaligned(x):
    raw = np.empty(x.nbytes + 1, np.uint8)
    view = raw[1:].view(x.dtype).reshape(x.shape)
    view[...] = x
    assert view.size == 0 or not view.flags.aligned
    return view


def read_only(x):
    x = x.copy()
    x.flags.writeable = False
    return x


def spread(x):
    """Every second element, along every axis, of an array of NaN."""
    wide = np.full(tuple(2 * size for size in x.shape), np.nan, x.dtype)
    view = wide[tuple(slice(None, None, 2) for _ in x.shape)]
    view[...] = x
    return view


def field(x):
    """A column of a record array: strides that are no multiple of the item's size."""
    records = np.zeros(x.shape, [("flag", "u1"), ("value", x.dtype), ("rest", "u2")])
    records["value"] = x
    return records["value"]


VIEWS = {
    "C order": np.ascontiguousarray,
    "Fortran order": np.asfortranarray,
    "transposed": lambda x: np.ascontiguousarray(x.swapaxes(-1, -2)).swapaxes(-1, -2),
    "rows reversed": lambda x: np.ascontiguousarray(x[..., ::-1, :])[..., ::-1, :],
    "all reversed": lambda x: np.ascontiguousarray(x[..., ::-1, ::-1])[..., ::-1, ::-1],
    "every second": spread,
    "sliced": lambda x: np.pad(x, 2, constant_values=np.nan)[(slice(2, -2),) * x.ndim],
    "read-only": read_only,
    "big endian": lambda x: x.astype(x.dtype.newbyteorder(">")),
    "unaligned": unaligned,
    "field of a record": field,
    "batch last": lambda x: np.moveaxis(np.ascontiguousarray(np.moveaxis(x, 0, -1)), -1, 0),
    "subclass": lambda x: x.view(np.matrix),
}


@pytest.mark.parametrize("dtype", PLAIN)
@pytest.mark.parametrize("view", VIEWS)
def test_any_strides_give_the_same_bits(view, dtype):
    make = VIEWS[view]
    a, b = draw((2, 6, 9), dtype), draw((2, 9, 5), dtype)
    if view == "subclass":
        a, b = a[0], b[0]
    if view == "big endian" and dtype == "bfloat16":
        pytest.skip("ml_dtypes has no big-endian bfloat16")
    for accuracy in ("standard", "correct", 40):
        expected = widen.matmul(a, b, accuracy=accuracy)
        for left, right in ((make(a), b), (a, make(b)), (make(a), make(b))):
            result = widen.matmul(left, right, accuracy=accuracy)
            assert type(result) is np.ndarray
            assert same_bits(result, expected)


@pytest.mark.parametrize("dtype", ["float64", "float32", "complex128"])
def test_memory_mapped_operands_and_results(dtype, tmp_path):
    a, b = draw((6, 9), dtype), draw((9, 5), dtype)
    expected = widen.matmul(a, b)
    assert same_bits(widen.matmul(memory_map(a, tmp_path), b), expected)
    assert same_bits(widen.matmul(a, memory_map(b, tmp_path)), expected)
    out = np.lib.format.open_memmap(tmp_path / "c.npy", "w+", dtype, expected.shape)
    assert widen.matmul(a, b, out=out) is out
    out.flush()
    assert same_bits(np.load(tmp_path / "c.npy"), expected)


def test_vectors_of_any_stride():
    a, b = draw(11), draw(11)
    expected = widen.matmul(a, b, accuracy="correct")
    for make in (spread, read_only, unaligned, field, lambda x: x[::-1].copy()[::-1]):
        assert same_bits(widen.matmul(make(a), make(b), accuracy="correct"), expected)


def with_stride(x, stride):
    """The same view, this stride (in bytes) along axes of one entry."""
    strides = [stride if n == 1 else old for n, old in zip(x.shape, x.strides, strict=True)]
    return np.lib.stride_tricks.as_strided(x, x.shape, strides)


ONES = [
    ((1, 700), (700, 1)), ((1, 30), (30, 4)), ((4, 30), (30, 1)), ((5, 1), (1, 3)),
    ((1, 1), (1, 1)), ((1, 1, 30), (1, 30, 1)), ((1, 3, 9), (2, 9, 1)),
]  # fmt: skip
"""Shapes with axes of one entry; the first has lines long enough for sketches."""

NOISE = [0, 1, 8, 24, 1 << 20, -8, -(1 << 20)]
"""Strides that such an axis may be found with."""

KINDS = ["float64", "float32", "complex128", "float64x2"]


def drawn(shape, kind):
    x = draw(shape, "float64" if kind == "float64x2" else kind, seed=len(shape))
    return widen.Words.from_words(np.array([x, x * 2.0**-60]), kind) if kind == "float64x2" else x


def changed(x, change):
    """The same numbers in views of another kind."""
    if not isinstance(x, widen.Words):
        return change(x)
    return widen.Words.of(x.format, [change(plane) for plane in x.planes])


def bits_of(x):
    return [np.asarray(word).tobytes() for word in (x.planes if hasattr(x, "planes") else [x])]


def noted_launches(monkeypatch):
    """A list that kernels are noted in: what they are told, and arrays' order in memory."""
    noted = []

    def told(x):
        if not isinstance(x, np.ndarray):
            return x
        return x.shape, x.dtype, meaningful(x.shape, x.strides)

    def noting(launch):
        def noted_launch(kernel, *given):
            noted.append((kernel, *map(told, given)))
            launch(kernel, *given)

        return noted_launch

    for module in (cpu_lines, cpu_reconstruct, cpu_repair, cpu_encode, cpu_certify, operands):
        monkeypatch.setattr(module, "launch", noting(module.launch))
    return noted


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("left", "right"), ONES)
def test_strides_of_axes_of_one_entry_change_nothing(monkeypatch, left, right, kind):
    a, b = drawn(left, kind), drawn(right, kind)
    noted = noted_launches(monkeypatch)
    expected = bits_of(widen.matmul(a, b))
    wanted = noted.copy()
    assert wanted
    for stride in NOISE:
        noted.clear()
        views = [
            changed(x, lambda plane, stride=stride: with_stride(plane, stride)) for x in (a, b)
        ]
        assert bits_of(widen.matmul(*views)) == expected
        assert noted == wanted


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("columns", [1, 4])
def test_vectors_take_the_way_of_matrices(monkeypatch, kind, columns):
    """They gain an axis of one entry, whose stride NumPy sets to 0."""
    v, b = drawn((700,), kind), drawn((700, columns), kind)
    noted = noted_launches(monkeypatch)
    for ours, theirs, vectors in (
        (v.reshape(1, 700), b, (v, b)),
        (b.T, v.reshape(700, 1), (b.T, v)),
        (v.reshape(1, 700), v.reshape(700, 1), (v, v)),
    ):
        noted.clear()
        expected = bits_of(widen.matmul(ours, theirs))
        wanted = noted.copy()
        noted.clear()
        assert bits_of(widen.matmul(*vectors)) == expected
        assert noted == wanted


def test_what_lies_near():
    """One line has no neighbours, and one entry none within its line."""
    for stride in NOISE:
        assert not lines_near((3, 1, 9), (72, stride, 8))
        assert lines_near((3, 9, 1), (72, 8, stride))
        assert not lines_near((1, 1), (stride, 8))
        assert not lines_near((0, 9), (stride, 8))
        assert not lines_near((3, 2, 9), (stride, -72, 8))
        assert lines_near((3, 9, 2), (stride, 8, -72))
        assert meaningful((1, 3, 1), (stride, 8, stride)) == (0, 8, 0)
        assert meaningful((2, 0, 5), (stride, 8, 1)) == (0, 0, 0)


def test_operands_are_left_alone():
    a, b = draw((2, 6, 9)), draw((9, 5))
    copies = a.copy(), b.copy()
    widen.matmul(a, b)
    widen.matmul(a, b, accuracy="correct", info=True)
    assert same_bits(a, copies[0])
    assert same_bits(b, copies[1])


@pytest.mark.parametrize(("left", "right"), list(itertools.product(PLAIN, PLAIN)))
def test_result_dtype_of_all_pairs(left, right):
    a, b = draw((3, 4), left), draw((4, 2), right)
    wide = {"float64", "complex128"} & {left, right}
    complex_ = any(FORMATS[name].parts == 2 for name in (left, right))
    expected = f"complex{128 if wide else 64}" if complex_ else f"float{64 if wide else 32}"
    if left == right:
        expected = left
    assert same_bits(widen.matmul(a, b, accuracy="correct"), reference(a, b, expected))
    for name in PLAIN:
        if FORMATS[name].parts == 1 and complex_:
            with pytest.raises(ValueError, match="imaginary parts"):
                widen.matmul(a, b, dtype=name)
            continue
        result = widen.matmul(a, b, accuracy="correct", dtype=name)
        assert same_bits(result, reference(a, b, name))
        assert widen.matmul(a, b, dtype=name).dtype == name


@pytest.mark.parametrize("dtype", ["float32", np.float32, np.dtype("float32"), "f4", "<f4", ">f4"])
def test_words_for_a_dtype(dtype):
    result = widen.matmul(draw((3, 4)), draw((4, 2)), dtype=dtype)
    assert result.dtype == np.float32
    assert result.dtype.isnative


OUTS = {
    "C order": lambda shape, dtype: np.full(shape, np.nan, dtype),
    "Fortran order": lambda shape, dtype: np.full(shape, np.nan, dtype, order="F"),
    "every second": lambda shape, dtype: spread(np.full(shape, np.nan, dtype)),
    "reversed": lambda shape, dtype: np.full(shape, np.nan, dtype)[..., ::-1],
    "transposed": lambda shape, dtype: np.full(shape[::-1], np.nan, dtype).T,
    "unaligned": lambda shape, dtype: unaligned(np.full(shape, np.nan, dtype)),
    "field of a record": lambda shape, dtype: field(np.full(shape, np.nan, dtype)),
}


@pytest.mark.parametrize("dtype", PLAIN)
@pytest.mark.parametrize("kind", OUTS)
@pytest.mark.parametrize(
    ("left", "right"),
    [((3, 5), (5, 4)), ((2, 3, 5), (5, 4)), ((5,), (2, 5, 4)), ((2, 1, 3, 5), (4, 5, 1))],
)
def test_out_of_any_strides(left, right, kind, dtype):
    a, b = draw(left, dtype), draw(right, dtype)
    expected = widen.matmul(a, b)
    out = OUTS[kind](expected.shape, dtype)
    result = widen.matmul(a, b, out=out)
    assert result is out
    assert same_bits(out, expected)
    again, info = widen.matmul(a, b, out=OUTS[kind](expected.shape, dtype), info=True)
    assert same_bits(again, expected)
    assert info.bound.shape == expected.shape


def test_out_writes_nothing_beside_itself():
    wide = np.full((8, 10), 7.0)
    a, b = draw((3, 5)), draw((5, 4))
    widen.matmul(a, b, out=wide[1:7:2, 1:9:2])
    inside = np.zeros(wide.shape, bool)
    inside[1:7:2, 1:9:2] = True
    assert (wide[~inside] == 7.0).all()
    assert same_bits(wide[1:7:2, 1:9:2].copy(), widen.matmul(a, b))


def test_out_of_no_dimensions():
    a, b = draw(9), draw(9)
    out = np.empty(())
    assert widen.matmul(a, b, out=out) is out
    assert same_bits(out[()], widen.matmul(a, b))


def test_out_of_real_operands_with_a_complex_dtype():
    a, b = draw((3, 5)), draw((5, 4))
    out = np.full((3, 4), np.nan + 1j * np.nan)
    widen.matmul(a, b, dtype="complex128", out=out)
    assert same_bits(out, widen.matmul(a, b).astype("complex128"))


@pytest.mark.parametrize("accuracy", ["standard", "correct"])
def test_out_that_overlaps_an_operand(accuracy):
    a, b = draw((6, 6)), draw((6, 6))
    expected = widen.matmul(a, b, accuracy=accuracy)
    for place in ("left", "right", "transposed", "shifted"):
        left, right = a.copy(), b.copy()
        if place == "left":
            out = left
        elif place == "right":
            out = right
        elif place == "transposed":
            out = left.T
        else:
            memory = np.zeros((8, 6))
            left, out = memory[:6], memory[1:7]
            left[...] = a
        assert widen.matmul(left, right, accuracy=accuracy, out=out) is out
        assert same_bits(out.copy(), expected)
    square = a.copy()
    widen.matmul(square, square, accuracy=accuracy, out=square)
    assert same_bits(square, widen.matmul(a, a, accuracy=accuracy))


def test_out_that_overlaps_in_blocks():
    a, b = draw((70, 70)), draw((70, 70))
    expected = widen.matmul(a, b, workspace=65536)
    assert widen.matmul(a, b, out=a, workspace=65536) is a
    assert same_bits(a, expected)


def test_out_that_pytorch_conjugates_or_negates():
    """Such tensors are views that change what they show: their arrays are copies."""
    a, b = (torch.from_numpy(draw(shape, "complex128")) for shape in ((3, 5), (5, 4)))
    memory = torch.zeros((3, 4), dtype=torch.complex128)
    out = memory.conj()
    assert not in_one_block(out)
    assert widen.matmul(a, b, out=out) is out
    assert same_bits(memory.numpy(), widen.matmul(a, b).numpy().conj())
    c = out.resolve_conj()
    expected = widen.gemm(a, b, c, beta=2.0)
    assert same_bits(widen.gemm(a, b, out, beta=2.0, out=out).resolve_conj(), expected)
    out = memory.conj().imag
    assert not in_one_block(out)
    widen.matmul(a.real, b.real, out=out)
    assert same_bits(memory.imag.numpy(), -widen.matmul(a.real, b.real).numpy())
    with pytest.raises(TypeError, match="out is a list"):
        widen.matmul(a, b, out=[0.0])


@pytest.mark.parametrize(
    ("out", "error", "words"),
    [
        (np.empty((3, 5)), ValueError, ["(3, 5)", "(3, 4)", "np.empty((3, 4), np.float64)"]),
        (np.empty((1, 3, 4)), ValueError, ["(1, 3, 4)", "np.empty"]),
        (np.empty((3, 4), "float32"), ValueError, ["float32", "float64", "np.empty"]),
        (np.empty((3, 4), "complex128"), ValueError, ["complex128", "float64"]),
        (np.empty((3, 4), int), ValueError, ["int64", "float64"]),
        (np.empty((3, 4), ">f8"), ValueError, [">f8", "float64"]),
        (read_only(np.empty((3, 4))), ValueError, ["read-only"]),
        ([[0.0] * 4] * 3, TypeError, ["list", "NumPy array"]),
        (np.ma.empty((3, 4)), TypeError, ["masked"]),
    ],
)
def test_out_that_does_not_fit_is_refused(out, error, words):
    for native in (False, True):
        with pytest.raises(error) as caught:
            widen.matmul(draw((3, 5)), draw((5, 4)), out=out, accuracy="fast", native=native)
        message = str(caught.value)
        assert "\n" not in message
        for word in words:
            assert word in message


def test_out_is_untouched_when_it_is_refused():
    out = np.full((3, 4), 7.0)
    with pytest.raises(ValueError, match="accuracy"):
        widen.matmul(draw((3, 5)), draw((5, 4)), out=out, accuracy="exact")
    assert (out == 7.0).all()
