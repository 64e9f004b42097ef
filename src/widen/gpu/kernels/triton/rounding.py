"""Integers in words of 32 bits, rounded once into a float's bits: device functions only."""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def highest_bit32(x):
    """floor(log2 x) of a positive uint32."""
    guess = (x.to(tl.float32).to(tl.int32, bitcast=True) >> 23) - 127
    guess = tl.minimum(tl.maximum(guess, 0), 31)
    return guess - ((x >> guess.to(tl.uint32)) == 0).to(tl.int32)


@triton.jit
def leading_zeros(x, ASSEMBLY: tl.constexpr):
    """Zeros before the highest bit of a positive uint32."""
    if ASSEMBLY:
        zeros = tl.inline_asm_elementwise("clz.b32 $0, $1;", "=r,r", [x], tl.int32, True, 1)
        return zeros & 31
    else:
        return 31 - highest_bit32(x)


@triton.jit
def leading_bits(high, middle, low, below, index, ASSEMBLY: tl.constexpr = False):
    """Length in bits of a number, its 64 leading bits, and whether any bit after them is set.

    `high` (not 0 unless the number is) is word `index`, `middle` and `low` follow it, and `below`
    is not 0 if any word after these is.
    """
    zeros = leading_zeros(high, ASSEMBLY)
    shift = zeros.to(tl.uint64)
    first = (((high.to(tl.uint64) << 32) | middle.to(tl.uint64)) << shift) >> 32
    second = (((middle.to(tl.uint64) << 32) | low.to(tl.uint64)) << shift) & 0xFFFFFFFF00000000
    sticky = ((low << zeros.to(tl.uint32)) | below) != 0
    return 32 * (index + 1) - zeros, (first << 32) | (second >> 32), sticky


@triton.jit
def next_word(word, step, two, head, third, rest, low, below, index):
    """One more word (a uint64 below 2^32) of a sum in two's complement: all that is kept of it.

    The last words of a sum are all 0 or all 1. What stands before the last run of equal words are
    the leading ones (`head`, two of them, with `low` and `below` after them); they are kept at the
    start of every run, since any may be the last. `two` are the last two words, `third` and `rest`
    what was before. A bare `a = b` of two carried variables is no change to Triton's compiler if
    both began as one.
    """
    new = word != (two >> 32)
    head, index = tl.where(new, two, head), tl.where(new, step - 1, index)
    low, below = tl.where(new, third, low), tl.where(new, rest, below)
    rest |= third
    third = (two & 0xFFFFFFFF).to(tl.uint32)
    return (two >> 32) | (word << 32), head, third, rest, low, below, index


@triton.jit
def magnitude(two, head, low, below, index):
    """(high, middle, low, index, negative) of a sum whose words `next_word` took, sign apart.

    |sum| of a negative one: 2^96 less the three words, and whatever is below; 2^96 itself if all
    are 0, which is 1 in the word above.
    """
    high, middle = (head >> 32).to(tl.uint32), (head & 0xFFFFFFFF).to(tl.uint32)
    minus = (two >> 32) != 0
    flip = tl.where(minus, 0xFFFFFFFF, 0).to(tl.uint32)
    up = (minus & (below == 0)).to(tl.uint32)
    low = (low ^ flip) + up
    up &= (low == 0).to(tl.uint32)
    middle = (middle ^ flip) + up
    up &= (middle == 0).to(tl.uint32)
    high = (high ^ flip) + up
    power = minus & (high == 0)
    return tl.where(power, 1, high), middle, low, tl.where(power, index + 1, index), minus


@triton.jit
def rounded_normal(
    length, head, sticky, base, PRECISION: tl.constexpr, LOWEST: tl.constexpr
):  # fmt: skip
    """`rounded` where it gives a normal number: the same bits are dropped everywhere."""
    drop: tl.constexpr = 64 - PRECISION
    whole = (head >> drop).to(tl.int64)
    if PRECISION > 32:
        rest = (head.to(tl.uint32) & ((1 << drop) - 1)).to(tl.int32)
    else:
        rest = ((head >> 32).to(tl.uint32) & ((1 << (32 - PRECISION)) - 1)).to(tl.int32)
        sticky |= head.to(tl.uint32) != 0
    half: tl.constexpr = 1 << (drop - 1 if PRECISION > 32 else 31 - PRECISION)
    up = 2 * rest + sticky.to(tl.int32) + (whole.to(tl.int32) & 1) > 2 * half
    place = (length + base - (PRECISION + LOWEST)).to(tl.int64)
    return (place << (PRECISION - 1)) + whole + up.to(tl.int64)


@triton.jit
def rounding_of(
    length, head, sticky, base, PRECISION: tl.constexpr, LOWEST: tl.constexpr, HIGHEST: tl.constexpr
):
    """(bits, whole, unit, up) of head 2^(length - 64 + base) (and more if sticky), to nearest even.

    The format has multiples of 2^LOWEST with PRECISION bits, below 2^HIGHEST. The number became
    whole 2^unit, away from 0 if `up`.
    """
    unit = tl.maximum(length + base - PRECISION, LOWEST)
    drop = tl.minimum(unit - (length + base - 64), 65)
    shift = tl.minimum(drop - 1, 63).to(tl.uint64)
    twice = tl.where(drop < 65, head >> shift, 0)  # one bit more than stays
    below = (twice << shift) != head
    whole = twice >> 1
    up = twice & (whole | (below | sticky).to(tl.uint64)) & 1
    whole += up
    infinity: tl.constexpr = (HIGHEST - LOWEST - PRECISION + 2) << (PRECISION - 1)
    place = tl.minimum(unit, HIGHEST - PRECISION) - LOWEST
    bits = (place.to(tl.int64) << (PRECISION - 1)) + whole.to(tl.int64)  # a carry moves up
    bits = tl.where(unit > HIGHEST - PRECISION, infinity, tl.minimum(bits, infinity))
    return bits, whole, unit, up != 0


@triton.jit
def rounded(
    length, head, sticky, base, PRECISION: tl.constexpr, LOWEST: tl.constexpr, HIGHEST: tl.constexpr
):
    """Bits of a number rounded to nearest even; as `rounding_of`."""
    bits, _, _, _ = rounding_of(length, head, sticky, base, PRECISION, LOWEST, HIGHEST)
    return bits


@triton.jit
def with_sign(bits, negative, PRECISION: tl.constexpr):
    """The bits of a float64 or float32 of that magnitude and sign."""
    if PRECISION == 53:
        return bits | (negative.to(tl.int64) << 63)
    else:
        return bits.to(tl.int32) | (negative.to(tl.int32) << 31)


@triton.jit
def store_float(at, bits, negative, inside, PRECISION: tl.constexpr):
    """Store the magnitude's bits with a sign, as a float64 or float32."""
    tl.store(at, with_sign(bits, negative, PRECISION), inside)
