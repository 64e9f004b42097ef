"""Long integers in limbs of 32 bits, in memory or registers: rounded into words, one by one.

A number's limbs, lowest first, are so many `stride` apart, two's complement. What is left of X
after a word is X modulo 2^cut, or 2^cut less that where the word was rounded away from 0: limbs
stay as they are, and a sign and `cut` say what is left. Device functions only.
"""

from __future__ import annotations

import triton
import triton.language as tl

from widen.gpu.kernels.triton.rounding import leading_bits, rounding_of, with_sign

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
def with_negated(limbs):
    """Limbs, and then those of -X."""
    both = limbs
    borrow = tl.zeros(limbs[0].shape, tl.uint32)
    for w in tl.static_range(len(limbs)):
        both = both + (0 - limbs[w] - borrow,)
        borrow |= (limbs[w] != 0).to(tl.uint32)
    return both


@triton.jit
def ones_below(count, ASSEMBLY: tl.constexpr):
    """A word whose lowest bits are set, so many of them: none below 0, all from 32 on."""
    if ASSEMBLY:  # shifts by 32 and more are 0 there
        left = tl.maximum(32 - count, 0)
        return tl.inline_asm_elementwise(
            "shr.b32 $0, 0xFFFFFFFF, $1;", "=r,r", [left], tl.uint32, True, 1
        )
    else:
        ones = tl.full(count.shape, 0xFFFFFFFF, tl.uint32)
        left = tl.minimum(tl.maximum(32 - count, 0), 31).to(tl.uint32)
        return tl.where(count > 0, ones >> left, 0)


