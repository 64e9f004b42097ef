"""Kernels launched: compiled when first asked for, their jobs shared by threads.

Each thread takes the next piece of the jobs when it has done its last.

Numba's own parallel loops divide the work evenly beforehand. After a BLAS product, though, the
threads of OpenBLAS keep a core busy for 50 ms or more, waiting for the next one, and an even share
on that core takes twice as long. Threads that take small pieces as they can lose less (at n = 1024
reconstruction took 30 ms instead of 85), they sleep while they wait, so that the next product is
not slowed down in its turn, and two callers do not disturb each other.
"""

from __future__ import annotations

import itertools
import os
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from functools import cache
from importlib import import_module
from typing import Any

PIECES = 8
"""Pieces a thread takes, about: fewer share unevenly, more are overhead."""

SMALL = 1 << 17
"""Work (entries times planes, about a nanosecond each) that is not worth waking a thread for."""


_compiling = threading.Lock()
_loaded: dict[str, Callable[..., None]] = {}


def launch(kernel: str | Callable[..., None], jobs: int, work: int, *arguments: Any) -> None:
    """Run a kernel, or the one named "module.function" of `widen.cpu.kernels`, on all its jobs.

    Kernels are compiled (or read from the cache on disk) when first asked for.
    """
    if isinstance(kernel, str):
        kernel = _loaded.get(kernel) or _load(kernel)
    if work <= SMALL:
        kernel(0, jobs, *arguments)
    else:
        share(kernel, jobs, *arguments)


def _load(name: str) -> Callable[..., None]:
    module, function = name.split(".")
    with _compiling:
        found: Callable[..., None] = getattr(import_module(f"widen.cpu.kernels.{module}"), function)
    _loaded[name] = found
    return found


@cache
def _pool(threads: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(threads, thread_name_prefix="widen")


if hasattr(os, "register_at_fork"):
    # A child process has none of its parent's threads.
    os.register_at_fork(after_in_child=_pool.cache_clear)


def _threads() -> int:
    import numba

    return int(numba.get_num_threads())


def share(kernel: Callable[..., None], jobs: int, *arguments: Any) -> None:
    """Call ``kernel(begin, end, *arguments)`` for ranges that make up all the jobs.

    ``numba.set_num_threads`` (and NUMBA_NUM_THREADS) says how many threads take part.
    """
    threads = min(_threads(), jobs)
    if threads <= 1:
        kernel(0, jobs, *arguments)
        return
    size = -(-jobs // (threads * PIECES))
    begins = itertools.count(0, size)  # next() is atomic

    def take() -> None:
        for begin in begins:
            if begin >= jobs:
                return
            kernel(begin, min(begin + size, jobs), *arguments)

    others: list[Future[None]] = []
    with suppress(RuntimeError):  # at the end of a program no thread starts any more
        others.extend(_pool(threads - 1).submit(take) for _ in range(threads - 1))
    try:
        take()
    finally:
        for other in others:
            other.result()
