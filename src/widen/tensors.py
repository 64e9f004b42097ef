"""PyTorch tensors in, tensors out: on a CPU as views of NumPy arrays, on a GPU by `device`."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import replace
from typing import Any

import torch

from widen import arguments, device
from widen import native as ordinary
from widen.backends import torch as backend
from widen.backends import torch_units as units
from widen.backends.clock import Clock
from widen.backends.recording import Kind, Recorder, Recordings
from widen.backends.torch import Lines, Tensor
from widen.backends.torch_bounds import error_bound
from widen.backends.torch_repair import REPAIRED
from widen.backends.torch_scaled import Scaling
from widen.call import Call, check_call, check_plan, empty_plan
from widen.contract import Contract
from widen.device import Prepared, Problem
from widen.device_plan import cached_plan
from widen.encoded import Encoded
from widen.formats import FORMATS, Format
from widen.plan import Info, Plan
from widen.planner import first_cap, typical_needs


def workspace(place: str, asked: int | str | None) -> int:
    """Bytes of workspace on a GPU, by default a quarter of its memory."""
    if asked is not None:
        return arguments.workspace_bytes(asked)
    return int(torch.cuda.get_device_properties(place).total_memory // 4)


def check_choices(unit: str | None, system: str | None, place: torch.device | None = None) -> None:
    """Whether a GPU (this one, or any) serves the unit and the system that were asked for."""
    there = units.available(place)
    if unit not in (None, *there):
        words = ", ".join(repr(name) for name in there)
        raise ValueError(f"unit={unit!r} does not run on a GPU; use one of {words}, or None")
    if system == "triangle":
        raise ValueError("system='triangle' does not run on a GPU; use 'residues' or 'digits'")


def typical_plan(
    contract: Contract, fmt: Format, shape: tuple[int, int, int, int], room: int,
    unit: str | None = None, system: str | None = None, place: str | None = None,
) -> Plan:  # fmt: skip
    """A plan for rows and columns of similar magnitudes, made without looking at any."""
    needs = typical_needs(contract, fmt, shape[2])
    cap = first_cap(fmt.precision, shape[2]) if contract.correct else None
    return cached_plan(
        contract, fmt, shape, math.ceil(8 * needs.bits), cap, room, None, unit, system,
        needs.widths, units.name_of(None if place is None else torch.device(place).index),
    )  # fmt: skip


def plan(call: Call) -> Plan:
    """What a call would run."""
    check_choices(call.unit, call.system, call.device)
    if math.prod(call.dims) == 0 or call.inner_dims[0][-1] == 0:
        return empty_plan(call)
    left, right = _merged(call)
    problem = Problem(
        left, right, call.contract, call.work, call.workspace, unit=call.unit, system=call.system
    )
    with torch.cuda.device(call.device):
        return device.prepare(problem).plan


def encode(
    x: Tensor, side: str, contract: Contract, fmt: Format, unit: str | None, system: str | None
) -> Encoded:
    """An operand on a GPU, encoded."""
    check_choices(unit, system, x.device)
    with torch.cuda.device(x.device):
        operand = lines_of(x.clone(), side, fmt.parts)  # a copy: it cannot go stale
        return device.encode_operand(operand, tuple(x.shape), side, contract, fmt, unit, system)


def lines_of(matrices: Tensor, side: str, parts: int) -> Lines:
    """(A batch of) matrices as lines, with one batch axis."""
    if matrices.ndim == 2:
        flat = matrices[None]
    else:
        dims = arguments.matrix_dims(tuple(matrices.shape), side)
        flat = matrices.reshape(math.prod(dims[:-2]), *dims[-2:])
    fmt = arguments.format_of(matrices.dtype, "operand").part
    if parts == 2 and not matrices.is_complex():
        fmt = FORMATS["float64" if matrices.dtype == torch.float64 else "float32"].part
    return backend.as_lines(flat, side, parts, fmt)


_recordings = Recordings()


def matmul(
    place: str, a: Any, b: Any, choices: tuple[Any, Any, Any, Any, Any], out: Any, info: bool,
    progress: Callable[[float], None] | None, plan: Plan | None, native: bool,
) -> Any:  # fmt: skip
    """`api.matmul` of operands on a GPU; `choices` are accuracy, dtype, unit, system, workspace."""
    kind = None
    if not (info or native or progress is not None):
        kind = _kind_of_call(a, b, out, choices, plan)
    if kind is not None:
        found = None
        with _on(place), suppress(torch.OutOfMemoryError):  # it will be explained below
            found = kind.again(_owned(a, b), out)
        if found is not None:
            return found
    accuracy, dtype, unit, system, room = choices
    call = check_call(a, b, accuracy, dtype, unit, system, workspace(place, room))
    if plan is not None:
        check_plan(call, plan)
    return product(call, out, info, progress, plan, native, kind=kind)


def _on(place: str) -> AbstractContextManager[Any]:
    """A context in which a GPU is the current one, if it is not yet."""
    if place == f"cuda:{torch.cuda.current_device()}":
        return nullcontext()
    return torch.cuda.device(place)


def _kind_of_call(
    a: Any, b: Any, out: Any, choices: tuple[Any, ...], plan: Plan | None
) -> Kind | None:
    """The kind of a call, by all that its launches depend on; None if there is no telling."""
    ours, theirs, result = _kind(a), _kind(b), None if out is None else _kind(out)
    if ours is None or theirs is None:
        return None
    left, right, shared = _owned(a)[0], _owned(b)[0], None
    if _same_storage(left, right):
        shared = right.data_ptr() - left.data_ptr()
    if out is not None and (result is None or any(_same_storage(x, out) for x in (left, right))):
        return None
    try:
        return _recordings.kind((ours, theirs, shared, result, choices, plan))
    except TypeError:  # an argument that has no hash, and will be refused
        return None


def _kind(x: Any) -> Any:
    if isinstance(x, Encoded):
        return x.side, x.dims, x.contract, x.fmt, x.layout.planes, x.planes.device, x.operand.fmt
    if type(x) is not torch.Tensor or x.is_conj() or x.is_neg():
        return None
    return x.shape, x.stride(), x.dtype, x.device, x.data_ptr() % 16


def _owned(*operands: Any) -> list[Tensor]:
    """The tensors of operands."""
    found: list[Tensor] = []
    for x in operands:
        if isinstance(x, Encoded):
            table, leads = x.lines
            found += [x.planes, x.operand.bits, table, *([] if leads is None else [leads])]
        else:
            found.append(x)
    return found


def product(
    call: Call, out: Tensor | None, info: bool, progress: Callable[[float], None] | None,
    plan: Plan | None, native: bool = False, scaling: Scaling | None = None,
    kind: Kind | None = None,
) -> Any:  # fmt: skip
    """The product of a call whose operands are on a GPU, and an Info if asked for.

    It is recorded if it has a kind.
    """
    check_choices(call.unit, call.system, call.device)
    where = call.device
    with torch.cuda.device(where), _explained(call.workspace):
        target = _target(call, out, where)
        if native and _ordinary_is_fast(call, where):
            found = ordinary.product(call, out, info, torch, on_gpu=True)
            if found is not None:
                return found
        bound = torch.empty(call.dims, dtype=torch.float64, device=where) if info else None
        ledger = Clock(timed=info)
        if kind is None or kind.hopeless:
            ran = _run(call, target, bound, ledger, progress, plan, scaling)
        else:
            with Recorder([*_owned(call.left, call.right), target]) as recorder:
                ran = _run(call, target, bound, ledger, progress, plan, scaling)
            kind.keep(recorder)
        if out is not None and target is not out:
            out.copy_(target)
    result = target if out is None else out
    if bound is None:
        return result
    return result, Info(ran, bound, ledger.repaired, ran.products, ledger.workspace, ledger.seconds)


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
    call: Call, alpha: complex, beta: complex, c: Any, out: Tensor | None, info: bool,
    progress: Callable[[float], None] | None,
) -> Any:  # fmt: skip
    """Alpha a b + beta c of operands on a GPU, and an Info if asked for."""
    if alpha == 1 and c is None:
        return product(call, out, info, progress, None)
    where = call.device
    with torch.cuda.device(where):
        addend = None if c is None else _addend(call, c, out, where)
    return product(call, out, info, progress, None, scaling=Scaling(alpha, beta, addend))


def _addend(call: Call, c: Any, out: Tensor | None, where: torch.device) -> Lines:
    """Bits of c, (parts, batch, m, n), of the parts it has; a copy if the result goes there.

    c is read again where elements are repaired, after the result was first written.
    """
    name = arguments.format_of(c.dtype, "c").name
    if not isinstance(c, torch.Tensor):  # a number
        name = "complex128" if FORMATS[name].parts == 2 else "float64"
        c = torch.full((), c.item(), dtype=getattr(torch, name), device=where)
    try:
        full = c.detach().expand(call.dims)
    except RuntimeError:
        raise ValueError(
            f"c has shape {tuple(c.shape)}, which does not broadcast to the result's {call.dims}"
        ) from None
    if isinstance(out, torch.Tensor) and _same_storage(c, out):
        full = full.clone()
    matrices: Any = call.as_matrices(full)
    items = matrices.reshape(-1, *matrices.shape[-2:])
    return Lines(backend.bits_of(items, FORMATS[name].parts), FORMATS[name].part)


def _ordinary_is_fast(call: Call, where: torch.device) -> bool:
    """Whether this GPU has float64 units worth the name; TF32 would not keep the contract."""
    if call.work.part.precision == 53:
        return torch.cuda.get_device_capability(where) in ((8, 0), (9, 0), (10, 0))
    return not torch.backends.cuda.matmul.allow_tf32


def _target(call: Call, out: Tensor | None, where: torch.device) -> Tensor:
    """Where the result is written: `out`, unless an operand lives there."""
    dtype = getattr(torch, call.fmt.name)
    fresh = torch.empty(call.dims, dtype=dtype, device=where) if out is None else out
    if not isinstance(fresh, torch.Tensor):
        raise TypeError(f"out is a {type(out).__name__}; give a tensor on {where}")
    if tuple(fresh.shape) != call.dims or fresh.dtype != dtype or fresh.device != where:
        raise ValueError(
            f"out has shape {tuple(fresh.shape)}, {fresh.dtype}, on {fresh.device}; the result "
            f"needs torch.empty({call.dims}, dtype={dtype}, device='{where}')"
        )
    operands: list[Any] = [call.left, call.right]
    owned = [x for x in operands if isinstance(x, torch.Tensor)]
    if any(_same_storage(x, fresh) for x in owned):
        return torch.empty(call.dims, dtype=dtype, device=where)
    return fresh


def _same_storage(x: Tensor, y: Tensor) -> bool:
    return x.untyped_storage().data_ptr() == y.untyped_storage().data_ptr()


def _run(
    call: Call, out: Tensor, bound: Tensor | None, ledger: Clock,
    progress: Callable[[float], None] | None, plan: Plan | None, scaling: Scaling | None = None,
) -> Plan:  # fmt: skip
    parts = call.work.parts
    k = arguments.matrix_dims(call.inner_dims[0], "left")[-1]
    if out.numel() == 0 or (k == 0 and scaling is None):
        out.zero_()
        if bound is not None:
            bound.fill_(2.0**call.fmt.part.lowest / 2)
        return empty_plan(call)
    if call.fmt.parts > parts:
        out.imag.zero_()
    unread = k == 0 or (scaling is not None and scaling.alpha == 0)
    left, right = _zeros(call, out.device) if unread else _merged(call)
    batch, m, n = max(left.shape[0], right.shape[0]), left.shape[1], right.shape[1]
    if scaling is not None:
        scaling = scaling.reshaped(batch, m, n)
    problem = Problem(
        left, right, call.contract, call.work, call.workspace, plan, scaling, call.unit, call.system
    )
    flat = out.reshape(batch, m, n)  # a copy where batch axes do not merge
    written = flat if call.fmt.parts == parts else flat.real
    bits = backend.bits_of(written, parts)
    report = None
    if bound is not None:
        limits = bound.view(batch, m, n)

        def report(prepared: Prepared, block: tuple[slice, slice, slice], marks: Tensor) -> None:
            values = (
                torch.view_as_real(flat).movedim(-1, 0)[:parts] if flat.is_complex() else flat[None]
            )
            rounded_once = (marks == REPAIRED) | call.contract.correct
            limits[block] = error_bound(
                prepared.tables_of(problem, block), problem.shape[2], parts, call.work.part,
                values[:, *block], rounded_once, 1.0 if scaling is None else scaling.modulus,
            )  # fmt: skip

    ran = device.run(problem, bits, ledger, progress, report)
    if not _same_storage(flat, out):
        out.copy_(flat.view(out.shape))
    return replace(ran, result=call.work.name, shape=(*ran.shape[:2], k, ran.shape[3]))


def _zeros(call: Call, where: torch.device) -> tuple[Lines, Lines]:
    """Operands of one column and one row of zeros, in place of what is not read."""
    part = call.work.part
    dtype = backend.INTEGERS[8 if part.precision == 53 else 4]
    ours, theirs = (
        torch.zeros((1, count, 1, call.work.parts), dtype=dtype, device=where).movedim(-1, 0)
        for count in (math.prod(call.batch) * call.m, call.n)
    )
    return Lines(ours, part), Lines(theirs, part)


def _merged(call: Call) -> tuple[Lines | Encoded, Lines | Encoded]:
    """Operands with one batch axis; a batch times one matrix becomes one tall product.

    Rows do not know of each other, so that changes no bits. Axes that broadcast in between are
    copied.
    """
    sides: list[Any] = []
    given: Any = call.sides
    parts = call.work.parts
    if all(isinstance(x, torch.Tensor) and x.ndim == 2 for x, _ in given):  # as most calls are
        return lines_of(given[0][0], "left", parts), lines_of(given[1][0], "right", parts)
    for x, side in given:
        if isinstance(x, Encoded):
            sides.append(x)
            continue
        dims = arguments.matrix_dims(tuple(x.shape), side)
        matrices = x.reshape(dims)
        if math.prod(dims[:-2]) != 1:
            matrices = matrices.expand(*call.batch, *dims[-2:])
        sides.append(matrices)
    left, right = sides
    count = right.shape[0] if isinstance(right, Encoded) else math.prod(right.shape[:-2])
    if not isinstance(left, Encoded) and count == 1 and math.prod(left.shape[:-2]) > 1:
        tall = left.reshape(1, -1, left.shape[-1])
        left = tall.view(1, math.prod(call.batch) * call.m, -1)
    ours, theirs = (
        x if isinstance(x, Encoded) else lines_of(x, side, parts)
        for x, side in ((left, "left"), (right, "right"))
    )
    return ours, theirs
