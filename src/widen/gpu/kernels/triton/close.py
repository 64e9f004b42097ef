"""Single elements settled by sums in float64 whose error is known: most of those that are open."""

from __future__ import annotations

import triton
import triton.language as tl

from widen.gpu.kernels.triton.certified import nearly, needed, shared_span, top_of
from widen.gpu.kernels.triton.numbers import decode, wide
from widen.gpu.kernels.triton.reconstruct import REPAIRED, UNCERTIFIED, UNSETTLED
from widen.gpu.kernels.triton.repair import GLANCE, codes_of, stop_of, taken

LOWEST = tl.constexpr(-900)  # exponent of the least term that counts


@triton.jit
def two_sum(a, b):
    """Their sum, rounded, and what that has lost: exact."""
    total = a + b
    part = total - a
    return total, (a - (total - part)) + (b - part)


@triton.jit
def joined(s, c, t, d):
    """Two sums with what they have lost, as one."""
    total, lost = two_sum(s, t)
    return total, (c + d) + lost


@triton.jit
def halves(at, inside, top, FRACTION: tl.constexpr, EXPONENT: tl.constexpr):
    """X 2^-top = (h 2^27 + l) 2^e with integers |h| and |l| up to 2^26, as float64."""
    x = tl.load(at, inside, other=0).to(tl.int64)
    m, e = decode(x, FRACTION, EXPONENT)
    high = (m + (1 << 26)) >> 27
    low = m - (high << 27)
    sign = tl.where(x < 0, -1, 1).to(tl.int64)
    return (sign * high).to(tl.float64), (sign * low).to(tl.float64), e - top


@triton.jit
def power(exponent):
    """2^exponent, from -1022 up."""
    return ((exponent + 1023).to(tl.int64) << 52).to(tl.float64, bitcast=True)


@triton.jit
def close_sum(
    left, right, top, other_top, left_part, right_part, left_inner, right_inner, inner,
    PARTS: tl.constexpr, PART: tl.constexpr, FRACTION: tl.constexpr, EXPONENT: tl.constexpr,
    RIGHT_FRACTION: tl.constexpr, RIGHT_EXPONENT: tl.constexpr, INNER: tl.constexpr,
):  # fmt: skip
    """A part of a dot product, times 2^-(top + other_top), in float64; and its error, at most.

    Sum and error are (s, c, E): the product is s + c, but for E.

    A product is h h' 2^54 + (h l' + l h') 2^27 + l l': three numbers that float64 holds, since all
    of these integers are at most 2^53. They go to a sum s by `two_sum`, whose losses go to c. With
    u = 2^-53 and S the sum of their magnitudes, a loss is u S at most; the additions on the way of
    a number, N at most, lose N u S in all, and adding these up in c loses N u of that. N is three
    for every step of INNER terms, and two for every level of the tree that joins 2^12 sums or less:
    24 and a few. E is four times N^2 u^2 S, for what S and E themselves lose; terms that do
    not count are below 2^(LOWEST + 106) each, and 2^29 of them below 2^-750.
    """
    s = tl.zeros((INNER,), tl.float64)
    c, size = s, s
    for start in range(0, inner, INNER):
        h = start + tl.arange(0, INNER)
        at, to = left + h.to(tl.int64) * left_inner, right + h.to(tl.int64) * right_inner
        for q in tl.static_range(PARTS):
            high, low, e = halves(at + q * left_part, h < inner, top, FRACTION, EXPONENT)
            other_high, other_low, f = halves(
                to + (q ^ PART) * right_part, h < inner, other_top, RIGHT_FRACTION, RIGHT_EXPONENT
            )
            unit = tl.where(e + f > LOWEST, power(tl.maximum(e + f, LOWEST)), 0.0)
            unit = -unit if PART == 0 and q == 1 else unit
            first = high * other_high * (unit * 2.0**54)
            second = (high * other_low + low * other_high) * (unit * 2.0**27)
            third = low * other_low * unit
            s, lost = two_sum(s, first)
            s, more = two_sum(s, second)
            s, rest = two_sum(s, third)
            c += lost + (more + rest)
            size += tl.abs(first) + tl.abs(second) + tl.abs(third)
    s, c = tl.reduce((s, c), 0, joined)
    additions = (3 * PARTS * tl.cdiv(inner, INNER) + 32).to(tl.float64)
    error = additions * additions * (tl.sum(size, 0) * 2.0**-104) + 2.0**-750
    return s, c, error


