"""Rows and columns looked at: largest magnitude, integer norms, last bit, leading integers.

Lines are (parts, batch, lines, inner) of any strides, both operands' in one launch. A program takes
LINES lines and a share of the inner dimension; shares meet in atomic integer sums and maxima, whose
order does not matter.
"""

from __future__ import annotations

import triton
import triton.language as tl

from widen.gpu.kernels.triton.numbers import (
    DEPTH,
    DISTANCES,
    FAR_OFF,
    FARTHEST,
    LARGEST,
    MAGNITUDES,
    NONZEROS,
    NOTHING,
    REACH,
    SATURATED,
    SQUARES,
    SUM,
    below_top,
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
    """Leading integers as bytes, of neighbours in a thread two at a time; magnitudes as they are.

    Those of two parts are rounded down to bfloat16 once more.
    """
    if lead.dtype == tl.float32:
        h = first + tl.arange(0, INNER)
        written = (line < lines)[:, None] & (h < pitch)[None, :]
        at = target.to(tl.pointer_type(tl.int16), bitcast=True)
        at += line.to(tl.int64)[:, None] * pitch + h[None, :]
        tl.store(at, (lead.to(tl.int32, bitcast=True) >> 16).to(tl.int16), written)
    elif NEAR:
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
def counted(
    sums, lead, bits, more, less, top, FAR: tl.constexpr, LEAD: tl.constexpr,
    FRACTION: tl.constexpr, EXPONENT: tl.constexpr,
):  # fmt: skip
    """Sums, and leads, with those of numbers added, and the places of their last bits (`look`).

    Sums are q1, q2, how many are not 0, their distances, and the largest of these.
    """
    q1, q2, many, distances, reach = sums
    if FAR:
        q, one, place, far = look(bits, more, less, top[:, None], LEAD, FRACTION, EXPONENT)
    else:
        q, one, place, far = look_near(bits, more, less, top[:, None], LEAD, FRACTION, EXPONENT)
    q1 += q
    q2 += q.to(tl.uint32, bitcast=True).to(tl.uint64) * q.to(tl.uint32, bitcast=True)
    many += (q > 0).to(tl.int32)
    distances += tl.minimum(far, FARTHEST)
    reach = tl.maximum(reach, far)
    return (q1, q2, many, distances, reach), lead + one, place


@triton.jit
def no_sums(LINES: tl.constexpr, INNER: tl.constexpr):
    """Sums of nothing."""
    zero = tl.zeros((LINES, INNER), tl.int32)
    return zero, tl.zeros((LINES, INNER), tl.uint64), zero, zero, zero


@triton.jit
def of_lines(sums):
    """Sums of whole lines."""
    q1, q2, many, distances, reach = sums
    return (
        tl.sum(q1.to(tl.int64), 1), tl.sum(q2.to(tl.int64), 1), tl.sum(many.to(tl.int64), 1),
        tl.sum(distances.to(tl.int64), 1), tl.max(reach, 1).to(tl.int64),
    )  # fmt: skip


@triton.jit
def no_leads(LEAD: tl.constexpr, LINES: tl.constexpr, INNER: tl.constexpr):
    """Leads of numbers of no parts."""
    return tl.zeros((LINES, INNER), tl.float32 if LEAD == MAGNITUDES else tl.int32)


@triton.jit
def drops_of(at_line, count, real, LEAD: tl.constexpr):
    """How far below their tops leads of lines have their first bit, by their tables' sums."""
    if LEAD < SATURATED:
        return 0
    else:
        q1 = tl.load(at_line + SUM * count, real, other=0)
        return below_top(q1, tl.load(at_line + NONZEROS * count, real, other=0))


@triton.jit
def sums_of(
    base, target, line, top, start, stop, inner, pitch, lines, count, line_stride,
    inner_stride, FAR: tl.constexpr, PARTS: tl.constexpr, FRACTION: tl.constexpr,
    EXPONENT: tl.constexpr, LEAD: tl.constexpr, NEAR: tl.constexpr, LINES: tl.constexpr,
    INNER: tl.constexpr,
):  # fmt: skip
    """Sums (`counted`) and the place of the last bit of a stretch of lines; its leads stored."""
    sums = no_sums(LINES, INNER)
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
        lead = no_leads(LEAD, LINES, INNER)
        for part in tl.static_range(PARTS):
            bits = x if part == 0 else y
            sums, lead, place = counted(sums, lead, bits, 0, 0, top, FAR, LEAD, FRACTION, EXPONENT)
            last = tl.minimum(last, place)
        if LEAD >= 0:
            store_leads(target, lead, line, first, pitch, lines, NEAR, LINES, INNER)
        x = next_x
        if PARTS == 2:
            y = next_y
    return of_lines(sums), tl.min(last, 1)


@triton.constexpr_function
def lowest_top(fraction, exponent):
    """The exponent of a line from which on `look_near` sees all of it."""
    return (64 if fraction <= 31 else 130) - (1 << (exponent - 1))


@triton.jit
def tops_of(magnitude, line, lines, FRACTION: tl.constexpr, EXPONENT: tl.constexpr):
    """Exponents of lines, which lines count, and whether one is near the subnormal numbers."""
    m, e = decode(magnitude, FRACTION, EXPONENT)
    top = highest_bit(m) + e
    counts = (line < lines) & (m > 0) & ~is_special(magnitude, FRACTION, EXPONENT)
    far = tl.min(tl.where(counts, top, 0), 0) < lowest_top(FRACTION, EXPONENT)
    return tl.where(counts, top, 1 << 20), counts, far  # so that the others' leads are 0


@triton.jit
def depth_of(place, FRACTION: tl.constexpr, EXPONENT: tl.constexpr):
    """What the table keeps of the place of a line's last bit."""
    depth = tl.where(place < FAR_OFF, lowest_place(FRACTION, EXPONENT) - NOTHING - place, 0)
    return depth.to(tl.int64)


@triton.jit
def norms_of(
    base, target, magnitude, drop, line, start, stop, inner, pitch, lines, count, line_stride,
    inner_stride, PARTS: tl.constexpr, FRACTION: tl.constexpr, EXPONENT: tl.constexpr,
    LEAD: tl.constexpr, NEAR: tl.constexpr, LINES: tl.constexpr, INNER: tl.constexpr,
    FAR_INNER: tl.constexpr,
):  # fmt: skip
    """(sums, depth, which lines count) of a stretch of lines, given their largest magnitudes.

    If leads are to begin further down, by `drop`, the sums are of no use.
    """
    top, counts, far = tops_of(magnitude, line, lines, FRACTION, EXPONENT)
    top -= drop
    if far:
        sums, place = sums_of(
            base, target, line, top, start, stop, inner, pitch, lines, count, line_stride,
            inner_stride, True, PARTS, FRACTION, EXPONENT, LEAD, NEAR, LINES, FAR_INNER,
        )  # fmt: skip
    else:
        sums, place = sums_of(
            base, target, line, top, start, stop, inner, pitch, lines, count, line_stride,
            inner_stride, False, PARTS, FRACTION, EXPONENT, LEAD, NEAR, LINES, INNER,
        )  # fmt: skip
    return sums, depth_of(place, FRACTION, EXPONENT), counts


@triton.jit
def add_sums(at_line, count, sums, depth, counts):
    """Add sums of stretches of lines to those of others."""
    q1, q2, many, distances, reach = sums
    tl.atomic_add(at_line + SUM * count, q1, counts, sem="relaxed")
    tl.atomic_add(at_line + SQUARES * count, q2, counts, sem="relaxed")
    tl.atomic_add(at_line + NONZEROS * count, many, counts, sem="relaxed")
    tl.atomic_add(at_line + DISTANCES * count, distances, counts, sem="relaxed")
    tl.atomic_max(at_line + REACH * count, reach, counts, sem="relaxed")
    tl.atomic_max(at_line + DEPTH * count, depth, counts, sem="relaxed")


@triton.jit
def _norms(
    block, bits, table, leads, count, lines, inner, pitch, share, batch_stride,
    line_stride, inner_stride, PARTS: tl.constexpr, FRACTION: tl.constexpr, EXPONENT: tl.constexpr,
    LEAD: tl.constexpr, SUMS: tl.constexpr, NEAR: tl.constexpr, LINES: tl.constexpr,
    INNER: tl.constexpr,
):  # fmt: skip
    b, line, start, stop = piece_of(block, lines, inner, share, LINES)
    at_line = table + b * lines + line
    magnitude = tl.load(at_line + LARGEST * count, line < lines, other=0)
    sums, depth, counts = norms_of(
        pairs(bits, b, batch_stride, PARTS), leads + wide(b) * lines * pitch, magnitude,
        drops_of(at_line, count, line < lines, LEAD), line, start, stop, inner, pitch, lines, count,
        line_stride, inner_stride, PARTS, FRACTION, EXPONENT, LEAD, NEAR, LINES, INNER, INNER // 4,
    )  # fmt: skip
    if SUMS:
        add_sums(at_line, count, sums, depth, counts)


@triton.jit(do_not_specialize=[*SIZES, "few"])
def norms(
    left_bits, left_table, left_leads, left_count, left_lines, left_batch_stride, left_line_stride,
    left_inner_stride, right_bits, right_table, right_leads, right_count, right_lines,
    right_batch_stride, right_line_stride, right_inner_stride, left_blocks, left_share, right_share,
    inner, pitch, doubtful, few,
    PARTS: tl.constexpr, LEFT_FRACTION: tl.constexpr, LEFT_EXPONENT: tl.constexpr,
    RIGHT_FRACTION: tl.constexpr, RIGHT_EXPONENT: tl.constexpr, LEAD: tl.constexpr,
    SUMS: tl.constexpr, LEFT_NEAR: tl.constexpr, LEFT_LINES: tl.constexpr, LEFT_INNER: tl.constexpr,
    RIGHT_NEAR: tl.constexpr, RIGHT_LINES: tl.constexpr, RIGHT_INNER: tl.constexpr,
):  # fmt: skip
    """Rows SUM to REACH of the table: sums of q and q^2, where the last bit is, the spread.

    q = ceil(|x| 2^(15 - top)). Lines that are zero or special count nothing. With LEAD >= 0, leads
    (batch, lines, pitch) get floor(|x| 2^(LEAD - top)), summed over the parts, as bytes; or, with
    MAGNITUDES, |x| 2^-top rounded down to bfloat16. Without SUMS there are leads only, and none
    unless what is at `doubtful` is more than `few`.
    """
    if not SUMS:
        if tl.load(doubtful) <= few:
            return
    block = tl.program_id(0)
    if block < left_blocks:
        _norms(
            block, left_bits, left_table, left_leads, left_count, left_lines, inner, pitch,
            left_share, left_batch_stride, left_line_stride, left_inner_stride, PARTS,
            LEFT_FRACTION, LEFT_EXPONENT, LEAD, SUMS, LEFT_NEAR, LEFT_LINES, LEFT_INNER,
        )  # fmt: skip
    else:
        _norms(
            block - left_blocks, right_bits, right_table, right_leads, right_count, right_lines,
            inner, pitch, right_share, right_batch_stride, right_line_stride, right_inner_stride,
            PARTS, RIGHT_FRACTION, RIGHT_EXPONENT, LEAD, SUMS, RIGHT_NEAR, RIGHT_LINES,
            RIGHT_INNER,
        )  # fmt: skip
