"""The residue system: an integer as its balanced remainders, one plane a modulus."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from widen.plan import Layout, Product
from widen.systems.moduli import balanced, moduli

MARGIN = 2.0**-7
"""Bits kept free so that |X|/P <= 1/2 - 2^-9 and a rounded quotient finds the multiple of P."""


@dataclass(frozen=True)
class Residues(Layout):
    """A layout of residues; plane ``part * len(moduli) + i`` holds a part modulo ``moduli[i]``.

    Complex numbers have a third part, the sum of both, reduced again; then
    re = rr - ii and im = ss - rr - ii modulo every p: three products a modulus, exactly.
    """

    moduli: tuple[int, ...]

    def write(self, integers: Sequence[int], side: int) -> list[int]:
        """Balanced residues of each part, and of their sum if there are two."""
        parts = [*integers, sum(integers)] if len(integers) == 2 else integers
        return [balanced(part, p) for part in parts for p in self.moduli]


@lru_cache(maxsize=256)
def residues(digit: int, bits: float, parts: int) -> Residues:
    """The layout for |X| < 2^bits in planes with entries up to `digit`."""
    chosen = moduli(digit, bits + 1 + MARGIN)
    modulus = math.prod(chosen)
    # Chinese remainders: basis_i is 1 modulo p_i and 0 modulo the others.
    basis = tuple(modulus // p * pow(modulus // p, -1, p) for p in chosen)
    zero, minus = (0,) * len(basis), tuple(-x for x in basis)
    streams = 1 if parts == 1 else 3
    weights = (basis,) if parts == 1 else (basis + minus + zero, minus + minus + basis)
    planes = streams * len(chosen)
    return Residues(
        system="residues",
        parts=parts,
        planes=(planes, planes),
        products=tuple(Product(i, i, i) for i in range(planes)),
        weights=weights,
        modulus=modulus,
        dropped=0,
        moduli=chosen,
    )
