"""Short lines looked at: whole lines in registers, each number read once.

Threads add up numbers of one line (of a few lines, if those are neighbours in memory) and meet the
others of a line at its end. What a glance at the numbers does not tell, `lines.norms_of` finds.
"""

from __future__ import annotations

import triton
import triton.language as tl

from widen.gpu.kernels.triton.glances import (
    above_of,
    bias_of,
    glances_suffice,
    looked_at,
    power_of_two,
    upper,
)
from widen.gpu.kernels.triton.lines import depth_of, lowest_top, norms_of, tops_of
from widen.gpu.kernels.triton.numbers import (
    DEPTH,
    DISTANCES,
    FARTHEST,
    LARGEST,
    MAGNITUDES,
    NONZEROS,
    NORM_BITS,
    REACH,
    SQUARES,
    SUM,
    wide,
)
from widen.gpu.kernels.triton.packed import load_parts, pairs, store_long, store_two


@triton.jit
def widened(numbers, FRACTION: tl.constexpr, EXPONENT: tl.constexpr):
    """Numbers of 16 bits as float32; others as they are."""
    made = ()
    for i in tl.static_range(len(numbers)):
        if EXPONENT == 5:
            x = numbers[i].to(tl.float16, bitcast=True).to(tl.float32).to(tl.int32, bitcast=True)
        elif FRACTION < 23:
            x = numbers[i].to(tl.int32) << 16
        else:
            x = numbers[i]
        made = made + (x,)
    return made


