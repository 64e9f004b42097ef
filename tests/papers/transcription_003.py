"""Paper 003's listings 4 to 10, 15, 17 and Algorithm 1, line by line, in NumPy's single numbers.

Every operation rounds to the type of its operands; listings keep their branches.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np

F = np.float32


def two_sum(a, b):
    """Listing 4."""
    s = a + b
    bb = s - a
    return s, (a - (s - bb)) + (b - bb)


def quick_two_sum(a, b):
    """Listing 5."""
    s = a + b
    return s, b - (s - a)


def three_sum(a, b, c):
    """Listing 6."""
    t1, t2 = two_sum(a, b)
    a, t3 = two_sum(c, t1)
    b, c = two_sum(t2, t3)
    return a, b, c


def renorm(c0, c1, c2, c3):
    """Listing 7."""
    s2 = F(0)
    s0, c3 = quick_two_sum(c2, c3)
    s0, c2 = quick_two_sum(c1, s0)
    c0, c1 = quick_two_sum(c0, s0)
    s0, s1 = c0, c1
    if s1 != 0:
        s1, s2 = quick_two_sum(s1, c2)
        if s2 != 0:
            s2 = s2 + c3
        else:
            s1, s2 = quick_two_sum(s1, c3)
    else:
        s0, s1 = quick_two_sum(s0, c2)
        if s1 != 0:
            s1, s2 = quick_two_sum(s1, c3)
        else:
            s0, s1 = quick_two_sum(s0, c3)
    return s0, s1, s2


def three_sums(a, b):
    """Listings 8 and 15 as far as they are the same."""
    s = [x + y for x, y in zip(a, b, strict=True)]
    v = [x - y for x, y in zip(s, a, strict=True)]
    u = [x - y for x, y in zip(s, v, strict=True)]
    w = [x - y for x, y in zip(a, u, strict=True)]
    u = [x - y for x, y in zip(b, v, strict=True)]
    t = [x + y for x, y in zip(w, u, strict=True)]
    s[1], t[0] = two_sum(s[1], t[0])
    s[2], t[0], t[1] = three_sum(s[2], t[0], t[1])
    return s, t


def ts_add(a, b):
    """Listing 8."""
    s, t = three_sums(a, b)
    t[0], t[2] = two_sum(t[2], t[0])
    t[0] = t[0] + t[1]
    return renorm(s[0], s[1], s[2], t[0])


def gts_add(a, b):
    """Listing 15."""
    s, t = three_sums(a, b)
    t[0] = t[0] + (t[1] + t[2])
    return renorm(s[0], s[1], s[2], t[0])


def two_prod_fma(a, b):
    """Listing 9: fma(a, b, -p), in fractions rounded once."""
    p = a * b
    return p, type(a)(float(Fraction(float(a)) * Fraction(float(b)) - Fraction(float(p))))


def fma(a, b, c):
    """A b + c in fractions, rounded once: to float32 by way of an odd float64."""
    exact = Fraction(float(a)) * Fraction(float(b)) + Fraction(float(c))
    near = float(exact)
    if Fraction(near) != exact and not np.float64(near).view(np.int64) & 1:
        near = math.nextafter(near, math.inf if exact > Fraction(near) else -math.inf)
    return type(a)(near)


def three_products(a, b):
    """Listings 10 and 17 as far as they are alike; 17 has a misprint, b[2] for the first b[0]."""
    p0, q0 = two_prod_fma(a[0], b[0])
    p1, q1 = two_prod_fma(a[0], b[1])
    p2, q2 = two_prod_fma(a[1], b[0])
    p1, p2, q0 = three_sum(p1, p2, q0)
    p2, q1, q2 = three_sum(p2, q1, q2)
    return (p0, p1, p2), (q0, q1, q2)


def ts_prod(a, b):
    """Listing 10."""
    p, q = three_products(a, b)
    s0 = a[0] * b[2] + a[2] * b[0] + a[1] * b[1] + q[0] + q[1] + q[2]
    return renorm(*p, s0)


def gts_prod(a, b):
    """Listing 17."""
    p, q = three_products(a, b)
    s0 = fma(a[0], b[2], fma(a[2], b[0], fma(a[1], b[1], q[0] + (q[1] + q[2]))))
    return renorm(*p, s0)


def pair_add(a, b):
    """DD and DF: the QD library's accurate addition."""
    s1, s2 = two_sum(a[0], b[0])
    t1, t2 = two_sum(a[1], b[1])
    s1, s2 = quick_two_sum(s1, s2 + t1)
    return quick_two_sum(s1, s2 + t2)


def pair_prod(a, b):
    p1, p2 = two_prod_fma(a[0], b[0])
    return quick_two_sum(p1, p2 + (a[0] * b[1] + a[1] * b[0]))


def mixed(operation):
    """D+S: the operation on doubles, its second word rounded to a float."""

    def narrowed(a, b):
        a, b = ((x[0], np.float64(x[1])) for x in (a, b))
        high, low = operation(a, b)
        high, low = quick_two_sum(high, np.float64(F(low)))
        return high, F(low)

    return narrowed


def one_add(c, p):
    """C + a b of ordinary numbers, rounded once: `p` is the exact product."""
    return (type(c[0])(float(Fraction(float(c[0])) + p)),)


OPERATIONS = {
    "double": (one_add, lambda a, b: Fraction(float(a[0])) * Fraction(float(b[0]))),
    "TS": (ts_add, ts_prod),
    "GTS": (gts_add, gts_prod),
    "DF": (pair_add, pair_prod),
    "D+S": (mixed(pair_add), mixed(pair_prod)),
    "DD": (pair_add, pair_prod),
}


def product_of(a, b, name):
    """C = C + A B, one element after the other."""
    add, prod = OPERATIONS[name]
    found = [np.empty((a[0].shape[0], b[0].shape[1]), word.dtype) for word in a]
    for i in range(a[0].shape[0]):
        for j in range(b[0].shape[1]):
            c = tuple(word.dtype.type(0) for word in a)
            for h in range(a[0].shape[1]):
                c = add(c, prod([word[i, h] for word in a], [word[h, j] for word in b]))
            for word, value in zip(found, c, strict=True):
                word[i, j] = value
    return found


def slices_of(words, slices, n):
    """Lines 3 to 17 for one row (or column) of TS numbers."""
    row = [tuple(word) for word in zip(*words, strict=True)]
    leading = [x[0] for x in row]
    found = []
    for _ in range(slices - 1):
        largest = max(abs(x) for x in leading)
        power = 0
        if largest:  # ceil(log2 M)
            power = math.frexp(largest)[1]
            power -= Fraction(float(largest)) == Fraction(2) ** (power - 1)
        t = F(2.0) ** F(power + math.ceil((24 + math.log2(n)) / 2))
        piece = [(x + t) - t for x in leading]
        row = [ts_add(x, (-p, F(0), F(0))) for x, p in zip(row, piece, strict=True)]
        leading = [x[0] for x in row]
        found.append(piece)
    return [*found, leading]
