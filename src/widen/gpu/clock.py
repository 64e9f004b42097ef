"""Times of stages on a GPU, by its own events."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import torch

from widen.stages.problem import Account

NOT_TIMED = nullcontext()


class Clock(Account):
    """An account whose stages are timed by the device; reading it waits for the device."""

    def __init__(self, *, timed: bool, bounds: bool = False) -> None:
        super().__init__(bounds=bounds)
        self.timed = timed
        self._events: list[tuple[str, Any, Any]] = []

    def stage(self, name: str) -> AbstractContextManager[None]:
        """Count the time of a stage, if anybody wants to know."""
        return self._timed(name) if self.timed else NOT_TIMED

    @contextmanager
    def _timed(self, name: str) -> Iterator[None]:
        event: Any = torch.cuda.Event
        start, stop = (event(enable_timing=True) for _ in range(2))
        start.record()
        yield
        stop.record()
        self._events.append((name, start, stop))

    def read(self) -> None:
        """Wait for the device and add up."""
        for name, start, stop in self._events:
            stop.synchronize()
            self.seconds[name] += start.elapsed_time(stop) / 1e3
        self._events.clear()
