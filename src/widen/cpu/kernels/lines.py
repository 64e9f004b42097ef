"""Rows and columns looked at once: largest magnitude, last bit, integer norms, leading integers.

Entries pass through a short buffer, so that any strides are read in the order that suits them and
the arithmetic runs on neighbours. With `lines_near` (neighbouring lines lie closer in memory than
neighbouring entries of a line) a buffer holds one entry of many lines, otherwise many entries of
one line; either way place t of the buffer feeds place t of the tallies.
"""

from __future__ import annotations

import numpy as np
from numba import types

from widen.cpu.kernels.cache import BITS1, BITS3, BITS4, BOOL, FLOAT, INT, device, kernel
from widen.cpu.kernels.limbs import INFINITY, MAGNITUDE, bit_length, whole_mantissa
from widen.cpu.kernels.loops import copy, largest_of, least_of, place_of, sum_of

TILE = 128  # LINES_TILE of the backend
NORM_BITS = 15  # of bounds
FARTHEST = 48  # of bounds
MOST_EXTRA, MOST_FOR_ZEROS = 54, 6  # of bounds
MOST_FILL = 4  # of bounds
LEAST_NORMAL_TOP = -1022 + FARTHEST  # of lines whose subnormal entries are all as far as that
NOTHING = np.int64(-(1 << 20))


@device
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
                top[b, i] = max(top[b, i], largest_of(tops))
                last[b, i] = min(last[b, i], least_of(lasts))
                special[b, i] |= largest_of(largest) >= INFINITY


@device
def _largest(buffer, size, largest):
    """Tallies of the largest magnitude's bits."""
    for t in range(size):
        largest[t] = max(largest[t], buffer[t] & MAGNITUDE)


@device
def _norms(buffer, top, size, q1, q2, nonzeros, distances, least):
    """Tallies of q = ceil(|x| 2^(NORM_BITS - top)), of q^2, of entries and of their distances.

    Distances are those of `bounds.extra_bits`, of lines up from LEAST_NORMAL_TOP. The least
    exponent is that of the fields alone.
    """
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
        nonzeros[t] += np.int64(magnitude != 0)
        distances[t] += min(top[t] + 1023 - field, FARTHEST) if magnitude != 0 else 0
        least[t] = min(least[t], field - 1023 if magnitude != 0 else -NOTHING)


@device
def _distances(bits, b, i, top):
    """The sum of distances of a line of any numbers."""
    parts, _, _, inner = bits.shape
    total = np.int64(0)
    for p in range(parts):
        line = bits[p, b, i]
        for h in range(inner):
            magnitude = line[h] & MAGNITUDE
            if magnitude:
                total += min(top - first_bit(magnitude), FARTHEST)
    return total


@device
def _is_zero(bits, b, i, h):
    """Whether an entry is 0 in all its parts."""
    found = np.int64(0)
    for p in range(bits.shape[0]):
        found |= bits[p, b, i, h] & MAGNITUDE
    return found == 0


@device
def _span(bits, b, i):
    """Where the first entry of a line is that is not 0, and where there are no more."""
    first, stop = np.int64(0), np.int64(bits.shape[3])
    while first < stop and _is_zero(bits, b, i, first):
        first += 1
    while first < stop and _is_zero(bits, b, i, stop - 1):
        stop -= 1
    return (first, stop) if first < stop else (np.int64(0), np.int64(0))


@device
def first_bit(magnitude):
    """Exponent of the highest bit of a finite float64 that is not 0, given by its bits."""
    return bit_length(whole_mantissa(magnitude)) + max(magnitude >> 52, 1) - 1076


@device
def ceil_sqrt(square):
    """ceil(sqrt(x)) of an integer below 2^62."""
    root = np.int64(np.sqrt(np.float64(square)))
    while root * root > square:
        root -= 1
    while root * root < square:
        root += 1
    return root


@device
def floor_log2_ratio(numerator, denominator):
    """`bounds.floor_log2_ratio` for positive integers below 2^53."""
    ours, theirs = bit_length(numerator), bit_length(denominator)
    less = numerator << (53 - ours) < denominator << (53 - theirs)
    return ours - theirs - np.int64(less)


