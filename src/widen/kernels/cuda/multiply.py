"""Launches `multiply.cu`: products of int8 planes, reduced modulo p, on Hopper GPUs.

Compiled by NVRTC at first use (a second), for the device only: no nvcc, no toolkit headers.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from fractions import Fraction
from functools import lru_cache
from importlib import import_module
from struct import pack, unpack
from typing import Any

from widen.kernels.cuda.compiler import called, function
from widen.kernels.tiles import Tile, choose

MAX_PLANES = 64
LONGEST = 1023 * 128
"""Terms that int32 sums hold exactly, whatever the int8 operands, with a residue to start from."""
GROUP = 8
"""Rows of clusters walked together, so that the tiles in flight are nearly a square."""


class Recipe(ctypes.Structure):
    """`Recipe` of multiply.cu."""

    _fields_ = (("weights", ctypes.c_uint32), ("offset", ctypes.c_uint32))


class Plane(ctypes.Structure):
    """`Plane` of multiply.cu."""

    _fields_ = (
        ("last", Recipe),
        ("folding", Recipe),
        ("inverse", ctypes.c_float),
        ("minus_modulus", ctypes.c_uint32),
    )


class Divisor(ctypes.Structure):
    """`Divisor` of multiply.cu."""

    _fields_ = tuple((name, ctypes.c_uint32) for name in ("value", "factor", "shift"))


class Job(ctypes.Structure):
    """`Job` of multiply.cu, which is aligned to 64 bytes."""

    _fields_ = (
        ("left", ctypes.c_ubyte * 128),
        ("right", ctypes.c_ubyte * 128),
        ("out", ctypes.c_uint64),
        *((name, ctypes.c_int32) for name in ("height", "inner", "pitch")),
        *((name, ctypes.c_int32) for name in ("batch", "left_batch", "right_batch")),
        *((name, ctypes.c_int32) for name in ("tiles", "rows", "group")),
        *((name, Divisor) for name in ("slice", "band", "high", "last_high", "batches")),
        ("plane", Plane * MAX_PLANES),
        ("padding", ctypes.c_ubyte * 64),
    )


def divisor(value: int) -> Divisor:
    """What gives n // value = (n + (n factor >> 32)) >> shift for 0 <= n < 2^31.

    That is floor(n m / 2^(32 + shift)), m = 2^32 + factor = (2^(32 + shift) + e) / value with
    0 <= e < value <= 2^shift: too much by n e / 2^(32 + shift) / value < 1 / value, so rounded down
    it is right. n < 2^31 keeps the sum in 32 bits.
    """
    shift = (value - 1).bit_length()
    return Divisor(value, -(-(2 ** (32 + shift)) // value) - 2**32, shift)


# ── reduction ────────────────────────────────────────────────────────────────────────────────────


def inverse(modulus: int) -> float:
    """The least float32 that is not below 1 / modulus."""
    nearest: float = unpack("f", pack("f", 1 / modulus))[0]
    if Fraction(nearest) < Fraction(1, modulus):
        nearest = unpack("f", pack("I", unpack("I", pack("f", nearest))[0] + 1))[0]
    return nearest


def recipe(modulus: int, coefficient: int) -> tuple[tuple[int, int, int, int], int]:
    """Byte weights c and an offset d that give (sum * coefficient) mod modulus of any int32 sum.

    With b the four bytes of sum + 2^31, x = d + c.b is sum * coefficient (mod p) as
    c_i = coefficient * 256^i and d = -2^31 * coefficient (mod p), and d places it in [2^23, 2^24),
    where floats are the integers. For i = inverse(p) = 1/p + e, floor(x i) = floor(x / p) if
    0 <= x e < 1/p, since x / p is at least 1/p below the next integer: asserted for the largest x.
    """
    residues = [coefficient * 256**i % modulus for i in range(4)]
    a, b, c, d = (r - modulus if 2 * r >= modulus else r for r in residues)
    weights = (a, b, c, d)
    least = 255 * sum(w for w in weights if w < 0)
    offset = 2**23 - least
    offset += (-(2**31) * coefficient - offset) % modulus
    largest = offset + 255 * sum(w for w in weights if w > 0)
    excess = Fraction(inverse(modulus)) - Fraction(1, modulus)
    assert largest < 2**24
    assert 0 <= largest * excess < Fraction(1, modulus)
    return weights, offset


def _packed(modulus: int, coefficient: int) -> Recipe:
    weights, offset = recipe(modulus, coefficient)
    return Recipe(unpack("I", pack("4b", *weights))[0], offset - 2**23 + 0x4B000000)


@lru_cache(maxsize=256)
def _planes(moduli: tuple[int, ...], coefficients: tuple[int, ...]) -> bytes:
    """The planes' constants as the kernel reads them."""
    table = (Plane * MAX_PLANES)()
    for z, (p, w) in enumerate(zip(moduli, coefficients, strict=True)):
        if not (2 <= p <= 256 and 0 <= w < p):
            raise ValueError(
                f"plane {z}: got modulus {p}, coefficient {w}; expected 2 <= modulus <= 256 and"
                " 0 <= coefficient < modulus"
            )
        table[z] = Plane(_packed(p, w), _packed(p, 1), inverse(p), 2**32 - p)
    return bytes(table)


