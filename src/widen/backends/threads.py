"""Threads that share the jobs of a kernel, each taking the next piece when it has done its last.

Numba's own parallel loops divide the work evenly beforehand. After a BLAS product, though, the
threads of OpenBLAS keep a core busy waiting (24 ms at 2.8 GHz), and an even share on that core takes
twice as long: encoding and reconstruction at n = 1024 took 1.7 times what they take here. These
threads sleep while they wait, so they do not slow the next product down either.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import Any

PIECES = 8
"""Pieces a thread takes, about: fewer share unevenly, more are overhead."""

SMALL = 1 << 17
"""Work (entries times planes, about a nanosecond each) that is not worth waking a thread for."""


@cache
def _pool(threads: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(threads, thread_name_prefix="widen")


# A child process has none of its parent's threads.
os.register_at_fork(after_in_child=_pool.cache_clear)


def _threads() -> int:
    import numba

    return int(numba.get_num_threads())


def run(kernel: Callable[..., None], jobs: int, work: int, *arguments: Any) -> None:
    """Call ``kernel(begin, end, *arguments)`` for ranges that make up all the jobs.

    ``numba.set_num_threads`` (and NUMBA_NUM_THREADS) says how many threads take part.
    """
    threads = 1 if work <= SMALL else min(_threads(), jobs)
    if threads <= 1:
        kernel(0, jobs, *arguments)
        return
    size = -(-jobs // (threads * PIECES))
    begins = itertools.count(0, size)  # next() is atomic

    def share() -> None:
        for begin in begins:
            if begin >= jobs:
                return
            kernel(begin, min(begin + size, jobs), *arguments)

    others = [_pool(threads - 1).submit(share) for _ in range(threads - 1)]
    try:
        share()
    finally:
        for other in others:
            other.result()
