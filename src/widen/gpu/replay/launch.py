"""Triton kernels launched with little ado.

Triton's own launch looks at every argument, every constant and every global each time, some 100 us
with kernels like these; here a kernel that was compiled for arguments of one kind is found by a
short key, and launched by the driver. Its machine code came with the package, or is on disk, or is
compiled (`gpu.code`).
"""

from __future__ import annotations

import inspect
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import lru_cache
from operator import itemgetter
from typing import Any, NamedTuple, TypedDict, Unpack

import torch
import triton
from triton.runtime.jit import JITFunction

from widen.gpu.code import store, workers
from widen.gpu.code.records import Code
from widen.gpu.code.variants import DIVISIBLE, ONE, Compilation, Variant
from widen.gpu.replay import driver, private
from widen.gpu.replay.driver import Launch, processors
from widen.gpu.replay.recording import listener, quietly
from widen.stages.compiling.notices import GPU, logger
from widen.stages.compiling.once import Lock, Once, once

TYPES = {
    torch.int8: "i8", torch.int16: "i16", torch.int32: "i32", torch.int64: "i64",
    torch.uint8: "u8", torch.uint16: "u16", torch.uint32: "u32", torch.uint64: "u64",
    torch.float16: "fp16", torch.bfloat16: "bf16", torch.float32: "fp32",
    torch.float64: "fp64", torch.float8_e4m3fn: "fp8e4nv", torch.bool: "i1",
}  # fmt: skip
"""Triton's words for what tensors hold."""


class Loaded(NamedTuple):
    """Machine code on a device."""

    code: Code
    function: int


_compiled: Once[Loaded] = Once()
"""Compiled kernels, loaded."""


NOTHING: frozenset[str] = frozenset()


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
        self._plain = tuple(parameter.do_not_specialize for parameter in params)
        self._plain_with: dict[frozenset[str], tuple[bool, ...]] = {NOTHING: self._plain}

    def plain(self, loose: frozenset[str]) -> tuple[bool, ...]:
        """Of which parameters code may take nothing for granted: the kernel's own, and `loose`."""
        known = self._plain_with.get(loose)
        if known is None:
            pairs = zip(self.names, self._plain, strict=False)
            known = tuple(plain or name in loose for name, plain in pairs)
            self._plain_with[loose] = known
        return known

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


class Launching(NamedTuple):
    """A launch that is yet to be made: arguments and constants in the kernel's order.

    `plain` says of which arguments code may take nothing for granted, `together` that programs
    wait for one another.
    """

    kernel: Any
    grid: tuple[int, ...]
    given: tuple[Any, ...]
    constants: tuple[Any, ...]
    how: Compilation
    plain: tuple[bool, ...]
    together: bool = False

    @property
    def variant(self) -> Variant:
        """What code for it is made for."""
        types = tuple(map(type_of, self.given, self.plain))
        return Variant(self.kernel, types, self.constants, self.how)

    @property
    def is_ours(self) -> bool:
        """Whether it goes past Triton's own launch."""
        ours = isinstance(self.kernel, JITFunction) and private.available()
        return ours and not torch.version.hip

    def key(self, device: int) -> Any:
        """All that its code depends on, sooner worked out than its variant."""
        kinds = tuple(map(_type_key, self.given, self.plain))
        return id(self.kernel), device, self.constants, self.how, kinds

    def make(self) -> None:
        """Make it, on the current stream."""
        watcher = _watching.watcher
        if watcher is not None:
            names = _parameters_of(self.kernel).names
            watcher(self.variant, dict(zip(names, self.given + self.constants, strict=True)))
            return
        run = _loaded if self.is_ours else _by_triton
        recorder = listener()
        if recorder is None:
            run(self)(*self.given)
            return
        with quietly():
            issue = run(self)
            issue(*self.given)
        bind = issue.bind if isinstance(issue, _Issue) else None
        recorder.launched(self.given, issue, tensors=not self.is_ours, bind=bind)

    def waits_for_compiler(self) -> bool:
        """Whether its code is nowhere yet."""
        if not self.is_ours or _watching.watcher is not None:
            return False
        device = torch.cuda.current_device()
        if _compiled.get(self.key(device)) is not None:
            return False
        architecture = architecture_of(device)
        return store.find(self.variant.key(architecture), architecture) is None

    def is_coming(self) -> bool:
        """Whether its code is there, or is compiled by another process, which is asked to, once."""
        if not self.waits_for_compiler():
            return True
        return workers.compiles(self.variant, architecture_of(torch.cuda.current_device()))


