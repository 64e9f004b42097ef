"""Launches `multiply.cu` with one of its ends, on Hopper GPUs: tensor maps, the order of tiles.

Compiled by NVRTC at first use (a second), for the device only: no nvcc, no toolkit headers.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from functools import lru_cache
from importlib import import_module
from pathlib import Path
from typing import Any, ClassVar

import torch

from widen.gpu.kernels.cuda.compiler import function
from widen.gpu.replay import driver
from widen.gpu.replay.private import stream_reader
from widen.gpu.tiles import Tile

Tensor = torch.Tensor

GROUP = 8
"""Rows of clusters walked together, so that the tiles in flight are nearly a square."""


class Divisor(ctypes.Structure):
    """`Divisor` of walk.cuh."""

    _fields_ = tuple((name, ctypes.c_uint32) for name in ("value", "factor", "shift"))


class Work(ctypes.Structure):
    """`Work` of walk.cuh, which is aligned to 64 bytes."""

    _fields_ = (
        ("left", ctypes.c_ubyte * 128),
        ("right", ctypes.c_ubyte * 128),
        *((name, ctypes.c_int32) for name in ("height", "inner")),
        *((name, ctypes.c_int32) for name in ("batch", "left_batch", "right_batch")),
        *((name, ctypes.c_int32) for name in ("tiles", "rows", "group")),
        *((name, Divisor) for name in ("slice", "band", "high", "last_high", "batches")),
        ("padding", ctypes.c_ubyte * 36),
    )


assert ctypes.sizeof(Work) % 64 == 0


class Finish(ctypes.Structure):
    """What an end of the kernel reads: first the addresses it is launched with, then numbers."""

    header: ClassVar[Path]
    """The end: a file that declares the same, and what becomes of sums (multiply.cu)."""


def divisor(value: int) -> Divisor:
    """What gives n // value = (n + (n factor >> 32)) >> shift for 0 <= n < 2^31.

    That is floor(n m / 2^(32 + shift)), m = 2^32 + factor = (2^(32 + shift) + e) / value with
    0 <= e < value <= 2^shift: too much by n e / 2^(32 + shift) / value < 1 / value, so rounded down
    it is right. n < 2^31 keeps the sum in 32 bits.
    """
    shift = (value - 1).bit_length()
    return Divisor(value, -(-(2 ** (32 + shift)) // value) - 2**32, shift)


# ── compilation ──────────────────────────────────────────────────────────────────────────────────


@lru_cache(maxsize=64)
def options(
    tile: Tile, *, permuted: bool = False, long: bool = False, wide: bool = False
) -> tuple[str, ...]:
    """Of the compiler. Registers: 64K a multiprocessor, in eights, most of them to consumers."""
    registers = {2: (240, 24), 3: (160, 32)}[tile.consumers]
    macros = {
        "CONSUMERS": tile.consumers,
        "BLOCKS": tile.blocks,
        "TILE_N": tile.columns,
        "STAGES": tile.stages,
        "CLUSTER": tile.cluster,
        "SHARE_LEFT": int(tile.share_left),
        "PERMUTED": int(permuted),
        "LONG": int(long),
        "WIDE": int(wide),
        "CONSUMER_REGISTERS": registers[0],
        "PRODUCER_REGISTERS": registers[1],
    }
    return (
        "--gpu-architecture=sm_90a",
        "--std=c++17",
        *(f"--define-macro={name}={value}" for name, value in macros.items()),
    )


# ── launch ───────────────────────────────────────────────────────────────────────────────────────


_tensor_map = lru_cache(maxsize=1024)(driver.tensor_map)

Map = tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]
"""Sizes, strides and box of a tensor map."""


def plain_map(planes: Tensor, k: int, box: int) -> Map:
    """Boxes of 128 bytes by `box` rows of a slice (a plane of a batch)."""
    count, batch, rows, pitch = planes.shape
    return (k, rows, count * batch), (pitch, rows * pitch), (128, box, 1)


def permuted_map(planes: Tensor, k: int, box: int) -> Map:
    """The same, each 64 rows seen as 8 x 8 and transposed: the fast store (multiply.cu)."""
    count, batch, rows, pitch = planes.shape
    sizes = (k, 8, 8, -(-rows // 64), count * batch)
    return sizes, (8 * pitch, pitch, 64 * pitch, rows * pitch), (128, 8, 8, box // 64, 1)


def permutable(right: Tensor) -> bool:
    """Whether `permuted_map` stays inside right's memory.

    It reads whole groups of 64 rows. Within the tensor that is harmless (columns from n on are
    undefined), and after its end as well if the storage goes on for as many rows.
    """
    count, batch, rows, pitch = right.shape
    read = ((count * batch - 1) * rows + -(-rows // 64) * 64) * pitch
    return bool(right.storage_offset() + read <= right.untyped_storage().nbytes())


def _work(left: Tensor, right: Tensor, tile: Tile, planes: int, batch: int, inner: int) -> Work:
    """The tiles of `planes` products of a batch, whose sums are so long."""
    if inner < 1:  # the kernel would wait for a first step for ever
        raise ValueError(f"sums of {inner} terms; expected at least one")
    rows, columns = left.shape[2], right.shape[2]
    high, wide = tile.clusters(rows, columns)
    group = min(GROUP, high)
    made = Work(height=rows, inner=inner, batch=batch)
    made.left_batch, made.right_batch = left.shape[1], right.shape[1]
    made.tiles, made.rows, made.group = high * wide * planes * batch, high, group
    made.slice, made.band = divisor(high * wide), divisor(group * wide)
    made.batches = divisor(batch)
    made.high, made.last_high = divisor(group), divisor(high % group or group)
    return made


class Launcher:
    """Launches of one shape, at any addresses.

    Parameters
    ----------
    left, right
        int8 (planes, batch or 1, lines, pitch), or what is shaped like them.
    finish
        What the end of the kernel reads, but for addresses.
    tile
        A row of `tiles.HOPPER`.
    planes, batch
        Products of one shape: sums of planes, items of a batch.
    k, terms
        Entries of a line, and how many of them a sum takes: all of them unless given.
    permuted, how
        Whether right's rows are read in the order of the fast store; other `options`.
    """

    REMEMBERED = 64
    """Addresses whose tensor maps are kept: PyTorch gives the same memory again and again."""

    def __init__(
        self, left: Tensor, right: Tensor, finish: Finish, tile: Tile, *, planes: int, batch: int,
        k: int, terms: int | None = None, permuted: bool = False, **how: bool,
    ) -> None:  # fmt: skip
        job = _work(left, right, tile, planes, batch, k if terms is None else terms)
        right_map = permuted_map if permuted else plain_map
        self._maps = plain_map(left, k, tile.left_box), right_map(right, k, tile.right_box)
        self._options = options(tile, permuted=permuted, **how)
        self._stream = stream_reader()
        self._launch = driver.calls().cuLaunchKernel
        self._fixed: tuple[Any, ...] | None = None
        self.device, self._end, self._shared = left.device.index, finish.header, tile.shared_bytes
        clusters = min(job.tiles, driver.processors(left.device) // tile.cluster)
        self._shape = (clusters * tile.cluster, 1, 1, tile.threads, 1, 1)
        # All that the kernel reads but for addresses, passed by value: a graph can capture it. The
        # kernel's record ends on a multiple of 64 bytes.
        self._template = bytes(job) + bytes(finish) + bytes(64)
        self._jobs: dict[tuple[int, ...], tuple[Any, Any]] = {}

    def __call__(self, *addresses: int) -> None:
        """Launch on the current stream of the planes' device, the current one.

        Addresses are those of left and right, and what the end begins with.
        """
        (run, given), job = self.call(addresses, self._stream(self.device))
        status = run(*given)
        if status == driver.INVALID_CONTEXT:  # a thread that has not used the device
            driver.open_context(self.device)
            status = run(*given)
        del job  # not before
        driver.check(status)

    def bind(self, fixed: Sequence[Any], moved: Sequence[tuple[int, int, int]]) -> Bound:
        """The same at addresses that are `fixed`, but for (address, block, offset) of some."""
        return Bound(self, fixed, moved)

    def call(self, addresses: tuple[int, ...], stream: int) -> tuple[driver.Call, Any]:
        """The driver's call on a stream, and what is to stay as long as it."""
        job, parameters = self._jobs.get(addresses) or self._at(addresses)
        fixed = self._fixed or self._loaded()
        return (self._launch, (*fixed, ctypes.c_void_p(stream), parameters, None)), job

    def _loaded(self) -> tuple[Any, ...]:
        """The kernel and its shape, as `cuLaunchKernel` takes them."""
        driver.open_context(self.device)
        kernel = function(self._end, self._options, self._shared, self.device)
        numbers = (*self._shape, self._shared)
        self._fixed = ctypes.c_void_p(kernel), *(ctypes.c_uint32(x) for x in numbers)
        return self._fixed

    def _at(self, addresses: tuple[int, ...]) -> tuple[Any, Any]:
        """The job for planes at these addresses, and the kernel's parameters."""
        job = ctypes.create_string_buffer(self._template, len(self._template))
        base = ctypes.addressof(job)
        for at, (address, layout) in enumerate(zip(addresses, self._maps, strict=False)):
            ctypes.memmove(base + 128 * at, _tensor_map(address, *layout), 128)
        others = (ctypes.c_uint64 * (len(addresses) - 2))(*addresses[2:])
        ctypes.memmove(base + ctypes.sizeof(Work), others, ctypes.sizeof(others))
        if len(self._jobs) >= self.REMEMBERED:
            self._jobs.clear()
        made = self._jobs[addresses] = job, (ctypes.c_void_p * 1)(base)
        return made


