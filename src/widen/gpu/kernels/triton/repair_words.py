"""Single elements of several words: certified again, repaired by exact dot products, or special.

The walk is that of `repair`, whose kernel stays apart: it has fewer parameters, and its sums are in
registers.
"""

from __future__ import annotations

import triton
import triton.language as tl

from widen.gpu.kernels.triton.certified import is_certified, shared_span
from widen.gpu.kernels.triton.dot_words import exact_dot
from widen.gpu.kernels.triton.limbs import store_words
from widen.gpu.kernels.triton.numbers import SCALE, wide
from widen.gpu.kernels.triton.reconstruct import (
    ONE_ENTRY,
    REPAIRED,
    SPECIAL_ELEMENT,
    UNCERTIFIED,
    UNFIT,
)
from widen.gpu.kernels.triton.repair import (
    GLANCE,
    codes_of,
    scalars_of,
    special_bits,
    special_sums,
    stop_of,
    taken,
)
from widen.gpu.kernels.triton.rounding import with_sign

SIZES = [
    "m", "n", "inner", "batch", "left_batch", "right_batch", "left_word_stride", "left_part_stride",
    "left_batch_stride", "left_line_stride", "left_inner_stride", "right_word_stride",
    "right_part_stride", "right_batch_stride", "right_line_stride", "right_inner_stride",
    "word_stride", "part_stride", "batch_stride", "row_stride", "column_stride", "left_words",
    "right_words", "words", "parts", "tested", "entry", "both", "dropped", "c_word_stride",
    "c_part_stride", "c_batch_stride", "c_row_stride", "c_column_stride", "c_words", "alpha",
    "alpha_i", "beta", "beta_i",
]  # fmt: skip


@triton.jit(do_not_specialize=SIZES)
def repair(
    left_bits, right_bits, out, second, marks, repaired, rows_table, columns_table, room, m, n,
    inner, batch, left_batch, right_batch, left_word_stride, left_part_stride, left_batch_stride,
    left_line_stride, left_inner_stride, right_word_stride, right_part_stride, right_batch_stride,
    right_line_stride, right_inner_stride, word_stride, part_stride, batch_stride, row_stride,
    column_stride, left_words, right_words, words, parts, tested, entry, both, dropped, c,
    c_word_stride, c_part_stride, c_batch_stride, c_row_stride, c_column_stride, c_words, alpha,
    alpha_i, beta, beta_i,
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
    limbs = room + tl.program_id(0) * LIMBS
    one = tl.arange(0, 1)
    tiles = tl.cdiv(elements, ELEMENTS).to(tl.int32)
    stride = GLANCE * tl.num_programs(0)
    for first in range(tl.program_id(0), tiles, stride):
        stop = stop_of(marks, elements, first, tiles, ELEMENTS)
        for tile in range(first, stop, tl.num_programs(0)):
            codes, next_one = codes_of(marks, elements, tile, tiles, ELEMENTS)
            while next_one < ELEMENTS:
                place, code, codes, next_one = taken(codes, next_one, tile, tiles, ELEMENTS)
                j, i, b = place % n, place // n % m, place // n // m
                row, column = b % left_batch * m + i, b % right_batch * n + j
                ours = left_bits + (b % left_batch) * left_batch_stride + i * left_line_stride
                theirs = right_bits + (b % right_batch) * right_batch_stride + j * right_line_stride
                target = b * batch_stride + i * row_stride + j * column_stride
                s = tl.load(rows_table + SCALE * left_batch * m + row).to(tl.int32)
                t = tl.load(columns_table + SCALE * right_batch * n + column).to(tl.int32)
                addend = c + b * c_batch_stride + i * c_row_stride + j * c_column_stride
                begin, end = shared_span(
                    rows_table + row, columns_table + column, left_batch * m, right_batch * n, inner
                )
                fine = code == UNFIT
                if tested & ((code == UNCERTIFIED) | (code == UNFIT)):
                    fine = is_certified(
                        ours, theirs, rows_table + row, columns_table + column, left_batch * m,
                        right_batch * n, wide(left_part_stride), wide(right_part_stride),
                        left_inner_stride, right_inner_stride, left_word_stride, right_word_stride,
                        left_words, right_words, inner, entry, both, dropped, PARTS,
                        LEFT_FRACTION, LEFT_EXPONENT, RIGHT_FRACTION, RIGHT_EXPONENT, INNER, True,
                    )  # fmt: skip
                if fine:
                    tl.store(marks + place, 0)
                if (not fine) | (code == UNFIT):
                    if code == SPECIAL_ELEMENT:
                        sums = special_sums(
                            ours, theirs, left_part_stride, right_part_stride, left_inner_stride,
                            right_inner_stride, inner, PARTS, LEFT_FRACTION, LEFT_EXPONENT,
                            RIGHT_FRACTION, RIGHT_EXPONENT, INNER,
                        )  # fmt: skip
                        scalars = ()
                        if SCALED:
                            scalars = scalars_of(
                                alpha, alpha_i, beta, beta_i, addend, c_part_stride, C_PARTS
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
                                ours + begin * left_inner_stride,
                                theirs + begin * right_inner_stride, addend, limbs, end - begin,
                                part, left_word_stride,
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
                            count += (code != ONE_ENTRY).to(tl.int32)
    if count > 0:
        tl.atomic_add(repaired, count)
