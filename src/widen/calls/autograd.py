"""The product as a PyTorch operator, `torch.ops.widen.gemm`: what autograd, compilers and vmap see.

Calls that PyTorch does not look into do without it, and those that only autograd sees have its
gradients without it, since an operator takes the host longer.
Gradients are products too, and keep the contract of the product they belong to: the axes along
which an operand was repeated become part of the inner dimension.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import torch

from widen.calls import check, dispatch
from widen.contract import as_contract
from widen.encoded import Encoded
from widen.formats import PLAIN, complex_of
from widen.formats.arrays import eager, is_distributed
from widen.gpu.replay.private import is_compiled, is_transformed
from widen.options import Options
from widen.planner import DEFAULT_WORKSPACE
from widen.stages.problem import Scalars
from widen.words import Words

Tensor = torch.Tensor
Numbers = list[float]
"""The scalars alpha and beta: an operator takes no complex numbers, but their parts."""


def gemm(a: Any, b: Any, scalars: Scalars, out: Any, options: Options) -> Tensor | None:
    """The sum alpha a b + beta c.

    An operator cannot have all options: None if a compiler can do without, or an error.
    """
    dtype, c = options.dtype, scalars.c
    unserved = {
        "out": out, "info": options.info, "progress": options.progress, "plan": options.plan,
        "device": options.device,
    }  # fmt: skip
    if dtype is not None:
        dtype = check.result_format(dtype, PLAIN["float32"]).name
    given = {"a": a, "b": b, "c": c}
    foreign = {name: x for name, x in given.items() if not _is_served(x, name)}
    refused = [
        *(f"{name}=" for name, x in unserved.items() if x is not None and x is not False),
        *([] if dtype in (None, *PLAIN) else [f"dtype={dtype}"]),
    ]
    if (foreign or refused) and is_compiled():
        return None
    if foreign or refused:
        raise _refusal(given, foreign, refused)
    if c is not None and not isinstance(c, Tensor):
        wide = torch.complex128 if isinstance(c, complex) else torch.float64
        c = torch.full((), c, dtype=wide, device=a.device)
    return _shaped(_call, a, b, replace(scalars, c=c), replace(options, dtype=dtype))


def seen(a: Tensor, b: Tensor, scalars: Scalars, options: Options) -> Tensor:
    """The operator for those who look on below autograd, such as tracers; no more is checked."""
    return _shaped(_gemm, a, b, scalars, options)


def read(args: tuple[Any, ...]) -> tuple[Tensor, Tensor, Scalars, Options]:
    """What a call of the operator asks for."""
    a, b, c, alpha, beta, accuracy, dtype, unit, system, workspace, native = args
    options = Options(_accuracy(accuracy), dtype, unit, system, workspace, native=native)
    return a, b, Scalars(_number(alpha), 0.0 if c is None else _number(beta), c), options


def _shaped(
    call: Callable[..., Tensor], a: Tensor, b: Tensor, scalars: Scalars, options: Options
) -> Tensor:
    """The operator, called with matrices for vectors."""
    accuracy, room, c = options.accuracy, options.workspace, scalars.c
    left, right = a, b
    if a.ndim == 1:
        left = a.unsqueeze(0)
        c = c.unsqueeze(-2) if c is not None and c.ndim else c
    if b.ndim == 1:
        right = b.unsqueeze(1)
        c = c.unsqueeze(-1) if c is not None and c.ndim else c
    product = call(
        left, right, c, _parts(scalars.alpha), _parts(scalars.beta),
        str(as_contract("standard" if accuracy is None else accuracy)), options.dtype, options.unit,
        options.system, None if room is None else str(room if isinstance(room, str) else int(room)),
        options.native,
    )  # fmt: skip
    if b.ndim == 1:
        product = _squeezed(product, -1)
    return _squeezed(product, -2 if b.ndim > 1 else -1) if a.ndim == 1 else product


def _squeezed(x: Tensor, axis: int) -> Tensor:
    """The same without an axis that a vector does not have."""
    if is_distributed(x):
        from widen.distributed import gradients

        x = gradients.uncut(x, axis)
    return x.squeeze(axis)


def _refusal(given: dict[str, Any], foreign: dict[str, Any], refused: list[str]) -> TypeError:
    """What an operator cannot have, and what to write instead."""
    place = next(str(x.device) for x in given.values() if isinstance(x, Tensor))
    detached = "use .detach() or torch.no_grad()"
    fixes = []
    for name, x in foreign.items():
        if isinstance(x, Words):
            fixes.append(f"words have no gradients, {detached}")
        elif isinstance(x, Encoded):
            fixes.append(f"give the tensor that {name} was encoded from, or {detached}")
        else:
            fixes.append(f"give {check.moved(x, name, place)}")
    if refused:
        fixes.append(f"leave that out, or {detached}")
    obstacles = [*(f"{name} as {type(x).__name__}" for name, x in foreign.items()), *refused]
    return TypeError(
        f"a product that PyTorch differentiates or maps cannot have {', '.join(obstacles)}: "
        + "; ".join(fixes)
    )


def _is_served(x: Any, name: str) -> bool:
    return isinstance(x, Tensor) or (name == "c" and isinstance(x, (type(None), float, complex)))


def _parts(number: Any) -> Numbers:
    return [number.real, number.imag] if isinstance(number, complex) else [float(number)]


def _number(parts: Numbers) -> complex:
    return complex(*parts) if len(parts) == 2 else parts[0]


def _conjugate(parts: Numbers) -> complex:
    return _number(parts).conjugate()


def _accuracy(word: str) -> str | int:
    return int(word) if word.isdigit() else word


@torch.library.custom_op(
    "widen::gemm",
    mutates_args=(),
    schema="(Tensor a, Tensor b, Tensor? c, float[] alpha, float[] beta, str accuracy, "
    "str? dtype, str? unit, str? system, str? workspace, bool native) -> Tensor",
    tags=(torch.Tag.cudagraph_unsafe,),  # the planes that data need are read from the device
)
def _gemm(
    a: Tensor, b: Tensor, c: Tensor | None, alpha: Numbers, beta: Numbers, accuracy: str,
    dtype: str | None, unit: str | None, system: str | None, workspace: str | None, native: bool,
) -> Tensor:  # fmt: skip
    """The operator: matrices or batches of them, nothing but tensors and words."""

    def plain(x: Tensor) -> Tensor:  # without a gradient, and no subclass: it does not come back
        return x.as_subclass(torch.Tensor).detach()

    addend = None if c is None else plain(c)
    choices = (accuracy, dtype, unit, system, workspace, native)
    return _by_interface(plain(a), plain(b), addend, alpha, beta, *choices)


def _by_interface(
    a: Tensor, b: Tensor, c: Tensor | None, alpha: Numbers, beta: Numbers, accuracy: str, *rest: Any
) -> Tensor:
    """The same by `widen.matmul` or `widen.gemm`, which may call the operator."""
    dtype, unit, system, workspace, native = rest
    options = Options(_accuracy(accuracy), dtype, unit, system, workspace, native=native)
    product: Tensor
    if c is None and alpha == [1.0]:
        product = dispatch.matmul(a, b, None, options)
    else:
        product = dispatch.gemm(a, b, Scalars(_number(alpha), _number(beta), c), None, options)
    return product


@_gemm.register_fake
def _without_numbers(
    a: Tensor, b: Tensor, c: Tensor | None, alpha: Numbers, beta: Numbers, *rest: Any
) -> Tensor:
    """What the operator gives where only shapes and formats are asked for."""
    accuracy, dtype, unit, system, workspace, _ = rest
    scalars = len(alpha) == 2 or len(beta) == 2 or (c is not None and c.is_complex())
    options = Options(_accuracy(accuracy), dtype, unit, system, workspace)
    call = check.check_call(a, b, options, DEFAULT_WORKSPACE, complex_scalars=scalars)
    return a.new_empty(call.dims, dtype=getattr(torch, call.fmt.name))


def _remember(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    ctx.save_for_backward(*inputs[:3])
    ctx.save_for_forward(*inputs[:3])
    ctx.scalars, ctx.choices = inputs[3:5], inputs[5:]


def _backward(ctx: Any, grad: Tensor) -> tuple[Any, ...]:
    """Gradients: alpha G B^H, alpha A^H G and beta G, with conjugate scalars."""
    a, b, c = ctx.saved_tensors
    alpha, beta = map(_conjugate, ctx.scalars)
    rows, columns = grad.ndim - 2, grad.ndim - 1
    gradients: list[Tensor | None] = [None] * 3
    if ctx.needs_input_grad[0]:
        kept, repeated = _axes(a.shape[:-2], grad.shape[:-2])
        left = _matrices(grad, grad.ndim, kept, [rows], [*repeated, columns])
        right = _matrices(b.conj(), grad.ndim, kept, [*repeated, columns], [rows])
        gradients[0] = _gradient(left, right, alpha, a, ctx.choices)
    if ctx.needs_input_grad[1]:
        kept, repeated = _axes(b.shape[:-2], grad.shape[:-2])
        left = _matrices(a.conj(), grad.ndim, kept, [columns], [*repeated, rows])
        right = _matrices(grad, grad.ndim, kept, [*repeated, rows], [columns])
        gradients[1] = _gradient(left, right, alpha, b, ctx.choices)
    if ctx.needs_input_grad[2]:
        kept, repeated = _axes(c.shape, grad.shape)
        if repeated:
            left = _matrices(grad, grad.ndim, kept, [], repeated)
            ones = _ones(left)
            gradients[2] = _gradient(left, ones, beta, c, ctx.choices)
        else:
            gradients[2] = _like(_as(beta * grad, c), c)
    return *gradients, *(None,) * 8


def _ones(x: Tensor) -> Tensor:
    """A column of ones to multiply x with."""
    if is_distributed(x):
        from widen.distributed import gradients

        column: Tensor = gradients.ones(x)
        return column
    return x.new_ones(x.shape[-1], 1)


def _axes(shape: tuple[int, ...], whole: tuple[int, ...]) -> tuple[list[int], list[int]]:
    """Axes of `whole` that something of this shape has, and those along which it was repeated."""
    missing = len(whole) - len(shape)
    repeated = [
        axis
        for axis, size in enumerate(whole)
        if size != 1 and (axis < missing or shape[axis - missing] == 1)
    ]
    return [axis for axis in range(len(whole)) if axis not in repeated], repeated


def _matrices(x: Tensor, ndim: int, kept: list[int], rows: list[int], columns: list[int]) -> Tensor:
    """A batch of matrices of x, with `ndim` axes: which of them are the batch, rows and columns."""
    if is_distributed(x):
        from widen.distributed import gradients

        made: Tensor = gradients.matrices(x, ndim, kept, rows, columns)
        return made
    x = x[(None,) * (ndim - x.ndim)]
    ours, theirs = (math.prod(x.shape[axis] for axis in axes) for axes in (rows, columns))
    batch = [x.shape[axis] for axis in kept]
    return x.permute(*kept, *rows, *columns).reshape(*batch, ours, theirs)


def _gradient(
    left: Tensor, right: Tensor, scalar: complex, x: Tensor, choices: tuple[Any, ...]
) -> Tensor:
    """The product scalar (left right), as a gradient of x."""
    accuracy, _, *rest = choices
    part = PLAIN[str(x.dtype).removeprefix("torch.")].part
    is_complex = left.is_complex() or right.is_complex() or isinstance(scalar, complex)
    dtype = (complex_of(part) if is_complex else part).name
    product = _by_interface(left, right, None, _parts(scalar), [0.0], accuracy, dtype, *rest)
    return _like(_as(product, x), x)


def _as(grad: Tensor, x: Tensor) -> Tensor:
    """A gradient in the format of x, whose imaginary part does not count if x has none."""
    if grad.is_complex() and not x.is_complex():
        grad = grad.real
    return grad.to(x.dtype)


def _like(grad: Tensor, x: Tensor) -> Tensor:
    """A gradient in the shape of x; that of a DTensor lies where it does."""
    if is_distributed(x):
        from widen.distributed import gradients

        moved: Tensor = gradients.like(grad, x)
        return moved
    return grad.reshape(x.shape)


def _tangent(ctx: Any, *tangents: Any) -> Tensor:
    """The sum alpha (da b + a db) + beta dc, as one product of twice the inner dimension."""
    a, b, c = ctx.saved_tensors
    da, db = (
        torch.zeros_like(x) if dx is None else dx
        for x, dx in zip((a, b), tangents[:2], strict=True)
    )
    dc = torch.zeros_like(c) if c is not None and tangents[2] is None else tangents[2]
    left, right = torch.cat((da, a), -1), torch.cat((b, db), -2)
    return _call(left, right, dc, *ctx.scalars, *ctx.choices)


def _mapped(
    product: Callable[..., Tensor], info: Any, axes: tuple[Any, ...], *given: Any
) -> tuple[Tensor, int]:
    """The product of operands with mapped axes: one more axis of the batch, before all others."""
    rank = max(
        x.ndim - (axis is not None)
        for x, axis in zip(given[:3], axes[:3], strict=True)
        if x is not None
    )

    def moved(x: Tensor | None, axis: int | None) -> Tensor | None:
        if x is None or axis is None:
            return x
        x = x.movedim(axis, 0)
        return x[(slice(None), *(None,) * (rank + 1 - x.ndim))]

    a, b, c = (moved(x, axis) for x, axis in zip(given[:3], axes[:3], strict=True))
    if axes[0] is None and axes[1] is None:  # c alone is mapped
        assert a is not None
        a = a[(None,) * (rank + 1 - a.ndim)].expand(info.batch_size, *(-1,) * rank)
    return product(a, b, c, *given[3:]), 0


_gemm.register_autograd(_backward, setup_context=_remember)
_gemm.register_vmap(partial(_mapped, _gemm))


class _Gemm(torch.autograd.Function):
    """The same with the same gradients: torch.func takes these, and compilers take that."""

    @staticmethod
    def forward(*given: Any) -> Tensor:
        # Where only autograd looks on, an operator would take longer and import a compiler.
        # DTensors go their own way.
        direct = is_distributed(given[0]) or not is_transformed(*given[:3])
        product: Tensor = (_by_interface if direct else _gemm)(*given)
        return product

    setup_context = staticmethod(_remember)
    backward = staticmethod(_backward)
    # A compiler that left the caller alone would compile these two, where torch.func calls them.
    jvp = staticmethod(eager(_tangent))
    vmap = staticmethod(eager(lambda *given: _mapped(_Gemm.apply, *given)))


def _call(*given: Any) -> Tensor:
    """The product, in whichever of the two ways PyTorch can look into."""
    call = _gemm if is_compiled() else _Gemm.apply
    product: Tensor = call(*given)  # type: ignore[no-untyped-call]
    return product
