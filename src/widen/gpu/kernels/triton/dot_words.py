"""Exact dot products of numbers of several words, limb by limb into memory: device functions only.

As `dot`, with every word of one factor times every word of the other. Apart from it because all
limbs are wanted here: `dot` keeps the highest in registers, and writes nothing to memory.
"""

from __future__ import annotations

import triton
import triton.language as tl

from widen.gpu.kernels.triton.dot import (
    FAR,
    WINDOW,
    addend_term,
    in_window,
    spread,
    stretched,
    times_alpha,
)
from widen.gpu.kernels.triton.limbs import NEVER, last_bit
from widen.gpu.kernels.triton.numbers import decode, long_product, wide


@triton.jit
def word_integer(x, y, s, FRACTION: tl.constexpr, EXPONENT: tl.constexpr):
    """(r, left) with |x| 2^s rounded to r 2^left, y being the next word: r <= 2^53, left >= 0.

    The sum of these is round(x 2^s), to nearest even, of the value x. A word that lies above the
    point is an integer. The first that reaches below it is rounded to nearest; in a tie the sign of
    the next word decides, and only where there is none the even number wins (of the sum as well:
    what is above is a multiple of 4, or it is even because its own last word was a tie). Words
    after it are 1/4 at most, and one below 1/2 is rounded to 0: with all that follows it stays
    below 1/2.
    """
    m, e = decode(x, FRACTION, EXPONENT)
    left = e + s
    right = tl.minimum(tl.maximum(-left, 0), 55).to(tl.int64)
    half = (tl.full(m.shape, 1, tl.int64) << right) >> 1
    alone = (y & ((1 << (FRACTION + EXPONENT)) - 1)) == 0
    away = tl.where(alone, (m >> right) & 1, ((x < 0) == (y < 0)).to(tl.int64))
    return (m + tl.where(half > 0, half - 1 + away, 0)) >> right, tl.maximum(left, 0)


@triton.jit
def word_at(
    source, at, inside, word, words, stride, rounding, s, FRACTION: tl.constexpr,
    EXPONENT: tl.constexpr,
):  # fmt: skip
    """(m, e, sign) of a word; with `rounding`, of its share of round(x 2^s), scaled back."""
    x = tl.load(source + at + wide(word) * stride, inside, other=0).to(tl.int64)
    m, e = decode(x, FRACTION, EXPONENT)
    if rounding:
        following = wide(tl.minimum(word + 1, words - 1)) * stride
        y = tl.load(source + at + following, inside, other=0).to(tl.int64)
        y = tl.where(word + 1 < words, y, 0)
        m, e = word_integer(x, y, s, FRACTION, EXPONENT)
        e -= s
    return m, e, x < 0


@triton.jit
def term_of(
    left, right, h, inner, index, part, left_word, left_part, left_inner, left_words, right_word,
    right_part, right_inner, right_words, rounding, s, t, alpha, alpha_i, PARTS: tl.constexpr,
    FRACTION: tl.constexpr, EXPONENT: tl.constexpr, RIGHT_FRACTION: tl.constexpr,
    RIGHT_EXPONENT: tl.constexpr, SCALED: tl.constexpr,
):  # fmt: skip
    """Terms number `index` of a part, as `dot.scaled_term`: two words' product."""
    pair = index // (left_words * right_words)
    ours, theirs = index // right_words % left_words, index % right_words
    q, r = pair // PARTS, pair % PARTS
    if not SCALED:
        q = part
    inside = h < inner
    m, e, minus = word_at(
        left + wide(r) * left_part, h.to(tl.int64) * left_inner, inside, ours, left_words,
        left_word, rounding, s, FRACTION, EXPONENT,
    )  # fmt: skip
    w, f, down = word_at(
        right + wide(r ^ q) * right_part, h.to(tl.int64) * right_inner, inside, theirs, right_words,
        right_word, rounding, t, RIGHT_FRACTION, RIGHT_EXPONENT,
    )  # fmt: skip
    low, high = long_product(m, w)
    top = tl.zeros_like(high)
    negative = (minus != down) != ((q == 0) & (r == 1))
    e += f
    if SCALED:
        factor = tl.where(q == part, wide(alpha), wide(alpha_i))
        negated = (part == 0) & (q == 1)
        low, high, top, e, negative = times_alpha(low, high, e, negative, factor, negated)
    return low, high, top, e, negative


@triton.jit
def word_of_addend(c, at, part, c_part, c_word, c_words, beta, beta_i, C_FIELDS: tl.constexpr):
    """`dot.addend_term` of word number `at` of c as it enters a part."""
    of_part = at // c_words
    bits = tl.load(c + wide(of_part) * c_part + wide(at % c_words) * c_word).to(tl.int64)
    factor = tl.where(part == of_part, wide(beta), wide(beta_i))
    return addend_term(factor, bits, (part == 0) & (of_part == 1), C_FIELDS)


