"""What the numbers are: one table of formats, and which format a product has."""

from __future__ import annotations

from widen.formats.binary import BINARY, Binary
from widen.formats.complex import COMPLEX, Complex

Format = Binary | Complex

FORMATS: dict[str, Format] = {**BINARY, **COMPLEX}
RESULTS = tuple(name for name, fmt in FORMATS.items() if fmt.result)

__all__ = ["FORMATS", "RESULTS", "Binary", "Complex", "Format", "default_result"]


def default_result(left: Format, right: Format) -> Format:
    """The format of a product unless the caller asks for another.

    The wider precision of the two, float32 at least; complex if either operand is.

    >>> default_result(FORMATS["float16"], FORMATS["bfloat16"]).name
    'float32'
    >>> default_result(FORMATS["complex64"], FORMATS["float64"]).name
    'complex128'
    """
    wide = max(left.precision, right.precision) > BINARY["float32"].precision
    if max(left.parts, right.parts) == 2:
        return COMPLEX["complex128" if wide else "complex64"]
    return BINARY["float64" if wide else "float32"]
