"""Rows and columns looked at once: largest magnitude, last bit, integer norms, leading integers.

Entries pass through a short buffer, so that any strides are read in the order that suits them and
the arithmetic runs on neighbours. With `lines_near` (neighbouring lines lie closer in memory than
neighbouring entries of a line) a buffer holds one entry of many lines, otherwise many entries of
one line; either way place t of the buffer feeds place t of the tallies.
"""

from __future__ import annotations

import numpy as np
from numba import njit, types

from widen.kernels.numba.limbs import BITS1, BITS2, BITS3, BOOL, FLOAT, INT, kernel, whole_mantissa

TILE = 128  # LINES_TILE of the backend
MAGNITUDE = np.int64(0x7FFFFFFFFFFFFFFF)
INFINITY = np.int64(0x7FF0000000000000)
NOTHING = np.int64(-(1 << 20))


@njit
def _exponents(buffer, shift, size, largest, top, last):
    """Tallies of the largest magnitude's bits, and of the first and last bits' exponents."""
    for t in range(size):
        magnitude = buffer[t] & MAGNITUDE
        field = magnitude >> 52
        m = whole_mantissa(magnitude)
        # The exponent of a float made from an integer is the place of its highest bit.
        unit = max(field, 1) - 1075 - 1023 + shift[t]
        high = (np.float64(m).view(np.int64) >> 52) + unit
        low = (np.float64(m & -m).view(np.int64) >> 52) + unit
        largest[t] = max(largest[t], magnitude)
        top[t] = max(top[t], high if m else NOTHING)
        last[t] = min(last[t], low if m else -NOTHING)


@kernel(BITS3, BOOL, BITS1, INT[:, :], INT[:, :], BOOL[:, :])
def extremes(begin, end, bits, lines_near, shift, top, last, special):
    """Exponents of the largest magnitude and of the last set bit of every line.

    `bits` is (batch, lines, inner), entry h standing for x 2^shift[h]; results are merged into
    what is there. A line with an infinity or a NaN becomes special. A job is TILE lines.
    """
    _, lines, inner = bits.shape
    tiles = (lines + TILE - 1) // TILE
    buffer, shifts = np.empty(TILE, np.int64), np.empty(TILE, np.int64)
    largest, tops, lasts = (
        np.empty(TILE, np.int64), np.empty(TILE, np.int64), np.empty(TILE, np.int64),
    )  # fmt: skip
    for job in range(begin, end):
        b, start = job // tiles, job % tiles * TILE
        stop = min(start + TILE, lines)
        largest[:], tops[:], lasts[:] = 0, NOTHING, -NOTHING
        if lines_near:
            for h in range(inner):
                source = bits[b, start:stop, h]
                for t in range(stop - start):
                    buffer[t], shifts[t] = source[t], shift[h]
                _exponents(buffer, shifts, stop - start, largest, tops, lasts)
            for t in range(stop - start):
                top[b, start + t] = max(top[b, start + t], tops[t])
                last[b, start + t] = min(last[b, start + t], lasts[t])
                special[b, start + t] |= largest[t] >= INFINITY
        else:
            for i in range(start, stop):
                largest[:], tops[:], lasts[:] = 0, NOTHING, -NOTHING
                for first in range(0, inner, TILE):
                    size = min(TILE, inner - first)
                    source, moved = bits[b, i, first : first + size], shift[first : first + size]
                    for t in range(size):
                        buffer[t], shifts[t] = source[t], moved[t]
                    _exponents(buffer, shifts, size, largest, tops, lasts)
                top[b, i] = max(top[b, i], tops.max())
                last[b, i] = min(last[b, i], lasts.min())
                special[b, i] |= largest.max() >= INFINITY


@njit
def _largest(buffer, size, largest):
    """Tallies of the largest magnitude's bits."""
    for t in range(size):
        largest[t] = max(largest[t], buffer[t] & MAGNITUDE)


@kernel(BITS3, BOOL, INT[:, :])
def magnitudes(begin, end, bits, lines_near, largest):
    """Bits of the largest magnitude of every line, merged into what is there.

    A job is TILE lines.
    """
    _, lines, inner = bits.shape
    tiles = (lines + TILE - 1) // TILE
    buffer, tally = np.empty(TILE, np.int64), np.empty(TILE, np.int64)
    for job in range(begin, end):
        b, start = job // tiles, job % tiles * TILE
        stop = min(start + TILE, lines)
        tally[:] = 0
        if lines_near:
            for h in range(inner):
                source = bits[b, start:stop, h]
                for t in range(stop - start):
                    buffer[t] = source[t]
                _largest(buffer, stop - start, tally)
            for t in range(stop - start):
                largest[b, start + t] = max(largest[b, start + t], tally[t])
        else:
            for i in range(start, stop):
                tally[:] = 0
                for first in range(0, inner, TILE):
                    size = min(TILE, inner - first)
                    source = bits[b, i, first : first + size]
                    for t in range(size):
                        buffer[t] = source[t]
                    _largest(buffer, size, tally)
                largest[b, i] = max(largest[b, i], tally.max())


@kernel(BITS3, BITS2, INT[:, :])
def last_bits(begin, end, bits, enough, last):
    """Exponents of the last set bit of every line, no further down than below `enough`.

    Once a line has a bit below 2^enough it is left: it will be rounded, wherever its last bit is.
    Results are merged into what is there. A job is TILE lines.
    """
    _, lines, inner = bits.shape
    tiles = (lines + TILE - 1) // TILE
    for job in range(begin, end):
        b, start = job // tiles, job % tiles * TILE
        for i in range(start, min(start + TILE, lines)):
            lowest = last[b, i]
            for h in range(inner):
                if lowest < enough[b, i]:
                    break
                magnitude = bits[b, i, h] & MAGNITUDE
                if magnitude:
                    field = magnitude >> 52
                    m = whole_mantissa(magnitude)
                    place = (np.float64(m & -m).view(np.int64) >> 52) - 1023
                    lowest = min(lowest, place + max(field, 1) - 1075)
            last[b, i] = lowest


