"""Repair on a GPU: what was not certified becomes the correctly rounded value."""

from __future__ import annotations

import torch

from widen.formats import Binary
from widen.gpu import tiles
from widen.gpu.blocks import ResultBlock, named_elements
from widen.gpu.hardware import programs
from widen.gpu.kernels.triton import elements, elements_words
from widen.gpu.kernels.triton import reconstruct as reconstruct_kernels
from widen.gpu.operands import Tensor, on_sides
from widen.gpu.replay.launch import launch
from widen.gpu.scaling import Scaling, named_scaling

REPAIRED = int(reconstruct_kernels.REPAIRED)
"""The mark of elements that became the correctly rounded ones."""

NOTHING_ADDED = Scaling(1.0, 0.0, None)


def repair(block: ResultBlock, marks: Tensor, repaired: Tensor) -> None:
    """Make every marked element final; `repaired` counts those that became the nearest number."""
    if block.wide:
        _repair_words(block, marks, repaired)
        return
    out, (left, right) = block.out, block.sides
    assert isinstance(block.fmt.part, Binary)
    assert isinstance(out, torch.Tensor)
    _, batch, m, n = out.shape
    tile = tiles.REPAIR
    launch(
        elements.repair, (programs(out.device, -(-batch * m * n // tile.marks), tile.warps),),
        warps=tile.warps, **block.named, **block.named_test, **named_elements(out),
        **on_sides(
            {**left.named_bits, **left.named_fields}, {**right.named_bits, **right.named_fields}
        ),
        **named_scaling(block.scaling, out), SCALED=block.scaling is not None, marks=marks,
        repaired=repaired, inner=left.shape[2], batch=batch, INNER=tile.terms, ELEMENTS=tile.marks,
    )  # fmt: skip


def _repair_words(block: ResultBlock, marks: Tensor, repaired: Tensor) -> None:
    """The same for numbers of several words."""
    out, (left, right) = block.out, block.sides
    parts, batch, m, n = out.shape
    tile = tiles.REPAIR
    count = programs(out.device, -(-batch * m * n // tile.marks), tile.warps)
    room = torch.empty(count * tiles.DOT_LIMBS, dtype=torch.int32, device=out.device)
    addend = (block.scaling or NOTHING_ADDED).named_words(out.device)
    launch(
        elements_words.repair, (count,), warps=tile.warps,
        **block.named, **block.named_test, **block.numbers.named,
        **on_sides(
            {**left.named_words, **left.named_fields, "words": len(left.words)},
            {**right.named_words, **right.named_fields, "words": len(right.words)},
        ),
        **addend, SCALED=block.scaling is not None, C_PARTS=addend["c_parts"], marks=marks,
        repaired=repaired, room=room, inner=left.shape[2], batch=batch, parts=parts,
        INNER=tile.terms, ELEMENTS=tile.marks, LIMBS=tiles.DOT_LIMBS,
    )  # fmt: skip
