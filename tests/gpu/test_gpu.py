"""On a GPU: the whole interface on CUDA tensors gives what it gives on NumPy arrays."""

from __future__ import annotations

import importlib

import numpy as np
import pytest
import torch

import widen
import widen.testing as wt
from helpers import ROOT, assert_same_bits, draw
from widen.calls.cpu_tensors import as_array
from widen.gpu import exact_products as gpu_exact_products

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU"),
]

SOAK = 50
"""Random products compared with the CPU, here."""

RNG = np.random.default_rng(0)
A, B = RNG.standard_normal((3, 40, 50)), RNG.standard_normal((3, 50, 30))
Z = A[0] + 1j * RNG.standard_normal((40, 50))


def gpu(x):
    return torch.from_numpy(np.ascontiguousarray(x)).cuda()


def same(found, wanted):
    assert found.is_cuda
    assert_same_bits(as_array(found.cpu()), np.asarray(wanted))


@pytest.mark.parametrize("shapes", [
    ((40, 50), (50, 30)), ((3, 40, 50), (50, 30)), ((40, 50), (3, 50, 30)),
    ((3, 1, 4, 50), (1, 2, 50, 5)), ((50,), (50, 30)), ((40, 50), (50,)), ((50,), (50,)),
    ((40, 0), (0, 30)), ((0, 50), (50, 30)), ((2, 0, 4, 5), (5, 6)), ((1, 1), (1, 1)),
    ((1, 70000), (70000, 2)), ((300, 3), (3, 257)), ((17, 140000), (140000, 3)),
])  # fmt: skip
@pytest.mark.parametrize("accuracy", ["standard", "correct"])
def test_shapes(shapes, accuracy):
    a, b = (RNG.standard_normal(shape) for shape in shapes)
    same(widen.matmul(gpu(a), gpu(b), accuracy=accuracy), widen.matmul(a, b, accuracy=accuracy))


def test_views():
    a, b = gpu(A[0]), gpu(B[0])
    same(
        widen.matmul(a[::2, 1::3], b[1::3].flip(1)[:, ::2]),
        widen.matmul(A[0][::2, 1::3], B[0][1::3][:, ::-1][:, ::2]),
    )
    same(widen.matmul(b.T, a.T), widen.matmul(B[0].T, A[0].T))
    z = gpu(Z)
    same(widen.matmul(z.mH, z), widen.matmul(Z.conj().T, Z))
    same(widen.matmul(z, b), widen.matmul(Z, B[0]))
    same(widen.matmul(z.imag, b), widen.matmul(Z.imag, B[0]))


def test_out():
    out = torch.full((40, 60), 7.0, dtype=torch.float64, device="cuda")[:, ::2]
    assert widen.matmul(gpu(A[0]), gpu(B[0]), out=out) is out
    same(out, widen.matmul(A[0], B[0]))
    x = gpu(A[0][:, :40])
    same(widen.matmul(x, x, out=x), widen.matmul(A[0][:, :40], A[0][:, :40]))
    with pytest.raises(ValueError, match=r"torch\.empty"):
        widen.matmul(x, x, out=out)


def test_formats_of_results():
    a, b = (x.astype(np.float32) for x in (A[0], B[0]))
    for dtype in ("float32", "float64", "complex64", "complex128"):
        same(widen.matmul(gpu(a), gpu(b), dtype=dtype), widen.matmul(a, b, dtype=dtype))
    half = torch.from_numpy(A[0]).bfloat16(), torch.from_numpy(B[0]).bfloat16()
    wanted = widen.matmul(*half)
    found = widen.matmul(half[0].cuda(), half[1].cuda())
    assert found.dtype == wanted.dtype == torch.bfloat16
    assert torch.equal(found.cpu().view(torch.int16), wanted.view(torch.int16))


def test_info():
    found, info = widen.matmul(gpu(A[0]), gpu(B[0]), info=True)
    wanted, record = widen.matmul(A[0], B[0], info=True)
    same(found, wanted)
    assert np.allclose(info.bound.cpu().numpy(), record.bound, rtol=1e-9, atol=0)
    assert info.unit == "int8"
    assert info.seconds["multiply"] > 0
    assert "int8" in str(info)
    a, b = draw("one huge", (30, 40, 20), 1)
    found, info = widen.matmul(gpu(a), gpu(b), info=True)
    assert info.repaired == widen.matmul(a, b, info=True)[1].repaired > 0