@triton.jit
def rounded_sum(s, c, error, shift):
    """Bits of the float64 nearest to any number within `error` of (s + c) 2^shift; if there is one.

    hi is s + c, rounded. All within half a gap of it round to it: a quarter of an ulp below a power
    of two. It must be a normal number.
    """
    high, low = two_sum(s, c)
    bits = high.to(tl.int64, bitcast=True)
    field = ((bits >> 52) & 2047).to(tl.int32)
    is_power = ((bits & ((1 << 52) - 1)) == 0).to(tl.int32)
    half = power(tl.maximum(field - 1023 - 53 - is_power, -1022))
    settled = (tl.abs(low) + error) * (1 + 2.0**-40) < half
    settled &= (field > 256) & (field + shift > 0) & (field + shift < 2047)
    return bits + (wide(shift) << 52), settled


SIZES = [
    "m", "n", "inner", "batch", "left_batch", "right_batch", "left_part_stride",
    "left_batch_stride", "left_line_stride", "left_inner_stride", "right_part_stride",
    "right_batch_stride", "right_line_stride", "right_inner_stride", "part_stride", "batch_stride",
    "row_stride", "column_stride", "tested", "entry", "both", "dropped",
]  # fmt: skip


@triton.jit(do_not_specialize=SIZES)
def settle(
    left_bits, right_bits, out, marks, repaired, rows_table, columns_table, m, n, inner, batch,
    left_batch, right_batch, left_part_stride, left_batch_stride, left_line_stride,
    left_inner_stride, right_part_stride, right_batch_stride, right_line_stride, right_inner_stride,
    part_stride, batch_stride, row_stride, column_stride, tested, entry, both, dropped,
    PARTS: tl.constexpr, LEFT_FRACTION: tl.constexpr, LEFT_EXPONENT: tl.constexpr,
    RIGHT_FRACTION: tl.constexpr, RIGHT_EXPONENT: tl.constexpr, INNER: tl.constexpr,
    ELEMENTS: tl.constexpr,
):  # fmt: skip
    """Certify elements that are doubtful, and round those that are open, where float64 decides it.

    What it does not decide stays marked for `repair`; so does what that alone can do.
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
                row = rows_table + b % left_batch * m + i
                column = columns_table + b % right_batch * n + j
                heights, widths = left_batch * m, right_batch * n
                ours = left_bits + (b % left_batch) * left_batch_stride + i * left_line_stride
                theirs = right_bits + (b % right_batch) * right_batch_stride + j * right_line_stride
                top = top_of(row, heights, LEFT_FRACTION, LEFT_EXPONENT)
                other_top = top_of(column, widths, RIGHT_FRACTION, RIGHT_EXPONENT)
                is_open = code == UNSETTLED
                if tested & (code == UNCERTIFIED):
                    limit = needed(row, column, heights, widths, inner, entry, both, dropped)
                    about = nearly(
                        ours, theirs, top, other_top, left_part_stride, right_part_stride,
                        left_inner_stride, right_inner_stride, 0, 0, 1, 1, inner, PARTS,
                        LEFT_FRACTION, LEFT_EXPONENT, RIGHT_FRACTION, RIGHT_EXPONENT, INNER, False,
                    )  # fmt: skip
                    is_open = (about < limit * (1 - 2.0**-20)) & (about > 0)
                    if about > limit * (1 + 2.0**-20):
                        tl.store(marks + place, 0)
                    if is_open:
                        tl.store(marks + place, UNSETTLED)
                if is_open:
                    begin, end = shared_span(row, column, heights, widths, inner)
                    ours += begin * left_inner_stride
                    theirs += begin * right_inner_stride
                    target = out + b * batch_stride + i * row_stride + j * column_stride
                    s, c, error = close_sum(
                        ours, theirs, top, other_top, left_part_stride, right_part_stride,
                        left_inner_stride, right_inner_stride, (end - begin).to(tl.int32), PARTS, 0,
                        LEFT_FRACTION, LEFT_EXPONENT, RIGHT_FRACTION, RIGHT_EXPONENT, INNER,
                    )  # fmt: skip
                    bits, settled = rounded_sum(s, c, error, top + other_top)
                    other_bits = bits
                    if PARTS == 2:
                        s, c, error = close_sum(
                            ours, theirs, top, other_top, left_part_stride, right_part_stride,
                            left_inner_stride, right_inner_stride, (end - begin).to(tl.int32),
                            PARTS, 1, LEFT_FRACTION, LEFT_EXPONENT, RIGHT_FRACTION, RIGHT_EXPONENT,
                            INNER,
                        )  # fmt: skip
                        other_bits, also = rounded_sum(s, c, error, top + other_top)
                        settled &= also
                    if settled:
                        tl.store(target, bits)
                        if PARTS == 2:
                            tl.store(target + part_stride, other_bits)
                        tl.store(marks + place, REPAIRED)
                        count += 1
    if count > 0:
        tl.atomic_add(repaired, count)