class Bound(driver.Movable):
    """A launch at addresses of which some are moved."""

    def __init__(
        self, launcher: Launcher, fixed: Sequence[Any], moved: Sequence[tuple[int, int, int]]
    ) -> None:
        self._launcher, self._fixed, self._moved = launcher, tuple(fixed), tuple(moved)
        self.device = launcher.device

    def mover(self) -> driver.Move:
        """What gives the call."""
        now = list(self._fixed)
        held: list[Any] = [None]

        def move(addresses: list[int], stream: int) -> driver.Call:
            for at, block, offset in self._moved:
                now[at] = addresses[block] + offset
            call, held[0] = self._launcher.call(tuple(now), stream)
            return call

        return move


def check_planes(device: torch.device, dtype: torch.dtype, **named: Tensor) -> None:
    """Tensors of a type that bulk copies can read: 4-d, contiguous, in 16s, on left's device."""
    for name, tensor in named.items():
        if tensor.dtype != dtype or tensor.ndim != 4 or not tensor.is_contiguous():
            got = f"{tensor.dtype} {tuple(tensor.shape)}, strides {tensor.stride()}"
            raise ValueError(f"{name}: got {got}; expected 4-d contiguous {dtype}")
        if tensor.device != device or tensor.device.type != "cuda":
            raise ValueError(f"{name}: on {tensor.device}; expected left's CUDA device")
        if tensor.shape[3] % 16 or tensor.data_ptr() % 16:
            raise ValueError(f"{name}: row pitch {tensor.shape[3]}; expected a multiple of 16")


@lru_cache(maxsize=64)
def is_hopper(device: torch.device) -> bool:
    """Whether `multiply.cu` runs on a device: Hopper, and NVRTC is there (it is with PyTorch)."""
    if device.type != "cuda" or torch.cuda.get_device_capability(device) != (9, 0):
        return False
    try:
        import_module("cuda.bindings.nvrtc").nvrtcVersion()
    except (ImportError, RuntimeError):  # no bindings, or no library
        return False
    return True
