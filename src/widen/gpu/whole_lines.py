"""Whole lines of which every process has a stretch: their tables, and the plan, on GPUs.

Tables of stretches are merged: largest magnitudes by maxima, then norms, which count from these,
by sums (`LARGEST_ROWS`, `SUMMED_ROWS`, `HIGHEST_ROWS`). All of it is integers, so that the tables
are those of whole lines, in any order.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from widen.gpu.kernels.triton.numbers import (
    DEPTH,
    DISTANCES,
    INEXACT,
    LARGEST,
    NONZEROS,
    REACH,
    SQUARES,
    SUM,
)
from widen.gpu.lines import NEEDS, ROWS_OF_TABLE, find_largest, find_norms, quantise
from widen.gpu.operands import Tensor
from widen.gpu.partial import Counts, PartialSums, Sides, Tables
from widen.gpu.planning import question_of
from widen.gpu.stages import MORE_BITS
from widen.gpu.units import name_of
from widen.planner import first_cap
from widen.stages.problem import Problem

UNIT = "int8"
"""The unit whose residues are bytes, so that parts of X can be added up as they come."""

LARGEST_ROWS = [int(LARGEST)]
"""Rows of tables that are merged first, by maxima."""

SUMMED_ROWS = [int(row) for row in (SUM, SQUARES, NONZEROS, DISTANCES)]
HIGHEST_ROWS = [int(row) for row in (DEPTH, REACH)]
"""Rows that are merged next, by sums and by maxima."""


def new_tables(sides: Sides) -> Tables:
    """Tables of lines of which nothing is known."""
    left, right = (
        torch.zeros((ROWS_OF_TABLE, x.count), dtype=torch.int64, device=x.bits.device)
        for x in sides
    )
    return left, right


def look_for_largest(sides: Sides, tables: Tables) -> None:
    """`LARGEST_ROWS` of stretches of lines, which may be empty."""
    for together in _launches(sides):
        find_largest([sides[at] for at in together], [tables[at] for at in together])


def look_for_norms(sides: Sides, tables: Tables) -> None:
    """The other rows, once `LARGEST_ROWS` are those of whole lines."""
    for together in _launches(sides):
        find_norms([sides[at] for at in together], [tables[at] for at in together], None, 0)


def _launches(sides: Sides) -> list[list[int]]:
    """Sides that have something to look at: both in one launch where they are equally long."""
    todo = [at for at, x in enumerate(sides) if x.count and x.shape[2]]
    return [todo] if len({sides[at].shape[2] for at in todo}) == 1 else [[at] for at in todo]


@dataclass(frozen=True)
class Scaled:
    """Whole lines scaled to every goal that a problem may have.

    `needs`, (goals, 2, numbers), is what the choice depends on. Some of it comes from logarithms,
    which unlike machines may round differently, so those who choose together agree on it.
    """

    problem: Problem[Any]
    caps: tuple[int | None, ...]
    tables: tuple[Tables, ...]
    counts: Counts
    needs: Tensor

    def choose(self, needs: Sequence[Any]) -> PartialSums:
        """What to do with stretches of the lines."""
        problem = self.problem
        gpu = name_of(self.needs.device.index)
        question = question_of(problem, self.caps, gpu, wide=False, fewest=0, thin=False)
        question = replace(question, unit=UNIT)
        if problem.contract.name == "bits":
            taken, plan = 0, question.widest()
        else:
            choice = question.decide([[list(side) for side in pair] for pair in needs])
            taken, plan = choice.taken, choice.plan
        inexact = any(int(side[2]) & int(INEXACT) for side in needs[taken])
        test = problem.test_of(plan.layout.dropped) if inexact else None  # else X is the product
        return PartialSums(problem, plan, self.tables[taken], self.counts, test)


def scaled(problem: Problem[Any], sides: Sides, tables: Tables) -> Scaled:
    """Scale lines whose tables are known up to their norms; `sides` are stretches of them."""
    precision, k = problem.work.precision, problem.shape[2]
    caps: tuple[int | None, ...] = (None,)
    if problem.contract.correct:
        caps = (None, first_cap(precision, k) + MORE_BITS)
    needs = torch.zeros((len(caps), 2, NEEDS), dtype=torch.int64, device=tables[0].device)
    choices = []
    for at, cap in enumerate(caps):
        rows, columns = (table.clone() if at > 0 else table for table in tables)
        goal = problem.goal(cap)
        quantise(sides, (rows, columns), goal, problem.test, needs[at].unbind(), k=k)
        choices.append((rows, columns))
    counts = sides[0].shape[:2], sides[1].shape[:2]
    return Scaled(problem, caps, tuple(choices), counts, needs)
