"""alpha X + beta c by any number of moduli: one exact sum in memory, rounded into words.

As `scaled`, compiled once for all plans and scalars. The terms of a sum lie on one grid of limbs of
32 bits whose limb 0 weighs 2^-(s+t); each element has a column of sums of 64 bits that begins at
its lowest term, so that c may be anywhere and nothing is left out.
"""

from __future__ import annotations

import triton
import triton.language as tl

from widen.gpu.kernels.triton.crt import (
    element_facts,
    error_of,
    groups_stored,
    integer_held,
    integer_stored,
    limbs_of,
    store_limbs,
)
from widen.gpu.kernels.triton.limbs import NEVER, last_bit, store_words
from widen.gpu.kernels.triton.numbers import SPECIAL, decode, is_special, wide
from widen.gpu.kernels.triton.reconstruct import code_of
from widen.gpu.kernels.triton.scaling import ADDEND_WORDS, NOWHERE, addend_words, words_of_factor


@triton.jit
def add_at(sums, stride, index, value, counts):
    """sums[index] += value, in each element's own column."""
    at = sums + index.to(tl.int64) * stride
    tl.store(at, tl.load(at, counts, other=0) + value, counts)


@triton.jit
def add_multiple(sums, stride, first, integer, apart, limbs, factor, negated, real):
    """Add the integer with these limbs, two's complement, times a float64 (its bits)."""
    low, middle, high, place = words_of_factor(factor)
    top = tl.load(integer + (limbs - 1) * apart)
    sign = tl.where((factor < 0) != negated, -1, 1).to(tl.int64)
    one, two = tl.zeros(top.shape, tl.int64), tl.zeros(top.shape, tl.int64)
    three = tl.zeros(top.shape, tl.int64)
    for w in range(limbs + 4):
        # X = (its limbs) - 2^(32 limbs) if it is negative; then three more for what is carried.
        limb = tl.load(integer + tl.minimum(w, limbs - 1) * apart).to(tl.uint32).to(tl.uint64)
        limb = tl.where(w < limbs, limb, 0)
        x, y, z = limb * low, limb * middle, limb * high
        minus = tl.where(w == limbs, tl.where(top < 0, 1, 0), 0).to(tl.int64)
        total = one + (x & 0xFFFFFFFF).to(tl.int64) - minus * low.to(tl.int64)
        one = two + (x >> 32).to(tl.int64) + (y & 0xFFFFFFFF).to(tl.int64)
        one -= minus * middle.to(tl.int64)
        two = three + (y >> 32).to(tl.int64) + (z & 0xFFFFFFFF).to(tl.int64)
        two -= minus * high.to(tl.int64)
        three = (z >> 32).to(tl.int64)
        add_at(sums, stride, w + place - first, sign * total, real)


@triton.jit
def addend_of(c, beta, base, inside, C_FIELDS: tl.constexpr):
    """(words, place of the lowest, whether beta c is finite and not 0, its sign) on the grid."""
    bits = tl.load(c, inside, other=0).to(tl.int64)
    mantissa, e = decode(bits, C_FIELDS[0], C_FIELDS[1])
    words, place = addend_words(mantissa, e, beta, base)
    nonzero = tl.where((beta << 1) != 0, mantissa, 0) != 0
    nonzero &= ~is_special(bits, C_FIELDS[0], C_FIELDS[1])
    return words, place, nonzero, (bits < 0) != (beta < 0)


@triton.jit
def carried_sums(sums, stride, span, real):
    """Sums become limbs; the place of the last bit, and the sign."""
    carry = tl.zeros(real.shape, tl.int64)
    lowest = tl.full(real.shape, -1, tl.int32)
    lowest_word = tl.zeros(real.shape, tl.uint32)
    for w in range(span):
        carry += tl.load(sums + wide(w) * stride, real, other=0)
        word = carry & 0xFFFFFFFF
        tl.store(sums + wide(w) * stride, word, real)
        new = (lowest < 0) & (word != 0)
        lowest = tl.where(new, w, lowest)
        lowest_word = tl.where(new, word.to(tl.uint32), lowest_word)
        carry = carry >> 32
    last = tl.where(lowest < 0, NEVER, 32 * lowest + last_bit(lowest_word))
    return last, carry < 0


@triton.jit
def chosen(real, imaginary, which):
    """A part of a scalar."""
    return tl.where(which == 0, wide(real), wide(imaginary))


