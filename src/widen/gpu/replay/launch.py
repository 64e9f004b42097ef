"""Triton kernels launched with little ado.

Triton's own launch looks at every argument, every constant and every global each time, some 100 us
with kernels like these; here a kernel that was compiled for arguments of one kind is found by a
short key.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from functools import lru_cache
from operator import itemgetter
from typing import Any, NamedTuple

import torch
import triton
from triton.runtime import driver
from triton.runtime.jit import JITFunction

from widen.gpu.replay import private
from widen.gpu.replay.driver import Launch, parameter_sizes, processors, word
from widen.gpu.replay.recording import listener, quietly
from widen.stages.compiling.notices import GPU
from widen.stages.compiling.once import Lock, Once, once

_compiled: Once[Any] = Once()
"""Compiled kernels, loaded."""


class Compilation(NamedTuple):
    """How a kernel is compiled: part of what tells it from others."""

    warps: int
    stages: int
    exact: bool
    registers: int | None

    @property
    def options(self) -> dict[str, Any]:
        """As Triton names it."""
        limits = {} if self.registers is None or torch.version.hip else {"maxnreg": self.registers}
        return {
            "num_warps": self.warps, "num_stages": self.stages, "enable_fp_fusion": not self.exact,
            **limits,
        }  # fmt: skip


class Parameters:
    """A kernel's parameters in its own order: those that it is given, then its constants."""

    def __init__(self, kernel: Any) -> None:
        self.kernel = kernel  # kept, so that nothing else gets its id
        self.names = tuple(kernel.arg_names)
        parameters = inspect.signature(kernel.fn).parameters.values()
        is_constant = ["constexpr" in str(parameter.annotation) for parameter in parameters]
        self.given = is_constant.index(True) if any(is_constant) else len(is_constant)
        if not all(is_constant[self.given :]):
            raise TypeError(f"kernel {kernel.__name__}: constants need to be its last parameters")
        self._in_order = itemgetter(*self.names)
        params = getattr(kernel, "params", ())[: self.given]  # the interpreter's have none
        self.plain = tuple(parameter.do_not_specialize for parameter in params)

    def values(self, arguments: Mapping[str, Any]) -> tuple[Any, ...]:
        """Values of all parameters in the kernel's order. This costs 0.5 us for 50 of them."""
        if len(arguments) == len(self.names):
            try:
                values: tuple[Any, ...] = self._in_order(arguments)
                return values
            except KeyError:
                pass
        missing = ", ".join(name for name in self.names if name not in arguments) or "nothing"
        surplus = ", ".join(name for name in arguments if name not in self.names) or "none"
        raise TypeError(
            f"kernel {self.kernel.__name__} is launched by its parameters' names: "
            f"it still needs {missing}; it has no parameter for {surplus}"
        )


_parameters: dict[int, Parameters] = {}


def _parameters_of(kernel: Any) -> Parameters:
    parameters = _parameters.get(id(kernel))
    if parameters is None:
        parameters = _parameters[id(kernel)] = Parameters(kernel)
    return parameters


def launch(
    kernel: Any, grid: tuple[int, ...], arguments: Mapping[str, Any], *, warps: int = 4,
    stages: int = 3, exact: bool = False, registers: int | None = None,
) -> None:  # fmt: skip
    """Run a kernel on the current stream, given all its parameters by name, constants as well.

    A mapping, not keyword arguments: Python compares those with the names of our own parameters,
    which takes 5 us for 50 instead of 2.

    `exact`: no product and sum are contracted into one operation. `registers`: a thread's, at most,
    on NVIDIA's GPUs.
    """
    known = _parameters_of(kernel)
    values = known.values(arguments)
    given, constants = values[: known.given], values[known.given :]
    how = Compilation(warps, stages, exact, registers)
    run = _loaded if isinstance(kernel, JITFunction) and private.available() else _by_triton
    recorder = listener()
    if recorder is None:
        run(kernel, grid, given, constants, how)(*given)
        return
    with quietly():
        issue = run(kernel, grid, given, constants, how)
        issue(*given)
    bind = issue.bind if isinstance(issue, _Issue) else None
    recorder.launched(given, issue, tensors=run is not _loaded, bind=bind)


