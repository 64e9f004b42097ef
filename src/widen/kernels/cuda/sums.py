"""Launches `multiply.cu` with SUMS: int32 sums of products of int8 slices, on Hopper GPUs.

Slices of equal weight lie one after the other in the inner dimension of one long sum, so that they
meet in the tensor cores' accumulators and int32 matrices are never added.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from importlib import import_module
from typing import Any

from widen.kernels.cuda.multiply import MAX_PLANES, Launcher
from widen.kernels.tiles import Tile

Sum = tuple[int, int, int]
"""First slice of left (going up), first of right (going down), and how many pairs of them."""


class Pairs(ctypes.Structure):
    """`Plane` of multiply.cu with SUMS."""

    _fields_ = (
        *((name, ctypes.c_int32) for name in ("left", "right", "pairs")),
        ("unused", ctypes.c_int32 * 3),
    )


class SumsLauncher(Launcher):
    """Launches of one shape and one list of sums, at any addresses."""

    def __init__(
        self, left: Any, right: Any, out: Any, k: int, sums: Sequence[Sum], tile: Tile | None
    ) -> None:
        _check(left, right, out, k, sums)
        table = (Pairs * MAX_PLANES)()
        for z, (first, last, pairs) in enumerate(sums):
            table[z] = Pairs(first, last, pairs)
        depth = k * sum(pairs for _, _, pairs in sums) // len(sums)
        n = right.shape[2]
        self._prepare(left, right, out, k, n, bytes(table), tile, depth, False, sums=True)


def _check(left: Any, right: Any, out: Any, k: int, sums: Sequence[Sum]) -> None:
    """What the kernel takes for granted."""
    torch = import_module("torch")
    for name, tensor in (("left", left), ("right", right)):
        if tensor.dtype != torch.int8 or tensor.ndim != 4 or tensor.shape[1] != 1:
            raise ValueError(f"{name}: got {tensor.dtype} {tuple(tensor.shape)}; expected int8,"
                             " (slices, 1, lines, pitch)")  # fmt: skip
        if not tensor.is_contiguous() or tensor.shape[3] % 16 or tensor.data_ptr() % 16:
            raise ValueError(f"{name}: expected contiguous rows of a multiple of 16 bytes")
    expected = (len(sums), 1, left.shape[2])
    if out.dtype != torch.int32 or out.shape[:3] != expected or out.shape[3] % 16:
        raise ValueError(f"out: got {out.dtype} {tuple(out.shape)}; expected int32 {expected}")
    if not 0 < k <= min(left.shape[3], right.shape[3]) or not 0 < len(sums) <= MAX_PLANES:
        raise ValueError(f"k = {k}, {len(sums)} sums; expected 1 to {MAX_PLANES} of them")
    for first, last, pairs in sums:
        inside = first + pairs <= left.shape[0] and pairs - 1 <= last < right.shape[0]
        if not (inside and first >= 0 and pairs > 0):
            raise ValueError(f"slices {first} up and {last} down, {pairs} pairs: not all are there")


_launchers: dict[Any, SumsLauncher] = {}


def multiply_sums(
    left: Any, right: Any, out: Any, k: int, sums: Sequence[Sum], tile: Tile | None = None
) -> None:
    """out[z, 0, i, j] = sum over pairs q of sum_h left[l_z + q, 0, i, h] right[r_z - q, 0, j, h].

    The caller sees to it that int32 holds the sums. On the current stream of left's device.

    Parameters
    ----------
    left, right
        int8 (slices, 1, lines, pitch), the first k of each line used, pitch in 16s.
    out
        int32 (sums, 1, lines of left, pitch); what comes after right's lines is undefined.
    k
        Length of a line.
    sums
        (l, r, pairs) of every sum; the longest first, so that the last tiles are short.
    tile
        A row of `tiles.HOPPER`; chosen by its predicted time unless given.
    """
    key = (left.shape, right.shape, out.shape, left.device, k, tuple(sums), tile)
    found = _launchers.get(key)
    if found is None:
        if len(_launchers) >= 512:
            _launchers.clear()
        found = _launchers[key] = SumsLauncher(left, right, out, k, sums, tile)
    found(left.data_ptr(), right.data_ptr(), out.data_ptr())
