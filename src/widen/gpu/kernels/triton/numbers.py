"""Floats as integers: device functions only. No float64 arithmetic anywhere.

A float is |x| = m 2^e with an integer m, read from its bits. FRACTION and EXPONENT are the widths
of its fields: 52 and 11 for float64, 23 and 8 for float32, 10 and 5 for float16, 7 and 8 for
bfloat16.
"""

from __future__ import annotations

import triton
import triton.language as tl

NORM_BITS = tl.constexpr(15)  # of bounds
NOTHING = tl.constexpr(-(1 << 20))  # exponent of lines that hold nothing finite

ZERO_LINE = tl.constexpr(1)  # flags of a line
SPECIAL = tl.constexpr(2)
INEXACT = tl.constexpr(4)

# Rows of the table that describes lines, one column a line.
LARGEST = tl.constexpr(0)  # bits of the largest magnitude
SUM = tl.constexpr(1)  # q1, the integer 1-norm
SQUARES = tl.constexpr(2)  # q2, the integer 2-norm squared
DEPTH = tl.constexpr(3)  # -NOTHING - exponent of the last set bit
SCALE = tl.constexpr(4)  # the exponent s: lines are scaled by 2^s and rounded
SIGMA = tl.constexpr(5)  # s + exponent of the largest magnitude
FLAGS = tl.constexpr(6)
WEIGHT = tl.constexpr(7)  # `bounds.Weighed.weight`, bits of a float64
NORM = tl.constexpr(8)  # log2 of the 2-norm after scaling, in 1/256, rounded up
STEP = tl.constexpr(9)  # `bounds.Weighed.step`, bits of a float64: 0 if the line is exact
NONZEROS = tl.constexpr(10)  # how many numbers are not 0
DISTANCES = tl.constexpr(11)  # the sum of their distances (`bounds.extra_bits`)
REACH = tl.constexpr(12)  # the largest distance, about
AHEAD = tl.constexpr(13)  # entries from the first that is not 0 on
STOP = tl.constexpr(14)  # entries up to the last that is not 0

FARTHEST = tl.constexpr(48)  # of bounds
MAGNITUDES = tl.constexpr(16)  # instead of a number of leading bits: magnitudes as bfloat16
SATURATED = tl.constexpr(32)  # added to a number of leading bits: those of numbers near the mean

FAR_OFF = tl.constexpr(1 << 30)  # place of the last bit of nothing
MAGIC = tl.constexpr(12582912.0)  # 1.5 * 2^23: adding it rounds a small float to an integer


@triton.jit
def wide(index):
    """An index as int64, so that products with strides do not overflow."""
    return tl.full((), 1, tl.int64) * index


@triton.jit
def decode(bits, FRACTION: tl.constexpr, EXPONENT: tl.constexpr):
    """(m, e) of |x| = m 2^e, an int64 and an int32."""
    field = (bits >> FRACTION).to(tl.int32) & ((1 << EXPONENT) - 1)
    fraction = bits & ((1 << FRACTION) - 1)
    m = fraction | (tl.minimum(field, 1).to(bits.dtype) << FRACTION)
    return m, tl.maximum(field, 1) - (FRACTION + (1 << (EXPONENT - 1)) - 1)


@triton.jit
def is_special(bits, FRACTION: tl.constexpr, EXPONENT: tl.constexpr):
    """Whether bits are those of an infinity or a NaN."""
    return ((bits >> FRACTION) & ((1 << EXPONENT) - 1)) == (1 << EXPONENT) - 1


@triton.jit
def highest_bit(x):
    """floor(log2 x) of a positive int64, -1 for 0."""
    guess = (x.to(tl.float32).to(tl.int32, bitcast=True) >> 23) - 127
    guess = tl.maximum(guess, 0)
    exact = guess - ((x >> guess.to(tl.int64)) == 0).to(tl.int32)
    return tl.where(x > 0, exact, -1)


@triton.jit
def lowest_bit(x):
    """Place of the lowest set bit of a positive int64 below 2^62: a power of two is exact."""
    return ((x & -x).to(tl.float32).to(tl.int32, bitcast=True) >> 23) - 127


@triton.jit
def long_product(m, w):
    """The product of two int64 numbers that are not negative: its low and high 64 bits."""
    return (m * w).to(tl.uint64), tl.umulhi(m.to(tl.uint64), w.to(tl.uint64))


@triton.jit
def scaled_integer(m, e, s):
    """round-to-nearest-even(m 2^(e + s)) = r 2^left as (r, left): r <= 2^53, left >= 0."""
    left = e + s
    right = tl.minimum(tl.maximum(-left, 0), 55).to(tl.int64)
    half = (tl.full(m.shape, 1, tl.int64) << right) >> 1
    up = tl.where(half > 0, half - 1 + ((m >> right) & 1), 0)
    return (m + up) >> right, tl.maximum(left, 0)


@triton.jit
def below_top(q1, nonzeros):
    """How far below the largest exponent of a line SATURATED leads have their first bit.

    About twice the mean of its magnitudes: what is larger leads with bits of its own, as if it had
    that exponent.
    """
    return tl.maximum(NORM_BITS - 1 + highest_bit(nonzeros) - highest_bit(q1), 0)


@triton.jit
def leading(m, distance, kept):
    """floor(m 2^(kept - distance)), for numbers m < 2^53 of lines with m 2^-distance < 2."""
    shift = tl.minimum(distance - kept, 63)
    left, right = tl.maximum(-shift, 0).to(tl.int64), tl.maximum(shift, 0).to(tl.int64)
    return (m << left) >> right


@triton.jit
def short_float(fraction, distance, nonzero):
    """The float32 (1 + fraction / 128) 2^-distance, or 0; 0 as well below 2^-126."""
    bits = ((127 - distance) << 23) | (fraction << 16)
    return tl.where(nonzero & (distance <= 126), bits, 0).to(tl.float32, bitcast=True)


