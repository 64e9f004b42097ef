"""Binary floating-point formats of one word."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Binary:
    """An IEEE-like binary format: integers below 2^precision times 2^lowest or more.

    Attributes
    ----------
    name
        The name NumPy (or ml_dtypes) gives it.
    precision
        Bits of the significand, the hidden one included; u = 2^-precision.
    lowest
        Exponent of the smallest subnormal number: every value is a multiple of 2^lowest.
    highest
        Every finite value is below 2^highest.
    result
        Whether a product can be asked for in this format.
    """

    name: str
    precision: int
    lowest: int
    highest: int
    result: bool

    def __post_init__(self) -> None:
        # Largest finite value (2^precision - 1) 2^(highest - precision) is above the smallest.
        if not 0 < self.precision < self.highest - self.lowest:
            raise ValueError(f"{self.name}: no room between 2^{self.lowest} and 2^{self.highest}")

    def __repr__(self) -> str:
        return f"widen.formats.PLAIN[{self.name!r}]"

    def __str__(self) -> str:
        return self.name

    @property
    def parts(self) -> int:
        """One real part."""
        return 1

    @property
    def part(self) -> Binary:
        """The format of each part: itself."""
        return self

    @property
    def words(self) -> tuple[Binary, ...]:
        """One word: itself."""
        return (self,)


BINARY = {
    "float64": Binary("float64", precision=53, lowest=-1074, highest=1024, result=True),
    "float32": Binary("float32", precision=24, lowest=-149, highest=128, result=True),
    "float16": Binary("float16", precision=11, lowest=-24, highest=16, result=False),
    "bfloat16": Binary("bfloat16", precision=8, lowest=-133, highest=128, result=False),
}
