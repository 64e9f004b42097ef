"""Reconstruction with scalars: alpha X + beta c as one exact sum, rounded once."""

from __future__ import annotations

import numpy as np

from widen.cpu.kernels.cache import BITS5, BOOL, FLOAT, INT, kernel
from widen.cpu.kernels.expansions import TILE
from widen.cpu.kernels.limbs import LEAST_PRODUCT, LIMBS, rounded_sum
from widen.cpu.kernels.reconstruct import ARGUMENTS, gather, nudged, same, settle_all, slack


@kernel(*ARGUMENTS, INT[:, ::1], FLOAT[:, :, :, :, :], BOOL[:, :, ::1], INT[::1], INT[::1], BITS5)
def scaled(
    begin, end, groups, places, constants, basis, modulus, offsets,
    row_exponent, column_exponent, row_bits, column_bits, row_exact, column_exact,
    always, fmt, out, unsettled, alpha, beta, addend,
):  # fmt: skip
    """Round alpha X 2^-(s+t) + beta c into `out`, once, word by word.

    Scalars and `addend` are float64 bits; results and c are (words, parts, batch, rows, columns).
    """
    _, parts, batch, rows, columns = out.shape
    words = np.empty(fmt.shape[0])
    total = batch * rows * columns
    width = modulus.shape[0]
    limbs = np.empty((parts, width, TILE), np.int64)
    signs_of_x = np.empty((parts, TILE), np.int64)
    work = np.empty((parts, width, 1), np.int64)
    sign = np.empty(parts, np.int64)
    sums = np.zeros((LIMBS, 1), np.int64)
    for job in range(begin, end):
        start = job * TILE
        size = min(TILE, total - start)
        for part in range(parts):
            gather(
                groups, start, size, places[part], constants[part], basis, modulus, offsets,
                limbs[part],
            )  # fmt: skip
            settle_all(limbs[part], size, signs_of_x[part])
        j, i, b = start % columns, start // columns % rows, start // columns // rows
        for at in range(size):
            base = -(row_exponent[b, i] + column_exponent[b, j])
            nudge = np.int64(-1)
            if always >= 0:
                nudge = slack(
                    row_bits[b, i], row_exact[b, i], column_bits[b, j], column_exact[b, j], always
                )
            if nudge >= 0:  # more is no fault, and lines may be scaled past all that sums hold
                nudge = max(nudge, LEAST_PRODUCT - base)
            # X lies in an interval, for complex numbers in a square: rounding is monotone in each
            # part, so the same value at all corners is the value of every point between.
            corners = 1 if nudge < 0 else 2 * parts
            for corner in range(corners):
                for part in range(parts):
                    direction = 1 - 2 * ((corner >> part) & 1)
                    sign[part] = nudged(
                        limbs[part], at, signs_of_x[part, at], work[part], nudge, direction
                    )
                for part in range(parts):
                    rounded_sum(
                        sums, work, sign, base, alpha, beta, addend[:, :, b, i, j], part, fmt,
                        words,
                    )  # fmt: skip
                    for w in range(words.shape[0]):
                        if corner == 0:
                            out[w, part, b, i, j] = words[w]
                        elif not same(words[w], out[w, part, b, i, j]):
                            unsettled[b, i, j] = True
            j += 1
            if j == columns:
                j, i = 0, i + 1
                if i == rows:
                    i, b = 0, b + 1
