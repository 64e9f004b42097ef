"""Substitution with a small triangle, and differences of matrices, in words on a GPU."""

from __future__ import annotations

import triton
import triton.language as tl

from widen.gpu.kernels.triton.numbers import wide
from widen.gpu.kernels.triton.panels import (
    chosen,
    in_all,
    less,
    load_apart,
    load_number,
    over,
    store_apart,
    times,
)


@triton.jit
def row_of(x, row, j, shape: tl.constexpr, PARTS: tl.constexpr, COUNT: tl.constexpr):
    """Row j of numbers in registers, in all rows: a sum of bits, all but one of which are 0."""
    new = ()
    for part in tl.static_range(PARTS):
        words = ()
        for l in tl.static_range(COUNT):
            bits = tl.where(row == j, x[part][l].to(tl.int64, bitcast=True), 0)
            line = tl.sum(bits, 0)[None, :].to(tl.float64, bitcast=True)
            words = words + (tl.broadcast_to(line, shape),)
        new = new + (words,)
    return new


@triton.jit
def solved(
    z, t, row, size, OWN: tl.constexpr, UPPER: tl.constexpr, PARTS: tl.constexpr,
    COUNT: tl.constexpr, ROWS: tl.constexpr, CHUNKS: tl.constexpr, shape: tl.constexpr,
):  # fmt: skip
    """Chunks of rows after the steps of one of them."""
    square = wide(size) * size
    count = tl.minimum(size - OWN * ROWS, ROWS)
    for step in range(count):
        at = count - 1 - step if UPPER else step + 0
        j = wide(OWN * ROWS + at)
        y = row_of(z[OWN], row, at, shape, PARTS, COUNT)
        if UPPER:
            diagonal = row * 0 + j * (size + 1)
            p = load_number(t, diagonal, square, diagonal < square, PARTS, COUNT)
            y = over(y, in_all(p, shape, PARTS, COUNT), PARTS, COUNT)
        new = ()
        for i in tl.static_range(CHUNKS):
            mine = z[i]
            if i == OWN or (i < OWN) == UPPER:
                there = row + i * ROWS
                x = load_number(t, j * size + there, square, there < size, PARTS, COUNT)
                product = times(in_all(x, shape, PARTS, COUNT), y, PARTS, COUNT)
                mine = less(mine, product, PARTS, COUNT)
                if i == OWN:
                    left = row < at if UPPER else row > at
                    mine = chosen(left, mine, z[i], PARTS, COUNT)
                    if UPPER:
                        mine = chosen(row == at, y, mine, PARTS, COUNT)
            new = new + (mine,)
        z = new
    return z


@triton.jit(do_not_specialize=["size", "width", "word", "part", "line"])
def substitute(
    t, w, size, width, word, part, line, UPPER: tl.constexpr, PARTS: tl.constexpr,
    COUNT: tl.constexpr, ROWS: tl.constexpr, CHUNKS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Overwrite w (size, width) with T^-1 w; a program has some of its columns.

    Words, parts and rows of w are as far apart as is said. T (words, parts, columns, rows) is upper
    triangular, or lower with ones on the diagonal. Columns stay in registers, in chunks of rows: a
    step is one row that all read, and one number less of every row behind, in chunks that have any.
    """
    row = tl.arange(0, ROWS)[:, None]
    at = wide(tl.program_id(0)) * BLOCK + tl.arange(0, BLOCK)[None, :]
    shape: tl.constexpr = (ROWS, BLOCK)
    apart = wide(word), wide(part)
    z = ()
    for i in tl.static_range(CHUNKS):
        there = row + i * ROWS
        inside = (there < size) & (at < width)
        z = z + (load_apart(w, wide(there) * line + at, apart, inside, PARTS, COUNT),)
    for phase in tl.static_range(CHUNKS):
        z = solved(
            z, t, row, size, CHUNKS - 1 - phase if UPPER else phase, UPPER, PARTS, COUNT, ROWS,
            CHUNKS, shape,
        )  # fmt: skip
    for i in tl.static_range(CHUNKS):
        there = row + i * ROWS
        inside = (there < size) & (at < width)
        store_apart(w, wide(there) * line + at, apart, inside, z[i], PARTS, COUNT)


@triton.jit(
    do_not_specialize=[
        "rows", "columns", "word", "part", "line", "other_word", "other_part", "other_line",
    ]
)  # fmt: skip
def take_off(
    w, word, part, line, other, other_word, other_part, other_line, rows, columns,
    PARTS: tl.constexpr, COUNT: tl.constexpr, BLOCK: tl.constexpr, ACROSS: tl.constexpr,
):  # fmt: skip
    """Overwrite w (rows, columns) with w - other, in place."""
    at = wide(tl.program_id(0)) * BLOCK + tl.arange(0, BLOCK)[:, None]
    c = wide(tl.program_id(1)) * ACROSS + tl.arange(0, ACROSS)[None, :]
    inside = (at < rows) & (c < columns)
    here, there = at * line + c, at * other_line + c
    apart = wide(word), wide(part)
    x = load_apart(w, here, apart, inside, PARTS, COUNT)
    y = load_apart(other, there, (wide(other_word), wide(other_part)), inside, PARTS, COUNT)
    store_apart(w, here, apart, inside, less(x, y, PARTS, COUNT), PARTS, COUNT)
