"""Encoding: a float's scaled and rounded integer, written in residues or digits, one pass."""

from __future__ import annotations

import numpy as np

from widen.cpu.kernels.cache import BITS2, BITS3, FLOAT, INT, device, kernel
from widen.cpu.kernels.limbs import INFINITY, MAGNITUDE, times_power, whole_mantissa
from widen.cpu.kernels.loops import largest_of

TILE = 256
HALF = 2.0**26
LOW = np.int64((1 << 26) - 1)


@device
def quantised(bits, shift):
    """round-to-nearest-even(|x| 2^shift) = r 2^left, as (r, left): r <= 2^53, left >= 0.

    Without branches, so that neighbours are done together.
    """
    field = (bits >> 52) & 0x7FF
    m = whole_mantissa(bits)
    left = max(field, 1) - 1075 + shift
    right = min(max(-left, 0), 55)
    # Adding half less one, plus the last bit kept, rounds to nearest even.
    half = (np.int64(1) << right) >> 1
    up = half - 1 + ((m >> right) & 1) if half else np.int64(0)
    r = (m + up) >> right
    # A zero may be shifted further than its line is long.
    return r, max(left, 0) if r else np.int64(0)


@device
def balance(x, p, inverse):
    """The residue of an integer x in [-p/2, p/2], for |x| <= 2^26 p and p <= 2^23.

    x * inverse is within 2^26 * 2^-52 of x/p, and x/p is at least 1/(2p) >= 2^-24 from a midpoint
    unless it is one, so rint finds the nearest quotient; its product with p is exact.
    """
    return x - p * np.rint(x * inverse)


@device
def half_is_negative(residues, p):
    """p/2 becomes -p/2: residues lie in [-p/2, p/2)."""
    for at in range(residues.shape[0]):
        r = residues[at]
        residues[at] = r - p if r + r >= p else r


@device
def _load(bits, row_shift, column_shift, b, i, start, entries, moved):
    """Neighbouring entries of a row and the exponents to scale them by; how many there are."""
    source = bits[b, i, start : start + TILE]
    shifts = column_shift[b, start : start + TILE]
    for at in range(source.shape[0]):
        entries[at], moved[at] = source[at], shifts[at] + row_shift[b, i]
    return source.shape[0]


@kernel(BITS3, BITS2, BITS2, FLOAT[:, ::1], FLOAT[:, :, :, ::1])
def narrow_residues(begin, end, bits, row_shift, column_shift, constants, planes):
    """planes[i] = balanced residues modulo p_i of x 2^(row_shift + column_shift), rounded.

    For integers up to 2^53, or up to 2^78 if ``constants[i]``, (p, 1/p, 2^26 mod p, 2^52 mod p)
    with balanced powers, has the last of these. A job is a row.

    All in float64, exactly: what is rounded is an integer y = top 2^52 + high 2^26 + low, and
    |top| and |high| times a residue below p/2 are at most 2^25 p and 2^24 p (2^26 p without top).
    """
    _, rows, columns = bits.shape
    count, wide = constants.shape[0], constants.shape[1] == 4
    top, high, low = np.zeros(TILE), np.empty(TILE), np.empty(TILE)
    entries, moved = np.empty(TILE, np.int64), np.empty(TILE, np.int64)
    for job in range(begin, end):
        b, i = job // rows, job % rows
        for start in range(0, columns, TILE):
            size = _load(bits, row_shift, column_shift, b, i, start, entries, moved)
            for at in range(size):
                y = np.rint(times_power(entries[at], moved[at]))
                low[at] = y if entries[at] & MAGNITUDE < INFINITY else 0.0
            if wide:
                for at in range(size):
                    top[at] = np.rint(low[at] * (1.0 / HALF / HALF))
                    low[at] -= top[at] * (HALF * HALF)
            for at in range(size):
                high[at] = np.rint(low[at] * (1.0 / HALF))
                low[at] -= high[at] * HALF
            for c in range(count):
                p, inverse, half = constants[c, 0], constants[c, 1], constants[c, 2]
                # A slice, so that the compiler sees neighbours and not indices that might wrap.
                target = planes[c, b, i, start : start + size]
                if wide:
                    whole = constants[c, 3]
                    for at in range(size):
                        x = top[at] * whole + high[at] * half + low[at]
                        target[at] = balance(x, p, inverse)
                else:
                    for at in range(size):
                        target[at] = balance(high[at] * half + low[at], p, inverse)
                if p % 2.0 == 0.0:
                    half_is_negative(target, p)


