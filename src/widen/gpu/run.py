"""The four stages on a GPU: one plan, one stream, one small read of the device to plan with."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import torch

from widen import bounds
from widen.bounds import Certificate, Goal
from widen.contract import Contract
from widen.encoded import Encoded
from widen.formats import Format
from widen.gpu import cuts, units
from widen.gpu import tables as constants
from widen.gpu.certify import certify
from widen.gpu.clock import Clock
from widen.gpu.hardware import name_of
from widen.gpu.lines import ROWS_OF_TABLE, are_short, quantise, survey, survey_short, survey_words
from widen.gpu.operands import Lines, Target, Tensor, cut
from widen.gpu.planning import Question, Side, cached_plan, first_kept
from widen.gpu.reconstruct import reconstruct
from widen.gpu.repair import repair
from widen.gpu.repair_many import repair_many
from widen.gpu.replay import recording
from widen.gpu.scaling import Scaling
from widen.gpu.units import Engine, in_blocks
from widen.plan import Plan
from widen.planner import block_slices, first_cap
from widen.systems import Digits, Residues

MOST_LINES = 1 << 27
"""Kernels have 32 bits for the places of their tables."""


@dataclass(frozen=True)
class Problem:
    """A product to compute: operands as lines, and what the caller asked for."""

    left: Lines | Encoded
    right: Lines | Encoded
    contract: Contract
    fmt: Format
    workspace: int
    plan: Plan | None = None
    scaling: Scaling | None = None
    unit: str | None = None
    system: str | None = None

    @cached_property
    def sources(self) -> tuple[Lines | Encoded, Lines | Encoded]:
        """Both operands."""
        return self.left, self.right

    @cached_property
    def encoded(self) -> list[Encoded]:
        """The operands that come with their planes."""
        return [source for source in self.sources if isinstance(source, Encoded)]

    @cached_property
    def lines(self) -> tuple[Lines, Lines]:
        """Both operands, encoded or not."""
        ours, theirs = (x.operand if isinstance(x, Encoded) else x for x in self.sources)
        return ours, theirs

    @cached_property
    def shape(self) -> tuple[int, int, int, int]:
        """(batch, m, k, n)."""
        ours, theirs = self.left.shape, self.right.shape
        return max(ours[0], theirs[0]), ours[1], ours[2], theirs[1]

    @cached_property
    def wide(self) -> bool:
        """Whether numbers have several words."""
        addend = None if self.scaling is None else self.scaling.addend
        several = (x.block is not None for x in (*self.lines, addend) if x is not None)
        return len(self.fmt.part.words) > 1 or any(several)

    @cached_property
    def test(self) -> Certificate | None:
        """The certificate that the contract asks for, if any."""
        return self.test_of(0)

    def test_of(self, dropped: int) -> Certificate | None:
        """The same where products were left out; it has the same weights of lines."""
        if not self.contract.certified_by_data:
            return None
        return bounds.certificate(
            self.contract, self.fmt.precision, self.shape[2], self.fmt.parts, dropped
        )


@dataclass(frozen=True)
class Prepared:
    """What is known before blocks are computed: tables of lines, leading integers, the plan.

    `many`: a large share of the elements may have to be repaired.
    """

    tables: tuple[Tensor, Tensor]
    leads: tuple[Tensor, Tensor] | None
    kept: int
    terms: int
    plan: Plan
    repaired: Tensor
    many: bool = False

    def tables_of(
        self, problem: Problem, block: tuple[slice, slice, slice]
    ) -> tuple[Tensor, Tensor]:
        """The tables of a block's lines."""
        batch, *pieces = block
        ours, theirs = (
            cuts.table(table, side.shape, batch, piece)
            for table, side, piece in zip(self.tables, problem.lines, pieces, strict=True)
        )
        return ours, theirs


