"""Tensors on a GPU in, tensors out: calls checked, operands as lines, launches recorded."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import torch

from widen.calls import check as arguments
from widen.calls import native as ordinary
from widen.calls.call import Call, Choices, check_call, check_plan, empty_plan
from widen.contract import Contract
from widen.encoded import Encoded
from widen.formats import FORMATS, PLAIN, Format
from widen.gpu import hardware, stages
from widen.gpu.arrays import (
    addend_lines,
    bits_of,
    copied,
    copy_into,
    empty,
    expanded,
    in_one_block,
    lines_of,
    planes,
    reshaped,
    share_memory,
)
from widen.gpu.batches import merged, zeros
from widen.gpu.clock import Clock
from widen.gpu.encode import held
from widen.gpu.operands import Lines, Tensor
from widen.gpu.optional import is_traced
from widen.gpu.planning import Question, cached_plan
from widen.gpu.replay.recording import Kind, Recorder, Recordings
from widen.gpu.scaling import Scaling
from widen.plan import Info, Plan
from widen.planner import first_cap, typical_needs
from widen.stages.problem import Encoding, Problem
from widen.stages.run import encode_operand, run
from widen.words import Words


def workspace(place: str, asked: int | str | None) -> int:
    """Bytes of workspace on a GPU, by default a quarter of its memory."""
    if asked is not None:
        return arguments.workspace_bytes(asked)
    if not torch.cuda.is_available():
        raise ValueError(f"device={place!r}: PyTorch sees no GPU here; give workspace=, as '8GB'")
    return int(torch.cuda.get_device_properties(place).total_memory // 4)


def check_unit(unit: str | None, place: torch.device | None = None) -> None:
    """Whether a GPU (this one, or any) serves the unit that was asked for."""
    there = hardware.available(place)
    if unit not in (None, *there):
        words = ", ".join(repr(name) for name in there)
        raise ValueError(f"unit={unit!r} does not run on a GPU; use one of {words}, or None")


def typical_plan(
    contract: Contract, fmt: Format, shape: tuple[int, int, int, int], room: int, *,
    unit: str | None = None, system: str | None = None, place: str | None = None,
) -> Plan:  # fmt: skip
    """A plan for rows and columns of similar magnitudes, made without looking at any."""
    gpu = hardware.name_of(None if place is None else torch.device(place).index)
    if system == "triangle" and contract.certified_by_data:  # as `stages.quantise` will have it
        return Question(
            contract, fmt, shape, (None,), room, True, unit=unit, system=system, gpu=gpu,
            wide=len(fmt.part.words) > 1,
        ).widest()  # fmt: skip
    needs = typical_needs(contract, fmt, shape[2])
    cap = first_cap(fmt.precision, shape[2]) if contract.correct else None
    return cached_plan(
        contract, fmt, shape, math.ceil(8 * needs.bits), cap=cap, workspace=room, layout=None,
        unit=unit, system=system, widths=needs.widths, gpu=gpu,
    )  # fmt: skip


def plan(call: Call) -> Plan:
    """What a call would run."""
    check_unit(call.unit, call.device)
    if math.prod(call.dims) == 0 or call.inner_dims[0][-1] == 0:
        return empty_plan(call)
    left, right = merged(call)
    problem = Problem(
        left, right, call.contract, call.work, call.workspace, unit=call.unit, system=call.system
    )
    with torch.cuda.device(call.device):
        return stages.quantise(problem, Clock(timed=False)).plan


def encode(
    x: Any, side: str, contract: Contract, fmt: Format, unit: str | None, system: str | None
) -> Encoded:
    """An operand on a GPU, encoded."""
    check_unit(unit, x.device)
    with torch.cuda.device(x.device):
        own = copied(x)  # it cannot go stale
        if math.prod(x.shape) == 0:  # no product with it reads it
            own = torch.zeros([max(size, 1) for size in x.shape], device=x.device)
        operand = lines_of(own, side, fmt.parts)
        wanted = Encoding(side, contract, fmt, unit, system)
        return encode_operand(stages, operand, tuple(x.shape), wanted)


_recordings = Recordings()


def matmul(
    place: str, a: Any, b: Any, choices: Choices, *, out: Any, info: bool,
    progress: Callable[[float], None] | None, plan: Plan | None, native: bool,
) -> Any:  # fmt: skip
    """`widen.matmul` of operands on a GPU."""
    plain = not (info or native or progress is not None)
    kind = _kind_of_call(a, b, out, choices, plan) if plain else None
    accuracy, dtype, unit, system, room = choices
    call = check_call(a, b, accuracy, dtype, unit, system, workspace(place, room))
    if plan is not None:
        check_plan(call, plan)
    return product(call, out, info, progress, plan=plan, native=native, kind=kind)


def again(a: Any, b: Any, choices: Choices, out: Any, plan: Plan | None) -> Any:
    """The product by launches recorded of a call of this kind, which was checked, or None."""
    if is_traced() or torch.autograd.forward_ad._current_level >= 0:
        return None
    kind = _recordings.known(_key_of_call(a, b, out, choices, plan))
    if kind is None:
        return None
    operands = _owned(a, b)
    device = operands[0].device
    try:
        if torch._C._cuda_getDevice() == device.index:
            return kind.again(operands, out)
        with torch.cuda.device(device):
            return kind.again(operands, out)
    except torch.OutOfMemoryError:
        return None  # it will be explained


def _kind_of_call(a: Any, b: Any, out: Any, choices: Choices, plan: Plan | None) -> Kind | None:
    """The kind of a call; None if there is no telling."""
    if torch.version.hip:
        return None  # launches are issued again by NVIDIA's driver
    return _recordings.kind(_key_of_call(a, b, out, choices, plan))


def _key_of_call(a: Any, b: Any, out: Any, choices: Choices, plan: Plan | None) -> Any:
    """All that a call's launches depend on, or None if they might depend on more."""
    ours, theirs, result = _kind(a), _kind(b), None if out is None else _kind(out)
    if ours is None or theirs is None:
        return None
    left, right = (held(x).planes if isinstance(x, Encoded) else x for x in (a, b))
    shared = None
    if _same_storage(left, right):
        shared = right.data_ptr() - left.data_ptr()
    if out is not None and (result is None or any(_same_storage(x, out) for x in (left, right))):
        return None
    # 40.0 and True are equal to contracts, and none.
    return ours, theirs, shared, result, choices, type(choices[0]), plan


