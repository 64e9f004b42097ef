"""Lines multiplied as they are written: digits and magnitudes that never reach memory.

For products one side of which has few lines. A stretch of a line, or a few entries of many lines,
becomes digits in buffers that a first-level cache holds, and is multiplied at once by the digits of
the other side, which are written as often as there are jobs. All sums of digits are exact: those of
a stretch in float64, whatever their order, and those of all stretches in int64.
"""

from __future__ import annotations

import numpy as np

from widen.cpu.kernels.cache import BITS2, BITS4, BOOL, FLOAT, INT, device, kernel, summing
from widen.cpu.kernels.limbs import place, power_of_two
from widen.cpu.kernels.loops import alive, borrowed, side_by_side
from widen.cpu.kernels.two_by_three import (
    NEAR,
    STRETCH,
    as_integer,
    factors,
    kept,
    rounded_short,
    six,
    six_of_lines,
    six_of_two,
)

SEGMENT = 256 * STRETCH  # SEGMENT of the backend: so many more, and two parts, are below 2^63
LINES = 32  # LINES of the backend
DEPTH = 4  # entries of near lines that are multiplied at a time


@device
def _scale(source, first, second, least, add, integers, magnitudes):
    """Numbers times two factors, rounded; and their magnitudes, which may be added to others."""
    for t in range(source.shape[0]):
        y = np.int64(source[t]).view(np.float64) * first * second
        integers[t] = np.rint(y)
        magnitudes[t] = rounded_short(y, least) + (magnitudes[t] if add else 0.0)


@device
def _scale_lines(source, scales, add, integers, magnitudes):
    """The same for an entry of many lines, each with its scales."""
    for t in range(source.shape[0]):
        y = np.int64(source[t]).view(np.float64) * scales[t] * scales[t + NEAR]
        integers[t] = np.rint(y)
        magnitudes[t] = rounded_short(y, scales[t + 2 * NEAR]) + (magnitudes[t] if add else 0.0)


@device
def _split(integers, step, inverse, low):
    """Take the lowest digit off integers."""
    for t in range(low.shape[0]):
        whole = integers[t]
        high = np.rint(whole * inverse)
        low[t], integers[t] = whole - high * step, high


@device
def _digits(planes, count, beta):
    """Digits, lowest first, of integers that stand in the place of the highest."""
    step, inverse = power_of_two(beta), power_of_two(-beta)
    for d in range(count - 1):
        _split(planes[count - 1], step, inverse, planes[d])


@device
def _write(bits, shift, least, count, beta, buffer, planes):
    """A stretch (parts, entries) of a line as digits of every part and magnitudes in planes."""
    parts = bits.shape[0]
    first, second = factors(shift)
    for p in range(parts):
        top = planes[p * count + count - 1]
        source = side_by_side(bits[p], buffer)
        _scale(source, first, second, least, p > 0, top, planes[parts * count])
        _digits(planes[p * count :], count, beta)


@summing
def _dot(x, y):
    """The sum of products of two stretches."""
    total = 0.0
    for t in range(x.shape[0]):
        total += x[t] * y[t]
    return total


@summing
def _dots(x, other, y):
    """The same for two stretches and one."""
    one, two = 0.0, 0.0
    for t in range(x.shape[0]):
        one += x[t] * y[t]
        two += other[t] * y[t]
    return one, two


@device
def _multiply(planes, others, parts, own, size, sums):
    """Add products of all digits of a stretch to sums[part, digit, other digit]."""
    theirs = (others.shape[0] - 1) // parts
    for x in range(parts):
        for y in range(parts):
            target, sign = (x ^ y) * own * theirs, 1 - 2 * (x & y)
            for q in range(theirs):
                other = others[y * theirs + q]
                for p in range(0, own - 1, 2):
                    one, two = _dots(planes[x * own + p][:size], planes[x * own + p + 1], other)
                    sums[target + p * theirs + q] += sign * as_integer(one)
                    sums[target + (p + 1) * theirs + q] += sign * as_integer(two)
                if own & 1:
                    one = _dot(planes[x * own + own - 1][:size], other)
                    sums[target + (own - 1) * theirs + q] += sign * as_integer(one)


