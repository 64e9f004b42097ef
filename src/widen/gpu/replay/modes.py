"""PyTorch's dispatch modes, which see every operator: a name that only a private module has."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

from torch.utils._python_dispatch import (
    TorchDispatchMode,
    _disable_current_modes,
    _get_current_dispatch_mode_stack,
    _pop_mode,
    _push_mode,
)

__all__ = ["TorchDispatchMode", "uncovered", "unwatched"]


def unwatched() -> AbstractContextManager[Any]:
    """A context in which no dispatch mode sees anything."""
    context: AbstractContextManager[Any] = _disable_current_modes()
    return context


@contextmanager
def uncovered(mode: Any) -> Iterator[None]:
    """A context in which a mode of this thread is the innermost, to be left.

    PyTorch leaves the innermost mode, whichever was asked to end. Generators and coroutines that
    take turns end in any order.
    """
    inside = _get_current_dispatch_mode_stack()
    if not any(x is mode for x in inside):
        raise RuntimeError(f"{mode!r} was entered by another thread; leave it there")
    above = []
    while inside.pop() is not mode:
        above.append(_pop_mode())
    try:
        yield
    finally:
        for one in reversed(above):
            _push_mode(one)
