"""An operand encoded on a GPU, once for many products."""

from __future__ import annotations

import math

from widen.bounds import Goal
from widen.encoded import Encoded
from widen.gpu import units
from widen.gpu.encode import EncodedLines
from widen.gpu.lines import quantise, survey_all
from widen.gpu.operands import Lines
from widen.gpu.planning import Question, Side, cached_plan, first_kept
from widen.gpu.units import name_of
from widen.plan import Layout
from widen.planner import first_cap
from widen.stages.problem import Encoding


class TooLarge(Exception):
    """Planes of an operand would take more than there is room for."""


def encode_operand(
    operand: Lines, wanted: Encoding, goal: Goal, wider: Encoded | None, most: int | None = None
) -> tuple[str, Layout, EncodedLines]:
    """Planes of an operand, for any on the other side; its unit, its layout and what is kept.

    There is `most` room, if that is given: bytes of an entry in all planes.
    """
    contract, fmt, k, at = wanted.contract, wanted.work, operand.shape[2], wanted.at
    test = wanted.test(k)
    survey = survey_all([operand], test, first_kept(k, fmt.parts), [goal])
    quantise([operand], survey.tables, goal, test, survey.needs[0].unbind())
    other = math.log2(goal.root) + goal.shift + 0.01
    width = max(math.ceil(other + 1), 1)
    if contract.name == "bits":  # whose plans do not look at the data either
        own, own_width = other, width
    else:
        side = Side(*survey.needs[0, 0].tolist())
        own, own_width = max(side.norm, 0) / 256, side.sigma + 1
    cap = first_cap(fmt.precision, k) if contract.correct else None
    question = Question(
        contract, fmt, (*operand.shape[:2], k, 1), (cap,), 1 << 40, test is not None,
        unit=wanted.unit, system=wanted.system, gpu=name_of(operand.bits.device.index),
        wide=len(fmt.part.words) > 1 or operand.block is not None,
    )  # fmt: skip
    widths = (own_width, width) if at == 0 else (width, own_width)
    eighths = math.ceil(8 * min(own + other, question.most))
    plan = cached_plan(question, eighths, cap, widths)
    if most is not None and units.engine_of(plan).line_bytes > most:
        raise TooLarge
    planes = units.engine_of(plan).encode([operand], survey.tables, [at])[0]
    leads = None if survey.leads is None else survey.leads[0]
    return plan.unit, plan.layout, EncodedLines(operand, planes, survey.tables[0], leads)
