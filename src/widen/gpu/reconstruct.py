"""Reconstruction on a GPU: residues to one exact integer, rounded once into the result."""

from __future__ import annotations

import math
from typing import Any

import torch

from widen import bounds
from widen.formats import Binary, Part
from widen.gpu import tables as constants
from widen.gpu import tiles
from widen.gpu.hardware import assembly, processors
from widen.gpu.kernels.triton import crt, crt_scaled, scaled
from widen.gpu.kernels.triton import reconstruct as reconstruct_kernels
from widen.gpu.operands import Groups, Numbers, Target, Tensor
from widen.gpu.replay.launch import general, launch
from widen.gpu.scaling import Scaling
from widen.systems import Residues


def reconstruct(
    groups: Tensor | Groups, layout: Residues, tables: tuple[Tensor, Tensor],
    batches: tuple[int, int], fmt: Part, out: Target, marks: Tensor | None, *, slack: bool,
    scaling: Scaling | None = None, wide: bool = False,
) -> Tensor:  # fmt: skip
    """Round X (or alpha X + beta c) into `out`, once; give the marks of what is not final.

    `out` are bits (parts, batch, m, n). Large results of plain operands have kernels that are
    compiled for their moduli; small ones, and those that are `wide` or whose operands or addend
    are, have kernels that serve any list of them.
    """
    if wide or math.prod(out.shape[1:]) <= tiles.SMALL:
        return reconstruct_any(
            groups, layout, tables, batches, fmt, out, marks, slack=slack, scaling=scaling
        )
    assert isinstance(fmt, Binary)
    assert isinstance(out, torch.Tensor)
    assert isinstance(groups, torch.Tensor)
    parts, batch, m, n = out.shape
    fresh = marks is None
    if marks is None:
        marks = torch.empty((batch, m, n), dtype=torch.uint8, device=out.device)
    more: tuple[Any, ...]
    options: tuple[Any, ...]
    if scaling is None:
        kernel = reconstruct_kernels.round_residues
        tile, height = tiles.reconstruct_tile(parts, len(layout.moduli), batch, m, n)
        more, options = (height,), (assembly(out.device),)
    else:
        kernel, tile, height = (
            scaled.round_scaled,
            tiles.RECONSTRUCT_LONG,
            tiles.RECONSTRUCT_LONG.rows,
        )
        more = (*scaling.arguments(out), scaling.alpha_bits)
        options = (tuple(int(x != 0) for x in scaling.numbers), *scaling.form)
    launch(
        kernel, (batch * -(-m // height) * -(-n // tile.columns),),
        (groups, out, marks, *tables, m, n, groups.shape[-1], groups.stride(0), *batches,
         constants.limit_of(layout), bounds.least_error(layout.dropped), *out.stride(), *more),
        (parts, *constants.reconstruction(layout), fmt.precision, fmt.lowest, fmt.highest, slack,
         not fresh, tile.rows, tile.columns, *options),
        tile.warps,
    )  # fmt: skip
    return marks


def reconstruct_any(
    groups: Tensor | Groups, layout: Residues, tables: tuple[Tensor, Tensor],
    batches: tuple[int, int], fmt: Part, out: Target, marks: Tensor | None, *, slack: bool,
    scaling: Scaling | None = None,
) -> Tensor:  # fmt: skip
    """The same by the kernels that serve every list of moduli, and numbers of several words."""
    parts, batch, m, n = out.shape
    # Plans of plain numbers that come here depend on the data: they share the small ones' kernels.
    few = batch * m * n <= tiles.SMALL or len(fmt.words) == 1
    apart = isinstance(groups, torch.Tensor) and groups.dtype == torch.int32
    table, limbs = constants.any_reconstruction(layout, few, out.device, apart=apart)
    columns, warps, running, registers = tiles.any_tile(limbs, alone=few or scaling is not None)
    programs = min(batch * m * -(-n // columns), processors(out.device) * running)
    fresh = marks is None
    if marks is None:
        marks = torch.empty((batch, m, n), dtype=torch.uint8, device=out.device)
    numbers = out if isinstance(out, Numbers) else Numbers(out[None], None)
    short, long = groups, groups
    if isinstance(groups, Groups):
        short, long = groups.short, groups.long
    assert isinstance(short, torch.Tensor)
    assert isinstance(long, torch.Tensor)
    count = layout.bases.count(0) if layout.bases else len(layout.moduli)
    mixed = numbers.second is not None
    second = numbers.block[0] if numbers.second is None else numbers.second
    room = parts * limbs if limbs else constants.any_room(table, parts)
    scratch = torch.empty(programs * room * columns, dtype=torch.int32, device=out.device)
    arguments = (
        short, numbers.block, marks, *tables, m, n, short.shape[-1], short.stride(0), *batches,
        constants.limit_of(layout), bounds.least_error(layout.dropped),
        *numbers.block.stride()[1:], numbers.block.stride(0), len(numbers.block), batch, int(slack),
        int(not fresh), table, count, table.shape[1], layout.modulus.bit_length(), scratch, room,
        long, long.stride(0), len(layout.moduli) - count, second,
    )  # fmt: skip
    first = fmt.words[0]
    form = (
        parts, first.precision, first.lowest, first.highest, mixed, columns, assembly(out.device),
        limbs, limbs > 0 and len(layout.moduli) > count,
    )  # fmt: skip
    if scaling is None:
        kernel = general(crt.round_any) if few else crt.round_any
        launch(kernel, (programs,), arguments, form, warps, registers=registers)
        return marks
    span = room // parts + tiles.FURTHEST_LIMBS
    sums = torch.empty(programs * span * columns, dtype=torch.int64, device=out.device)
    given, fields = scaling.for_any(out.device)
    launch(
        crt_scaled.round_any_scaled, (programs,), (*arguments, sums, span, *given),
        (*form, fields), warps, registers=registers,
    )  # fmt: skip
    return marks
