"""Products of many small int8 matrices: several in a tile, of which blocks on the diagonal count.

A tile of EDGE x EDGE sums has the rows of some matrices and the columns of the same ones. Their own
products are blocks on its diagonal; the others are not stored. Copies and tensor cores take a tile
no longer for it, and there are that many times fewer.

Columns of every matrix are `width` apart, n rounded up to 16: sixteen neighbours in a tile belong
to one matrix.
"""

from __future__ import annotations

import triton
import triton.language as tl

from widen.gpu.kernels.triton.multiply import certified_closely, facts_of, times_modulo
from widen.gpu.kernels.triton.numbers import wide


@triton.jit
def rows_of(base, line, real, k, pitch, INNER: tl.constexpr):
    """Rows of k bytes, (lines, INNER)."""
    h = tl.arange(0, INNER)
    at = base + line.to(tl.int64)[:, None] * pitch + h[None, :]
    return tl.load(at, real[:, None] & (h < k)[None, :], other=0)


@triton.jit
def store_blocks(to, values, m, n, width, pitch, here, EDGE: tl.constexpr):
    """Store blocks on the diagonal, `here` of m x n, one under the other, rows `pitch` apart."""
    values = tl.reshape(values, (EDGE, EDGE // 16, 16))
    row, sixteen, inside = tl.arange(0, EDGE), 16 * tl.arange(0, EDGE // 16), tl.arange(0, 16)
    across = (sixteen % width)[None, :, None] + inside[None, None, :]
    of_row, of_column = (row // m)[:, None, None], (sixteen // width)[None, :, None]
    own = (of_row == of_column) & (of_row < here) & (across < n)
    tl.store(to + (row * pitch)[:, None, None] + across, values, own)


@triton.jit(do_not_specialize=["batch", "items"])
def residues(
    left, right, out, constants, m, n, k, pitch, width, batch, items, left_plane_stride,
    right_plane_stride,
    EDGE: tl.constexpr, INNER: tl.constexpr,
):  # fmt: skip
    """What `multiply.residues` does, of k <= INNER terms, for `items` matrices a program.

    `left` and `right` are planes (planes, batch, m or n, pitch), `out` is (planes, batch, m,
    width). As many rows and columns fit EDGE.
    """
    groups = tl.cdiv(batch, items)
    z, first = tl.program_id(0) // groups, tl.program_id(0) % groups * items
    here = tl.minimum(items, batch - first)
    row, column = tl.arange(0, EDGE), tl.arange(0, EDGE)
    x = rows_of(
        left + wide(z) * left_plane_stride, first * m + row, row // m < here, k, pitch, INNER
    )  # fmt: skip
    y = rows_of(
        right + wide(z) * right_plane_stride, (first + column // width) * n + column % width,
        (column // width < here) & (column % width < n), k, pitch, INNER,
    )  # fmt: skip
    total = tl.dot(x, y.T, out_dtype=tl.int32)
    p, w = tl.load(constants + 4 * z), tl.load(constants + 4 * z + 1)
    fraction, offset = tl.load(constants + 4 * z + 2), tl.load(constants + 4 * z + 3)
    rest = times_modulo(total, p, w, fraction, offset).to(out.dtype.element_ty)
    to = out + wide(z * batch + first) * m * width
    store_blocks(to, rest, m, width, width, width, here, EDGE)


CLOSE = ["batch", "items", "unit", "down", "up", "entry", "both", "dropped"]


@triton.jit(do_not_specialize=CLOSE)
def certify(
    left, right, marks, open_terms, rows_table, columns_table, m, n, k, pitch, width, batch, items,
    left_plane_stride, right_plane_stride, unit, down, up, entry, both, dropped,
    EDGE: tl.constexpr, INNER: tl.constexpr, PLAIN: tl.constexpr,
):  # fmt: skip
    """What `multiply.certify_closely` does, likewise."""
    first = tl.program_id(0) * items
    here = tl.minimum(items, batch - first)
    row, column = tl.arange(0, EDGE), tl.arange(0, EDGE)
    i, j = first * m + row, (first + column // width) * n + column % width
    row_real, column_real = row // m < here, (column // width < here) & (column % width < n)
    x = rows_of(left, i, row_real, k, pitch, INNER)
    y = rows_of(right, j, column_real, k, pitch, INNER)
    if not PLAIN:
        x, y = x.to(tl.float32), y.to(tl.float32)
    rows = facts_of(rows_table, i, row_real, batch * m, unit, k)
    columns = facts_of(columns_table, j, column_real, batch * n, unit, k)
    known, terms = certified_closely(tl.dot(x, y.T), rows, columns, down, up, entry, both, dropped)
    if terms > 0:
        tl.atomic_add(open_terms, terms, sem="relaxed")
    to = marks + wide(first) * m * n
    store_blocks(to, known.to(tl.uint8), m, n, width, n, here, EDGE)
