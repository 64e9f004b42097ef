"""On a GPU: products of numbers of several words give what they give on NumPy arrays."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import widen
import widen.testing as wt
from helpers import assert_same_bits, assert_same_words, draw, draw_words
from widen.formats import FORMATS, PLAIN

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU"),
]

WIDE = [name for name in FORMATS if name not in PLAIN]
SOME = ["float64x2", "float32x3", "float64_float32", "complex128x2", "float64x4"]
SHAPE = (20, 33, 17)

wide = pytest.mark.parametrize("name", WIDE)
some = pytest.mark.parametrize("name", SOME)


def gpu(x):
    """The same array, or `Words`, on the GPU."""
    if not isinstance(x, widen.Words):
        return torch.from_numpy(np.ascontiguousarray(x)).cuda()
    planes = [torch.from_numpy(np.ascontiguousarray(plane)).cuda() for plane in x.planes]
    if len({plane.dtype for plane in planes}) == 1:
        planes = list(torch.stack(planes))
    return widen.Words.of(x.format, planes)


def cpu(x):
    """The same `Words`, of NumPy arrays."""
    return widen.Words.of(x.format, [plane.cpu().numpy() for plane in x.planes])


def same(found, wanted):
    if isinstance(wanted, widen.Words):
        assert found.planes[0].is_cuda
        assert found.format == wanted.format
        assert_same_words(cpu(found), wanted)
    else:
        assert_same_bits(found.cpu().numpy(), wanted)


def assert_as_on_a_cpu(a, b, **given):
    same(widen.matmul(gpu(a), gpu(b), **given), widen.matmul(a, b, **given))


@wide
@pytest.mark.parametrize("accuracy", ["standard", "correct", "fast", 60])
def test_formats_and_contracts(name, accuracy):
    assert_as_on_a_cpu(*draw_words("phi1", SHAPE, 51, name), accuracy=accuracy)


@some
@pytest.mark.parametrize("family", wt.FAMILIES)
def test_families(name, family):
    a, b = draw_words(family, (9, 21, 8), 52, name)
    for accuracy in ("standard", "correct"):
        assert_as_on_a_cpu(a, b, accuracy=accuracy)


@pytest.mark.parametrize("name", ["float64x2", "float64x4", "float64x8", "float64x16"])
@pytest.mark.parametrize(
    "shape", [(300, 70, 257), (65, 1100, 130), (3, 5000, 2), (1, 1, 1), (400, 21, 370)]
)
def test_shapes(name, shape):
    assert_as_on_a_cpu(*draw_words("phi1", shape, 53, name))


@pytest.mark.parametrize(("name", "family"), [
    ("float64x2", "one huge"), ("float32x3", "cancellation"), ("float64x4", "phi2"),
    ("complex128x2", "phi2"), ("float64_float32", "graded against"),
])  # fmt: skip
def test_many_open_elements(name, family):
    """Rounded twice, and compared by other threads than those that stored them."""
    a, b = draw_words(family, (400, 140, 390), 60, name)
    assert_as_on_a_cpu(a, b, accuracy="correct")


def test_batches_vectors_and_views():
    a, b = draw_words("phi1", (12, 30, 8), 54, "float64x2")
    x, y = gpu(a), gpu(b)
    same(widen.matmul(x[::2, 1::3], y[1::3]), widen.matmul(a[::2, 1::3], b[1::3]))
    same(widen.matmul(x[0], y), widen.matmul(a[0], b))
    same(widen.matmul(x, y[:, 0]), widen.matmul(a, b[:, 0]))
    same(
        widen.matmul(reshaped(x, (3, 4, 30)), y), widen.matmul(reshaped(a, (3, 4, 30)), b)
    )  # fmt: skip
    same(
        widen.matmul(reshaped(x, (3, 1, 4, 30)), reshaped(y, (1, 30, 8))),
        widen.matmul(reshaped(a, (3, 1, 4, 30)), reshaped(b, (1, 30, 8))),
    )


def reshaped(x, shape):
    planes = [plane.reshape(plane.shape[0], *shape) for plane in x.planes]
    return widen.Words.of(x.format, planes)


@pytest.mark.parametrize("accuracy", ["standard", "correct"])
def test_plain_operands_and_results(accuracy):
    a, b = draw("phi1", SHAPE, 55)
    wide_a, _ = draw_words("phi1", SHAPE, 56, "float64x2")
    half = a.astype(np.float16)
    for x, y, name in (
        (a, b, "float64x2"), (a, b, "float64x4"), (a, b, "complex128x2"), (half, b, "float64x3"),
        (wide_a, b, None), (wide_a, b, "float64"), (wide_a, b, "float32x3"), (wide_a, b, "float32"),
    ):  # fmt: skip
        assert_as_on_a_cpu(x, y, dtype=name, accuracy=accuracy)


@some
@pytest.mark.parametrize("accuracy", ["standard", "correct"])
def test_gemm(name, accuracy):
    a, b = draw_words("phi1", SHAPE, 57, name)
    c, _ = draw_words("phi4", (SHAPE[0], SHAPE[2], 1), 58, name)
    for alpha, beta in ((0.3, -1.7), (1.0, 1.0), (2.0**-300, 1e20), (0.0, 0.5), (-1.0, 0.0)):
        given = {"alpha": alpha, "beta": beta, "accuracy": accuracy}
        same(widen.gemm(gpu(a), gpu(b), gpu(c), **given), widen.gemm(a, b, c, **given))
    plain = np.ones((SHAPE[0], 1))
    given = {"beta": 3.0, "accuracy": accuracy}
    same(widen.gemm(gpu(a), gpu(b), gpu(plain), **given), widen.gemm(a, b, plain, **given))
    out = gpu(c)
    assert widen.gemm(gpu(a), gpu(b), out, beta=0.5, out=out, accuracy=accuracy) is out
    same(out, widen.gemm(a, b, c, beta=0.5, accuracy=accuracy))


@some
@pytest.mark.parametrize("accuracy", ["standard", "correct", 50])
def test_encoded(name, accuracy):
    a, b = draw_words("phi1", SHAPE, 59, name)
    wanted = widen.matmul(a, b, accuracy=accuracy)
    right = widen.encode(gpu(b), side="right", accuracy=accuracy)
    left = widen.encode(gpu(a), side="left", accuracy=accuracy)
    same(widen.matmul(gpu(a), right), wanted)
    same(widen.matmul(left, gpu(b)), wanted)
    same(widen.matmul(left, right), wanted)


@wide
def test_special_values(name):
    a, b = draw_words("phi1", (6, 9, 5), 60, name)
    for place, value in (((1, 2), np.inf), ((3, 4), np.nan), ((3, 5), -np.inf)):
        for at, plane in enumerate(a.planes):
            plane[(0, *place)] = value if at == 0 else 0
    for plane in b.planes:
        plane[:, 2, 3] = 0
    assert_as_on_a_cpu(a, b)
    assert_as_on_a_cpu(a, b, accuracy="correct")


def test_out_info_and_workspace():
    a, b = draw_words("phi1", (150, 90, 130), 61, "float64x2")
    wanted, record = widen.matmul(a, b, info=True)
    found, info = widen.matmul(gpu(a), gpu(b), info=True)
    same(found, wanted)
    assert np.allclose(info.bound.cpu().numpy(), record.bound, rtol=1e-9, atol=0)
    assert info.unit == "int8"
    out = gpu(widen.matmul(a[:, :1], b[:1]))
    assert widen.matmul(gpu(a), gpu(b), out=out) is out
    same(out, wanted)
    found, info = widen.matmul(gpu(a), gpu(b), workspace="1MB", info=True)
    same(found, wanted)
    assert info.plan.blocks.rows < 150
    with pytest.raises(ValueError, match="float64x2"):
        widen.matmul(gpu(a), gpu(b), out=gpu(wanted)[:5])


@pytest.mark.parametrize("name", ["float64x2", "float64x4"])
def test_a_plan_made_beforehand_is_captured(name):
    a, b = draw_words("phi1", SHAPE, 62, name)
    plan = widen.plan((20, 33), (33, 17), dtype=name, device="cuda")
    x, y, out = gpu(a), gpu(b), gpu(widen.matmul(a, b))
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        for _ in range(2):
            widen.matmul(x, y, out=out, plan=plan, dtype=name)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        widen.matmul(x, y, out=out, plan=plan, dtype=name)
    other, _ = draw_words("phi4", SHAPE, 63, name)
    for plane, new in zip(x.planes, gpu(other).planes, strict=True):
        plane.copy_(new)
    graph.replay()
    torch.cuda.synchronize()
    same(out, widen.matmul(other, b, dtype=name))


UNITS = [
    *[(unit, None) for unit in ("fp64", "fp16", "bf16", "fp8")],
    *[("int8", system) for system in ("digits", "triangle")],
]


@wide
@pytest.mark.parametrize("accuracy", ["standard", "correct", 60])
def test_fp64(name, accuracy):
    a, b = draw_words("phi1", SHAPE, 64, name)
    assert_as_on_a_cpu(a, b, accuracy=accuracy, unit="fp64")


@some
@pytest.mark.parametrize(("unit", "system"), UNITS)
def test_units_and_systems(name, unit, system):
    choice = {"unit": unit, "system": system}
    there = choice if system == "triangle" else {}  # whose bits are its own
    a, b = draw_words("phi1", (33, 70, 20), 65, name)
    same(widen.matmul(gpu(a), gpu(b), **choice), widen.matmul(a, b, **there))
    for family in ("zero lines", "extremes"):
        a, b = draw_words(family, SHAPE, 65, name)
        same(widen.matmul(gpu(a), gpu(b), **choice), widen.matmul(a, b, **there))
    c, _ = draw_words("phi4", (SHAPE[0], SHAPE[2], 1), 66, name)
    given = {"alpha": 0.3, "beta": -1.7}
    wanted = widen.gemm(a, b, c, **given, **there)
    same(widen.gemm(gpu(a), gpu(b), gpu(c), **given, **choice), wanted)


def test_fp8_holds_746_bits():
    a, b = draw_words("phi1", SHAPE, 70, "float64x8")
    with pytest.raises(ValueError, match="use system='digits' or a wider unit"):
        widen.matmul(gpu(a), gpu(b), unit="fp8")
    same(widen.matmul(gpu(a), gpu(b), unit="fp8", system="digits"), widen.matmul(a, b))


@some
@pytest.mark.parametrize("accuracy", ["standard", "correct"])
def test_fp64_encoded_in_batches_and_blocks(name, accuracy):
    a, b = draw_words("phi1", (150, 90, 130), 67, name)
    given = {"accuracy": accuracy, "unit": "fp64"}
    wanted = widen.matmul(a, b, accuracy=accuracy)
    right = widen.encode(gpu(b), side="right", **given)
    left = widen.encode(gpu(a), side="left", **given)
    same(widen.matmul(gpu(a), right), wanted)
    same(widen.matmul(left, right), wanted)
    found, info = widen.matmul(gpu(a), gpu(b), workspace="2MB", info=True, **given)
    same(found, wanted)
    assert (info.unit, info.plan.blocks.rows < 150) == ("fp64", True)
    stacked = [reshaped(x, (3, 50, 90)) for x in (a, gpu(a))]
    same(widen.matmul(stacked[1], gpu(b), **given), widen.matmul(stacked[0], b, accuracy=accuracy))


def test_fp64_of_plain_operands_and_results():
    a, b = draw("phi1", SHAPE, 68)
    wide_a, _ = draw_words("phi1", SHAPE, 69, "float64x16")
    for x, y, name, accuracy in (
        (a, b, "float64x16", "standard"), (a, b, "float64x2", "correct"),
        (wide_a, b, "float64", "standard"), (wide_a, b, "float64", 300),
    ):  # fmt: skip
        assert_as_on_a_cpu(x, y, dtype=name, accuracy=accuracy, unit="fp64")


@wide
def test_sums_dot_products_and_norms(name):
    """As products on the GPU where numbers are finite, else on the CPU."""
    rng = np.random.default_rng(71)
    for family in ("phi4", "cancellation", "extremes"):
        a, b = draw_words(family, (7, 40, 3), 71, name)
        x, y = gpu(a), gpu(b)
        for axis in (None, 1, (1, 0)):
            same(x.sum(axis), a.sum(axis))
            same(x.norm(axis), a.norm(axis))
        same(x.sum(0, keepdims=True), a.sum(0, keepdims=True))
        same(x[2].dot(y[:, 1]), a[2].dot(b[:, 1]))
    for plane in a.planes:
        plane[:, 1, 2] = np.inf if plane is a.planes[0] else 0
    same(gpu(a).sum(1), a.sum(1))
    same(gpu(a).norm(1), a.norm(1))
    same(gpu(a)[:, :0].sum(1), a[:, :0].sum(1))
    large = widen.Words(rng.random(5000), name)
    same(gpu(large).sum(), large.sum())
    same(gpu(large).norm(), large.norm())


def test_matrix_products():
    a, b = draw_words("phi1", SHAPE, 72, "float64x2")
    plain = b.to_numpy()
    same(gpu(a) @ gpu(b), widen.matmul(a, b))
    same(torch.matmul(gpu(a), gpu(plain)), widen.matmul(a, plain))
    same(gpu(plain.T.copy()) @ gpu(a).T, widen.matmul(plain.T, a.T))
