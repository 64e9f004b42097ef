"""Thin products on a GPU: one side has a few lines, and planes of the other are never written.

A product of many lines with few is a matter of bytes: planes of residues, 14 bytes a float64, are
written and read again for a few multiplications each. Here the many lines are read once more after
their survey, and become digits in registers (`kernels.triton.thin`). X is the same integer, so it
is handed on as the residues that planes would have given: all that follows is the same.

Why digits and not residues, for float64 with 14 moduli or 7 digits a side: residues of an entry
take 104 instructions, 7.4 a modulus, and 31 to scale and round it; digits take 5 of float64
arithmetic and about 20 in all (machine code for sm_90). Tensor cores multiply 49 pairs of planes
instead of 14, which costs nothing while they wait for bytes. Sums of 14 residues would take as many
registers as those of the 13 weights of digits.

Floors on an H200 in ms, from 4.0 TB/s and 1.1e15 operations of int8 a second (`mma.sync`, which is
what small tiles use); of the first, reading again and pairs were measured together, 0.65:

| m x k x n | survey | read again | pairs of digits | planes instead | residues in registers |
| --- | --- | --- | --- | --- | --- |
| 1 x 16384 x 16384, as 8 lines | 1.14 | 0.54 | 0.19 | 2.42 | 1.53 |
| 16 x 16384 x 16384 | 1.14 | 0.54 | 0.38 | 2.42 | 1.53 |
| 64 x 8192 x 8192 | 0.29 | 0.13 | 0.38 | 0.60 | 0.38 |
| 100 x 10000 x 10000, as 112 lines | 0.42 | 0.20 | 1.00 | 0.90 | 0.57 |

The survey reads 16 bytes an entry and writes one; planes are 8 + 14 + 14 bytes. So digits win where
bytes decide, up to some 20 lines. With more each 16 lines read and round all entries again, from
L2, beside 7 bytes of planes for 16 of theirs: 64 x 8192 x 8192 asks 3.1 GB of it, 0.56 ms at 5.5
TB/s, and 112 lines lose. Only up to 8 lines have been timed (`tiles.THIN_LINES`). Residues in
registers would do better there, but sums for so many lines fill the registers four times over.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import torch

from widen.gpu import constants, tiles
from widen.gpu.kernels.triton import thin as kernels
from widen.gpu.operands import Lines, Tensor
from widen.gpu.replay.launch import assembly, launch
from widen.gpu.units import Engine
from widen.plan import Plan
from widen.stages.problem import Problem
from widen.systems import Residues
from widen.systems.digits import digit_count, digits

BETA = 8
"""Bits of a digit."""

COUNTS = (4, 7, 8)
"""Digits a side, which kernels are compiled for; both sides have as many."""

MOST_SHARES = 127
"""Shares of the inner dimension whose limbs an int64 sums (`kernels.triton.thin.products`)."""


SUM_BYTES = 8 * 4 * 8
"""Of an element: limbs of 8 shares. More shares are of results with few elements."""


def is_thin(problem: Problem[Lines], sides: tuple[Lines, Lines]) -> bool:
    """Whether a product has few lines on one side and many on the other, all read as floats.

    If its plan then has residues of int8, and `digit_count_of` finds digits, it is multiplied here.
    """
    batch, m, k, n = problem.shape
    few, many = sorted((m, n))
    plain = all(x.block is None and x.bits.shape[0] == 1 for x in sides)
    return (
        few <= tiles.THIN_LINES
        and tiles.THIN_RATIO * few <= many
        and k > tiles.VERY_SHORT
        and k <= MOST_SHARES * longest_share(max(COUNTS))
        and sides[_many(problem.shape)].count * k >= tiles.THIN_NUMBERS
        and batch * m * n * SUM_BYTES <= problem.workspace // 4
        and plain
        and not problem.encoded
    )


def _many(shape: tuple[int, ...]) -> int:
    """The side with many lines: 0 for rows, 1 for columns."""
    return int(shape[3] >= shape[1])


def digit_count_of(plan: Plan, widths: tuple[int, int]) -> int:
    """How many digits both sides are given, for |a'| and |b'| up to 2^width; 0: not here."""
    layout = plan.layout
    if plan.unit != "int8" or not isinstance(layout, Residues) or layout.bases:
        return 0
    wanted = digit_count(max(*widths, 1), BETA)
    return next((count for count in COUNTS if count >= wanted), 0)


def longest_share(count: int) -> int:
    """Entries whose products of digits fit an int32 where so many pairs have the same weight."""
    return ((1 << 31) - 1) // (count << (2 * BETA - 2)) // 256 * 256


def share_of(inner: int, blocks: int, step: int, most: int) -> int:
    """Entries of a line that one program reads, a multiple of `step` and no more than `most`."""
    shares = max(1, tiles.THIN_PROGRAMS // blocks, -(-inner // most))
    return -(-inner // (min(shares, -(-inner // step)) * step)) * step


@dataclass(frozen=True)
class ThinProduct:
    """A block of a product with few lines on one side, and digits a side."""

    sides: tuple[Lines, Lines]
    tables: tuple[Tensor, Tensor]
    count: int

    @cached_property
    def many(self) -> int:
        """The side with many lines."""
        left, right = self.sides
        return _many((1, left.shape[1], 1, right.shape[1]))

    @cached_property
    def batch(self) -> int:
        """Products of matrices."""
        return max(x.shape[0] for x in self.sides)

    @cached_property
    def blocks(self) -> int:
        """Programs of one share of the inner dimension."""
        many, few = self.sides[self.many].shape[1], self.sides[1 - self.many].shape[1]
        return self.batch * -(-many // tiles.THIN_TILE.lines) * -(-few // tiles.THIN_TILE.few)

    @cached_property
    def share(self) -> int:
        """Entries of a line that one program reads."""
        inner = self.sides[0].shape[2]
        return share_of(inner, self.blocks, tiles.THIN_TILE.inner, longest_share(self.count))

    @cached_property
    def limbs(self) -> int:
        """Limbs of the sum of a share."""
        return -(-(2 * self.count - 1) // int(kernels.LIMB))

    @cached_property
    def sizes(self) -> dict[str, int]:
        """As kernels name them."""
        many, few = self.sides[self.many].shape[1], self.sides[1 - self.many].shape[1]
        return {"lines": many, "few": few, "batch": self.batch}

    def encode(self) -> Tensor:
        """Planes of digits of the few lines, (digits, batch, lines, pitch)."""
        few = 1 - self.many
        k = self.sides[few].shape[2]
        width = BETA * self.count - 2
        layout = digits(1 << (BETA - 1), (width, width), 1, k, self.count, 0)
        engine = Engine("int8", layout, k, 2.0 * width, k)
        return engine.encode([self.sides[few]], [self.tables[few]], [few])[0]

    def sums(self, planes: Tensor) -> Tensor:
        """Limbs of X of every share, (shares, limbs, batch, many lines, few lines)."""
        x, tile, device = self.sides[self.many].paired, tiles.THIN_TILE, planes.device
        inner = x.shape[2]
        shares = -(-inner // self.share)
        shape = (shares, self.limbs, self.batch, self.sizes["lines"], self.sizes["few"])
        sums = torch.empty(shape, dtype=torch.int64, device=device)
        launch(
            kernels.products, (self.blocks * shares,),
            {
                **x.named_pairs, **self.sizes, "table": self.tables[self.many], "count": x.count,
                "planes": planes, "plane_stride": planes.stride(0), "pitch": planes.shape[3],
                "sums": sums, "inner": inner, "share": self.share, "many_batch": x.shape[0],
                "few_batch": planes.shape[1], "FRACTION": x.fields[0], "DIGITS": self.count,
                "LINES": tile.lines, "FEW": tile.few, "INNER": tile.inner,
                "ASSEMBLY": assembly(device),
            },
            warps=tile.warps, stages=tile.stages, loose=x.loose(even=x.even),
        )  # fmt: skip
        return sums

    def multiply(self, planes: Tensor, layout: Residues) -> tuple[Tensor, int]:
        """What `gpu.multiply.multiply` gives, bytes (planes, batch, m, pitch); bytes on the way."""
        sums, moduli = self.sums(planes), constants.of_planes(layout)
        m, n = (x.shape[1] for x in self.sides)
        pitch = -(-n // 16) * 16
        shape = (len(moduli), self.batch, m, pitch)
        out = torch.empty(shape, dtype=torch.uint8, device=planes.device)
        line_stride, few_stride = (pitch, 1) if self.many == 0 else (1, pitch)
        many, few = tiles.THIN_RESIDUES
        grid = -(-self.sizes["lines"] // many) * -(-self.sizes["few"] // few)
        launch(
            kernels.residues, (self.batch * grid,),
            {
                **self.sizes, "sums": sums, "out": out, "shares": len(sums), "LIMBS": self.limbs,
                "constants": constants.of_limbs(moduli, self.limbs, planes.device),
                "moduli": len(moduli), "stride": out.stride(0), "batch_stride": out.stride(1),
                "line_stride": line_stride, "few_stride": few_stride, "LINES": many, "FEW": few,
            },
        )  # fmt: skip
        return out, sums.nbytes + out.nbytes
