"""Certified error of every element, and the largest, in one pass without temporaries.

The steps are those of `stages.error_bounds.bound_of`, one by one, so that the bits are the same.
"""

from __future__ import annotations

import numpy as np
from numba import types

from widen.cpu.kernels.cache import BITS2, BOOL, FLOAT, INT, device, kernel
from widen.cpu.kernels.limbs import FRACTION, INFINITY, MAGNITUDE, power_of_two

VALUES = types.Array(FLOAT, 4, "A", readonly=True)
MARKS = types.Array(BOOL, 3, "A", readonly=True)
UNITS = types.Array(INT, 3, "A", readonly=True)
TINY = 5e-324


@device
def _scaled_up(x, exponent):
    """The product x 2^exponent of a positive normal number, rounded up."""
    bits = np.float64(x).view(np.int64)
    field = (bits >> 52) + exponent
    if field > 2046:
        return np.inf
    if field > 0:
        return np.int64(bits + (exponent << 52)).view(np.float64)
    subnormal = ((bits & FRACTION) | (np.int64(1) << 52)) >> min(1 - field, 53)
    return np.int64(subnormal + 1).view(np.float64)


@device
def _next(x):
    """The next number above one that is not negative."""
    return x if x == np.inf else np.int64(np.float64(x).view(np.int64) + 1).view(np.float64)


@device
def _half_of_both(one, other):
    """Half the modulus of two ulps, rounded up."""
    large = max(one, other)
    ratio = min(one, other) / large
    return _next(large * (0.5 * np.sqrt(1 + ratio * ratio) * (1 + 2.0**-40)))


@device
def _units(ours, our_shift, theirs, their_shift, others):
    """(error, base) of an error in units times 2^base; what the other line lost counts."""
    base = max(our_shift, their_shift)
    if base == 0:
        return 0.5 * (ours + theirs) + others, base
    ours = ours * power_of_two(max(our_shift - base, -1000))
    theirs = theirs * power_of_two(max(their_shift - base, -1000))
    return 0.5 * (ours + theirs) + others * power_of_two(max(-base, -1000)), base


@kernel(
    VALUES, FLOAT[::1], BOOL[:, ::1], FLOAT[:, ::1], BITS2, BITS2,
    BOOL[:, ::1], FLOAT[:, ::1], BITS2, BITS2, MARKS, BOOL, FLOAT[::1], INT,
    INT[::1], UNITS, FLOAT[:, :, :], FLOAT[::1], INT[::1],
)  # fmt: skip
def bounds(
    begin, end, values, ulps, row_lost, row_norm, row_shift, row_exponent,
    column_lost, column_norm, column_shift, column_exponent, repaired, rounded_once, terms, moved,
    limits, addend_units, out, largest, finite,
):  # fmt: skip
    """Bounds of the errors of `values`, (parts, batch, m, n), into `out` unless that is empty.

    `ulps` are those of numbers by the exponent field of their first words; `terms` and `moved`
    those of a `Terms`. Repaired elements (or all) were rounded once. `limits` are the last bit of
    alpha, and precision, lowest and highest place of the format; `addend_units` those of beta c,
    unless that is empty: `exactness.is_exact` says which bounds are 0. Of every row, the largest
    bound of a finite element (0 if there is none) and their number. A job is a row.
    """
    parts, _, rows, columns = values.shape
    both, always, factor = terms
    alpha_unit, precision, lowest, highest = limits
    for job in range(begin, end):
        b, i = job // rows, job % rows
        lost, norm, shift = row_lost[b, i], row_norm[b, i], row_shift[b, i]
        most, count = 0.0, 0
        for j in range(columns):
            first = np.float64(values[0, b, i, j]).view(np.int64) & MAGNITUDE
            second = np.int64(0)
            if parts == 2:
                second = np.float64(values[1, b, i, j]).view(np.int64) & MAGNITUDE
            if max(first, second) >= INFINITY:
                if out.size:
                    out[b, i, j] = np.inf if max(first, second) == INFINITY else np.nan
                continue
            half = 0.5 * ulps[first >> 52]
            if parts == 2:
                half = _half_of_both(ulps[first >> 52], ulps[second >> 52])
            error, other_lost = 0.0, column_lost[b, j]
            if not (rounded_once or repaired[b, i, j]):
                error, base = _units(
                    norm if other_lost else 0.0,
                    shift if other_lost else np.int64(0),
                    column_norm[b, j] if lost else 0.0,
                    column_shift[b, j] if lost else np.int64(0),
                    (both if lost and other_lost else 0.0) + always,
                )
                error = error * factor
                if error > 0:
                    error = _scaled_up(
                        error, base - row_exponent[b, i] - column_exponent[b, j] + moved
                    )
            total = _next(error + half) if error > 0 else max(half, TINY)
            if error == 0 and not (lost or other_lost):
                unit = alpha_unit - row_exponent[b, i] - column_exponent[b, j]
                if addend_units.size:
                    unit = min(unit, addend_units[b, i, j])
                place = (max(first, second) >> 52) - 1022
                small = place <= min(unit + precision, highest) or max(first, second) == 0
                if small and unit >= lowest:
                    total = 0.0
            if out.size:
                out[b, i, j] = total
            most = max(most, total)
            count += 1
        largest[job], finite[job] = most, count
