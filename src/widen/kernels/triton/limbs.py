"""Long integers that lie in memory, in limbs of 32 bits: rounded into words, one after the other.

A number's limbs, lowest first, are so many `stride` apart, two's complement. What is left of X
after a word is X modulo 2^cut, or 2^cut less that where the word was rounded away from 0: limbs
stay as they are, and a sign and `cut` say what is left. Device functions only.
"""

from __future__ import annotations

import triton
import triton.language as tl

from widen.kernels.triton.rounding import leading_bits, rounding_of, with_sign

NEVER = tl.constexpr(1 << 30)  # place of the last bit of 0


@triton.jit
def limb_of(limbs, stride, index, last, minus):
    """Limb `index` of X, or of -X if `minus`: nothing changes below X's last bit.

    `last` is the place of that bit, the same in both.
    """
    there = index >= 0
    word = tl.load(limbs + index.to(tl.int64) * stride, there, other=0).to(tl.uint32)
    negated = tl.where(index > last >> 5, ~word, tl.where(index == last >> 5, 0 - word, 0))
    return tl.where(minus & there, negated, word)


@triton.jit
def next_word(
    limbs, stride, last, minus, cut, base, PRECISION: tl.constexpr, LOWEST: tl.constexpr,
    HIGHEST: tl.constexpr, ASSEMBLY: tl.constexpr,
):  # fmt: skip
    """(bits, sign and cut of what is left) of |X|, or |-X|, modulo 2^cut, times 2^base, rounded.

    Nothing is left after an infinity, nor where a unit is the format's smallest: half of it then
    rounds to 0, in the words that follow as well.
    """
    some = last < cut
    index = (tl.maximum(cut, 1) - 1) >> 5
    kept = (31 - ((tl.maximum(cut, 1) - 1) & 31)).to(tl.uint32)
    ones = tl.full(cut.shape, 0xFFFFFFFF, tl.uint32)
    high = limb_of(limbs, stride, tl.where(some, index, -1), last, minus) & (ones >> kept)
    while tl.max((some & (high == 0)).to(tl.int32), 0) > 0:
        index = tl.where(some & (high == 0), index - 1, index)
        more = limb_of(limbs, stride, tl.where(some & (high == 0), index, -1), last, minus)
        high = tl.where(high == 0, more, high)
    middle = limb_of(limbs, stride, tl.where(some, index - 1, -1), last, minus)
    low = limb_of(limbs, stride, tl.where(some, index - 2, -1), last, minus)
    below = (last < 32 * (index - 2)).to(tl.uint32)
    length, head, sticky = leading_bits(high, middle, low, below, index, ASSEMBLY)
    bits, unit, up = rounding_of(length, head, sticky, base, PRECISION, LOWEST, HIGHEST)
    infinity: tl.constexpr = (HIGHEST - LOWEST - PRECISION + 2) << (PRECISION - 1)
    bits = tl.where(some, bits, 0)
    over = ~some | (bits == infinity) | (unit == LOWEST)
    return bits, minus != (up & ~over), tl.where(over, 0, unit - base)


@triton.jit
def store_words(
    limbs, stride, bits_held, last, negative, base, target, word_stride, words, inside, again,
    PRECISION: tl.constexpr, LOWEST: tl.constexpr, HIGHEST: tl.constexpr, ASSEMBLY: tl.constexpr,
):  # fmt: skip
    """X 2^base in so many words, each the nearest of what is left; X has `bits_held` bits.

    Gives where the words that were there before were others, if this is done `again`.
    """
    minus = negative
    cut = tl.full(negative.shape, 0, tl.int32) + bits_held
    other = inside & False
    for word in range(words):
        bits, left, below = next_word(
            limbs, stride, last, minus, cut, base, PRECISION, LOWEST, HIGHEST, ASSEMBLY
        )
        at = target + word * word_stride
        signed = with_sign(bits, minus & (last < cut), PRECISION)
        other |= signed != tl.load(at, inside & (again != 0), other=0)
        tl.store(at, signed, inside)
        minus, cut = left, below
    return other & inside & (again != 0)


@triton.jit
def last_bit(word):
    """Place of the lowest set bit of a uint32 that is not 0: a power of two is an exact float."""
    power = (word & (0 - word)).to(tl.float32)
    return (power.to(tl.int32, bitcast=True) >> 23) - 127
