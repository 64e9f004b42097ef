"""A few numbers read from a GPU while it works on what was launched after they were there."""

from __future__ import annotations

import threading
from ctypes import string_at
from typing import Any

import torch

from widen.gpu.replay import driver

Tensor = torch.Tensor

LEAST_ROOM = 512
"""Bytes of pinned memory: most calls read 128 or 256."""


class Reading(threading.local):
    """What one thread reads: where to, and when it is there."""

    room: Tensor | None = None
    numbers: Tensor | None = None
    address = size = 0
    device = -1
    side: Any = None
    ready: Any = None
    event = stream = 0

    def begin(self, address: int, size: int, device: int) -> None:
        """Read so many bytes at this address of the current GPU, when its stream comes here."""
        current = driver.stream(device)
        if self.device != device or self.stream == current:
            self._open(device)
        if self.room is None or self.room.nbytes < size:
            driver.wait_for(self.stream)  # of a call that failed, bytes may still be on their way
            self.room = torch.empty(max(size, LEAST_ROOM), dtype=torch.uint8, pin_memory=True)
            self.address = self.room.data_ptr()
        self.numbers, self.size = None, size
        driver.fetch(self.address, address, size, self.event, (current, self.stream))

    def begin_here(self, numbers: Tensor) -> None:
        """Numbers are in this tensor, on a CPU (Triton's interpreter)."""
        self.numbers = numbers

    def end(self) -> bytes:
        """Wait for the numbers, not for what was launched after `begin`; their bytes."""
        if self.numbers is not None:
            return string_at(self.numbers.data_ptr(), self.numbers.nbytes)
        driver.wait_for(self.stream)
        return string_at(self.address, self.size)

    def _open(self, device: int) -> None:
        """Take an event, and a stream that is not the current one."""
        cuda: Any = torch.cuda
        self.side, self.ready, self.device = cuda.Stream(device), cuda.Event(), device
        self.ready.record()  # or there would be no event yet
        self.event, self.stream = self.ready.cuda_event, self.side.cuda_stream


def numbers_of(data: bytes, shape: tuple[int, ...]) -> Any:
    """The numbers as lists, as `tolist` gives them.

    >>> numbers_of(bytes(range(1, 17)), (2, 1))
    [[578437695752307201], [1157159078456920585]]
    """
    return memoryview(data).cast("q", shape=shape).tolist()
