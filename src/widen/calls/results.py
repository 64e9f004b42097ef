"""Whether a result fits where the caller wants it: `out`, an array, a tensor or `Words`."""

from __future__ import annotations

from typing import Any

import numpy as np

from widen.formats import PLAIN, Format
from widen.formats.arrays import dtype_name, is_tensor, numpy_dtype
from widen.stages.problem import Call
from widen.words import Words


def check_out(out: Any, call: Call, place: str) -> None:
    """Whether a result fits the caller's array, tensor or `Words`."""
    dims, fmt = call.dims, call.fmt
    if fmt.name not in PLAIN:
        check_words(out, dims, fmt)
        where = str(out.device) if is_tensor(out.planes[0]) else "numpy"
        if where != place:
            raise ValueError(f"out is on {where}; the result needs to be on {place}")
        if place == "numpy" and not all(plane.flags.writeable for plane in out.planes):
            raise ValueError("out is read-only; give one that can be written")
        return
    if place != "numpy":
        _check_tensor(out, call, place)
        return
    if not isinstance(out, np.ndarray) or isinstance(out, np.ma.MaskedArray):
        raise TypeError(f"out is a {type(out).__name__}; give a NumPy array that is not masked")
    library = "ml_dtypes" if fmt.name == "bfloat16" else "np"
    if out.shape != dims or out.dtype != numpy_dtype(fmt.name):
        raise ValueError(
            f"out has shape {out.shape} and dtype {out.dtype}; the result needs shape {dims} and "
            f"dtype {fmt.name}: np.empty({dims}, {library}.{fmt.name}), or such a tensor"
        )
    if not out.flags.writeable:
        raise ValueError("out is read-only; give an array that can be written")
    check_apart(out.shape, out.strides)


def _check_tensor(out: Any, call: Call, place: str) -> None:
    """The same for a tensor on a GPU."""
    if not is_tensor(out):
        raise TypeError(f"out is a {type(out).__name__}; give a tensor on {place}")
    shape, name = tuple(out.shape), call.fmt.name
    if shape != call.dims or dtype_name(out) != name or str(out.device) != place:
        raise ValueError(
            f"out has shape {shape}, {out.dtype}, on {out.device}; the result needs "
            f"torch.empty({call.dims}, dtype=torch.{name}, device='{place}')"
        )
    check_apart(out.shape, out.stride())


def check_apart(shape: tuple[int, ...], strides: tuple[int, ...]) -> None:
    """Whether a result's elements have memory of their own."""
    repeated = (size > 1 and stride == 0 for size, stride in zip(shape, strides, strict=True))
    if 0 not in shape and any(repeated):
        raise ValueError("out repeats its elements, which share memory; give one of full size")


def check_words(out: Any, dims: tuple[int, ...], fmt: Format) -> None:
    """Whether a result of several words fits the caller's `Words`."""
    need = f"the result needs shape {dims} and {fmt.name}"
    if not isinstance(out, Words):
        raise TypeError(f"out is a {type(out).__name__}; {need}: give widen.Words")
    if out.shape != dims or out.format != fmt:
        raise ValueError(f"out has shape {out.shape} and {out.format.name}; {need}")
    for plane in out.planes:
        check_apart(plane.shape, plane.stride() if is_tensor(plane) else plane.strides)
