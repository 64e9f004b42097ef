"""Numbers of three words of float32: the listings of "triple-single arithmetic" (paper 003).

The steps of cpu/kernels/triples.py.
"""

from __future__ import annotations

import triton
import triton.language as tl  # noqa: F401 - the interpreter wants to see it

from widen.gpu.kernels.triton.floats import two_product, two_sum


@triton.jit
def three_sum(a, b, c):
    """Three numbers of the same sum, largest first."""
    t, u = two_sum(a, b)
    a, v = two_sum(c, t)
    b, c = two_sum(u, v)
    return a, b, c


@triton.jit
def added_words(a0, a1, a2, b0, b1, b2):
    """Three terms of a sum, and three of the order of a fourth."""
    s0, t0 = two_sum(a0, b0)
    s1, t1 = two_sum(a1, b1)
    s2, t2 = two_sum(a2, b2)
    s1, t0 = two_sum(s1, t0)
    s2, t0, t1 = three_sum(s2, t0, t1)
    return s0, s1, s2, t0, t1, t2


@triton.jit
def multiplied_words(a0, a1, b0, b1):
    """Three terms of the products of first and second words, and three of the order of a fourth."""
    p0, q0 = two_product(a0, b0)
    p1, q1 = two_product(a0, b1)
    p2, q2 = two_product(a1, b0)
    p1, p2, q0 = three_sum(p1, p2, q0)
    p2, q1, q2 = three_sum(p2, q1, q2)
    return p0, p1, p2, q0, q1, q2


@triton.jit
def sum_terms(a0, a1, a2, b0, b1, b2):
    """TS_Add as far as its last line: four terms."""
    s0, s1, s2, t0, t1, t2 = added_words(a0, a1, a2, b0, b1, b2)
    return s0, s1, s2, (t2 + t0) + t1


@triton.jit
def product_terms(a0, a1, a2, b0, b1, b2):
    """TS_Prod as far as its last line: four terms."""
    p0, p1, p2, q0, q1, q2 = multiplied_words(a0, a1, b0, b1)
    last = (a0 * b2 + a2 * b0) + a1 * b1
    return p0, p1, p2, ((last + q0) + q1) + q2
