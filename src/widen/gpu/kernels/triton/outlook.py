"""Which products are worth computing: sampled elements, and marks of a block without a product."""

from __future__ import annotations

import triton
import triton.language as tl

from widen.gpu.kernels.triton.certified import top_of
from widen.gpu.kernels.triton.numbers import (
    FLAGS,
    INEXACT,
    REACH,
    SIGMA,
    SPECIAL,
    SUM,
    decode,
    wide,
)
from widen.gpu.kernels.triton.reconstruct import (
    SPECIAL_ELEMENT,
    UNFIT,
    UNSETTLED,
    magnitude_bits,
)

SCATTER = tl.constexpr(7919)  # a prime: samples are on no diagonal
LEAST_REACH = tl.constexpr(48)  # powers of two that a line spans, or every bit of it is kept


@triton.jit
def scaled(at, inside, top, FRACTION: tl.constexpr, EXPONENT: tl.constexpr):
    """Numbers times 2^-top as float64, 0 if they are below 2^-1000."""
    x = tl.load(at, inside, other=0).to(tl.int64)
    m, e = decode(x, FRACTION, EXPONENT)
    unit = (tl.maximum(e - top, -1022) + 1023).to(tl.int64) << 52
    value = m.to(tl.float64) * unit.to(tl.float64, bitcast=True)
    return tl.where(e - top < -1000, 0.0, tl.where(x < 0, -value, value))


@triton.jit
def size_of(
    left, right, left_part, right_part, left_inner, right_inner, inner, top, other_top,
    PARTS: tl.constexpr, PART: tl.constexpr, FRACTION: tl.constexpr, EXPONENT: tl.constexpr,
    RIGHT_FRACTION: tl.constexpr, RIGHT_EXPONENT: tl.constexpr, INNER: tl.constexpr,
):  # fmt: skip
    """The place above the highest bit of a part of an element of scaled lines, about."""
    total = tl.zeros((INNER,), tl.float64)
    for start in range(0, inner, INNER):
        h = start + tl.arange(0, INNER)
        at, to = left + h.to(tl.int64) * left_inner, right + h.to(tl.int64) * right_inner
        for q in tl.static_range(PARTS):
            x = scaled(at + q * left_part, h < inner, top, FRACTION, EXPONENT)
            y = scaled(
                to + (q ^ PART) * right_part, h < inner, other_top, RIGHT_FRACTION, RIGHT_EXPONENT
            )
            total += -x * y if PART == 0 and q == 1 else x * y
    bits = tl.abs(tl.sum(total, 0)).to(tl.int64, bitcast=True)
    return (bits >> 52).to(tl.int32) - 1022


SIZES = [
    "m", "n", "inner", "left_batch", "right_batch", "left_part_stride", "right_part_stride",
    "left_line_stride", "left_inner_stride", "right_line_stride", "right_inner_stride", "precision",
    "always",
]  # fmt: skip


@triton.jit(do_not_specialize=SIZES)
def judge(
    left_bits, right_bits, rows_table, columns_table, hopeless, m, n, inner, left_batch,
    right_batch, left_part_stride, left_line_stride, left_inner_stride, right_part_stride,
    right_line_stride, right_inner_stride, precision, always,
    PARTS: tl.constexpr, LEFT_FRACTION: tl.constexpr, LEFT_EXPONENT: tl.constexpr,
    RIGHT_FRACTION: tl.constexpr, RIGHT_EXPONENT: tl.constexpr, INNER: tl.constexpr,
):  # fmt: skip
    """Count sampled elements, one a program, whose rounding the error of X leaves open for sure.

    By first words, and of the first batch item.
    """
    sample = tl.program_id(0)
    i = (wide(sample) * m // tl.num_programs(0)).to(tl.int32)
    j = (wide(sample) * SCATTER % n).to(tl.int32)
    heights, widths = left_batch * m, right_batch * n
    row, column = rows_table + i, columns_table + j
    sigma = tl.load(row + SIGMA * heights).to(tl.int32)
    tau = tl.load(column + SIGMA * widths).to(tl.int32)
    row_flags, column_flags = tl.load(row + FLAGS * heights), tl.load(column + FLAGS * widths)
    v = tl.maximum(magnitude_bits(tl.load(row + SUM * heights), sigma), always)
    u = tl.maximum(magnitude_bits(tl.load(column + SUM * widths), tau), always)
    error = tl.maximum(
        tl.where((column_flags & INEXACT) > 0, v, -1), tl.where((row_flags & INEXACT) > 0, u, -1)
    )
    reach = tl.maximum(tl.load(row + REACH * heights), tl.load(column + REACH * widths))
    if (error >= 0) & (reach >= LEAST_REACH) & (((row_flags | column_flags) & SPECIAL) == 0):
        left = left_bits + wide(i) * left_line_stride
        right = right_bits + wide(j) * right_line_stride
        top = top_of(row, heights, LEFT_FRACTION, LEFT_EXPONENT)
        other_top = top_of(column, widths, RIGHT_FRACTION, RIGHT_EXPONENT)
        size = size_of(
            left, right, left_part_stride, right_part_stride, left_inner_stride,
            right_inner_stride, inner, top, other_top, PARTS, 0, LEFT_FRACTION, LEFT_EXPONENT,
            RIGHT_FRACTION, RIGHT_EXPONENT, INNER,
        )  # fmt: skip
        if PARTS == 2:
            size = tl.minimum(size, size_of(
                left, right, left_part_stride, right_part_stride, left_inner_stride,
                right_inner_stride, inner, top, other_top, PARTS, 1, LEFT_FRACTION, LEFT_EXPONENT,
                RIGHT_FRACTION, RIGHT_EXPONENT, INNER,
            ))  # fmt: skip
        # The error is 2^(error + 2) at most; `is_settled` wants it below an eighth of an ulp.
        if size + sigma + tau < error + 2 + precision + 4:
            tl.atomic_add(hopeless, tl.full((), 1, tl.int64), sem="relaxed")


@triton.jit(do_not_specialize=["m", "n", "left_batch", "right_batch"])
def without_product(
    marks, rows_table, columns_table, m, n, left_batch, right_batch, MARKED: tl.constexpr,
    COLUMNS: tl.constexpr,
):  # fmt: skip
    """Marks of elements that have no value yet: to be repaired, unless they are special.

    With MARKED only those that a certificate left open for sure; others are UNFIT, which are tested
    and computed one by one.
    """
    tiles = tl.cdiv(n, COLUMNS)
    row, j = tl.program_id(0) // tiles, tl.program_id(0) % tiles * COLUMNS + tl.arange(0, COLUMNS)
    b, i = row // m, row % m
    at = marks + wide(row) * n + j
    row_flags = tl.load(rows_table + FLAGS * left_batch * m + b % left_batch * m + i)
    at_column = columns_table + FLAGS * right_batch * n + b % right_batch * n + j
    flags = row_flags | tl.load(at_column, j < n, other=0)
    code = tl.full((COLUMNS,), UNSETTLED, tl.int32)
    if MARKED:
        code = tl.where(tl.load(at, j < n, other=0) == UNSETTLED, UNSETTLED, UNFIT)
    code = tl.where((flags & SPECIAL) > 0, SPECIAL_ELEMENT, code)
    tl.store(at, code.to(tl.uint8), j < n)