@summing
def _add_entries(sums, planes, a, b, c, d):
    """Add DEPTH entries of every line, each times one number."""
    for t in range(NEAR):
        sums[t] += (planes[t] * a + planes[NEAR + t] * b) + (
            planes[2 * NEAR + t] * c + planes[3 * NEAR + t] * d
        )


@device
def _multiply_lines(planes, others, parts, count, h, sums):
    """`_multiply` for DEPTH entries of near lines: sums[part, digit, other digit, line]."""
    theirs = (others.shape[0] - 1) // parts
    for x in range(parts):
        for y in range(parts):
            sign = 1.0 - 2.0 * (x & y)
            for p in range(count):
                for q in range(theirs):
                    o = others[y * theirs + q]
                    at = (((x ^ y) * count + p) * theirs + q) * NEAR
                    _add_entries(
                        sums[at : at + NEAR], planes[x * count + p],
                        sign * o[h], sign * o[h + 1], sign * o[h + 2], sign * o[h + 3],
                    )  # fmt: skip


@device
def _row(bits, h, r, buffer):
    """Entry h + r of lines, side by side; after the last one, zeros at the end of the buffer."""
    if h + r < bits.shape[2]:
        return side_by_side(bits[0, :, h + r], buffer[r * NEAR :])
    return buffer[DEPTH * NEAR :]


@device
def _stretch(bits, shift, least, count, beta, others, buffer, planes, totals, wholes):
    """Add products of a stretch (parts, lines, entries) of lines to `wholes` and `totals`."""
    parts, lines, size = bits.shape
    few, theirs, _ = others.shape
    step, inverse = power_of_two(beta), power_of_two(-beta)
    for i in range(lines):
        if parts == 1 and count == 2 and theirs == 4:
            first, second = factors(shift[i])
            source = side_by_side(bits[0, i], buffer)
            for j in range(few):
                totals[j, i] += kept(
                    six(source, first, second, least[i], step, inverse, others[j]), wholes[i, j]
                )
            continue
        _write(bits[:, i], shift[i], least[i], count, beta, buffer, planes)
        for j in range(few):
            _multiply(planes, others[j], parts, count, size, wholes[i, j])
            totals[j, i] += _dot(planes[parts * count][:size], others[j, theirs - 1])


@device
def _near_stretch(bits, scales, count, beta, others, buffer, planes, sums, totals, wholes):
    """The same of near lines: DEPTH entries of all of them at a time."""
    parts, lines, size = bits.shape
    few, theirs, _ = others.shape
    step, inverse = power_of_two(beta), power_of_two(-beta)
    usual = parts == 1 and count == 2 and theirs == 4
    sums[:] = 0.0
    for h in range(0, size, DEPTH):
        if usual:
            q, r, s, u = (
                _row(bits, h, 0, buffer), _row(bits, h, 1, buffer), _row(bits, h, 2, buffer),
                _row(bits, h, 3, buffer),
            )  # fmt: skip
            for j in range(few):
                six_of_lines(q, r, s, u, scales, step, inverse, others[j], h, sums[j], totals[j])
            continue
        for p in range(parts):
            for r in range(min(DEPTH, size - h)):
                here = slice(r * NEAR, r * NEAR + NEAR)
                source = side_by_side(bits[p, :, h + r], buffer)
                integers, magnitudes = planes[p * count + count - 1], planes[parts * count]
                _scale_lines(source, scales, p > 0, integers[here], magnitudes[here])
            _digits(planes[p * count :], count, beta)
        for j in range(few):
            _multiply_lines(planes, others[j], parts, count, h, sums[j])
            o = others[j, theirs - 1]
            _add_entries(totals[j], planes[parts * count], o[h], o[h + 1], o[h + 2], o[h + 3])
    for j in range(few):
        for i in range(lines):
            target = wholes[i, j]
            for pair in range(target.shape[0]):
                target[pair] += as_integer(sums[j, pair * NEAR + i])


@device
def _put(sums, counts, betas, parts, limbs, groups):
    """An element's sums of products as limbs of X: groups[part * width + limb]."""
    width, at = limbs.shape[0], 0
    for r in range(parts):
        limbs[:] = 0
        for p in range(counts[0]):
            for q in range(counts[1]):
                place(limbs, sums[at], p * betas[0] + q * betas[1])
                at += 1
        for l in range(width):
            groups[r * width + l] = limbs[l]


