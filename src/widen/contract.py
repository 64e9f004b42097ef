"""Contracts: the accuracies a caller may ask for, as data."""

from __future__ import annotations

import numbers
from dataclasses import dataclass

LARGEST_BUDGET = 2000
"""An integer contract beyond this asks for more than any pair of float64 rows can hold."""


@dataclass(frozen=True)
class Contract:
    """What every element of the result is promised.

    Attributes
    ----------
    name
        ``"fast"``, ``"standard"``, ``"correct"`` or ``"bits"``.
    bits
        The budget b of ``"bits"``; 0 otherwise.
    promise
        The promise, in one line for people.

    Examples
    --------
    >>> import numpy as np, widen
    >>> p = widen.plan(np.eye(3), np.eye(3), accuracy="correct")
    >>> print(p.contract.promise)
    the exact value, rounded once to nearest even
    """

    name: str
    bits: int
    promise: str

    @property
    def correct(self) -> bool:
        """Whether every element is the exact value rounded once.

        >>> import numpy as np, widen
        >>> p = widen.plan(np.eye(3), np.eye(3), accuracy="correct")
        >>> p.contract.correct
        True
        """
        return self.name == "correct"

    @property
    def certified_by_data(self) -> bool:
        """Whether an element needs a lower bound of (|A||B|) to be certified.

        >>> import numpy as np, widen
        >>> p = widen.plan(np.eye(3), np.eye(3), accuracy="correct")
        >>> p.contract.certified_by_data
        False
        """
        return self.name in ("fast", "standard")

    def __str__(self) -> str:
        return str(self.bits) if self.name == "bits" else self.name


CONTRACTS = {
    "fast": Contract("fast", 0, "|c - AB| <= k u (|A||B|) + ulp/2"),
    "standard": Contract("standard", 0, "|c - AB| <= 2 sqrt(k) u (|A||B|) + ulp/2"),
    "correct": Contract("correct", 0, "the exact value, rounded once to nearest even"),
}


def as_contract(accuracy: object) -> Contract:
    """The contract a caller's word stands for.

    >>> as_contract("fast").promise
    '|c - AB| <= k u (|A||B|) + ulp/2'
    >>> as_contract(40).promise
    '|c - AB| <= 2^-40 |a_i| |b_j| + ulp/2 (2-norms of row and column)'
    """
    if isinstance(accuracy, Contract):
        return accuracy
    if isinstance(accuracy, str) and accuracy in CONTRACTS:
        return CONTRACTS[accuracy]
    if isinstance(accuracy, numbers.Integral) and not isinstance(accuracy, bool):
        bits = int(accuracy)
        if 1 <= bits <= LARGEST_BUDGET:
            promise = f"|c - AB| <= 2^-{bits} |a_i| |b_j| + ulp/2 (2-norms of row and column)"
            return Contract("bits", bits, promise)
        raise ValueError(
            f"accuracy={bits} is out of range; give a number of bits from 1 to {LARGEST_BUDGET}"
        )
    raise ValueError(
        f"accuracy={accuracy!r} is not known; use 'fast', 'standard', 'correct' "
        "or a number of bits such as 60"
    )
