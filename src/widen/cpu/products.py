"""Products of NumPy arrays: calls become problems, batches are cut, results and their Info."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np

from widen.cpu import stages, warm
from widen.cpu.batches import Stack, lines, pieces, split, stack
from widen.cpu.operands import Array
from widen.cpu.scaling import Scaling
from widen.encoded import Encoded
from widen.formats import PLAIN
from widen.formats.arrays import new_planes, numpy_dtype
from widen.options import Options
from widen.plan import Plan
from widen.planner import DEFAULT_WORKSPACE, first_cap, is_thin, make_plan, typical_needs
from widen.stages.problem import Account, Call, Encoding, Scalars, dims_of, info_of, matrix_dims
from widen.stages.run import encode_operand, run
from widen.words import Words


def default_workspace(place: str) -> int:
    """Bytes of workspace where the caller does not say."""
    return DEFAULT_WORKSPACE


def check_unit(unit: str | None, place: Any = None) -> None:
    """Every unit runs on a CPU."""


def ordinary_is_fast(call: Call) -> bool:
    """Whether the ordinary product may be the faster one, which BLAS is."""
    return True


@contextmanager
def ready(call: Call, options: Options) -> Iterator[None]:
    """A context to compute in: what is exact may well overflow or underflow on its way."""
    with np.errstate(all="ignore"):
        yield


def typical_plan(
    wanted: Encoding, shape: tuple[int, int, int, int], workspace: int, place: str | None = None
) -> Plan:
    """A plan for rows and columns of similar magnitudes, made without looking at any."""
    contract, fmt, k = wanted.contract, wanted.work, shape[2]
    return make_plan(
        contract, fmt, shape, typical_needs(contract, fmt, k), unit=wanted.unit,
        system=wanted.system, cap=first_cap(fmt.precision, k) if contract.correct else None,
        workspace=workspace, why=("rows and columns of similar magnitudes are assumed",),
        thin=is_thin(shape) and len(fmt.part.words) == 1 and wanted.unit in (None, "fp64"),
    )  # fmt: skip


def plan(call: Call) -> Plan:
    """What a call would run."""
    if math.prod(call.dims) == 0:
        return call.empty_plan()
    left, right = _matrices(call, unread=False)
    nowhere = stack(np.empty(())).broadcast((*call.batch, call.m, call.n))
    first = next(pieces(left, right, call.batch, call.work.parts, out=nowhere))
    with np.errstate(all="ignore"):
        prepared = stages.quantise(call.problem(first.left, first.right), Account())
    prepared.finish()
    return call.planned(prepared.plan)


def encode(array: Any, wanted: Sequence[Encoding]) -> Encoded:
    """An operand encoded, from a copy of its own, so that it cannot go stale."""
    x, side = stack(array), wanted[0].side
    dims = matrix_dims(x.shape, side)
    matrices = x.copied((math.prod(dims[:-2]), *dims[-2:]))
    operand = lines(matrices, side, wanted[0].fmt.parts)
    with np.errstate(all="ignore"):
        return encode_operand(stages, operand, x.shape, wanted)


def product(call: Call, scalars: Scalars, out: Any, options: Options) -> Any:
    """The sum alpha a b + beta c, and an Info if asked for."""
    dims = call.dims
    target = _new(call) if out is None else out
    sources = [stack(x) for x in (call.left, call.right) if not isinstance(x, Encoded)]
    if out is not None and any(stack(out).shares_memory(x) for x in sources):
        target = _new(call)
    addend = None if scalars.c is None else _addend(call, scalars.c, target)
    bound = np.empty(dims) if options.info is True else None
    warm.expect(call, scaled=not scalars.trivial, bounded=bool(options.info))
    account = Account(bounds=bool(options.info))
    with ready(call, options):
        whole = scalars if addend is None else replace(scalars, c=addend)
        ran = _run(call, whole, target, bound, options, account)
    if out is not None and target is not out:
        for word, value in zip(stack(out).words, stack(target).words, strict=True):
            word[...] = value
    result = target if out is None else out
    if out is None and isinstance(result, np.ndarray) and not result.ndim:
        result = result[()]
    if not options.info:
        return result
    return result, info_of(replace(ran, result=call.fmt.name), bound, account, math.prod(dims))


def _new(call: Call) -> Any:
    """Memory for the result."""
    if call.fmt.name in PLAIN:
        return np.empty(call.dims, numpy_dtype(call.fmt.name))
    fmt: Any = call.fmt
    return Words.of(fmt, new_planes(fmt, (fmt.parts, *call.dims), None))


def _addend(call: Call, c: Any, out: Any) -> Stack:
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
    call: Call, scalars: Scalars, out: Any, bound: Array | None, options: Options, account: Account
) -> Plan:
    """Run the product, or those that a batch falls into."""
    parts = call.work.parts
    left, right = _matrices(call, unread=scalars.alpha == 0)
    c, errors = (None if x is None else _as_matrices(call, x) for x in (scalars.c, bound))
    target = _as_matrices(call, out)
    if call.fmt.parts > parts:
        for word in target.words:
            word[..., 1] = 0
    ran = call.empty_plan() if out.size == 0 else None
    whole = (
        pieces(left, right, call.batch, parts, out=target, addend=c, bound=errors)
        if out.size
        else ()
    )
    # A line's exponents and norms take some 110 bytes while they are worked out.
    most = max(64, call.workspace // 1000)
    todo = [piece for item in whole for piece in split(item, most)]
    for at, piece in enumerate(todo):
        scaling = None
        if scalars.alpha != 1 or piece.addend is not None:
            nothing = (np.broadcast_to(np.zeros(()), piece.shape),)
            addend = nothing if piece.addend is None else piece.addend
            scaling = Scaling(scalars.alpha, scalars.beta, addend)

        def report(done: float, at: int = at) -> None:
            if options.progress is not None:
                options.progress((at + done) / len(todo))

        problem = call.problem(piece.left, piece.right, scaling=scaling)
        ran = run(stages, problem, piece.out, account, bound=piece.bound, progress=report)
    assert ran is not None
    if ran.shape[2] == call.k:
        return ran
    return replace(ran, shape=(*ran.shape[:2], call.k, ran.shape[3]))


def _matrices(call: Call, *, unread: bool) -> tuple[Stack | Encoded, Stack | Encoded]:
    """Both operands as (batches of) matrices; zeros where there is nothing to read."""
    if unread or call.k == 0:
        zero = stack(np.zeros((), "complex128" if call.work.parts == 2 else "float64"))
        shapes = ((*call.batch, call.m, 1), (*call.batch, 1, call.n))
        return zero.broadcast(shapes[0]), zero.broadcast(shapes[1])
    left, right = (
        x if isinstance(x, Encoded) else stack(x)[_matrix_axes(dims_of(x), side)]
        for x, side in call.sides
    )
    return left, right


def _matrix_axes(dims: tuple[int, ...], side: str) -> Any:
    """An index that makes a matrix of a vector."""
    if len(dims) > 1:
        return ()
    return (None, slice(None)) if side == "left" else (slice(None), None)


def _as_matrices(call: Call, x: Any) -> Stack:
    """An array of the result's shape with the axes that vectors take away, as views."""
    whole = x if isinstance(x, Stack) else stack(x)
    rows = None if len(dims_of(call.left)) == 1 else slice(None)
    columns = None if len(dims_of(call.right)) == 1 else slice(None)
    return whole[*(slice(None),) * len(call.batch), rows, columns]
