"""Floats without error on a GPU: the same steps as cpu/kernels/floats.py, so the same bits.

Kernels that use them are compiled without contraction (`exact` of gpu.replay.launch): a
product and a sum are fused only where `tl.fma` says so.
"""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def two_sum(a, b):
    """(s, e) with s = RN(a + b) and s + e = a + b (Knuth)."""
    s = a + b
    shown = s - a
    return s, (a - (s - shown)) + (b - shown)


@triton.jit
def fast_two_sum(a, b):
    """The same for |a| >= |b| or a = 0 (Dekker)."""
    s = a + b
    return s, b - (s - a)


@triton.jit
def two_product(a, b):
    """(p, e) with p = RN(a b) and p + e = a b, unless e is below the smallest number."""
    p = a * b
    return p, tl.fma(a, b, -p)


@triton.jit
def quotient(a, b, DOUBLE: tl.constexpr):
    """RN(a / b): what Triton divides float32 with is not correctly rounded unless it is told."""
    return a / b if DOUBLE else tl.div_rn(a, b)


@triton.jit
def square_root(a, DOUBLE: tl.constexpr):
    """RN(sqrt(a))."""
    return tl.sqrt(a) if DOUBLE else tl.sqrt_rn(a)


@triton.jit
def is_finite(x):
    """Whether x is neither NaN nor infinite."""
    return x - x == 0


@triton.jit
def scale_exponent(x, DOUBLE: tl.constexpr):
    """Give k with 1 <= |x| 2^-k < 4, as an int64; below 1 for subnormal numbers and zero."""
    if DOUBLE:
        field = (x.to(tl.int64, bitcast=True) >> 52) & 0x7FF
        result = tl.minimum(tl.maximum(field, 1), 0x7FD) - 1023
    else:
        field = ((x.to(tl.int32, bitcast=True) >> 23) & 0xFF).to(tl.int64)
        result = tl.minimum(tl.maximum(field, 1), 0xFD) - 127
    return result


@triton.jit
def power_of(exponent, DOUBLE: tl.constexpr):
    """2^exponent, for exponents of normal numbers."""
    if DOUBLE:
        result = ((exponent + 1023) << 52).to(tl.float64, bitcast=True)
    else:
        result = ((exponent + 127) << 23).to(tl.int32).to(tl.float32, bitcast=True)
    return result


@triton.jit
def first_word(word, plain):
    """The first word of a result, given what ordinary arithmetic makes of the first words."""
    ordinary = (is_finite(plain) == 0) | (word != word) | ((word == 0) & (plain == 0))
    return tl.where(ordinary, plain, word)


@triton.jit
def later_word(word, first):
    """Another word of a result: none beside NaN and infinity, and no negative zero."""
    return tl.where(is_finite(first) & is_finite(word), word, 0.0) + 0.0


@triton.jit
def broken_tie(total, rest, below):
    """(word, rest): total, or its neighbour if what lies below a tie says so."""
    across = total + (rest + rest)
    alike = ((rest > 0) & (below > 0)) | ((rest < 0) & (below < 0))
    wrong = (across - total == rest + rest) & alike
    return tl.where(wrong, across, total), tl.where(wrong, -rest, rest)


@triton.jit
def places(at, part, size, PARTS: tl.constexpr, ONE: tl.constexpr):
    """Where elements of an operand (words, parts, elements) are in a word, and a word's length.

    One part serves both parts of a result, one element all elements.
    """
    if ONE:
        offset = at * 0
        length = tl.full((), 1, tl.int64)
    else:
        offset = at
        length = tl.full((), 1, tl.int64) * size
    if PARTS == 2:
        offset += part * length
    return offset, length * PARTS
