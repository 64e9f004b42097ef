"""One process at a time: who compiles something says so beside its file, and others wait for it.

A turn is a lock on a file, which the system lets go when a process ends, however it ends. Where
there are no such locks, processes that begin at once compile the same thing more than once, and
the last one's file stays.
"""

from __future__ import annotations

import os
from enum import Enum
from pathlib import Path
from time import monotonic, sleep

if os.name == "posix":
    import fcntl

PATIENCE = 60.0
"""Seconds that a process waits for the turn of another, which may have been stopped."""

STEP = 0.01


class When(Enum):
    """When a kernel that is not on disk is compiled."""

    NEVER = "never"
    FREE = "if no other process is at it"
    NEEDED = "at once, or when another process has not done it after all"


class Busy(Exception):
    """Another process has its turn."""


class Turn:
    """The turn to make one file. A process may take it again while it has it."""

    def __init__(self, path: Path) -> None:
        self._path = path.with_name(f"{path.name}.turn")
        self._file: int | None = None

    def take(self, *, wait: bool) -> None:
        """Take the turn, or raise `Busy`; with `wait` only after a minute is it taken anyway."""
        if os.name != "posix" or self._file is not None:
            return
        until = monotonic() + PATIENCE
        while not self._taken():
            if not wait:
                raise Busy(self._path)
            if monotonic() > until:
                return
            sleep(STEP)

    def _taken(self) -> bool:
        """Whether the turn is taken now; also where no lock is to be had."""
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            file = os.open(self._path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC)
        except OSError:  # nothing can be written there, so nothing will be kept
            return True
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # Whoever had the turn has removed the file, perhaps after it was opened here.
            ours = os.fstat(file).st_nlink > 0
        except BlockingIOError:
            ours = False
        except OSError:  # a file system without locks
            os.close(file)
            return True
        if ours:
            self._file = file
        else:
            os.close(file)
        return ours

    def leave(self) -> None:
        """Let others have it."""
        if self._file is not None:
            self._path.unlink(missing_ok=True)
            os.close(self._file)
            self._file = None
