"""Moduli: greedy lists of descending pairwise coprime numbers."""

from __future__ import annotations

import math
from functools import lru_cache


@lru_cache(maxsize=256)
def long_moduli(digit: int, bits: float) -> tuple[tuple[int, int], ...]:
    """Fewest greedy moduli whose residues stay within `digit` and whose product passes 2^bits.

    Pairs (p, base). A balanced residue of p is at most p/2 in magnitude, so p <= 2 digit, and the
    residue is one entry: the base is 0. Where these do not suffice, numbers below digit^2 follow,
    in two digits of base `digit`, which take three products (`two_digits` says why their entries
    stay within `digit`). The list for more bits begins with the list for fewer, so encoded planes
    can be added to.

    >>> long_moduli(128, 47.0)
    ((256, 0), (255, 0), (253, 0), (251, 0), (247, 0), (241, 0))
    >>> long_moduli(128, 347.0)[47:]
    ((37, 0), (29, 0), (16381, 128))
    """
    chosen, product, base, candidate = list[tuple[int, int]](), 1, 0, 2 * digit
    held = 0.0
    while held < bits:
        while candidate > 1 and math.gcd(candidate, product) > 1:
            candidate -= 1
        if candidate > 1:
            chosen.append((candidate, base))
            product *= candidate
            held += math.log2(candidate)
        elif base == 0:
            base, candidate = digit, digit * digit - 1
        else:
            raise ValueError(_too_few(f"residues with entries up to {digit}", held, bits))
    return tuple(chosen)


@lru_cache(maxsize=256)
def split_moduli(digit: int, bits: float) -> tuple[tuple[int, int], ...]:
    """The same for residues written in two digits: pairs (p, base), each for three products.

    Squares p = s^2, s <= 2 digit + 1, have base s, since balanced digits of base s stay within
    `digit`; other p <= 2 digit^2 have base `digit` (`two_digits` says why that is enough).

    >>> split_moduli(16, 60.0)
    ((1089, 33), (1024, 32), (961, 31), (841, 29), (625, 25), (529, 23), (511, 16))
    """
    bases = dict.fromkeys(range(2, 2 * digit**2 + 1), digit)
    bases |= {s * s: s for s in range(2, 2 * digit + 2)}
    chosen: list[tuple[int, int]] = []
    held = 0.0
    for p in sorted(bases, reverse=True):
        if held >= bits:
            break
        if all(math.gcd(p, q) == 1 for q, _ in chosen):
            chosen.append((p, bases[p]))
            held += math.log2(p)
    if held < bits:
        raise ValueError(_too_few(f"residues in two digits up to {digit}", held, bits))
    return tuple(chosen)


def _too_few(what: str, held: float, bits: float) -> str:
    return (
        f"{what} hold {held:.1f} bits, {bits:.1f} are needed; use system='digits' or a wider unit"
    )


def two_digits(r: int, p: int, base: int) -> tuple[int, int]:
    """(low, high) with r = base high + low for a balanced residue r of p.

    Square moduli have balanced digits. Others have digits of opposite signs, high the nearest
    multiple away from 0, so that |high|, |low| < base and |high + low| stay within the base for
    |r| <= base^2: Karatsuba's sum is an entry like the others.

    >>> two_digits(-544, 1089, 33), two_digits(247, 511, 16)
    ((-16, -16), (-9, 16))
    """
    if base * base == p:
        low = balanced(r, base)
        return low, (r - low) // base
    high = -(-abs(r) // base) * (1 if r >= 0 else -1)
    return r - base * high, high


def balanced(x: int, p: int) -> int:
    """The residue of x modulo p in [-p/2, p/2).

    >>> [balanced(x, 4) for x in (-3, -2, -1, 0, 1, 2, 3)]
    [1, -2, -1, 0, 1, -2, -1]
    """
    r = x % p
    return r - p if 2 * r >= p else r
