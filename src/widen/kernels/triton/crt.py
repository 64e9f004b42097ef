"""Reconstruction by any number of moduli: one kernel for all plans, constants from memory.

`reconstruct` has kernels compiled for one list of moduli, with its constants in the code: faster,
but some seconds of compilation for every list. Small results, and plans that are rare, come here.
"""

from __future__ import annotations

import triton
import triton.language as tl

from widen.kernels.triton.limbs import NEVER, last_bit, store_words, with_negated
from widen.kernels.triton.numbers import FLAGS, INEXACT, NORM, SCALE, SIGMA, SPECIAL, SUM, wide
from widen.kernels.triton.packed import times_add
from widen.kernels.triton.reconstruct import SPECIAL_ELEMENT, UNFIT, UNSETTLED, magnitude_bits

SPARE_BITS = tl.constexpr(12)  # |X| is at least 2^-9 P away from P/2, and P has all but one bit
HEADER = tl.constexpr(4)  # words of a row of the table before its inverse and its limbs


@triton.jit
def four_words(at, ASSEMBLY: tl.constexpr):
    """Four neighbouring words of a table, the same for all elements."""
    if ASSEMBLY:  # one load; Triton has none for numbers that are not in a tensor
        return tl.inline_asm_elementwise(
            "ld.global.nc.v4.b32 {$0, $1, $2, $3}, [$4];", "=r,=r,=r,=r,l", [at.to(tl.int64)],
            (tl.int32, tl.int32, tl.int32, tl.int32), True, 1,
        )  # fmt: skip
    else:
        return tl.load(at), tl.load(at + 1), tl.load(at + 2), tl.load(at + 3)


@triton.jit
def below(value, modulus, MULTIPLE: tl.constexpr):
    """A uint32 below 2 MULTIPLE times the modulus becomes one below MULTIPLE times it."""
    less = value - (modulus * MULTIPLE).to(tl.uint32)  # wraps around if that is too much
    return tl.minimum(value, less)


@triton.jit
def loaded(
    groups, stream, g, count, moduli, inside, SIZE: tl.constexpr, COPIES: tl.constexpr
):  # fmt: skip
    """Numbers of a group of SIZE moduli, COPIES of each, if there are more than g groups.

    The last group may have fewer moduli: the last one again, then.
    """
    found = ()
    there = inside & (tl.full(inside.shape, 0, tl.int32) + g < count)
    apart = wide(moduli) * stream
    for i in tl.static_range(SIZE):
        at = wide(tl.minimum(SIZE * g + i, moduli - 1)) * stream
        for copy in tl.static_range(COPIES):
            found = found + (tl.load(groups + (at + copy * apart), there, other=0),)
    return found


@triton.jit
def short_sum(numbers, factors, COPY: tl.constexpr, COPIES: tl.constexpr):
    """c_1 p_2 p_3 + c_2 p_1 p_3 + c_3 p_1 p_2 of three moduli: below 3 p_1 p_2 p_3.

    Where there are fewer moduli, factors are 0.
    """
    total = numbers[COPY].to(tl.int32) * factors[0]
    for i in tl.static_range(1, 3):
        total += numbers[COPIES * i + COPY].to(tl.int32) * factors[i]
    return total


@triton.jit
def long_sum(numbers, factors, whole, COPY: tl.constexpr, COPIES: tl.constexpr):
    """The same of two moduli in two digits, below their product `whole`.

    The sum of a modulus's three numbers, of low digits, of high ones and of sums, is -6 to 3p.
    """
    total = tl.zeros(numbers[0].shape, tl.int32) + whole
    for i in tl.static_range(2):
        value = numbers[COPIES * i + COPY].to(tl.int32)
        value += numbers[COPIES * i + COPY + 1].to(tl.int32)
        value += numbers[COPIES * i + COPY + 2].to(tl.int32)
        total += value * factors[i]
    return below(below(below(total.to(tl.uint32), whole, 4), whole, 2), whole, 1)


@triton.jit
def of_streams(sums, most, STREAMS: tl.constexpr):
    """A part's sum from those of x x', y y' and (x + y)(x' + y'), plus a multiple of `most`."""
    if STREAMS == 1:
        return sums[0]
    elif STREAMS == 2:
        return sums[0] - sums[1] + most
    else:
        return sums[2] - sums[0] - sums[1] + 2 * most


