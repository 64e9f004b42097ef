"""Exact dot products of single elements, in words of 32 bits: device functions only."""

from __future__ import annotations

import triton
import triton.language as tl

from widen.gpu.kernels.triton.numbers import decode, long_product, scaled_integer
from widen.gpu.kernels.triton.rounding import leading_bits

WINDOW = tl.constexpr(8)  # words of an exact sum that one pass over the terms finds
FAR = tl.constexpr(1 << 20)


@triton.jit
def term(
    left, right, h, inner, x_offset, y_offset, left_inner, right_inner, negated, rounding, s, t,
    FRACTION: tl.constexpr, EXPONENT: tl.constexpr, RIGHT_FRACTION: tl.constexpr,
    RIGHT_EXPONENT: tl.constexpr,
):  # fmt: skip
    """Products of mantissas (low and high half), their exponents, and whether they count down.

    With `rounding`, of the lines' integers round(x 2^s) and round(y 2^t), scaled back.
    """
    x = tl.load(left + x_offset + h.to(tl.int64) * left_inner, h < inner, other=0).to(tl.int64)
    y = tl.load(right + y_offset + h.to(tl.int64) * right_inner, h < inner, other=0).to(tl.int64)
    m, e = decode(x, FRACTION, EXPONENT)
    w, f = decode(y, RIGHT_FRACTION, RIGHT_EXPONENT)
    if rounding:
        m, e = scaled_integer(m, e, s)
        w, f = scaled_integer(w, f, t)
        e, f = e - s, f - t
    low, high = long_product(m, w)
    return low, high, e + f, ((x < 0) != (y < 0)) != negated


@triton.jit
def times_alpha(low, high, e, negative, alpha, negated):
    """Terms of 128 bits times alpha (its bits): as `scaled_term` gives them."""
    m, f = decode(alpha, 52, 11)
    factor = tl.zeros_like(low) + m.to(tl.uint64)
    middle = tl.umulhi(low, factor)
    top = tl.umulhi(high, factor)
    high = high * factor + middle
    top += (high < middle).to(tl.uint64)
    return low * factor, high, top, e + f, (negative != (alpha < 0)) != negated


@triton.jit
def scaled_term(
    left, right, h, inner, left_part, right_part, left_inner, right_inner, rounding, s, t, scalars,
    q, r, part, SCALED: tl.constexpr, FRACTION: tl.constexpr, EXPONENT: tl.constexpr,
    RIGHT_FRACTION: tl.constexpr, RIGHT_EXPONENT: tl.constexpr,
):  # fmt: skip
    """Terms x_r y_(r^q) of part q of a product, times alpha (SCALED) as they enter a part.

    Three pieces of 64 bits, lowest first, exponents, and whether they count down. Part 0 of a
    product (and of alpha times a number) is re re - im im, part 1 re im + im re.
    """
    low, high, e, negative = term(
        left, right, h, inner, r * left_part, (r ^ q) * right_part, left_inner, right_inner,
        (q == 0) & (r == 1), rounding, s, t, FRACTION, EXPONENT, RIGHT_FRACTION, RIGHT_EXPONENT,
    )  # fmt: skip
    top = tl.zeros_like(high)
    if SCALED:
        alpha = tl.where(q == part, scalars[0], scalars[1])
        negated = (part == 0) & (q == 1)
        low, high, top, e, negative = times_alpha(low, high, e, negative, alpha, negated)
    return low, high, top, e, negative


@triton.jit
def addend_term(beta, c, negated, C_FIELDS: tl.constexpr):
    """Beta times c, given their bits: a piece of 64 bits, another, the exponent, and the sign."""
    m, e = decode(beta, 52, 11)
    w, f = decode(c, C_FIELDS[0], C_FIELDS[1])
    low, high = long_product(m, w)
    return low, high, e + f, ((beta < 0) != (c < 0)) != negated


@triton.jit
def addend_of_part(scalars, part, Q: tl.constexpr, C_FIELDS: tl.constexpr):
    """`addend_term` of part Q of c as it enters a part."""
    beta = tl.where(part == Q, scalars[2], scalars[3])
    return addend_term(beta, scalars[4 + Q], (part == 0) & (Q == 1), C_FIELDS)


