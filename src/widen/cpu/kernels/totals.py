"""Sums of numbers of several words, and of their products: exact, then rounded word by word."""

from __future__ import annotations

import numpy as np

from widen.cpu.kernels.cache import BITS4, BOOL, FLOAT, INT, device, kernel
from widen.cpu.kernels.limbs import (
    LIMBS,
    ZERO,
    bit_length,
    exponent,
    mantissa,
    place,
    place_product,
    round_words,
    settle,
)


@device
def _add_up(limbs, x, y, sign, o, low, high):
    """Add sign x y for all words and elements of output o (x alone if y is empty)."""
    for i in range(x.shape[0]):
        for h in range(x.shape[2]):
            a = mantissa(x[i, o, h]) * sign
            if a == 0:
                continue
            bit = ZERO + exponent(x[i, o, h])
            if y.shape[0] == 0:
                place(limbs, a, bit)
                low, high = min(low, bit >> 5), max(high, bit >> 5)
            for j in range(y.shape[0]):
                b = mantissa(y[j, o, h])
                if b != 0:
                    place_product(limbs, a, b, bit + exponent(y[j, o, h]))
                    at = (bit + exponent(y[j, o, h])) >> 5
                    low, high = min(low, at), max(high, at)
    return low, high


@device
def _top(limbs, low, high):
    """Place of the highest bit of a magnitude."""
    while high > low and limbs[high, 0] == 0:
        high -= 1
    return 32 * high + bit_length(limbs[high, 0]) - 1 - ZERO


@kernel(BITS4, BITS4, INT[::1], BOOL, INT[:, ::1], FLOAT[:, ::1], INT[::1])
def totals(begin, end, x, y, signs, scaled, settings, out, shifts):
    """out[:, o] = words of the sum over q and h of signs[q] x[q, :, o, h] y[q, :, o, h].

    Operands are float64 bits, (terms, words, outputs, inner); without words of y, x is added alone.
    `settings` are (precision, lowest, highest) of each word. If `scaled`, the total is multiplied
    by 4^-shifts[o] so that it is next to 1. A job is an output.
    """
    limbs = np.zeros((LIMBS, 1), np.int64)
    words = np.zeros(out.shape[0])
    for o in range(begin, end):
        low, high = np.int64(LIMBS), np.int64(0)
        for q in range(x.shape[0]):
            low, high = _add_up(limbs[:, 0], x[q], y[q], signs[q], o, low, high)
        words[:] = 0.0
        if low < LIMBS:
            high = min(high + 6, np.int64(LIMBS - 1))
            sign, shift = settle(limbs, low, high), np.int64(0)
            if scaled and sign != 0:  # a sum of squares is not negative
                shift = _top(limbs, low, high) & ~np.int64(1)
            if sign != 0:
                base = 32 * low - ZERO - shift
                round_words(limbs, 0, low, high, base, sign, settings, words)
            shifts[o] = shift >> 1
        for l in range(out.shape[0]):
            out[l, o] = words[l]
        limbs[:] = 0
