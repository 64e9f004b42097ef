"""What the logger "widen" says of kernels being compiled: who waits shall know what for.

Level INFO, which nobody sees who does not ask for it; warnings go where Python's logging sends
them. Who has not asked and sits at a terminal reads one line on stderr, after a second in all. A
record says in `record.compiling` what it is about, so that a program can show it: "first" (nothing
was compiled before it), "start" (level DEBUG) or "finish"; `record.done` counts kernels.
"""

from __future__ import annotations

import logging
import sys
from threading import Timer
from time import perf_counter

logger = logging.getLogger("widen")

PATIENCE = 1.0
"""Seconds of compiling in all before a line on a terminal says so."""


class Notices:
    """What is said of kernels of one kind."""

    def __init__(self, first: str) -> None:
        self.first = first
        self.count, self.seconds = 0, 0.0
        self.announced = self.shown = False
        self._timer: Timer | None = None

    def start(self, kernel: str) -> float:
        """Say that a kernel is being compiled now; give the time."""
        if not self.announced:
            self.announced = True
            logger.info(self.first, extra=self._about("first"))
        logger.debug("compiling %s", kernel, extra=self._about("start"))
        if not self.shown and not logger.isEnabledFor(logging.INFO) and _at_a_terminal():
            self._timer = Timer(max(PATIENCE - self.seconds, 0), self._tell)
            self._timer.daemon = True
            self._timer.start()
        return perf_counter()

    def _tell(self) -> None:
        if not self.shown:
            self.shown = True
            print(f"widen: {self.first} …", file=sys.stderr, flush=True)

    def finish(self, kernel: str, started: float) -> None:
        """Say that it is done."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        seconds = perf_counter() - started
        self.count, self.seconds = self.count + 1, self.seconds + seconds
        logger.info(
            "%s is ready after %.1f s (kernels so far: %d, in %.1f s)",
            kernel, seconds, self.count, self.seconds, extra=self._about("finish"),
        )  # fmt: skip

    def _about(self, what: str) -> dict[str, object]:
        return {"compiling": what, "done": self.count}


def _at_a_terminal() -> bool:
    return sys.stderr is not None and sys.stderr.isatty()


CPU = Notices("compiling kernels, once (some seconds)")
GPU = Notices("compiling GPU kernels, once (seconds each)")
CUDA = Notices("compiling CUDA kernels, once (some seconds each)")
