"""The stages of a product on a GPU: one plan, one stream, one small read of the device.

The plan is made from that read. Nothing else here waits for the device: kernels go to the current
stream, memory comes from PyTorch.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Any

import torch

from widen.contract import CONTRACTS
from widen.encoded import Encoded
from widen.gpu import planned, units
from widen.gpu.certify import Counts, Largest, certify, error_bound
from widen.gpu.clock import Clock
from widen.gpu.encode import held
from widen.gpu.exact_products import exact_product, fewest_terms, repair_by_products
from widen.gpu.lines import MAGNITUDES, OPEN, find_spans, leads_again, survey_all
from widen.gpu.lines import quantise as quantise_lines
from widen.gpu.multiply import scratch_bytes
from widen.gpu.operands import (
    Groups,
    Lines,
    Target,
    Tensor,
    cut,
    cut_planes,
    cut_table,
    first_words,
)
from widen.gpu.planning import first_kept, held_widths, is_wide, question_of
from widen.gpu.reconstruct import ResultBlock, reconstruct
from widen.gpu.repair import REPAIRED, count, repair, round_singles
from widen.gpu.replay import recording
from widen.gpu.scaling import Scaling
from widen.gpu.thin import ThinProduct, is_thin
from widen.gpu.units import in_blocks, name_of
from widen.plan import Plan
from widen.planner import block_slices, first_cap
from widen.stages.backend import Block
from widen.stages.error_bounds import terms_of
from widen.stages.problem import Account, Problem

Planes = tuple[Tensor, ...]
"""Planes of rows and of columns, (planes, batch, lines, pitch); thin: of the few lines alone."""

MORE_BITS = 6
"""More than the first cap, for "correct": a GPU has planes for less than dot products."""


def quantise(problem: Problem[Lines], account: Account) -> Prepared:
    """Exponents of all rows and columns, and the plan for the planes they need.

    A plan made beforehand, and an integer contract, need no read of the device here: what their
    planes do not hold is marked element by element.
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
    surveys = survey_all(problem.sources, test, kept, goals)
    choices = []
    for at, goal in enumerate(goals):
        rows, columns = (table.clone() if at > 0 else table for table in surveys.tables)
        quantise_lines(sides, (rows, columns), goal, test, surveys.needs[at].unbind())
        choices.append((rows, columns))
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
    given.plan, given.zeros, given.digits = choice.plan, choice.zeros, choice.digits
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
            open_so_far, planes = stages.certify(), stages.encode(slice(0, stages.k))
            final = stages.reconstruct(stages.multiply(planes, None), open_so_far)
            marks[block] = stages.repair(final)
        return marks

    def cut_tables(self, tables: tuple[Tensor, Tensor], block: Block) -> tuple[Tensor, Tensor]:
        """What is known of the lines of a block."""
        batch, *pieces = block
        rows, columns = (
            cut_table(table, side.shape, batch, piece)
            for table, side, piece in zip(tables, self.sides, pieces, strict=True)
        )
        return rows, columns

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


