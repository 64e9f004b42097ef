"""The CUDA driver, through ctypes: what PyTorch and Triton do slowly, or not at all.

NVRTC, which compiles, is no part of it (`gpu.kernels.cuda.compiler`). This module may be imported
without PyTorch, and without a GPU.
"""

from __future__ import annotations

import ctypes
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache, lru_cache
from struct import pack, unpack
from typing import Any

from widen.gpu.replay import private


class _Config(ctypes.Structure):
    """`CUlaunchConfig`."""

    _fields_ = (
        ("grid", ctypes.c_uint32 * 3),
        ("block", ctypes.c_uint32 * 3),
        ("shared_bytes", ctypes.c_uint32),
        ("stream", ctypes.c_void_p),
        ("attributes", ctypes.c_void_p),
        ("attribute_count", ctypes.c_uint32),
    )


class _Attribute(ctypes.Structure):
    """`CUlaunchAttribute`: a number, and a union of 64 bytes which begins at the eighth."""

    _fields_ = (
        ("id", ctypes.c_uint64),
        ("value", ctypes.c_int32),
        ("rest", ctypes.c_uint8 * 60),
    )


_PLACE = (
    ("x", ctypes.c_size_t), ("y", ctypes.c_size_t), ("memory", ctypes.c_uint32),
    ("host", ctypes.c_void_p), ("address", ctypes.c_uint64), ("array", ctypes.c_void_p),
    ("apart", ctypes.c_size_t),
)  # fmt: skip


class _Rows(ctypes.Structure):
    """`CUDA_MEMCPY2D`."""

    _fields_ = (
        *((f"from_{name}", kind) for name, kind in _PLACE),
        *((f"to_{name}", kind) for name, kind in _PLACE),
        ("width", ctypes.c_size_t),
        ("count", ctypes.c_size_t),
    )


ANY_MEMORY = 4
"""The host's or a GPU's: pinned memory has one address for both."""


@cache
def calls() -> Any:
    """The driver's functions; those that every call takes know the types of their integers."""
    library = ctypes.CDLL("libcuda.so.1")
    library.cuMemsetD8Async.argtypes = (
        ctypes.c_uint64, ctypes.c_ubyte, ctypes.c_size_t, ctypes.c_void_p
    )  # fmt: skip
    library.cuMemcpyDtoHAsync_v2.argtypes = (
        ctypes.c_void_p, ctypes.c_uint64, ctypes.c_size_t, ctypes.c_void_p
    )  # fmt: skip
    library.cuMemcpyDtoDAsync_v2.argtypes = (
        ctypes.c_uint64, ctypes.c_uint64, ctypes.c_size_t, ctypes.c_void_p
    )  # fmt: skip
    library.cuMemcpy2DAsync_v2.argtypes = ctypes.c_void_p, ctypes.c_void_p
    library.cuEventRecord.argtypes = ctypes.c_void_p, ctypes.c_void_p
    library.cuStreamWaitEvent.argtypes = ctypes.c_void_p, ctypes.c_void_p, ctypes.c_uint32
    library.cuStreamSynchronize.argtypes = (ctypes.c_void_p,)
    return library


def stream(device: int) -> int:
    """The current stream of a GPU."""
    return int(private.stream_reader()(device))


Call = tuple[Callable[..., Any], tuple[Any, ...]]
"""A function of the driver and what it is given; it answers 0 if all is well."""

Move = Callable[[list[int], int], Call]
"""The call of a launch, given addresses of blocks of memory and a stream."""


def cleared(address: int, size: int, stream: int) -> Call:
    """The call that sets bytes of the current GPU to zero."""
    return calls().cuMemsetD8Async, (address, 0, size, stream)


def copied(to: int, come: int, size: int, stream: int) -> Call:
    """The call that copies bytes of the current GPU."""
    return calls().cuMemcpyDtoDAsync_v2, (to, come, size, stream)


def fetch(host: int, address: int, size: int, event: int, streams: tuple[int, int]) -> None:
    """Copy bytes of the current GPU to pinned memory as soon as the first stream comes here.

    That is done on the second, for which the first does not wait.
    """
    library, (current, side) = calls(), streams
    check(library.cuEventRecord(event, current))
    check(library.cuStreamWaitEvent(side, event, 0))
    check(library.cuMemcpyDtoHAsync_v2(host, address, size, side))