def programs(device: torch.device, tile_count: int, warps: int) -> int:
    """Programs of a persistent launch."""
    return min(tile_count, processors(device) * max(1, 8 // warps))


@lru_cache(maxsize=16)
def assembly(device: torch.device) -> bool:
    """Whether kernels may use NVIDIA's instructions on a device."""
    return device.type == "cuda" and torch.version.hip is None


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


def _by_triton(
    kernel: Any, grid: tuple[int, ...], arguments: tuple[Any, ...], constants: tuple[Any, ...],
    how: Compilation,
) -> Any:  # fmt: skip
    """What runs a kernel in Triton's own way: interpreted, or where that alone is known to work."""
    named = dict(zip(kernel.arg_names[len(arguments) :], constants, strict=True))
    if isinstance(kernel, JITFunction):
        return lambda *given: kernel[grid](*given, **named, **how.options)

    def interpret(*given: Any) -> None:
        with _interpreting:
            kernel[grid](*given, **named)

    return interpret


def _loaded(
    kernel: Any, grid: tuple[int, ...], arguments: tuple[Any, ...], constants: tuple[Any, ...],
    how: Compilation,
) -> Any:  # fmt: skip
    """What launches a kernel compiled for arguments like these; addresses will do for tensors."""
    device = torch.cuda.current_device()
    types = tuple(map(_type_key, arguments, _parameters_of(kernel).plain))
    key = (id(kernel), device, constants, how, types)
    compiled = _compiled.get(key)
    if compiled is None:
        # By turns: Triton's own tables of a kernel are not made for several threads, and what it
        # compiled may serve more keys than one.
        compiled = _compiled.made(
            key, lambda: _ready(kernel, grid, arguments, constants, how), turn=id(kernel)
        )
    return _Issue(compiled, grid, constants, device)


def _ready(
    kernel: Any, grid: tuple[int, ...], arguments: tuple[Any, ...], constants: tuple[Any, ...],
    how: Compilation,
) -> Any:  # fmt: skip
    """A kernel compiled for arguments like these, and loaded."""
    _open_driver()
    named = dict(zip(kernel.arg_names[len(arguments) :], constants, strict=True))
    started = GPU.start(kernel.fn.__name__)
    compiled = kernel.warmup(*arguments, grid=grid, **how.options, **named)
    compiled.run  # noqa: B018  (loads it)
    if compiled.function is None:  # a load that failed half way, for want of memory, left no more
        compiled._init_handles()
    GPU.finish(kernel.fn.__name__, started)
    return compiled


@once
def _open_driver() -> Any:
    """What Triton compiles and loads for itself when it is first used."""
    return driver.active.utils


class _Issue:
    """What launches a compiled kernel."""

    def __init__(
        self, compiled: Any, grid: tuple[int, ...], constants: tuple[Any, ...], device: int
    ) -> None:
        x, y, z = (*grid, 1, 1)[:3]
        self._compiled, self._constants, self._device = compiled, constants, device
        self._grid = (x, y, z)
        self._run, self._function = compiled.run, compiled.function
        self._stream = driver.active.get_current_stream

    def __call__(self, *given: Any) -> None:
        """Launch it with these arguments; addresses will do for tensors."""
        self._run(
            *self._grid, self._stream(self._device), self._function, self._compiled.packed_metadata,
            None, None, None, *given, *self._constants,
        )  # fmt: skip

    def bind(
        self, arguments: Sequence[Any], moved: Sequence[tuple[int, int, int]]
    ) -> Launch | None:
        """The same for arguments that stay but for addresses, past Triton's launcher.

        It adds addresses of scratch memory after the arguments. None if it adds anything else, or
        these kernels use any.
        """
        facts = self._compiled.metadata
        if torch.version.hip or facts.global_scratch_size or facts.profile_scratch_size:
            return None
        types = list(self._compiled.src.signature.values())[: len(arguments)]
        passed = [at for at, name in enumerate(types) if name != "constexpr"]
        sizes = parameter_sizes(self._function)
        expected = [BYTES.get(types[at], 8 if types[at][0] == "*" else 0) for at in passed]
        if facts.num_ctas > 1 or not sizes or sizes[: len(passed)] != expected:
            return None
        hidden = len(sizes) - len(passed)
        if sizes[len(passed) :] != [8] * hidden:
            return None
        words = [0 if arguments[at] is None else word(arguments[at]) for at in passed]
        places = {at: place for place, at in enumerate(passed)}
        return Launch(
            self._function, self._grid, 32 * facts.num_warps, facts.shared,
            arguments=words + [0] * hidden,
            moved=[(places[at], block, offset) for at, block, offset in moved],
            device=self._device,
        )  # fmt: skip


BYTES = {"i64": 8, "i32": 4, "fp32": 4, "i1": 1, "u1": 1}
"""Of arguments, by the compiler's word for their type."""


def _type_key(argument: Any, plain: bool) -> Any:
    """All that Triton's compiler knows of an argument."""
    own = type(argument)
    if own is int:
        short = -(1 << 31) <= argument < 1 << 31
        return short if plain else (short, argument == 1, argument % 16 == 0)
    if own is torch.Tensor:
        return argument.dtype, argument.data_ptr() % 16 == 0
    if own is float or own is bool:
        return own
    return argument.base.dtype, tuple(argument.block_shape)
