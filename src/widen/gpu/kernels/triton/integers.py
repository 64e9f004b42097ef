"""X in words of 32 bits, by the Chinese remainder theorem: device functions only."""

from __future__ import annotations

import triton
import triton.language as tl

from widen.gpu.kernels.triton.numbers import MAGIC, wide
from widen.gpu.kernels.triton.packed import three_weighed, times_add


@triton.jit
def group_sums(groups, stream, inside, BASIS: tl.constexpr, ASSEMBLY: tl.constexpr):
    """Sum of c_i P/p_i in words of 32 bits that have not been carried, 64 bits each.

    Three moduli at a time: c_1 P/p_1 + c_2 P/p_2 + c_3 P/p_3 is P/(p_1 p_2 p_3), in words, times
    c_1 p_2 p_3 + c_2 p_1 p_3 + c_3 p_1 p_2 < 3 2^24, so that 17 terms are below 2^62.
    """
    sums = ()
    for word in tl.static_range(len(BASIS[0]) - 3):
        sums = sums + (tl.zeros(inside.shape, tl.uint64),)
    for g in tl.static_range(len(BASIS)):
        values = ()
        for i in tl.static_range(3):
            if BASIS[g][i] != 0:
                at = groups + wide(stream) * (3 * g + i)
                values = values + (tl.load(at, inside, other=0),)
            else:
                values = values + (values[0],)  # whose weight is 0
        factor = three_weighed(
            values[0], values[1], values[2], BASIS[g][0], BASIS[g][1], BASIS[g][2], ASSEMBLY
        )
        more = ()
        for word in tl.static_range(len(BASIS[0]) - 3):
            more = more + (times_add(factor, BASIS[g][3 + word], sums[word], ASSEMBLY),)
        sums = more
    return sums


@triton.constexpr_function
def modulus_of(pieces):
    """The modulus P from its pieces of 16 bits."""
    return sum(piece << 16 * at for at, piece in enumerate(pieces))


@triton.constexpr_function
def word_of(number, word, words):
    """A word of a number; the last of `words` is all the rest."""
    return number >> 32 * word if word == words - 1 else number >> 32 * word & 0xFFFFFFFF


@triton.jit
def combined(
    ours, theirs, third, PART: tl.constexpr, BASIS: tl.constexpr, MODULUS: tl.constexpr
):  # fmt: skip
    """The sums of a part: x x' - y y', or (x + y)(x' + y') - x x' - y y'.

    A multiple of P makes them positive: every sum is below 3 P for each group of three moduli.
    """
    most: tl.constexpr = 3 * (PART + 1) * len(BASIS)
    sums = ()
    for word in tl.static_range(len(ours)):
        more = ours[word].to(tl.int64) - theirs[word].to(tl.int64)
        if PART == 1:
            more = third[word].to(tl.int64) - ours[word].to(tl.int64) - theirs[word].to(tl.int64)
        sums = sums + (more + word_of(most * modulus_of(MODULUS), word, len(ours)),)
    return sums


@triton.jit
def words_of(
    sums, MODULUS: tl.constexpr, TAKEN: tl.constexpr, INVERSE: tl.constexpr, ASSEMBLY: tl.constexpr
):  # fmt: skip
    """The integer X = sum - q P in words of 32 bits, two's complement, lowest first; and its sign.

    q = rint(sum/P) by the TAKEN highest words of the sum, as floats: what they leave out is 2^-12 P
    at most, and |X|/P is below 1/2 - 2^-9. -P is added as its two's complement.
    """
    count: tl.constexpr = len(sums)
    width: tl.constexpr = len(MODULUS) // 2
    total = sums[0]
    carried = (total.to(tl.uint32),)
    for word in tl.static_range(1, count):
        total = sums[word] + (total >> 32)
        carried = carried + (total.to(tl.uint32),)
    carried = carried + ((total >> 32).to(tl.uint32),)
    quotient = (total >> 32).to(tl.int32).to(tl.float32) * INVERSE
    for i in tl.static_range(1, TAKEN):
        quotient += carried[count - i].to(tl.float32) * (INVERSE / (1 << 32 * i))
    q = ((quotient + MAGIC).to(tl.int32, bitcast=True) - 0x4B400000).to(tl.uint32)
    words = ()
    carry = tl.zeros(q.shape, tl.uint64)
    for word in tl.static_range(width):
        if word <= count:
            carry += carried[word].to(tl.uint64)
        carry = times_add(q, minus_word(MODULUS, word), carry, ASSEMBLY)
        words = words + (carry.to(tl.uint32),)
        carry = carry >> 32
    return words, words[width - 1].to(tl.int32, bitcast=True) < 0


