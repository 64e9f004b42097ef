"""Single elements of several words: certified again, repaired by exact dot products, or special."""

from __future__ import annotations

import triton
import triton.language as tl

from widen.gpu.kernels.triton.dot_words import exact_dot
from widen.gpu.kernels.triton.limbs import store_words
from widen.gpu.kernels.triton.lines_words import side_of
from widen.gpu.kernels.triton.numbers import SCALE, decode, leading, wide
from widen.gpu.kernels.triton.reconstruct import REPAIRED, SPECIAL_ELEMENT, UNCERTIFIED, UNFIT
from widen.gpu.kernels.triton.repair import (
    GLANCE,
    any_mark,
    codes_of,
    first_of,
    holds_at,
    place_of,
    special_bits,
    special_sum,
    taken,
    top_of,
)
from widen.gpu.kernels.triton.rounding import with_sign


@triton.jit
def leads_of(
    source, at, top, inside, word_stride, part_stride, words, parts, kept, FRACTION: tl.constexpr,
    EXPONENT: tl.constexpr,
):  # fmt: skip
    """Leading integers, summed over the parts."""
    total = tl.zeros(at.shape, tl.int64)
    for part in range(parts):
        of_part = source + at + wide(part) * part_stride
        x = tl.load(of_part, inside, other=0).to(tl.int64)
        m, e = decode(x, FRACTION, EXPONENT)
        _, less = side_of(x, of_part, word_stride, words, inside, FRACTION, EXPONENT)
        total += leading(m - less, top - e, kept)
    return total


@triton.jit
def is_certified(
    left, right, row_table, column_table, heights, widths, left_word, left_part, left_inner,
    left_words, right_word, right_part, right_inner, right_words, inner, kept, shift, both, always,
    parts, FRACTION: tl.constexpr, EXPONENT: tl.constexpr, RIGHT_FRACTION: tl.constexpr,
    RIGHT_EXPONENT: tl.constexpr, INNER: tl.constexpr,
):  # fmt: skip
    """The definitive test of `bounds.Certificate` for one element."""
    top = top_of(row_table, heights, FRACTION, EXPONENT)
    other_top = top_of(column_table, widths, RIGHT_FRACTION, RIGHT_EXPONENT)
    total = tl.zeros((INNER,), tl.int64)
    for start in range(0, inner, INNER):
        h = (start + tl.arange(0, INNER)).to(tl.int64)
        ours = leads_of(
            left, h * left_inner, top, h < inner, left_word, left_part, left_words, parts, kept,
            FRACTION, EXPONENT,
        )  # fmt: skip
        total += ours * leads_of(
            right, h * right_inner, other_top, h < inner, right_word, right_part, right_words,
            parts, kept, RIGHT_FRACTION, RIGHT_EXPONENT,
        )  # fmt: skip
    return holds_at(tl.sum(total, 0), row_table, column_table, heights, widths, shift, both, always)


SIZES = [
    "m", "n", "inner", "batch", "left_batch", "right_batch", "left_word_stride", "left_part_stride",
    "left_batch_stride", "left_line_stride", "left_inner_stride", "right_word_stride",
    "right_part_stride", "right_batch_stride", "right_line_stride", "right_inner_stride",
    "word_stride", "part_stride", "batch_stride", "row_stride", "column_stride", "left_words",
    "right_words", "words", "parts", "tested", "kept", "shift", "both", "always", "c_word_stride",
    "c_part_stride", "c_batch_stride", "c_row_stride", "c_column_stride", "c_words", "c_parts",
    "alpha", "alpha_i", "beta", "beta_i",
]  # fmt: skip


