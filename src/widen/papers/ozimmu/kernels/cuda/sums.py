"""Int32 sums of products of int8 slices on Hopper GPUs: `sums.cuh`.

Slices of equal weight lie one after the other in the inner dimension of one long sum, so that they
meet in the tensor cores' accumulators and int32 matrices are never added.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import replace
from heapq import heapreplace
from itertools import chain, zip_longest
from math import prod
from pathlib import Path

import torch

from widen.gpu.kernels.cuda.launcher import Finish, Launcher, check_planes
from widen.gpu.replay.driver import processors
from widen.gpu.tiles import HOPPER, Tile, choose
from widen.stages.compiling.once import Once

Tensor = torch.Tensor

Sum = tuple[int, int, int]
"""First slice of left (going up), first of right (going down), and how many pairs of them."""

MAX_SUMS = 64

# Long sums of many slices leave nothing in L2 for the next tile, and tiles that differ in length
# are dealt out evenly (`deal`). TOP/s of 256x192, 256x128, 128x256 on an H200, 0.25 s of rest
# before each, slices to nearest: n = 4096, 8 slices 1684, 1613, 1624; 10 slices 1674, 1648, 1618;
# 12 slices 1529, 1576, 1559; at its power limit, n = 16384, 6 slices 1413, 1322, 1372.
HOPPER_SUMS = (replace(HOPPER[0], far_step=960), HOPPER[1], *HOPPER[3:])


class Pairs(ctypes.Structure):
    """`Pairs` of sums.cuh."""

    _fields_ = tuple((name, ctypes.c_int32) for name in ("left", "right", "count"))


class Integers(Finish):
    """`Finish` of sums.cuh."""

    header = Path(__file__).with_name("sums.cuh")
    _fields_ = (
        ("out", ctypes.c_uint64),
        ("turns", ctypes.c_uint64),
        ("pitch", ctypes.c_int32),
        ("sum", Pairs * MAX_SUMS),
    )


NO_TILE = 2**31 - 1
OVERHEAD = 2
"""Steps of 128 bytes that a tile costs beside its own, about."""


def deal(tiles: int, steps: Sequence[int], clusters: int) -> list[int]:
    """Which tile each of the clusters takes in turn, `tiles` of every sum, whose steps are given.

    The next tile goes to the cluster that is free first. One after the other, as equal tiles are
    dealt, leaves clusters idle for 3 % of the time at n = 4096 with 8 slices, this way 0.3 %.

    >>> deal(2, [8, 4], 2)  # two turns of two clusters, and the end
    [0, 1, 2, 3, 2147483647, 2147483647]
    """
    free = [(0, cluster) for cluster in range(clusters)]
    taken: list[list[int]] = [[] for _ in free]
    for tile in range(tiles * len(steps)):
        busy, cluster = free[0]
        taken[cluster].append(tile)
        heapreplace(free, (busy + steps[tile // tiles] + OVERHEAD, cluster))
    return [*chain(*zip_longest(*taken, fillvalue=NO_TILE)), *[NO_TILE] * clusters]


def _launcher(
    left: Tensor, right: Tensor, out: Tensor, k: int, sums: Sequence[Sum], tile: Tile | None
) -> tuple[Launcher, Tensor]:
    """What launches the kernel for slices like these, and the order of its tiles on the device."""
    _check(left, right, out, k, sums)
    m, n, count = left.shape[2], right.shape[2], len(sums)
    pairs, available = sum(some for _, _, some in sums), processors(left.device)
    known = HOPPER if pairs == count else HOPPER_SUMS
    tile = tile or choose(m, n, k * pairs // count, count, available, known)
    finish = Integers(pitch=out.shape[3])
    for place, of_sum in enumerate(sums):
        finish.sum[place] = Pairs(*of_sum)
    tiles = prod(tile.clusters(m, n))
    steps = [some * -(-k // 128) for _, _, some in sums]
    turns = deal(tiles, steps, min(tiles * count, available // tile.cluster))
    launcher = Launcher(left, right, finish, tile, planes=count, batch=1, k=k)
    order = torch.tensor(turns, device=left.device, dtype=out.dtype)
    _turns.append(order)
    return launcher, order


def _check(left: Tensor, right: Tensor, out: Tensor, k: int, sums: Sequence[Sum]) -> None:
    """What the kernel takes for granted."""
    check_planes(left.device, torch.int8, left=left, right=right)
    check_planes(left.device, torch.int32, out=out)
    expected = (len(sums), 1, left.shape[2])
    if out.shape[:3] != expected or out.shape[3] < right.shape[2]:
        raise ValueError(f"out: got shape {tuple(out.shape)}; expected {(*expected, '>= n')}")
    if left.shape[1] != 1 or right.shape[1] != 1 or not 0 < len(sums) <= MAX_SUMS:
        raise ValueError(f"got {len(sums)} sums; expected 1 to {MAX_SUMS} and no batch")
    if not 0 < k <= min(left.shape[3], right.shape[3]):
        raise ValueError(f"k = {k}; expected at most {left.shape[3]} and {right.shape[3]}")
    for first, last, count in sums:
        inside = 0 <= first <= left.shape[0] - count and count - 1 <= last < right.shape[0]
        if not (inside and count > 0):
            raise ValueError(f"{count} slices, {first} up and {last} down: not all are there")


_launchers: Once[tuple[Launcher, Tensor]] = Once(512)
_turns: list[Tensor] = []  # kept for good: captured graphs point at them


def multiply_sums(
    left: Tensor, right: Tensor, out: Tensor, k: int, sums: Sequence[Sum], tile: Tile | None = None
) -> None:
    """out[z, 0, i, j] = sum over q < count of sum_h left[l + q, 0, i, h] right[r - q, 0, j, h].

    The caller sees to it that int32 holds the sums. On the current stream of left's device.

    Parameters
    ----------
    left, right
        int8 (slices, 1, lines, pitch), the first k of each line used, pitch in 16s.
    out
        int32 (sums, 1, lines of left, pitch in 16s); what comes after right's lines is undefined.
    k
        Length of a line.
    sums
        (l, r, count) of every sum; the longest first, so that the last tiles are short.
    tile
        A row of `tiles.HOPPER`; chosen by its predicted time unless given.
    """
    key = (left.shape, right.shape, out.shape, left.device, k, tuple(sums), tile)
    launcher, turns = _launchers.made(key, lambda: _launcher(left, right, out, k, sums, tile))
    launcher(left.data_ptr(), right.data_ptr(), out.data_ptr(), turns.data_ptr())
