"""A checked call: operands, shapes and choices, and the product they stand for."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from widen.calls import check as arguments
from widen.calls.batches import Stack, pieces, split, stack
from widen.calls.check import as_operand, format_of
from widen.contract import Contract, as_contract
from widen.cpu import stages
from widen.cpu.operands import Array
from widen.cpu.scaling import Scaling
from widen.encoded import Encoded
from widen.formats import PLAIN, Format, complex_of, default_result
from widen.formats.arrays import new_planes
from widen.plan import Info, Plan
from widen.planner import check_system, make_plan, typical_needs, unit_for
from widen.stages.account import Account
from widen.stages.problem import Problem
from widen.stages.run import run
from widen.words import Words

Accuracy = str | int | Contract | None
Progress = Callable[[float], None]
"""Called with the share of the work that is done, from 0 to 1."""

Wanted = bool | Literal["largest"]
"""What `info` may be: no Info, one with a bound of every element, or with the largest alone."""

Choices = tuple[Any, Any, Any, Any, Any]
"""Accuracy, dtype, unit, system and workspace, as a caller gave them."""


@dataclass(frozen=True)
class Call:
    """A checked call: operands, the result's shape and format, and the choices made."""

    left: Array | Words | Encoded
    right: Array | Words | Encoded
    batch: tuple[int, ...]
    m: int
    n: int
    contract: Contract
    fmt: Format
    unit: str | None
    system: str | None
    workspace: int
    complex_scalars: bool = False

    @property
    def work(self) -> Format:
        """The format computed in: real if everything that is read is, whatever the result's."""
        complex_operand = any(_format(x).parts == 2 for x, _ in self.sides)
        return self.fmt if complex_operand or self.complex_scalars else self.fmt.part

    @property
    def dims(self) -> tuple[int, ...]:
        """The result's shape: what vectors add to make matrices is taken away again."""
        rows = () if len(_dims(self.left)) == 1 else (self.m,)
        columns = () if len(_dims(self.right)) == 1 else (self.n,)
        return (*self.batch, *rows, *columns)

    def matrices(self, *, unread: bool) -> tuple[Stack | Encoded, Stack | Encoded]:
        """Both operands as (batches of) matrices; zeros where there is nothing to read."""
        dims = [arguments.matrix_dims(_dims(x), side) for x, side in self.sides]
        if unread or dims[0][-1] == 0:
            zero = stack(np.zeros((), "complex128" if self.work.parts == 2 else "float64"))
            shapes = ((*self.batch, self.m, 1), (*self.batch, 1, self.n))
            return zero.broadcast(shapes[0]), zero.broadcast(shapes[1])
        left, right = (
            x if isinstance(x, Encoded) else stack(x)[_matrix_axes(_dims(x), side)]
            for x, side in self.sides
        )
        return left, right

    @property
    def sides(
        self,
    ) -> tuple[tuple[Array | Words | Encoded, str], tuple[Array | Words | Encoded, str]]:
        """The operands with the names of their sides."""
        return (self.left, "left"), (self.right, "right")

    @property
    def device(self) -> Any:
        """The GPU that the operands live on."""
        return next(x.device for x in (self.left, self.right) if x.device is not None)

    @property
    def inner_dims(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """The operands' own shapes."""
        return _dims(self.left), _dims(self.right)

    @property
    def formats(self) -> tuple[Format, Format]:
        """The operands' own formats."""
        return _format(self.left), _format(self.right)

    def as_matrices(self, x: Array | Words | Stack) -> Stack:
        """An array of the result's shape with the axes that vectors take away, as views."""
        whole = x if isinstance(x, Stack) else stack(x)
        rows = None if len(_dims(self.left)) == 1 else slice(None)
        columns = None if len(_dims(self.right)) == 1 else slice(None)
        return whole[*(slice(None),) * len(self.batch), rows, columns]

    def problem(self, left: Any, right: Any, scaling: Scaling | None = None) -> Problem[Any]:
        """The product of these two, as this call wants it."""
        return Problem(
            left, right, self.contract, self.work, self.workspace, self.unit, self.system,
            scaling=scaling,
        )  # fmt: skip


def _dims(x: Array | Words | Encoded) -> tuple[int, ...]:
    return x.dims if isinstance(x, Encoded) else tuple(x.shape)


def _matrix_axes(dims: tuple[int, ...], side: str) -> Any:
    """An index that makes a matrix of a vector."""
    if len(dims) > 1:
        return ()
    return (None, slice(None)) if side == "left" else (slice(None), None)


def _format(x: Array | Words | Encoded) -> Format:
    return x.fmt if isinstance(x, Encoded) else format_of(x.dtype, "operand")


def check_call(
    a: Any, b: Any, accuracy: Accuracy, dtype: Any, unit: str | None, system: str | None,
    workspace: int | str | None, *, complex_scalars: bool = False,
) -> Call:  # fmt: skip
    """Check what every function of the interface takes."""
    left = a if isinstance(a, Encoded) else as_operand(a, "a")
    right = b if isinstance(b, Encoded) else as_operand(b, "b")
    encoded = [x for x in (left, right) if isinstance(x, Encoded)]
    if accuracy is None:
        accuracy = encoded[0].contract if encoded else "standard"
    contract = as_contract(accuracy)
    unit_for(unit)
    check_system(system)
    fmt = arguments.result_format(dtype, default_result(_format(left), _format(right)))
    batch, m, n = arguments.result_dims(_dims(left), _dims(right))
    room = arguments.workspace_bytes(workspace)
    call = Call(left, right, batch, m, n, contract, fmt, unit, system, room, complex_scalars)
    if complex_scalars and fmt.parts == 1:
        raise ValueError(
            f"alpha, beta or c is complex but the result is {fmt.name}; "
            f"use dtype={complex_of(fmt.part).name!r}"
        )
    options = {"contract": contract, "unit": unit, "system": system}
    for x, side in ((left, "left"), (right, "right")):
        if isinstance(x, Encoded):
            arguments.check_encoded(x, side, call.work, options)
    if encoded:
        choices = {(x.unit, x.system) for x in encoded}
        if len(choices) > 1:
            raise ValueError(
                "a and b were encoded for different units or systems; encode one again"
            )
        chosen_unit, chosen_system = choices.pop()
        call = replace(call, unit=chosen_unit, system=chosen_system)
    return call


def _shape(call: Call) -> tuple[int, int, int, int]:
    """(batch, m, k, n) as the caller sees them, before batches are merged."""
    return math.prod(call.batch), call.m, _dims(call.left)[-1], call.n


def for_call(plan: Plan, call: Call) -> Plan:
    """The plan of a run as a plan for the whole call."""
    return replace(plan, shape=_shape(call), result=call.fmt.name)


def check_plan(call: Call, plan: Plan) -> None:
    """Whether a plan made beforehand is one for this call."""
    shape = _shape(call)
    if plan.shape != shape or plan.layout.parts != call.work.parts:
        kinds = {1: "real", 2: "complex"}
        raise ValueError(
            f"the plan is for {kinds[plan.layout.parts]} numbers and (batch, m, k, n) = "
            f"{plan.shape}; the call has {kinds[call.work.parts]} ones and {shape}: make a plan "
            "for these"
        )


def product(
    call: Call, alpha: complex, beta: complex, c: Array | Words | None, out: Any, info: Wanted,
    progress: Progress | None,
) -> Any:  # fmt: skip
    """Alpha a b + beta c, and an Info if asked for."""
    dims = call.dims
    target = _new(call) if out is None else out
    arguments.check_out(target, dims, call.fmt)
    sources = [stack(x) for x in (call.left, call.right) if not isinstance(x, Encoded)]
    if out is not None and any(stack(out).shares_memory(x) for x in sources):
        target = _new(call)
    addend = None if c is None else _addend(call, c, target)
    bound = np.empty(dims) if info is True else None
    account = Account(bounds=bool(info))
    with np.errstate(all="ignore"):  # what is exact may well overflow or underflow on its way
        plan = _run(call, (alpha, beta), target, addend, bound, progress, account)
    if out is not None and target is not out:
        for word, found in zip(stack(out).words, stack(target).words, strict=True):
            word[...] = found
    result = target if out is None else out
    if out is None and isinstance(result, np.ndarray) and not result.ndim:
        result = result[()]
    if not info:
        return result
    return result, info_of(replace(plan, result=call.fmt.name), bound, account, math.prod(dims))


def info_of(plan: Plan, bound: Any, account: Account, elements: int) -> Info:
    """What ran for so many elements; without an array of bounds, the largest."""
    if bound is None:
        bound = account.largest if account.finite or not elements else math.nan
    return Info(
        plan, bound, account.repaired, plan.products, account.workspace, account.seconds,
        elements - account.finite,
    )  # fmt: skip


def _new(call: Call) -> Any:
    """Memory for the result."""
    if call.fmt.name in PLAIN:
        return np.empty(call.dims, call.fmt.name)
    fmt: Any = call.fmt
    return Words.of(fmt, new_planes(fmt, (fmt.parts, *call.dims), None))


def _addend(call: Call, c: Array | Words, out: Array | Words) -> Stack:
    whole = stack(c)
    try:
        full = whole.broadcast(call.dims)
    except ValueError:
        raise ValueError(
            f"c has shape {c.shape}, which does not broadcast to the result's {call.dims}"
        ) from None
    # c is read again where elements are repaired, after `out` was first written.
    return full.copied(call.dims) if full.shares_memory(stack(out)) else full


def _run(
    call: Call, scalars: tuple[complex, complex], out: Array | Words, addend: Stack | None,
    bound: Array | None, progress: Progress | None, account: Account,
) -> Plan:  # fmt: skip
    """Run the product, or those that a batch falls into."""
    parts = call.work.parts
    left, right = call.matrices(unread=scalars[0] == 0)
    c, errors = (None if x is None else call.as_matrices(x) for x in (addend, bound))
    target = call.as_matrices(out)
    if call.fmt.parts > parts:
        for word in target.words:
            word[..., 1] = 0
    plan = empty_plan(call) if out.size == 0 else None
    whole = pieces(left, right, call.batch, parts, target, c, errors) if out.size else ()
    # A line's exponents and norms take some 110 bytes while they are worked out.
    most = max(64, call.workspace // 1000)
    todo = [piece for item in whole for piece in split(item, most)]
    for at, piece in enumerate(todo):
        scaling = None
        if scalars[0] != 1 or piece.addend is not None:
            nothing = (np.broadcast_to(np.zeros(()), piece.shape),)
            scaling = Scaling(*scalars, nothing if piece.addend is None else piece.addend)

        def report(done: float, at: int = at) -> None:
            if progress is not None:
                progress((at + done) / len(todo))

        problem = call.problem(piece.left, piece.right, scaling)
        plan = run(stages, problem, piece.out, account, bound=piece.bound, progress=report)
    assert plan is not None
    inner = _dims(call.left)[-1]
    if plan.shape[2] != inner:
        plan = replace(plan, shape=(*plan.shape[:2], inner, plan.shape[3]))
    return plan


def empty_plan(call: Call) -> Plan:
    """A plan for a product that has no elements."""
    shape = _shape(call)
    needs = typical_needs(call.contract, call.work, shape[2])
    found = make_plan(
        call.contract, call.work, shape, needs, unit=call.unit, system=call.system,
        workspace=call.workspace, why=("the result is empty",),
    )  # fmt: skip
    return for_call(found, call)
