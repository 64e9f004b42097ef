"""A few numbers read from a GPU while it works on what was launched after they were there."""

from __future__ import annotations

import threading
from typing import Any

import torch

from widen.gpu.replay import driver

Tensor = torch.Tensor


class Reading(threading.local):
    """What one thread reads: where to, from where, and when."""

    numbers: Tensor | None = None
    source: int | None = None
    device = -1
    side: Any = None
    ready: Any = None
    event = stream = 0

    def begin(self, address: int, shape: tuple[int, ...], dtype: torch.dtype, device: int) -> None:
        """Numbers are at this address of the current GPU when its stream comes here."""
        current = driver.stream(device)
        if self.device != device or self.stream == current:
            self._open(device)
        if self.source is None or self.numbers is None or self.numbers.shape != shape:
            self.numbers = torch.empty(shape, dtype=dtype, pin_memory=True)
        self.source = address
        driver.record(self.event, current)

    def begin_here(self, numbers: Tensor) -> None:
        """Numbers are in this tensor, on a CPU (Triton's interpreter)."""
        self.numbers, self.source = numbers, None

    def end(self) -> Any:
        """Wait for the numbers, not for what was launched after `begin`."""
        assert self.numbers is not None
        if self.source is not None:
            target, size = self.numbers.data_ptr(), self.numbers.nbytes
            driver.fetch(target, self.source, size, self.event, self.stream)
        return self.numbers.tolist()

    def _open(self, device: int) -> None:
        """Take an event, and a stream that is not the current one."""
        cuda: Any = torch.cuda
        self.side, self.ready, self.device = cuda.Stream(device), cuda.Event(), device
        self.ready.record()  # or there would be no event yet
        self.event, self.stream = self.ready.cuda_event, self.side.cuda_stream