@triton.jit
def look(
    bits, more, less, top, LEAD: tl.constexpr, FRACTION: tl.constexpr, EXPONENT: tl.constexpr
):  # fmt: skip
    """Of x: q = ceil(|x| 2^(15 - top)), the leading integer, the last bit's place (or far off).

    Places are exponents with `lowest_place` added. `more` and `less` are 1 where the number is
    larger or smaller in magnitude than its bits say, by less than the last of them, and no more
    than the first 16 of these are set. Last comes how far its exponent is below `top`, 0 for 0.

    With LEAD of MAGNITUDES, the leading integer is |x| 2^-top, rounded down to a bfloat16; with
    LEAD of SATURATED, that of a number beyond `top` is the one of |x| divided by a power of two.
    """
    m, e = decode(bits.to(tl.int64), FRACTION, EXPONENT)
    shift = tl.minimum(top - NORM_BITS - e, 62)
    right, left = tl.maximum(shift, 0).to(tl.int64), tl.maximum(-shift, 0).to(tl.int64)
    q = ((m << left) + ((tl.full(m.shape, 1, tl.int64) << right) - 1 + more)) >> right
    place = highest_bit(m - less)
    distance = top - place - e
    if LEAD == MAGNITUDES:
        fraction = (((m - less) << tl.maximum(62 - place, 0).to(tl.int64)) >> 55).to(tl.int32)
        lead = short_float(fraction & 127, distance, m > 0)
    elif LEAD >= SATURATED:
        lead = leading(m - less, tl.maximum(top - e, place), LEAD - SATURATED).to(tl.int32)
    elif LEAD >= 0:
        lead = leading(m - less, top - e, LEAD).to(tl.int32)
    else:
        lead = m.to(tl.int32)
    last = lowest_bit(m) + e + lowest_place(FRACTION, EXPONENT)
    return q.to(tl.int32), lead, tl.where(m > 0, last, FAR_OFF), tl.where(m > 0, distance, 0)


@triton.jit
def lowest_place(FRACTION: tl.constexpr, EXPONENT: tl.constexpr):
    """What makes an exponent a place: the biases of a float32 and of the format."""
    return 127 + FRACTION + (1 << (EXPONENT - 1)) - 1


@triton.jit
def word_of_subnormal(magnitude):
    """The bits of an integer below 2^24 as a float32, of 1 for 0."""
    return tl.maximum(magnitude & 0xFFFFFF, 1).to(tl.float32).to(tl.int32, bitcast=True)


@triton.jit
def look_near(
    bits, more, less, top, LEAD: tl.constexpr, FRACTION: tl.constexpr, EXPONENT: tl.constexpr
):  # fmt: skip
    """The same in 32 bits, where the largest number of the line is a normal one by far.

    Numbers below 2^(top - 31) have a q of 1 and lead with 0, so that it does not matter that
    subnormal ones are given a hidden bit too; of float64 these are too far off for magnitudes, and
    of float32 for leads, wherever they have their first bit.
    """
    above: tl.constexpr = FRACTION - 32 if FRACTION > 31 else FRACTION  # fraction bits in `high`
    if FRACTION > 31:
        high = (bits >> 32).to(tl.int32)
        low = bits.to(tl.int32)
        # The hidden bit and 30 more; what is below them is sticky.
        next_bits = (low.to(tl.uint32, bitcast=True) >> (above + 2)).to(tl.int32, bitcast=True)
        mantissa = ((high << (30 - above)) & ((1 << 30) - 1)) | next_bits | (1 << 30)
        sticky = ((low << (30 - above)) != 0).to(tl.int32)
        magnitude = (high & 0x7FFFFFFF) | low
        word = tl.where(low != 0, low, high & ((1 << above) - 1) | (1 << above))
        higher = tl.where(low != 0, 0, 32)
    else:
        high = bits.to(tl.int32)
        mantissa = ((high << (30 - above)) & ((1 << 30) - 1)) | (1 << 30)
        sticky = 0
        magnitude = high & ((1 << (above + EXPONENT)) - 1)
        word = high & ((1 << above) - 1) | (1 << above)
        higher = 0
    field = (high >> above) & ((1 << EXPONENT) - 1)
    distance = top + ((1 << (EXPONENT - 1)) - 1) - field
    shift = tl.minimum(distance + (30 - NORM_BITS), 31)
    q = ((mantissa - 1 + sticky + more) >> shift) + (magnitude != 0).to(tl.int32)
    lead = mantissa - less
    further = distance + 1 - (lead >> 30)
    if LEAD == MAGNITUDES:
        if FRACTION <= 31:
            # Subnormal numbers of these formats may be near enough to count.
            place = (word_of_subnormal(magnitude) >> 23) - 127
            lead = tl.where(field == 0, magnitude << (30 - place), lead)
            further = tl.where(field == 0, distance - 1 + above - place, further)
        fraction = (lead >> (22 + (lead >> 30))) & 127
        lead = short_float(fraction, further, magnitude != 0)
    elif LEAD >= SATURATED:
        lead = lead >> tl.minimum(tl.maximum(distance, 0) + (30 + SATURATED - LEAD), 31)
    elif LEAD >= 0:
        lead = lead >> tl.minimum(distance + (30 - LEAD), 31)
    lowest = (word & -word).to(tl.uint32, bitcast=True).to(tl.float32).to(tl.int32, bitcast=True)
    last = (lowest >> 23) + tl.maximum(field, 1) + higher
    known = tl.where(magnitude != 0, last, FAR_OFF), tl.where(magnitude != 0, further, 0)
    return q, lead, known[0], known[1]
