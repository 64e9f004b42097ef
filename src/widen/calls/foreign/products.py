"""Products of what is no array of floats: made one first, and the result what its library has."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from widen.calls.foreign import integers
from widen.calls.foreign.arrays import Promoted, as_array, exact, is_integral, is_of, promoted
from widen.formats.arrays import eager, is_tensor
from widen.gpu.replay.private import is_compiled, is_transformed
from widen.options import Options
from widen.stages.problem import Scalars

Product = Callable[[Any, Any, Scalars, Any, Options], Any]
"""The sum alpha a b + beta c of arrays of floats."""


def product(of_ours: Product, a: Any, b: Any, scalars: Scalars, out: Any, options: Options) -> Any:
    """The sum alpha a b + beta c of operands of any kind."""
    given = (a, b, scalars.c, out)
    if any(is_of("jax", "Array", x) for x in given):
        from widen.calls.foreign import jax

        return jax.product(a, b, scalars, out, options)
    if any(is_of("cupy", "ndarray", x) for x in given):
        from widen.calls.foreign import cupy

        return cupy.product(partial(product, of_ours), a, b, scalars, out, options)
    c = scalars.c
    if isinstance(c, (bool, int)):
        c = float(exact(np.asarray(c), "c"))
    if _is_compiled_with_integers(a, b, c):
        return _uncompiled(of_ours, a, b, scalars, out, options)
    if is_transformed(a, b, c):  # whose numbers cannot be looked at
        return of_ours(a, b, replace(scalars, c=c), out, options)
    a, b = as_array(a, "a"), as_array(b, "b")
    if not isinstance(c, (float, complex)):
        c = as_array(c, "c")
    kind = promoted(a, b) if is_integral(a) or is_integral(b) else Promoted()
    floats = [exact(x, name) for name, x in (("a", a), ("b", b), ("c", c))]
    scalars = replace(scalars, c=floats[2])
    asked = options.dtype is not None or options.plan is not None
    if kind.integers is not None and scalars.trivial and not asked and _takes_integers(out):
        return _of_integers(of_ours, floats[0], floats[1], kind.integers, out, options)
    if kind.dtype is not None and not asked:
        options = replace(options, dtype=kind.dtype)
    return of_ours(floats[0], floats[1], scalars, out, options)


_uncompiled = eager(product)


def _is_compiled_with_integers(*given: Any) -> bool:
    """Whether torch.compile traces a product of integers, which looks at their size."""
    return any(is_tensor(x) and is_integral(x) for x in given) and is_compiled()


def _takes_integers(out: Any) -> bool:
    return out is None or is_integral(out)


def _of_integers(
    of_ours: Product, a: Any, b: Any, dtype: Any, out: Any, options: Options
) -> Any:  # fmt: skip
    """The product of integers in their dtype: exact, whatever the contract."""
    if out is not None and out.dtype != dtype:
        raise ValueError(f"out holds {out.dtype}; the product of these integers is {dtype}")
    fmt = integers.format_for(a, b) if a.ndim and b.ndim else "float64"
    whole = replace(options, accuracy="correct", dtype=fmt)
    result = of_ours(a, b, Scalars(), None, whole)
    value, record = result if isinstance(result, tuple) else (result, None)
    with np.errstate(all="ignore"):
        value = integers.rounded(value, dtype)
    if out is not None:
        if tuple(out.shape) != tuple(value.shape):
            raise ValueError(f"out has shape {tuple(out.shape)}, the result {tuple(value.shape)}")
        if is_tensor(out):
            out.copy_(value)
        else:
            out[...] = value
        value = out
    return value if record is None else (value, record)
