"""Rows and columns looked at once: largest magnitude, last bit, integer norms, leading integers.

Entries pass through a short buffer, so that any strides are read in the order that suits them and
the arithmetic runs on neighbours. With `lines_near` (neighbouring lines lie closer in memory than
neighbouring entries of a line) a buffer holds one entry of many lines, otherwise many entries of
one line; either way place t of the buffer feeds place t of the tallies.
"""

from __future__ import annotations

import numpy as np
from numba import njit, types

from widen.cpu.kernels.cache import BITS1, BITS2, BITS3, BITS4, BOOL, FLOAT, INT, kernel
from widen.cpu.kernels.limbs import INFINITY, MAGNITUDE, bit_length, times_power, whole_mantissa

TILE = 128  # LINES_TILE of the backend
NORM_BITS = 15  # of bounds
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
def _copy(source, buffer):
    """Entries of any strides side by side."""
    for t in range(buffer.shape[0]):
        buffer[t] = source[t]


@njit
def _largest(buffer, size, largest):
    """Tallies of the largest magnitude's bits."""
    for t in range(size):
        largest[t] = max(largest[t], buffer[t] & MAGNITUDE)


@njit
def _norms(buffer, top, size, q1, q2):
    """Tallies of q = ceil(|x| 2^(NORM_BITS - top)) and of q^2."""
    for t in range(size):
        magnitude = buffer[t] & MAGNITUDE
        field = magnitude >> 52
        m = whole_mantissa(magnitude)
        shift = min(top[t] - NORM_BITS - max(field, 1) + 1075, 62)
        # Negative only where the whole line is subnormal and shorter than NORM_BITS bits.
        right, left = max(shift, 0), max(-shift, 0)
        q = ((m << left) + ((np.int64(1) << right) - 1)) >> right
        q1[t] += q
        q2[t] += q * q


@njit
def first_bit(magnitude):
    """Exponent of the highest bit of a finite float64 that is not 0, given by its bits."""
    return bit_length(whole_mantissa(magnitude)) + max(magnitude >> 52, 1) - 1076


@njit
def ceil_sqrt(square):
    """ceil(sqrt(x)) of an integer below 2^62."""
    root = np.int64(np.sqrt(np.float64(square)))
    while root * root > square:
        root -= 1
    while root * root < square:
        root += 1
    return root


@njit
def floor_log2_ratio(numerator, denominator):
    """`bounds.floor_log2_ratio` for positive integers below 2^53."""
    ours, theirs = bit_length(numerator), bit_length(denominator)
    less = numerator << (53 - ours) < denominator << (53 - theirs)
    return ours - theirs - np.int64(less)


@njit
def _wanted(top, q1, q2, goal):
    """The exponent that a goal (norm, root, shift, full) asks for."""
    norm = q1 if goal[0] == 1 else ceil_sqrt(q2)
    return floor_log2_ratio(goal[1], max(norm, 1)) + goal[2] + NORM_BITS - top


@njit
def _last_bit(bits, b, i, enough):
    """Exponent of the last set bit of a line, no further down than below `enough`.

    Once a line has a bit below 2^enough it is left: it will be rounded, wherever its last bit is.
    """
    parts, _, _, inner = bits.shape
    lowest = -NOTHING
    for p in range(parts):
        line = bits[p, b, i]
        for h in range(inner):
            magnitude = line[h] & MAGNITUDE
            if magnitude:
                m = whole_mantissa(magnitude)
                lowest = min(lowest, bit_length(m & -m) + max(magnitude >> 52, 1) - 1076)
                if lowest < enough:
                    return lowest
    return lowest


@kernel(BITS4, BOOL, INT[::1], INT[:, :], INT[:, :], INT[:, :], INT[:, :], BOOL[:, :])
def survey(begin, end, bits, lines_near, goal, top, last, q1, q2, special):
    """All that is known of lines before they are scaled (`Survey`); a job is TILE lines.

    `bits` is (parts, batch, lines, inner). Last bits are looked for as far as the goal
    (norm, root, shift, full) may keep them; with a norm of 0, not at all.
    """
    parts, _, lines, inner = bits.shape
    tiles = (lines + TILE - 1) // TILE
    buffer, tops = np.empty(TILE, np.int64), np.empty(TILE, np.int64)
    # A short line fills a part of the buffer only.
    used = TILE if lines_near else max(min(TILE, inner), 1)
    one, two = np.empty(used, np.int64), np.empty(used, np.int64)
    for job in range(begin, end):
        b, start = job // tiles, job % tiles * TILE
        stop = min(start + TILE, lines)
        if lines_near:
            one[:] = 0
            for p in range(parts):
                for h in range(inner):
                    _copy(bits[p, b, start:stop, h], buffer[: stop - start])
                    _largest(buffer, stop - start, one)
            for t in range(stop - start):
                special[b, start + t] = one[t] >= INFINITY
                tops[t] = NOTHING if special[b, start + t] or one[t] == 0 else first_bit(one[t])
            one[:], two[:] = 0, 0
            for p in range(parts):
                for h in range(inner):
                    source = bits[p, b, start:stop, h]
                    for t in range(stop - start):
                        buffer[t] = 0 if tops[t] == NOTHING else source[t]
                    _norms(buffer, tops, stop - start, one, two)
            for t in range(stop - start):
                top[b, start + t], q1[b, start + t], q2[b, start + t] = tops[t], one[t], two[t]
        else:
            for i in range(start, stop):
                one[:] = 0
                for p in range(parts):
                    for first in range(0, inner, TILE):
                        size = min(TILE, inner - first)
                        _copy(bits[p, b, i, first : first + size], buffer[:size])
                        _largest(buffer, size, one)
                largest = one.max()
                special[b, i] = largest >= INFINITY
                nothing = special[b, i] or largest == 0
                top[b, i] = NOTHING if nothing else first_bit(largest)
                one[:], two[:], tops[:used] = 0, 0, top[b, i]
                for p in range(0 if nothing else parts):
                    for first in range(0, inner, TILE):
                        size = min(TILE, inner - first)
                        _copy(bits[p, b, i, first : first + size], buffer[:size])
                        _norms(buffer, tops, size, one, two)
                q1[b, i], q2[b, i] = one.sum(), two.sum()
        for i in range(start, stop):
            if top[b, i] == NOTHING:
                top[b, i], last[b, i] = 0, 0
            elif goal[0]:
                enough = -_wanted(top[b, i], q1[b, i], q2[b, i], goal)
                last[b, i] = _last_bit(bits, b, i, enough)


