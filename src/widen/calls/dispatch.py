"""Which way a product goes: PyTorch's operator, a GPU, tensors on a CPU, or NumPy arrays."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from widen.calls import check as arguments
from widen.calls import native as ordinary
from widen.calls.call import Choices, Progress, check_call, check_plan, product
from widen.calls.check import format_of
from widen.contract import as_contract
from widen.gpu.optional import eager, for_gpus, is_transformed
from widen.plan import Plan


def matmul(
    a: Any, b: Any, choices: Choices, out: Any, info: bool, progress: Progress | None,
    plan: Plan | None, native: bool,
) -> Any:  # fmt: skip
    """`widen.matmul`."""
    if plan is not None:
        choices = _choices_of(plan, choices)
    again = getattr(sys.modules.get("widen.gpu.products"), "again", None)  # once a GPU was used
    if again is not None and not (info or native or progress is not None):
        found = again(a, b, choices, out, plan)
        if found is not None:
            return found
    if is_transformed(a, b, out):
        from widen.calls import autograd as torch_operator

        found = torch_operator.gemm(
            a, b, None, (1.0, 0.0), choices, native,
            out=out, info=info, progress=progress, plan=plan,
        )  # fmt: skip
        if found is not None:
            return found
    return _matmul(a, b, choices, out, info, progress, plan, native)


@eager
def _matmul(
    a: Any, b: Any, choices: Choices, out: Any, info: bool, progress: Progress | None,
    plan: Plan | None, native: bool,
) -> Any:  # fmt: skip
    place = arguments.library(a=a, b=b, out=out)
    if place == "cpu":
        from widen.calls import cpu_tensors as on_cpu

        return on_cpu.through_numpy(
            _matmul, [a, b], out, choices=choices, info=info, progress=progress, plan=plan,
            native=native,
        )  # fmt: skip
    if place.startswith("cuda"):
        tensors = for_gpus("widen.gpu.products")
        return tensors.matmul(
            place, a, b, choices, out=out, info=info, progress=progress, plan=plan, native=native
        )
    call = check_call(a, b, *choices)
    if plan is not None:
        check_plan(call, plan)
    if native:
        if out is not None:
            arguments.check_out(out, call.dims, call.fmt)
        found = ordinary.product(call, out, info, np, on_gpu=False)
        if found is not None:
            return found
    return product(call, 1.0, 0.0, None, out, info, progress)


def _choices_of(plan: Any, choices: Choices) -> Choices:
    """What a plan made beforehand says, which the caller does not contradict."""
    accuracy, dtype, unit, system, workspace = choices
    if not isinstance(plan, Plan):
        raise TypeError(f"plan={plan!r} is not a plan; give what widen.plan gives")
    if accuracy is not None and as_contract(accuracy) != plan.contract:
        raise ValueError(f"accuracy={accuracy!r} but the plan is for {plan.contract}; give one")
    room = plan.workspace if workspace is None else arguments.workspace_bytes(workspace)
    for name, given in (("unit", unit), ("system", system), ("workspace", room)):
        if given not in (None, getattr(plan, name)):
            raise ValueError(f"{name}={given!r} but the plan has {getattr(plan, name)!r}; give one")
    result = plan.result if dtype is None else dtype
    return plan.contract, result, plan.unit, plan.system, plan.workspace


def gemm(
    a: Any, b: Any, c: Any, scalars: tuple[Any, Any], choices: Choices, out: Any, info: bool,
    progress: Progress | None,
) -> Any:  # fmt: skip
    """`widen.gemm`; the scalars are alpha and beta."""
    alpha, beta = arguments.scalar(scalars[0], "alpha"), arguments.scalar(scalars[1], "beta")
    if beta == 0:
        c = None
    elif c is None:
        raise ValueError(f"beta={beta} but there is no c; give c, or beta=0")
    if is_transformed(a, b, c, out):
        from widen.calls import autograd as torch_operator

        found = torch_operator.gemm(
            a, b, c, (alpha, beta), choices, False, out=out, info=info, progress=progress
        )
        if found is not None:
            return found
    return _gemm(a, b, c, (alpha, beta), choices, out, info, progress)


@eager
def _gemm(
    a: Any, b: Any, c: Any, scalars: tuple[complex, complex], choices: Choices, out: Any,
    info: bool, progress: Progress | None,
) -> Any:  # fmt: skip
    alpha, beta = scalars
    place = arguments.library(a=a, b=b, c=c, out=out)
    if place == "cpu":
        from widen.calls import cpu_tensors as on_cpu

        return on_cpu.through_numpy(
            _gemm, [a, b, c], out, scalars=scalars, choices=choices, info=info, progress=progress
        )
    addend = None if c is None else arguments.as_addend(c)
    is_complex = any(isinstance(x, complex) for x in scalars)
    is_complex |= addend is not None and format_of(addend.dtype, "c").parts == 2
    accuracy, dtype, unit, system, room = choices
    if place.startswith("cuda"):
        tensors = for_gpus("widen.gpu.products")
        room = tensors.workspace(place, room)
    call = check_call(a, b, accuracy, dtype, unit, system, room, complex_scalars=is_complex)
    if place.startswith("cuda"):
        return tensors.gemm(call, alpha, beta, addend, out=out, info=info, progress=progress)
    return product(call, alpha, beta, addend, out, info, progress)
