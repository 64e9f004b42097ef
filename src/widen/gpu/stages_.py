"""PyTorch tensors on a GPU: Triton kernels around int8 tensor cores, the definition's bits.

Nothing here waits for the device: kernels go to the current stream, memory comes from PyTorch.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import astuple
from functools import lru_cache
from typing import Any

import torch
from triton.tools.tensor_descriptor import TensorDescriptor

from widen import bounds
from widen.gpu import tables as constants
from widen.gpu import small as torch_small
from widen.gpu.replay.recording import listener
from widen.gpu.operands import Groups, Lines, Numbers, Target
from widen.gpu.replay.launch import general, launch
from widen.bounds import Certificate, Goal
from widen.formats import Binary, Part
from widen.gpu import tiles
from widen.gpu.tiles import ProductTile
from widen.gpu.kernels.triton import crt, crt_scaled, elements, lines
from widen.gpu.kernels.triton import encode as encode_kernels
from widen.gpu.kernels.triton import multiply as multiply_kernels
from widen.gpu.kernels.triton import reconstruct as reconstruct_kernels
from widen.gpu.kernels.triton.numbers import FLAGS, INEXACT, LEVEL, WEIGHT
from widen.systems import Residues

Tensor = torch.Tensor
Planes = tuple[tuple[int, int], ...]
"""Modulus and coefficient of every plane."""

ROWS_OF_TABLE = 10


def survey(
    operands: Sequence[Lines], tables: Sequence[Tensor], leads: Sequence[Tensor] | None, kept: int
) -> None:
    """Tables of lines (`gpu.kernels.triton.numbers`), zero before, up to their norms; and their leads.

    One operand or both: both take the same launches.
    """
    left, right = operands[0].paired, operands[-1].paired
    inner, parts = left.shape[2], left.bits.shape[0]
    small = left.small and right.small
    near = [x.lines_near and not small for x in (left, right)]
    shapes = [
        tiles.matrix_tile(tiles.SURVEY[parts], far, x.shape[1], inner)
        for far, x in zip(near, (left, right), strict=True)
    ]
    largest, norms = lines.largest, lines.norms
    if small:
        shapes = [tiles.SURVEY_SMALL[parts]] * 2
        largest, norms = general(largest), general(norms)
    blocks = [
        x.shape[0] * -(-x.shape[1] // t.lines) for x, t in zip((left, right), shapes, strict=True)
    ]
    shares = [tiles.share(inner, b, t.inner, parts) for b, t in zip(blocks, shapes, strict=True)]
    blocks = [b * -(-inner // share) for b, share in zip(blocks, shares, strict=True)]
    grid = (sum(blocks[: len(operands)]),)
    edges = tuple(
        edge for far, t in zip(near, shapes, strict=True) for edge in (far, t.lines, t.inner)
    )
    ours = (left.bits, tables[0], left.count, left.shape[1], *left.bits.stride()[1:])
    theirs = (right.bits, tables[-1], right.count, right.shape[1], *right.bits.stride()[1:])
    widths = (8 * left.bits.element_size(), 8 * right.bits.element_size())
    launch(
        largest, grid, (*ours, *theirs, blocks[0], *shares, inner), (parts, *widths, *edges),
        max(shape.warps for shape in shapes),
    )  # fmt: skip
    first, last = tables[0], tables[-1]
    if leads is not None:
        first, last = leads[0], leads[-1]
    launch(
        norms, grid,
        (*ours[:2], first, *ours[2:], *theirs[:2], last, *theirs[2:], blocks[0], *shares, inner,
         left.pitch),
        (parts, *left.fields, *right.fields, -1 if leads is None else kept, *edges),
        max(shape.warps for shape in shapes),
    )  # fmt: skip


def quantise(
    operands: Sequence[Lines], tables: Sequence[Tensor], goal: Goal | None,
    test: Certificate | None, needs: Sequence[Tensor],
) -> None:  # fmt: skip
    """The rest of the tables: exponents, flags, weights; `needs` says what planes must hold."""
    left, right = operands[0], operands[-1]
    inner, parts = left.bits.shape[3], left.bits.shape[0]
    norm, root, shift, full = (0, 1, 0, False) if goal is None else astuple(goal)
    divisor, unit = (1 << 23, 0) if test is None else (test.divisor, test.unit)
    blocks = [-(-x.count // 256) for x in operands]
    launch(
        lines.scale, (sum(blocks),),
        (tables[0], needs[0], left.count, tables[-1], needs[-1], right.count, blocks[0], norm, root,
         shift, divisor, unit, 0.5 * math.log2(2 * inner) - 1, inner * parts, int(full)),
        (*left.fields, *right.fields, 256),
    )  # fmt: skip


def encode(operands: Sequence[Lines], tables: Sequence[Tensor], layout: Residues) -> list[Tensor]:
    """Planes of int8 of one or both operands, (planes, batch, lines, pitch)."""
    left, right = operands[0].paired, operands[-1].paired
    planes = [room(operand, layout.planes[0]) for operand in operands]
    moduli, weights = constants.encoding(layout.moduli, left.bits.device)
    parts, inner = left.bits.shape[0], left.shape[2]
    shapes = [
        tiles.matrix_tile(tiles.ENCODE[parts], x.lines_near, x.shape[1], inner)
        for x in (left, right)
    ]
    blocks = [
        x.shape[0] * -(-x.shape[1] // t.lines) * -(-x.pitch // t.inner)
        for x, t in zip((left, right), shapes, strict=True)
    ]
    sides = [
        (x.bits, table, x.count, plane.view(torch.int32), x.shape[1], plane.stride(0),
         *x.bits.stride()[1:])
        for x, table, plane in (
            (left, tables[0], planes[0]), (right, tables[-1], planes[-1])
        )
    ]  # fmt: skip
    launch(
        encode_kernels.residues, (sum(blocks[: len(operands)]),),
        (*sides[0], *sides[1], blocks[0], moduli, weights, inner, len(layout.moduli),
         left.pitch),
        (parts, *left.fields, *right.fields, constants.LONGEST_BYTES, assembly(left.bits.device),
         left.lines_near, shapes[0].lines, shapes[0].inner, right.lines_near, shapes[1].lines,
         shapes[1].inner),
        max(shape.warps for shape in shapes),
    )  # fmt: skip
    return planes


@lru_cache(maxsize=16)
def assembly(device: torch.device) -> bool:
    """Whether kernels may use NVIDIA's instructions on a device."""
    return device.type == "cuda" and torch.version.hip is None


