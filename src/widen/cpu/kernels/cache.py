"""Kernels compiled by Numba and kept on disk, where Numba keeps its own, but in files of ours.

Numba's files may be read half written or damaged, which is a traceback in every later process, or
wrong code; two processes that write at once may leave the code of one signature under the name of
another; and a kernel is not compiled again when a function that it calls, in another file, has
changed. Here a file's name says which signature it is for, a digest says that it is whole and from
these sources, and what cannot be used is compiled again and replaced.

All that is used here of Numba's inside: a dispatcher asks its `_cache` for `load_overload` and
`save_overload`; a `FunctionCache` finds the folder, and its `_cache_file` reads and writes. With a
Numba where that is not so, its own cache serves as it is.
"""

from __future__ import annotations

import hashlib
import pickle
import sys
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numba
from numba import njit, types
from numba.core import caching, serialize

from widen.stages.compiling import kept
from widen.stages.compiling.notices import CPU, logger

INT, FLOAT, BOOL = types.int64, types.float64, types.boolean

# Types of what kernels read and do not write: any strides, read-only arrays as well.
BITS1, BITS2, BITS3, BITS4, BITS5 = (
    types.Array(INT, ndim, "A", readonly=True) for ndim in (1, 2, 3, 4, 5)
)


def kernel(*arguments, instead=None):
    """Compile a kernel for these argument types, or read it from the cache on disk.

    Every kernel takes a range of its jobs first, so that threads can share them; it does not hold
    the interpreter's lock. What a job is, its docstring says. `instead` is a second type that the
    first argument may have.
    """
    signatures = [types.void(INT, INT, *arguments)]
    if instead is not None:
        signatures.append(types.void(INT, INT, instead, *arguments[1:]))

    return lambda function: compiled(function, signatures)


def compiled(function: Callable[..., Any], signatures: Sequence[Any] | None = None) -> Any:
    """Compile a kernel, or read it from disk: for these signatures, or for all it is called with.

    The interpreter's lock is not held while it runs.
    """
    dispatcher: Any = njit(nogil=True)(function)
    if dispatcher is function:  # NUMBA_DISABLE_JIT=1, for debugging
        return function
    try:
        dispatcher._cache = KernelCache(function, replaced=dispatcher._cache)
    except AttributeError:
        return _compiled_by_numba(function, signatures)
    if signatures is not None:
        for signature in signatures:
            dispatcher.compile(signature)
        dispatcher.disable_compile()
    return dispatcher


def _compiled_by_numba(function: Callable[..., Any], signatures: Sequence[Any] | None) -> Any:
    """The same with Numba's own cache."""
    try:
        return njit(signatures, cache=True, nogil=True)(function)
    except RuntimeError:  # there is nowhere to keep it
        return njit(signatures, nogil=True)(function)


class KernelCache:
    """What a dispatcher asks for its kernel before it compiles one, and gives it afterwards."""

    def __init__(self, function: Callable[..., Any], replaced: Any) -> None:
        self._name = f"{function.__module__.rpartition('.')[2]}.{function.__name__}"
        self._source, self._started = function.__code__.co_filename, 0.0
        self._store: Any = replaced  # which keeps nothing
        try:
            store: Any = caching.FunctionCache(function)
        except RuntimeError:  # no folder that Numba knows can be written
            return
        if not hasattr(store, "_cache_file"):
            raise AttributeError("this Numba reads and writes in another way")
        base = f"{self._name}.{sys.implementation.cache_tag}"
        stamp = _stamp(Path(self._source).parent)
        store._cache_file = KernelFiles(Path(store.cache_path), base, stamp)
        self._store = store

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def load_overload(self, signature: Any, context: Any) -> Any:
        """The kernel for a signature, or None where it is to be compiled."""
        try:
            kernel = self._store.load_overload(signature, context)
        except Exception:  # a whole file whose content this process cannot use, whatever the reason
            logger.debug("%s is not usable in %s", self._name, self.cache_path, exc_info=True)
            kernel = None
        if kernel is None:
            if self.cache_path is None:
                beside = str(Path(self._source).parent / "__pycache__")
                asked = getattr(numba.config, "CACHE_DIR", "")
                tried = filter(None, [asked, beside, "the user's cache folder"])
                _say_once(
                    "kernels cannot be kept on disk, so every process compiles them again (about "
                    f"half a minute): none of these can be written: {', '.join(tried)}; set "
                    "NUMBA_CACHE_DIR to a folder that can"
                )
            self._started = CPU.start(self._name)
        return kernel

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
    return hashlib.sha256(repr((numba.__version__, texts)).encode()).digest()
