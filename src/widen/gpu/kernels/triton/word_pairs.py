"""Numbers of two words on a GPU: the steps of cpu/kernels/word_pairs.py; three of float32.

A program has a block of elements of one part of the result; everything stays in registers.
"""

from __future__ import annotations

import triton
import triton.language as tl

from widen.gpu.kernels.triton.floats import (
    broken_tie,
    fast_two_sum,
    first_word,
    is_finite,
    later_word,
    places,
    power_of,
    quotient,
    scale_exponent,
    square_root,
    two_product,
    two_sum,
)
from widen.gpu.kernels.triton.numbers import wide
from widen.gpu.kernels.triton.triples import product_terms, sum_terms

ADD = tl.constexpr(0)
SUBTRACT = tl.constexpr(1)
MULTIPLY = tl.constexpr(2)
DIVIDE = tl.constexpr(3)
ROOT = tl.constexpr(4)
LARGEST = tl.constexpr(3.4028234663852886e38)  # of float32


@triton.jit
def added(xh, xl, yh, yl):
    """Algorithm 6, AccurateDWPlusDW."""
    sh, sl = two_sum(xh, yh)
    th, tl_ = two_sum(xl, yl)
    vh, vl = fast_two_sum(sh, sl + th)
    return fast_two_sum(vh, tl_ + vl)


@triton.jit
def multiplied(xh, xl, yh, yl):
    """Algorithm 10, DWTimesDW1."""
    ch, cl = two_product(xh, yh)
    return fast_two_sum(ch, cl + (xh * yl + xl * yh))


@triton.jit
def divided(xh, xl, yh, yl, DOUBLE: tl.constexpr):
    """Algorithm 17, DWDivDW2, of numbers brought next to 1."""
    up, down = scale_exponent(xh, DOUBLE), scale_exponent(yh, DOUBLE)
    a, b = power_of(-up, DOUBLE), power_of(-down, DOUBLE)
    xh, xl, yh, yl = xh * a, xl * a, yh * b, yl * b
    th = quotient(xh, yh, DOUBLE)
    ch, cl = two_product(yh, th)
    sh, sl = fast_two_sum(ch, yl * th)
    rh, rl = fast_two_sum(sh, sl + cl)
    high, low = fast_two_sum(th, quotient((xh - rh) + (xl - rl), yh, DOUBLE))
    half = (up - down) >> 1
    a, b = power_of(half, DOUBLE), power_of(up - down - half, DOUBLE)
    return fast_two_sum(high * a * b, low * a * b)


@triton.jit
def rooted(xh, xl, DOUBLE: tl.constexpr):
    """SQRTDWtoDW, of numbers brought next to 1."""
    half = scale_exponent(xh, DOUBLE) >> 1
    a, b = power_of(-2 * half, DOUBLE), power_of(half, DOUBLE)
    xh, xl = xh * a, xl * a
    sh = square_root(xh, DOUBLE)
    rest = xl + tl.fma(-sh, sh, xh)
    high, low = fast_two_sum(sh, quotient(rest, sh + sh, DOUBLE))
    return fast_two_sum(high * b, low * b)


@triton.jit
def load_pair(a, b, offset, length, mask, MIXED: tl.constexpr):
    """Both words of an operand."""
    high = tl.load(a + offset, mask=mask, other=1.0)
    if MIXED:
        low = tl.load(b + offset, mask=mask, other=1.0).to(tl.float64)
    else:
        low = tl.load(a + length + offset, mask=mask, other=1.0)
    return high, low


