"""Arrays, tensors, `Words` and arrays of other libraries alike: axes, shapes, and `out`."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any

import numpy as np

from widen.calls import check
from widen.calls.foreign.arrays import as_array, is_integral
from widen.formats import FORMATS, Format, default_result
from widen.formats.arrays import format_of_array, is_tensor
from widen.words import Words


def operand(x: Any, name: str) -> Any:
    """An argument as an array; those of JAX and CuPy stay what they are."""
    if namespace(x) is not np:
        return x
    array = as_array(x, name)
    if isinstance(array, np.ndarray):
        array = check.without_subclass(array, name)
    if isinstance(array, (np.ndarray, Words)) or is_tensor(array):
        if not isinstance(array, Words) and not is_integral(array):
            check.format_of(array.dtype, name)  # an error that says which numbers are multiplied
        return array
    kind = f"{type(x).__module__}.{type(x).__qualname__}".removeprefix("builtins.")
    raise TypeError(f"{name} is a {kind}; give an array, a tensor, widen.Words or a list")


def namespace(x: Any) -> Any:
    """The module whose functions take x."""
    first = x.planes[0] if isinstance(x, Words) else x
    if is_tensor(first):
        return sys.modules["torch"]
    if isinstance(x, getattr(sys.modules.get("jax"), "Array", ())):
        return sys.modules["jax"].numpy
    if isinstance(x, getattr(sys.modules.get("cupy"), "ndarray", ())):
        return sys.modules["cupy"]
    return np


def each(x: Any, change: Callable[[Any, int], Any]) -> Any:
    """The same array with its planes changed.

    `change` is given an array, and how many of its axes come before the numbers' own.
    """
    if isinstance(x, Words):
        return Words.of(x.format, [change(plane, 1) for plane in x.planes])
    return change(x, 0)


def permuted(x: Any, axes: Sequence[int]) -> Any:
    """The same array with its axes in this order."""
    if is_tensor(x):
        return x.permute(*axes) if axes else x
    return x.transpose(*axes) if axes else x


def reshaped(x: Any, shape: Sequence[int]) -> Any:
    """The same numbers in another shape."""
    return x.reshape(tuple(shape))


def broadcast(x: Any, shape: Sequence[int]) -> Any:
    """The same numbers, repeated to this shape."""
    return each(x, lambda y, before: namespace(y).broadcast_to(y, (*y.shape[:before], *shape)))


def diagonal(x: Any, first: int, second: int) -> Any:
    """Entries whose places along two axes are equal; their axis is the last."""

    def take(y: Any, before: int) -> Any:
        one, two = first + before, second + before
        if is_tensor(y):
            return y.diagonal(dim1=one, dim2=two)
        return namespace(y).diagonal(y, axis1=one, axis2=two)

    return each(x, take)


def conjugate(x: Any) -> Any:
    """Complex conjugates; real numbers as they are."""
    return x.conj() if is_complex(x) else x


def is_complex(x: Any) -> bool:
    """Whether numbers have imaginary parts."""
    if isinstance(x, Words):
        return x.format.parts == 2
    return bool(x.is_complex()) if is_tensor(x) else np.dtype(x.dtype).kind == "c"


def common_format(operands: Sequence[Any]) -> str | None:
    """The format that a product of all of these has; None if all hold integers."""
    formats: list[Format] = [
        FORMATS["float64"] if is_integral(x) and not is_tensor(x) else format_of_array(x)
        for x in operands
        if not (is_integral(x) and is_tensor(x))
    ]
    if not formats or all(is_integral(x) for x in operands):
        return None
    return reduce(default_result, formats).name


def as_lines(x: Any, axes: tuple[int, ...]) -> Any:
    """What is added along axes as the last axis of (*kept, inner)."""
    kept = [axis for axis in range(x.ndim) if axis not in axes]
    inner = 1
    for axis in axes:
        inner *= x.shape[axis]
    return reshaped(permuted(x, (*kept, *axes)), (*(x.shape[axis] for axis in kept), inner))


def delivered(result: Any, out: Any) -> Any:
    """The result, in `out` if there is one, whose shape and format it must have."""
    if out is None:
        return result
    shape = tuple(getattr(result, "shape", ()))
    same = type(out) is type(result) or (np.ndim(result) == 0 and isinstance(out, np.ndarray))
    if not same or tuple(out.shape) != shape or out.dtype != result.dtype:
        raise ValueError(
            f"out is a {type(out).__name__} of shape {tuple(getattr(out, 'shape', ()))} and "
            f"{getattr(out, 'dtype', None)}; the result has shape {shape} and {result.dtype}"
        )
    if is_tensor(out):
        if result.requires_grad:
            raise TypeError("a result that is differentiated takes no out=; use torch.no_grad()")
        return out.copy_(result)
    out[...] = result
    return out
