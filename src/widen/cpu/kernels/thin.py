"""Lines multiplied as they are written: digits or magnitudes that never reach memory.

For products one side of which has few lines. A stretch of a line, or one entry of many lines and of
their next neighbours, becomes digits in a buffer that a first-level cache holds, and is multiplied
by the other side's planes at once. Sums are kept in as many places as the buffer has columns, so
that neighbours are done together; all of them are exact, in whatever order.
"""

from __future__ import annotations

import numpy as np

from widen.cpu.kernels.cache import BITS2, BITS4, BOOL, FLOAT, INT, device, kernel
from widen.cpu.kernels.limbs import INFINITY, MAGNITUDE, power_of_two
from widen.cpu.kernels.loops import copy, largest_of
from widen.cpu.kernels.magnitudes import SHORT, TINY

TILE = 128  # columns of sums
DEPTH = 4  # rows of a buffer that are added up before they are added to the sums
STRETCH = DEPTH * TILE  # STRETCH of the backend
SEGMENT = 128 * STRETCH  # SEGMENT of the backend


@device
def _scaled(source, first, second, out):
    """Put x first second into `out`, with 0 for what is not finite."""
    for t in range(source.shape[0]):
        x = np.int64(source[t]).view(np.float64) * first[t] * second[t]
        out[t] = x if source[t] & MAGNITUDE < INFINITY else 0.0


@device
def _digits(rest, step, inverse, low):
    """Round to an integer, of which the lowest digit goes to `low` and the others stay."""
    for t in range(low.shape[0]):
        whole = np.rint(rest[t])
        high = np.rint(whole * inverse)
        low[t], rest[t] = whole - high * step, high


@device
def _round(rest):
    """Round to integers."""
    for t in range(rest.shape[0]):
        rest[t] = np.rint(rest[t])


@device
def _short(x, add, out):
    """Magnitudes rounded down to 8 bits (`magnitudes.magnitudes`) into `out`, or added to it."""
    for t in range(x.shape[0]):
        y = abs(x[t])
        short = np.int64(np.float64(y).view(np.int64) & SHORT).view(np.float64)
        out[t] = (short if y >= TINY else 0.0) + (out[t] if add else 0.0)


@device
def _write(source, first, second, part, parts, beta, planes):
    """Digits of one part of the numbers into its planes; or magnitudes, if beta is 0."""
    if beta == 0:
        _scaled(source, first, second, planes[1])
        _short(planes[1], part > 0, planes[0])
        return
    count = planes.shape[0] // parts
    rest = planes[part * count + count - 1]
    _scaled(source, first, second, rest)
    step, inverse = power_of_two(beta), power_of_two(-beta)
    for d in range(count - 1):
        _digits(rest, step, inverse, planes[part * count + d])
    _round(rest)


@device
def _add_lines(sums, ours, theirs):
    """Add products of two stretches, DEPTH at a time."""
    for t in range(TILE):
        sums[t] += (ours[t] * theirs[t] + ours[t + TILE] * theirs[t + TILE]) + (
            ours[t + 2 * TILE] * theirs[t + 2 * TILE] + ours[t + 3 * TILE] * theirs[t + 3 * TILE]
        )


@device
def _add_entries(sums, ours, a, b, c, d):
    """Add DEPTH entries of every line, each times one number."""
    for t in range(TILE):
        sums[t] += (ours[t] * a + ours[t + TILE] * b) + (
            ours[t + 2 * TILE] * c + ours[t + 3 * TILE] * d
        )


@device
def _three(bits, first, second, step, inverse):
    """Three digits of a number, lowest first."""
    x = np.int64(bits).view(np.float64) * first * second
    whole = np.rint(x) if bits & MAGNITUDE < INFINITY else 0.0
    high = np.rint(whole * inverse)
    top = np.rint(high * inverse)
    return whole - high * step, high - top * step, top


@device
def _nine_of_lines(sums, source, first, second, step, inverse, low, middle, top):
    """All products of three digits and three planes, which never leave the registers."""
    for t in range(TILE):
        a, b, c = _three(source[t], first, second, step, inverse)
        d, e, f = _three(source[t + TILE], first, second, step, inverse)
        g, h, i = _three(source[t + 2 * TILE], first, second, step, inverse)
        j, k, l = _three(source[t + 3 * TILE], first, second, step, inverse)
        w, x, y, z = low[t], low[t + TILE], low[t + 2 * TILE], low[t + 3 * TILE]
        sums[t] += (a * w + d * x) + (g * y + j * z)
        sums[t + 3 * TILE] += (b * w + e * x) + (h * y + k * z)
        sums[t + 6 * TILE] += (c * w + f * x) + (i * y + l * z)
        w, x, y, z = middle[t], middle[t + TILE], middle[t + 2 * TILE], middle[t + 3 * TILE]
        sums[t + TILE] += (a * w + d * x) + (g * y + j * z)
        sums[t + 4 * TILE] += (b * w + e * x) + (h * y + k * z)
        sums[t + 7 * TILE] += (c * w + f * x) + (i * y + l * z)
        w, x, y, z = top[t], top[t + TILE], top[t + 2 * TILE], top[t + 3 * TILE]
        sums[t + 2 * TILE] += (a * w + d * x) + (g * y + j * z)
        sums[t + 5 * TILE] += (b * w + e * x) + (h * y + k * z)
        sums[t + 8 * TILE] += (c * w + f * x) + (i * y + l * z)


