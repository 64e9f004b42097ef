"""Elements of lines of one entry: one product, rounded once."""

from __future__ import annotations

import triton
import triton.language as tl

from widen.gpu.kernels.triton.numbers import AHEAD, STOP, decode, highest_bit, wide
from widen.gpu.kernels.triton.reconstruct import ONE_ENTRY, REPAIRED, SPECIAL_ELEMENT
from widen.gpu.kernels.triton.rounding import rounded, store_float


@triton.jit
def single_of(table, line, real, count, inner):
    """Whether lines have one entry alone; and where their first one is."""
    at = table + line
    ahead = tl.load(at + AHEAD * count, real, other=0)
    single = ahead + tl.load(at + STOP * count, real, other=0) == inner + 1
    return single, inner - ahead.to(tl.int32)


@triton.jit
def normalised(x, FRACTION: tl.constexpr, EXPONENT: tl.constexpr):
    """|x| = m 2^e as a uint64 m with its highest bit set, unless x is 0, and e."""
    m, e = decode(x, FRACTION, EXPONENT)
    up = 63 - tl.maximum(highest_bit(m), 0)
    return m.to(tl.uint64) << up.to(tl.uint64), e - up


@triton.jit
def rounded_product(
    x, y, FRACTION: tl.constexpr, EXPONENT: tl.constexpr, RIGHT_FRACTION: tl.constexpr,
    RIGHT_EXPONENT: tl.constexpr, PRECISION: tl.constexpr, LOWEST: tl.constexpr,
    HIGHEST: tl.constexpr,
):  # fmt: skip
    """Magnitude's bits and sign of the product of two finite floats, given by theirs; 0 is +0."""
    m, e = normalised(x, FRACTION, EXPONENT)
    w, f = normalised(y, RIGHT_FRACTION, RIGHT_EXPONENT)
    high, low = tl.umulhi(m, w), m * w
    short = (high >> 63) == 0
    head = tl.where(short, (high << 1) | (low >> 63), high)
    sticky = tl.where(short, low << 1, low) != 0
    base = e + f + 64 - short.to(tl.int32)
    bits = rounded(64, head, sticky, base, PRECISION, LOWEST, HIGHEST)
    nonzero = (m != 0) & (w != 0)
    return tl.where(nonzero, bits, 0), nonzero & ((x < 0) != (y < 0))


SIZES = [
    "m", "inner", "left_batch", "right_batch", "left_batch_stride", "right_batch_stride",
    "batch_stride",
]  # fmt: skip


@triton.jit(do_not_specialize=SIZES)
def singles(
    left_bits, right_bits, out, marks, rows_table, columns_table, m, n, inner, left_batch,
    right_batch, left_batch_stride, left_line_stride, left_inner_stride, right_batch_stride,
    right_line_stride, right_inner_stride, batch_stride, row_stride, column_stride,
    LEFT_FRACTION: tl.constexpr, LEFT_EXPONENT: tl.constexpr, RIGHT_FRACTION: tl.constexpr,
    RIGHT_EXPONENT: tl.constexpr, PRECISION: tl.constexpr, LOWEST: tl.constexpr,
    HIGHEST: tl.constexpr, PLAIN: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    """Elements (batch, m, n) of lines of one entry become the nearest number: REPAIRED.

    Unless they are special: one may be so for its addend alone. If they are not PLAIN, one product
    of numbers of one word and one part, they are only marked: ONE_ENTRY.
    """
    tiles = tl.cdiv(n, COLUMNS)
    per_item = tl.cdiv(m, ROWS) * tiles
    b, tile = tl.program_id(0) // per_item, tl.program_id(0) % per_item
    i, j = tile // tiles * ROWS + tl.arange(0, ROWS), tile % tiles * COLUMNS + tl.arange(0, COLUMNS)
    ours, theirs = b % left_batch, b % right_batch
    row, at_row = single_of(rows_table, ours * m + i, i < m, left_batch * m, inner)
    column, at_column = single_of(columns_table, theirs * n + j, j < n, right_batch * n, inner)
    if tl.max(row.to(tl.int32), 0) + tl.max(column.to(tl.int32), 0) > 0:
        single = (row[:, None] | column[None, :]) & (i < m)[:, None] & (j < n)[None, :]
        at = marks + (wide(b) * m + i)[:, None] * n + j[None, :]
        single &= tl.load(at, single, other=SPECIAL_ELEMENT) != SPECIAL_ELEMENT
        if PLAIN:
            h = wide(tl.where(row[:, None], at_row[:, None], at_column[None, :]))
            line = left_bits + wide(ours) * left_batch_stride
            line += i.to(tl.int64)[:, None] * left_line_stride
            x = tl.load(line + h * left_inner_stride, single, other=0).to(tl.int64)
            line = right_bits + wide(theirs) * right_batch_stride
            line += j.to(tl.int64)[None, :] * right_line_stride
            y = tl.load(line + h * right_inner_stride, single, other=0).to(tl.int64)
            bits, negative = rounded_product(
                x, y, LEFT_FRACTION, LEFT_EXPONENT, RIGHT_FRACTION, RIGHT_EXPONENT, PRECISION,
                LOWEST, HIGHEST,
            )  # fmt: skip
            target = out + wide(b) * batch_stride + i.to(tl.int64)[:, None] * row_stride
            target += j.to(tl.int64)[None, :] * column_stride
            store_float(target, bits, negative, single, PRECISION)
        code: tl.constexpr = REPAIRED if PLAIN else ONE_ENTRY
        tl.store(at, tl.full((ROWS, COLUMNS), code, tl.uint8), single)
