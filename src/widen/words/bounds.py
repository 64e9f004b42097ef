"""What arithmetic on numbers of several words may lose: its inequalities, proofs, sources."""

from __future__ import annotations

from fractions import Fraction

from widen.formats import Multiple


def relative_error(operation: str, fmt: Multiple) -> Fraction:
    """The c with |z - exact| <= c u |exact|, u = 2^-precision, while nothing over- or underflows.

    Three words of float32 (TRIPLE_SUM) add with an error next to |x| + |y| as well.

    >>> from widen.formats import WORDS
    >>> [float(relative_error("multiply", WORDS[name])) for name in ("float64x2", "float32x3")]
    [10.0, 81.0]
    """
    p = fmt.words[0].precision
    e = Fraction(1, 2**p)
    unit = 2**fmt.precision
    if len(fmt.words) == 2:
        # Theorems of Joldes, Muller and Popescu (algorithms 6, 10, 17), and of Lefèvre et al.
        pair = {
            "add": 3 * e**2 + 13 * e**3,
            "multiply": 5 * e**2,
            "divide": 15 * e**2 + 56 * e**3,
            "root": Fraction(25, 8) * e**2,
        }[operation]
        # Rounding the second word to float32 adds u.
        own = 0 if len(set(fmt.words)) == 1 else 1
        return Fraction(pair * unit + own)
    if operation == "add":
        return Fraction(1)  # the exact sum, rounded once
    if fmt.name == "float32x3" and operation == "multiply":
        return Fraction(1 + 20 * e**3 * unit)
    if operation == "multiply":
        return Fraction(1 + dropped_by_product(len(fmt.words), e) * unit)
    return Fraction(2)  # remainders shrink by 2^(p-5) a digit and are kept as products are


TRIPLE_SUM = Fraction(18, 2**96)
"""Three words of float32: |z - (x + y)| <= u |x + y| + TRIPLE_SUM (|x| + |y|)."""


def dropped_by_product(count: int, e: Fraction, products: int = 1) -> Fraction:
    """What a product of numbers of `count` words leaves out, next to |x y|.

    With P = |x_0 y_0| and words of e = 2^-p, terms of order k are at most e^k P: 2k + 1 of them for
    a product. Row k of the sums is at most b_k e^k P: its own terms, and a carry of half an ulp of
    row k-1 at most, e b_(k-1) e^(k-1) P, for each of the c_(k-1) additions there. Left out are the
    carries below the last row, the terms of higher orders (at most count of order count + 1, the
    rest being smaller), and the roundings of the products of order count.
    """
    bottom = count + count // 8
    b, c = Fraction(products), products - 1
    for k in range(1, bottom + 1):
        own = products * (2 * k + 1) if k <= count else 0
        b, c = own + c * b, c + own
    carries = c * b * e ** (bottom + 1)
    terms = products * (2 * count + 1) * e ** (count + 1)
    return Fraction((carries + terms) * (1 + 4 * e))
