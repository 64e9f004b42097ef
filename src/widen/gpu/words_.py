"""Numbers of several words on a GPU: their lines, planes, products, and elements made final.

The verbs are those of `gpu.stages_`; tables, certificates and quantisation are the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from widen import bounds
from widen.gpu import stages_ as backend
from widen.gpu import tables as constants
from widen.gpu import unit_tables as told
from widen.gpu.operands import Groups, Lines, Numbers, Target
from widen.gpu.scaling import Scaling
from widen.gpu.replay.launch import general, launch
from widen.bounds import Certificate
from widen.formats import Part
from widen.gpu import tiles
from widen.gpu.kernels.triton import elements_words, encode_words, planes_words
from widen.gpu.kernels.triton import words as line_kernels
from widen.plan import Layout
from widen.systems import Digits, Residues

Tensor = torch.Tensor


def survey(
    operands: Sequence[Lines], tables: Sequence[Tensor], leads: Sequence[Tensor] | None, kept: int,
    enough: int,
) -> None:  # fmt: skip
    """Tables of lines, zero before, up to their norms; and their leads.

    No line will be scaled so that its largest number is 2^enough or more.
    """
    for at, (x, table) in enumerate(zip(operands, tables, strict=True)):
        _, count, inner = x.shape
        words, parts = x.words.shape[:2]
        largest, norms = line_kernels.largest, line_kernels.norms
        tile = tiles.line_tile(tiles.SURVEY[parts], x.lines_near, inner)
        if x.small:
            tile = tiles.SURVEY_SMALL[parts]
            largest, norms = general(largest), general(norms)
        blocks = x.shape[0] * -(-count // tile.lines)
        share = tiles.share(inner, blocks, tile.inner, 1)
        grid = (blocks * -(-inner // share),)
        strides, shape = x.words.stride(), (tile.lines, tile.inner)
        launch(
            largest, grid, (x.words, table, x.count, count, inner, share, *strides, words),
            (parts, *x.fields, *shape), tile.warps,
        )  # fmt: skip
        launch(
            norms, grid,
            (x.words, table, table if leads is None else leads[at], x.count, count, inner, share,
             *strides, words, enough, x.pitch),
            (parts, *x.fields, -1 if leads is None else kept, *shape), tile.warps,
        )  # fmt: skip


def encode(
    operands: Sequence[Lines], tables: Sequence[Tensor], layout: Residues, width: int
) -> list[Tensor]:
    """Planes of int8, (planes, batch, lines, pitch), of integers up to 2^width in magnitude."""
    short = layout.bases.count(0) if layout.bases else len(layout.moduli)
    made = []
    for x, table in zip(operands, tables, strict=True):
        planes = backend.room(x, layout.planes[0])
        choices = tiles.FEW_WORDS_LIMBS if x.small else tiles.WORDS_LIMBS
        limbs = next(count for count in choices if 64 * count > width + 2)
        few = limbs <= tiles.FEW_LIMBS and not layout.bases
        batch, count, inner = x.shape
        tile = tiles.line_tile(tiles.FEW_WORDS if few else tiles.WORDS, x.lines_near, inner)
        columns = 1 if few else tiles.WORDS_COLUMNS
        room = limbs if few else max(4, 1 << (limbs - 1).bit_length())
        told = constants.words_encoding(layout, 8 * room, columns, planes.device)
        form: tuple[int, ...] = (
            len(x.words), layout.parts, *x.fields, limbs, backend.assembly(planes.device),
            tile.lines, tile.inner,
        )  # fmt: skip
        kernel = encode_words.residues_of_few
        if not few:
            kernel = encode_words.residues
            form += (bool(layout.bases), room, x.lines_near and not x.small, columns)
        launch(
            general(kernel) if x.small else kernel,
            (batch * -(-count // tile.lines) * -(-x.pitch // tile.inner),),
            (x.words, table, x.count, planes.view(torch.int32), count, inner, x.pitch,
             planes.stride(0), *x.words.stride(), *told, short, len(layout.moduli) - short),
            form, tile.warps, registers=tiles.WORDS_REGISTERS.get(room),
        )  # fmt: skip
        made.append(planes)
    return made


def encode_any(
    x: Lines, table: Tensor, layout: Layout, side: int, width: int, planes: Tensor
) -> None:
    """Planes of any unit, of integers up to 2^width in magnitude; those of int8 are `encode`'s."""
    needed = width + 3
    if isinstance(layout, Digits):
        needed = max(needed, layout.beta * layout.counts[side])
    enough = (count for count in tiles.FEW_WORDS_LIMBS if 64 * count >= needed)
    limbs = 2 * next(enough, -(-needed // 64))
    batch, count, inner = x.shape
    tile, device = tiles.ENCODE_WORDS, planes.device
    common = (
        x.words, table, x.count, planes, count, inner, x.pitch, planes.stride(0),
        *x.words.stride(),
    )  # fmt: skip
    form: tuple[int, ...] = (len(x.words), *x.fields, limbs, backend.assembly(device))
    given: tuple[Any, ...]
    if isinstance(layout, Residues):
        kernel, form = planes_words.residues, (layout.parts, *form, bool(layout.bases))
        each = layout.planes[side] // (1 if layout.parts == 1 else 3)
        known = told.words_remainders(layout, limbs, device)
        given = (*known, len(layout.moduli), each)
    else:
        assert isinstance(layout, Digits)
        kernel, offset = planes_words.digits, told.words_offset(layout, side, limbs, device)
        given = (layout.parts, offset, layout.beta, layout.counts[side])
    launch(
        general(kernel) if x.small else kernel,
        (batch * -(-count // tile.lines) * -(-x.pitch // tile.inner),), (*common, *given),
        (*form, tile.lines, tile.inner), tile.warps,
    )  # fmt: skip


def _some(planes: Tensor, streams: int, which: slice) -> Tensor:
    """Some planes of every stream, a view if there is one stream."""
    if streams == 1:
        return planes[which]
    return planes.view(streams, -1, *planes.shape[1:])[:, which].flatten(0, 1).contiguous()


def multiply(left: Tensor, right: Tensor, layout: Residues, k: int) -> Tensor | Groups:
    """Residues of X; moduli in two digits give three 16-bit numbers each, whose sum counts."""
    if not layout.bases:
        return backend.multiply(left, right, layout, k)
    streams = 1 if layout.parts == 1 else 3
    each, short = layout.planes[0] // streams, layout.bases.count(0)
    kinds = (
        (slice(0, short), constants.of_planes(layout), torch.uint8),
        (slice(short, each), constants.of_long_planes(layout), torch.int16),
    )
    found = []
    for which, planes, dtype in kinds:
        ours, theirs = (_some(x, streams, which) for x in (left, right))
        found.append(backend.products(ours, theirs, planes, k, dtype))
    return Groups(found[0], found[1])


@dataclass(frozen=True)
class Verbs:
    """`reconstruct` and `repair` of numbers of several words, with alpha, beta and c or without."""

    scaling: Scaling | None

    def reconstruct(
        self, groups: Tensor | Groups, layout: Residues, tables: tuple[Tensor, Tensor],
        batches: tuple[int, int], fmt: Part, out: Target, marks: Tensor | None, *, slack: bool,
    ) -> Tensor:  # fmt: skip
        """Round X, or alpha X + beta c, into `out`; give the marks of what is not final."""
        return backend.reconstruct_any(
            groups, layout, tables, batches, fmt, out, marks, slack=slack,
            addend=None if self.scaling is None else self.scaling.told(out.device),
        )  # fmt: skip

    def repair(
        self, left: Lines, right: Lines, tables: tuple[Tensor, Tensor], fmt: Part, out: Target,
        marks: Tensor, test: Certificate | None, repaired: Tensor,
    ) -> None:  # fmt: skip
        """Make every marked element final; `repaired` counts those that became the nearest."""
        parts, batch, m, n = out.shape
        k = left.shape[2]
        numbers = out if isinstance(out, Numbers) else Numbers(out[None], None)
        second = numbers.block[0] if numbers.second is None else numbers.second
        shift, both, always = (0, 0, 0) if test is None else (test.shift, test.both, test.always)
        tile = tiles.REPAIR
        programs = backend._programs(out.device, -(-batch * m * n // tile.marks), tile.warps)
        room = torch.empty(programs * tiles.DOT_LIMBS, dtype=torch.int32, device=out.device)
        told, fields = (self.scaling or NOTHING_ADDED).told(out.device)
        first = fmt.words[0]
        launch(
            elements_words.repair, (programs,),
            (left.words, right.words, numbers.block, second, marks, repaired, *tables, room, m, n,
             k, batch, left.shape[0], right.shape[0], *left.words.stride(), *right.words.stride(),
             *numbers.block.stride(), len(left.words), len(right.words), len(numbers.block), parts,
             test is not None, bounds.lead_bits(k), shift, both, min(always, 1 << 61), *told[:-1]),
            (parts, *left.fields, *right.fields, first.precision, first.lowest, first.highest,
             numbers.second is not None, tile.terms, tile.marks, tiles.DOT_LIMBS,
             self.scaling is not None, told[7], fields),
            tile.warps,
        )  # fmt: skip


NOTHING_ADDED = Scaling(1.0, 0.0, None)
