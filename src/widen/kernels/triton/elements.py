"""Single elements on a GPU: certified again, repaired by exact dot products, or special.

Programs look through the marks of all elements and work on those that are set, so nobody needs to
know how many there are.
"""

from __future__ import annotations

import triton
import triton.language as tl

from widen.kernels.triton.numbers import (
    FLAGS,
    INEXACT,
    LARGEST,
    SCALE,
    SIGMA,
    WEIGHT,
    decode,
    highest_bit,
    leading,
    scaled_integer,
    shift_left,
    wide,
)
from widen.kernels.triton.reconstruct import SPECIAL_ELEMENT, UNCERTIFIED, UNFIT
from widen.kernels.triton.rounding import leading_bits, rounded, store_float

WINDOW = tl.constexpr(8)  # words of an exact sum that one pass over the terms finds
FAR = tl.constexpr(1 << 20)


@triton.jit
def is_certified(
    left, right, row_table, column_table, heights, widths, left_part, right_part, left_inner,
    right_inner, inner, kept, shift, both, always,
    PARTS: tl.constexpr, FRACTION: tl.constexpr, EXPONENT: tl.constexpr,
    RIGHT_FRACTION: tl.constexpr, RIGHT_EXPONENT: tl.constexpr, INNER: tl.constexpr,
):  # fmt: skip
    """The definitive test of `bounds.Certificate` for one element."""
    m, e = decode(tl.load(row_table + LARGEST * heights), FRACTION, EXPONENT)
    top = highest_bit(m) + e
    m, e = decode(tl.load(column_table + LARGEST * widths), RIGHT_FRACTION, RIGHT_EXPONENT)
    other_top = highest_bit(m) + e
    total = tl.zeros((INNER,), tl.int64)
    for start in range(0, inner, INNER):
        h = start + tl.arange(0, INNER)
        at, to = left + h.to(tl.int64) * left_inner, right + h.to(tl.int64) * right_inner
        ours, theirs = tl.zeros((INNER,), tl.int64), tl.zeros((INNER,), tl.int64)
        for part in tl.static_range(PARTS):
            x = tl.load(at + part * left_part, h < inner, other=0).to(tl.int64)
            y = tl.load(to + part * right_part, h < inner, other=0).to(tl.int64)
            mx, ex = decode(x, FRACTION, EXPONENT)
            my, ey = decode(y, RIGHT_FRACTION, RIGHT_EXPONENT)
            ours += leading(mx, top - ex, kept)
            theirs += leading(my, other_top - ey, kept)
        total += ours * theirs
    rounded_row = tl.load(row_table + FLAGS * heights) & INEXACT > 0
    rounded_column = tl.load(column_table + FLAGS * widths) & INEXACT > 0
    weights = always + tl.where(rounded_column, tl.load(row_table + WEIGHT * heights), 0)
    weights += tl.where(rounded_row, tl.load(column_table + WEIGHT * widths), 0)
    weights += tl.where(rounded_row & rounded_column, both, 0)
    sigma = tl.load(row_table + SIGMA * heights) + tl.load(column_table + SIGMA * widths)
    bound = shift_left(tl.sum(total, 0), sigma.to(tl.int32) + shift)
    return (weights <= 0) | (weights <= bound)


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
    low = (m * w).to(tl.uint64)
    high = tl.umulhi(m.to(tl.uint64), w.to(tl.uint64))
    return low, high, e + f, ((x < 0) != (y < 0)) != negated


@triton.jit
def pushed(word, here, high, middle, low, below, index):
    """Words seen from the lowest up: the highest that is not 0, the two after it, and the rest."""
    gap = here - index  # words since the last that was not 0
    some = word != 0
    after_one = tl.where(gap == 1, high, 0)
    after_two = tl.where(gap == 1, middle, tl.where(gap == 2, high, 0))
    lost = tl.where(gap == 1, low, tl.where(gap == 2, middle | low, high | middle | low))
    below = tl.where(some, below | lost, below)
    low = tl.where(some, after_two, low)
    middle = tl.where(some, after_one, middle)
    high = tl.where(some, word, high)
    return high, middle, low, below, tl.where(some, here, index)