@triton.jit
def spread(low, middle, high, place):
    """A number in three pieces of 64 bits, shifted up by place mod 32, as six words of 32 bits."""
    up = (place & 31).to(tl.uint64)
    down = 32 - up
    return (
        (low << up).to(tl.uint32),
        (low >> down).to(tl.uint32),
        (((middle << 32) | (low >> 32)) >> down).to(tl.uint32),
        (middle >> down).to(tl.uint32),
        (((high << 32) | (middle >> 32)) >> down).to(tl.uint32),
        (high >> down).to(tl.uint32),
    )


@triton.jit
def moved(words, up, BY: tl.constexpr, FIRST: tl.constexpr, END: tl.constexpr):
    """Words FIRST to END - 1 of numbers, moved up by BY words where `up`."""
    more = ()
    for t in tl.static_range(FIRST, END):
        stays = words[t] if t < len(words) else words[0] & 0
        comes = words[t - BY] if t >= BY and t - BY < len(words) else words[0] & 0
        more = more + (tl.where(up, comes, stays),)
    return more


@triton.jit
def in_window(words, first):
    """The WINDOW words from word 0 on of numbers whose six words begin at word `first`.

    Moved by 1, 2, 4 and 8 words as the bits of first + 5 say: 15 moves them out of sight.
    """
    by = tl.where((first >= -5) & (first < WINDOW), first + 5, 15)
    words = moved(words, (by & 1) > 0, 1, 0, 7)
    words = moved(words, (by & 2) > 0, 2, 0, 9)
    words = moved(words, (by & 4) > 0, 4, 0, 13)
    return moved(words, (by & 8) > 0, 8, 5, 5 + WINDOW)


@triton.jit
def pushed(word, here, high, middle, low, below, index):
    """Words seen from the lowest up: the highest that is not 0, the two after it, and the rest."""
    gap = here - index  # words since the last that was not 0
    nonzero = word != 0
    after_one = tl.where(gap == 1, high, 0)
    after_two = tl.where(gap == 1, middle, tl.where(gap == 2, high, 0))
    lost = tl.where(gap == 1, low, tl.where(gap == 2, middle | low, high | middle | low))
    below = tl.where(nonzero, below | lost, below)
    low = tl.where(nonzero, after_two, low)
    middle = tl.where(nonzero, after_one, middle)
    high = tl.where(nonzero, word, high)
    return high, middle, low, below, tl.where(nonzero, here, index)


@triton.jit
def stretched(lowest, highest, e, given):
    """The lowest and the highest exponent, with those of terms that are not 0."""
    lowest = tl.minimum(lowest, tl.where(given, e, FAR))
    return lowest, tl.maximum(highest, tl.where(given, e, -FAR))


