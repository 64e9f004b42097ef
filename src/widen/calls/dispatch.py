"""Which way a product goes: PyTorch's operator, a GPU, tensors on a CPU, or NumPy arrays."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import cache
from typing import Any, Protocol

import numpy as np

from widen.calls import check, native
from widen.calls.check import is_ours
from widen.calls.results import check_out
from widen.contract import as_contract
from widen.encoded import Encoded
from widen.formats.arrays import eager, format_of_array, is_distributed, is_tensor, library_of
from widen.gpu.replay.private import (
    is_differentiated_in_graph,
    is_in_scope,
    is_transformed,
    pytorch_and_triton,
    wants_gradient,
)
from widen.options import Options, Wanted
from widen.plan import Plan
from widen.stages.compiling.once import LOADING
from widen.stages.problem import Call, Encoding, Scalars
from widen.words import Words

PRODUCT = Scalars()

Number = (float, complex)
"""What c may be beside an array."""


class Wing(Protocol):
    """`cpu.products` and `gpu.products`."""

    def default_workspace(self, place: str) -> int:
        """Bytes of workspace where the caller does not say."""

    def check_unit(self, unit: str | None, place: Any = None) -> None:
        """Whether the unit that was asked for runs there."""

    def ordinary_is_fast(self, call: Call) -> bool:
        """Whether the ordinary product of these operands may be the faster one."""

    def ready(self, call: Call, options: Options) -> AbstractContextManager[None]:
        """A context to compute in."""

    def product(self, call: Call, scalars: Scalars, out: Any, options: Options) -> Any:
        """The sum alpha a b + beta c, and an Info if asked for."""

    def plan(self, call: Call) -> Plan:
        """What a call would run."""

    def typical_plan(
        self,
        wanted: Encoding,
        shape: tuple[int, int, int, int],
        workspace: int,
        place: str | None = None,
    ) -> Plan:
        """A plan for rows and columns of similar magnitudes, made without looking at any."""

    def encode(self, x: Any, wanted: Sequence[Encoding]) -> Encoded:
        """An operand, encoded for one format of results or for several."""


def wing_of(place: str) -> Wing:
    """The wing where arrays or tensors of this place are multiplied."""
    wing: Wing = on_gpu() if place.startswith("cuda") else _on_cpu()
    return wing


def workspace_of(place: str, workspace: Any) -> int:
    """Bytes of workspace: what the caller says, or what the wing has by default."""
    if workspace is None:
        return wing_of(place).default_workspace(place)
    return check.workspace_bytes(workspace)


@cache
def on_gpu() -> Any:
    """The wing of tensors on a GPU; importing it anew would take 3 us of every call."""
    with pytorch_and_triton():
        from widen.gpu import products

        return products


@cache
def _recorded() -> Any:
    """Its calls whose launches were recorded."""
    with pytorch_and_triton():
        from widen.gpu import recorded

        return recorded


@cache
def _of_host_memory() -> Any:
    """Products on a GPU of operands that stay in host memory."""
    with pytorch_and_triton():
        from widen.gpu.host import products

        return products


@cache
def _on_cpu() -> Wing:
    with LOADING:  # a fork waits for it
        from widen.cpu import products

        return products


def matmul(a: Any, b: Any, out: Any, options: Options) -> Any:
    """`widen.matmul`."""
    if options.plan is not None:
        options = _planned(options, options.plan)
    result = _replayed(a, b, PRODUCT, out, options)
    return _sum(a, b, PRODUCT, out, options) if result is None else result


def gemm(a: Any, b: Any, scalars: Scalars, out: Any, options: Options) -> Any:
    """`widen.gemm`."""
    alpha, beta = check.scalar(scalars.alpha, "alpha"), check.scalar(scalars.beta, "beta")
    if beta != 0 and scalars.c is None:
        raise ValueError(f"beta={beta} but there is no c; give c, or beta=0")
    scalars = Scalars(alpha, beta, None if beta == 0 else scalars.c)
    result = _replayed(a, b, scalars, out, options)
    return _sum(a, b, scalars, out, options) if result is None else result


def _replayed(a: Any, b: Any, scalars: Scalars, out: Any, options: Options) -> Any:
    """The result by launches that were recorded on a GPU, or None."""
    if not _is_on_gpu(a) or not options.plain or is_distributed(a):
        return None
    return _recorded().replayed(a, b, scalars, out, options)


def _sum(a: Any, b: Any, scalars: Scalars, out: Any, options: Options) -> Any:
    """The sum alpha a b + beta c of whatever becomes arrays of floats."""
    if options.info is not False:
        options = replace(options, info=_wanted(options.info))
    if is_ours(a) and is_ours(b) and (is_ours(scalars.c) or isinstance(scalars.c, Number)):
        return _of_ours(a, b, scalars, out, options)
    from widen.calls.foreign import products

    return products.product(_of_ours, a, b, scalars, out, options)


def _of_ours(a: Any, b: Any, scalars: Scalars, out: Any, options: Options) -> Any:
    """The same of arrays of floats, by PyTorch's operator where PyTorch looks on."""
    given = (a, b, scalars.c, out)
    distributed = any(map(is_distributed, given))
    if distributed or (any(map(is_tensor, given)) and is_transformed(*given)):
        if is_in_scope():  # of `widen.emulate`, which has nothing to do here
            from widen.gpu.replay.modes import unwatched

            with unwatched():
                return _sum(a, b, scalars, out, options)
        if distributed and options.device is not None:
            raise ValueError(
                f"device={str(options.device)!r}: DTensors are multiplied where they lie; leave it "
                "out"
            )
        if distributed and not wants_gradient(*given):
            from widen.distributed import products

            return products.gemm(a, b, scalars, out, options)
        from widen.calls import autograd

        if is_differentiated_in_graph():
            return _uncompiled(a, b, scalars, out, options)
        result = autograd.gemm(a, b, scalars, out, options)
        if result is not None:
            return result
    return _product(a, b, scalars, out, options)


