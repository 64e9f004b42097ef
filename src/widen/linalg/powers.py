"""Roots and powers of fractions, between ends that are as near as a rounding needs them."""

from __future__ import annotations

import math
from decimal import MAX_EMAX, MIN_EMIN, Context, Decimal
from fractions import Fraction

from widen.formats import Part
from widen.linalg.decide import decide_exactly

SLACK = 30
"""Digits that powers may lose: logarithms are below 10^4, powers below 10^6, sums below 10^9."""
MOST = 4000
"""Digits after which a power that is not decided stays so: it is a tie, or a number that ends."""


def integer_root(value: int, degree: int) -> int:
    """The largest r with r^degree <= value.

    >>> integer_root(80, 4), integer_root(81, 4)
    (2, 3)
    """
    if degree == 1 or value < 2:
        return value
    if degree == 2:
        return math.isqrt(value)
    r = 1 << -(-value.bit_length() // degree)  # above the root; Newton's steps go down to it
    while True:
        step = ((degree - 1) * r + value // r ** (degree - 1)) // degree
        if step >= r:
            return r
        r = step


def root_ends(value: Fraction, degree: int, part: Part) -> tuple[Fraction, Fraction]:
    """Two ends around a root that round to one number of a format; equal if it is rational."""
    top, bottom = (integer_root(v, degree) for v in (value.numerator, value.denominator))
    if top**degree == value.numerator and bottom**degree == value.denominator:
        return Fraction(top, bottom), Fraction(top, bottom)
    bits = part.precision + 64
    while True:
        size = value.numerator.bit_length() - value.denominator.bit_length()
        shift = max(0, bits - size // degree)
        root = integer_root((value.numerator << degree * shift) // value.denominator, degree)
        low, high = Fraction(root, 1 << shift), Fraction(root + 1, 1 << shift)
        if decide_exactly(low, high, part) is not None:
            return low, high
        bits *= 2  # it is irrational, so that it is decided some time


def rounded_root(square: Fraction, is_negative: bool, part: Part) -> tuple[float, ...]:
    """The words of a square root, or of its negative."""
    low, high = root_ends(square, 2, part)
    words = decide_exactly(-high, -low, part) if is_negative else decide_exactly(low, high, part)
    assert words is not None, "both ends round alike, and rounding is symmetric"
    return words


def power_mean(
    squares: list[int], unit: Fraction, exponent: Fraction, part: Part
) -> tuple[Fraction, Fraction]:
    """Ends around (sum |x|^p)^(1/p), for numbers x whose squares are integers times a unit.

    Sums of integer powers are exact, and their roots decided. Others are computed in decimals: each
    function of `decimal` is rounded once, and SLACK digits are more than all of them lose.
    """
    numbers = [v for v in squares if v]
    if (exponent < 0 and len(numbers) < len(squares)) or not numbers:
        return Fraction(0), Fraction(0)
    whole = exponent.denominator == 1 and exponent > 0
    if whole and exponent <= 64:
        p = int(exponent)
        roots = [math.isqrt(v) for v in numbers]
        if p % 2 == 0:
            return root_ends(sum(v ** (p // 2) for v in numbers) * unit ** (p // 2), p, part)
        if all(r * r == v for v, r in zip(numbers, roots, strict=True)):
            scale = Fraction(math.isqrt(unit.numerator), math.isqrt(unit.denominator))
            return root_ends(sum(r**p for r in roots) * scale**p, p, part)
    digits = 60 + part.precision // 3
    while True:
        middle = _power_mean(numbers, unit, exponent, digits + SLACK)
        reach = middle / 10**digits
        ends = middle - reach, middle + reach
        if decide_exactly(*ends, part) is not None or digits > MOST:
            return ends
        digits *= 3


def _power_mean(numbers: list[int], unit: Fraction, exponent: Fraction, digits: int) -> Fraction:
    """The same within 10^-(digits - SLACK) of itself."""
    context = Context(prec=digits, Emax=MAX_EMAX, Emin=MIN_EMIN)
    power = context.divide(Decimal(exponent.numerator), Decimal(exponent.denominator))
    half = context.divide(power, Decimal(2))
    scale = context.divide(Decimal(unit.numerator), Decimal(unit.denominator))
    total = Decimal(0)
    for number in numbers:
        logarithm = context.ln(context.multiply(Decimal(number), scale))
        total = context.add(total, context.exp(context.multiply(half, logarithm)))
    return Fraction(context.exp(context.divide(context.ln(total), power)))
