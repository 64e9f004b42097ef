"""Triton kernels launched with little ado.

Triton's own launch looks at every argument, every constant and every global each time, some 100 us
with kernels like these; here a kernel that was compiled for arguments of one kind is found by a
short key.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import torch
import triton
from triton.runtime import driver
from triton.runtime.jit import JITFunction

from widen.backends.recording import listener, quietly

_compiled: dict[Any, Any] = {}
_plain: dict[Any, tuple[bool, ...]] = {}
"""Of every kernel, which of its arguments it does not specialise on."""


def launch(
    kernel: Any, grid: tuple[int, ...], arguments: tuple[Any, ...], constants: tuple[Any, ...],
    warps: int = 4, stages: int = 3, exact: bool = False,
) -> None:  # fmt: skip
    """Run a kernel whose last parameters are constants, on the current stream.

    `exact`: no product and sum are contracted into one operation.
    """
    run = _interpreted if not isinstance(kernel, JITFunction) else _loaded
    recorder = listener()
    if recorder is None:
        run(kernel, grid, arguments, constants, warps, stages, exact)(*arguments)
        return
    with quietly():
        issue = run(kernel, grid, arguments, constants, warps, stages, exact)
        issue(*arguments)
    recorder.launched(arguments, issue, tensors=run is _interpreted)


@cache
def general(kernel: Any) -> Any:
    """The same kernel, compiled for arguments of any value: slower, but once for all of them.

    Triton compiles a kernel anew for every set of integers that are 1 or multiples of 16.
    """
    if not isinstance(kernel, JITFunction):
        return kernel
    names = [parameter.name for parameter in kernel.params if not parameter.is_constexpr]
    return triton.jit(kernel.fn, do_not_specialize=names, do_not_specialize_on_alignment=names)


def _interpreted(
    kernel: Any, grid: tuple[int, ...], arguments: tuple[Any, ...], constants: tuple[Any, ...],
    warps: int, stages: int, exact: bool,
) -> Any:  # fmt: skip
    """What runs a kernel in Triton's interpreter, given arguments like these."""
    named = dict(zip(kernel.arg_names[len(arguments) :], constants, strict=True))
    return lambda *given: kernel[grid](*given, **named)


def _loaded(
    kernel: Any, grid: tuple[int, ...], arguments: tuple[Any, ...], constants: tuple[Any, ...],
    warps: int, stages: int, exact: bool,
) -> Any:  # fmt: skip
    """What launches a kernel compiled for arguments like these; addresses will do for tensors."""
    plain = _plain.get(id(kernel))
    if plain is None:
        plain = _plain[id(kernel)] = tuple(
            parameter.do_not_specialize for parameter in kernel.params[: len(arguments)]
        )
    device = torch.cuda.current_device()
    kinds = tuple(map(_kind, arguments, plain))
    key = (id(kernel), device, constants, warps, stages, exact, kinds)
    found = _compiled.get(key)
    if found is None:
        names = kernel.arg_names[len(arguments) :]
        found = _compiled[key] = kernel.warmup(
            *arguments, grid=grid, num_warps=warps, num_stages=stages, enable_fp_fusion=not exact,
            **dict(zip(names, constants, strict=True)),
        )  # fmt: skip
        found.run  # noqa: B018  (loads it)
    x, y, z = (*grid, 1, 1)[:3]
    run, function, metadata = found.run, found.function, found.packed_metadata
    current = driver.active.get_current_stream

    def issue(*given: Any) -> None:
        run(x, y, z, current(device), function, metadata, None, None, None, *given, *constants)

    return issue


def _kind(argument: Any, plain: bool) -> Any:
    """All that Triton's compiler knows of an argument."""
    kind = type(argument)
    if kind is int:
        short = -(1 << 31) <= argument < 1 << 31
        return short if plain else (short, argument == 1, argument % 16 == 0)
    if kind is torch.Tensor:
        return argument.dtype, argument.data_ptr() % 16 == 0
    if kind is float or kind is bool:
        return kind
    return argument.base.dtype, tuple(argument.block_shape)
