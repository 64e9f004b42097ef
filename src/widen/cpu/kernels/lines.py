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
from widen.cpu.kernels.goals import reads_distances, wanted
from widen.cpu.kernels.limbs import (
    INFINITY,
    MAGNITUDE,
    bit_length,
    power_of_two,
    whole_mantissa,
)
from widen.cpu.kernels.loops import alive, borrowed, largest_of, least_of, side_by_side
from widen.cpu.kernels.tallies import (
    BLOCK,
    DEPTH,
    FARTHEST,
    MOST_ROWS,
    NORM_BITS,
    STRETCH,
    fields,
    fields_of_lines,
    first_bit,
    norms,
    norms_of_any,
    norms_of_lines,
    ranges,
    ranges_of_lines,
    row,
)

TILE = 128  # LINES_TILE of the backend
LEAST_NORMAL_TOP = -1022 + FARTHEST  # of lines whose subnormal entries are all as far as that
NOTHING = np.int64(-(1 << 20))
FAR = 1000  # powers of two by which magnitudes may be scaled in float64


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
    any_bits = np.int64(0)
    for p in range(bits.shape[0]):
        any_bits |= bits[p, b, i, h] & MAGNITUDE
    return any_bits == 0


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
    return wanted(
        facts[TOP, b, i], facts[ONE, b, i], facts[TWO, b, i], facts[NONZEROS, b, i],
        facts[DISTANCES, b, i], goal,
    )  # fmt: skip


@device
def _begin(facts, special, b, i, most, least, count):
    """What follows of a line from its range; its scale, by which norms can be had in float64.

    That is 0 if there is nothing in it, or if numbers are subnormal or too far apart.
    """
    for fact in range(facts.shape[0]):
        facts[fact, b, i] = 0
    special[b, i] = most >= INFINITY
    if special[b, i] or most == 0:
        facts[TOP, b, i], facts[LEAST, b, i] = NOTHING, -NOTHING
        return 0.0
    top, bottom = first_bit(most), (least >> 52) - 1023
    facts[TOP, b, i], facts[LEAST, b, i], facts[NONZEROS, b, i] = top, bottom, count
    narrow = bottom > -1023 and abs(top) <= FAR and top - bottom <= FAR
    return power_of_two(NORM_BITS - top) if narrow else 0.0


@device
def _add_norms(facts, b, i, one, two):
    facts[ONE, b, i] += one
    facts[TWO, b, i] += two


@device
def _farthest(facts, b, i, goal):
    """The exponent field from which on entries are at the same distance; 0 if nobody asks."""
    asked = facts[ONE, b, i] > 0 and reads_distances(facts[ONE, b, i], facts[TWO, b, i], goal)
    return facts[TOP, b, i] + 1023 - FARTHEST if asked else np.int64(0)


@device
def _put_distances(facts, b, i, entries, total):
    """Distances, from the sum of fields; entries that are 0 count as the farthest there."""
    zeros = entries - facts[NONZEROS, b, i]
    facts[DISTANCES, b, i] = entries * (facts[TOP, b, i] + 1023) - total - zeros * FARTHEST


@device
def _survey_line(bits, b, i, goal, buffer, facts, special):
    """A survey of one line, but for its span and its last bit."""
    parts, _, _, inner = bits.shape
    most, least, count = np.int64(0), MAGNITUDE, np.int64(0)
    for p in range(parts):
        for h in range(0, inner, STRETCH):
            one, two, more = ranges(side_by_side(bits[p, b, i, h : h + STRETCH], buffer))
            most, least, count = max(most, one), min(least, two), count + more
    scale = _begin(facts, special, b, i, most, least, count)
    for p in range(parts if scale > 0 else 0):
        for h in range(0, inner, STRETCH):
            one, two = norms(side_by_side(bits[p, b, i, h : h + STRETCH], buffer), scale)
            _add_norms(facts, b, i, one, two)
    if scale == 0:
        _norms_of_any(bits, b, i, facts)
    farthest, total = _farthest(facts, b, i, goal), np.int64(0)
    if farthest > 0:
        for p in range(parts):
            for h in range(0, inner, STRETCH):
                total += fields(side_by_side(bits[p, b, i, h : h + STRETCH], buffer), farthest)
        _put_distances(facts, b, i, parts * inner, total)


