"""Repair on a GPU: what was not certified becomes the correctly rounded value."""

from __future__ import annotations

import torch

from widen import bounds
from widen.bounds import Certificate
from widen.formats import Binary, Part
from widen.gpu import tiles
from widen.gpu.hardware import programs
from widen.gpu.kernels.triton import elements, elements_words
from widen.gpu.kernels.triton import reconstruct as reconstruct_kernels
from widen.gpu.operands import Lines, Numbers, Target, Tensor
from widen.gpu.replay.launch import launch
from widen.gpu.scaling import Scaling

REPAIRED = int(reconstruct_kernels.REPAIRED)
"""The mark of elements that became the correctly rounded ones."""

NOTHING_ADDED = Scaling(1.0, 0.0, None)


def repair(
    left: Lines, right: Lines, tables: tuple[Tensor, Tensor], fmt: Part, out: Target,
    marks: Tensor, test: Certificate | None, repaired: Tensor, scaling: Scaling | None = None,
    wide: bool = False,
) -> None:  # fmt: skip
    """Make every marked element final; `repaired` counts those that became the nearest number."""
    if wide:
        _repair_words(left, right, tables, fmt, out, marks, test, repaired, scaling)
        return
    assert isinstance(fmt, Binary)
    assert isinstance(out, torch.Tensor)
    given = (out, *[0] * 8) if scaling is None else scaling.arguments(out)
    form = (0, (52, 11)) if scaling is None else scaling.form
    parts, batch, m, n = out.shape
    k = left.bits.shape[3]
    shift, both, always = (0, 0, 0) if test is None else (test.shift, test.both, test.always)
    tile = tiles.REPAIR
    launch(
        elements.repair, (programs(out.device, -(-batch * m * n // tile.marks), tile.warps),),
        (left.bits, right.bits, out, marks, repaired, *tables, m, n, k, batch, left.bits.shape[1],
         right.bits.shape[1], *left.bits.stride(), *right.bits.stride(), *out.stride(),
         test is not None, bounds.lead_bits(k), shift, both, min(always, 1 << 61), *given),
        (parts, *left.fields, *right.fields, fmt.precision, fmt.lowest, fmt.highest, tile.terms,
         tile.marks, scaling is not None, *form),
        tile.warps,
    )  # fmt: skip


def _repair_words(
    left: Lines, right: Lines, tables: tuple[Tensor, Tensor], fmt: Part, out: Target,
    marks: Tensor, test: Certificate | None, repaired: Tensor, scaling: Scaling | None,
) -> None:  # fmt: skip
    """The same for numbers of several words."""
    parts, batch, m, n = out.shape
    k = left.shape[2]
    numbers = out if isinstance(out, Numbers) else Numbers(out[None], None)
    second = numbers.block[0] if numbers.second is None else numbers.second
    shift, both, always = (0, 0, 0) if test is None else (test.shift, test.both, test.always)
    tile = tiles.REPAIR
    count = programs(out.device, -(-batch * m * n // tile.marks), tile.warps)
    room = torch.empty(count * tiles.DOT_LIMBS, dtype=torch.int32, device=out.device)
    given, fields = (scaling or NOTHING_ADDED).for_any(out.device)
    first = fmt.words[0]
    launch(
        elements_words.repair, (count,),
        (left.words, right.words, numbers.block, second, marks, repaired, *tables, room, m, n,
         k, batch, left.shape[0], right.shape[0], *left.words.stride(), *right.words.stride(),
         *numbers.block.stride(), len(left.words), len(right.words), len(numbers.block), parts,
         test is not None, bounds.lead_bits(k), shift, both, min(always, 1 << 61), *given[:-1]),
        (parts, *left.fields, *right.fields, first.precision, first.lowest, first.highest,
         numbers.second is not None, tile.terms, tile.marks, tiles.DOT_LIMBS,
         scaling is not None, given[7], fields),
        tile.warps,
    )  # fmt: skip
