"""Slices of floats with a new shift each (papers 000 and 004), and the sums of their products.

A line (a row of A or a column of B) is sliced against its largest magnitude: with 2^top at or just
above it, a slice holds the multiples t 2^g nearest to the entries, g = top - bits, as small
integers t, and the rest is left for the next slice. Products of slices are integers T 2^e.
"""

from __future__ import annotations

import numpy as np
from numba import types

from widen.cpu.kernels.cache import BITS1, BITS2, BOOL, FLOAT, INT, device, kernel
from widen.cpu.kernels.limbs import (
    FRACTION,
    MAGNITUDE,
    place,
    power_of_two,
    round_magnitude,
    settle,
    times_power,
)
from widen.papers.slicing.kernels.cpu import soft64

SINGLE = types.float32
NOTHING = np.int64(-(1 << 20))  # top of a line of zeros

LANES = 128
"""Sums of an estimate are gathered in so many lanes, then halved: one order on every device."""

ROW_LANES = 32


@device
def ceil_log2(bits):
    """ceil(log2 |x|) of a float64 that is not 0, from its bits: a logarithm would misround."""
    field, fraction = (bits >> 52) & 0x7FF, bits & FRACTION
    if field == 0:
        return soft64.length(fraction - 1) - 1074
    return field - 1023 + np.int64(fraction != 0)


@kernel(BITS2, INT[::1])
def tops(begin, end, bits, out):
    """ceil(log2 max |x|) of every line, NOTHING where all are 0; a job is a line."""
    for i in range(begin, end):
        largest = np.int64(0)
        for j in range(bits.shape[1]):
            largest = max(largest, bits[i, j] & MAGNITUDE)
        out[i] = ceil_log2(largest) if largest else NOTHING


@device
def cut(bits, grid, coarse):
    """(t, bits of x - t 2^grid) for the t nearest to x 2^-grid, in integers only.

    Ties go to even t; with `coarse`, positive x take even t only, as adding a power of two does.
    """
    m, e = soft64.parts(bits)
    wide = np.int64(1 if coarse and bits >= 0 else 0)
    down = grid + wide - e
    if down <= 0:
        t, rest = m << -down, np.int64(0)
    elif down > 54:
        t, rest = np.int64(0), m
    else:
        t = m >> down
        rest = m - (t << down)
        half = np.int64(1) << (down - 1)
        if rest > half or (rest == half and t & 1):
            t += 1
            rest = m - (t << down)
    t <<= wide
    negative = bits < 0
    left = soft64.compose(negative != (rest < 0), abs(rest), e, False) if rest else np.int64(0)
    return (-t if negative else t), left


SAFE = 960


@kernel(
    SINGLE[:, ::1], FLOAT[:, ::1], INT[::1], INT, FLOAT, BOOL, FLOAT[::1], FLOAT[:, ::1],
    INT[::1], instead=FLOAT[:, ::1],
)  # fmt: skip
def split(begin, end, plane, work, top, bits, constant, emulated, weights, lanes, following):
    """One slice of every line of `work` into `plane`; what is left stays, `following` is its top.

    The constant is 1 for paper 000's Algorithm 1, 0.75 for paper 004's equation 5; both add
    sigma = constant 2^(g + 53) and take it away, or do the same in integers (`emulated`, and lines
    so large or small that sigma is no normal number). Where there are weights, lanes receive sums
    of |t 2^g| weight. A job is a line.
    """
    lengths = work.shape[1]
    estimate = weights.shape[0] > 0
    ints = work.view(np.int64)
    for i in range(begin, end):
        following[i] = NOTHING
        if top[i] == NOTHING:
            plane[i, :] = 0
            if estimate:
                lanes[i, :] = 0.0
            continue
        grid = top[i] - bits
        line, target = work[i], plane[i]
        if emulated or abs(grid + 53) > SAFE:
            largest = np.int64(0)
            for j in range(lengths):
                t, ints[i, j] = cut(ints[i, j], grid, constant == 1.0)
                target[j] = t
                largest = max(largest, ints[i, j] & MAGNITUDE)
            if largest:
                following[i] = ceil_log2(largest)
        else:
            sigma, scale = constant * power_of_two(grid + 53), power_of_two(-grid)
            most = 0.0
            for j in range(lengths):
                x = line[j]
                v = (x + sigma) - sigma
                x -= v
                line[j] = x
                target[j] = v * scale
                most = max(most, abs(x))
            if most > 0.0:
                following[i] = ceil_log2(np.float64(most).view(np.int64))
        if estimate:
            lane = lanes[i]
            lane[:] = 0.0
            for start in range(0, lengths, LANES):
                for at in range(min(LANES, lengths - start)):
                    t = np.float64(abs(target[start + at])).view(np.int64)
                    lane[at] += times_power(t, grid) * weights[start + at]


