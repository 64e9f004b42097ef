"""Single elements on a GPU: certified again, repaired by exact dot products, or special.

Programs look through the marks of all elements and work on those that are set, so nobody needs to
know how many there are.
"""

from __future__ import annotations

import triton
import triton.language as tl

from widen.gpu.kernels.triton.certified import is_certified, shared_span
from widen.gpu.kernels.triton.dot import exact_dot
from widen.gpu.kernels.triton.numbers import (
    SCALE,
    is_special,
    wide,
)
from widen.gpu.kernels.triton.reconstruct import (
    ONE_ENTRY,
    REPAIRED,
    SPECIAL_ELEMENT,
    UNCERTIFIED,
    UNFIT,
    UNSETTLED,
)
from widen.gpu.kernels.triton.rounding import rounded, store_float

RUN = tl.constexpr(16)  # marks read together
GLANCE = tl.constexpr(4)  # tiles that a program looks at together, in which there may be nothing


@triton.jit
def special_sums(
    left, right, left_part, right_part, left_inner, right_inner, inner, PARTS: tl.constexpr,
    FRACTION: tl.constexpr, EXPONENT: tl.constexpr, RIGHT_FRACTION: tl.constexpr,
    RIGHT_EXPONENT: tl.constexpr, INNER: tl.constexpr,
):  # fmt: skip
    """(any NaN, any +infinity, any -infinity) among the terms of a dot product, part by part."""
    all_ones: tl.constexpr = (1 << EXPONENT) - 1
    other_ones: tl.constexpr = (1 << RIGHT_EXPONENT) - 1
    sums = ()
    for part in tl.static_range(PARTS):
        nan = tl.zeros((INNER,), tl.int32)
        up, down = tl.zeros((INNER,), tl.int32), tl.zeros((INNER,), tl.int32)
        for start in range(0, inner, INNER):
            h = start + tl.arange(0, INNER)
            at, to = left + h.to(tl.int64) * left_inner, right + h.to(tl.int64) * right_inner
            for q in range(PARTS):
                x = tl.load(at + q * left_part, h < inner, other=0).to(tl.int64)
                y = tl.load(to + (q ^ part) * right_part, h < inner, other=0).to(tl.int64)
                x_zero = (x << (63 - FRACTION - EXPONENT)) << 1 == 0
                y_zero = (y << (63 - RIGHT_FRACTION - RIGHT_EXPONENT)) << 1 == 0
                x_odd = ((x >> FRACTION) & all_ones) == all_ones
                y_odd = ((y >> RIGHT_FRACTION) & other_ones) == other_ones
                x_nan = x_odd & ((x & ((1 << FRACTION) - 1)) != 0)
                y_nan = y_odd & ((y & ((1 << RIGHT_FRACTION) - 1)) != 0)
                infinite = (x_odd | y_odd) & ~x_nan & ~y_nan
                invalid = infinite & (x_zero | y_zero)
                negative = ((x < 0) != (y < 0)) != ((part == 0) & (q == 1))
                nan |= (x_nan | y_nan | invalid).to(tl.int32)
                up |= (infinite & ~invalid & ~negative).to(tl.int32)
                down |= (infinite & ~invalid & negative).to(tl.int32)
        sums = sums + (tl.max(nan, 0) > 0, tl.max(up, 0) > 0, tl.max(down, 0) > 0)
    return sums


@triton.jit
def scalars_of(alpha, alpha_i, beta, beta_i, addend, part_stride, C_PARTS: tl.constexpr):
    """Bits of alpha and beta, two parts each, and of the parts of c (first words of them)."""
    scalars = (wide(alpha), wide(alpha_i), wide(beta), wide(beta_i))
    for q in tl.static_range(C_PARTS):
        scalars = scalars + (tl.load(addend + q * part_stride).to(tl.int64),)
    return scalars


