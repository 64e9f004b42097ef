"""Sums and products of three words of float32 as paper 003 has them: kernels/cpu/triples.py."""

from __future__ import annotations

import triton
import triton.language as tl

from widen.gpu.kernels.triton.floats import fast_two_sum
from widen.gpu.kernels.triton.triples import (
    added_words,
    multiplied_words,
    product_terms,
    sum_terms,
)


@triton.jit
def renormalised(c0, c1, c2, c3):
    """Renorm without its branches: they differ in which words are zero and move up."""
    s, c3 = fast_two_sum(c2, c3)
    s, c2 = fast_two_sum(c1, s)
    s0, s1 = fast_two_sum(c0, s)
    nonzero = s1 != 0
    u, v = fast_two_sum(tl.where(nonzero, s1, s0), c2)
    more = v != 0
    w, x = fast_two_sum(tl.where(more, v, u), c3)
    first, second = tl.where(more, u, w), tl.where(more, w, x)
    third = tl.where(more, x, x - x)
    return (
        tl.where(nonzero, s0, first),
        tl.where(nonzero, first, second),
        tl.where(nonzero, second, third),
    )


@triton.jit
def triple_sum(a0, a1, a2, b0, b1, b2):
    """TS_Add."""
    c0, c1, c2, c3 = sum_terms(a0, a1, a2, b0, b1, b2)
    return renormalised(c0, c1, c2, c3)


@triton.jit
def triple_product(a0, a1, a2, b0, b1, b2):
    """TS_Prod."""
    c0, c1, c2, c3 = product_terms(a0, a1, a2, b0, b1, b2)
    return renormalised(c0, c1, c2, c3)


@triton.jit
def fused_sum(a0, a1, a2, b0, b1, b2):
    """GTS_Add."""
    s0, s1, s2, t0, t1, t2 = added_words(a0, a1, a2, b0, b1, b2)
    return renormalised(s0, s1, s2, t0 + (t1 + t2))


@triton.jit
def fused_product(a0, a1, a2, b0, b1, b2):
    """GTS_Prod."""
    p0, p1, p2, q0, q1, q2 = multiplied_words(a0, a1, b0, b1)
    last = tl.fma(a0, b2, tl.fma(a2, b0, tl.fma(a1, b1, q0 + (q1 + q2))))
    return renormalised(p0, p1, p2, last)
