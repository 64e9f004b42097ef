"""What a product's panels take on a GPU, from what is known before anything is sent."""

from __future__ import annotations

import math
from typing import Any

import torch

from widen import bounds
from widen.formats import Format
from widen.formats.arrays import format_of_array, is_uniform
from widen.gpu import units
from widen.gpu.batches import is_half
from widen.gpu.host.arrays import words_in
from widen.gpu.host.panels import Panels, Sizes, choose_panels
from widen.gpu.lines import ROWS_OF_TABLE
from widen.gpu.planning import Question
from widen.options import Options
from widen.plan import Plan
from widen.planner import first_cap, typical_needs
from widen.stages.problem import Call, Scalars
from widen.words import Words

MORE_BITS = 8
"""Bits of X that there is room for beyond what rows of similar magnitudes need: two planes."""


def panels_of(
    call: Call, scalars: Scalars, options: Options, device: torch.device, *, sure: bool = False
) -> Panels:
    """The panels of a call, and what they cost."""
    ours, theirs = (math.prod(x.shape[:-2]) for x in (call.left, call.right))
    sizes = sizes_of(call, scalars, options, device, sure=sure)
    return choose_panels(sizes, call.workspace, (ours, theirs))


def sizes_of(
    call: Call, scalars: Scalars, options: Options, device: torch.device, *, sure: bool
) -> Sizes:
    """What a call's panels take on a GPU: planes for usual numbers, or to be `sure` for any.

    Those that any numbers may need are twice as many. Numbers that kernels do not read as they are
    sent become a copy: real ones for a complex product, and several words of unlike formats.
    """
    result, (batch, m, k, n) = call.fmt, call.shape
    sources = (call.left, call.right)
    kept, other = (units.engine_of(x) for x in _plans(call, device, sure=sure))
    kept_line, line = (
        (engine.line_bytes + 3) * (k + 15) + 16 * ROWS_OF_TABLE for engine in (kept, other)
    )
    ours, theirs = (k * _number_bytes(x) for x in sources)
    mine, yours = (k * _converted_bytes(x, call.work) for x in sources)
    element = result.parts * sum(_bytes_of(word.name) for word in result.part.words)
    limits = 8 if options.info is True else 0
    written = 4 * result.parts if is_half(result) else 0  # kernels write 32 bits
    return Sizes(
        (batch, m, k, n), (ours, theirs), (mine, yours), (kept_line, line), other.element_bytes,
        element + limits, 2 * (element + limits) + written,
        0 if scalars.c is None else _number_bytes(scalars.c), len(other.layout.products),
        kept.line_bytes,
    )  # fmt: skip


def _plans(call: Call, device: torch.device, *, sure: bool) -> tuple[Plan, Plan]:
    """Plans whose planes a kept panel has, which serves any other one; and those of a product."""
    work, contract, k = call.work, call.contract, max(call.k, 1)
    cap = first_cap(work.precision, k) if contract.correct else None
    wide = any(isinstance(x, Words) for x in (call.left, call.right)) or len(work.part.words) > 1
    question = Question(
        contract, work, (1, call.m, k, call.n), (cap,), 1 << 50, contract.certified_by_data,
        unit=call.unit, system=call.system, gpu=units.name_of(device.index), wide=wide,
    )  # fmt: skip
    widest = question.widest()
    if sure or contract.name == "bits" or call.system not in (None, "residues"):
        return widest, widest
    goal, needs = bounds.goal(contract, work.precision, k, work.parts, cap), typical_needs(
        contract, work, k
    )  # fmt: skip
    assert goal is not None, "every contract has a goal at a cap"
    any_other = math.log2(goal.root) + goal.shift
    kept, usual = (
        question.plan(bits + MORE_BITS, cap, needs.widths)
        for bits in (needs.norms[0] + any_other, needs.bits)
    )
    return kept, usual


def _number_bytes(x: Any) -> int:
    """Bytes of a number as it is sent."""
    return sum(word.itemsize * (len(word) if isinstance(x, Words) else 1) for word in words_in(x))


def _bytes_of(name: str) -> int:
    return int(getattr(torch, name).itemsize)


def _converted_bytes(x: Any, work: Format) -> int:
    """Bytes a number of what kernels read of it, if that is a copy."""
    fmt = format_of_array(x)
    if isinstance(x, Words):
        alike = is_uniform(x.format)
        return 0 if alike and fmt.parts == work.parts else 8 * len(x.planes) * work.parts
    return 16 if fmt.parts < work.parts else 0
