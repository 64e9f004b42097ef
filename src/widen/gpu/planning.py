"""Plans on a GPU: what numbers read from the device decide, planes and blocks."""

from __future__ import annotations

import math
import operator
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import NamedTuple

from widen import bounds
from widen.contract import Contract
from widen.encoded import Encoded
from widen.formats import Format
from widen.gpu import outlook
from widen.gpu.constants import BYTE_BITS, MOST_BITS
from widen.gpu.kernels.triton.quantise import HARD, HEAVY, ZEROS
from widen.gpu.lines import MAGNITUDES, SATURATED
from widen.gpu.operands import Lines
from widen.gpu.thin import digit_count_of
from widen.gpu.units import in_blocks
from widen.plan import Plan
from widen.planner import Needs, every_bit_is_kept, make_plan, unit_on_gpu
from widen.stages.problem import Problem
from widen.systems import Digits, Residues

SHORT_LEAD_BITS = {1: 6, 2: 5}
"""Leading integers floor(|x| 2^(f - top)) fit an int8, summed over the parts of a number."""


SHORT_FOR_LEADS = 64
"""Lines up to so long have magnitudes from the start: their leading integers would mostly leave
something open. Of random numbers, (rand - 0.5) exp(0.5 randn), `first_look` asks for all 64 of 64
terms, 89 of 100 and 102 of 128.
"""


def first_kept(k: int, parts: int) -> int:
    """Bits of leading integers before anything is known of the lines; or magnitudes at once."""
    return SHORT_LEAD_BITS[parts] if k > SHORT_FOR_LEADS else MAGNITUDES


FEW, MANY, ALL = range(3)
"""How many terms are left open: few, more than dot products are for, all or nearly all."""

LEAST_WORK = 1 << 33
"""Multiplications from which on looks at a part are worth two more launches: at leads of numbers
near the mean, or at the first terms alone. Those may be the least of a line: U of LU grows.
"""


def openness(open_terms: int, terms: int, fewest: int) -> int:
    """How many of all terms are open, given up to how many dot products are for.

    Those that are not open where nearly all are take dot products, too: half as many at most, which
    take about as long as a first product at n = 4096.

    >>> [openness(x, 1000, fewest=100) for x in (100, 101, 949, 950)], openness(501, 1000, 500)
    ([0, 1, 1, 2], 1)
    """
    if open_terms <= fewest:
        return FEW
    return ALL if terms - open_terms <= min(fewest // 2, terms // 4) else MANY


class Side(NamedTuple):
    """What a side needs, as `gpu.kernels.triton.quantise.scale` leaves it."""

    norm: int
    sigma: int
    flags: int
    sparse: int
    inverse: int
    kinds: int
    open_terms: int
    hopeless: int = 0


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
    open
        How many terms are left open, where that is known already: `FEW`, `MANY`, or `ALL`.
    zeros
        Whether a line has zeros.
    hopeless
        Whether these planes would leave about every element open.
    digits
        Digits of both sides where one has few lines (`gpu.thin`), or 0.
    """

    taken: int
    kept: int
    terms: int
    plan: Plan
    open: int
    zeros: bool
    hopeless: bool
    digits: int

    @property
    def key(self) -> tuple[int, ...]:
        """Choices with equal keys are as good as each other."""
        notch = 16 * self.terms // max(self.plan.shape[2], 1)
        known = self.taken, self.kept, self.open, self.zeros, self.hopeless, self.digits
        return *known, notch, *self.plan.layout.planes

    def covers(self, other: Choice) -> bool:
        """Whether it does what another choice would: as many planes, of the same integers.

        Lists of moduli and of digits begin alike. A first look that is too short only costs time.
        """
        ours, theirs = ((x.taken, x.kept, x.open, x.zeros, x.hopeless) for x in (self, other))
        same = ours == theirs
        same &= self.plan.blocks == other.plan.blocks
        same &= self.digits == 0 or self.digits >= other.digits > 0
        planes = self.plan.layout.planes, other.plan.layout.planes
        return same and all(map(operator.ge, *planes))


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
    fewest: int = 0
    """Terms of elements that are repaired by products, at least (`exact_products`)."""
    thin: bool = False
    """Whether one side has few lines (`gpu.thin.is_thin`)."""

    @property
    def most(self) -> float:
        """Bits of X that planes may hold."""
        return MOST_BITS if self.wide else BYTE_BITS

    def decide(self, needs: list[list[list[int]]]) -> Choice:
        """The choice for `needs`, (caps, sides, 8), as the kernel `quantise.scale` leaves them."""
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
        kinds = read[taken][0].kinds | read[taken][1].kinds
        kept = first_kept(k, parts)
        few = math.prod(self.shape) < LEAST_WORK
        if self.certified and (terms > k or kinds & int(HARD) > 0):
            plain = self.wide or few or kinds & int(HEAVY) > 0 or kept == MAGNITUDES
            kept, terms = MAGNITUDES if plain else kept + SATURATED, k
        elif terms > 1 and (self.wide or few):  # the first may be the least of a line
            terms = k
        hopeless = self.contract.correct and read[taken][0].hopeless >= outlook.MOST
        return Choice(
            taken, kept, min(terms, k), plan,
            openness(read[0][0].open_terms, math.prod(self.shape), self.fewest),
            kinds & int(ZEROS) > 0, hopeless,
            digit_count_of(plan, (left, right)) if self.thin else 0,
        )  # fmt: skip

    def widest(self, held: tuple[int | None, int | None] = (None, None)) -> Plan:
        """The plan that serves any lines at their goal; some are known to be `held` by less."""
        goal = bounds.goal(
            self.contract, self.fmt.precision, self.shape[2], self.fmt.parts, self.caps[0]
        )
        assert goal is not None
        largest = float(bounds.highest(goal)) if goal.spread else math.log2(goal.root) + goal.shift
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


def is_wide(problem: Problem[Lines], sides: tuple[Lines, Lines]) -> bool:
    """Whether numbers of several words are read or written."""
    addend = None if problem.scaling is None else problem.scaling.addend
    read = [x.block is not None for x in (*sides, addend) if x is not None]
    return len(problem.fmt.part.words) > 1 or any(read)


def held_widths(problem: Problem[Lines]) -> tuple[int | None, int | None]:
    """Widths of the integers that operands with their planes are known to have."""
    left, right = (
        source.layout.held[at]
        if isinstance(source, Encoded) and isinstance(source.layout, Digits)
        else None
        for at, source in enumerate(problem.sources)
    )
    return left, right


def question_of(
    problem: Problem[Lines], caps: tuple[int | None, ...], gpu: str, *, wide: bool, fewest: int,
    thin: bool,
) -> Question:  # fmt: skip
    """What is to be decided. It holds no tensors."""
    layouts = [x.layout for x in problem.encoded if isinstance(x.layout, Residues)]
    layout = min(layouts, key=lambda x: x.planes) if problem.fmt.parts == 2 and layouts else None
    return Question(
        problem.contract, problem.work, problem.shape, caps, problem.workspace,
        problem.test is not None, layout, problem.unit, problem.system, gpu, wide,
        fewest, thin,
    )  # fmt: skip
