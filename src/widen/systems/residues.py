"""The residue system: an integer as its balanced remainders, one plane a modulus.

Where entries are so small that there are too few moduli (FP8), a remainder is written in two digits
instead, a = base a1 + a0, and a product of remainders takes three products of planes:

    p = base^2:  a b = a0 b0 + base (a1 b0 + a0 b1)                                  modulo p
    others:      a b = (1 - base) a0 b0 + (base^2 - base) a1 b1 + base (a0 + a1)(b0 + b1)

the second being Karatsuba's form.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from widen.plan import Layout, Product
from widen.systems.moduli import balanced, moduli, split_moduli, two_digits

MARGIN = 2.0**-7
"""Bits kept free so that |X|/P <= 1/2 - 2^-9 and a rounded quotient finds the multiple of P."""


@dataclass(frozen=True)
class Residues(Layout):
    """A layout of residues; plane ``part * len(moduli) + i`` holds a part modulo ``moduli[i]``.

    Complex numbers have a third part, the sum of both, reduced again; then
    re = rr - ii and im = ss - rr - ii modulo every p: three products a modulus, exactly.

    With `bases`, the residue modulo ``moduli[i]`` is written in two digits of base ``bases[i]``: a
    part has planes of all low digits, then of all high digits, then of their sums for those moduli
    that are not squares.
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
            two_digits(r, p, base)
            for r, p, base in zip(rests, self.moduli, self.bases, strict=True)
        ]
        sums = [sum(pair) for pair, i in zip(pairs, self.sums, strict=True) if i >= 0]
        return [low for low, _ in pairs] + [high for _, high in pairs] + sums

    @property
    def sums(self) -> list[int]:
        """For every modulus, which plane of sums is its own; -1 if it has none."""
        if not self.bases:
            return [-1] * len(self.moduli)
        found, count = [], 0
        for p, base in zip(self.moduli, self.bases, strict=True):
            square = base * base == p
            found.append(-1 if square else count)
            count += not square
        return found

    @property
    def terms(self) -> list[list[list[tuple[int, int]]]]:
        """Of every part and modulus, (group, w) so that c_i = sum(w group) mod p_i.

        X = sum(c_i P/p_i) modulo P, so w is the group's weight over P/p_i; (-1, 0) fills up where
        others have more groups.
        """
        found = [
            [
                [
                    (group, weight // (self.modulus // p) % p)
                    for group, weight in enumerate(weights)
                    if weight and weight % (self.modulus // p) == 0
                ]
                for p in self.moduli
            ]
            for weights in self.weights
        ]
        most = max(len(of_p) for of_part in found for of_p in of_part)
        return [[of_p + [(-1, 0)] * (most - len(of_p)) for of_p in part] for part in found]

    def planes_of(self, shorter: Layout, side: int) -> list[int]:
        """Which planes a layout with fewer moduli has; lists of moduli begin alike."""
        assert isinstance(shorter, Residues)
        count, wanted = len(self.moduli), len(shorter.moduli)
        assert shorter.moduli == self.moduli[:wanted]
        if not self.bases:
            some = list(range(wanted))
        else:
            sums = sum(i >= 0 for i in shorter.sums)
            some = [start + i for start in (0, count) for i in range(wanted)]
            some += [2 * count + i for i in range(sums)]
        streams = 1 if self.parts == 1 else 3
        each = self.planes[side] // streams
        return [stream * each + i for stream in range(streams) for i in some]


@lru_cache(maxsize=256)
def residues(digit: int, bits: float, parts: int, *, split: bool = False) -> Residues:
    """The layout for |X| < 2^bits in planes with entries up to `digit`.

    With `split`, residues are written in two digits each.
    """
    wanted = bits + 1 + MARGIN
    pairs = split_moduli(digit, wanted) if split else ()
    chosen = tuple(p for p, _ in pairs) or moduli(digit, wanted)
    modulus = math.prod(chosen)
    # Chinese remainders: basis_i is 1 modulo p_i and 0 modulo the others.
    basis = [modulus // p * pow(modulus // p, -1, p) for p in chosen]
    planes, products, factors = (len(chosen), [Product(i, i, i) for i in range(len(chosen))], basis)
    if split:
        planes, products, factors = _split(pairs, basis)
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
        bases=tuple(base for _, base in pairs),
    )


def _split(
    pairs: tuple[tuple[int, int], ...], basis: list[int]
) -> tuple[int, list[Product], list[int]]:
    """Planes, products and weights of residues in two digits."""
    count, sums = len(pairs), 0
    products: list[Product] = []
    factors: list[int] = []
    for i, ((p, base), one) in enumerate(zip(pairs, basis, strict=True)):
        group = len(factors)
        products.append(Product(i, i, group))
        if base * base == p:
            products += [Product(count + i, i, group + 1), Product(i, count + i, group + 1)]
            factors += [one, base * one]
        else:
            products.append(Product(count + i, count + i, group + 1))
            products.append(Product(2 * count + sums, 2 * count + sums, group + 2))
            factors += [(1 - base) * one, (base * base - base) * one, base * one]
            sums += 1
    return 2 * count + sums, products, factors
