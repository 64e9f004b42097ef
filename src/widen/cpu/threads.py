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
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from functools import cache
from typing import Any

# NumPy imports this when it is first asked for, as Numba does in a kernel's first call. A thread
# that forks meanwhile would leave its child an import that never ends.
import numpy.ma  # noqa: F401

from widen.stages.compiling.once import LOADING

PIECES = 8
"""Pieces a thread takes, about: fewer share unevenly, more are overhead."""

SMALL = 1 << 17
"""Work (entries times planes, about a nanosecond each) that is not worth waking a thread for."""


_counting = threading.RLock()


def launch(kernel: Callable[..., None], jobs: int, work: int, *arguments: Any) -> None:
    """Run a kernel on all its jobs."""
    if work <= SMALL:
        kernel(0, jobs, *arguments)
    else:
        share(kernel, jobs, *arguments)


@cache
def _pool(threads: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(threads, thread_name_prefix="widen")


def thread_count() -> int:
    """How many threads take part in a kernel."""
    import numba

    with _counting:  # Numba takes locks of its own here
        return int(numba.get_num_threads())


# A child process has none of its parent's threads. What one of them was in the middle of stays as
# it is for ever: a lock that is held, a kernel's module half imported, a compiler half way. So a
# fork waits until no other thread compiles, and the locks are free in both processes.


class _AtFork(threading.local):
    """The locks that a thread holds while it forks."""

    def __init__(self) -> None:
        self.held: list[Any] = []


_at_fork = _AtFork()


def _locks() -> Iterator[Any]:
    """Every lock that a product may take on its way, in the order in which threads take them."""
    yield LOADING
    yield _counting
    # Numba's and LLVM's, which others may hold who compile kernels of their own.
    compiler = sys.modules.get("numba.core.compiler_lock")
    yield getattr(compiler, "global_compiler_lock", None)
    library = getattr(sys.modules.get("llvmlite.binding.ffi"), "lib", None)
    yield getattr(getattr(library, "_lock", None), "_lock", None)


def _before_fork() -> None:
    for lock in _locks():
        if lock is not None:
            lock.acquire()
            _at_fork.held.append(lock)


def _after_fork() -> None:
    while _at_fork.held:
        _at_fork.held.pop().release()


def _after_fork_in_child() -> None:
    _after_fork()
    _pool.cache_clear()


if hasattr(os, "register_at_fork"):
    # What is registered last is called first before a fork: not after logging has taken its lock,
    # which the thread that compiles may wait for (concurrent.futures has imported it above).
    os.register_at_fork(
        before=_before_fork,
        after_in_parent=_after_fork,
        after_in_child=_after_fork_in_child,
    )


class _Helping(threading.local):
    """Whether this thread is one of the pool, which must not wait for others of it."""

    now = False


_helping = _Helping()


def share(kernel: Callable[..., None], jobs: int, *arguments: Any) -> None:
    """Call ``kernel(begin, end, *arguments)`` for ranges that make up all the jobs.

    ``numba.set_num_threads`` (and NUMBA_NUM_THREADS) says how many threads take part. What is
    shared may share in its turn; a thread that helps does such jobs alone.
    """
    threads = min(thread_count(), jobs)
    if threads <= 1 or _helping.now:
        kernel(0, jobs, *arguments)
        return
    size = -(-jobs // (threads * PIECES))
    begins = itertools.count(0, size)  # next() is atomic

    def take() -> None:
        for begin in begins:
            if begin >= jobs:
                return
            kernel(begin, min(begin + size, jobs), *arguments)

    def help_out() -> None:
        _helping.now = True
        take()

    others: list[Future[None]] = []
    with suppress(RuntimeError):  # at the end of a program no thread starts any more
        others.extend(_pool(threads - 1).submit(help_out) for _ in range(threads - 1))
    try:
        take()
    finally:
        for other in others:
            other.result()
