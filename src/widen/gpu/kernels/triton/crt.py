"""Reconstruction by any number of moduli: one kernel for all plans, constants from memory.

`reconstruct` has kernels compiled for one list of moduli, with its constants in the code: faster,
but some seconds of compilation for every list. Small results, and plans that are rare, come here.
"""

from __future__ import annotations

import triton
import triton.language as tl

from widen.gpu.kernels.triton.crt_groups import (
    HEADER,
    four_words,
    plus_groups,
    plus_values,
    store_values,
)
from widen.gpu.kernels.triton.limbs import NEVER, last_bit, store_words, with_negated
from widen.gpu.kernels.triton.numbers import FLAGS, INEXACT, NORM, SCALE, SIGMA, SPECIAL, SUM, wide
from widen.gpu.kernels.triton.packed import times_add
from widen.gpu.kernels.triton.reconstruct import code_of, magnitude_bits

SPARE_BITS = tl.constexpr(12)  # |X| is at least 2^-9 P away from P/2, and P has all but one bit
START = tl.constexpr(8)  # first limb of a row, where X is put together in memory
PIECES, WIDTH, WORDS = tl.constexpr(32), tl.constexpr(30), tl.constexpr(30)
"""Where X is in memory: limbs that are summed at a time, their bits, and words of 32 bits these
make. 61 groups and what is carried fit 64 bits so."""
CARRIED = tl.constexpr(32)  # sums are below 2^34, so limbs below one limb add 2^(34 - WIDTH) to it


@triton.jit
def zero_sums(like, COUNT: tl.constexpr):
    """So many sums of 64 bits."""
    sums = ()
    for _ in tl.static_range(COUNT):
        sums = sums + (tl.zeros(like.shape, tl.uint64),)
    return sums


@triton.jit
def quotient_of(fraction, modulus):
    """Rounded sum of S_G/P_G; the row `modulus` says which bit of the fraction is 1."""
    point = tl.load(modulus).to(tl.uint64)
    return ((fraction + (tl.full((), 1, tl.uint64) << (point - 1))) >> point).to(tl.uint32)


