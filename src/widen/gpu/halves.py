"""Large products of planes on a GPU by halves, seven products instead of eight (Strassen).

An eighth of the products is saved; what it costs is to read and write planes and residues once
more. Residues are exact whatever the order, so the bytes are those of `multiply`.
"""

from __future__ import annotations

import torch

from widen.gpu import constants, tiles
from widen.gpu.kernels.triton import halves
from widen.gpu.multiply import multiply_into
from widen.gpu.operands import Tensor
from widen.gpu.replay.launch import launch
from widen.systems import Residues

OPERATIONS_A_BYTE = 330
"""Operations that an H200's tensor cores do in the time in which a byte is read or written.

Measured: halves lose at n = 8192 (10.0 to 10.7 ms instead of 9.5) and win at 12288 (34.7, 36.5).
"""

PLANES = 2
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
    return min(PLANES, left.shape[0], max(room, 0) // scratch_bytes(left, right, k, 1))


def scratch_bytes(left: Tensor, right: Tensor, k: int, planes: int) -> int:
    """Bytes that so many planes take."""
    half_m, half_k, half_n = _shape(left, right, k)
    return 7 * planes * (half_m * half_k + half_n * half_k + half_m * half_n)


def multiply(left: Tensor, right: Tensor, layout: Residues, k: int, planes: int) -> Tensor:
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

    def programs(part: slice, rows: int, columns: int) -> tuple[int]:
        tiles_of_plane = -(-rows // tile.rows) * -(-columns // tile.columns)
        return ((part.stop - part.start) * tiles_of_plane,)

    for start in range(0, count, planes):
        part = slice(start, min(start + planes, count))
        now = slice(0, part.stop - start)
        for side, (whole, factors) in enumerate(((left, ours), (right, theirs))):
            lines, half_lines = whole.shape[2], factors.shape[2]
            launch(
                halves.split, programs(part, half_lines, half_k),
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
            halves.join, programs(part, half_m, half_n),
            {
                "products": products, "out": out[part], "constants": table[part], "m": m,
                "pitch": out.shape[3], "half_m": half_m, "half_n": half_n, "ROWS": tile.rows,
                "COLUMNS": tile.columns,
            },
            warps=tile.warps,
        )  # fmt: skip
    return out
