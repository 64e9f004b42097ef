"""Numbers of any kind as exact ratios, and exact numbers as canonical words, one at a time.

Nothing is imported that the caller has not: a number of another library is known by the name of its
type's module. `words.rounding` does many numbers at once.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np

from widen.formats import Part
from widen.stages.rounding import round_words

Exact = Fraction | float
"""A fraction, or a float that is none: NaN, an infinity, the negative zero."""
Ratio = tuple[int, int, int] | float
"""(n, d, e) of n/d 2^e with d > 0, in no particular terms, or a float that is no fraction."""
Parts = tuple[Ratio, Ratio]
"""A real and an imaginary part."""

ZERO = (0, 1, 0)
"""The imaginary part of what has none: this very tuple."""

# Nothing that was matched is given back (*+, ?>): long text that is no number is refused at once.
MAGNITUDE = r"(?>(?:\d[\d_]*(?:\.[\d_]*)?|\.\d[\d_]*)(?:[eE][+-]?\d+)?|inf(?:inity)?|nan)"
NUMBER = rf"[+-]?{MAGNITUDE}"
_DECIMAL = re.compile(r"\s*+(?=[+-]?\.?[0-9])([+-]?[0-9]*+)\.?([0-9]*+)(?:[eE]([+-]?[0-9]++))?\s*+")
"""What most text is. Underscores and digits of other scripts are left to the others."""
_REAL = re.compile(rf"\s*+({NUMBER}|[+-]?\d++\s*+/\s*+\d++)\s*+", re.IGNORECASE)
_COMPLEX = re.compile(
    rf"\s*+\(?\s*+({NUMBER})??\s*+([+-]?\s*+{MAGNITUDE}|[+-])?\s*+[jJ]\s*+\)?\s*+", re.IGNORECASE
)

FAR = 1 << 14
"""No format holds numbers of a binary or decimal exponent beyond this, nor is near them."""
CONSTANT_BITS = 1100
"""Bits of a constant of mpmath: 237 more than the widest format has."""


def exact_parts(value: Any) -> tuple[Exact, Exact]:
    """The real and the imaginary part of a number, exactly.

    >>> exact_parts("0.25-0.5j")
    (Fraction(1, 4), Fraction(-1, 2))
    """
    real, imaginary = ratios(value)
    return exact(real), exact(imaginary)


def exact(ratio: Ratio) -> Exact:
    """A ratio as a fraction; what is out of every format's range as an infinity, or next to 0."""
    if isinstance(ratio, float):
        return ratio
    top, bottom, exponent = ratio
    size = top.bit_length() - bottom.bit_length() + exponent
    if top and abs(size) > FAR:  # 2^999999999 would be an integer of 120 megabytes
        return _far(top < 0, size)
    return Fraction(top << max(exponent, 0), bottom << max(-exponent, 0))


def _far(below: bool, exponent: int) -> Exact:
    """What stands for a number out of every format's range: an infinity, or next to nothing."""
    sign = -1 if below else 1
    return sign * math.inf if exponent > 0 else Fraction(sign, 1 << FAR)


def ratios(value: Any) -> Parts:
    """The real and the imaginary part of a number as exact ratios, `ZERO` if it has none."""
    return reader(type(value))(value)  # type: ignore[arg-type]  # mypy: a type is Hashable


@lru_cache(maxsize=64)
def reader(number_type: type) -> Callable[[Any], Parts]:
    """What reads the numbers of a type: found once, since most arrays hold one type."""
    if issubclass(number_type, (bool, int, np.integer, np.bool_)):
        return lambda value: ((int(value), 1, 0), ZERO)
    if issubclass(number_type, (float, np.floating)):
        return lambda value: (_from_float(value), ZERO)
    if issubclass(number_type, (complex, np.complexfloating)):
        return lambda value: (_from_float(value.real), _from_float(value.imag))
    if issubclass(number_type, Fraction):
        return lambda value: ((value.numerator, value.denominator, 0), ZERO)
    if issubclass(number_type, Decimal):
        return lambda value: (_from_decimal(value), ZERO)
    if issubclass(number_type, str):
        return _from_text
    libraries = {"mpmath": _from_mpmath, "gmpy2": _from_gmpy2, "flint": _from_flint}
    return libraries.get(number_type.__module__.split(".")[0], _refused)


def _refused(value: Any) -> Parts:
    raise TypeError(
        f"{value!r:.60} is a {type(value).__module__}.{type(value).__qualname__}, not a number; "
        "give int, float, complex, str, Fraction, Decimal, or a number of mpmath, gmpy2 or "
        "python-flint"
    )


def _from_float(value: Any) -> Ratio:
    if math.isfinite(value) and (value != 0 or math.copysign(1.0, value) > 0):
        top, bottom = value.as_integer_ratio()
        return top, 1, 1 - bottom.bit_length()  # a power of two
    return float(value)


def _from_decimal(value: Decimal) -> Ratio:
    if not value.is_finite():
        return float(value)
    return _from_text(str(value))[0]  # its tuple of digits would take twice as long


@lru_cache(maxsize=512)
def _power_of_five(exponent: int) -> int:
    return int(5**exponent)


def _integer(digits: str) -> int:
    """Digits as an integer, more than Python's limit of 4300 as well."""
    try:
        return int(digits)
    except ValueError:
        return int(Decimal(digits))


