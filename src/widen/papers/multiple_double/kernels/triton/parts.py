"""Parts of elements added up into numbers of several doubles."""

from __future__ import annotations

import triton
import triton.language as tl

from widen.gpu.kernels.triton.floats import fast_two_sum, two_sum


@triton.jit(do_not_specialize=["count"])
def add_parts(
    parts, words, count, rows, columns, part_stride, row_stride, column_stride, size,
    WORDS: tl.constexpr, ELEMENTS: tl.constexpr,
):  # fmt: skip
    """As kernels/cpu/parts.py: `add_parts`, for parts (count, rows, columns) of any strides."""
    e = tl.program_id(0).to(tl.int64) * ELEMENTS + tl.arange(0, ELEMENTS)
    inside = e < size
    at = parts + e // columns * row_stride + e % columns * column_stride
    kept = ()
    for l in tl.static_range(WORDS):
        kept = kept + (tl.load(words + l * size + e, inside, other=0.0),)
    for p in range(count):
        rest = tl.load(at + p * part_stride, inside, other=0.0)
        swept = ()
        for l in tl.static_range(WORDS):
            word, rest = two_sum(kept[l], rest)
            swept = swept + (word,)
        total = swept[WORDS - 1]
        below = ()
        for l in tl.static_range(WORDS - 1):
            total, rest = fast_two_sum(swept[WORDS - 2 - l], total)
            below = (rest,) + below
        kept = (total,) + below
    for l in tl.static_range(WORDS):
        tl.store(words + l * size + e, kept[l], inside)