def wait_for(stream: int) -> None:
    """Wait until all that was given to a stream is done."""
    check(calls().cuStreamSynchronize(stream))


def copy_rows(to: tuple[int, int], come: tuple[int, int], shape: Sequence[int], side: int) -> None:
    """Copy rows of bytes, `shape` of them, on a stream: each is an address and a distance."""
    count, width = shape
    rows = _Rows(
        from_memory=ANY_MEMORY, from_address=come[0], from_apart=come[1], to_memory=ANY_MEMORY,
        to_address=to[0], to_apart=to[1], width=width, count=count,
    )  # fmt: skip
    check(calls().cuMemcpy2DAsync_v2(ctypes.byref(rows), side))


class _Entered(threading.local):
    device = -1


_entered = _Entered()


def enter(device: int) -> None:
    """Make sure that this thread has a context, which is the current GPU's."""
    if _entered.device != device:
        open_context(device)
        _entered.device = device


def open_context(device: int) -> None:
    """The same, whatever was found before."""
    library, context, number = calls(), ctypes.c_void_p(), ctypes.c_int()
    check(library.cuCtxGetCurrent(ctypes.byref(context)))
    if not context.value:
        check(library.cuDeviceGet(ctypes.byref(number), device))
        check(library.cuDevicePrimaryCtxRetain(ctypes.byref(context), number))
        check(library.cuCtxSetCurrent(context))


def check(status: int) -> None:
    """An error unless the driver has answered 0."""
    if status:
        raise RuntimeError(f"the CUDA driver answered {status}")


def version() -> int:
    """The newest CUDA that the driver knows, 13000 for 13.0."""
    number = ctypes.c_int()
    check(calls().cuDriverGetVersion(ctypes.byref(number)))
    return number.value


class _Pretending(threading.local):
    gpu = False


_pretending = _Pretending()


@contextmanager
def pretended() -> Iterator[None]:
    """A context in which this thread asks for a GPU, wherever tensors are."""
    _pretending.gpu = True
    try:
        yield
    finally:
        _pretending.gpu = False


def is_gpu(device: Any) -> bool:
    """Whether kernels for tensors on a device run on a GPU, and not in Triton's interpreter."""
    return _pretending.gpu or bool(device.type == "cuda")


@lru_cache(maxsize=16)
def processors(device: Any) -> int:
    """Multiprocessors of a GPU; in Triton's interpreter, one."""
    if device.type != "cuda":
        return 1
    properties = sys.modules["torch"].cuda.get_device_properties(device)
    return int(properties.multi_processor_count)


# Numbers of cuda.h, which a test compares with it.
MAX_DYNAMIC_SHARED_SIZE_BYTES = 8
PREFER_SHARED = 1
LAUNCH_ATTRIBUTE_COOPERATIVE = 2
UINT8, SWIZZLE_128B, L2_128B, L2_256B = 0, 3, 2, 3
INVALID_CONTEXT = 201

FREE_SHARED_BYTES = 48 * 1024
"""Shared memory that a block may have unasked."""


def load(binary: bytes, name: bytes, shared_bytes: int, *, prefer_shared: bool = False) -> int:
    """A kernel of a compiled module, loaded in the current context for good.

    With `prefer_shared`, memory that is cache or shared becomes shared, as Triton has it for blocks
    that need much.
    """
    library, module, function = calls(), ctypes.c_void_p(), ctypes.c_void_p()
    check(library.cuModuleLoadData(ctypes.byref(module), binary))
    check(library.cuModuleGetFunction(ctypes.byref(function), module, name))
    if prefer_shared and shared_bytes > FREE_SHARED_BYTES:
        check(library.cuFuncSetCacheConfig(function, PREFER_SHARED))
    check(library.cuFuncSetAttribute(function, MAX_DYNAMIC_SHARED_SIZE_BYTES, shared_bytes))
    assert function.value is not None
    return function.value


