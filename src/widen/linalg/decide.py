"""Which elements of an enclosure round to one number: both ends round alike, so all between do.

Rounding to nearest is monotone, word by word: if the words of both ends agree, all numbers between
have them too. Elements far from the range of the format are decided one at a time, in fractions.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from widen.formats import Binary, Part
from widen.formats.arrays import cast, library_of
from widen.linalg.arrays import on_host, scaled
from widen.linalg.bounds import FORMATS, NEXT, PRECISION, above
from widen.linalg.scaling import each_plane
from widen.stages.rounding import round_words
from widen.words import Words

SMALLEST, MOST = 2.0**-800, 2.0**1000
"""Where results of one word are decided in float64: TINY is nothing next to their last bits."""
GUARD = 60
"""Bits between what a wide format holds of a number and the smallest subnormal number."""


@dataclass(frozen=True)
class Decision:
    """Results of an enclosure.

    Attributes
    ----------
    words
        Words of the results, an array for each.
    decided
        Where they are the nearest to all numbers of the enclosure.
    ordinary
        Where numbers are in the range in which this was looked at.
    error
        Upper bounds of the distance of the enclosed numbers from the results.
    """

    words: list[Any]
    decided: Any
    ordinary: Any
    error: Any


def decide(x: Words, radius: Any, powers: Any, fmt: Part) -> Decision:
    """Results in a format for the numbers x 2^powers, which are known within the radius."""
    return (_plain if isinstance(fmt, Binary) else _several)(x, radius, powers, fmt)


def _plain(x: Words, radius: Any, powers: Any, fmt: Any) -> Decision:
    """Results of one word: |x - f| + radius is below half of the smaller gap beside f."""
    library = library_of(powers)
    value, rest = (scaled(plane[0], powers) for plane in x.planes[:2])
    ordinary = (abs(value) >= SMALLEST) & (abs(value) < min(MOST, 2.0 ** (fmt.highest - 1)))
    with np.errstate(all="ignore"):
        nearest = cast(value, fmt.name)
        size = abs(nearest)
        below = library.nextafter(size, library.zeros_like(size))
        half_gap = 0.5 * (cast(size, "float64") - cast(below, "float64"))
        # The first difference is exact; words behind the second are below u of it.
        error = above(abs(value - cast(nearest, "float64")) + abs(rest) + scaled(radius, powers))
        return Decision([nearest], ordinary & (error < half_gap), ordinary, error)


def _several(x: Words, radius: Any, powers: Any, fmt: Any) -> Decision:
    """Results of several words: those of both ends, computed in the next wider format."""
    count = NEXT.get(len(x.planes), len(x.planes))
    wide = each_plane(x, lambda plane: scaled(plane, powers[None])).astype(FORMATS[count])
    size = abs(wide.planes[0][0])
    least = max(fmt.lowest + fmt.precision, -1074 + PRECISION[count]) + GUARD
    ordinary = (size >= 2.0**least) & (size < 2.0 ** (fmt.highest - 2))
    # Adding the radius rounds to `count` words: an error below 2^-(p - 4) of the sum.
    reach = above(scaled(radius, powers) + 2.0 ** (4 - PRECISION[count]) * size)
    with np.errstate(all="ignore"):
        low, high = (wide - reach).astype(fmt), (wide + reach).astype(fmt)
    decided = ordinary & (reach < 0.25 * size)
    for p, q in zip(low.planes, high.planes, strict=True):
        decided = decided & (p[0] == q[0])
    return Decision([plane[0] for plane in low.planes], decided, ordinary, half_units(size, fmt))


def half_units(size: Any, fmt: Part) -> Any:
    """Upper bounds of half a unit in the last place of results of these magnitudes."""
    return size * (2.0**-fmt.precision * (1 + 2.0**-40)) + 2.0 ** max(fmt.lowest, -1074)


def nearest(x: Words, radius: Any, powers: Any, fmt: Part) -> tuple[list[Any], Any]:
    """Results near the middle of an enclosure, and upper bounds of their errors."""
    nearby = x.round_to(fmt, powers)
    words = [nearby] if isinstance(fmt, Binary) else [plane[0] for plane in nearby.planes]
    with np.errstate(all="ignore"):
        size = above(abs(scaled(x.planes[0][0], powers)))
        error = above(scaled(radius, powers) + half_units(size, fmt) + 2.0**-1070)
    library = library_of(words[0])
    infinite = library.full_like(error, float("inf"))
    return words, library.where(library.isfinite(words[0]), error, infinite)


def rounded(value: Fraction, fmt: Part) -> tuple[float, ...]:
    """The words of a number; all zeros are +0, so that none depends on how it was found."""
    first, *rest = round_words(value, fmt)
    return (first + 0.0, *rest)


def decide_exactly(low: Fraction, high: Fraction, fmt: Part) -> tuple[float, ...] | None:
    """The words that both ends round to, or None."""
    words = rounded(low, fmt)
    return words if words == rounded(high, fmt) else None


def decide_far(
    x: Words, radius: Any, exponents: Any, fmt: Part, where: Any
) -> dict[tuple[int, int], tuple[float, ...]]:
    """The same as `decide` in fractions, for some elements: those out of the ordinary range.

    Only elements are looked at whose enclosure is small next to them, or next to the smallest
    number of the format.
    """
    host, radius = on_host(x), on_host(radius)
    first = abs(host.planes[0][0])
    shift = np.ldexp(1.0, np.clip(exponents, -1070, 1020))
    with np.errstate(all="ignore"):
        near = (radius < 2.0**-20 * first) | ((first + radius) * shift < 2.0 ** (fmt.lowest + 60))
    decided = {}
    for i, j in np.argwhere(on_host(where) & near).tolist():
        value = sum((Fraction(float(plane[0, i, j])) for plane in host.planes), Fraction(0))
        reach, power = Fraction(float(radius[i, j])), Fraction(2) ** int(exponents[i, j])
        words = decide_exactly((value - reach) * power, (value + reach) * power, fmt)
        if words is not None:
            decided[i, j] = words
    return decided
