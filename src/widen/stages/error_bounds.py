"""Certified error bounds, of arrays and of tensors: what lines have lost, and what rounding may.

Everything is counted in units of 2^-(s+t), one unit of X = A'B' (`widen.bounds`), and leaves them
by one shift at the end: neither a long row nor an extreme alpha makes a bound infinite that is not.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from widen import bounds
from widen.formats import Part
from widen.formats.arrays import cast, library_of
from widen.stages.exactness import is_exact, last_bit

TINY = 5e-324

WIDEST = 900
"""Norms that are counted in units pass 2^(WIDEST + 31) with an integer contract only."""

FRACTION = (1 << 52) - 1
INFINITY = 0x7FF << 52


@dataclass(frozen=True)
class Losses:
    """Of every row (.., m, 1) or column (.., 1, n).

    Attributes
    ----------
    lost
        Whether the line was rounded.
    norm, shift
        V = 2^s ||a||_1 = norm 2^shift, rounded up; the shift is 0 unless V is huge.
    exponent
        s.
    """

    lost: Any
    norm: Any
    shift: Any
    exponent: Any

    def reshaped(self, shape: tuple[int, ...]) -> Losses:
        """The same in another shape."""
        fields = (x.reshape(shape) for x in (self.lost, self.norm, self.shift, self.exponent))
        return Losses(*fields)


def losses_of(lost: Any, q1: Any, exponent: Any, sigma: Any) -> Losses:
    """What is known of lines, from their integer norms, exponents s and sigma = s + e."""
    shift = (sigma - WIDEST).clip(0, None) * (q1 > 0)
    norm = cast(q1, "float64") * power(sigma.clip(None, WIDEST) - bounds.NORM_BITS)
    return Losses(lost, norm, shift, exponent)


@dataclass(frozen=True)
class Terms:
    """What the error of an element has beside the norms of its lines: `bound_of` says how.

    Attributes
    ----------
    both
        What is added where both lines were rounded: parts k/4.
    always
        What is added everywhere, for products that were left out.
    factor, exponent
        |alpha|, sqrt(parts) and 1 + 2^-40 together are factor 2^exponent.
    unit
        Exponent of the last bit of alpha.
    """

    both: float
    always: float
    factor: float
    exponent: int
    unit: int


def terms_of(k: int, parts: int, dropped: int, alpha: complex = 1.0) -> Terms:
    """The terms of alpha A B, k the inner length, `dropped` those of a layout."""
    exponent = math.frexp(max(abs(alpha.real), abs(alpha.imag)))[1]
    # Scaled first: the modulus of finite numbers may be beyond the range. 2^-50 is its error.
    modulus = math.hypot(math.ldexp(alpha.real, -exponent), math.ldexp(alpha.imag, -exponent))
    factor = modulus * (1 + 2.0**-50) * parts**0.5 * (1 + 2.0**-40)
    return Terms(float(-(-parts * k // 4)), float(dropped), factor, exponent, last_bit(alpha))


def bound_of(
    rows: Losses, columns: Losses, values: Any, fmt: Part, rounded_once: Any, terms: Terms,
    *, addend_units: Any = None,
) -> Any:  # fmt: skip
    """|c - AB| <= bound for results whose first words are `values`, (parts, .., m, n), rounded up.

    It is 0 where the result is proven to be exact (`exactness`), and above 0 elsewhere.

    In units of 2^-(s+t): (U [row rounded] + V [column rounded])/2 + parts k/4 [both] and what was
    dropped; of complex numbers sqrt(2) of it; then half an ulp of each part. Norms are rounded up,
    and 2^-40 more covers the sums. `cpu/kernels/error_bounds.py` has the same steps, and bits.
    """
    library = library_of(values)
    # A norm so much smaller than the other that its own unit is out of sight is within the 2^-40.
    ours = library.where(columns.lost, rows.shift, 0)
    theirs = library.where(rows.lost, columns.shift, 0)
    base = library.maximum(ours, theirs)
    ours = library.where(columns.lost, rows.norm * power((ours - base).clip(-1000, None)), 0.0)
    theirs = library.where(rows.lost, columns.norm * power((theirs - base).clip(-1000, None)), 0.0)
    others = cast(rows.lost & columns.lost, "float64") * terms.both + terms.always
    error = 0.5 * (ours + theirs) + others * power((-base).clip(-1000, None))
    error = library.where(rounded_once, 0.0, error * terms.factor)
    error = _scaled_up(error, base - rows.exponent - columns.exponent + terms.exponent)
    half = _half_ulp(values, fmt)
    total = library.where(error > 0, _next(error + half), half.clip(TINY, None))
    units = terms.unit - rows.exponent - columns.exponent
    if addend_units is not None:
        units = library.minimum(units, addend_units)
    kept = ~(rows.lost | columns.lost) & (error == 0)
    total = library.where(kept & is_exact(units, values, fmt), 0.0, total)
    total = library.where(library.isinf(values).any(0), float("inf"), total)
    return library.where(library.isnan(values).any(0), float("nan"), total)


def _scaled_up(x: Any, exponents: Any) -> Any:
    """Numbers x 2^exponents, of 0 and of positive normal numbers, rounded up."""
    library = library_of(x)
    bits = x.view(library.int64)
    field = (bits >> 52) + exponents
    subnormal = ((bits & FRACTION | 1 << 52) >> (1 - field).clip(0, 53)) + 1
    scaled = library.where(field > 0, bits + (exponents << 52), subnormal)
    scaled = library.where(field > 2046, INFINITY, scaled)
    return library.where(x > 0, scaled.view(library.float64), 0.0)


def _half_ulp(values: Any, fmt: Part) -> Any:
    """What rounding once may lose; of complex numbers the modulus of both, rounded up.

    Ulps are powers of two; among subnormal numbers there is no 2^-40 of them left to add.
    """
    ulps = [ulp(part, fmt) for part in values]
    if len(ulps) == 1:
        return 0.5 * ulps[0]
    library = library_of(values)
    large = library.maximum(*ulps)
    ratio = library.minimum(*ulps) / large
    return _next(large * (0.5 * library.sqrt(1 + ratio**2) * (1 + 2.0**-40)))


def ulp(x: Any, fmt: Part) -> Any:
    """Twice what rounding may lose, given the number's first word: 2^(1 - precision) |x| or so.

    A last word may be too small for that, and where it is float32 after a large float64, too large.
    """
    library, x = library_of(x), cast(x, "float64")
    smallest, length = 2.0**fmt.lowest, cast(library.frexp(x)[1], "int64")
    last, others = fmt.words[-1], sum(word.precision for word in fmt.words[:-1])
    all_of_them = length <= last.highest + others
    kept = library.where(all_of_them, fmt.precision, max(others, last.precision))
    return library.where(x == 0, smallest, power(length - kept).clip(smallest, None))


@lru_cache(maxsize=64)
def ulps_by_field(fmt: Part) -> Any:
    """`ulp` of first words by their exponent fields: a number in every binade.

    Subnormal first words have no other ulp than 0: the smallest number, in every format.
    """
    fields = np.arange(0x7FF, dtype=np.int64) << 52
    return np.asarray(ulp(fields.view(np.float64), fmt))


def power(exponents: Any) -> Any:
    """2^exponents of int64, rounded up into the range of float64 (infinity above it)."""
    half, double = exponents >> 1, library_of(exponents).float64
    factors = [((x.clip(-1023, 1024) + 1023) << 52).view(double) for x in (half, exponents - half)]
    return (factors[0] * factors[1]).clip(TINY, None)


def _next(x: Any) -> Any:
    """The next number above."""
    library = library_of(x)
    return library.nextafter(x, library.full_like(x, float("inf")))