def tensor_map(
    address: int, sizes: Sequence[int], strides: Sequence[int], box: Sequence[int], *,
    kind: int = UINT8, swizzle: int = SWIZZLE_128B, promotion: int = L2_256B,
) -> bytes:  # fmt: skip
    """How TMA reads a tensor of bytes in boxes, fastest dimension first; beyond `sizes`, zeros.

    Strides are in bytes; of another `kind` of numbers, sizes and boxes count these.
    """
    rank = len(sizes)
    room = ctypes.create_string_buffer(256)  # a map is 128 bytes, and begins at a multiple of that
    start = -(-ctypes.addressof(room) // 128) * 128
    check(
        calls().cuTensorMapEncodeTiled(
            ctypes.c_void_p(start), kind, rank, ctypes.c_void_p(address),
            (ctypes.c_uint64 * rank)(*sizes), (ctypes.c_uint64 * (rank - 1))(*strides),
            (ctypes.c_uint32 * rank)(*box), (ctypes.c_uint32 * rank)(*[1] * rank),
            0, swizzle, promotion, 0,
        )
    )  # fmt: skip
    return ctypes.string_at(start, 128)


def word(value: float) -> int:
    """An argument of up to eight bytes as a word whose first bytes are it; floats have four."""
    if isinstance(value, float):
        return int(unpack("I", pack("f", value))[0])
    return value & 0xFFFFFFFFFFFFFFFF


def start(
    function: int, grid: tuple[int, int, int], threads: int, shared_bytes: int, *,
    arguments: Sequence[int], long: Mapping[int, bytes], device: int, together: bool = False,
) -> None:  # fmt: skip
    """Launch a kernel on the current stream of the current device.

    Arguments are words, but for those that are longer, by their places. Blocks that run `together`
    all have room at once, or the driver refuses: they may wait for one another.
    """
    count = len(arguments)
    words = (ctypes.c_uint64 * count)(*arguments)
    first = ctypes.addressof(words)
    pointers = (ctypes.c_void_p * count)(*range(first, first + 8 * count, 8))
    rooms = [(at, ctypes.create_string_buffer(data, len(data))) for at, data in long.items()]
    for at, room in rooms:
        pointers[at] = ctypes.addressof(room)
    config = _Config(grid, (threads, 1, 1), shared_bytes, stream(device))
    attribute = _Attribute(LAUNCH_ATTRIBUTE_COOPERATIVE, 1)
    if together:
        config.attributes, config.attribute_count = ctypes.addressof(attribute), 1
    given = ctypes.byref(config), ctypes.c_void_p(function), pointers, None
    run = calls().cuLaunchKernelEx
    status = run(*given)
    if status == INVALID_CONTEXT:  # a thread that has not used the device
        open_context(device)
        status = run(*given)
    check(status)


class Movable:
    """A call of the driver that is made again with other addresses, on a device, the current one.

    Threads make it at the same time: each by a `mover` of its own, which holds what it is given.
    """

    device: int

    def mover(self) -> Move:
        """What gives the call for blocks of memory at some addresses, and a stream."""
        raise NotImplementedError

    def __call__(self, _: list[Any], addresses: list[int]) -> None:
        """Make it on the current stream, with blocks of memory at these addresses."""
        move = self.mover()
        run, given = move(addresses, stream(self.device))
        check(run(*given))


class Launch(Movable):
    """A launch of a kernel whose arguments stay, but for addresses.

    Parameters
    ----------
    function
        The kernel, as the driver knows it.
    grid, threads, shared_bytes
        Blocks, threads of each, and shared memory of each.
    arguments
        All of them, words; what is moved may be 0.
    moved
        (argument, block of memory, offset in bytes) of each address.
    device
        Where it runs, the current device.
    """

    def __init__(
        self, function: int, grid: tuple[int, int, int], threads: int, shared_bytes: int, *,
        arguments: Sequence[int], moved: Sequence[tuple[int, int, int]], device: int,
    ) -> None:  # fmt: skip
        self._function, self._shape = function, (grid, threads, shared_bytes)
        self._arguments, self._moved, self.device = tuple(arguments), tuple(moved), device

    def mover(self) -> Move:
        """What gives its call, whose arguments are in one place."""
        (grid, threads, shared_bytes), count, moved = self._shape, len(self._arguments), self._moved
        words = (ctypes.c_uint64 * count)(*self._arguments)
        start = ctypes.addressof(words)
        pointers = (ctypes.c_void_p * count)(*range(start, start + 8 * count, 8))
        config = _Config((ctypes.c_uint32 * 3)(*grid), (threads, 1, 1), shared_bytes)
        given = ctypes.byref(config), ctypes.c_void_p(self._function), pointers, None
        call = calls().cuLaunchKernelEx, given

        def move(addresses: list[int], stream: int) -> Call:
            for at, block, offset in moved:
                words[at] = addresses[block] + offset
            config.stream = stream
            return call

        return move
