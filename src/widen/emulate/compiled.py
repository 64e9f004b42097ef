"""`torch.compile` inside a scope: functions stay compiled, with widen's products in their graphs.

Products become `torch.ops.widen.gemm` when PyTorch traces a function, forward and backward, before
its compiler could write them as loops. Such code belongs to a backend of its own, so that the same
function outside the scope is compiled, and kept, separately.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch

from widen.emulate.products import READERS
from widen.gpu.replay import compilers, private

if TYPE_CHECKING:
    from widen.emulate.scope import Choices, Scope

_redirected: list[bool] = []
"""Whether PyTorch's compiler asks for our backend; empty as long as nobody tried."""

_THEIRS = torch.compile


def prepare(hide: Callable[[Any], None]) -> None:
    """Have the compiler ask for our backend; as soon as it is there, if it is not.

    `hide` is then called with the function that hides other functions from the compiler.
    """
    if _redirected:
        return
    if compilers.is_imported():
        torch.compile = _THEIRS
        _redirected.append(compilers.redirect(_backend))
        hide(compilers.hidden)
        return

    @functools.wraps(_THEIRS)
    def first_compile(*given: Any, **options: Any) -> Any:
        compilers.load()
        prepare(hide)
        return _THEIRS(*given, **options)

    torch.compile = first_compile


def release() -> None:
    """Leave PyTorch as it was, after the last scope."""
    torch.compile = _THEIRS


def is_served() -> bool:
    """Whether functions may be compiled inside a scope; otherwise they run uncompiled.

    PyTorch asks this when a scope is entered and before it compiles.
    """
    return _redirected[0] if _redirected else not compilers.is_imported()


FORWARDED = ("compiler_name", "get_compiler_config", "reset")
"""What PyTorch asks of backends beside calling them."""

_backends: dict[tuple[int, Choices], Backend] = {}


def _backend(theirs: Any) -> Backend | None:
    """Our backend around the one that the user chose, if a scope is open in this thread."""
    scope = private.innermost_scope()
    if scope is None or isinstance(theirs, Backend):
        return None
    key = (id(theirs), scope.choices)
    if key not in _backends:
        _backends[key] = Backend(theirs, scope.choices)
    _backends[key].scope = scope
    return _backends[key]


class Backend:
    """The user's backend, for graphs in which products are widen's.

    It has no method that PyTorch would call to compare backends or to look below them: it does so
    before every frame, also before those of such a method.

    Attributes
    ----------
    theirs
        The user's backend.
    choices
        Those of the scope.
    scope
        The scope in which a function was called last.
    """

    scope: Scope

    def __init__(self, theirs: Any, choices: Choices) -> None:
        self.theirs, self.choices = theirs, choices
        for name in FORWARDED:
            if hasattr(theirs, name):
                setattr(self, name, getattr(theirs, name))

    def __call__(self, graph: Any, inputs: Any, **options: Any) -> Any:
        """Compile a graph."""
        with compilers.decomposed(self._table):
            return self.theirs(graph, inputs, **options)

    def _table(self, theirs: dict[Any, Callable[..., Any]]) -> dict[Any, Callable[..., Any]]:
        """Decompositions: those of the backend, but products are ours."""
        for name in READERS:
            packet = getattr(torch.ops.aten, name)
            for overload in packet.overloads():
                func = getattr(packet, overload)
                theirs[func] = self._decomposition(func, theirs.get(func))
        return theirs

    def _decomposition(self, func: Any, otherwise: Callable[..., Any] | None) -> Callable[..., Any]:
        def decomposition(*args: Any, **kwargs: Any) -> Any:
            result = self.scope.traced(func, args, kwargs)
            if result is NotImplemented and otherwise is not None:
                return otherwise(*args, **kwargs)
            return result

        return decomposition
