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
from widen.formats import FORMATS, PLAIN, Format
from widen.formats.arrays import format_of_array, meaningful
from widen.gpu import encoder, stages, units
from widen.gpu.batches import (
    addend_lines,
    bits_of,
    copied,
    copy_into,
    expanded,
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
from widen.gpu.encode import held
from widen.gpu.foresight import Needs, kernels_of
from widen.gpu.operands import Tensor, halves_of
from widen.gpu.planned import is_captured
from widen.gpu.planning import Question, cached_plan
from widen.gpu.replay import private
from widen.gpu.replay.recording import Recorder, Recording
from widen.gpu.scaling import Scaling
from widen.options import Options, Wanted
from widen.plan import Plan
from widen.planner import first_cap, typical_needs
from widen.stages.compiling.once import Once
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


class CallRecordings:
    """Recordings of one kind of call, by the choice they were made with."""

    def __init__(self) -> None:
        self.by_choice: dict[Any, Recording] = {}
        self.last: Any = None
        self.half: Format | None = None  # the format of results that are halves
        self.failures = 0

    @property
    def hopeless(self) -> bool:
        """Whether calls of this kind are not worth recording."""
        return self.failures >= 3 and not self.by_choice

    def again(self, operands: Sequence[Tensor], out: Tensor | None) -> Tensor | None:
        """The result for these operands by launches that were recorded, or None."""
        recording = self.by_choice.get(self.last)
        if recording is None:
            return None
        result, choice = recording.issue(operands, None if self.half else out)
        if choice is not None:
            self.last = choice.key
        if result is None:
            return None
        if self.half is None:
            return result
        given_back: Tensor = _given_back(self.half, result, out)
        return given_back

    def keep(self, recorder: Recorder, fmt: Format) -> None:
        """Keep what was recorded of a call, whose result is of this format."""
        recording = recorder.recording()
        self.half = fmt if is_half(fmt) else None
        self.failures += recording is None and not recorder.postponed
        if recording is not None:
            key = None if recording.choice is None else recording.choice.key
            self.by_choice[key] = recording  # by its own, whatever other threads have chosen last
            self.last = key


class Recordings:
    """Recordings of all kinds of calls."""

    MOST = 2048
    """Of tens of kilobytes each: when there are more kinds of calls, all are dropped."""

    def __init__(self) -> None:
        self._by_key: Once[CallRecordings] = Once(self.MOST)

    def known(self, key: Any) -> CallRecordings | None:
        """Those of the calls with this key, if there were any; None is no key."""
        try:
            return self._by_key.get(key)
        except TypeError:  # an argument that has no hash, and will be refused
            return None

    def of(self, key: Any) -> CallRecordings | None:
        """The same, old or new."""
        try:
            return None if key is None else self._by_key.made(key, CallRecordings)
        except TypeError:
            return None


_recordings = Recordings()


def replayed(a: Any, b: Any, out: Any, options: Options) -> Any:
    """The product by launches recorded of a call of this kind, which was checked, or None."""
    if private.is_traced() or private.is_forward_mode():
        return None
    recordings = _recordings.known(_key_of_call(a, b, out, options))
    if recordings is None:
        return None
    operands = _owned(a, b)
    device = operands[0].device
    try:
        if private.is_current(device.index):
            return recordings.again(operands, out)
        with torch.cuda.device(device):
            return recordings.again(operands, out)
    except torch.OutOfMemoryError:
        return None  # it will be explained


def _recordings_of(
    call: Call, scalars: Scalars, out: Any, options: Options
) -> CallRecordings | None:
    """The recordings of a call whose launches may be issued again, or None."""
    if (
        not private.available()
        or torch.version.hip
        or not options.plain
        or not scalars.trivial
        or call.fmt.name not in PLAIN
    ):
        return None  # they are issued again by NVIDIA's driver
    recordings = _recordings.of(_key_of_call(call.left, call.right, out, options))
    return None if recordings is None or recordings.hopeless else recordings


def _key_of_call(a: Any, b: Any, out: Any, options: Options) -> Any:
    """All that a call's launches depend on, or None if they might depend on more."""
    ours, theirs, result = (
        _key_of_operand(a),
        _key_of_operand(b),
        None if out is None else _key_of_operand(out),
    )
    if ours is None or theirs is None:
        return None
    left, right = (held(x).planes if isinstance(x, Encoded) else x for x in (a, b))
    shared = None
    if _same_storage(left, right):
        shared = right.data_ptr() - left.data_ptr()
    if out is not None and (result is None or any(_same_storage(x, out) for x in (left, right))):
        return None
    captured = options.plan is not None and is_captured(left.device)  # then nobody waits
    return ours, theirs, shared, result, options.key, captured


def _key_of_operand(x: Any) -> Any:
    if isinstance(x, Encoded):
        if x.device is None:
            return None  # it will be refused
        operand = held(x).operand
        words = operand.words
        strides = meaningful(words.shape, words.stride())
        kept = (operand.fmt, words.shape, strides, x.unit, x.system)
        return x.side, x.dims, x.contract, x.fmt, x.layout.planes, x.device, kept
    if type(x) not in (torch.Tensor, torch.nn.Parameter) or x.is_conj() or x.is_neg():
        return None
    if x.requires_grad and torch.is_grad_enabled():
        return None  # it goes another way
    return x.shape, meaningful(x.shape, x.stride()), x.dtype, x.device, x.data_ptr() % 16


def _owned(*operands: Any) -> list[Tensor]:
    """The tensors of operands."""
    tensors: list[Tensor] = []
    for x in operands:
        if isinstance(x, Encoded):
            tensors += held(x).tensors
        else:
            tensors.append(x)
    return tensors


def product(call: Call, scalars: Scalars, out: Any, options: Options) -> Any:
    """The sum alpha a b + beta c of operands on a GPU, and an Info if asked for.

    Launches are recorded if they may be issued again.
    """
    where, info, recordings = call.device, options.info, _recordings_of(call, scalars, out, options)
    with ready(call, options), foreseeing(lambda needs: _foreseen(call, options, needs)):
        scaling = None if scalars.trivial else _scaling(call, scalars, out, where)
        target = _target(call, out, where)
        bound = torch.empty(call.dims, dtype=torch.float64, device=where) if info is True else None
        account = Clock(timed=bool(info), bounds=bool(info))
        if recordings is None:
            ran = _run(call, scaling, target, bound, options, account)
        else:
            with Recorder([*_owned(call.left, call.right), target]) as recorder:
                ran = _run(call, scaling, target, bound, options, account)
            recordings.keep(recorder, call.fmt)
        result = _given_back(call.fmt, target, out)
    if not info:
        return result
    return result, info_of(ran, bound, account, math.prod(call.dims))


def _foreseen(call: Call, options: Options, needs: Needs | None) -> list[Variant]:
    """The kernels that a call will need, as far as can be told."""
    run = partial(run_nowhere, info=options.info)
    return kernels_of(call, run, needs=needs) if options.plan is None else []


def _scaling(call: Call, scalars: Scalars, out: Any, where: torch.device) -> Scaling:
    """alpha, beta, and the bits of c, of the parts it has; a copy if the result goes there.

    c is read again where elements are repaired, after the result was first written.
    """
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
    if isinstance(out, (torch.Tensor, Words)) and share_memory(c, out):
        full = copied(full)
    lines = addend_lines(reshaped(full, (math.prod(call.batch), call.m, call.n)), fmt)
    return Scaling(scalars.alpha, scalars.beta, lines)


def _target(call: Call, out: Any, where: torch.device) -> Any:
    """Where the result is written: `out`, unless an operand lives there or it holds halves."""
    owned = [x for x in (call.left, call.right) if not isinstance(x, Encoded)]
    if (
        out is None
        or is_half(call.fmt)
        or any(share_memory(x, out) for x in owned)
        or not in_one_block(out)
    ):
        return room_for(call.fmt, call.dims, where)
    return out


def _given_back(fmt: Format, target: Any, out: Any) -> Any:
    """What was computed as the caller wants it: halves of their own size, and in `out`."""
    if is_half(fmt):
        target = halves_of(target, fmt.name)
    if out is None or target is out:
        return target
    copy_into(out, target)
    return out


def _same_storage(x: Tensor, y: Tensor) -> bool:
    return x.untyped_storage().data_ptr() == y.untyped_storage().data_ptr()


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
    scaling = None if scalars.trivial else _scaling(call, scalars, None, where)
    target = _target(call, None, where)
    ran = _run(call, scaling, target, bound, Options(), account)
    return _given_back(call.fmt, target, None), ran


def run_nowhere(call: Call, info: Wanted = False) -> None:
    """A product of a CPU's tensors, whose launches are watched (`gpu.foresight`)."""
    bound = torch.empty(call.dims, dtype=torch.float64) if info is True else None
    computed(call, Scalars(), bound, Clock(timed=False, bounds=bool(info)))
