"""Kernels compiled at once by other processes, where a call needs several that are nowhere.

With the first kernel of a call that has to be compiled, it is worked out which others will be
needed (`gpu.foresight`); and again if one of those was not foreseen, from what the call has read
meanwhile. They are handed to a process of its own, which never sees the GPU and divides itself
(`gpu.code.worker`); this one is compiled here. Whoever needs a kernel that is being compiled there
waits for it. If that process fails, kernels are compiled here.
"""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from widen.gpu.code import store
from widen.gpu.code.variants import Variant
from widen.stages.compiling.notices import logger
from widen.stages.compiling.once import Lock

Foresee = Callable[[Any], Iterable[Variant]]
"""The kernels of a call, given what its plan was decided from, or None before that is known."""


class _Calling(threading.local):
    foresee: Foresee | None = None
    known: Any = None
    times = 0


_calling = _Calling()
"""The call that this thread makes, if anybody can tell what it will need."""


@contextmanager
def foreseeing(foresee: Foresee) -> Iterator[None]:
    """A context in which a call is made."""
    _calling.foresee, _calling.known, _calling.times = foresee, None, 0
    try:
        yield
    finally:
        _calling.foresee = None


def decided_from(known: Any) -> None:
    """What the plan of this thread's call was decided from."""
    _calling.known = known


def _foresight() -> Callable[[], Iterable[Variant]] | None:
    """What tells the kernels of this thread's call, the first time, and once more with its plan."""
    foresee, known = _calling.foresee, _calling.known
    if foresee is None or _calling.times > (known is not None):
        return None
    _calling.times = 1 if known is None else 2
    return lambda: foresee(known)


class Workers:
    """A process that compiles, and what it was asked for."""

    def __init__(self) -> None:
        self._lock, self._owner = Lock(), os.getpid()
        self._process: subprocess.Popen[bytes] | None = None
        self._asked: dict[str, threading.Event] = {}
        self._taken: set[str] = set()
        self._begun: set[str] = set()

    def take(self, key: str) -> threading.Event | None:
        """Say that a kernel is compiled here now, unless it is there: then give its end."""
        with self._lock:
            end = self._asked.get(key) if self._owner == os.getpid() else None
            if end is None:
                self._taken.add(key)
            return end

    def ask(self, variants: Iterable[Variant], architecture: int) -> None:
        """Have kernels compiled that are nowhere, nor being compiled."""
        jobs = []
        with self._lock:
            for variant in variants:
                key = variant.key(architecture)
                known = key in self._asked or key in self._taken
                if known or store.find(key, architecture) is not None:
                    continue
                self._asked[key] = threading.Event()
                jobs.append((key, variant, architecture))
            if jobs:
                self._send(jobs)

    def compiles(self, variant: Variant, architecture: int) -> bool:
        """Whether a kernel that is nowhere is being compiled there; it is asked for once."""
        key = variant.key(architecture)
        with self._lock:
            begun = key in self._begun
            self._begun.add(key)
        if not begun:
            self.ask([variant], architecture)
            self.foresee(architecture)
        with self._lock:
            return key in self._asked

    def wait(self) -> None:
        """Wait until nothing is being compiled for this process."""
        while self._asked and self._owner == os.getpid():
            with self._lock:
                ends = list(self._asked.values())
            for end in ends:
                end.wait()

    def foresee(self, architecture: int) -> None:
        """Have other kernels compiled that this thread's call will need, if anybody can tell."""
        others = _foresight()
        if others is not None:
            # By a thread of its own: whoever listens to this one's operations does not to that
            # one's.
            threading.Thread(target=self._ask_for, args=(others, architecture), daemon=True).start()

    def _ask_for(self, others: Callable[[], Iterable[Variant]], architecture: int) -> None:
        try:
            self.ask(others(), architecture)
        except Exception:  # then every kernel is compiled when it is needed
            logger.debug("the kernels of a call could not be foreseen", exc_info=True)

    def _send(self, jobs: list[tuple[str, Variant, int]]) -> None:
        try:
            if self._process is None:
                self._process = _started()
                threading.Thread(target=self._listen, args=(self._process,), daemon=True).start()
            assert self._process.stdin is not None
            for job in jobs:
                data = pickle.dumps(job)
                self._process.stdin.write(len(data).to_bytes(4, "little") + data)
            self._process.stdin.flush()
        except OSError:
            self._give_up()

    def _listen(self, process: subprocess.Popen[bytes]) -> None:
        """Note what is done; when the process ends, nobody waits for it any more."""
        assert process.stdout is not None
        for line in process.stdout:
            with self._lock:
                end = self._asked.pop(line.decode().strip(), None)
            if end is not None:
                end.set()
        self._give_up()

    def _give_up(self) -> None:
        with self._lock:
            self._process = None
            asked, self._asked = self._asked, {}
        for end in asked.values():
            end.set()


_workers = Workers()
ask = _workers.ask
compiles = _workers.compiles
wait = _workers.wait

START = "import sys; sys.path[:] = {path!r}; from widen.gpu.code.worker import main; main()"


def _started() -> subprocess.Popen[bytes]:
    """A process that imports what this one does, and no more than it needs."""
    code = START.format(path=[str(Path(place).absolute()) for place in sys.path])
    pipe = subprocess.PIPE
    return subprocess.Popen(
        [sys.executable, "-c", code], stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL
    )


def compiled(variant: Variant, architecture: int, refused: Sequence[bytes] = ()) -> bytes:
    """The code of a kernel that is nowhere, as it is kept; or that the driver `refused` to load."""
    key = variant.key(architecture)
    end = _workers.take(key)
    if end is not None:
        end.wait()
    code = store.read(key)  # it may have come there meanwhile
    if code is not None and code not in refused:
        return code
    _workers.foresee(architecture)
    from widen.gpu.code.compiler import made  # which whoever finds all it needs never imports

    return made(variant, architecture, refused)
