"""How far a call has come, for whoever shows that: `progress=` of `solve` and others.

What works inside a call says `report(share)` of its own part, and does not know of the others. The
callback is kept for the call alone, not for the program: two threads do not see each other's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

Progress = Callable[[float], None]
_CURRENT: ContextVar[Progress | None] = ContextVar("progress", default=None)


def report(share: float) -> None:
    """Say that this share of the current part is done."""
    listener = _CURRENT.get()
    if listener is not None:
        listener(min(max(share, 0.0), 1.0))


@contextmanager
def reported(progress: Progress | None) -> Iterator[None]:
    """Hand what is reported inside to a callback, and 1 at the end; never less than before.

    A way that was given up has been reported, too: the next one goes on where that was.
    """
    most = -1.0

    def tell(share: float) -> None:
        nonlocal most
        if progress is not None and share > most:
            most = share
            progress(share)

    token = _CURRENT.set(tell if progress is not None else None)
    try:
        yield
        tell(1.0)
    finally:
        _CURRENT.reset(token)


@contextmanager
def part(before: float, width: float) -> Iterator[None]:
    """Report what happens inside as a part of what is done now."""
    outer = _CURRENT.get()
    if outer is None:
        yield
        return
    with reported(lambda share: outer(before + width * share)):
        yield