@triton.jit
def scaled_special(nan, up, down, x_nan, x_up, x_down, scalar, PART: tl.constexpr, Q: tl.constexpr):
    """(any NaN, any +infinity, any -infinity) with part Q of x, times a scalar, in part PART.

    An infinity times 0 is NaN, and so is an infinity less an infinity.
    """
    invalid = x_nan | (x_up & x_down)
    infinite = (x_up | x_down) & ~invalid
    nothing = (scalar << 1) == 0
    negative = (x_down != (scalar < 0)) != (PART == 0 and Q == 1)
    nan |= invalid | (infinite & nothing)
    up |= infinite & ~nothing & ~negative
    down |= infinite & ~nothing & negative
    return nan, up, down


@triton.jit
def scaled_specials(
    sums, scalars, PART: tl.constexpr, PARTS: tl.constexpr, C_PARTS: tl.constexpr,
    C_FIELDS: tl.constexpr,
):  # fmt: skip
    """The same for one part of alpha x + beta c; what is finite has no say."""
    nan = tl.full((), False, tl.int1)
    up, down = nan, nan
    for q in tl.static_range(PARTS):
        nan, up, down = scaled_special(
            nan, up, down, sums[3 * q], sums[3 * q + 1], sums[3 * q + 2], scalars[PART ^ q],
            PART, q,
        )  # fmt: skip
    for q in tl.static_range(C_PARTS):
        c_nan, c_up, c_down = special_addend(scalars[4 + q], C_FIELDS)
        nan, up, down = scaled_special(
            nan, up, down, c_nan, c_up, c_down, scalars[2 + (PART ^ q)], PART, q
        )
    return nan, up, down


@triton.jit
def special_addend(bits, C_FIELDS: tl.constexpr):
    """Whether a number is NaN, +infinity or -infinity."""
    special = is_special(bits, C_FIELDS[0], C_FIELDS[1])
    nan = special & ((bits & ((1 << C_FIELDS[0]) - 1)) != 0)
    return nan, special & ~nan & (bits >= 0), special & ~nan & (bits < 0)


