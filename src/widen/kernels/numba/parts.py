"""Parts of elements added up into numbers of several doubles."""

from __future__ import annotations

from numba import njit, types

from widen.kernels.numba.limbs import FLOAT, kernel

PARTS = types.Array(FLOAT, 2, "A", readonly=True)


@njit
def _two_sum(a, b):
    """RN(a + b) and its error."""
    total = a + b
    shown = total - a
    return total, (a - (total - shown)) + (b - shown)


@kernel(PARTS, FLOAT[:, ::1])
def add_parts(begin, end, parts, words):
    """words[:, e] += parts[0, e], then parts[1, e] and so on; a job is an element.

    A double is added from the first word on, its error to the next; what falls out at the end is
    lost. Then one sweep from the last word up leaves words that do not overlap. For two words this
    is the QD library's sum of a double double and a double.
    """
    count, last = parts.shape[0], words.shape[0] - 1
    for e in range(begin, end):
        for p in range(count):
            rest = parts[p, e]
            for l in range(last + 1):
                words[l, e], rest = _two_sum(words[l, e], rest)
            total = words[last, e]
            for l in range(last - 1, -1, -1):
                above = words[l, e]
                high = above + total
                words[l + 1, e] = total - (high - above)
                total = high
            words[0, e] = total
