"""Fused CPU kernels: parallel, cached on disk, no fast-math.

Kernels are compiled, or read from the cache on disk, when their module is first asked for
(``kernels.lines``): importing this package imports no compiler.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from widen.stages.compiling.once import LOADING

if TYPE_CHECKING:
    from widen.cpu.kernels import certify as certify
    from widen.cpu.kernels import encode as encode
    from widen.cpu.kernels import error_bounds as error_bounds
    from widen.cpu.kernels import lines as lines
    from widen.cpu.kernels import magnitudes as magnitudes
    from widen.cpu.kernels import panels as panels
    from widen.cpu.kernels import reconstruct as reconstruct
    from widen.cpu.kernels import repair as repair
    from widen.cpu.kernels import scaling as scaling
    from widen.cpu.kernels import thin as thin
    from widen.cpu.kernels import totals as totals
    from widen.cpu.kernels import wide as wide
    from widen.cpu.kernels import wire as wire
    from widen.cpu.kernels import words as words


def __getattr__(name: str) -> Any:
    """A module of kernels, by one thread at a time; it is an attribute of the package from then on.

    A fork waits for it (`cpu.threads`).
    """
    if name.startswith("_"):
        raise AttributeError(name)
    with LOADING:
        try:
            return import_module(f"{__name__}.{name}")
        except ModuleNotFoundError as error:
            if error.name != f"{__name__}.{name}":
                raise
            raise AttributeError(f"there are no kernels called {name}") from None
