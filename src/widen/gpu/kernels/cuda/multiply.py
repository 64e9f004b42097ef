"""Products of int8 planes, reduced modulo p, on Hopper GPUs: `multiply.cu` with `residues.cuh`."""

from __future__ import annotations

import ctypes
from fractions import Fraction
from functools import lru_cache
from struct import pack, unpack
from typing import Any

import torch

from widen.gpu.kernels.cuda.compiler import FOLDER
from widen.gpu.kernels.cuda.launcher import Finish, Launcher, check_planes, permutable
from widen.gpu.replay.driver import processors
from widen.gpu.tiles import Tile, choose
from widen.stages.compiling.once import Once

Tensor = torch.Tensor

Planes = tuple[tuple[int, int], ...]
"""Modulus and coefficient of every plane."""

MAX_PLANES = 64
LONGEST = 1023 * 128
"""Terms that int32 sums hold exactly, whatever the int8 operands, with a residue to start from."""


def _words(*names: str) -> tuple[tuple[str, Any], ...]:
    return tuple((name, ctypes.c_uint32) for name in names)


def _fields_of_plane(recipe: Any) -> tuple[tuple[str, Any], ...]:
    """`Plane` of residues.cuh."""
    last = ("inverse", ctypes.c_float), ("minus_modulus", ctypes.c_uint32)
    return ("last", recipe), ("folding", recipe), *last


def _fields_of_end(plane: Any) -> tuple[tuple[str, Any], ...]:
    """`Finish` of residues.cuh."""
    return ("out", ctypes.c_uint64), ("pitch", ctypes.c_int32), ("plane", plane * MAX_PLANES)


class Recipe(ctypes.Structure):
    """`Recipe` of residues.cuh."""

    _fields_ = _words("weights", "offset")


class WideRecipe(ctypes.Structure):
    """The same with WIDE."""

    _fields_ = _words("weights", "offset", "high_weights")


class Plane(ctypes.Structure):
    """A modulus and its coefficient."""

    _fields_ = _fields_of_plane(Recipe)


class WidePlane(ctypes.Structure):
    """The same with WIDE."""

    _fields_ = _fields_of_plane(WideRecipe)


class Residues(Finish):
    """Bytes."""

    header = FOLDER / "residues.cuh"
    _fields_ = _fields_of_end(Plane)


class WideResidues(Finish):
    """16-bit numbers."""

    header = FOLDER / "residues.cuh"
    _fields_ = _fields_of_end(WidePlane)


# ── reduction ────────────────────────────────────────────────────────────────────────────────────


def inverse(modulus: int) -> float:
    """The least float32 that is not below 1 / modulus."""
    nearest: float = unpack("f", pack("f", 1 / modulus))[0]
    if Fraction(nearest) < Fraction(1, modulus):
        nearest = unpack("f", pack("I", unpack("I", pack("f", nearest))[0] + 1))[0]
    return nearest


def recipe(modulus: int, coefficient: int) -> tuple[list[int], int]:
    """Byte weights c and an offset d that give (sum * coefficient) mod modulus of any int32 sum.

    With b the four bytes of sum + 2^31, x = d + c.b is sum * coefficient (mod p) as
    c_i = coefficient * 256^i and d = -2^31 * coefficient (mod p), and d places it in [2^23, 2^24),
    where floats are the integers: |c_i| <= p/2 < 2^13. For i = inverse(p) = 1/p + e,
    floor(x i) = floor(x / p) if 0 <= x e < 1/p, since x / p is at least 1/p below the next integer:
    asserted for the largest x and p <= 256. For larger p, x e may be 1/p or more, though not 3/p
    (asserted): then the quotient may be one too large, where x mod p is p - 1 or p - 2.
    """
    residues = [coefficient * 256**i % modulus for i in range(4)]
    weights = [r - modulus if 2 * r >= modulus else r for r in residues]
    least = 255 * sum(w for w in weights if w < 0)
    offset = 2**23 - least
    offset += (-(2**31) * coefficient - offset) % modulus
    largest = offset + 255 * sum(w for w in weights if w > 0)
    excess = Fraction(inverse(modulus)) - Fraction(1, modulus)
    assert largest < 2**24
    assert 0 <= largest * excess < Fraction(1 if modulus <= 256 else 3, modulus)
    return weights, offset


