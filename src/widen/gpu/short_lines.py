"""Short rows and columns of tensors on a GPU, looked at in one launch."""

from __future__ import annotations

from collections.abc import Sequence

from widen.gpu.operands import Lines, Tensor
from widen.gpu.replay.launch import launch
from widen.gpu import tiles
from widen.gpu.kernels.triton import short_lines


def _short_tiles(operands: Sequence[Lines]) -> list[tiles.LineTile]:
    """Tiles of both operands (or of one, twice) if a program can look at a whole line."""
    parts, inner = operands[0].bits.shape[0], operands[0].shape[2]
    sizes = [x.bits.element_size() * parts for x in (operands[0], operands[-1])]
    return [
        tiles.matrix_tile(tiles.short_tiles(size, parts, inner), x.lines_near, x.shape[1], inner)
        for size, x in zip(sizes, (operands[0], operands[-1]), strict=True)
    ]


def will_do(operands: Sequence[Lines]) -> bool:
    """Whether `survey` will do for operands: short lines, and many of them."""
    size = max(x.bits.element_size() * x.bits.shape[0] * x.shape[2] for x in operands)
    shapes = _short_tiles(operands)[: len(operands)]
    programs = sum(
        x.shape[0] * -(-x.shape[1] // t.lines) for x, t in zip(operands, shapes, strict=True)
    )
    return size <= tiles.SHORT_BYTES and programs >= tiles.SHORT_PROGRAMS


def survey(
    operands: Sequence[Lines], tables: Sequence[Tensor], leads: Sequence[Tensor] | None, kept: int,
    zeros: Tensor,
) -> None:  # fmt: skip
    """What `torch.survey` does in one launch, which makes `zeros` 0; tables need not be before."""
    left, right = operands[0].paired, operands[-1].paired
    inner, parts = left.shape[2], left.bits.shape[0]
    shapes = _short_tiles((left, right))
    blocks = [
        x.shape[0] * -(-x.shape[1] // t.lines) for x, t in zip((left, right), shapes, strict=True)
    ]
    first, last = (tables[0], tables[-1]) if leads is None else (leads[0], leads[-1])
    launch(
        short_lines.survey, (sum(blocks[: len(operands)]),),
        (left.bits, tables[0], first, left.count, left.shape[1], *left.bits.stride()[1:],
         right.bits, tables[-1], last, right.count, right.shape[1], *right.bits.stride()[1:],
         blocks[0], inner, left.pitch, zeros, zeros.numel()),
        (parts, *left.fields, *right.fields, -1 if leads is None else kept,
         left.lines_near, shapes[0].lines, shapes[0].inner, right.lines_near, shapes[1].lines,
         shapes[1].inner),
        max(shape.warps for shape in shapes),
    )  # fmt: skip
