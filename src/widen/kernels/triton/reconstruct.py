"""Reconstruction: residues to one exact integer, rounded once."""

from __future__ import annotations

import triton
import triton.language as tl

from widen.kernels.triton.numbers import (
    FLAGS,
    INEXACT,
    MAGIC,
    NORM,
    NORM_BITS,
    SCALE,
    SIGMA,
    SPECIAL,
    SUM,
    highest_bit,
    wide,
)
from widen.kernels.triton.rounding import leading_bits, rounded, store_float

UNCERTIFIED = tl.constexpr(1)  # marks: to be tested again, and repaired if it fails
SPECIAL_ELEMENT = tl.constexpr(2)  # meets an infinity or a NaN
UNSETTLED = tl.constexpr(3)  # to be repaired
UNFIT = tl.constexpr(4)  # X does not fit its planes: to be computed by itself
REPAIRED = tl.constexpr(5)  # has become the correctly rounded one


@triton.jit
def integer_words(
    groups, stream, inside, STREAMS: tl.constexpr, PART: tl.constexpr, BASIS: tl.constexpr,
    MODULUS: tl.constexpr, HIGHEST_PIECE: tl.constexpr, INVERSE: tl.constexpr,
):  # fmt: skip
    """X in words of 32 bits, two's complement, lowest first: the Chinese remainder theorem.

    `groups` points at bytes c_i = (residue of X) (P/p_i)^-1 mod p_i, streams `stream` bytes apart;
    X = sum c_i P/p_i - q P with q = rint(sum c_i/p_i). BASIS has P/p_i and MODULUS has P in pieces
    of 16 bits: at most 49 terms of 9 + 16 bits fit an int32. The three highest pieces of the sum,
    as floats, give q: what they leave out is 2^-18 P at most, and |X|/P is below 1/2 - 2^-9.
    """
    count: tl.constexpr = len(BASIS)
    pieces: tl.constexpr = len(MODULUS)
    sums = ()
    for piece in tl.static_range(pieces):
        sums = sums + (tl.zeros(inside.shape, tl.int32),)
    for c in tl.static_range(count):
        at = groups + wide(stream) * c
        value = tl.load(at, inside, other=0).to(tl.int32)
        if STREAMS == 3:
            second = tl.load(at + wide(stream) * count, inside, other=0).to(tl.int32)
            if PART == 0:
                value = value - second
            else:
                third = tl.load(at + wide(stream) * (2 * count), inside, other=0).to(tl.int32)
                value = third - value - second
        more = ()
        for piece in tl.static_range(pieces):
            more = more + (sums[piece] + value * BASIS[c][piece],)
        sums = more
    top: tl.constexpr = HIGHEST_PIECE
    quotient = sums[top].to(tl.float32) * INVERSE
    quotient += sums[top - 1].to(tl.float32) * (INVERSE / 65536)
    quotient += sums[top - 2].to(tl.float32) * (INVERSE / 65536 / 65536)
    q = (quotient + MAGIC).to(tl.int32, bitcast=True) - 0x4B400000
    words = ()
    carry = tl.zeros(inside.shape, tl.int32)
    for piece in tl.static_range(0, pieces, 2):
        low = sums[piece] - q * MODULUS[piece] + carry
        high = sums[piece + 1] - q * MODULUS[piece + 1] + (low >> 16)
        carry = high >> 16
        words = words + (((low & 0xFFFF) | (high << 16)).to(tl.uint32, bitcast=True),)
    return words, carry < 0


@triton.jit
def magnitude(words, negative, WORDS: tl.constexpr):
    """(high, middle, low, below, index) of |X| for `leading_bits`."""
    flip = tl.where(negative, 0xFFFFFFFF, 0).to(tl.uint32)
    carry = negative.to(tl.uint32)
    positive = ()
    for w in tl.static_range(WORDS):
        word = (words[w] ^ flip) + carry
        carry = (carry != 0).to(tl.uint32) & (word == 0).to(tl.uint32)
        positive = positive + (word,)
    high = tl.zeros_like(flip)
    middle, low, below = high, high, high
    index = tl.zeros(flip.shape, tl.int32)
    for w in tl.static_range(WORDS):
        above = positive[w]
        for v in tl.static_range(w + 1, WORDS):
            above |= positive[v]
        taken = above != 0
        below = tl.where(taken, below | low, below)
        low = tl.where(taken, middle, low)
        middle = tl.where(taken, high, middle)
        high = tl.where(taken, positive[w], high)
        index = tl.where(taken, w, index)
    return high, middle, low, below, index


@triton.jit
def magnitude_bits(q1, sigma):
    """Exponents v with 2^s ||a||_1 < 2^v."""
    return tl.maximum(highest_bit(q1) + 1 + sigma - NORM_BITS, 0)


@triton.jit
def error_bits(
    at_row, at_column, heights, widths, i_inside, j_inside, row_flags, column_flags, always
):
    """Exponents e with |error of X| <= 2^e as in `bounds`; 1 where X is exact, else 2 or more."""
    sigma = tl.load(at_row + SIGMA * heights, i_inside, other=0).to(tl.int32)
    tau = tl.load(at_column + SIGMA * widths, j_inside, other=0).to(tl.int32)
    v = magnitude_bits(tl.load(at_row + SUM * heights, i_inside, other=0), sigma)
    u = magnitude_bits(tl.load(at_column + SUM * widths, j_inside, other=0), tau)
    rounded_row = (row_flags & INEXACT > 0)[:, None]
    rounded_column = (column_flags & INEXACT > 0)[None, :]
    largest = tl.where(rounded_column, tl.maximum(v[:, None], always), -1)
    other = tl.where(rounded_row, tl.maximum(u[None, :], always), -1)
    return tl.maximum(largest, other) + 2


