"""PyTorch's compiler by its private names: another backend for those who ask, and decompositions.

Nothing here imports the compiler, which takes seconds. Where a name is missing (a release that
renamed it), nothing is redirected, and whoever asked must do without.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

DYNAMO = {
    "_dynamo.eval_frame._callback_from_stance": "asked before every call of a compiled function",
    "_dynamo.convert_frame.catch_errors_wrapper": "the outer layer of what it gives",
    "_dynamo.convert_frame.ConvertFrame._clone_with_backend": "the inner one, for another backend",
    "_dynamo.convert_frame.ConvertFrameAssert._clone_with_backend": "the same for whole graphs",
    "_dynamo.backends.common.aot_module_simplified": "where all backends take decompositions",
    "_functorch.config.patch": "a context without the cache of traced graphs",
}
"""Of `torch`, and what each is for."""

Choose = Callable[[Any], Any]
"""Given a backend: another one for this call, the same each time; or None."""


def is_imported() -> bool:
    """Whether the compiler is there."""
    return "torch._dynamo.eval_frame" in sys.modules


def load() -> None:
    """Import it."""
    import torch._dynamo  # noqa: F401


def hidden(function: Any) -> Any:
    """A function that the compiler calls as it is, and does not look into."""
    import torch._dynamo

    return torch._dynamo.disable(function)  # type: ignore[no-untyped-call]


def lost() -> list[str]:
    """Names that are not there, of a compiler that is imported."""
    import torch._dynamo.backends.common
    import torch._functorch.config  # noqa: F401

    missing = []
    for name in DYNAMO:
        place: Any = sys.modules["torch"]
        for part in name.split("."):
            place = getattr(place, part, None)
        if place is None:
            missing.append(name)
    return missing


def redirect(choose: Choose) -> bool:
    """Ask `choose` for the backend of every call of a compiled function from now on.

    What was compiled for one backend is not used for another, so that results of both live side by
    side. False if that cannot be done.
    """
    if lost():
        return False
    import torch._dynamo

    frames, convert = torch._dynamo.eval_frame, torch._dynamo.convert_frame
    theirs = frames._callback_from_stance
    kept: dict[tuple[int, int], tuple[Any, ...]] = {}  # PyTorch counts no reference to callbacks

    def callback_from_stance(callback: Any) -> Any:
        callback = theirs(callback)
        inner = getattr(callback, "_torchdynamo_orig_backend", None)
        if inner is None or not hasattr(inner, "_clone_with_backend"):
            return callback
        backend = choose(_innermost(inner))
        if backend is None:
            return callback
        key = (id(callback), id(backend))
        if key not in kept:
            clone = inner._clone_with_backend(backend)
            kept[key] = (convert.catch_errors_wrapper(clone, callback.hooks), callback, backend)
        return kept[key][0]

    frames._callback_from_stance = callback_from_stance
    return True


def _innermost(backend: Any) -> Any:
    """What the user chose, below PyTorch's wrappers."""
    while hasattr(backend, "_torchdynamo_orig_backend"):
        backend = backend._torchdynamo_orig_backend
    return backend


@contextmanager
def decomposed(table: Callable[[Any], dict[Any, Callable[..., Any]]]) -> Iterator[None]:
    """A context in which backends trace with more decompositions: `table` of those they have.

    PyTorch holds a lock while it compiles, so that no other thread is concerned. Its cache of
    traced graphs does not look at decompositions, and is not used.
    """
    import torch._dynamo.backends.common
    import torch._functorch.config

    common: Any = torch._dynamo.backends.common
    theirs = common.aot_module_simplified

    def traced(*given: Any, **options: Any) -> Any:
        own = options.get("decompositions") or {}
        return theirs(*given, **{**options, "decompositions": table(dict(own))})

    common.aot_module_simplified = traced
    try:
        with torch._functorch.config.patch(enable_autograd_cache=False):
            yield
    finally:
        common.aot_module_simplified = theirs
