"""Digits of two bases: few large ones for lines of one side, more and smaller for the other.

A product of two digits has as many bits as both together, and sums of so many products as one
stretch has must be exact. How the bits are shared between the sides is free: integers up to 2^54 on
both sides are 2 digits of 28 bits and 3 of 19, which makes 6 products instead of 9.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from widen.plan import Layout, Product
from widen.systems.digits import balanced, digit_count

STRETCH = 256
"""Products of digits that are added up in float64 before they go to a larger sum."""

BOTH = 47
"""Bits of two digits together: balanced ones are 2^(beta-1) at most, so 2^8 products are 2^53."""


@dataclass(frozen=True)
class UnevenDigits(Layout):
    """A layout of digits; plane ``part * counts[side] + d`` has digit d, of weight 2^(d beta).

    Every product is a group. Complex numbers take four products a pair of digits.
    """

    betas: tuple[int, int]
    counts: tuple[int, int]

    def write(self, integers: Sequence[int], side: int) -> list[int]:
        """Balanced digits of each part, lowest first."""
        beta, count = self.betas[side], self.counts[side]
        return [digit for part in integers for digit in balanced(part, count, beta)]


@lru_cache(maxsize=256)
def uneven_digits(widths: tuple[int, int], parts: int, large: int) -> UnevenDigits:
    """The layout of fewest products for |a'| <= 2^widths[0], |b'| <= 2^widths[1].

    Where two have as many, that with fewer digits on the side that is `large` (0 or 1).

    >>> layout = uneven_digits((54, 54), 1, large=0)
    >>> layout.betas, layout.counts, len(layout.products)
    ((28, 19), (2, 3), 6)
    """
    choices = []
    for beta in range(2, BOTH - 1):
        betas = beta, BOTH - beta
        counts = digit_count(widths[0], betas[0]), digit_count(widths[1], betas[1])
        choices.append((counts[0] * counts[1], counts[large], counts))
    counts = min(choices)[2]
    betas = _least_base(widths[0], counts[0]), _least_base(widths[1], counts[1])
    products: list[Product] = []
    weights: list[tuple[int, ...]] = []
    for p in range(counts[0]):
        for q in range(counts[1]):
            weight = 1 << (p * betas[0] + q * betas[1])
            for x in range(parts):
                for y in range(parts):
                    planes = x * counts[0] + p, y * counts[1] + q
                    products.append(Product(*planes, len(products)))
                    real = 0 if x != y else -weight if x else weight
                    weights.append((real, weight if x != y else 0)[:parts])
    return UnevenDigits(
        system="digits",
        parts=parts,
        planes=(parts * counts[0], parts * counts[1]),
        products=tuple(products),
        weights=tuple(zip(*weights, strict=True)),
        modulus=0,
        dropped=0,
        betas=betas,
        counts=counts,
    )


def _least_base(width: int, count: int) -> int:
    """The smallest base of which so many digits hold every integer of magnitude up to 2^width."""
    beta = 2
    while digit_count(width, beta) > count:
        beta += 1
    return beta
