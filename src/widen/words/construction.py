"""Planes for new numbers: from plain arrays and tensors, from words, from numbers of any kind."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from widen.formats.arrays import (
    Planes,
    Wide,
    cast,
    dtype_name,
    is_tensor,
    library_of,
    new_planes,
    place_of,
    words_of,
)
from widen.words import conversions, renormalise
from widen.words.promotion import with_parts

SINGLE = ("float32", "float16", "bfloat16", "int16", "int8", "uint16", "uint8", "bool", "complex64")
"""Plain dtypes whose numbers float32 holds."""
DOUBLE = (*SINGLE, "float64", "int32", "uint32", "complex128")
"""Plain dtypes whose numbers float64 holds."""


def canonical(fmt: Wide, planes: Sequence[Any]) -> Planes:
    """Planes of a format for the exact sums of any planes of floats."""
    terms = [cast(plane, "float64") for plane in planes]
    return _new(fmt, renormalise.renormalised(terms, words_of(fmt)))


def converted(fmt: Wide, planes: Sequence[Any]) -> Planes:
    """Planes of a format for canonical planes of another, the parts of both as many."""
    if dtype_name(planes[0]) == words_of(fmt)[0]:
        return _new(fmt, renormalise.shared([*planes], words_of(fmt)))
    return canonical(fmt, planes)


def _new(fmt: Wide, words: Sequence[Any]) -> Planes:
    """Words in planes of their own."""
    made = new_planes(fmt, tuple(words[0].shape), place_of(words[0]))
    for target, word in zip(made, words, strict=True):
        target[...] = word
    return made


def parts_of(values: Any, fmt: Wide) -> Any:
    """A plain array as a plane (parts, *shape)."""
    name = dtype_name(values)
    if getattr(values, "requires_grad", False):
        raise TypeError("this tensor requires a gradient, which words do not give: use x.detach()")
    if isinstance(values, np.ma.MaskedArray):
        raise TypeError("this array is masked, and its mask would be dropped: give x.filled(0)")
    library = library_of(values)
    if name.startswith("complex"):
        if fmt.parts == 1:
            raise TypeError(
                f"{name} was given for {fmt.name}; use dtype=widen.{with_parts(fmt, 2).name}"
            )
        return library.stack([values.real, values.imag])
    if fmt.parts == 1:
        return values[None]
    return library.stack([values, library.zeros_like(values)])


def float_terms(values: Any) -> list[Any]:
    """A plain array as arrays of floats whose sum it is: itself, or two halves of integers."""
    name = dtype_name(values)
    if name in DOUBLE:
        return [values]
    if name == "int64":
        low = values & 0xFFFFFFFF
        return [cast(half, "float64") for half in (values - low, low)]
    raise TypeError(f"words are floats and {name} was given; use widen.Words(values, dtype)")


def _first_words(first: Any, fmt: Wide) -> Planes:
    """Numbers that their first word holds."""
    planes = new_planes(fmt, tuple(first.shape), place_of(first))
    planes[0][...] = cast(first, words_of(fmt)[0])
    for plane in planes[1:]:
        plane[...] = 0
    return planes


def _is_simple(values: Any, fmt: Wide) -> bool:
    """Whether a number of Python is held by a first word, which most are."""
    if type(values) is int and abs(values) < 1 << 24:
        return True
    if type(values) is not float or words_of(fmt)[0] == "float64":
        return type(values) is float
    with np.errstate(all="ignore"):
        return float(np.float32(values)) == values


def planes_of(values: Any, fmt: Wide) -> Planes:
    """Planes for an array, a tensor, or anything that holds exact numbers."""
    if _is_simple(values, fmt):
        return _first_words(parts_of(np.asarray(float(values)), fmt), fmt)
    if isinstance(values, np.generic) and not isinstance(values, np.str_):
        values = np.asarray(values)
    if isinstance(values, np.ndarray) or is_tensor(values):
        name = dtype_name(values)
        if name in (SINGLE if words_of(fmt)[0] == "float32" else DOUBLE):
            return _first_words(parts_of(values, fmt), fmt)
        if name in DOUBLE or name == "int64":
            return canonical(fmt, [parts_of(term, fmt) for term in float_terms(values)])
        if is_tensor(values):
            raise TypeError(f"a tensor of {name} is not made of numbers that words hold")
    return conversions.planes_of_values(values, fmt)
