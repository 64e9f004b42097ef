"""The stages of one block of a product on a GPU, and another pass where many elements are open."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import torch

from widen.contract import CONTRACTS
from widen.encoded import Encoded
from widen.gpu import planned, units
from widen.gpu.certify import Largest, certify, error_bound
from widen.gpu.encode import held
from widen.gpu.exact_products import (
    EVERYTHING,
    exact_product,
    fewest_terms,
    regions,
    repair_by_products,
    take_settled,
)
from widen.gpu.lines import MAGNITUDES
from widen.gpu.multiply import scratch_bytes
from widen.gpu.operands import (
    Groups,
    Lines,
    Target,
    Tensor,
    cut_planes,
    first_words,
    room_like,
    tensors_of,
)
from widen.gpu.outlook import without_product
from widen.gpu.planning import ALL, MANY, openness
from widen.gpu.reconstruct import ResultBlock, reconstruct
from widen.gpu.repair import REPAIRED, count, repair, round_singles, settle_closely
from widen.gpu.replay import recording
from widen.gpu.scaling import Scaling
from widen.gpu.thin import ThinProduct
from widen.stages.backend import Block
from widen.stages.error_bounds import terms_of
from widen.stages.problem import Problem

if TYPE_CHECKING:
    from widen.gpu.stages import Prepared

Planes = tuple[Tensor, ...]
"""Planes of rows and of columns, (planes, batch, lines, pitch); thin: of the few lines alone."""

CLOSE_WORK = 1 << 24
"""Multiplications from which on open elements of hard lines have a launch before `repair`."""

NO_PLANES = torch.empty(0), torch.empty(0)
"""Of a block whose product is not needed."""


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
        self.needs_product = not self.product.hopeless
        self.open_terms: int | None = None  # of elements to be repaired, once it was asked

    def certify(self) -> Tensor | None:
        """Marks of the elements that the contract's certificate leaves open, so far.

        Where these are all, but for a few, the product is not needed, unless something is added to
        it, which may be special.
        """
        whole, batch = self.product.leads, self.block[0]
        if not self.needs_product:
            return without_product(self._result(self.tables), None)
        if whole is None or self.test is None:
            return None
        pieces = self.block[1:]
        left, right = (cut_planes(x, batch, piece) for x, piece in zip(whole, pieces, strict=True))
        product = self.product
        marks = certify(
            left, right, self.fitted, self.k, self.test, fmt=product.problem.work,
            kept=product.kept, terms=product.terms, counts=product.counts, sides=self.sides,
        )  # fmt: skip
        self.open_terms = self._open_terms(product)
        terms = math.prod(self.out.shape[1:]) * self.k
        known = openness(self.open_terms, terms, fewest_terms(self.sides))
        if known != ALL or self.plan.layout.dropped or self.scaling is not None:
            return marks
        recording.read_here()
        recording.check_here()
        recording.was_checked(lambda choice: replace(choice, open=ALL))
        self.needs_product = False
        return without_product(self._result(self.tables), marks)

    def encode(self, inner: slice) -> Planes:
        """Planes of the block's rows and columns, which are never cut along the inner dimension.

        Those of columns stay while blocks of rows pass. Both are encoded together if neither is
        there.
        """
        if not self.needs_product:
            return NO_PLANES
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
        if not self.needs_product:
            return NO_PLANES[0]
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
        return self.counted(self._round(groups, marks))

    def rounded(self) -> Tensor:
        """The same after all stages before it, and nothing is counted."""
        marks, planes = self.certify(), self.encode(slice(0, self.k))
        return self._round(self.multiply(planes, None), marks)

    def _round(self, groups: Tensor | Groups, marks: Tensor | None) -> Tensor:
        if not self.needs_product:
            assert marks is not None
            return marks
        result, slack = self._result(self.fitted), self.plan.cap is not None
        final = reconstruct(groups, self.engine.carrier, result, marks, slack=slack)
        self._account(self.passing)
        return final

    def counted(self, marks: Tensor) -> Tensor:
        """The marks; terms of open elements are counted, unless the certificate did so."""
        if self.plan.cap is not None:
            count(marks, self.k, self.product.counts.open_terms)
            recording.read_here()
        return marks

    def repair(self, marks: Tensor) -> Tensor:
        """Make every element final; give a mask of those that were repaired."""
        product, result = self.product, self._result(self.fitted)
        if not product.waits and (self.needs_product or product.hopeless):
            recording.check_here()  # launches from here on wait until the plan was found right
        if product.zeros and not self.plan.contract.correct:
            round_singles(result, marks)
        if product.waits and planned.many_are_open(marks, fewest_terms(self.sides) // self.k):
            return self._by_another_plan(result)
        open_terms, fewest = self.open_terms, fewest_terms(self.sides)
        if open_terms is None:
            open_terms = self._open_terms(product)
        if open_terms > fewest and not self.plan.contract.correct:
            open_terms = self._second_pass(result, marks, open_terms)
        if open_terms > fewest:
            recording.give_up()
            room = max(self.workspace - self.used, self.workspace // 4)
            found = regions(self.sides, marks, open_terms)
            used = repair_by_products(
                result, marks, product.repaired, found, exact_product, room
            )  # fmt: skip
            self._account(used)
        if self._is_close(product):
            settle_closely(result, marks, product.repaired)
        repair(result, marks, product.repaired)
        return marks

    def _is_close(self, product: Prepared) -> bool:
        """Whether a certificate by magnitudes has left elements doubtful, or may have."""
        large = math.prod(self.out.shape[1:]) * self.k > CLOSE_WORK
        return large and product.leads is not None and product.kept >= MAGNITUDES

    def _second_pass(self, result: ResultBlock, marks: Tensor, open_terms: int) -> int:
        """Repair what the planes of "correct" settle; terms of elements that are left."""
        product = self.product
        with recording.quietly():
            found = regions(self.sides, marks, open_terms)
        if found is not EVERYTHING:
            recording.give_up()
            # It keeps to the workspace by itself.
            used = repair_by_products(
                result, marks, product.repaired, found, self._correct_product
            )  # fmt: skip
            self._account(used)
            return 0
        if self.needs_product:
            recording.was_checked(lambda choice: replace(choice, open=MANY))
        held = self.used + self.passing + sum(x.nbytes for x in tensors_of(result.out))
        again = self._correct(result, max(self.workspace - held, self.workspace // 4))
        if again.hopeless:
            return open_terms
        fresh = room_like(result.out, tuple(marks.shape))
        final = again.rounded(fresh)
        take_settled(result, fresh, final, marks, product.repaired, again.counts.open_terms)
        if again.plan.cap is not None:
            recording.read_here()
        recording.check_here()
        self._account(held - self.used + again.account.workspace)
        return self._open_terms(again)

    def _correct(self, result: ResultBlock, workspace: int) -> Prepared:
        """The lines of some elements, prepared for "correct"."""
        contract = CONTRACTS["correct"]
        problem = Problem(*result.sides, contract, self.fmt, workspace, scaling=result.scaling)
        known = self.tables if result.sides is self.sides and not self.wide else None
        return self.product.again(problem, known)

    def _by_another_plan(self, result: ResultBlock) -> Tensor:
        """The block by the plan that its data ask for, as if none had been made beforehand."""
        left, right = result.sides
        problem = replace(
            self.product.problem, left=left, right=right, plan=None, scaling=result.scaling
        )
        self.product.columns = None  # their memory is free for other planes
        again = self.product.again(problem)
        marks = again.computed(result.out)
        self.product.repaired += again.repaired
        self._account(again.account.workspace)
        return marks

    def _correct_product(self, result: ResultBlock) -> tuple[Tensor, int]:
        """Some rows and columns with the planes of "correct", and repaired."""
        out, again = result.out, self._correct(result, self.workspace)
        again.computed(out)
        everywhere = torch.ones(out.shape[1:], dtype=torch.bool, device=out.device)
        return everywhere, again.account.workspace

    def _open_terms(self, product: Prepared) -> int:
        """Terms of elements to be repaired, where there may be many: then asks the device.

        It has no launch to wait for but those before the products; one that is recorded is asked
        the same (`Question.decide`).
        """
        closely = product.leads is not None and product.kept >= MAGNITUDES
        if not (closely or product.plan.cap is not None):
            return 0
        if self.product.problem.plan is not None:  # made beforehand, so as to wait for nothing
            return 0
        if math.prod(self.out.shape[1:]) * self.k <= fewest_terms(self.sides):
            return 0
        with recording.quietly():
            open_terms = int(product.counts.open_terms[0])
            product.counts.open_terms.zero_()  # for the next block
        return open_terms

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
