"""Kernels of arithmetic on numbers of several words: tiles fetched, reckoned with and stored.

A job is a tile of TILE neighbouring elements of one part. Operands are (words, parts, elements),
where one element, or one part, stands for all; their words are those of `a` and then those of `b`,
which is empty but for the pair of a float64 and a float32. Results do not lie where operands are.
"""

from __future__ import annotations

import numpy as np

from widen.cpu.kernels import word_pairs, word_rows
from widen.cpu.kernels.cache import compiled, device
from widen.cpu.kernels.floats import fast_two_sum, is_finite
from widen.cpu.kernels.rows import copy_row, fill_row, negate_rows

TILE = 512


ADD, SUBTRACT, MULTIPLY, DIVIDE = range(4)  # and 4, a root


@device
def _fetch(a, b, part, start, rows):
    """Copy a tile into rows, and ones where there are no more elements."""
    size, part = a.shape[2], min(part, a.shape[1] - 1)
    for l in range(rows.shape[0]):
        row = rows[l]
        if l < a.shape[0]:
            _copy(a[l, part], start, size, row)
        else:
            _copy(b[l - a.shape[0], part], start, size, row)


@device
def _copy(source, start, size, row):
    if size == 1:
        fill_row(row, row.dtype.type(source[0]))
        return
    width = min(size - start, row.shape[0])
    copy_row(source[start : start + width], row[:width])
    fill_row(row[width:], row.dtype.type(1))


@device
def _store(rows, a, b, part, start):
    """Copy rows where they belong, the last of a pair rounded to float32."""
    width = min(a.shape[2] - start, rows.shape[1])
    if b.shape[0] == 0:
        for l in range(rows.shape[0]):
            copy_row(rows[l], a[l, part, start : start + width])
    else:
        _narrow(rows[0], rows[1], a[0, part, start : start + width], b[0, part, start:])


@device
def _narrow(high, low, first, second):
    """Make first and second high + low, the second rounded to float32."""
    largest, zero = high.dtype.type(np.finfo(np.float32).max), second.dtype.type(0)
    for t in range(first.shape[0]):
        near = high.dtype.type(np.float32(min(max(low[t], -largest), largest)))
        total, rest = fast_two_sum(high[t], near)  # it may have been rounded to a tie
        fine = is_finite(total) & (high[t] != 0)
        first[t] = total if fine else high[t]
        second[t] = (np.float32(rest) if fine else zero) + zero


@device
def _room(rows, like):
    return np.empty((rows, TILE), like.dtype)


@device
def _operands(operation, part, start, xa, xb, ya, yb, x, y, v, w):
    """Fetch what a part of the result needs; the sign of v w in it, 0 if there is none.

    A part of a complex product is x y + sign v w. A divisor is real, and what is not complex
    serves both parts.
    """
    both = operation == MULTIPLY and xa.shape[1] == 2 and ya.shape[1] == 2
    _fetch(xa, xb, 0 if both else part, start, x)
    _fetch(ya, yb, part, start, y)
    if not both:
        return 0
    _fetch(xa, xb, 1, start, v)
    _fetch(ya, yb, 1 - part, start, w)
    return 2 * part - 1


@device
def _pair_rows(operation, sign, xh, xl, yh, yl, v, w, zh, zl):
    one = zh.dtype.type(1)
    if operation == ADD:
        word_pairs.add(xh, xl, yh, yl, zh, zl, one)
    elif operation == SUBTRACT:
        word_pairs.add(xh, xl, yh, yl, zh, zl, -one)
    elif operation == MULTIPLY and sign == 0:
        word_pairs.multiply(xh, xl, yh, yl, zh, zl)
    elif operation == MULTIPLY:
        word_pairs.multiply_both(xh, xl, yh, yl, v, w, zh.dtype.type(sign), zh, zl)
    elif operation == DIVIDE:
        word_pairs.divide(xh, xl, yh, yl, zh, zl)
    else:
        word_pairs.root(xh, xl, zh, zl)


@compiled
def pairs(begin, end, operation, xa, xb, ya, yb, za, zb):
    """Numbers z = x op y of two words; elements of their own are read where they are."""
    size = za.shape[2]
    tiles = (size + TILE - 1) // TILE
    x, y, z, v, w = _room(2, za), _room(2, za), _room(2, za), _room(2, za), _room(2, za)
    both = operation == MULTIPLY and xa.shape[1] == 2 and ya.shape[1] == 2
    direct = zb.shape[0] == 0 and not both and xa.shape[2] == size and ya.shape[2] == size
    for job in range(begin, end):
        part, start = job // tiles, job % tiles * TILE
        if direct:
            stop, p, q = (
                min(start + TILE, size),
                min(part, xa.shape[1] - 1),
                min(part, ya.shape[1] - 1),
            )
            _pair_rows(
                operation, 0, xa[0, p, start:stop], xa[1, p, start:stop], ya[0, q, start:stop],
                ya[1, q, start:stop], v, w, za[0, part, start:stop], za[1, part, start:stop],
            )  # fmt: skip
        else:
            sign = _operands(operation, part, start, xa, xb, ya, yb, x, y, v, w)
            _pair_rows(operation, sign, x[0], x[1], y[0], y[1], v, w, z[0], z[1])
            _store(z, za, zb, part, start)


@compiled
def triples(begin, end, operation, xa, xb, ya, yb, za, zb):
    """Sums and products z = x op y of real numbers of three words of float32."""
    tiles = (za.shape[2] + TILE - 1) // TILE
    x, y, z, sums, spare = _room(3, za), _room(3, za), _room(3, za), _room(4, za), _room(3, za)
    for job in range(begin, end):
        part, start = job // tiles, job % tiles * TILE
        _operands(operation, part, start, xa, xb, ya, yb, x, y, x, y)
        if operation == SUBTRACT:
            negate_rows(y)
        word_rows.combine_triples(operation == MULTIPLY, x, y, z, sums, spare)
        _store(z, za, zb, part, start)


@compiled
def several(begin, end, operation, xa, xb, ya, yb, za, zb):
    """Numbers z = x op y of three words and more."""
    count, tiles = za.shape[0], (za.shape[2] + TILE - 1) // TILE
    more = count // 8  # rows that keep what many carries make of the last one
    x, y, z, v, w = (
        _room(count, za), _room(count, za), _room(count, za), _room(count, za), _room(count, za),
    )  # fmt: skip
    sums, digits, spare = _room(2 * count, za), _room(count + 1 + more, za), _room(3, za)
    for job in range(begin, end):
        part, start = job // tiles, job % tiles * TILE
        sign = _operands(operation, part, start, xa, xb, ya, yb, x, y, v, w)
        if operation == SUBTRACT:
            negate_rows(y)
        if operation <= SUBTRACT:
            word_rows.add(x, y, z, sums, spare)
        elif operation == MULTIPLY:
            word_rows.multiply(x, y, v, w, za.dtype.type(sign), z, sums[: count + 1 + more], spare)
        elif operation == DIVIDE:
            word_rows.divide(x, y, z, sums[: count + 2 + more], digits, spare)
        else:
            word_rows.root(x, z, sums[: count + 2 + more], digits, spare)
        _store(z, za, zb, part, start)
