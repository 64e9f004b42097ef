"""Products of int8 planes, reduced modulo p, on Hopper GPUs: `multiply.cu` with `residues.cuh`."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from fractions import Fraction
from functools import lru_cache
from importlib import import_module
from struct import pack, unpack
from typing import Any

from widen.gpu.kernels.cuda.compiler import FOLDER
from widen.gpu.kernels.cuda.launcher import (
    Finish,
    Launcher,
    check_planes,
    options,
    permutable,
    permuted_map,
    plain_map,
    processors,
    work,
)
from widen.gpu.tiles import Tile, choose
from widen.stages.compiling.once import Once

MAX_PLANES = 64
LONGEST = 1023 * 128
"""Terms that int32 sums hold exactly, whatever the int8 operands, with a residue to start from."""


class Recipe(ctypes.Structure):
    """`Recipe` of residues.cuh."""

    _fields_ = (("weights", ctypes.c_uint32), ("offset", ctypes.c_uint32))


class Plane(ctypes.Structure):
    """`Plane` of residues.cuh."""

    _fields_ = (
        ("last", Recipe),
        ("folding", Recipe),
        ("inverse", ctypes.c_float),
        ("minus_modulus", ctypes.c_uint32),
    )


class WideRecipe(ctypes.Structure):
    """`Recipe` of residues.cuh with WIDE."""

    _fields_ = tuple((name, ctypes.c_uint32) for name in ("weights", "offset", "high_weights"))


class WidePlane(ctypes.Structure):
    """`Plane` of residues.cuh with WIDE."""

    _fields_ = (
        ("last", WideRecipe),
        ("folding", WideRecipe),
        ("inverse", ctypes.c_float),
        ("minus_modulus", ctypes.c_uint32),
    )


class Residues(Finish):
    """`Finish` of residues.cuh."""

    header = FOLDER / "residues.cuh"
    _fields_ = (
        ("out", ctypes.c_uint64),
        ("pitch", ctypes.c_int32),
        ("plane", Plane * MAX_PLANES),
    )


class WideResidues(Finish):
    """`Finish` of residues.cuh with WIDE."""

    header = FOLDER / "residues.cuh"
    _fields_ = (
        ("out", ctypes.c_uint64),
        ("pitch", ctypes.c_int32),
        ("plane", WidePlane * MAX_PLANES),
    )


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


def wide_recipe(modulus: int, coefficient: int) -> tuple[list[int], list[int], int]:
    """Weights l and h, c = 128 h + l, and an offset d, as `recipe` has c and d, for p < 2^14.

    |c_i| <= p/2 < 2^13, so x still has its place in [2^23, 2^24). x e may be 1/p or more, though
    not 3/p (asserted): then the quotient may be one too large, where x mod p is p - 1 or p - 2.
    """
    residues = [coefficient * 256**i % modulus for i in range(4)]
    weights = [r - modulus if 2 * r >= modulus else r for r in residues]
    least = 255 * sum(w for w in weights if w < 0)
    offset = 2**23 - least
    offset += (-(2**31) * coefficient - offset) % modulus
    largest = offset + 255 * sum(w for w in weights if w > 0)
    excess = Fraction(inverse(modulus)) - Fraction(1, modulus)
    assert largest < 2**24
    assert 0 <= largest * excess < Fraction(3, modulus)
    low = [(w + 64) % 128 - 64 for w in weights]
    return low, [(w - x) // 128 for w, x in zip(weights, low, strict=True)], offset


def _wide_packed(modulus: int, coefficient: int) -> WideRecipe:
    low, high, offset = wide_recipe(modulus, coefficient)
    packed = [unpack("I", pack("4b", *weights))[0] for weights in (low, high)]
    return WideRecipe(packed[0], offset - 2**23 + 0x4B000000, packed[1])


@lru_cache(maxsize=256)
def _wide_planes(moduli: tuple[int, ...], coefficients: tuple[int, ...]) -> bytes:
    """The same for moduli below 2^14, and 16-bit results."""
    table = (WidePlane * MAX_PLANES)()
    for z, (p, w) in enumerate(zip(moduli, coefficients, strict=True)):
        if not (2 <= p < 1 << 14 and 0 <= w < p):
            raise ValueError(
                f"plane {z}: got modulus {p}, coefficient {w}; expected 2 <= modulus < 2^14 and"
                " 0 <= coefficient < modulus"
            )
        table[z] = WidePlane(_wide_packed(p, w), _wide_packed(p, 1), inverse(p), 2**32 - p)
    return bytes(table)


# ── launch ───────────────────────────────────────────────────────────────────────────────────────


def _launcher(
    left: Any, right: Any, out: Any, k: int, n: int, moduli: tuple[int, ...],
    coefficients: tuple[int, ...], tile: Tile | None,
) -> Launcher:  # fmt: skip
    """What launches `multiply` for planes like these."""
    _check(left, right, out, k, n)
    if not len(moduli) == len(coefficients) == left.shape[0] <= MAX_PLANES:
        raise ValueError(
            f"got {left.shape[0]} planes, {len(moduli)} moduli, {len(coefficients)}"
            f" coefficients; expected one of each for a plane, and at most {MAX_PLANES}"
        )
    planes, batch = out.shape[:2]
    tile = tile or choose(left.shape[2], n, k, planes * batch, processors(left.device))
    permuted = permutable(right)
    right_map = permuted_map if permuted else plain_map
    wide = out.dtype.itemsize == 2
    finish, planes_of = (WideResidues, _wide_planes) if wide else (Residues, _planes)
    ending = finish(pitch=out.shape[3])
    ctypes.memmove(ending.plane, planes_of(moduli, coefficients), ctypes.sizeof(ending.plane))
    return Launcher(
        left.device, work(left, right, planes, batch, k, tile), ending,
        (plain_map(left, k, tile.left_box), right_map(right, k, tile.right_box)),
        tile, options(tile, permuted=permuted, long=k > LONGEST, wide=wide),
    )  # fmt: skip


def _check(left: Any, right: Any, out: Any, k: int, n: int) -> None:
    """The shapes, types and strides that the kernel takes for granted."""
    torch = import_module("torch")
    check_planes(
        left.device,
        ("left", left, torch.int8),
        ("right", right, torch.int8),
        ("out", out, torch.int16 if out.dtype == torch.int16 else torch.uint8),
    )
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
        uint8 (planes, batch, M, pitch); what comes after n of each row is left undefined. int16
        for moduli below 2^14: residues in [-2, p).
    k, n
        Length of the sums; columns of the product.
    moduli, coefficients
        One for each plane: 2 <= p <= 256 (or p < 2^14), 0 <= w < p.
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


_launchers: Once[Launcher] = Once(512)


def launcher(
    left: Any, right: Any, out: Any, k: int, n: int, moduli: tuple[int, ...],
    coefficients: tuple[int, ...], tile: Tile | None = None,
) -> Launcher:  # fmt: skip
    """What launches `multiply` for planes like these (k and out not empty) at any addresses."""
    key = (
        *((x.shape, x.stride(), x.dtype) for x in (left, right, out)), permutable(right),
        left.device, k, n, moduli, coefficients, tile,
    )  # fmt: skip
    return _launchers.made(
        key, lambda: _launcher(left, right, out, k, n, moduli, coefficients, tile)
    )