@device
def _nine_of_entries(sums, source, first, second, step, inverse, low, middle, top):
    """The same for one entry of many lines, and its next neighbours."""
    n, o, p, q = low[0], low[1], low[2], low[3]
    r, s, u, v = middle[0], middle[1], middle[2], middle[3]
    w, x, y, z = top[0], top[1], top[2], top[3]
    for t in range(TILE):
        a, b, c = _three(source[t], first[t], second[t], step, inverse)
        d, e, f = _three(source[t + TILE], first[t], second[t], step, inverse)
        g, h, i = _three(source[t + 2 * TILE], first[t], second[t], step, inverse)
        j, k, l = _three(source[t + 3 * TILE], first[t], second[t], step, inverse)
        sums[t] += (a * n + d * o) + (g * p + j * q)
        sums[t + 3 * TILE] += (b * n + e * o) + (h * p + k * q)
        sums[t + 6 * TILE] += (c * n + f * o) + (i * p + l * q)
        sums[t + TILE] += (a * r + d * s) + (g * u + j * v)
        sums[t + 4 * TILE] += (b * r + e * s) + (h * u + k * v)
        sums[t + 7 * TILE] += (c * r + f * s) + (i * u + l * v)
        sums[t + 2 * TILE] += (a * w + d * x) + (g * y + j * z)
        sums[t + 5 * TILE] += (b * w + e * x) + (h * y + k * z)
        sums[t + 8 * TILE] += (c * w + f * x) + (i * y + l * z)


@device
def _magnitude(bits, first, second):
    """The magnitude of a number, rounded down to 8 bits."""
    x = abs(np.int64(bits).view(np.float64) * first * second)
    short = np.int64(np.float64(x).view(np.int64) & SHORT).view(np.float64)
    return short if x >= TINY and bits & MAGNITUDE < INFINITY else 0.0


@device
def _magnitudes_of_lines(sums, source, first, second, theirs):
    """Products of magnitudes and one plane, as `_nine_of_lines`."""
    for t in range(TILE):
        a = _magnitude(source[t], first, second) * theirs[t]
        b = _magnitude(source[t + TILE], first, second) * theirs[t + TILE]
        c = _magnitude(source[t + 2 * TILE], first, second) * theirs[t + 2 * TILE]
        d = _magnitude(source[t + 3 * TILE], first, second) * theirs[t + 3 * TILE]
        sums[t] += (a + b) + (c + d)


@device
def _magnitudes_of_entries(sums, source, first, second, theirs):
    """The same for one entry of many lines, and its next neighbours."""
    w, x, y, z = theirs[0], theirs[1], theirs[2], theirs[3]
    for t in range(TILE):
        a = _magnitude(source[t], first[t], second[t]) * w
        b = _magnitude(source[t + TILE], first[t], second[t]) * x
        c = _magnitude(source[t + 2 * TILE], first[t], second[t]) * y
        d = _magnitude(source[t + 3 * TILE], first[t], second[t]) * z
        sums[t] += (a + b) + (c + d)


@device
def _powers(shift, first, second):
    """2^shift as a product of two, `times_power`'s."""
    for t in range(shift.shape[0]):
        exponent = min(max(shift[t], -2000), 2000)
        first[t], second[t] = power_of_two(exponent >> 1), power_of_two(exponent - (exponent >> 1))


@kernel(BITS4, BITS2, INT, FLOAT[:, :, :, ::1])
def write(begin, end, bits, shift, beta, planes):
    """Planes (planes, batch, lines, inner) of digits or magnitudes, for `products` to read.

    They end in zeros, at a multiple of STRETCH. A job is a line.
    """
    parts, _, lines, inner = bits.shape
    work = np.zeros((max(planes.shape[0], 2), STRETCH))
    buffer = np.zeros(STRETCH, np.int64)
    first, second = np.ones(STRETCH), np.ones(STRETCH)
    for job in range(begin, end):
        b, i = job // lines, job % lines
        _powers(shift[b, i : i + 1], first[:1], second[:1])
        first[:], second[:] = first[0], second[0]
        for h in range(0, inner, STRETCH):
            size = min(STRETCH, inner - h)
            for p in range(parts):
                copy(bits[p, b, i, h : h + size], buffer[:size])
                buffer[size:] = 0
                _write(buffer, first, second, p, parts, beta, work)
            for q in range(planes.shape[0]):
                copy(work[q], planes[q, b, i][h : h + STRETCH])


