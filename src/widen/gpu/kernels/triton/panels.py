"""Elimination in a panel of columns, in words on a GPU.

The bits are those of cpu/kernels/panels.py. A column is one launch, and nothing is read by the host
on the way. Rows are not exchanged: each has a place, which is the row where it would be by now, and
the pivot of a step is not written any more. Every program has a block of rows and some of the
columns behind. It finds the pivot in what the launch before left, the largest of every block, and
leaves the same for the next. What one launch reads and another program writes has two copies, which
steps use in turns; multipliers are written beside the matrix. So no program reads what another one
of its launch writes.
"""

from __future__ import annotations

import triton
import triton.language as tl

from widen.gpu.kernels.triton.floats import (
    first_word,
    later_word,
    power_of,
    quotient,
    scale_exponent,
)
from widen.gpu.kernels.triton.numbers import wide
from widen.gpu.kernels.triton.word_tuples import (
    load_words,
    product_of,
    quotient_of,
    scaled,
    sum_of,
)

NOT_A_NUMBER = tl.constexpr(0x7FF8000000000000)
FAR = tl.constexpr(1 << 62)


@triton.jit
def finished(words, plain, COUNT: tl.constexpr):
    """Words with NaN and infinity alone in the first."""
    first = first_word(words[0], plain)
    new = (first,)
    for l in tl.static_range(1, COUNT):
        new = new + (later_word(words[l], first),)
    return new


@triton.jit
def load_apart(pointer, at, apart, mask, PARTS: tl.constexpr, COUNT: tl.constexpr):
    """Numbers of one part or two: words of a part are apart[0] apart, parts apart[1]."""
    word, part = apart
    number = (load_words(pointer, pointer, at, word, mask, COUNT, False),)
    if PARTS == 2:
        number = number + (load_words(pointer, pointer, at + part, word, mask, COUNT, False),)
    return number


@triton.jit
def store_apart(pointer, at, apart, mask, number, PARTS: tl.constexpr, COUNT: tl.constexpr):
    """Store numbers in the same order."""
    word, part = apart
    for p in tl.static_range(PARTS):
        for l in tl.static_range(COUNT):
            tl.store(pointer + l * word + p * part + at, number[p][l], mask=mask)


@triton.jit
def load_number(pointer, at, length, mask, PARTS: tl.constexpr, COUNT: tl.constexpr):
    """The same of parts that are `length` apart, and words behind all parts."""
    return load_apart(pointer, at, (PARTS * length, length), mask, PARTS, COUNT)


@triton.jit
def store_number(pointer, at, length, mask, number, PARTS: tl.constexpr, COUNT: tl.constexpr):
    """Store numbers in the same order."""
    store_apart(pointer, at, (PARTS * length, length), mask, number, PARTS, COUNT)


@triton.jit
def times(x, y, PARTS: tl.constexpr, COUNT: tl.constexpr):
    """Numbers x y."""
    if PARTS == 1:
        a, b = x[0], y[0]
        words = product_of(a, b, a, b, 1.0, False, COUNT, False)
        return (finished(words, a[0] * b[0], COUNT),)
    else:
        a, b, c, d = x[0], x[1], y[0], y[1]
        real = product_of(a, c, b, d, -1.0, True, COUNT, False)
        imaginary = product_of(a, d, b, c, 1.0, True, COUNT, False)
        return (
            finished(real, a[0] * c[0] - b[0] * d[0], COUNT),
            finished(imaginary, a[0] * d[0] + b[0] * c[0], COUNT),
        )


@triton.jit
def less(x, y, PARTS: tl.constexpr, COUNT: tl.constexpr):
    """Numbers x - y."""
    new = ()
    for part in tl.static_range(PARTS):
        a, b = x[part], scaled(y[part], -1.0, COUNT)
        new = new + (finished(sum_of(a, b, COUNT, False), a[0] + b[0], COUNT),)
    return new


@triton.jit
def by_real(x, y, PARTS: tl.constexpr, COUNT: tl.constexpr):
    """Numbers x / y for one real y."""
    new = ()
    for part in tl.static_range(PARTS):
        words = quotient_of(x[part], y, COUNT, True)
        new = new + (finished(words, quotient(x[part][0], y[0], True), COUNT),)
    return new


@triton.jit
def over(x, p, PARTS: tl.constexpr, COUNT: tl.constexpr):
    """Numbers x / p: of complex numbers x conj(p) / |p|^2, near p = 1 by a power of two."""
    if PARTS == 1:
        return by_real(x, p[0], PARTS, COUNT)
    else:
        power = -scale_exponent(tl.maximum(tl.abs(p[0][0]), tl.abs(p[1][0])), True)
        half = power >> 1
        first, second = power_of(half, True), power_of(power - half, True)
        x = (
            scaled(scaled(x[0], first, COUNT), second, COUNT),
            scaled(scaled(x[1], first, COUNT), second, COUNT),
        )
        real = scaled(scaled(p[0], first, COUNT), second, COUNT)
        imaginary = scaled(scaled(p[1], first, COUNT), second, COUNT)
        turned = (-imaginary[0],)
        for l in tl.static_range(1, COUNT):
            turned = turned + (0.0 - imaginary[l],)
        near = (real, turned)
        square = times((real, imaginary), near, PARTS, COUNT)
        return by_real(times(x, near, PARTS, COUNT), square[0], PARTS, COUNT)


