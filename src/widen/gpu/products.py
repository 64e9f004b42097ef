"""Products of tensors on a GPU: calls become problems, launches are recorded, results made."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Any

import torch

from widen.encoded import Encoded
from widen.formats import FORMATS, PLAIN
from widen.formats.arrays import format_of_array
from widen.gpu import encoder, stages, units
from widen.gpu.batches import (
    addend_lines,
    bits_of,
    copied,
    copy_into,
    expanded,
    given_back,
    in_one_block,
    is_half,
    lines_of,
    merged,
    planes,
    reshaped,
    room_for,
    share_memory,
    zeros,
)
from widen.gpu.clock import Clock
from widen.gpu.code.variants import Variant
from widen.gpu.code.workers import foreseeing
from widen.gpu.foresight import Needs, kernels_of
from widen.gpu.operands import Tensor
from widen.gpu.planning import Question, cached_plan
from widen.gpu.recorded import recordings_of
from widen.gpu.replay.recording import Recorder
from widen.gpu.scaling import Scaling
from widen.options import Options, Wanted
from widen.plan import Plan
from widen.planner import first_cap, typical_needs
from widen.stages.problem import Call, Encoding, Scalars, info_of
from widen.stages.run import encode_operand, run
from widen.words import Words


def default_workspace(place: str) -> int:
    """Bytes of workspace where the caller does not say: a quarter of the GPU's memory."""
    if not torch.cuda.is_available():
        raise ValueError(f"device={place!r}: PyTorch sees no GPU here; give workspace=, as '8GB'")
    return int(torch.cuda.get_device_properties(place).total_memory // 4)


def check_unit(unit: str | None, place: Any = None) -> None:
    """Whether a GPU (this one, or any) serves the unit that was asked for."""
    there = units.available(None if place is None else torch.device(place))
    if unit not in (None, *there):
        words = ", ".join(repr(name) for name in there)
        raise ValueError(f"unit={unit!r} does not run on a GPU; use one of {words}, or None")


def ordinary_is_fast(call: Call) -> bool:
    """Whether this GPU has float64 units worth the name; TF32 would not keep the contract."""
    if call.fmt.name not in PLAIN:
        return False
    if call.work.part.precision == 53:
        return torch.cuda.get_device_capability(call.device) in ((8, 0), (9, 0), (10, 0))
    return bool(torch.backends.cuda.matmul.fp32_precision != "tf32")


@contextmanager
def ready(call: Call, options: Options) -> Iterator[None]:
    """A context to compute in, on the operands' GPU: running out of memory says what to do."""
    bounds = ", or info='largest', which has no bound of every element"
    try:
        with torch.cuda.device(call.device):
            yield
    except torch.OutOfMemoryError as error:
        raise torch.OutOfMemoryError(
            f"the GPU has too little free memory for a workspace of {call.workspace / 1e9:.2g} GB "
            "beside operands and result; give a smaller workspace=, '256MB' for one"
            f"{bounds if options.info is True else ''} ({error})"
        ) from None


def typical_plan(
    wanted: Encoding, shape: tuple[int, int, int, int], workspace: int, place: str | None = None
) -> Plan:
    """A plan for rows and columns of similar magnitudes, made without looking at any."""
    contract, fmt = wanted.contract, wanted.work
    cap = first_cap(fmt.precision, shape[2]) if contract.correct else None
    gpu = units.name_of(None if place is None else torch.device(place).index)
    question = Question(
        contract, fmt, shape, (cap,), workspace, contract.certified_by_data, unit=wanted.unit,
        system=wanted.system, gpu=gpu, wide=len(fmt.part.words) > 1,
    )  # fmt: skip
    if wanted.system == "triangle" and contract.certified_by_data:  # as `quantise` will have it
        return question.widest()
    needs = typical_needs(contract, fmt, shape[2])
    return cached_plan(question, math.ceil(8 * needs.bits), cap, needs.widths)


def plan(call: Call) -> Plan:
    """What a call would run."""
    if math.prod(call.dims) == 0 or call.k == 0:
        return call.empty_plan()
    left, right = merged(call)
    with torch.cuda.device(call.device):
        return call.planned(stages.quantise(call.problem(left, right), Clock(timed=False)).plan)


def encode(x: Any, wanted: Sequence[Encoding]) -> Encoded:
    """An operand on a GPU, encoded, from a copy of its own, so that it cannot go stale."""
    first = wanted[0]
    check_unit(first.unit, x.device)
    with torch.cuda.device(x.device):
        own = copied(x)
        if math.prod(x.shape) == 0:  # no product with it reads it
            own = torch.zeros([max(size, 1) for size in x.shape], device=x.device)
        operand = lines_of(own, first.side, first.fmt.parts)
        return encode_operand(encoder, operand, tuple(x.shape), wanted)


def product(call: Call, scalars: Scalars, out: Any, options: Options) -> Any:
    """The sum alpha a b + beta c of operands on a GPU, and an Info if asked for.

    Launches are recorded if they may be issued again.
    """
    where, info = call.device, options.info
    recorded = recordings_of(call, scalars, out, options)
    with ready(call, options), foreseeing(lambda needs: _foreseen(call, options, needs)):
        target = _target(call, out, where, scalars.c)
        bound = None
        if info is True:
            bound = torch.empty(call.dims, dtype=torch.float64, device=where)
        account = Clock(timed=bool(info), bounds=bool(info))
        if recorded is None:
            scaling = None if scalars.trivial else _scaling(call, scalars, where)
            ran = _run(call, scaling, target, bound, options, account)
        else:
            recordings, operands = recorded
            results = planes(target)
            with Recorder([*operands, *results], len(results)) as recorder:
                scaling = None if scalars.trivial else _scaling(call, scalars, where)
                ran = _run(call, scaling, target, bound, options, account)
            recordings.keep(recorder, call.fmt, call.dims)
        result = given_back(call.fmt, target, out)
    if not info:
        return result
    return result, info_of(ran, bound, account, math.prod(call.dims))


def _foreseen(call: Call, options: Options, needs: Needs | None) -> list[Variant]:
    """The kernels that a call will need, as far as can be told."""
    run = partial(run_nowhere, info=options.info)
    return kernels_of(call, run, needs=needs) if options.plan is None else []


def _scaling(call: Call, scalars: Scalars, where: torch.device) -> Scaling:
    """alpha, beta, and the bits of c, of the parts it has."""
    c = scalars.c
    if c is None:
        return Scaling(scalars.alpha, scalars.beta, None)
    fmt = format_of_array(c)
    if not isinstance(c, (torch.Tensor, Words)):  # a number
        fmt = FORMATS["complex128" if fmt.parts == 2 else "float64"]
        c = torch.full((), c.item(), dtype=getattr(torch, fmt.name), device=where)
    try:
        full = expanded(c if isinstance(c, Words) else c.detach(), call.dims)
    except RuntimeError:
        raise ValueError(
            f"c has shape {tuple(c.shape)}, which does not broadcast to the result's {call.dims}"
        ) from None
    lines = addend_lines(reshaped(full, (math.prod(call.batch), call.m, call.n)), fmt)
    return Scaling(scalars.alpha, scalars.beta, lines)


def _target(call: Call, out: Any, where: torch.device, c: Any = None) -> Any:
    """Where the result is written: `out`, unless it holds halves, or an operand or c lives there.

    These are read again where elements are repaired, after the result was first written.
    """
    owned = [x for x in (call.left, call.right, c) if isinstance(x, (torch.Tensor, Words))]
    if (
        out is None
        or is_half(call.fmt)
        or any(share_memory(x, out) for x in owned)
        or not in_one_block(out)
    ):
        return room_for(call.fmt, call.dims, where)
    return out


def _run(
    call: Call, scaling: Scaling | None, out: Any, bound: Tensor | None, options: Options,
    account: Clock,
) -> Plan:  # fmt: skip
    parts = call.work.parts
    if math.prod(call.dims) == 0:
        return call.empty_plan()
    unread = call.k == 0 or (scaling is not None and scaling.alpha == 0)
    left, right = zeros(call, out.device) if unread else merged(call)
    batch, m, n = max(left.shape[0], right.shape[0]), left.shape[1], right.shape[1]
    if scaling is not None:
        scaling = scaling.reshaped(batch, m, n)
    problem = call.problem(left, right, plan=options.plan, scaling=scaling)
    flat = reshaped(out, (batch, m, n))  # a copy where batch axes do not merge
    if not in_one_block(flat):
        flat = room_for(call.fmt, (batch, m, n), out.device)
    if call.fmt.parts > parts:
        for plane in planes(flat):
            (plane[1] if isinstance(flat, Words) else plane.imag).zero_()
    limits = None if bound is None else bound.view(batch, m, n)
    ran = run(
        stages, problem, bits_of(flat, parts), account, bound=limits, progress=options.progress
    )
    if not share_memory(flat, out):
        copy_into(out, reshaped(flat, call.dims))
    return replace(ran, result=call.fmt.name, shape=(*ran.shape[:2], call.k, ran.shape[3]))


def computed(
    call: Call, scalars: Scalars, bound: Tensor | None, account: Clock
) -> tuple[Any, Plan]:
    """The sum of operands on one device, in memory of its own, and the plan that ran."""
    where = call.device
    scaling = None if scalars.trivial else _scaling(call, scalars, where)
    target = _target(call, None, where)
    ran = _run(call, scaling, target, bound, Options(), account)
    return given_back(call.fmt, target, None), ran


def run_nowhere(call: Call, info: Wanted = False) -> None:
    """A product of a CPU's tensors, whose launches are watched (`gpu.foresight`)."""
    bound = torch.empty(call.dims, dtype=torch.float64) if info is True else None
    computed(call, Scalars(), bound, Clock(timed=False, bounds=bool(info)))
