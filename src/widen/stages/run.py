"""The stages of a product over its blocks, in their order, on any backend."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from widen import bounds
from widen.encoded import Encoded
from widen.plan import Plan
from widen.planner import block_slices, first_cap, inner_slices
from widen.stages.backend import Backend, Encoder, Stages
from widen.stages.problem import Account, Encoding, Lines, Problem


def run(
    backend: Backend,
    problem: Problem[Any],
    out: Any,
    account: Account,
    *,
    bound: Any = None,
    progress: Callable[[float], None] | None = None,
) -> Plan:
    """Compute a product into `out`.

    Where the account asks for bounds of the errors, they go to `bound` too, if there is one.
    `progress` is called after every block, with the share of the work that is done.
    """
    with account.stage("quantise"):
        prepared = backend.quantise(problem, account)
    blocks = list(block_slices(prepared.plan))
    for done, block in enumerate(blocks, start=1):
        stages = prepared.stages(block, out)
        repaired = _compute(stages, prepared.plan, account)
        if account.bounds:
            with account.stage("bound"):
                stages.bound(repaired, bound)
        if progress is not None:
            prepared.wait()
            progress(done / len(blocks))
    prepared.finish()
    return prepared.plan


def _compute(stages: Stages[Any, Any, Any], plan: Plan, account: Account) -> Any:
    """Fill a block of the result; give which elements are the correctly rounded ones."""
    with account.stage("certify"):
        marks = stages.certify()
    groups = None
    for inner in inner_slices(plan):
        with account.stage("encode"):
            planes = stages.encode(inner)
        with account.stage("multiply"):
            groups = stages.multiply(planes, groups)
        del planes
    with account.stage("reconstruct"):
        marks = stages.reconstruct(groups, marks)
    del groups
    with account.stage("repair"):
        return stages.repair(marks)


def encode_operand(
    backend: Encoder, operand: Lines, dims: tuple[int, ...], wanted: Sequence[Encoding]
) -> Encoded:
    """Planes of a whole operand, enough of them for any operand on the other side.

    The widest format is encoded first, whose planes may serve the others (an operand of float64
    numbers is kept to its last bit for results of two words and more, and its integers are the
    same then).
    """
    made: list[Encoded] = []
    for each in sorted(wanted, key=lambda each: -each.fmt.precision):
        made.append(_encoded(backend, operand, dims, each, made[-1] if made else None))
    first, *others = (
        next(x for x in made if x.fmt == each.fmt) for each in wanted
    )  # as they were asked for
    return replace(first, others=tuple(others))


def _encoded(
    backend: Encoder, operand: Lines, dims: tuple[int, ...], wanted: Encoding, wider: Encoded | None
) -> Encoded:
    """An operand encoded for one format.

    The other side is scaled to the same goal, and no 2-norm is above a 1-norm, so its norm is
    known before it is seen; "correct" is quantised at the planner's first cap for this reason.
    """
    contract, fmt, k = wanted.contract, wanted.work, operand.shape[2]
    cap, full = first_cap(fmt.precision, k), wanted.system == "triangle"
    goal = bounds.goal(contract, fmt.precision, k, fmt.parts, cap, full=full)
    assert goal is not None, "every contract has a goal at a cap"
    unit, layout, held = backend.encode_operand(operand, wanted, goal, wider)
    system = wanted.system or layout.system
    return Encoded(wanted.side, dims, contract, wanted.fmt, unit, system, layout, held)
