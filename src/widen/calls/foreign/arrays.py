"""Numbers, lists, integers and arrays of other libraries, as arrays and tensors of floats.

Nothing is rounded on the way: an integer that no float64 holds is an error.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from widen.calls.check import is_ours
from widen.encoded import Encoded
from widen.formats.arrays import is_tensor, library_of
from widen.words import Words

HALF = 1 << 32


def is_integral(x: Any) -> bool:
    """Whether an array or a tensor holds integers or booleans."""
    if is_tensor(x):
        return not (x.dtype.is_floating_point or x.dtype.is_complex)
    return isinstance(x, np.ndarray) and x.dtype.kind in "biu"


def is_of(library: str, kind: str, x: Any) -> bool:
    """Whether x is an array of a library, which is not imported for this."""
    return isinstance(x, getattr(sys.modules.get(library), kind, ()))


def module_of(x: Any) -> str:
    """The library that x comes from."""
    return type(x).__module__.partition(".")[0]


def as_array(x: Any, name: str) -> Any:
    """A number, a list or another library's array as an array or a tensor, its numbers untouched.

    What is one already, and what cannot be one, is given back: it will be refused by name.
    """
    if is_tensor(x) or isinstance(x, (np.ndarray, Words, Encoded, type(None), str, bytes)):
        return x
    if isinstance(x, (bool, int, float, complex, np.generic)):
        return np.asarray(x)
    if isinstance(x, (list, tuple)):
        return _of_list(x, name)
    if hasattr(x, "__dlpack__"):
        return _by_dlpack(x, name)
    if hasattr(x, "__array__") and module_of(x) not in ("mpmath", "flint"):
        return np.asarray(x)
    return x


def _of_list(x: Any, name: str) -> Any:
    try:
        return np.asarray(x)
    except ValueError as error:
        raise ValueError(
            f"{name} is a {type(x).__name__} that is no array ({error}); give rows of one length"
        ) from None


CPU, CUDA, PINNED = 1, 2, 3
"""Kinds of devices, as DLPack numbers them."""


def _by_dlpack(x: Any, name: str) -> Any:
    """An array of another library by DLPack, without a copy: NumPy's, or a tensor on a GPU."""
    kind = f"{type(x).__module__}.{type(x).__qualname__}"
    try:
        device, _ = x.__dlpack_device__()
        if device in (CPU, PINNED):
            return np.from_dlpack(x)
        if device == CUDA:
            import torch.utils.dlpack

            return torch.utils.dlpack.from_dlpack(x)
    except Exception as error:  # whatever the other library raises
        raise TypeError(
            f"{name} is a {kind}, which does not become an array by DLPack "
            f"({type(error).__name__}: {error}); give a NumPy array or a PyTorch tensor"
        ) from error
    raise TypeError(f"{name} is a {kind} on device {device} of DLPack; give it on a CPU or CUDA")


def gpu_is_served() -> bool:
    """Whether another library's arrays on a GPU become tensors that are multiplied there."""
    try:
        import torch
    except ImportError:
        return False
    return torch.cuda.is_available()


def by_tensors(function: Callable[..., Any], *given: Any) -> Any:
    """A function of tensors, given another library's arrays on a GPU or None.

    It waits for the GPU: memory of operands is that library's, to be used again on its own stream.
    """
    result = function(*(as_array(x, "an operand") for x in given))
    if is_tensor(result):
        import torch

        torch.cuda.current_stream(result.device).synchronize()
    return result


def exact(x: Any, name: str) -> Any:
    """An array or a tensor of integers or booleans in float64; anything else as it is.

    An integer x = h 2^32 + l becomes y = RN(x). It is exact if y - h 2^32 = l: both sides are
    integers below 2^34 in magnitude, so the difference is computed without error.
    """
    if not is_integral(x):
        return x
    if str(x.dtype) == "torch.uint64":
        raise TypeError(f"{name} holds uint64, which PyTorch does not compute with; give int64")
    wide = x.double() if is_tensor(x) else x.astype(np.float64)
    if x.dtype.itemsize < 8:
        return wide
    high, low = x >> 32, x & (HALF - 1)
    if is_tensor(x):
        high, low = high.double(), low.double()
    held = wide - high * float(HALF) == low
    if bool(held.all()):
        return wide
    first = int(x[~held].reshape(-1)[0])
    raise ValueError(
        f"{name} holds {first}, which no float64 does: give "
        f"widen.Words({name}, dtype=widen.float64x2), which keeps all bits"
    )


def taken(x: Any, name: str) -> Any:
    """Whatever becomes an array of floats, as one."""
    return x if is_ours(x) else exact(as_array(x, name), name)


@dataclass(frozen=True)
class Promoted:
    """What a product of these arrays has by default, as their own library has it.

    Attributes
    ----------
    dtype
        A format, or None for the usual one.
    integers
        The dtype of results that are integers or booleans, or None.
    """

    dtype: str | None = None
    integers: Any = None


def promoted(a: Any, b: Any) -> Promoted:
    """The default of a product of which an operand holds integers."""
    if any(isinstance(x, (Words, Encoded)) for x in (a, b)):
        return Promoted()
    if is_tensor(a) and is_tensor(b):
        try:
            both = library_of(a).promote_types(a.dtype, b.dtype)
        except RuntimeError:  # of wide unsigned integers and others
            return Promoted("float64")
        if not (both.is_floating_point or both.is_complex):
            return Promoted(integers=both)
        return Promoted(str(both).removeprefix("torch."))
    if not (isinstance(a, np.ndarray) and isinstance(b, np.ndarray)):
        return Promoted()  # they will be refused
    try:
        common = np.result_type(a.dtype, b.dtype)
    except TypeError:  # ml_dtypes and integers that it does not hold
        return Promoted("float64")
    return Promoted(integers=common) if common.kind in "biu" else Promoted(common.name)