@triton.jit
def plus_signed(sums, words, negative):
    """Sums with words added or subtracted."""
    more = ()
    for i in tl.static_range(len(sums)):
        word = words[i].to(tl.int64)
        more = more + (sums[i] + tl.where(negative, -word, word),)
    return more


@triton.jit
def exact_dot(
    left, right, c, limbs, inner, part, left_word, left_part, left_inner, left_words, right_word,
    right_part, right_inner, right_words, rounding, s, t, c_word, c_part, c_words, alpha, alpha_i,
    beta, beta_i, PARTS: tl.constexpr, FRACTION: tl.constexpr, EXPONENT: tl.constexpr,
    RIGHT_FRACTION: tl.constexpr, RIGHT_EXPONENT: tl.constexpr, SCALED: tl.constexpr,
    C_PARTS: tl.constexpr, C_FIELDS: tl.constexpr, INNER: tl.constexpr,
):  # fmt: skip
    """Store a part's limbs: (how many, place of the last bit, sign, exponent of bit 0)."""
    lowest = tl.full((INNER,), FAR, tl.int32)
    highest = tl.full((INNER,), -FAR, tl.int32)
    terms = left_words * right_words * PARTS
    if SCALED:
        terms *= PARTS
    for index in range(terms):
        for start in range(0, inner, INNER):
            low, high, top, e, _ = term_of(
                left, right, start + tl.arange(0, INNER), inner, index, part, left_word, left_part,
                left_inner, left_words, right_word, right_part, right_inner, right_words, rounding,
                s, t, alpha, alpha_i, PARTS, FRACTION, EXPONENT, RIGHT_FRACTION, RIGHT_EXPONENT,
                SCALED,
            )  # fmt: skip
            lowest, highest = stretched(lowest, highest, e, (low | high | top) != 0)
    base, last = tl.min(lowest, 0), tl.max(highest, 0)
    if SCALED:
        for at in range(C_PARTS * c_words):
            low, high, e, _ = word_of_addend(
                c, at, part, c_part, c_word, c_words, beta, beta_i, C_FIELDS
            )
            base, last = stretched(base, last, e, (low | high) != 0)
    # 159 bits of a product of three, 31 and 9 of their sum, a sign: none if every term is 0.
    bits: tl.constexpr = (159 if SCALED else 106) + 40
    count = tl.where(last < base, 0, (last - base + bits) // 32 + 2)
    carry = tl.full((), 0, tl.int64)
    place, first = tl.full((), -1, tl.int32), tl.full((), 0, tl.uint32)
    for window in range(0, count, WINDOW):
        sums = ()
        for _ in tl.static_range(WINDOW):
            sums = sums + (tl.zeros((INNER,), tl.int64),)
        for index in range(terms):
            for start in range(0, inner, INNER):
                low, high, top, e, negative = term_of(
                    left, right, start + tl.arange(0, INNER), inner, index, part, left_word,
                    left_part, left_inner, left_words, right_word, right_part, right_inner,
                    right_words, rounding, s, t, alpha, alpha_i, PARTS, FRACTION, EXPONENT,
                    RIGHT_FRACTION, RIGHT_EXPONENT, SCALED,
                )  # fmt: skip
                up = tl.maximum(e - base, 0)
                sums = plus_signed(
                    sums, in_window(spread(low, high, top, up), up // 32 - window), negative
                )
        totals = ()
        for i in tl.static_range(WINDOW):
            totals = totals + (tl.sum(sums[i], 0),)
        if SCALED:
            for at in range(C_PARTS * c_words):
                low, high, e, minus = word_of_addend(
                    c, at, part, c_part, c_word, c_words, beta, beta_i, C_FIELDS
                )
                up = tl.maximum(e - base, 0)
                totals = plus_signed(
                    totals, in_window(spread(low, high, high & 0, up), up // 32 - window), minus
                )
        for i in tl.static_range(WINDOW):
            carry += totals[i]
            limb = (carry & 0xFFFFFFFF).to(tl.uint32)
            tl.store(limbs + window + i, limb.to(tl.int32, bitcast=True))
            new = (place < 0) & (limb != 0)
            place = tl.where(new, window + i, place)
            first = tl.where(new, limb, first)
            carry = carry >> 32
    last_place = tl.where(place < 0, NEVER, 32 * place + last_bit(first))
    return tl.cdiv(count, WINDOW) * WINDOW, last_place, carry < 0, base