class How(TypedDict, total=False):
    """How a kernel is compiled.

    `exact`: no product and sum are contracted into one operation. `registers`: a thread's, at most,
    on NVIDIA's GPUs. `loose`: names of integers whose value, 1 or a multiple of 16, is of no use to
    the kernel, which is not compiled anew for it. `together`: programs wait for one another.
    """

    warps: int
    stages: int
    exact: bool
    registers: int | None
    loose: frozenset[str]
    together: bool


def prepared(
    kernel: Any, grid: tuple[int, ...], arguments: Mapping[str, Any], **how: Unpack[How]
) -> Launching:
    """The launch of a kernel that is given all its parameters by name, constants as well.

    A mapping, not keyword arguments: Python compares those with the names of our own parameters,
    which takes 5 us for 50 instead of 2.
    """
    known = _parameters_of(kernel)
    values = known.values(arguments)
    compiled = Compilation(
        how.get("warps", 4), how.get("stages", 3), how.get("exact", False), how.get("registers")
    )
    return Launching(
        kernel, grid, values[: known.given], values[known.given :], compiled,
        known.plain(how.get("loose", NOTHING)), how.get("together", False),
    )  # fmt: skip


def launch(
    kernel: Any, grid: tuple[int, ...], arguments: Mapping[str, Any], **how: Unpack[How]
) -> None:
    """Run a kernel on the current stream, given all its parameters by name, constants as well."""
    prepared(kernel, grid, arguments, **how).make()


Watcher = Callable[[Variant, dict[str, Any]], None]


class _Watching(threading.local):
    watcher: Watcher | None = None


_watching = _Watching()


@contextmanager
def watched(watcher: Watcher) -> Iterator[None]:
    """A context in which this thread launches nothing, as if for a GPU that may not be there.

    The watcher gets what would have been launched, and its arguments by name.
    """
    _watching.watcher = watcher
    try:
        with driver.pretended():
            yield
    finally:
        _watching.watcher = None


def is_watched() -> bool:
    """Whether this thread's launches are watched."""
    return _watching.watcher is not None


