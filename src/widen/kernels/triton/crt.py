"""Reconstruction by any number of moduli: one kernel for all plans, constants from memory.

`reconstruct` has kernels compiled for one list of moduli, with its constants in the code: faster,
but some seconds of compilation for every list. Small results, and plans that are rare, come here.
"""

from __future__ import annotations

import triton
import triton.language as tl

from widen.kernels.triton.limbs import NEVER, last_bit, store_words
from widen.kernels.triton.numbers import FLAGS, INEXACT, NORM, SCALE, SIGMA, SPECIAL, SUM, wide
from widen.kernels.triton.packed import times_add
from widen.kernels.triton.reconstruct import SPECIAL_ELEMENT, UNFIT, UNSETTLED, magnitude_bits

SPARE_BITS = tl.constexpr(12)  # |X| is at least 2^-9 P away from P/2, and P has all but one bit


@triton.jit
def of_parts(ours, theirs, third, part, p):
    """A part's residue from the products x x', y y' and (x + y)(x' + y'), plus a multiple of p."""
    return third * part + ours * (1 - 2 * part) - theirs + (1 + part) * p


@triton.jit
def byte_of(groups, stream, i, moduli, p, part, parts, inside):
    """A number in [0, 4p) that is the residue of a part of X modulo p_i, times its coefficient."""
    at = groups + wide(i) * stream
    value = tl.load(at, inside, other=0).to(tl.int32)
    if parts == 2:
        apart = wide(moduli) * stream
        theirs = tl.load(at + apart, inside, other=0).to(tl.int32)
        third = tl.load(at + 2 * apart, inside, other=0).to(tl.int32)
        value = of_parts(value, theirs, third, part, p)
    return value.to(tl.uint32)


@triton.jit
def three_of(groups, stream, i, moduli, inside):
    """The sum of a modulus's three groups: products of low digits, of high ones, and of sums."""
    at = groups + wide(i) * stream
    total = tl.load(at, inside, other=0).to(tl.int32)
    total += tl.load(at + wide(moduli) * stream, inside, other=0).to(tl.int32)
    return total + tl.load(at + 2 * wide(moduli) * stream, inside, other=0).to(tl.int32)


@triton.jit
def long_of(groups, stream, i, moduli, p, part, parts, inside):
    """The same in [0, 12p) of a modulus in two digits."""
    value = three_of(groups, stream, i, moduli, inside)
    if parts == 2:
        theirs = three_of(groups, stream, 3 * moduli + i, moduli, inside)
        third = three_of(groups, stream, 6 * moduli + i, moduli, inside)
        value = of_parts(value, theirs, third, part, 3 * p)
    return value.to(tl.uint32)


