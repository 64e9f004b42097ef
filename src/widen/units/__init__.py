"""What is multiplied exactly: one table of units, each a record of what some hardware does."""

from __future__ import annotations

from dataclasses import dataclass

from widen.units.rates import RATES

__all__ = ["RATES", "UNITS", "Unit"]


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


UNITS: dict[str, Unit] = {
    unit.name: unit
    for unit in (
        # float64 sums are exact up to 2^53, so entries shrink as the inner dimension grows: 21 bits
        # at k = 2048. They stop at 2^22 because encoding multiplies 27-bit halves by residues in
        # float64.
        Unit(
            "fp64", digit=2**22, exact=2**53, span=2**29, engine="float64", native=True,
            note="float64 BLAS (dgemm)",
        ),
        # float32 sums are exact up to 2^24: over 1024 products, entries up to 128.
        Unit(
            "fp32", digit=4096, exact=2**24, span=1024, engine="float32", native=True,
            note="float32 BLAS (sgemm)",
        ),
        # -128 is a legal entry, so budget 2^14 a product: 2^17 - 1 of them fit an int32.
        Unit(
            "int8", digit=128, exact=2**31 - 1, span=2**16, engine="float64", native=False,
            note="int8 tensor cores with int32 accumulators",
        ),
        # FP16 holds every integer up to 2048, bfloat16 up to 256; both add in float32, as fp32.
        Unit(
            "fp16", digit=2048, exact=2**24, span=1024, engine="float32", native=False,
            note="FP16 tensor cores with float32 accumulation",
        ),
        Unit(
            "bf16", digit=256, exact=2**24, span=1024, engine="float32", native=False,
            note="BF16 tensor cores with float32 accumulation",
        ),
        # E4M3 holds every integer up to 16. Hopper keeps about 14 bits of a sum, so 64 products of
        # largest digits are exact and then the sum must leave the tensor core.
        Unit(
            "fp8", digit=16, exact=2**14, span=64, engine="float32", native=False,
            note="FP8 (E4M3) tensor cores",
        ),
    )
}  # fmt: skip
