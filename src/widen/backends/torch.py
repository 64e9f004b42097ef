"""PyTorch tensors on a GPU: Triton kernels around int8 tensor cores, the definition's bits.

Nothing here waits for the device: kernels go to the current stream, memory comes from PyTorch.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import torch
from triton.tools.tensor_descriptor import TensorDescriptor

from widen import bounds
from widen.backends import torch_constants as constants
from widen.backends.recording import listener
from widen.backends.triton_launch import launch
from widen.bounds import Certificate, Goal
from widen.formats import Binary
from widen.kernels import tiles
from widen.kernels.tiles import ProductTile
from widen.kernels.triton import elements, lines
from widen.kernels.triton import encode as encode_kernels
from widen.kernels.triton import multiply as multiply_kernels
from widen.kernels.triton import reconstruct as reconstruct_kernels
from widen.kernels.triton.numbers import FLAGS, INEXACT, SIGMA, WEIGHT
from widen.systems import Residues

Tensor = torch.Tensor

INTEGERS = {8: torch.int64, 4: torch.int32, 2: torch.int16}
"""Integers that hold a float's bits, by size."""

ROWS_OF_TABLE = 9


@dataclass(frozen=True)
class Lines:
    """An operand as lines, the bits of its floats: a view (parts, batch, lines, inner).

    Parts of a number lie side by side in memory.
    """

    bits: Tensor
    fmt: Binary

    @cached_property
    def shape(self) -> tuple[int, int, int]:
        """(batch, lines, inner)."""
        _, batch, count, inner = self.bits.shape
        return batch, count, inner

    @cached_property
    def count(self) -> int:
        """Lines of all batch items."""
        return self.bits.shape[1] * self.bits.shape[2]

    @cached_property
    def lines_near(self) -> bool:
        """Whether neighbouring lines lie closer in memory than neighbours within a line."""
        return self.bits.stride(2) < self.bits.stride(3)

    @cached_property
    def paired(self) -> Lines:
        """The same with the parts of a number side by side, as `load_parts` reads them."""
        if self.bits.shape[0] == 1 or self.bits.stride(0) == 1:
            return self
        return Lines(self.bits.movedim(0, -1).contiguous().movedim(-1, 0), self.fmt)

    @cached_property
    def fields(self) -> tuple[int, int]:
        """Widths of a float's fields, fraction and exponent."""
        return self.fmt.precision - 1, self.fmt.highest.bit_length()

    @cached_property
    def nbytes(self) -> int:
        """Bytes of all parts."""
        return self.bits.nbytes

    @cached_property
    def pitch(self) -> int:
        """Bytes from line to line of a plane: a multiple of 16, as bulk copies need it."""
        return -(-self.bits.shape[3] // 16) * 16

    def cut(self, batch: slice, some: slice) -> Lines:
        """A block of lines, a view. A batch of 1 stays whole."""
        batch = slice(None) if self.bits.shape[1] == 1 else batch
        part = self.bits[:, batch, some]
        return self if part.shape == self.bits.shape else Lines(part, self.fmt)


def as_lines(matrices: Tensor, side: str, parts: int, fmt: Binary) -> Lines:
    """An operand (batch, m, k) or (batch, k, n) as its rows or columns, a view if it can be."""
    if parts == 2 and not matrices.is_complex():
        matrices = torch.complex(*_wide(matrices, torch.zeros_like(matrices)))
    return Lines(bits_of(matrices if side == "left" else matrices.mT, parts), fmt)


def _wide(*parts: Tensor) -> list[Tensor]:
    """Complex tensors have parts of float32 or float64 (complex32 is not for arithmetic)."""
    return [x.float() if x.dtype in (torch.float16, torch.bfloat16) else x for x in parts]


def bits_of(x: Tensor, parts: int) -> Tensor:
    """The bits of a tensor's floats, parts first, a view."""
    split = torch.view_as_real(x.resolve_conj()).movedim(-1, 0) if parts == 2 else x[None]
    return split.resolve_neg().view(INTEGERS[split.element_size()])


def survey(
    operands: Sequence[Lines], tables: Sequence[Tensor], leads: Sequence[Tensor] | None, kept: int
) -> None:
    """Tables of lines (`kernels.triton.numbers`), zero before, up to their norms; and their leads.

    One operand or both: both take the same launches.
    """
    left, right = operands[0].paired, operands[-1].paired
    inner, parts = left.shape[2], left.bits.shape[0]
    shapes = [tiles.line_tile(tiles.SURVEY[parts], x.lines_near, inner) for x in (left, right)]
    blocks = [
        x.shape[0] * -(-x.shape[1] // t.lines) for x, t in zip((left, right), shapes, strict=True)
    ]
    shares = [tiles.share(inner, b, t.inner, parts) for b, t in zip(blocks, shapes, strict=True)]
    blocks = [b * -(-inner // share) for b, share in zip(blocks, shares, strict=True)]
    grid = (sum(blocks[: len(operands)]),)
    edges = tuple(
        edge
        for x, t in zip((left, right), shapes, strict=True)
        for edge in (x.lines_near, t.lines, t.inner)
    )
    ours = (left.bits, tables[0], left.count, left.shape[1], *left.bits.stride()[1:])
    theirs = (right.bits, tables[-1], right.count, right.shape[1], *right.bits.stride()[1:])
    widths = (8 * left.bits.element_size(), 8 * right.bits.element_size())
    launch(
        lines.largest, grid, (*ours, *theirs, blocks[0], *shares, inner), (parts, *widths, *edges),
        shapes[0].warps,
    )  # fmt: skip
    first, last = tables[0], tables[-1]
    if leads is not None:
        first, last = leads[0], leads[-1]
    launch(
        lines.norms, grid,
        (*ours[:2], first, *ours[2:], *theirs[:2], last, *theirs[2:], blocks[0], *shares, inner,
         left.pitch),
        (parts, *left.fields, *right.fields, -1 if leads is None else kept, *edges),
        shapes[0].warps,
    )  # fmt: skip


def quantise(
    operands: Sequence[Lines], tables: Sequence[Tensor], goal: Goal | None,
    test: Certificate | None, needs: Sequence[Tensor],
) -> None:  # fmt: skip
    """The rest of the tables: exponents, flags, weights; `needs` says what planes must hold."""
    left, right = operands[0], operands[-1]
    inner, parts = left.bits.shape[3], left.bits.shape[0]
    norm, root, shift = (0, 1, 0) if goal is None else (goal.norm, goal.root, goal.shift)
    divisor, unit = (1 << 23, 0) if test is None else (test.divisor, test.unit)
    blocks = [-(-x.count // 256) for x in operands]
    launch(
        lines.scale, (sum(blocks),),
        (tables[0], needs[0], left.count, tables[-1], needs[-1], right.count, blocks[0], norm, root,
         shift, divisor, unit, 0.5 * math.log2(2 * inner) - 1, inner * parts),
        (*left.fields, *right.fields, 256),
    )  # fmt: skip


def encode(operands: Sequence[Lines], tables: Sequence[Tensor], layout: Residues) -> list[Tensor]:
    """Planes of int8 of one or both operands, (planes, batch, lines, pitch)."""
    left, right = operands[0].paired, operands[-1].paired
    planes = [_room(operand, layout) for operand in operands]
    moduli, weights = constants.encoding(layout.moduli, left.bits.device)
    parts, inner = left.bits.shape[0], left.shape[2]
    shapes = [tiles.line_tile(tiles.ENCODE[parts], x.lines_near, inner) for x in (left, right)]
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
        shapes[0].warps,
    )  # fmt: skip
    return planes


@lru_cache(maxsize=16)
def assembly(device: torch.device) -> bool:
    """Whether kernels may use NVIDIA's instructions on a device."""
    return device.type == "cuda" and torch.version.hip is None


def _room(operand: Lines, layout: Residues) -> Tensor:
    """Room for planes; the Hopper kernel reads whole tiles of 64 lines, so there are a few more."""
    shape = (layout.planes[0], *operand.shape[:2], operand.pitch)
    size = math.prod(shape)
    room = torch.empty(size + 63 * operand.pitch, dtype=torch.int8, device=operand.bits.device)
    return room[:size].view(shape)


def _programs(device: torch.device, tile_count: int, warps: int) -> int:
    """Programs of a persistent launch."""
    return min(tile_count, _processors(device) * (2 if warps == 4 else 1))


@lru_cache(maxsize=16)
def _processors(device: torch.device) -> int:
    """Multiprocessors of a GPU; in Triton's interpreter, one."""
    if device.type != "cuda":
        return 1
    return int(torch.cuda.get_device_properties(device).multi_processor_count)


def multiply(left: Tensor, right: Tensor, layout: Residues, k: int) -> Tensor:
    """Bytes (planes, batch, m, pitch): residues of X times their Chinese remainder coefficient."""
    planes, left_batch, m, _ = left.shape
    _, right_batch, n, _ = right.shape
    batch = max(left_batch, right_batch)
    pitch = -(-n // 16) * 16
    out = torch.empty((planes, batch, m, pitch), dtype=torch.uint8, device=left.device)
    if _hopper(left.device):
        from widen.kernels.cuda import multiply as cuda

        moduli, coefficients = constants.of_planes(layout)
        recorder = listener()
        for start in range(0, planes, cuda.MAX_PLANES):
            some = slice(start, start + cuda.MAX_PLANES)
            pieces = (left[some], right[some], out[some])
            run = cuda.launcher(*pieces, k, n, moduli[some], coefficients[some])
            run(*(piece.data_ptr() for piece in pieces))
            if recorder is not None:
                recorder.launched(pieces, run, tensors=False)
        return out
    tile = tiles.MULTIPLY
    count = planes * batch * -(-m // tile.rows) * -(-n // tile.columns)
    launch(
        multiply_kernels.residues, (_programs(left.device, count, tile.warps),),
        (_descriptor(left, k, tile.rows, tile.inner),
         _descriptor(right, k, tile.columns, tile.inner), out,
         constants.multiplying(layout, left.device), m, n, k, pitch, planes, batch, left_batch,
         right_batch, tiles.LONGEST_SUM),
        (tile.rows, tile.columns, tile.inner, tile.group), tile.warps, tile.stages,
    )  # fmt: skip
    return out


@lru_cache(maxsize=16)
def _hopper(device: torch.device) -> bool:
    if device.type != "cuda":
        return False
    from widen.kernels.cuda.launcher import available

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

    Leading integers are (planes, batch, lines, pitch), of `kept` bits beside the first.
    """
    planes, left_batch, m, _ = left.shape
    _, right_batch, n, _ = right.shape
    batch = max(left_batch, right_batch)
    longest = tiles.LONGEST_SUM // planes  # products of two kinds meet in one sum
    terms, shift = min(terms, k, longest), test.shift + 2 * (bounds.lead_bits(k) - kept)
    if _hopper(left.device):
        from widen.kernels.cuda.certify import launcher

        marks = torch.zeros((batch, m, n), dtype=torch.uint8, device=left.device)
        run = launcher(left, right, batch, k, terms, shift, float(test.both), int(INEXACT))
        rows = [table[int(row)] for table in tables for row in (SIGMA, FLAGS, WEIGHT)]
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
         left_batch, right_batch, shift, float(test.both)),
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
         constants.limit_of(layout), 29, *out.stride(), *more),
        (parts, *constants.reconstruction(layout), fmt.precision, fmt.lowest, fmt.highest, slack,
         not fresh, tile.rows, tile.columns, *options),
        tile.warps,
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
    launch(
        elements.repair, (_programs(out.device, -(-batch * m * n // tiles.ELEMENTS), 4),),
        (left.bits, right.bits, out, marks, repaired, *tables, m, n, k, batch, left.bits.shape[1],
         right.bits.shape[1], *left.bits.stride(), *right.bits.stride(), *out.stride(),
         test is not None, bounds.lead_bits(k), shift, both, min(always, 1 << 61), *scaling[:9]),
        (parts, *left.fields, *right.fields, fmt.precision, fmt.lowest, fmt.highest, tiles.TERMS,
         tiles.ELEMENTS, *scaling[9:]),
    )  # fmt: skip
