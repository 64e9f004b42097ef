"""Elements repaired one by one: exact dot products in a superaccumulator, and special values."""

from __future__ import annotations

import numpy as np

from widen.cpu.kernels.cache import BITS3, BITS4, BITS5, BOOL, FLOAT, INT, device, kernel
from widen.cpu.kernels.limbs import (
    INFINITY,
    LIMBS,
    MAGNITUDE,
    MASK,
    ZERO,
    exponent,
    mantissa,
    place_product,
    round_words,
    rounded_sum,
    settle,
)
from widen.cpu.kernels.loops import copy


@device
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


@device
def _carry(sums, first, last):
    """Limbs below the last in [0, 2^32), so that as many terms again can be added."""
    for l in range(first, last):
        sums[l + 1, 0] += sums[l, 0] >> 32
        sums[l, 0] &= MASK


@kernel(
    BITS5, BITS5, BITS3, BITS3, INT[::1], INT[::1], INT[::1], BOOL, INT[::1], INT[::1], BITS5,
    INT[:, ::1], FLOAT[:, :, :, :, :],
)  # fmt: skip
def dots(
    begin, end, left, right, row_spans, column_spans, batches, rows, columns, simple, alpha, beta,
    addend, fmt, out,
):  # fmt: skip
    """out[:, :, b, i, j] = RN(alpha left[..., b, i] . right[..., b, j] + beta addend) where listed.

    Operands are float64 bits, (words, parts, batch, lines, inner), results and the addend (words,
    parts, batch, rows, columns); a batch of 1 serves every batch. Spans (2, batch, lines) say where
    entries are that are not 0. `simple` says alpha = 1 and beta = 0. A job is an element.
    """
    parts, inner = out.shape[1], left.shape[4]
    sums = np.zeros((parts, LIMBS, 1), np.int64)
    total = np.zeros((LIMBS, 1), np.int64)
    sign, words = np.zeros(parts, np.int64), np.empty(fmt.shape[0])
    ours, theirs = np.empty((parts, inner), np.int64), np.empty((parts, inner), np.int64)
    for job in range(begin, end):
        b, i, j = batches[job], rows[job], columns[job]
        lb, rb = b if left.shape[2] > 1 else 0, b if right.shape[2] > 1 else 0
        start = max(row_spans[0, lb, i], column_spans[0, rb, j])
        stop = max(start, min(row_spans[1, lb, i], column_spans[1, rb, j]))
        size = stop - start
        for part in range(parts):
            low, high = np.int64(LIMBS), np.int64(0)
            for x in range(left.shape[0]):
                for q in range(parts):
                    copy(left[x, q, lb, i, start:stop], ours[q, :size])
                for y in range(right.shape[0]):
                    for q in range(parts):
                        copy(right[y, q ^ part, rb, j, start:stop], theirs[q, :size])
                    first, last = _exact_dot(
                        sums[part], ours[:, :size], theirs[:, :size], part == 0
                    )
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


@device
def _sign_or_special(bits):
    """-1, 0 or 1 for finite numbers; infinities and NaN as they are."""
    magnitude = bits & MAGNITUDE
    if magnitude >= INFINITY:
        return np.int64(bits).view(np.float64)
    sign = 1.0 if bits > 0 else -1.0
    return 0.0 if magnitude == 0 else sign


@kernel(BITS4, BITS4, BOOL[:, :], BOOL[:, :], FLOAT[:, :, :, :])
def special(begin, end, left, right, rows, columns, out):
    """Overwrite elements of special rows and columns with NaN or an infinity.

    Finite numbers stand in by their signs, so that sums are exact unless they are special. The
    real part is re re - im im, the imaginary one re im + im re, term by term. A job is a
    row.
    """
    parts, _, m, n = out.shape
    inner = left.shape[3]
    for job in range(begin, end):
        b, i = job // m, job % m
        lb = b if left.shape[1] > 1 else 0
        rb = b if right.shape[1] > 1 else 0
        for j in range(n):
            if not (rows[lb, i] or columns[rb, j]):
                continue
            for part in range(parts):
                total = 0.0
                for h in range(inner):
                    for q in range(parts):
                        x = _sign_or_special(left[q, lb, i, h])
                        y = _sign_or_special(right[q ^ part, rb, j, h])
                        total += -(x * y) if part == 0 and q == 1 else x * y
                    if total != total:
                        break
                out[part, b, i, j] = total
