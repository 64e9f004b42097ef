"""Rows and columns looked at: largest magnitude, integer norms, last bit, exponents, weights.

Lines are (parts, batch, lines, inner) of any strides, both operands' in one launch. A program takes
LINES lines and a share of the inner dimension; shares meet in atomic integer sums and maxima, whose
order does not matter.
"""

from __future__ import annotations

import triton
import triton.language as tl

from widen.gpu.kernels.triton.numbers import (
    DEPTH,
    FAR_OFF,
    FLAGS,
    INEXACT,
    LARGEST,
    LEVEL,
    NORM,
    NORM_BITS,
    NOTHING,
    SCALE,
    SIGMA,
    SPECIAL,
    SQUARES,
    SUM,
    WEIGHT,
    ZERO_LINE,
    decode,
    highest_bit,
    is_special,
    look,
    look_near,
    lowest_place,
    wide,
)
from widen.gpu.kernels.triton.packed import load_parts, pairs


@triton.jit
def piece_of(block, lines, inner, share, LINES: tl.constexpr):
    """Batch item, lines and stretch of the inner dimension that a program takes, tiles first."""
    tiles = tl.cdiv(lines, LINES)
    items = block // tl.cdiv(inner, share)
    start = block % tl.cdiv(inner, share) * share
    line = items % tiles * LINES + tl.arange(0, LINES)
    return items // tiles, line, start, tl.minimum(start + share, inner)


@triton.jit
def largest_of(
    base, line, start, stop, inner, lines, line_stride, inner_stride, PARTS: tl.constexpr,
    WIDTH: tl.constexpr, NEAR: tl.constexpr, LINES: tl.constexpr, INNER: tl.constexpr,
):  # fmt: skip
    """Bits of the largest magnitude of a stretch of lines."""
    mask: tl.constexpr = (1 << (WIDTH - 1)) - 1
    tally = tl.zeros((LINES, INNER), base.dtype.element_ty)
    for first in range(start, stop, INNER):
        h = first + tl.arange(0, INNER)
        inside = (line < lines)[:, None] & (h < inner)[None, :]
        x, y = load_parts(base, line, h, inside, line_stride, inner_stride, PARTS, NEAR)
        tally = tl.maximum(tally, x & mask)
        if PARTS == 2:
            tally = tl.maximum(tally, y & mask)
    return tl.max(tally, 1).to(tl.int64)


@triton.jit
def _largest(
    block, bits, table, count, lines, inner, share, batch_stride, line_stride,
    inner_stride, PARTS: tl.constexpr, WIDTH: tl.constexpr, NEAR: tl.constexpr,
    LINES: tl.constexpr, INNER: tl.constexpr,
):  # fmt: skip
    b, line, start, stop = piece_of(block, lines, inner, share, LINES)
    tops = largest_of(
        pairs(bits, b, batch_stride, PARTS), line, start, stop, inner, lines, line_stride,
        inner_stride, PARTS, WIDTH, NEAR, LINES, INNER,
    )  # fmt: skip
    tl.atomic_max(table + LARGEST * count + b * lines + line, tops, line < lines, sem="relaxed")


SIZES = ["left_count", "right_count", "left_blocks", "left_share", "right_share"]


@triton.jit(do_not_specialize=SIZES)
def largest(
    left_bits, left_table, left_count, left_lines, left_batch_stride, left_line_stride,
    left_inner_stride, right_bits, right_table, right_count, right_lines, right_batch_stride,
    right_line_stride, right_inner_stride, left_blocks, left_share, right_share, inner,
    PARTS: tl.constexpr, LEFT_WIDTH: tl.constexpr, RIGHT_WIDTH: tl.constexpr,
    LEFT_NEAR: tl.constexpr, LEFT_LINES: tl.constexpr, LEFT_INNER: tl.constexpr,
    RIGHT_NEAR: tl.constexpr, RIGHT_LINES: tl.constexpr, RIGHT_INNER: tl.constexpr,
):  # fmt: skip
    """table[LARGEST] = bits of the largest magnitude of every line (WIDTH bits a float)."""
    block = tl.program_id(0)
    if block < left_blocks:
        _largest(
            block, left_bits, left_table, left_count, left_lines, inner, left_share,
            left_batch_stride, left_line_stride, left_inner_stride, PARTS, LEFT_WIDTH, LEFT_NEAR,
            LEFT_LINES, LEFT_INNER,
        )  # fmt: skip
    else:
        _largest(
            block - left_blocks, right_bits, right_table, right_count, right_lines, inner,
            right_share, right_batch_stride, right_line_stride, right_inner_stride, PARTS,
            RIGHT_WIDTH, RIGHT_NEAR, RIGHT_LINES, RIGHT_INNER,
        )  # fmt: skip


