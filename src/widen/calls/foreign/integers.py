"""Products of integers and booleans: exact, in their own dtype, or an error."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from widen.formats.arrays import is_tensor, library_of
from widen.words import Words

FLOAT64 = 2**53
"""Integers up to this are all float64."""


def largest(x: Any) -> int:
    """The largest magnitude of an array of integers, as floats."""
    return int(abs(x).max()) if math.prod(x.shape) else 0


def format_for(a: Any, b: Any) -> str:
    """A format that holds every element of a product exactly, unless an int64 does not."""
    most = largest(a) * largest(b) * a.shape[-1]
    return "float64" if most <= FLOAT64 else "float64x2"


def rounded(x: Any, dtype: Any) -> Any:
    """Exact integers, floats or `Words` of two float64, in an integer (or boolean) dtype.

    The words hold 107 bits, so that of any number within a 64-bit integer's range none is lost.
    """
    words = [word[0] for word in x.planes] if isinstance(x, Words) else [x]
    high, low = words[0], words[1] if len(words) > 1 else 0 * words[0]
    library = library_of(high)
    if dtype in (np.bool_, getattr(library, "bool", None)):
        return high != 0
    least, most = _range(dtype, library)
    fits = _at_most(high, low, most) & _at_most(-high, -low, -least)
    if not bool(fits.all()):
        raise OverflowError(
            f"the product has integers that {str(dtype).removeprefix('torch.')} does not hold; "
            "give dtype='float64', or operands of a wider type"
        )
    # In halves: 2^63 is no int64, but the sum with its second word may be.
    top = library.floor(high / 2**32)
    rest = high - top * 2**32 + low
    if is_tensor(high):
        return ((top.long() << 32) + rest.long()).to(dtype)
    if dtype == np.uint64:
        low = rest.astype(np.int64).view(np.uint64)
        return ((top.astype(np.uint64) << np.uint64(32)) + low).astype(dtype)  # or np.ulonglong
    return ((top.astype(np.int64) << 32) + rest.astype(np.int64)).astype(dtype)


def _range(dtype: Any, library: Any) -> tuple[int, int]:
    """Least and largest integer of a dtype."""
    known = library.iinfo(dtype)
    return int(known.min), int(known.max)


def _at_most(high: Any, low: Any, most: int) -> Any:
    """Whether the exact sum high + low of two words is at most an integer of 64 bits."""
    near = float(most)  # itself, or the power of two above it
    if int(near) == most:
        return (high < near) | ((high == near) & (low <= 0))
    return (high < near) | ((high == near) & (low < 0))
