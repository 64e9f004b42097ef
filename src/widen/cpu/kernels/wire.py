"""Exact integers on their way from one process to another: packed in bytes, and added up."""

from __future__ import annotations

import numpy as np
from numba import types

from widen.cpu.kernels.cache import BITS1, BITS2, BITS3, FLOAT, INT, device, kernel

BYTE = types.uint8
BYTES4 = types.Array(BYTE, 4, "A", readonly=True)
BYTES5 = types.Array(BYTE, 5, "A", readonly=True)
LIMB, MASK = 24, (1 << 24) - 1  # bits of a limb: three bytes
CERTAIN = 254  # what shares of all processes must come to


@device
def _carried(limbs, count):
    """Limbs in [0, 2^24) but the last, which has the sign."""
    for l in range(count - 1):
        limbs[l + 1] += limbs[l] >> LIMB
        limbs[l] &= MASK


@kernel(FLOAT[:, :, :, ::1], BITS3, BITS3, BITS2, BITS1, INT, BYTE[:, :, :, :])
def pack(begin, end, groups, places, constants, basis, modulus, width, out):
    """Each part of X modulo 2^(8 width), in bytes, lowest first; a job is a row of elements.

    Groups are integers (groups, batch, m, n). `places` and `constants` (parts, moduli, terms) are
    those of the reconstruction, the latter p, 1 and weights modulo p. X is sum(c P/p) - q P with
    coefficients c = sum(weight group) mod p; `basis` and `modulus` are limbs of P/p and of P.
    |c| <= 2^23, so that sums of as many products by limbs as there are moduli fit an int64.
    """
    parts, count, terms = places.shape
    _, _, m, n = groups.shape
    size = modulus.shape[0]
    limbs = np.zeros(size, np.int64)
    for job in range(begin, end):
        b, i = job // m, job % m
        for j in range(n):
            for part in range(parts):
                limbs[:] = 0
                quotient = 0.0
                for at in range(count):
                    p = constants[part, at, 0]
                    c = np.int64(0)
                    for t in range(terms):
                        if places[part, at, t] >= 0:
                            rest = np.int64(groups[places[part, at, t], b, i, j]) % p
                            c += rest * constants[part, at, 2 + t] % p
                    c %= p
                    c -= p if 2 * c > p else 0
                    quotient += np.float64(c) / np.float64(p)
                    for l in range(size):
                        limbs[l] += c * basis[at, l]
                turns = np.int64(np.rint(quotient))
                for l in range(size):
                    limbs[l] -= turns * modulus[l]
                _carried(limbs, size)
                for l in range(width):
                    out[b, i, j, part * width + l] = (limbs[l // 3] >> (8 * (l % 3))) & 255


@kernel(BYTES5, INT, BITS2, FLOAT[:, :, :, ::1])
def unpack(begin, end, packed, width, moduli, groups):
    """Residues of the sum of packed integers, (processes, batch, m, n, bytes); a job is a row.

    `moduli` are (p, 2^(24 l) modulo p for every limb). Real numbers have a group a modulus; complex
    ones three times as many, of which re re - im im is the first less the second, and so on.
    """
    sources, _, m, n, _ = packed.shape
    count, size = moduli.shape[0], moduli.shape[1] - 1
    parts = 1 if groups.shape[0] == count else 2
    limbs = np.zeros((parts, size), np.int64)
    for job in range(begin, end):
        b, i = job // m, job % m
        for j in range(n):
            limbs[:] = 0
            for part in range(parts):
                for s in range(sources):
                    for l in range(width):
                        byte = np.int64(packed[s, b, i, j, part * width + l])
                        limbs[part, l // 3] += byte << (8 * (l % 3))
                _carried(limbs[part], size)
                # The sum modulo 2^(8 width), of the smallest magnitude.
                last, bits = (width - 1) // 3, 8 * ((width - 1) % 3 + 1)
                limbs[part, last + 1 :] = 0
                limbs[part, last] &= (np.int64(1) << bits) - 1
                if limbs[part, last] >> (bits - 1):
                    limbs[part, last] -= np.int64(1) << bits
            for at in range(count):
                p = moduli[at, 0]
                real, imaginary = np.int64(0), np.int64(0)
                for l in range(size):
                    real += limbs[0, l] * moduli[at, 1 + l]
                    if parts == 2:
                        imaginary += limbs[1, l] * moduli[at, 1 + l]
                groups[at, b, i, j] = real % p
                if parts == 2:
                    groups[count + at, b, i, j] = 0.0
                    groups[2 * count + at, b, i, j] = (real % p + imaginary % p) % p


@kernel(
    types.float32[:, :, ::1], FLOAT, FLOAT[:, ::1], FLOAT[:, ::1], INT[:, :, ::1],
    FLOAT[:, ::1], FLOAT[:, ::1], INT[:, :, ::1], FLOAT[::1], BYTE[:, :, :],
)  # fmt: skip
def shares(
    begin, end, total, factor, row_weight, row_step, row_spans,
    column_weight, column_step, column_spans, test, out,
):  # fmt: skip
    """What a process's magnitudes give of what a certificate needs; a job is a row.

    1 + floor(254 total factor / needed), at most 255; and 0 where lines are near and share no
    entries here. Arguments are those of `certify.certify`.
    """
    _, m, n = total.shape
    for job in range(begin, end):
        b, i = job // m, job % m
        weight, step, spans = row_weight[b, i], row_step[b, i], row_spans[:, b, i]
        for j in range(n):
            shared = max(
                0, min(spans[2], column_spans[2, b, j]) - max(spans[1], column_spans[1, b, j])
            )
            shared = min(shared, spans[0], column_spans[0, b, j])
            most = shared * test[0]
            other = column_step[b, j]
            needed = min(weight, most) * other + min(column_weight[b, j], most) * step
            needed += (shared * test[1] + test[2]) * step * other
            here = total[b, i, j] * factor
            if total[b, i, j] == 0 and spans[3] & column_spans[3, b, j] != 0:
                out[b, i, j] = 0
            elif needed <= here:
                out[b, i, j] = 1 + CERTAIN
            else:  # so that the quotient is below 1
                out[b, i, j] = 1 + np.int64(np.floor(CERTAIN * (here / needed) * (1 - 2.0**-50)))


@kernel(BYTES4, types.boolean[:, :, ::1])
def open_elements(begin, end, given, marks):
    """Mark the elements that shares of all processes, (processes, batch, m, n), do not certify.

    Where lines share no entries anywhere, nothing is needed. A job is a row.
    """
    sources, _, m, n = given.shape
    for job in range(begin, end):
        b, i = job // m, job % m
        for j in range(n):
            total, some = np.int64(0), False
            for s in range(sources):
                share = np.int64(given[s, b, i, j])
                total += share - 1 if share else 0
                some |= share != 0
            marks[b, i, j] = some and total < CERTAIN