@triton.jit
def exact_dot(
    left, right, left_part, right_part, left_inner, right_inner, inner, rounding, s, column_s,
    PARTS: tl.constexpr, PART: tl.constexpr, FRACTION: tl.constexpr, EXPONENT: tl.constexpr,
    RIGHT_FRACTION: tl.constexpr, RIGHT_EXPONENT: tl.constexpr, INNER: tl.constexpr,
):  # fmt: skip
    """One part of an exact dot product: `leading_bits` of its magnitude, sign, and exponent.

    Part 0 is re re - im im, part 1 re im + im re. Terms m w 2^e are summed in words of 32 bits from
    the lowest exponent on, WINDOW words in one pass over the terms; words of X and of -X are kept
    until the last one tells the sign.
    """
    lowest = tl.full((INNER,), FAR, tl.int32)
    highest = tl.full((INNER,), -FAR, tl.int32)
    for start in range(0, inner, INNER):
        h = start + tl.arange(0, INNER)
        for q in tl.static_range(PARTS):
            low, high, e, _ = term(
                left, right, h, inner, q * left_part, (q ^ PART) * right_part, left_inner,
                right_inner, False, rounding, s, column_s, FRACTION, EXPONENT, RIGHT_FRACTION,
                RIGHT_EXPONENT,
            )  # fmt: skip
            some = (low | high) != 0
            lowest = tl.minimum(lowest, tl.where(some, e, FAR))
            highest = tl.maximum(highest, tl.where(some, e, -FAR))
    base = tl.min(lowest, 0)
    span = tl.max(highest, 0) - base
    # 106 bits of a product, 30 of their sum, a sign: no words at all if every term is 0.
    words = tl.where(span < 0, 0, (span + 106 + 30) // 32 + 2)
    zero = tl.full((), 0, tl.uint32)
    h0, h1, h2, hb, hi = zero, zero, zero, zero, tl.full((), -1, tl.int32)
    n0, n1, n2, nb, ni = zero, zero, zero, zero, tl.full((), -1, tl.int32)
    carry, borrow = tl.full((), 0, tl.int64), tl.full((), 0, tl.int64)
    for window in range(0, words, WINDOW):
        sums = ()
        for _ in tl.static_range(WINDOW):
            sums = sums + (tl.zeros((INNER,), tl.int64),)
        for start in range(0, inner, INNER):
            h = start + tl.arange(0, INNER)
            for q in tl.static_range(PARTS):
                low, high, e, negative = term(
                    left, right, h, inner, q * left_part, (q ^ PART) * right_part, left_inner,
                    right_inner, PART == 0 and q == 1, rounding, s, column_s, FRACTION, EXPONENT,
                    RIGHT_FRACTION, RIGHT_EXPONENT,
                )  # fmt: skip
                place = tl.maximum(e - base, 0)
                shift = (place & 31).to(tl.uint64)
                # low and high, shifted by up to 31, as five words.
                middle = (high << 32) | (low >> 32)
                w0 = (low << shift) & 0xFFFFFFFF
                w1 = (low >> (32 - shift)) & 0xFFFFFFFF
                w2 = (middle >> (32 - shift)) & 0xFFFFFFFF
                w3 = (high >> (32 - shift)) & 0xFFFFFFFF
                w4 = (high >> 32) >> (32 - shift)
                word = place // 32 - window
                more = ()
                for t in tl.static_range(WINDOW):
                    one = tl.where(word == t, w0, 0) | tl.where(word == t - 1, w1, 0)
                    one |= tl.where(word == t - 2, w2, 0) | tl.where(word == t - 3, w3, 0)
                    one |= tl.where(word == t - 4, w4, 0)
                    signed = tl.where(negative, -one.to(tl.int64), one.to(tl.int64))
                    more = more + (sums[t] + signed,)
                sums = more
        for t in tl.static_range(WINDOW):
            total = tl.sum(sums[t], 0)
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


@triton.jit
def special_sum(
    left, right, left_part, right_part, left_inner, right_inner, inner,
    PARTS: tl.constexpr, PART: tl.constexpr, FRACTION: tl.constexpr, EXPONENT: tl.constexpr,
    RIGHT_FRACTION: tl.constexpr, RIGHT_EXPONENT: tl.constexpr, INNER: tl.constexpr,
):  # fmt: skip
    """(any NaN, any +infinity, any -infinity) among the terms of one part of a dot product."""
    nan = tl.zeros((INNER,), tl.int32)
    up, down = tl.zeros((INNER,), tl.int32), tl.zeros((INNER,), tl.int32)
    all_ones: tl.constexpr = (1 << EXPONENT) - 1
    other_ones: tl.constexpr = (1 << RIGHT_EXPONENT) - 1
    for start in range(0, inner, INNER):
        h = start + tl.arange(0, INNER)
        at, to = left + h.to(tl.int64) * left_inner, right + h.to(tl.int64) * right_inner
        for q in tl.static_range(PARTS):
            x = tl.load(at + q * left_part, h < inner, other=0).to(tl.int64)
            y = tl.load(to + (q ^ PART) * right_part, h < inner, other=0).to(tl.int64)
            x_zero = (x << (63 - FRACTION - EXPONENT)) << 1 == 0
            y_zero = (y << (63 - RIGHT_FRACTION - RIGHT_EXPONENT)) << 1 == 0
            x_odd = ((x >> FRACTION) & all_ones) == all_ones
            y_odd = ((y >> RIGHT_FRACTION) & other_ones) == other_ones
            x_nan = x_odd & ((x & ((1 << FRACTION) - 1)) != 0)
            y_nan = y_odd & ((y & ((1 << RIGHT_FRACTION) - 1)) != 0)
            infinite = (x_odd | y_odd) & ~x_nan & ~y_nan
            invalid = infinite & (x_zero | y_zero)
            negative = ((x < 0) != (y < 0)) != (PART == 0 and q == 1)
            nan |= (x_nan | y_nan | invalid).to(tl.int32)
            up |= (infinite & ~invalid & ~negative).to(tl.int32)
            down |= (infinite & ~invalid & negative).to(tl.int32)
    return tl.max(nan, 0) > 0, tl.max(up, 0) > 0, tl.max(down, 0) > 0


SIZES = [
    "m", "n", "inner", "batch", "left_batch", "right_batch", "left_part", "left_item", "left_line",
    "left_inner", "right_part", "right_item", "right_line", "right_inner", "part_stride",
    "batch_stride", "row_stride", "column_stride", "tested", "kept", "shift", "both", "always",
]  # fmt: skip


@triton.jit(do_not_specialize=SIZES)
def repair(
    left, right, out, marks, repaired, rows_table, columns_table, m, n, inner, batch, left_batch,
    right_batch, left_part, left_item, left_line, left_inner, right_part, right_item, right_line,
    right_inner, part_stride, batch_stride, row_stride, column_stride, tested, kept, shift, both,
    always,
    PARTS: tl.constexpr, FRACTION: tl.constexpr, EXPONENT: tl.constexpr,
    RIGHT_FRACTION: tl.constexpr, RIGHT_EXPONENT: tl.constexpr, PRECISION: tl.constexpr,
    LOWEST: tl.constexpr, HIGHEST: tl.constexpr, INNER: tl.constexpr, ELEMENTS: tl.constexpr,
):  # fmt: skip
    """Make every marked element final: certified after all, correctly rounded, or special.

    An element that did not fit its planes is computed from the lines' integers, unless the
    certificate (`tested` says if there is one) leaves it open. Marks of elements that were repaired
    become 3, those of all others 0 (2 if special); `repaired` counts them.
    """
    infinity: tl.constexpr = (HIGHEST - LOWEST - PRECISION + 2) << (PRECISION - 1)
    elements = batch * m * n
    count = 0
    for tile in range(tl.program_id(0), tl.cdiv(elements, ELEMENTS), tl.num_programs(0)):
        start = wide(tile) * ELEMENTS
        places = start + tl.arange(0, ELEMENTS)
        codes = tl.load(marks + places, places < elements, other=0).to(tl.int32)
        order = tl.arange(0, ELEMENTS)
        next_one = tl.min(tl.where(codes > 0, order, ELEMENTS), 0)
        while next_one < ELEMENTS:
            code = tl.max(tl.where(order == next_one, codes, 0), 0)
            codes = tl.where(order == next_one, 0, codes)
            place = start + next_one
            next_one = tl.min(tl.where(codes > 0, order, ELEMENTS), 0)
            j, i, b = place % n, place // n % m, place // n // m
            row, column = b % left_batch * m + i, b % right_batch * n + j
            ours = left + (b % left_batch) * left_item + i * left_line
            theirs = right + (b % right_batch) * right_item + j * right_line
            target = out + b * batch_stride + i * row_stride + j * column_stride
            s = tl.load(rows_table + SCALE * left_batch * m + row).to(tl.int32)
            t = tl.load(columns_table + SCALE * right_batch * n + column).to(tl.int32)
            fine = code == UNFIT
            if tested & ((code == UNCERTIFIED) | (code == UNFIT)):
                fine = is_certified(
                    ours, theirs, rows_table + row, columns_table + column, left_batch * m,
                    right_batch * n, left_part, right_part, left_inner, right_inner, inner, kept,
                    shift, both, always, PARTS, FRACTION, EXPONENT, RIGHT_FRACTION, RIGHT_EXPONENT,
                    INNER,
                )  # fmt: skip
            if fine:
                tl.store(marks + place, 0)
            if (not fine) | (code == UNFIT):
                if code == SPECIAL_ELEMENT:
                    for part in tl.static_range(PARTS):
                        nan, up, down = special_sum(
                            ours, theirs, left_part, right_part, left_inner, right_inner, inner,
                            PARTS, part, FRACTION, EXPONENT, RIGHT_FRACTION, RIGHT_EXPONENT, INNER,
                        )  # fmt: skip
                        invalid = nan | (up & down)
                        quiet = invalid.to(tl.int64) << (PRECISION - 2)
                        bits = tl.where(invalid | up | down, infinity | quiet, 0)
                        store_float(
                            target + part * part_stride, bits, down & ~invalid, True, PRECISION
                        )
                else:
                    for part in tl.static_range(PARTS):
                        length, head, sticky, some, negative, base = exact_dot(
                            ours, theirs, left_part, right_part, left_inner, right_inner, inner,
                            fine, s, t, PARTS, part, FRACTION, EXPONENT, RIGHT_FRACTION,
                            RIGHT_EXPONENT, INNER,
                        )  # fmt: skip
                        bits = rounded(length, head, sticky, base, PRECISION, LOWEST, HIGHEST)
                        bits = tl.where(some, bits, 0)
                        store_float(target + part * part_stride, bits, negative, True, PRECISION)
                    if not fine:
                        tl.store(marks + place, 3)
                        count += 1
    if count > 0:
        tl.atomic_add(repaired, count)