@njit
def _norms(buffer, top, size, kept, q1, q2):
    """Tallies of q = ceil(|x| 2^(kept - top)) and of q^2."""
    for t in range(size):
        magnitude = buffer[t] & MAGNITUDE
        field = magnitude >> 52
        m = whole_mantissa(magnitude)
        shift = min(top[t] - kept - max(field, 1) + 1075, 62)
        # Negative only where the whole line is subnormal and shorter than `kept` bits.
        right, left = max(shift, 0), max(-shift, 0)
        q = ((m << left) + ((np.int64(1) << right) - 1)) >> right
        q1[t] += q
        q2[t] += q * q


@kernel(BITS3, BOOL, BITS2, BOOL[:, :], INT, INT[:, :], INT[:, :])
def norms(begin, end, bits, lines_near, top, skip, kept, q1, q2):
    """Add q and q^2 over each line that is not skipped (zero or special). A job is TILE lines."""
    _, lines, inner = bits.shape
    tiles = (lines + TILE - 1) // TILE
    buffer, tops = np.empty(TILE, np.int64), np.empty(TILE, np.int64)
    one, two = np.empty(TILE, np.int64), np.empty(TILE, np.int64)
    for job in range(begin, end):
        b, start = job // tiles, job % tiles * TILE
        stop = min(start + TILE, lines)
        one[:], two[:] = 0, 0
        if lines_near:
            for t in range(stop - start):
                tops[t] = top[b, start + t]
            for h in range(inner):
                source, skipped = bits[b, start:stop, h], skip[b, start:stop]
                for t in range(stop - start):
                    buffer[t] = 0 if skipped[t] else source[t]
                _norms(buffer, tops, stop - start, kept, one, two)
            for t in range(stop - start):
                q1[b, start + t] += one[t]
                q2[b, start + t] += two[t]
        else:
            for i in range(start, stop):
                if skip[b, i]:
                    continue
                one[:], two[:], tops[:] = 0, 0, top[b, i]
                for first in range(0, inner, TILE):
                    size = min(TILE, inner - first)
                    source = bits[b, i, first : first + size]
                    for t in range(size):
                        buffer[t] = source[t]
                    _norms(buffer, tops, size, kept, one, two)
                q1[b, i] += one.sum()
                q2[b, i] += two.sum()


@njit
def _lead(bits, top, kept):
    """floor(|x| 2^(kept - top))."""
    magnitude = bits & MAGNITUDE
    field = magnitude >> 52
    m = whole_mantissa(magnitude)
    shift = min(top - kept - max(field, 1) + 1075, 63)
    return np.float32(np.int32((m << max(-shift, 0)) >> max(shift, 0)))


@kernel(BITS3, BOOL, BITS2, BOOL[:, :], INT, BOOL, types.float32[:, :, ::1])
def leads(begin, end, bits, lines_near, top, skip, kept, add, out):
    """Put floor(|x| 2^(kept - top)) into `out`, or add it; skipped lines are 0.

    `out` is (batch, lines, inner), or (batch, inner, lines) with `lines_near`; a job is a row of
    it.
    """
    _, outer, near = out.shape
    for job in range(begin, end):
        b, i = job // outer, job % outer
        target = out[b, i]
        if not add:
            target[:] = 0
        if lines_near:
            source, tops, skipped = bits[b, :, i], top[b], skip[b]
            for t in range(near):
                lead = _lead(source[t], tops[t], kept)
                target[t] += np.float32(0) if skipped[t] else lead
        elif not skip[b, i]:
            source = bits[b, i]
            for t in range(near):
                target[t] += _lead(source[t], top[b, i], kept)


@kernel(
    types.float32[:, :, ::1], FLOAT, INT[:, ::1], INT[:, ::1], BOOL[:, ::1],
    INT[:, ::1], INT[:, ::1], BOOL[:, ::1], INT[::1], BOOL[:, :, ::1],
    instead=FLOAT[:, :, ::1],
)  # fmt: skip
def certify(
    begin, end, lead, factor, row_weight, row_sigma, row_exact,
    column_weight, column_sigma, column_exact, test, uncertified,
):  # fmt: skip
    """Mark the elements whose weights pass floor(lead factor 2^(sigma + tau + shift)).

    `test` is (shift, both, always) of a certificate; lead * factor is a lower bound of the product
    of leading integers, or that product itself. A job is a row.
    """
    _, rows, columns = lead.shape
    for job in range(begin, end):
        b, i = job // rows, job % rows
        for j in range(columns):
            weights = test[2]
            if not column_exact[b, j]:
                weights += row_weight[b, i]
            if not row_exact[b, i]:
                weights += column_weight[b, j]
                if not column_exact[b, j]:
                    weights += test[1]
            shift = row_sigma[b, i] + column_sigma[b, j] + test[0]
            bound = np.int64(np.float64(lead[b, i, j]) * factor)
            if shift < 0:
                bound >>= min(-shift, 63)
            elif bound >> max(62 - shift, 0):
                bound = np.int64(1) << 62  # beyond every weight
            else:
                bound <<= shift
            uncertified[b, i, j] = weights > 0 and weights > bound
