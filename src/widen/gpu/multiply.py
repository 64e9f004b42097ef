"""Products of int8 planes on a GPU, reduced modulo p: residues of X.

Many small matrices share tiles. Large ones are multiplied by halves, seven products instead of
eight (Strassen): an eighth of the products is saved, and planes and residues are read and written
once more. Residues are exact whatever the order, so all ways give the same bytes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from triton.tools.tensor_descriptor import TensorDescriptor

from widen.gpu import constants, tiles
from widen.gpu.kernels.cuda import multiply as cuda_kernels
from widen.gpu.kernels.cuda.launcher import is_hopper
from widen.gpu.kernels.cuda.multiply import Planes
from widen.gpu.kernels.triton import halves as halves_kernels
from widen.gpu.kernels.triton import multiply as multiply_kernels
from widen.gpu.kernels.triton import small as small_kernels
from widen.gpu.operands import Groups, Tensor
from widen.gpu.replay.launch import launch, programs
from widen.gpu.replay.recording import listener
from widen.systems import Residues


def multiply(left: Tensor, right: Tensor, layout: Residues, k: int) -> Tensor | Groups:
    """Bytes (planes, batch, m, pitch): residues of X times their Chinese remainder coefficient.

    Moduli in two digits give three 16-bit numbers each, whose sum counts.
    """
    if not layout.bases:
        return products(left, right, constants.of_planes(layout), k)
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


def _some(planes: Tensor, streams: int, which: slice) -> Tensor:
    """Some planes of every stream, a view if there is one stream."""
    if streams == 1:
        return planes[which]
    return planes.view(streams, -1, *planes.shape[1:])[:, which].flatten(0, 1).contiguous()


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
        recorder = listener()
        for start in range(0, len(planes), cuda_kernels.MAX_PLANES):
            now = slice(start, start + cuda_kernels.MAX_PLANES)
            pieces = (left[now], right[now], out[now])
            run = cuda_kernels.launcher(*pieces, planes[now], k)
            run(*(piece.data_ptr() for piece in pieces))
            if recorder is not None:
                recorder.launched(pieces, run, tensors=False, bind=run.bind)
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


# ── many small matrices, several of them in a tile ────────────────────────────────────────────────


def are_small(left: Tensor, right: Tensor, k: int) -> bool:
    """Whether planes (planes, batch, lines, pitch) are short lines of many small matrices."""
    (batch, m), (others, n) = left.shape[1:3], right.shape[1:3]
    return (
        k <= tiles.VERY_SHORT
        and max(m, n) <= tiles.SMALL_EDGE
        and batch == others
        and batch * m * n > tiles.SMALL
    )


def launch_small(
    kernel: object, planes: int, left: Tensor, right: Tensor, k: int, more: Mapping[str, Any]
) -> None:
    """Launch a kernel for planes, with more arguments than those that all take."""
    (batch, m, pitch), n = left.shape[1:], right.shape[2]
    assert left[0].is_contiguous()
    assert right[0].is_contiguous()
    width = -(-n // 16) * 16
    edge, warps = tiles.small_tile(max(m, width))
    items = edge // max(m, width)
    launch(
        kernel, (planes * -(-batch // items),),
        {
            **more, "left": left, "right": right, "m": m, "n": n, "k": k, "pitch": pitch,
            "width": width, "batch": batch, "items": items, "left_plane_stride": left.stride(0),
            "right_plane_stride": right.stride(0), "EDGE": edge,
            "INNER": max(32, 1 << (k - 1).bit_length()),
        },
        warps=warps,
    )  # fmt: skip


def multiply_small(left: Tensor, right: Tensor, planes: Planes, k: int, out: Tensor) -> None:
    """What `multiply_into` does."""
    table = constants.multiplying(planes, left.device)
    more = {"out": out, "constants": table}
    launch_small(small_kernels.residues, len(planes), left, right, k, more)


# ── large matrices by halves ──────────────────────────────────────────────────────────────────────

OPERATIONS_A_BYTE = 330
"""Operations that an H200's tensor cores do in the time in which a byte is read or written.

