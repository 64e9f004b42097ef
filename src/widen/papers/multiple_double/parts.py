"""Multiple doubles in parts of few bits: splitting, equal signs, balanced exponents.

A matrix of multiple doubles is an array (words, rows, columns) of float64 here, largest word first,
NumPy's or PyTorch's. Exponents are those of C's `frexp`: a number of exponent 0 lies in [1/2, 1).
Quarters of a double are 13 apart by any convention; that 2^-14 has the exponent -13, as the slides
want it for balancing, is true of this one only.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate, pairwise
from typing import Any

from widen.formats.arrays import library_of
from widen.papers.arrays import exponents, leading_bits, powers_of_two, with_sign_of
from widen.words.renormalise import two_sum

QUARTERS = (13,) * 4
EIGHTHS = (7,) * 4 + (6,) * 4
"""52 = 4 x 13 = 4 x 7 + 4 x 6: bits of a double's parts; its 53rd bit goes to the last of them."""

LARGEST_EXPONENT = 900
"""Numbers of one row are cut on one grid by adding 2^52 times a larger number than any of them."""


def widths(words: int) -> tuple[tuple[int, ...], ...]:
    """Bits of the parts of every word: the last double is split in eight parts, others in four.

    A double double has the slides' 12 parts. The slides do not say how wider numbers are split; so
    quad, octo and hexa doubles have 20, 36 and 68: parts 13 bits apart are all that exact sums
    need, and the finer last word moves the products that are left out beyond the last bit.

    >>> [sum(map(len, widths(words))) for words in (2, 4, 8, 16)]
    [12, 20, 36, 68]
    """
    return (QUARTERS,) * (words - 1) + (EIGHTHS,)


def split(x: Any, bits: Sequence[int]) -> list[Any]:
    """Parts of a double that hold `bits` bits each, cut off one after the other; they sum to x.

    >>> import numpy as np
    >>> [float(part[0]) for part in split(np.array([1.0 + 2**-13 + 2**-52]), QUARTERS)]
    [1.0, 0.0001220703125, 0.0, 2.220446049250313e-16]
    """
    cut = [leading_bits(x, count) for count in accumulate(bits[:-1])]
    return [cut[0], *(low - high for high, low in pairwise(cut)), x - cut[-1]]


def equalise_signs(words: Any) -> Any:
    """The same numbers with words of one sign; the last bits of the last word may be lost.

    Where x_h and x_l differ in sign, b = 2^-52 goes from x_h to x_l, x_h having the exponent 0: two
    units in its last place, while x_l is at most half a unit. What x_l + b rounds off goes on to
    the words after it.
    """
    xp = library_of(words)
    kept = list(words)
    for at in range(len(kept) - 1):
        high, low = kept[at], kept[at + 1]
        opposite = ((high > 0) & (low < 0)) | ((high < 0) & (low > 0))
        bit = with_sign_of(powers_of_two(exponents(high) - 52), high)
        moved = xp.where(opposite, bit, xp.zeros_like(bit))
        kept[at] = high - moved
        for below in range(at + 1, len(kept)):
            kept[below], moved = two_sum(kept[below], moved)
    return xp.stack(kept)


def balance_exponents(parts: Sequence[Any], bits: Sequence[int]) -> list[Any]:
    """Parts of a double whose exponents are as far apart as they are wide; their sum is the same.

    Where the exponents of x_0 and x_1 differ by more than 13, b = 2^-14 goes from x_0 to x_1 (x_0
    having the exponent 0); likewise for the parts after them. Parts that are zero stay so.
    """
    xp = library_of(parts[0])
    kept, top = list(parts), exponents(parts[0])
    for at, below in enumerate(accumulate(bits[:-1])):
        high, low = kept[at], kept[at + 1]
        apart = (high != 0) & (low != 0) & (top - exponents(low) > below)
        bit = with_sign_of(powers_of_two(top - below - 1), high)
        moved = xp.where(apart, bit, xp.zeros_like(bit))
        kept[at], kept[at + 1] = high - moved, low + moved
    return kept


def parts_of_numbers(words: Any, *, equalise: bool, balance: bool) -> Any:
    """(parts, rows, columns): every number split by its own exponents, as the slides do it."""
    if equalise:
        words = equalise_signs(words)
    all_parts: list[Any] = []
    for word, bits in zip(words, widths(len(words)), strict=True):
        parts = split(word, bits)
        all_parts += balance_exponents(parts, bits) if balance else parts
    return library_of(words).stack(all_parts)


def parts_of_lines(words: Any, axis: int) -> Any:
    """(parts, rows, columns): all numbers of a line, along `axis` of a word, cut on one grid.

    Part p of every number is a multiple of 2^(T - d), with T the largest exponent of the line and d
    the bits of the parts up to p, and what is left after it is about half of that. So the sums of
    products that matter are exact for inner dimensions up to 2^20, and nothing needs balancing. The
    last part takes all that is left, rounded.
    """
    xp = library_of(words)
    top = exponents(xp.amax(abs(words[0]), axis, keepdims=True))
    if int(top.max()) > LARGEST_EXPONENT:
        raise ValueError(
            f"a number is 2^{int(top.max())} or nearly; parts by rows want less than "
            f"2^{LARGEST_EXPONENT}: scale the matrix by a power of two"
        )
    rest, parts = list(words), []
    every = [bits for word in widths(len(words)) for bits in word]
    for below in accumulate(every[:-1]):
        grid = 1.5 * powers_of_two(top - below + 52)
        part = xp.zeros_like(rest[0])
        for at, word in enumerate(rest):
            near = (word + grid) - grid
            part, rest[at] = part + near, word - near
        parts.append(part)
    last = rest[-1]
    for word in rest[-2::-1]:
        last = last + word
    return xp.stack([*parts, last])
