"""Slices of float64 matrices on a GPU: the verbs of `cpu` on int8 tensor cores, the same bits.

Digits are int8 (slices, 1, lines, pitch), sums int32 (sums, 1, m, pitch); paper 004's digits in
groups are FP8, and their sums float32. Nothing waits for the device.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any

import torch

from widen.formats.arrays import lines_near, meaningful
from widen.gpu.constants import constant
from widen.gpu.kernels.cuda.launcher import is_hopper
from widen.gpu.kernels.triton import groups as group_kernels
from widen.gpu.multiply import descriptor
from widen.gpu.operands import Tensor
from widen.gpu.replay.launch import launch, programs
from widen.gpu.tiles import LONGEST_SUM, PRODUCTS, LineTile, ProductTile, line_tile
from widen.gpu.units import STORAGE
from widen.papers.ozimmu.algorithm import Recipe, Slices, Sum
from widen.papers.ozimmu.kernels.triton import slices as kernels
from widen.papers.slicing.gpu import fp8_tile
from widen.stages.compiling.once import once
from widen.units import UNITS

SLICES = (LineTile(1, 1024, 4), LineTile(32, 64, 4))
ACCUMULATE = ProductTile(1, 512, inner=0, warps=2)
"""On an H200 at n = 16384 with three slices: splitting lines whose entries are neighbours takes
1.48 ms (4 x 512: 1.77), lines that are neighbours 1.36; adding 3 sums to C 1.40 ms (4 x 256 with
4 warps: 1.87)."""

WAYS = {"mask": kernels.mask, "nearest": kernels.nearest}


def on(x: Tensor) -> AbstractContextManager[Any]:
    """A context in which the device of x is the current one."""
    return torch.cuda.device(x.device)


def split(lines: Tensor, side: str, recipe: Recipe) -> Slices:
    """Cut lines (lines, inner) into slices; see `cpu.split`."""
    (count, inner), slices, beta = lines.shape, recipe.slices, recipe.bits
    pitch = -(-inner // 16) * 16
    near = lines_near(lines.shape, lines.stride())
    tile = line_tile(SLICES, near, inner)
    grid = (-(-count // tile.lines) * -(-pitch // tile.inner),)
    place: dict[str, Any] = {"device": lines.device}
    digits = torch.empty((slices, 1, count, pitch), dtype=torch.int8, **place)
    most = torch.zeros(count, dtype=torch.int64, **place)
    bits = lines.view(torch.int64)
    along, beside = meaningful(lines.shape, lines.stride())[::-1]
    common = {
        "x": bits, "lines": count, "inner": inner, "along": along,
        "beside": beside, **tile.named,
    }  # fmt: skip
    launch(kernels.largest, grid, {**common, "out": most}, warps=tile.warps)
    if recipe.way != "anew":
        units = torch.empty((1, count), dtype=torch.int32, **place)
        launch(
            WAYS[recipe.way], grid,
            {
                **common, "most": most, "units": units, "planes": digits, "pitch": pitch,
                "stride": digits.stride(0), "slices": slices, "beta": beta,
            },
            warps=tile.warps,
        )  # fmt: skip
        return Slices(digits.to(STORAGE[recipe.unit]), units, beta)
    units = torch.empty((slices, count), dtype=torch.int32, **place)
    rest = lines.clone(memory_format=torch.contiguous_format).view(torch.int64)
    tile = line_tile(SLICES, False, inner)
    grid = (-(-count // tile.lines) * -(-pitch // tile.inner),)
    for s in range(slices):
        following = torch.zeros(count, dtype=torch.int64, **place)
        before = units[max(s - 1, 0)]
        launch(
            kernels.anew, grid,
            {
                **tile.named, "rest": rest, "most": most, "following": following, "units": units[s],
                "before": before, "planes": digits[s], "lines": count, "inner": inner,
                "pitch": pitch, "known": count if s else 0, "beta": beta,
            },
            warps=tile.warps,
        )  # fmt: skip
        most = following
    return Slices(digits, units, beta)


def multiply(left: Slices, right: Slices, sums: Sequence[Sum]) -> Tensor:
    """Sums of products of slices, (sums, 1, m, pitch) of int32 or float32, the last sum first."""
    ours, theirs = left.digits, right.digits
    m, n, k = ours.shape[2], theirs.shape[2], theirs.shape[3]
    pitch = -(-n // 16) * 16
    whole = ours.dtype == torch.int8
    dtype = torch.int32 if whole else torch.float32
    out = torch.empty((len(sums), 1, m, pitch), dtype=dtype, device=ours.device)
    order = tuple(reversed(sums))  # the longest first: no long tile at the end
    if whole and is_hopper(ours.device):
        from widen.papers.ozimmu.kernels.cuda.sums import multiply_sums

        multiply_sums(ours, theirs, out, k, order)
        return out
    tile = PRODUCTS["int8"] if whole else fp8_tile(ours.device)
    depth = LONGEST_SUM if whole else -(-k // tile.inner) * tile.inner
    count = len(sums) * -(-m // tile.rows) * -(-n // tile.columns)
    firsts, pairs = _pairs(order, ours.device)
    launch(
        group_kernels.products, (programs(ours.device, count, tile.warps),),
        {
            **tile.named, "left": descriptor(ours, k, tile.rows, tile.inner),
            "right": descriptor(theirs, k, tile.columns, tile.inner), "out": out, "firsts": firsts,
            "pairs": pairs, "m": m, "n": n, "k": k, "pitch": pitch, "groups": len(sums), "batch": 1,
            "left_batch": 1, "right_batch": 1, "depth": depth, "one": 1.0,
            "SHORT": False if whole else UNITS["fp8"].span,
            "PLAIN": ours.device.type == "cuda",
        },
        warps=tile.warps, stages=tile.stages,
    )  # fmt: skip
    return out


def accumulate(
    c: Tensor | None, products: Tensor, sums: Sequence[Sum], left: Slices, right: Slices, last: bool
) -> Tensor:
    """Add scaled sums to C in one pass over memory; see `cpu.accumulate`."""
    (m, pitch), n = products.shape[2:], right.digits.shape[2]
    total = torch.empty((m, n), dtype=torch.float64, device=products.device) if c is None else c
    terms = _terms(tuple(sums), products.device)
    tile = ACCUMULATE
    launch(
        kernels.accumulate, (-(-m // tile.rows) * -(-n // tile.columns),),
        {
            "c": total, "sums": products, "terms": terms, "rows": left.units,
            "columns": right.units, "m": m, "n": n, "pitch": pitch, "stride": products.stride(0),
            "count": len(sums), "started": 0 if c is None else m, "last": int(last),
            "beta": left.beta,
            "ANEW": left.units.shape[0] > 1, "ROWS": tile.rows, "COLUMNS": tile.columns,
        },
        warps=tile.warps,
    )  # fmt: skip
    return total


@once
def _terms(sums: tuple[Sum, ...], device: torch.device) -> Tensor:
    """Where a term's sum lies, and its slices, in the order of the additions."""
    rows = [[len(sums) - 1 - at, term.left, term.right] for at, term in enumerate(sums)]
    return constant(rows, torch.int32, device)


@once
def _pairs(sums: tuple[Sum, ...], device: torch.device) -> tuple[Tensor, Tensor]:
    """Tables of `gpu.kernels.triton.groups.products`."""
    firsts, pairs = [0], []
    for left, right, count in sums:
        pairs += [[left + q, right - q] for q in range(count)]
        firsts.append(len(pairs))
    return (
        constant(firsts, torch.int32, device),
        constant(pairs, torch.int32, device),
    )
