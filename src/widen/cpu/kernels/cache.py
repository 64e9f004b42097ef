"""Kernels compiled by Numba and kept on disk, where Numba keeps its own, but in files of ours.

Numba's files may be read half written or damaged, which is a traceback in every later process, or
wrong code; two processes that write at once may leave the code of one signature under the name of
another; and a kernel is not compiled again when a function that it calls, in another file, has
changed. Here a file's name says which signature it is for, a digest says that it is whole and from
these sources, and what cannot be used is compiled again and replaced. Of processes that want the
same kernel, one compiles it and the others wait for it.

All that is used here of Numba's inside: a dispatcher asks its `_cache` for `load_overload` and
`save_overload`; a `FunctionCache` finds the folder, and its `_cache_file` reads and writes, for
`_load_overload` too; `rtsys` is the memory that kernels allocate. With a Numba where that is not
so, its own cache serves as it is.
"""

from __future__ import annotations

import hashlib
import pickle
import sys
from collections.abc import Callable, Sequence
from functools import cache, update_wrapper
from pathlib import Path
from typing import Any

import llvmlite
import numba
import numpy as np
from numba import njit, types
from numba.core import caching, serialize
from numba.core.runtime.nrt import rtsys

from widen.stages.compiling import kept
from widen.stages.compiling.notices import CPU, logger
from widen.stages.compiling.once import LOADING
from widen.stages.compiling.turns import Busy, Turn, When

INT, FLOAT, BOOL = types.int64, types.float64, types.boolean

# Types of what kernels read and do not write: any strides, read-only arrays as well.
BITS1, BITS2, BITS3, BITS4, BITS5 = (
    types.Array(INT, ndim, "A", readonly=True) for ndim in (1, 2, 3, 4, 5)
)


class Missing(Exception):
    """A kernel is not on disk."""


def kernel(*arguments, instead=None):
    """A kernel for these argument types, compiled or read from disk when it is first needed.

    Every kernel takes a range of its jobs first, so that threads can share them; it does not hold
    the interpreter's lock. What a job is, its docstring says. `instead` is a second type that the
    first argument may have.
    """
    signatures = [types.void(INT, INT, *arguments)]
    if instead is not None:
        signatures.append(types.void(INT, INT, instead, *arguments[1:]))

    return lambda function: Kernel(function, signatures)


INSIDE: dict[str, Any] = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}


def device(function: Callable[..., Any]) -> Any:
    """A function that kernels call.

    Nobody else does, so no way into it from Python or C is compiled, which would take a seventh of
    all the time (1.5 s of 11.8 for `reconstruct`). Unless told otherwise, it would inherit the
    liberties of a `summing` function that calls it.
    """
    return njit(fastmath=False, **INSIDE)(function)


def summing(function: Callable[..., Any]) -> Any:
    """A `device` function whose sums of products are exact, in whatever order they are taken.

    So the compiler may add in another order, many at a time, and fuse products with sums. Sums that
    are rounded have bounds that hold for every order. Nothing else may be in such a function.
    """
    return njit(fastmath={"reassoc", "contract", "nsz"}, **INSIDE)(function)


