"""Tiles of numbers of several words: fetched from lines, reckoned with, and stored.

A line (a column of a panel, a row of right-hand sides) has a row for each word of the real parts,
and then for each of the imaginary parts, if there are any. So has a tile, some numbers of a line.
The operations are those of `words`, in the same order, so that they give the same bits.
"""

from __future__ import annotations

import math

import numpy as np

from widen.cpu.kernels import word_pairs, word_rows
from widen.cpu.kernels.cache import device
from widen.cpu.kernels.floats import power_like
from widen.cpu.kernels.rows import copy_row, fill_row, negate_rows

TILE = 128
"""Numbers that are reckoned with at once: all rows of eight words stay in the cache."""


@device
def room(words, parts):
    """Memory for four tiles, and for what sums, quotients and roundings need besides."""
    return np.empty((4 * parts * words + 3 * words + words // 8 + 7) * TILE)


@device
def cut(room, rows, width):
    """The first rows of a tile's width, and what is left of the memory."""
    size = rows * width
    return room[:size].reshape((rows, width)), room[size:]


@device
def four(room, rows, words, width):
    """Four tiles of a width, and what sums, quotients and roundings of so many words need."""
    x, rest = cut(room, rows, width)
    y, rest = cut(rest, rows, width)
    z, rest = cut(rest, rows, width)
    other, rest = cut(rest, rows, width)
    sums, rest = cut(rest, 2 * words + 2, width)
    digits, rest = cut(rest, words + 1 + words // 8, width)
    spare, rest = cut(rest, 3, width)
    return x, y, z, other, sums, digits, spare


@device
def fetch(line, start, x):
    """Copy numbers of a line into a tile."""
    for l in range(x.shape[0]):
        copy_row(line[l, start : start + x.shape[1]], x[l])


@device
def store(x, line, start):
    """Copy a tile where it belongs."""
    for l in range(x.shape[0]):
        copy_row(x[l], line[l, start : start + x.shape[1]])


@device
def fill(line, at, x):
    """Make all numbers of a tile one number of a line."""
    for l in range(x.shape[0]):
        fill_row(x[l], line[l, at])


@device
def multiply(parts, x, y, z, sums, spare):
    """Numbers z = x y."""
    words = x.shape[0] // parts
    for part in range(parts):
        a, b, c = x[:words], y[part * words :][:words], z[part * words :][:words]
        v, w = x[(parts - 1) * words :], y[(parts - 1 - part) * words :][:words]
        sign = x.dtype.type((2 * part - 1) * (parts - 1))
        if words > 2:
            word_rows.multiply(a, b, v, w, sign, c, sums[: words + 1 + words // 8], spare)
        elif parts == 2:
            word_pairs.multiply_both(a[0], a[1], b[0], b[1], v, w, sign, c[0], c[1])
        else:
            word_pairs.multiply(a[0], a[1], b[0], b[1], c[0], c[1])


@device
def add(parts, x, y, z, sign, sums, spare):
    """Numbers z = x + sign y; y is not what it was afterwards."""
    words = x.shape[0] // parts
    for part in range(parts):
        a, b, c = x[part * words :][:words], y[part * words :][:words], z[part * words :][:words]
        if words == 2:
            word_pairs.add(a[0], a[1], b[0], b[1], c[0], c[1], x.dtype.type(sign))
        else:
            if sign < 0:
                negate_rows(b)
            word_rows.add(a, b, c, sums[: 2 * words], spare)


@device
def divide(parts, x, y, z, sums, digits, spare):
    """Numbers z = x / y by the real parts of y."""
    words = x.shape[0] // parts
    for part in range(parts):
        a, b, c = x[part * words :][:words], y[:words], z[part * words :][:words]
        if words == 2:
            word_pairs.divide(a[0], a[1], b[0], b[1], c[0], c[1])
        else:
            word_rows.divide(a, b, c, sums[: words + 2 + words // 8], digits, spare)


@device
def scale(x, first, second):
    """Numbers times two powers of two."""
    for l in range(x.shape[0]):
        row = x[l]
        for t in range(row.shape[0]):
            row[t] = row[t] * first * second


@device
def conjugate(x, z):
    """Make z the conjugates of complex numbers."""
    words = x.shape[0] // 2
    for l in range(words):
        copy_row(x[l], z[l])
        a, b = x[words + l], z[words + l]
        for t in range(b.shape[0]):
            b[t] = -a[t] if l == 0 else 0 - a[t]


@device
def largest(parts, line, at):
    """The larger part of a number."""
    return max(abs(line[0, at]), abs(line[(parts - 1) * (line.shape[0] // parts), at]))


@device
def over(parts, line, start, stop, divisor, at, whole):
    """Divide numbers of a line by divisor[at]: x / p, or x' conj(p') / |p'|^2 near p' = 1."""
    words, zero = line.shape[0] // parts, line.dtype.type(0)
    power = 1 - math.frexp(largest(parts, divisor, at))[1] if parts == 2 else 0
    power = min(max(power, -1022), 1022)
    half = power >> 1
    first, second = power_like(half, zero), power_like(power - half, zero)
    for begin in range(start, stop, TILE):
        width = min(TILE, stop - begin)
        x, y, z, near, sums, digits, spare = four(whole, line.shape[0], words, width)
        fetch(line, begin, x)
        fill(divisor, at, y)
        if parts == 2:
            scale(x, first, second)
            scale(y, first, second)
            conjugate(y, near)
            multiply(parts, x, near, z, sums, spare)
            multiply(parts, y, near, x, sums, spare)
            divide(parts, z, x, y, sums, digits, spare)
            store(y, line, begin)
        else:
            divide(parts, x, y, z, sums, digits, spare)
            store(z, line, begin)