@triton.constexpr_function
def minus_word(pieces, word):
    """A word of -P."""
    return (-sum(piece << 16 * at for at, piece in enumerate(pieces))) >> 32 * word & 0xFFFFFFFF


@triton.jit
def integer_words(
    groups, stream, inside, STREAMS: tl.constexpr, PART: tl.constexpr, BASIS: tl.constexpr,
    MODULUS: tl.constexpr, TAKEN: tl.constexpr, INVERSE: tl.constexpr,
    ASSEMBLY: tl.constexpr = False,
):  # fmt: skip
    """Words of X by the Chinese remainder theorem, 32 bits each, two's complement, lowest first.

    `groups` points at bytes c_i = (residue of X) (P/p_i)^-1 mod p_i, streams `stream` bytes apart;
    X = sum c_i P/p_i - q P. BASIS has, of every three moduli, the three P3/p_i (0 if there are
    fewer) and then P/P3 in words, P3 being their product; MODULUS has P in pieces of 16 bits.
    """
    first = group_sums(groups, stream, inside, BASIS, ASSEMBLY)
    if STREAMS == 3:
        apart = wide(stream) * moduli_in(BASIS)
        second = group_sums(groups + apart, stream, inside, BASIS, ASSEMBLY)
        third = second
        if PART == 1:
            third = group_sums(groups + 2 * apart, stream, inside, BASIS, ASSEMBLY)
        sums = combined(first, second, third, PART, BASIS, MODULUS)
        return words_of(sums, MODULUS, TAKEN, INVERSE, ASSEMBLY)
    else:
        return words_of(first, MODULUS, TAKEN, INVERSE, ASSEMBLY)


@triton.constexpr_function
def moduli_in(basis):
    """How many moduli there are."""
    return sum(factor != 0 for group in basis for factor in group[:3])


@triton.jit
def magnitude(words, negative, WORDS: tl.constexpr):
    """(high, middle, low, below, index) of |X| for `leading_bits`."""
    flip = tl.where(negative, 0xFFFFFFFF, 0).to(tl.uint32)
    carry = negative
    positive = ()
    for w in tl.static_range(0, WORDS - 1, 2):
        word = ((words[w + 1] ^ flip).to(tl.uint64) << 32) | (words[w] ^ flip).to(tl.uint64)
        word += carry.to(tl.uint64)
        carry = carry & (word == 0)
        positive = positive + (word.to(tl.uint32), (word >> 32).to(tl.uint32))
    if WORDS % 2 == 1:
        positive = positive + ((words[WORDS - 1] ^ flip) + carry.to(tl.uint32),)
    # Zeros on top go, eight, four, two words and one at a time; what falls below is only OR-ed.
    zero = tl.zeros_like(flip)
    kept = ()
    for w in tl.static_range(WORDS):
        kept = kept + (positive[WORDS - 1 - w],)
    kept = kept + (zero, zero)
    index = tl.full(flip.shape, WORDS - 1, tl.int32)
    for level in tl.static_range(4):
        if (8 >> level) < WORDS:
            kept, empty = moved_up(kept, 8 >> level, zero)
            index = tl.where(empty, index - (8 >> level), index)
    below = zero
    for w in tl.static_range(3, len(kept)):
        below |= kept[w]
    return kept[0], kept[1], kept[2], below, index


@triton.jit
def moved_up(words, BY: tl.constexpr, zero):
    """Words, the highest first, without the first BY if these are all 0, and whether they are.

    Only the first 2 + BY are kept apart: moves that follow are shorter.
    """
    top = words[0]
    for w in tl.static_range(1, BY):
        top |= words[w]
    empty = top == 0
    kept = ()
    last = zero
    for w in tl.static_range(len(words)):
        word = tl.where(empty, words[w + BY] if w + BY < len(words) else zero, words[w])
        if w < 2 + BY:
            kept = kept + (word,)
        else:
            last |= word
    return kept + (last,), empty