class Kernel:
    """A kernel for one signature, or for several that differ in the dtype of the first argument.

    `waiting` are those that this process has not compiled or read yet, by that dtype, or by "" if
    there is but one.
    """

    def __init__(self, function: Callable[..., Any], signatures: Sequence[Any]) -> None:
        self.py_func = function
        self.name = _name_of(function)
        self._dispatcher: Any = None
        several = len(signatures) > 1
        self.waiting: dict[str, Any] = {
            str(signature.args[2].dtype) if several else "": signature for signature in signatures
        }
        self.variants = tuple(self.waiting)
        update_wrapper(self, function)

    def __call__(self, begin: int, end: int, *arguments: Any) -> None:
        """Do some of the jobs."""
        if self.waiting:
            variant = str(arguments[0].dtype) if len(self.variants) > 1 else ""
            if variant in self.waiting:
                self.prepare(variant, When.NEEDED)
        self._dispatcher(begin, end, *arguments)

    def prepare(self, variant: str, when: When) -> bool:
        """Read a kernel from disk, or compile it; whether it is ready now."""
        with LOADING:
            if variant not in self.waiting:
                return True
            if self._dispatcher is None:
                self._dispatcher = compiled(self.py_func)
            if self._dispatcher is self.py_func:  # NUMBA_DISABLE_JIT=1, for debugging
                self.waiting.clear()
                return True
            if not self._compile(self.waiting[variant], when):
                return False
            del self.waiting[variant]
            return True

    @property
    def folder(self) -> Path | None:
        """Where it is kept; None if nowhere, or not known before `prepare`."""
        own = getattr(self._dispatcher, "_cache", None)
        kept_in = own.cache_path if isinstance(own, KernelCache) else None
        return None if kept_in is None else Path(kept_in)

    def _compile(self, signature: Any, when: When) -> bool:
        own = self._dispatcher._cache
        if not isinstance(own, KernelCache):  # Numba's, which only compiles
            if when is When.NEVER:
                return False
            own = None
        self._dispatcher.disable_compile(False)
        try:
            if own is not None:
                own.when = when
            self._dispatcher.compile(signature)
        except (Missing, Busy):
            return False
        finally:
            if own is not None:
                own.when = When.NEEDED
                own.leave()
            if self._dispatcher.signatures:
                self._dispatcher.disable_compile()  # no call may compile it for other types
        return True


def compiled(function: Callable[..., Any]) -> Any:
    """A function compiled, or read from disk, for all types it is called with.

    The interpreter's lock is not held while it runs.
    """
    options: dict[str, Any] = {"nogil": True, "no_cfunc_wrapper": True}
    dispatcher: Any = njit(**options)(function)
    if dispatcher is function:  # NUMBA_DISABLE_JIT=1, for debugging
        return function
    try:
        dispatcher._cache = KernelCache(function, replaced=dispatcher._cache)
    except AttributeError:
        return _compiled_by_numba(function)
    return dispatcher


def _compiled_by_numba(function: Callable[..., Any]) -> Any:
    """The same with Numba's own cache."""
    try:
        return njit(cache=True, nogil=True)(function)
    except RuntimeError:  # there is nowhere to keep it
        return njit(nogil=True)(function)


def _name_of(function: Callable[..., Any]) -> str:
    return f"{function.__module__.rpartition('.')[2]}.{function.__name__}"