@triton.jit
def exact_dot(
    left, right, left_part, right_part, left_inner, right_inner, inner, rounding, s, column_s,
    scalars, part, PARTS: tl.constexpr, FRACTION: tl.constexpr,
    EXPONENT: tl.constexpr, RIGHT_FRACTION: tl.constexpr, RIGHT_EXPONENT: tl.constexpr,
    SCALED: tl.constexpr, C_PARTS: tl.constexpr, C_FIELDS: tl.constexpr, INNER: tl.constexpr,
):  # fmt: skip
    """One part of an exact dot product: `leading_bits` of its magnitude, sign, and exponent.

    With SCALED, of alpha times it plus beta c; `scalars` are the bits of alpha, beta and c, part by
    part. Terms m 2^e are summed in words of 32 bits from the lowest exponent on, WINDOW words in
    one pass over the terms; words of X and of -X are kept until the last one tells the sign.
    """
    lowest = tl.full((INNER,), FAR, tl.int32)
    highest = tl.full((INNER,), -FAR, tl.int32)
    # Pairs q, r of parts: all of them, or those of this part.
    begin, end = part * PARTS, (part + 1) * PARTS
    if SCALED:
        begin, end = 0, PARTS * PARTS
    for pair in range(begin, end):
        for start in range(0, inner, INNER):
            low, high, top, e, _ = scaled_term(
                left, right, start + tl.arange(0, INNER), inner, left_part, right_part, left_inner,
                right_inner, rounding, s, column_s, scalars, pair // PARTS, pair % PARTS, part,
                SCALED, FRACTION, EXPONENT, RIGHT_FRACTION, RIGHT_EXPONENT,
            )  # fmt: skip
            lowest, highest = stretched(lowest, highest, e, (low | high | top) != 0)
    base, last = tl.min(lowest, 0), tl.max(highest, 0)
    if SCALED:
        for q in tl.static_range(C_PARTS):
            c_low, c_high, c_exponent, down_c = addend_of_part(scalars, part, q, C_FIELDS)
            base, last = stretched(base, last, c_exponent, (c_low | c_high) != 0)
    # 159 bits of a product of three, 31 of their sum, a sign: no words at all if every term is 0.
    bits: tl.constexpr = (159 if SCALED else 106) + 31
    words = tl.where(last < base, 0, (last - base + bits) // 32 + 2)
    zero = tl.full((), 0, tl.uint32)
    h0, h1, h2, hb, hi = zero, zero, zero, zero, tl.full((), -1, tl.int32)
    n0, n1, n2, nb, ni = zero, zero, zero, zero, tl.full((), -1, tl.int32)
    carry, borrow = tl.full((), 0, tl.int64), tl.full((), 0, tl.int64)
    for window in range(0, words, WINDOW):
        sums = ()
        for _ in tl.static_range(WINDOW):
            sums = sums + (tl.zeros((INNER,), tl.int64),)
        ones = tl.zeros((INNER,), tl.int32)
        for pair in range(begin, end):
            for start in range(0, inner, INNER):
                low, high, top, e, negative = scaled_term(
                    left, right, start + tl.arange(0, INNER), inner, left_part, right_part,
                    left_inner, right_inner, rounding, s, column_s, scalars, pair // PARTS,
                    pair % PARTS, part, SCALED, FRACTION, EXPONENT, RIGHT_FRACTION, RIGHT_EXPONENT,
                )  # fmt: skip
                place = tl.maximum(e - base, 0)
                pieces = in_window(spread(low, high, top, place), place // 32 - window)
                # -x is ~x + 1: ones are counted, and added at the end.
                minus = -(negative.to(tl.int32))
                ones += negative.to(tl.int32)
                more = ()
                for t in tl.static_range(WINDOW):
                    word = (pieces[t] ^ minus.to(tl.uint32, bitcast=True)).to(tl.int64)
                    more = more + (sums[t] + (word | (minus.to(tl.int64) << 32)),)
                sums = more
        ups = tl.sum(ones, 0)
        for t in tl.static_range(WINDOW):
            total = tl.sum(sums[t], 0) + ups
            if SCALED:
                for q in tl.static_range(C_PARTS):
                    c_low, c_high, c_exponent, down_c = addend_of_part(scalars, part, q, C_FIELDS)
                    c_place = tl.maximum(c_exponent - base, 0)
                    c_pieces = in_window(
                        spread(c_low, c_high, c_high & 0, c_place), c_place // 32 - window
                    )
                    word_c = c_pieces[t].to(tl.int64)
                    total += tl.where(down_c, -word_c, word_c)
            carry += total
            borrow -= total
            up = (carry & 0xFFFFFFFF).to(tl.uint32)
            down = (borrow & 0xFFFFFFFF).to(tl.uint32)
            carry, borrow = carry >> 32, borrow >> 32
            here = window + t
            h0, h1, h2, hb, hi = pushed(up, here, h0, h1, h2, hb, hi)
            n0, n1, n2, nb, ni = pushed(down, here, n0, n1, n2, nb, ni)
    negative = carry < 0
    high, middle = tl.where(negative, n0, h0), tl.where(negative, n1, h1)
    low, below = tl.where(negative, n2, h2), tl.where(negative, nb, hb)
    index = tl.where(negative, ni, hi)
    length, head, sticky = leading_bits(high, middle, low, below, index)
    return length, head, sticky, high != 0, negative, base