@triton.jit
def any_mark(marks, elements, first, tiles, ELEMENTS: tl.constexpr):
    """Whether the next GLANCE tiles of a program, from `first` on, may have a mark.

    They are read in words, many at a time: waiting for memory is all that this takes. The last run
    may not be whole; the tile that it is in counts as marked.
    """
    programs = tl.num_programs(0)
    at = tl.arange(0, GLANCE * ELEMENTS // RUN)
    tile = first + at // (ELEMENTS // RUN) * programs
    run = at % (ELEMENTS // RUN) * wide(tiles) + tile
    inside = (tile < tiles) & (run < elements // RUN)
    words = marks.to(tl.pointer_type(tl.int32), bitcast=True)
    words += run[:, None] * (RUN // 4) + tl.arange(0, RUN // 4)[None, :]
    seen = tl.load(words, inside[:, None], other=0)
    marked = tl.max(tl.max((seen != 0).to(tl.int32), 1), 0)
    last = elements // RUN % tiles - first
    ours = (last >= 0) & (last < GLANCE * programs) & (last % programs == 0)
    return (marked > 0) | ((elements % RUN != 0) & ours)


@triton.jit
def order_of(ELEMENTS: tl.constexpr):
    """Numbers of the elements of a tile."""
    run, step = tl.arange(0, ELEMENTS // RUN)[:, None], tl.arange(0, RUN)[None, :]
    return run * RUN + step


@triton.jit
def place_of(number, tile, tiles):
    """Where an element of a tile is among all.

    A tile is runs of RUN elements far apart: where marks cluster in a line, programs share them.
    """
    return (number // RUN * wide(tiles) + tile) * RUN + number % RUN


@triton.jit
def stop_of(marks, elements, first, tiles, ELEMENTS: tl.constexpr):
    """Where a program that is at tile `first` stops: GLANCE of its tiles on, or at once."""
    marked = any_mark(marks, elements, first, tiles, ELEMENTS)
    return tl.where(marked, tl.minimum(first + GLANCE * tl.num_programs(0), tiles), first)


@triton.jit
def codes_of(marks, elements, tile, tiles, ELEMENTS: tl.constexpr):
    """What is to be done about the elements of a tile, 0 for nothing; and `first_of` these."""
    places = place_of(order_of(ELEMENTS), tile, tiles)
    codes = tl.load(marks + places, places < elements, other=0).to(tl.int32)
    codes = tl.where(codes < REPAIRED, codes, 0)
    return codes, first_of(codes, ELEMENTS)


@triton.jit
def first_of(codes, ELEMENTS: tl.constexpr):
    """The number of the first element about which something is to be done, or ELEMENTS."""
    return tl.min(tl.min(tl.where(codes > 0, order_of(ELEMENTS), ELEMENTS), 1), 0)


@triton.jit
def taken(codes, number, tile, tiles, ELEMENTS: tl.constexpr):
    """An element's place and code; then the codes of the others, and `first_of` these."""
    place = place_of(number, tile, tiles)
    here = order_of(ELEMENTS) == number
    code = tl.max(tl.max(tl.where(here, codes, 0), 1), 0)
    codes = tl.where(here, 0, codes)
    return place, code, codes, first_of(codes, ELEMENTS)


@triton.jit(do_not_specialize=["elements", "terms"])
def count(marks, open_terms, elements, terms, ELEMENTS: tl.constexpr):
    """Add `terms` for every element that is UNSETTLED."""
    total = tl.zeros((ELEMENTS,), tl.int32)
    step = tl.num_programs(0) * ELEMENTS
    for first in range(tl.program_id(0) * ELEMENTS, elements, step):
        at = first + wide(tl.arange(0, ELEMENTS))
        codes = tl.load(marks + at, at < elements, other=0)
        total += (codes == UNSETTLED).to(tl.int32)
    found = tl.sum(total.to(tl.int64), 0)
    if found > 0:
        tl.atomic_add(open_terms, found * terms, sem="relaxed")


@triton.jit
def special_bits(
    sums, scalars, PART: tl.constexpr, PARTS: tl.constexpr, SCALED: tl.constexpr,
    C_PARTS: tl.constexpr, C_FIELDS: tl.constexpr, PRECISION: tl.constexpr, LOWEST: tl.constexpr,
    HIGHEST: tl.constexpr,
):  # fmt: skip
    """Bits without the sign, and the sign, of a part that `special_sums` found special."""
    infinity: tl.constexpr = (HIGHEST - LOWEST - PRECISION + 2) << (PRECISION - 1)
    nan, up, down = sums[3 * PART], sums[3 * PART + 1], sums[3 * PART + 2]
    if SCALED:
        nan, up, down = scaled_specials(sums, scalars, PART, PARTS, C_PARTS, C_FIELDS)
    invalid = nan | (up & down)
    quiet = invalid.to(tl.int64) << (PRECISION - 2)
    return tl.where(invalid | up | down, infinity | quiet, 0), down & ~invalid


SIZES = [
    "m", "n", "inner", "batch", "left_batch", "right_batch", "left_part_stride",
    "left_batch_stride", "left_line_stride", "left_inner_stride", "right_part_stride",
    "right_batch_stride", "right_line_stride", "right_inner_stride", "part_stride", "batch_stride",
    "row_stride", "column_stride", "tested", "entry", "both", "dropped", "c_part_stride",
    "c_batch_stride", "c_row_stride", "c_column_stride", "alpha", "alpha_i", "beta", "beta_i",
]  # fmt: skip


@triton.jit(do_not_specialize=SIZES)
def repair(
    left_bits, right_bits, out, marks, repaired, rows_table, columns_table, m, n, inner, batch,
    left_batch, right_batch, left_part_stride, left_batch_stride, left_line_stride,
    left_inner_stride, right_part_stride, right_batch_stride, right_line_stride, right_inner_stride,
    part_stride, batch_stride, row_stride, column_stride, tested, entry, both, dropped, c,
    c_part_stride, c_batch_stride, c_row_stride, c_column_stride, alpha, alpha_i, beta, beta_i,
    PARTS: tl.constexpr, LEFT_FRACTION: tl.constexpr, LEFT_EXPONENT: tl.constexpr,
    RIGHT_FRACTION: tl.constexpr, RIGHT_EXPONENT: tl.constexpr, PRECISION: tl.constexpr,
    LOWEST: tl.constexpr, HIGHEST: tl.constexpr, INNER: tl.constexpr, ELEMENTS: tl.constexpr,
    SCALED: tl.constexpr, C_PARTS: tl.constexpr, C_FIELDS: tl.constexpr,
):  # fmt: skip
    """Make every marked element final: certified after all, correctly rounded, or special.

    An element that did not fit its planes is computed from the lines' integers, unless the
    certificate (`tested` says if there is one) leaves it open. Marks of elements that were repaired
    become REPAIRED, and those that are stay; marks of all others become 0 (2 if special).
    `repaired` counts. With SCALED an element is alpha times the product plus beta c, of which
    C_PARTS are given, floats of C_FIELDS.
    """
    elements = wide(batch) * m * n
    count = 0
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
                target = out + b * batch_stride + i * row_stride + j * column_stride
                s = tl.load(rows_table + SCALE * left_batch * m + row).to(tl.int32)
                t = tl.load(columns_table + SCALE * right_batch * n + column).to(tl.int32)
                scalars = ()
                if SCALED:
                    addend = c + b * c_batch_stride + i * c_row_stride + j * c_column_stride
                    scalars = scalars_of(
                        alpha, alpha_i, beta, beta_i, addend, c_part_stride, C_PARTS
                    )
                begin, end = shared_span(
                    rows_table + row, columns_table + column, left_batch * m, right_batch * n, inner
                )
                fine = code == UNFIT
                if tested & ((code == UNCERTIFIED) | (code == UNFIT)):
                    fine = is_certified(
                        ours, theirs, rows_table + row, columns_table + column, left_batch * m,
                        right_batch * n, left_part_stride, right_part_stride, left_inner_stride,
                        right_inner_stride, 0, 0, 1, 1, inner, entry, both, dropped, PARTS,
                        LEFT_FRACTION, LEFT_EXPONENT, RIGHT_FRACTION, RIGHT_EXPONENT, INNER, False,
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
                        for part in tl.static_range(PARTS):
                            bits, negative = special_bits(
                                sums, scalars, part, PARTS, SCALED, C_PARTS, C_FIELDS, PRECISION,
                                LOWEST, HIGHEST,
                            )  # fmt: skip
                            store_float(
                                target + part * part_stride, bits, negative, True, PRECISION
                            )
                    else:
                        for part in range(
                            PARTS
                        ):  # one copy of the code: it compiles in half the time
                            length, head, sticky, nonzero, negative, base = exact_dot(
                                ours + begin * left_inner_stride,
                                theirs + begin * right_inner_stride, left_part_stride,
                                right_part_stride, left_inner_stride, right_inner_stride,
                                end - begin, fine, s, t, scalars, part,
                                PARTS, LEFT_FRACTION, LEFT_EXPONENT, RIGHT_FRACTION,
                                RIGHT_EXPONENT, SCALED, C_PARTS, C_FIELDS, INNER,
                            )  # fmt: skip
                            bits = rounded(length, head, sticky, base, PRECISION, LOWEST, HIGHEST)
                            bits = tl.where(nonzero, bits, 0)
                            store_float(
                                target + part * part_stride, bits, negative, True, PRECISION
                            )
                        if not fine:
                            tl.store(marks + place, REPAIRED)
                            count += (code != ONE_ENTRY).to(tl.int32)
    if count > 0:
        tl.atomic_add(repaired, count)