@triton.jit
def chosen(mask, x, y, PARTS: tl.constexpr, COUNT: tl.constexpr):
    """Numbers x where a mask is true, and y elsewhere."""
    new = ()
    for part in tl.static_range(PARTS):
        words = ()
        for l in tl.static_range(COUNT):
            words = words + (tl.where(mask, x[part][l], y[part][l]),)
        new = new + (words,)
    return new


@triton.jit
def size_key(x, fit, PARTS: tl.constexpr):
    """|x| as bits where numbers fit, which are in the order of the sizes, and -1 elsewhere.

    Of complex numbers |re| + |im| is compared. Any NaN is larger than infinity.
    """
    size = tl.abs(x[0][0])
    if PARTS == 2:
        size += tl.abs(x[1][0])
    key = size.to(tl.int64, bitcast=True)
    key = tl.where(size == size, key, NOT_A_NUMBER)
    return tl.where(fit, key, -1)


@triton.jit
def leave_largest(key, places, at, fit, keys, spots, lines, block):
    """Store the largest key of a block of rows that fit, its place and its row."""
    largest = tl.max(key, 0)
    place = tl.min(tl.where(fit & (key == largest), places, FAR), 0)
    row = tl.min(tl.where(fit & (places == place), at, FAR), 0)
    tl.store(keys + block, largest)
    tl.store(spots + block, place)
    tl.store(lines + block, row)


@triton.jit
def in_all(x, shape: tl.constexpr, PARTS: tl.constexpr, COUNT: tl.constexpr):
    """Numbers of a row or column, in all of a block."""
    new = ()
    for part in tl.static_range(PARTS):
        words = ()
        for l in tl.static_range(COUNT):
            words = words + (tl.broadcast_to(x[part][l], shape),)
        new = new + (words,)
    return new


@triton.jit
def as_column(x, shape: tl.constexpr, PARTS: tl.constexpr, COUNT: tl.constexpr):
    """Numbers of every row, in all columns of a block."""
    new = ()
    for part in tl.static_range(PARTS):
        words = ()
        for l in tl.static_range(COUNT):
            words = words + (tl.broadcast_to(x[part][l][:, None], shape),)
        new = new + (words,)
    return new


@triton.jit
def survey(
    w, places, keys, spots, lines, rows, columns, PARTS: tl.constexpr, COUNT: tl.constexpr,
    BLOCK: tl.constexpr,
):  # fmt: skip
    """The largest numbers of every block of the first column."""
    block = tl.program_id(0)
    at = wide(block) * BLOCK + tl.arange(0, BLOCK)
    inside = at < rows
    place = tl.load(places + at, mask=inside, other=0)
    x = load_number(w, at, wide(columns) * rows, inside, PARTS, COUNT)
    leave_largest(size_key(x, inside, PARTS), place, at, inside, keys, spots, lines, block)