@triton.jit
def plus_multiple(sums, value, row, LIMBS: tl.constexpr, ASSEMBLY: tl.constexpr):
    """Sums, with a value times a row of the table added."""
    more = ()
    for pair in tl.static_range(LIMBS // 2):
        both = tl.load(row + 1 + pair)
        low, high = both.to(tl.uint32), (both >> 32).to(tl.uint32)
        more = more + (
            times_add(value, low, sums[2 * pair], ASSEMBLY),
            times_add(value, high, sums[2 * pair + 1], ASSEMBLY),
        )
    return more


@triton.jit
def summed_limbs(
    groups, stream, moduli, long_groups, long_stream, long_moduli, basis, part, parts, inside,
    LIMBS: tl.constexpr, ASSEMBLY: tl.constexpr,
):  # fmt: skip
    """Sum of c_i P'/p_i, carried: LIMBS limbs, the last with all that is above it, 64 bits.

    A row of `basis` is (p_i, then P'/p_i two limbs at a time), moduli in two digits last. c_i is
    below 2^18, so that 2^13 terms and a carry fit 64 bits.
    """
    sums = ()
    for _ in tl.static_range(LIMBS):
        sums = sums + (tl.zeros(inside.shape, tl.uint64),)
    for i in range(moduli):
        row = basis + i * (LIMBS // 2 + 1)
        p = tl.load(row).to(tl.int32)
        value = byte_of(groups, stream, i, moduli, p, part, parts, inside)
        sums = plus_multiple(sums, value, row, LIMBS, ASSEMBLY)
    for i in range(long_moduli):
        row = basis + (moduli + i) * (LIMBS // 2 + 1)
        p = tl.load(row).to(tl.int32)
        value = long_of(long_groups, long_stream, i, long_moduli, p, part, parts, inside)
        sums = plus_multiple(sums, value, row, LIMBS, ASSEMBLY)
    total = sums[0]
    carried = ()
    for w in tl.static_range(1, LIMBS):
        carried = carried + (total.to(tl.uint32),)
        total = sums[w] + (total >> 32)
    return carried + (total,)


@triton.jit
def store_integer(
    carried, quotient, modulus, change, place, to, stride, LIMBS: tl.constexpr,
    ASSEMBLY: tl.constexpr,
):  # fmt: skip
    """Store the limbs of sum - q P' + change 2^place; give the place of its last bit, and its sign.

    `modulus` has -P', two limbs at a time.
    """
    carry = tl.zeros(quotient.shape, tl.int64)
    lowest = tl.full(quotient.shape, -1, tl.int32)
    lowest_word = tl.zeros(quotient.shape, tl.uint32)
    word = lowest_word
    for w in tl.static_range(LIMBS):
        both = tl.load(modulus + w // 2)
        minus = (both >> 32 * (w % 2)).to(tl.uint32)
        total = carried[w].to(tl.uint32).to(tl.uint64)
        total = times_add(quotient, minus, total, ASSEMBLY).to(tl.int64)
        here = (place >> 5) == w
        one = tl.full(place.shape, 1, tl.int64) << (place & 31).to(tl.int64)
        carry += total + tl.where(here, change * one, 0)
        word = carry.to(tl.uint32)
        tl.store(to + w * stride, word.to(tl.int32, bitcast=True))
        first = (lowest < 0) & (word != 0)
        lowest = tl.where(first, w, lowest)
        lowest_word = tl.where(first, word, lowest_word)
        carry = carry >> 32
    last = tl.where(lowest < 0, NEVER, 32 * lowest + last_bit(lowest_word))
    return last, word.to(tl.int32, bitcast=True) < 0


@triton.jit
def error_of(at_row, at_column, heights, widths, real, row_flags, column_flags, always):
    """Exponents e with |error of X| <= 2^e as in `bounds`, for elements of a row; -1 if exact."""
    sigma = tl.load(at_row + SIGMA * heights).to(tl.int32)
    tau = tl.load(at_column + SIGMA * widths, real, other=0).to(tl.int32)
    v = magnitude_bits(tl.load(at_row + SUM * heights), sigma)
    u = magnitude_bits(tl.load(at_column + SUM * widths, real, other=0), tau)
    ours = tl.where(column_flags & INEXACT > 0, tl.maximum(v, always) + 2, -1)
    theirs = tl.where(row_flags & INEXACT > 0, tl.maximum(u, always) + 2, -1)
    return tl.maximum(ours, theirs)


SIZES = [
    "m", "n", "pitch", "stream", "left_batch", "right_batch", "limit", "always", "parts",
    "part_stride", "batch_stride", "row_stride", "column_stride", "word_stride", "words", "batch",
    "slack", "marked", "moduli", "lifted", "inverse", "long_stream", "long_moduli",
]  # fmt: skip


@triton.jit(do_not_specialize=SIZES)
def round_any(
    groups, out, marks, rows_table, columns_table, m, n, pitch, stream, left_batch, right_batch,
    limit, always, parts, part_stride, batch_stride, row_stride, column_stride, word_stride, words,
    batch, slack, marked, basis, moduli, lifted, inverse, scratch, long_groups, long_stream,
    long_moduli, second,
    LIMBS: tl.constexpr, PRECISION: tl.constexpr, LOWEST: tl.constexpr, HIGHEST: tl.constexpr,
    MIXED: tl.constexpr, COLUMNS: tl.constexpr, ASSEMBLY: tl.constexpr,
):  # fmt: skip
    """Round X 2^-(s+t) into `out`, part by part, and mark what is not final.

    As `reconstruct.round_residues`, with `parts`, `slack` and `marked` known when it runs. Numbers
    have so many `words`, and with MIXED a float32 in `second` (whose strides are those of `out`).
    Residues by moduli in two digits are `long_groups`, three 16-bit numbers each.

    P' = P 2^lifted fills its LIMBS limbs, so that the highest tell q = rint(sum/P'); `inverse` is
    2^(32 LIMBS - 32)/P'. With `slack` X is rounded with its error taken off and with it added, and
    what differs is marked. A program takes COLUMNS elements of a row at a time, and has
    LIMBS * COLUMNS words of `scratch`.
    """
    lane = tl.arange(0, COLUMNS)
    tiles = tl.cdiv(n, COLUMNS)
    heights, widths = left_batch * m, right_batch * n
    limbs = scratch + wide(tl.program_id(0)) * (LIMBS * COLUMNS) + lane
    modulus = basis + (moduli + long_moduli) * (LIMBS // 2 + 1)
    for tile in range(tl.program_id(0), batch * m * tiles, tl.num_programs(0)):
        j = tile % tiles * COLUMNS + lane
        row = tile // tiles
        b, i = row // m, row % m
        real = j < n
        at_row = rows_table + b % left_batch * m + i
        at_column = columns_table + b % right_batch * n + j
        t = tl.load(at_column + SCALE * widths, real, other=0).to(tl.int32)
        column_flags = tl.load(at_column + FLAGS * widths, real, other=0).to(tl.int32)
        row_flags = tl.load(at_row + FLAGS * heights).to(tl.int32)
        base = -(tl.load(at_row + SCALE * heights).to(tl.int32) + t) - lifted
        norm = tl.load(at_row + NORM * heights) + tl.load(at_column + NORM * widths, real, other=0)
        error = error_of(at_row, at_column, heights, widths, real, row_flags, column_flags, always)
        change = tl.where((slack != 0) & (error >= 0), 1, 0).to(tl.int64)
        place = tl.maximum(error, 0) + lifted
        far = (change > 0) & (place > 32 * LIMBS - SPARE_BITS)
        place = tl.minimum(place, 32 * LIMBS - SPARE_BITS)
        open_element = far
        at = groups + wide(row) * pitch + j
        at_long = long_groups + wide(row) * pitch + j
        offset = wide(b) * batch_stride + wide(i) * row_stride + j.to(tl.int64) * column_stride
        for part in range(parts):
            carried = summed_limbs(
                at, stream, moduli, at_long, long_stream, long_moduli, basis, part, parts, real,
                LIMBS, ASSEMBLY,
            )  # fmt: skip
            quotient = (carried[LIMBS - 1].to(tl.float32) * inverse + 0.5).to(tl.int32)
            to = offset + wide(part) * part_stride
            for side in range(1 + slack):
                tl.debug_barrier()
                last, negative = store_integer(
                    carried, quotient.to(tl.uint32), modulus, change * (1 - 2 * side), place, limbs,
                    COLUMNS, LIMBS, ASSEMBLY,
                )  # fmt: skip
                tl.debug_barrier()
                open_element |= store_words(
                    limbs, COLUMNS, 32 * LIMBS, last, negative, base, out + to, wide(word_stride),
                    words, second + to, real, side, PRECISION, LOWEST, HIGHEST, MIXED, ASSEMBLY,
                )  # fmt: skip
        special = ((row_flags | column_flags) & SPECIAL) > 0
        wrong = tl.where(slack != 0, UNSETTLED, UNFIT)
        code = tl.where(open_element, UNSETTLED, tl.where(norm > limit, wrong, 0))
        code = tl.where(special, SPECIAL_ELEMENT, code)
        written = real & (code >= marked)
        tl.store(marks + wide(row) * n + j, code.to(tl.uint8), written)
