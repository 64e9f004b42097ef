"""Exact vectors that a singular symmetric matrix takes to zero, in floats or words.

Let P be columns of A that are independent, as many as the rank. Then the rows P are so too, A_PP is
nonsingular, and all rows of A are sums of rows in P. With A_PP y = -A_Pj for a j that is not in P,
the vector v that is y on P, 1 at j and 0 elsewhere has (A v)_P = 0, hence A v = 0. It is rational;
its common denominator makes it one of integers.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np

from widen.formats import COMPLEX, WORDS
from widen.linalg.arrays import complex_of, is_complex, moved_like
from widen.linalg.bounds import FORMATS, first_words, format_name
from widen.linalg.errors import NotProvenError
from widen.linalg.integers import integer_rows, solve_by_elimination
from widen.linalg.modular import eliminate, primes, residues
from widen.linalg.operands import real_matrix
from widen.words import Words


def null_vector(a: Any) -> tuple[Any, str]:
    """A vector v with A v = 0, exactly, or None; and how that was found, or why it was not.

    A is symmetric or Hermitian, and known to be singular.
    """
    whole = real_matrix(a)
    p = next(primes())
    columns: list[int] = []
    eliminate(residues(whole, p), p, columns)
    others = [j for j in range(whole.shape[0]) if j not in set(columns)]
    if not others:
        return None, "the rank modulo a prime is not the rank"
    j = others[0]
    v = [Fraction(0)] * whole.shape[0]
    v[j] = Fraction(1)
    if columns:
        try:
            rows = whole[columns]
            y = -solve_by_elimination(rows[:, columns], rows[:, j : j + 1])[:, 0]
        except NotProvenError:
            return None, "an exact vector x with a x = 0 would take too long to find"
        for i, value in zip(columns, y, strict=True):
            v[i] = value
    common = math.lcm(*(value.denominator for value in v))
    integers = [int(value * common) for value in v]
    divisor = math.gcd(*integers)
    integers = [value // divisor for value in integers]
    (exact,), _ = integer_rows(whole)
    if any(exact.dot(np.array(integers, object))):
        return None, "the rank modulo a prime is not the rank"
    vector = _in_words(integers, a)
    if vector is None:
        return None, "exact vectors x with a x = 0 have more bits than 16 words"
    return vector, "a x is zero for the vector x, exactly: x' a x = 0"


def _in_words(integers: list[int], a: Any) -> Any:
    """Integers as floats, or as `Words` of as few as hold them; where a is, complex if a is."""
    parts = 1 + is_complex(a)
    n, like = len(integers) // parts, first_words(a)
    values = np.array([Fraction(value) for value in integers], object).reshape(parts, n)
    if max(map(abs, integers)).bit_length() > 1000:
        return None
    for count in FORMATS:
        words = Words(values, FORMATS[max(2, count)])
        if (words.to_fraction() != values).any() or (count == 1 and words.planes[1].any()):
            continue
        planes = [moved_like(plane[0], like) for plane in words.planes]
        if count == 1:
            return planes[0][0] if parts == 1 else complex_of(planes[0])
        fmt = {**WORDS, **COMPLEX}[format_name(count, parts == 2)]
        return Words.of(fmt, planes)  # type: ignore[arg-type]
    return None