def _from_text(text: str) -> Parts:
    """Read "1.5e-40", "1/3", "inf", "2-1e-30j", "(1.0 + 2.0j)"."""
    if match := _DECIMAL.fullmatch(text):
        return _from_digits(*match.groups()), ZERO
    if match := _REAL.fullmatch(text):
        return _part(match[1]), ZERO
    match = _COMPLEX.fullmatch(text)
    if match and not (match[1] and match[2] and match[2][0] not in "+-"):
        imaginary = match[2] if match[2] is not None else "1" if match[1] is None else None
        if imaginary is None:  # one number, and it is the imaginary one
            return ZERO, _part(match[1])
        if imaginary in ("+", "-"):
            imaginary += "1"
        return _part(match[1] or "0"), _part(imaginary)
    raise ValueError(f"{text!r:.60} is not a number; give text such as '1.5e-40', '1/3' or '1-2j'")


def _part(text: str) -> Ratio:
    text = re.sub(r"\d", lambda digit: str(int(digit[0])), "".join(text.split()).replace("_", ""))
    if match := _DECIMAL.fullmatch(text):
        return _from_digits(*match.groups())
    if "/" not in text:
        return float(text)  # an infinity, or NaN
    top, bottom = map(_integer, text.split("/"))
    if bottom == 0:
        raise ValueError(f"{text!r:.60} divides by zero; give 'inf' or 'nan' if that is meant")
    return top, bottom, 0


def _from_digits(whole: str, places: str, exponent: str | None) -> Ratio:
    """A decimal number: digits before the point, with a sign, those behind it, and an exponent."""
    top, power = _integer(whole + places), -len(places)
    if exponent:
        power += _integer(exponent)
    if top == 0:
        return -0.0 if whole[:1] == "-" else ZERO
    size = power + top.bit_length() * 3 // 10
    if abs(size) > FAR:  # 10^999999999 would be an integer of 400 megabytes
        return top, 1, 4 * size  # out of every range as well
    if power < 0:
        return top, _power_of_five(-power), power
    return top * _power_of_five(power), 1, power


def _from_mpmath(value: Any) -> Parts:
    name = type(value).__name__
    if name == "mpf":
        return _from_mpf(value._mpf_), ZERO
    if hasattr(value, "_mpc_"):
        return _from_mpf(value._mpc_[0]), _from_mpf(value._mpc_[1])
    if name == "constant" and not value.name.startswith("eps"):
        return _from_mpf(value(prec=CONSTANT_BITS)._mpf_), ZERO  # not at mpmath's own dps
    if hasattr(value, "_mpf_"):
        return _from_mpf(value._mpf_), ZERO
    raise TypeError(f"{name} of mpmath is not a number; give mpf or mpc")


def _from_mpf(value: tuple[int, int, int, int]) -> Ratio:
    sign, mantissa, exponent, _ = value
    if mantissa == 0 and exponent != 0:  # how mpmath writes NaN and infinities
        return {-456: math.inf, -789: -math.inf}.get(exponent, math.nan)
    return -int(mantissa) if sign else int(mantissa), 1, exponent


def _from_gmpy2(value: Any) -> Parts:
    name = type(value).__name__
    if name in ("mpz", "xmpz"):
        return (int(value), 1, 0), ZERO
    if name == "mpq":
        return (int(value.numerator), int(value.denominator), 0), ZERO
    if name == "mpc":
        return _from_mpfr(value.real), _from_mpfr(value.imag)
    if name == "mpfr":
        return _from_mpfr(value), ZERO
    raise TypeError(f"{name} of gmpy2 is not a number; give mpz, mpq, mpfr or mpc")


def _from_mpfr(value: Any) -> Ratio:
    if not value.is_finite() or (value.is_zero() and value.is_signed()):
        return float(value)
    mantissa, exponent = value.as_mantissa_exp()
    return int(mantissa), 1, int(exponent)


def _from_flint(value: Any) -> Parts:
    name = type(value).__name__
    if name == "fmpz":
        return (int(value), 1, 0), ZERO
    if name == "fmpq":
        return (int(value.p), int(value.q), 0), ZERO
    if name == "acb":
        return _from_arb(value.real), _from_arb(value.imag)
    if name in ("arb", "arf"):
        return _from_arb(value), ZERO
    raise TypeError(f"{name} of flint is not a number; give fmpz, fmpq, arb, arf or acb")


def _from_arb(value: Any) -> Ratio:
    if type(value).__name__ == "arb":
        if value.is_nan():
            return math.nan
        if not value.is_exact():
            raise ValueError(
                f"{value} is a ball, not one number; give its midpoint, x.mid(), if that is meant"
            )
    if not value.is_finite():
        return float(value)
    mantissa, exponent = value.man_exp()
    return int(mantissa), 1, int(exponent)


def words_of_exact(value: Exact, fmt: Part) -> list[float]:
    """Canonical words of a number, by the definition; a zero keeps the sign of the number.

    >>> from widen.formats import WORDS
    >>> words_of_exact(Fraction(1, 10), WORDS["float64x2"])
    [0.1, -5.551115123125783e-18]
    """
    if isinstance(value, float):
        return [value] + [0.0] * (len(fmt.words) - 1)
    first, *rest = round_words(value, fmt)
    return [-0.0 if first == 0 and value < 0 else first, *rest]