@triton.jit
def store_leads(
    target, lead, line, first, pitch, lines, NEAR: tl.constexpr, LINES: tl.constexpr,
    INNER: tl.constexpr,
):  # fmt: skip
    """Leading integers as bytes; of neighbours in a thread, two at a time."""
    if NEAR:
        h = first + tl.arange(0, INNER)
        written = (line < lines)[:, None] & (h < pitch)[None, :]
        tl.store(
            target + line.to(tl.int64)[:, None] * pitch + h[None, :], lead.to(tl.int8), written
        )
    else:
        even, odd = tl.split(tl.reshape(lead, (LINES, INNER // 2, 2)))
        pair = first // 2 + tl.arange(0, INNER // 2)
        written = (line < lines)[:, None] & (2 * pair < pitch)[None, :]
        at = target.to(tl.pointer_type(tl.int16), bitcast=True)
        at += line.to(tl.int64)[:, None] * (pitch // 2) + pair[None, :]
        tl.store(at, (even | (odd << 8)).to(tl.int16), written)


@triton.jit
def sums_of(
    base, target, line, top, start, stop, inner, pitch, lines, count, line_stride,
    inner_stride, FAR: tl.constexpr, PARTS: tl.constexpr, FRACTION: tl.constexpr,
    EXPONENT: tl.constexpr, LEAD: tl.constexpr, NEAR: tl.constexpr, LINES: tl.constexpr,
    INNER: tl.constexpr,
):  # fmt: skip
    """Sums of q and q^2 and the place of the last bit of a stretch of lines; its leads stored."""
    q1 = tl.zeros((LINES, INNER), tl.int32)
    q2 = tl.zeros((LINES, INNER), tl.uint64)
    last = tl.full((LINES, INNER), FAR_OFF, tl.int32)
    h = start + tl.arange(0, INNER)
    inside = (line < lines)[:, None] & (h < inner)[None, :]
    x, y = load_parts(base, line, h, inside, line_stride, inner_stride, PARTS, NEAR)
    for first in range(start, stop, INNER):
        # The next numbers are on their way while these are looked at.
        h = first + INNER + tl.arange(0, INNER)
        more = tl.zeros((1, 1), tl.int32) + (first + INNER) < stop
        inside = (line < lines)[:, None] & (h < inner)[None, :] & more
        next_x, next_y = load_parts(base, line, h, inside, line_stride, inner_stride, PARTS, NEAR)
        lead = tl.zeros((LINES, INNER), tl.int32)
        for part in tl.static_range(PARTS):
            bits = x if part == 0 else y
            if FAR:
                q, one, place = look(bits, 0, 0, top[:, None], LEAD, FRACTION, EXPONENT)
            else:
                q, one, place = look_near(bits, 0, 0, top[:, None], LEAD, FRACTION, EXPONENT)
            q1 += q
            q2 += q.to(tl.uint32, bitcast=True).to(tl.uint64) * q.to(tl.uint32, bitcast=True)
            last = tl.minimum(last, place)
            lead += one
        if LEAD > 7:  # too long for an int8: two planes of seven bits
            store_leads(target, lead >> 7, line, first, pitch, lines, NEAR, LINES, INNER)
            low = target + wide(count) * pitch
            store_leads(low, lead & 127, line, first, pitch, lines, NEAR, LINES, INNER)
        elif LEAD >= 0:
            store_leads(target, lead, line, first, pitch, lines, NEAR, LINES, INNER)
        x = next_x
        if PARTS == 2:
            y = next_y
    return tl.sum(q1.to(tl.int64), 1), tl.sum(q2.to(tl.int64), 1), tl.min(last, 1)


@triton.jit
def norms_of(
    base, target, magnitude, line, start, stop, inner, pitch, lines, count, line_stride,
    inner_stride, PARTS: tl.constexpr, FRACTION: tl.constexpr, EXPONENT: tl.constexpr,
    LEAD: tl.constexpr, NEAR: tl.constexpr, LINES: tl.constexpr, INNER: tl.constexpr,
):  # fmt: skip
    """(q1, q2, depth, which lines count) of a stretch of lines, given their largest magnitudes."""
    m, e = decode(magnitude, FRACTION, EXPONENT)
    top = highest_bit(m) + e
    counts = (line < lines) & (m > 0) & ~is_special(magnitude, FRACTION, EXPONENT)
    # Lines near the subnormal numbers take the long way.
    lowest: tl.constexpr = 64 - (1 << (EXPONENT - 1))
    far = tl.min(tl.where(counts, top, 0), 0) < lowest
    top = tl.where(counts, top, 1 << 20)  # so that the others' leads are 0
    if far:
        q1, q2, place = sums_of(
            base, target, line, top, start, stop, inner, pitch, lines, count, line_stride,
            inner_stride, True, PARTS, FRACTION, EXPONENT, LEAD, NEAR, LINES, INNER // 4,
        )  # fmt: skip
    else:
        q1, q2, place = sums_of(
            base, target, line, top, start, stop, inner, pitch, lines, count, line_stride,
            inner_stride, False, PARTS, FRACTION, EXPONENT, LEAD, NEAR, LINES, INNER,
        )  # fmt: skip
    depth = tl.where(place < FAR_OFF, lowest_place(FRACTION, EXPONENT) - NOTHING - place, 0)
    return q1, q2, depth.to(tl.int64), counts


@triton.jit
def _norms(
    block, bits, table, leads, count, lines, inner, pitch, share, batch_stride,
    line_stride, inner_stride, PARTS: tl.constexpr, FRACTION: tl.constexpr, EXPONENT: tl.constexpr,
    LEAD: tl.constexpr, NEAR: tl.constexpr, LINES: tl.constexpr, INNER: tl.constexpr,
):  # fmt: skip
    b, line, start, stop = piece_of(block, lines, inner, share, LINES)
    at_line = table + b * lines + line
    magnitude = tl.load(at_line + LARGEST * count, line < lines, other=0)
    q1, q2, depth, counts = norms_of(
        pairs(bits, b, batch_stride, PARTS), leads + wide(b) * lines * pitch, magnitude, line,
        start, stop, inner, pitch, lines, count, line_stride, inner_stride, PARTS, FRACTION,
        EXPONENT, LEAD, NEAR, LINES, INNER,
    )  # fmt: skip
    tl.atomic_add(at_line + SUM * count, q1, counts, sem="relaxed")
    tl.atomic_add(at_line + SQUARES * count, q2, counts, sem="relaxed")
    tl.atomic_max(at_line + DEPTH * count, depth, counts, sem="relaxed")


@triton.jit(do_not_specialize=SIZES)
def norms(
    left_bits, left_table, left_leads, left_count, left_lines, left_batch_stride, left_line_stride,
    left_inner_stride, right_bits, right_table, right_leads, right_count, right_lines,
    right_batch_stride, right_line_stride, right_inner_stride, left_blocks, left_share, right_share,
    inner, pitch,
    PARTS: tl.constexpr, LEFT_FRACTION: tl.constexpr, LEFT_EXPONENT: tl.constexpr,
    RIGHT_FRACTION: tl.constexpr, RIGHT_EXPONENT: tl.constexpr, LEAD: tl.constexpr,
    LEFT_NEAR: tl.constexpr, LEFT_LINES: tl.constexpr, LEFT_INNER: tl.constexpr,
    RIGHT_NEAR: tl.constexpr, RIGHT_LINES: tl.constexpr, RIGHT_INNER: tl.constexpr,
):  # fmt: skip
    """Rows SUM, SQUARES and DEPTH of the table: sums of q and q^2, and where the last bit is.

    q = ceil(|x| 2^(15 - top)). Lines that are zero or special count nothing. With LEAD >= 0, leads
    (planes, batch, lines, pitch) get floor(|x| 2^(LEAD - top)), summed over the parts.
    """
    block = tl.program_id(0)
    if block < left_blocks:
        _norms(
            block, left_bits, left_table, left_leads, left_count, left_lines, inner, pitch,
            left_share, left_batch_stride, left_line_stride, left_inner_stride, PARTS,
            LEFT_FRACTION, LEFT_EXPONENT, LEAD, LEFT_NEAR, LEFT_LINES, LEFT_INNER,
        )  # fmt: skip
    else:
        _norms(
            block - left_blocks, right_bits, right_table, right_leads, right_count, right_lines,
            inner, pitch, right_share, right_batch_stride, right_line_stride, right_inner_stride,
            PARTS, RIGHT_FRACTION, RIGHT_EXPONENT, LEAD, RIGHT_NEAR, RIGHT_LINES, RIGHT_INNER,
        )  # fmt: skip


@triton.jit
def ceil_sqrt(square):
    """ceil(sqrt(x)) of int64 numbers below 2^62, bit by bit."""
    root = tl.zeros(square.shape, tl.int64)
    for bit in tl.static_range(30, -1, -1):
        tried = root | (1 << bit)
        root = tl.where(tried * tried <= square, tried, root)
    return root + (root * root < square).to(tl.int64)


@triton.jit
def floor_log2_ratio(numerator, denominator):
    """`bounds.floor_log2_ratio` of positive integers below 2^53."""
    ours, theirs = highest_bit(numerator), highest_bit(denominator)
    less = (numerator << (60 - ours).to(tl.int64)) < (denominator << (60 - theirs).to(tl.int64))
    return ours - theirs - less.to(tl.int32)


@triton.jit
def weight_of(q1, level, divisor, unit):
    """`Certificate.weight` of lines."""
    reduced = tl.maximum(highest_bit(q1) - 23, 0)
    one = tl.full(q1.shape, 1, tl.int64)
    rounded = (q1 + (one << reduced.to(tl.int64)) - 1) >> reduced.to(tl.int64)
    quotient = ((rounded << 22) + divisor - 1) // divisor
    shift = reduced + level + unit - NORM_BITS - 22
    down = tl.minimum(tl.maximum(-shift, 0), 61).to(tl.int64)
    up = tl.minimum(tl.maximum(shift, 0), 38).to(tl.int64)
    return tl.where(shift >= 0, quotient << up, (quotient + (one << down) - 1) >> down)


@triton.jit
def _scale(
    block, table, needs, count, goal_norm, root, goal_shift, divisor, unit, rounding, entries, full,
    FRACTION: tl.constexpr, EXPONENT: tl.constexpr, LINES: tl.constexpr,
):  # fmt: skip
    line = block * LINES + tl.arange(0, LINES)
    real = line < count
    at = table + line
    magnitude = tl.load(at + LARGEST * count, real, other=0)
    q1 = tl.load(at + SUM * count, real, other=0)
    q2 = tl.load(at + SQUARES * count, real, other=0)
    m, e = decode(magnitude, FRACTION, EXPONENT)
    special = is_special(magnitude, FRACTION, EXPONENT)
    empty = special | (m == 0)
    top = tl.where(empty, 0, highest_bit(m) + e)
    depth = tl.load(at + DEPTH * count, real, other=0).to(tl.int32)
    s = tl.where(empty, 0, depth + NOTHING)
    norm = q1
    if goal_norm == 2:
        norm = ceil_sqrt(q2)
    wide_root = tl.full((LINES,), 0, tl.int64) + root
    wanted = floor_log2_ratio(wide_root, tl.maximum(norm, 1)) + goal_shift + NORM_BITS - top
    if goal_norm == 0:
        wanted = s
    inexact = (q1 > 0) & (wanted < s)
    at_goal = (q1 > 0) & (inexact | (full != 0))
    s = tl.where(special, NOTHING, tl.where(at_goal, wanted, s))
    sigma, level = s + top, tl.where(special, NOTHING, wanted) + top
    # ||a'|| <= 2^(sigma - 15) sqrt(q2) + sqrt(2k)/2; a margin of 2/256 covers the floats.
    length = sigma.to(tl.float32) - 15.0 + 0.5 * tl.log2(tl.maximum(q2, 1).to(tl.float32))
    high, low = tl.maximum(length, rounding), tl.minimum(length, rounding)
    length = high + tl.log2(1.0 + tl.exp2(low - high))
    bound = tl.where(empty, NOTHING, tl.ceil(length * 256.0).to(tl.int32) + 2)
    flags = tl.where(special, SPECIAL, tl.where(empty, ZERO_LINE, 0)) | tl.where(
        inexact, INEXACT, 0
    )
    tl.store(at + SCALE * count, s.to(tl.int64), real)
    tl.store(at + SIGMA * count, sigma.to(tl.int64), real)
    tl.store(at + FLAGS * count, flags.to(tl.int64), real)
    tl.store(at + WEIGHT * count, weight_of(q1, level, divisor, unit), real)
    tl.store(at + LEVEL * count, level.to(tl.int64), real)
    tl.store(at + NORM * count, bound.to(tl.int64), real)
    held = real & ~empty
    tl.atomic_max(needs, tl.max(tl.where(held, bound, NOTHING), 0).to(tl.int64), sem="relaxed")
    tl.atomic_max(needs + 1, tl.max(tl.where(held, sigma, NOTHING), 0).to(tl.int64), sem="relaxed")
    all_flags = tl.max((real & (flags & SPECIAL > 0)).to(tl.int32), 0) * SPECIAL
    all_flags |= tl.max((real & inexact).to(tl.int32), 0) * INEXACT
    tl.atomic_or(needs + 2, all_flags.to(tl.int64), sem="relaxed")
    # V is more than half of what the goal allows: that share tells how much of |A||B| is needed.
    room = wide_root.to(tl.float32) * tl.exp2((goal_shift + NORM_BITS - sigma).to(tl.float32))
    inverse = (65536.0 * room / tl.maximum(q1, 1).to(tl.float32)).to(tl.int32) + 1
    tl.atomic_max(
        needs + 4, tl.max(tl.where(held & at_goal, inverse, 0), 0).to(tl.int64), sem="relaxed"
    )
    sparse = (tl.full((LINES,), 1 << 24, tl.int64) * entries) // tl.maximum(q1, 1)
    tl.atomic_max(needs + 3, tl.max(tl.where(held, sparse, 0), 0), sem="relaxed")


GOALS = [
    "left_count", "right_count", "left_blocks", "goal_norm", "root", "goal_shift", "divisor",
    "unit", "rounding", "entries", "full",
]  # fmt: skip


@triton.jit(do_not_specialize=GOALS)
def scale(
    left_table, left_needs, left_count, right_table, right_needs, right_count, left_blocks,
    goal_norm, root, goal_shift, divisor, unit, rounding, entries, full,
    LEFT_FRACTION: tl.constexpr, LEFT_EXPONENT: tl.constexpr, RIGHT_FRACTION: tl.constexpr,
    RIGHT_EXPONENT: tl.constexpr, LINES: tl.constexpr,
):  # fmt: skip
    """The rest of the table: exponents by the goal, but no further than a line's last bit.

    With `full`, by the goal alone. A `goal_norm` of 0 keeps every bit. `rounding` is
    log2(sqrt(2k)/2), what rounding may add to a norm; a line has `entries` numbers. `needs` gets
    (largest NORM, largest SIGMA, flags of all lines, the smallest mean of q, inverted and times
    2^24, and the smallest share of the goal that a line uses, inverted and times 2^16).
    """
    block = tl.program_id(0)
    if block < left_blocks:
        _scale(
            block, left_table, left_needs, left_count, goal_norm, root, goal_shift, divisor, unit,
            rounding, entries, full, LEFT_FRACTION, LEFT_EXPONENT, LINES,
        )  # fmt: skip
    else:
        _scale(
            block - left_blocks, right_table, right_needs, right_count, goal_norm, root, goal_shift,
            divisor, unit, rounding, entries, full, RIGHT_FRACTION, RIGHT_EXPONENT, LINES,
        )  # fmt: skip
