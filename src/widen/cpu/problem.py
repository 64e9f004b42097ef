"""A product to compute: both operands as lines, quantised, and the plan for their planes."""

from __future__ import annotations

import math
from dataclasses import dataclass

from widen import bounds
from widen.bounds import Goal
from widen.calls.batches import Stack, lines
from widen.calls.check import matrix_dims
from widen.contract import Contract
from widen.cpu.encode import CONVERSION, encode
from widen.cpu.lines import needs as needs_of
from widen.cpu.lines import quantise, survey
from widen.cpu.operands import Operand, Quantised, Survey
from widen.encoded import Encoded
from widen.formats import Format
from widen.plan import Plan
from widen.planner import Needs, choose_layout, first_cap, make_plan
from widen.stages.account import Ledger
from widen.units import Unit


@dataclass(frozen=True)
class Problem:
    """A product to compute: operands as lines, and what the caller asked for."""

    left: Operand | Encoded
    right: Operand | Encoded
    contract: Contract
    fmt: Format
    unit: str | None
    system: str | None
    workspace: int

    @property
    def shape(self) -> tuple[int, int, int, int]:
        """(batch, m, k, n)."""
        ours, theirs = self.left.shape, self.right.shape
        return max(ours[0], theirs[0]), ours[1], ours[2], theirs[1]

    @property
    def sources(self) -> tuple[Operand | Encoded, Operand | Encoded]:
        """Both operands."""
        return self.left, self.right

    @property
    def encoded(self) -> bool:
        """Whether an operand comes with its planes."""
        return any(isinstance(source, Encoded) for source in self.sources)

    def goal(self, cap: int | None) -> Goal | None:
        """How far lines are scaled; the triangle leaves out products of full lines."""
        precision, parts, full = self.fmt.precision, self.fmt.parts, self.system == "triangle"
        return bounds.goal(self.contract, precision, self.shape[2], parts, cap, full=full)


def quantise_both(problem: Problem, ledger: Ledger) -> tuple[Quantised, Quantised, Plan]:
    """Exponents of all lines, and the plan for the planes they need."""
    with ledger.stage("quantise"):
        room = min(CONVERSION, problem.workspace // 4)
        goal = problem.goal(None)
        surveys = [
            source.lines.survey if isinstance(source, Encoded) else survey(source, goal, room)
            for source in problem.sources
        ]
        if problem.contract.correct:
            return _correct_lines(problem, surveys)
        left, right, needs = _lines_at(problem, surveys, None)
        return left, right, _plan(problem, needs, None)


def _lines_at(
    problem: Problem, surveys: list[Survey], cap: int | None
) -> tuple[Quantised, Quantised, Needs]:
    left, right = (quantise(survey, problem.goal(cap)) for survey in surveys)
    return left, right, needs_of(left, right, problem.shape[2])


def _correct_lines(problem: Problem, surveys: list[Survey]) -> tuple[Quantised, Quantised, Plan]:
    """For "correct" any quantisation will do that leaves little to repair: the cheaper one."""
    left, right, needs = _lines_at(problem, surveys, None)
    cap = first_cap(problem.fmt.precision, problem.shape[2])
    if needs.bits <= 2 * cap + 2 and not problem.encoded:
        return left, right, _plan(problem, needs, None, "every bit of both operands is kept")
    reason = "kept to 2^-11 ulp or so; what that leaves open is repaired"
    left, right, needs = _lines_at(problem, surveys, cap)
    plan = _plan(problem, needs, cap, reason)
    # Use the planes to the full: half of the spare bits on either side.
    spare = int((plan.layout.modulus.bit_length() - 3 - needs.bits) // 2)
    if spare > 0 and not problem.encoded:
        left, right, needs = _lines_at(problem, surveys, cap + spare)
        plan = _plan(problem, needs, cap + spare, reason)
    return left, right, plan


def _plan(problem: Problem, needs: Needs, cap: int | None, *why: str) -> Plan:
    return make_plan(
        problem.contract, problem.fmt, problem.shape, needs, unit=problem.unit,
        system=problem.system, cap=cap, workspace=problem.workspace, why=why,
    )  # fmt: skip


def encode_operand(
    x: Stack, side: str, contract: Contract, fmt: Format, unit: Unit, system: str | None
) -> Encoded:
    """Planes of a whole operand, enough of them for any operand on the other side.

    The other side is scaled to the same goal, and no 2-norm is above a 1-norm, so its norm is
    known before it is seen; "correct" is quantised at the planner's first cap for this reason.
    """
    dims = matrix_dims(x.shape, side)
    matrices = x.copied((math.prod(dims[:-2]), *dims[-2:]))  # it cannot go stale
    operand = lines(matrices, side, fmt.parts)
    k = operand.shape[2]
    cap, full = first_cap(fmt.precision, k), system == "triangle"
    goal = bounds.goal(contract, fmt.precision, k, fmt.parts, cap, full=full)
    assert goal is not None
    quantised = quantise(survey(operand, None if contract.correct else goal), goal)
    own = needs_of(quantised, quantised, k)
    largest = math.log2(goal.root) + goal.shift + 1
    widths = (own.widths[0], math.ceil(largest))
    needs = Needs((own.norms[0], largest), widths if side == "left" else (widths[1], widths[0]))
    at = 0 if side == "left" else 1
    layout = choose_layout(contract, fmt, k, unit, system, needs, None)
    planes = encode(operand, quantised, layout, at)
    word = system or layout.system
    return Encoded(
        side, x.shape, contract, fmt, unit.name, word, operand, quantised, layout, planes
    )
