"""The stages of a product on a CPU: what they pass on, and what is kept from block to block."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from widen.bounds import Goal
from widen.cpu import mirror as mirrors
from widen.cpu.certify import Looks, all_else, error_bound, singles_of
from widen.cpu.encode import EncodedLines, conversion_room, encode
from widen.cpu.lines import needs, survey, survey_both
from widen.cpu.lines import quantise as quantise_lines
from widen.cpu.memory import Scratch, taken
from widen.cpu.multiply import multiply
from widen.cpu.operands import Array, Chosen, Operand, Quantised, Survey
from widen.cpu.outlook import nothing_settles
from widen.cpu.reconstruct import reconstruct
from widen.cpu.repair import correct_singles, repair, special_values
from widen.cpu.scaling import ScaledBlock, Scaling, scale_special
from widen.cpu.thin import Unwritten, in_limbs, magnitude_sums
from widen.cpu.thin import may_be_thin as _may_be_thin
from widen.cpu.thin import multiply as multiply_unwritten
from widen.encoded import Encoded
from widen.plan import Layout, Plan
from widen.planner import (
    Needs,
    choose_layout,
    every_bit_is_kept,
    first_cap,
    inner_slices,
    make_plan,
    unit_for,
)
from widen.stages.backend import Block
from widen.stages.error_bounds import terms_of
from widen.stages.exactness import addend_units
from widen.stages.problem import Account, Encoding, Problem
from widen.systems import UnevenDigits
from widen.units import UNITS

Target = tuple[Array, ...]
"""Where a result goes: its words, each (parts, batch, m, n)."""

Planes = tuple[Any, Any]
"""Planes of rows and of columns: an array, or views of an encoded operand's; or `Unwritten`."""


def quantise(problem: Problem[Operand], account: Account) -> Prepared:
    """Exponents of all rows and columns, and the plan for the planes they need."""
    room = conversion_room(problem.workspace)
    goal, mirror = problem.goal(None), mirrors.seen(problem)
    sources = problem.sources if mirror is None else problem.sources[:1]
    seen = iter(survey_both([x for x in sources if isinstance(x, Operand)], goal, room))
    surveys = [held(x).lines.survey if isinstance(x, Encoded) else next(seen) for x in sources]
    surveys = [surveys[0], surveys[-1]]
    quantised, plan = planned(problem, surveys)
    mirror, plan = mirrors.planned(mirror, problem, surveys, plan)
    return Prepared(problem, plan, quantised, account, taken(account), mirror)


def planned(
    problem: Problem[Any], surveys: list[Survey]
) -> tuple[tuple[Quantised, Quantised], Plan]:
    """Exponents of all lines, and the plan for the planes they need, from surveys of them."""
    if problem.contract.correct:
        return _correct_lines(problem, surveys)
    quantised, needed = lines_at(problem, surveys, None)
    return quantised, _own_plan(problem, needed, None)


def held(source: Encoded) -> EncodedLines:
    """What was encoded on a CPU."""
    assert isinstance(source.held, EncodedLines)
    return source.held


def encode_operand(
    operand: Operand, wanted: Encoding, goal: Goal, wider: Encoded | None
) -> tuple[str, Layout, EncodedLines]:
    """Planes of an operand, for any on the other side; its unit, its layout and what is kept."""
    k, at = operand.shape[2], wanted.at
    unit, _ = unit_for(wanted.unit)
    seen = survey(operand, None if wanted.contract.correct else goal)
    lines = quantise_lines(seen, goal)
    own = needs(lines, lines, k)
    other = math.log2(goal.root) + goal.shift + 1
    norms, widths = (own.norms[0], other), (own.widths[0], math.ceil(other))
    both = Needs(norms, widths if at == 0 else (widths[1], widths[0]))
    layout = choose_layout(wanted.contract, wanted.work, k, unit, wanted.system, both, cap=None)
    if (
        wider is not None
        and wider.has_planes_of(unit.name, layout, at)
        and np.array_equal(lines.exponents, held(wider).lines.exponents)
    ):
        return unit.name, wider.layout, EncodedLines(operand, held(wider).planes, lines)
    return unit.name, layout, EncodedLines(operand, encode(operand, lines, layout, at), lines)


