"""Operations that multiple doubles cost: the slides' table, this library's kernels, the rewriting.

A fused multiply-add counts as one operation; comparisons and selections are not counted.
"""

from __future__ import annotations

from widen.papers.multiple_double.parts import widths

SLIDES = {2: (20, 23, 70), 4: (89, 336, 893), 8: (269, 1742, 5126), 16: (925, 11499, 33041)}
"""Operations with doubles of an addition, a multiplication and a division, by number of words."""

TWO_SUM, FAST_TWO_SUM, TWO_PRODUCT = 6, 3, 2


def average(words: int) -> float:
    """The slides' last column.

    >>> [round(average(words), 1) for words in SLIDES]
    [37.7, 439.3, 2379.0, 15155.0]
    """
    return sum(SLIDES[words]) / 3


def rounded(terms: int, words: int) -> int:
    """Any terms to canonical words (cpu/kernels/rows.py: `grow`, then `round_words`)."""
    grown = TWO_SUM * (terms * (terms - 1) // 2)
    each = sum(FAST_TWO_SUM * (terms - 1 - at) + 4 for at in range(min(words, terms - 1)))
    return grown + each + FAST_TWO_SUM


def addition(words: int) -> int:
    """Operations of an addition here: AccurateDWPlusDW, or the exact sum of all words rounded once.

    >>> addition(2)
    20
    """
    if words == 2:
        return 2 * TWO_SUM + 2 * (1 + FAST_TWO_SUM)
    return rounded(2 * words, words)


def multiplication(words: int) -> int:
    """Operations of a multiplication here: DWTimesDW1, or products deposited by their size.

    >>> multiplication(2)
    9
    """
    if words == 2:
        return TWO_PRODUCT + 4 + FAST_TWO_SUM
    operations = 0
    for order in range(words):  # order + 1 products x_i y_j with i + j = order, and their errors
        sums = (words + 1 - order) + (words - order)
        operations += (order + 1) * (TWO_PRODUCT + 2 + TWO_SUM * sums)
    return operations + (words - 1) * (2 + TWO_SUM) + rounded(words + 1, words)


def rewritten(words: int) -> tuple[int, int]:
    """float64 operations of a multiplication and an addition in the rewritten product.

    All of them, and those with numbers that are not zero by construction.

    >>> rewritten(2)
    (288, 156)
    """
    parts = sum(map(len, widths(words)))
    return 2 * parts**2, parts * (parts + 1)
