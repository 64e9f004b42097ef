"""What a run keeps account of: time by stage, repairs, the largest bound, scratch memory."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import numpy as np

STAGES = ("quantise", "encode", "multiply", "certify", "reconstruct", "repair")


class Ledger:
    """Seconds by stage, elements repaired, most bytes of workspace held at one time.

    Where bounds are asked for, also the largest of a finite element (0 if there is none), and how
    many elements are finite.
    """

    def __init__(self, *, bounds: bool = False) -> None:
        self.seconds = dict.fromkeys(STAGES, 0.0)
        self.repaired = 0
        self.workspace = 0
        self.bounds = bounds
        self.largest = 0.0
        self.finite = 0

    def add_bounds(self, largest: float, finite: int) -> None:
        """Take in the largest bound of a finite element, of so many."""
        self.largest = max(self.largest, largest)
        self.finite += finite

    def stage(self, name: str) -> AbstractContextManager[None]:
        """Count the time of a stage."""
        return _Stage(self.seconds, name)


class _Stage:
    """A stretch of time; a generator would take two microseconds more, seven times a call."""

    def __init__(self, seconds: dict[str, float], name: str) -> None:
        self.seconds, self.name = seconds, name

    def __enter__(self) -> None:
        self.start = time.perf_counter()

    def __exit__(self, *error: object) -> None:
        self.seconds[self.name] += time.perf_counter() - self.start


KEPT = 192 * 2**20
"""Most bytes of scratch memory that stay for the next call, as BLAS libraries keep theirs.

Fresh pages cost about 0.2 ms a megabyte here: at n = 1024 an eighth of a product's time.
"""


WIDTHS = {"float64": 8, "float32": 4}
"""Bytes of what scratch memory is taken for."""


class Scratch:
    """Memory used again, block after block and call after call."""

    def __init__(self) -> None:
        self._buffers: dict[str, np.ndarray[Any, Any]] = {}
        self._taken: dict[str, int] = {}
        self.ledger = Ledger()

    def take(self, name: str, shape: tuple[int, ...], dtype: str = "float64") -> Any:
        """An array of this shape, with no values yet; what was taken under the name is gone."""
        count = math.prod(shape) * WIDTHS[dtype]
        buffer = self._buffers.get(name)
        if buffer is None or buffer.size < count:
            buffer = None
            self._buffers.pop(name, None)
            buffer = self._buffers[name] = np.empty(count, np.uint8)
        self._taken[name] = count
        self.ledger.workspace = max(self.ledger.workspace, sum(self._taken.values()))
        return np.ndarray(shape, dtype, buffer)

    def clear(self) -> None:
        """Give everything back."""
        self._buffers.clear()
        self._taken.clear()


_kept: list[Scratch] = []


@contextmanager
def scratch(ledger: Ledger) -> Iterator[Scratch]:
    """The scratch memory that the last call left, or a new one if it is in use or was large."""
    try:
        memory = _kept.pop()  # atomic: no two threads get the same
    except IndexError:
        memory = Scratch()
    memory.ledger = ledger
    memory._taken.clear()
    yield memory
    if not _kept and sum(buffer.nbytes for buffer in memory._buffers.values()) <= KEPT:
        _kept.append(memory)