@dataclass
class Stages:
    """The stages of one block: its lines, their tables, and where its elements go."""

    product: Prepared
    block: Block
    sides: tuple[Lines, Lines]
    tables: tuple[Tensor, Tensor]
    out: Target
    scaling: Scaling | None

    def __post_init__(self) -> None:
        problem, self.plan = self.product.problem, self.product.plan
        self.fmt, self.k = problem.fmt, problem.shape[2]
        self.wide, self.workspace = self.product.wide, problem.workspace
        self.test = problem.test_of(self.plan.layout.dropped)
        self.engine = units.engine_of(self.plan)
        self.fitted = self.engine.fitted(self.tables)
        self.used, self.passing, digits = 0, 0, self.product.digits
        self.thin = ThinProduct(self.sides, self.tables, digits) if digits else None

    def certify(self) -> Tensor | None:
        """Marks of the elements that the contract's certificate leaves open, so far."""
        whole, batch = self.product.leads, self.block[0]
        if whole is None or self.test is None:
            return None
        pieces = self.block[1:]
        left, right = (cut_planes(x, batch, piece) for x, piece in zip(whole, pieces, strict=True))
        product = self.product
        return certify(
            left, right, self.fitted, self.k, self.test, fmt=product.problem.work,
            kept=product.kept, terms=product.terms, counts=product.counts, sides=self.sides,
        )  # fmt: skip

    def encode(self, inner: slice) -> Planes:
        """Planes of the block's rows and columns, which are never cut along the inner dimension.

        Those of columns stay while blocks of rows pass. Both are encoded together if neither is
        there.
        """
        if self.thin is not None:
            return (self.thin.encode(),)
        batch, *pieces = self.block
        kept, self.product.columns = self.product.columns, None
        if kept is not None and kept[0] != (batch, pieces[1]):
            kept = None  # their memory is free before others are encoded
        planes: list[Tensor | None] = [None, None if kept is None else kept[1]]
        for at, source in enumerate(self.product.problem.sources):
            if not isinstance(source, Encoded) or planes[at] is not None:
                continue
            own, layout = source.layout, self.engine.layout
            if own.holds(layout, at):  # otherwise it is encoded anew
                chosen = units.planes_for(held(source).planes, own, layout, at)
                planes[at] = cut_planes(chosen, batch, pieces[at])
        todo = [at for at in range(2) if planes[at] is None]
        if todo:
            new = self.engine.encode(
                [self.sides[at] for at in todo], [self.tables[at] for at in todo], todo
            )
            for at, made in zip(todo, new, strict=True):
                planes[at] = made
        ours, theirs = planes
        assert ours is not None
        assert theirs is not None
        self.product.columns = ((batch, pieces[1]), theirs)
        return ours, theirs

    def multiply(self, planes: Planes, groups: Tensor | Groups | None) -> Tensor | Groups:
        """Residues of X."""
        assert groups is None, "the inner dimension is not cut"
        if self.plan.cap is None:
            recording.read_here()  # the device multiplies while what the plan depends on is read
        elements = math.prod(self.out.shape[1:])
        kept = (*self.product.tables, *(self.product.leads or ()), planes[-1])
        self.used = sum(x.nbytes for x in kept) + elements  # marks
        if self.thin is not None:
            residues, self.passing = self.thin.multiply(planes[-1], self.engine.carrier)
            return residues
        left, right = planes
        room = self.workspace - self.used - left.nbytes - self.engine.element_bytes * elements
        halves = self.engine.halves_at_once(left, right, room)
        product = self.engine.multiply(left, right, halves)
        self.passing = left.nbytes + product.nbytes + self.engine.passing_bytes * elements
        self.passing += scratch_bytes(left, right, self.k, halves)
        return product

    def reconstruct(self, groups: Tensor | Groups, marks: Tensor | None) -> Tensor:
        """Round every element once; give the marks of those that are not final."""
        result, slack = self._result(self.fitted), self.plan.cap is not None
        final = reconstruct(groups, self.engine.carrier, result, marks, slack=slack)
        if slack:
            count(final, self.k, self.product.counts.open_terms)
            recording.read_here()
        self._account(self.passing)
        return final

    def repair(self, marks: Tensor) -> Tensor:
        """Make every element final; give a mask of those that were repaired."""
        product, result = self.product, self._result(self.fitted)
        if not product.waits:
            recording.check_here()  # launches from here on wait until the plan was found right
        if product.zeros and not self.plan.contract.correct:
            round_singles(result, marks)
        if product.waits and planned.many_are_open(marks, fewest_terms(self.sides) // self.k):
            return self._by_another_plan(result)
        if self._many_are_open():
            room = max(self.workspace - self.used, self.workspace // 4)
            if self.plan.contract.correct:
                used = repair_by_products(result, marks, product.repaired, exact_product, room)
            else:  # which keeps to its workspace by itself
                used = repair_by_products(result, marks, product.repaired, self._correct_product)
            self._account(used)
        repair(result, marks, product.repaired)
        return marks

    def _by_another_plan(self, result: ResultBlock) -> Tensor:
        """The block by the plan that its data ask for, as if none had been made beforehand."""
        left, right = result.sides
        problem = replace(
            self.product.problem, left=left, right=right, plan=None, scaling=result.scaling
        )
        self.product.columns = None  # their memory is free for other planes
        again = quantise(problem, Clock(timed=False))
        marks = again.computed(result.out)
        self.product.repaired += again.repaired
        self._account(again.account.workspace)
        return marks

    def _correct_product(self, result: ResultBlock) -> tuple[Tensor, int]:
        """A second pass, with the planes of "correct", whatever it then leaves open repaired."""
        out, correct = result.out, CONTRACTS["correct"]
        problem = Problem(
            *result.sides, correct, self.fmt, self.workspace, scaling=result.scaling
        )  # fmt: skip
        again = quantise(problem, Clock(timed=False))
        again.computed(out)
        everywhere = torch.ones(out.shape[1:], dtype=torch.bool, device=out.device)
        return everywhere, again.account.workspace

    def _many_are_open(self) -> bool:
        """Whether elements to be repaired have many terms in all; asks the device if they may have.

        It then has no launch to wait for but those before the products; one that is recorded is
        asked the same (`Question.decide`).
        """
        product = self.product
        closely = product.leads is not None and product.kept >= MAGNITUDES
        if not (closely or self.plan.cap is not None):
            return False
        if product.problem.plan is not None:  # made beforehand, so as to wait for nothing
            return False
        fewest = fewest_terms(self.sides)
        if math.prod(self.out.shape[1:]) * self.k <= fewest:
            return False
        with recording.quietly():
            open_terms = product.counts.open_terms
            many_open = int(open_terms[0]) > fewest
            open_terms.zero_()  # for the next block
        recorder = recording.listener()
        if many_open and recorder is not None:
            recorder.give_up()
        return many_open

    def _result(self, tables: tuple[Tensor, Tensor]) -> ResultBlock:
        """What is known of the elements, by these tables of their lines."""
        return ResultBlock(
            self.sides, tables, self.fmt, self.out, self.test, self.scaling, self.wide
        )

    def _account(self, more: int) -> None:
        """Count workspace that is there at one time."""
        account = self.product.account
        account.workspace = max(account.workspace, self.used + more)

    def bound(self, repaired: Tensor, bound: Tensor | None) -> None:
        """Certified absolute error of every element, rounded up, and the largest."""
        product, fmt, tables = self.product, self.fmt, self.tables
        alpha = 1.0 if self.scaling is None else self.scaling.alpha
        if product.largest is None:
            product.largest = Largest.of_nothing(repaired.device)
        if product.every_bit is not None:  # rounded once, whatever was kept of lines on the way
            tables = product.cut_tables(product.every_bit, self.block)
        error_bound(
            tables, fmt.part, first_words(self.out, fmt.part),
            (repaired == REPAIRED) | self.plan.contract.correct,
            terms_of(self.k, fmt.parts, self.plan.layout.dropped, alpha), scaling=self.scaling,
            room=self.workspace // 4, target=None if bound is None else bound[self.block],
            largest=product.largest,
        )  # fmt: skip
