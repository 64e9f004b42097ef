"""Units on a GPU: which there are, their planes, their products, and X handed over as bytes.

int8 residues are `gpu.multiply`; everything else that multiplies small integers exactly is here, in
one generic way: planes in the unit's own format, groups of exact sums, then the residues of X
that int8 would have given, so that what follows (rounding, marks, repair) is the same for all.
Numbers of several words have residues of 32 bits instead, by the moduli that there are.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache

import torch

from widen import bounds
from widen.formats import FORMATS
from widen.gpu import constants, tiles
from widen.gpu.constants import BYTE_BITS, NORM_TOO_LARGE, limit_of
from widen.gpu.encode import (
    encode_bytes,
    encode_words,
    encode_words_any,
    encoding_any,
    room_for,
)
from widen.gpu.kernels.triton import groups as group_kernels
from widen.gpu.kernels.triton.numbers import FLAGS, INEXACT, NORM, SIGMA, STEP, SUM
from widen.gpu.lines import ROWS_OF_TABLE
from widen.gpu.multiply import descriptor, multiply, multiply_by_halves, planes_at_once
from widen.gpu.operands import Groups, Lines, Tensor
from widen.gpu.replay.driver import is_gpu
from widen.gpu.replay.launch import launch, programs
from widen.plan import Layout, Plan
from widen.planner import Room, choose_blocks
from widen.systems import Digits, Residues, residues
from widen.units import UNITS

STORAGE = {
    "int8": torch.int8,
    "fp16": torch.float16,
    "bf16": torch.bfloat16,
    "fp8": torch.float8_e4m3fn,
    "fp64": torch.float64,
}
"""The units a GPU has, and the format of their planes."""

CAPABILITY = {"fp8": (8, 9), "bf16": (8, 0)}
"""The compute capability that units need, where not every GPU that runs Triton has it."""


@lru_cache(maxsize=16)
def available(device: torch.device | None) -> tuple[str, ...]:
    """The units that a GPU has; all of them where it is not known which."""
    if device is None or device.type != "cuda":
        return tuple(STORAGE)
    held = torch.cuda.get_device_capability(device)
    return tuple(name for name in STORAGE if held >= CAPABILITY.get(name, (0, 0)))


@lru_cache(maxsize=16)
def name_of(index: int | None) -> str:
    """A GPU's name; in Triton's interpreter, none."""
    return torch.cuda.get_device_name(index) if torch.cuda.is_available() else ""


@dataclass(frozen=True)
class Engine:
    """A unit and the layout it multiplies, for an inner dimension of k.

    It has the verbs `encode` and `multiply`, and says what the layout is that the bytes follow.
    """

    unit: str
    layout: Layout
    depth: int
    bits: float
    k: int
    width: int | None = None
    """|a'| and |b'| are at most 2^width, if that is known beside X."""
    several: bool = False
    """Whether results have several words, or X as many bits as if they had."""

    @cached_property
    def fast(self) -> bool:
        """Whether these are the int8 residues of `gpu.multiply`."""
        return self.unit == "int8" and isinstance(self.layout, Residues)

    @cached_property
    def carrier(self) -> Residues:
        """The residues that reconstruction reads; what was left out of X is so there, too."""
        if self.fast:
            assert isinstance(self.layout, Residues)
            return self.layout
        if not self.several:
            held = residues(128, self.bits, self.layout.parts)
        elif isinstance(self.layout, Residues):
            held = replace(self.layout, bases=())  # one residue, however many its groups
        else:
            held = residues(UNITS["fp64"].digit, self.bits, self.layout.parts)
        return replace(held, dropped=self.layout.dropped)

    @cached_property
    def sums(self) -> torch.dtype:
        """A format that holds the groups."""
        if self.unit == "fp64":
            return torch.float64
        gathered = [product.group for product in self.layout.products]
        most = max(map(gathered.count, set(gathered)))
        digit = bounds.plane_digit(UNITS[self.unit], self.k)
        return torch.int32 if most * self.k * digit**2 < 1 << 31 else torch.int64

    @cached_property
    def line_bytes(self) -> int:
        """Bytes of an entry of a line in all its planes, and of its leading integer."""
        return max(self.layout.planes) * STORAGE[self.unit].itemsize + 1

    @cached_property
    def passing_bytes(self) -> int:
        """Bytes of an element that are there while planes are multiplied: its groups."""
        if self.fast:
            return 0
        return (self.layout.groups + (self.unit == "fp64")) * self.sums.itemsize

    @cached_property
    def element_bytes(self) -> int:
        """Bytes of an element: its groups, the residues that they become, and marks."""
        if self.several and not self.fast:
            return self.passing_bytes + 4 * len(self.carrier.moduli) * self.layout.parts + 2
        long = sum(base > 0 for base in self.carrier.bases) * (3 if self.layout.parts == 1 else 9)
        return self.passing_bytes + self.carrier.groups + long + 2

    def encode(
        self, operands: Sequence[Lines], tables: Sequence[Tensor], sides: Sequence[int]
    ) -> list[Tensor]:
        """Planes of one or both operands, (planes, batch, lines, pitch)."""
        words = any(x.block is not None for x in operands)
        if self.fast and (self.carrier.bases or words):
            return encode_words(operands, tables, self.carrier, self._width)
        if self.fast and not all(operand.small for operand in operands):
            return encode_bytes(operands, tables, self.carrier)
        given = zip(operands, tables, sides, strict=True)
        if words or (self.several and not self.fast):
            return [self._encode_words(operand, table, side) for operand, table, side in given]
        return [self._encode(operand, table, side) for operand, table, side in given]

    @property
    def _width(self) -> int:
        """Bits of an operand's integers."""
        width = math.ceil(self.bits) + 1
        return min(width, self.width or width)

    def _encode_words(self, operand: Lines, table: Tensor, side: int) -> Tensor:
        planes = room_for(operand, self.layout.planes[side], STORAGE[self.unit])
        encode_words_any(operand, table, self.layout, side, self._width, planes)
        return planes

    def _encode(self, operand: Lines, table: Tensor, side: int) -> Tensor:
        planes = room_for(operand, self.layout.planes[side], STORAGE[self.unit])
        small = operand.small
        encoding_any(operand, table, planes, self.layout, side, shared=small).make()
        return planes

    def halves_at_once(self, left: Tensor, right: Tensor, room: int) -> int:
        """How many planes are multiplied by halves at a time, in so many bytes."""
        if not self.fast or self.carrier.bases:
            return 0
        return planes_at_once(left, right, self.k, room)

    def multiply(self, left: Tensor, right: Tensor, halves: int = 0) -> Tensor | Groups:
        """Bytes (planes of the carrier, batch, m, pitch) as `gpu.multiply` gives.

        Residues of numbers of several words are 32-bit numbers, of one part after the other.
        """
        if not self.fast:
            return self.as_residues(self.products(left, right))
        if halves > 0:
            return multiply_by_halves(left, right, self.carrier, self.k, halves)
        return multiply(left, right, self.carrier, self.k)

    def products(self, left: Tensor, right: Tensor) -> Tensor:
        """Exact groups (groups, batch, m, pitch)."""
        layout, k = self.layout, self.k
        (left_batch, m), (right_batch, n) = left.shape[1:3], right.shape[1:3]
        batch, pitch = max(left_batch, right_batch), -(-n // 16) * 16
        shape = (layout.groups, batch, m, pitch)
        out = torch.empty(shape, dtype=self.sums, device=left.device)
        if self.unit == "fp64":
            started = set()
            for x, y, group in layout.products:
                target = out[group, :, :, :n]
                product = torch.matmul(left[x, ..., :k], right[y, ..., :k].mT)
                target.add_(product) if group in started else target.copy_(product)
                started.add(group)
            return out
        tile = tiles.PRODUCTS[self.unit]
        depth = max(min(self.depth, 1 << 17) // tile.inner, 1) * tile.inner
        assert depth <= self.depth or k <= self.depth
        exact = UNITS[self.unit].exact
        shallow = depth == tile.inner and exact <= 1 << 24
        if shallow:  # such sums are added in float32, which is exact up to 2^24
            depth *= (1 << 24) // exact
        count = layout.groups * batch * -(-m // tile.rows) * -(-n // tile.columns)
        firsts, pairs = constants.pairs_of(layout, left.device)
        launch(
            group_kernels.products, (programs(left.device, count, tile.warps),),
            {
                **tile.named, "left": descriptor(left, k, tile.rows, tile.inner),
                "right": descriptor(right, k, tile.columns, tile.inner), "out": out,
                "firsts": firsts, "pairs": pairs, "m": m, "n": n, "k": k, "pitch": pitch,
                "groups": layout.groups, "batch": batch, "left_batch": left_batch,
                "right_batch": right_batch, "depth": depth, "one": 1.0,
                "SHORT": tile.inner * shallow, "PLAIN": is_gpu(left.device),
            },
            warps=tile.warps, stages=tile.stages,
        )  # fmt: skip
        return out

    def as_residues(self, groups: Tensor) -> Tensor:
        """The X of exact groups as residues by the carrier's moduli."""
        carrier, layout = self.carrier, self.layout
        rows = len(carrier.moduli) * layout.parts if self.several else len(carrier.products)
        dtype = torch.int32 if self.several else torch.uint8
        out = torch.empty((rows, *groups.shape[1:]), dtype=dtype, device=groups.device)
        size, block = groups.stride(0), tiles.BYTES_OF_GROUPS
        grid = (-(-size // block),)
        own = not isinstance(layout, Residues) or layout.moduli == carrier.moduli
        if self.several or own:
            table = constants.apart if self.several else constants.direct
            terms, moduli = table(layout, carrier, groups.device)
            launch(
                group_kernels.as_residues, grid,
                {
                    "groups": groups, "out": out, "size": size, "terms": terms, "moduli": moduli,
                    "rows": terms.shape[0], "count": terms.shape[1], "BLOCK": block,
                },
            )  # fmt: skip
            return out
        assert isinstance(layout, Residues)
        terms, moduli, inverses, targets, basis = constants.through_x(
            layout, carrier, groups.device
        )
        launch(
            group_kernels.through_x, grid,
            {
                "groups": groups, "out": out, "size": size, "terms": terms, "moduli": moduli,
                "inverses": inverses, "targets_table": targets, "basis": basis,
                "targets": len(carrier.moduli), "count": terms.shape[2], "PARTS": layout.parts,
                "MODULI": len(layout.moduli), "BLOCK": block,
            },
        )  # fmt: skip
        return out

    def fitted(self, tables: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
        """Tables whose norms tell reconstruction what this layout does not hold.

        Planes made for other data, by a plan made beforehand, may be too narrow for some lines.
        Where products were left out no line is exact.
        """
        if self.fast:
            return tables
        left, right = (table.clone() for table in tables)
        layout = self.layout
        if isinstance(layout, Residues):
            left[int(NORM)] += max(limit_of(self.carrier) - limit_of(layout), 0)
            return left, right
        assert isinstance(layout, Digits)
        for table, held in zip((left, right), layout.held, strict=True):
            table[int(NORM)] += (table[int(SIGMA)] >= held) * NORM_TOO_LARGE
            if layout.dropped:
                table[int(FLAGS)] |= int(INEXACT)
                exponents = (1023 - table[int(SIGMA)]).clip(1, 2046)
                table[int(STEP)] = torch.where(table[int(SUM)] > 0, exponents << 52, 0)
        return left, right


@lru_cache(maxsize=256)
def engine_of(plan: Plan) -> Engine:
    """The engine of a plan."""
    fmt, k = FORMATS[plan.result], plan.shape[2]
    goal = bounds.goal(plan.contract, fmt.precision, k, plan.layout.parts, plan.cap)
    width = None if goal is None else bounds.highest(goal)
    several = len(fmt.part.words) > 1 or plan.bits > BYTE_BITS
    return Engine(plan.unit, plan.layout, plan.depth, plan.bits, k, width, several)


LEAD_BYTES = 3
"""Of a number's leading integer and its magnitude; lines that are not hard have the first alone."""

BLOCK_STEP = 768
"""Blocks of many lines are whole tiles: a multiple of all their sizes."""


def in_blocks(plan: Plan) -> Plan:
    """Blocks whose planes, groups and marks fit beside all lines' tables and leading integers.

    All lines of all planes of a block are fewer than 2^31: bulk copies have 32 bits to count them.
    """
    engine, (batch, m, k, n) = engine_of(plan), plan.shape
    beside = batch * (m + n) * (LEAD_BYTES * (k + 15) + 8 * ROWS_OF_TABLE)
    workspace = max(plan.workspace - beside, plan.workspace // 4)
    line = engine.line_bytes * (k + 15)
    room = Room(
        workspace,
        (line, line),
        engine.element_bytes,
        workspace,
        most_lines=((1 << 31) - 1) // max(engine.layout.planes),
        step=BLOCK_STEP,
    )
    return replace(plan, blocks=choose_blocks(plan.shape, room))


def planes_for(planes: Tensor, own: Layout, layout: Layout, side: int) -> Tensor:
    """The planes that a layout asks for, of an operand that was encoded with as many or more."""
    chosen = own.planes_of(layout, side)
    if chosen == list(range(len(chosen))):
        return planes[: len(chosen)]
    return torch.stack([planes[i] for i in chosen])
