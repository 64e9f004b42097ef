"""Numbers times powers of two, rounded once: to a float, or to words; and to decimal places.

A float depends on the first word and on the sign of what follows. The first word is a multiple of
its unit, and the rest is less than a unit. Points at which a rounding to fewer bits, or to a
coarser unit, changes are multiples of the word's unit too. So the rest matters only where the first
word lies on such a point, and there only its sign does.
"""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from widen.formats import FORMATS, PLAIN, Binary
from widen.formats.arrays import cast, is_tensor, library_of, part_of, words_of
from widen.words import arithmetic, conversions, joining, renormalise
from widen.words.numbers import words_of_exact
from widen.words.promotion import WIDE

if TYPE_CHECKING:
    from widen.words.array import Words

FAR = 1 << 14
"""Every number times 2^FAR is infinite, and times 2^-FAR rounds to 0."""

MANTISSA = 53
"""Bits of the integer that stands for a first word."""


def round_to(x: Words, dtype: Any, exponent: Any = 0) -> Any:
    """Numbers x 2^exponent, each rounded once (`Words.round_to`)."""
    fmt = _format(dtype)
    if fmt.parts < x.format.parts:
        raise TypeError(
            f"{x.format.name} to {fmt.name} would drop imaginary parts: use .real, .imag"
        )
    shifts = _as_exponents(x, exponent)
    shape = np.broadcast_shapes(x.shape, tuple(shifts.shape))
    x = x if x.shape == shape else joining.broadcast(x, shape)
    with np.errstate(all="ignore"):
        if fmt.name in WIDE:
            return _to_words(x, fmt, shifts)
        parts = _parts_as_floats(x, fmt.part, shifts)
    library = library_of(parts)
    if fmt.parts == 1:
        return parts[0][()]
    imaginary = parts[1] if x.format.parts == 2 else library.zeros_like(parts[0])
    if library is not np:
        return library.complex(parts[0], imaginary)
    made = np.empty(shape, fmt.name)
    made.real, made.imag = parts[0], imaginary
    return made[()]


def _format(dtype: Any) -> Any:
    name = getattr(dtype, "name", None)
    if name is None:
        name = str(dtype).removeprefix("torch.")
        if name not in FORMATS:
            name = np.dtype(dtype).name
    if name not in FORMATS:
        raise TypeError(
            f"dtype={name} is not a format; give one of {', '.join(PLAIN)}, or of {', '.join(WIDE)}"
        )
    return FORMATS[name]


def _as_exponents(x: Words, exponent: Any) -> Any:
    """Exponents as integers where x is, none further than FAR."""
    library = library_of(x.planes[0])
    whole: Any = exponent if is_tensor(exponent) else np.asarray(exponent)
    if not str(whole.dtype).removeprefix("torch.").startswith(("int", "uint")):
        raise TypeError(f"exponent={exponent!r:.60}: powers of two have integers; give an int")
    if library is np:
        if is_tensor(whole):
            whole = conversions.on_cpu(whole)
        return np.clip(whole, -FAR, FAR).astype(np.int64)
    if not is_tensor(whole):
        whole = library.as_tensor(np.clip(whole, -FAR, FAR).astype(np.int64))
    return whole.to(device=x.device, dtype=library.int64).clip(-FAR, FAR)


def _parts_as_floats(x: Words, fmt: Binary, shifts: Any) -> Any:
    """The parts of numbers times 2^shifts, as floats of a binary format."""
    planes = [cast(plane, "float64") for plane in x.planes]
    first, rest = planes[0], planes[1]
    if words_of(x.format)[0] == "float32":  # a float64 takes several of these words
        first = renormalise.nearest(planes, "float64")
        rest = renormalise.nearest([*planes, -first], "float64")
    return cast(nearest_float(first, rest, fmt, shifts), fmt.name)