@pytest.mark.parametrize("accuracy", ["standard", "fast", "correct", 40])
def test_encoded(accuracy):
    wanted = widen.matmul(A, B[0], accuracy=accuracy)
    right = widen.encode(gpu(B[0]), side="right", accuracy=accuracy)
    left = widen.encode(gpu(A[0]), side="left", accuracy=accuracy)
    same(widen.matmul(gpu(A), right), wanted)
    same(widen.matmul(left, right), wanted[0])
    same(widen.matmul(left, gpu(B[0])), wanted[0])
    ones = np.ones_like(B[0])  # few bits, and as many planes as others ask for
    found = widen.matmul(gpu(A), widen.encode(gpu(ones), side="right", accuracy=accuracy))
    same(found, widen.matmul(A, ones, accuracy=accuracy))
    with pytest.raises(ValueError, match="encoded for the right side"):
        widen.matmul(right, gpu(A[0][:30]))


def test_encoded_complex():
    right = widen.encode(gpu(Z), side="right")
    same(widen.matmul(gpu(Z.conj().T), right), widen.matmul(Z.conj().T, Z))


def test_workspace():
    a, b = RNG.standard_normal((500, 300)), RNG.standard_normal((300, 400))
    found, info = widen.matmul(gpu(a), gpu(b), workspace="1MB", info=True)
    same(found, widen.matmul(a, b))
    assert info.plan.blocks.rows < 500
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    x, y = gpu(RNG.standard_normal((2000, 2000))), gpu(RNG.standard_normal((2000, 2000)))
    held = torch.cuda.memory_allocated() - before + 8 * 2000**2
    widen.matmul(x, y, workspace="64MB")
    assert torch.cuda.max_memory_allocated() - before - held <= 1.1 * 64e6


@pytest.mark.parametrize("given", [
    ("graded circulant", "standard", None), ("graded circulant", "correct", None),
    ("one huge", "fast", None), ("one huge", "standard", "40MB"),
    ("graded inner", "correct", "40MB"),
])  # fmt: skip
def test_many_repairs(given, monkeypatch):
    monkeypatch.setattr(gpu_exact_products, "FEWEST_TERMS", 1 << 20)
    family, accuracy, workspace = given
    a, b = draw(family, (400, 300, 500), 23)
    found, info = widen.matmul(gpu(a), gpu(b), accuracy=accuracy, workspace=workspace, info=True)
    wanted, record = widen.matmul(a, b, accuracy=accuracy, info=True)
    same(found, wanted)
    assert info.repaired > 400 * 500 // 10
    if accuracy != "correct":  # which elements are repaired is free there
        assert info.repaired == record.repaired


@pytest.mark.parametrize("fewest", [gpu_exact_products.FEWEST_TERMS, 0])
@pytest.mark.parametrize("accuracy", ["standard", "correct", 50])
def test_a_plan_made_beforehand_is_captured(accuracy, fewest, monkeypatch):
    """Also where the call before it has asked how many elements are open."""
    monkeypatch.setattr(gpu_exact_products, "FEWEST_TERMS", fewest)
    x, y = gpu(A[0]), gpu(B[0])
    out = torch.empty((40, 30), dtype=torch.float64, device="cuda")
    given = {"accuracy": 50}
    if accuracy != 50:
        given = {"plan": widen.plan((40, 50), (50, 30), accuracy=accuracy, device="cuda")}
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        for _ in range(2):
            widen.matmul(x, y, out=out, **given)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        widen.matmul(x, y, out=out, **given)
    hostile = A[1].copy()
    hostile[3] *= 1e300
    hostile[3, 3], hostile[5, 5] = 1e-300, np.inf
    for a in (A[1], hostile):
        x.copy_(gpu(a))
        out.zero_()
        graph.replay()
        torch.cuda.synchronize()
        same(out, widen.matmul(a, B[0], accuracy=accuracy))


@pytest.mark.parametrize("accuracy", ["fast", "standard", "correct"])
def test_a_plan_for_friendly_data_serves_hard_data(accuracy, monkeypatch):
    monkeypatch.setattr(gpu_exact_products, "FEWEST_TERMS", 1 << 20)
    shape = (400, 300, 500)
    plan = widen.plan((400, 300), (300, 500), accuracy=accuracy, device="cuda")
    for family in ("phi0", "phi0", "graded circulant", "graded circulant", "phi0"):
        a, b = draw(family, shape, 24)
        same(widen.matmul(gpu(a), gpu(b), plan=plan), widen.matmul(a, b, accuracy=accuracy))


def test_a_plan_of_real_numbers_keeps_a_complex_result():
    x, y = gpu(A[0]), gpu(B[0])
    wanted, info = widen.matmul(x, y, dtype="complex128", info=True)
    plan = widen.plan(x, y, dtype="complex128")
    assert plan.result == info.plan.result == "complex128"
    same(widen.matmul(x, y, plan=plan), wanted.cpu())


