"""Lines of numbers of several words: largest exponents, integer norms, leading integers.

Operands are (words, parts, batch, lines, inner) of any strides, canonical: every word is the
nearest of what the words before it leave. So all but the last bit is known from the first word x
and the sign of the second: the value is x and less than half a unit in its last place more or less.
"""

from __future__ import annotations

import triton
import triton.language as tl

from widen.kernels.triton.lines import piece_of
from widen.kernels.triton.numbers import (
    DEPTH,
    FAR_OFF,
    LARGEST,
    NORM_BITS,
    NOTHING,
    SQUARES,
    SUM,
    decode,
    highest_bit,
    is_special,
    leading,
    lowest_bit,
    lowest_place,
    wide,
)


@triton.jit
def side_of(x, y, WIDTH: tl.constexpr):
    """1 where the words after x, y the first of them, make it larger in magnitude, -1 smaller."""
    some = (y & ((1 << (WIDTH - 1)) - 1)) != 0
    side = tl.where((x < 0) == (y < 0), 1, -1)
    return tl.where(some, side, 0)


@triton.jit
def two_words(at, word_stride, words, inside):
    """The first two words, as int64; the second of one is 0."""
    x = tl.load(at, inside, other=0).to(tl.int64)
    y = tl.load(at + tl.minimum(words - 1, 1) * word_stride, inside, other=0).to(tl.int64)
    return x, tl.where(words > 1, y, 0)


SIZES = [
    "count", "inner", "share", "word_stride", "part_stride", "batch_stride", "words", "parts",
    "kept", "pitch",
]  # fmt: skip


@triton.jit(do_not_specialize=SIZES)
def largest(
    bits, table, count, lines, inner, share, word_stride, part_stride, batch_stride, line_stride,
    inner_stride, words, parts,
    FRACTION: tl.constexpr, EXPONENT: tl.constexpr, LINES: tl.constexpr, INNER: tl.constexpr,
):  # fmt: skip
    """table[LARGEST] = bits of a float with the exponent of the largest value of every line.

    A value below the power of two that its first word is has the exponent of the float before.
    """
    width: tl.constexpr = FRACTION + EXPONENT + 1
    b, line, start, stop = piece_of(tl.program_id(0), lines, inner, share, LINES)
    base = bits + wide(b) * batch_stride + line.to(tl.int64)[:, None] * line_stride
    tally = tl.zeros((LINES, INNER), tl.int64)
    for first in range(start, stop, INNER):
        h = first + tl.arange(0, INNER)
        inside = (line < lines)[:, None] & (h < inner)[None, :]
        for part in range(parts):
            at = base + h.to(tl.int64)[None, :] * inner_stride + wide(part) * part_stride
            x, y = two_words(at, wide(word_stride), words, inside)
            shown = x & ((1 << (width - 1)) - 1)
            below = ((x & ((1 << FRACTION) - 1)) == 0) & (side_of(x, y, width) < 0)
            tally = tl.maximum(tally, shown - below.to(tl.int64))
    found = tl.max(tally, 1)
    tl.atomic_max(table + LARGEST * count + b * lines + line, found, line < lines, sem="relaxed")


@triton.jit
def ceil_and_lead(m, e, side, top, kept):
    """ceil(|v| 2^(15 - top)) and floor(|v| 2^(kept - top)) of v = m 2^e and a little to that side.

    Where a little is there, a unit of m is below 1 in both: m has 24 bits or more.
    """
    shift = tl.minimum(top - NORM_BITS - e, 62)
    right, left = tl.maximum(shift, 0).to(tl.int64), tl.maximum(-shift, 0).to(tl.int64)
    more = (tl.full(m.shape, 1, tl.int64) << right) - 1 + (side > 0).to(tl.int64)
    q = ((m << left) + more) >> right
    return q, leading(m - (side < 0).to(tl.int64), top - e, kept)


@triton.jit(do_not_specialize=SIZES)
def norms(
    bits, table, leads, count, lines, inner, share, word_stride, part_stride, batch_stride,
    line_stride, inner_stride, words, parts, kept, pitch,
    FRACTION: tl.constexpr, EXPONENT: tl.constexpr, LINES: tl.constexpr, INNER: tl.constexpr,
):  # fmt: skip
    """Rows SUM, SQUARES and DEPTH of the table, and leading integers (`kept` >= 0), as `lines`."""
    width: tl.constexpr = FRACTION + EXPONENT + 1
    b, line, start, stop = piece_of(tl.program_id(0), lines, inner, share, LINES)
    base = bits + wide(b) * batch_stride + line.to(tl.int64)[:, None] * line_stride
    at_line = table + b * lines + line
    magnitude = tl.load(at_line + LARGEST * count, line < lines, other=0)
    largest_m, largest_e = decode(magnitude, FRACTION, EXPONENT)
    top = highest_bit(largest_m) + largest_e
    counts = (line < lines) & (largest_m > 0) & ~is_special(magnitude, FRACTION, EXPONENT)
    target = leads + wide(b) * lines * pitch + line.to(tl.int64)[:, None] * pitch
    q1, q2 = tl.zeros((LINES, INNER), tl.int64), tl.zeros((LINES, INNER), tl.int64)
    last = tl.full((LINES, INNER), FAR_OFF, tl.int32)
    for first in range(start, stop, INNER):
        h = first + tl.arange(0, INNER)
        inside = counts[:, None] & (h < inner)[None, :]
        lead = tl.zeros((LINES, INNER), tl.int64)
        for part in range(parts):
            at = base + h.to(tl.int64)[None, :] * inner_stride + wide(part) * part_stride
            x, y = two_words(at, wide(word_stride), words, inside)
            m, e = decode(x, FRACTION, EXPONENT)
            q, one = ceil_and_lead(m, e, side_of(x, y, width), top[:, None], kept)
            q1 += q
            q2 += q * q
            lead += one
            for w in range(words):
                z = tl.load(at + wide(w) * word_stride, inside, other=0).to(tl.int64)
                of_word, at_bit = decode(z, FRACTION, EXPONENT)
                at_bit += lowest_bit(of_word) + lowest_place(FRACTION, EXPONENT)
                last = tl.minimum(last, tl.where(of_word > 0, at_bit, FAR_OFF))
        written = (line < lines)[:, None] & (h < pitch)[None, :]
        if kept > 7:  # too long for an int8: two planes of seven bits
            tl.store(target + h[None, :], (lead >> 7).to(tl.int8), written)
            tl.store(target + wide(count) * pitch + h[None, :], (lead & 127).to(tl.int8), written)
        elif kept >= 0:
            tl.store(target + h[None, :], lead.to(tl.int8), written)
    place = tl.min(last, 1)
    tl.atomic_add(at_line + SUM * count, tl.sum(q1, 1), counts, sem="relaxed")
    tl.atomic_add(at_line + SQUARES * count, tl.sum(q2, 1), counts, sem="relaxed")
    depth = tl.where(place < FAR_OFF, lowest_place(FRACTION, EXPONENT) - NOTHING - place, 0)
    tl.atomic_max(at_line + DEPTH * count, depth.to(tl.int64), counts, sem="relaxed")
