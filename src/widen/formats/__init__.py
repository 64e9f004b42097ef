"""What the numbers are: one table of formats, and which format a product has."""

from __future__ import annotations

from widen.formats.binary import BINARY, Binary
from widen.formats.complex import COMPLEX, Complex
from widen.formats.words import WORDS, Multiple

Part = Binary | Multiple
Format = Part | Complex

FORMATS: dict[str, Format] = {**BINARY, **WORDS, **COMPLEX}
PLAIN = {name: fmt for name, fmt in FORMATS.items() if len(fmt.part.words) == 1}
"""Formats of one word: those that are dtypes of arrays and tensors."""
RESULTS = tuple(name for name, fmt in FORMATS.items() if fmt.result)
PLAIN_RESULTS = tuple(name for name in RESULTS if name in PLAIN)

__all__ = [
    "BINARY", "COMPLEX", "FORMATS", "PLAIN", "PLAIN_RESULTS", "RESULTS", "WORDS",
    "Binary", "Complex", "Format", "Multiple", "Part", "complex_of", "default_result",
]  # fmt: skip


def complex_of(part: Part) -> Complex:
    """The complex format whose parts are of this one.

    >>> complex_of(WORDS["float64x2"]).name
    'complex128x2'
    """
    return next(fmt for fmt in COMPLEX.values() if fmt.part == part)


def default_result(left: Format, right: Format) -> Format:
    """The format of a product unless the caller asks for another.

    The wider precision of the two, float32 at least; complex if either operand is.

    >>> default_result(FORMATS["float16"], FORMATS["bfloat16"]).name
    'float32'
    >>> default_result(FORMATS["complex64"], FORMATS["float64"]).name
    'complex128'
    >>> default_result(FORMATS["float32x3"], FORMATS["complex128"]).name
    'complex64x3'
    """
    part: Part = max(BINARY["float32"], left.part, right.part, key=lambda fmt: fmt.precision)
    return complex_of(part) if max(left.parts, right.parts) == 2 else part
