"""Many elements at once: lines made ready for exact products, and the certificate by products."""

from __future__ import annotations

import triton
import triton.language as tl

from widen.gpu.kernels.triton.numbers import (
    FLAGS,
    INEXACT,
    LARGEST,
    LEVEL,
    NOTHING,
    WEIGHT,
    decode,
    highest_bit,
    is_special,
    leading,
    wide,
)
from widen.gpu.kernels.triton.reconstruct import UNCERTIFIED, UNSETTLED
from widen.gpu.kernels.triton.repair import holds

TOP = tl.constexpr(1000)  # exponent that the largest number of a balanced line gets
LEFT_OUT = tl.constexpr(1 << 16)  # in place of a shift: this term is 0 in every element


@triton.jit
def shifts_at(shifts, line, start, lines, inner, INNER: tl.constexpr):
    """Terms from `start` on, which numbers of lines are there, and how far terms are shifted."""
    h = start + tl.arange(0, INNER)
    inside = (line < lines)[:, None] & (h < inner)[None, :]
    return h, inside, tl.load(shifts + h, h < inner, other=LEFT_OUT)[None, :]


@triton.jit
def numbers_at(source, h, inside, inner_stride, FRACTION: tl.constexpr, EXPONENT: tl.constexpr):
    """Bits of numbers, m and e of |x| = m 2^e."""
    at = source + h.to(tl.int64)[None, :] * inner_stride
    x = tl.load(at, inside, other=0).to(tl.int64)
    m, e = decode(x, FRACTION, EXPONENT)
    return x, m, e


SIZES = ["lines", "inner", "part_stride", "batch_stride"]


@triton.jit(do_not_specialize=SIZES)
def balance(
    bits, out, shifts, moved, lost, lines, inner, part_stride, batch_stride, line_stride,
    inner_stride, out_part_stride, out_batch_stride, out_line_stride, out_inner_stride,
    PARTS: tl.constexpr, FRACTION: tl.constexpr, EXPONENT: tl.constexpr, LINES: tl.constexpr,
    INNER: tl.constexpr,
):  # fmt: skip
    """Numbers x 2^(shifts_h + moved) as bits of float64, `moved` chosen for each line.

    The largest number of a line gets the exponent TOP; `lost` are 1 for lines with numbers so far
    below it that float64 does not hold them.
    """
    tiles = tl.cdiv(lines, LINES)
    b, line = tl.program_id(0) // tiles, tl.program_id(0) % tiles * LINES + tl.arange(0, LINES)
    source = bits + wide(b) * batch_stride + line.to(tl.int64)[:, None] * line_stride
    target = out + wide(b) * out_batch_stride + line.to(tl.int64)[:, None] * out_line_stride
    highest = tl.full((LINES, INNER), NOTHING, tl.int32)
    for start in range(0, inner, INNER):
        h, inside, shift = shifts_at(shifts, line, start, lines, inner, INNER)
        for part in tl.static_range(PARTS):
            of_part = source + part * part_stride
            x, m, e = numbers_at(of_part, h, inside, inner_stride, FRACTION, EXPONENT)
            counts = (m > 0) & ~is_special(x, FRACTION, EXPONENT) & (shift < LEFT_OUT)
            highest = tl.maximum(highest, tl.where(counts, highest_bit(m) + e + shift, NOTHING))
    top = tl.max(highest, 1)
    move = tl.where(top > NOTHING, TOP - top, 0)
    gone = tl.zeros((LINES, INNER), tl.int32)
    for start in range(0, inner, INNER):
        h, inside, shift = shifts_at(shifts, line, start, lines, inner, INNER)
        for part in tl.static_range(PARTS):
            of_part = source + part * part_stride
            x, m, e = numbers_at(of_part, h, inside, inner_stride, FRACTION, EXPONENT)
            special = is_special(x, FRACTION, EXPONENT)
            place = highest_bit(m)
            field = place + e + shift + move[:, None] + 1023
            used = (m > 0) & (shift < LEFT_OUT)
            gone |= (used & ~special & (field < 1)).to(tl.int32)
            fraction = (m << tl.maximum(52 - place, 0).to(tl.int64)) & ((1 << 52) - 1)
            sign = (x < 0).to(tl.int64) << 63
            value = (field.to(tl.int64) << 52) | fraction | sign
            value = tl.where(used & (field >= 1), value, 0)
            value = tl.where(special, tl.full(value.shape, 2047 << 52, tl.int64), value)
            to = target + part * out_part_stride + h.to(tl.int64)[None, :] * out_inner_stride
            tl.store(to, value, inside)
    tl.store(moved + b * lines + line, move, line < lines)
    tl.store(lost + b * lines + line, tl.max(gone, 1), line < lines)