# ── compilation ──────────────────────────────────────────────────────────────────────────────────


@lru_cache(maxsize=64)
def _options(tile: Tile, long: bool, permuted: bool, sums: bool = False) -> tuple[str, ...]:
    """Of the compiler. Registers: 64K a multiprocessor, in eights, most of them to consumers."""
    registers = {2: (240, 24), 3: (160, 32)}[tile.consumers]
    macros = {
        "CONSUMERS": tile.consumers,
        "BLOCKS": tile.blocks,
        "TILE_N": tile.columns,
        "STAGES": tile.stages,
        "CLUSTER": tile.cluster,
        "SHARE_LEFT": int(tile.share_left),
        "LONG": int(long),
        "PERMUTED": int(permuted),
        "SUMS": int(sums),
        "CONSUMER_REGISTERS": registers[0],
        "PRODUCER_REGISTERS": registers[1],
    }
    return (
        "--gpu-architecture=sm_90a",
        "--std=c++17",
        *(f"--define-macro={name}={value}" for name, value in macros.items()),
    )


# ── launch ───────────────────────────────────────────────────────────────────────────────────────


@lru_cache(maxsize=1024)
def _tensor_map(
    pointer: int, sizes: tuple[int, ...], strides: tuple[int, ...], box: tuple[int, ...]
) -> bytes:
    """How TMA reads a tensor of bytes in boxes, fastest dimension first; beyond `sizes`, zeros."""
    driver = import_module("cuda.bindings.driver")
    encoded = called(
        driver.cuTensorMapEncodeTiled(
            driver.CUtensorMapDataType.CU_TENSOR_MAP_DATA_TYPE_UINT8,
            len(sizes),
            pointer,
            [driver.cuuint64_t(size) for size in sizes],
            [driver.cuuint64_t(stride) for stride in strides],
            [driver.cuuint32_t(side) for side in box],
            [driver.cuuint32_t(1) for _ in sizes],
            driver.CUtensorMapInterleave.CU_TENSOR_MAP_INTERLEAVE_NONE,
            driver.CUtensorMapSwizzle.CU_TENSOR_MAP_SWIZZLE_128B,
            driver.CUtensorMapL2promotion.CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
            driver.CUtensorMapFloatOOBfill.CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE,
        )
    )
    return ctypes.string_at(encoded.getPtr(), 128)


Map = tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]
"""Sizes, strides and box of a tensor map."""


def _plain_map(planes: Any, k: int, box: int) -> Map:
    """Boxes of 128 bytes by `box` rows of a slice (a plane of a batch)."""
    count, batch, rows, pitch = planes.shape
    return (k, rows, count * batch), (pitch, rows * pitch), (128, box, 1)


