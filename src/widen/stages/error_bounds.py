"""Certified error bounds, of arrays and of tensors: what lines have lost, and what rounding may."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from widen.formats import Part
from widen.formats.arrays import cast, library_of

TINY = 5e-324


@dataclass(frozen=True)
class Losses:
    """Of every row (.., m, 1) or column (.., 1, n).

    Attributes
    ----------
    lost
        2^-s where the line was rounded, 0 elsewhere.
    norm
        Its 1-norm, rounded up.
    step
        2^-s.
    """

    lost: Any
    norm: Any
    step: Any


def bound_of(
    rows: Losses, columns: Losses, k: int, values: Any, fmt: Part, rounded_once: Any, scale: float,
    dropped: int,
) -> Any:  # fmt: skip
    """|c - AB| <= bound for results whose first words are `values`, (parts, .., m, n), rounded up.

    (2^-s ||b||_1 [row rounded] + 2^-t ||a||_1 [column rounded])/2 + parts k/4 2^-(s+t) [both], and
    what was dropped; complex numbers sqrt(2) of it; then half an ulp of each part. Every factor is
    rounded up and 2^-40 more covers the sums. `scale` is |alpha|.
    """
    library, parts = library_of(values), values.shape[0]
    error = 0.5 * (_times(rows.lost, columns.norm) + _times(rows.norm, columns.lost))
    error = error + _times(rows.lost, columns.lost, -(-parts * k // 4))
    if dropped:
        error = error + _times(rows.step, columns.step, dropped)
    error = scale * (error * (1 + 2.0**-40) * parts**0.5 + 4 * TINY) + TINY
    # A product may have underflowed to 0: the lines say what is exact.
    exact = (rows.lost == 0) & (columns.lost == 0) & (dropped == 0)
    error = library.where(exact | rounded_once, 0.0, error)
    half = _half_ulp(values, fmt)
    total = library.where(error > 0, _next(error + half), half.clip(TINY, None))
    total = library.where(library.isinf(values).any(0), float("inf"), total)
    return library.where(library.isnan(values).any(0), float("nan"), total)


def _times(x: Any, y: Any, many: int = 1) -> Any:
    """So many products in which 0 times infinity is 0.

    The smaller factor is multiplied first: many times what underflows is much, and nothing
    overflows that need not.
    """
    library = library_of(x)
    found = float(many) * library.minimum(x, y) * library.maximum(x, y)
    return library.where((x == 0) | (y == 0), 0.0, found)


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


def power(exponents: Any) -> Any:
    """2^exponents of int64, rounded up into the range of float64 (infinity above it)."""
    half, double = exponents >> 1, library_of(exponents).float64
    factors = [((x.clip(-1023, 1024) + 1023) << 52).view(double) for x in (half, exponents - half)]
    return (factors[0] * factors[1]).clip(TINY, None)


def _next(x: Any) -> Any:
    """The next number above."""
    library = library_of(x)
    return library.nextafter(x, library.full_like(x, float("inf")))
