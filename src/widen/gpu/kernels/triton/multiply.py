"""Products of int8 planes on any GPU: all planes of a plan in one persistent launch."""

from __future__ import annotations

import triton
import triton.language as tl

from widen.gpu.kernels.triton.numbers import FLAGS, INEXACT, LEVEL, WEIGHT, wide

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
def sum_of_pairs(
    left, right, ours, theirs, left_low, right_low, row, column, k,
    ROWS: tl.constexpr, COLUMNS: tl.constexpr, INNER: tl.constexpr,
):  # fmt: skip
    """The same for numbers 128 x + x' in two planes, as float32; x' y' is left out."""
    total = tl.zeros((ROWS, COLUMNS), tl.int32)
    mixed = tl.zeros((ROWS, COLUMNS), tl.int32)
    for h in range(0, k, INNER):
        x = left.load([ours + row * ROWS, h])
        y = right.load([theirs + column * COLUMNS, h])
        total = tl.dot(x, y.T, total, out_dtype=tl.int32)
        low = right.load([right_low + theirs + column * COLUMNS, h])
        mixed = tl.dot(x, low.T, mixed, out_dtype=tl.int32)
        low = left.load([left_low + ours + row * ROWS, h])
        mixed = tl.dot(low, y.T, mixed, out_dtype=tl.int32)
    return total.to(tl.float32) * 16384.0 + mixed.to(tl.float32) * 128.0


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
def certified(
    total, rows_table, columns_table, i, j, row_real, column_real, heights, widths, shift, both
):  # fmt: skip
    """Whether float32 sums of leading integers certify elements: lines i times lines j of tables.

    `heights` and `widths` are all lines of the tables. In units of 2^(levels + shift),
    total >= (v/h)(column/w) + (row/h)((u + both)/w), rounded so that less is certified; exponents
    out of range give infinities or NaN.
    """
    at_row, at_column = rows_table + i, columns_table + j
    ours = tl.load(at_row + LEVEL * heights, row_real, other=0).to(tl.int32)
    theirs = tl.load(at_column + LEVEL * widths, column_real, other=0).to(tl.int32)
    h, w = power(-ours - shift // 2) * UP, power(-theirs - shift + shift // 2) * UP
    v = tl.load(at_row + WEIGHT * heights, row_real, other=0).to(tl.float32) * h
    u = tl.load(at_column + WEIGHT * widths, column_real, other=0).to(tl.float32)
    row = (tl.load(at_row + FLAGS * heights, row_real, other=0) & INEXACT > 0).to(tl.float32) * h
    column = (tl.load(at_column + FLAGS * widths, column_real, other=0) & INEXACT > 0).to(
        tl.float32
    )
    u = (u + both * column) * w
    column *= w
    # Fused in one way, as on Hopper (kernels/cuda/certificate.cuh).
    wanted = tl.fma(v[:, None], column[None, :], row[:, None] * u[None, :])
    return total * DOWN >= wanted


TEST = ["m", "k", "batch", "left_batch", "right_batch", "shift", "both"]


@triton.jit(do_not_specialize=TEST)
def certify(
    left, right, marks, rows_table, columns_table, m, n, k, batch, left_batch, right_batch, shift,
    both,
    ROWS: tl.constexpr, COLUMNS: tl.constexpr, INNER: tl.constexpr, GROUP: tl.constexpr,
    PLANES: tl.constexpr,
):  # fmt: skip
    """Marks are 1 where leading integers do not certify an element, 0 elsewhere, (batch, m, n).

    `left` and `right` are descriptors of leading integers, in one plane, or in two of seven bits;
    `shift` and `both` are those of `bounds.Certificate`, for integers this short. Float32 will do:
    an element that is marked in vain is tested again.
    """
    rows, columns = tl.cdiv(m, ROWS), tl.cdiv(n, COLUMNS)
    for tile in range(tl.program_id(0), batch * rows * columns, tl.num_programs(0)):
        b = tile // (rows * columns)
        down, across = tile_at(tile % (rows * columns), rows, columns, GROUP)
        ours, theirs = b % left_batch * m, b % right_batch * n
        if PLANES == 1:
            total = sum_of_products(
                left, right, ours, theirs, down, across, 0, k, ROWS, COLUMNS, INNER
            ).to(tl.float32)
        else:
            total = sum_of_pairs(
                left, right, ours, theirs, left_batch * m, right_batch * n, down, across, k,
                ROWS, COLUMNS, INNER,
            )  # fmt: skip
        i = down * ROWS + tl.arange(0, ROWS)
        j = across * COLUMNS + tl.arange(0, COLUMNS)
        known = certified(
            total, rows_table, columns_table, ours + i, theirs + j, i < m, j < n, left_batch * m,
            right_batch * n, shift, both,
        )  # fmt: skip
        at = marks + (wide(b) * m + i)[:, None] * n + j[None, :]
        tl.store(at, (~known).to(tl.uint8), (i < m)[:, None] & (j < n)[None, :])
