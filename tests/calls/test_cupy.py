"""CuPy's arrays, by a module that stands in for CuPy and writes down how it is called.

CuPy itself needs a GPU: what is seen here is that each array becomes a tensor by DLPack, on the
stream that is CuPy's current one, and that results go back the same way.
"""

from __future__ import annotations

import sys
import types
from contextlib import contextmanager

import numpy as np
import pytest
import torch

import widen


class Array:
    """An array as CuPy's are: memory of NumPy's, a device, DLPack."""

    def __init__(self, x):
        self.x, self.device = x, types.SimpleNamespace(id=3)
        self.strides = x.strides

    def __setitem__(self, at, other):
        self.x[at] = other.x

    def __dlpack__(self, **options):
        CALLS.append("to torch")
        return self.x.__dlpack__(**options)

    def __dlpack_device__(self):
        return self.x.__dlpack_device__()


CALLS: list[str] = []


@pytest.fixture
def cupy(monkeypatch):
    CALLS.clear()
    module = types.ModuleType("cupy")
    module.ndarray = Array

    def current_stream(device):
        CALLS.append(f"stream of {device}")
        return types.SimpleNamespace(ptr=4096)

    def from_dlpack(tensor):
        CALLS.append("to cupy")
        return Array(np.from_dlpack(tensor))

    module.cuda = types.SimpleNamespace(get_current_stream=current_stream)
    module.from_dlpack = from_dlpack
    module.ascontiguousarray = lambda array: Array(np.ascontiguousarray(array.x))
    monkeypatch.setitem(sys.modules, "cupy", module)
    monkeypatch.delitem(sys.modules, "widen.calls.foreign.cupy", raising=False)

    @contextmanager
    def stream(external):
        CALLS.append(f"enter {external}")
        yield
        CALLS.append("leave")

    monkeypatch.setattr(torch.cuda, "ExternalStream", lambda ptr, device: f"{ptr} on {device}")
    monkeypatch.setattr(torch.cuda, "stream", stream)
    yield module
    sys.modules.pop("widen.calls.foreign.cupy", None)


A, B = np.array([[1.5, 2.0], [3.0, 4.0]]), np.array([[1.0, 0.5], [0.25, 2.0]])


def test_arrays_in_arrays_out(cupy):
    found = widen.matmul(Array(A), Array(B))
    assert type(found) is Array
    np.testing.assert_array_equal(found.x, widen.matmul(A, B))
    assert CALLS == [
        "stream of 3", "enter 4096 on 3", "to torch", "to torch", "to cupy", "leave",
    ]  # fmt: skip


def test_sums_records_and_targets(cupy):
    found, info = widen.gemm(Array(A), Array(B), Array(B), beta=1.0, info=True)
    np.testing.assert_array_equal(found.x, widen.gemm(A, B, B, beta=1.0))
    assert info.plan.shape == (1, 2, 2, 2)
    out = Array(np.empty((2, 2)))
    assert widen.matmul(Array(A), Array(B), out=out) is out
    np.testing.assert_array_equal(out.x, widen.matmul(A, B))
    whole = widen.matmul(Array(A), Array(B), dtype="float64x2")
    assert isinstance(whole, widen.Words)


def test_arrays_that_run_backwards(cupy):
    """PyTorch has no such strides, and DLPack would end the process."""
    wanted, out = widen.matmul(A[::-1], B), Array(np.empty((2, 2))[:, ::-1])
    assert widen.matmul(Array(A[::-1]), Array(B), out=out) is out
    np.testing.assert_array_equal(out.x, wanted)


def test_integers(cupy):
    found = widen.matmul(Array(np.arange(4).reshape(2, 2)), Array(np.ones((2, 2), int)))
    assert found.x.tolist() == [[1, 1], [5, 5]]
    assert found.x.dtype == np.int64


def test_they_do_not_mix_with_numpy(cupy):
    with pytest.raises(ValueError, match="move them to one place"):
        widen.matmul(Array(A), B)
