"""Exact dot products of chosen elements, in a superaccumulator: the repair of few elements."""

from __future__ import annotations

import numpy as np
from numba import njit

from widen.cpu.kernels.limbs import (
    BITS5,
    BOOL,
    FLOAT,
    INT,
    LIMBS,
    MASK,
    ZERO,
    exponent,
    kernel,
    mantissa,
    place_product,
    round_words,
    rounded_sum,
    settle,
)


@njit
def _exact_dot(sums, left, right, conjugate):
    """Add the dot product of float64 bits (parts by inner) to `sums`; give its limbs' range.

    Part 0: re re - im im; part 1 (`conjugate` False, rows of `right` swapped): re im + im re.
    """
    low, high = np.int64(LIMBS), np.int64(0)
    for q in range(left.shape[0]):
        for h in range(left.shape[1]):
            x, y = mantissa(left[q, h]), mantissa(right[q, h])
            if x != 0 and y != 0:
                bit = ZERO + exponent(left[q, h]) + exponent(right[q, h])
                place_product(sums[:, 0], -x if conjugate and q == 1 else x, y, bit)
                low, high = min(low, bit >> 5), max(high, bit >> 5)
    return low, min(high + 6, LIMBS - 1)


@njit
def _carry(sums, first, last):
    """Limbs below the last in [0, 2^32), so that as many terms again can be added."""
    for l in range(first, last):
        sums[l + 1, 0] += sums[l, 0] >> 32
        sums[l, 0] &= MASK


@kernel(
    BITS5, BITS5, INT[::1], INT[::1], INT[::1], BOOL, INT[::1], INT[::1], BITS5, INT[:, ::1],
    FLOAT[:, :, :, :, :],
)  # fmt: skip
def dots(begin, end, left, right, batches, rows, columns, simple, alpha, beta, addend, fmt, out):
    """out[:, :, b, i, j] = RN(alpha left[..., b, i] . right[..., b, j] + beta addend) where listed.

    Operands are float64 bits, (words, parts, batch, lines, inner), results and the addend (words,
    parts, batch, rows, columns); a batch of 1 serves every batch. `simple` says alpha = 1 and
    beta = 0. A job is an element.
    """
    parts, inner = out.shape[1], left.shape[4]
    sums = np.zeros((parts, LIMBS, 1), np.int64)
    total = np.zeros((LIMBS, 1), np.int64)
    sign, words = np.zeros(parts, np.int64), np.empty(fmt.shape[0])
    ours, theirs = np.empty((parts, inner), np.int64), np.empty((parts, inner), np.int64)
    for job in range(begin, end):
        b, i, j = batches[job], rows[job], columns[job]
        for part in range(parts):
            low, high = np.int64(LIMBS), np.int64(0)
            for x in range(left.shape[0]):
                ours[:] = left[x, :, b if left.shape[2] > 1 else 0, i]
                for y in range(right.shape[0]):
                    for q in range(parts):
                        theirs[q] = right[y, q ^ part, b if right.shape[2] > 1 else 0, j]
                    first, last = _exact_dot(sums[part], ours, theirs, part == 0)
                    low, high = min(low, first), max(high, last)
                    if low < LIMBS:
                        _carry(sums[part], low, high)
            sign[part] = settle(sums[part], low, high) if low < LIMBS else 0
            if simple:
                words[:] = 0.0
                if sign[part] != 0:
                    round_words(sums[part], 0, low, high, 32 * low - ZERO, sign[part], fmt, words)
                for w in range(words.shape[0]):
                    out[w, part, b, i, j] = words[w]
        if not simple:
            for part in range(parts):
                rounded_sum(
                    total, sums, sign, -ZERO, alpha, beta, addend[:, :, b, i, j], part, fmt, words
                )
                for w in range(words.shape[0]):
                    out[w, part, b, i, j] = words[w]
        sums[:] = 0
