"""Products of many small matrices on a GPU, several of them in a tile."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from widen.gpu import constants, tiles
from widen.gpu.kernels.triton import small
from widen.gpu.operands import Tensor
from widen.gpu.replay.launch import launch


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


def multiply_small(
    left: Tensor, right: Tensor, planes: tuple[tuple[int, int], ...], k: int, out: Tensor
) -> None:
    """What `multiply.multiply_into` does."""
    table = constants.multiplying(planes, left.device)
    more = {"out": out, "constants": table}
    launch_small(small.residues, len(planes), left, right, k, more)


def certify_small(
    left: Tensor, right: Tensor, tables: tuple[Tensor, Tensor], k: int, marks: Tensor, *,
    shift: int, both: float,
) -> None:  # fmt: skip
    """What `certify.certify` does, with leading integers in two planes."""
    rows, columns = tables
    more = {
        "marks": marks, "rows_table": rows, "columns_table": columns, "shift": shift, "both": both,
    }  # fmt: skip
    launch_small(small.certify, 1, left, right, k, more)