def _packed(modulus: int, coefficient: int, *, wide: bool) -> Recipe | WideRecipe:
    """A recipe as the kernel reads it; wide weights are c = 128 h + l."""
    weights, offset = recipe(modulus, coefficient)
    place = offset - 2**23 + 0x4B000000
    if not wide:
        return Recipe(_word(weights), place)
    low = [(w + 64) % 128 - 64 for w in weights]
    high = [(w - x) // 128 for w, x in zip(weights, low, strict=True)]
    return WideRecipe(_word(low), place, _word(high))


def _word(weights: list[int]) -> int:
    """Four signed bytes in a word."""
    return int(unpack("I", pack("4b", *weights))[0])


@lru_cache(maxsize=256)
def _constants(planes: Planes, *, wide: bool) -> bytes:
    """The planes' constants as the kernel reads them."""
    table = ((WidePlane if wide else Plane) * MAX_PLANES)()
    most = (1 << 14) - 1 if wide else 256
    for z, (p, w) in enumerate(planes):
        if not (2 <= p <= most and 0 <= w < p):
            raise ValueError(
                f"plane {z}: got modulus {p}, coefficient {w}; expected 2 <= modulus <= {most} and"
                " 0 <= coefficient < modulus"
            )
        last, folding = (_packed(p, x, wide=wide) for x in (w, 1))
        table[z] = type(table[z])(last, folding, inverse(p), 2**32 - p)
    return bytes(table)


# ── launch ───────────────────────────────────────────────────────────────────────────────────────

_launchers: Once[Launcher] = Once(512)


def launcher(
    left: Tensor, right: Tensor, out: Tensor, planes: Planes, k: int, *, tile: Tile | None = None
) -> Launcher:
    """What launches the kernel for planes like these (k and out not empty), at any addresses.

    out[z, b, i, j] = (w_z * sum_h left[z, b, i, h] right[z, b, j, h]) mod p_z, exact for any int8
    operands and any k. On the current stream of the current device, which is left's; does not wait
    for it.

    Parameters
    ----------
    left, right
        int8 (planes, batch or 1, M or n, pitch), the first k of each row used, pitch in 16s.
        Fastest if n is a multiple of 64, or right's storage goes on for up to 63 more rows.
    out
        uint8 (planes, batch, M, pitch); what comes after n of each row is left undefined. int16
        for moduli below 2^14: residues in [-2, p).
    planes
        (p, w) of each: 2 <= p <= 256 (or p < 2^14), 0 <= w < p.
    k
        Length of the sums.
    tile
        A row of `tiles.HOPPER`; chosen by its predicted time unless given.
    """
    key = (
        *((x.shape, x.stride(), x.dtype) for x in (left, right, out)), permutable(right),
        left.device, planes, k, tile,
    )  # fmt: skip
    return _launchers.made(key, lambda: _launcher(left, right, out, planes, k, tile))


def _launcher(
    left: Tensor, right: Tensor, out: Tensor, planes: Planes, k: int, tile: Tile | None
) -> Launcher:
    _check(left, right, out, planes, k)
    (count, batch), n = out.shape[:2], right.shape[2]
    tile = tile or choose(left.shape[2], n, k, count * batch, processors(left.device))
    wide = out.dtype == torch.int16
    finish = (WideResidues if wide else Residues)(pitch=out.shape[3])
    ctypes.memmove(finish.plane, _constants(planes, wide=wide), ctypes.sizeof(finish.plane))
    return Launcher(
        left, right, finish, tile, planes=count, batch=batch, k=k, permuted=permutable(right),
        long=k > LONGEST, wide=wide,
    )  # fmt: skip


def _check(left: Tensor, right: Tensor, out: Tensor, planes: Planes, k: int) -> None:
    """The shapes, types and strides that the kernel takes for granted."""
    check_planes(left.device, torch.int8, left=left, right=right)
    check_planes(left.device, torch.int16 if out.dtype == torch.int16 else torch.uint8, out=out)
    if not left.shape[0] == right.shape[0] == len(planes) <= MAX_PLANES:
        raise ValueError(
            f"got {left.shape[0]} and {right.shape[0]} planes, {len(planes)} moduli; expected as"
            f" many of each, and at most {MAX_PLANES}"
        )
    batch, n = max(left.shape[1], right.shape[1]), right.shape[2]
    if left.shape[1] not in (1, batch) or right.shape[1] not in (1, batch):
        raise ValueError(f"batches {left.shape[1]} and {right.shape[1]}; expected equal or 1")
    if not 0 < k <= min(left.shape[3], right.shape[3]):
        raise ValueError(f"k = {k}; expected 1 to {min(left.shape[3], right.shape[3])}")
    if out.shape[:3] != (left.shape[0], batch, left.shape[2]) or out.shape[3] < n:
        expected = (left.shape[0], batch, left.shape[2], f">= {n}")
        raise ValueError(f"out: got shape {tuple(out.shape)}; expected {expected}")
