"""Reconstruction: groups to one exact integer in limbs, certified and rounded once."""

from __future__ import annotations

import numpy as np
from numba import njit, types

from widen.kernels.numba.encode import HALF, balance
from widen.kernels.numba.limbs import (
    BOOL,
    FLOAT,
    INT,
    MASK,
    kernel,
    place,
    power_of_two,
    round_magnitude,
    settle,
)

TILE = 128  # ELEMENTS_TILE of the backend


@njit
def gather_residues(groups, start, size, places, constants, basis, modulus, limbs):
    """limbs[:, at] = X of `size` neighbouring elements, by the Chinese remainder theorem.

    With w_i the inverse of P/p_i modulo p_i, c_i = (residue of X times w_i mod p_i) balanced and
    X = sum c_i P/p_i - q P, q = rint(sum c_i/p_i). A residue is a sum of a few groups, at
    `places[i]` (-1: none), times factors: `constants` are (p, 1/p, then factor w and 2^26 factor w
    mod p for each of them). Limbs of P and P/p are balanced int32, so that products of 32-bit
    numbers do; sums take 31 + 22 bits a term and at most 512 terms, which an int64 holds.
    """
    count, width = basis.shape
    terms = places.shape[1]
    quotient, rest = np.zeros(TILE), np.empty(TILE)
    whole = np.empty(TILE, np.int32)
    limbs[:, :size] = 0
    for c in range(count):
        p, inverse = constants[c, 0], constants[c, 1]
        rest[:size] = 0.0
        for term in range(terms):
            if places[c, term] >= 0:
                low, high = constants[c, 2 + 2 * term], constants[c, 3 + 2 * term]
                group = groups[places[c, term], start : start + size]
                for at in range(size):
                    # |upper| <= 2^27 and the rest <= 2^25, so the sum is below 2^27 p, exactly.
                    value = group[at]
                    upper = np.rint(value * (1.0 / HALF))
                    value = upper * high + (value - upper * HALF) * low
                    rest[at] += balance(value, p, inverse)
        if terms > 1:
            for at in range(size):
                rest[at] = balance(rest[at], p, inverse)
        for at in range(size):
            quotient[at] += rest[at] * inverse
            whole[at] = np.int32(rest[at])
        for l in range(width):
            factor = np.int64(basis[c, l])
            for at in range(size):
                limbs[l, at] += np.int64(whole[at]) * factor
    for at in range(size):
        whole[at] = np.int32(np.rint(quotient[at]))
    for l in range(width):
        factor = np.int64(modulus[l])
        for at in range(size):
            limbs[l, at] -= np.int64(whole[at]) * factor


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
def leading_bits(limbs, size, head, tail, length):
    """Length in bits of every magnitude, its 64 leading bits, and nonzero if any others are set."""
    for at in range(size):
        head[at], tail[at], length[at] = 0, 0, 0
    for l in range(limbs.shape[0]):
        for at in range(size):
            bits = (np.float64(np.int64(limbs[l, at])).view(np.int64) >> 52) - 1022
            length[at] = 32 * l + bits if limbs[l, at] else length[at]
    for l in range(limbs.shape[0]):
        for at in range(size):
            place_in_head = 64 - length[at] + 32 * l
            left = min(max(place_in_head, 0), 63)
            right = min(max(-place_in_head, 0), 32)
            head[at] |= (limbs[l, at] >> right) << left
            tail[at] |= limbs[l, at] & ((np.int64(1) << right) - 1)


@njit
def round_easy(head, tail, length, sign, base, nudge, precision, lowest, highest, value, easy):
    """Round the elements that are normal numbers, far from the ends of the range.

    `easy` says which; with a nudge (|error of X| <= 2^nudge) also far enough from a midpoint that
    the error cannot matter. The dropped bits d of the head then lie more than the error away from
    the half, and the error is below a quarter of an ulp, so a power of two is no trap either.
    """
    drop = 64 - precision
    half = np.int64(1) << (drop - 1)
    for at in range(head.shape[0]):
        unit = length[at] + base[at] - precision
        whole = (head[at] >> drop) & ((np.int64(1) << precision) - 1)
        dropped = head[at] & (2 * half - 1)
        up = (dropped >> (drop - 1)) & (whole | np.int64((dropped & (half - 1)) | tail[at] != 0))
        # The error in units of the head's last bit, with one more for the tail.
        place_of_error = min(max(nudge[at] + 65 - length[at], 1), 62)
        margin = np.int64(1) << place_of_error if nudge[at] >= 0 else np.int64(0)
        exponent = min(max(unit, -1022), 971)
        value[at] = sign[at] * np.float64(whole + (up & 1)) * power_of_two(exponent)
        easy[at] = (
            (unit == exponent)
            & (unit >= lowest)
            & (length[at] + base[at] < highest)
            & (abs(dropped - half) >= margin)
            & (margin <= half >> 2)
        )


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
    """Nudge with |error of X| <= 2^nudge; -1 if there is none.

    The error is at most (V + U)/2 + k/4 + dropped, V counting if the column was rounded and U if
    the row was; ``always`` bounds the last two: four times the largest of them is enough.
    """
    largest = np.int64(-1)
    if not column_exact:
        largest = max(row_bits, always)
    if not row_exact:
        largest = max(largest, column_bits, always)
    return largest + 2 if largest >= 0 else largest


