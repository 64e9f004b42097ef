"""Which elements keep their contract: `bounds.Certificate` of rows and columns."""

from __future__ import annotations

import numpy as np
from numba import njit, types

from widen.cpu.kernels.limbs import BITS2, BOOL, FLOAT, INT, bit_length, kernel, power_of_two
from widen.cpu.kernels.lines import NORM_BITS, floor_log2_ratio


@kernel(BITS2, INT[::1], INT[:, ::1], INT[:, ::1])
def weights(begin, end, q1, test, out, levels):
    """`Certificate.weight` and `Certificate.level` of every line. A job is a batch item.

    `test` is (divisor, unit, root and shift of the goal).
    """
    for b in range(begin, end):
        for i in range(q1.shape[1]):
            level = floor_log2_ratio(test[2], max(q1[b, i], 1)) + test[3] + NORM_BITS
            reduced = max(bit_length(q1[b, i]) - 24, 0) if q1[b, i] else 0
            rounded = -((-q1[b, i]) >> reduced)
            quotient = ((rounded << 22) + test[0] - 1) // test[0]
            shift = reduced + level + test[1] - NORM_BITS - 22
            if shift >= 0:
                out[b, i] = quotient << min(shift, 38)
            else:
                out[b, i] = -((-quotient) >> min(-shift, 63))
            levels[b, i] = level


@njit
def _element_weight(row_weight, row_exact, column_weight, column_exact, both, always):
    """What the error of an element weighs: V if the column was rounded, U if the row was."""
    ours = np.int64(0) if column_exact else row_weight
    theirs = np.int64(0) if row_exact else column_weight
    return ours + theirs + (np.int64(0) if row_exact or column_exact else both) + always


@njit
def _certify_row(
    lead, factor, row_weight, row_level, row_exact,
    column_weight, column_level, column_exact, test, marks,
):  # fmt: skip
    """Mark the weights above lead factor 2^(levels + shift), a float; the largest weight.

    The marks are right unless a weight passes 2^53: an integer is above a number where it is above
    its floor, and a scaled integer below 2^53 is exact.
    """
    largest = np.int64(0)
    for j in range(marks.shape[0]):
        weight = _element_weight(
            row_weight, row_exact, column_weight[j], column_exact[j], test[1], test[2]
        )
        shift = min(max(row_level + column_level[j] + test[0], -1000), 900)
        bound = np.float64(lead[j]) * factor * power_of_two(shift)
        marks[j] = np.float64(max(weight, 0)) > bound
        largest = max(largest, weight)
    return largest


@kernel(
    types.float32[:, :, ::1], FLOAT, INT[:, ::1], INT[:, ::1], BOOL[:, ::1],
    INT[:, ::1], INT[:, ::1], BOOL[:, ::1], INT[::1], BOOL[:, :, ::1],
    instead=FLOAT[:, :, ::1],
)  # fmt: skip
def certify(
    begin, end, lead, factor, row_weight, row_level, row_exact,
    column_weight, column_level, column_exact, test, uncertified,
):  # fmt: skip
    """Mark the elements whose weights pass floor(lead factor 2^(levels + shift)).

    `test` is (shift, both, always) of a certificate; lead * factor is a lower bound of the product
    of leading integers, or that product itself. A job is a row.
    """
    _, rows, columns = lead.shape
    for job in range(begin, end):
        b, i = job // rows, job % rows
        largest = _certify_row(
            lead[b, i], factor, row_weight[b, i], row_level[b, i], row_exact[b, i],
            column_weight[b], column_level[b], column_exact[b], test, uncertified[b, i],
        )  # fmt: skip
        if largest >> 53 == 0:
            continue
        for j in range(columns):
            weight = _element_weight(
                row_weight[b, i], row_exact[b, i], column_weight[b, j], column_exact[b, j],
                test[1], test[2],
            )  # fmt: skip
            shift = row_level[b, i] + column_level[b, j] + test[0]
            bound = np.int64(np.float64(lead[b, i, j]) * factor)
            if shift < 0:
                bound >>= min(-shift, 63)
            elif bound >> max(62 - shift, 0):
                bound = np.int64(1) << 62  # beyond every weight
            else:
                bound <<= shift
            uncertified[b, i, j] = weight > 0 and weight > bound
