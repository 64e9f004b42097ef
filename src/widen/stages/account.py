"""What a run keeps account of: time by stage, repairs, the largest bound, most workspace."""

from __future__ import annotations

import time
from contextlib import AbstractContextManager

STAGES = ("quantise", "encode", "multiply", "certify", "reconstruct", "repair", "bound")


class Account:
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
