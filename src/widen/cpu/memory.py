"""Scratch memory on a CPU: used again, block after block and call after call."""

from __future__ import annotations

import math
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import numpy as np

from widen.planner import KEPT
from widen.stages.problem import Account

WIDTHS = {"float64": 8, "float32": 4}
"""Bytes of what scratch memory is taken for."""


_NO_ARRAYS: Mapping[str, int] = MappingProxyType({})


class Scratch:
    """Memory used again, block after block and call after call."""

    def __init__(self) -> None:
        self._buffers: dict[str, np.ndarray[Any, Any]] = {}
        self._taken: dict[str, int] = {}
        self.kept: dict[str, Any] = {}
        """What later blocks of this call find in it."""
        self.account = Account()

    def take(self, name: str, shape: tuple[int, ...], dtype: str = "float64") -> Any:
        """An array of this shape, with no values yet; what was taken under the name is gone."""
        count = math.prod(shape) * WIDTHS[dtype]
        buffer = self._buffers.get(name)
        if buffer is None or buffer.size < count:
            buffer = None
            self._buffers.pop(name, None)
            buffer = self._buffers[name] = np.empty(count, np.uint8)
        self._taken[name] = count
        self.account.workspace = max(self.account.workspace, sum(self._taken.values()))
        return np.ndarray(shape, dtype, buffer)

    def clear(self) -> None:
        """Give everything back."""
        self._buffers.clear()
        self._taken.clear()
        self.kept.clear()

    def make_room(self, limit: int, need: int, arrays: Mapping[str, int] = _NO_ARRAYS) -> None:
        """Give everything back, unless it is within a limit together with what is needed now.

        That is so many bytes, and arrays of so many bytes that will be taken by their names.
        """
        held = {name: buffer.nbytes for name, buffer in self._buffers.items()}
        for name, size in arrays.items():
            held[name] = max(held.get(name, 0), size)
        if sum(held.values()) + need > limit:
            self.clear()

    def leave(self) -> None:
        """Leave it to the next call, unless it is large or another one is left already."""
        self.kept.clear()
        if not _kept and sum(buffer.nbytes for buffer in self._buffers.values()) <= KEPT:
            _kept.append(self)


_kept: list[Scratch] = []


def taken(account: Account) -> Scratch:
    """The scratch memory that the last call left, or a new one if there is none."""
    try:
        memory = _kept.pop()  # atomic: no two threads get the same
    except IndexError:
        memory = Scratch()
    memory.account = account
    memory._taken.clear()
    return memory
