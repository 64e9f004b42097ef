"""What a run keeps account of: seconds by stage, elements repaired, most bytes of workspace."""

from __future__ import annotations

import time
from contextlib import AbstractContextManager

STAGES = ("quantise", "encode", "multiply", "certify", "reconstruct", "repair")


class Account:
    """Seconds by stage, elements repaired, most bytes of workspace held at one time."""

    def __init__(self) -> None:
        self.seconds = dict.fromkeys(STAGES, 0.0)
        self.repaired = 0
        self.workspace = 0

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
