"""Numbers of two words, a tile at a time: the algorithms of Joldes, Muller and Popescu.

"Tight and rigorous error bounds for basic building blocks of double-word arithmetic", ACM TOMS 44
(2017), by their numbers there, and the square root of Lefèvre, Louvet, Muller, Picot and Rideau,
"Accurate calculation of Euclidean norms using double-word arithmetic", ACM TOMS 49 (2023).
"""

from __future__ import annotations

import numpy as np
from numba import njit

from widen.cpu.kernels.cache import device
from widen.cpu.kernels.floats import (
    fast_two_sum,
    fma,
    is_finite,
    power_like,
    scale_exponent,
    two_product,
    two_sum,
)


@device
def finished(high, low, plain, zero):
    """NaN and infinity alone in the first word; a zero with the sign of ordinary arithmetic."""
    ordinary = (not is_finite(plain)) | (high != high) | ((high == 0) & (plain == 0))
    high = plain if ordinary else high
    return high, (low if is_finite(high) & is_finite(low) else zero) + zero


@device
def added(xh, xl, yh, yl):
    """Algorithm 6, AccurateDWPlusDW."""
    sh, sl = two_sum(xh, yh)
    th, tl = two_sum(xl, yl)
    vh, vl = fast_two_sum(sh, sl + th)
    return fast_two_sum(vh, tl + vl)


@device
def multiplied(xh, xl, yh, yl):
    """Algorithm 10, DWTimesDW1: of the three in the paper, the one where x y and y x are alike."""
    ch, cl = two_product(xh, yh)
    return fast_two_sum(ch, cl + (xh * yl + xl * yh))


@njit(error_model="numpy")
def divided(xh, xl, yh, yl):
    """Algorithm 17, DWDivDW2: x / x is 1."""
    th = xh / yh
    ch, cl = two_product(yh, th)
    sh, sl = fast_two_sum(ch, yl * th)
    rh, rl = fast_two_sum(sh, sl + cl)
    return fast_two_sum(th, ((xh - rh) + (xl - rl)) / yh)


@njit(error_model="numpy")
def rooted(xh, xl):
    """Algorithm 8 of the second paper, SQRTDWtoDW."""
    sh = np.sqrt(xh)
    rest = xl + fma(-sh, sh, xh)
    return fast_two_sum(sh, rest / (sh + sh))


# ── rows of high and low words: z = x op y ───────────────────────────────────


@device
def add(xh, xl, yh, yl, zh, zl, sign):
    """Sums x + sign y."""
    zero = zh.dtype.type(0)
    for t in range(zh.shape[0]):
        b = sign * yh[t]
        high, low = added(xh[t], xl[t], b, sign * yl[t])
        zh[t], zl[t] = finished(high, low, xh[t] + b, zero)


@device
def multiply(xh, xl, yh, yl, zh, zl):
    """Products."""
    zero = zh.dtype.type(0)
    for t in range(zh.shape[0]):
        high, low = multiplied(xh[t], xl[t], yh[t], yl[t])
        zh[t], zl[t] = finished(high, low, xh[t] * yh[t], zero)


@device
def multiply_both(xh, xl, yh, yl, v, w, sign, zh, zl):
    """Sums of two products, x y + sign v w: a part of a complex product."""
    zero = zh.dtype.type(0)
    vh, vl, wh, wl = v[0], v[1], w[0], w[1]
    for t in range(zh.shape[0]):
        ah, al = multiplied(xh[t], xl[t], yh[t], yl[t])
        bh, bl = multiplied(vh[t], vl[t], wh[t], wl[t])
        high, low = added(ah, al, sign * bh, sign * bl)
        plain = xh[t] * yh[t] + sign * (vh[t] * wh[t])
        zh[t], zl[t] = finished(high, low, plain, zero)


@njit(error_model="numpy")
def divide(xh, xl, yh, yl, zh, zl):
    """Quotients, of numbers brought next to 1 so that nothing is lost on the way."""
    zero = zh.dtype.type(0)
    for t in range(zh.shape[0]):
        up, down = scale_exponent(xh[t]), scale_exponent(yh[t])
        a, b = power_like(-up, zero), power_like(-down, zero)
        high, low = divided(xh[t] * a, xl[t] * a, yh[t] * b, yl[t] * b)
        half = (up - down) >> 1
        a, b = power_like(half, zero), power_like(up - down - half, zero)
        high, low = fast_two_sum(high * a * b, low * a * b)
        zh[t], zl[t] = finished(high, low, xh[t] / yh[t], zero)


@njit(error_model="numpy")
def root(xh, xl, zh, zl):
    """Square roots."""
    zero = zh.dtype.type(0)
    for t in range(zh.shape[0]):
        half = scale_exponent(xh[t]) >> 1
        a, b = power_like(-2 * half, zero), power_like(half, zero)
        high, low = rooted(xh[t] * a, xl[t] * a)
        high, low = fast_two_sum(high * b, low * b)
        zh[t], zl[t] = finished(high, low, np.sqrt(xh[t]), zero)
