"""Products of int8 planes on any GPU: all planes of a plan in one persistent launch."""

from __future__ import annotations

import triton
import triton.language as tl

from widen.gpu.kernels.triton.numbers import (
    AHEAD,
    NONZEROS,
    REACH,
    STEP,
    STOP,
    SUM,
    WEIGHT,
    below_top,
    wide,
)
from widen.gpu.kernels.triton.reconstruct import UNCERTIFIED, UNSETTLED

DOWN = tl.constexpr(1 - 2.0**-20)
UP = tl.constexpr(1 + 2.0**-20)


@triton.jit
def tile_at(tile, rows, columns, GROUP: tl.constexpr):
    """Row and column of a tile, in groups of rows so that tiles of the right operand stay in L2."""
    first = tile // (GROUP * columns) * GROUP
    size = tl.minimum(rows - first, GROUP)
    inside = tile % (GROUP * columns)
    return first + inside % size, inside // size


@triton.jit
def sum_of_products(
    left, right, ours, theirs, row, column, start, stop,
    ROWS: tl.constexpr, COLUMNS: tl.constexpr, INNER: tl.constexpr,
):  # fmt: skip
    """int32 sums over [start, stop) of rows of two descriptors, (rows, inner) each."""
    total = tl.zeros((ROWS, COLUMNS), tl.int32)
    for h in range(start, stop, INNER):
        x = left.load([ours + row * ROWS, h])
        y = right.load([theirs + column * COLUMNS, h])
        total = tl.dot(x, y.T, total, out_dtype=tl.int32)
    return total


@triton.jit
def times_modulo(total, p, w, fraction, offset):
    """(total w) mod p in [0, p), for |total| < 2^31 - p; fraction = floor(2^32 w / p).

    `offset` is -2^31 mod p: u = total + 2^31 + offset is not negative, and the quotient
    floor(u fraction / 2^32) is floor(u w / p) or one less. 2^31 is not added, for the compiler
    would have the tensor cores begin with it, whose sums stop at the ends of an int32.
    """
    u = (total ^ -2147483648).to(tl.uint32, bitcast=True) + offset
    quotient = tl.umulhi(u, tl.zeros_like(u) + fraction)
    rest = u * w - quotient * p
    return tl.minimum(rest, rest - p)


SIZES = ["m", "k", "planes", "batch", "left_batch", "right_batch", "longest"]


@triton.jit(do_not_specialize=SIZES)
def residues(
    left, right, out, constants, m, n, k, pitch, planes, batch, left_batch, right_batch, longest,
    ROWS: tl.constexpr, COLUMNS: tl.constexpr, INNER: tl.constexpr, GROUP: tl.constexpr,
):  # fmt: skip
    """out[z, b] = (left[z, b] right[z, b]^T w_z) mod p_z in [0, p_z): bytes, or 16 bits each.

    `left` and `right` are descriptors of planes (planes * batch * rows, inner), `out` is
    (planes, batch, m, pitch), `constants` are (p, w, floor(2^32 w/p), offset) as uint32. The inner
    dimension is cut every `longest` terms, before an int32 could overflow.
    """
    rows, columns = tl.cdiv(m, ROWS), tl.cdiv(n, COLUMNS)
    for tile in range(tl.program_id(0), planes * batch * rows * columns, tl.num_programs(0)):
        item = tile // (rows * columns)
        row, column = tile_at(tile % (rows * columns), rows, columns, GROUP)
        z, b = item // batch, item % batch
        ours = (z * left_batch + b % left_batch) * m
        theirs = (z * right_batch + b % right_batch) * n
        p, w = tl.load(constants + 4 * z), tl.load(constants + 4 * z + 1)
        fraction, offset = tl.load(constants + 4 * z + 2), tl.load(constants + 4 * z + 3)
        rest = tl.zeros((ROWS, COLUMNS), tl.uint32)
        for start in range(0, k, longest):
            total = sum_of_products(
                left, right, ours, theirs, row, column, start, tl.minimum(start + longest, k),
                ROWS, COLUMNS, INNER,
            )  # fmt: skip
            rest += times_modulo(total, p, w, fraction, offset)
            rest = tl.minimum(rest, rest - p)
        i, j = row * ROWS + tl.arange(0, ROWS), column * COLUMNS + tl.arange(0, COLUMNS)
        at = out + (wide(item) * m + i)[:, None] * pitch + j[None, :]
        tl.store(at, rest.to(out.dtype.element_ty), (i < m)[:, None] & (j < n)[None, :])


@triton.jit
def power(exponent):
    """2^exponent as a float32: 2^-100 at least, infinity beyond the range."""
    field = tl.minimum(tl.maximum(exponent + 127, 27), 255)
    return (field << 23).to(tl.float32, bitcast=True)


