"""Reconstruction: groups to one exact integer in limbs, certified and rounded once."""

from __future__ import annotations

import numpy as np
from numba import types

from widen.cpu.kernels.cache import BOOL, FLOAT, INT, device, kernel
from widen.cpu.kernels.expansions import TILE, coefficients, gather_floats, round_total, total
from widen.cpu.kernels.limbs import MASK, place, power_of_two, round_magnitude, settle


@device
def gather_residues(groups, start, size, places, constants, basis, modulus, limbs):
    """limbs[:, at] = X of `size` neighbouring elements, by the Chinese remainder theorem.

    With w_i the inverse of P/p_i modulo p_i, c_i = (residue of X times w_i mod p_i) balanced and
    X = sum c_i P/p_i - q P, q = rint(sum c_i/p_i). Limbs of P and P/p are balanced int32, so that
    products of 32-bit numbers do; sums take 31 + 22 bits a term and at most 512 terms, which an
    int64 holds.
    """
    count, width = basis.shape
    quotient, rest = np.zeros(TILE), np.empty(TILE)
    whole = np.empty(TILE, np.int32)
    limbs[:, :size] = 0
    for c in range(count):
        coefficients(groups, start, places[c], constants[c], rest[:size])
        inverse = constants[c, 1]
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


@device
def gather_digits(groups, start, size, signs, offsets, limbs):
    """limbs[:, at] = sum of sign * group * 2^offset."""
    limbs[:, :size] = 0
    for g in range(signs.shape[0]):
        if signs[g] != 0:
            for at in range(size):
                place(limbs[:, at], signs[g] * np.int64(groups[g, start + at]), offsets[g])


@device
def gather(groups, start, size, places, constants, basis, modulus, offsets, limbs):
    """limbs[:, at] = X of neighbouring elements, from residues or, without a basis, digits."""
    if basis.shape[0] > 0:
        gather_residues(groups, start, size, places, constants, basis, modulus, limbs)
    else:
        gather_digits(groups, start, size, places[0], offsets, limbs)


@device
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


@device
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


@device
def round_easy(head, tail, length, sign, base, nudge, precision, lowest, highest, value, up, easy):
    """Round the elements that are normal numbers, far from the ends of the range.

    `up` says where that was away from 0, `easy` which they are; with a nudge (|error of X| <=
    2^nudge) also far enough from a midpoint that the error cannot matter. The dropped bits d of the
    head then lie more than the error away from the half, and the error is below a quarter of an
    ulp, so a power of two is no trap either.
    """
    drop = 64 - precision
    half = np.int64(1) << (drop - 1)
    for at in range(head.shape[0]):
        unit = length[at] + base[at] - precision
        whole = (head[at] >> drop) & ((np.int64(1) << precision) - 1)
        dropped = head[at] & (2 * half - 1)
        more = (dropped & (half - 1)) | tail[at] != 0
        up[at] = (dropped >> (drop - 1)) & (whole | np.int64(more)) & 1
        # The error in units of the head's last bit, with one more for the tail.
        place_of_error = min(max(nudge[at] + 65 - length[at], 1), 62)
        margin = np.int64(1) << place_of_error if nudge[at] >= 0 else np.int64(0)
        exponent = min(max(unit, -1022), 971)
        value[at] = sign[at] * np.float64(whole + up[at]) * power_of_two(exponent)
        easy[at] = (
            (unit == exponent)
            & (unit >= lowest)
            & (length[at] + base[at] < highest)
            & (abs(dropped - half) >= margin)
            & (margin <= half >> 2)
        )


@device
def nudged(limbs, at, sign, work, nudge, direction):
    """work[:, 0] = sign * limbs[:, at] + direction * 2^nudge as a magnitude; its sign."""
    count = limbs.shape[0]
    for l in range(count):
        work[l, 0] = sign * limbs[l, at]
    if nudge >= 0:
        work[nudge >> 5, 0] += np.int64(direction) << (nudge & 31)
    return settle(work, 0, count - 1)


@device
def same(x, y):
    """Whether two floats have the same bits."""
    return np.float64(x).view(np.int64) == np.float64(y).view(np.int64)


