"""Whether single elements keep their contract, decided exactly: device functions only."""

from __future__ import annotations

import triton
import triton.language as tl

from widen.gpu.kernels.triton.lines_words import side_of
from widen.gpu.kernels.triton.numbers import (
    AHEAD,
    LARGEST,
    NONZEROS,
    STEP,
    STOP,
    WEIGHT,
    decode,
    highest_bit,
    wide,
)


@triton.jit
def top_of(table, count, FRACTION: tl.constexpr, EXPONENT: tl.constexpr):
    """Exponent of the largest magnitude of the line at this place of its table."""
    m, e = decode(tl.load(table + LARGEST * count), FRACTION, EXPONENT)
    return highest_bit(m) + e


SHORT_LIMBS = tl.constexpr(10)  # of sums of products of short magnitudes, in units of 2^-266


@triton.jit
def as_float64(bits):
    """A float64 given by its bits."""
    return wide(bits).to(tl.float64, bitcast=True)


@triton.jit
def needed(row_table, column_table, heights, widths, inner, entry, both, dropped):
    """`bounds.Certificate.needed` of an element whose lines are at these places of their tables."""
    g = as_float64(tl.load(row_table + WEIGHT * heights))
    u = as_float64(tl.load(column_table + WEIGHT * widths))
    h = as_float64(tl.load(row_table + STEP * heights))
    w = as_float64(tl.load(column_table + STEP * widths))
    first = inner - tl.load(row_table + AHEAD * heights)
    begin = inner - tl.load(column_table + AHEAD * widths)
    stop = tl.minimum(tl.load(row_table + STOP * heights), tl.load(column_table + STOP * widths))
    many = tl.minimum(
        tl.load(row_table + NONZEROS * heights), tl.load(column_table + NONZEROS * widths)
    )
    shared = tl.minimum(tl.maximum(stop - tl.maximum(first, begin), 0), many).to(tl.float64)
    most = shared * as_float64(entry)
    sum_of_both = tl.minimum(g, most) * w + tl.minimum(u, most) * h
    return sum_of_both + (shared * as_float64(both) + as_float64(dropped)) * h * w


@triton.jit
def shared_span(row_table, column_table, heights, widths, inner):
    """Where both lines may have entries that are not 0: from, and up to."""
    ahead = tl.minimum(tl.load(row_table + AHEAD * heights), tl.load(column_table + AHEAD * widths))
    stop = tl.minimum(tl.load(row_table + STOP * heights), tl.load(column_table + STOP * widths))
    begin = inner - ahead
    return tl.minimum(begin, inner), tl.maximum(stop, begin).to(tl.int32)


@triton.jit
def short_magnitude(x, at, word, words, inside, top, FRACTION: tl.constexpr, EXPONENT: tl.constexpr,
                    SEVERAL: tl.constexpr):  # fmt: skip
    """|x| 2^-top rounded down to 8 bits as m 2^(-7 - d): m below 256, or 0, and d up to 126."""
    m, e = decode(x, FRACTION, EXPONENT)
    if SEVERAL:
        m -= side_of(x, at, word, words, inside, FRACTION, EXPONENT)[1]
    place = highest_bit(m)
    distance = top - place - e
    short = (m << tl.maximum(7 - place, 0).to(tl.int64)) >> tl.maximum(place - 7, 0).to(tl.int64)
    seen = (m > 0) & (distance <= 126)
    return tl.where(seen, short, 0), tl.where(seen, distance, 0)


@triton.jit
def short_product(
    left, right, h, top, other_top, left_inner, right_inner, left_word, right_word, left_words,
    right_words, inner,
    FRACTION: tl.constexpr, EXPONENT: tl.constexpr, RIGHT_FRACTION: tl.constexpr,
    RIGHT_EXPONENT: tl.constexpr, SEVERAL: tl.constexpr,
):  # fmt: skip
    """Products of short magnitudes of entries h, m 2^(-14 - d): m, d, and if neither is 0."""
    at, to = left + h.to(tl.int64) * left_inner, right + h.to(tl.int64) * right_inner
    x = tl.load(at, h < inner, other=0).to(tl.int64)
    y = tl.load(to, h < inner, other=0).to(tl.int64)
    a, d = short_magnitude(
        x, at, left_word, left_words, h < inner, top, FRACTION, EXPONENT, SEVERAL
    )
    b, e = short_magnitude(
        y, to, right_word, right_words, h < inner, other_top, RIGHT_FRACTION, RIGHT_EXPONENT,
        SEVERAL,
    )  # fmt: skip
    there = (decode(x, FRACTION, EXPONENT)[0] != 0).to(tl.int32)
    there &= (decode(y, RIGHT_FRACTION, RIGHT_EXPONENT)[0] != 0).to(tl.int32)
    return a * b, d + e, there


