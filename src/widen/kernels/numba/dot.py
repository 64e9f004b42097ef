"""Exact dot products of chosen elements, in a superaccumulator: the repair of few elements."""

from __future__ import annotations

import numpy as np
from numba import njit

from widen.kernels.numba.limbs import (
    BITS4,
    BOOL,
    FLOAT,
    INT,
    LIMBS,
    ZERO,
    exponent,
    kernel,
    mantissa,
    place_product,
    round_magnitude,
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


@kernel(
    BITS4, BITS4, INT[::1], INT[::1], INT[::1], BOOL, INT[::1], INT[::1], BITS4, INT[::1],
    FLOAT[:, :, :, :],
)  # fmt: skip
def dots(begin, end, left, right, batches, rows, columns, simple, alpha, beta, addend, fmt, out):
    """out[:, b, i, j] = RN(alpha left[:, b, i] . right[:, b, j] + beta addend) where listed.

    Operands are float64 bits, (parts, batch, lines, inner); a batch of 1 serves every batch.
    `simple` says alpha = 1 and beta = 0. A job is an element.
    """
    parts = out.shape[0]
    inner = left.shape[3]
    sums = np.zeros((parts, LIMBS, 1), np.int64)
    total = np.zeros((LIMBS, 1), np.int64)
    sign = np.zeros(parts, np.int64)
    ours, theirs = np.empty((parts, inner), np.int64), np.empty((parts, inner), np.int64)
    for job in range(begin, end):
        b, i, j = batches[job], rows[job], columns[job]
        ours[:] = left[:, b if left.shape[1] > 1 else 0, i]
        for part in range(parts):
            for q in range(parts):
                theirs[q] = right[q ^ part, b if right.shape[1] > 1 else 0, j]
            low, high = _exact_dot(sums[part], ours, theirs, part == 0)
            sign[part] = settle(sums[part], low, high) if low < LIMBS else 0
            if simple:
                out[part, b, i, j] = 0.0
                if sign[part] != 0:
                    out[part, b, i, j] = sign[part] * round_magnitude(
                        sums[part], 0, low, high, 32 * low - ZERO, fmt[0], fmt[1], fmt[2]
                    )
        if not simple:
            for part in range(parts):
                out[part, b, i, j] = rounded_sum(
                    total, sums, sign, -ZERO, alpha, beta, addend[:, b, i, j], part, fmt
                )
        sums[:] = 0
