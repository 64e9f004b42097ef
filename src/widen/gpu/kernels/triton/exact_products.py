"""Many elements at once: lines made ready for exact products, and what these settle taken over."""

from __future__ import annotations

import triton
import triton.language as tl

from widen.gpu.kernels.triton.numbers import (
    NOTHING,
    decode,
    highest_bit,
    is_special,
    wide,
)
from widen.gpu.kernels.triton.reconstruct import REPAIRED, UNSETTLED

TOP = tl.constexpr(1000)  # exponent that the largest number of a balanced line gets
LEFT_OUT = tl.constexpr(1 << 16)  # in place of a shift: this term is 0 in every element


@triton.jit
def shifts_at(shifts, line, start, lines, inner, INNER: tl.constexpr):
    """Terms from `start` on, which numbers of lines are there, and how far terms are shifted."""
    h = start + tl.arange(0, INNER)
    inside = (line < lines)[:, None] & (h < inner)[None, :]
    return h, inside, tl.load(shifts + h, h < inner, other=LEFT_OUT)[None, :]


@triton.jit
def numbers_at(source, h, inside, inner_stride, FRACTION: tl.constexpr, EXPONENT: tl.constexpr):
    """Bits of numbers, m and e of |x| = m 2^e."""
    at = source + h.to(tl.int64)[None, :] * inner_stride
    x = tl.load(at, inside, other=0).to(tl.int64)
    m, e = decode(x, FRACTION, EXPONENT)
    return x, m, e


SIZES = ["lines", "inner", "word_stride", "part_stride", "batch_stride"]


@triton.jit(do_not_specialize=SIZES)
def balance(
    bits, out, shifts, moved, lost, lines, inner, word_stride, part_stride, batch_stride,
    line_stride, inner_stride, out_word_stride, out_part_stride, out_batch_stride, out_line_stride,
    out_inner_stride,
    WORDS: tl.constexpr, PARTS: tl.constexpr, FRACTION: tl.constexpr, EXPONENT: tl.constexpr,
    LINES: tl.constexpr, INNER: tl.constexpr,
):  # fmt: skip
    """Numbers x 2^(shifts_h + moved) as bits of float64, `moved` chosen for each line.

    The largest number of a line (by its first word) gets the exponent TOP; `lost` are 1 for lines
    with words so far below it that float64 does not hold them.
    """
    tiles = tl.cdiv(lines, LINES)
    b, line = tl.program_id(0) // tiles, tl.program_id(0) % tiles * LINES + tl.arange(0, LINES)
    source = bits + wide(b) * batch_stride + line.to(tl.int64)[:, None] * line_stride
    target = out + wide(b) * out_batch_stride + line.to(tl.int64)[:, None] * out_line_stride
    highest = tl.full((LINES, INNER), NOTHING, tl.int32)
    for start in range(0, inner, INNER):
        h, inside, shift = shifts_at(shifts, line, start, lines, inner, INNER)
        for part in tl.static_range(PARTS):
            of_part = source + part * wide(part_stride)
            x, m, e = numbers_at(of_part, h, inside, inner_stride, FRACTION, EXPONENT)
            counts = (m > 0) & ~is_special(x, FRACTION, EXPONENT) & (shift < LEFT_OUT)
            highest = tl.maximum(highest, tl.where(counts, highest_bit(m) + e + shift, NOTHING))
    top = tl.max(highest, 1)
    move = tl.where(top > NOTHING, TOP - top, 0)
    gone = tl.zeros((LINES, INNER), tl.int32)
    for start in range(0, inner, INNER):
        h, inside, shift = shifts_at(shifts, line, start, lines, inner, INNER)
        for at in tl.static_range(WORDS * PARTS):
            word, part = at // PARTS, at % PARTS
            of_part = source + word * wide(word_stride) + part * wide(part_stride)
            x, m, e = numbers_at(of_part, h, inside, inner_stride, FRACTION, EXPONENT)
            special = is_special(x, FRACTION, EXPONENT)
            place = highest_bit(m)
            field = place + e + shift + move[:, None] + 1023
            used = (m > 0) & (shift < LEFT_OUT)
            gone |= (used & ~special & (field < 1)).to(tl.int32)
            fraction = (m << tl.maximum(52 - place, 0).to(tl.int64)) & ((1 << 52) - 1)
            sign = (x < 0).to(tl.int64) << 63
            value = (field.to(tl.int64) << 52) | fraction | sign
            value = tl.where(used & (field >= 1), value, 0)
            value = tl.where(special, tl.full(value.shape, 2047 << 52, tl.int64), value)
            to = target + word * wide(out_word_stride) + part * wide(out_part_stride)
            tl.store(to + h.to(tl.int64)[None, :] * out_inner_stride, value, inside)
    tl.store(moved + b * lines + line, move, line < lines)
    tl.store(lost + b * lines + line, tl.max(gone, 1), line < lines)


@triton.jit
def settled_at(marks, final, at, inside):
    """Which elements are to be repaired, and which of them another pass has settled."""
    wanted = tl.load(marks + at, inside, other=0) == UNSETTLED
    return wanted, wanted & (tl.load(final + at, inside, other=1) == 0)


@triton.jit(do_not_specialize=["m", "n", "batch_stride", "row_stride"])
def take(
    fresh, out, final, marks, m, n, batch_stride, row_stride, column_stride, COLUMNS: tl.constexpr
):  # fmt: skip
    """Write what another pass has settled, one word (batch, m, n) of it; marks stay."""
    tiles = tl.cdiv(n, COLUMNS)
    row = tl.program_id(0) // tiles
    j = tl.program_id(0) % tiles * COLUMNS + tl.arange(0, COLUMNS)
    at = wide(row) * n + j
    _, settled = settled_at(marks, final, at, j < n)
    target = out + wide(row // m) * batch_stride + wide(row % m) * row_stride
    tl.store(target + j.to(tl.int64) * column_stride, tl.load(fresh + at, settled), settled)


@triton.jit(do_not_specialize=["elements", "terms"])
def settle(marks, final, repaired, open_terms, elements, terms, ELEMENTS: tl.constexpr):
    """Mark what was taken as REPAIRED, and count it; `open_terms` gets `terms` for all others."""
    at = tl.program_id(0) * wide(ELEMENTS) + tl.arange(0, ELEMENTS)
    wanted, settled = settled_at(marks, final, at, at < elements)
    tl.store(marks + at, tl.full((ELEMENTS,), REPAIRED, tl.uint8), settled)
    done = tl.sum(settled.to(tl.int32), 0)
    others = tl.sum(wanted.to(tl.int32), 0) - done
    if done > 0:
        tl.atomic_add(repaired, done, sem="relaxed")
    if others > 0:
        tl.atomic_add(open_terms, others.to(tl.int64) * terms, sem="relaxed")