@kernel(BITS4, INT[::1], BITS2, BITS2, BITS2, INT[:, ::1])
def last_bits(begin, end, bits, goal, top, q1, q2, last):
    """Last set bits of one word of every line, merged into `last`; a job is TILE lines.

    As far as the goal may keep them, as in `survey`.
    """
    _, _, lines, _ = bits.shape
    tiles = (lines + TILE - 1) // TILE
    for job in range(begin, end):
        b, start = job // tiles, job % tiles * TILE
        for i in range(start, min(start + TILE, lines)):
            if q1[b, i] == 0:
                last[b, i] = 0
                continue
            enough = -_wanted(top[b, i], q1[b, i], q2[b, i], goal)
            if last[b, i] >= enough:
                last[b, i] = min(last[b, i], _last_bit(bits, b, i, enough))


@kernel(
    BITS2, BITS2, BITS2, BITS2, types.Array(BOOL, 2, "A", readonly=True), INT[::1],
    INT[:, ::1], BOOL[:, ::1], FLOAT[:, ::1],
)  # fmt: skip
def scale(begin, end, top, last, q1, q2, special, goal, exponents, exact, norm):
    """Exponents of lines, whether they lose nothing, and log2 of their 2-norms after scaling.

    An exponent is what the goal asks for, but unless that wants full lines no further than the
    line's last bit; a job is a batch item.
    """
    for b in range(begin, end):
        for i in range(top.shape[1]):
            exponents[b, i], exact[b, i] = -last[b, i], True
            if goal[0] and q1[b, i] > 0:
                wanted = _wanted(top[b, i], q1[b, i], q2[b, i], goal)
                exact[b, i] = wanted >= exponents[b, i]
                exponents[b, i] = wanted if goal[3] else min(wanted, exponents[b, i])
            if special[b, i]:
                exponents[b, i] = NOTHING
            norm[b, i] = -np.inf
            if q2[b, i] > 0:
                norm[b, i] = exponents[b, i] + top[b, i] - NORM_BITS + 0.5 * np.log2(q2[b, i])


@njit
def _leads(buffer, shift, add, out):
    """Put floor(|x| 2^shift), or 0 for what is not finite, into `out`, or add it."""
    for t in range(out.shape[0]):
        lead = np.floor(abs(times_power(buffer[t], shift[t])))
        lead = lead if buffer[t] & MAGNITUDE < INFINITY else 0.0
        out[t] = np.float32(lead) + (out[t] if add else np.float32(0))


@kernel(BITS3, BOOL, BITS2, BOOL[:, :], INT, BOOL, types.float32[:, :, ::1])
def leads(begin, end, bits, lines_near, top, skip, kept, add, out):
    """Put floor(|x| 2^(kept - top)) into `out`, or add it; skipped lines are 0.

    `out` is (batch, lines, inner), or (batch, inner, lines) with `lines_near`; a job is a row of
    it.
    """
    _, outer, near = out.shape
    buffer, shift = np.empty(TILE, np.int64), np.empty(TILE, np.int64)
    for job in range(begin, end):
        b, i = job // outer, job % outer
        for start in range(0, near, TILE):
            size = min(TILE, near - start)
            here = slice(start, start + size)
            if lines_near:
                _copy(bits[b, here, i], buffer[:size])
                tops, skipped = top[b, here], skip[b, here]
                for t in range(size):
                    shift[t] = NOTHING if skipped[t] else kept - tops[t]
            else:
                _copy(bits[b, i, here], buffer[:size])
                shift[:size] = NOTHING if skip[b, i] else kept - top[b, i]
            _leads(buffer[:size], shift[:size], add, out[b, i, here])
