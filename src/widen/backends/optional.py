"""PyTorch and Triton, which may not be there: what to hide from them, and what to say."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import wraps
from importlib import import_module
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")


def is_compiled() -> bool:
    """Whether torch.compile is tracing what happens to tensors here."""
    return bool(sys.modules["torch"].compiler.is_dynamo_compiling())


def eager(function: Callable[P, R]) -> Callable[P, R]:
    """A function that torch.compile calls as it is: what it traced would be other arithmetic."""
    untraced: Callable[P, R] | None = None

    @wraps(function)
    def called(*given: P.args, **options: P.kwargs) -> R:
        nonlocal untraced
        disable = getattr(sys.modules.get("torch._dynamo"), "disable", None)
        if disable is None:
            return function(*given, **options)
        if untraced is None:
            untraced = disable(function)
        return untraced(*given, **options)

    return called


def for_gpus(module: str) -> Any:
    """A module that needs PyTorch and Triton, without which the rest of the library does."""
    try:
        return import_module(module)
    except ImportError as error:
        raise ImportError(
            f"a GPU needs PyTorch and Triton ({error}): pip install 'widen[torch]'"
        ) from error
