"""Printing: as many digits as a format holds, as many as it takes to read a number back, or any."""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, Any

import numpy as np

from widen.formats.arrays import Wide
from widen.words.conversions import decimal_of, exact_values, shaped
from widen.words.numbers import Exact, exact_parts, words_of_exact

if TYPE_CHECKING:
    from widen.words.array import Words


def digits_held(fmt: Wide) -> int:
    """Decimal digits that every number of the format holds.

    >>> from widen.formats import WORDS
    >>> digits_held(WORDS["float64x2"])
    32
    """
    return math.floor(fmt.precision * math.log10(2))


def shortest(value: Exact, fmt: Wide) -> str:
    """As many digits as the format holds, or more if it takes more to read the same number back."""
    if isinstance(value, float):
        return repr(value)
    exact, words = decimal_of(value), words_of_exact(value, fmt.part)
    digits = digits_held(fmt)
    while True:
        text = _stripped(format(exact, f".{digits}g"))
        if words_of_exact(exact_parts(text)[0], fmt.part) == words:
            return text
        digits += 1 if digits < digits_held(fmt) + 3 else digits // 4
        # it ends: the exact number has finitely many digits


def _stripped(text: str) -> str:
    """Without zeros that say nothing, and with a point or an exponent, as Python prints floats."""
    body, mark, exponent = text.partition("e")
    if "." in body:
        body = body.rstrip("0")
        body += "0" if body.endswith(".") and not mark else ""
        body = body.rstrip(".")
    return body + (mark + exponent if mark else "" if "." in body else ".0")


def _joined(parts: list[str]) -> str:
    if len(parts) == 1:
        return parts[0]
    return parts[0] + (parts[1] if parts[1][0] in "+-" else f"+{parts[1]}") + "j"


def number_text(parts: tuple[Exact, ...], fmt: Wide, spec: str = "") -> str:
    """One number: as many digits as the format holds, "r" for all it takes, or ".40g"."""
    if spec == "r":
        return _joined([shortest(part, fmt) for part in parts])
    values = [decimal_of(part) for part in parts]
    if re.fullmatch(r"(.?[<>^])?\d*", spec):  # a width, or nothing
        held = f".{digits_held(fmt)}g"
        plain = _joined([
            _stripped(format(value, held)) if value.is_finite() else repr(float(value))
            for value in values
        ])  # fmt: skip
        return format(plain, spec)
    return _joined([
        format(value if value.is_finite() else float(value), spec) for value in values
    ])  # fmt: skip


def array_text(x: Words, spec: str = "", quote: str = "") -> str:
    """All numbers in nested brackets, the middle of long arrays left out as NumPy does."""
    if x.ndim == 0:
        return quote + number_text(exact_values(x)[0], x.format, spec) + quote
    flat = x.reshape(-1)

    def one(at: Any) -> str:
        return quote + number_text(exact_values(flat[int(at)])[0], x.format, spec) + quote

    places = np.arange(x.size).reshape(x.shape)
    return np.array2string(places, separator=", ", formatter={"int": one})


def representation(x: Words) -> str:
    """Words(...) with all digits, which Python reads back as the same numbers."""
    where = "" if x.device == "cpu" else f", device={str(x.device)!r}"
    lines = array_text(x, "r", "'").replace("\n", "\n" + " " * len("Words("))
    return f"Words({lines}, dtype={x.format.name}{where})"


def to_strings(x: Words) -> Any:
    """Text that reads back as the same numbers, in an object array; a str of a single number.

    >>> import widen
    >>> x = widen.Words(["0.1", "1/3", "-2"], dtype="float64x2")
    >>> x.to_strings()[0]
    '0.1'
    """
    return shaped([number_text(parts, x.format, "r") for parts in exact_values(x)], x.shape)