@kernel(FLOAT[:, ::1], FLOAT[::1], FLOAT[:, ::1])
def magnitudes(begin, end, work, weights, lanes):
    """Lanes of the sums of |x| weight; a job is a line."""
    for i in range(begin, end):
        line, lane = work[i], lanes[i]
        lane[:] = 0.0
        for start in range(0, work.shape[1], LANES):
            for at in range(min(LANES, work.shape[1] - start)):
                lane[at] += abs(line[start + at]) * weights[start + at]


@kernel(FLOAT[:, ::1], FLOAT[:, ::1])
def column_sums(begin, end, work, lanes):
    """Add |x| of all lines to the lanes (ROW_LANES, inner); a job is a lane."""
    for lane in range(begin, end):
        for i in range(lane, work.shape[0], ROW_LANES):
            for j in range(work.shape[1]):
                lanes[lane, j] += abs(work[i, j])


@kernel(
    SINGLE[:, :, ::1], BITS2, BITS2, BOOL, BOOL, FLOAT[:, ::1], instead=FLOAT[:, :, ::1]
)  # fmt: skip
def accumulate(begin, end, products, left, right, single, emulated, out):
    """Sums 0 + T_0 2^e_0 + T_1 2^e_1 + ..., rounded after every addition; a job is a row.

    e = left[g, i] + right[g, j]. `single` rounds to float32: through float64, whose precision is
    more than twice as large, so that nothing is rounded differently. `emulated` uses integers only.
    """
    count, _, columns = products.shape
    for i in range(begin, end):
        row = out[i]
        row[:] = 0.0
        if emulated:
            sums = row.view(np.int64)
            for g in range(count):
                for j in range(columns):
                    t, e = np.int64(products[g, i, j]), left[g, i] + right[g, j]
                    sums[j] = soft64.add(sums[j], soft64.compose(t < 0, abs(t), e, False))
            continue
        for g in range(count):
            terms = products[g, i]
            base, most, least = left[g, i], right[g].max(), right[g].min()
            if base + most <= SAFE and base + least >= -SAFE and not single:
                for j in range(columns):
                    row[j] += np.float64(terms[j]) * power_of_two(base + right[g, j])
                continue
            for j in range(columns):
                value = times_power(np.float64(terms[j]).view(np.int64), base + right[g, j])
                if single:
                    value = np.float64(np.float32(value))
                row[j] += value
                if single:
                    row[j] = np.float64(np.float32(row[j]))


@kernel(SINGLE[:, :, ::1], BITS2, BITS2, BITS1, FLOAT[:, ::1], instead=FLOAT[:, :, ::1])
def nearest(begin, end, products, left, right, fmt, out):
    """Sums of all T_g 2^e_g, each rounded once: what NearSum gives; a job is a row.

    Limbs hold the exact sum, from the lowest exponent of an element to the highest.
    """
    count, _, columns = products.shape
    rows_low = np.empty(columns, np.int64)
    rows_high = np.empty(columns, np.int64)
    limbs = np.zeros((8, 1), np.int64)
    for i in range(begin, end):
        rows_low[:], rows_high[:] = -2 * NOTHING, 2 * NOTHING
        for g in range(count):
            for j in range(columns):
                if products[g, i, j] != 0:
                    e = left[g, i] + right[g, j]
                    rows_low[j], rows_high[j] = min(rows_low[j], e), max(rows_high[j], e)
        for j in range(columns):
            if rows_high[j] < rows_low[j]:
                out[i, j] = 0.0
                continue
            low = rows_low[j]
            last = ((rows_high[j] - low) >> 5) + 4  # |T| <= 2^53, and a billion of them
            if last >= limbs.shape[0]:
                limbs = np.zeros((2 * last, 1), np.int64)
            for g in range(count):
                t = np.int64(products[g, i, j])
                if t != 0:
                    place(limbs[:, 0], t, left[g, i] + right[g, j] - low)
            sign = settle(limbs, 0, last)
            value = round_magnitude(limbs, 0, 0, last, low, fmt[0], fmt[1], fmt[2])
            out[i, j] = sign * value if sign else 0.0
            limbs[: last + 1] = 0
