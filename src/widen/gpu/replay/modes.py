"""PyTorch's dispatch modes, which see every operator: a name that only a private module has."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any

from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes

__all__ = ["TorchDispatchMode", "unwatched"]


def unwatched() -> AbstractContextManager[Any]:
    """A context in which no dispatch mode sees anything."""
    context: AbstractContextManager[Any] = _disable_current_modes()
    return context