@device
def _survey_tile(bits, b, start, stop, goal, buffer, tallies, sums, scale, far, facts, special):
    """The same of neighbouring lines, BLOCK at most."""
    parts, _, _, inner = bits.shape
    for t in range(BLOCK):
        tallies[t], tallies[t + BLOCK], tallies[t + 2 * BLOCK] = 0, MAGNITUDE, 0
    for p in range(parts):
        lines = bits[p, b]
        for h in range(0, inner, DEPTH):
            ranges_of_lines(
                row(lines, start, stop, h, 0, buffer), row(lines, start, stop, h, 1, buffer),
                row(lines, start, stop, h, 2, buffer), row(lines, start, stop, h, 3, buffer),
                tallies,
            )  # fmt: skip
    for i in range(start, stop):
        t = i - start
        most, least, count = tallies[t], tallies[t + BLOCK], tallies[t + 2 * BLOCK]
        scale[t] = _begin(facts, special, b, i, most, least, count)
        if scale[t] == 0:
            _norms_of_any(bits, b, i, facts)
    for p in range(parts):
        lines = bits[p, b]
        for first in range(0, inner, MOST_ROWS):
            for t in range(2 * BLOCK):
                sums[t] = 0.0
            for h in range(first, min(first + MOST_ROWS, inner), DEPTH):
                norms_of_lines(
                    row(lines, start, stop, h, 0, buffer), row(lines, start, stop, h, 1, buffer),
                    row(lines, start, stop, h, 2, buffer), row(lines, start, stop, h, 3, buffer),
                    scale, sums,
                )  # fmt: skip
            for i in range(start, stop):
                if scale[i - start] > 0:
                    one, two = np.int64(sums[i - start]), np.int64(sums[i - start + BLOCK])
                    _add_norms(facts, b, i, one, two)
    asked = np.int64(0)
    for i in range(start, stop):
        far[i - start], tallies[i - start] = _farthest(facts, b, i, goal), 0
        asked = max(asked, far[i - start])
    for p in range(parts if asked else 0):
        lines = bits[p, b]
        for h in range(0, inner, DEPTH):
            fields_of_lines(
                row(lines, start, stop, h, 0, buffer), row(lines, start, stop, h, 1, buffer),
                row(lines, start, stop, h, 2, buffer), row(lines, start, stop, h, 3, buffer),
                far, tallies,
            )  # fmt: skip
    beyond = parts * (-inner % DEPTH)  # zeros after the last entries
    for i in range(start, stop):
        if far[i - start] > 0:
            total = tallies[i - start] - beyond * far[i - start]
            _put_distances(facts, b, i, parts * inner, total)


@device
def _norms_of_any(bits, b, i, facts):
    """Norms of a line of any range."""
    top = facts[TOP, b, i]
    for p in range(bits.shape[0] if top != NOTHING else 0):
        one, two = norms_of_any(bits[p, b, i], top)
        _add_norms(facts, b, i, one, two)


@kernel(BITS4, BOOL, INT[::1], INT[:, :, :], BOOL[:, :])
def survey(begin, end, bits, lines_near, goal, facts, special):
    """All that is known of lines before they are scaled (`Survey`).

    `bits` is (parts, batch, lines, inner), `facts` (fields, batch, lines). Last bits are looked for
    as far as the goal may keep them; with a norm of 0, not at all. Distances are there if the goal
    reads them, or may. A job is TILE lines, or BLOCK with `lines_near`.
    """
    bits, lines, tile = borrowed(bits), bits.shape[2], BLOCK if lines_near else TILE
    tiles = (lines + tile - 1) // tile
    buffer = np.zeros((DEPTH + 1) * BLOCK, np.int64)
    tallies, far = np.zeros(3 * BLOCK, np.int64), np.zeros(BLOCK, np.int64)
    sums, scale = np.zeros(2 * BLOCK), np.zeros(BLOCK)
    for job in range(begin, end):
        b, start = job // tiles, job % tiles * tile
        stop = min(start + tile, lines)
        if lines_near:
            _survey_tile(
                bits, b, start, stop, goal, borrowed(buffer), tallies, sums, scale, far, facts,
                special,
            )  # fmt: skip
        else:
            for i in range(start, stop):
                _survey_line(bits, b, i, goal, buffer, facts, special)
        for i in range(start, stop):
            top = facts[TOP, b, i]
            if top == NOTHING:
                facts[TOP, b, i] = 0
                continue
            facts[FIRST, b, i], facts[STOP, b, i] = _span(bits, b, i)
            if top < LEAST_NORMAL_TOP:
                facts[DISTANCES, b, i] = _distances(bits, b, i, top)
            if goal[0]:
                facts[LAST, b, i] = _last_bit(bits, b, i, -_wanted_by(facts, b, i, goal))
    alive(buffer)


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
                sigma = _wanted_by(facts, b, i, goal)
                exact[b, i] = sigma >= exponents[b, i]
                exponents[b, i] = sigma if goal[3] else min(sigma, exponents[b, i])
            if special[b, i]:
                exponents[b, i] = NOTHING
            norm[b, i] = -np.inf
            if facts[TWO, b, i] > 0:
                length = 0.5 * np.log2(facts[TWO, b, i])
                norm[b, i] = exponents[b, i] + facts[TOP, b, i] - NORM_BITS + length
