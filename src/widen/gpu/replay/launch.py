"""Triton kernels launched with little ado.

Triton's own launch looks at every argument, every constant and every global each time, some 100 us
with kernels like these; here a kernel that was compiled for arguments of one kind is found by a
short key.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import triton
from triton.runtime import driver
from triton.runtime.jit import JITFunction

from widen.gpu.replay.driver import Launch, parameter_sizes, word
from widen.gpu.replay.recording import listener, quietly
from widen.stages.compiling.notices import GPU
from widen.stages.compiling.once import Lock, Once, once

_compiled: Once[Any] = Once()
"""Compiled kernels, loaded."""

_plain: dict[Any, tuple[bool, ...]] = {}
"""Of every kernel, which of its arguments it does not specialise on."""


def launch(
    kernel: Any, grid: tuple[int, ...], arguments: tuple[Any, ...], constants: tuple[Any, ...],
    warps: int = 4, stages: int = 3, exact: bool = False, registers: int | None = None,
) -> None:  # fmt: skip
    """Run a kernel whose last parameters are constants, on the current stream.

    `exact`: no product and sum are contracted into one operation. `registers`: a thread's, at most,
    on NVIDIA's GPUs.
    """
    run = _interpreted if not isinstance(kernel, JITFunction) else _loaded
    recorder = listener()
    if recorder is None:
        run(kernel, grid, arguments, constants, warps, stages, exact, registers)(*arguments)
        return
    with quietly():
        issue = run(kernel, grid, arguments, constants, warps, stages, exact, registers)
        issue(*arguments)
    bind = issue.bind if isinstance(issue, _Issue) else None
    recorder.launched(arguments, issue, tensors=run is _interpreted, bind=bind)


@once
def general(kernel: Any) -> Any:
    """The same kernel, compiled for arguments of any value: slower, but once for all of them.

    Triton compiles a kernel anew for every set of integers that are 1 or multiples of 16.
    """
    if not isinstance(kernel, JITFunction):
        return kernel
    names = [parameter.name for parameter in kernel.params if not parameter.is_constexpr]
    return triton.jit(kernel.fn, do_not_specialize=names, do_not_specialize_on_alignment=names)


_interpreting = Lock()
"""Triton's interpreter has one place for the program that it is at, for all threads."""


def _interpreted(
    kernel: Any, grid: tuple[int, ...], arguments: tuple[Any, ...], constants: tuple[Any, ...],
    warps: int, stages: int, exact: bool, registers: int | None,
) -> Any:  # fmt: skip
    """What runs a kernel in Triton's interpreter, given arguments like these."""
    named = dict(zip(kernel.arg_names[len(arguments) :], constants, strict=True))

    def run(*given: Any) -> None:
        with _interpreting:
            kernel[grid](*given, **named)

    return run


def _loaded(
    kernel: Any, grid: tuple[int, ...], arguments: tuple[Any, ...], constants: tuple[Any, ...],
    warps: int, stages: int, exact: bool, registers: int | None,
) -> Any:  # fmt: skip
    """What launches a kernel compiled for arguments like these; addresses will do for tensors."""
    plain = _plain.get(id(kernel))
    if plain is None:
        plain = _plain[id(kernel)] = tuple(
            parameter.do_not_specialize for parameter in kernel.params[: len(arguments)]
        )
    device = torch.cuda.current_device()
    kinds = tuple(map(_kind, arguments, plain))
    key = (id(kernel), device, constants, warps, stages, exact, registers, kinds)
    found = _compiled.get(key)
    if found is None:
        # By turns: Triton's own tables of a kernel are not made for several threads, and what it
        # compiled may serve more keys than one.
        found = _compiled.made(
            key,
            lambda: _ready(kernel, grid, arguments, constants, warps, stages, exact, registers),
            turn=id(kernel),
        )
    return _Issue(found, grid, constants, device)


def _ready(
    kernel: Any, grid: tuple[int, ...], arguments: tuple[Any, ...], constants: tuple[Any, ...],
    warps: int, stages: int, exact: bool, registers: int | None,
) -> Any:  # fmt: skip
    """A kernel compiled for arguments like these, and loaded."""
    _open_driver()
    names = kernel.arg_names[len(arguments) :]
    limits = {} if registers is None or torch.version.hip else {"maxnreg": registers}
    started = GPU.start(kernel.fn.__name__)
    found = kernel.warmup(
        *arguments, grid=grid, num_warps=warps, num_stages=stages, enable_fp_fusion=not exact,
        **limits, **dict(zip(names, constants, strict=True)),
    )  # fmt: skip
    found.run  # noqa: B018  (loads it)
    if found.function is None:  # a load that failed half way, for want of memory, left no more
        found._init_handles()
    GPU.finish(kernel.fn.__name__, started)
    return found


@once
def _open_driver() -> Any:
    """What Triton compiles and loads for itself when it is first used."""
    return driver.active.utils


class _Issue:
    """What launches a compiled kernel."""

    def __init__(
        self, found: Any, grid: tuple[int, ...], constants: tuple[Any, ...], device: int
    ) -> None:
        x, y, z = (*grid, 1, 1)[:3]
        self._found, self._grid, self._constants, self._device = found, (x, y, z), constants, device
        self._run, self._function = found.run, found.function
        self._stream = driver.active.get_current_stream

    def __call__(self, *given: Any) -> None:
        """Launch it with these arguments; addresses will do for tensors."""
        self._run(
            *self._grid, self._stream(self._device), self._function, self._found.packed_metadata,
            None, None, None, *given, *self._constants,
        )  # fmt: skip

    def bind(
        self, arguments: Sequence[Any], moved: Sequence[tuple[int, int, int]]
    ) -> Launch | None:
        """The same for arguments that stay but for addresses, past Triton's launcher.

        It adds addresses of scratch memory after the arguments. None if it adds anything else, or
        these kernels use any.
        """
        facts = self._found.metadata
        if torch.version.hip or facts.global_scratch_size or facts.profile_scratch_size:
            return None
        kinds = list(self._found.src.signature.values())[: len(arguments)]
        passed = [at for at, kind in enumerate(kinds) if kind != "constexpr"]
        sizes = parameter_sizes(self._function)
        expected = [BYTES.get(kinds[at], 8 if kinds[at][0] == "*" else 0) for at in passed]
        if facts.num_ctas > 1 or not sizes or sizes[: len(passed)] != expected:
            return None
        hidden = len(sizes) - len(passed)
        if sizes[len(passed) :] != [8] * hidden:
            return None
        words = [0 if arguments[at] is None else word(arguments[at]) for at in passed]
        places = {at: place for place, at in enumerate(passed)}
        return Launch(
            self._function, self._grid, 32 * facts.num_warps, facts.shared, words + [0] * hidden,
            [(places[at], block, offset) for at, block, offset in moved], self._device,
        )  # fmt: skip


BYTES = {"i64": 8, "i32": 4, "fp32": 4, "i1": 1, "u1": 1}
"""Of arguments, by the compiler's word for their type."""


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
