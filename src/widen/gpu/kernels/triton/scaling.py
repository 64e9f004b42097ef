"""Reconstruction with scalars: alpha X + beta c as one exact sum, rounded once.

Terms lie on one grid of words of 32 bits whose word 0 weighs 2^-(s+t), so where alpha's parts fall
is the same for all elements. An element's words are added from the lowest of its terms up, so many
as the widest element of a tile has: c may be anywhere, and nothing is left out. The kernel stands
apart from `reconstruct`, whose single term wants no such loop and far fewer registers.
"""

from __future__ import annotations

import triton
import triton.language as tl

from widen.gpu.kernels.triton.dot import spread
from widen.gpu.kernels.triton.integers import integer_words
from widen.gpu.kernels.triton.numbers import SPECIAL, decode, is_special, long_product, wide
from widen.gpu.kernels.triton.reconstruct import (
    error_bits,
    facts_of,
    is_settled,
    store_marks,
)
from widen.gpu.kernels.triton.rounding import (
    leading_bits,
    magnitude,
    next_word,
    rounded,
    store_float,
)

ADDEND_WORDS = tl.constexpr(5)  # 106 bits of beta c, shifted by up to 31
NOWHERE = tl.constexpr(1 << 24)  # beyond any word


@triton.jit
def words_of_factor(bits):
    """(words, place) of a float64: |x| = (three words) 2^(32 place)."""
    m, e = decode(bits, 52, 11)
    up = (e & 31).to(tl.int64)
    low = (m << up) & 0xFFFFFFFF
    middle = (m >> (32 - up)) & 0xFFFFFFFF
    high = (m >> 32) >> (32 - up)
    return low.to(tl.uint64), middle.to(tl.uint64), high.to(tl.uint64), e >> 5


@triton.jit
def absolute(words, negative, WORDS: tl.constexpr):
    """|X| of an integer in two's complement, and whether it is not 0."""
    flip = tl.where(negative, 0xFFFFFFFF, 0).to(tl.uint32)
    carry = negative.to(tl.uint32)
    positive = ()
    all_bits = tl.zeros_like(flip)
    for w in tl.static_range(WORDS):
        word = (words[w] ^ flip) + carry
        carry = (carry != 0).to(tl.uint32) & (word == 0).to(tl.uint32)
        positive = positive + (word,)
        all_bits |= word
    return positive, all_bits != 0


@triton.jit
def times(words, factor, WORDS: tl.constexpr):
    """Words times a factor of three words, WORDS + 3 of them.

    One word of the factor at a time: product, old word and carry are at most
    (2^32 - 1)^2 + 2 (2^32 - 1) = 2^64 - 1.
    """
    total = ()
    for _ in tl.static_range(WORDS + 3):
        total = total + (tl.zeros_like(words[0]),)
    for f in tl.static_range(3):
        more = ()
        for w in tl.static_range(f):
            more = more + (total[w],)
        carry = tl.zeros(words[0].shape, tl.uint64)
        for w in tl.static_range(WORDS):
            carry += words[w].to(tl.uint64) * factor[f] + total[f + w].to(tl.uint64)
            more = more + ((carry & 0xFFFFFFFF).to(tl.uint32),)
            carry = carry >> 32
        more = more + (carry.to(tl.uint32),)
        for w in tl.static_range(f + WORDS + 1, WORDS + 3):
            more = more + (total[w],)
        total = more
    return total


@triton.jit
def addend_words(m, e, beta, base):
    """The ADDEND_WORDS words of beta c for c = m 2^e: (words, place) on the grid of 2^base."""
    w, f = decode(beta, 52, 11)
    low, high = long_product(m, tl.zeros_like(m) + w)
    bit = e + f - base
    words = spread(low, high, high & 0, bit)
    return words[0:ADDEND_WORDS], bit >> 5


@triton.jit
def picked(pool, index, START: tl.constexpr, COUNT: tl.constexpr):
    """Word `index` of the COUNT words from START on, 0 where there is no such word."""
    word = tl.zeros_like(pool[0])
    for w in tl.static_range(COUNT):
        word = tl.where(index == w, pool[START + w], word)
    return word