@triton.jit
def carried(
    sums, quotient, minus, carry, SKIPPED: tl.constexpr, BITS: tl.constexpr, ASSEMBLY: tl.constexpr
):  # fmt: skip
    """Limbs of BITS bits of sum - q P, and what is carried on; `minus` has -P, some sums are no."""
    limbs = ()
    for quad in tl.static_range((len(sums) + 3) // 4):
        words = four_words(minus + 4 * quad, ASSEMBLY)
        for i in tl.static_range(4):
            if 4 * quad + i >= SKIPPED and 4 * quad + i < len(sums):
                carry += times_add(quotient, words[i].to(tl.uint32), sums[4 * quad + i], ASSEMBLY)
                limbs = limbs + (carry.to(tl.uint32) & (2**BITS - 1),)
                carry = carry >> BITS
    return limbs, carry


@triton.jit
def word_at(limbs, FIRST: tl.constexpr, BITS: tl.constexpr):
    """32 bits of limbs of so many bits, 17 or more, from bit FIRST on."""
    at: tl.constexpr = FIRST // BITS
    taken: tl.constexpr = BITS * (at + 1) - FIRST  # bits of that one
    word = limbs[at] >> (BITS - taken)
    if taken < 32:
        word |= limbs[at + 1] << taken
    if taken + BITS < 32:
        word |= limbs[at + 2] << (taken + BITS)
    return word


@triton.jit
def changed(limbs, first, change, place, carry):
    """Limbs of X + change 2^place (1, 0 or -1) from limb `first` on, and what is carried on."""
    step = (change << (place & 31).to(tl.int64)) & 0xFFFFFFFF
    fill = (change >> 1) & 0xFFFFFFFF  # -1 has ones above
    at = (place >> 5) - first
    more = ()
    for w in tl.static_range(len(limbs)):
        carry += tl.where(at == w, step, tl.where(at < w, fill, 0)) + limbs[w].to(tl.int64)
        more = more + (carry.to(tl.uint32),)
        carry = carry >> 32
    return more, carry


@triton.jit
def lowest_of(limbs):
    """Place of the last bit that is set, or NEVER."""
    lowest = tl.full(limbs[0].shape, -1, tl.int32)
    word = tl.zeros(limbs[0].shape, tl.uint32)
    for w in tl.static_range(len(limbs) - 1, -1, -1):
        lowest = tl.where(limbs[w] != 0, w, lowest)
        word = tl.where(limbs[w] != 0, limbs[w], word)
    return tl.where(lowest < 0, NEVER, 32 * lowest + last_bit(word))


@triton.jit
def integer_held(
    groups, stream, moduli, long_groups, long_stream, long_moduli, basis, length, inside, slack,
    change, place, STREAMS: tl.constexpr, LIMBS: tl.constexpr, LONG: tl.constexpr,
    ASSEMBLY: tl.constexpr,
):  # fmt: skip
    """The integer X, or with `slack` X + change 2^place: limbs, place of the last bit, sign.

    X = sum of c_i P/p_i - q P: |X|/P is below 1/2 - 2^-9. Of the products of two complex numbers
    its real part takes two STREAMS of groups, its imaginary part three. LONG: there are moduli in
    two digits.
    """
    size: tl.constexpr = 1 if groups.dtype.element_ty == tl.int32 else 3
    triples, pairs = (moduli + size - 1) // size, (long_moduli + 1) // 2
    sums = zero_sums(inside, LIMBS + 1)
    if size == 1:
        at = groups + wide(STREAMS // 3 * moduli) * stream
        sums = plus_groups(sums, at, stream, moduli, basis, length, inside, 1, 1, ASSEMBLY)
    else:
        sums = plus_groups(
            sums, groups, stream, moduli, basis, length, inside, 3, STREAMS, ASSEMBLY
        )
    if LONG:
        sums = plus_groups(
            sums, long_groups, long_stream, long_moduli, basis + triples * length, length, inside,
            2, STREAMS, ASSEMBLY,
        )  # fmt: skip
    modulus = basis + (triples + pairs) * length
    nothing = tl.zeros(inside.shape, tl.uint64)
    quotient = quotient_of(sums[0], modulus)
    limbs = carried(sums, quotient, modulus + HEADER, nothing, 1, 32, ASSEMBLY)[0]
    if slack != 0:
        limbs = changed(limbs, 0, change, place, nothing.to(tl.int64))[0]
    return limbs, lowest_of(limbs), limbs[LIMBS - 1].to(tl.int32, bitcast=True) < 0


@triton.jit
def store_limbs(limbs, to, stride, ASSEMBLY: tl.constexpr):
    """Limbs in memory, so many apart."""
    for w in tl.static_range(len(limbs)):
        if ASSEMBLY:  # Triton's compiler looks at everything at each of its own stores
            tl.inline_asm_elementwise(
                "st.global.b32 [$1], $2; mov.b32 $0, 0;", "=r,l,r",
                [(to + w * stride).to(tl.int64), limbs[w]], tl.int32, False, 1,
            )  # fmt: skip
        else:
            tl.store(to + w * stride, limbs[w].to(tl.int32, bitcast=True))


@triton.jit
def limbs_of(length):
    """Limbs of 32 bits that X has in memory, for rows of a table so long."""
    return (length - START) // PIECES * WORDS


@triton.jit
def groups_stored(
    groups, stream, moduli, long_groups, long_stream, long_moduli, basis, length, inside, values,
    stride, STREAMS: tl.constexpr, ASSEMBLY: tl.constexpr,
):  # fmt: skip
    """Store all S_G in `values`, TOGETHER - 1 more of them than there are.

    Gives the rows of the table that they are for, q, and about what limbs below the highest chunk
    carry into it: CARRIED less at most.
    """
    size: tl.constexpr = 1 if groups.dtype.element_ty == tl.int32 else 3
    triples, pairs = (moduli + size - 1) // size, (long_moduli + 1) // 2
    sums = zero_sums(inside, 2)
    if size == 1:
        at = groups + wide(STREAMS // 3 * moduli) * stream
        sums = store_values(
            sums, at, stream, moduli, basis, length, inside, values, stride, 1, 1, ASSEMBLY
        )
    else:
        sums = store_values(
            sums, groups, stream, moduli, basis, length, inside, values, stride, 3, STREAMS,
            ASSEMBLY,
        )  # fmt: skip
        sums = store_values(
            sums, long_groups, long_stream, long_moduli, basis + triples * length, length,
            inside, values + wide(triples) * stride, stride, 2, STREAMS, ASSEMBLY,
        )  # fmt: skip
    tl.debug_barrier()
    modulus = basis + (triples + pairs) * length
    quotient = quotient_of(sums[0], modulus)
    below = tl.load(modulus + HEADER + 1).to(tl.uint32)
    return triples + pairs, quotient, times_add(quotient, below, sums[1], ASSEMBLY) >> WIDTH


@triton.jit
def integer_stored(
    values, stride, count, basis, length, quotient, carry, first, slack, change, place, to,
    ASSEMBLY: tl.constexpr,
):  # fmt: skip
    """The X of `groups_stored`, shifted, in memory from chunk `first`: last bit, lowest limb, sign.

    Limbs are `stride` apart, so many in all that `limbs_of` says, and `carry` is what those below
    bring. With `slack` it is X + change 2^place.
    """
    modulus = basis + count * length
    change_carry = tl.zeros(quotient.shape, tl.int64)
    last = tl.full(quotient.shape, NEVER, tl.int32)
    lowest, top = tl.zeros(quotient.shape, tl.uint32), quotient & 0
    for chunk in range(first, (length - START) // PIECES):
        sums = plus_values(
            zero_sums(quotient, PIECES), values, stride, count, basis + START + PIECES * chunk,
            length, ASSEMBLY,
        )  # fmt: skip
        minus = modulus + START + PIECES * chunk
        pieces, carry = carried(sums, quotient, minus, carry, 0, WIDTH, ASSEMBLY)
        limbs = ()
        for w in tl.static_range(WORDS):
            limbs = limbs + (word_at(pieces, 32 * w, WIDTH),)
        if slack != 0:
            limbs, change_carry = changed(limbs, WORDS * chunk, change, place, change_carry)
        last = tl.minimum(last, 32 * WORDS * chunk + lowest_of(limbs))
        store_limbs(limbs, to + wide(WORDS * chunk) * stride, stride, ASSEMBLY)
        lowest = tl.where(chunk == first, limbs[0], lowest)
        top = limbs[WORDS - 1]
    tl.debug_barrier()
    return last, lowest, top.to(tl.int32, bitcast=True) < 0


@triton.jit
def element_facts(at_row, at_column, heights, widths, real):
    """-(s + t) of elements of a row, flags of the row and of the columns, and sums of norms."""
    t = tl.load(at_column + SCALE * widths, real, other=0).to(tl.int32)
    column_flags = tl.load(at_column + FLAGS * widths, real, other=0).to(tl.int32)
    row_flags = tl.load(at_row + FLAGS * heights).to(tl.int32)
    base = -(tl.load(at_row + SCALE * heights).to(tl.int32) + t)
    norm = tl.load(at_row + NORM * heights) + tl.load(at_column + NORM * widths, real, other=0)
    return base, row_flags, column_flags, norm


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
    "moduli", "length", "held", "room", "long_moduli",
]  # fmt: skip


@triton.jit(do_not_specialize=SIZES)
def round_any(
    groups, out, marks, rows_table, columns_table, m, n, pitch, stream, left_batch, right_batch,
    limit, always, part_stride, batch_stride, row_stride, column_stride, word_stride, words,
    batch, slack, marked, basis, moduli, length, held, scratch, room, long_groups, long_stream,
    long_moduli, second,
    PARTS: tl.constexpr, PRECISION: tl.constexpr, LOWEST: tl.constexpr, HIGHEST: tl.constexpr,
    MIXED: tl.constexpr, COLUMNS: tl.constexpr, ASSEMBLY: tl.constexpr, LIMBS: tl.constexpr,
    LONG: tl.constexpr,
):  # fmt: skip
    """Round X 2^-(s+t) into `out`, part by part, and mark what is not final.

    As `reconstruct.round_residues`, with `slack` and `marked` known when it runs. Numbers
    have so many `words`, and with MIXED a float32 in `second` (whose strides are those of `out`).
    Residues by moduli in two digits are `long_groups`, three 16-bit numbers each.

    P has `held` bits. With `slack` X is rounded with its error taken off and with it added, and
    what differs is marked. A program takes COLUMNS elements of a row at a time. X has LIMBS limbs,
    or if that is 0 it is put together in memory: each element has `room` words of `scratch`.
    """
    lane = tl.arange(0, COLUMNS)
    tiles = tl.cdiv(n, COLUMNS)
    heights, widths = left_batch * m, right_batch * n
    at_limbs = scratch + wide(tl.program_id(0)) * (room * COLUMNS) + lane
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
        base, row_flags, column_flags, norm = element_facts(
            at_row, at_column, heights, widths, real
        )
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
            if LIMBS == 0:
                limbs = limbs_of(length)
                at_values = at_limbs + limbs * COLUMNS
                count, quotient, carry = groups_stored(
                    at, stream, moduli, at_long, long_stream, long_moduli, basis, length, there,
                    at_values, COLUMNS, PARTS + part, ASSEMBLY,
                )  # fmt: skip
                shift = tl.load(basis + count * length + 1)
            for side in range(1 + slack):
                side_change = change * (1 - 2 * side)
                if LIMBS > 0:
                    x_limbs, last, negative = integer_held(
                        at, stream, moduli, at_long, long_stream, long_moduli, basis, length, there,
                        slack, side_change, place, PARTS + part, LIMBS, LONG, ASSEMBLY,
                    )  # fmt: skip
                    other, unit = store_words(
                        with_negated(x_limbs), COLUMNS, 32 * LIMBS, last, negative, base, out + to,
                        wide(word_stride), words, second + to, real, side, PRECISION, LOWEST,
                        HIGHEST, MIXED, True, ASSEMBLY,
                    )  # fmt: skip
                    open_element |= other
                    if slack != 0:
                        tl.debug_barrier()
                else:
                    # The highest chunk has the words of nearly every element, and if a lane's are
                    # not certain, all chunks are put together.
                    first = tl.where(slack != 0, 0, (length - START) // PIECES - 1)
                    while first >= 0:
                        last, lowest, negative = integer_stored(
                            at_values, COLUMNS, count, basis, length, quotient,
                            tl.where(first > 0, carry, 0), first, slack, side_change, place + shift,
                            at_limbs, ASSEMBLY,
                        )  # fmt: skip
                        other, unit = store_words(
                            at_limbs, COLUMNS, 32 * limbs, last, negative, base - shift, out + to,
                            wide(word_stride), words, second + to, real, side, PRECISION, LOWEST,
                            HIGHEST, MIXED, False, ASSEMBLY,
                        )  # fmt: skip
                        tl.debug_barrier()
                        open_element |= other
                        # Such a limb takes what was not carried and passes nothing on, and it says
                        # that there is something below every word that ends above it.
                        sure = (lowest > 0) & (lowest <= 0xFFFFFFFF - CARRIED)
                        sure &= unit > 32 * (WORDS * first + 1)
                        some_are_not = tl.max((real & ~sure).to(tl.int32), 0) > 0
                        first = tl.where((first > 0) & some_are_not, 0, -1)
        special = ((row_flags | column_flags) & SPECIAL) > 0
        code = code_of(open_element, norm > limit, special, slack != 0)
        tl.store(marks + wide(row) * n + j, code.to(tl.uint8), real & (code >= marked))
        # The tile so many programs on, without a division.
        over = (column + columns_on >= tiles).to(tl.int32)
        row, column = row + rows_on + over, column + columns_on - over * tiles
