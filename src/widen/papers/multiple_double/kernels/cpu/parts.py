"""Parts of elements added up into numbers of several doubles."""

from __future__ import annotations

from numba import types

from widen.cpu.kernels.cache import FLOAT, kernel
from widen.cpu.kernels.floats import fast_two_sum, two_sum

PARTS = types.Array(FLOAT, 2, "A", readonly=True)


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
                words[l, e], rest = two_sum(words[l, e], rest)
            total = words[last, e]
            for l in range(last - 1, -1, -1):
                total, words[l + 1, e] = fast_two_sum(words[l, e], total)
            words[0, e] = total
