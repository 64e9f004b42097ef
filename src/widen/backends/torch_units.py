"""The other units and digits on a GPU: their planes, their products, and X handed over as bytes.

int8 residues are `backends.torch`; here is everything else that multiplies small integers exactly,
in one generic way: planes in the unit's own format, groups of exact sums, then the residues of X
that int8 would have given, so that what follows (rounding, marks, repair) is the same for all.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import Any

import torch

from widen import bounds
from widen.backends import torch as backend
from widen.backends.torch import Lines, Tensor
from widen.backends.torch_constants import limit_of
from widen.backends.triton_launch import launch
from widen.kernels import tiles
from widen.kernels.triton import groups as group_kernels
from widen.kernels.triton import planes as plane_kernels
from widen.kernels.triton.numbers import NORM, SIGMA
from widen.plan import Blocks, Layout, Plan
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

LONGEST_POWER = 512
"""2^j mod p is tabled for j below this."""

UNFIT = 1 << 20
"""Added to the norm of a line whose integers are too wide for its digits."""


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

    @cached_property
    def fast(self) -> bool:
        """Whether these are the int8 residues of `backends.torch`."""
        return self.unit == "int8" and isinstance(self.layout, Residues)

    @cached_property
    def carrier(self) -> Residues:
        """The residues that reconstruction reads."""
        if self.fast:
            assert isinstance(self.layout, Residues)
            return self.layout
        return residues(128, self.bits, self.layout.parts)

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
        """Bytes of an element: its groups, the bytes that they become, and marks."""
        return self.passing_bytes + self.carrier.groups + 2

    def encode(
        self, operands: Sequence[Lines], tables: Sequence[Tensor], sides: Sequence[int]
    ) -> list[Tensor]:
        """Planes of one or both operands, (planes, batch, lines, pitch)."""
        if self.fast:
            return backend.encode(operands, tables, self.carrier)
        given = zip(operands, tables, sides, strict=True)
        return [self._encode(operand, table, side) for operand, table, side in given]

    def _encode(self, operand: Lines, table: Tensor, side: int) -> Tensor:
        layout, count = self.layout, self.layout.planes[side]
        shape = (count, *operand.shape[:2], operand.pitch)
        planes = torch.empty(shape, dtype=STORAGE[self.unit], device=operand.bits.device)
        tile = tiles.ENCODE_ANY
        batch, lines, inner = operand.shape
        grid = (batch * -(-lines // tile.lines) * -(-operand.pitch // tile.inner),)
        common = (
            operand.bits, table, operand.count, planes, lines, inner, operand.pitch,
            planes.stride(0), *operand.bits.stride(),
        )  # fmt: skip
        form = (operand.bits.shape[0], *operand.fields)
        if isinstance(layout, Residues):
            constants, powers = _remainders(
                layout.moduli, layout.bases, tuple(layout.sums), planes.device
            )
            each = count // (1 if layout.parts == 1 else 3)
            launch(
                plane_kernels.residues, grid,
                (*common, constants, powers, len(layout.moduli), each),
                (*form, LONGEST_POWER, bool(layout.bases), tile.lines, tile.inner), tile.warps,
            )  # fmt: skip
        else:
            assert isinstance(layout, Digits)
            launch(
                plane_kernels.digits, grid, (*common, layout.beta, layout.counts[side]),
                (*form, tile.lines, tile.inner), tile.warps,
            )  # fmt: skip
        return planes

    def multiply(self, left: Tensor, right: Tensor) -> Tensor:
        """Bytes (planes of the carrier, batch, m, pitch) as `backends.torch.multiply` gives."""
        if self.fast:
            return backend.multiply(left, right, self.carrier, self.k)
        return self.as_bytes(self.products(left, right))

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
                found = torch.matmul(left[x, ..., :k], right[y, ..., :k].mT)
                target.add_(found) if group in started else target.copy_(found)
                started.add(group)
            return out
        tile = tiles.PRODUCTS[self.unit]
        depth = max(min(self.depth, 1 << 17) // tile.inner, 1) * tile.inner
        assert depth <= self.depth or k <= self.depth
        shallow = depth == tile.inner
        if shallow:  # such sums are added in float32, which is exact up to 2^24
            depth *= (1 << 24) // UNITS[self.unit].exact
        count = layout.groups * batch * -(-m // tile.rows) * -(-n // tile.columns)
        firsts, pairs = _pairs(layout, left.device)
        launch(
            group_kernels.products, (backend._programs(left.device, count, tile.warps),),
            (backend._descriptor(left, k, tile.rows, tile.inner),
             backend._descriptor(right, k, tile.columns, tile.inner), out, firsts, pairs, m, n, k,
             pitch, layout.groups, batch, left_batch, right_batch, depth, 1.0),
            (tile.rows, tile.columns, tile.inner, tile.group, tile.inner * shallow,
             left.device.type == "cuda"),
            tile.warps, tile.stages,
        )  # fmt: skip
        return out

    def as_bytes(self, groups: Tensor) -> Tensor:
        """X of exact groups as bytes of the carrier."""
        carrier, layout = self.carrier, self.layout
        shape = (len(carrier.products), *groups.shape[1:])
        out = torch.empty(shape, dtype=torch.uint8, device=groups.device)
        size, block = groups.stride(0), tiles.BYTES_OF_GROUPS
        grid = (-(-size // block),)
        if not isinstance(layout, Residues) or layout.moduli == carrier.moduli:
            terms, moduli = _direct(layout, carrier, groups.device)
            launch(
                group_kernels.as_bytes, grid,
                (groups, out, size, terms, moduli, *terms.shape[:2]), (block,),
            )  # fmt: skip
            return out
        terms, moduli, inverses, targets, basis = _through_x(layout, carrier, groups.device)
        launch(
            group_kernels.through_x, grid,
            (groups, out, size, terms, moduli, inverses, targets, basis, len(carrier.moduli),
             terms.shape[2]),
            (layout.parts, len(layout.moduli), block),
        )  # fmt: skip
        return out

    def fitted(self, tables: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
        """Tables whose norms tell reconstruction what this layout does not hold.

        Planes made for other data, by a plan made beforehand, may be too narrow for some lines.
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
            table[int(NORM)] += (table[int(SIGMA)] >= held) * UNFIT
        return left, right


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