def _kind(x: Any) -> Any:
    if isinstance(x, Encoded):
        if x.device is None:
            return None  # it will be refused
        operand = held(x).operand
        kept = (operand.fmt, operand.words.shape, operand.words.stride(), x.unit, x.system)
        return x.side, x.dims, x.contract, x.fmt, x.layout.planes, x.device, kept
    if type(x) not in (torch.Tensor, torch.nn.Parameter) or x.is_conj() or x.is_neg():
        return None
    if x.requires_grad and torch.is_grad_enabled():
        return None  # it goes another way
    return x.shape, x.stride(), x.dtype, x.device, x.data_ptr() % 16


def _owned(*operands: Any) -> list[Tensor]:
    """The tensors of operands."""
    found: list[Tensor] = []
    for x in operands:
        if isinstance(x, Encoded):
            found += held(x).tensors
        else:
            found.append(x)
    return found


def product(
    call: Call, out: Any, info: bool, progress: Callable[[float], None] | None, *,
    plan: Plan | None = None, native: bool = False, scaling: Scaling | None = None,
    kind: Kind | None = None,
) -> Any:  # fmt: skip
    """The product of a call whose operands are on a GPU, and an Info if asked for.

    It is recorded if it has a kind.
    """
    check_unit(call.unit, call.device)
    where = call.device
    plain = call.fmt.name in PLAIN
    with torch.cuda.device(where), _explained(call.workspace):
        target = _target(call, out, where)
        if native and plain and _ordinary_is_fast(call, where):
            found = ordinary.product(call, out, info, torch, on_gpu=True)
            if found is not None:
                return found
        bound = torch.empty(call.dims, dtype=torch.float64, device=where) if info else None
        account = Clock(timed=info)
        more: dict[str, Any] = {"progress": progress, "plan": plan, "scaling": scaling}
        if kind is None or kind.hopeless or not plain:
            ran = _run(call, target, bound, account, **more)
        else:
            with Recorder([*_owned(call.left, call.right), target]) as recorder:
                ran = _run(call, target, bound, account, **more)
            kind.keep(recorder)
        if out is not None and target is not out:
            copy_into(out, target)
    result = target if out is None else out
    if bound is None:
        return result
    return result, Info(
        ran, bound, account.repaired, ran.products, account.workspace, account.seconds
    )


