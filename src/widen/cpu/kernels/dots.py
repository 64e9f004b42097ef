"""Dot products of single elements in float64: sums of pieces of products, each sum exact.

A product is p + e, exactly. Let g_0 > g_1 > ... be powers of two. The nearest multiple of g_0 is
taken from p, of what is left the nearest multiple of g_1, and so on; e alike. Multiples of g_l are
so small that all of them add up to 2^53 g_l at most (`cpu.dots` says why), so no addition rounds,
in whatever order. What is left after the last is lost, less than half a unit of it each.
"""

from __future__ import annotations

import numpy as np

from widen.cpu.kernels.cache import BITS2, BITS4, BOOL, FLOAT, INT, device, kernel
from widen.cpu.kernels.floats import exact_sum, fma
from widen.cpu.kernels.limbs import MAGNITUDE, times_power
from widen.cpu.kernels.rows import fill_row

TILE = 512  # 128 takes a fifth more: slices are counted
SINGLES = 256
ROUND = 1.5 * 2.0**52  # adding it times g, and taking it away, rounds |x| <= 2^51 g to multiples
LEAST = 2.0**-480  # of numbers whose products, and the errors of these, are above all underflow


@kernel(BITS4, BITS2, INT[::1], INT[::1], FLOAT[:, :, ::1], BOOL[::1], FLOAT[::1])
def scaled(begin, end, bits, top, items, lines, out, small, largest):
    """Lines of a batch, times 2^-top: out[:, at] is line lines[at] of item items[at].

    `bits` are (parts, batch, lines, inner), `out` (parts, picked lines, inner). Lines with a number
    that is not 0 and less than LEAST become `small`; `largest` is that of every line. A job is a
    line.
    """
    parts, inner = out.shape[0], out.shape[2]
    for at in range(begin, end):
        b, i = items[at], lines[at]
        largest[at] = 0.0
        for part in range(parts):
            source, target = bits[part, b, i], out[part, at]
            for h in range(inner):
                target[h] = times_power(source[h], -top[b, i])
            tiny, most = np.int64(0), np.int64(0)
            for h in range(inner):
                tiny |= np.int64(abs(target[h]) < LEAST) & np.int64(source[h] & MAGNITUDE != 0)
                most = max(most, np.float64(target[h]).view(np.int64) & MAGNITUDE)
            small[at] |= tiny != 0
            largest[at] = max(largest[at], np.int64(most).view(np.float64))


@device
def _products(x, y, product, error):
    """Products of two rows, and their errors."""
    for t in range(product.shape[0]):
        p = x[t] * y[t]
        product[t], error[t] = p, fma(x[t], y[t], -p)


@device
def _pieces(rest, shift):
    """Take from numbers their multiples of a unit, by its `ROUND`; the sum of these."""
    total = 0.0
    for t in range(rest.shape[0]):
        piece = (rest[t] + shift) - shift
        total = exact_sum(total, piece)
        rest[t] -= piece
    return total


@device
def _pieces_of_both(product, error, shift):
    """The same for products and errors."""
    total = 0.0
    for t in range(product.shape[0]):
        ours, theirs = (product[t] + shift) - shift, (error[t] + shift) - shift
        total = exact_sum(total, exact_sum(ours, theirs))
        product[t] -= ours
        error[t] -= theirs
    return total


@device
def _left(product, error):
    """Bits that are all 0 if nothing is left."""
    bits = np.int64(0)
    for t in range(product.shape[0]):
        ours, theirs = np.float64(product[t]).view(np.int64), np.float64(error[t]).view(np.int64)
        bits |= (ours | theirs) & MAGNITUDE
    return bits


