"""Where entries of lines are that are not 0."""

from __future__ import annotations

import triton
import triton.language as tl

from widen.gpu.kernels.triton.numbers import AHEAD, NONZEROS, STOP, wide

SPANS = ["count", "inner", "entries", "part_stride", "batch_stride"]


@triton.jit
def are_there(
    base, h, wanted, inner, part_stride, inner_stride, PARTS: tl.constexpr, FRACTION: tl.constexpr,
    EXPONENT: tl.constexpr,
):  # fmt: skip
    """Whether entries h of wanted lines are not 0, or have a part that is not."""
    inside = wanted[:, None] & (h >= 0)[None, :] & (h < inner)[None, :]
    there = tl.zeros(inside.shape, tl.int1)
    for part in tl.static_range(PARTS):
        to = base + h.to(tl.int64)[None, :] * inner_stride + part * wide(part_stride)
        x = tl.load(to, inside, other=0).to(tl.int64)
        there |= (x & ((1 << (FRACTION + EXPONENT)) - 1)) != 0
    return there


@triton.jit(do_not_specialize=SPANS)
def spans(
    bits, table, count, lines, inner, entries, part_stride, batch_stride, line_stride, inner_stride,
    PARTS: tl.constexpr, FRACTION: tl.constexpr, EXPONENT: tl.constexpr, LINES: tl.constexpr,
    INNER: tl.constexpr,
):  # fmt: skip
    """Rows AHEAD and STOP of lines that have zeros: where entries are that are not 0."""
    tiles = tl.cdiv(lines, LINES)
    b, line = tl.program_id(0) // tiles, tl.program_id(0) % tiles * LINES + tl.arange(0, LINES)
    at = table + b * lines + line
    many = tl.load(at + NONZEROS * count, line < lines, other=0)
    sparse = (many > 0) & (many < entries)
    if tl.max(sparse.to(tl.int32), 0) > 0:
        base = bits + wide(b) * batch_stride + line.to(tl.int64)[:, None] * line_stride
        # From either end, until every line has shown an entry.
        ahead, stop = tl.zeros((LINES,), tl.int32), tl.zeros((LINES,), tl.int32)
        start = tl.full((), 0, tl.int32)
        while (start < inner) & (tl.min(tl.where(sparse, ahead, 1), 0) == 0):
            h = start + tl.arange(0, INNER)
            there = are_there(
                base, h, sparse & (ahead == 0), inner, part_stride, inner_stride, PARTS, FRACTION,
                EXPONENT,
            )  # fmt: skip
            ahead = tl.maximum(ahead, tl.max(tl.where(there, inner - h[None, :], 0), 1))
            start += INNER
        start = tl.full((), 0, tl.int32) + inner
        while (start > 0) & (tl.min(tl.where(sparse, stop, 1), 0) == 0):
            start -= INNER
            h = start + tl.arange(0, INNER)
            there = are_there(
                base, h, sparse & (stop == 0), inner, part_stride, inner_stride, PARTS, FRACTION,
                EXPONENT,
            )  # fmt: skip
            stop = tl.maximum(stop, tl.max(tl.where(there, h[None, :] + 1, 0), 1))
        tl.store(at + AHEAD * count, ahead.to(tl.int64), sparse)
        tl.store(at + STOP * count, stop.to(tl.int64), sparse)
