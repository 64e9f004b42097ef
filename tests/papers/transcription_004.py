"""Paper 004 in NumPy floats and Python integers: equations 1 to 10, and Listing 1 as printed."""

from __future__ import annotations

import math
from fractions import Fraction

import ml_dtypes
import numpy as np

MANTISSA = {"fp64": 53, "fp32": 24, "fp16": 11, "fp8": 4, "fp6": 3}
TYPES = {"fp16": np.float16, "fp8": ml_dtypes.float8_e4m3fn, "fp6": ml_dtypes.float6_e3m2fn}
SUMS = {"fp32": np.float32, "fp16": np.float16}


def rho_of(k, type2, type3, held=None):
    gamma = math.ceil(MANTISSA["fp64"] - (MANTISSA[type3] - math.log2(k)) / 2)  # (1)
    xi = MANTISSA["fp64"] - (MANTISSA[type2] if held is None else held)  # (2)
    return max(gamma, xi)  # (3)


def slice_vector(x, rho, type2):
    """Equations 4 to 8: (slices in Type2, exponents c).

    E3M2's smallest number is 2^-4, so that 2^-c v, of 53 - rho bits below 1, needs a shift.
    """
    slices, exponents = [], []
    shift = MANTISSA["fp64"] - rho if type2 == "fp6" else 0
    while (largest := abs(x).max()) != 0:
        m, e = math.frexp(largest)
        c = e - 1 if m == 0.5 else e  # (4), without fl's misrounding
        sigma = 0.75 * math.ldexp(1.0, rho + c)  # (5)
        v = (x + sigma) - sigma  # (6)
        x = x - v  # (7)
        scaled = np.ldexp(v, -c + shift)
        kept = scaled.astype(TYPES[type2])  # (8)
        assert (kept.astype(np.float64) == scaled).all()
        slices.append(kept)
        exponents.append(c - shift)
    return slices, exponents


def dgemm(a, b, type2, type3="fp32", held=None, k_block=None):
    """Equation 10 in float64, smallest products first; blocks of the inner dimension are added."""
    m, k = a.shape
    n = b.shape[1]
    k_block = min(k_block or k, k)
    rho, rho_b = (rho_of(k_block, type2, type3, bits) for bits in held or (None, None))
    c, counts = np.zeros((m, n)), []
    for h in range(0, k, k_block):
        rows = [slice_vector(row, rho, type2) for row in a[:, h : h + k_block]]
        columns = [slice_vector(column, rho_b, type2) for column in b[h : h + k_block].T]
        found = np.zeros((m, n))
        for i, (xs, c_x) in enumerate(rows):
            for j, (ys, c_y) in enumerate(columns):
                pairs = [(p, q) for p in range(len(xs)) for q in range(len(ys))]
                total = 0.0
                for p, q in sorted(pairs, key=lambda pq: (-sum(pq), pq[0])):
                    fl = SUMS[type3]
                    dot = fl(0)
                    for x, y in zip(xs[p], ys[q], strict=True):
                        dot = fl(dot + fl(x) * fl(y))  # (11)
                    total = total + math.ldexp(float(dot), c_x[p] + c_y[q])
                found[i, j] = total
        c = c + found if h else found
        counts.append(max(len(x[0]) for x in rows) * max(len(y[0]) for y in columns))
    return c, tuple(counts)


def dgemm_groups(a, b, slices):
    """Digits to nearest with one shift, pairs p + q <= slices + 1 by weight, sums within float32.

    Paper 002's Algorithms 8 and 6 with E4M3 for INT8: digits of 5 bits, within 16.
    """
    (m, k), n = a.shape, b.shape[1]
    r = 2**24 // (k * 2**8)
    assert r >= 1

    def digits_of(vector):
        largest = abs(vector).max()
        fraction, exponent = math.frexp(largest)
        unit = Fraction(2) ** ((exponent - 1 if fraction == 0.5 else exponent) - 4)
        rest, found = [Fraction(x) for x in vector], []
        for s in range(slices):
            scale = unit / 32**s
            digits = [round(x / scale) for x in rest]  # Fractions round ties to even
            rest = [x - d * scale for x, d in zip(rest, digits, strict=True)]
            kept = np.array(digits, float).astype(ml_dtypes.float8_e4m3fn)
            assert (kept.astype(float) == digits).all()
            found.append(kept.astype(np.float32))
        return unit, found

    rows, columns = [digits_of(x) for x in a], [digits_of(x) for x in b.T]
    c = np.zeros((m, n))
    for i, (mu, xs) in enumerate(rows):
        for j, (nu, ys) in enumerate(columns):
            for g in range(slices):
                for start in range(0, g + 1, r):
                    total = np.float32(0)
                    for p in range(start, min(start + r, g + 1)):
                        for x, y in zip(xs[p], ys[g - p], strict=True):
                            total = np.float32(total + x * y)
                    c[i, j] += float(Fraction(float(total)) * mu * nu / 32**g)
    return c


def mul_mantissa(a, b, carry_test="p00"):
    """Listing 1, with uint64 arithmetic; `carry_test` is what `middle` is compared with."""
    mask32, mask64 = (1 << 32) - 1, (1 << 64) - 1
    a_low, a_high, b_low, b_high = a & mask32, a >> 32, b & mask32, b >> 32
    p00, p01, p10, p11 = a_low * b_low, a_low * b_high, a_high * b_low, a_high * b_high
    middle = (p01 + p10) & mask64
    carry = (1 << 32) if middle < {"p00": p00, "p01": p01}[carry_test] else 0
    low_result = (p00 + ((middle & mask32) << 32)) & mask64
    carry += 1 if low_result < p00 else 0
    high_result = (p11 + (middle >> 32) + carry) & mask64
    return (high_result << 64) | low_result