@triton.jit
def summed(pool, places, present, negative, X_TERMS: tl.constexpr, X_WORDS: tl.constexpr):
    """The sum of an element's terms: (high, middle, low, below, index) of its magnitude, and sign.

    `pool` has the words of all terms, X_WORDS each of the first X_TERMS and ADDEND_WORDS of the
    others; word `places` is their lowest. Gives the place of word 0 as well. Negative terms are
    added as two's complements, so the last words are all 0 or all 1: |sum| < 4 2^(32 last), and
    two words beyond `last` are computed.
    """
    zero = tl.zeros_like(pool[0])
    first = tl.full(zero.shape, NOWHERE, tl.int32)
    last = tl.full(zero.shape, -NOWHERE, tl.int32)
    carry = tl.zeros(zero.shape, tl.uint64)
    masks = ()
    for k in tl.static_range(len(places)):
        end = places[k] + (X_WORDS if k < X_TERMS else ADDEND_WORDS)
        first = tl.minimum(first, tl.where(present[k], places[k], NOWHERE))
        last = tl.maximum(last, tl.where(present[k], end, -NOWHERE))
        minus = negative[k] & present[k]
        masks = masks + (tl.where(minus, 0xFFFFFFFF, 0).to(tl.uint32),)
        carry += minus.to(tl.uint64)
    first = tl.where(last < first, 0, first)
    two, head = carry & 0, carry & 0
    third, rest, low, below = zero, zero, zero, zero
    index = tl.full(zero.shape, -1, tl.int32)
    steps = tl.max(tl.max(last - first, 1), 0) + 2
    for step in range(steps):
        for k in tl.static_range(X_TERMS):
            here = tl.where(present[k], first + step - places[k], -1)
            word = picked(pool, here, k * X_WORDS, X_WORDS)
            carry += (word ^ masks[k]).to(tl.uint64)
        for k in tl.static_range(len(places) - X_TERMS):
            here = first + step - places[X_TERMS + k]
            here = tl.where(present[X_TERMS + k], here, -1)
            word = picked(pool, here, X_TERMS * X_WORDS + k * ADDEND_WORDS, ADDEND_WORDS)
            carry += (word ^ masks[X_TERMS + k]).to(tl.uint64)
        two, head, third, rest, low, below, index = next_word(
            carry & 0xFFFFFFFF, step, two, head, third, rest, low, below, index
        )
        carry = carry >> 32
    high, middle, low, index, minus = magnitude(two, head, low, below, index)
    return high, middle, low, below, index, minus, first


SIZES = [
    "m", "left_batch", "right_batch", "limit", "always", "part_stride", "batch_stride",
    "row_stride", "column_stride", "c_part_stride", "c_batch_stride", "c_row_stride",
    "c_column_stride", "alpha", "alpha_i", "beta", "beta_i", "alpha_bits",
]  # fmt: skip


