"""Two calls of the CUDA driver that PyTorch makes slowly: clear memory, fetch a few numbers."""

from __future__ import annotations

import ctypes
from functools import cache
from typing import Any

import torch


@cache
def _calls() -> tuple[Any, Any]:
    library = ctypes.CDLL("libcuda.so.1")
    clear, fetch = library.cuMemsetD8Async, library.cuMemcpyDtoHAsync_v2
    clear.argtypes = ctypes.c_uint64, ctypes.c_ubyte, ctypes.c_size_t, ctypes.c_void_p
    fetch.argtypes = ctypes.c_void_p, ctypes.c_uint64, ctypes.c_size_t, ctypes.c_void_p
    return clear, fetch


def stream(device: int) -> int:
    """The current stream of a GPU."""
    return int(torch._C._cuda_getCurrentRawStream(device))


def clear(address: int, size: int, device: int) -> None:
    """Set bytes of the current GPU to zero, on the current stream."""
    _check(_calls()[0](address, 0, size, stream(device)))


def fetch(host: int, address: int, size: int, device: int) -> None:
    """Copy bytes of the current GPU to pinned memory, on the current stream."""
    _check(_calls()[1](host, address, size, stream(device)))


def _check(status: int) -> None:
    if status:
        raise RuntimeError(f"the CUDA driver answered {status}")
