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

UNROLL = tl.constexpr(1)  # moduli whose residues are loaded together
SPARE_BITS = tl.constexpr(12)  # |X| is at least 2^-9 P away from P/2, and P has all but one bit


@triton.jit
def of_parts(ours, theirs, third, part, p):
    """A part's residue from the products x x', y y' and (x + y)(x' + y'), plus a multiple of p."""
    return third * part + ours * (1 - 2 * part) - theirs + (1 + part) * p


@triton.jit
def byte_of(groups, stream, i, moduli, p, part, inside, PARTS: tl.constexpr):
    """A number in [0, 4p) that is the residue of a part of X modulo p_i, times its coefficient.

    Groups of 32 bits are those numbers of one part after the other, in [0, p).
    """
    at = groups + wide(i) * stream
    if groups.dtype.element_ty == tl.int32:
        value = tl.load(at + wide(part) * moduli * stream, inside, other=0)
    else:
        value = tl.load(at, inside, other=0).to(tl.int32)
        if PARTS == 2:
            apart = wide(moduli) * stream
            theirs = tl.load(at + apart, inside, other=0).to(tl.int32)
            third = tl.load(at + 2 * apart, inside, other=0).to(tl.int32)
            value = of_parts(value, theirs, third, part, p)
    return value.to(tl.uint32)


@triton.jit
def three_of(groups, stream, i, moduli, inside):
    """The sum of a modulus's three groups, -6 to 3p: of low digits, of high ones, and of sums."""
    at = groups + wide(i) * stream
    total = tl.load(at, inside, other=0).to(tl.int32)
    total += tl.load(at + wide(moduli) * stream, inside, other=0).to(tl.int32)
    return total + tl.load(at + 2 * wide(moduli) * stream, inside, other=0).to(tl.int32)


@triton.jit
def long_of(groups, stream, i, moduli, p, part, inside, PARTS: tl.constexpr):
    """The same in [0, 16p) of a modulus in two digits."""
    value = three_of(groups, stream, i, moduli, inside)
    if PARTS == 2:
        theirs = three_of(groups, stream, 3 * moduli + i, moduli, inside)
        third = three_of(groups, stream, 6 * moduli + i, moduli, inside)
        value = of_parts(value, theirs, third, part, 3 * p)
    return (value + p).to(tl.uint32)


