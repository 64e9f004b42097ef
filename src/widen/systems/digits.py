"""The positional system: an integer as balanced digits in base 2^beta, one plane a digit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from widen.plan import Layout, Product


@dataclass(frozen=True)
class Digits(Layout):
    """A layout of digits; plane ``part * count + d`` holds digit d (weight 2^(beta d)) of a part.

    Products of equal weight share a group while its sum stays exact. Complex numbers take four
    products a pair of digits: rr, ii, and ri + ir in one group.
    """

    beta: int
    counts: tuple[int, int]

    def write(self, integers: Sequence[int], side: int) -> list[int]:
        """Balanced digits of each part, lowest first."""
        return [d for part in integers for d in balanced(part, self.counts[side], self.beta)]

    @property
    def held(self) -> tuple[int, int]:
        """Widths w of both sides so that every integer of magnitude up to 2^w can be written."""
        left, right = (_largest(count, self.beta).bit_length() - 1 for count in self.counts)
        return left, right

    def planes_of(self, shorter: Layout, side: int) -> list[int]:
        """Which planes a layout with fewer digits has: the lowest of each part."""
        assert isinstance(shorter, Digits)
        assert shorter.beta == self.beta
        ours, wanted = self.counts[side], shorter.counts[side]
        assert wanted <= ours
        return [part * ours + i for part in range(self.parts) for i in range(wanted)]


def balanced(x: int, count: int, beta: int) -> list[int]:
    """Balanced digits of an integer in base 2^beta, lowest first.

    >>> balanced(200, 2, 8), balanced(-1, 2, 8)
    ([-56, 1], [-1, 0])
    """
    half, entries = 1 << (beta - 1), []
    for _ in range(count):
        digit = (x + half) % (2 * half) - half  # in [-half, half)
        entries.append(digit)
        x = (x - digit) >> beta
    if x:
        raise ValueError(f"{count} digits of {beta} bits do not hold this integer")
    return entries


def _largest(count: int, beta: int) -> int:
    """The largest number that has balanced digits: all of them are 2^(beta-1) - 1."""
    return ((1 << (beta - 1)) - 1) * ((1 << beta * count) - 1) // ((1 << beta) - 1)


def digit_count(width: int, beta: int) -> int:
    """Fewest balanced digits that hold every integer of magnitude up to 2^width.

    >>> digit_count(54, 8), digit_count(55, 8)
    (7, 8)
    """
    if beta < 2:
        raise ValueError("balanced digits need 2 bits or more: those of one bit hold no 1")
    count = 1
    while _largest(count, beta) < 1 << width:
        count += 1
    return count


def left_out(beta: int, parts: int, k: int, budget: int) -> tuple[int, int]:
    """How many of the lowest weights p + q are left out, and all that they could add to |X|.

    That depends on no integers, so an element does not know which others are beside it.

    >>> left_out(8, 1, 100, 0), left_out(8, 1, 100, 2**30)
    ((0, 0), (2, 840499200))
    """
    weight = lost = 0
    while True:
        # A product of two digits is at most 4^(beta-1); a part of X sums k * parts of them a pair.
        more = (weight + 1) * max(k, 1) * parts << (2 * beta - 2 + beta * weight)
        if lost + more > budget:
            return weight, lost
        weight, lost = weight + 1, lost + more


@lru_cache(maxsize=256)
def digits(
    digit: int, widths: tuple[int, int], parts: int, k: int, limit: int, budget: int
) -> Digits:
    """The layout for |a'| <= 2^widths[0], |b'| <= 2^widths[1].

    Parameters
    ----------
    digit
        Largest magnitude of an entry.
    k, limit
        Inner dimension, and how many products of planes a group may gather.
    budget
        Products of lowest weight are left out (`left_out`) while all that they could add to |X|
        stays within this; 0 keeps all (the triangle of the papers is a budget near 2^-beta(s) |X|).
    """
    beta = digit.bit_length()
    counts = (digit_count(widths[0], beta), digit_count(widths[1], beta))
    first, dropped = left_out(beta, parts, k, budget)
    first = min(first, sum(counts) - 2)  # one product at least, though all are zeros
    pairs: dict[int, list[tuple[int, int]]] = {}
    for p in range(counts[0]):
        for q in range(max(first - p, 0), counts[1]):
            pairs.setdefault(p + q, []).append((p, q))

    streams = {0: ((0, 0),)} if parts == 1 else {0: ((0, 0),), 1: ((1, 1),), 2: ((0, 1), (1, 0))}
    signs = ((1,),) if parts == 1 else ((1, -1, 0), (0, 0, 1))
    products: list[Product] = []
    group_weights: list[tuple[int, ...]] = []
    for weight, of_weight in pairs.items():
        for stream, part_pairs in streams.items():
            terms = [
                (x * counts[0] + p, y * counts[1] + q) for p, q in of_weight for x, y in part_pairs
            ]
            for start in range(0, len(terms), limit):
                group = len(group_weights)
                products += [Product(x, y, group) for x, y in terms[start : start + limit]]
                group_weights.append(tuple(s[stream] << beta * weight for s in signs))
    return Digits(
        system="triangle" if budget else "digits",
        parts=parts,
        planes=(parts * counts[0], parts * counts[1]),
        products=tuple(products),
        weights=tuple(zip(*group_weights, strict=True)),
        modulus=0,
        dropped=dropped,
        beta=beta,
        counts=counts,
    )
