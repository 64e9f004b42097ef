"""Functions of arrays and tensors as functions of everything that becomes one, by one decorator."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import wraps
from typing import Any, ParamSpec, TypeVar

from widen.calls.check import is_ours, visible
from widen.calls.foreign.arrays import as_array, exact, is_integral, is_of, promoted
from widen.formats import PLAIN, computed_in
from widen.formats.arrays import eager

P = ParamSpec("P")
R = TypeVar("R")


def taking(*names: str, as_given: str | None = None) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Make a function of arrays take what `matmul` takes: lists, integers, DLPack, JAX, CuPy.

    `names` are the arguments that become arrays of floats, `as_given` one whose integers stay
    integers. Results are of the library that the arguments are of; records hold what was computed
    with, NumPy's arrays for JAX and tensors for CuPy. torch.compile calls all of it as it is.
    """

    def decorated(function: Callable[P, R]) -> Callable[P, R]:
        signature = inspect.signature(function)

        @wraps(function)
        def called(*given: P.args, **options: P.kwargs) -> R:
            bound = signature.bind(*given, **options).arguments
            operands = {name: bound[name] for name in (*names, as_given) if name in bound}
            visible(**operands)
            if all(is_ours(operands[name]) for name in names if name in operands):
                return function(*given, **options)
            return _of_others(function, bound, operands, names)  # type: ignore[no-any-return]

        return eager(called)

    return decorated


def _of_others(function: Any, bound: dict[str, Any], operands: dict[str, Any], names: Any) -> Any:
    """The same for operands not all of which are arrays or tensors of floats."""
    given = operands.values()
    if any(is_of("jax", "Array", x) for x in given):
        from widen.calls.foreign import jax

        def with_moved(moved: dict[str, Any]) -> Any:
            return _called(function, {**bound, **moved}, names)

        return jax.computed(with_moved, operands, bound.get("dtype"))
    if any(is_of("cupy", "ndarray", x) for x in given):
        from widen.calls.foreign import cupy

        return cupy.computed(lambda moved: _called(function, {**bound, **moved}, names), operands)
    return _called(function, bound, names)


def _called(function: Any, bound: dict[str, Any], names: tuple[str, ...]) -> Any:
    """A function of operands none of which is JAX's or CuPy's."""
    given = [name for name in names if name in bound]
    arrays = {name: as_array(bound[name], name) for name in given}
    floats = {name: exact(x, name) for name, x in arrays.items()}
    if bound.get("dtype") is None and len(given) == 2:
        kind = promoted(*arrays.values()).dtype if any(map(is_integral, arrays.values())) else None
        if kind in PLAIN:
            floats["dtype"] = computed_in(PLAIN[kind]).name
    known = inspect.signature(function).parameters  # not all functions have a dtype
    return function(**{name: x for name, x in {**bound, **floats}.items() if name in known})
