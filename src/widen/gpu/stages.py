"""The stages of a product on a GPU: one plan, one stream, one small read of the device.

The plan is made from that read. Nothing else here waits for the device: kernels go to the current
stream, memory comes from PyTorch.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Any

import torch

from widen.encoded import Encoded
from widen.gpu import planned
from widen.gpu.block import Stages
from widen.gpu.certify import Counts, Largest
from widen.gpu.clock import Clock
from widen.gpu.encode import held
from widen.gpu.exact_products import (
    fewest_terms,
)
from widen.gpu.lines import HOPELESS, OPEN, find_spans, leads_again, survey_all, surveyed
from widen.gpu.lines import quantise as quantise_lines
from widen.gpu.operands import (
    Lines,
    Target,
    Tensor,
    cut,
    cut_table,
)
from widen.gpu.outlook import judge
from widen.gpu.planning import first_kept, held_widths, is_wide, question_of
from widen.gpu.replay import recording
from widen.gpu.scaling import Scaling
from widen.gpu.thin import is_thin
from widen.gpu.units import in_blocks, name_of
from widen.plan import Plan
from widen.planner import block_slices, first_cap
from widen.stages.backend import Block
from widen.stages.problem import Account, Problem

MORE_BITS = 6
"""More than the first cap, for "correct": a GPU has planes for less than dot products."""


def quantise(
    problem: Problem[Lines], account: Account, known: tuple[Tensor, Tensor] | None = None
) -> Prepared:
    """Exponents of all rows and columns, and the plan for the planes they need.

    A plan made beforehand, and an integer contract, need no read of the device here: what their
    planes do not hold is marked element by element. Lines with `known` tables are not surveyed.
    """
    assert isinstance(account, Clock)
    fmt, contract, k, test = problem.work, problem.contract, problem.shape[2], problem.test
    cap = first_cap(fmt.precision, k) if contract.correct else None
    caps: tuple[int | None, ...] = (cap,)
    if cap is not None and not problem.encoded:
        caps = (None, cap + MORE_BITS)
    if problem.plan is not None and not problem.encoded:  # whose planes have their own cap
        caps = (problem.plan.cap,)
    ours, theirs = (held(x).operand if isinstance(x, Encoded) else x for x in problem.sources)
    sides, kept = (ours, theirs), first_kept(k, fmt.parts)
    goals = [problem.goal(cap) for cap in caps]
    if known is None:
        surveys = survey_all(problem.sources, test, kept, goals)
    else:
        surveys = surveyed(known, len(goals))
    choices = []
    for at, goal in enumerate(goals):
        rows, columns = (table.clone() if at > 0 else table for table in surveys.tables)
        quantise_lines(sides, (rows, columns), goal, test, surveys.needs[at].unbind())
        choices.append((rows, columns))
    large = math.prod(problem.shape) > fewest_terms(sides)
    if large and caps[0] is None and caps[-1] is not None and problem.scaling is None:
        judge(sides, choices[-1], problem.work, surveys.needs[-1, 0, HOPELESS:])
    wide = is_wide(problem, sides)
    gpu, fewest = name_of(ours.bits.device.index), fewest_terms(sides)
    thin = is_thin(problem, sides)
    question = question_of(problem, caps, gpu, wide=wide, fewest=fewest, thin=thin)
    given = Prepared(
        problem, account, sides, wide, choices[0], surveys.leads, kept, k, surveys.repaired,
        Counts(*(needs[OPEN:] for needs in surveys.needs[0])),
    )  # fmt: skip
    given.every_bit = choices[0] if goals[0] is None else None
    if problem.plan is not None:
        # Batches may have been merged since, so blocks are cut anew.
        own = replace(problem.plan, cap=caps[0], shape=problem.shape, result=fmt.name)
        given.plan = in_blocks(replace(own, workspace=problem.workspace))
        if test is not None and given.plan.system == "triangle":
            # Nothing would be left out of what is not held.
            given.plan = question.widest(held_widths(problem))
        given.waits = planned.may_wait(problem, given.plan, sides, fewest)
        return given.begun()
    if contract.name == "bits":
        given.plan = question.widest()
        return given.begun()
    choice = recording.decided(surveys.needs, question.decide)
    if choice.kept != kept:
        doubtful = given.counts.doubtful
        given.leads = leads_again(sides, choices[choice.taken], choice.kept, doubtful)
    given.tables, given.kept, given.terms = choices[choice.taken], choice.kept, choice.terms
    given.plan, given.zeros, given.hopeless = choice.plan, choice.zeros, choice.hopeless
    given.digits = choice.digits
    return given.begun()


@dataclass
class Prepared:
    """What is known before blocks are computed: tables of lines, leading integers, the plan.

    Attributes
    ----------
    sides, tables, leads
        Rows and columns, encoded or not; what is known of them.
    wide
        Whether numbers of several words are read or written.
    kept, terms
        Bits of leading integers beside the first, and how many of them are looked at first.
    repaired
        How many elements were repaired, on the device.
    counts
        What certificates count.
    zeros
        Whether a line may have zeros.
    hopeless
        Whether planes would leave about every element open, and are not multiplied.
    columns
        Which columns have planes that stay while blocks of rows pass, and these planes.
    largest
        The largest bound of an element so far, if anybody asks for bounds.
    every_bit
        Tables of the lines scaled to their last bits, if "correct" has looked for these.
    waits
        Whether a plan made beforehand is given up where it leaves many elements open.
    digits
        Of both sides where one has few lines (`gpu.thin`), or 0.
    """

    problem: Problem[Lines]
    account: Clock
    sides: tuple[Lines, Lines]
    wide: bool
    tables: tuple[Tensor, Tensor]
    leads: tuple[Tensor, Tensor] | None
    kept: int
    terms: int
    repaired: Tensor
    counts: Counts
    zeros: bool = True
    hopeless: bool = False
    columns: tuple[Any, Tensor] | None = None
    largest: Largest | None = None
    every_bit: tuple[Tensor, Tensor] | None = None
    waits: bool = False
    digits: int = 0
    plan: Plan = field(init=False)

    def begun(self) -> Prepared:
        """Itself; launches of several blocks are not recorded."""
        if self.zeros:
            find_spans(self.sides, self.tables)
        recorder = recording.listener()
        if recorder is not None:
            batch, m, _, n = self.plan.shape
            everything = slice(0, batch), slice(0, m), slice(0, n)
            if next(block_slices(self.plan), None) != everything:
                recorder.give_up()
        return self

    def stages(self, block: Block, out: Target) -> Stages:
        """The stages of a block of the result, which goes to its place in `out`."""
        batch, *pieces = block
        ours, theirs = (x.cut(batch, piece) for x, piece in zip(self.sides, pieces, strict=True))
        rows, columns = self.cut_tables(self.tables, block)
        scaling = None
        if self.problem.scaling is not None:
            assert isinstance(self.problem.scaling, Scaling)
            scaling = self.problem.scaling.taken(pieces[0], pieces[1], batch)
        return Stages(self, block, (ours, theirs), (rows, columns), cut(out, *block), scaling)

    def computed(self, out: Target) -> Tensor:
        """Marks of all elements, which go to `out`; those that were repaired have theirs."""
        marks = torch.empty(out.shape[1:], dtype=torch.uint8, device=out.device)
        for block in block_slices(self.plan):
            stages = self.stages(block, out)
            marks[block] = stages.repair(stages.counted(stages.rounded()))
        return marks

    def rounded(self, out: Target) -> Tensor:
        """The same without repair."""
        first, *others = block_slices(self.plan)
        final = self.stages(first, out).rounded()
        if not others:
            return final
        marks = torch.empty(out.shape[1:], dtype=torch.uint8, device=out.device)
        marks[first] = final
        for block in others:
            marks[block] = self.stages(block, out).rounded()
        return marks

    def cut_tables(self, tables: tuple[Tensor, Tensor], block: Block) -> tuple[Tensor, Tensor]:
        """What is known of the lines of a block."""
        batch, *pieces = block
        rows, columns = (
            cut_table(table, side.shape, batch, piece)
            for table, side, piece in zip(tables, self.sides, pieces, strict=True)
        )
        return rows, columns

    def again(
        self, problem: Problem[Lines], known: tuple[Tensor, Tensor] | None = None
    ) -> Prepared:
        """Lines of this product, prepared for another one; their tables may be known."""
        return quantise(problem, Clock(timed=False), known)

    def wait(self) -> None:
        """Wait until what was launched is done."""
        torch.cuda.current_stream(self.repaired.device).synchronize()

    def finish(self) -> None:
        """Complete the account, if anybody wants to know."""
        if self.largest is not None:
            self.account.add_bounds(float(self.largest.bound), int(self.largest.finite))
        if self.account.timed:
            self.account.read()
            self.account.repaired += int(self.repaired[0])
