"""float64 arithmetic with integer instructions only, bit for bit what the hardware does.

Paper 004's FP64emu, section 4.2: addition and multiplication of bits, rounded to nearest even. The
paper leaves out overflow, underflow and subnormal numbers; here they are as in IEEE 754.
"""

from __future__ import annotations

import numpy as np

from widen.cpu.kernels.cache import BITS2, INT, device, kernel
from widen.cpu.kernels.limbs import FRACTION, INFINITY, MAGNITUDE

HIDDEN = np.int64(1 << 52)
NAN = np.int64(0x7FF8000000000000)
SIGN = np.int64(-(1 << 63))
LOW32 = np.int64(0xFFFFFFFF)


@device
def length(x):
    """Number of bits of a non-negative int64."""
    count = np.int64(0)
    for step in (32, 16, 8, 4, 2, 1):
        if x >> (count + step):
            count += step
    return count + np.int64((x >> count) != 0)


@device
def compose(negative, m, e, sticky):
    """Bits of +-m 2^e, m a non-negative int64, rounded once; `sticky` is what lies below m."""
    sign = SIGN if negative else np.int64(0)
    if m == 0:
        return sign
    unit = max(length(m) + e - 53, np.int64(-1074))
    drop = unit - e
    if drop <= 0:
        whole = m << -drop
    elif drop > 63:
        whole = np.int64(0)
    else:
        whole = m >> drop
        rest = m - (whole << drop)
        half = np.int64(1) << (drop - 1)
        if rest > half or (rest == half and (sticky or whole & 1)):
            whole += 1
    if unit > 971:
        return sign | INFINITY
    return sign | min(((unit + 1074) << 52) + whole, INFINITY)  # a carry moves up


@device
def parts(bits):
    """(m, e) of |x| = m 2^e."""
    field = (bits >> 52) & 0x7FF
    return (bits & FRACTION) | (HIDDEN if field else np.int64(0)), max(field, 1) - 1075


@device
def normalised(bits):
    """(m, e) of |x| = m 2^e > 0 with m of 53 bits."""
    m, e = parts(bits)
    up = 53 - length(m)
    return m << up, e - up


@device
def add(x, y):
    """Bits of x + y."""
    if (x & MAGNITUDE) < (y & MAGNITUDE):
        x, y = y, x
    if x & MAGNITUDE >= INFINITY:
        opposite = y & MAGNITUDE == INFINITY and x != y
        return NAN if opposite or x & MAGNITUDE > INFINITY else x
    m, e = parts(x)
    n, f = parts(y)
    down = e - f
    m, n, e = m << 9, n << 9, e - 9  # 62 bits: room for a carry, and nine bits below
    if down > 62:
        lost, n = n != 0, np.int64(0)
    else:
        lost, n = (n & ((np.int64(1) << down) - 1)) != 0, n >> down
    if (x < 0) == (y < 0):
        return compose(x < 0, m + n, e, lost)
    # Something lost below n: m - n lies between two neighbours, the lower one and a bit.
    m -= n + np.int64(lost)
    if m == 0:
        return np.int64(0)
    return compose(x < 0, m, e, lost)


@device
def multiply(x, y):
    """Bits of x y, by the four products of halves of Listing 1."""
    sign = (x ^ y) & SIGN
    if x & MAGNITUDE >= INFINITY or y & MAGNITUDE >= INFINITY:
        wrong = x & MAGNITUDE > INFINITY or y & MAGNITUDE > INFINITY
        return NAN if wrong or x & MAGNITUDE == 0 or y & MAGNITUDE == 0 else sign | INFINITY
    if x & MAGNITUDE == 0 or y & MAGNITUDE == 0:
        return sign
    m, e = normalised(x)
    n, f = normalised(y)
    low = (m & LOW32) * (n & LOW32)  # as bits of a uint64
    middle = (m & LOW32) * (n >> 32) + (m >> 32) * (n & LOW32)
    # 105 or 106 bits: all but the lower 44, and whether any of these is set.
    middle += (low >> 32) & LOW32
    high = ((m >> 32) * (n >> 32) << 20) + (middle >> 12)
    lost = (middle & 0xFFF) != 0 or (low & LOW32) != 0
    return compose(sign != 0, high, e + f + 44, lost)


@kernel(BITS2, BITS2, INT, INT, INT, INT[:, ::1])
def combine(begin, end, sums, addend, alpha, beta, with_addend, out):
    """Bits of alpha x + beta c for those of x and c; a job is a row."""
    for i in range(begin, end):
        for j in range(sums.shape[1]):
            total = multiply(alpha, sums[i, j])
            if with_addend:
                total = add(total, multiply(beta, addend[i, j]))
            out[i, j] = total


@kernel(BITS2, BITS2, INT[:, ::1])
def sums(begin, end, left, right, out):
    """Bits of x + y; a job is a row."""
    for i in range(begin, end):
        for j in range(left.shape[1]):
            out[i, j] = add(left[i, j], right[i, j])