def engine_of(plan: Plan) -> Engine:
    """The engine of a plan."""
    return _engine(plan.unit, plan.layout, plan.depth, plan.bits, plan.shape[2])


@lru_cache(maxsize=256)
def _engine(unit: str, layout: Layout, depth: int, bits: float, k: int) -> Engine:
    return Engine(unit, layout, depth, bits, k)


def in_blocks(plan: Plan) -> Plan:
    """Blocks whose planes, groups and marks fit beside all lines' tables and leading integers.

    Planes of columns stay while blocks of rows pass, and take half of the room.
    """
    engine, (batch, m, k, n) = engine_of(plan), plan.shape
    workspace = max(plan.workspace - batch * (m + n) * (k + 15 + 8 * 9), plan.workspace // 4)
    line, element = engine.line_bytes * (k + 15), engine.element_bytes
    whole = (m + n) * line + m * n * element
    if whole <= workspace:
        return replace(plan, blocks=Blocks(max(1, min(batch, workspace // whole)), m, n, k))
    columns = _rounded(min(n, workspace // (2 * line)))
    rows = _rounded(min(m, (workspace - columns * line) // (line + columns * element)))
    return replace(plan, blocks=Blocks(1, rows, columns, k))


def _rounded(size: int) -> int:
    """A block's size, a multiple of the tiles' if it is large."""
    return size // 768 * 768 if size > 768 else max(size, 1)


def cut_planes(planes: Tensor, own: Layout, layout: Layout, side: int) -> Tensor:
    """The planes that a layout asks for, of an operand that was encoded with as many or more."""
    if layout.planes[side] > own.planes[side]:
        raise ValueError(
            f"the plan has {layout.planes[side]} planes, the encoded operand {own.planes[side]}; "
            "make the plan with it, widen.plan(a, b), or give no plan"
        )
    chosen = own.planes_of(layout, side)
    if chosen == list(range(len(chosen))):
        return planes[: len(chosen)]
    return torch.stack([planes[i] for i in chosen])


def _reciprocal(p: int) -> int:
    """floor(2^64 / p) as the int64 of the same bits."""
    found = (1 << 64) // p
    return found - (1 << 64) if found >= 1 << 63 else found


def _table(rows: Any, device: torch.device) -> Tensor:
    return torch.tensor(rows, dtype=torch.int64, device=device)


@lru_cache(maxsize=64)
def _remainders(
    moduli: tuple[int, ...], bases: tuple[int, ...], sums: tuple[int, ...], device: torch.device
) -> tuple[Tensor, Tensor]:
    """Constants and powers of `kernels.triton.planes.residues`."""
    rows = [
        [p, _reciprocal(p), base, at]
        for p, base, at in zip(moduli, bases or [0] * len(moduli), sums, strict=True)
    ]
    powers = [[pow(2, j, p) for j in range(LONGEST_POWER)] for p in moduli]
    return _table(rows, device), _table(powers, device)


@lru_cache(maxsize=64)
def _pairs(layout: Layout, device: torch.device) -> tuple[Tensor, Tensor]:
    """Products sorted by group, and where every group begins."""
    ordered = sorted(layout.products, key=lambda product: product.group)
    counts = [0] * (layout.groups + 1)
    for product in ordered:
        counts[product.group + 1] += 1
    firsts = [sum(counts[: group + 1]) for group in range(layout.groups + 1)]
    pairs = [[product.left, product.right] for product in ordered]
    return (
        torch.tensor(firsts, dtype=torch.int32, device=device),
        torch.tensor(pairs, dtype=torch.int32, device=device),
    )


def _coefficients(carrier: Residues) -> list[tuple[int, int]]:
    """Moduli of the carrier and their Chinese remainder coefficients."""
    return [(p, pow(carrier.modulus // p, -1, p)) for p in carrier.moduli]


def _term(group: int, w: int, p: int) -> list[int]:
    return [group, w % p, (w << int(group_kernels.LOW_BITS)) % p]


@lru_cache(maxsize=64)
def _direct(layout: Layout, carrier: Residues, device: torch.device) -> tuple[Tensor, Tensor]:
    """Terms and moduli of `kernels.triton.groups.as_bytes`.

    Residues by the carrier's own moduli have one group a byte. Otherwise X is a sum of weighted
    groups; complex numbers give re, 0 and re + im, as which reconstruction takes three products.
    """
    moduli = _coefficients(carrier)
    rows: list[list[list[int]]]
    if isinstance(layout, Residues):
        streams = len(layout.products) // len(moduli)
        rows = [
            [_term(stream * len(moduli) + i, w, p)]
            for stream in range(streams)
            for i, (p, w) in enumerate(moduli)
        ]
    else:
        weights = list(layout.weights)
        if layout.parts == 2:
            real, imaginary = weights
            both = tuple(x + y for x, y in zip(real, imaginary, strict=True))
            weights = [real, (0,) * len(real), both]
        rows = [
            [_term(group, weight * w, p) for group, weight in enumerate(of_stream)]
            for of_stream in weights
            for p, w in moduli
        ]
    every = [[p, _reciprocal(p)] for p, _ in moduli] * (len(rows) // len(moduli))
    return _table(rows, device), _table(every, device)


@lru_cache(maxsize=64)
def _through_x(
    layout: Residues, carrier: Residues, device: torch.device
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Tables of `kernels.triton.groups.through_x`."""
    terms = [
        [
            [_term(max(group, 0), w, p) for group, w in of_p]
            for p, of_p in zip(layout.moduli, of_part, strict=True)
        ]
        for of_part in layout.terms
    ]
    whole = layout.modulus
    basis = [
        [*(w * (whole // q) % p for q in layout.moduli), -w * whole % p]
        for p, w in _coefficients(carrier)
    ]
    inverses = torch.tensor([1 / p for p in layout.moduli], dtype=torch.float32, device=device)
    return (
        _table(terms, device),
        _table([[p, _reciprocal(p)] for p in layout.moduli], device),
        inverses,
        _table([[p, _reciprocal(p)] for p in carrier.moduli], device),
        _table(basis, device),
    )