class KernelCache:
    """What a dispatcher asks for its kernel before it compiles one, and gives it afterwards.

    Both under Numba's lock: no two threads compile at once.
    """

    def __init__(self, function: Callable[..., Any], replaced: Any) -> None:
        self._name = _name_of(function)
        self._source, self._started = function.__code__.co_filename, 0.0
        self._store: Any = replaced  # which keeps nothing
        self._turn: Turn | None = None
        self.when = When.NEEDED
        try:
            store: Any = caching.FunctionCache(function)
        except RuntimeError:  # no folder that Numba knows can be written
            return
        if not hasattr(store, "_cache_file") or not hasattr(store, "_load_overload"):
            raise AttributeError("this Numba reads and writes in another way")
        base = f"{self._name}.{sys.implementation.cache_tag}"
        stamp = _stamp(Path(self._source).parent)
        store._cache_file = KernelFiles(Path(store.cache_path), base, stamp)
        self._store = store

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def load_overload(self, signature: Any, context: Any) -> Any:
        """The kernel for a signature, or None where it is to be compiled by this process."""
        kernel = self._read(signature, context)
        if kernel is not None:
            return kernel
        if self.when is When.NEVER:
            raise Missing(self._name)
        if self.cache_path is None:
            self._say_that_nothing_is_kept()
            self._started = CPU.start(self._name)
            return None
        self.leave()  # what an interrupted call of this process has left
        name = hashlib.sha256(repr(signature).encode()).hexdigest()[:16]
        turn = Turn(Path(self.cache_path, f"{self._name}.{name}"))
        if self.when is When.FREE:
            turn.take(wait=False)
        self._started = CPU.start(self._name)
        turn.take(wait=True)
        self._turn = turn
        kernel = self._read(signature, context)  # another process may have had its turn
        if kernel is not None:
            self.leave()
            CPU.finish(self._name, self._started)
        return kernel

    def _read(self, signature: Any, context: Any) -> Any:
        try:
            return self._load(signature, context)
        except Exception:  # a whole file whose content this process cannot use, whatever the reason
            logger.debug("%s is not usable in %s", self._name, self.cache_path, exc_info=True)
            return None

    def _load(self, signature: Any, context: Any) -> Any:
        """The kernel from disk, without all that Numba loads to compile one.

        Numba's `load_overload` loads that first, scipy.linalg among it: 0.39 of the 0.45 s in which
        cProfile saw a first product of float64 read its seven kernels. Code that is there
        needs none of that to run; who compiles loads it then.
        """
        store = self._store
        if self.cache_path is None:
            return store.load_overload(signature, context)
        rtsys.initialize(context)
        return store._load_overload(signature, context)

    def _say_that_nothing_is_kept(self) -> None:
        beside = str(Path(self._source).parent / "__pycache__")
        asked = getattr(numba.config, "CACHE_DIR", "")
        tried = filter(None, [asked, beside, "the user's cache folder"])
        _say_once(
            "kernels cannot be kept on disk, so every process compiles them again (about "
            f"half a minute): none of these can be written: {', '.join(tried)}; set "
            "NUMBA_CACHE_DIR to a folder that can"
        )

    def save_overload(self, signature: Any, result: Any) -> None:
        """Keep what was compiled, if there is a place for it."""
        CPU.finish(self._name, self._started)
        try:
            self._store.save_overload(signature, result)
        except OSError as error:
            _say_once(
                f"kernels cannot be kept in {self.cache_path} ({error.strerror or error}), so "
                "every process compiles them again (about half a minute): make room there, or "
                "set NUMBA_CACHE_DIR to a folder that can be written"
            )
        self.leave()

    def leave(self) -> None:
        """Let other processes compile it."""
        if self._turn is not None:
            self._turn.leave()
            self._turn = None


@cache
def _say_once(text: str) -> None:
    logger.warning(text)


class KernelFiles:
    """The files of one kernel, one for each signature and kind of processor."""

    def __init__(self, folder: Path, base: str, stamp: bytes) -> None:
        self._folder, self._base, self._stamp = folder, base, stamp

    def _path(self, key: Any) -> Path:
        signature, processor, _ = key  # and digests of its code, which is in the stamp
        name = hashlib.sha256(repr((signature, processor)).encode()).hexdigest()[:16]
        return self._folder / f"{self._base}.{name}.nbc"

    def load(self, key: Any) -> Any:
        """What was saved under a key from these sources, or None."""
        data = kept.read(self._path(key), self._stamp)
        if data is None:
            return None
        saved_key, content = pickle.loads(data)
        return content if saved_key == key else None

    def save(self, key: Any, data: Any) -> None:
        """Save it, instead of whatever is there."""
        kept.write(self._path(key), self._stamp, serialize.dumps((key, data)))

    def flush(self) -> None:
        """Forget everything."""
        for path in self._folder.glob(f"{self._base}.*.nbc"):
            path.unlink(missing_ok=True)


@cache
def _stamp(beside: Path) -> bytes:
    """A digest of all that the code of kernels comes from, but for the processor.

    That is what lies beside their source, and here.
    """
    here = Path(__file__).parent
    sources = [path for folder in {here, beside} for path in folder.glob("*.py")]
    texts = sorted((path.name, path.read_bytes()) for path in sources)
    versions = numba.__version__, llvmlite.__version__, np.__version__
    return hashlib.sha256(repr((versions, texts)).encode()).digest()