@triton.jit
def short_value(numbers, factors, whole, STREAMS: tl.constexpr):
    """S of three moduli: below 3 p_1 p_2 p_3, or 9 times that for a part of a complex X."""
    sums = ()
    for stream in tl.static_range(STREAMS):
        sums = sums + (short_sum(numbers, factors, stream, STREAMS),)
    return of_streams(sums, 3 * whole, STREAMS).to(tl.uint32)


@triton.jit
def long_value(numbers, factors, whole, STREAMS: tl.constexpr):
    """S of two moduli in two digits: below their product."""
    sums = ()
    for stream in tl.static_range(STREAMS):
        sums = sums + (long_sum(numbers, factors, whole, 3 * stream, 3 * STREAMS).to(tl.int32),)
    value = of_streams(sums, whole, STREAMS).to(tl.uint32)
    return below(below(value, whole, 2), whole, 1) if STREAMS > 1 else value


@triton.jit
def plus_multiple(sums, value, row, ASSEMBLY: tl.constexpr):
    """Sums, with a value times a row's inverse and limbs added."""
    more = ()
    for quad in tl.static_range((len(sums) + 3) // 4):
        words = four_words(row + HEADER + 4 * quad, ASSEMBLY)
        for i in tl.static_range(4):
            if 4 * quad + i < len(sums):
                word = words[i].to(tl.uint32)
                more = more + (times_add(value, word, sums[4 * quad + i], ASSEMBLY),)
    return more


@triton.jit
def sums_of(
    groups, stream, moduli, long_groups, long_stream, long_moduli, basis, length, inside,
    STREAMS: tl.constexpr, COUNT: tl.constexpr, ASSEMBLY: tl.constexpr,
):  # fmt: skip
    """Sum of S_G/P_G, as an integer, and COUNT limbs of the sum of S_G P/P_G, not carried.

    G are three moduli, or two of those in two digits, P_G is their product, and S_G the sum of
    c_i P_G/p_i: X is the sum of c_i P/p_i modulo P. A row of `basis` has `length` words: the
    P_G/p_i, P_G, what stands for 1/P_G, and the limbs of P/P_G. `torch_constants` sees to it that
    nothing exceeds 64 bits.
    """
    sums = ()
    for _ in tl.static_range(COUNT + 1):
        sums = sums + (tl.zeros(inside.shape, tl.uint64),)
    triples, pairs = (moduli + 2) // 3, (long_moduli + 1) // 2
    numbers = loaded(groups, stream, 0, triples, moduli, inside, 3, STREAMS)
    for g in range(triples):
        more = loaded(groups, stream, g + 1, triples, moduli, inside, 3, STREAMS)
        row = basis + g * length
        first, second, third, whole = four_words(row, ASSEMBLY)
        value = short_value(numbers, (first, second, third), whole, STREAMS)
        sums = plus_multiple(sums, value, row, ASSEMBLY)
        numbers = more
    pieces = loaded(long_groups, long_stream, 0, pairs, long_moduli, inside, 2, 3 * STREAMS)
    for g in range(pairs):
        more = loaded(long_groups, long_stream, g + 1, pairs, long_moduli, inside, 2, 3 * STREAMS)
        row = basis + (triples + g) * length
        first, second, third, whole = four_words(row, ASSEMBLY)
        value = long_value(pieces, (first, second), whole, STREAMS)
        sums = plus_multiple(sums, value, row, ASSEMBLY)
        pieces = more
    return sums, basis + (triples + pairs) * length


@triton.jit
def carried(sums, modulus, WIDTH: tl.constexpr, ASSEMBLY: tl.constexpr):
    """Limbs of WIDTH bits of sum - q P, q = rint(sum of S_G/P_G); the row `modulus` has -P."""
    point = tl.load(modulus).to(tl.uint64)
    quotient = ((sums[0] + (tl.full((), 1, tl.uint64) << (point - 1))) >> point).to(tl.uint32)
    carry = tl.zeros(sums[0].shape, tl.uint64)
    limbs = ()
    for quad in tl.static_range((len(sums) + 3) // 4):
        words = four_words(modulus + HEADER + 4 * quad, ASSEMBLY)
        for i in tl.static_range(4):
            if 4 * quad + i > 0 and 4 * quad + i < len(sums):
                carry += times_add(quotient, words[i].to(tl.uint32), sums[4 * quad + i], ASSEMBLY)
                limbs = limbs + (carry.to(tl.uint32) & ((1 << WIDTH) - 1),)
                carry = carry >> WIDTH
    return limbs


@triton.jit
def word_at(limbs, START: tl.constexpr, WIDTH: tl.constexpr):
    """32 bits of limbs of WIDTH bits, 17 or more, from bit START on."""
    first: tl.constexpr = START // WIDTH
    taken: tl.constexpr = WIDTH * (first + 1) - START  # bits of that one
    word = limbs[first] >> (WIDTH - taken)
    if taken < 32:
        word |= limbs[first + 1] << taken
    if taken + WIDTH < 32:
        word |= limbs[first + 2] << (taken + WIDTH)
    return word


@triton.jit
def changed(limbs, change, place):
    """Limbs of X + change 2^place: 1, 0 or -1."""
    step = (change << (place & 31).to(tl.int64)) & 0xFFFFFFFF
    fill = (change >> 1) & 0xFFFFFFFF  # -1 has ones above
    carry = tl.zeros(place.shape, tl.int64)
    more = ()
    for w in tl.static_range(len(limbs)):
        carry += tl.where(place >> 5 == w, step, tl.where(place >> 5 < w, fill, 0))
        carry += limbs[w].to(tl.int64)
        more = more + (carry.to(tl.uint32),)
        carry = carry >> 32
    return more


@triton.jit
def integer_of(
    groups, stream, moduli, long_groups, long_stream, long_moduli, basis, length, inside,
    slack, change, place, STREAMS: tl.constexpr, LIMBS: tl.constexpr, WIDTH: tl.constexpr,
    ASSEMBLY: tl.constexpr,
):  # fmt: skip
    """X, or with `slack` X + change 2^place: (its limbs, place of its last bit, sign).

    X = sum of c_i P/p_i - q P: |X|/P is below 1/2 - 2^-9. Of the products of two complex numbers
    its real part takes two STREAMS of groups, its imaginary part three.
    """
    count: tl.constexpr = (32 * LIMBS + WIDTH - 1) // WIDTH
    sums, modulus = sums_of(
        groups, stream, moduli, long_groups, long_stream, long_moduli, basis, length, inside,
        STREAMS, count, ASSEMBLY,
    )  # fmt: skip
    pieces = carried(sums, modulus, WIDTH, ASSEMBLY)
    limbs = ()
    for w in tl.static_range(LIMBS):
        limbs = limbs + (word_at(pieces, 32 * w, WIDTH),)
    if slack != 0:
        limbs = changed(limbs, change, place)
    lowest = tl.full(inside.shape, -1, tl.int32)
    lowest_word = tl.zeros(inside.shape, tl.uint32)
    for w in tl.static_range(LIMBS - 1, -1, -1):
        lowest = tl.where(limbs[w] != 0, w, lowest)
        lowest_word = tl.where(limbs[w] != 0, limbs[w], lowest_word)
    last = tl.where(lowest < 0, NEVER, 32 * lowest + last_bit(lowest_word))
    return limbs, last, limbs[LIMBS - 1].to(tl.int32, bitcast=True) < 0


@triton.jit
def store_limbs(limbs, to, stride, ASSEMBLY: tl.constexpr):
    """Limbs in memory, so many apart."""
    for w in tl.static_range(len(limbs)):
        if ASSEMBLY:  # 56 of Triton's stores take its compiler 5 s, at each it looks at everything
            tl.inline_asm_elementwise(
                "st.global.b32 [$1], $2; mov.b32 $0, 0;", "=r,l,r",
                [(to + w * stride).to(tl.int64), limbs[w]], tl.int32, False, 1,
            )  # fmt: skip
        else:
            tl.store(to + w * stride, limbs[w].to(tl.int32, bitcast=True))


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
    "m", "left_batch", "right_batch", "limit", "always", "words", "batch", "slack", "marked",
    "moduli", "length", "held", "long_moduli",
]  # fmt: skip


@triton.jit(do_not_specialize=SIZES)
def round_any(
    groups, out, marks, rows_table, columns_table, m, n, pitch, stream, left_batch, right_batch,
    limit, always, part_stride, batch_stride, row_stride, column_stride, word_stride, words,
    batch, slack, marked, basis, moduli, length, held, scratch, long_groups, long_stream,
    long_moduli, second,
    PARTS: tl.constexpr, PRECISION: tl.constexpr, LOWEST: tl.constexpr, HIGHEST: tl.constexpr,
    MIXED: tl.constexpr, COLUMNS: tl.constexpr, ASSEMBLY: tl.constexpr, LIMBS: tl.constexpr,
    WIDTH: tl.constexpr, HELD: tl.constexpr,
):  # fmt: skip
    """Round X 2^-(s+t) into `out`, part by part, and mark what is not final.

    As `reconstruct.round_residues`, with `slack` and `marked` known when it runs. Numbers
    have so many `words`, and with MIXED a float32 in `second` (whose strides are those of `out`).
    Residues by moduli in two digits are `long_groups`, three 16-bit numbers each.

    P has `held` bits, X LIMBS limbs of 32 bits, and sums limbs of WIDTH bits. With `slack` X is
    rounded with its error taken off and with it added, and what differs is marked. A program takes
    COLUMNS elements of a row at a time. Unless HELD, X is rounded from memory, where a program has
    LIMBS * COLUMNS words of `scratch`.
    """
    lane = tl.arange(0, COLUMNS)
    tiles = tl.cdiv(n, COLUMNS)
    heights, widths = left_batch * m, right_batch * n
    at_limbs = scratch + wide(tl.program_id(0)) * (LIMBS * COLUMNS) + lane
    row, column = tl.program_id(0) // tiles, tl.program_id(0) % tiles
    rows_on, columns_on = tl.num_programs(0) // tiles, tl.num_programs(0) % tiles
    for _ in range(tl.program_id(0), batch * m * tiles, tl.num_programs(0)):
        j = column * COLUMNS + lane
        b, left, right = row * 0, row * 0, row * 0
        if batch > 1:
            b = row // m
            left, right = b % left_batch, b % right_batch
        i = row - b * m
        real, there = j < n, j < pitch
        at_row = rows_table + left * m + i
        at_column = columns_table + right * n + j
        t = tl.load(at_column + SCALE * widths, real, other=0).to(tl.int32)
        column_flags = tl.load(at_column + FLAGS * widths, real, other=0).to(tl.int32)
        row_flags = tl.load(at_row + FLAGS * heights).to(tl.int32)
        base = -(tl.load(at_row + SCALE * heights).to(tl.int32) + t)
        norm = tl.load(at_row + NORM * heights) + tl.load(at_column + NORM * widths, real, other=0)
        error = tl.full((COLUMNS,), -1, tl.int32)
        if slack != 0:
            error = error_of(
                at_row, at_column, heights, widths, real, row_flags, column_flags, always
            )
        change = tl.where(error >= 0, 1, 0).to(tl.int64)
        place = tl.minimum(tl.maximum(error, 0), held - SPARE_BITS)
        open_element = (change > 0) & (error > held - SPARE_BITS)
        at = groups + wide(row) * pitch + j
        at_long = long_groups + wide(row) * pitch + j
        offset = wide(b) * batch_stride + wide(i) * row_stride + j.to(tl.int64) * column_stride
        for part in tl.static_range(PARTS):
            to = offset + wide(part) * part_stride
            for side in range(1 + slack):
                found, last, negative = integer_of(
                    at, stream, moduli, at_long, long_stream, long_moduli, basis, length, there,
                    slack, change * (1 - 2 * side), place, PARTS + part, LIMBS, WIDTH, ASSEMBLY,
                )  # fmt: skip
                if HELD:
                    found = with_negated(found)
                else:
                    tl.debug_barrier()
                    store_limbs(found, at_limbs, COLUMNS, ASSEMBLY)
                    tl.debug_barrier()
                    found = at_limbs
                open_element |= store_words(
                    found, COLUMNS, 32 * LIMBS, last, negative, base, out + to, wide(word_stride),
                    words, second + to, real, side, PRECISION, LOWEST, HIGHEST, MIXED, HELD,
                    ASSEMBLY,
                )  # fmt: skip
        special = ((row_flags | column_flags) & SPECIAL) > 0
        wrong = tl.where(slack != 0, UNSETTLED, UNFIT)
        code = tl.where(open_element, UNSETTLED, tl.where(norm > limit, wrong, 0))
        code = tl.where(special, SPECIAL_ELEMENT, code)
        tl.store(marks + wide(row) * n + j, code.to(tl.uint8), real & (code >= marked))
        # The tile so many programs on, without a division.
        over = (column + columns_on >= tiles).to(tl.int32)
        row, column = row + rows_on + over, column + columns_on - over * tiles
