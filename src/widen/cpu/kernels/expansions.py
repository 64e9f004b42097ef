"""Reconstruction in float64: X as a short sum of floats, rounded where that is beyond doubt.

X = sum c_i P/p_i - q P is gathered exactly as integers T_l below 2^53, one for each power of a base
2^step, and their sum is rounded by error-free additions. An element that lies too near a midpoint,
or at the end of the range, is left to the integers in limbs of `reconstruct`. No float operation
below rounds, unless its error is caught or bounded.
"""

from __future__ import annotations

import numpy as np

from widen.cpu.kernels.cache import device
from widen.cpu.kernels.encode import balance
from widen.cpu.kernels.limbs import power_of_two

TILE = 128  # ELEMENTS_TILE of the backend


@device
def _coefficient(group, p, inverse, w):
    """(group w mod p), balanced, for |group| <= 2^53.

    The multiple of p next to a group is an exact float64: entries of planes are at most d in
    magnitude with k d^2 <= 2^53 and p <= 2d, so an odd p leaves |group| <= k (d-1)^2, more than p
    below 2^53, and multiples of an even one have a bit to spare. What is left is within
    (1/2 + 2^-6) p, as quotients below 2^46 are off by 2^-7 at most.
    """
    return balance((group - p * np.rint(group * inverse)) * w, p, inverse)


# Loops run over the length of a slice, so that the compiler sees neighbours and not indices that
# might wrap.


@device
def coefficients(groups, start, places, constants, rest):
    """rest[at] = c_i = (residue of X times w_i mod p_i), balanced, of neighbouring elements.

    A residue is a sum of a few groups, at `places` (-1: none), times factors: `constants` are
    (p, 1/p, then factor w mod p for each of them).
    """
    size, p, inverse = rest.shape[0], constants[0], constants[1]
    if places.shape[0] == 1:
        group, w = groups[places[0], start : start + size], constants[2]
        for at in range(rest.shape[0]):
            rest[at] = _coefficient(group[at], p, inverse, w)
        return
    rest[:] = 0.0
    for term in range(places.shape[0]):
        if places[term] >= 0:
            group, w = groups[places[term], start : start + size], constants[2 + term]
            for at in range(rest.shape[0]):
                rest[at] += _coefficient(group[at], p, inverse, w)
    for at in range(rest.shape[0]):
        rest[at] = balance(rest[at], p, inverse)


@device
def _add_times(target, x, factor):
    for at in range(target.shape[0]):
        target[at] += x[at] * factor


@device
def gather_floats(groups, start, places, constants, basis, modulus, pieces, quotient, rest):
    """pieces[l, at] = T_l, with X = sum T_l 2^(step l); `quotient` and `rest` are room for it.

    `basis` and `modulus` hold P/p_i and P in balanced digits of the base 2^step, which is so small
    that count 2^22 2^(step-1) + count 2^(step-1) <= 2^53: every sum is exact.
    """
    size = rest.shape[0]
    count, length = basis.shape
    quotient[:] = 0.0
    for l in range(length):
        pieces[l, :size] = 0.0
    for c in range(count):
        coefficients(groups, start, places[c], constants[c], rest)
        _add_times(quotient, rest, constants[c, 1])
        for l in range(length):
            _add_times(pieces[l, :size], rest, basis[c, l])
    for at in range(quotient.shape[0]):
        quotient[at] = np.rint(quotient[at])
    for l in range(length):
        _add_times(pieces[l, :size], quotient, -modulus[l])


@device
def _add_exactly(value, rest, piece, scale):
    """Value + rest += piece * scale, the error of the addition going to the rest."""
    for at in range(value.shape[0]):
        x, y = value[at], piece[at] * scale
        both = x + y
        shown = both - x
        rest[at] += (x - (both - shown)) + (y - shown)
        value[at] = both


@device
def total(pieces, scales, value, rest):
    """Value + rest = X but for 2^-40 of an ulp, and value = RN(value + rest).

    From the top, value = RN(value + T_l 2^(step l)), the errors caught by `rest`. A step has an
    error only where |value| passes 2^(53 + step l), being a multiple of 2^(step l); later terms are
    2^-step of that at most, so value does not cancel afterwards, no error is larger than an ulp of
    the last value, and adding the errors up rounds beneath notice.
    """
    size, length = value.shape[0], pieces.shape[0]
    value[:], rest[:] = 0.0, 0.0
    for step in range(length):
        l = length - 1 - step
        _add_exactly(value, rest, pieces[l, :size], scales[l])
    for at in range(value.shape[0]):
        both = value[at] + rest[at]
        rest[at] -= both - value[at]
        value[at] = both


@device
def _place(bits):
    """Exponent of the highest bit of an integer given as float64 bits; 0 for zero."""
    return max((bits >> 52) & 0x7FF, 1023) - 1023


@device
def round_total(value, rest, error, base, precision, lowest, highest):
    """Round (value + rest) 2^base into `value`; whether that is beyond doubt for all elements.

    X is known to within `error`. The rounded number r is right if |X - r| is below half an ulp of
    it, of the smaller ulp if r is a power of two.
    """
    split = np.float64((1 << (53 - precision)) + 1)
    doubts = np.int64(0)
    for at in range(value.shape[0]):
        x = value[at]
        wide = x * split
        r = wide - (wide - x)  # x to `precision` bits (Veltkamp)
        off = abs((x - r) + rest[at]) + error[at]
        bits = np.float64(r).view(np.int64)
        place = _place(bits)
        power = bits & np.int64((1 << 52) - 1) == 0
        half = power_of_two(place - precision - np.int64(power))
        unit = place + 1 - precision + base[at]
        scale = min(max(base[at], -1022), 1022)
        value[at] = r * power_of_two(scale)
        sure = (
            (off < half * (1.0 - 2.0**-30))
            & (scale == base[at])
            & (unit >= lowest)
            & (unit + precision < highest)
        )
        doubts += np.int64(not sure)
    return doubts == 0
