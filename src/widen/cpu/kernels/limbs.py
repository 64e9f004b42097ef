"""Integers in limbs of 32 bits, and their one rounding into a float: device functions only.

A number is ``sum(limbs[l] * 2^(32 l))`` times a power of two, with int64 slots so that additions
need no carry until `settle`. No float arithmetic that rounds is used anywhere.
"""

from __future__ import annotations

import numpy as np

from widen.cpu.kernels.cache import device

MASK = np.int64(0xFFFFFFFF)
FRACTION = np.int64((1 << 52) - 1)
MAGNITUDE = np.int64(0x7FFFFFFFFFFFFFFF)
INFINITY = np.int64(0x7FF0000000000000)

# A superaccumulator takes alpha * a * b and beta * c for any float64s and k < 2^29: its bits weigh
# 2^-ZERO up to 2^(32 * LIMBS - ZERO). The smallest product of three is 2^-3222, and a limb of a * b
# that holds its last bit may begin 31 bits below it.
ZERO = 3264
LIMBS = 203
LEAST_PRODUCT = -2148  # the smallest product of two


@device
def power_of_two(exponent):
    """2^exponent for -1022 <= exponent <= 1023."""
    return np.int64((exponent + 1023) << 52).view(np.float64)


@device
def times_power(bits, exponent):
    """A float64 x, given by its bits, times 2^exponent, for any exponent; exact but for underflow.

    In two steps of one direction, since 2^exponent alone may be out of range.
    """
    exponent = min(max(exponent, -2000), 2000)
    first = exponent >> 1
    return np.int64(bits).view(np.float64) * power_of_two(first) * power_of_two(exponent - first)


@device
def bit_length(x):
    """Number of bits of a positive integer below 2^53."""
    return (np.float64(x).view(np.int64) >> 52) - 1022


@device
def whole_mantissa(bits):
    """|m| of a float64 m 2^e given by its bits: the fraction, and the hidden bit if any."""
    return (bits & FRACTION) | (np.int64(min((bits >> 52) & 0x7FF, 1)) << 52)


@device
def mantissa(bits):
    """The signed integer m of a float64 m 2^e given by its bits."""
    m = whole_mantissa(bits)
    return -m if bits < 0 else m


@device
def exponent(bits):
    """The exponent e of a float64 m 2^e given by its bits."""
    field = (bits >> 52) & 0x7FF
    return max(field, 1) - 1075


@device
def place(limbs, value, bit):
    """Add value * 2^bit, for any int64 value; limbs stay exact for 2^30 calls."""
    low, shift = bit >> 5, bit & 31
    limbs[low] += (value << shift) & MASK
    limbs[low + 1] += (value >> (32 - shift)) & MASK
    limbs[low + 2] += value >> min(64 - shift, 63)


@device
def place_product(limbs, x, y, bit):
    """Add x * y * 2^bit for integers of up to 53 bits."""
    x1, y1 = x >> 27, y >> 27
    x0, y0 = x - (x1 << 27), y - (y1 << 27)
    place(limbs, x0 * y0, bit)
    place(limbs, x1 * y0 + x0 * y1, bit + 27)
    place(limbs, x1 * y1, bit + 54)


@device
def settle(limbs, first, last):
    """Carry limbs first..last of column 0 and make them a magnitude; its sign (-1, 0 or 1)."""
    carry, all_bits = np.int64(0), np.int64(0)
    for l in range(first, last + 1):
        value = limbs[l, 0] + carry
        limbs[l, 0] = value & MASK
        all_bits |= value & MASK
        carry = value >> 32
    if carry >= 0:
        return np.int64(1 if all_bits else 0)
    carry = np.int64(1)
    for l in range(first, last + 1):
        value = (limbs[l, 0] ^ MASK) + carry
        limbs[l, 0] = value & MASK
        carry = value >> 32
    return np.int64(-1)


@device
def rounded(limbs, at, first, last, base, precision, lowest, highest):
    """A magnitude rounded once, to nearest even, into a binary format; what that dropped.

    The magnitude is sum(limbs[l, at] 2^(32 (l - first))) * 2^base over limbs first..last, each in
    [0, 2^32); the format has multiples of 2^lowest with `precision` bits, below 2^highest. Also
    given are how many bits were dropped (all of them: the value is 0; none if negative or 0), and
    whether the value is above the magnitude.
    """
    top = last
    while top >= first and limbs[top, at] == 0:
        top -= 1
    if top < first:
        return 0.0, np.int64(0), False
    length = 32 * (top - first) + bit_length(limbs[top, at])
    if length + base > highest:
        return np.inf, np.int64(0), True
    unit = max(length + base - precision, lowest)
    drop = unit - base
    if drop > length:
        return 0.0, drop, False
    up = np.int64(0)
    if drop <= 0:
        whole = limbs[first, at]
        if top > first:
            whole |= limbs[first + 1, at] << 32
        whole <<= -drop
    else:
        l, shift = first + (drop >> 5), drop & 31
        whole = np.int64(0)
        if l <= top:
            whole = limbs[l, at] >> shift
            if l + 1 <= top:
                whole |= limbs[l + 1, at] << (32 - shift)
            if l + 2 <= top and shift > 0:
                whole |= limbs[l + 2, at] << (64 - shift)
        l, shift = first + ((drop - 1) >> 5), (drop - 1) & 31
        half = (limbs[l, at] >> shift) & 1
        below = limbs[l, at] & ((np.int64(1) << shift) - 1)
        while below == 0 and l > first:
            l -= 1
            below = limbs[l, at]
        # No branch on random bits: up if above the half, or at it and odd.
        up = half & (whole | np.int64(below != 0))
        whole += up
    if whole >> min(highest - unit, np.int64(62)):
        return np.inf, drop, True
    if unit >= -1022:
        return np.float64(whole) * power_of_two(unit), drop, up != 0
    value = np.float64(whole) * power_of_two(unit + 60) * power_of_two(np.int64(-60))
    return value, drop, up != 0