@contextmanager
def _explained(room: int) -> Iterator[None]:
    """A context in which running out of memory says what to do."""
    try:
        yield
    except torch.OutOfMemoryError as error:
        raise torch.OutOfMemoryError(
            f"the GPU has too little free memory for a workspace of {room / 1e9:.2g} GB beside "
            f"operands and result; give a smaller workspace=, '256MB' for one ({error})"
        ) from None


def gemm(
    call: Call, alpha: complex, beta: complex, c: Any, *, out: Any, info: bool,
    progress: Callable[[float], None] | None,
) -> Any:  # fmt: skip
    """Alpha a b + beta c of operands on a GPU, and an Info if asked for."""
    if alpha == 1 and c is None:
        return product(call, out, info, progress)
    where = call.device
    with torch.cuda.device(where):
        addend = None if c is None else _addend(call, c, out, where)
    return product(call, out, info, progress, scaling=Scaling(alpha, beta, addend))


def _addend(call: Call, c: Any, out: Any, where: torch.device) -> Lines:
    """Bits of c, (parts, batch, m, n), of the parts it has; a copy if the result goes there.

    c is read again where elements are repaired, after the result was first written.
    """
    fmt = arguments.format_of(c.dtype, "c")
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
    return addend_lines(reshaped(full, (math.prod(call.batch), call.m, call.n)), fmt)


def _ordinary_is_fast(call: Call, where: torch.device) -> bool:
    """Whether this GPU has float64 units worth the name; TF32 would not keep the contract."""
    if call.work.part.precision == 53:
        return torch.cuda.get_device_capability(where) in ((8, 0), (9, 0), (10, 0))
    return bool(torch.backends.cuda.matmul.fp32_precision != "tf32")


def _target(call: Call, out: Any, where: torch.device) -> Any:
    """Where the result is written: `out`, unless an operand lives there."""
    if out is None:
        return empty(call.fmt, call.dims, where)
    if call.fmt.name not in PLAIN:
        arguments.check_words(out, call.dims, call.fmt)
        if out.device != where:
            raise ValueError(f"out is on {out.device}; the result needs to be on {where}")
    elif not isinstance(out, torch.Tensor):
        raise TypeError(f"out is a {type(out).__name__}; give a tensor on {where}")
    else:
        dtype = getattr(torch, call.fmt.name)
        if tuple(out.shape) != call.dims or out.dtype != dtype or out.device != where:
            raise ValueError(
                f"out has shape {tuple(out.shape)}, {out.dtype}, on {out.device}; the result "
                f"needs torch.empty({call.dims}, dtype={dtype}, device='{where}')"
            )
        arguments.check_apart(out.shape, out.stride())
    operands: list[Any] = [call.left, call.right]
    owned = [x for x in operands if not isinstance(x, Encoded)]
    if any(share_memory(x, out) for x in owned) or not in_one_block(out):
        return empty(call.fmt, call.dims, where)
    return out


def _same_storage(x: Tensor, y: Tensor) -> bool:
    return x.untyped_storage().data_ptr() == y.untyped_storage().data_ptr()


def _run(
    call: Call, out: Any, bound: Tensor | None, account: Clock, *,
    progress: Callable[[float], None] | None = None, plan: Plan | None = None,
    scaling: Scaling | None = None,
) -> Plan:  # fmt: skip
    parts = call.work.parts
    k = arguments.matrix_dims(call.inner_dims[0], "left")[-1]
    if math.prod(call.dims) == 0:
        return empty_plan(call)
    unread = k == 0 or (scaling is not None and scaling.alpha == 0)
    left, right = zeros(call, out.device) if unread else merged(call)
    batch, m, n = max(left.shape[0], right.shape[0]), left.shape[1], right.shape[1]
    if scaling is not None:
        scaling = scaling.reshaped(batch, m, n)
    problem = Problem(
        left, right, call.contract, call.work, call.workspace, call.unit, call.system, plan, scaling
    )
    flat = reshaped(out, (batch, m, n))  # a copy where batch axes do not merge
    if not in_one_block(flat):
        flat = empty(call.fmt, (batch, m, n), out.device)
    if call.fmt.parts > parts:
        for plane in planes(flat):
            (plane[1] if isinstance(flat, Words) else plane.imag).zero_()
    bits = bits_of(flat, parts)
    limits = None if bound is None else bound.view(batch, m, n)
    ran = run(stages, problem, bits, account, bound=limits, progress=progress)
    if not share_memory(flat, out):
        copy_into(out, reshaped(flat, call.dims))
    return replace(ran, result=call.fmt.name, shape=(*ran.shape[:2], k, ran.shape[3]))