def test_errors():
    a, b = gpu(A[0]), gpu(B[0])
    with pytest.raises(ValueError, match="move them to one place"):
        widen.matmul(a, B[0])
    with pytest.raises(ValueError, match="move them to one place"):
        widen.matmul(a, b.cpu())
    with pytest.raises(TypeError, match="detach"):
        widen.encode(a.clone().requires_grad_(), side="left")
    with pytest.raises(ValueError, match="move them to one place"):
        widen.gemm(a, b, A[0], beta=1.0)
    with pytest.raises(ValueError, match="use one of 'int8'"):
        widen.matmul(a, b, unit="fp32")


C = RNG.standard_normal((3, 40, 30))


def assert_same_gemm(a, b, c, **given):
    """`gemm` of tensors has the bits of `gemm` of arrays."""
    tensors = [x if x is None or np.isscalar(x) else gpu(x) for x in (a, b, c)]
    same(widen.gemm(*tensors, **given), widen.gemm(a, b, c, **given))


@pytest.mark.parametrize("accuracy", ["standard", "fast", "correct", 40])
@pytest.mark.parametrize("family", ["phi1", "phi4", "graded against", "one huge", "extremes"])
def test_gemm(family, accuracy):
    a, b = draw(family, (70, 90, 130), 21)
    with np.errstate(all="ignore"):
        c = np.resize([1.0, 0.0, 1e30, -1e-30], (70, 130)) * widen.matmul(a, b, accuracy="correct")
    for system in ("residues", "triangle"):  # whose bits are those of a unit
        assert_same_gemm(
            a, b, c, alpha=-1.0, beta=1.0, accuracy=accuracy, unit="int8", system=system
        )


@pytest.mark.parametrize("accuracy", ["standard", "correct"])
def test_gemm_into_c(accuracy):
    residual = -widen.matmul(A[0], B[0], accuracy="correct")
    given = {"beta": 1.0, "accuracy": accuracy}
    out = gpu(residual)
    assert widen.gemm(gpu(A[0]), gpu(B[0]), out, out=out, **given) is out
    same(out, widen.gemm(A[0], B[0], residual, **given))
    x = gpu(A[0][:, :40])
    widen.gemm(x, x, x, beta=0.5, out=x, accuracy=accuracy)
    y = A[0][:, :40]
    same(x, widen.gemm(y, y, y, beta=0.5, accuracy=accuracy))


def test_gemm_of_batches_and_numbers():
    for c in (C, C[:, :1], C[0, :, :1], C[0, 0], 0.3):
        assert_same_gemm(A, B, c, alpha=0.1, beta=-3.7)
        assert_same_gemm(A, B[0], c, alpha=0.1, beta=-3.7, accuracy="correct")
    assert_same_gemm(A[0], B[0][:, 0], C[0, :, 0], beta=2.0)
    assert_same_gemm(A[0, 0], B, C[:, 0], beta=2.0)


def test_gemm_of_complex_numbers_and_formats():
    c = C[0] + 1j * C[1]
    for alpha, beta in [(1.0, 1.0), (0.3 - 1j, 1e-300 + 2j), (1j, -1.0)]:
        assert_same_gemm(Z, B[0], c, alpha=alpha, beta=beta)
        assert_same_gemm(Z, B[0], C[0], alpha=alpha, beta=beta, accuracy="correct")
    assert_same_gemm(A[0], B[0], C[0], alpha=1j, beta=2.0, dtype="complex128")
    single = [x.astype(np.float32) for x in (A[0], B[0], C[0])]
    assert_same_gemm(*single, alpha=0.1, beta=0.7)
    assert_same_gemm(*single, alpha=0.1, beta=0.7, dtype="float64", accuracy="correct")
    half = [x.astype(np.float16) for x in single]
    assert_same_gemm(*half, alpha=0.1, beta=0.7)


def test_gemm_does_not_read_what_it_need_not():
    wrong = np.full((40, 30), np.nan)
    assert_same_gemm(A[0], B[0], wrong, alpha=0.1)
    assert_same_gemm(A[0] * np.nan, B[0], C[0], alpha=0.0, beta=0.1)
    assert_same_gemm(A[0][:, :0], B[0][:0], C[0], alpha=5.0, beta=2.0)
    assert_same_gemm(A[0] * np.nan, B[0], None, alpha=0.0)


@pytest.mark.parametrize("accuracy", ["standard", "correct", 40])
def test_gemm_in_blocks(accuracy):
    a, b = draw("phi2", (500, 300, 400), 22)
    c = RNG.standard_normal((500, 1))
    given = {"alpha": -0.7, "beta": 1.3, "accuracy": accuracy, "info": True}
    found, info = widen.gemm(gpu(a), gpu(b), gpu(c), workspace="1MB", **given)
    wanted, record = widen.gemm(a, b, c, **given)
    same(found, wanted)
    assert info.plan.blocks.rows < 500
    if accuracy != "correct":  # whose quantisation is free, and with it how much is repaired
        assert info.repaired == record.repaired
    assert np.allclose(info.bound.cpu().numpy(), record.bound, rtol=1e-9, atol=0)


