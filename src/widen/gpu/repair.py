"""Repair on a GPU: what was not certified becomes the correctly rounded value."""

from __future__ import annotations

import torch

from widen.formats import Binary
from widen.gpu import tiles
from widen.gpu.kernels.triton import close as close_kernels
from widen.gpu.kernels.triton import reconstruct as reconstruct_kernels
from widen.gpu.kernels.triton import repair as kernels
from widen.gpu.kernels.triton import repair_words as word_kernels
from widen.gpu.kernels.triton import singles as single_kernels
from widen.gpu.operands import Tensor, on_sides
from widen.gpu.reconstruct import ResultBlock, named_elements
from widen.gpu.replay.driver import processors
from widen.gpu.replay.launch import Launching, launch, prepared, programs
from widen.gpu.replay.meanwhile import make_for_marked
from widen.gpu.scaling import NOT_SCALED, Scaling

REPAIRED = int(reconstruct_kernels.REPAIRED)
"""The mark of elements that became the correctly rounded ones."""

SHAPE_AND_TABLES = (
    "m", "n", "left_batch", "right_batch", "rows_table", "columns_table", "PARTS",
)  # fmt: skip

NOTHING_ADDED = Scaling(1.0, 0.0, None)


def count(marks: Tensor, terms: int, open_terms: Tensor) -> None:
    """Add so many terms for every element that is marked as one to be repaired."""
    launch(
        kernels.count, (programs(marks.device, -(-marks.numel() // 4096), 4),),
        {
            "marks": marks, "open_terms": open_terms, "elements": marks.numel(), "terms": terms,
            "ELEMENTS": 4096,
        },
    )  # fmt: skip


def round_singles(block: ResultBlock, marks: Tensor) -> None:
    """Round elements of lines of one entry; or mark them, where there is more to it."""
    batch, m, n = marks.shape
    plain = not block.wide and block.fmt.parts == 1 and block.scaling is None
    out, tile = marks, tiles.MARK
    if plain:
        assert isinstance(block.out, torch.Tensor)
        out = block.out[0]
    ours, theirs = ({**x.named_pairs, **x.named_fields} for x in block.sides)
    known = {name: value for name, value in block.named.items() if name != "PARTS"}
    launch(
        single_kernels.singles, (batch * -(-m // tile.rows) * -(-n // tile.columns),),
        {
            **known, **on_sides(ours, theirs), "out": out, "marks": marks,
            "inner": block.sides[0].shape[2], "batch_stride": out.stride(0),
            "row_stride": out.stride(1), "column_stride": out.stride(2), "PLAIN": plain,
            "ROWS": tile.rows, "COLUMNS": tile.columns,
        },
        warps=tile.warps,
    )  # fmt: skip


def settle_closely(block: ResultBlock, marks: Tensor, repaired: Tensor) -> None:
    """Make those marked elements final that float64 decides; for results in float64 alone.

    The other kernel needs so many registers that a processor has room for eight of its programs.
    """
    out = block.out
    if block.wide or block.fmt.part.precision != 53 or block.scaling is not None:
        return
    assert isinstance(out, torch.Tensor)
    _, batch, m, n = out.shape
    tile = tiles.close_tile(batch * m * n)
    most = processors(out.device) * tiles.CLOSE_WARPS // tile.warps
    known = {name: block.named[name] for name in SHAPE_AND_TABLES}
    ours, theirs = ({**x.named_bits, **x.named_fields} for x in block.sides)
    launching = prepared(
        close_kernels.settle, (min(-(-batch * m * n // tile.marks), most),),
        {
            **known, **block.named_test, **named_elements(out), **on_sides(ours, theirs),
            "marks": marks, "repaired": repaired, "inner": block.sides[0].shape[2], "batch": batch,
            "INNER": tile.terms, "ELEMENTS": tile.marks,
        },
        warps=tile.warps,
    )  # fmt: skip
    make_for_marked(launching, marks, REPAIRED)


def repair(block: ResultBlock, marks: Tensor, repaired: Tensor) -> None:
    """Make every marked element final; `repaired` counts those that became the nearest number."""
    repairing = _repairing_words if block.wide else _repairing
    make_for_marked(repairing(block, marks, repaired), marks, REPAIRED)


def _repairing(block: ResultBlock, marks: Tensor, repaired: Tensor) -> Launching:
    """What does so for numbers of one word."""
    out, k = block.out, block.sides[0].shape[2]
    assert isinstance(block.fmt.part, Binary)
    assert isinstance(out, torch.Tensor)
    _, batch, m, n = out.shape
    tile = tiles.repair_tile(batch * m * n, words=False)
    ours, theirs = ({**x.named_bits, **x.named_fields} for x in block.sides)
    scaling = {"c": out, **NOT_SCALED} if block.scaling is None else block.scaling.named(out)
    return prepared(
        kernels.repair, (programs(out.device, -(-batch * m * n // tile.marks), tile.warps),),
        {
            **block.named, **block.named_test, **named_elements(out), **on_sides(ours, theirs),
            **scaling, "SCALED": block.scaling is not None,
            "marks": marks, "repaired": repaired, "inner": k, "batch": batch, "INNER": tile.terms,
            "ELEMENTS": tile.marks,
        },
        warps=tile.warps,
    )  # fmt: skip


def _repairing_words(block: ResultBlock, marks: Tensor, repaired: Tensor) -> Launching:
    """The same for numbers of several words."""
    out, k = block.out, block.sides[0].shape[2]
    parts, batch, m, n = out.shape
    tile = tiles.repair_tile(batch * m * n, words=True)
    ours, theirs = ({**x.named_words, **x.named_fields, "words": len(x.words)} for x in block.sides)
    count = programs(out.device, -(-batch * m * n // tile.marks), tile.warps)
    room = torch.empty(count * tiles.DOT_LIMBS, dtype=torch.int32, device=out.device)
    addend = (block.scaling or NOTHING_ADDED).named_words(out.device)
    addend["C_PARTS"] = addend.pop("c_parts")
    return prepared(
        word_kernels.repair, (count,),
        {
            **block.named, **block.named_test, **block.numbers.named, **on_sides(ours, theirs),
            **addend, "SCALED": block.scaling is not None,
            "marks": marks, "repaired": repaired, "room": room, "inner": k, "batch": batch,
            "parts": parts, "INNER": tile.terms, "ELEMENTS": tile.marks, "LIMBS": tiles.DOT_LIMBS,
        },
        warps=tile.warps,
    )  # fmt: skip
