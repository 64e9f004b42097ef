"""Sums and products of three words of float32 as paper 003 has them.

Listings 8 and 10 are for a CPU, 15 and 17 for a GPU; both kinds run on both here. All end in
listing 7.
"""

from __future__ import annotations

from widen.cpu.kernels.cache import device
from widen.cpu.kernels.floats import fast_two_sum, fma
from widen.cpu.kernels.triples import added_words, multiplied_words, product_terms, sum_terms


@device
def renormalised(c0, c1, c2, c3):
    """Listing 7, Renorm, without its branches: they differ in which words are 0 and move up."""
    s, c3 = fast_two_sum(c2, c3)
    s, c2 = fast_two_sum(c1, s)
    s0, s1 = fast_two_sum(c0, s)
    nonzero = s1 != 0
    u, v = fast_two_sum(s1 if nonzero else s0, c2)
    more = v != 0
    w, x = fast_two_sum(v if more else u, c3)
    first, second = (u if more else w), (w if more else x)
    third = x if more else x - x
    return s0 if nonzero else first, first if nonzero else second, second if nonzero else third


@device
def triple_sum(a0, a1, a2, b0, b1, b2):
    """Listing 8, TS_Add."""
    c0, c1, c2, c3 = sum_terms(a0, a1, a2, b0, b1, b2)
    return renormalised(c0, c1, c2, c3)


@device
def triple_product(a0, a1, a2, b0, b1, b2):
    """Listing 10, TS_Prod."""
    c0, c1, c2, c3 = product_terms(a0, a1, a2, b0, b1, b2)
    return renormalised(c0, c1, c2, c3)


@device
def fused_sum(a0, a1, a2, b0, b1, b2):
    """Listing 15, GTS_Add."""
    s0, s1, s2, t0, t1, t2 = added_words(a0, a1, a2, b0, b1, b2)
    return renormalised(s0, s1, s2, t0 + (t1 + t2))


@device
def fused_product(a0, a1, a2, b0, b1, b2):
    """Listing 17, GTS_Prod; its first line is printed with b.z instead of b.x."""
    p0, p1, p2, q0, q1, q2 = multiplied_words(a0, a1, b0, b1)
    last = fma(a0, b2, fma(a2, b0, fma(a1, b1, q0 + (q1 + q2))))
    return renormalised(p0, p1, p2, last)