@triton.jit
def is_settled(
    length, head, some, base, error, PRECISION: tl.constexpr, LOWEST: tl.constexpr,
    HIGHEST: tl.constexpr,
):  # fmt: skip
    """Whether an error of 2^(error + base) cannot change how head 2^(length - 64 + base) rounds.

    It is a normal number and stays one, and its dropped bits are further from the half than the
    error, with one more unit of the head for the bits after it; the error is below a quarter of an
    ulp, so that a power of two is no trap either.
    """
    half: tl.constexpr = 1 << (63 - PRECISION)
    dropped = (head & (2 * half - 1)).to(tl.int64)
    place = tl.minimum(tl.maximum(error + 65 - length, 1), 62)
    margin = tl.full(head.shape, 1, tl.int64) << place.to(tl.int64)
    settled = (tl.abs(dropped - half) >= margin) & (margin <= half >> 2) & some
    return settled & (length + base - PRECISION > LOWEST) & (length + base < HIGHEST)


SIZES = ["m", "left_batch", "right_batch", "limit", "always"]


@triton.jit(do_not_specialize=SIZES)
def round_residues(
    groups, out, marks, rows_table, columns_table, m, n, pitch, stream, left_batch, right_batch,
    limit, always, part_stride, batch_stride, row_stride, column_stride,
    PARTS: tl.constexpr, BASIS: tl.constexpr, MODULUS: tl.constexpr, HIGHEST_PIECE: tl.constexpr,
    INVERSE: tl.constexpr, PRECISION: tl.constexpr, LOWEST: tl.constexpr, HIGHEST: tl.constexpr,
    SLACK: tl.constexpr, MARKED: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    """Round X 2^-(s+t) into `out`, part by part, and mark what is not final.

    `groups` is (streams * moduli, batch, m, pitch), `stream` bytes from one modulus to the next. An
    element is marked if its line norms exceed `limit` (X may have wrapped), if it meets an
    infinity or a NaN, or (SLACK) if the error of X, bounded as in `bounds`, might change its
    rounding. With MARKED, `marks` hold what the certificate found and are only added to.
    """
    tiles = tl.cdiv(n, COLUMNS)
    per_item = tl.cdiv(m, ROWS) * tiles
    b, tile = tl.program_id(0) // per_item, tl.program_id(0) % per_item
    i, j = tile // tiles * ROWS + tl.arange(0, ROWS), tile % tiles * COLUMNS + tl.arange(0, COLUMNS)
    inside = (i < m)[:, None] & (j < n)[None, :]
    heights, widths = left_batch * m, right_batch * n
    at_row = rows_table + b % left_batch * m + i
    at_column = columns_table + b % right_batch * n + j
    s = tl.load(at_row + SCALE * heights, i < m, other=0).to(tl.int32)
    t = tl.load(at_column + SCALE * widths, j < n, other=0).to(tl.int32)
    base = -(s[:, None] + t[None, :])
    row_flags = tl.load(at_row + FLAGS * heights, i < m, other=0).to(tl.int32)
    column_flags = tl.load(at_column + FLAGS * widths, j < n, other=0).to(tl.int32)
    row_norm = tl.load(at_row + NORM * heights, i < m, other=0).to(tl.int32)
    column_norm = tl.load(at_column + NORM * widths, j < n, other=0).to(tl.int32)
    unfit = row_norm[:, None] + column_norm[None, :] > limit
    open_element = tl.zeros(base.shape, tl.int1)
    if SLACK:
        error = error_bits(
            at_row, at_column, heights, widths, i < m, j < n, row_flags, column_flags, always
        )
    first = groups + (b.to(tl.int64) * m + i)[:, None] * pitch + j[None, :]
    target = out + b.to(tl.int64) * batch_stride + i.to(tl.int64)[:, None] * row_stride
    target += j.to(tl.int64)[None, :] * column_stride
    loaded = (i < m)[:, None] & (j < pitch)[None, :]
    words_count: tl.constexpr = len(MODULUS) // 2
    for part in tl.static_range(PARTS):
        words, negative = integer_words(
            first,
            stream,
            loaded,
            1 if PARTS == 1 else 3,
            part,
            BASIS,
            MODULUS,
            HIGHEST_PIECE,
            INVERSE,
        )
        high, middle, low, below, index = magnitude(words, negative, words_count)
        length, head, sticky = leading_bits(high, middle, low, below, index)
        bits = rounded(length, head, sticky, base, PRECISION, LOWEST, HIGHEST)
        bits = tl.where(high != 0, bits, 0)
        store_float(target + part * part_stride, bits, negative, inside, PRECISION)
        if SLACK:
            settled = is_settled(
                length, head, high != 0, base, error, PRECISION, LOWEST, HIGHEST
            )  # fmt: skip
            open_element |= (error >= 2) & ~settled
    special = ((row_flags & SPECIAL)[:, None] | (column_flags & SPECIAL)[None, :]) > 0
    code = tl.where(open_element, UNSETTLED, tl.where(unfit, UNSETTLED if SLACK else UNFIT, 0))
    code = tl.where(special, SPECIAL_ELEMENT, code)
    at = marks + (b.to(tl.int64) * m + i)[:, None] * n + j[None, :]
    if MARKED:
        tl.store(at, code.to(tl.uint8), inside & (code > 0))
    else:
        tl.store(at, code.to(tl.uint8), inside)