_uncompiled = eager(_of_ours)


def below_autograd(a: Any, b: Any, scalars: Scalars, options: Options) -> Any:
    """A product of tensors whose gradients and maps are somebody else's business already."""
    result = _replayed(a, b, scalars, None, options)
    return _product(a, b, scalars, None, options) if result is None else result


def distributed_plan(a: Any, b: Any, options: Options) -> Any:
    """What a product of DTensors would do."""
    from widen.distributed import products

    return products.plan(a, b, options)


def _is_on_gpu(x: Any) -> bool:
    if isinstance(x, Words):
        x = x.planes[0]
    return bool(x.is_cuda) if is_tensor(x) else isinstance(x, Encoded) and x.device is not None


@eager
def _product(a: Any, b: Any, scalars: Scalars, out: Any, options: Options) -> Any:
    place = check.library(a=a, b=b, c=scalars.c, out=out)
    if place == "cpu":
        from widen.calls import cpu_tensors

        return cpu_tensors.through_numpy(_product, a, b, scalars, out, options)
    runs_on = _where_it_runs(place, options.device)
    wing = on_gpu() if runs_on != place else wing_of(place)
    complex_scalars = isinstance(scalars.alpha, complex) or isinstance(scalars.beta, complex)
    if scalars.c is not None:
        scalars = replace(scalars, c=check.as_addend(scalars.c))
        complex_scalars |= format_of_array(scalars.c).parts == 2
    if runs_on != place:
        _check_arrays(a, b, options)
    room = workspace_of(runs_on, options.workspace)
    call = check.check_call(a, b, options, room, complex_scalars=complex_scalars)
    wing.check_unit(call.unit, runs_on)
    if options.plan is not None:
        check.check_plan(call, options.plan)
    if out is not None:
        check_out(out, call, place)
    if runs_on != place:
        return _of_host_memory().product(call, scalars, out, options, runs_on)
    if options.native and wing.ordinary_is_fast(call):
        with wing.ready(call, options):
            result = native.product(call, out, options.info, library_of(call.left))
        if result is not None:
            return result
    return wing.product(call, scalars, out, options)


def _where_it_runs(place: str, device: Any) -> str:
    """The place of the operands, or the GPU that they are to be sent to."""
    if device is None or (str(device) == "cpu" and place == "numpy"):
        return place
    if str(device) != "cpu":
        check.check_gpu(device)
        named: str = _of_host_memory().device_named(str(device))
        if place in ("numpy", named):
            return named
    raise ValueError(
        f"device={str(device)!r} but the operands are on {place}; leave device= out to multiply "
        "there, or give operands in host memory"
    )


def _check_arrays(a: Any, b: Any, options: Options) -> None:
    """Whether operands and options are what can be sent to a GPU in panels."""
    for name, x in (("a", a), ("b", b)):
        if isinstance(x, Encoded):
            raise TypeError(
                f"{name} was encoded on a CPU, and device={str(options.device)!r} sends numbers to "
                "a GPU: give the array that it was encoded from, or leave device= out"
            )
    if options.plan is not None:
        raise ValueError(
            f"plan= and device={str(options.device)!r} do not go together: every panel has a plan "
            "of its own; leave one out"
        )


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
