"""Blocked products of numbers of several words, by their own additions and multiplications.

A program owns a tile of the product and goes along the inner dimension; the columns of the left
operand and the rows of the right one that it needs next are copied to shared memory ahead of time,
for all its threads. Every element is c = c + a b in the order of the inner dimension, so that tiles
change no bit. Kernels must be launched without contraction of products and sums.
"""

from __future__ import annotations

import triton
import triton.language as tl

from widen.gpu.kernels.triton.floats import fast_two_sum
from widen.gpu.kernels.triton.numbers import wide
from widen.gpu.kernels.triton.word_tuples import added, multiplied
from widen.papers.triple_single.kernels.triton.triples import (
    fused_product,
    fused_sum,
    triple_product,
    triple_sum,
)

ONE, MIXED, PAIR = tl.constexpr(0), tl.constexpr(1), tl.constexpr(2)
TRIPLE, FUSED = tl.constexpr(3), tl.constexpr(4)


@triton.jit
def narrowed(high, low):
    """A double double as a double and a float32."""
    return fast_two_sum(high, low.to(tl.float32).to(tl.float64))


@triton.jit
def _added(c, x, y, KIND: tl.constexpr):
    """The sum c + x y."""
    if KIND == TRIPLE:
        p0, p1, p2 = triple_product(x[0], x[1], x[2], y[0], y[1], y[2])
        return triple_sum(c[0], c[1], c[2], p0, p1, p2)
    elif KIND == FUSED:
        p0, p1, p2 = fused_product(x[0], x[1], x[2], y[0], y[1], y[2])
        return fused_sum(c[0], c[1], c[2], p0, p1, p2)
    elif KIND == ONE:
        return (tl.fma(x[0], y[0], c[0]),)
    elif KIND == PAIR:
        high, low = multiplied(x[0], x[1], y[0], y[1])
        return added(c[0], c[1], high, low)
    else:
        high, low = multiplied(x[0], x[1].to(tl.float64), y[0], y[1].to(tl.float64))
        high, low = narrowed(high, low)
        high, low = added(c[0], c[1], high, low)
        return narrowed(high, low)


@triton.jit
def _load(first, second, third, at, inside, KIND: tl.constexpr):
    """The words of numbers."""
    x = (tl.load(first + at, inside, other=0.0),)
    if KIND != ONE:
        x = x + (tl.load(second + at, inside, other=0.0),)
    if KIND >= TRIPLE:
        x = x + (tl.load(third + at, inside, other=0.0),)
    return x


@triton.jit
def _along(x, axis: tl.constexpr):
    """Words along the rows or the columns of a tile."""
    spread = ()
    for l in tl.static_range(len(x)):
        spread = spread + (tl.expand_dims(x[l], axis),)
    return spread


@triton.jit(do_not_specialize=["m", "n", "inner"])
def multiply(
    a0, a1, a2, b0, b1, b2, c0, c1, c2, m, n, inner, a_row, b_row, c_row,
    KIND: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr, STAGES: tl.constexpr,
):  # fmt: skip
    """The product c of words of matrices whose rows are contiguous.

    Words that a kind does not have are not looked at; MIXED has a float64 and a float32.
    """
    tiles = tl.cdiv(n, COLUMNS)
    i = (tl.program_id(0) // tiles * ROWS + tl.arange(0, ROWS)).to(tl.int64)
    j = (tl.program_id(0) % tiles * COLUMNS + tl.arange(0, COLUMNS)).to(tl.int64)
    zero = tl.zeros((ROWS, COLUMNS), a0.dtype.element_ty)
    kept = (zero,)
    if KIND != ONE:
        kept = kept + (zero,)
    if KIND >= TRIPLE:
        kept = kept + (zero,)
    for h in tl.range(0, inner, num_stages=STAGES):
        x = _load(a0, a1, a2, i * a_row + h, i < m, KIND)
        y = _load(b0, b1, b2, wide(h) * b_row + j, j < n, KIND)
        kept = _added(kept, _along(x, 1), _along(y, 0), KIND)
    at = i[:, None] * c_row + j[None, :]
    inside = (i < m)[:, None] & (j < n)[None, :]
    tl.store(c0 + at, kept[0], inside)
    if KIND != ONE:
        tl.store(c1 + at, kept[1], inside)
    if KIND >= TRIPLE:
        tl.store(c2 + at, kept[2], inside)


@triton.jit
def accumulate(c, x, size, ELEMENTS: tl.constexpr):
    """Add floats x to numbers of three words, c (3, size)."""
    e = tl.program_id(0).to(tl.int64) * ELEMENTS + tl.arange(0, ELEMENTS)
    inside = e < size
    y = tl.load(x + e, inside, other=0.0)
    zero = tl.zeros_like(y)
    c0 = tl.load(c + e, inside, other=0.0)
    c1 = tl.load(c + size + e, inside, other=0.0)
    c2 = tl.load(c + 2 * size + e, inside, other=0.0)
    c0, c1, c2 = triple_sum(c0, c1, c2, y, zero, zero)
    tl.store(c + e, c0, inside)
    tl.store(c + size + e, c1, inside)
    tl.store(c + 2 * size + e, c2, inside)
