"""Neighbours in memory, whichever dimension they are in: device functions only."""

from __future__ import annotations

import triton
import triton.language as tl

from widen.kernels.triton.numbers import wide


@triton.jit
def pairs(base, b, stride, PARTS: tl.constexpr):
    """Where a batch item begins; with two parts all strides are even."""
    return base + wide(b) * (stride // PARTS) * PARTS


@triton.jit
def load_parts(
    base, line, h, inside, line_stride, inner_stride,
    PARTS: tl.constexpr, NEAR: tl.constexpr,
):  # fmt: skip
    """The parts of numbers, (lines, inner) each: one load of neighbours, whichever dimension is.

    NEAR: neighbouring lines lie closer in memory than neighbours within a line. The second part of
    real numbers is the first.
    """
    if PARTS == 1:
        at_line, at_inner = line.to(tl.int64) * line_stride, h.to(tl.int64) * inner_stride
        first = tl.load(base + at_line[:, None] + at_inner[None, :], inside, other=0)
        return first, first
    else:
        # Parts are neighbours and all other strides even, as the compiler is told here.
        at_line = line.to(tl.int64) * (line_stride // 2) * 2
        at_inner = h.to(tl.int64) * (inner_stride // 2) * 2
        part = tl.arange(0, 2).to(tl.int64)[None, None, :]
        if NEAR:
            at = base + at_inner[:, None, None] + at_line[None, :, None] + part
            both = tl.load(at, tl.trans(inside)[:, :, None], other=0)
            both = tl.permute(both, (1, 0, 2))
        else:
            at = base + at_line[:, None, None] + at_inner[None, :, None] + part
            both = tl.load(at, inside[:, :, None], other=0)
        first, second = tl.split(both)
        return first, second
