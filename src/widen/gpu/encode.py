"""Encoding on a GPU: planes of small integers in the format of the unit that multiplies them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from widen.encoded import Encoded, Held
from widen.gpu import constants, tiles
from widen.gpu.kernels.triton import encode as encode_kernels
from widen.gpu.kernels.triton import encode_words as word_kernels
from widen.gpu.kernels.triton import planes as plane_kernels
from widen.gpu.operands import Lines, Tensor, loose_on_sides, on_sides
from widen.gpu.replay.launch import Launching, assembly, general, launch, prepared
from widen.gpu.replay.meanwhile import soonest
from widen.plan import Layout
from widen.systems import Digits, Residues


@dataclass(frozen=True)
class EncodedLines(Held):
    """What is kept of an encoded operand: a copy of its numbers, their planes, table and leads."""

    operand: Lines
    planes: Tensor
    table: Tensor
    leads: Tensor | None

    @property
    def device(self) -> torch.device:
        """Where it lives."""
        return self.planes.device

    @property
    def tensors(self) -> list[Tensor]:
        """All that launches read of it."""
        leads = [] if self.leads is None else [self.leads]
        return [self.planes, self.operand.words, self.table, *leads]

    def item(self, index: int) -> EncodedLines:
        """One item of a batch."""
        return self.items(torch.tensor([index], device=self.device))

    def items(self, at: Tensor) -> EncodedLines:
        """Some items of a batch, by their numbers: copies."""
        batch, lines, _ = self.shape
        return EncodedLines(
            self.operand.like(self.operand.words[:, :, at]),
            self.planes[:, at],
            self.table.view(-1, batch, lines)[:, at].flatten(1),
            None if self.leads is None else self.leads[:, at],
        )


def encode_bytes(
    operands: Sequence[Lines], tables: Sequence[Tensor], layout: Residues
) -> list[Tensor]:
    """Planes of int8 of one or both operands, (planes, batch, lines, pitch).

    Of complex numbers one after the other: a kernel for both takes 5 s to compile, one for each
    1.5 s, and they take the GPU longer than another launch does.
    """
    planes = [room_for(operand, layout.planes[0]) for operand in operands]
    at_once = len(operands) if layout.parts == 1 else 1
    launchings = []
    for at in range(0, len(operands), at_once):
        now = slice(at, at + at_once)
        launchings.append(_encoding_bytes(operands[now], tables[now], planes[now], layout))
    if all(operand.bits[0].numel() <= tiles.MEANWHILE for operand in operands):
        given = list(zip(operands, tables, planes, strict=True))
        soonest(launchings, lambda: [encoding_any(*x, layout, 0, shared=True) for x in given])
    else:
        for launching in launchings:
            launching.make()
    return planes


def _encoding_bytes(
    operands: Sequence[Lines], tables: Sequence[Tensor], planes: Sequence[Tensor], layout: Residues
) -> Launching:
    """What encodes so many operands."""
    left, right = operands[0].paired, operands[-1].paired
    moduli, weights = constants.encoding(layout.moduli, left.bits.device)
    parts, inner = left.bits.shape[0], left.shape[2]
    sides, blocks, warps = [], [], 0
    for x, table, made in ((left, tables[0], planes[0]), (right, tables[-1], planes[-1])):
        tile = tiles.matrix_tile(tiles.ENCODE[parts], x.lines_near, x.shape[1], inner)
        sides.append({
            **x.named_pairs, **x.named_fields, **tile.named, "table": table, "count": x.count,
            "planes": made.view(torch.int32), "lines": x.shape[1], "plane_stride": made.stride(0),
            "NEAR": x.lines_near,
        })  # fmt: skip
        blocks.append(x.blocks(tile) * -(-x.pitch // tile.inner))
        warps = max(warps, tile.warps)
    return prepared(
        encode_kernels.residues, (sum(blocks[: len(operands)]),),
        {
            **on_sides(*sides), "left_blocks": blocks[0], "constants": moduli,
            "weights": weights, "inner": inner, "moduli": len(layout.moduli), "pitch": left.pitch,
            "PARTS": parts, "BYTES": constants.LONGEST_BYTES,
            "ASSEMBLY": assembly(left.bits.device), "BOTH": len(operands) > 1,
        },
        warps=warps, loose=loose_on_sides(left, right),
    )  # fmt: skip


def encoding_any(
    x: Lines, table: Tensor, planes: Tensor, layout: Layout, side: int, *, shared: bool
) -> Launching:
    """What writes planes of any unit, of one operand of one word.

    `shared`: by a kernel that is compiled once for all layouts of operands.
    """
    count, tile = layout.planes[side], tiles.ENCODE_ANY
    more: dict[str, Any]
    if isinstance(layout, Residues):
        kernel = plane_kernels.residues
        known, powers = constants.remainders(layout, planes.device)
        more = {
            "constants": known, "powers": powers, "moduli": len(layout.moduli),
            "planes_a_part": count // (1 if layout.parts == 1 else 3),
            "LONGEST": constants.LONGEST_POWER, "SPLIT": bool(layout.bases),
        }  # fmt: skip
    else:
        assert isinstance(layout, Digits)
        kernel = plane_kernels.digits
        more = {"beta": layout.beta, "digits_a_part": layout.counts[side]}
    return prepared(
        general(kernel) if shared else kernel,
        (x.blocks(tile) * -(-x.pitch // tile.inner),),
        {
            **x.named_bits, **named_encoding(x, table, planes), **tile.named, **more,
            "planes": planes, "PARTS": x.bits.shape[0],
        },
        warps=tile.warps,
    )  # fmt: skip


def room_for(operand: Lines, planes: int, dtype: torch.dtype = torch.int8) -> Tensor:
    """Room for planes; the Hopper kernel reads whole tiles of 64 lines, so there are a few more."""
    shape = (planes, *operand.shape[:2], operand.pitch)
    size = math.prod(shape)
    memory = torch.empty(size + 63 * operand.pitch, dtype=dtype, device=operand.bits.device)
    return memory[:size].view(shape)


def encode_words(
    operands: Sequence[Lines], tables: Sequence[Tensor], layout: Residues, width: int
) -> list[Tensor]:
    """Planes of int8, (planes, batch, lines, pitch), of integers up to 2^width in magnitude."""
    short = layout.bases.count(0) if layout.bases else len(layout.moduli)
    made = []
    for x, table in zip(operands, tables, strict=True):
        planes = room_for(x, layout.planes[0])
        choices = tiles.FEW_WORDS_LIMBS if x.small else tiles.WORDS_LIMBS
        limbs = next(count for count in choices if 64 * count > width + 2)
        few_limbs = limbs <= tiles.FEW_LIMBS and not layout.bases
        choice = tiles.FEW_WORDS if few_limbs else tiles.WORDS
        tile = tiles.line_tile(choice, x.lines_near, x.shape[2])
        columns = 1 if few_limbs else tiles.WORDS_COLUMNS
        room = limbs if few_limbs else max(4, 1 << (limbs - 1).bit_length())
        known, weights = constants.words_encoding(layout, 8 * room, columns, planes.device)
        kernel = word_kernels.residues
        launch(
            general(kernel) if x.small else kernel,
            (x.blocks(tile) * -(-x.pitch // tile.inner),),
            {
                **x.named_words, **named_encoding(x, table, planes), **tile.named,
                "planes": planes.view(torch.int32), "constants": known, "weights": weights,
                "moduli": short, "long_moduli": len(layout.moduli) - short, "WORDS": len(x.words),
                "WORD_BITS": x.word_bits, "PARTS": layout.parts, "LONGS": limbs,
                "ASSEMBLY": assembly(planes.device), "LONG_MODULI": bool(layout.bases),
                "ROOM": room, "COLUMNS": columns,
                "NEAR": x.lines_near and not x.small and not few_limbs,
            },
            warps=tile.warps, registers=tiles.WORDS_REGISTERS.get(room),
        )  # fmt: skip
        made.append(planes)
    return made


def named_encoding(x: Lines, table: Tensor, planes: Tensor) -> dict[str, Any]:
    """Sizes of lines and of their planes, and the table, as kernels of one operand name them."""
    _, lines, inner = x.shape
    return {
        **x.named_fields, "table": table, "count": x.count, "lines": lines, "inner": inner,
        "pitch": x.pitch, "plane_stride": planes.stride(0),
    }  # fmt: skip


def encode_words_any(
    x: Lines, table: Tensor, layout: Layout, side: int, width: int, planes: Tensor
) -> None:
    """Planes of any unit, of integers up to 2^width in magnitude; those of int8 are `encode`'s."""
    needed = width + 3
    if isinstance(layout, Digits):
        needed = max(needed, layout.beta * layout.counts[side])
    enough = (count for count in tiles.FEW_WORDS_LIMBS if 64 * count >= needed)
    limbs = 2 * next(enough, -(-needed // 64))
    tile, device = tiles.ENCODE_WORDS, planes.device
    more: dict[str, Any]
    if isinstance(layout, Residues):
        kernel = plane_kernels.residues_of_words
        known, weights = constants.words_remainders(layout, limbs, device)
        more = {
            "constants": known, "weights": weights, "moduli": len(layout.moduli),
            "planes_a_part": layout.planes[side] // (1 if layout.parts == 1 else 3),
            "PARTS": layout.parts, "SPLIT": bool(layout.bases),
        }  # fmt: skip
    else:
        assert isinstance(layout, Digits)
        kernel = plane_kernels.digits_of_words
        more = {
            "parts": layout.parts, "beta": layout.beta, "digits_a_part": layout.counts[side],
            "offset": constants.words_offset(layout, side, limbs, device),
        }  # fmt: skip
    launch(
        general(kernel) if x.small else kernel,
        (x.blocks(tile) * -(-x.pitch // tile.inner),),
        {
            **x.named_words, **named_encoding(x, table, planes), **tile.named, **more,
            "planes": planes, "WORDS": len(x.words), "LIMBS": limbs, "ASSEMBLY": assembly(device),
        },
        warps=tile.warps,
    )  # fmt: skip


def held(source: Encoded) -> EncodedLines:
    """What was encoded on a GPU."""
    assert isinstance(source.held, EncodedLines)
    return source.held