@triton.jit(do_not_specialize=SIZES)
def repair(
    left_bits, right_bits, out, second, marks, repaired, rows_table, columns_table, room, m, n,
    inner, batch, left_batch, right_batch, left_word_stride, left_part_stride, left_batch_stride,
    left_line_stride, left_inner_stride, right_word_stride, right_part_stride, right_batch_stride,
    right_line_stride, right_inner_stride, word_stride, part_stride, batch_stride, row_stride,
    column_stride, left_words, right_words, words, parts, tested, kept, shift, both, always, c,
    c_word_stride, c_part_stride, c_batch_stride, c_row_stride, c_column_stride, c_words, c_parts,
    alpha, alpha_i, beta, beta_i,
    PARTS: tl.constexpr, LEFT_FRACTION: tl.constexpr, LEFT_EXPONENT: tl.constexpr,
    RIGHT_FRACTION: tl.constexpr, RIGHT_EXPONENT: tl.constexpr, PRECISION: tl.constexpr,
    LOWEST: tl.constexpr, HIGHEST: tl.constexpr, MIXED: tl.constexpr, INNER: tl.constexpr,
    ELEMENTS: tl.constexpr, LIMBS: tl.constexpr, SCALED: tl.constexpr, C_PARTS: tl.constexpr,
    C_FIELDS: tl.constexpr,
):  # fmt: skip
    """Make every marked element final, as `repair.repair`; a program has LIMBS words of `room`.

    Operands, results and c have so many words; with MIXED a float32 follows in `second`.
    """
    elements = wide(batch) * m * n
    count = 0
    tiles = tl.cdiv(elements, ELEMENTS).to(tl.int32)
    limbs = room + tl.program_id(0) * LIMBS
    one = tl.arange(0, 1)
    stride = GLANCE * tl.num_programs(0)
    for first in range(tl.program_id(0), tiles, stride):
        marked = any_mark(marks, elements, first, tiles, ELEMENTS)
        stop = tl.where(marked, tl.minimum(first + stride, tiles), first)
        for tile in range(first, stop, tl.num_programs(0)):
            codes = codes_of(marks, elements, tile, tiles, ELEMENTS)
            next_one = first_of(codes, ELEMENTS)
            while next_one < ELEMENTS:
                place = place_of(next_one, tile, tiles)
                code, codes = taken(codes, next_one, ELEMENTS)
                next_one = first_of(codes, ELEMENTS)
                j, i, b = place % n, place // n % m, place // n // m
                row, column = b % left_batch * m + i, b % right_batch * n + j
                ours = left_bits + (b % left_batch) * left_batch_stride + i * left_line_stride
                theirs = right_bits + (b % right_batch) * right_batch_stride + j * right_line_stride
                target = b * batch_stride + i * row_stride + j * column_stride
                s = tl.load(rows_table + SCALE * left_batch * m + row).to(tl.int32)
                t = tl.load(columns_table + SCALE * right_batch * n + column).to(tl.int32)
                addend = c + b * c_batch_stride + i * c_row_stride + j * c_column_stride
                fine = code == UNFIT
                if tested & ((code == UNCERTIFIED) | (code == UNFIT)):
                    fine = is_certified(
                        ours, theirs, rows_table + row, columns_table + column, left_batch * m,
                        right_batch * n, left_word_stride, left_part_stride, left_inner_stride,
                        left_words, right_word_stride, right_part_stride, right_inner_stride,
                        right_words, inner, kept, shift, both, always, parts, LEFT_FRACTION,
                        LEFT_EXPONENT, RIGHT_FRACTION, RIGHT_EXPONENT, INNER,
                    )  # fmt: skip
                if fine:
                    tl.store(marks + place, 0)
                if (not fine) | (code == UNFIT):
                    if code == SPECIAL_ELEMENT:
                        sums, scalars = (), ()
                        for q in tl.static_range(PARTS):
                            sums = sums + special_sum(
                                ours, theirs, left_part_stride, right_part_stride,
                                left_inner_stride, right_inner_stride, inner, PARTS, q,
                                LEFT_FRACTION, LEFT_EXPONENT, RIGHT_FRACTION, RIGHT_EXPONENT, INNER,
                            )  # fmt: skip
                        if SCALED:
                            scalars = (wide(alpha), wide(alpha_i), wide(beta), wide(beta_i))
                            for q in tl.static_range(C_PARTS):
                                scalars = scalars + (
                                    tl.load(addend + q * c_part_stride).to(tl.int64),
                                )
                        for q in tl.static_range(PARTS):
                            bits, negative = special_bits(
                                sums, scalars, q, PARTS, SCALED, C_PARTS, C_FIELDS, PRECISION,
                                LOWEST, HIGHEST,
                            )  # fmt: skip
                            to = target + q * part_stride
                            tl.store(out + to, with_sign(bits, negative, PRECISION))
                            for word in range(1, words):
                                tl.store(out + to + wide(word) * word_stride, bits * 0)
                            if MIXED:
                                tl.store(second + to, 0)
                    else:
                        for part in range(parts):
                            tl.debug_barrier()
                            held, last, negative, base = exact_dot(
                                ours, theirs, addend, limbs, inner, part, left_word_stride,
                                left_part_stride, left_inner_stride, left_words, right_word_stride,
                                right_part_stride, right_inner_stride, right_words, fine, s, t,
                                c_word_stride, c_part_stride, c_words, alpha, alpha_i, beta, beta_i,
                                PARTS, LEFT_FRACTION, LEFT_EXPONENT, RIGHT_FRACTION, RIGHT_EXPONENT,
                                SCALED, C_PARTS, C_FIELDS, INNER,
                            )  # fmt: skip
                            tl.debug_barrier()
                            to = target + wide(part) * part_stride
                            below = (negative.to(tl.int32) + one) > 0
                            store_words(
                                limbs + one, 1, 32 * held, last + one, below, base + one,
                                out + to + one, wide(word_stride), words, second + to + one,
                                one == 0, 0, PRECISION, LOWEST, HIGHEST, MIXED, False, False,
                            )  # fmt: skip
                        if not fine:
                            tl.store(marks + place, REPAIRED)
                            count += 1
    if count > 0:
        tl.atomic_add(repaired, count)
