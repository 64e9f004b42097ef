"""How integers are written: one table of number systems."""

from __future__ import annotations

from widen.systems.digits import Digits, digits
from widen.systems.residues import Residues, residues
from widen.systems.uneven import UnevenDigits, uneven_digits

SYSTEMS = {
    "residues": "remainders by coprime moduli, one product a modulus",
    "digits": "balanced digits, every pair of digits multiplied",
    "triangle": "balanced digits, the pairs too small to matter for the contract left out",
}

__all__ = [
    "SYSTEMS",
    "Digits",
    "Residues",
    "UnevenDigits",
    "digits",
    "residues",
    "uneven_digits",
]