@kernel(
    FLOAT[:, :, :, ::1], FLOAT[:, :, :, ::1], INT[:, ::1], INT[:, ::1], INT[::1], INT[::1],
    INT[:, :, ::1], FLOAT[::1], FLOAT[:, :, ::1], BOOL[:, ::1],
)  # fmt: skip
def partial_sums(
    begin, end, left, right, row_spans, column_spans, rows, columns, first, units, out, lost
):  # fmt: skip
    """Sums of pieces of the products of left[..., rows[e], :] and right[..., columns[e], :].

    Lines are (words, parts, lines, inner), spans (2, lines). Pieces of products of words x and y
    begin with unit first[x, y, 0], those of their errors with first[x, y, 1]. out[c, part * units +
    l, e] is the sum over a stretch c of the inner dimension, in units[l]; `lost` says whether
    anything is missing in it. Real part: re re - im im, imaginary part: re im + im re. A job is a
    stretch of an element.
    """
    words, parts, _, inner = left.shape
    levels, stretches = units.shape[0], out.shape[0]
    step = (inner + stretches - 1) // stretches
    product, error, sums = np.empty(TILE), np.empty(TILE), np.empty(levels)
    for job in range(begin, end):
        at, c = job // stretches, job % stretches
        i, j = rows[at], columns[at]
        start = max(row_spans[0, i], column_spans[0, j], c * step)
        stop = min(row_spans[1, i], column_spans[1, j], (c + 1) * step)
        rest = np.int64(0)
        for part in range(parts):
            for l in range(levels):
                sums[l] = 0.0
            for x in range(words):
                for y in range(right.shape[0]):
                    if first[x, y, 0] == levels:  # below the last unit
                        rest |= 1
                        continue
                    for q in range(parts):
                        sign = -1.0 if part == 0 and q == 1 else 1.0
                        for h in range(start, stop, TILE):
                            size = min(TILE, stop - h)
                            _products(
                                left[x, q, i, h : h + size], right[y, q ^ part, j, h : h + size],
                                product[:size], error[:size],
                            )  # fmt: skip
                            for l in range(first[x, y, 0], first[x, y, 1]):
                                sums[l] += sign * _pieces(product[:size], ROUND * units[l])
                            for l in range(first[x, y, 1], levels):
                                sums[l] += sign * _pieces_of_both(
                                    product[:size], error[:size], ROUND * units[l]
                                )
                            rest |= _left(product[:size], error[:size])
            for l in range(levels):
                out[c, part * levels + l, at] = sums[l] / units[l]
        lost[c, at] = rest != 0


@kernel(
    FLOAT[:, :, :, ::1], FLOAT[:, :, :, ::1], INT[::1], INT[::1], INT[::1], INT[:, :, ::1],
    FLOAT[::1], FLOAT[:, ::1], BOOL[::1],
)  # fmt: skip
def single_products(begin, end, left, right, rows, columns, places, first, units, out, lost):
    """`partial_sums` of elements that are one product each, at a place; a job is SINGLES of them.

    Neighbouring elements are done together, not the terms of one.
    """
    words, parts = left.shape[0], left.shape[1]
    levels = units.shape[0]
    x, y, product, error = (
        np.empty(SINGLES), np.empty(SINGLES), np.empty(SINGLES), np.empty(SINGLES),
    )  # fmt: skip
    for job in range(begin, end):
        start = job * SINGLES
        size = min(SINGLES, rows.shape[0] - start)
        missing = lost[start : start + size]
        for t in range(size):
            missing[t] = False
        for l in range(parts * levels):
            fill_row(out[l, start : start + size], 0.0)
        for part in range(parts):
            for of_left in range(words):
                for of_right in range(right.shape[0]):
                    begins = first[of_left, of_right]
                    for q in range(parts):
                        sign = -1.0 if part == 0 and q == 1 else 1.0
                        ours, theirs = left[of_left, q], right[of_right, q ^ part]
                        for t in range(size):
                            h = places[start + t]
                            x[t] = sign * ours[rows[start + t], h]
                            y[t] = theirs[columns[start + t], h]
                        _products(x[:size], y[:size], product[:size], error[:size])
                        for l in range(begins[0], levels):
                            target = out[part * levels + l, start : start + size]
                            _add_pieces(product[:size], units[l], target)
                            if l >= begins[1]:
                                _add_pieces(error[:size], units[l], target)
                        for t in range(missing.shape[0]):
                            missing[t] |= (product[t] != 0.0) | (error[t] != 0.0)


@device
def _add_pieces(rest, unit, target):
    """Take from numbers their multiples of a unit, and add how many to each number's target."""
    shift, inverse = ROUND * unit, 1.0 / unit
    for t in range(target.shape[0]):
        piece = (rest[t] + shift) - shift
        target[t] += piece * inverse
        rest[t] -= piece
