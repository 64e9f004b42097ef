"""Results against exact numbers: every bit, and whether they lie within their radii."""

from __future__ import annotations

import gmpy2
import numpy as np

import exact_systems as systems
import widen
from helpers import assert_same_bits
from widen.formats import FORMATS


def typed(x, name):
    return x.astype(name) if name in ("float32", "complex64") else x


def rationals(x):
    """Numbers of MPFR as rationals of gmpy2."""
    return np.frompyfunc(gmpy2.mpq, 1, 1)(x)


def integer_or(x):
    """An integer times 2^-60 that is as near as 400 bits see, which is then the number itself."""
    near = gmpy2.mpq(round(x * 2**60)) / 2**60
    return near if abs(x - near) < gmpy2.mpq(1, 2**350) else x


def compared(found, exact, name, radius=None):
    """How many numbers there are, each the exact one rounded, and within its radius."""
    part = FORMATS[name].part.name
    planes = list(found.planes) if isinstance(found, widen.Words) else [found]
    for k, numbers in enumerate(exact):
        words = systems.rounded(numbers, part)
        words = words if isinstance(words, list) else [words]
        for plane, wanted in zip(planes, words, strict=True):
            parts = plane if isinstance(found, widen.Words) else (plane.real, plane.imag)
            ours = parts[k]
            assert_same_bits(np.asarray(ours, float) + 0.0, np.asarray(wanted, float) + 0.0)
    if radius is not None:
        check_radius(found, exact, radius)
    return exact[0].size


def check_radius(found, exact, radius):
    """|found - exact| <= radius, for the real part of every element."""
    if isinstance(found, widen.Words):
        values = [plane[0].reshape(-1).tolist() for plane in found.planes]
    else:
        values = [np.asarray(found.real, float).reshape(-1).tolist()]
    sums = [sum(map(gmpy2.mpq, words)) for words in zip(*values, strict=True)]
    reach = np.asarray(radius, float).reshape(-1).tolist()
    for value, wanted, most in zip(sums, exact[0].reshape(-1).tolist(), reach, strict=True):
        assert abs(value - wanted) <= gmpy2.mpq(most)