@triton.jit(do_not_specialize=SIZES)
def round_scaled(
    groups, out, marks, rows_table, columns_table, m, n, pitch, stream, left_batch, right_batch,
    limit, always, part_stride, batch_stride, row_stride, column_stride, c, c_part_stride,
    c_batch_stride, c_row_stride, c_column_stride, alpha, alpha_i, beta, beta_i, alpha_bits,
    PARTS: tl.constexpr, BASIS: tl.constexpr, MODULUS: tl.constexpr, TAKEN: tl.constexpr,
    INVERSE: tl.constexpr, PRECISION: tl.constexpr, LOWEST: tl.constexpr, HIGHEST: tl.constexpr,
    SLACK: tl.constexpr, MARKED: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr,
    USED: tl.constexpr, C_PARTS: tl.constexpr, C_FIELDS: tl.constexpr,
):  # fmt: skip
    """Round alpha X 2^-(s+t) + beta c into `out`, part by part, and mark what is not final.

    As `reconstruct.round_residues`. Scalars are float64 bits, a part each; USED says which of alpha
    and of beta are not 0. c has C_PARTS parts, floats of C_FIELDS; an element whose c is an
    infinity or NaN is marked as special too. |alpha| (the sum of its parts) is at most
    2^alpha_bits, and so is the error of the sum in units of X's.
    """
    tiles = tl.cdiv(n, COLUMNS)
    per_item = tl.cdiv(m, ROWS) * tiles
    b, tile = tl.program_id(0) // per_item, tl.program_id(0) % per_item
    i, j = tile // tiles * ROWS + tl.arange(0, ROWS), tile % tiles * COLUMNS + tl.arange(0, COLUMNS)
    inside = (i < m)[:, None] & (j < n)[None, :]
    heights, widths = left_batch * m, right_batch * n
    at_row = rows_table + b % left_batch * m + i
    at_column = columns_table + b % right_batch * n + j
    s, row_flags, row_norm = facts_of(at_row, heights, i < m)
    t, column_flags, column_norm = facts_of(at_column, widths, j < n)
    base = -(s[:, None] + t[None, :])
    unfit = row_norm[:, None] + column_norm[None, :] > limit
    special = ((row_flags & SPECIAL)[:, None] | (column_flags & SPECIAL)[None, :]) > 0
    open_element = tl.zeros(base.shape, tl.int1)
    if SLACK:
        error = error_bits(
            at_row, at_column, heights, widths, i < m, j < n, row_flags, column_flags, always
        )
    first = groups + (b.to(tl.int64) * m + i)[:, None] * pitch + j[None, :]
    target = out + b.to(tl.int64) * batch_stride + i.to(tl.int64)[:, None] * row_stride
    target += j.to(tl.int64)[None, :] * column_stride
    addend = c + b.to(tl.int64) * c_batch_stride + i.to(tl.int64)[:, None] * c_row_stride
    addend += j.to(tl.int64)[None, :] * c_column_stride
    loaded = (i < m)[:, None] & (j < pitch)[None, :]
    width: tl.constexpr = len(MODULUS) // 2
    x_terms: tl.constexpr = USED[0] + USED[1]
    scalars = (wide(alpha), wide(alpha_i), wide(beta), wide(beta_i))
    x, x_some, x_minus = (), (), ()
    for q in tl.static_range(PARTS):
        words, negative = integer_words(
            first, stream, loaded, 1 if PARTS == 1 else 3, q, BASIS, MODULUS, TAKEN, INVERSE
        )
        positive, nonzero = absolute(words, negative, width)
        x, x_some, x_minus = x + positive, x_some + (nonzero,), x_minus + (negative,)
    added = ()
    for q in tl.static_range(C_PARTS):
        bits = tl.load(addend + q * c_part_stride, inside, other=0).to(tl.int64)
        special |= is_special(bits, C_FIELDS[0], C_FIELDS[1])
        added = added + (bits,)
    for part in tl.static_range(PARTS):
        pool, places, present, minus = (), (), (), ()
        for q in tl.static_range(PARTS):
            if USED[part ^ q]:
                scalar = scalars[part ^ q]
                low, middle, high, place = words_of_factor(scalar)
                pool = pool + times(x[q * width : (q + 1) * width], (low, middle, high), width)
                places = places + (tl.zeros_like(base) + place,)
                present = present + (x_some[q],)
                minus = minus + ((x_minus[q] != (scalar < 0)) != (part == 0 and q == 1),)
        for q in tl.static_range(C_PARTS):
            if USED[2 + (part ^ q)]:
                scalar = scalars[2 + (part ^ q)]
                mantissa, e = decode(added[q], C_FIELDS[0], C_FIELDS[1])
                words, place = addend_words(mantissa, e, scalar, base)
                pool, places = pool + words, places + (place,)
                present = present + ((mantissa != 0) & ~special,)
                minus = minus + (((added[q] < 0) != (scalar < 0)) != (part == 0 and q == 1),)
        to = target + part * part_stride
        if len(places) == 0:
            store_float(to, tl.zeros(base.shape, tl.int64), inside & False, inside, PRECISION)
        else:
            high, middle, low, below, index, negative, lowest = summed(
                pool, places, present, minus, x_terms, width + 3
            )
            length, head, sticky = leading_bits(high, middle, low, below, index)
            unit = base + 32 * lowest
            bits = rounded(length, head, sticky, unit, PRECISION, LOWEST, HIGHEST)
            store_float(to, tl.where(high != 0, bits, 0), negative, inside, PRECISION)
            if SLACK:
                settled = is_settled(
                    length, head, low, index, high != 0, unit, error + alpha_bits - 32 * lowest,
                    PRECISION, LOWEST, HIGHEST,
                )  # fmt: skip
                open_element |= (error >= 2) & ~settled
    at = marks + (b.to(tl.int64) * m + i)[:, None] * n + j[None, :]
    store_marks(at, open_element, unfit, special, inside, SLACK, MARKED)