def lines_at(
    problem: Problem[Any], surveys: list[Survey], cap: int | None
) -> tuple[tuple[Quantised, Quantised], Needs]:
    """Exponents of all lines at a cap (None: what the contract asks for), and what they need."""
    left, right = (quantise_lines(survey, problem.goal(cap)) for survey in surveys)
    return (left, right), needs(left, right, problem.shape[2])


def _correct_lines(
    problem: Problem[Any], surveys: list[Survey]
) -> tuple[tuple[Quantised, Quantised], Plan]:
    """Lines for "correct": with every bit, or up to a cap, whichever is cheaper."""
    quantised, exact = lines_at(problem, surveys, None)
    cap = first_cap(problem.work.precision, problem.shape[2])
    if every_bit_is_kept(exact.bits, 2 * cap + 2, "cpu") and not problem.encoded:
        return quantised, _own_plan(problem, exact, None, "every bit of both operands is kept")
    reason = "kept to 2^-11 ulp or so; what that leaves open is repaired"
    quantised, needed = lines_at(problem, surveys, cap)
    plan = _own_plan(problem, needed, cap, reason)
    # Use the planes to the full: half of the spare bits on either side.
    spare = int((plan.layout.modulus.bit_length() - 3 - needed.bits) // 2)
    if spare > 0 and not problem.encoded:
        quantised, needed = lines_at(problem, surveys, cap + spare)
        plan = _own_plan(problem, needed, cap + spare, reason)
    return quantised, plan


def _own_plan(problem: Problem[Operand], needed: Needs, cap: int | None, *why: str) -> Plan:
    """The plan of a product of which this process has both operands whole."""
    return plan_for(problem, needed, cap, *why, thin=_may_be_thin(problem))


def plan_for(
    problem: Problem[Any], needed: Needs, cap: int | None, *why: str, thin: bool = False
) -> Plan:
    """The plan of lines with these needs."""
    return make_plan(
        problem.contract, problem.work, problem.shape, needed, unit=problem.unit,
        system=problem.system, cap=cap, workspace=problem.workspace, why=why,
        thin=thin,
    )  # fmt: skip


@dataclass
class Prepared:
    """A product whose lines are quantised, with what is kept from block to block."""

    problem: Problem[Operand]
    plan: Plan
    quantised: tuple[Quantised, Quantised]
    account: Account
    scratch: Scratch
    mirror: mirrors.Mirror | None

    def stages(self, block: Block, out: Target) -> Stages:
        """The stages of a block of the result, which goes to its place in `out`."""
        batch, rows, columns = block
        targets = [word[:, batch, rows, columns] for word in out]
        # Kernels write float64; what they write is a number of the result's format already.
        direct = len(out) == 1 and out[0].dtype == np.float64
        shape = (len(out), *targets[0].shape)
        values = targets[0][None] if direct else self.scratch.take("values", shape)
        scaling, mirrored = None, list[Array]()
        if self.problem.scaling is not None:
            assert isinstance(self.problem.scaling, Scaling)
            scaling = self.problem.scaling.cut(block)
        if self.mirror is not None and rows != columns:
            mirrored = [word[:, batch, columns, rows].swapaxes(-1, -2) for word in out]
        targets = [] if direct else targets
        return Stages(self, block, self.chosen(block), targets, values, scaling, mirrored)

    def chosen(self, block: Block) -> Chosen:
        """The lines of a block."""
        batch, *pieces = block
        operands = [held(x).operand if isinstance(x, Encoded) else x for x in self.problem.sources]
        if self.plan.blocks.whole(self.plan.shape):
            return Chosen((operands[0], operands[1]), self.quantised)
        ours, theirs = (x.cut(batch, piece) for x, piece in zip(operands, pieces, strict=True))
        rows, columns = (
            x.cut(batch, piece) for x, piece in zip(self.quantised, pieces, strict=True)
        )
        return Chosen((ours, theirs), (rows, columns))

    def wait(self) -> None:
        """Nothing: what was asked for is done."""

    def finish(self) -> None:
        """Leave the scratch memory to the next call."""
        self.scratch.leave()


@dataclass
class Stages:
    """The stages of one block: its lines, and where its elements go.

    `values` are float64, (words, parts, batch, rows, columns), and those of `targets` unless these
    are of another format. They go to `mirrored` too, if that is not empty: the block on the other
    side of the diagonal.
    """

    product: Prepared
    block: Block
    chosen: Chosen
    targets: list[Array]
    values: Array
    scaling: ScaledBlock | None
    mirrored: list[Array]

    def __post_init__(self) -> None:
        self.problem, self.plan = self.product.problem, self.product.plan
        self.scratch, self.kept = self.product.scratch, self.product.scratch.kept
        self.unit = UNITS[self.plan.unit]
        self.times = 2 if self.mirrored else 1  # how often its elements are in the result
        self.thin = isinstance(self.plan.layout, UnevenDigits)
        self.groups: Array | None = None  # of a thin product that was certified
        self.special = [lines.survey.special for lines in self.chosen.lines]
        correct, shape = self.plan.contract.correct, self.values.shape[2:]
        self.singles = None if correct else singles_of(self.chosen.lines, shape)
        self.needs_product = True  # unless every element will be computed by other means

    def certify(self) -> Array | None:
        """A mask of the elements that the contract's certificate leaves open."""
        test = self.problem.test_of(self.plan.layout.dropped)
        if self.singles is not None and self.singles.all():
            self.needs_product = False
            return np.zeros(self.values.shape[2:], bool)
        if self.plan.contract.correct and self.plan.cap is not None:
            self.needs_product = self.thin or not nothing_settles(self.chosen, self.problem.fmt)
            return None if self.needs_product else np.ones(self.values.shape[2:], bool)
        if test is None or self._all_exact():
            return None
        sums = None
        if self.thin:  # magnitudes are summed with the products, which are multiplied here
            groups: Any = None
            for inner in inner_slices(self.plan):
                groups = self.multiply(self.encode(inner), groups)
            self.groups, sums = groups, magnitude_sums(groups, self.chosen.lines)
        looks = Looks(self.chosen, self.block, self.plan, self.scratch, self.kept, sums)
        marks = looks.uncertified(test)
        self.needs_product = not all_else(marks, self.special, self.singles)
        return marks

    def _all_exact(self) -> bool:
        """Whether X is the exact product, so that there is nothing to certify."""
        exact = all(bool(lines.exact.all()) for lines in self.chosen.lines)
        return exact and self.plan.layout.dropped == 0

    def encode(self, inner: slice) -> Planes:
        """Planes of the block over a stretch of the inner dimension.

        Those of columns stay while blocks of rows pass.
        """
        if not self.needs_product:
            return None, None
        (batch, rows, columns), mirror = self.block, self.product.mirror
        shared = (False, False) if mirror is None else mirror.shared
        right = self._kept_planes((batch, columns, inner), 1, shared[1])
        if mirror is not None and not mirror.conjugated and (shared[1] or rows == columns):
            left = right
        elif shared[0]:
            left = self._kept_planes((batch, rows, inner), 0, True)
        else:
            left = self._planes(0, self.chosen, (batch, rows, inner))
        return (
            left[:, :, rows] if shared[0] else left,
            right[:, :, columns] if shared[1] else right,
        )

    def _kept_planes(self, block: Block, side: int, shared: bool) -> Any:
        """Planes of a block, those of all lines if they are shared, kept for later blocks."""
        batch, lines, inner = block
        whole, chosen = inner.stop - inner.start >= self.plan.shape[2], self.chosen
        if shared:
            lines = slice(0, self.plan.shape[3])
        if not whole or self.kept.get(f"lines {side}") != (batch, lines):
            if shared:
                chosen = self.product.chosen((batch, lines, lines))
            self.kept[f"planes {side}"] = self._planes(side, chosen, (batch, lines, inner))
            self.kept[f"lines {side}"] = (batch, lines) if whole else None
        return self.kept[f"planes {side}"]

    def _planes(self, side: int, chosen: Chosen, block: Block) -> Any:
        source, layout = self.problem.sources[side], self.plan.layout
        if isinstance(source, Encoded) and source.layout.holds(layout, side):
            return held(source).planes_for(source.layout.planes_of(layout, side), *block)
        operand = chosen.operands[side]
        if operand.shape[2] != block[2].stop - block[2].start:
            operand = operand.inner(block[2])

        room = conversion_room(self.plan.workspace)
        if self.thin:
            return Unwritten(operand, chosen.lines[side], room)

        def memory(shape: tuple[int, ...]) -> Any:
            return self.scratch.take(f"planes {side}", shape)

        return encode(operand, chosen.lines[side], layout, side, memory=memory, room=room)

    def multiply(self, planes: Planes, groups: Array | None) -> Array:
        """Groups (groups, batch, rows, columns) of exact products, in float64."""
        plan, shape = self.plan, self.values.shape[2:]
        if not self.needs_product:
            return np.empty(0)
        if isinstance(plan.layout, UnevenDigits):
            if self.groups is not None:
                return self.groups
            return multiply_unwritten(planes, plan.layout, groups)
        add = groups is not None
        if groups is None:
            groups = self.scratch.take("groups", (plan.layout.groups, *shape))
        partial = self.scratch.take("partial", shape, self.unit.engine)
        multiply(
            *planes, plan.layout.products, self.unit, plan.depth, groups=groups, partial=partial,
            add=add,
        )  # fmt: skip
        return groups

    def reconstruct(self, groups: Array, marks: Array | None) -> Array:
        """Round every element once; give a mask of those that are open."""
        plan, layout = self.plan, self.plan.layout
        if not self.needs_product:
            assert marks is not None
            return marks
        approximate = plan.cap is not None or plan.layout.dropped > 0
        if isinstance(layout, UnevenDigits):
            groups, layout = groups[:-1], in_limbs(layout)
        unsettled = reconstruct(
            groups, layout, self.chosen.lines, self.problem.fmt.part, self.values,
            slack=plan.contract.correct and approximate, scaling=self.scaling,
        )  # fmt: skip
        return unsettled if marks is None else marks

    def repair(self, marks: Array) -> Array:
        """Make every element final; give a mask of those that were repaired."""
        rows, columns = self.special
        special = rows.any() or columns.any()
        if special:  # these elements are decided by special values alone
            marks &= ~(rows[:, :, None] | columns[:, None, :])
        singles = self.singles
        if singles is not None:
            marks &= ~singles
        if marks.any():
            self.product.account.repaired += self.times * int(np.count_nonzero(marks))
            repair(
                self.chosen, marks, self.values, self.scaling, self.problem.fmt,
                workspace=self.plan.workspace, scratch=self.scratch,
            )  # fmt: skip
        if singles is not None:
            if special:
                singles &= ~(rows[:, :, None] | columns[:, None, :])
            correct_singles(
                self.chosen, singles, self.values, self.scaling, self.problem.fmt,
                workspace=self.plan.workspace, scratch=self.scratch,
            )  # fmt: skip
            marks |= singles
        self._special_values(rows, columns)
        for target, value in zip(self.targets, self.values, strict=False):
            target[...] = value
        if self.product.mirror is not None:
            self.product.mirror.write(self.mirrored, self.values)
        return marks

    def _special_values(self, rows: Array, columns: Array) -> None:
        """NaN and infinities where the ordinary product (and alpha, beta, c) has them."""
        if rows.any() or columns.any():
            for i, j in self.chosen.tiles(self.plan.workspace // 4):
                ours, theirs = (
                    operand.cut(slice(None), piece)
                    for operand, piece in zip(self.chosen.operands, (i, j), strict=True)
                )
                special_values(ours, theirs, rows[:, i], columns[:, j], self.values[..., i, j])
        if self.scaling is not None:
            scale_special(self.values, self.scaling, rows[:, :, None] | columns[:, None, :])

    def bound(self, repaired: Array, bound: Array | None) -> None:
        """Certified absolute error of every element, rounded up, and the largest."""
        plan, fmt, scaling = self.plan, self.problem.fmt, self.problem.scaling
        alpha = 1.0 if scaling is None else scaling.alpha
        terms = terms_of(plan.shape[2], fmt.parts, plan.layout.dropped, alpha)
        lines, units = self.chosen.lines, None
        if plan.contract.correct:  # rounded once, whatever was kept of lines on the way
            batch, *pieces = self.block
            rows, columns = (
                quantise_lines(side.survey, None).cut(batch, piece)
                for side, piece in zip(self.product.quantised, pieces, strict=True)
            )
            lines = rows, columns
        if self.scaling is not None and scaling is not None:
            units = addend_units(self.scaling.addend.view(np.float64), scaling.beta)
        largest, finite = error_bound(
            *lines, fmt.part, self.values, repaired, terms,
            target=None if bound is None else bound[self.block],
            rounded_once=plan.contract.correct, addend_units=units,
        )  # fmt: skip
        if self.mirrored and bound is not None:
            batch, row_piece, column_piece = self.block
            bound[batch, column_piece, row_piece] = bound[self.block].swapaxes(-1, -2)
        self.product.account.add_bounds(largest, self.times * finite)