Measured: halves lose at n = 8192 (10.0 to 10.7 ms instead of 9.5) and win at 12288 (34.7, 36.5).
"""

HALVED_PLANES = 2
"""Planes at a time: more of them were not faster (1 to 14 tried), and take more memory."""

MOVED = 11 / 4
"""Bytes read and written for an entry of a plane or of a product: itself, and seven quarters."""


def _half(size: int, unit: int = 16) -> int:
    return -(-size // (2 * unit)) * unit


def _shape(left: Tensor, right: Tensor, k: int) -> tuple[int, int, int]:
    """Halves of m, k and n: what bulk copies read is a multiple of 16."""
    return _half(left.shape[2], 1), _half(k), _half(right.shape[2])


def planes_at_once(left: Tensor, right: Tensor, k: int, room: int) -> int:
    """How many planes are multiplied by halves at a time; 0 if that does not pay or fit `room`."""
    m, n = left.shape[2], right.shape[2]
    moved = MOVED * (m * k + n * k + m * n)
    if left.shape[1] * right.shape[1] != 1 or m * n * k / 4 <= OPERATIONS_A_BYTE * moved:
        return 0
    return min(HALVED_PLANES, left.shape[0], max(room, 0) // scratch_bytes(left, right, k, 1))


def scratch_bytes(left: Tensor, right: Tensor, k: int, planes: int) -> int:
    """Bytes that so many planes take by halves."""
    half_m, half_k, half_n = _shape(left, right, k)
    return 7 * planes * (half_m * half_k + half_n * half_k + half_m * half_n)


def multiply_by_halves(
    left: Tensor, right: Tensor, layout: Residues, k: int, planes: int
) -> Tensor:
    """As `multiply`, so many planes at a time."""
    count, _, m, _ = left.shape
    n = right.shape[2]
    half_m, half_k, half_n = _shape(left, right, k)
    out = torch.empty((count, 1, m, -(-n // 16) * 16), dtype=torch.uint8, device=left.device)
    ours, theirs, products = (
        torch.empty((planes, 7, *shape), dtype=dtype, device=left.device)
        for shape, dtype in (
            ((half_m, half_k), torch.int8),
            ((half_n, half_k), torch.int8),
            ((half_m, half_n), torch.uint8),
        )
    )
    every, tile = constants.of_planes(layout), tiles.HALVES
    table = constants.multiplying(every, left.device)

    def grid(part: slice, rows: int, columns: int) -> tuple[int]:
        tiles_of_plane = -(-rows // tile.rows) * -(-columns // tile.columns)
        return ((part.stop - part.start) * tiles_of_plane,)

    for start in range(0, count, planes):
        part = slice(start, min(start + planes, count))
        now = slice(0, part.stop - start)
        for side, (whole, factors) in enumerate(((left, ours), (right, theirs))):
            lines, half_lines = whole.shape[2], factors.shape[2]
            launch(
                halves_kernels.split, grid(part, half_lines, half_k),
                {
                    "planes": whole[part], "out": factors, "constants": table[part], "lines": lines,
                    "inner": k, "pitch": whole.shape[3], "stride": whole.stride(0),
                    "half_lines": half_lines, "half_inner": half_k, "RIGHT": bool(side),
                    "ROWS": tile.rows, "COLUMNS": tile.columns,
                },
                warps=tile.warps,
            )  # fmt: skip
        multiply_into(ours[now], theirs[now], every[part], half_k, products[now])
        launch(
            halves_kernels.join, grid(part, half_m, half_n),
            {
                "products": products, "out": out[part], "constants": table[part], "m": m,
                "pitch": out.shape[3], "half_m": half_m, "half_n": half_n, "ROWS": tile.rows,
                "COLUMNS": tile.columns,
            },
            warps=tile.warps,
        )  # fmt: skip
    return out