@device
def slack(row_bits, row_exact, column_bits, column_exact, always):
    """Nudge with |error of X| <= 2^nudge; -1 if there is none.

    The error is at most (V + U)/2 + k/4 + dropped, V counting if the column was rounded and U if
    the row was; ``always`` bounds the last two: four times the largest of them is enough.
    """
    ours = np.int64(-1) if column_exact else max(row_bits, always)
    theirs = np.int64(-1) if row_exact else max(column_bits, always)
    largest = max(ours, theirs)
    return largest + 2 if largest >= 0 else largest


PLACES = (
    INT[:, ::1], INT[:, ::1], INT[:, ::1], INT[:, ::1], BOOL[:, ::1], BOOL[:, ::1], INT,
)  # fmt: skip
ARGUMENTS = (
    FLOAT[:, ::1], INT[:, :, ::1], FLOAT[:, :, ::1], types.int32[:, ::1], types.int32[::1],
    INT[::1], *PLACES,
)  # fmt: skip


@device
def places_of(
    start, size, rows, columns, row_exponent, column_exponent, row_bits, column_bits,
    row_exact, column_exact, always, base, nudge, error,
):  # fmt: skip
    """Exponents -(s + t) of neighbouring elements; 2^nudge = error bounds the error of X."""
    j, i, b = start % columns, start // columns % rows, start // columns // rows
    at = 0
    while at < size:  # the rest of a row, or of the tile
        stop = min(at + columns - j, size)
        target, exponents = base[at:stop], column_exponent[b, j : j + stop - at]
        for t in range(target.shape[0]):
            target[t] = -(row_exponent[b, i] + exponents[t])
        if always >= 0:
            nudges, errors = nudge[at:stop], error[at:stop]
            bits, exact = column_bits[b, j : j + stop - at], column_exact[b, j : j + stop - at]
            for t in range(nudges.shape[0]):
                nudges[t] = slack(row_bits[b, i], row_exact[b, i], bits[t], exact[t], always)
                errors[t] = power_of_two(min(nudges[t], 1023)) if nudges[t] >= 0 else 0.0
        at, j, i = stop, 0, i + 1
        if i == rows:
            i, b = 0, b + 1


@device
def _write(start, size, value, out):
    """Put neighbouring elements into `out`, (batch, rows, columns)."""
    _, rows, columns = out.shape
    j, i, b = start % columns, start // columns % rows, start // columns // rows
    at = 0
    while at < size:
        stop = min(at + columns - j, size)
        target, source = out[b, i, j : j + stop - at], value[at:stop]
        for t in range(target.shape[0]):
            target[t] = source[t]
        at, j, i = stop, 0, i + 1
        if i == rows:
            i, b = 0, b + 1


@device
def _round_limbs(
    limbs, size, base, nudge, fmt, head, tail, length, sign, up, work, value, easy, open_
):  # fmt: skip
    """Round integers in limbs; `open_` marks those whose rounding the error could change."""
    precision, lowest, highest = fmt[0], fmt[1], fmt[2]
    last = limbs.shape[0] - 1
    settle_all(limbs, size, sign)
    leading_bits(limbs, size, head, tail, length)
    # Slices, so that the compiler sees neighbours and not indices that might wrap.
    round_easy(
        head[:size], tail[:size], length[:size], sign[:size], base[:size], nudge[:size],
        precision, lowest, highest, value[:size], up[:size], easy[:size],
    )  # fmt: skip
    for t in range(size):
        if not easy[t]:
            above = nudged(limbs, t, sign[t], work, nudge[t], 1)
            value[t] = above * round_magnitude(
                work, 0, 0, last, base[t], precision, lowest, highest
            )
            if nudge[t] >= 0:
                down = nudged(limbs, t, sign[t], work, nudge[t], -1)
                other = down * round_magnitude(
                    work, 0, 0, last, base[t], precision, lowest, highest
                )
                if not same(value[t], other):
                    open_[t] = True


