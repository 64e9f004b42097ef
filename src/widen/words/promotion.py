"""Which format a caller means, and which one two operands share."""

from __future__ import annotations

from typing import Any

import numpy as np

from widen.formats import COMPLEX, WORDS, complex_of
from widen.formats.arrays import Wide, is_uniform, part_of, words_of

WIDE: dict[str, Wide] = {
    **WORDS,
    **{name: fmt for name, fmt in COMPLEX.items() if len(fmt.part.words) > 1},
}
"""Formats of several words, by name."""


def wide_format(dtype: Any) -> Wide:
    """The format of several words that a caller names.

    >>> wide_format("float64x2").precision
    107
    """
    name = getattr(dtype, "name", dtype)
    if isinstance(name, str) and name in WIDE:
        return WIDE[name]
    if isinstance(dtype, type):
        name = getattr(dtype, "__name__", name)
    raise TypeError(
        f"dtype={name} is not a format of several words; give one of {', '.join(WIDE)} "
        f"(widen.float64x2 or 'float64x2'); Words.to_numpy() gives plain floats"
    )


def with_parts(fmt: Wide, parts: int) -> Wide:
    """The real or the complex format of the same words."""
    return complex_of(fmt.part) if parts == 2 else part_of(fmt)


def common_format(x: Wide, y: Wide) -> Wide:
    """The format that holds the numbers of both; an error if neither does.

    >>> common_format(WIDE["float64x2"], WIDE["complex128x4"]).name
    'complex128x4'
    """
    parts = max(x.parts, y.parts)
    ours, theirs = words_of(x), words_of(y)
    if ours[0] == theirs[0]:
        # A float64 and a float32 are two float64s.
        wider = x if (len(ours), is_uniform(x)) >= (len(theirs), is_uniform(y)) else y
        return with_parts(wider, parts)
    fix = max((x, y), key=lambda fmt: fmt.precision)
    raise TypeError(
        f"{x.name} and {y.name} have words of different kinds, and neither format holds all "
        f"numbers of the other; convert one of them: .astype(widen.{fix.name})"
    )


def check_plain(fmt: Wide, name: str) -> None:
    """Whether numbers of a plain dtype can be mixed with words without losing bits."""
    dtype = np.dtype(name if name != "bfloat16" else "float16")
    if dtype.kind not in "fciub":
        raise TypeError(f"{name} does not mix with {fmt.name}; give floats")
    if words_of(fmt)[0] == "float32" and dtype.itemsize > (8 if dtype.kind == "c" else 4):
        raise TypeError(
            f"{name} has bits that {fmt.name} may not hold; convert one of them: "
            f".astype(np.float32), or widen.Words(..., dtype=widen.{fmt.name}) to round once"
        )