@device
def round_magnitude(limbs, at, first, last, base, precision, lowest, highest):
    """A magnitude rounded once (`rounded`)."""
    return rounded(limbs, at, first, last, base, precision, lowest, highest)[0]


@device
def _leave(limbs, at, first, drop, up):
    """Leave of a magnitude what rounding dropped, |magnitude - value|; its last limb.

    Its low bits, or what they lack to 2^drop if the value is above it.
    """
    last = first + ((drop - 1) >> 5)
    mask = (np.int64(1) << (drop - 32 * (last - first))) - 1
    limbs[last, at] &= mask
    if up:
        carry = np.int64(1)
        for l in range(first, last):
            value = (limbs[l, at] ^ MASK) + carry
            limbs[l, at] = value & MASK
            carry = value >> 32
        limbs[last, at] = ((limbs[last, at] ^ mask) + carry) & mask
    return last


@device
def round_words(limbs, at, first, last, base, sign, fmt, out):
    """A magnitude times a sign, rounded word by word into `out`; the limbs are used up.

    ``fmt[w]`` is (precision, lowest, highest) of word w. As in the definition: each word is the
    nearest of what is left, a later word beyond its range is the largest there is, and a last word
    that is half a unit of the one before goes to the side that makes that one even. The last is the
    last that is not 0: no word can have what is below the format's smallest number.
    """
    count = fmt.shape[0]
    for w in range(count):
        out[w] = 0.0
    for w in range(count):
        value, drop, up = rounded(limbs, at, first, last, base, fmt[w, 0], fmt[w, 1], fmt[w, 2])
        if value == np.inf and w > 0:
            value = (2.0 - power_of_two(1 - fmt[w, 0])) * power_of_two(fmt[w, 2] - 1)
            drop = np.int64(0)
        if value != 0.0 or count == 1:
            out[w] = sign * value
        if drop <= 0 or value == np.inf:
            break
        if value != 0.0 and w + 1 < count:
            last = _leave(limbs, at, first, drop, up)
            sign = -sign if up else sign
    end = count - 1
    while end > 0 and out[end] == 0.0:
        end -= 1
    if end > 0:
        high, low = out[end - 1], out[end]
        both = high + low
        if fmt[end - 1, 0] == 24:
            both = np.float64(np.float32(both))
        if both != high:
            out[end - 1], out[end] = both, low - (both - high)
            if np.isinf(both):
                out[end] = 0.0


@device
def rounded_sum(sums, limbs, sign, base, alpha, beta, addend, part, fmt, out):
    """Put RN(alpha x + beta c), one part of it, into `out`, word by word.

    ``limbs[q]`` with ``sign[q]`` is part q of x; its limb l weighs 2^(32 l + base), and
    ``addend[w, q]`` is word w of part q of c, float64 bits. `sums` is a superaccumulator (one
    column), all zero before and after.
    """
    parts, count = limbs.shape[0], limbs.shape[1]
    low, high = np.int64(LIMBS), np.int64(-1)
    for q in range(parts):
        # Part 0 of a complex product: alpha_r x_r - alpha_i x_i; part 1: alpha_i x_r + alpha_r x_i.
        flip = -1 if part == 0 and q == 1 else 1
        scalar = alpha[part ^ q]
        m = mantissa(scalar) * sign[q] * flip
        m1 = m >> 27
        m0 = m - (m1 << 27)
        for l in range(count):
            if limbs[q, l, 0] != 0 and m != 0:
                bit = ZERO + base + exponent(scalar) + 32 * l
                place(sums[:, 0], limbs[q, l, 0] * m0, bit)
                place(sums[:, 0], limbs[q, l, 0] * m1, bit + 27)
                low, high = min(low, bit >> 5), max(high, (bit >> 5) + 4)
        scalar = beta[part ^ q]
        m = mantissa(scalar) * flip
        for w in range(addend.shape[0]):
            if m != 0 and addend[w, q] & MAGNITUDE:
                bit = ZERO + exponent(scalar) + exponent(addend[w, q])
                place_product(sums[:, 0], m, mantissa(addend[w, q]), bit)
                low, high = min(low, bit >> 5), max(high, (bit >> 5) + 5)
    out[:] = 0.0
    if high < 0:
        return
    high = min(high, np.int64(LIMBS - 1))
    total = settle(sums, low, high)
    round_words(sums, 0, low, high, 32 * low - ZERO, total, fmt, out)
    sums[low : high + 1] = 0