@triton.jit
def nearly(
    left, right, top, other_top, left_part, right_part, left_inner, right_inner, left_word,
    right_word, left_words, right_words, inner,
    PARTS: tl.constexpr, FRACTION: tl.constexpr, EXPONENT: tl.constexpr,
    RIGHT_FRACTION: tl.constexpr, RIGHT_EXPONENT: tl.constexpr, INNER: tl.constexpr,
    SEVERAL: tl.constexpr,
):  # fmt: skip
    """The sum that the test is about, as a float64, right to 2^-24 of it: products are exact."""
    total = tl.zeros((INNER,), tl.float64)
    for pair in range(PARTS * PARTS):
        q, r = pair // PARTS, pair % PARTS
        for start in range(0, inner, INNER):
            product, distance, _ = short_product(
                left + q * left_part, right + r * right_part, start + tl.arange(0, INNER), top,
                other_top, left_inner, right_inner, left_word, right_word, left_words, right_words,
                inner, FRACTION, EXPONENT, RIGHT_FRACTION, RIGHT_EXPONENT, SEVERAL,
            )  # fmt: skip
            unit = ((1023 - 14 - distance).to(tl.int64) << 52).to(tl.float64, bitcast=True)
            total += product.to(tl.int32).to(tl.float64) * unit
    return tl.sum(total, 0)


@triton.jit
def is_certified(
    left, right, row_table, column_table, heights, widths, left_part, right_part, left_inner,
    right_inner, left_word, right_word, left_words, right_words, inner, entry, both, dropped,
    PARTS: tl.constexpr, FRACTION: tl.constexpr, EXPONENT: tl.constexpr,
    RIGHT_FRACTION: tl.constexpr, RIGHT_EXPONENT: tl.constexpr, INNER: tl.constexpr,
    SEVERAL: tl.constexpr,
):  # fmt: skip
    """The definitive test of `bounds.Certificate` for one element: in integers where it is close.

    SEVERAL: numbers have so many words, and those after the first may make it smaller.
    """
    top = top_of(row_table, heights, FRACTION, EXPONENT)
    other_top = top_of(column_table, widths, RIGHT_FRACTION, RIGHT_EXPONENT)
    limit = needed(row_table, column_table, heights, widths, inner, entry, both, dropped)
    about = nearly(
        left, right, top, other_top, left_part, right_part, left_inner, right_inner, left_word,
        right_word, left_words, right_words, inner, PARTS, FRACTION, EXPONENT, RIGHT_FRACTION,
        RIGHT_EXPONENT, INNER, SEVERAL,
    )  # fmt: skip
    certified = about > limit * (1 + 2.0**-20)
    if (not certified) & ((about > limit * (1 - 2.0**-20)) | (about == 0)):
        certified = is_certified_exactly(
            left, right, top, other_top, limit, left_part, right_part, left_inner, right_inner,
            left_word, right_word, left_words, right_words, inner, PARTS, FRACTION, EXPONENT,
            RIGHT_FRACTION, RIGHT_EXPONENT, INNER, SEVERAL,
        )  # fmt: skip
    return certified


@triton.jit
def is_certified_exactly(
    left, right, top, other_top, limit, left_part, right_part, left_inner, right_inner, left_word,
    right_word, left_words, right_words, inner,
    PARTS: tl.constexpr, FRACTION: tl.constexpr, EXPONENT: tl.constexpr,
    RIGHT_FRACTION: tl.constexpr, RIGHT_EXPONENT: tl.constexpr, INNER: tl.constexpr,
    SEVERAL: tl.constexpr,
):  # fmt: skip
    """The same in integers; and whether the lines share an entry at all."""
    sums = ()
    for _ in tl.static_range(SHORT_LIMBS):
        sums = sums + (tl.zeros((INNER,), tl.int64),)
    shares = tl.zeros((INNER,), tl.int32)
    for pair in range(PARTS * PARTS):
        q, r = pair // PARTS, pair % PARTS
        for start in range(0, inner, INNER):
            product, distance, there = short_product(
                left + q * left_part, right + r * right_part, start + tl.arange(0, INNER), top,
                other_top, left_inner, right_inner, left_word, right_word, left_words, right_words,
                inner, FRACTION, EXPONENT, RIGHT_FRACTION, RIGHT_EXPONENT, SEVERAL,
            )  # fmt: skip
            shares |= there
            place = 252 - distance
            word = product << (place & 31).to(tl.int64)
            limb, low, high = place >> 5, word & 0xFFFFFFFF, word >> 32
            more = ()
            for l in tl.static_range(SHORT_LIMBS):
                added = tl.where(limb == l, low, 0) + tl.where(limb == l - 1, high, 0)
                more = more + (sums[l] + added,)
            sums = more
    # The limit, rounded up to a unit: a mantissa and its place. Beyond the sum's range it is not
    # reached.
    mantissa, exponent = decode(limit.to(tl.int64, bitcast=True), 52, 11)
    up = exponent + 266
    down = tl.minimum(tl.maximum(-up, 0), 60).to(tl.int64)
    mantissa = (mantissa + (tl.full((), 1, tl.int64) << down) - 1) >> down
    up = tl.maximum(up, 0)
    carry, less = tl.full((), 0, tl.int64), tl.full((), False, tl.int1)
    for l in tl.static_range(SHORT_LIMBS):
        carry += tl.sum(sums[l], 0)
        ours, carry = carry & 0xFFFFFFFF, carry >> 32
        right_by = tl.minimum(tl.maximum(32 * l - up, 0), 63).to(tl.int64)
        left_by = tl.minimum(tl.maximum(up - 32 * l, 0), 32).to(tl.int64)
        theirs = ((mantissa >> right_by) << left_by) & 0xFFFFFFFF
        # Higher limbs decide; they come later.
        less = (ours < theirs) | ((ours == theirs) & less)
    reached = (~less & (up <= 300)) | (mantissa == 0)
    return reached | (tl.max(shares, 0) == 0)