def test_gemm_of_encoded_operands():
    right, left = widen.encode(gpu(B[0]), side="right"), widen.encode(gpu(A[0]), side="left")
    for a, b in ((gpu(A[0]), right), (left, gpu(B[0])), (left, right)):
        found = widen.gemm(a, b, gpu(C[0]), alpha=0.1, beta=0.2)
        same(found, widen.gemm(A[0], B[0], C[0], alpha=0.1, beta=0.2))


def test_too_little_memory():
    # Larger than what other tests may have left between tensors that live on.
    a = torch.zeros((4000, 4000), dtype=torch.float64, device="cuda")
    wanted = widen.matmul(a, a)
    torch.cuda.set_per_process_memory_fraction(1e-5)
    try:
        torch.cuda.empty_cache()
        for _ in range(2):  # recorded, and not
            with pytest.raises(torch.OutOfMemoryError, match="give a smaller workspace="):
                widen.matmul(a, a)
    finally:
        torch.cuda.set_per_process_memory_fraction(1.0)
    same(widen.matmul(a, a), wanted.cpu().numpy())


def test_native():
    a, b = gpu(A[0]), gpu(B[0])
    found, info = widen.matmul(a, b, accuracy="fast", native=True, info=True)
    assert info.unit == "native"
    assert torch.equal(found, a @ b)
    assert (wt.exact_error(found.cpu().numpy(), A[0], B[0]) <= info.bound.cpu().numpy()).all()
    same(widen.matmul(a, b, native=True), widen.matmul(A[0], B[0]))


def test_streams_are_kept_in_order():
    """Work on a side stream sees what was put there, and nothing waits for the default one."""
    a, b = gpu(A[0]), gpu(B[0])
    widen.matmul(a, b)
    torch.cuda.synchronize()
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        x = torch.zeros_like(a)
        torch.cuda._sleep(20_000_000)
        x.copy_(a)
        found = widen.matmul(x, b)
        x.zero_()
    stream.synchronize()
    same(found, widen.matmul(A[0], B[0]))


@pytest.mark.parametrize("sign", [1, -1])
def test_int8_tensor_cores_are_exact(sign):
    """The record of the unit: largest digits, equal signs, as deep as an int32 holds."""
    from widen.gpu import multiply as gpu_multiply
    from widen.systems import residues
    from widen.units import UNITS

    unit, layout = UNITS["int8"], residues(128, 100.0, 1)
    for k in (unit.depth(128) // 128 * 128, 2 * unit.depth(128) + 77):
        shape = (len(layout.moduli), 1, 3, -(-k // 16) * 16)
        ours = torch.full(shape, -128 if sign > 0 else 127, dtype=torch.int8, device="cuda")
        theirs = torch.full(shape, -128, dtype=torch.int8, device="cuda")
        found = gpu_multiply.multiply(ours, theirs, layout, k)[..., :3].cpu()
        for z, p in enumerate(layout.moduli):
            digit = -128 if sign > 0 else 127
            wanted = k * digit * -128 * pow(layout.modulus // p, -1, p) % p
            assert (found[z] == wanted).all()


def test_soak(monkeypatch):
    """A few random shapes, strides, formats and contracts; `bench/soak.py` runs thousands."""
    monkeypatch.syspath_prepend(ROOT / "bench")
    soak = importlib.import_module("soak")
    assert [x for x in map(soak.work, soak.cases(SOAK)) if soak.is_wrong(x)] == []


@pytest.mark.skipif(
    torch.cuda.is_available() and torch.cuda.mem_get_info()[1] < 100e9, reason="a smaller GPU"
)
def test_more_numbers_than_an_int32_counts():
    """As operands of either side, and as a result: lines have the bits they have alone."""

    def lines(count):
        return torch.tensor([0, 1, count // 2, (1 << 31) // 31_000, count - 1], device="cuda")

    tall = torch.randn(70_000, 31_000, dtype=torch.float32, device="cuda")
    thin = torch.randn(31_000, 24, dtype=torch.float32, device="cuda")
    assert tall.numel() > 1 << 31
    rows = lines(70_000)
    wanted = widen.matmul(tall[rows], thin)
    assert torch.equal(widen.matmul(tall, thin)[rows], wanted)
    wanted = widen.matmul(thin.mT, tall[rows].mT)
    assert torch.equal(widen.matmul(thin.mT, tall.mT)[:, rows], wanted)
    del tall
    a, b = thin.view(46_500, 16), thin.view(46_500, 16).mT
    found = widen.matmul(a, b)
    assert found.numel() > 1 << 31
    rows = lines(46_500).clamp(max=46_499)
    assert torch.equal(found[rows][:, rows.flip(0)], widen.matmul(a[rows], b[:, rows.flip(0)]))
    assert not found.isnan().any()