@triton.jit
def take_step(
    w, lower, places, keys, spots, lines, pivots, j, rows, columns, blocks, groups,
    PARTS: tl.constexpr, COUNT: tl.constexpr, ALL: tl.constexpr, BLOCK: tl.constexpr,
    ACROSS: tl.constexpr,
):  # fmt: skip
    """One step of elimination; ACROSS columns at a time, which do not wait for one another.

    Matrices are (words, parts, columns, rows). The multipliers of column j go to `lower`, and
    `places`, `keys`, `spots` and `lines` have a copy for even steps and one for odd ones.
    """
    block, group = tl.program_id(0), tl.program_id(1)
    at = wide(block) * BLOCK + tl.arange(0, BLOCK)
    inside = at < rows
    length = wide(columns) * rows
    own, following = (j % 2) * blocks, ((j + 1) % 2) * blocks
    place = tl.load(places + (j % 2) * rows + at, mask=inside, other=0)
    each = tl.arange(0, ALL)
    key = tl.load(keys + own + each, mask=each < blocks, other=-1)
    spot = tl.load(spots + own + each, mask=each < blocks, other=FAR)
    line = tl.load(lines + own + each, mask=each < blocks, other=FAR)
    largest = tl.max(key, 0)
    pivot_place = tl.min(tl.where(key == largest, spot, FAR), 0)
    pivot = tl.min(tl.where(spot == pivot_place, line, FAR), 0)
    place = tl.where(place == j, pivot_place, place)
    place = tl.where(at == pivot, j, place)
    if group == 0:
        tl.store(places + ((j + 1) % 2) * rows + at, place, mask=inside)
        if block == 0:
            tl.store(pivots + j, pivot_place)
    left = inside & (place > j)
    is_zero = largest == 0
    there = pivot + at * 0
    column = wide(j) * rows
    x = load_number(w, column + at, length, inside, PARTS, COUNT)
    p = load_number(w, column + there, length, inside, PARTS, COUNT)
    x = chosen(is_zero, x, over(x, p, PARTS, COUNT), PARTS, COUNT)
    if group == 0:
        store_number(lower, column + at, length, left, x, PARTS, COUNT)
    shape: tl.constexpr = (BLOCK, ACROSS)
    x = as_column(x, shape, PARTS, COUNT)
    for start in range(j + 1 + group * ACROSS, columns, groups * ACROSS):
        c = start + tl.arange(0, ACROSS)[None, :]
        top = wide(c) * rows
        here = top + at[:, None]
        y = load_number(w, top + pivot, length, c < columns, PARTS, COUNT)
        z = load_number(w, here, length, inside[:, None] & (c < columns), PARTS, COUNT)
        product = times(x, in_all(y, shape, PARTS, COUNT), PARTS, COUNT)
        z = chosen(is_zero, z, less(z, product, PARTS, COUNT), PARTS, COUNT)
        store_number(w, here, length, left[:, None] & (c < columns), z, PARTS, COUNT)
        if start == j + 1:
            sizes = tl.max(size_key(z, left[:, None] & (c == j + 1), PARTS), 1)
            leave_largest(
                sizes, place, at, left, keys + following, spots + following, lines + following,
                block,
            )  # fmt: skip


@triton.jit
def meet(arrivals, count):
    """Wait until programs have arrived `count` times: what each wrote before, all read behind."""
    tl.debug_barrier()
    tl.atomic_add(arrivals, 1, sem="release")
    while tl.atomic_add(arrivals, 0, sem="acquire") < count:
        pass
    tl.debug_barrier()


@triton.jit(do_not_specialize=["first", "steps", "rows", "columns", "blocks", "groups"])
def eliminate(
    w, lower, places, keys, spots, lines, pivots, arrivals, first, steps, rows, columns, blocks,
    groups, TOGETHER: tl.constexpr, PARTS: tl.constexpr, COUNT: tl.constexpr, ALL: tl.constexpr,
    BLOCK: tl.constexpr, ACROSS: tl.constexpr,
):  # fmt: skip
    """Steps of elimination from `first` on; -1 is the survey of the first column.

    Programs that run TOGETHER take many steps, and meet behind each. Others take one.
    """
    if first < 0 and tl.program_id(1) == 0:
        survey(w, places, keys, spots, lines, rows, columns, PARTS, COUNT, BLOCK)
    if TOGETHER:
        programs = blocks * groups
        meet(arrivals, programs)
        for j in range(steps):
            take_step(
                w, lower, places, keys, spots, lines, pivots, j, rows, columns, blocks, groups,
                PARTS, COUNT, ALL, BLOCK, ACROSS,
            )  # fmt: skip
            meet(arrivals, programs * (j + 2))
    else:
        if first >= 0:
            take_step(
                w, lower, places, keys, spots, lines, pivots, first, rows, columns, blocks, groups,
                PARTS, COUNT, ALL, BLOCK, ACROSS,
            )  # fmt: skip


@triton.jit(do_not_specialize=["rows", "columns", "word", "part", "line"])
def put_back(
    w, lower, places, order, out, word, part, line, rows, columns, PARTS: tl.constexpr,
    COUNT: tl.constexpr, BLOCK: tl.constexpr, ACROSS: tl.constexpr,
):  # fmt: skip
    """Rows of an eliminated panel at their places, multipliers left of the diagonal; their order.

    Words, parts and rows of `out` are as far apart as is said.
    """
    at = wide(tl.program_id(0)) * BLOCK + tl.arange(0, BLOCK)
    c = tl.program_id(1) * ACROSS + tl.arange(0, ACROSS)
    place = tl.load(places + at, mask=at < rows, other=0)
    if tl.program_id(1) == 0:
        tl.store(order + place, at, mask=at < rows)
    inside = (at < rows)[:, None] & (c < columns)[None, :]
    length, there = wide(columns) * rows, wide(c)[None, :] * rows + at[:, None]
    below = c[None, :] < place[:, None]
    x = load_number(w, there, length, inside & (below == 0), PARTS, COUNT)
    y = load_number(lower, there, length, inside & below, PARTS, COUNT)
    here = place[:, None] * line + c[None, :]
    found = chosen(below, y, x, PARTS, COUNT)
    store_apart(out, here, (wide(word), wide(part)), inside, found, PARTS, COUNT)