SIZES = [
    "m", "n", "pitch", "stream", "left_batch", "right_batch", "limit", "always", "part_stride",
    "batch_stride", "row_stride", "column_stride", "word_stride", "words", "batch", "slack",
    "marked", "moduli", "length", "room", "long_stream", "long_moduli", "c_word_stride",
    "span_held", "c_part_stride", "c_batch_stride", "c_row_stride", "c_column_stride", "c_words",
    "c_parts", "alpha", "alpha_i", "beta", "beta_i", "alpha_bits",
]  # fmt: skip


@triton.jit(do_not_specialize=SIZES)
def round_any_scaled(
    groups, out, marks, rows_table, columns_table, m, n, pitch, stream, left_batch, right_batch,
    limit, always, part_stride, batch_stride, row_stride, column_stride, word_stride, words, batch,
    slack, marked, basis, moduli, length, scratch, room, long_groups, long_stream,
    long_moduli, second, sums, span_held, c, c_word_stride, c_part_stride, c_batch_stride,
    c_row_stride, c_column_stride, c_words, c_parts, alpha, alpha_i, beta, beta_i, alpha_bits,
    PARTS: tl.constexpr, PRECISION: tl.constexpr, LOWEST: tl.constexpr, HIGHEST: tl.constexpr,
    MIXED: tl.constexpr, COLUMNS: tl.constexpr, ASSEMBLY: tl.constexpr, LIMBS: tl.constexpr,
    LONG: tl.constexpr, C_FIELDS: tl.constexpr,
):  # fmt: skip
    """Round alpha X 2^-(s+t) + beta c into `out`, part by part, and mark what is not final.

    As `crt.round_any`. Scalars are float64 bits, a part each; c has `c_parts` parts (0: there is no
    c) of `c_words` words, floats of C_FIELDS; an element whose c is an infinity or NaN is marked as
    special too. The error of the sum is 2^alpha_bits of X's. Each element has `room` words
    of `scratch`, and a program span_held * COLUMNS of `sums`, 64 bits each.
    """
    lane = tl.arange(0, COLUMNS)
    tiles = tl.cdiv(n, COLUMNS)
    heights, widths = left_batch * m, right_batch * n
    at_limbs = scratch + wide(tl.program_id(0)) * (room * COLUMNS) + lane
    limbs = LIMBS if LIMBS > 0 else limbs_of(length)
    at_values = at_limbs + PARTS * limbs * COLUMNS
    ours = sums + wide(tl.program_id(0)) * (span_held * COLUMNS) + lane
    nothing = tl.zeros((COLUMNS,), tl.int64)
    for tile in range(tl.program_id(0), batch * m * tiles, tl.num_programs(0)):
        j = tile % tiles * COLUMNS + lane
        row = tile // tiles
        b, i = row // m, row % m
        real, there = j < n, j < pitch
        at_row = rows_table + b % left_batch * m + i
        at_column = columns_table + b % right_batch * n + j
        base, row_flags, column_flags, norm = element_facts(
            at_row, at_column, heights, widths, real
        )
        special = ((row_flags | column_flags) & SPECIAL) > 0
        addend = c + wide(b) * c_batch_stride + wide(i) * c_row_stride
        addend += j.to(tl.int64) * c_column_stride
        for q in range(c_parts * c_words):
            at = addend + q // c_words * wide(c_part_stride) + q % c_words * wide(c_word_stride)
            bits = tl.load(at, real, other=0).to(tl.int64)
            special |= is_special(bits, C_FIELDS[0], C_FIELDS[1])
        base = tl.where(special, 0, base)
        error = error_of(at_row, at_column, heights, widths, real, row_flags, column_flags, always)
        change = tl.where((slack != 0) & (error >= 0), 1, 0).to(tl.int64)
        error_place = tl.maximum(error, 0) + alpha_bits
        open_element = special & False
        at = groups + wide(row) * pitch + j
        at_long = long_groups + wide(row) * pitch + j
        offset = wide(b) * batch_stride + wide(i) * row_stride + j.to(tl.int64) * column_stride
        for of_x in tl.static_range(PARTS):
            to_limbs = at_limbs + of_x * limbs * COLUMNS
            if LIMBS > 0:
                integer = integer_held(
                    at, stream, moduli, at_long, long_stream, long_moduli, basis, length, there, 0,
                    nothing, lane, PARTS + of_x, LIMBS, LONG, ASSEMBLY,
                )  # fmt: skip
                store_limbs(integer[0], to_limbs, COLUMNS, ASSEMBLY)
            else:
                count, quotient, carry = groups_stored(
                    at, stream, moduli, at_long, long_stream, long_moduli, basis, length, there,
                    at_values, COLUMNS, PARTS + of_x, ASSEMBLY,
                )  # fmt: skip
                integer_stored(
                    at_values, COLUMNS, count, basis, length, quotient, carry & 0, 0, 0, nothing,
                    lane, to_limbs, ASSEMBLY,
                )  # fmt: skip
                if of_x == PARTS - 1:  # they are of X times a power of two
                    shift = tl.load(basis + count * length + 1)
                    base -= shift
                    error_place += shift
        tl.debug_barrier()
        for part in range(PARTS):
            first = tl.full((COLUMNS,), NOWHERE, tl.int32)
            last = tl.full((COLUMNS,), -NOWHERE, tl.int32)
            for q in range(PARTS):
                factor = chosen(alpha, alpha_i, part ^ q)
                _, _, _, place = words_of_factor(factor)
                used = (factor << 1) != 0
                first = tl.minimum(first, tl.where(used, place, NOWHERE))
                last = tl.maximum(last, tl.where(used, place + limbs + 4, -NOWHERE))
            for q in range(c_parts * c_words):
                of_part = q // c_words
                scalar = chosen(beta, beta_i, part ^ of_part)
                source = addend + wide(c_part_stride) * of_part + q % c_words * wide(c_word_stride)
                _, place, nonzero, _ = addend_of(source, scalar, base, real & ~special, C_FIELDS)
                first = tl.minimum(first, tl.where(nonzero, place, NOWHERE))
                last = tl.maximum(last, tl.where(nonzero, place + ADDEND_WORDS, -NOWHERE))
            first = tl.where(last < first, 0, first)
            last = tl.maximum(last, first)
            error_at = tl.maximum(error_place - 32 * first, 0)
            last = tl.maximum(last, tl.where(change > 0, first + (error_at >> 5) + 1, last))
            span = tl.minimum(tl.max(last - first, 0) + 2, span_held)
            for side in range(1 + slack):
                tl.debug_barrier()
                for w in range(span):
                    tl.store(ours + wide(w) * COLUMNS, nothing)
                for q in range(PARTS):
                    factor = chosen(alpha, alpha_i, part ^ q)
                    if (factor << 1) != 0:
                        add_multiple(
                            ours, COLUMNS, first, at_limbs + wide(q) * (limbs * COLUMNS), COLUMNS,
                            limbs, factor, (part == 0) & (q == 1), real,
                        )  # fmt: skip
                for q in range(c_parts * c_words):
                    of_part = q // c_words
                    scalar = chosen(beta, beta_i, part ^ of_part)
                    source = addend + wide(c_part_stride) * of_part
                    source += q % c_words * wide(c_word_stride)
                    pieces, place, nonzero, minus = addend_of(
                        source, scalar, base, real & ~special, C_FIELDS
                    )
                    minus = minus != ((part == 0) & (of_part == 1))
                    for piece in tl.static_range(ADDEND_WORDS):
                        value = pieces[piece].to(tl.int64)
                        value = tl.where(minus, -value, value)
                        add_at(ours, COLUMNS, piece + place - first, value, real & nonzero)
                step = change * (2 * side - 1) << (error_at & 31).to(tl.int64)
                add_at(ours, COLUMNS, error_at >> 5, step, real & (change > 0))
                tl.debug_barrier()
                last_place, negative = carried_sums(ours, COLUMNS, span, real)
                tl.debug_barrier()
                to = offset + wide(part) * part_stride
                other, _unit = store_words(
                    ours, COLUMNS, 32 * span, last_place, negative, base + 32 * first, out + to,
                    wide(word_stride), words, second + to, real, side, PRECISION, LOWEST, HIGHEST,
                    MIXED, False, ASSEMBLY,
                )  # fmt: skip
                open_element |= other
        code = code_of(open_element, norm > limit, special, slack != 0)
        tl.store(marks + wide(row) * n + j, code.to(tl.uint8), real & (code >= marked))