def nearest_float(first: Any, rest: Any, fmt: Binary, shifts: Any) -> Any:
    """(first + rest) 2^shifts as the nearest float of a format, itself in float64.

    `first` is the float64 nearest to the sum, of whose rest the sign alone is read. Ties go to
    even; what is too large is infinite; a zero has the sign of the number.
    """
    library = library_of(first)
    where = library.where
    fine = library.isfinite(first)
    mantissa, place = library.frexp(where(fine, first, library.zeros_like(first)))
    bits = cast(abs(mantissa) * 2.0**MANTISSA, "int64")
    unit = cast(place, "int64") - MANTISSA + shifts  # |first| 2^shifts = bits 2^unit
    drop = (fmt.lowest - unit).clip(MANTISSA - fmt.precision, 60)  # bits that are rounded away
    whole = bits >> drop
    left = bits - (whole << drop)
    half = (library.ones_like(drop) << drop) >> 1
    behind = where(first < 0, -rest, rest)  # its sign seen from the number
    up = (left > half) | (
        (left == half) & (drop > 0) & ((behind > 0) | ((behind == 0) & (whole & 1 > 0)))
    )
    size = cast(whole + cast(up, "int64"), "float64")
    size = _times_power(size, (unit + drop).clip(-1074, 1100))
    size = where(size >= 2.0 ** (fmt.highest - 1) * 2.0, library.full_like(size, np.inf), size)
    return where(fine, library.copysign(size, first), first)


def _times_power(x: Any, exponents: Any) -> Any:
    """Integers up to 2^53 times 2^exponents, exactly where that is a float, else infinity."""
    half = exponents >> 1
    once = arithmetic.plane_times_power(x, half)
    return arithmetic.plane_times_power(once, exponents - half)


def _to_words(x: Words, fmt: Any, shifts: Any) -> Words:
    """The same in words: a power of two where no word is near the end of its range.

    Rounding word by word does not change with the power of two while all words are normal numbers.
    The other elements are rounded one at a time, in fractions.
    """
    rounded = x.astype(fmt)
    parts, shape = fmt.parts, rounded.shape
    given = [plane if plane.shape[0] == parts else _with_zeros(plane) for plane in x.planes]
    library = library_of(rounded.planes[0])
    lost = library.zeros_like(rounded.planes[0])
    if {*words_of(x.format)} != {*words_of(fmt)}:  # words that are 0 may be numbers too small
        lost = renormalise.nearest(
            [*(cast(p, "float64") for p in given), *(-cast(p, "float64") for p in rounded.planes)],
            "float64",
        )
    planes, fine = [], library.ones_like(lost) > 0
    for plane, word in zip(rounded.planes, part_of(fmt).words, strict=True):
        wide = cast(plane, "float64")
        moved = _times_power(wide, shifts.clip(-2000, 2000))
        fine = fine & (_is_normal(wide, word) & _is_normal(moved, word) | (wide == 0) & (lost == 0))
        planes.append(cast(moved, word.name))
    # A number may be too large for the format before the power of two, and not after it.
    special = ~library.isfinite(given[0]) | (given[0] == 0)
    planes = [library.where(special, p, q) for p, q in zip(rounded.planes, planes, strict=True)]
    made = type(x).of(fmt, planes).copy()
    for part, *at in np.argwhere(conversions.on_cpu(~(fine | special))).tolist():
        place = (part, *at)
        own = place if part < x.format.parts else None
        words = [float(plane[own]) if own else 0.0 for plane in x.planes]
        shift = int(library.broadcast_to(shifts, shape)[tuple(at)])
        value = sum(map(Fraction, words), Fraction(0)) * Fraction(2) ** shift
        for plane, nearest in zip(made.planes, words_of_exact(value, part_of(fmt)), strict=True):
            plane[place] = nearest
    return made


def _with_zeros(plane: Any) -> Any:
    """A plane of real parts with imaginary ones that are 0."""
    library = library_of(plane)
    return library.stack([plane[0], library.zeros_like(plane[0])])


def _is_normal(x: Any, word: Binary) -> Any:
    """Whether float64 numbers are in the range of a word where it has all of its bits."""
    size = abs(x)
    return (size >= 2.0 ** (word.lowest + word.precision)) & (size < 2.0 ** (word.highest - 2))


def to_places(x: Words, decimals: int = 0) -> Words:
    """Numbers rounded to so many decimal places, ties to even, then to the format once.

    NaN, infinities and zeros stay as they are.
    """
    made = x.copy()
    host = x.to_arrays()
    for place in np.ndindex(tuple(x.planes[0].shape)):
        words = [float(plane[place]) for plane in host.planes]
        if words[0] == 0 or not np.isfinite(words[0]):
            continue
        value = sum(map(Fraction, words), Fraction(0))
        nearest = Fraction(round(value, int(decimals)))
        rounded = words_of_exact(nearest if nearest else 0.0 * words[0], part_of(x.format))
        for plane, word in zip(made.planes, rounded, strict=True):
            plane[place] = word
    return made
