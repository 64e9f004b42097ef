"""Moduli: the greedy list of descending pairwise coprime numbers."""

from __future__ import annotations

import math
from functools import lru_cache


@lru_cache(maxsize=256)
def moduli(digit: int, bits: float) -> tuple[int, ...]:
    """Fewest greedy moduli whose residues stay within `digit` and whose product passes 2^bits.

    A balanced residue of p is at most p/2 in magnitude, so p <= 2 digit. The list for more bits
    begins with the list for fewer, so encoded planes can be added to.

    >>> moduli(128, 47.0)
    (256, 255, 253, 251, 247, 241)
    >>> len(moduli(128, 341.8)), round(math.log2(math.prod(moduli(128, 341.8))), 1)
    (49, 341.9)
    """
    chosen: list[int] = []
    held = 0.0
    candidate = 2 * digit
    while held < bits:
        while candidate > 1 and any(math.gcd(candidate, p) > 1 for p in chosen):
            candidate -= 1
        if candidate <= 1:
            raise ValueError(
                f"residues with entries up to {digit} hold {held:.1f} bits, {bits:.1f} are needed; "
                "use system='digits' or a wider unit"
            )
        chosen.append(candidate)
        held += math.log2(candidate)
        candidate -= 1
    return tuple(chosen)


def balanced(x: int, p: int) -> int:
    """The residue of x modulo p in [-p/2, p/2).

    >>> [balanced(x, 4) for x in (-3, -2, -1, 0, 1, 2, 3)]
    [1, -2, -1, 0, 1, -2, -1]
    """
    r = x % p
    return r - p if 2 * r >= p else r