@triton.jit
def entry(chunk, GROUP: tl.constexpr, INNER: tl.constexpr):
    """Entries of lines that a chunk has: a thread has GROUP neighbours, one a chunk."""
    return tl.arange(0, INNER) * GROUP + (chunk // GROUP * (GROUP * INNER) + chunk % GROUP)


@triton.jit
def read(
    base, line, inner, lines, line_stride, inner_stride, PARTS: tl.constexpr, NEAR: tl.constexpr,
    INNER: tl.constexpr, CHUNKS: tl.constexpr, GROUP: tl.constexpr,
):  # fmt: skip
    """Numbers of whole lines, a chunk after another, part after part."""
    made = ()
    for chunk in tl.static_range(CHUNKS):
        h = entry(chunk, GROUP, INNER)
        inside = (line < lines)[:, None] & (h < inner)[None, :]
        x, y = load_parts(base, line, h, inside, line_stride, inner_stride, PARTS, NEAR)
        made = made + (x,)
        if PARTS == 2:
            made = made + (y,)
    return made


@triton.jit
def sum_of_leads(leads, at: tl.constexpr, PARTS: tl.constexpr, LEAD: tl.constexpr):
    """The lead of numbers of a chunk, whose parts have one each."""
    if PARTS == 1:
        return leads[at]
    elif LEAD == MAGNITUDES:
        x, y = leads[2 * at] << 16, leads[2 * at + 1] << 16
        total = x.to(tl.float32, bitcast=True) + y.to(tl.float32, bitcast=True)
        return total.to(tl.int32, bitcast=True) >> 16
    else:
        return leads[2 * at] + leads[2 * at + 1]


@triton.jit
def word_of_leads(
    leads, first: tl.constexpr, PARTS: tl.constexpr, LEAD: tl.constexpr, MANY: tl.constexpr
):  # fmt: skip
    """Leads of some chunks in a word."""
    word = sum_of_leads(leads, first, PARTS, LEAD)
    for i in tl.static_range(1, MANY):
        word |= sum_of_leads(leads, first + i, PARTS, LEAD) << (32 // MANY * i)
    return word


@triton.jit
def store_leads(
    target, leads, line, pitch, lines, PARTS: tl.constexpr, LEAD: tl.constexpr,
    INNER: tl.constexpr, CHUNKS: tl.constexpr, GROUP: tl.constexpr, ASSEMBLY: tl.constexpr,
):  # fmt: skip
    """Leads as bytes, or as 16 bits; GROUP of them at a time."""
    at = target.to(tl.pointer_type(tl.int16), bitcast=True) if LEAD == MAGNITUDES else target
    at += line.to(tl.int64)[:, None] * pitch
    for first in tl.static_range(0, CHUNKS, GROUP):
        h = entry(first, GROUP, INNER)
        written = (line < lines)[:, None] & (h < pitch)[None, :]
        if GROUP == 1:
            lead = sum_of_leads(leads, first, PARTS, LEAD)
            tl.store(at + h[None, :], lead.to(at.dtype.element_ty), written)
        else:
            low = word_of_leads(leads, first, PARTS, LEAD, GROUP // 2)
            high = word_of_leads(leads, first + GROUP // 2, PARTS, LEAD, GROUP // 2)
            to = (at + h[None, :]).to(tl.pointer_type(tl.int32), bitcast=True)
            store_two(to, low, high, written, ASSEMBLY)


@triton.jit
def glance(
    numbers, target, top, line, pitch, lines, PARTS: tl.constexpr, LEAD: tl.constexpr,
    INNER: tl.constexpr, CHUNKS: tl.constexpr, GROUP: tl.constexpr, DOUBLE: tl.constexpr,
    ASSEMBLY: tl.constexpr,
):  # fmt: skip
    """Sums of whole lines (`norms_of`), depths, and whether they are right; leads stored."""
    above: tl.constexpr = above_of(DOUBLE)
    zero, most = tl.zeros_like(upper(numbers[0], DOUBLE)), tl.full(numbers[0].shape, -1, tl.int32)
    most = most.to(tl.uint32, bitcast=True)
    sums = (zero, zero.to(tl.int64), zero, zero, most, most)
    scale, lead_scale = top, top  # powers of two, for float32 alone
    if not DOUBLE:
        scale = power_of_two(-top + NORM_BITS)
        lead_scale = power_of_two(-top + (20 if LEAD == MAGNITUDES else LEAD))
    biased = top + bias_of(DOUBLE)
    made = ()
    for i in tl.static_range(len(numbers)):
        sums, lead = looked_at(
            sums, numbers[i], biased[:, None], scale[:, None], lead_scale[:, None], LEAD, DOUBLE,
            ASSEMBLY,
        )  # fmt: skip
        made = made + (lead,)
    if LEAD >= 0:
        store_leads(target, made, line, pitch, lines, PARTS, LEAD, INNER, CHUNKS, GROUP, ASSEMBLY)
    q1, q2, many, near, least, last = sums
    q1, q2, many, near = tl.sum(q1, 1), tl.sum(q2, 1), tl.sum(many, 1), tl.sum(near, 1)
    least, last = tl.min(least, 1).to(tl.int64) + 1, tl.min(last, 1).to(tl.int64) + 1
    if DOUBLE:
        q2 += 2 * q1 + many
        q1 += many
    distances = -near - FARTHEST * (INNER * len(numbers) - many)
    reach = biased - (least >> above).to(tl.int32)
    depth = depth_of((last >> above).to(tl.int32), 52 if DOUBLE else 23, 11 if DOUBLE else 8)
    enough = glances_suffice(least, last, biased, DOUBLE)
    return (q1, q2, many, distances, reach), depth, enough


@triton.jit
def store_sums(at, count, sums, depth, counts, real, ASSEMBLY: tl.constexpr):
    """Rows SUM to REACH of the table, 0 of lines that count nothing."""
    q1, q2, many, distances, reach = sums
    store_long(at + SUM * count, tl.where(counts, q1, 0).to(tl.int64), real, ASSEMBLY)
    store_long(at + SQUARES * count, tl.where(counts, q2, 0), real, ASSEMBLY)
    store_long(at + NONZEROS * count, tl.where(counts, many, 0).to(tl.int64), real, ASSEMBLY)
    store_long(at + DISTANCES * count, tl.where(counts, distances, 0).to(tl.int64), real, ASSEMBLY)
    store_long(at + REACH * count, tl.where(counts, reach, 0).to(tl.int64), real, ASSEMBLY)
    store_long(at + DEPTH * count, tl.where(counts, depth, 0), real, ASSEMBLY)


@triton.jit
def _survey(
    block, bits, table, leads, count, lines, inner, pitch, batch_stride, line_stride, inner_stride,
    PARTS: tl.constexpr, FRACTION: tl.constexpr, EXPONENT: tl.constexpr, LEAD: tl.constexpr,
    NEAR: tl.constexpr, LINES: tl.constexpr, INNER: tl.constexpr, CHUNKS: tl.constexpr,
    ASSEMBLY: tl.constexpr,
):  # fmt: skip
    double: tl.constexpr = FRACTION > 31
    group: tl.constexpr = (4 if LEAD == MAGNITUDES else 8) if NEAR else 1
    tiles = tl.cdiv(lines, LINES)
    b, line = block // tiles, block % tiles * LINES + tl.arange(0, LINES)
    base = pairs(bits, b, batch_stride, PARTS)
    numbers = read(
        base, line, inner, lines, line_stride, inner_stride, PARTS,
        NEAR, INNER, CHUNKS, group,
    )  # fmt: skip
    mask: tl.constexpr = (1 << (FRACTION + EXPONENT)) - 1
    largest = numbers[0] & mask
    for i in tl.static_range(1, len(numbers)):
        largest = tl.maximum(largest, numbers[i] & mask)
    magnitude = tl.max(largest, 1).to(tl.int64)
    top, counts, _ = tops_of(magnitude, line, lines, FRACTION, EXPONENT)
    top = tl.where(counts, top, 0)
    target = leads + wide(b) * lines * pitch
    sums, depth, enough = glance(
        widened(numbers, FRACTION, EXPONENT), target, top, line, pitch, lines, PARTS, LEAD, INNER,
        CHUNKS, group, double, ASSEMBLY,
    )  # fmt: skip
    at, real = table + b * lines + line, line < lines
    store_long(at + LARGEST * count, magnitude, real, ASSEMBLY)
    store_sums(at, count, sums, depth, counts, real, ASSEMBLY)
    enough &= counts & (top >= lowest_top(FRACTION, max(EXPONENT, 8)))
    doubtful = real & (magnitude != 0) & ~enough
    if tl.max(doubtful.to(tl.int32), 0) > 0:
        tl.debug_barrier()  # other threads have stored to the same places
        exact_sums, exact_depth, real_lines = norms_of(
            base, target, magnitude, 0, line, 0, pitch, inner, pitch, lines, count, line_stride,
            inner_stride, PARTS, FRACTION, EXPONENT, LEAD, NEAR, LINES, INNER, INNER,
        )  # fmt: skip
        store_sums(at, count, exact_sums, exact_depth, real_lines, real, ASSEMBLY)


@triton.jit(do_not_specialize=["left_count", "right_count", "left_blocks", "cleared"])
def survey(
    left_bits, left_table, left_leads, left_count, left_lines, left_batch_stride, left_line_stride,
    left_inner_stride, right_bits, right_table, right_leads, right_count, right_lines,
    right_batch_stride, right_line_stride, right_inner_stride, left_blocks, inner, pitch, zeros,
    cleared,
    PARTS: tl.constexpr, LEFT_FRACTION: tl.constexpr, LEFT_EXPONENT: tl.constexpr,
    RIGHT_FRACTION: tl.constexpr, RIGHT_EXPONENT: tl.constexpr, LEAD: tl.constexpr,
    LEFT_NEAR: tl.constexpr, LEFT_LINES: tl.constexpr, LEFT_INNER: tl.constexpr,
    LEFT_CHUNKS: tl.constexpr, RIGHT_NEAR: tl.constexpr, RIGHT_LINES: tl.constexpr,
    RIGHT_INNER: tl.constexpr, RIGHT_CHUNKS: tl.constexpr, ASSEMBLY: tl.constexpr,
):  # fmt: skip
    """What `lines.largest` and `lines.norms` do, for lines that programs have whole.

    Nobody else adds to their sums, so nothing has to be zero before. `cleared` words of `zeros`, up
    to 64, become zero for those who count later.
    """
    block = tl.program_id(0)
    if block == 0:
        word = tl.arange(0, 64)
        tl.store(zeros + word, tl.zeros((64,), tl.int64), word < cleared)
    if block < left_blocks:
        _survey(
            block, left_bits, left_table, left_leads, left_count, left_lines, inner, pitch,
            left_batch_stride, left_line_stride, left_inner_stride, PARTS, LEFT_FRACTION,
            LEFT_EXPONENT, LEAD, LEFT_NEAR, LEFT_LINES, LEFT_INNER, LEFT_CHUNKS, ASSEMBLY,
        )  # fmt: skip
    else:
        _survey(
            block - left_blocks, right_bits, right_table, right_leads, right_count, right_lines,
            inner, pitch, right_batch_stride, right_line_stride, right_inner_stride, PARTS,
            RIGHT_FRACTION, RIGHT_EXPONENT, LEAD, RIGHT_NEAR, RIGHT_LINES, RIGHT_INNER,
            RIGHT_CHUNKS, ASSEMBLY,
        )  # fmt: skip
