"""What is worth computing on a GPU: whether a pass would leave elements that need no other."""

from __future__ import annotations

import torch

from widen import bounds
from widen.formats import Format
from widen.gpu import tiles
from widen.gpu.kernels.triton import outlook as kernels
from widen.gpu.operands import Lines, Tensor, on_sides
from widen.gpu.reconstruct import ResultBlock
from widen.gpu.replay.launch import launch

SAMPLES, MOST = 64, 48
"""Elements that are looked at, and so many of them must be hopeless."""


def judge(
    sides: tuple[Lines, Lines], tables: tuple[Tensor, Tensor], fmt: Format, hopeless: Tensor
) -> None:
    """Count sampled elements that "correct" would leave open, if lines are scaled by these tables.

    Nothing must be added to the product, which might be special or decide the rounding. Such lines
    are rows and columns that are graded against each other, so that sums are far below what
    their norms say. A wrong guess costs time.
    """
    (left_batch, m, k), (right_batch, n, _) = (side.shape for side in sides)
    named = []
    for side in sides:
        part, _, line, inner = side.bits.stride()
        named.append({
            "bits": side.bits, "part_stride": part, "line_stride": line, "inner_stride": inner,
            **side.named_fields,
        })  # fmt: skip
    launch(
        kernels.judge, (SAMPLES,),
        {
            **on_sides(*named), "rows_table": tables[0], "columns_table": tables[1],
            "hopeless": hopeless, "m": m, "n": n, "inner": k, "left_batch": left_batch,
            "right_batch": right_batch, "precision": fmt.part.precision,
            "always": bounds.least_error(0), "PARTS": fmt.parts, "INNER": tiles.JUDGED,
        },
    )  # fmt: skip


def without_product(block: ResultBlock, marks: Tensor | None) -> Tensor:
    """Marks of elements of a block that has no product: what a certificate left open, or all."""
    _, batch, m, n = block.out.shape
    (left_batch, *_), (right_batch, *_) = (side.shape for side in block.sides)
    known = marks is not None
    if marks is None:
        marks = torch.empty((batch, m, n), dtype=torch.uint8, device=block.out.device)
    rows, columns = block.tables
    launch(
        kernels.without_product, (batch * m * -(-n // tiles.TAKEN),),
        {
            "marks": marks, "rows_table": rows, "columns_table": columns, "m": m, "n": n,
            "left_batch": left_batch, "right_batch": right_batch, "MARKED": known,
            "COLUMNS": tiles.TAKEN,
        },
    )  # fmt: skip
    return marks