@device
def _log2_in_256ths(x):
    """`bounds.log2_in_256ths`, of positive integers below 2^62."""
    place = np.int64(0)
    while x >> (place + 1):
        place += 1
    leading = x >> (place - 8) if place >= 8 else x << (8 - place)
    return (place << 8) + leading - 256


@device
def _extra_bits(q1, q2, nonzeros, distances, entries):
    """`bounds.extra_bits`."""
    one, two = _log2_in_256ths(q1), _log2_in_256ths(q2)
    rho = (_log2_in_256ths(entries) + two - 2 * one + 128) >> 8
    empty = _log2_in_256ths(entries) - _log2_in_256ths(nonzeros)
    more = min(max((2 * empty - 256) >> 8, 0), MOST_FOR_ZEROS)
    if 2 * one >= _log2_in_256ths(min(64, max(entries // 4, 1))) + two:
        return max(0, rho - 2) + more
    d = 256 * distances // nonzeros + one - _log2_in_256ths(nonzeros) - 256 * NORM_BITS
    wanted = (5 * d >> 10) + 2
    return min(max(0, rho - 1, wanted if wanted <= MOST_EXTRA else 0) + more, MOST_EXTRA)


@device
def _filled_up(sigma, q2, rungs):
    """`bounds.filled_up`."""
    norm = 256 * (sigma - NORM_BITS) + (_log2_in_256ths(q2) + 24) // 2
    at = place_of(rungs, norm)
    return sigma + (min((rungs[at] - norm) // 256, MOST_FILL) if at < rungs.shape[0] else 0)


@device
def _wanted(top, q1, q2, nonzeros, distances, goal):
    """The exponent that a goal asks for: (norm, root, shift, full, spread, *rungs)."""
    if q1 == 0:
        return np.int64(0)
    norm = q1 if goal[0] == 1 else ceil_sqrt(q2)
    sigma = floor_log2_ratio(goal[1], norm) + goal[2] + NORM_BITS
    if goal[4]:
        sigma += _extra_bits(q1, q2, nonzeros, distances, goal[4])
    return _filled_up(sigma, q2, goal[5:]) - top


@device
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


TOP, LAST, ONE, TWO, NONZEROS, DISTANCES, FIRST, STOP, LEAST = range(9)  # fields of a survey


@device
def _wanted_by(facts, b, i, goal):
    """The exponent that a goal asks for, for a line that was looked at."""
    return _wanted(
        facts[TOP, b, i], facts[ONE, b, i], facts[TWO, b, i], facts[NONZEROS, b, i],
        facts[DISTANCES, b, i], goal,
    )  # fmt: skip


@kernel(BITS4, BOOL, INT[::1], INT[:, :, :], BOOL[:, :])
def survey(begin, end, bits, lines_near, goal, facts, special):
    """All that is known of lines before they are scaled (`Survey`); a job is TILE lines.

    `bits` is (parts, batch, lines, inner), `facts` (fields, batch, lines). Last bits are looked for
    as far as the goal may keep them; with a norm of 0, not at all.
    """
    top, last, q1, q2 = facts[TOP], facts[LAST], facts[ONE], facts[TWO]
    nonzeros, distances = facts[NONZEROS], facts[DISTANCES]
    parts, _, lines, inner = bits.shape
    tiles = (lines + TILE - 1) // TILE
    buffer, tops = np.empty(TILE, np.int64), np.empty(TILE, np.int64)
    # A short line fills a part of the buffer only.
    used = TILE if lines_near else max(min(TILE, inner), 1)
    one, two = np.empty(used, np.int64), np.empty(used, np.int64)
    many, far, low = (
        np.empty(used, np.int64), np.empty(used, np.int64), np.empty(used, np.int64),
    )  # fmt: skip
    for job in range(begin, end):
        b, start = job // tiles, job % tiles * TILE
        stop = min(start + TILE, lines)
        if lines_near:
            one[:] = 0
            for p in range(parts):
                for h in range(inner):
                    copy(bits[p, b, start:stop, h], buffer[: stop - start])
                    _largest(buffer, stop - start, one)
            for t in range(stop - start):
                special[b, start + t] = one[t] >= INFINITY
                tops[t] = NOTHING if special[b, start + t] or one[t] == 0 else first_bit(one[t])
            one[:], two[:], many[:], far[:], low[:] = 0, 0, 0, 0, -NOTHING
            for p in range(parts):
                for h in range(inner):
                    source = bits[p, b, start:stop, h]
                    for t in range(stop - start):
                        buffer[t] = 0 if tops[t] == NOTHING else source[t]
                    _norms(buffer, tops, stop - start, one, two, many, far, low)
            for t in range(stop - start):
                top[b, start + t], q1[b, start + t], q2[b, start + t] = tops[t], one[t], two[t]
                nonzeros[b, start + t], distances[b, start + t] = many[t], far[t]
                facts[LEAST, b, start + t] = low[t]
        else:
            for i in range(start, stop):
                one[:] = 0
                for p in range(parts):
                    for first in range(0, inner, TILE):
                        size = min(TILE, inner - first)
                        copy(bits[p, b, i, first : first + size], buffer[:size])
                        _largest(buffer, size, one)
                largest = largest_of(one)
                special[b, i] = largest >= INFINITY
                nothing = special[b, i] or largest == 0
                top[b, i] = NOTHING if nothing else first_bit(largest)
                one[:], two[:], many[:], far[:], low[:] = 0, 0, 0, 0, -NOTHING
                tops[:used] = top[b, i]
                for p in range(0 if nothing else parts):
                    for first in range(0, inner, TILE):
                        size = min(TILE, inner - first)
                        copy(bits[p, b, i, first : first + size], buffer[:size])
                        _norms(buffer, tops, size, one, two, many, far, low)
                q1[b, i], q2[b, i] = sum_of(one), sum_of(two)
                nonzeros[b, i], distances[b, i] = sum_of(many), sum_of(far)
                facts[LEAST, b, i] = least_of(low)
        for i in range(start, stop):
            facts[FIRST, b, i], facts[STOP, b, i] = 0, 0
            if top[b, i] == NOTHING:
                top[b, i], last[b, i] = 0, 0
                continue
            facts[FIRST, b, i], facts[STOP, b, i] = _span(bits, b, i)
            if top[b, i] < LEAST_NORMAL_TOP:
                distances[b, i] = _distances(bits, b, i, top[b, i])
            if goal[0]:
                enough = -_wanted_by(facts, b, i, goal)
                last[b, i] = _last_bit(bits, b, i, enough)


@kernel(BITS4, INT[::1], BITS3, INT[:, ::1])
def last_bits(begin, end, bits, goal, facts, last):
    """Last set bits of one word of every line, merged into `last`; a job is TILE lines.

    As far as the goal may keep them, as in `survey`.
    """
    _, _, lines, _ = bits.shape
    tiles = (lines + TILE - 1) // TILE
    for job in range(begin, end):
        b, start = job // tiles, job % tiles * TILE
        for i in range(start, min(start + TILE, lines)):
            if facts[ONE, b, i] == 0:
                last[b, i] = 0
                continue
            enough = -_wanted_by(facts, b, i, goal)
            if last[b, i] >= enough:
                last[b, i] = min(last[b, i], _last_bit(bits, b, i, enough))


@kernel(
    BITS3, types.Array(BOOL, 2, "A", readonly=True), INT[::1], INT[:, ::1], BOOL[:, ::1],
    FLOAT[:, ::1],
)  # fmt: skip
def scale(begin, end, facts, special, goal, exponents, exact, norm):
    """Exponents of lines, whether they lose nothing, and log2 of their 2-norms after scaling.

    An exponent is what the goal asks for, but unless that wants full lines no further than the
    line's last bit; a job is a batch item.
    """
    for b in range(begin, end):
        for i in range(facts.shape[2]):
            exponents[b, i], exact[b, i] = -facts[LAST, b, i], True
            if goal[0] and facts[ONE, b, i] > 0:
                wanted = _wanted_by(facts, b, i, goal)
                exact[b, i] = wanted >= exponents[b, i]
                exponents[b, i] = wanted if goal[3] else min(wanted, exponents[b, i])
            if special[b, i]:
                exponents[b, i] = NOTHING
            norm[b, i] = -np.inf
            if facts[TWO, b, i] > 0:
                length = 0.5 * np.log2(facts[TWO, b, i])
                norm[b, i] = exponents[b, i] + facts[TOP, b, i] - NORM_BITS + length
