"""Elimination in a panel of columns, and substitution with a small triangle, in words.

Each is one launch instead of two for every column. The bits are those of arrays of `Words`, by the
same steps in `widen.linalg.triangles`, which other devices take.
"""

from __future__ import annotations

from widen.cpu.kernels.cache import FLOAT, INT, device, kernel
from widen.cpu.kernels.loops import alive, borrowed
from widen.cpu.kernels.word_tiles import (
    TILE,
    add,
    fetch,
    fill,
    four,
    largest,
    multiply,
    over,
    room,
    store,
)

PANEL, LOWER, UPPER = range(3)


@device
def _place_of_largest(parts, line, start, stop):
    """The first place of the largest |x|, of complex numbers |re| + |im|; that of a NaN if any."""
    best, place, other = line.dtype.type(-1), start, (parts - 1) * (line.shape[0] // parts)
    for t in range(start, stop):
        size = abs(line[0, t])
        if parts == 2:
            size += abs(line[other, t])
        if size != size:
            return t
        if size > best:
            best, place = size, t
    return place


@device
def _exchange(lines, i, j):
    for c in range(lines.shape[0]):
        for l in range(lines.shape[1]):
            lines[c, l, i], lines[c, l, j] = lines[c, l, j], lines[c, l, i]


@kernel(INT, FLOAT[:, :, ::1], INT, INT[::1], FLOAT[:, :, ::1])
def eliminate(begin, end, task, lines, parts, pivots, sides):
    """Overwrite a panel's columns with both triangles, or rows of sides with T^-1 of them.

    PANEL: the columns are lines and sides; row j was exchanged with row pivots[j]. There is one
    job. LOWER and UPPER: the columns of T, which has ones on the diagonal if it is lower, are
    the lines. A job is a tile of the sides.
    """
    columns, rows, words = borrowed(lines), borrowed(sides), lines.shape[1] // parts
    memory = room(words, parts)
    whole = borrowed(memory)
    steps = pivots.shape[0] if task == PANEL else sides.shape[0]
    for job in range(begin, end):
        for step in range(steps):
            j = steps - 1 - step if task == UPPER else step
            begins, ends = job * TILE, min((job + 1) * TILE, sides.shape[2])
            if task == PANEL:
                pivots[j] = _place_of_largest(parts, columns[j], j, lines.shape[2])
                if pivots[j] != j:
                    _exchange(columns, j, pivots[j])
                if largest(parts, columns[j], j) == 0:  # a column of zeros: nothing to take off
                    continue
                begins, ends = j + 1, lines.shape[2]
            if task != LOWER:
                over(parts, rows[j], begins, ends, columns[j], j, whole)
            first, last = (0, j) if task == UPPER else (j + 1, sides.shape[0])
            for start in range(begins, ends, TILE):
                width = min(TILE, ends - start)
                x, y, z, own, sums, _, spare = four(whole, lines.shape[1], words, width)
                fetch(rows[j], start, own)
                for i in range(first, last):
                    if task == PANEL:
                        fill(rows[i], j, x)
                    else:
                        fill(columns[j], i, x)
                    left, right = (own, x) if task == PANEL else (x, own)
                    multiply(parts, left, right, y, sums, spare)
                    fetch(rows[i], start, x)
                    add(parts, x, y, z, -1, sums, spare)
                    store(z, rows[i], start)
    alive(lines, sides, memory)
