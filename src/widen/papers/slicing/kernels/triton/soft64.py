"""float64 arithmetic with integer instructions only, bit for bit what the hardware does.

Paper 004's FP64emu for a GPU; kernels/cpu/soft64.py has the same functions. Device functions, and
the kernel for alpha and beta.
"""

from __future__ import annotations

import triton
import triton.language as tl

from widen.gpu.kernels.triton.numbers import decode, highest_bit, wide
from widen.gpu.kernels.triton.rounding import leading_zeros, rounded

INFINITY = tl.constexpr(0x7FF0000000000000)
MAGNITUDE = tl.constexpr(0x7FFFFFFFFFFFFFFF)
NAN = tl.constexpr(0x7FF8000000000000)
SIGN = tl.constexpr(-(1 << 63))
NOWHERE = tl.constexpr(-(1 << 13))  # exponent of a running sum that is 0


@triton.jit
def compose(negative, m, e, sticky):
    """Bits of +-m 2^e, m a non-negative int64, rounded once; `sticky` is what lies below m."""
    length = highest_bit(m) + 1
    head = m.to(tl.uint64) << tl.minimum(64 - length, 63).to(tl.uint64)
    bits = rounded(length, head, sticky, e, 53, -1074, 1024)
    return tl.where(m == 0, 0, bits) | (negative.to(tl.int64) << 63)


@triton.jit
def add(x, y):
    """Bits of x + y."""
    swap = (x & MAGNITUDE) < (y & MAGNITUDE)
    large, small = tl.where(swap, y, x), tl.where(swap, x, y)
    m, e = decode(large, 52, 11)
    n, f = decode(small, 52, 11)
    down = tl.minimum(e - f, 63).to(tl.int64)
    m, n, e = m << 9, n << 9, e - 9  # 62 bits: room for a carry, and nine bits below
    kept = n >> down
    lost = (kept << down) != n
    same = (large < 0) == (small < 0)
    # Something lost below n: m - n lies between two neighbours, the lower one and a bit.
    total = tl.where(same, m + kept, m - kept - lost.to(tl.int64))
    negative = (large < 0) & (same | (total != 0))
    bits = compose(negative, total, e, lost)
    special = (large & MAGNITUDE) >= INFINITY
    wrong = ((large & MAGNITUDE) > INFINITY) | (((small & MAGNITUDE) == INFINITY) & ~same)
    return tl.where(special, tl.where(wrong, NAN, large), bits)


@triton.jit
def normalised(bits):
    """(m, e) of |x| = m 2^e with m of 64 bits, as a uint64; 0 stays 0."""
    m, e = decode(bits, 52, 11)
    up = 63 - tl.maximum(highest_bit(m), 0)
    return m.to(tl.uint64) << up.to(tl.uint64), e - up


@triton.jit
def multiply(x, y):
    """Bits of x y."""
    m, e = normalised(x)
    n, f = normalised(y)
    lost = (m * n) != 0
    high = tl.umulhi(m, n)  # of 63 or 64 bits: one less, and the last bit below
    lost |= (high & 1) != 0
    sign = (x ^ y) & SIGN
    bits = compose(sign < 0, (high >> 1).to(tl.int64), e + f + 65, lost)
    one, other = x & MAGNITUDE, y & MAGNITUDE
    special = (one >= INFINITY) | (other >= INFINITY)
    wrong = (one > INFINITY) | (other > INFINITY) | (one == 0) | (other == 0)
    return tl.where(special, tl.where(wrong, NAN, sign | INFINITY), bits)


@triton.jit
def add_term(m, e, term, f, ASSEMBLY: tl.constexpr):
    """(m, e) + term 2^f, rounded to 53 bits: a running sum that is not packed in between.

    |m| has 53 bits, or m = 0 and e = NOWHERE; term is a float32 that holds an integer. Sums are
    normal numbers. The larger of both has its leading bit at 2^61 and the smaller is shifted to
    it: if bits of it are lost, it is so small that the sum has 61 bits or more.
    """
    bits = term.to(tl.int32, bitcast=True)
    length = ((bits >> 23) & 0xFF) - 126
    t = term.to(tl.int32).to(tl.int64)
    ours, theirs = e - 9, f - 61 + length
    first = ours >= theirs
    scale = tl.maximum(ours, theirs)
    up = tl.minimum(tl.where(first, 9, 61 - length), 61).to(tl.int64)
    large = tl.where(first, m, t) << up
    small, by = tl.where(first, t, m), tl.where(first, f, e) - scale
    small = small << tl.minimum(tl.maximum(by, 0), 61).to(tl.int64)
    down = tl.minimum(tl.maximum(-by, 0), 63).to(tl.int64)
    kept = small >> down
    lost = ((kept << down) != small).to(tl.int64)
    total = large + kept
    negative = total < 0
    size = tl.where(negative, -total - lost, total)
    high, low = (size >> 32).to(tl.uint32), (size & 0xFFFFFFFF).to(tl.uint32)
    zeros = leading_zeros(tl.where(high != 0, high, low), ASSEMBLY)
    drop = 11 - tl.where(high != 0, zeros, zeros + 32)
    right, left = tl.maximum(drop, 0).to(tl.int64), tl.maximum(-drop, 0).to(tl.int64)
    half = (tl.full(size.shape, 1, tl.int64) << right) >> 1
    more = tl.where(half > 0, half - 1 + (((size >> right) & 1) | lost), 0)
    whole = ((size + more) >> right) << left
    carry = whole >> 53
    whole = whole >> carry
    e = tl.where(size == 0, NOWHERE, scale + drop + carry.to(tl.int32))
    return tl.where(negative, -whole, whole), e


@triton.jit
def packed(m, e):
    """Bits of a running sum."""
    bits = ((e + 1075).to(tl.int64) << 52) + (tl.abs(m) & ((1 << 52) - 1))
    return tl.where(m == 0, 0, bits | (m & SIGN))


@triton.jit(do_not_specialize=["alpha", "beta"])
def combine(x, c, out, size, alpha, beta, WITH_ADDEND: tl.constexpr, BLOCK: tl.constexpr):
    """Bits of alpha x + beta c, or of alpha x, for those of x and c."""
    at = wide(tl.program_id(0)) * BLOCK + tl.arange(0, BLOCK)
    inside = at < size
    value = tl.load(x + at, inside, other=0)
    total = multiply(value, tl.zeros_like(value) + wide(alpha))
    if WITH_ADDEND:
        addend = tl.load(c + at, inside, other=0)
        total = add(total, multiply(addend, tl.zeros_like(addend) + wide(beta)))
    tl.store(out + at, total, inside)
