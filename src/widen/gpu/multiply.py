"""Products of int8 planes on a GPU, reduced modulo p: residues of X."""

from __future__ import annotations

from typing import Any

import torch
from triton.tools.tensor_descriptor import TensorDescriptor

from widen.gpu import constants, tiles
from widen.gpu.hardware import is_hopper, programs
from widen.gpu.kernels.triton import multiply as multiply_kernels
from widen.gpu.operands import Groups, Tensor
from widen.gpu.replay.launch import launch
from widen.gpu.replay.recording import listener
from widen.gpu.small import are_small, multiply_small
from widen.systems import Residues

Planes = tuple[tuple[int, int], ...]
"""Modulus and coefficient of every plane."""


def multiply(left: Tensor, right: Tensor, layout: Residues, k: int) -> Tensor:
    """Bytes (planes, batch, m, pitch): residues of X times their Chinese remainder coefficient."""
    return products(left, right, constants.of_planes(layout), k)


def products(
    left: Tensor, right: Tensor, planes: Planes, k: int, dtype: torch.dtype = torch.uint8
) -> Tensor:
    """(planes, batch, m, pitch): products of planes times w modulo p, (p, w) being given of each.

    Moduli up to 256 give bytes; 16-bit numbers hold those in two digits.
    """
    (left_batch, m), (right_batch, n) = left.shape[1:3], right.shape[1:3]
    batch, pitch = max(left_batch, right_batch), -(-n // 16) * 16
    out = torch.empty((len(planes), batch, m, pitch), dtype=dtype, device=left.device)
    multiply_into(left, right, planes, k, out)
    return out


def multiply_into(left: Tensor, right: Tensor, planes: Planes, k: int, out: Tensor) -> None:
    """The same into memory that is there."""
    batch, m, pitch = out.shape[1:]
    n = right.shape[2]
    if are_small(left, right, k):
        multiply_small(left, right, planes, k, out)
        return
    if is_hopper(left.device):
        from widen.gpu.kernels.cuda import multiply as cuda

        moduli, coefficients = zip(*planes, strict=True)
        recorder = listener()
        for start in range(0, len(planes), cuda.MAX_PLANES):
            now = slice(start, start + cuda.MAX_PLANES)
            pieces = (left[now], right[now], out[now])
            run = cuda.launcher(*pieces, k, n, moduli[now], coefficients[now])
            run(*(piece.data_ptr() for piece in pieces))
            if recorder is not None:
                recorder.launched(pieces, run, tensors=False)
        return
    tile = tiles.MULTIPLY
    count = len(planes) * batch * -(-m // tile.rows) * -(-n // tile.columns)
    launch(
        multiply_kernels.residues, (programs(left.device, count, tile.warps),),
        {
            **tile.named, "left": descriptor(left, k, tile.rows, tile.inner),
            "right": descriptor(right, k, tile.columns, tile.inner), "out": out,
            "constants": constants.multiplying(planes, left.device), "m": m, "n": n, "k": k,
            "pitch": pitch, "planes": len(planes), "batch": batch, "left_batch": left.shape[1],
            "right_batch": right.shape[1], "longest": tiles.LONGEST_SUM,
        },
        warps=tile.warps, stages=tile.stages,
    )  # fmt: skip


def descriptor(planes: Tensor, k: int, rows: int, inner: int) -> Any:
    """Planes as one tall matrix of rows, which bulk copies read tile by tile."""
    pitch = planes.shape[-1]
    return TensorDescriptor(planes, [planes.numel() // pitch, k], [pitch, 1], [rows, inner])


def _some(planes: Tensor, streams: int, which: slice) -> Tensor:
    """Some planes of every stream, a view if there is one stream."""
    if streams == 1:
        return planes[which]
    return planes.view(streams, -1, *planes.shape[1:])[:, which].flatten(0, 1).contiguous()


def multiply_words(left: Tensor, right: Tensor, layout: Residues, k: int) -> Tensor | Groups:
    """Residues of X; moduli in two digits give three 16-bit numbers each, whose sum counts."""
    if not layout.bases:
        return multiply(left, right, layout, k)
    streams = 1 if layout.parts == 1 else 3
    each, short = layout.planes[0] // streams, layout.bases.count(0)
    groups_of_planes = (
        (slice(0, short), constants.of_planes(layout), torch.uint8),
        (slice(short, each), constants.of_long_planes(layout), torch.int16),
    )
    groups = []
    for which, planes, dtype in groups_of_planes:
        ours, theirs = (_some(x, streams, which) for x in (left, right))
        groups.append(products(ours, theirs, planes, k, dtype))
    return Groups(groups[0], groups[1])