@kernel(
    BITS4, BOOL, BITS2, FLOAT[:, :], BITS4, BITS2, FLOAT[:, :], INT[::1], INT[::1],
    FLOAT[:, :, :, :, :],
)  # fmt: skip
def products(
    begin, end, bits, lines_near, shift, least, few_bits, few_shift, few_least, counts, betas,
    groups,
):  # fmt: skip
    """groups[s] = X and sums of magnitudes, over a segment s, of lines and few of the other side.

    `bits` are (parts, batch, lines, inner), scaled by 2^shift (batch, lines), those below `least`
    not counted among magnitudes; so are `few_bits`. `counts` and `betas` are those of
    `UnevenDigits`, of lines first. `groups` is (segments, groups, batch, lines, few lines): limbs
    of every part of X, and sums of products of magnitudes last. A batch of 1 serves every batch. A
    job is a segment of LINES lines, or with `lines_near` of NEAR lines.
    """
    parts, _, lines, inner = bits.shape
    batch, few, step = groups.shape[2], few_bits.shape[2], NEAR if lines_near else LINES
    own, theirs = parts * counts[0] + 1, parts * counts[1] + 1
    planes, others = (
        np.zeros((own, DEPTH * NEAR if lines_near else STRETCH)), np.zeros((few, theirs, STRETCH)),
    )  # fmt: skip
    wholes = np.zeros((step, few, parts * counts[0] * counts[1]), np.int64)
    sums = np.zeros((few, parts * counts[0] * counts[1] * NEAR if lines_near else 1))
    totals = np.zeros((few, step))
    buffer, scales = np.zeros((DEPTH + 1) * NEAR, np.int64), np.zeros(3 * NEAR)
    limbs = np.zeros((groups.shape[1] - 1) // parts, np.int64)
    tiles = (lines + step - 1) // step
    alone = parts * lines * few == 1 and counts[0] == 2 and counts[1] == 3
    for job in range(begin, end):
        s, rest = job // (tiles * batch), job % (tiles * batch)
        b, start = rest // tiles, rest % tiles * step
        stop, last = min(start + step, lines), min((s + 1) * SEGMENT, inner)
        lb, rb = b if bits.shape[1] > 1 else 0, b if few_bits.shape[1] > 1 else 0
        wholes[:], totals[:] = 0, 0.0
        for t in range(stop - start if lines_near else 0):
            scales[t], scales[t + NEAR] = factors(shift[lb, start + t])
            scales[t + 2 * NEAR] = least[lb, start + t]
        for first in range(s * SEGMENT, last, STRETCH):
            end_of_stretch = min(first + STRETCH, last)
            if alone:
                here = slice(first, end_of_stretch)
                sums_of_pairs = six_of_two(
                    borrowed(bits)[0, lb, start, here], borrowed(few_bits)[0, rb, 0, here],
                    borrowed(buffer), (shift[lb, start], few_shift[rb, 0]),
                    (least[lb, start], few_least[rb, 0]), (betas[0], betas[1]),
                )  # fmt: skip
                totals[0, 0] += kept(sums_of_pairs, wholes[0, 0])
                continue
            others[:] = 0.0
            for j in range(few):
                _write(
                    borrowed(few_bits)[:, rb, j, first:end_of_stretch], few_shift[rb, j],
                    few_least[rb, j], counts[1], betas[1], borrowed(buffer), borrowed(others)[j],
                )  # fmt: skip
            if lines_near:
                _near_stretch(
                    borrowed(bits)[:, lb, start:stop, first:end_of_stretch], borrowed(scales),
                    counts[0], betas[0], borrowed(others), borrowed(buffer), borrowed(planes),
                    borrowed(sums), borrowed(totals), borrowed(wholes),
                )  # fmt: skip
            else:
                _stretch(
                    borrowed(bits)[:, lb, start:stop, first:end_of_stretch], shift[lb, start:stop],
                    least[lb, start:stop], counts[0], betas[0], borrowed(others), borrowed(buffer),
                    borrowed(planes), borrowed(totals), borrowed(wholes),
                )  # fmt: skip
        for i in range(start, stop):
            for j in range(few):
                _put(wholes[i - start, j], counts, betas, parts, limbs, groups[s, :, b, i, j])
                groups[s, groups.shape[1] - 1, b, i, j] = totals[j, i - start]
    # What is borrowed has to be there until now.
    alive(planes, others, wholes, sums, totals, buffer, scales)