def prepare(problem: Problem) -> Prepared:
    """Quantise both operands and plan the planes they need.

    A plan made beforehand, and an integer contract, need no read of the device: what their planes
    do not hold is marked element by element.
    """
    fmt, contract, k = problem.fmt, problem.contract, problem.shape[2]
    cap = first_cap(fmt.precision, k) if contract.correct else None
    caps = (cap,) if problem.encoded or not contract.correct else (None, cap)
    if problem.plan is not None and not problem.encoded:  # whose planes have their own cap
        caps = (problem.plan.cap,)
    kept = first_kept(k, fmt.parts)
    full = problem.system == "triangle"
    goals = [bounds.goal(contract, fmt.precision, k, fmt.parts, cap, full=full) for cap in caps]
    looked_at, needs, leads, repaired = _look(problem.sources, problem.test, kept, goals)
    choices = [
        _tables(problem, looked_at, goal, needs[at], fresh=at > 0) for at, goal in enumerate(goals)
    ]
    question = _question(problem, caps)
    if problem.plan is not None:
        # Batches may have been merged since, so blocks are cut anew.
        plan = in_blocks(
            replace(
                problem.plan,
                cap=caps[0],
                shape=problem.shape,
                workspace=problem.workspace,
                result=fmt.name,
            )
        )
        if problem.test is not None and plan.system == "triangle":
            plan = question.widest(_held(problem))  # nothing would be left out of what is not held
        return Prepared(choices[0], leads, kept, k, plan, repaired)
    if contract.name == "bits":
        return Prepared(choices[0], leads, kept, k, question.widest(), repaired)
    choice = recording.decided(needs, question.decide)
    if choice.kept != kept:
        leads = _look(problem.lines, problem.test, choice.kept, goals[:1])[2]
    return Prepared(
        choices[choice.taken], leads, choice.kept, choice.terms, choice.plan, repaired, choice.many
    )


def _held(problem: Problem) -> tuple[int | None, int | None]:
    """Widths of the integers that operands with their planes are known to have."""
    left, right = (
        source.layout.held[at]
        if isinstance(source, Encoded) and isinstance(source.layout, Digits)
        else None
        for at, source in enumerate(problem.sources)
    )
    return left, right


def _question(problem: Problem, caps: tuple[int | None, ...]) -> Question:
    """What is to be decided. It holds no tensors."""
    layouts = [x.layout for x in problem.encoded if isinstance(x.layout, Residues)]
    layout = min(layouts, key=lambda x: x.planes) if problem.fmt.parts == 2 and layouts else None
    return Question(
        problem.contract, problem.fmt, problem.shape, caps, problem.workspace,
        problem.test is not None, layout, problem.unit, problem.system,
        name_of(problem.lines[0].bits.device.index), problem.wide,
    )  # fmt: skip


def _look(
    sources: Sequence[Lines | Encoded],
    test: Certificate | None,
    kept: int,
    goals: Sequence[Goal | None],
) -> tuple[list[Tensor], Tensor, tuple[Tensor, Tensor] | None, Tensor]:
    """Surveys of operands, room for their needs, leading integers if a test wants them; a zero.

    They will be scaled by each of the goals.
    """
    fresh = [source for source in sources if not isinstance(source, Encoded)]
    first = sources[0]
    device = first.planes.device if isinstance(first, Encoded) else first.bits.device
    if any(source.count >= MOST_LINES for source in fresh):
        raise ValueError(f"{MOST_LINES} rows or columns in all are too many; give parts of them")
    sizes = [ROWS_OF_TABLE * source.count for source in fresh]
    several = any(x.block is not None for x in fresh)
    short = bool(fresh) and not several and are_short(fresh)
    take = torch.empty if short else torch.zeros
    arena = take(sum(sizes) + len(goals) * 2 * 5 + 1, dtype=torch.int64, device=device)
    starts = [0, *itertools.accumulate(sizes)]
    tables = [
        arena[start:stop].view(ROWS_OF_TABLE, -1) for start, stop in itertools.pairwise(starts)
    ]
    leads = None
    if test is not None:
        planes = 1 if kept <= 7 else 2
        leads = [
            torch.empty((planes, *x.shape[:2], x.pitch), dtype=torch.int8, device=device)
            for x in fresh
        ]
    if short:
        survey_short(fresh, tables, leads, kept, arena[starts[-1] :])
    elif several:
        survey_words(fresh, tables, leads, kept, max(bounds.highest(goal) for goal in goals))
    elif fresh:
        survey(fresh, tables, leads, kept)
    known = iter(tables)
    found = [x.lines[0] if isinstance(x, Encoded) else next(known) for x in sources]
    both = None
    if leads is not None and len(sources) == 2:
        new = iter(leads)
        ours, theirs = (x.lines[1] if isinstance(x, Encoded) else next(new) for x in sources)
        both = (ours, theirs)
    elif leads is not None:
        both = (leads[0], leads[0])
    return (
        found,
        arena[starts[-1] : -1].view(len(goals), 2, 5),
        both,
        arena[-1:].view(torch.int32)[:1],
    )


