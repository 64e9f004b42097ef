"""Which elements keep their contract: `bounds.Certificate` of rows and columns."""

from __future__ import annotations

import numpy as np
from numba import types

from widen.cpu.kernels.cache import BITS2, BITS3, BOOL, FLOAT, INT, device, kernel
from widen.cpu.kernels.limbs import MAGNITUDE


@device
def _uncertified(
    total, factor, slack, weight, step, spans, weights, steps, nonzeros, first, stop, near, test,
    marks,
):  # fmt: skip
    """Mark the elements of a row that need more than total factor + slack.

    A total of 0 of lines that are not near may be anything up to the slack. Without branches, so
    that neighbours are done together (0.9 ns an element, and 3 with them).
    """
    some, begin, end, here, always = spans[0], spans[1], spans[2], spans[3], np.int64(slack > 0)
    entry, both, dropped = test[0], test[1], test[2]
    for j in range(marks.shape[0]):
        shared = max(np.int64(0), min(end, stop[j]) - max(begin, first[j]))
        shared = np.float64(min(shared, some, nonzeros[j]))
        most = shared * entry
        needed = min(weight, most) * steps[j] + min(weights[j], most) * step
        needed += (shared * both + dropped) * step * steps[j]
        counts = (total[j] != 0) | ((always | (here & near[j])) == 0)
        marks[j] = (needed > total[j] * factor + slack) & counts


@kernel(
    types.float32[:, :, ::1], FLOAT, FLOAT, FLOAT[:, ::1], FLOAT[:, ::1], INT[:, :, ::1],
    FLOAT[:, ::1], FLOAT[:, ::1], INT[:, :, ::1], FLOAT[::1], BOOL[:, :, ::1],
    instead=FLOAT[:, :, ::1],
)  # fmt: skip
def certify(
    begin, end, total, factor, slack, row_weight, row_step, row_spans,
    column_weight, column_step, column_spans, test, marks,
):  # fmt: skip
    """Mark the elements for which total factor + slack is less than `Certificate.needed`.

    Spans are (4, batch, lines): nonzeros, first and stop of `Weighed`, and whether lines are so
    near that a total of 0 means that there is nothing in it. `test` is (entry, both, dropped) of a
    certificate. A job is a row.
    """
    rows = total.shape[1]
    for job in range(begin, end):
        b, i = job // rows, job % rows
        _uncertified(
            total[b, i], factor, slack, row_weight[b, i], row_step[b, i], row_spans[:, b, i],
            column_weight[b], column_step[b], column_spans[0, b], column_spans[1, b],
            column_spans[2, b], column_spans[3, b], test, marks[b, i],
        )  # fmt: skip


# ── sketches: lower bounds of sorted leading integers, from a histogram of magnitudes ──

TILE = 64  # SKETCH_TILE of the backend: histograms of so many lines stay in a first-level cache
OCTAVES = 6
BINS = 16 * OCTAVES + 1
LEAST_TOP = -1000


@device
def _places(source, base, places):
    """Bins of entries: sixteen an octave below 2^(top + 1), bin 0 for all that is smaller."""
    for t in range(places.shape[0]):
        places[t] = source[t]
    for t in range(places.shape[0]):
        places[t] = min(max(((places[t] & MAGNITUDE) >> 48) - base[t], 0), BINS - 1)


@device
def _base(top):
    """What to take from a float's leading bits to have its bin."""
    return ((top + 1023) << 4) - (BINS - 16)


@device
def _edge(place):
    """The least leading integer floor(|x| 2^(14 - top)) of a bin, whole: 2^5 16 is the smallest."""
    octave, fine = (place - 1) >> 4, (place - 1) & 15
    return np.int64(0) if place == 0 else (16 + fine) << (15 - OCTAVES + octave - 4)


@device
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


@device
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
