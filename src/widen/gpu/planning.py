"""Plans on a GPU: what numbers read from the device decide, planes and blocks."""

from __future__ import annotations

import math
import operator
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import NamedTuple

from widen import bounds
from widen.contract import Contract
from widen.formats import Format
from widen.gpu import exact_products
from widen.gpu.constants import BYTE_BITS, MOST_BITS
from widen.gpu.units import in_blocks, lead_planes
from widen.plan import Plan
from widen.planner import Needs, every_bit_is_kept, make_plan, unit_on_gpu
from widen.systems import Residues

SHORT_LEAD_BITS = {1: 6, 2: 5}
"""Leading integers floor(|x| 2^(f - top)) fit an int8, summed over the parts of a number."""

LONG_LEAD_BITS = {1: 13, 2: 12}
"""The same for lines whose largest number is far above the others: integers in two planes."""


def first_kept(k: int, parts: int) -> int:
    """Bits of leading integers before anything is known of the lines; more may be wanted later."""
    return (SHORT_LEAD_BITS if lead_planes(k) == 1 else LONG_LEAD_BITS)[parts]


class Side(NamedTuple):
    """What a side needs, as `gpu.kernels.triton.quantise.scale` leaves it."""

    norm: int
    sigma: int
    flags: int
    sparse: int
    inverse: int


def first_look(sides: list[Side], k: int, parts: int, *, dropped: bool = False) -> int:
    """Terms of |A||B| that should certify every element of lines that know nothing of each other.

    With V and U shares c and d of the goal, an element needs (1/c + 1/d)/8 of ||a||_1 ||b||_1 / k
    (complex numbers sqrt(2) of it). Products left out are an eighth of the goal at most, which is
    a quarter more. Leading integers of mean l lose 1/(2 l) to rounding; four standard deviations
    and a tenth more are added. An element that is left open is tested again. More terms than there
    are means that integers this short will not do; where every line is exact one term is as good as
    none, and a sum of none is no product.
    """
    wanted = sum(side.inverse for side in sides) / 65536 / 8 * math.sqrt(parts)
    wanted *= 1.25 if dropped else 1.0
    for side in sides:
        mean = 2.0 ** (24 + SHORT_LEAD_BITS[parts] - bounds.NORM_BITS) / max(side.sparse, 1)
        wanted /= max(1 - 0.5 / mean, 0.1)
    terms = wanted * k
    return max(math.ceil(1.1 * terms + 4 * math.sqrt(terms)), 1)


def skewed(sides: list[Side], entries: int) -> bool:
    """Whether some line's largest number is so far above its mean that many elements may stay open.

    Rows whose weight is in few numbers meet columns whose weight is elsewhere. The largest of
    thousands of numbers (rand - 0.5) exp(randn) is some 80 times their mean.
    """
    ratio = max(side.sparse for side in sides) / (1 << (24 - bounds.NORM_BITS))
    return ratio > min(256.0, entries / 2)


@dataclass(frozen=True)
class Choice:
    """What the needs of two operands decide.

    Attributes
    ----------
    taken
        Which of the caps.
    kept
        Bits of leading integers beside the first.
    terms
        How many of them the certificate looks at first.
    plan
        The planes, and the blocks.
    many
        Whether many elements may stay open: the device is then asked how many.
    """

    taken: int
    kept: int
    terms: int
    plan: Plan
    many_open: bool

    @property
    def key(self) -> tuple[int, ...]:
        """Choices with equal keys are as good as each other."""
        notch = 16 * self.terms // max(self.plan.shape[2], 1)
        return self.taken, self.kept, self.many_open, notch, *self.plan.layout.planes

    def covers(self, other: Choice) -> bool:
        """Whether it does what another choice would: as many planes, of the same integers.

        Lists of moduli and of digits begin alike. A first look that is too short only costs time.
        """
        ours, theirs = self.plan, other.plan
        same = (self.taken, self.kept, self.many_open) == (other.taken, other.kept, other.many_open)
        same &= ours.blocks == theirs.blocks
        return same and all(map(operator.ge, ours.layout.planes, theirs.layout.planes))


@dataclass(frozen=True)
class Question:
    """What a choice depends on beside the needs."""

    contract: Contract
    fmt: Format
    shape: tuple[int, int, int, int]
    caps: tuple[int | None, ...]
    workspace: int
    certified: bool
    layout: Residues | None = None
    unit: str | None = None
    system: str | None = None
    gpu: str = ""
    wide: bool = False
    """Whether numbers have several words: moduli in two digits may then follow the bytes."""

    @property
    def most(self) -> float:
        """Bits of X that planes may hold."""
        return MOST_BITS if self.wide else BYTE_BITS

    def decide(self, needs: list[list[list[int]]]) -> Choice:
        """The choice for `needs`, (caps, sides, 5), as the kernel `lines.scale` leaves them."""
        k, parts = self.shape[2], self.fmt.parts
        read = [[Side(*side) for side in pair] for pair in needs]
        bits = [sum(side.norm for side in pair) / 256 for pair in read]
        taken = 0
        if len(self.caps) > 1 and not (
            every_bit_is_kept(bits[0], bits[1], "gpu") and bits[0] <= self.most
        ):
            taken = 1
        cap, (left, right) = self.caps[taken], (side.sigma + 1 for side in read[taken])
        plan = self.plan(bits[taken], cap, (left, right))
        terms = first_look(read[taken], k, parts, dropped=plan.layout.dropped > 0)
        long = self.certified and terms > k
        kept = LONG_LEAD_BITS[parts] if long else first_kept(k, parts)
        many_open = cap is not None or (long and skewed(read[taken], k * parts))
        many_open &= not self.wide and math.prod(self.shape) > exact_products.FEWEST_TERMS
        return Choice(taken, kept, min(terms, k), plan, many_open)

    def widest(self, held: tuple[int | None, int | None] = (None, None)) -> Plan:
        """The plan that serves any lines at their goal; some are known to be `held` by less."""
        goal = bounds.goal(
            self.contract, self.fmt.precision, self.shape[2], self.fmt.parts, self.caps[0]
        )
        assert goal is not None
        largest = math.log2(goal.root) + goal.shift
        widest = max(math.ceil(largest + 1), 1)
        left, right = (widest if width is None else width for width in held)
        return self.plan(2 * largest + 0.01, self.caps[0], (left, right))

    def plan(self, bits: float, cap: int | None, widths: tuple[int, int]) -> Plan:
        """The plan for |X| < 2^bits, and |a'|, |b'| <= 2^widths."""
        eighths = math.ceil(8 * min(max(bits, 0.0), self.most))
        if self.system in (None, "residues"):
            widths = (1, 1)
        return cached_plan(self, eighths, cap, widths)


@lru_cache(maxsize=1024)
def cached_plan(asked: Question, eighths: int, cap: int | None, widths: tuple[int, int]) -> Plan:
    """The plan for |X| < 2^(eighths/8) and |a'|, |b'| <= 2^widths, or for an encoded layout."""
    half = eighths / 16
    name, reason = unit_on_gpu(asked.unit, asked.gpu, asked.fmt.precision)
    plan = make_plan(
        asked.contract, asked.fmt, asked.shape, Needs((half, half), widths), unit=name,
        system=asked.system or "residues", cap=cap, workspace=asked.workspace,
    )  # fmt: skip
    reasons = (reason, *plan.why[2 if asked.system is None else 1 :])
    return in_blocks(replace(plan, layout=asked.layout or plan.layout, why=reasons))
