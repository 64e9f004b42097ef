"""CuPy's arrays on a GPU: its own memory and stream, the bits of NumPy's arrays."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import widen
from helpers import assert_same_bits, draw

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU"),
]
cupy = pytest.importorskip("cupy")


@pytest.mark.parametrize("accuracy", ["fast", "standard", "correct", 40])
@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "complex64", "complex128"])
def test_formats_and_contracts(dtype, accuracy):
    a, b = draw("phi1", (30, 200, 40), 1, dtype)
    found = widen.matmul(cupy.asarray(a), cupy.asarray(b), accuracy=accuracy)
    assert isinstance(found, cupy.ndarray)
    assert_same_bits(found.get(), widen.matmul(a, b, accuracy=accuracy))


def test_strides_batches_vectors_and_targets():
    a, b = draw("phi2", (64, 100, 48), 2)
    x, y = cupy.asarray(a), cupy.asarray(b)
    wanted = widen.matmul(a, b)
    turned = cupy.asfortranarray(x)
    assert_same_bits(widen.matmul(turned, y[:, ::-1]).get(), wanted[:, ::-1])
    assert_same_bits(widen.matmul(cupy.stack([x, x]), y).get()[1], wanted)
    assert_same_bits(widen.matmul(x, y[:, 0]).get(), wanted[:, 0])
    assert widen.matmul(x[:0], y).shape == (0, 48)
    out = cupy.empty((64, 48))
    assert widen.matmul(x, y, out=out) is out
    assert_same_bits(out.get(), wanted)
    turned = cupy.empty((64, 48))[::-1]
    assert widen.matmul(x, y, out=turned) is turned
    assert_same_bits(turned.get(), wanted)
    found, info = widen.gemm(x, y, out, alpha=2.0, beta=-2.0, info=True)
    wanted, on_cpu = widen.gemm(a, b, wanted, alpha=2.0, beta=-2.0, info=True)
    assert_same_bits(found.get(), wanted)
    assert info.plan.shape == on_cpu.plan.shape


def test_its_current_stream_orders_the_work():
    """Operands are written late on a stream of CuPy's, and the result is read there."""
    a, b = draw("phi1", (300, 300, 300), 3)
    wanted = widen.matmul(a, b, accuracy="correct")
    x, y = cupy.asarray(a), cupy.asarray(b)
    busy = cupy.ones((4096, 4096))
    cupy.cuda.Device().synchronize()
    for _ in range(5):
        stream = cupy.cuda.Stream(non_blocking=True)
        with stream:
            late = cupy.zeros_like(x)
            for _ in range(8):
                busy @ busy
            late += x
            found = widen.matmul(late, y, accuracy="correct")
            late.fill(np.nan)  # after the product, on the same stream
            copy = found.copy()
        stream.synchronize()
        assert_same_bits(copy.get(), wanted)


def test_integers():
    x = cupy.arange(6).reshape(2, 3)
    found = widen.matmul(x, x.T)
    assert found.dtype == cupy.int64
    assert found.get().tolist() == [[5, 14], [14, 50]]


def test_functions_of_arrays():
    a, b = draw("phi1", (20, 50, 10), 4)
    x, y = cupy.asarray(a), cupy.asarray(b)
    assert_same_bits(widen.einsum("ij,jk->ik", x, y).get(), widen.einsum("ij,jk->ik", a, b))
    assert_same_bits(widen.sum(x, 1).get(), widen.sum(a, 1))
