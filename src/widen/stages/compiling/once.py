"""What is made once and kept, whichever threads ask for it: kernels, tables, launchers.

Asking for what is there takes no lock. A child process begins with locks of its own: whoever held
its parent's is not there to let them go.
"""

from __future__ import annotations

import logging  # noqa: F401
import os
import threading
import weakref
from collections.abc import Callable, Hashable
from functools import update_wrapper
from typing import Any, Generic, ParamSpec, TypeVar

P = ParamSpec("P")
V = TypeVar("V")

_locks: weakref.WeakSet[Lock] = weakref.WeakSet()


class Lock:
    """A lock that its thread may take again, free in a child process."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        _locks.add(self)

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(self, *error: object) -> None:
        self._lock.release()

    def renew(self) -> None:
        """Be free, whoever holds it."""
        self._lock = threading.RLock()


def _in_a_child() -> None:
    for lock in list(_locks):
        lock.renew()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_a_child)


LOADING = threading.RLock()
"""Held while the CPU's wing or a module of kernels is loaded, and while a kernel is compiled.

A fork takes it first, and lets it go on both sides: a child would wait for ever for a module that a
thread of its parent has half imported.
"""

if hasattr(os, "register_at_fork"):
    # Before logging takes its lock, which the thread that loads may wait for: what is registered
    # last is called first, and logging has been imported above.
    os.register_at_fork(
        before=LOADING.acquire, after_in_parent=LOADING.release, after_in_child=LOADING.release
    )


class Once(dict[Any, V], Generic[V]):
    """Values by key, each made by the first thread that asks while others wait for it.

    Parameters
    ----------
    most
        When there are so many, all are dropped. Unless given, they stay for good.

    Examples
    --------
    >>> squares = Once()
    >>> squares.made(3, lambda: 3 * 3)
    9
    """

    def __init__(self, most: int | None = None) -> None:
        super().__init__()
        self._most = most
        self._all = Lock()
        self._turns: dict[Hashable, Lock] = {}

    def made(self, key: Any, make: Callable[[], V], turn: Hashable = None) -> V:
        """The value of a key, made if there is none yet.

        Nothing is there before `make` has returned. Values of one `turn` are made one after the
        other, those of others meanwhile: unless it is given, no two are made at once.
        """
        try:
            return self[key]
        except KeyError:
            pass
        with self._lock_of(turn):
            try:
                return self[key]  # another thread was first
            except KeyError:
                value = make()
            with self._all:
                if self._most is not None and len(self) >= self._most:
                    self.clear()
                self[key] = value
            return value

    def _lock_of(self, turn: Hashable) -> Lock:
        if turn is None:
            return self._all
        with self._all:
            return self._turns.setdefault(turn, Lock())


class once(Generic[P, V]):
    """`functools.cache` that runs its function once for the same arguments, whatever threads do.

    Tables that a captured graph points at must be the ones that are kept.
    """

    __wrapped__: Callable[P, V]

    def __init__(self, function: Callable[P, V]) -> None:
        update_wrapper(self, function)
        self._values: Once[V] = Once()

    def __call__(self, *given: P.args, **named: P.kwargs) -> V:
        """What the function gave for these."""
        key = (given, tuple(named.items())) if named else given
        return self._values.made(key, lambda: self.__wrapped__(*given, **named))

    def cache_clear(self) -> None:
        """Drop all values."""
        self._values.clear()
