"""Many exact numbers as canonical words: integers cut word by word, then checked as arrays.

A ratio becomes an integer q times a power of two: exactly, or cut off `GUARD` bits below the
format's last one, with the last bit of q set if anything was. Then a word is the float nearest to
q, and q less that word is what is left for the next. Integers of Python know no range, and a cut
may be too early for words with gaps between them. So the numbers that this may concern are found
afterwards, and done again one at a time, by the definition (`numbers.words_of_exact`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from widen.formats import Binary, Part
from widen.words.numbers import Ratio, exact, words_of_exact
from widen.words.renormalise import ties_broken

GUARD = 64
"""Bits beyond a format's precision. float64x16 has 863: q stays below 2^1024 and is a float."""
FAR = 1 << 13
"""Exponents within this are added up in arrays; numbers with others are done one at a time."""


def words_of_ratios(ratios: Sequence[Ratio], fmt: Part) -> list[Any]:
    """Canonical words of numbers: one array for each word.

    >>> from widen.formats import WORDS
    >>> words_of_ratios([(1, 3, 0), (-1, 1, 7)], WORDS["float64x2"])[1].tolist()
    [1.850371707708594e-17, 0.0]
    """
    planes, fine = _rounded(ratios, fmt.words)
    for at in np.flatnonzero(~fine).tolist():
        for plane, word in zip(planes, words_of_exact(exact(ratios[at]), fmt), strict=True):
            plane[at] = word
    return planes


def _rounded(ratios: Sequence[Ratio], words: Sequence[Binary]) -> tuple[list[Any], Any]:
    """Words of numbers, and which of them are certainly right."""
    integers: list[int | float] = []
    exponents, is_cut = [], []
    precisions = [word.precision for word in words]
    kept = sum(precisions) + len(words) + GUARD
    for ratio in ratios:
        if isinstance(ratio, float) or not -FAR < ratio[2] < FAR:
            ratio = (1, 1, FAR)  # out of range, hence not fine
        q, bottom, exponent = ratio
        cut = False
        if bottom != 1:
            shift = kept + bottom.bit_length() - q.bit_length()
            if shift > 0:
                q <<= shift
                exponent -= shift
            q, rest = divmod(q, bottom)
            if rest:
                q, cut = q | 1, True
        extra = q.bit_length() - kept - 1
        if extra > 0:
            whole, q = q, q >> extra
            exponent += extra
            if q << extra != whole:
                q, cut = q | 1, True
        for precision in precisions:
            word = float(q) if precision == 53 else _nearest(q, precision)
            integers.append(word)
            q -= int(word)
        exponents.append(exponent)
        is_cut.append(cut)
    return _checked(integers, exponents, is_cut, words)


def _nearest(q: int, precision: int) -> int:
    """The integer of so many bits, and zeros, that is nearest to q, ties to even.

    >>> [_nearest(q, 2) for q in (5, 7, -5, 14, -21)]
    [4, 8, -4, 16, -24]
    """
    extra = q.bit_length() - precision
    if extra <= 0:
        return q
    whole = q >> extra
    rest, half = q - (whole << extra), 1 << (extra - 1)
    return (whole + (rest > half or (rest == half and whole & 1))) << extra


def _checked(
    integers: list[int | float], exponents: list[int], is_cut: list[bool], words: Sequence[Binary]
) -> tuple[list[Any], Any]:
    """Integers times 2^exponent as arrays of words, and where they are in range.

    With a cut, q stands for all numbers between its neighbours, if it is odd: the nearest word is
    the same for all of them if both lie on the same side of each midpoint, so if midpoints are
    even, hence if the unit of a word is 4 or more.
    """
    rows, powers = np.array(integers, float).reshape(-1, len(words)).T, np.array(exponents, np.intc)
    fine = ~np.array(is_cut) | (abs(rows[-1]) >= 2.0 ** (words[-1].precision + 2))
    planes = []
    with np.errstate(all="ignore"):
        for row, word in zip(rows, words, strict=True):
            plane = np.ldexp(row, powers)
            size = abs(plane)
            fine &= size < 2.0 ** (word.highest - 1)
            fine &= (row == 0) | (size >= 2.0 ** (word.lowest + word.precision))
            planes.append(plane.astype(word.name))
        return ties_broken(planes), fine
