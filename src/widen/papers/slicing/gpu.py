"""Slices with a new shift each, on a GPU: Triton kernels, the vendor's products.

The verbs of `cpu`, and its bits. Products of slices are made by FP16 and FP64 tensor cores
through the vendor's routine, by FP8 ones through it where sums of 128 products are exact, and
otherwise by a kernel of our own that empties the accumulator in time (Hopper keeps 14 bits of a
sum of FP8 products).
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np
import torch

from widen.gpu.clock import Clock
from widen.gpu.constants import constant
from widen.gpu.kernels.triton import groups as group_kernels
from widen.gpu.multiply import descriptor
from widen.gpu.replay.launch import assembly, launch, programs
from widen.gpu.tiles import PRODUCTS, ProductTile
from widen.gpu.units import STORAGE
from widen.papers.slicing.algorithm import LANES, NOTHING, ROW_LANES, halved
from widen.papers.slicing.kernels.triton import slices as kernels
from widen.papers.slicing.kernels.triton import soft64
from widen.stages.compiling.once import once
from widen.units import UNITS

Tensor = torch.Tensor

ROOM = 1 << 34
"""Bytes of products held at a time."""

VENDOR_SPAN = 128
"""Terms after which the vendor's FP8 product empties its accumulator."""

LINES, BLOCK = 4, 256

FP8_HOPPER = ProductTile(128, 128, inner=128, warps=8, stages=4)
"""Where the compiler empties Hopper's FP8 accumulator within a step: 705 TOP/s at n = 4096 and
digits up to 16, 526 with `PRODUCTS`."""


def clock(timed: bool) -> Clock:
    """What takes the time of stages, if anybody wants to know."""
    return Clock(timed=timed)


def finite(x: Tensor) -> bool:
    """Whether there is no infinity and no NaN."""
    return bool(torch.isfinite(x).all())


def lines(x: Tensor) -> Tensor:
    """A working copy of rows, float64."""
    return x.to(torch.float64, memory_format=torch.contiguous_format, copy=True).contiguous()