@triton.jit
def plus_multiple(sums, value, row, CHUNK: tl.constexpr, ASSEMBLY: tl.constexpr):
    """Sums, with a value times some limbs of a row of the table added."""
    more = ()
    for pair in tl.static_range(CHUNK // 2):
        both = tl.load(row + pair)
        low, high = both.to(tl.uint32), (both >> 32).to(tl.uint32)
        more = more + (
            times_add(value, low, sums[2 * pair], ASSEMBLY),
            times_add(value, high, sums[2 * pair + 1], ASSEMBLY),
        )
    return more


@triton.jit
def chunk_of(
    groups, stream, moduli, long_groups, long_stream, long_moduli, basis, length, first, part,
    inside, PARTS: tl.constexpr, CHUNK: tl.constexpr, ASSEMBLY: tl.constexpr,
):  # fmt: skip
    """CHUNK limbs, from `first` on, of the sum of c_i P/p_i, not carried; and sum(c_i/p_i) 2^40.

    A row of `basis` has `length` numbers: p_i, floor(2^40/p_i), and P/p_i two limbs at a time;
    moduli in two digits come last. c_i is below 2^18: 2^13 terms and a carry fit 64 bits, and 2^9
    of them leave the fraction an error below 2^-12; or below 2^23, with 2^7 terms: 2^-10.
    """
    sums = ()
    for _ in tl.static_range(CHUNK):
        sums = sums + (tl.zeros(inside.shape, tl.uint64),)
    fraction = tl.zeros(inside.shape, tl.uint64)
    for i in tl.range(moduli, loop_unroll_factor=UNROLL):
        row = basis + i * length
        p, inverse = tl.load(row).to(tl.int32), tl.load(row + 1).to(tl.uint64)
        value = byte_of(groups, stream, i, moduli, p, part, inside, PARTS)
        sums = plus_multiple(sums, value, row + 2 + first // 2, CHUNK, ASSEMBLY)
        fraction += value.to(tl.uint64) * inverse
    for i in tl.range(long_moduli, loop_unroll_factor=UNROLL):
        row = basis + (moduli + i) * length
        p, inverse = tl.load(row).to(tl.int32), tl.load(row + 1).to(tl.uint64)
        value = long_of(long_groups, long_stream, i, long_moduli, p, part, inside, PARTS)
        sums = plus_multiple(sums, value, row + 2 + first // 2, CHUNK, ASSEMBLY)
        fraction += value.to(tl.uint64) * inverse
    return sums, fraction


@triton.jit
def carried(
    sums, fraction, modulus, first, change, place, carry, lowest, lowest_word, CHUNK: tl.constexpr,
    ASSEMBLY: tl.constexpr,
):  # fmt: skip
    """Limbs of sum - q P + change 2^place from limb `first` on, and what goes on to the next.

    q = rint(sum of c_i/p_i); `modulus` has -P. `lowest` is the first limb that is not 0.
    """
    quotient = ((fraction + (1 << 39)) >> 40).to(tl.uint32)
    one = tl.full(place.shape, 1, tl.int64) << (place & 31).to(tl.int64)
    limbs = ()
    for w in tl.static_range(CHUNK):
        both = tl.load(modulus + (first + w) // 2)
        minus = (both >> 32 * (w % 2)).to(tl.uint32)
        carry += times_add(quotient, minus, sums[w], ASSEMBLY).to(tl.int64)
        carry += tl.where((place >> 5) == first + w, change * one, 0)
        word = carry.to(tl.uint32)
        limbs = limbs + (word,)
        new = (lowest < 0) & (word != 0)
        lowest = tl.where(new, first + w, lowest)
        lowest_word = tl.where(new, word, lowest_word)
        carry = carry >> 32
    return limbs, carry, lowest, lowest_word


@triton.jit
def integer_of(
    groups, stream, moduli, long_groups, long_stream, long_moduli, basis, length, limbs, part,
    inside, change, place, to, stride, PARTS: tl.constexpr, CHUNK: tl.constexpr, HELD: tl.constexpr,
    ASSEMBLY: tl.constexpr,
):  # fmt: skip
    """X + change 2^place in so many limbs: (these or where they are, last bit's place, sign).

    X = sum of c_i P/p_i - q P: |X|/P is below 1/2 - 2^-9. With HELD there are CHUNK limbs, which
    stay in registers; else they are stored. The last row of `basis` has -P.
    """
    carry = tl.zeros(inside.shape, tl.int64)
    lowest = tl.full(inside.shape, -1, tl.int32)
    lowest_word = tl.zeros(inside.shape, tl.uint32)
    modulus = basis + (moduli + long_moduli) * length + 2
    if HELD:
        sums, fraction = chunk_of(
            groups, stream, moduli, long_groups, long_stream, long_moduli, basis, length, 0, part,
            inside, PARTS, CHUNK, ASSEMBLY,
        )  # fmt: skip
        words, carry, lowest, lowest_word = carried(
            sums, fraction, modulus, 0, change, place, carry, lowest, lowest_word, CHUNK, ASSEMBLY
        )
        last = tl.where(lowest < 0, NEVER, 32 * lowest + last_bit(lowest_word))
        return words, last, words[CHUNK - 1].to(tl.int32, bitcast=True) < 0
    else:
        top = tl.zeros(inside.shape, tl.uint32)
        for first in range(0, limbs, CHUNK):
            sums, fraction = chunk_of(
                groups, stream, moduli, long_groups, long_stream, long_moduli, basis, length, first,
                part, inside, PARTS, CHUNK, ASSEMBLY,
            )  # fmt: skip
            words, carry, lowest, lowest_word = carried(
                sums, fraction, modulus, first, change, place, carry, lowest, lowest_word, CHUNK,
                ASSEMBLY,
            )  # fmt: skip
            for w in tl.static_range(CHUNK):
                tl.store(to + (first + w) * stride, words[w].to(tl.int32, bitcast=True))
            top = words[CHUNK - 1]
        last = tl.where(lowest < 0, NEVER, 32 * lowest + last_bit(lowest_word))
        return to, last, top.to(tl.int32, bitcast=True) < 0


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
    "m", "n", "left_batch", "right_batch", "limit", "always", "part_stride",
    "batch_stride", "row_stride", "word_stride", "words", "batch", "slack", "marked", "moduli",
    "length", "limbs", "held", "long_moduli",
]  # fmt: skip


@triton.jit(do_not_specialize=SIZES)
def round_any(
    groups, out, marks, rows_table, columns_table, m, n, pitch, stream, left_batch, right_batch,
    limit, always, part_stride, batch_stride, row_stride, column_stride, word_stride, words,
    batch, slack, marked, basis, moduli, length, limbs, held, scratch, long_groups, long_stream,
    long_moduli, second,
    PARTS: tl.constexpr, PRECISION: tl.constexpr, LOWEST: tl.constexpr, HIGHEST: tl.constexpr,
    MIXED: tl.constexpr, COLUMNS: tl.constexpr, ASSEMBLY: tl.constexpr, CHUNK: tl.constexpr,
    HELD: tl.constexpr,
):  # fmt: skip
    """Round X 2^-(s+t) into `out`, part by part, and mark what is not final.

    As `reconstruct.round_residues`, with `slack` and `marked` known when it runs. Numbers
    have so many `words`, and with MIXED a float32 in `second` (whose strides are those of `out`).
    Residues by moduli in two digits are `long_groups`, three 16-bit numbers each.

    P has `held` bits; X is computed in `limbs` limbs, CHUNK at a time, or with HELD at once. With
    `slack` X is rounded with its error taken off and with it added, and what differs is marked. A
    program takes COLUMNS elements of a row at a time, and has limbs * COLUMNS words of `scratch`.
    """
    lane = tl.arange(0, COLUMNS)
    tiles = tl.cdiv(n, COLUMNS)
    heights, widths = left_batch * m, right_batch * n
    at_limbs = scratch + wide(tl.program_id(0)) * (limbs * COLUMNS) + lane
    for tile in range(tl.program_id(0), batch * m * tiles, tl.num_programs(0)):
        j = tile % tiles * COLUMNS + lane
        row = tile // tiles
        b, i = row // m, row % m
        real, there = j < n, j < pitch
        at_row = rows_table + b % left_batch * m + i
        at_column = columns_table + b % right_batch * n + j
        t = tl.load(at_column + SCALE * widths, real, other=0).to(tl.int32)
        column_flags = tl.load(at_column + FLAGS * widths, real, other=0).to(tl.int32)
        row_flags = tl.load(at_row + FLAGS * heights).to(tl.int32)
        base = -(tl.load(at_row + SCALE * heights).to(tl.int32) + t)
        norm = tl.load(at_row + NORM * heights) + tl.load(at_column + NORM * widths, real, other=0)
        error = error_of(at_row, at_column, heights, widths, real, row_flags, column_flags, always)
        change = tl.where((slack != 0) & (error >= 0), 1, 0).to(tl.int64)
        place = tl.minimum(tl.maximum(error, 0), held - SPARE_BITS)
        open_element = (change > 0) & (error > held - SPARE_BITS)
        at = groups + wide(row) * pitch + j
        at_long = long_groups + wide(row) * pitch + j
        offset = wide(b) * batch_stride + wide(i) * row_stride + j.to(tl.int64) * column_stride
        for part in range(PARTS):
            to = offset + wide(part) * part_stride
            for side in range(1 + slack):
                tl.debug_barrier()
                found, last, negative = integer_of(
                    at, stream, moduli, at_long, long_stream, long_moduli, basis, length, limbs,
                    part, there, change * (1 - 2 * side), place, at_limbs, COLUMNS, PARTS, CHUNK,
                    HELD, ASSEMBLY,
                )  # fmt: skip
                tl.debug_barrier()
                open_element |= store_words(
                    found, COLUMNS, 32 * limbs, last, negative, base, out + to, wide(word_stride),
                    words, second + to, real, side, PRECISION, LOWEST, HIGHEST, MIXED, HELD,
                    ASSEMBLY,
                )  # fmt: skip
        special = ((row_flags | column_flags) & SPECIAL) > 0
        wrong = tl.where(slack != 0, UNSETTLED, UNFIT)
        code = tl.where(open_element, UNSETTLED, tl.where(norm > limit, wrong, 0))
        code = tl.where(special, SPECIAL_ELEMENT, code)
        tl.store(marks + wide(row) * n + j, code.to(tl.uint8), real & (code >= marked))