@kernel(BITS4, BOOL, BITS2, INT, INT[:, ::1], FLOAT[:, :, :, ::1], FLOAT[:, :, :, :, :])
def products(begin, end, bits, lines_near, shift, beta, pairs, planes, groups):
    """groups[s, g] = sums over a segment s of digits of lines times planes of the other side.

    `bits` are (parts, batch, lines, inner), scaled by 2^shift (batch, lines) and written in digits
    of base 2^beta, or as magnitudes if that is 0; `planes` are those of `write`, of few lines;
    `pairs` are (plane of lines, plane of the others, group), sorted; `groups` (segments, groups,
    batch, lines, few lines). A batch of 1 serves every batch. A job is a segment of a line, or with
    `lines_near` of TILE lines.
    """
    parts, _, lines, inner = bits.shape
    batch, few, count = groups.shape[2], planes.shape[2], pairs.shape[0]
    own = largest_of(pairs[:, 0]) + 1 if beta else np.int64(2)
    nine = beta > 0 and parts == 1 and own == 3 and planes.shape[0] == 3 and count == 9
    one = beta == 0 and parts == 1
    work = np.zeros((own, STRETCH))
    buffer = np.zeros(STRETCH, np.int64)
    sums = np.empty((few, count * TILE))
    first, second = np.ones(STRETCH), np.ones(STRETCH)
    step, inverse = power_of_two(beta), power_of_two(-beta)
    near = TILE if lines_near else 1
    tiles = (lines + near - 1) // near
    for job in range(begin, end):
        s, rest = job // (tiles * batch), job % (tiles * batch)
        b, start = rest // tiles, rest % tiles * near
        stop, last = min(start + near, lines), min((s + 1) * SEGMENT, inner)
        lb, rb = b if bits.shape[1] > 1 else 0, b if planes.shape[1] > 1 else 0
        sums[:] = 0.0
        buffer[:] = 0
        if lines_near:
            for r in range(DEPTH):
                here = slice(r * TILE, r * TILE + stop - start)
                _powers(shift[lb, start:stop], first[here], second[here])
        else:
            _powers(shift[lb, start:stop], first[:1], second[:1])
            first[:], second[:] = first[0], second[0]
        for h in range(s * SEGMENT, last, DEPTH if lines_near else STRETCH):
            for p in range(parts):
                if lines_near:
                    for r in range(DEPTH):
                        target = buffer[r * TILE : r * TILE + stop - start]
                        if h + r < last:
                            copy(bits[p, lb, start:stop, h + r], target)
                        else:
                            target[:] = 0
                else:
                    size = min(STRETCH, last - h)
                    copy(bits[p, lb, start, h : h + size], buffer[:size])
                    buffer[size:] = 0
                if not (nine or one):
                    _write(buffer, first, second, p, parts, beta, work)
            for j in range(few):
                if nine:
                    low, middle, top = (
                        planes[0, rb, j][h:], planes[1, rb, j][h:], planes[2, rb, j][h:],
                    )  # fmt: skip
                    if lines_near:
                        _nine_of_entries(
                            sums[j], buffer, first, second, step, inverse, low, middle, top
                        )
                    else:
                        _nine_of_lines(
                            sums[j], buffer, first[0], second[0], step, inverse, low, middle, top
                        )
                    continue
                if one:
                    theirs = planes[0, rb, j][h:]
                    if lines_near:
                        _magnitudes_of_entries(sums[j], buffer, first, second, theirs)
                    else:
                        _magnitudes_of_lines(sums[j], buffer, first[0], second[0], theirs)
                    continue
                for q in range(count):
                    total, ours = sums[j][q * TILE : (q + 1) * TILE], work[pairs[q, 0]]
                    theirs = planes[pairs[q, 1], rb, j]
                    if lines_near:
                        _add_entries(
                            total, ours, theirs[h], theirs[h + 1], theirs[h + 2], theirs[h + 3]
                        )
                    else:
                        _add_lines(total, ours, theirs[h : h + STRETCH])
        for j in range(few):
            for i in range(start, stop):
                for g in range(groups.shape[1]):
                    groups[s, g, b, i, j] = 0.0
            for q in range(count):
                total, g = sums[j][q * TILE : (q + 1) * TILE], pairs[q, 2]
                if not lines_near:
                    for t in range(1, TILE):
                        total[0] += total[t]
                for i in range(start, stop):
                    groups[s, g, b, i, j] += total[i - start]
