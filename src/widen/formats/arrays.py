"""Arrays and tensors alike: where planes of words live, and functions that differ between them.

Nobody steps along an axis of one entry, so its stride says nothing: NumPy gives `x[None]` a stride
of 0, slices keep that of what they were cut from, and a caller may have set any number. What is
decided from strides is decided here, without those of such axes.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Sequence
from functools import lru_cache, wraps
from typing import Any, ParamSpec, TypeVar

import numpy as np

from widen.formats import PLAIN, Complex, Format, Multiple

P = ParamSpec("P")
R = TypeVar("R")

Wide = Multiple | Complex
"""A format of several words, real or complex."""

Planes = tuple[Any, ...]
"""One array or tensor (parts, *shape) for each word."""


def is_tensor(x: Any) -> bool:
    """Whether x is a PyTorch tensor, without importing PyTorch, which may be half imported."""
    return isinstance(x, getattr(sys.modules.get("torch"), "Tensor", ()))


def is_distributed(x: Any) -> bool:
    """Whether x is a DTensor of PyTorch, or an array of several words whose planes are."""
    module = sys.modules.get("torch.distributed.tensor")
    if module is None:
        return False
    planes = getattr(x, "planes", None)
    return isinstance(planes[0] if isinstance(planes, tuple) else x, module.DTensor)


def library_of(x: Any) -> Any:
    """The module whose functions take x: numpy or torch."""
    return sys.modules["torch"] if is_tensor(x) else np


def dtype_name(x: Any) -> str:
    """The name of an array's (or a tensor's) dtype, the same for both libraries."""
    return str(x.dtype if is_tensor(x) else x.dtype.newbyteorder("=")).removeprefix("torch.")


def numpy_dtype(name: str) -> np.dtype[Any]:
    """NumPy's dtype of this name; bfloat16 is one of ml_dtypes."""
    if name != "bfloat16":
        return np.dtype(name)
    import ml_dtypes

    bfloat16: np.dtype[Any] = np.dtype(ml_dtypes.bfloat16)
    return bfloat16


def cast(x: Any, name: str) -> Any:
    """The array x in this dtype, itself if it is so already."""
    if is_tensor(x):
        return x.to(getattr(sys.modules["torch"], name))
    return x.astype(numpy_dtype(name), copy=False)


def place_of(x: Any) -> Any:
    """None for NumPy arrays, else the tensor's device."""
    return x.device if is_tensor(x) else None


def empty(shape: tuple[int, ...], name: str, place: Any) -> Any:
    """New memory: an array, or a tensor on a device."""
    if place is None:
        return np.empty(shape, numpy_dtype(name))
    torch = sys.modules["torch"]
    return torch.empty(shape, dtype=getattr(torch, name), device=place)


def part_of(fmt: Wide) -> Multiple:
    """The format of a real part."""
    part = fmt.part
    assert isinstance(part, Multiple), f"{fmt.name} has one word"
    return part


def words_of(fmt: Wide) -> tuple[str, ...]:
    """The dtype of each word's plane."""
    return tuple(word.name for word in fmt.part.words)


def is_uniform(fmt: Wide) -> bool:
    """Whether all words are of one dtype, so that planes lie in one block."""
    return len(set(words_of(fmt))) == 1


def new_planes(fmt: Wide, whole: tuple[int, ...], place: Any) -> Planes:
    """Planes (parts, *shape) for new numbers, views of one block if the words are of one dtype."""
    names = words_of(fmt)
    if is_uniform(fmt):
        return tuple(empty((len(names), *whole), names[0], place))
    return tuple(empty(whole, name, place) for name in names)


def block_of(planes: Planes) -> Any:
    """Planes of one dtype as one contiguous array (count, elements), copied only if they must be.

    Planes that are neighbours in one block, in order and without gaps, are looked at in place.
    """
    first = planes[0]
    size = math.prod(first.shape)
    if is_tensor(first):
        return _tensor_block(planes, size)
    if len(planes) == 1:
        return np.ascontiguousarray(first).reshape(1, size)
    step = size * first.itemsize
    start = first.__array_interface__["data"][0]
    base = first.base
    if (
        base is not None
        and isinstance(base, np.ndarray)
        and base.flags.c_contiguous
        and base.dtype == first.dtype
        and base.__array_interface__["data"][0] == start
        and base.size == size * len(planes)
        and all(
            plane.flags.c_contiguous and plane.__array_interface__["data"][0] == start + at * step
            for at, plane in enumerate(planes)
        )
    ):
        return base.reshape(len(planes), size)
    block = np.empty((len(planes), *first.shape), first.dtype)
    for row, plane in zip(block, planes, strict=True):
        row[...] = plane
    return block.reshape(len(planes), size)


def _tensor_block(planes: Planes, size: int) -> Any:
    torch = sys.modules["torch"]
    first = planes[0]
    storage, start = first.untyped_storage().data_ptr(), first.storage_offset()
    if all(
        plane.is_contiguous()
        and plane.untyped_storage().data_ptr() == storage
        and plane.storage_offset() == start + at * size
        for at, plane in enumerate(planes)
    ):
        return first.as_strided((len(planes), size), (max(size, 1), 1), start)
    return torch.stack([plane.reshape(-1) for plane in planes])


def format_of_array(x: Any) -> Format:
    """The format of an array's, a tensor's or a `Words`' numbers, which is one of ours."""
    return format_of_dtype(x.dtype)


@lru_cache(maxsize=64)
def format_of_dtype(dtype: Any) -> Format:
    """The format that a dtype, or `Words`' own, is; a KeyError if it is none."""
    if isinstance(dtype, (Multiple, Complex)):
        return dtype
    return PLAIN[getattr(dtype, "name", str(dtype).removeprefix("torch."))]


def as_tensor(x: Any) -> Any:
    """A NumPy array (or scalar) as a tensor on the CPU, a view; PyTorch is there already."""
    torch, array = sys.modules["torch"], np.asarray(x)
    if dtype_name(array) == "bfloat16":  # PyTorch does not know NumPy's
        return torch.from_numpy(array.view(np.int16)).view(torch.bfloat16)
    return torch.from_numpy(array)


def meaningful(shape: Sequence[int], strides: Sequence[int]) -> tuple[int, ...]:
    """Strides, 0 for axes of one entry; all of them in an array that has none.

    Views of the same entries have the same ones, in bytes or in entries.

    >>> meaningful((1, 5, 3), (7, 3, 1))
    (0, 3, 1)
    """
    if 0 in shape:
        return (0,) * len(shape)
    if 1 not in shape:
        return tuple(strides)
    return tuple(0 if size == 1 else stride for size, stride in zip(shape, strides, strict=True))


def lines_near(shape: Sequence[int], strides: Sequence[int]) -> bool:
    """Whether neighbouring lines lie closer in memory than neighbours within a line.

    Arrays are (..., lines, inner). A single line has no neighbour; where every line has a single
    entry, there are neighbouring lines only.

    >>> lines_near((1, 5), (0, 1)), lines_near((5, 1), (1, 1)), lines_near((5, 3), (1, 5))
    (False, True, True)
    """
    lines, inner = shape[-2:]
    if lines <= 1 or inner <= 1:
        return lines > 1
    return abs(strides[-2]) < abs(strides[-1])


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
