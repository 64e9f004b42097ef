"""A product whose inner dimension is cut: what each piece knows of lines, and exact parts of X.

Pieces may lie on different processes; how they meet is not said here. First the pieces' knowledge
of lines is merged (`extremes` by maxima, `sums` by sums), which gives the survey of whole lines.
Then every piece multiplies what it has, exactly, and packs its part of X in bytes (`PartialSums`).
Whoever has the parts of all pieces adds them up and rounds once (`whole_sums`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from widen.bounds import Certificate
from widen.cpu import kernels
from widen.cpu.certify import NEAR, magnitudes, relative_error, weighed
from widen.cpu.encode import encode
from widen.cpu.lines import survey
from widen.cpu.multiply import multiply
from widen.cpu.operands import FACTS, NOTHING, Array, Operand, Quantised, Survey
from widen.cpu.repair import special_values
from widen.cpu.threads import launch
from widen.plan import Layout, Plan
from widen.planner import line_bytes
from widen.systems import Residues
from widen.units import UNITS

LIMB = 24
"""Bits of the limbs that integers are packed from."""


@dataclass(frozen=True)
class Piece:
    """A stretch of the inner dimension of lines, beginning at `start` of the whole."""

    operand: Operand
    start: int
    seen: Survey

    def extremes(self) -> Array:
        """What the whole lines know by maxima, (6, batch, lines).

        First bits, last bits and first entries that are not 0 (with their signs changed), where
        there are no more, the least exponent (changed too), and whether lines are special.
        """
        seen, facts = self.seen, self.seen.facts
        here = seen.q1 > 0
        places = [
            facts[0], -facts[1], -(facts[6] + self.start), facts[7] + self.start, -facts[8],
        ]  # fmt: skip
        return np.stack([*(np.where(here, x, NOTHING) for x in places), seen.special])

    def sums(self, agreed: Array) -> Array:
        """What the whole lines know by sums, (4, batch, lines), given their extremes.

        Norms and distances count from the largest magnitude of the whole line. Where that is not
        here, a number of that magnitude is put at the end of the line, and taken off the sums.
        """
        top = agreed[0]
        own = np.where(agreed[5] > 0, 0, self.seen.facts[2:6])
        for b in range(len(top)):
            others = np.flatnonzero((own[0, b] > 0) & (self.seen.top[b] != top[b]))
            room = max(1, (1 << 24) // self.operand.bytes_a_line)
            for start in range(0, others.size, room):
                chosen = others[start : start + room]
                own[:, b, chosen] = _sums_from(self.operand.pick(b, chosen), top[b, chosen])
        return np.asarray(own)


def piece(operand: Operand, start: int) -> Piece:
    """Look at a stretch of lines, which may be empty."""
    batch, lines, inner = operand.shape
    if inner:
        return Piece(operand, start, survey(operand, None))
    nothing = np.zeros((FACTS, batch, lines), np.int64)
    return Piece(operand, start, Survey(nothing, np.zeros((batch, lines), bool)))


def _sums_from(lines: Operand, top: Array) -> Array:
    """Sums of lines as if their largest magnitude were 2^top."""
    marks = np.ldexp(1.0, top)[None, :, None]
    ends = [[marks, *([np.zeros_like(marks)] * (len(lines.parts) - 1))]]
    ends += [[np.zeros_like(marks)] * len(lines.parts)] * len(lines.lower)
    longer = [
        tuple(
            np.concatenate([part.astype(np.float64), end], axis=2)
            for part, end in zip(word, of_word, strict=True)
        )
        for word, of_word in zip(lines.words, ends, strict=True)
    ]
    seen = survey(Operand(longer[0], tuple(longer[1:])), None).facts[2:6, 0]
    return np.asarray(seen - np.array([1 << 15, 1 << 30, 1, 0])[:, None])


def whole_lines(extremes: Array, sums: Array) -> Survey:
    """The survey of whole lines, from what all pieces know."""
    special = extremes[5] > 0
    nothing = special | (sums[0] == 0)
    facts = np.empty((FACTS, *special.shape), np.int64)
    facts[0], facts[1] = extremes[0], -extremes[1]
    facts[2:6] = sums
    facts[6], facts[7], facts[8] = -extremes[2], extremes[3], -extremes[4]
    facts[:8, nothing], facts[8, nothing] = 0, -NOTHING
    return Survey(facts, special)


@dataclass(frozen=True)
class Packing:
    """How parts of X travel: bytes of every element, in this order.

    `width` bytes for each of `parts`; a share of what the certificate needs, if there is one; and
    a byte a part for special values, if there are any.
    """

    parts: int
    width: int
    certified: bool
    special: bool

    @property
    def share(self) -> int:
        """Where the share is."""
        return self.parts * self.width

    @property
    def specials(self) -> int:
        """Where special values begin."""
        return self.share + self.certified

    @property
    def bytes(self) -> int:
        """All of them."""
        return self.specials + self.parts * self.special


def width_of(bits: float) -> int:
    """Bytes of an integer |X| < 2^bits, and its sign.

    >>> width_of(109.0), width_of(112.0)
    (14, 15)
    """
    return int(-(-(bits + 1) // 8))


@dataclass(frozen=True)
class PartialSums:
    """Exact parts of X, from one piece of each operand's lines.

    Attributes
    ----------
    plan
        The plan that all pieces agreed on.
    lines
        Whole lines as they were quantised.
    test
        The certificate that elements need, or None.
    packing
        What is sent.
    """

    plan: Plan
    lines: tuple[Quantised, Quantised]
    test: Certificate | None
    packing: Packing

    def start(self, shape: tuple[int, int, int]) -> Sums:
        """Nothing yet, for (batch, m, n) elements."""
        groups = np.zeros((self.plan.layout.groups, *shape))
        total = None if self.test is None else np.zeros(shape, np.float32)
        special = np.zeros((self.packing.parts, *shape)) if self.packing.special else None
        return Sums(groups, total, special)

    def add(self, sums: Sums, left: Operand, right: Operand) -> None:
        """Add the products of one more stretch; rows and columns are those of `lines`."""
        inner = left.shape[2]
        for stretch in self._stretches(left, right):
            ours, theirs = left.inner(stretch), right.inner(stretch)
            self._multiply(sums.groups, ours, theirs)
            if sums.total is not None:
                small = [
                    magnitudes(operand, lines, np.float32)
                    for operand, lines in zip((ours, theirs), self.lines, strict=True)
                ]
                sums.total[...] += np.matmul(small[0], small[1].swapaxes(1, 2))
        if sums.special is not None and inner:
            rows, columns = (lines.survey.special for lines in self.lines)
            values = np.zeros((1, *sums.special.shape))
            special_values(left, right, rows, columns, values)
            sums.special[...] += values[0]

    def _stretches(self, left: Operand, right: Operand) -> Iterator[slice]:
        """Stretches whose planes half of the workspace holds."""
        entry = sum(
            line_bytes(self.plan.layout, side) * operand.shape[0] * operand.shape[1]
            for side, operand in enumerate((left, right))
        )
        inner, step = left.shape[2], max(1, self.plan.workspace // max(1, 2 * entry))
        return (slice(start, min(start + step, inner)) for start in range(0, inner, step))

    def _multiply(self, groups: Array, left: Operand, right: Operand) -> None:
        plan, unit = self.plan, UNITS[self.plan.unit]
        planes = [
            encode(operand, lines, plan.layout, side)
            for side, (operand, lines) in enumerate(zip((left, right), self.lines, strict=True))
        ]
        partial = np.empty(groups.shape[1:], unit.engine)
        multiply(
            planes[0], planes[1], plan.layout.products, unit, plan.depth, groups=groups,
            partial=partial, add=True,
        )  # fmt: skip

    def pack(self, sums: Sums) -> Array:
        """What is sent of every element, (batch, m, n, bytes)."""
        _, batch, m, n = sums.groups.shape
        out = np.empty((batch, m, n, self.packing.bytes), np.uint8)
        table = _packing_table(self.plan.layout, self.packing.width)
        work = 8 * sums.groups.size
        launch(kernels.wire.pack, batch * m, work, sums.groups, *table, self.packing.width, out)
        if self.test is not None:
            assert sums.total is not None
            factor = max(0.0, 1 - 2 * relative_error(self.plan.shape[2]))
            ours, theirs = (weighed(side, self.test, batch, NEAR["float32"]) for side in self.lines)
            launch(
                kernels.wire.shares, batch * m, sums.total.size, sums.total,
                factor, ours.weight, ours.step, ours.spans,
                theirs.weight, theirs.step, theirs.spans,
                np.array([self.test.entry, self.test.both, self.test.dropped]),
                out[..., self.packing.share],
            )  # fmt: skip
        if sums.special is not None:
            out[..., self.packing.specials :] = np.moveaxis(_codes(sums.special), 0, -1)
        return out

    def unpack(self, packed: Array) -> tuple[Array, Array | None, Array | None]:
        """Groups of the whole X, marks of what is not certified, and special values.

        From the bytes of all pieces, (pieces, batch, m, n, bytes).
        """
        layout, shape = self.plan.layout, packed.shape[1:4]
        groups = np.empty((layout.groups, *shape))
        jobs, width = shape[0] * shape[1], self.packing.width
        moduli = _unpacking_table(layout, width)
        work = packed.size * len(moduli)
        launch(kernels.wire.unpack, jobs, work, packed, width, moduli, groups)
        marks = special = None
        if self.packing.certified:
            marks = np.empty(shape, bool)
            given = packed[..., self.packing.share]
            launch(kernels.wire.open_elements, jobs, given.size, given, marks)
        if self.packing.special:
            codes = np.bitwise_or.reduce(packed[..., self.packing.specials :], axis=0)
            special = _special(np.moveaxis(codes, -1, 0))
        return groups, marks, special


@dataclass(frozen=True)
class Sums:
    """Groups (groups, batch, m, n), sums of magnitudes, and special values (parts, batch, m, n)."""

    groups: Array
    total: Array | None
    special: Array | None


def _codes(special: Array) -> Array:
    """Special values as bits: 1 for infinity, 2 for minus infinity, 4 for NaN."""
    code = np.isposinf(special) * 1 + np.isneginf(special) * 2 + np.isnan(special) * 4
    return np.asarray(code, np.uint8)


def _special(codes: Array) -> Array:
    """The sum of special values: that of both infinities is NaN."""
    table = np.array([0.0, np.inf, -np.inf, *[np.nan] * 5])
    return np.asarray(table[codes])


def _limbs(x: int, count: int) -> list[int]:
    return [x >> (LIMB * at) & ((1 << LIMB) - 1) for at in range(count)]


def _limb_count(layout: Layout, width: int) -> int:
    """Limbs of sums of c P/p, and of as many bytes as are wanted."""
    bits = layout.modulus.bit_length() + len(layout.products).bit_length() + 2
    return max(-(-bits // LIMB), -(-width // 3)) + 1


@lru_cache(maxsize=64)
def _packing_table(layout: Layout, width: int) -> tuple[Array, Array, Array, Array]:
    assert isinstance(layout, Residues)
    terms = layout.terms
    places = [[[group for group, _ in of_p] for of_p in of_part] for of_part in terms]
    constants = [
        [
            [p, 1, *(weight % p for _, weight in of_p)]
            for p, of_p in zip(layout.moduli, of_part, strict=True)
        ]
        for of_part in terms
    ]
    count = _limb_count(layout, width)
    basis = [_limbs(layout.modulus // p, count) for p in layout.moduli]
    return tuple(  # type: ignore[return-value]
        np.array(x, np.int64) for x in (places, constants, basis, _limbs(layout.modulus, count))
    )


@lru_cache(maxsize=64)
def _unpacking_table(layout: Layout, width: int) -> Any:
    assert isinstance(layout, Residues)
    count = -(-width // 3) + 1
    return np.array(
        [[p, *(pow(2, LIMB * at, p) for at in range(count))] for p in layout.moduli], np.int64
    )
