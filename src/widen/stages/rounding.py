"""An exact value as the nearest number of a format, in rationals: how the definition rounds."""

from __future__ import annotations

import math
from fractions import Fraction

from widen import bounds
from widen.formats import Binary, Multiple, Part


def round_once(value: Fraction, fmt: Binary) -> float:
    """The nearest number of a format, ties to even; zero is +0, beyond the range +-infinity."""
    if not value:
        return 0.0
    top, bottom = abs(value.numerator), value.denominator
    unit = max(bounds.floor_log2_ratio(top, bottom) + 1 - fmt.precision, fmt.lowest)
    one = bottom << max(unit, 0)
    whole, rest = divmod(top << max(-unit, 0), one)
    whole += 2 * rest + (whole & 1) > one
    magnitude = math.inf if whole >= 2 ** (fmt.highest - unit) else math.ldexp(whole, unit)
    return -magnitude if value < 0 else magnitude


def round_words(value: Fraction, fmt: Part) -> tuple[float, ...]:
    """The nearest value of the first word, then the nearest of what is left, and so on.

    Equal numbers of several words have equal bits: every zero is +0, infinity stands alone, and a
    last word that was rounded to half a unit of the one before it has the sign that makes that one
    even, which is what the words of the words' sum have.
    """
    if isinstance(fmt, Binary):
        return (round_once(value, fmt),)
    words, rest = _nearest_words(value, fmt)
    return _nearest_words(value - rest, fmt)[0] if rest and words[0] else words


def _nearest_words(value: Fraction, fmt: Multiple) -> tuple[tuple[float, ...], Fraction]:
    """Words, and what is left after the last."""
    words: list[float] = []
    for word in fmt.words:
        x = round_once(value, word) + 0.0  # -0.0 + 0.0 is 0.0
        if math.isinf(x) and not words:
            return (x, *(0.0,) * (len(fmt.words) - 1)), Fraction(0)
        if math.isinf(x):  # a float32 after a large float64: the nearest there is
            x = math.copysign(math.ldexp(2.0 - 2.0 ** (1 - word.precision), word.highest - 1), x)
        words.append(x)
        value -= Fraction(x)
    return tuple(words), value
