"""The record of a unit: what some hardware multiplies and accumulates exactly."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Unit:
    """Integers a unit multiplies, and how far it accumulates them without rounding.

    Attributes
    ----------
    name
        The word users give as ``unit=``.
    digit
        Largest magnitude of an entry of a plane.
    exact
        Sums of products up to this magnitude are exact.
    span
        Inner length to accumulate over before emptying the accumulator, where there is a choice:
        longer means smaller digits, shorter means more additions outside the unit.
    engine
        The NumPy dtype whose BLAS product runs it on a CPU (exact up to 2^53 or 2^24).
    native
        Whether that engine is the unit itself on a CPU, or stands in for hardware it lacks.
    note
        One line for people.
    """

    name: str
    digit: int
    exact: int
    span: int
    engine: str
    native: bool
    note: str

    def __post_init__(self) -> None:
        if self.digit**2 > self.exact:
            raise ValueError(f"{self.name}: one product of largest digits must be exact")
        if self.exact > {"float64": 2**53, "float32": 2**24}[self.engine]:
            raise ValueError(f"{self.name}: {self.engine} cannot stand in beyond its own integers")

    def depth(self, digit: int) -> int:
        """Longest inner dimension over which products of entries up to `digit` sum exactly.

        The sum of d products of entries of magnitude at most `digit` is at most d digit^2, as is
        every partial sum, in whatever order.
        """
        return self.exact // digit**2