def room(operand: Lines, planes: int, dtype: torch.dtype = torch.int8) -> Tensor:
    """Room for planes; the Hopper kernel reads whole tiles of 64 lines, so there are a few more."""
    shape = (planes, *operand.shape[:2], operand.pitch)
    size = math.prod(shape)
    found = torch.empty(size + 63 * operand.pitch, dtype=dtype, device=operand.bits.device)
    return found[:size].view(shape)


def _programs(device: torch.device, tile_count: int, warps: int) -> int:
    """Programs of a persistent launch."""
    return min(tile_count, _processors(device) * max(1, 8 // warps))


@lru_cache(maxsize=16)
def _processors(device: torch.device) -> int:
    """Multiprocessors of a GPU; in Triton's interpreter, one."""
    if device.type != "cuda":
        return 1
    return int(torch.cuda.get_device_properties(device).multi_processor_count)


def multiply(left: Tensor, right: Tensor, layout: Residues, k: int) -> Tensor:
    """Bytes (planes, batch, m, pitch): residues of X times their Chinese remainder coefficient."""
    return products(left, right, constants.of_planes(layout), k)


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
    if torch_small.will_do(left, right, k):
        torch_small.multiply_into(left, right, planes, k, out)
        return
    if _hopper(left.device):
        from widen.gpu.kernels.cuda import multiply as cuda

        moduli, coefficients = zip(*planes, strict=True)
        recorder = listener()
        for start in range(0, len(planes), cuda.MAX_PLANES):
            now = slice(start, start + cuda.MAX_PLANES)
            pieces = (left[now], right[now], out[now])
            run = cuda.launcher(*pieces, k, n, moduli[now], coefficients[now])
            run(*(piece.data_ptr() for piece in pieces))
            if recorder is not None:
                recorder.launched(pieces, run, tensors=False)
        return
    tile = tiles.MULTIPLY
    count = len(planes) * batch * -(-m // tile.rows) * -(-n // tile.columns)
    launch(
        multiply_kernels.residues, (_programs(left.device, count, tile.warps),),
        (_descriptor(left, k, tile.rows, tile.inner),
         _descriptor(right, k, tile.columns, tile.inner), out,
         constants.multiplying(planes, left.device), m, n, k, pitch, len(planes), batch,
         left.shape[1], right.shape[1], tiles.LONGEST_SUM),
        (tile.rows, tile.columns, tile.inner, tile.group), tile.warps, tile.stages,
    )  # fmt: skip


@lru_cache(maxsize=16)
def _hopper(device: torch.device) -> bool:
    if device.type != "cuda":
        return False
    from widen.gpu.kernels.cuda.launcher import available

    return available(device)


def _descriptor(planes: Tensor, k: int, rows: int, inner: int) -> Any:
    """Planes as one tall matrix of rows, which bulk copies read tile by tile."""
    pitch = planes.shape[-1]
    return TensorDescriptor(planes, [planes.numel() // pitch, k], [pitch, 1], [rows, inner])


def certify(
    left: Tensor, right: Tensor, tables: tuple[Tensor, Tensor], k: int, test: Certificate,
    kept: int, terms: int,
) -> Tensor:  # fmt: skip
    """Marks (batch, m, n) of elements that the first `terms` leading integers do not certify.

    Leading integers are (planes, batch, lines, pitch), of `kept` bits beside the first. Where
    products were left out no line counts as exact in `tables` (`torch_units.Engine.fitted`).
    """
    planes, left_batch, m, _ = left.shape
    _, right_batch, n, _ = right.shape
    batch = max(left_batch, right_batch)
    longest = tiles.LONGEST_SUM // planes  # products of two kinds meet in one sum
    terms, shift = min(terms, k, longest), test.shift + 2 * (bounds.lead_bits(k) - kept)
    both = float(test.both + test.always)
    if planes == 2 and torch_small.will_do(left, right, k):
        marks = torch.empty((batch, m, n), dtype=torch.uint8, device=left.device)
        torch_small.certify_into(left, right, tables, terms, shift, both, marks)
        return marks
    if _hopper(left.device):
        from widen.gpu.kernels.cuda.certify import launcher

        marks = torch.zeros((batch, m, n), dtype=torch.uint8, device=left.device)
        run = launcher(left, right, batch, k, terms, shift, both, int(INEXACT))
        rows = [table[int(row)] for table in tables for row in (LEVEL, FLAGS, WEIGHT)]
        given = (left, right, marks, *rows)
        run(*(tensor.data_ptr() for tensor in given))
        recorder = listener()
        if recorder is not None:
            recorder.launched(given, run, tensors=False)
        return marks
    marks = torch.empty((batch, m, n), dtype=torch.uint8, device=left.device)
    tile = tiles.CERTIFY[planes]
    count = batch * -(-m // tile.rows) * -(-n // tile.columns)
    launch(
        multiply_kernels.certify, (_programs(left.device, count, tile.warps),),
        (_descriptor(left, k, tile.rows, tile.inner),
         _descriptor(right, k, tile.columns, tile.inner), marks, *tables, m, n, terms, batch,
         left_batch, right_batch, shift, both),
        (tile.rows, tile.columns, tile.inner, tile.group, planes), tile.warps, tile.stages,
    )  # fmt: skip
    return marks


def reconstruct(
    groups: Tensor, layout: Residues, tables: tuple[Tensor, Tensor], batches: tuple[int, int],
    fmt: Binary, out: Tensor, marks: Tensor | None, *, slack: bool,
    scaling: tuple[Any, ProductTile, tuple[Any, ...], tuple[Any, ...]] | None = None,
) -> Tensor:  # fmt: skip
    """Round X into `out`, bits (parts, batch, m, n); give the marks of what is not final.

    `scaling` is the kernel that knows alpha, beta and c, its tile, and what else it is given:
    arguments and constants.
    """
    parts, batch, m, n = out.shape
    if scaling is None and batch * m * n <= tiles.SMALL:
        return reconstruct_any(groups, layout, tables, batches, fmt, out, marks, slack=slack)
    fresh = marks is None
    if marks is None:
        marks = torch.empty((batch, m, n), dtype=torch.uint8, device=out.device)
    if scaling is None:
        kernel = reconstruct_kernels.round_residues
        tile, height = tiles.reconstruct_tile(parts, len(layout.moduli), batch, m, n)
        more, options = (height,), (assembly(out.device),)
    else:
        kernel, tile, more, options = scaling
        height = tile.rows
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
    addend: tuple[tuple[Any, ...], tuple[int, int]] | None = None,
) -> Tensor:  # fmt: skip
    """The same by the kernels that serve every list of moduli, and numbers of several words.

    `addend` is what the one that knows alpha, beta and c is told of them: arguments, and the widths
    of c's fields.
    """
    parts, batch, m, n = out.shape
    # Plans of plain numbers that come here depend on the data: they share the small ones' kernels.
    few = batch * m * n <= tiles.SMALL or len(fmt.words) == 1
    apart = isinstance(groups, torch.Tensor) and groups.dtype == torch.int32
    table, limbs = constants.any_reconstruction(layout, few, out.device, apart=apart)
    columns, warps, running, registers = tiles.any_tile(limbs, alone=few or addend is not None)
    programs = min(batch * m * -(-n // columns), _processors(out.device) * running)
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
    if addend is None:
        kernel = general(crt.round_any) if few else crt.round_any
        launch(kernel, (programs,), arguments, form, warps, registers=registers)
        return marks
    span = room // parts + tiles.FURTHEST_LIMBS
    sums = torch.empty(programs * span * columns, dtype=torch.int64, device=out.device)
    launch(
        crt_scaled.round_any_scaled, (programs,), (*arguments, sums, span, *addend[0]),
        (*form, addend[1]), warps, registers=registers,
    )  # fmt: skip
    return marks


def repair(
    left: Lines, right: Lines, tables: tuple[Tensor, Tensor], fmt: Binary, out: Tensor,
    marks: Tensor, test: Certificate | None, repaired: Tensor,
    scaling: tuple[Any, ...] | None = None,
) -> None:  # fmt: skip
    """Make every marked element final; `repaired` counts those that became the nearest number.

    `scaling` are the kernel's arguments for alpha, beta and c, nine and three constants.
    """
    scaling = scaling or (out, *[0] * 8, False, 0, (52, 11))
    parts, batch, m, n = out.shape
    k = left.bits.shape[3]
    shift, both, always = (0, 0, 0) if test is None else (test.shift, test.both, test.always)
    tile = tiles.REPAIR
    launch(
        elements.repair, (_programs(out.device, -(-batch * m * n // tile.marks), tile.warps),),
        (left.bits, right.bits, out, marks, repaired, *tables, m, n, k, batch, left.bits.shape[1],
         right.bits.shape[1], *left.bits.stride(), *right.bits.stride(), *out.stride(),
         test is not None, bounds.lead_bits(k), shift, both, min(always, 1 << 61), *scaling[:9]),
        (parts, *left.fields, *right.fields, fmt.precision, fmt.lowest, fmt.highest, tile.terms,
         tile.marks, *scaling[9:]),
        tile.warps,
    )  # fmt: skip
