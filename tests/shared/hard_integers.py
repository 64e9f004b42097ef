"""Integers that are hard to round, and what a GPU's kernels are given to round them."""

from __future__ import annotations

import math
from fractions import Fraction

import torch

from device import ON
from widen.formats import FORMATS
from widen.gpu.kernels.triton import numbers
from widen.systems import residues


def layout_of(moduli, parts=1):
    """The first so many moduli of int8."""
    layouts = (residues(128, bits, parts) for bits in range(8 * moduli, 0, -1))
    return next(layout for layout in layouts if len(layout.moduli) == moduli)


def table_of(scales, norm=0):
    """A table of lines in which nothing but their exponents and norms is known."""
    table = torch.zeros((15, len(scales)), dtype=torch.int64)
    table[int(numbers.SCALE)] = torch.tensor(scales)
    table[int(numbers.NORM)] = norm
    return table.to(ON)


def nearest(x, exponent, dtype):
    """x 2^exponent, rounded once."""
    part = FORMATS[dtype].part
    size, precision, lowest = abs(x), part.precision, part.lowest
    unit = max(size.bit_length() + exponent - precision, lowest)
    exact = Fraction(size) * Fraction(2) ** (exponent - unit)
    whole = round(exact)
    if whole.bit_length() + unit > part.highest:
        return math.copysign(math.inf, x)
    return math.copysign(math.ldexp(whole, unit), x) if x else 0.0


def hard_integers(rng, bits, count):
    """Integers of all lengths up to so many bits: ties, their neighbours, powers of two."""
    found = [0, 1, -1]
    for length in range(1, bits):
        odd = int(rng.integers(1, 1 << 62)) | (1 << 62)
        for kept in (24, 25, 53, 54, 55):
            half = (odd >> (63 - kept) | 1) << max(length - kept, 0)
            found += [half, -half, half + 1, half - 1, -half - 1]
        found += [1 << length, (1 << length) - 1, -(1 << length), 1 - (1 << length)]
        found.append(int(rng.integers(0, 1 << 62)) << max(length - 62, 0))
    chosen = rng.permutation(len(found))[:count]
    return [found[at] for at in chosen if abs(found[at]) < 1 << bits]