def tops(work: Tensor) -> Tensor:
    """ceil(log2 of the largest magnitude) of every line."""
    out = torch.empty(len(work), dtype=torch.int64, device=work.device)
    lines, inner = work.shape
    launch(
        kernels.tops, (-(-lines // LINES),),
        {
            "work": work.view(torch.int64), "top": out, "lines": lines, "inner": inner,
            "LINES": LINES, "LANES": LANES,
        },
    )  # fmt: skip
    return out


def split(
    work: Tensor, top: Tensor, bits: int, constant: float, unit: str, *, emulated: bool = False,
    weights: Tensor | None = None,
) -> tuple[Tensor, Tensor, Tensor | None]:  # fmt: skip
    """Take a slice from every line: the plane, tops of what is left, sums of |slice| weights.

    A plane has lines and entries in multiples of 16; what is beyond the operand is 0.
    """
    count, inner = work.shape
    pitch = -(-inner // 16) * 16
    shape = (-(-count // 16) * 16, pitch)
    plane = torch.empty(shape, dtype=STORAGE[unit], device=work.device)
    plane.view(torch.uint8)[count:] = 0
    following = torch.empty_like(top)
    lanes = None
    if weights is not None:
        lanes = torch.empty((count, LANES), dtype=torch.float64, device=work.device)
    launch(
        kernels.split, (-(-count // LINES),),
        {
            "work": work.view(torch.int64), "plane": plane, "top": top, "following": following,
            "weights": work if weights is None else weights,
            "lanes": work if lanes is None else lanes, "lines": count, "inner": inner,
            "pitch": pitch, "bits": bits, "COARSE": constant == 1, "EMULATED": emulated,
            "ESTIMATE": weights is not None, "LINES": LINES, "LANES": LANES,
        },
        exact=True,
    )  # fmt: skip
    return plane, following, None if lanes is None else halved(lanes.T)


def magnitudes(work: Tensor, weights: Tensor) -> Tensor:
    """Sums of |x| weight along every line."""
    lines, inner = work.shape
    lanes = torch.empty((lines, LANES), dtype=torch.float64, device=work.device)
    launch(
        kernels.magnitudes, (-(-lines // LINES),),
        {
            "work": work, "weights": weights, "lanes": lanes, "lines": lines, "inner": inner,
            "LINES": LINES, "LANES": LANES,
        },
        exact=True,
    )  # fmt: skip
    sums: Tensor = halved(lanes.T)
    return sums


def column_sums(work: Tensor, lanes: Tensor | None) -> Tensor:
    """Lanes of the sums of |x| over lines, added to those of the lines before."""
    lines, inner = work.shape
    if lanes is None:
        lanes = torch.zeros((ROW_LANES, inner), dtype=torch.float64, device=work.device)
    launch(
        kernels.column_sums, (-(-inner // LANES),),
        {
            "work": work, "lanes": lanes, "lines": lines, "inner": inner, "ROW_LANES": ROW_LANES,
            "BLOCK": LANES,
        },
    )  # fmt: skip
    return lanes


def exceeds(bound: Tensor, sums: Tensor) -> bool:
    """Whether bound > sums in every line; lines of zeros have nothing to lose."""
    return bool(((bound > sums) | (sums == 0)).all())


def multiply(
    left: list[Tensor], right: list[Tensor], pairs: list[tuple[int, int]], unit: str, largest: int,
    columns: slice,
) -> Tensor:  # fmt: skip
    """Exact products (pairs, m, columns), both up to the next multiple of 16; columns begin at one.

    Planes' lines were padded.
    """
    start, stop = columns.start, -(-columns.stop // 16) * 16
    dtype = torch.float64 if unit == "fp64" else torch.float32
    shape = (len(pairs), len(left[0]), stop - start)
    if unit == "fp8" and largest * VENDOR_SPAN > UNITS[unit].exact and left[0].is_cuda:
        return _emptied_in_time(left, [plane[start:stop] for plane in right], pairs)
    out = torch.empty(shape, dtype=dtype, device=left[0].device)
    for target, (p, q) in zip(out, pairs, strict=True):
        _product(left[p], right[q][start:stop].t(), target)
    return out


def _product(left: Tensor, right: Tensor, out: Tensor) -> None:
    """One product of planes by the vendor's routine; float32 ones where there is no GPU."""
    if not left.is_cuda or left.dtype == torch.float64:
        torch.matmul(left.to(out.dtype), right.to(out.dtype), out=out)
    elif left.dtype == torch.float16:
        torch.mm(left, right, out_dtype=torch.float32, out=out)
    else:
        one = _one(left.device)
        torch._scaled_mm(
            left, right, scale_a=one, scale_b=one, out_dtype=torch.float32, use_fast_accum=False,
            out=out,
        )  # fmt: skip


@once
def _one(device: torch.device) -> Tensor:
    return constant(1.0, torch.float32, device)  # complete before another stream may read it


def fp8_tile(device: torch.device) -> ProductTile:
    """The tile of FP8 products whose sums leave the tensor core in time."""
    return FP8_HOPPER if hopper(device) else PRODUCTS["fp8"]


def hopper(device: torch.device | str) -> bool:
    """Whether this is a GPU of the generation of the H100, H200 and GH200."""
    device = torch.device(device)
    return device.type == "cuda" and torch.cuda.get_device_capability(device)[0] == 9


def _emptied_in_time(
    left: list[Tensor], right: list[Tensor], pairs: list[tuple[int, int]]
) -> Tensor:
    """FP8 products whose sums leave the tensor core after 64 terms, into float32."""
    ours, theirs = torch.stack(left), torch.stack([plane.contiguous() for plane in right])
    m, n, k = ours.shape[1], theirs.shape[1], ours.shape[2]
    out = torch.empty((len(pairs), m, n), dtype=torch.float32, device=ours.device)
    firsts, table = _lists(tuple(pairs), ours.device)
    tile, short = fp8_tile(ours.device), UNITS["fp8"].span
    count = len(pairs) * -(-m // tile.rows) * -(-n // tile.columns)
    launch(
        group_kernels.products, (programs(ours.device, count, tile.warps),),
        {
            **tile.named, "left": descriptor(ours[:, None], k, tile.rows, tile.inner),
            "right": descriptor(theirs[:, None], k, tile.columns, tile.inner), "out": out,
            "firsts": firsts, "pairs": table, "m": m, "n": n, "k": k, "pitch": n,
            "groups": len(pairs), "batch": 1, "left_batch": 1, "right_batch": 1,
            "depth": -(-k // tile.inner) * tile.inner, "one": 1.0, "SHORT": short, "PLAIN": True,
        },
        warps=tile.warps, stages=tile.stages,
    )  # fmt: skip
    return out


@once
def _lists(pairs: tuple[tuple[int, int], ...], device: torch.device) -> tuple[Tensor, Tensor]:
    """Where every product begins, and its planes."""
    firsts = constant(range(len(pairs) + 1), torch.int32, device)
    return firsts, constant(pairs, torch.int32, device)


def exponents(tops_of: list[Tensor], order: list[int], bits: int) -> Tensor:
    """Exponents (pairs, lines) of the unit of every slice that a list of products names.

    A line that has nothing left has that of its first slice.
    """
    stacked = torch.stack([tops_of[p] for p in order])
    stacked = torch.where(stacked == NOTHING, tops_of[0], stacked) - bits
    return torch.where(stacked < NOTHING // 2, 0, stacked).to(torch.int32)


def accumulate(
    products: Tensor, left: Tensor, right: Tensor, precision: int, *, emulated: bool
) -> Tensor:
    """0 + T_0 2^e_0 + T_1 2^e_1 + ... in floating-point arithmetic, one order: that of the list."""
    dtype = torch.float64 if precision == 53 else torch.float32
    out = torch.empty((left.shape[1], right.shape[1]), dtype=dtype, device=left.device)
    target = out.view(torch.int64) if emulated else out
    least, largest = left.amin() + right.amin(), left.amax() + right.amax()
    launch(
        kernels.accumulate, _elements(out),
        {
            **_named(products, left, right, target), "edges": torch.stack([least, largest]),
            "PRECISION": precision, "EMULATED": emulated, "ASSEMBLY": assembly(left.device),
        },
        exact=True,
    )  # fmt: skip
    return out


def _elements(out: Tensor) -> tuple[int]:
    """The grid of kernels that sum over products, element by element."""
    rows, columns = out.shape
    return (rows * -(-columns // BLOCK),)


def _named(products: Tensor, left: Tensor, right: Tensor, out: Tensor) -> dict[str, Any]:
    """What all of these kernels are given."""
    count, rows, columns = len(products), *out.shape
    return {
        "products": products, "left": left, "right": right, "out": out, "count": count,
        "rows": rows, "columns": columns, "stride": products.stride(0),
        "pitch": products.stride(1), "BLOCK": BLOCK,
    }  # fmt: skip


def nearest(products: Tensor, left: Tensor, right: Tensor) -> Tensor:
    """The exact sum of all T 2^e, rounded once."""
    shape = (left.shape[1], right.shape[1])
    out = torch.empty(shape, dtype=torch.float64, device=left.device)
    launch(
        kernels.nearest, _elements(out),
        {
            **_named(products, left, right, out.view(torch.int64)),
            "edges": torch.stack([right.amin(), right.amax()]),
            "left_edges": torch.stack([left.amin(0), left.amax(0)]),
            "right_edges": torch.stack([right.amin(1), right.amax(1)]),
        },
    )  # fmt: skip
    return out


def add(x: Tensor, y: Tensor, *, emulated: bool) -> Tensor:
    """The sum x + y in float64, or in integer instructions."""
    return _combined(x, 1.0, 1.0, y) if emulated else x + y


def combine(
    x: Tensor, alpha: float, beta: float, c: Tensor | None, precision: int, *, emulated: bool
) -> Tensor:
    """The sum alpha x + beta c in the result's own arithmetic; beta = 0 reads no c."""
    if emulated:
        return _combined(x, alpha, beta, None if c is None else c.to(x.dtype))
    scaled = x * alpha  # kernels of their own: nothing is fused
    return scaled if c is None else scaled + c.to(x.dtype) * beta


def _combined(x: Tensor, alpha: float, beta: float, c: Tensor | None) -> Tensor:
    out, x = torch.empty_like(x, memory_format=torch.contiguous_format), x.contiguous()
    addend = x if c is None else c.contiguous()
    alpha_bits, beta_bits = np.array([alpha, beta]).view(np.int64).tolist()
    launch(
        soft64.combine, (-(-x.numel() // BLOCK),),
        {
            "x": x.view(torch.int64), "c": addend.view(torch.int64), "out": out.view(torch.int64),
            "size": x.numel(), "alpha": alpha_bits, "beta": beta_bits, "WITH_ADDEND": c is not None,
            "BLOCK": BLOCK,
        },
    )  # fmt: skip
    return out


def zeros(m: int, n: int, precision: int, like: Tensor) -> Tensor:
    """A result to be filled."""
    dtype = torch.float64 if precision == 53 else torch.float32
    return torch.zeros((m, n), dtype=dtype, device=like.device)


def contiguous(x: Tensor) -> Tensor:
    """The same without gaps."""
    return x.contiguous()


def at(x: Tensor) -> AbstractContextManager[Any]:
    """Where x is, for the time being."""
    return torch.cuda.device(x.device) if x.is_cuda else nullcontext()


def read(account: Clock) -> None:
    """Wait for the device, and add up its times."""
    account.read()