def _permuted_map(planes: Any, k: int, box: int) -> Map:
    """The same, each 64 rows seen as 8 x 8 and transposed: the fast store (multiply.cu)."""
    count, batch, rows, pitch = planes.shape
    sizes = (k, 8, 8, -(-rows // 64), count * batch)
    return sizes, (8 * pitch, pitch, 64 * pitch, rows * pitch), (128, 8, 8, box // 64, 1)


def permutable(right: Any) -> bool:
    """Whether `_permuted_map` stays inside right's memory.

    It reads whole groups of 64 rows. Within the tensor that is harmless (columns from n on are
    undefined), and after its end as well if the storage goes on for as many rows.
    """
    count, batch, rows, pitch = right.shape
    read = ((count * batch - 1) * rows + -(-rows // 64) * 64) * pitch
    return bool(right.storage_offset() + read <= right.untyped_storage().nbytes())


def _job(left: Any, right: Any, out: Any, k: int, planes: bytes, tile: Tile) -> Job:
    """All that the kernel reads but for addresses, passed by value: a graph can capture it."""
    (left_batch, rows), (right_batch, columns) = left.shape[1:3], right.shape[1:3]
    count, batch, _, pitch = out.shape
    high, wide = tile.clusters(rows, columns)
    group = min(GROUP, high)
    job = Job(height=rows, inner=k, pitch=pitch * out.element_size(), batch=batch)
    job.left_batch, job.right_batch = left_batch, right_batch
    job.tiles, job.rows, job.group = high * wide * count * batch, high, group
    job.slice, job.band, job.batches = divisor(high * wide), divisor(group * wide), divisor(batch)
    job.high, job.last_high = divisor(group), divisor(high % group or group)
    ctypes.memmove(job.plane, planes, len(planes))
    return job


class Launcher:
    """Launches of one shape, at any addresses."""

    REMEMBERED = 64
    """Addresses whose tensor maps are kept: PyTorch gives the same memory again and again."""

    def __init__(
        self, left: Any, right: Any, out: Any, k: int, n: int, moduli: tuple[int, ...],
        coefficients: tuple[int, ...], tile: Tile | None,
    ) -> None:  # fmt: skip
        _check(left, right, out, k, n)
        if not len(moduli) == len(coefficients) == left.shape[0] <= MAX_PLANES:
            raise ValueError(
                f"got {left.shape[0]} planes, {len(moduli)} moduli, {len(coefficients)}"
                f" coefficients; expected one of each for a plane, and at most {MAX_PLANES}"
            )
        permuted = permutable(right)
        planes = _planes(moduli, coefficients)
        self._prepare(left, right, out, k, n, planes, tile, k, permuted, k > LONGEST)

    def _prepare(
        self, left: Any, right: Any, out: Any, k: int, n: int, planes: bytes, tile: Tile | None,
        depth: int, permuted: bool, long: bool = False, sums: bool = False,
    ) -> None:  # fmt: skip
        """What is the same at all addresses; `depth` is the length of sums."""
        torch = import_module("torch")
        self._stream = torch._C._cuda_getCurrentRawStream
        self._driver = import_module("cuda.bindings.driver")
        self._device = left.device.index
        processors = torch.cuda.get_device_properties(left.device).multi_processor_count
        slices = out.shape[0] * out.shape[1]
        tile = tile or choose(left.shape[2], n, depth, slices, processors)
        self._template = _job(left, right, out, k, planes, tile)
        right_map = _permuted_map if permuted else _plain_map
        self._maps = _plain_map(left, k, tile.left_box), right_map(right, k, tile.right_box)
        self._options, self._shared = _options(tile, long, permuted, sums), tile.shared_bytes
        blocks = min(self._template.tiles, processors // tile.cluster) * tile.cluster
        self._shape = (blocks, 1, 1, tile.threads, 1, 1)
        self._jobs: dict[tuple[int, int, int], tuple[Job, Any]] = {}

    def __call__(self, left: int, right: int, out: int) -> None:
        """Launch on the current stream of the planes' device, the current one."""
        driver = self._driver
        if int(called(driver.cuCtxGetCurrent())) == 0:  # a thread that has not used the device
            called(driver.cuCtxSetCurrent(called(driver.cuDevicePrimaryCtxRetain(self._device))))
        kernel = function(self._options, self._shared, self._device)
        _, parameters = self._jobs.get((left, right, out)) or self._at(left, right, out)
        stream, address = self._stream(self._device), ctypes.addressof(parameters)
        called(driver.cuLaunchKernel(kernel, *self._shape, self._shared, stream, address, 0))

    def _at(self, left: int, right: int, out: int) -> tuple[Job, Any]:
        """The job for planes at these addresses, and the kernel's parameters."""
        job = Job.from_buffer_copy(self._template)
        job.out = out
        for target, address, layout in zip(
            (job.left, job.right), (left, right), self._maps, strict=True
        ):
            ctypes.memmove(target, _tensor_map(address, *layout), 128)
        if len(self._jobs) >= self.REMEMBERED:
            self._jobs.clear()
        made = self._jobs[(left, right, out)] = job, (ctypes.c_void_p * 1)(ctypes.addressof(job))
        return made


def _check(left: Any, right: Any, out: Any, k: int, n: int) -> None:
    """The shapes, types and strides that the kernel takes for granted."""
    torch = import_module("torch")
    named = (("left", left, torch.int8), ("right", right, torch.int8), ("out", out, torch.uint8))
    for name, tensor, dtype in named:
        if tensor.dtype != dtype or tensor.ndim != 4 or not tensor.is_contiguous():
            raise ValueError(f"{name}: got {_described(tensor)}; expected 4-d contiguous {dtype}")
        if tensor.device != left.device or tensor.device.type != "cuda":
            raise ValueError(f"{name}: on {tensor.device}; expected left's CUDA device")
        if tensor.shape[3] % 16 or tensor.data_ptr() % 16:
            raise ValueError(f"{name}: row pitch {tensor.shape[3]}; expected a multiple of 16")
    batch = max(left.shape[1], right.shape[1])
    if left.shape[1] not in (1, batch) or right.shape[1] not in (1, batch):
        raise ValueError(f"batches {left.shape[1]} and {right.shape[1]}; expected equal or 1")
    if left.shape[0] != right.shape[0] or right.shape[2] != n:
        raise ValueError(f"left {tuple(left.shape)} and right {tuple(right.shape)}, n = {n}")
    if not 0 <= k <= min(left.shape[3], right.shape[3]):
        raise ValueError(f"k = {k}; expected at most {left.shape[3]} and {right.shape[3]}")
    if out.shape[:3] != (left.shape[0], batch, left.shape[2]) or out.shape[3] < n:
        expected = (left.shape[0], batch, left.shape[2], f">= {n}")
        raise ValueError(f"out: got shape {tuple(out.shape)}; expected {expected}")


def _described(tensor: Any) -> str:
    return f"{tensor.dtype} {tuple(tensor.shape)}, strides {tensor.stride()}"


@lru_cache(maxsize=64)
def available(device: Any) -> bool:
    """Whether `multiply` runs on a device: Hopper, and NVRTC is installed (it is with PyTorch)."""
    torch = import_module("torch")
    device = torch.device(device)
    if device.type != "cuda" or torch.cuda.get_device_capability(device) != (9, 0):
        return False
    try:
        import_module("cuda.bindings.nvrtc").nvrtcVersion()
    except (ImportError, RuntimeError):  # no bindings, or no library
        return False
    return True


def multiply(
    left: Any,
    right: Any,
    out: Any,
    k: int,
    n: int,
    moduli: Sequence[int],
    coefficients: Sequence[int],
    tile: Tile | None = None,
) -> None:
    """out[z, b, i, j] = (coefficients[z] * sum_h left[z, b, i, h] right[z, b, j, h]) mod moduli[z].

    Exact for any int8 operands and any k. On the current stream of the current device, which is
    left's; does not wait for it.

    Parameters
    ----------
    left, right
        int8 (planes, batch or 1, M or n, pitch), the first k of each row used, pitch in 16s.
        Fastest if n is a multiple of 64, or right's storage goes on for up to 63 more rows.
    out
        uint8 (planes, batch, M, pitch); what comes after n of each row is left undefined.
    k, n
        Length of the sums; columns of the product.
    moduli, coefficients
        One for each plane: 2 <= p <= 256, 0 <= w < p.
    tile
        A row of `tiles.HOPPER`; chosen by its predicted time unless given.
    """
    if k == 0 or out.numel() == 0:
        _check(left, right, out, k, n)
        out.zero_()
        return
    launcher(left, right, out, k, n, tuple(moduli), tuple(coefficients), tile)(
        left.data_ptr(), right.data_ptr(), out.data_ptr()
    )


_launchers: dict[Any, Launcher] = {}


def launcher(
    left: Any, right: Any, out: Any, k: int, n: int, moduli: tuple[int, ...],
    coefficients: tuple[int, ...], tile: Tile | None = None,
) -> Launcher:  # fmt: skip
    """What launches `multiply` for planes like these (k and out not empty) at any addresses."""
    key = (
        *((x.shape, x.stride(), x.dtype) for x in (left, right, out)), permutable(right),
        left.device, k, n, moduli, coefficients, tile,
    )  # fmt: skip
    found = _launchers.get(key)
    if found is None:
        if len(_launchers) >= 512:
            _launchers.clear()
        found = _launchers[key] = Launcher(left, right, out, k, n, moduli, coefficients, tile)
    return found