@kernel(
    FLOAT[:, ::1], INT[:, :, ::1], FLOAT[:, :, ::1], FLOAT[:, ::1], FLOAT[::1], FLOAT[::1],
    *PLACES, INT[::1], FLOAT[:, :, :, :], BOOL[::1],
)  # fmt: skip
def in_floats(
    begin, end, groups, places, constants, basis, modulus, scales,
    row_exponent, column_exponent, row_bits, column_bits, row_exact, column_exact,
    always, fmt, out, doubtful,
):  # fmt: skip
    """Round X 2^-(s+t) into `out` by sums of floats, where that is beyond doubt.

    As `in_limbs`, with P/p in `basis` and P in `modulus` in digits that weigh `scales`, as
    `gather_floats` has them. A tile with an element of which there is doubt is left to `in_limbs`:
    it is `doubtful`. Most products have none, so that one is compiled for few.
    """
    parts, batch, rows, columns = out.shape
    total_size = batch * rows * columns
    base, nudge, error = np.empty(TILE, np.int64), np.full(TILE, -1), np.zeros(TILE)
    pieces, rest, value = np.empty((scales.shape[0], TILE)), np.empty(TILE), np.empty(TILE)
    for job in range(begin, end):
        start = job * TILE
        size = min(TILE, total_size - start)
        places_of(
            start, size, rows, columns, row_exponent, column_exponent, row_bits, column_bits,
            row_exact, column_exact, always, base, nudge, error,
        )  # fmt: skip
        for part in range(parts):
            gather_floats(
                groups, start, places[part], constants[part], basis, modulus, pieces, value[:size],
                rest[:size],
            )  # fmt: skip
            total(pieces, scales, value[:size], rest[:size])
            sure = round_total(
                value[:size], rest[:size], error[:size], base[:size], fmt[0], fmt[1], fmt[2]
            )
            doubtful[job] |= not sure
            _write(start, size, value, out[part])


@kernel(INT[::1], *ARGUMENTS, INT[::1], FLOAT[:, :, :, :], BOOL[:, :, ::1])
def in_limbs(
    begin, end, tiles, groups, places, constants, basis, modulus, offsets,
    row_exponent, column_exponent, row_bits, column_bits, row_exact, column_exact,
    always, fmt, out, unsettled,
):  # fmt: skip
    """Round X 2^-(s+t) into `out`, part by part, in the tiles that are listed.

    `groups` is (groups, batch * rows * columns). Residues come with the places and constants of
    `coefficients` for each part, limbs of P/p in `basis` and of P in `modulus`; digits with no
    constants, the sign of each group in `places` and its bit offset. `row_bits` and `column_bits`
    bound V and U by powers of two, `always` the rest of the error (negative: X is exact, or exact
    enough). An element whose rounding the error could change is marked in `unsettled`. A job is
    TILE elements.
    """
    parts, batch, rows, columns = out.shape
    total_size = batch * rows * columns
    marks = unsettled.reshape(total_size)
    width = modulus.shape[0]
    limbs, work = np.empty((width, TILE), np.int64), np.empty((width, 1), np.int64)
    sign, head, tail, length, up = (
        np.empty(TILE, np.int64), np.empty(TILE, np.int64), np.empty(TILE, np.int64),
        np.empty(TILE, np.int64), np.empty(TILE, np.int64),
    )  # fmt: skip
    base, nudge, error = np.empty(TILE, np.int64), np.full(TILE, -1), np.zeros(TILE)
    value, easy = np.empty(TILE), np.empty(TILE, np.bool_)
    for job in range(begin, end):
        start = tiles[job] * TILE
        size = min(TILE, total_size - start)
        places_of(
            start, size, rows, columns, row_exponent, column_exponent, row_bits, column_bits,
            row_exact, column_exact, always, base, nudge, error,
        )  # fmt: skip
        for part in range(parts):
            gather(
                groups, start, size, places[part], constants[part], basis, modulus, offsets, limbs
            )
            _round_limbs(
                limbs, size, base, nudge, fmt, head, tail, length, sign, up, work, value, easy,
                marks[start : start + size],
            )  # fmt: skip
            _write(start, size, value, out[part])
