"""Numbers of three words of float32: the listings of "triple-single arithmetic" (paper 003).

Sums and products end in four terms; how these become three words again is a choice: canonical
words (`cpu.kernels.word_rows`), or listing 7 for the paper's own products. The GPU has the same
lines in Triton (`gpu.kernels.triton.triples`): neither compiler reads the other's.
"""

from __future__ import annotations

from widen.cpu.kernels.cache import device
from widen.cpu.kernels.floats import two_product, two_sum


@device
def three_sum(a, b, c):
    """Listing 6: three numbers of the same sum, largest first."""
    t, u = two_sum(a, b)
    a, v = two_sum(c, t)
    b, c = two_sum(u, v)
    return a, b, c


@device
def added_words(a0, a1, a2, b0, b1, b2):
    """Three terms of a sum, and three of the order of a fourth."""
    s0, t0 = two_sum(a0, b0)
    s1, t1 = two_sum(a1, b1)
    s2, t2 = two_sum(a2, b2)
    s1, t0 = two_sum(s1, t0)
    s2, t0, t1 = three_sum(s2, t0, t1)
    return s0, s1, s2, t0, t1, t2


@device
def multiplied_words(a0, a1, b0, b1):
    """Three terms of the products of first and second words, and three of the order of a fourth."""
    p0, q0 = two_product(a0, b0)
    p1, q1 = two_product(a0, b1)
    p2, q2 = two_product(a1, b0)
    p1, p2, q0 = three_sum(p1, p2, q0)
    p2, q1, q2 = three_sum(p2, q1, q2)
    return p0, p1, p2, q0, q1, q2


@device
def sum_terms(a0, a1, a2, b0, b1, b2):
    """Listing 8, TS_Add, as far as the last line: four terms."""
    s0, s1, s2, t0, t1, t2 = added_words(a0, a1, a2, b0, b1, b2)
    return s0, s1, s2, (t2 + t0) + t1


@device
def product_terms(a0, a1, a2, b0, b1, b2):
    """Listing 10, TS_Prod, as far as the last line: four terms."""
    p0, p1, p2, q0, q1, q2 = multiplied_words(a0, a1, b0, b1)
    last = (a0 * b2 + a2 * b0) + a1 * b1
    return p0, p1, p2, ((last + q0) + q1) + q2