@triton.jit
def leading_held(both, minus, cut, ASSEMBLY: tl.constexpr):
    """Of X or -X in registers: the highest limb below `cut` that is not 0, two more, its index."""
    high = tl.zeros(cut.shape, tl.uint32)
    middle, low = tl.zeros(cut.shape, tl.uint32), tl.zeros(cut.shape, tl.uint32)
    index = tl.zeros(cut.shape, tl.int32)
    before, first = tl.zeros(cut.shape, tl.uint32), tl.zeros(cut.shape, tl.uint32)
    for w in tl.static_range(len(both) // 2):
        word = tl.where(minus, both[len(both) // 2 + w], both[w])
        below = word & ones_below(cut - 32 * w, ASSEMBLY)
        nonzero = below != 0
        high, index = tl.where(nonzero, below, high), tl.where(nonzero, w, index)
        middle, low = tl.where(nonzero, before, middle), tl.where(nonzero, first, low)
        first = before
        before = word
    return high, middle, low, index


@triton.jit
def leading_in_memory(limbs, stride, last, minus, cut):
    """The same of X or -X in memory."""
    nonzero = last < cut
    index = (tl.maximum(cut, 1) - 1) >> 5
    kept = (31 - ((tl.maximum(cut, 1) - 1) & 31)).to(tl.uint32)
    ones = tl.full(cut.shape, 0xFFFFFFFF, tl.uint32)
    high = limb_of(limbs, stride, tl.where(nonzero, index, -1), last, minus) & (ones >> kept)
    middle = limb_of(limbs, stride, tl.where(nonzero, index - 1, -1), last, minus)
    low = limb_of(limbs, stride, tl.where(nonzero, index - 2, -1), last, minus)
    more = limb_of(limbs, stride, tl.where(nonzero, index - 3, -1), last, minus)
    nothing = nonzero & (high == 0)  # of a limb cut in two that is no wonder
    high, index = tl.where(nothing, middle, high), tl.where(nothing, index - 1, index)
    middle, low = tl.where(nothing, low, middle), tl.where(nothing, more, low)
    while tl.max((nonzero & (high == 0)).to(tl.int32), 0) > 0:
        nothing = nonzero & (high == 0)
        high, index = tl.where(nothing, middle, high), tl.where(nothing, index - 1, index)
        middle = tl.where(nothing, low, middle)
        more = limb_of(limbs, stride, tl.where(nothing, index - 2, -1), last, minus)
        low = tl.where(nothing, more, low)
    return high, middle, low, index


@triton.jit
def next_word(
    limbs, stride, last, minus, cut, base, PRECISION: tl.constexpr, LOWEST: tl.constexpr,
    HIGHEST: tl.constexpr, HELD: tl.constexpr, ASSEMBLY: tl.constexpr,
):  # fmt: skip
    """|X|, or |-X|, modulo 2^cut, times 2^base, rounded: bits, and what is known of the rest.

    That is: sign and cut of what is left, whether it is nothing, and whether the word is half a
    unit of the one before, 2^(cut - 1). Nothing is left after an infinity, nor where a unit is the
    format's smallest: half of it rounds to 0, in the words that follow as well. With HELD those
    of X and of -X are in registers.
    """
    nonzero = last < cut
    if HELD:
        high, middle, low, index = leading_held(limbs, minus, cut, ASSEMBLY)
    else:
        high, middle, low, index = leading_in_memory(limbs, stride, last, minus, cut)
    below = (last < 32 * (index - 2)).to(tl.uint32)
    length, head, sticky = leading_bits(high, middle, low, below, index, ASSEMBLY)
    bits, whole, unit, up = rounding_of(length, head, sticky, base, PRECISION, LOWEST, HIGHEST)
    infinity: tl.constexpr = (HIGHEST - LOWEST - PRECISION + 2) << (PRECISION - 1)
    bits = tl.where(nonzero, bits, 0)
    over = ~nonzero | (bits == infinity) | (unit == LOWEST)
    place = tl.minimum(tl.maximum(cut - 1 - (unit - base), 0), 62)
    half = nonzero & (whole == tl.full(cut.shape, 1, tl.uint64) << place.to(tl.uint64))
    return bits, minus != (up & ~over), tl.where(over, 0, unit - base), over, half


@triton.jit
def settled_word(
    bits, minus, half, final, at_before, before, before_minus, stored, BEFORE: tl.constexpr,
    INFINITY: tl.constexpr,
):  # fmt: skip
    """Bits and sign of a word; a last one of half a unit may not stand after an odd one.

    The word before then becomes the even one on the other side of the half (and is `stored`), since
    the sum of all words is to have the same words again.
    """
    wrong = half & final & (before & 1 == 1)
    beside = tl.where(minus == before_minus, before + 1, before - 1)
    tl.store(at_before, with_sign(beside, before_minus, BEFORE), stored & wrong)
    bits = tl.where(wrong & (beside == INFINITY), 0, bits)
    return bits, minus != wrong


@triton.jit
def store_words(
    limbs, stride, bits_held, last, negative, base, target, word_stride, words, second, inside,
    again, PRECISION: tl.constexpr, LOWEST: tl.constexpr, HIGHEST: tl.constexpr,
    MIXED: tl.constexpr, HELD: tl.constexpr, ASSEMBLY: tl.constexpr,
):  # fmt: skip
    """Store X 2^base in so many words, each the nearest of the rest; X has `bits_held` bits.

    A single word may be -0, several are never. With MIXED a float32 follows, stored at `second`:
    the nearest there is if it would be infinite. If this is done `again`, nothing is stored, and it
    gives where the words that are there are others: threads read what others have written, so that
    there must be a barrier between. Gives the place of the last word's unit in X too, or 0.
    """
    infinity: tl.constexpr = (HIGHEST - LOWEST - PRECISION + 2) << (PRECISION - 1)
    stored, compared = inside & (again == 0), inside & (again != 0)
    minus = negative
    cut = tl.full(negative.shape, 0, tl.int32) + bits_held
    other = inside & False
    before, before_minus = tl.zeros(negative.shape, tl.int64), negative
    several = words > 1
    if MIXED:
        several = words > 0
    for word in range(words):
        bits, left, below, over, half = next_word(
            limbs, stride, last, minus, cut, base, PRECISION, LOWEST, HIGHEST, HELD, ASSEMBLY
        )
        at = target + word * word_stride
        if word > 0:
            final = over
            if not MIXED:
                final |= (last >= 0) == (word == words - 1)
            bits, minus = settled_word(
                bits, minus, half, final, at - word_stride, before, before_minus, stored, PRECISION,
                infinity,
            )  # fmt: skip
        shown = minus & (last < cut)
        if several:
            shown = minus & (bits != 0)
        signed = with_sign(bits, shown, PRECISION)
        other |= signed != tl.load(at, compared, other=0)
        tl.store(at, signed, stored)
        # Both signs began as one: a bare assignment would be none to Triton's compiler.
        before, before_minus = bits, minus & (bits >= 0)
        minus, cut = left, below
    if MIXED:
        bits, left, below, over, half = next_word(
            limbs, stride, last, minus, cut, base, 24, -149, 128, HELD, ASSEMBLY
        )
        largest: tl.constexpr = (255 << 23) - 1
        bits = tl.minimum(bits, largest)
        bits, minus = settled_word(
            bits, minus, half, half, target + (words - 1) * word_stride, before, before_minus,
            stored, PRECISION, infinity,
        )  # fmt: skip
        signed_float = with_sign(bits, minus & (bits != 0), 24)
        other |= signed_float != tl.load(second, compared, other=0)
        tl.store(second, signed_float, stored)
        cut = below
    return other & compared, cut


@triton.jit
def last_bit(word):
    """Place of the lowest set bit of a uint32 that is not 0: a power of two is an exact float."""
    power = (word & (0 - word)).to(tl.float32)
    return (power.to(tl.int32, bitcast=True) >> 23) - 127
