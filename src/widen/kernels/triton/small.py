"""Products of many small int8 matrices: several in a tile, of which blocks on the diagonal count.

A tile of EDGE x EDGE sums has the rows of some matrices and the columns of the same ones. Their own
products are blocks on its diagonal; the others are not stored. Copies and tensor cores take a tile
no longer for it, and there are that many times fewer.
"""

from __future__ import annotations

import triton
import triton.language as tl

from widen.kernels.triton.multiply import times_modulo
from widen.kernels.triton.numbers import wide


@triton.jit
def residues(
    left, right, out, constants, m, n, k, pitch, width, batch, items,
    EDGE: tl.constexpr, INNER: tl.constexpr,
):  # fmt: skip
    """What `multiply.residues` does, of k <= INNER terms, for `items` matrices a program.

    `left` and `right` are planes (planes, batch, m or n, pitch), `out` is (planes, batch, m,
    width): n, in 16s, of which `items` fit EDGE, as they do of m.
    """
    groups = tl.cdiv(batch, items)
    z, first = tl.program_id(0) // groups, tl.program_id(0) % groups * items
    here = tl.minimum(items, batch - first)
    row, column = tl.arange(0, EDGE), tl.arange(0, EDGE)
    h = tl.arange(0, INNER)
    ours, theirs, beside = row // m, column // width, column % width
    above = wide(z * batch + first)
    at = left + (above * m + row)[:, None] * pitch + h[None, :]
    x = tl.load(at, (ours < here)[:, None] & (h < k)[None, :], other=0)
    at = right + (above * n + theirs * n + beside)[:, None] * pitch + h[None, :]
    y = tl.load(at, ((theirs < here) & (beside < n))[:, None] & (h < k)[None, :], other=0)
    total = tl.dot(x, y.T, out_dtype=tl.int32)
    p, w = tl.load(constants + 4 * z), tl.load(constants + 4 * z + 1)
    fraction, offset = tl.load(constants + 4 * z + 2), tl.load(constants + 4 * z + 3)
    rest = times_modulo(total, p, w, fraction, offset).to(out.dtype.element_ty)
    # Sixteen columns at a time belong to one matrix, as the compiler can see here.
    rest = tl.reshape(rest, (EDGE, EDGE // 16, 16))
    sixteen, inside = 16 * tl.arange(0, EDGE // 16), tl.arange(0, 16)
    of_row, of_column = ours[:, None, None], (sixteen // width)[None, :, None]
    across = (sixteen % width)[None, :, None] + inside[None, None, :]
    at = out + (above * m + row)[:, None, None] * width + across
    tl.store(at, rest, (of_row == of_column) & (of_row < here))
