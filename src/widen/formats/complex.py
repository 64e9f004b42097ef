"""Complex formats: two parts of one real format, of one word or several."""

from __future__ import annotations

from dataclasses import dataclass

from widen.formats import words
from widen.formats.binary import BINARY, Binary
from widen.formats.words import Multiple


@dataclass(frozen=True)
class Complex:
    """Complex numbers whose real and imaginary parts are of the format `part`."""

    name: str
    part: Binary | Multiple

    def __repr__(self) -> str:
        several = len(self.part.words) > 1
        return f"widen.{self.name}" if several else f"widen.formats.PLAIN[{self.name!r}]"

    def __str__(self) -> str:
        return self.name

    @property
    def parts(self) -> int:
        """A real and an imaginary part."""
        return 2

    @property
    def precision(self) -> int:
        """Bits of each part's significand."""
        return self.part.precision

    @property
    def result(self) -> bool:
        """Whether a product can be asked for in this format."""
        return self.part.result


complex128, complex64 = (
    Complex("complex128", BINARY["float64"]),
    Complex("complex64", BINARY["float32"]),
)
complex128x2 = Complex("complex128x2", words.float64x2)
complex128x3 = Complex("complex128x3", words.float64x3)
complex128x4 = Complex("complex128x4", words.float64x4)
complex128x8 = Complex("complex128x8", words.float64x8)
complex128x16 = Complex("complex128x16", words.float64x16)
complex64x2 = Complex("complex64x2", words.float32x2)
complex64x3 = Complex("complex64x3", words.float32x3)
complex64x4 = Complex("complex64x4", words.float32x4)
complex128_complex64 = Complex("complex128_complex64", words.float64_float32)

COMPLEX = {
    fmt.name: fmt
    for fmt in (
        complex128, complex64, complex128x2, complex128x3, complex128x4, complex128x8,
        complex128x16, complex64x2, complex64x3, complex64x4, complex128_complex64,
    )
}  # fmt: skip
