"""Reconstruction: groups to one exact integer in limbs, certified and rounded once."""

from __future__ import annotations

import numpy as np
from numba import njit, prange

from widen.kernels.numba.encode import HALF, balance
from widen.kernels.numba.limbs import MASK, place, round_magnitude, settle

TILE = 128


@njit
def gather_residues(groups, start, size, signs, constants, basis, modulus, limbs):
    """limbs[:, at] = X of `size` neighbouring elements, by the Chinese remainder theorem.

    With w_i the inverse of P/p_i modulo p_i and c_i = (group w_i mod p_i) balanced,
    X = sum c_i P/p_i - q P, q = rint(sum c_i/p_i). `constants` are (p, 1/p, w, 2^26 w mod p). Limbs
    take 32 + 22 bits a term and at most 256 terms, so an int64 holds them.
    """
    count, width = basis.shape
    streams = signs.shape[0]
    quotient, rest = np.zeros(TILE), np.empty(TILE)
    whole = np.empty(TILE, np.int64)
    limbs[:, :size] = 0
    for c in range(count):
        p, inverse, low, high = (
            constants[c, 0], constants[c, 1], constants[c, 2], constants[c, 3],
        )  # fmt: skip
        rest[:size] = 0.0
        for stream in range(streams):
            if signs[stream] != 0:
                sign = np.float64(signs[stream])
                group = groups[stream * count + c, start : start + size]
                for at in range(size):
                    # |upper| <= 2^27 and the rest <= 2^25, so the sum is below 2^27 p, exactly.
                    value = group[at]
                    upper = np.rint(value * (1.0 / HALF))
                    value = upper * high + (value - upper * HALF) * low
                    rest[at] += sign * balance(value, p, inverse)
        if streams > 1:
            for at in range(size):
                rest[at] = balance(rest[at], p, inverse)
        for at in range(size):
            quotient[at] += rest[at] * inverse
            whole[at] = np.int64(rest[at])
        for l in range(width):
            factor = basis[c, l]
            for at in range(size):
                limbs[l, at] += whole[at] * factor
    for at in range(size):
        whole[at] = np.int64(np.rint(quotient[at]))
    for l in range(width):
        factor = modulus[l]
        for at in range(size):
            limbs[l, at] -= whole[at] * factor


@njit
def gather_digits(groups, start, size, signs, offsets, limbs):
    """limbs[:, at] = sum of sign * group * 2^offset."""
    limbs[:, :size] = 0
    for g in range(signs.shape[0]):
        if signs[g] != 0:
            for at in range(size):
                place(limbs[:, at], signs[g] * np.int64(groups[g, start + at]), offsets[g])


@njit
def settle_all(limbs, size, sign):
    """`settle` for every column of limbs at once: magnitudes, and -1 or 1 in `sign`."""
    carry = np.zeros(TILE, np.int64)
    for l in range(limbs.shape[0]):
        for at in range(size):
            value = limbs[l, at] + carry[at]
            limbs[l, at] = value & MASK
            carry[at] = value >> 32
    for at in range(size):
        sign[at] = carry[at] | 1  # the last carry is -1 or 0
        carry[at] = -carry[at]
    for l in range(limbs.shape[0]):
        for at in range(size):
            value = (limbs[l, at] ^ ((sign[at] >> 1) & MASK)) + carry[at]
            limbs[l, at] = value & MASK
            carry[at] = value >> 32


@njit
def nudged(limbs, at, sign, work, nudge, direction):
    """work[:, 0] = sign * limbs[:, at] + direction * 2^nudge as a magnitude; its sign."""
    count = limbs.shape[0]
    for l in range(count):
        work[l, 0] = sign * limbs[l, at]
    if nudge >= 0:
        work[nudge >> 5, 0] += np.int64(direction) << (nudge & 31)
    return settle(work, 0, count - 1)


@njit
def same(x, y):
    """Whether two floats have the same bits."""
    return np.float64(x).view(np.int64) == np.float64(y).view(np.int64)


@njit
def slack(row_bits, row_exact, column_bits, column_exact, always):
    """nudge with |error of X| <= 2^nudge; -1 if there is none.

    The error is at most (V + U)/2 + k/4 + dropped, V counting if the column was rounded and U if
    the row was; ``always`` bounds the last two: four times the largest of them is enough.
    """
    largest = np.int64(-1)
    if not column_exact:
        largest = max(row_bits, always)
    if not row_exact:
        largest = max(largest, column_bits, always)
    return largest + 2 if largest >= 0 else largest


@njit(
    "void(float64[:,::1], int64[:,::1], float64[:,::1], int64[:,::1], int64[::1], int64[::1], "
    "int64[:,::1], int64[:,::1], int64[:,::1], int64[:,::1], boolean[:,::1], boolean[:,::1], "
    "int64, int64[::1], float64[:,:,:,:], boolean[:,:,::1])",
    parallel=True,
    cache=True,
    nogil=True,
)
def plain(
    groups, signs, constants, basis, modulus, offsets,
    row_exponent, column_exponent, row_bits, column_bits, row_exact, column_exact,
    always, fmt, out, unsettled,
):  # fmt: skip
    """Round X 2^-(s+t) into `out`, part by part.

    `groups` is (groups, batch * rows * columns). Residues come with the constants of
    `gather_residues`, limbs of P/p in `basis` and of P in `modulus`; digits with no constants and
    the bit offset of each group. `row_bits` and `column_bits` bound V and U by
    powers of two, `always` the rest of the error (negative: X is exact, or exact enough). An element
    whose rounding the error could change is marked in `unsettled`.
    """
    parts, batch, rows, columns = out.shape
    total = batch * rows * columns
    width = modulus.shape[0]
    precision, lowest, highest = fmt[0], fmt[1], fmt[2]
    for job in prange((total + TILE - 1) // TILE):
        start = job * TILE
        size = min(TILE, total - start)
        limbs = np.empty((width, TILE), np.int64)
        work = np.empty((width, 1), np.int64)
        sign = np.empty(TILE, np.int64)
        for part in range(parts):
            if constants.shape[0] > 0:
                gather_residues(
                    groups, start, size, signs[part], constants, basis, modulus, limbs
                )
            else:
                gather_digits(groups, start, size, signs[part], offsets, limbs)
            settle_all(limbs, size, sign)
            j, i, b = start % columns, start // columns % rows, start // columns // rows
            at = 0
            while at < size:
                # The rest of a row, or of the tile.
                for at in range(at, min(at + columns - j, size)):
                    base = -(row_exponent[b, i] + column_exponent[b, j])
                    nudge = np.int64(-1)
                    if always >= 0:
                        nudge = slack(
                            row_bits[b, i], row_exact[b, i], column_bits[b, j], column_exact[b, j],
                            always,
                        )  # fmt: skip
                    if nudge < 0:
                        value = sign[at] * round_magnitude(
                            limbs, at, 0, width - 1, base, precision, lowest, highest
                        )
                    else:
                        up = nudged(limbs, at, sign[at], work, nudge, 1)
                        value = up * round_magnitude(
                            work, 0, 0, width - 1, base, precision, lowest, highest
                        )
                        down = nudged(limbs, at, sign[at], work, nudge, -1)
                        other = down * round_magnitude(
                            work, 0, 0, width - 1, base, precision, lowest, highest
                        )
                        if not same(value, other):
                            unsettled[b, i, j] = True
                    out[part, b, i, j] = value
                    j += 1
                at += 1
                j, i = 0, i + 1
                if i == rows:
                    i, b = 0, b + 1
