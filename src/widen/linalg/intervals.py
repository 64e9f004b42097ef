"""Intervals of the values of one matrix: middles in words, radii in float64, fractions of the few.

A decision in float64 and words answers for nearly all values at once. It is a proof where it says
yes, and says nothing where it says no: those values are looked at one at a time, as fractions.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any

import numpy as np

from widen.formats import BINARY, WORDS, Part
from widen.linalg.arrays import scaled
from widen.linalg.bounds import FORMATS, above, first_words, word_count
from widen.linalg.decide import decide, decide_exactly, rounded
from widen.linalg.scaling import each_plane
from widen.stages.rounding import round_once
from widen.words import Words
from widen.words.order import argument_order

FLOAT64 = BINARY["float64"]
LEAST = 2.0**-900
"""Differences below this may have lost words that underflow: they count as 0."""
FAR = 1000
"""Exponents of powers of two that float64 holds with room to spare."""

Interval = tuple[Fraction, Fraction]


@dataclass(frozen=True)
class Intervals:
    """Numbers within (middle +- radius) 2^exponent, on the host.

    Attributes
    ----------
    middles
        Real `Words` (n,) of NumPy arrays, which mean what they say.
    radii
        Upper bounds in float64.
    exponent
        The power of two that all of them are times.
    given
        Both ends of those of which more is known: they count in place of middle and radius, and
        lie within these.
    """

    middles: Words
    radii: Any
    exponent: int = 0
    given: Mapping[int, Interval] = field(default_factory=dict)
    _known: dict[Part, Any] = field(default_factory=dict, init=False, repr=False, compare=False)
    """What words alone decide for a format, which is asked for several times."""

    @classmethod
    def of(cls, pairs: list[Interval]) -> Intervals:
        """Intervals whose ends are all given."""
        nothing = Words.of(WORDS["float64x2"], [np.zeros((1, len(pairs)))] * 2)
        return cls(nothing, np.full(len(pairs), np.inf), 0, dict(enumerate(pairs)))

    def __len__(self) -> int:
        return len(self.radii)

    def ends(self, i: int) -> Interval:
        """Both ends of one interval; -1 is the last."""
        i %= len(self)
        if i in self.given:
            return self.given[i]
        middle, reach = self.middle(i), Fraction(float(self.radii[i]))
        power = Fraction(2) ** self.exponent
        return (middle - reach) * power, (middle + reach) * power

    def middle(self, i: int) -> Fraction:
        """One middle, without the power of two."""
        return sum((Fraction(float(plane[0, i])) for plane in self.middles.planes), Fraction(0))

    def pairs(self) -> list[Interval]:
        """The ends of all of them."""
        return [self.ends(i) for i in range(len(self))]

    def times_power(self, exponent: int) -> Intervals:
        """The numbers times 2^exponent."""
        power = Fraction(2) ** exponent
        given = {i: (low * power, high * power) for i, (low, high) in self.given.items()}
        return replace(self, exponent=self.exponent + exponent, given=given)

    def with_ends(self, given: Mapping[int, Interval]) -> Intervals:
        """The same, with ends of some that are narrower."""
        made = replace(self, given={**self.given, **given})
        made._known.update(self._known)
        return made

    def replaced(self, where: Any, others: Intervals) -> Intervals:
        """The same, with others in some places."""
        pairs = zip(self.middles.planes, others.middles.planes, strict=True)
        planes = [np.where(where, other, own) for own, other in pairs]
        return replace(
            self, middles=Words.of(self.middles.format, planes),
            radii=np.where(where, others.radii, self.radii),
        )  # fmt: skip

    def after_zero(self) -> Intervals:
        """Zero, and these in the other order."""
        n = len(self)

        def turned(plane: Any) -> Any:
            return np.concatenate([np.zeros((1, 1)), plane[:, ::-1]], axis=1)

        given = {n - i: ends for i, ends in self.given.items()}
        return replace(
            self, middles=each_plane(self.middles, turned),
            radii=np.concatenate([[0.0], self.radii[::-1]]), given=given,
        )  # fmt: skip

    # ── all at once ──────────────────────────────────────────────────────────

    def may_hold_zero(self) -> Any:
        """Where zero may be inside: at all others it is not."""
        first = abs(first_words(self.middles))  # the words behind are at most u of it
        return self._or_given(first * (1 - 2.0**-50) <= self.radii)

    def may_hold_multiple(self, exponent: int, spare: int) -> Any:
        """Where a multiple of 2^exponent may be inside, and 2^spare widths are no more than that.

        The words are taken modulo 2^exponent, without error. What is left of at most 16 of them is
        added in float64: errors are below 2^-40 of 2^exponent, if that does not underflow.
        """
        exponent -= self.exponent
        unit = 2.0 ** min(FAR, max(-FAR, exponent))
        narrow = self.radii <= 2.0 ** min(FAR, max(-FAR, exponent - spare - 1))
        if exponent < -FAR:
            return self._or_given(narrow)
        rest = sum(np.fmod(plane[0], unit) for plane in self.middles.planes) / unit
        distance = abs(rest - np.rint(rest))
        near = distance * unit <= above(self.radii + 2.0**-40 * unit)
        return self._or_given(narrow & near)

    def holding(self, c: Fraction) -> list[int]:
        """The intervals that contain a number."""
        centre = float(c / Fraction(2) ** self.exponent)
        first = first_words(self.middles)
        slack = 2.0**-50 * (abs(first) + abs(centre))
        near = self._or_given(abs(first - centre) <= above(self.radii + slack))
        return [i for i in np.flatnonzero(near).tolist() if _holds(self.ends(i), c)]

    def open(self, fmt: Part) -> Any:
        """Where the decision in words does not tell what the value rounds to."""
        return ~self._decided(fmt)[1]

    def all_round(self, fmt: Part) -> bool:
        """Whether every interval rounds to one number of a format."""
        left = np.flatnonzero(self.open(fmt)).tolist()
        return all(decide_exactly(*self.ends(i), fmt) is not None for i in left)

    def rounded(self, fmt: Part) -> tuple[list[Any], Any, Any]:
        """Words of results, where they are decided, and bounds of their distance from the ends."""
        words, decided, radii = self._decided(fmt)
        for i in np.flatnonzero(~decided).tolist():
            low, high = self.ends(i)
            sure = decide_exactly(low, high, fmt)
            decided[i] = sure is not None
            value = rounded((low + high) / 2, fmt) if sure is None else sure
            radii[i] = radius_of(value, low, high)
            for plane, word in zip(words, value, strict=True):
                plane[i] = word
        return words, decided, radii

    def _or_given(self, mask: Any) -> Any:
        mask[list(self.given)] = True
        return mask

    def _decided(self, fmt: Part) -> tuple[list[Any], Any, Any]:
        """The same by words alone; nothing is decided of given ends."""
        if not -FAR < self.exponent < FAR:
            nothing = [np.zeros(len(self), word.name) for word in fmt.words]
            return nothing, np.zeros(len(self), bool), np.zeros(len(self))
        if fmt not in self._known:
            powers = np.full(len(self), self.exponent, np.int64)
            found = decide(self.middles, self.radii, powers, fmt)
            words = [word + 0.0 for word in found.words]  # no -0
            self._known[fmt] = words, found.decided, _distances(self, words, powers)
        words, decided, radii = self._known[fmt]
        decided = decided.copy()
        decided[list(self.given)] = False
        return [word.copy() for word in words], decided, radii.copy()


def _holds(ends: Interval, c: Fraction) -> bool:
    return ends[0] <= c <= ends[1]


def _distances(x: Intervals, words: list[Any], powers: Any) -> Any:
    """Upper bounds of the distances of results from the ends, where `decide` decided."""
    name = FORMATS[max(word_count(x.middles), len(words))]
    wide = each_plane(x.middles, lambda plane: scaled(plane, powers[None])).astype(name)
    result = Words(words[0], name)
    for word in words[1:]:  # words do not overlap: each sum is exact
        result = result + word
    with np.errstate(all="ignore"):
        return above(abs(first_words(wide - result)) + scaled(x.radii, powers))


def radius_of(value: tuple[float, ...], low: Fraction, high: Fraction) -> float:
    """The distance of a result from the ends, rounded up."""
    if not np.isfinite(value[0]):
        return float("inf")
    middle = sum((Fraction(float(word)) for word in value), Fraction(0))
    reach = max(high - middle, middle - low)
    return float(np.nextafter(round_once(reach, FLOAT64), np.inf)) if reach else 0.0


def gaps(x: Words) -> Any:
    """Lower bounds of the differences of numbers in ascending order."""
    difference = first_words(x[1:] - x[:-1])  # relative errors are far below 2^-50
    return np.where(difference > LEAST, difference * (1 - 2.0**-50), 0.0)


def in_order(x: Words, *, descending: bool = False) -> Any:
    """The indices that sort numbers; equal ones stay in order."""
    return argument_order(-x if descending else x, 0)
