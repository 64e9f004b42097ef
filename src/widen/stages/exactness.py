"""Which results are the exact values: proven by units and magnitudes, without another product.

If a row has been kept to its last bit, its entries are multiples of 2^-s, and those of such a
column of 2^-t. So A B is a multiple of 2^-(s+t), alpha A B of that times the last bit of alpha, and
alpha A B + beta c of 2^g, the smaller of both units. A multiple of 2^g that is below 2^(p + g) in
magnitude is a number of a format of p bits, if 2^g is no smaller than the format's smallest number
(and no later word is out of its range): p bits hold such an integer, in several words as well. A
rounding is monotone: if the nearest number is below 2^(p + g), so was the value. Then the value is
a number of the format, and its own nearest one: the result is exact.

So a result of 0 is a true 0 if units are in range, and may be an underflow only if they are not.
What this leaves out is exact, too, now and then: large sums whose last bits happen to be 0.
"""

from __future__ import annotations

from typing import Any

from widen.formats import Part
from widen.formats.arrays import cast, library_of

LAST_BIT_OF_ZERO = 1 << 20
"""The last bit of a zero, which is a multiple of every power of two."""


def last_bit(x: complex) -> int:
    """The exponent of the last bit of a scalar, the lower one of two parts.

    >>> last_bit(6.0), last_bit(0.5 + 4j), last_bit(0.0) == LAST_BIT_OF_ZERO
    (1, -1, True)
    """
    parts = [part.as_integer_ratio() for part in (complex(x).real, complex(x).imag) if part]
    last = [(n & -n).bit_length() - d.bit_length() for n, d in parts]
    return min(last, default=LAST_BIT_OF_ZERO)


def last_bits(x: Any) -> Any:
    """The same for every number of an array or tensor of float64; NaN and Inf count as zeros."""
    library = library_of(x)
    mantissa, place = library.frexp(library.where(library.isfinite(x), x, library.zeros_like(x)))
    bits = cast(abs(mantissa) * 2.0**53, "int64")
    zeros = cast(library.frexp(cast(bits & -bits, "float64"))[1], "int64") - 1
    return library.where(bits == 0, LAST_BIT_OF_ZERO, cast(place, "int64") - 53 + zeros)


def addend_units(words: Any, beta: complex) -> Any:
    """Units of beta c, given the words of c in float64, (words, parts, ...): an array (...)."""
    units = last_bits(words)
    library = library_of(units)
    return library.amin(library.amin(units, 0), 0) + last_bit(beta)


def highest_place(fmt: Part) -> int:
    """Numbers below two to this have all of their words in range.

    >>> from widen.formats import FORMATS
    >>> highest_place(FORMATS["float64_float32"])
    181
    """
    return fmt.words[-1].highest + sum(word.precision for word in fmt.words[:-1])


def is_exact(units: Any, values: Any, fmt: Part) -> Any:
    """Whether multiples of 2^units are their nearest numbers, whose first words are `values`.

    `values` are finite, (parts, ...). `cpu/kernels/error_bounds.py` takes the same steps.
    """
    library = library_of(values)
    size = library.amax(abs(cast(values, "float64")), 0)
    place = library.where(size > 0, cast(library.frexp(size)[1], "int64"), -LAST_BIT_OF_ZERO)
    in_range = (units >= fmt.lowest) & (place <= highest_place(fmt))
    return in_range & (place <= units + fmt.precision)
