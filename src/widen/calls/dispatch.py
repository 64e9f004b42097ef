"""Which way a product goes: PyTorch's operator, a GPU, tensors on a CPU, or NumPy arrays."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from widen.calls import check, native
from widen.calls.results import check_out
from widen.calls.wings import on_gpu, wing_of
from widen.contract import as_contract
from widen.encoded import Encoded
from widen.formats.arrays import eager, format_of_array, is_tensor, library_of
from widen.gpu.replay.private import is_transformed
from widen.options import Options, Wanted
from widen.plan import Plan
from widen.stages.call import Scalars


def matmul(a: Any, b: Any, out: Any, options: Options) -> Any:
    """`widen.matmul`."""
    if options.info is not False:
        options = replace(options, info=_wanted(options.info))
    if options.plan is not None:
        options = _planned(options, options.plan)
    if options.plain and _is_on_gpu(a):
        result = on_gpu().replayed(a, b, out, options)
        if result is not None:
            return result
    if is_transformed(a, b, out):
        from widen.calls import autograd

        result = autograd.gemm(a, b, Scalars(), out, options)
        if result is not None:
            return result
    return _product(a, b, Scalars(), out, options)


def gemm(a: Any, b: Any, scalars: Scalars, out: Any, options: Options) -> Any:
    """`widen.gemm`."""
    if options.info is not False:
        options = replace(options, info=_wanted(options.info))
    alpha, beta = check.scalar(scalars.alpha, "alpha"), check.scalar(scalars.beta, "beta")
    if beta != 0 and scalars.c is None:
        raise ValueError(f"beta={beta} but there is no c; give c, or beta=0")
    scalars = Scalars(alpha, beta, None if beta == 0 else scalars.c)
    if is_transformed(a, b, scalars.c, out):
        from widen.calls import autograd

        result = autograd.gemm(a, b, scalars, out, options)
        if result is not None:
            return result
    return _product(a, b, scalars, out, options)


def _is_on_gpu(x: Any) -> bool:
    return bool(x.is_cuda) if is_tensor(x) else isinstance(x, Encoded) and x.device is not None


@eager
def _product(a: Any, b: Any, scalars: Scalars, out: Any, options: Options) -> Any:
    place = check.library(a=a, b=b, c=scalars.c, out=out)
    if place == "cpu":
        from widen.calls import cpu_tensors

        return cpu_tensors.through_numpy(_product, a, b, scalars, out, options)
    wing = wing_of(place)
    complex_scalars = isinstance(scalars.alpha, complex) or isinstance(scalars.beta, complex)
    if scalars.c is not None:
        scalars = replace(scalars, c=check.as_addend(scalars.c))
        complex_scalars |= format_of_array(scalars.c).parts == 2
    room = options.workspace
    default = wing.default_workspace(place) if room is None else check.workspace_bytes(room)
    call = check.check_call(a, b, options, default, complex_scalars=complex_scalars)
    wing.check_unit(call.unit, place)
    if options.plan is not None:
        check.check_plan(call, options.plan)
    if out is not None:
        check_out(out, call, place)
    if options.native and wing.ordinary_is_fast(call):
        with wing.ready(call, options):
            result = native.product(call, out, options.info, library_of(call.left))
        if result is not None:
            return result
    return wing.product(call, scalars, out, options)


def _wanted(info: Any) -> Wanted:
    """What was asked for as `info`."""
    if isinstance(info, (bool, np.bool_)):
        return bool(info)
    if isinstance(info, str) and info == "largest":
        return "largest"
    raise ValueError(
        f"info={info!r} is not known; use True for a bound of every element, 'largest' for the "
        "largest bound alone, or False for the result without an Info"
    )


def _planned(options: Options, plan: Any) -> Options:
    """What a plan made beforehand says, which the caller does not contradict."""
    if not isinstance(plan, Plan):
        raise TypeError(f"plan={plan!r} is not a plan; give what widen.plan gives")
    accuracy, room = options.accuracy, options.workspace
    if accuracy is not None and as_contract(accuracy) != plan.contract:
        raise ValueError(f"accuracy={accuracy!r} but the plan is for {plan.contract}; give one")
    room = plan.workspace if room is None else check.workspace_bytes(room)
    for name, given in (("unit", options.unit), ("system", options.system), ("workspace", room)):
        if given not in (None, getattr(plan, name)):
            raise ValueError(f"{name}={given!r} but the plan has {getattr(plan, name)!r}; give one")
    return replace(
        options,
        accuracy=plan.contract,
        dtype=plan.result if options.dtype is None else options.dtype,
        unit=plan.unit,
        system=plan.system,
        workspace=plan.workspace,
    )