@triton.jit(do_not_specialize=SIZES)
def leads(
    bits, out, table, lines, inner, part_stride, batch_stride, line_stride, inner_stride, count,
    kept, out_batch_stride, out_line_stride, out_inner_stride,
    PARTS: tl.constexpr, FRACTION: tl.constexpr, EXPONENT: tl.constexpr, LINES: tl.constexpr,
    INNER: tl.constexpr,
):  # fmt: skip
    """Leading integers of `bounds.Certificate`, summed over the parts, as bits of float32."""
    tiles = tl.cdiv(lines, LINES)
    b, line = tl.program_id(0) // tiles, tl.program_id(0) % tiles * LINES + tl.arange(0, LINES)
    source = bits + wide(b) * batch_stride + line.to(tl.int64)[:, None] * line_stride
    target = out + wide(b) * out_batch_stride + line.to(tl.int64)[:, None] * out_line_stride
    magnitude = tl.load(table + LARGEST * count + b * lines + line, line < lines, other=0)
    largest, place = decode(magnitude, FRACTION, EXPONENT)
    special = is_special(magnitude, FRACTION, EXPONENT)
    top = tl.where(special, -NOTHING, highest_bit(largest) + place)
    for start in range(0, inner, INNER):
        h = start + tl.arange(0, INNER)
        inside = (line < lines)[:, None] & (h < inner)[None, :]
        total = tl.zeros((LINES, INNER), tl.int32)
        for part in tl.static_range(PARTS):
            of_part = source + part * part_stride
            _, m, e = numbers_at(of_part, h, inside, inner_stride, FRACTION, EXPONENT)
            total += leading(m, top[:, None] - e, kept).to(tl.int32)
        to = target + h.to(tl.int64)[None, :] * out_inner_stride
        tl.store(to, total.to(tl.float32).to(tl.int32, bitcast=True), inside)


DECIDED = ["m", "left_batch", "right_batch", "shift", "both", "always"]


@triton.jit(do_not_specialize=DECIDED)
def decide(
    products, marks, rows_table, columns_table, m, n, left_batch, right_batch, shift, both, always,
    ROWS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    """Marks of uncertified elements become 0, or UNSETTLED where the certificate does not hold.

    `products` (batch, m, n) are the bits of products of leading integers, exact float64 integers.
    """
    tiles = tl.cdiv(n, COLUMNS)
    per_item = tl.cdiv(m, ROWS) * tiles
    b, tile = tl.program_id(0) // per_item, tl.program_id(0) % per_item
    i, j = tile // tiles * ROWS + tl.arange(0, ROWS), tile % tiles * COLUMNS + tl.arange(0, COLUMNS)
    inside = (i < m)[:, None] & (j < n)[None, :]
    at = (wide(b) * m + i)[:, None] * n + j[None, :]
    heights, widths = left_batch * m, right_batch * n
    at_row = rows_table + b % left_batch * m + i
    at_column = columns_table + b % right_batch * n + j
    mantissa, e = decode(tl.load(products + at, inside, other=0), 52, 11)
    total = mantissa >> tl.minimum(tl.maximum(-e, 0), 63).to(tl.int64)
    certified = holds(
        total,
        (tl.load(at_row + FLAGS * heights, i < m, other=0) & INEXACT > 0)[:, None],
        (tl.load(at_column + FLAGS * widths, j < n, other=0) & INEXACT > 0)[None, :],
        tl.load(at_row + WEIGHT * heights, i < m, other=0)[:, None],
        tl.load(at_column + WEIGHT * widths, j < n, other=0)[None, :],
        tl.load(at_row + LEVEL * heights, i < m, other=0)[:, None]
        + tl.load(at_column + LEVEL * widths, j < n, other=0)[None, :],
        shift, both, always,
    )  # fmt: skip
    code = tl.load(marks + at, inside, other=0)
    verdict = tl.where(certified, 0, UNSETTLED).to(tl.uint8)
    tl.store(marks + at, verdict, inside & (code == UNCERTIFIED))