@triton.jit
def weighed(table, line, real, count, unit, lift, SATURATED: tl.constexpr):
    """Steps times 2^unit and weights times 2^lift of lines, in float32, rounded up (`Weighed`).

    SATURATED leads have units that are smaller by a power of two, so both are larger by it.
    """
    at = table + line
    drop = tl.zeros_like(line)
    if SATURATED:
        q1 = tl.load(at + SUM * count, real, other=0)
        drop = below_top(q1, tl.load(at + NONZEROS * count, real, other=0))
    step = tl.load(at + STEP * count, real, other=0)
    exponent = (step >> 52).to(tl.int32) - 1023
    h = tl.where(step == 0, 0.0, power(exponent + unit + drop))
    weight = tl.load(at + WEIGHT * count, real, other=0).to(tl.float64, bitcast=True)
    lifted = ((wide(lift) + drop + 1023) << 52).to(tl.float64, bitcast=True) * weight
    g = tl.where(weight == 0, 0.0, tl.maximum(lifted.to(tl.float32), LEAST)) * UP
    return h, g


LEAST = tl.constexpr(2.0**-100)


@triton.jit
def certified(
    total, rows_table, columns_table, i, j, row_real, column_real, heights, widths, unit, lift,
    both, SATURATED: tl.constexpr,
):  # fmt: skip
    """Whether float32 sums of leading integers certify elements: lines i times lines j of tables.

    `heights` and `widths` are all lines of the tables. In units of 2^(lift + unit), total must be
    as large as g_i h_j + h_i (g_j + both h_j), rounded so that less is certified: as if no entry
    were 0 (`bounds.Certificate`). Exponents out of range give infinities or NaN.
    """
    row, v = weighed(rows_table, i, row_real, heights, unit, lift, SATURATED)
    column, u = weighed(columns_table, j, column_real, widths, unit, lift, SATURATED)
    # Fused in one way, as on Hopper (kernels/cuda/certificate.cuh).
    u = tl.fma(column, tl.zeros_like(column) + both, u)
    wanted = tl.fma(v[:, None], column[None, :], row[:, None] * u[None, :])
    return total * DOWN >= wanted


