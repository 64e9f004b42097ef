"""Lines of numbers of several words: largest exponents, integer norms, leading integers.

Operands are (words, parts, batch, lines, inner) of any strides, canonical: every word is the
nearest of what the words before it leave. So all but the last bit is known from the first word x
and the sign of the second: the value is x and less than half a unit in its last place more or less.
The second is read where x ends in zeros and that little decides; further words for the place of a
line's last bit alone, until it is known to be far enough.

Kernels stand apart from those of `lines`: whether a second word is read depends on the first, so
numbers cannot be on their way while others are looked at, as they are there.
"""

from __future__ import annotations

import triton
import triton.language as tl

from widen.gpu.kernels.triton.lines import (
    add_sums,
    counted,
    depth_of,
    no_leads,
    no_sums,
    of_lines,
    piece_of,
    store_leads,
    tops_of,
)
from widen.gpu.kernels.triton.numbers import (
    FAR_OFF,
    LARGEST,
    NORM_BITS,
    decode,
    lowest_bit,
    lowest_place,
    wide,
)


@triton.jit
def side_of(
    x, at, word_stride, words, inside, FRACTION: tl.constexpr, EXPONENT: tl.constexpr
):  # fmt: skip
    """(more, less): 1 where the words after x make it larger in magnitude, and where smaller.

    Said where no more than the first NORM_BITS bits of x's fraction are set: elsewhere, numbers of
    so many bits are the same of x and of the value.
    """
    wanted = inside & (tl.zeros(inside.shape, tl.int32) + words > 1)
    if FRACTION > NORM_BITS:
        wanted &= (x << (NORM_BITS + 64 - FRACTION)) == 0
    y = tl.load(at + word_stride, wanted, other=0).to(tl.int64)
    nonzero = (y & ((1 << (FRACTION + EXPONENT)) - 1)) != 0
    alike = (x < 0) == (y < 0)
    return (nonzero & alike).to(tl.int32), (nonzero & ~alike).to(tl.int32)


SIZES = [
    "count", "inner", "share", "word_stride", "part_stride", "batch_stride", "words", "enough",
    "pitch",
]  # fmt: skip


@triton.jit(do_not_specialize=SIZES)
def largest(
    bits, table, count, lines, inner, share, word_stride, part_stride, batch_stride, line_stride,
    inner_stride, words,
    PARTS: tl.constexpr, FRACTION: tl.constexpr, EXPONENT: tl.constexpr, LINES: tl.constexpr,
    INNER: tl.constexpr,
):  # fmt: skip
    """table[LARGEST] = bits of a float with the exponent of the largest value of every line.

    A value below the power of two that its first word is has the exponent of the float before.
    """
    b, line, start, stop = piece_of(tl.program_id(0), lines, inner, share, LINES)
    base = bits + wide(b) * batch_stride + line.to(tl.int64)[:, None] * line_stride
    tally = tl.zeros((LINES, INNER), tl.int64)
    for first in range(start, stop, INNER):
        h = first + tl.arange(0, INNER)
        inside = (line < lines)[:, None] & (h < inner)[None, :]
        for part in tl.static_range(PARTS):
            at = base + h.to(tl.int64)[None, :] * inner_stride + part * wide(part_stride)
            x = tl.load(at, inside, other=0).to(tl.int64)
            _, less = side_of(x, at, wide(word_stride), words, inside, FRACTION, EXPONENT)
            tally = tl.maximum(tally, (x & ((1 << (FRACTION + EXPONENT)) - 1)) - less)
    tops = tl.max(tally, 1)
    tl.atomic_max(table + LARGEST * count + b * lines + line, tops, line < lines, sem="relaxed")


@triton.jit
def last_place(at, word_stride, words, inside, FRACTION: tl.constexpr, EXPONENT: tl.constexpr):
    """The place of the last bit of numbers: of the last word that is not zero."""
    place = tl.full(inside.shape, FAR_OFF, tl.int32)
    for w in range(words):
        unknown = inside & (place == FAR_OFF)
        z = tl.load(at + (words - 1 - w) * word_stride, unknown, other=0).to(tl.int64)
        m, e = decode(z, FRACTION, EXPONENT)
        place = tl.where(m > 0, e + lowest_bit(m) + lowest_place(FRACTION, EXPONENT), place)
    return place