ARGUMENTS = (
    FLOAT[:, ::1], INT[:, :, ::1], FLOAT[:, :, ::1], types.int32[:, ::1], types.int32[::1],
    INT[::1], INT[:, ::1], INT[:, ::1], INT[:, ::1], INT[:, ::1], BOOL[:, ::1], BOOL[:, ::1],
    INT, INT[::1], FLOAT[:, :, :, :], BOOL[:, :, ::1],
)  # fmt: skip


@kernel(*ARGUMENTS)
def plain(
    begin, end, groups, places, constants, basis, modulus, offsets,
    row_exponent, column_exponent, row_bits, column_bits, row_exact, column_exact,
    always, fmt, out, unsettled,
):  # fmt: skip
    """Round X 2^-(s+t) into `out`, part by part.

    `groups` is (groups, batch * rows * columns). Residues come with the places and constants of
    `gather_residues` for each part, limbs of P/p in `basis` and of P in `modulus`; digits with no
    constants, the sign of each group in `places` and its bit offset. `row_bits` and
    `column_bits` bound V and U by powers of two, `always` the rest of the error (negative: X is
    exact, or exact enough). An element whose rounding the error could change is marked in
    `unsettled`. A job is TILE elements.
    """
    parts, batch, rows, columns = out.shape
    total = batch * rows * columns
    width = modulus.shape[0]
    precision, lowest, highest = fmt[0], fmt[1], fmt[2]
    limbs = np.empty((width, TILE), np.int64)
    work = np.empty((width, 1), np.int64)
    sign = np.empty(TILE, np.int64)
    head, tail, length = (
        np.empty(TILE, np.int64), np.empty(TILE, np.int64), np.empty(TILE, np.int64),
    )  # fmt: skip
    base, nudge = np.empty(TILE, np.int64), np.full(TILE, -1)
    value, easy = np.empty(TILE), np.empty(TILE, np.bool_)
    for job in range(begin, end):
        start = job * TILE
        size = min(TILE, total - start)
        for part in range(parts):
            if basis.shape[0] > 0:
                gather_residues(
                    groups, start, size, places[part], constants[part], basis, modulus, limbs
                )
            else:
                gather_digits(groups, start, size, places[part, 0], offsets, limbs)
            settle_all(limbs, size, sign)
            leading_bits(limbs, size, head, tail, length)
            j, i, b = start % columns, start // columns % rows, start // columns // rows
            at = 0
            while at < size:  # the rest of a row, or of the tile
                stop = min(at + columns - j, size)
                here, there = slice(at, stop), slice(j, j + stop - at)
                base[here] = -(row_exponent[b, i] + column_exponent[b, there])
                if always >= 0:
                    for t in range(at, stop):
                        nudge[t] = slack(
                            row_bits[b, i], row_exact[b, i],
                            column_bits[b, j + t - at], column_exact[b, j + t - at], always,
                        )  # fmt: skip
                # Slices, so that the compiler sees neighbours and not indices that might wrap.
                round_easy(
                    head[here], tail[here], length[here], sign[here], base[here], nudge[here],
                    precision, lowest, highest, value[here], easy[here],
                )  # fmt: skip
                for t in range(at, stop):
                    if not easy[t]:
                        up = nudged(limbs, t, sign[t], work, nudge[t], 1)
                        value[t] = up * round_magnitude(
                            work, 0, 0, width - 1, base[t], precision, lowest, highest
                        )
                        if nudge[t] >= 0:
                            down = nudged(limbs, t, sign[t], work, nudge[t], -1)
                            other = down * round_magnitude(
                                work, 0, 0, width - 1, base[t], precision, lowest, highest
                            )
                            if not same(value[t], other):
                                unsettled[b, i, j + t - at] = True
                    out[part, b, i, j + t - at] = value[t]
                at, j, i = stop, 0, i + 1
                if i == rows:
                    i, b = 0, b + 1
