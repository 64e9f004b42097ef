"""Square roots of exact sums of squares, rounded once.

A 2-norm is found in three float64 words first (`Words`), 161 bits of which more than 120 are right.
Where these are far enough from the middle of two neighbours of the result's format, they decide how
the norm rounds. Where they are not, and where words reach below the smallest float64, Python's
integers decide.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from widen.formats import BINARY, WORDS, Binary, Part
from widen.formats.arrays import is_tensor, numpy_dtype
from widen.linalg.powers import rounded_root
from widen.words import Words

MARGIN = 2.0**-50
"""How near to the middle of two neighbours a first look does not decide.

Of float64 results it is a share of the distance of neighbours, which the second word is compared
with; of narrower ones a share of the number itself, of which the first word is right to 2^-53.
"""

LEAST, MOST = 2.0**-800, 2.0**1000
"""Norms between these have three words that are far from the ends of the range."""


def two_norms(lines: Any, fmt: Part) -> Any:
    """2-norms of real lines (outputs, inner) of float64, finite, as floats or words of a format."""
    if isinstance(fmt, Binary):
        near = Words.of(_WORDS, [lines[None], 0 * lines[None], 0 * lines[None]]).norm(1)
        words = [_numpy(plane[0]) for plane in near.planes]
        values, open_ = _decided(words, fmt)
        values[~open_ & (words[0] == 0)] = 0.0
    else:
        values = np.zeros((len(fmt.words), lines.shape[0]))
        open_ = np.ones(lines.shape[0], bool)
    for at in np.flatnonzero(open_):
        entries = _numpy(lines[int(at)]).tolist()
        values[..., at] = np.array(exact_norm(entries, fmt)).reshape(values[..., at].shape)
    return values


_WORDS: Any = WORDS["float64x3"]


def _numpy(x: Any) -> Any:
    return x.detach().cpu().numpy() if is_tensor(x) else x


def _decided(words: Sequence[Any], fmt: Binary) -> tuple[Any, Any]:
    """Numbers rounded to a format, and a mask of those whose rounding is open.

    A first word w0 is the nearest float64, so the norm is w0 + w1 but for 2^-106 of it. Rounded to
    float64 it is w0, unless |w1| is half the distance to a neighbour: the one above, or of a power
    of two the one below, which is half as far. Rounded to fewer bits it is what w0 is rounded to,
    unless w0 is as near as that to the middle.
    """
    first, second = words[0], words[1]
    with np.errstate(all="ignore"):
        if fmt == BINARY["float64"]:
            value, rest, step = first.copy(), np.abs(second), np.spacing(first)
            margin = MARGIN * step
        else:
            narrow = first.astype(numpy_dtype(fmt.name))
            value = narrow.astype(np.float64)
            exponent = np.frexp(value)[1]
            rest, step = np.abs(first - value), np.ldexp(1.0, exponent - fmt.precision)
            margin = MARGIN * first
        near = [np.abs(rest - step * part) <= margin for part in (0.5, 0.25)]
        least = max(LEAST, 2.0 ** (fmt.lowest + fmt.precision + 2))
        most = min(MOST, 2.0 ** (fmt.highest - 2))
        inside = (first >= least) & (first <= most)
    return value, (near[0] | near[1] | ~inside) & (first != 0)


def exact_norm(entries: Iterable[float], fmt: Part) -> tuple[float, ...]:
    """The root of the exact sum of squares of finite floats, as words of a format.

    >>> exact_norm([3.0, 4.0], BINARY["float64"])
    (5.0,)
    """
    squares = sum((Fraction(x) ** 2 for x in entries if x), Fraction(0))
    return rounded_root(squares, False, fmt)
