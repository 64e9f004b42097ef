"""A product whose inner dimension is cut, on GPUs: residues of parts of X, added up modulo p.

The twin of `cpu/partial.py`. Pieces may lie on different processes; how they meet is not said here,
and what they know of whole lines is in `whole_lines`. Every piece is multiplied to residues of its
part of X. Whoever has those of all pieces adds them up and rounds once.

What is marked as open has to be computed in another way. Marks may be on elements that one device
would certify, and never the other way round.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from widen.bounds import Certificate
from widen.formats import BINARY
from widen.gpu import constants, units
from widen.gpu.kernels.triton.multiply import NEAR
from widen.gpu.kernels.triton.numbers import FLAGS, INEXACT, NONZEROS, REACH, STEP, WEIGHT
from widen.gpu.lines import MAGNITUDES, leads_again
from widen.gpu.multiply import products
from widen.gpu.operands import Lines, Target, Tensor, cut_table
from widen.gpu.reconstruct import ResultBlock, reconstruct
from widen.gpu.scaling import Scaling
from widen.plan import Plan
from widen.stages.problem import Problem
from widen.systems import Residues

Sides = tuple[Lines, Lines]
Tables = tuple[Tensor, Tensor]
Counts = tuple[tuple[int, int], tuple[int, int]]
"""(batch, lines) of both sides. A batch of 1 serves every item of the other side."""


@dataclass
class Sums:
    """What a piece has added up of (batch, m, n) elements.

    Residues (planes, batch, m, pitch) of its part of X, or None of nothing; and sums of magnitudes,
    or None if nobody asks for them.
    """

    shape: tuple[int, int, int]
    total: Tensor | None
    residues: Tensor | None = None

    def cut(self, items: slice, columns: slice) -> Sums:
        """The same of some batch items and columns."""
        shape = items.stop - items.start, self.shape[1], columns.stop - columns.start
        total = None if self.total is None else self.total[items, :, columns]
        residues = None if self.residues is None else self.residues[:, items, :, columns]
        return Sums(shape, total, residues)


CERTAIN = 254
"""What shares of all pieces must come to."""

SPARE = 2.0**-5
"""Share of the magnitudes that is not counted: whatever order they are summed in, it is enough."""


@dataclass(frozen=True)
class PartialSums:
    """Exact parts of X, from a stretch of both sides' lines.

    Attributes
    ----------
    problem, plan
        The product of whole lines, and the plan that all pieces agreed on.
    tables, counts
        What is known of whole lines, and how many there are.
    test
        The certificate that elements need, or None.
    """

    problem: Problem[Any]
    plan: Plan
    tables: Tables
    counts: Counts
    test: Certificate | None

    def cut(self, items: slice, rows: slice, columns: slice) -> PartialSums:
        """The same for a block of the elements."""
        tables, counts = [], []
        for table, count, lines in zip(self.tables, self.counts, (rows, columns), strict=True):
            tables.append(cut_table(table, count, items, lines))
            batch = 1 if count[0] == 1 else items.stop - items.start
            counts.append((batch, lines.stop - lines.start))
        return replace(self, tables=(tables[0], tables[1]), counts=(counts[0], counts[1]))

    @property
    def layout(self) -> Residues:
        """The moduli."""
        assert isinstance(self.plan.layout, Residues)
        assert not self.plan.layout.bases
        return self.plan.layout

    @property
    def parts(self) -> int:
        """1, or 2 for complex numbers."""
        return self.problem.fmt.parts

    @property
    def packed(self) -> int:
        """Bytes of an element's part: residues of each part of it, and a share (`_shares`)."""
        return self.parts * len(self.layout.moduli) + (self.test is not None)

    @property
    def element_bytes(self) -> int:
        """Bytes of an element that are there at one time, while it is computed or rounded."""
        return 2 * len(self.layout.products) + 6 * self.packed + (self.test is not None) * 32 + 16

    # ── where a piece is ──

    def start(self) -> Sums:
        """Nothing yet."""
        (left_batch, m), (right_batch, n) = self.counts
        shape = max(left_batch, right_batch), m, n
        total = None
        if self.test is not None:
            total = torch.zeros(shape, dtype=torch.float32, device=self.tables[0].device)
        return Sums(shape, total)

    def add(self, sums: Sums, left: Lines, right: Lines) -> None:
        """Add the products of one more stretch, which may be empty."""
        for stretch in self._stretches(left, right):
            sides = _inner(left, stretch), _inner(right, stretch)
            products = self._multiplied(sides)
            if sums.residues is None:
                sums.residues = products
            else:
                for plane, (p, _) in enumerate(constants.of_planes(self.layout)):
                    both = sums.residues[plane].to(torch.int16).add_(products[plane])
                    sums.residues[plane] = both.remainder_(p)
            if sums.total is not None:
                sums.total.add_(_products_of_magnitudes(sides, self.tables))

    def _stretches(self, left: Lines, right: Lines) -> Iterator[slice]:
        """Stretches whose planes and magnitudes half of the workspace holds."""
        entry = (len(self.layout.products) + 2) * (left.count + right.count)
        inner, step = left.shape[2], self.plan.workspace // max(1, 2 * entry) // 16 * 16
        step = max(step, 16)
        return (slice(start, min(start + step, inner)) for start in range(0, inner, step))

    def _multiplied(self, sides: Sides) -> Tensor:
        """Residues of the products of a stretch."""
        ours, theirs = units.engine_of(self.plan).encode(sides, self.tables, [0, 1])
        return products(ours, theirs, constants.of_planes(self.layout), sides[0].shape[2])

    def pack(self, sums: Sums) -> Tensor:
        """What is sent of every element, (bytes, batch, m, n)."""
        if sums.residues is None:
            nothing = torch.zeros(
                (self.packed, *sums.shape), dtype=torch.uint8, device=self.tables[0].device
            )
            return nothing
        residues = sums.residues[..., : sums.shape[2]]
        if self.parts == 2:
            residues = self._folded(residues)
        if sums.total is None:
            return residues.contiguous()
        return torch.cat([residues, self._shares(sums.total)[None]])

    def _folded(self, residues: Tensor) -> Tensor:
        """Residues of the real part and of the imaginary one, from the three products of both."""
        moduli = self._moduli(torch.int16)
        count = len(moduli)
        real = residues[:count].to(torch.int16).sub_(residues[count : 2 * count])
        imaginary = residues[2 * count :].to(torch.int16).sub_(residues[:count])
        imaginary.sub_(residues[count : 2 * count])
        both = [x.remainder_(moduli).to(torch.uint8) for x in (real, imaginary)]
        return torch.cat(both)

    def _moduli(self, dtype: torch.dtype) -> Tensor:
        """Moduli, (count, 1, 1, 1)."""
        planes = constants.of_planes(self.layout)[: len(self.layout.moduli)]
        table = constants.multiplying(planes, self.tables[0].device)
        return table.view(torch.int32)[:, 0].to(dtype).view(-1, 1, 1, 1)

    def _shares(self, total: Tensor) -> Tensor:
        """What magnitudes here give of what the certificate needs, as `cpu.kernels.wire.shares`.

        1 + floor(254 total / needed), at most 255; 0 where lines are near and share no entries
        here. What is needed is as if no entry were 0, which is more (`bounds.Certificate`).
        """
        assert self.test is not None
        ours, theirs = (
            [table[int(row)].view(batch, -1) for row in (WEIGHT, STEP, REACH)]
            for table, (batch, _) in zip(self.tables, self.counts, strict=True)
        )
        (g, h), (u, w) = ([x.view(torch.float64) for x in side[:2]] for side in (ours, theirs))
        k = self.plan.shape[2]
        u = u + (k * self.test.both + self.test.dropped) * w
        needed = g[:, :, None] * w[:, None, :]
        needed = needed + h[:, :, None] * u[:, None, :]
        factor = max(0.0, 1 - SPARE - 2.0**-22 * (k + 16))
        share = (total.double() * (factor * CERTAIN)).div_(needed)
        share.nan_to_num_(0.0).clamp_(0.0, CERTAIN).floor_().add_(1)
        share.masked_fill_(needed == 0, CERTAIN + 1)
        near = (ours[2] <= int(NEAR))[:, :, None] & (theirs[2] <= int(NEAR))[:, None, :]
        return share.masked_fill_((total == 0) & near, 0).to(torch.uint8)

    # ── where elements are rounded ──

    def unpack(self, given: Sequence[Tensor]) -> tuple[Tensor, Tensor | None]:
        """Residues of X from what all pieces packed, and marks of what is not certified."""
        count = len(self.layout.moduli)
        total = torch.zeros_like(given[0][: self.parts * count], dtype=torch.int32)
        for packed in given:
            total.add_(packed[: self.parts * count])
        moduli = self._moduli(torch.int32)
        real = total[:count].remainder_(moduli)
        streams = [real]
        if self.parts == 2:  # the imaginary part is the third stream less both others
            both = total[count:].add_(real).remainder_(moduli)
            streams = [real, torch.zeros_like(real), both]
        *shape, n = real.shape[1:]
        groups = torch.zeros(
            (len(streams) * count, *shape, -(-n // 16) * 16),
            dtype=torch.uint8, device=total.device,
        )  # fmt: skip
        for at, stream in enumerate(streams):
            groups[at * count : (at + 1) * count, ..., :n] = stream
        if self.test is None:
            return groups, None
        certain = torch.zeros(real.shape[1:], dtype=torch.int32, device=total.device)
        some = torch.zeros_like(certain, dtype=torch.bool)
        for packed in given:
            certain.add_(packed[-1].to(torch.int32).sub_(1).clamp_(0))
            some |= packed[-1] > 0
        return groups, some & (certain < CERTAIN)

    def round(self, given: Sequence[Tensor], out: Target, scaling: Scaling | None) -> Tensor:
        """Round elements once into `out`; give the marks of those that are open, as booleans."""
        groups, uncertified = self.unpack(given)
        rows, columns = (
            Lines(table[:1].view(1, *count, 1), BINARY["float64"])
            for table, count in zip(self.tables, self.counts, strict=True)
        )  # whose numbers nobody reads
        block = ResultBlock((rows, columns), self.tables, self.problem.fmt, out, self.test, scaling)
        slack = self.plan.cap is not None
        marks = reconstruct(groups, self.layout, block, None, slack=slack) != 0
        if uncertified is not None:
            marks |= uncertified
        if not self.plan.contract.correct:
            marks |= self._singles()
        return marks

    def _singles(self) -> Tensor:
        """Elements of lines that may have one entry: X is not what decides, unless it is exact."""
        singles, inexact = [], []
        for table, (batch, _) in zip(self.tables, self.counts, strict=True):
            entries = table[int(NONZEROS)].view(batch, -1)
            singles.append((entries > 0) & (entries <= self.parts))
            inexact.append((table[int(FLAGS)] & int(INEXACT) > 0).view(batch, -1))
        some, lost = (
            rows[:, :, None] | columns[:, None, :] for rows, columns in (singles, inexact)
        )
        return some & lost


def _inner(x: Lines, stretch: slice) -> Lines:
    """A stretch of the inner dimension of lines, a view."""
    return Lines(x.bits[..., stretch], x.fmt)


def _products_of_magnitudes(sides: Sides, tables: Tables) -> Tensor:
    """Sums of products of magnitudes |x| 2^-top, (batch, m, n): no more than they are.

    But for the order of float32 sums (`PartialSums._shares`).
    """
    inner, where = sides[0].shape[2], tables[0].device
    always = torch.zeros(1, dtype=torch.int64, device=where), -1
    leads = leads_again(sides, tables, MAGNITUDES, *always)
    ours, theirs = (lead[0, ..., :inner] for lead in leads)
    batch = max(len(ours), len(theirs))
    ours, theirs = (x.expand(batch, -1, -1) for x in (ours, theirs))
    if where.type == "cuda":
        return torch.bmm(ours, theirs.mT, out_dtype=torch.float32)
    return torch.bmm(ours.float(), theirs.mT.float())