def _tables(
    problem: Problem, looked_at: list[Tensor], goal: Goal | None, needs: Tensor, *, fresh: bool
) -> tuple[Tensor, Tensor]:
    """Lines scaled by a goal."""
    found = [table.clone() if fresh else table for table in looked_at]
    quantise(problem.lines, found, goal, problem.test, needs.unbind())
    return found[0], found[1]


def run(
    problem: Problem, out: Target, ledger: Clock,
    progress: Callable[[float], None] | None = None,
    bound: Callable[[Prepared, tuple[slice, slice, slice], Tensor], None] | None = None,
) -> Plan:  # fmt: skip
    """Compute the product (k >= 1) into the bits `out`, (parts, batch, m, n), block by block.

    Numbers of several words have as many such planes.
    """
    with ledger.stage("quantise"):
        prepared = prepare(problem)
    plan = prepared.plan
    blocks = list(block_slices(plan))
    recorder = recording.listener()
    if recorder is not None and (len(blocks) > 1 or prepared.many):
        recorder.give_up()
    kept: dict[str, Any] = {}
    for done, block in enumerate(blocks, start=1):
        marks = _compute(problem, prepared, block, cut(out, *block), kept, ledger)
        if bound is not None:
            bound(prepared, block, marks)
        if progress is not None:
            torch.cuda.current_stream(out.device).synchronize()
            progress(done / len(blocks))
    if ledger.timed:
        ledger.read()
        ledger.repaired += int(prepared.repaired[0])
    return plan