@kernel(BITS3, BITS2, BITS2, FLOAT[:, ::1], FLOAT[:, ::1], FLOAT[:, :, :, ::1])
def wide_residues(begin, end, bits, row_shift, column_shift, constants, powers, planes):
    """`narrow_residues` for integers of any length.

    ``constants[i]`` is (p, 1/p, 2^26 mod p); ``powers[i, j]`` is 2^j mod p, both
    balanced. A job is a row.
    """
    _, rows, columns = bits.shape
    count = constants.shape[0]
    high, low = np.empty(TILE), np.empty(TILE)
    entries, moved, left = (
        np.empty(TILE, np.int64), np.empty(TILE, np.int64), np.empty(TILE, np.int64),
    )  # fmt: skip
    for job in range(begin, end):
        b, i = job // rows, job % rows
        for start in range(0, columns, TILE):
            size = _load(bits, row_shift, column_shift, b, i, start, entries, moved)
            for at in range(size):
                r, left[at] = quantised(entries[at], moved[at])
                sign = 1.0 if entries[at] >= 0 else -1.0
                high[at] = sign * np.float64(np.int32(r >> 26))
                low[at] = sign * np.float64(np.int32(r & LOW))
            most = largest_of(left[:size])
            for c in range(count):
                p, inverse, half = constants[c, 0], constants[c, 1], constants[c, 2]
                # A slice, so that the compiler sees neighbours and not indices that might wrap.
                target = planes[c, b, i, start : start + size]
                for at in range(size):
                    target[at] = balance(high[at] * half + low[at], p, inverse)
                if most > 0:
                    power = powers[c]
                    for at in range(size):
                        # Unsigned: an index that cannot wrap becomes a gather.
                        target[at] = balance(target[at] * power[np.uint64(left[at])], p, inverse)
                if p % 2.0 == 0.0:
                    half_is_negative(target, p)


@kernel(FLOAT[:, ::1], FLOAT[:, :, :, ::1])
def residue_sums(begin, end, constants, planes):
    """Third part of complex planes: real plus imaginary residues, balanced; a job is a row."""
    count = constants.shape[0]
    planes_a_part, rows, columns = planes.shape[0] // 3, planes.shape[2], planes.shape[3]
    for job in range(begin, end):
        b, i = job // rows, job % rows
        for c in range(count):
            p, inverse = constants[c, 0], constants[c, 1]
            real, imaginary = planes[c, b, i], planes[planes_a_part + c, b, i]
            target = planes[2 * planes_a_part + c, b, i]
            for j in range(columns):
                target[j] = balance(real[j] + imaginary[j], p, inverse)
            if p % 2.0 == 0.0:
                half_is_negative(target, p)


@kernel(FLOAT[:, ::1], FLOAT[:, :, :, ::1])
def two_digits(begin, end, bases, planes):
    """Residues in the first planes become low digits; high digits and sums go to their planes.

    ``bases[i]`` is (which modulus, base, 1/base, plane of high digits, plane of sums or -1). A
    quotient of integers below 2^14 errs by less than 2^-37 in float64 and is a multiple of 1/base
    or a half off: it rounds right.
    """
    _, _, rows, columns = planes.shape
    for job in range(begin, end):
        b, i = job // rows, job % rows
        for c in range(bases.shape[0]):
            base, inverse, at = bases[c, 1], bases[c, 2], np.int64(bases[c, 4])
            low, high = planes[np.int64(bases[c, 0]), b, i], planes[np.int64(bases[c, 3]), b, i]
            for j in range(columns):
                r = low[j]
                if at < 0:
                    # floor((r + floor(base/2)) / base), a quarter of 1/base away from integers.
                    h = np.floor((r + np.floor(base * 0.5) + 0.25) * inverse)
                else:
                    h = np.ceil((abs(r) - 0.25) * inverse)
                    h = h if r >= 0 else -h
                low[j], high[j] = r - base * h, h
                if at >= 0:
                    planes[at, b, i, j] = low[j] + h


@kernel(BITS3, BITS2, BITS2, INT, FLOAT[:, :, :, ::1])
def digits(begin, end, bits, row_shift, column_shift, beta, planes):
    """planes[d] = balanced digit d, in base 2^beta, of x 2^(row_shift + column_shift), rounded.

    A job is a row.
    """
    _, rows, columns = bits.shape
    count = planes.shape[0]
    half = np.int64(1) << (beta - 1)
    for job in range(begin, end):
        b, i = job // rows, job % rows
        for j in range(columns):
            shift = row_shift[b, i] + column_shift[b, j]
            rest, left = quantised(bits[b, i, j], shift)
            rest = rest if bits[b, i, j] >= 0 else -rest
            skip, inside = left // beta, left % beta
            for d in range(min(skip, count)):
                planes[d, b, i, j] = 0.0
            # The first digit takes beta - inside bits of the rest and shifts them up by `inside`.
            width = beta - inside
            for d in range(skip, count):
                digit = (rest & ((np.int64(1) << width) - 1)) << inside
                rest >>= width
                if digit >= half:
                    digit -= 2 * half
                    rest += 1
                planes[d, b, i, j] = np.float64(digit)
                width, inside = beta, np.int64(0)
