"""Two digits times three, in registers: what nearly all products of thin shapes are.

Digits of `thin` go through buffers, whatever their number. Here they are never written: a number of
the large side becomes two digits and a magnitude, and these are multiplied at once. Numbers of
`least` and more count among magnitudes.
"""

from __future__ import annotations

import numpy as np

from widen.cpu.kernels.cache import device, summing
from widen.cpu.kernels.limbs import MAGNITUDE, power_of_two
from widen.cpu.kernels.loops import side_by_side
from widen.cpu.kernels.magnitudes import SHORT

STRETCH = 256  # of `systems.uneven`: sums of so many products are below 2^53
NEAR = 512  # NEAR of the backend


@device
def rounded_short(y, least):
    """The magnitude of a number rounded down to 8 bits, 0 below `least`: `bounds.SHORT_BITS`."""
    short = np.int64(np.float64(y).view(np.int64) & (SHORT & MAGNITUDE)).view(np.float64)
    return short if short >= least else 0.0


@device
def factors(shift):
    """2^shift as a product of two, `times_power`'s."""
    exponent = min(max(shift, -2000), 2000)
    return power_of_two(exponent >> 1), power_of_two(exponent - (exponent >> 1))


@device
def as_integer(total):
    """A sum as an integer; 0 for what is none, in lines with a NaN or an infinity."""
    return np.int64(total) if abs(total) <= 2.0**53 else np.int64(0)


@device
def _two(bits, first, second, least, step, inverse):
    """A number times two factors, rounded, in two digits; and its magnitude."""
    y = np.int64(bits).view(np.float64) * first * second
    whole = np.rint(y)
    high = np.rint(whole * inverse)
    return whole - high * step, high, rounded_short(y, least)


@summing
def six(source, first, second, least, step, inverse, others):
    """Products of two digits and three, and of magnitudes: the usual case, all in registers."""
    low, middle, top, short = others[0], others[1], others[2], others[3]
    a, b, c, d, e, f, total = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
    for t in range(source.shape[0]):
        x, y, z = _two(source[t], first, second, least, step, inverse)
        a += x * low[t]
        b += x * middle[t]
        c += x * top[t]
        d += y * low[t]
        e += y * middle[t]
        f += y * top[t]
        total += z * short[t]
    return a, b, c, d, e, f, total


@device
def _three(bits, first, second, least, step, inverse):
    """The same in three digits."""
    y = np.int64(bits).view(np.float64) * first * second
    whole = np.rint(y)
    rest = np.rint(whole * inverse)
    high = np.rint(rest * inverse)
    return whole - rest * step, rest - high * step, high, rounded_short(y, least)


@summing
def _six_sums(source, other, scales, other_scales):
    """`six` of two lines, neither of whose digits are written."""
    first, second, least, step, inverse = scales
    one, two, lowest, base, unit = other_scales
    a, b, c, d, e, f, total = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
    for t in range(source.shape[0]):
        x, y, z = _two(source[t], first, second, least, step, inverse)
        low, middle, top, short = _three(other[t], one, two, lowest, base, unit)
        a += x * low
        b += x * middle
        c += x * top
        d += y * low
        e += y * middle
        f += y * top
        total += z * short
    return a, b, c, d, e, f, total


@device
def _scales(shift, least, beta):
    """What `_two` and `_three` ask for, of a line."""
    first, second = factors(shift)
    return first, second, least, power_of_two(beta), power_of_two(-beta)


@device
def six_of_two(bits, other, buffer, shifts, leasts, betas):
    """`_six_sums` of a stretch of two lines that meet each other alone, as in a dot product."""
    return _six_sums(
        side_by_side(bits, buffer), side_by_side(other, buffer[STRETCH:]),
        _scales(shifts[0], leasts[0], betas[0]), _scales(shifts[1], leasts[1], betas[1]),
    )  # fmt: skip


@device
def kept(sums_of_pairs, sums):
    """Add what `six` gives to integers, but for the sum of magnitudes, which is left."""
    a, b, c, d, e, f, total = sums_of_pairs
    sums[0] += as_integer(a)
    sums[1] += as_integer(b)
    sums[2] += as_integer(c)
    sums[3] += as_integer(d)
    sums[4] += as_integer(e)
    sums[5] += as_integer(f)
    return total


@summing
def six_of_lines(q, r, s, u, scales, step, inverse, others, h, sums, totals):
    """The same for DEPTH entries of near lines: sums[digit * 3 + other digit, line]."""
    low, middle, top, short = others[0], others[1], others[2], others[3]
    a, b, c, d = low[h], low[h + 1], low[h + 2], low[h + 3]
    e, f, g, i = middle[h], middle[h + 1], middle[h + 2], middle[h + 3]
    j, k, l, m = top[h], top[h + 1], top[h + 2], top[h + 3]
    n, o, p, v = short[h], short[h + 1], short[h + 2], short[h + 3]
    for t in range(q.shape[0]):
        first, second, least = scales[t], scales[t + NEAR], scales[t + 2 * NEAR]
        w0, w1, w2 = _two(q[t], first, second, least, step, inverse)
        x0, x1, x2 = _two(r[t], first, second, least, step, inverse)
        y0, y1, y2 = _two(s[t], first, second, least, step, inverse)
        z0, z1, z2 = _two(u[t], first, second, least, step, inverse)
        sums[t] += (w0 * a + x0 * b) + (y0 * c + z0 * d)
        sums[t + NEAR] += (w0 * e + x0 * f) + (y0 * g + z0 * i)
        sums[t + 2 * NEAR] += (w0 * j + x0 * k) + (y0 * l + z0 * m)
        sums[t + 3 * NEAR] += (w1 * a + x1 * b) + (y1 * c + z1 * d)
        sums[t + 4 * NEAR] += (w1 * e + x1 * f) + (y1 * g + z1 * i)
        sums[t + 5 * NEAR] += (w1 * j + x1 * k) + (y1 * l + z1 * m)
        totals[t] += (w2 * n + x2 * o) + (y2 * p + z2 * v)