def _compute(
    problem: Problem, prepared: Prepared, block: tuple[slice, slice, slice], out: Target,
    kept: dict[str, Any], ledger: Clock,
) -> Tensor:  # fmt: skip
    """Fill a block of the result; give its marks, which say what was repaired."""
    plan, fmt, k = prepared.plan, problem.fmt, problem.shape[2]
    test = problem.test_of(plan.layout.dropped)
    batch, rows, columns = block
    engine = units.engine_of(plan)
    pieces = (rows, columns)
    sides = [side.cut(batch, piece) for side, piece in zip(problem.lines, pieces, strict=True)]
    tables = prepared.tables_of(problem, block)
    fitted = engine.fitted(tables)
    scaling = None if problem.scaling is None else problem.scaling.cut(*block)
    with ledger.stage("encode"):
        if kept.get("columns") != (batch, columns):  # columns stay while blocks of rows pass
            kept.clear()
        left, right = _planes(problem, sides, tables, engine, block, kept.get("planes"))
        kept["columns"], kept["planes"] = (batch, columns), right
    marks = None
    if prepared.leads is not None and test is not None:
        with ledger.stage("certify"):
            leads = [
                cuts.planes(lead, batch, piece)
                for lead, piece in zip(prepared.leads, pieces, strict=True)
            ]
            marks = certify(leads[0], leads[1], fitted, k, test, prepared.kept, prepared.terms)
    recording.read_here()
    used = sum(x.nbytes for x in (*prepared.tables, *(prepared.leads or ()), right))
    used += math.prod(out.shape[1:])  # marks
    passing = left.nbytes + engine.element_bytes * math.prod(out.shape[1:])
    room = problem.workspace - used - passing
    with ledger.stage("multiply"):
        scratch = engine.scratch(left, right, room)
        groups = engine.multiply(left, right, room)
    with ledger.stage("reconstruct"):
        batches = (sides[0].shape[0], sides[1].shape[0])
        final = reconstruct(
            groups, engine.carrier, fitted, batches, fmt.part, out, marks,
            slack=plan.cap is not None, scaling=scaling, wide=problem.wide,
        )  # fmt: skip
    passing = left.nbytes + groups.nbytes + engine.passing_bytes * final.numel() + scratch
    ledger.workspace = max(ledger.workspace, used + passing)
    del left, groups
    recording.check_here()
    with ledger.stage("repair"):
        if prepared.many:
            assert isinstance(out, torch.Tensor)
            room = max(problem.workspace - used, problem.workspace // 4)
            more = repair_many(
                sides, tables, fmt, out, final, test, prepared.repaired, scaling, room
            )
            ledger.workspace = max(ledger.workspace, used + more)
        repair(
            sides[0], sides[1], tables, fmt.part, out, final, test, prepared.repaired, scaling,
            problem.wide,
        )  # fmt: skip
    return final


def _planes(
    problem: Problem, sides: list[Lines], tables: tuple[Tensor, Tensor], engine: Engine,
    block: tuple[slice, slice, slice], right: Tensor | None,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """Planes of a block of rows and of columns (unless these are known), encoded together."""
    batch, *pieces = block
    planes: list[Tensor | None] = [None, right]
    for at, source in enumerate(problem.sources):
        if isinstance(source, Encoded) and planes[at] is None:
            chosen = units.cut_planes(source.planes, source.layout, engine.layout, at)
            planes[at] = cuts.planes(chosen, batch, pieces[at])
    todo = [at for at in range(2) if planes[at] is None]
    if todo:
        new = engine.encode([sides[at] for at in todo], [tables[at] for at in todo], todo)
        for at, made in zip(todo, new, strict=True):
            planes[at] = made
    ours, theirs = planes
    assert ours is not None
    assert theirs is not None
    return ours, theirs


def encode_operand(
    operand: Lines, dims: tuple[int, ...], side: str, contract: Contract, fmt: Format,
    unit: str | None = None, system: str | None = None,
) -> Encoded:  # fmt: skip
    """Planes of a whole operand, enough of them for any operand on the other side.

    The other side is scaled to the same goal, and no 2-norm is above a 1-norm, so its norm is known
    before it is seen; "correct" is quantised at the planner's first cap for this reason.
    """
    k = operand.shape[2]
    cap = first_cap(fmt.precision, k) if contract.correct else None
    goal = bounds.goal(contract, fmt.precision, k, fmt.parts, cap, full=system == "triangle")
    assert goal is not None
    test = None
    if contract.certified_by_data:
        test = bounds.certificate(contract, fmt.precision, k, fmt.parts, 0)
    tables, needs, leads, _ = _look([operand], test, first_kept(k, fmt.parts), [goal])
    quantise([operand], tables, goal, test, needs[0].unbind())
    other = math.log2(goal.root) + goal.shift + 0.01
    width = max(math.ceil(other + 1), 1)
    if contract.name == "bits":  # whose plans do not look at the data either
        own, own_width = other, width
    else:
        found = Side(*needs[0, 0].tolist())
        own, own_width = max(found.norm, 0) / 256, found.sigma + 1
    wide = len(fmt.part.words) > 1 or operand.block is not None
    eighths = math.ceil(8 * min(own + other, constants.MOST_BITS if wide else constants.BYTE_BITS))
    shape, at = (operand.shape[0], operand.shape[1], k, 1), 0 if side == "left" else 1
    widths = (own_width, width)[:: 1 - 2 * at]
    plan = cached_plan(
        contract, fmt, shape, eighths, cap, 1 << 40, None, unit, system, (widths[0], widths[1]),
        name_of(operand.bits.device.index),
    )  # fmt: skip
    planes = units.engine_of(plan).encode([operand], tables, [at])[0]
    lines = (tables[0], None if leads is None else leads[0])
    word = system or plan.system
    return Encoded(side, dims, contract, fmt, plan.unit, word, operand, lines, plan.layout, planes)
