"""Elements that meet an infinity or a NaN: what the ordinary sum of products has there."""

from __future__ import annotations

import numpy as np
from numba import njit

from widen.cpu.kernels.limbs import BITS4, BOOL, FLOAT, INFINITY, MAGNITUDE, kernel


@njit
def _sign_or_special(bits):
    """-1, 0 or 1 for finite numbers; infinities and NaN as they are."""
    magnitude = bits & MAGNITUDE
    if magnitude >= INFINITY:
        return np.int64(bits).view(np.float64)
    sign = 1.0 if bits > 0 else -1.0
    return 0.0 if magnitude == 0 else sign


@kernel(BITS4, BITS4, BOOL[:, :], BOOL[:, :], FLOAT[:, :, :, :])
def special(begin, end, left, right, rows, columns, out):
    """Overwrite elements of special rows and columns with NaN or an infinity.

    Finite numbers stand in by their signs, so that sums are exact unless they are special. The
    real part is re re - im im, the imaginary one re im + im re, term by term. A job is a
    row.
    """
    parts, _, m, n = out.shape
    inner = left.shape[3]
    for job in range(begin, end):
        b, i = job // m, job % m
        lb = b if left.shape[1] > 1 else 0
        rb = b if right.shape[1] > 1 else 0
        for j in range(n):
            if not (rows[lb, i] or columns[rb, j]):
                continue
            for part in range(parts):
                total = 0.0
                for h in range(inner):
                    for q in range(parts):
                        x = _sign_or_special(left[q, lb, i, h])
                        y = _sign_or_special(right[q ^ part, rb, j, h])
                        total += -(x * y) if part == 0 and q == 1 else x * y
                    if total != total:
                        break
                out[part, b, i, j] = total