@triton.jit
def columns_split(x, ROWS: tl.constexpr, COLUMNS: tl.constexpr, COUNT: tl.constexpr):
    """So many parts of a tile, a power of two, in the order of its columns."""
    if COUNT == 1:
        return (x,)
    else:
        pair = tl.permute(tl.reshape(x, (ROWS, 2, COLUMNS // 2)), (0, 2, 1))
        low, high = tl.split(pair)
        first = columns_split(low, ROWS, COLUMNS // 2, COUNT // 2)
        return first + columns_split(high, ROWS, COLUMNS // 2, COUNT // 2)


PIECE = tl.constexpr(32)  # columns at a time: what is known of all of them fits no registers


TEST = ["m", "k", "batch", "left_batch", "right_batch", "unit", "lift", "both"]


@triton.jit(do_not_specialize=TEST)
def certify(
    left, right, marks, doubtful, rows_table, columns_table, m, n, k, batch, left_batch,
    right_batch, unit, lift, both,
    ROWS: tl.constexpr, COLUMNS: tl.constexpr, INNER: tl.constexpr, GROUP: tl.constexpr,
    SATURATED: tl.constexpr,
):  # fmt: skip
    """Marks are 1 where leading integers do not certify an element, 0 elsewhere, (batch, m, n).

    `left` and `right` are descriptors of leading integers; `unit`, `lift` and `both` are those of
    `certified`. Float32 will do: an element that is marked in vain is tested again. `doubtful`
    counts how many are marked.
    """
    rows, columns = tl.cdiv(m, ROWS), tl.cdiv(n, COLUMNS)
    for tile in range(tl.program_id(0), batch * rows * columns, tl.num_programs(0)):
        b = tile // (rows * columns)
        down, across = tile_at(tile % (rows * columns), rows, columns, GROUP)
        ours, theirs = b % left_batch * m, b % right_batch * n
        total = sum_of_products(
            left, right, ours, theirs, down, across, 0, k, ROWS, COLUMNS, INNER
        ).to(tl.float32)
        i = down * ROWS + tl.arange(0, ROWS)
        pieces = columns_split(total, ROWS, COLUMNS, COLUMNS // PIECE)
        for piece in tl.static_range(COLUMNS // PIECE):
            j = across * COLUMNS + piece * PIECE + tl.arange(0, PIECE)
            known = certified(
                pieces[piece], rows_table, columns_table, ours + i, theirs + j, i < m, j < n,
                left_batch * m, right_batch * n, unit, lift, both, SATURATED,
            )  # fmt: skip
            at = marks + (wide(b) * m + i)[:, None] * n + j[None, :]
            real = (i < m)[:, None] & (j < n)[None, :]
            tl.store(at, (~known).to(tl.uint8), real)
            many = tl.sum(tl.sum((~known & real).to(tl.int32), 1), 0)
            if many > 0:
                tl.atomic_add(doubtful, many.to(tl.int64), sem="relaxed")


@triton.jit
def spans_of(table, line, real, count, inner):
    """Of lines: how many numbers are not 0, where the first is, where there are no more; near."""
    at = table + line
    many = tl.load(at + NONZEROS * count, real, other=0).to(tl.int32)
    first = inner - tl.load(at + AHEAD * count, real, other=0).to(tl.int32)
    stop = tl.load(at + STOP * count, real, other=0).to(tl.int32)
    return many, first, stop, tl.load(at + REACH * count, real, other=0) <= NEAR


NEAR = tl.constexpr(60)  # products of two numbers that reach no further are no 0 in float32


@triton.jit
def certified_closely(total, ours, theirs, down, up, entry, both, dropped):
    """Marks by sums of magnitudes, right but for factors `down` and `up`: all of the test.

    `ours` and `theirs` are what `facts_of` gives of rows and columns, `entry`, `both` and `dropped`
    those of `bounds.Certificate`, times 2^-unit and 2^-2unit. UNSETTLED where even more would not
    certify an element; so many terms these have in all, at most, comes second.
    """
    row, v, many, first, stop, near = ours
    column, u, others, begin, end, other_near = theirs
    shared = tl.minimum(stop[:, None], end[None, :]) - tl.maximum(first[:, None], begin[None, :])
    shared = tl.minimum(tl.maximum(shared, 0), tl.minimum(many[:, None], others[None, :]))
    places = shared.to(tl.float32)
    most = places * entry
    wanted = tl.minimum(v[:, None], most) * column[None, :]
    wanted += tl.minimum(u[None, :], most) * row[:, None]
    wanted += (places * both + dropped) * (row[:, None] * column[None, :])
    nothing = (total == 0) & near[:, None] & other_near[None, :]
    certified = (total * down >= wanted * UP) | nothing
    # Sums below 2^-90 may be of numbers that float32 does not hold.
    hopeless = total * up + 2.0**-90 < wanted * DOWN
    hopeless &= (total > 0) | (near[:, None] & other_near[None, :])
    hopeless &= ~certified
    open_terms = tl.sum(tl.sum(tl.where(hopeless, shared, 0).to(tl.int64), 1), 0)
    return tl.where(certified, 0, tl.where(hopeless, UNSETTLED, UNCERTIFIED)), open_terms


@triton.jit
def facts_of(table, line, real, count, unit, inner):
    """What `certified_closely` knows of lines: `weighed`, and `spans_of` them."""
    step, weight = weighed(table, line, real, count, unit, -unit, False)
    many, first, stop, near = spans_of(table, line, real, count, inner)
    return step, weight, many, first, stop, near


CLOSE = [
    "few", "m", "k", "batch", "left_batch", "right_batch", "unit", "down", "up", "entry", "both",
    "dropped",
]  # fmt: skip


@triton.jit(do_not_specialize=CLOSE)
def certify_closely(
    left, right, marks, open_terms, doubtful, few, rows_table, columns_table, m, n, k, batch,
    left_batch, right_batch, unit, down, up, entry, both, dropped,
    ROWS: tl.constexpr, COLUMNS: tl.constexpr, INNER: tl.constexpr, GROUP: tl.constexpr,
    PLAIN: tl.constexpr,
):  # fmt: skip
    """What `certify` does, by magnitudes as bfloat16, whose sums are float32: for any lines.

    If `doubtful` is not more than `few`, marks stay as they are. `open_terms` counts terms of the
    elements that are UNSETTLED, about. Without PLAIN magnitudes are multiplied as float32, for
    Triton's interpreter.
    """
    rows, columns = tl.cdiv(m, ROWS), tl.cdiv(n, COLUMNS)
    count = tl.where(tl.load(doubtful) > few, batch * rows * columns, 0)
    for tile in range(tl.program_id(0), count, tl.num_programs(0)):
        b = tile // (rows * columns)
        at_row, at_column = tile_at(tile % (rows * columns), rows, columns, GROUP)
        ours, theirs = b % left_batch * m, b % right_batch * n
        total = tl.zeros((ROWS, COLUMNS), tl.float32)
        for h in range(0, k, INNER):
            x = left.load([ours + at_row * ROWS, h])
            y = right.load([theirs + at_column * COLUMNS, h])
            if not PLAIN:
                x, y = x.to(tl.float32), y.to(tl.float32)
            total = tl.dot(x, y.T, total)
        i = at_row * ROWS + tl.arange(0, ROWS)
        row_facts = facts_of(rows_table, ours + i, i < m, left_batch * m, unit, k)
        pieces = columns_split(total, ROWS, COLUMNS, COLUMNS // PIECE)
        for piece in tl.static_range(COLUMNS // PIECE):
            j = at_column * COLUMNS + piece * PIECE + tl.arange(0, PIECE)
            facts = facts_of(columns_table, theirs + j, j < n, right_batch * n, unit, k)
            known, terms = certified_closely(
                pieces[piece], row_facts, facts, down, up, entry, both, dropped
            )
            if terms > 0:
                tl.atomic_add(open_terms, terms, sem="relaxed")
            at = marks + (wide(b) * m + i)[:, None] * n + j[None, :]
            tl.store(at, known.to(tl.uint8), (i < m)[:, None] & (j < n)[None, :])
