"""Which elements keep their contract: `bounds.Certificate` of rows and columns."""

from __future__ import annotations

import numpy as np
from numba import njit, types

from widen.cpu.kernels.cache import BITS2, BITS3, BOOL, FLOAT, INT, kernel
from widen.cpu.kernels.limbs import MAGNITUDE, bit_length, power_of_two
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


# ── sketches: lower bounds of sorted leading integers, from a histogram of magnitudes ──

TILE = 64  # SKETCH_TILE of the backend: histograms of so many lines stay in a first-level cache
OCTAVES = 6
BINS = 16 * OCTAVES + 1
LEAST_TOP = -1000


@njit
def _places(source, base, places):
    """Bins of entries: sixteen an octave below 2^(top + 1), bin 0 for all that is smaller."""
    for t in range(places.shape[0]):
        places[t] = source[t]
    for t in range(places.shape[0]):
        places[t] = min(max(((places[t] & MAGNITUDE) >> 48) - base[t], 0), BINS - 1)


@njit
def _base(top):
    """What to take from a float's leading bits to have its bin."""
    return ((top + 1023) << 4) - (BINS - 16)


@njit
def _edge(place):
    """The least leading integer floor(|x| 2^(14 - top)) of a bin, whole: 2^5 16 is the smallest."""
    octave, fine = (place - 1) >> 4, (place - 1) & 15
    return np.int64(0) if place == 0 else (16 + fine) << (15 - OCTAVES + octave - 4)


@njit
def _quantiles(counts, skipped, chunk, sums, out):
    """Sorted entries in chunks, after some that are skipped: sums of edges, or first edges.

    First edges are put down from the last chunk to the first.
    """
    total, filled, at = np.int64(0), -skipped, 0
    chunks = out.shape[0]
    for place in range(BINS):
        left, edge = np.int64(counts[place]), _edge(place)
        while left > 0 and at < chunks:
            if filled < 0:
                count = min(left, -filled)
            else:
                count = min(left, chunk - filled)
                if filled == 0 and not sums:
                    out[chunks - 1 - at] = np.float32(edge)
                total += count * edge
            filled += count
            left -= count
            if filled == chunk:
                if sums:
                    out[at] = np.float32(total)
                total, filled, at = np.int64(0), np.int64(0), at + 1


@kernel(BITS3, BOOL, BITS2, BOOL[:, :], BOOL, types.float32[:, :, ::1])
def sketch(begin, end, bits, lines_near, top, skip, sums, out):
    """Sketches of lines, (batch, lines, chunks): of the left operand with `sums`, else the right.

    With entries of both sorted, one upwards and one downwards, a chunk of the left is summed and
    meets the least of the right's. Lines to skip, and such of subnormal numbers, are 0. A job is
    TILE lines.
    """
    _, lines, inner = bits.shape
    tiles = (lines + TILE - 1) // TILE
    chunk = inner // out.shape[2]
    skipped = np.int64(0) if sums else inner - chunk * out.shape[2]
    counts = np.empty((TILE, BINS), np.int32)
    every = counts.reshape(TILE * BINS)
    places, base = np.empty(TILE, np.int64), np.empty(TILE, np.int64)
    for job in range(begin, end):
        b, start = job // tiles, job % tiles * TILE
        size = min(TILE, lines - start)
        counts[:] = 0
        if lines_near:
            for t in range(size):
                base[t] = _base(top[b, start + t])
            for h in range(inner):
                _places(bits[b, start : start + size, h], base[:size], places[:size])
                for t in range(size):
                    every[np.uint64(BINS * t + places[t])] += 1  # unsigned: it cannot wrap
        else:
            for t in range(size):
                base[:] = _base(top[b, start + t])
                for first in range(0, inner, TILE):
                    width = min(TILE, inner - first)
                    source = bits[b, start + t, first : first + width]
                    _places(source, base[:width], places[:width])
                    count = counts[t]
                    for s in range(width):
                        count[np.uint64(places[s])] += 1
        for t in range(size):
            out[b, start + t] = 0
            if not skip[b, start + t] and top[b, start + t] >= LEAST_TOP:
                _quantiles(counts[t], skipped, chunk, sums, out[b, start + t])


@njit
def _add_four(target, a, b, c, d, w, x, y, z):
    """Add four rows times a number each."""
    for j in range(target.shape[0]):
        target[j] += (a * w[j] + b * x[j]) + (c * y[j] + d * z[j])


@kernel(types.float32[:, :, ::1], types.float32[:, :, ::1], types.float32[:, :, ::1])
def sketch_products(begin, end, left, right, out):
    """Products of sketches, right ones as (batch, chunks, lines); a job is a row.

    Not by BLAS: its threads wait for each other, and on a busy machine 1 ms becomes 25.
    """
    rows = out.shape[1]
    for job in range(begin, end):
        b, i = job // rows, job % rows
        ours, theirs = left[b if left.shape[0] > 1 else 0], right[b if right.shape[0] > 1 else 0]
        target = out[b, i]
        target[:] = 0
        for q in range(0, ours.shape[1], 4):
            _add_four(
                target, ours[i, q], ours[i, q + 1], ours[i, q + 2], ours[i, q + 3],
                theirs[q], theirs[q + 1], theirs[q + 2], theirs[q + 3],
            )  # fmt: skip
