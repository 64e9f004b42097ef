"""Numbers of any kind as exact fractions, and fractions as canonical words.

Nothing is imported that the caller has not: a number of another library is known by the name of its
type's module.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np

from widen.formats import Binary

Exact = Fraction | float
"""A fraction, or a float that is none: NaN, an infinity, the negative zero."""

MAGNITUDE = r"(?:(?:\d[\d_]*\.?[\d_]*|\.\d[\d_]*)(?:[eE][+-]?\d+)?|inf(?:inity)?|nan)"
NUMBER = rf"[+-]?{MAGNITUDE}"
_REAL = re.compile(rf"\s*({NUMBER}|[+-]?\d+\s*/\s*\d+)\s*", re.IGNORECASE)
_COMPLEX = re.compile(
    rf"\s*\(?\s*({NUMBER})??\s*([+-]?\s*{MAGNITUDE}|[+-])?\s*[jJ]\s*\)?\s*", re.IGNORECASE
)

FAR = 1 << 14
"""No format holds numbers of a binary or decimal exponent beyond this, nor is near them."""
CONSTANT_BITS = 1100
"""Bits of a constant of mpmath: 237 more than the widest format has."""


def exact_parts(value: Any) -> tuple[Exact, Exact]:
    """The real and the imaginary part of a number, exactly."""
    if isinstance(value, (bool, int, np.integer, np.bool_)):
        return Fraction(int(value)), Fraction(0)
    if isinstance(value, (float, np.floating)):
        return _from_float(value), Fraction(0)
    if isinstance(value, (complex, np.complexfloating)):
        return _from_float(value.real), _from_float(value.imag)
    if isinstance(value, Fraction):
        return value, Fraction(0)
    if isinstance(value, Decimal):
        return _from_decimal(value), Fraction(0)
    if isinstance(value, str):
        return _from_text(value)
    library = type(value).__module__.split(".")[0]
    if library == "mpmath":
        return _from_mpmath(value)
    if library == "gmpy2":
        return _from_gmpy2(value)
    if library == "flint":
        return _from_flint(value)
    raise TypeError(
        f"{value!r:.60} is a {type(value).__module__}.{type(value).__qualname__}, not a number; "
        "give int, float, complex, str, Fraction, Decimal, or a number of mpmath, gmpy2 or "
        "python-flint"
    )


def _from_float(value: Any) -> Exact:
    if math.isfinite(value) and (value != 0 or math.copysign(1.0, value) > 0):
        return Fraction(*value.as_integer_ratio())
    return float(value)


def _from_decimal(value: Decimal) -> Exact:
    if value.is_finite() and not (value.is_zero() and value.is_signed()):
        if abs(value.adjusted()) > FAR:  # 10^999999999 would be an integer of 400 megabytes
            return _far(value < 0, value.adjusted()) if value else Fraction(0)
        return Fraction(value)
    return float(value)


def _far(below: bool, exponent: int) -> Exact:
    """What stands for a number out of every format's range: an infinity, or next to nothing."""
    sign = -1 if below else 1
    return sign * math.inf if exponent > 0 else Fraction(sign, 1 << FAR)


def _from_text(text: str) -> tuple[Exact, Exact]:
    """Read "1.5e-40", "1/3", "inf", "2-1e-30j", "(1.0 + 2.0j)"."""
    if match := _REAL.fullmatch(text):
        return _part(match[1]), Fraction(0)
    match = _COMPLEX.fullmatch(text)
    if match and not (match[1] and match[2] and match[2][0] not in "+-"):
        imaginary = match[2] if match[2] is not None else "1" if match[1] is None else None
        if imaginary is None:  # one number, and it is the imaginary one
            return Fraction(0), _part(match[1])
        if imaginary in ("+", "-"):
            imaginary += "1"
        return _part(match[1] or "0"), _part(imaginary)
    raise ValueError(f"{text!r} is not a number; give text such as '1.5e-40', '1/3' or '1-2j'")


def _part(text: str) -> Exact:
    text = "".join(text.replace("_", "").split())
    if "/" in text:
        numerator, denominator = text.split("/")
        if int(denominator) == 0:
            raise ValueError(f"{text!r} divides by zero")
        return Fraction(int(numerator), int(denominator))
    digits, _, exponent = text.lower().partition("e")
    if exponent:  # Decimal has exponents of 18 digits
        digits = f"{digits}e{max(min(int(exponent), 10**17), -(10**17))}"
    return _from_decimal(Decimal(digits))


