"""What the numbers are: floats, sums of several floats, complex pairs of either; one table of all.

The words of a number of several words do not overlap: each is the nearest float (ties to even) of
the value less the words before it, largest first, so that equal values have equal words.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar


class _Named:
    """A format prints as its name, which users write as ``dtype=``."""

    name: str

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True)
class Binary(_Named):
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
    """

    name: str
    precision: int
    lowest: int
    highest: int
    parts: ClassVar[int] = 1

    def __post_init__(self) -> None:
        # Largest finite value (2^precision - 1) 2^(highest - precision) is above the smallest.
        if not 0 < self.precision < self.highest - self.lowest:
            raise ValueError(f"{self.name}: no room between 2^{self.lowest} and 2^{self.highest}")

    def __repr__(self) -> str:
        return f"widen.formats.PLAIN[{self.name!r}]"

    @property
    def part(self) -> Binary:
        """The format of each part: itself."""
        return self

    @property
    def words(self) -> tuple[Binary, ...]:
        """One word: itself."""
        return (self,)


@dataclass(frozen=True)
class Multiple(_Named):
    """Numbers of several words, each of a binary format, largest first."""

    name: str
    words: tuple[Binary, ...]
    parts: ClassVar[int] = 1

    def __post_init__(self) -> None:
        if len(self.words) < 2:
            raise ValueError(f"{self.name}: a number of one word is a Binary")

    def __repr__(self) -> str:
        return f"widen.{self.name}"

    @property
    def part(self) -> Multiple:
        """The format of each part: itself."""
        return self

    @property
    def precision(self) -> int:
        """Bits that are always held: u = 2^-precision.

        What is left after a word of p bits is at most half a unit in its last place, and has a
        sign: every word but the first adds a bit to its own.
        """
        return sum(word.precision for word in self.words) + len(self.words) - 1

    @property
    def lowest(self) -> int:
        """Exponent of the last word's smallest number: half of it may be lost in any rounding."""
        return self.words[-1].lowest

    @property
    def highest(self) -> int:
        """Every finite value is below 2^highest, or it would be infinite in its first word."""
        return self.words[0].highest


Part = Binary | Multiple


@dataclass(frozen=True)
class Complex(_Named):
    """Complex numbers whose real and imaginary parts are of the format `part`."""

    name: str
    part: Part
    parts: ClassVar[int] = 2

    def __repr__(self) -> str:
        several = isinstance(self.part, Multiple)
        return f"widen.{self.name}" if several else f"widen.formats.PLAIN[{self.name!r}]"

    @property
    def precision(self) -> int:
        """Bits of each part's significand."""
        return self.part.precision


Format = Part | Complex

BINARY = {
    "float64": Binary("float64", precision=53, lowest=-1074, highest=1024),
    "float32": Binary("float32", precision=24, lowest=-149, highest=128),
    "float16": Binary("float16", precision=11, lowest=-24, highest=16),
    "bfloat16": Binary("bfloat16", precision=8, lowest=-133, highest=128),
}


def _of(word: str, count: int) -> Multiple:
    return Multiple(f"{word}x{count}", (BINARY[word],) * count)


float64x2, float64x3, float64x4 = _of("float64", 2), _of("float64", 3), _of("float64", 4)
float64x8, float64x16 = _of("float64", 8), _of("float64", 16)
float32x2, float32x3, float32x4 = _of("float32", 2), _of("float32", 3), _of("float32", 4)
float64_float32 = Multiple("float64_float32", (BINARY["float64"], BINARY["float32"]))

complex128x2, complex128x3 = Complex("complex128x2", float64x2), Complex("complex128x3", float64x3)
complex128x4, complex128x8 = Complex("complex128x4", float64x4), Complex("complex128x8", float64x8)
complex128x16 = Complex("complex128x16", float64x16)
complex64x2, complex64x3 = Complex("complex64x2", float32x2), Complex("complex64x3", float32x3)
complex64x4 = Complex("complex64x4", float32x4)
complex128_complex64 = Complex("complex128_complex64", float64_float32)

WORDS = {
    fmt.name: fmt
    for fmt in (
        float64x2, float64x3, float64x4, float64x8, float64x16,
        float32x2, float32x3, float32x4, float64_float32,
    )
}  # fmt: skip
COMPLEX = {
    fmt.name: fmt
    for fmt in (
        Complex("complex128", BINARY["float64"]), Complex("complex64", BINARY["float32"]),
        complex128x2, complex128x3, complex128x4, complex128x8, complex128x16,
        complex64x2, complex64x3, complex64x4, complex128_complex64,
    )
}  # fmt: skip
FORMATS: dict[str, Format] = {**BINARY, **WORDS, **COMPLEX}
PLAIN = {name: fmt for name, fmt in FORMATS.items() if len(fmt.part.words) == 1}
"""Formats of one word: those that are dtypes of arrays and tensors."""


def complex_of(part: Part) -> Complex:
    """The complex format whose parts are of this one, or of float32: no library has complex halves.

    >>> complex_of(WORDS["float64x2"]).name
    'complex128x2'
    """
    return next(fmt for fmt in COMPLEX.values() if fmt.part == computed_in(part))


def default_result(left: Format, right: Format) -> Format:
    """The format of a product unless the caller asks for another.

    The one of both if they are the same; else the wider precision of the two, float32 at least;
    complex if either operand is.

    >>> default_result(FORMATS["float16"], FORMATS["float16"]).name
    'float16'
    >>> default_result(FORMATS["float16"], FORMATS["bfloat16"]).name
    'float32'
    >>> default_result(FORMATS["complex64"], FORMATS["float64"]).name
    'complex128'
    >>> default_result(FORMATS["float32x3"], FORMATS["complex128"]).name
    'complex64x3'
    """
    if left == right:
        return left
    part: Part = max(BINARY["float32"], left.part, right.part, key=lambda fmt: fmt.precision)
    return complex_of(part) if max(left.parts, right.parts) == 2 else part


def computed_in(fmt: Format) -> Format:
    """The format whose contract a result keeps before it is rounded: of the halves float32.

    What a half holds would be a poor promise for a sum of many terms.

    >>> computed_in(FORMATS["bfloat16"]).name, computed_in(FORMATS["complex64"]).name
    ('float32', 'complex64')
    """
    return fmt if fmt.precision >= BINARY["float32"].precision else BINARY["float32"]
