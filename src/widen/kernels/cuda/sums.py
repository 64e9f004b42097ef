"""int32 sums of products of int8 slices, on Hopper GPUs: `multiply.cu` with `sums.cuh`.

Slices of equal weight lie one after the other in the inner dimension of one long sum, so that they
meet in the tensor cores' accumulators and int32 matrices are never added.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from importlib import import_module
from typing import Any

from widen.kernels.cuda.launcher import (
    Finish,
    Launcher,
    check_planes,
    options,
    plain_map,
    processors,
    work,
)
from widen.kernels.tiles import Tile, choose

MAX_SUMS = 64

Sum = tuple[int, int, int]
"""First slice of left (going up), first of right (going down), and how many pairs of them."""


class Pairs(ctypes.Structure):
    """`Sum` of sums.cuh."""

    _fields_ = tuple((name, ctypes.c_int32) for name in ("left", "right", "pairs"))


class Sums(Finish):
    """`Finish` of sums.cuh."""

    _fields_ = (
        ("out", ctypes.c_uint64),
        ("pitch", ctypes.c_int32),
        ("sum", Pairs * MAX_SUMS),
    )


def _launcher(
    left: Any, right: Any, out: Any, k: int, sums: Sequence[Sum], tile: Tile | None
) -> Launcher:
    """What launches the kernel for slices like these and one list of sums."""
    _check(left, right, out, k, sums)
    finish = Sums(pitch=4 * out.shape[3])
    for z, (first, last, pairs) in enumerate(sums):
        finish.sum[z] = Pairs(first, last, pairs)
    depth = k * sum(pairs for _, _, pairs in sums) // len(sums)
    if tile is None:
        tile = choose(left.shape[2], right.shape[2], depth, len(sums), processors(left.device))
    return Launcher(
        left.device, work(left, right, len(sums), 1, k, tile), finish,
        (plain_map(left, k, tile.left_box), plain_map(right, k, tile.right_box)),
        tile, options(tile, "sums"),
    )  # fmt: skip


def _check(left: Any, right: Any, out: Any, k: int, sums: Sequence[Sum]) -> None:
    """What the kernel takes for granted."""
    torch = import_module("torch")
    check_planes(
        left.device,
        ("left", left, torch.int8),
        ("right", right, torch.int8),
        ("out", out, torch.int32),
    )
    for name, tensor in (("left", left), ("right", right)):
        if tensor.shape[1] != 1:
            raise ValueError(f"{name}: got {tuple(tensor.shape)}; expected (slices, 1, …)")
    expected = (len(sums), 1, left.shape[2])
    if out.shape[:3] != expected or out.shape[3] < right.shape[2]:
        raise ValueError(f"out: got {tuple(out.shape)}; expected {(*expected, right.shape[2])}")
    if not 0 < k <= min(left.shape[3], right.shape[3]) or not 0 < len(sums) <= MAX_SUMS:
        raise ValueError(f"k = {k}, {len(sums)} sums; expected 1 to {MAX_SUMS} of them")
    for first, last, pairs in sums:
        inside = first + pairs <= left.shape[0] and pairs - 1 <= last < right.shape[0]
        if not (inside and first >= 0 and pairs > 0):
            raise ValueError(f"slices {first} up and {last} down, {pairs} pairs: not all are there")


_launchers: dict[Any, Launcher] = {}


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
        found = _launchers[key] = _launcher(left, right, out, k, sums, tile)
    found(left.data_ptr(), right.data_ptr(), out.data_ptr())