def programs(device: torch.device, tile_count: int, warps: int) -> int:
    """Programs of a persistent launch."""
    return min(tile_count, processors(device) * max(1, 8 // warps))


def assembly(device: torch.device) -> bool:
    """Whether kernels may use NVIDIA's instructions on a device."""
    return driver.is_gpu(device) and torch.version.hip is None


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


def _by_triton(launching: Launching) -> Any:
    """What runs a kernel in Triton's own way: interpreted, or where that alone is known to work."""
    kernel, grid, given, constants, how, _, together = launching
    named = dict(zip(kernel.arg_names[len(given) :], constants, strict=True))
    if isinstance(kernel, JITFunction):
        options = (how._replace(registers=None) if torch.version.hip else how).options
        options["launch_cooperative_grid"] = together
        return lambda *arguments: kernel[grid](*arguments, **named, **options)

    def interpret(*arguments: Any) -> None:
        with _interpreting:
            kernel[grid](*arguments, **named)

    return interpret


def type_of(argument: Any, plain: bool) -> str:
    """The type of an argument, and what code for it may take for granted.

    Nothing else, where it is `plain`.
    """
    own = type(argument)
    if own is int:
        name = "i32" if -(1 << 31) <= argument < 1 << 31 else "i64"
        if plain:
            return name
        return ONE if argument == 1 else name + DIVISIBLE * (argument % 16 == 0)
    if own is float:
        return "fp32"
    if own is bool:
        return "u1"
    if own is torch.Tensor:
        aligned = not plain and argument.data_ptr() % 16 == 0
        return f"*{TYPES[argument.dtype]}{DIVISIBLE * aligned}"
    return f"tensordesc<{TYPES[argument.base.dtype]}{list(argument.block_shape)}>"


def _loaded(launching: Launching) -> Any:
    """What launches a kernel compiled for arguments like these; addresses will do for tensors."""
    device = torch.cuda.current_device()
    key = launching.key(device)
    loaded = _compiled.get(key)
    if loaded is None:
        variant = launching.variant
        # By turns: what is compiled for one key may serve others.
        loaded = _compiled.made(key, lambda: ready(variant, device), turn=id(launching.kernel))
    return _Issue(loaded, launching.grid, device, launching.together)


def ready(variant: Variant, device: int) -> Loaded:
    """Machine code of a kernel, found or made, and loaded on the current device."""
    architecture = architecture_of(device)
    driver.enter(device)
    key = variant.key(architecture)
    refused = []
    for data in store.copies(key, architecture):
        code = Code.from_bytes(data)
        try:
            function = _load(code)
        except RuntimeError as error:  # made by an assembler that the driver does not know
            logger.warning("%s is not loaded from where it was kept (%s)", variant.name, error)
            refused.append(data)
        else:
            logger.debug("loaded %s", variant.name)
            return Loaded(code, function)
    started = GPU.start(variant.name)
    code = Code.from_bytes(workers.compiled(variant, architecture, refused))
    function = _load(code)
    GPU.finish(variant.name, started)
    return Loaded(code, function)


def _load(code: Code) -> int:
    return driver.load(code.binary, code.entry.encode(), code.shared_bytes, prefer_shared=True)


@lru_cache(maxsize=64)
def architecture_of(device: int) -> int:
    """A GPU's compute capability, 90 for 9.0."""
    major, minor = torch.cuda.get_device_capability(device)
    return 10 * major + minor


class _Issue:
    """What launches a compiled kernel."""

    def __init__(
        self, loaded: Loaded, grid: tuple[int, ...], device: int, together: bool = False
    ) -> None:
        x, y, z = (*grid, 1, 1)[:3]
        self._code, self._function, self._device = loaded.code, loaded.function, device
        self._grid, self._together = (x, y, z), together

    def __call__(self, *given: Any) -> None:
        """Launch it with these arguments; addresses will do for tensors."""
        code = self._code
        words, maps = code.words(given)
        driver.start(
            self._function, self._grid, code.threads, code.shared_bytes, arguments=words, long=maps,
            device=self._device, together=self._together,
        )  # fmt: skip

    def bind(
        self, arguments: Sequence[Any], moved: Sequence[tuple[int, int, int]]
    ) -> Launch | None:
        """The same for arguments that stay but for addresses; None if some are descriptors."""
        code = self._code
        if not code.plain or self._together:
            return None
        words, _ = code.words(arguments)
        places = {at: place for place, (at, _) in enumerate(code.passed)}
        return Launch(
            self._function, self._grid, code.threads, code.shared_bytes, arguments=words,
            moved=[(places[at], block, offset) for at, block, offset in moved],
            device=self._device,
        )  # fmt: skip


def _type_key(argument: Any, plain: bool) -> Any:
    """As `type_of`, sooner worked out."""
    own = type(argument)
    if own is int:
        short = -(1 << 31) <= argument < 1 << 31
        return short if plain else (short, argument == 1, argument % 16 == 0)
    if own is torch.Tensor:
        return argument.dtype, plain or argument.data_ptr() % 16 == 0
    if own is float or own is bool:
        return own
    return argument.base.dtype, tuple(argument.block_shape)