@triton.jit
def sums_of(
    base, target, line, counts, top, start, stop, inner, pitch, lines, count, word_stride,
    part_stride, inner_stride, words, enough, FAR: tl.constexpr, PARTS: tl.constexpr,
    FRACTION: tl.constexpr, EXPONENT: tl.constexpr, LEAD: tl.constexpr, LINES: tl.constexpr,
    INNER: tl.constexpr,
):  # fmt: skip
    """Sums (`counted`) and the place of the last bit of a stretch of lines; its leads stored."""
    sums = no_sums(LINES, INNER)
    last = tl.full((LINES,), FAR_OFF, tl.int32)
    # A line of which a bit lies beyond the goal's point is inexact: its last bit does not matter.
    limit = top - enough + lowest_place(FRACTION, EXPONENT)
    looking = tl.full((), 1, tl.int32)
    for first in range(start, stop, INNER):
        h = first + tl.arange(0, INNER)
        inside = counts[:, None] & (h < inner)[None, :]
        lead = no_leads(LEAD, LINES, INNER)
        for part in tl.static_range(PARTS):
            at = base + h.to(tl.int64)[None, :] * inner_stride + part * part_stride
            x = tl.load(at, inside, other=0)
            more, less = side_of(x.to(tl.int64), at, word_stride, words, inside, FRACTION, EXPONENT)
            sums, lead, _ = counted(sums, lead, x, more, less, top, FAR, LEAD, FRACTION, EXPONENT)
            if looking > 0:
                place = last_place(at, word_stride, words, inside, FRACTION, EXPONENT)
                last = tl.minimum(last, tl.min(place, 1))
        looking = tl.minimum(looking, tl.max((counts & (last >= limit)).to(tl.int32), 0))
        if LEAD >= 0:
            store_leads(target, lead, line, first, pitch, lines, True, LINES, INNER)
    return of_lines(sums), last


@triton.jit(do_not_specialize=SIZES)
def norms(
    bits, table, leads, count, lines, inner, share, word_stride, part_stride, batch_stride,
    line_stride, inner_stride, words, enough, pitch,
    PARTS: tl.constexpr, FRACTION: tl.constexpr, EXPONENT: tl.constexpr, LEAD: tl.constexpr,
    SUMS: tl.constexpr, LINES: tl.constexpr, INNER: tl.constexpr,
):  # fmt: skip
    """Rows SUM to REACH of the table (SUMS), and leads (LEAD >= 0), as `lines.norms`.

    No line will be scaled so that its largest number is 2^enough or more: where some bit is further
    down, DEPTH says so, but not how far.
    """
    b, line, start, stop = piece_of(tl.program_id(0), lines, inner, share, LINES)
    base = bits + wide(b) * batch_stride + line.to(tl.int64)[:, None] * line_stride
    at_line = table + b * lines + line
    magnitude = tl.load(at_line + LARGEST * count, line < lines, other=0)
    top, counts, far = tops_of(magnitude, line, lines, FRACTION, EXPONENT)
    target = leads + wide(b) * lines * pitch
    if far:
        sums, place = sums_of(
            base, target, line, counts, top, start, stop, inner, pitch, lines, count,
            wide(word_stride), wide(part_stride), inner_stride, words, enough, True, PARTS,
            FRACTION, EXPONENT, LEAD, LINES, INNER // 4,
        )  # fmt: skip
    else:
        sums, place = sums_of(
            base, target, line, counts, top, start, stop, inner, pitch, lines, count,
            wide(word_stride), wide(part_stride), inner_stride, words, enough, False, PARTS,
            FRACTION, EXPONENT, LEAD, LINES, INNER,
        )  # fmt: skip
    if SUMS:
        add_sums(at_line, count, sums, depth_of(place, FRACTION, EXPONENT), counts)
