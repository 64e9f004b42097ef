"""Complex formats: two parts of one binary format."""

from __future__ import annotations

from dataclasses import dataclass

from widen.formats.binary import BINARY, Binary


@dataclass(frozen=True)
class Complex:
    """Complex numbers whose real and imaginary parts are of the format `part`."""

    name: str
    part: Binary

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


COMPLEX = {
    "complex128": Complex("complex128", BINARY["float64"]),
    "complex64": Complex("complex64", BINARY["float32"]),
}