@triton.jit
def pairs(xa, xb, ya, yb, za, zb, size, OPERATION: tl.constexpr, X_PARTS: tl.constexpr,
          Y_PARTS: tl.constexpr, PARTS: tl.constexpr, X_ONE: tl.constexpr, Y_ONE: tl.constexpr,
          DOUBLE: tl.constexpr, MIXED: tl.constexpr, BLOCK: tl.constexpr):  # fmt: skip
    """Numbers z = x op y of two words."""
    at = wide(tl.program_id(0)) * BLOCK + tl.arange(0, BLOCK)
    part = tl.program_id(1)
    mask = at < size
    if OPERATION == MULTIPLY and X_PARTS == 2 and Y_PARTS == 2:
        x_at, x_length = places(at, 0, size, X_PARTS, X_ONE)
        v_at, x_length = places(at, 1, size, X_PARTS, X_ONE)
        w_at, y_length = places(at, 1 - part, size, Y_PARTS, Y_ONE)
        y_at, y_length = places(at, part, size, Y_PARTS, Y_ONE)
        xh, xl = load_pair(xa, xb, x_at, x_length, mask, MIXED)
        yh, yl = load_pair(ya, yb, y_at, y_length, mask, MIXED)
        vh, vl = load_pair(xa, xb, v_at, x_length, mask, MIXED)
        wh, wl = load_pair(ya, yb, w_at, y_length, mask, MIXED)
        sign = (2 * part - 1).to(xh.dtype)
        ah, al = multiplied(xh, xl, yh, yl)
        bh, bl = multiplied(vh, vl, wh, wl)
        high, low = added(ah, al, sign * bh, sign * bl)
        plain = xh * yh + sign * (vh * wh)
    else:
        x_at, x_length = places(at, part, size, X_PARTS, X_ONE)
        y_at, y_length = places(at, part, size, Y_PARTS, Y_ONE)
        xh, xl = load_pair(xa, xb, x_at, x_length, mask, MIXED)
        if OPERATION == ROOT:
            high, low = rooted(xh, xl, DOUBLE)
            plain = square_root(xh, DOUBLE)
        else:
            yh, yl = load_pair(ya, yb, y_at, y_length, mask, MIXED)
            if OPERATION == DIVIDE:
                high, low = divided(xh, xl, yh, yl, DOUBLE)
                plain = quotient(xh, yh, DOUBLE)
            elif OPERATION == MULTIPLY:
                high, low = multiplied(xh, xl, yh, yl)
                plain = xh * yh
            elif OPERATION == ADD:
                high, low = added(xh, xl, yh, yl)
                plain = xh + yh
            else:
                high, low = added(xh, xl, -yh, -yl)
                plain = xh - yh
    high = first_word(high, plain)
    low = later_word(low, high)
    z_at, z_length = places(at, part, size, PARTS, False)
    if MIXED:
        near = tl.minimum(tl.maximum(low, -LARGEST), LARGEST).to(tl.float32).to(tl.float64)
        total, rest = fast_two_sum(high, near)  # it may have been rounded to a tie
        fine = is_finite(total) & (high != 0)
        tl.store(za + z_at, tl.where(fine, total, high), mask=mask)
        tl.store(zb + z_at, tl.where(fine, rest, 0.0).to(tl.float32) + 0.0, mask=mask)
    else:
        tl.store(za + z_at, high, mask=mask)
        tl.store(za + z_length + z_at, low, mask=mask)


@triton.jit
def rounded_to_three(a, b, c, d):
    """Canonical words of a + b + c + d: grow and round_words of cpu/kernels/rows.py, unrolled."""
    c, d = two_sum(c, d)
    b, d = two_sum(b, d)
    b, c = two_sum(b, c)
    a, d = two_sum(a, d)
    a, c = two_sum(a, c)
    a, b = two_sum(a, b)
    total, d = fast_two_sum(c, d)
    total, c = fast_two_sum(b, total)
    total, c = broken_tie(total, c, d)
    below = tl.where(c != 0, c, d)
    total, b = fast_two_sum(a, total)
    a, b = broken_tie(total, b, below)
    total, d = fast_two_sum(c, d)
    total, c = fast_two_sum(b, total)
    b, c = broken_tie(total, c, d)
    c, d = fast_two_sum(c, d)
    b, c = fast_two_sum(b, c)
    return a, b, c


@triton.jit
def triples(xa, ya, za, size, OPERATION: tl.constexpr, X_PARTS: tl.constexpr,
            Y_PARTS: tl.constexpr, PARTS: tl.constexpr, X_ONE: tl.constexpr, Y_ONE: tl.constexpr,
            BLOCK: tl.constexpr):  # fmt: skip
    """Sums and products z = x op y of three words of float32: listings 8 and 10."""
    at = wide(tl.program_id(0)) * BLOCK + tl.arange(0, BLOCK)
    part = tl.program_id(1)
    mask = at < size
    x_at, x_length = places(at, part, size, X_PARTS, X_ONE)
    y_at, y_length = places(at, part, size, Y_PARTS, Y_ONE)
    x0 = tl.load(xa + x_at, mask=mask, other=1.0)
    x1 = tl.load(xa + x_length + x_at, mask=mask, other=1.0)
    x2 = tl.load(xa + 2 * x_length + x_at, mask=mask, other=1.0)
    y0 = tl.load(ya + y_at, mask=mask, other=1.0)
    y1 = tl.load(ya + y_length + y_at, mask=mask, other=1.0)
    y2 = tl.load(ya + 2 * y_length + y_at, mask=mask, other=1.0)
    if OPERATION == MULTIPLY:
        s0, s1, s2, last = product_terms(x0, x1, x2, y0, y1, y2)
    else:
        if OPERATION == SUBTRACT:
            y0, y1, y2 = -y0, -y1, -y2
        s0, s1, s2, last = sum_terms(x0, x1, x2, y0, y1, y2)
    plain = s0
    z0, z1, z2 = rounded_to_three(s0, s1, s2, last)
    z0 = first_word(z0, plain)
    z_at, z_length = places(at, part, size, PARTS, False)
    tl.store(za + z_at, z0, mask=mask)
    tl.store(za + z_length + z_at, later_word(z1, z0), mask=mask)
    tl.store(za + 2 * z_length + z_at, later_word(z2, z0), mask=mask)
