"""Short rows and columns looked at in one launch: what `lines.largest` and `lines.norms` do.

A program takes whole lines and reads them twice, the second time from the cache. Nobody else adds
to their sums, so nothing has to be zero before.
"""

from __future__ import annotations

import triton
import triton.language as tl

from widen.gpu.kernels.triton.lines import largest_of, norms_of, piece_of
from widen.gpu.kernels.triton.numbers import DEPTH, LARGEST, SQUARES, SUM, wide
from widen.gpu.kernels.triton.packed import pairs


@triton.jit
def _survey(
    block, bits, table, leads, count, lines, inner, pitch, batch_stride, line_stride, inner_stride,
    PARTS: tl.constexpr, FRACTION: tl.constexpr, EXPONENT: tl.constexpr, LEAD: tl.constexpr,
    NEAR: tl.constexpr, LINES: tl.constexpr, INNER: tl.constexpr,
):  # fmt: skip
    b, line, start, stop = piece_of(block, lines, inner, inner, LINES)
    base = pairs(bits, b, batch_stride, PARTS)
    magnitude = largest_of(
        base, line, start, stop, inner, lines, line_stride, inner_stride, PARTS,
        1 + FRACTION + EXPONENT, NEAR, LINES, INNER,
    )  # fmt: skip
    q1, q2, depth, counts = norms_of(
        base, leads + wide(b) * lines * pitch, magnitude, line, start, stop, inner, pitch, lines,
        count, line_stride, inner_stride, PARTS, FRACTION, EXPONENT, LEAD, NEAR, LINES, INNER,
    )  # fmt: skip
    at_line = table + b * lines + line
    tl.store(at_line + LARGEST * count, magnitude, line < lines)
    tl.store(at_line + SUM * count, tl.where(counts, q1, 0), line < lines)
    tl.store(at_line + SQUARES * count, tl.where(counts, q2, 0), line < lines)
    tl.store(at_line + DEPTH * count, tl.where(counts, depth, 0), line < lines)


SIZES = ["left_count", "right_count", "left_blocks", "cleared"]


@triton.jit(do_not_specialize=SIZES)
def survey(
    left_bits, left_table, left_leads, left_count, left_lines, left_batch_stride, left_line_stride,
    left_inner_stride, right_bits, right_table, right_leads, right_count, right_lines,
    right_batch_stride, right_line_stride, right_inner_stride, left_blocks, inner, pitch, zeros,
    cleared,
    PARTS: tl.constexpr, LEFT_FRACTION: tl.constexpr, LEFT_EXPONENT: tl.constexpr,
    RIGHT_FRACTION: tl.constexpr, RIGHT_EXPONENT: tl.constexpr, LEAD: tl.constexpr,
    LEFT_NEAR: tl.constexpr, LEFT_LINES: tl.constexpr, LEFT_INNER: tl.constexpr,
    RIGHT_NEAR: tl.constexpr, RIGHT_LINES: tl.constexpr, RIGHT_INNER: tl.constexpr,
):  # fmt: skip
    """Rows LARGEST, SUM, SQUARES and DEPTH of the tables, and leads, as `lines.norms` has them.

    `cleared` words of `zeros`, up to 64, become zero for those who count later.
    """
    block = tl.program_id(0)
    if block == 0:
        word = tl.arange(0, 64)
        tl.store(zeros + word, tl.zeros((64,), tl.int64), word < cleared)
    if block < left_blocks:
        _survey(
            block, left_bits, left_table, left_leads, left_count, left_lines, inner, pitch,
            left_batch_stride, left_line_stride, left_inner_stride, PARTS, LEFT_FRACTION,
            LEFT_EXPONENT, LEAD, LEFT_NEAR, LEFT_LINES, LEFT_INNER,
        )  # fmt: skip
    else:
        _survey(
            block - left_blocks, right_bits, right_table, right_leads, right_count, right_lines,
            inner, pitch, right_batch_stride, right_line_stride, right_inner_stride, PARTS,
            RIGHT_FRACTION, RIGHT_EXPONENT, LEAD, RIGHT_NEAR, RIGHT_LINES, RIGHT_INNER,
        )  # fmt: skip