def _from_mpmath(value: Any) -> tuple[Exact, Exact]:
    if hasattr(value, "_mpc_"):
        return _from_mpf(value._mpc_[0]), _from_mpf(value._mpc_[1])
    if type(value).__name__ == "constant" and not value.name.startswith("eps"):
        return _from_mpf(value(prec=CONSTANT_BITS)._mpf_), Fraction(0)  # not at mpmath's own dps
    if hasattr(value, "_mpf_"):
        return _from_mpf(value._mpf_), Fraction(0)
    raise TypeError(f"{type(value).__qualname__} of mpmath is not a number; give mpf or mpc")


def _from_mpf(value: tuple[int, int, int, int]) -> Exact:
    sign, mantissa, exponent, _ = value
    if mantissa == 0 and exponent != 0:  # how mpmath writes NaN and infinities
        return {-456: math.inf, -789: -math.inf}.get(exponent, math.nan)
    return _dyadic(-int(mantissa) if sign else int(mantissa), exponent)


def _from_gmpy2(value: Any) -> tuple[Exact, Exact]:
    kind = type(value).__name__
    if kind in ("mpz", "xmpz"):
        return Fraction(int(value)), Fraction(0)
    if kind == "mpq":
        return Fraction(int(value.numerator), int(value.denominator)), Fraction(0)
    if kind == "mpc":
        return _from_mpfr(value.real), _from_mpfr(value.imag)
    if kind == "mpfr":
        return _from_mpfr(value), Fraction(0)
    raise TypeError(f"{kind} of gmpy2 is not a number; give mpz, mpq, mpfr or mpc")


def _from_mpfr(value: Any) -> Exact:
    if not value.is_finite() or (value.is_zero() and value.is_signed()):
        return float(value)
    mantissa, exponent = value.as_mantissa_exp()
    return _dyadic(int(mantissa), int(exponent))


def _from_flint(value: Any) -> tuple[Exact, Exact]:
    kind = type(value).__name__
    if kind == "fmpz":
        return Fraction(int(value)), Fraction(0)
    if kind == "fmpq":
        return Fraction(int(value.p), int(value.q)), Fraction(0)
    if kind == "acb":
        return _from_arb(value.real), _from_arb(value.imag)
    if kind in ("arb", "arf"):
        return _from_arb(value), Fraction(0)
    raise TypeError(f"{kind} of flint is not a number; give fmpz, fmpq, arb, arf or acb")


def _from_arb(value: Any) -> Exact:
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
    return _dyadic(int(mantissa), int(exponent))


def _dyadic(mantissa: int, exponent: int) -> Exact:
    size = mantissa.bit_length() + exponent
    if mantissa and abs(size) > FAR:
        return _far(mantissa < 0, size)
    if exponent >= 0:
        return Fraction(mantissa << exponent)
    return Fraction(mantissa, 1 << -exponent)


def nearest(value: Fraction, word: Binary) -> float:
    """The float of a format that is nearest to a fraction, ties to even.

    >>> from widen.formats import BINARY
    >>> nearest(Fraction(1, 10), BINARY["float64"]) == 0.1
    True
    """
    top, bottom = abs(value.numerator), value.denominator
    if top == 0:
        return 0.0
    size = top.bit_length() - bottom.bit_length()
    size -= (top << max(-size, 0)) < (bottom << max(size, 0))  # 2^size <= |value|
    unit = max(size + 1 - word.precision, word.lowest)
    whole, rest = divmod(top << max(-unit, 0), bottom << max(unit, 0))
    twice, one = 2 * rest, bottom << max(unit, 0)
    whole += twice > one or (twice == one and whole & 1)
    sign = -1.0 if value < 0 else 1.0
    if whole.bit_length() + unit > word.highest:
        return sign * math.inf
    return sign * math.ldexp(float(whole), unit)


def words_of_exact(value: Exact, words: Sequence[Binary]) -> list[float]:
    """Canonical words of a number: the nearest, then the nearest of the rest, and so on."""
    if isinstance(value, float):
        return [value] + [0.0] * (len(words) - 1)
    found: list[float] = []
    for word in words:
        near = nearest(value, word)
        if math.isinf(near) and found:  # beyond a later word's range: the largest is the nearest
            near = math.copysign(
                math.ldexp(2.0 - 2.0 ** (1 - word.precision), word.highest - 1), near
            )
        found.append(near + 0.0 if found else near)
        if math.isinf(near):
            return found + [0.0] * (len(words) - len(found))
        value -= Fraction(near)
    if value and found[0]:  # the last word, or the last in range, may have been rounded to a tie
        return words_of_exact(sum(map(Fraction, found)), words)
    return found
