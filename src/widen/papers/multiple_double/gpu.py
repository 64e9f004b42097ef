"""Parts of a product added up into numbers of several doubles: tensors, a Triton kernel."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from widen.gpu.replay.launch import launch
from widen.papers.multiple_double.kernels.triton.parts import add_parts

TILE = 512
"""Elements of one program."""


def sum_parts(products: Sequence[Any], words: int) -> Any:
    """As `cpu.sum_parts`, the same bits (on a CPU: in Triton's interpreter)."""
    count, rows, columns = products[0].shape
    sums = torch.zeros((words, rows, columns), dtype=torch.float64, device=products[0].device)
    size = rows * columns
    with torch.cuda.device(sums.device) if sums.is_cuda else torch.no_grad():
        for parts in products:
            part, row, column = parts.stride()
            launch(
                add_parts, (-(-size // TILE),),
                {
                    "parts": parts, "words": sums, "count": count, "rows": rows,
                    "columns": columns, "part_stride": part, "row_stride": row,
                    "column_stride": column, "size": size, "WORDS": words, "ELEMENTS": TILE,
                },
            )  # fmt: skip
    return sums
