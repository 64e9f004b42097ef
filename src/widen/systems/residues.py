"""The residue system: an integer as its balanced remainders, one plane a modulus.

Where entries are so small that there are too few moduli (FP8 at once, int8 past 342 bits), a
remainder is written in two digits instead, a = base a1 + a0, and a product of remainders takes
three products of planes:

    p = base^2:  a b = a0 b0 + base (a1 b0 + a0 b1)                                  modulo p
    others:      a b = (1 - base) a0 b0 + (base^2 - base) a1 b1 + base (a0 + a1)(b0 + b1)

the second being Karatsuba's form.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache

from widen.plan import Layout, Product
from widen.systems.moduli import balanced, long_moduli, split_moduli, two_digits

MARGIN = 2.0**-7
"""Bits kept free so that |X|/P <= 1/2 - 2^-9 and a rounded quotient finds the multiple of P."""


@dataclass(frozen=True)
class Residues(Layout):
    """A layout of residues; plane ``part * len(moduli) + i`` holds a part modulo ``moduli[i]``.

    Complex numbers have a third part, the sum of both, reduced again; then
    re = rr - ii and im = ss - rr - ii modulo every p: three products a modulus, exactly.

    With `bases`, the residue modulo ``moduli[i]`` is written in two digits of base ``bases[i]``
    unless that is 0. A part has a plane a modulus, of residues or low digits, then planes of high
    digits, then of the sums of both digits for those moduli that are not squares.
    """

    moduli: tuple[int, ...]
    bases: tuple[int, ...] = ()

    def write(self, integers: Sequence[int], side: int) -> list[int]:
        """Balanced residues of each part, and of their sum if there are two."""
        parts = [*integers, sum(integers)] if len(integers) == 2 else integers
        return [entry for part in parts for entry in self._entries(part)]

    def _entries(self, x: int) -> list[int]:
        rests = [balanced(x, p) for p in self.moduli]
        if not self.bases:
            return rests
        pairs = [
            two_digits(r, p, base) if base else (r, 0)
            for r, p, base in zip(rests, self.moduli, self.bases, strict=True)
        ]
        highs = [pair[1] for pair, i in zip(pairs, self.highs, strict=True) if i >= 0]
        sums = [sum(pair) for pair, i in zip(pairs, self.sums, strict=True) if i >= 0]
        return [low for low, _ in pairs] + highs + sums

    @property
    def highs(self) -> list[int]:
        """For every modulus, which plane of high digits is its own; -1 if it has none."""
        return _numbered(base > 0 for base in self.bases or [0] * len(self.moduli))

    @property
    def sums(self) -> list[int]:
        """For every modulus, which plane of sums is its own; -1 if it has none."""
        bases = self.bases or [0] * len(self.moduli)
        return _numbered(0 < base * base != p for p, base in zip(self.moduli, bases, strict=True))

    @property
    def terms(self) -> list[list[list[tuple[int, int]]]]:
        """Of every part and modulus, (group, w) so that c_i = sum(w group) mod p_i.

        X = sum(c_i P/p_i) modulo P, so w is the group's weight over P/p_i; (-1, 0) fills up where
        others have more groups.
        """
        count, high = len(self.moduli), sum(i >= 0 for i in self.highs)
        streams = 1 if self.parts == 1 else 3
        starts = [stream * (self.groups // streams) for stream in range(streams)]
        terms = []
        for weights in self.weights:
            of_part = []
            for i, p in enumerate(self.moduli):
                own = [i]
                own += [count + self.highs[i]] if self.highs[i] >= 0 else []
                own += [count + high + self.sums[i]] if self.sums[i] >= 0 else []
                groups = [start + group for start in starts for group in own]
                whole = self.modulus // p
                of_part.append([(g, weights[g] // whole % p) for g in groups if weights[g]])
            terms.append(of_part)
        most = max(len(of_p) for of_part in terms for of_p in of_part)
        return [[of_p + [(-1, 0)] * (most - len(of_p)) for of_p in part] for part in terms]

    def planes_of(self, shorter: Layout, side: int) -> list[int]:
        """Which planes a layout with fewer moduli has; lists of moduli begin alike."""
        assert isinstance(shorter, Residues)
        count, wanted = len(self.moduli), len(shorter.moduli)
        assert shorter.moduli == self.moduli[:wanted]
        highs, sums = (sum(i >= 0 for i in which) for which in (shorter.highs, shorter.sums))
        start = count + sum(i >= 0 for i in self.highs)
        wanted_planes = [*range(wanted), *range(count, count + highs), *range(start, start + sums)]
        streams = 1 if self.parts == 1 else 3
        each = self.planes[side] // streams
        return [stream * each + i for stream in range(streams) for i in wanted_planes]


@lru_cache(maxsize=256)
def residues(digit: int, bits: float, parts: int, *, split: bool = False) -> Residues:
    """The layout for |X| < 2^bits in planes with entries up to `digit`.

    With `split`, residues are written in two digits each.
    """
    wanted = bits + 1 + MARGIN
    pairs = split_moduli(digit, wanted) if split else long_moduli(digit, wanted)
    chosen, bases = tuple(p for p, _ in pairs), tuple(base for _, base in pairs)
    modulus = math.prod(chosen)
    # Chinese remainders: basis_i is 1 modulo p_i and 0 modulo the others.
    basis = [modulus // p * pow(modulus // p, -1, p) for p in chosen]
    planes, products, factors = _products(pairs, basis)
    streams, signs = (1, ((1,),)) if parts == 1 else (3, ((1, -1, 0), (-1, -1, 1)))
    return Residues(
        system="residues",
        parts=parts,
        planes=(streams * planes, streams * planes),
        products=tuple(
            Product(at * planes + x, at * planes + y, at * len(factors) + group)
            for at in range(streams)
            for x, y, group in products
        ),
        weights=tuple(
            tuple(sign * factor for sign in of_part for factor in factors) for of_part in signs
        ),
        modulus=modulus,
        dropped=0,
        moduli=chosen,
        bases=bases if any(bases) else (),
    )


def _products(
    pairs: tuple[tuple[int, int], ...], basis: list[int]
) -> tuple[int, list[Product], list[int]]:
    """Planes, products and weights; there are as many groups as planes, in the same order."""
    low, high, third = list[Product](), list[Product](), list[Product]()
    factors: tuple[list[int], list[int], list[int]] = ([], [], [])
    count, split = len(pairs), sum(base > 0 for _, base in pairs)
    for i, ((p, base), one) in enumerate(zip(pairs, basis, strict=True)):
        low.append(Product(i, i, i))
        plane = count + len(factors[1])
        if not base:
            factors[0].append(one)
        elif base * base == p:
            high += [Product(plane, i, plane), Product(i, plane, plane)]
            factors[0].append(one)
            factors[1].append(base * one)
        else:
            high.append(Product(plane, plane, plane))
            both = count + split + len(third)
            third.append(Product(both, both, both))
            factors[0].append((1 - base) * one)
            factors[1].append((base * base - base) * one)
            factors[2].append(base * one)
    return count + split + len(third), low + high + third, [*factors[0], *factors[1], *factors[2]]


def _numbered(flags: Iterable[bool]) -> list[int]:
    """0, 1, 2 ... where a flag is set, -1 elsewhere."""
    numbers, count = [], 0
    for flag in flags:
        numbers.append(count if flag else -1)
        count += flag
    return numbers
