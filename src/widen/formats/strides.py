"""Strides, and what they say of the order of numbers in memory.

Nobody steps along an axis of one entry, so its stride says nothing: NumPy gives `x[None]` a stride
of 0, slices keep that of what they were cut from, and a caller may have set any number. What is
decided from strides is decided here, without those of such axes.
"""

from __future__ import annotations

from collections.abc import Sequence


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
