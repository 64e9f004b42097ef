"""Numbers of three words and more, a tile at a time: x + y rounded once, the rest nearly so.

A sum is the exact expansion of all words. A product deposits x_i y_j and its error in the order of
their size, as far as one word past the last; a quotient and a root are found word by word, their
exact remainders kept in the same way. docs/words.md has the bounds. Three words of float32 add and
multiply as in "triple-single arithmetic" (widen.papers' 003), listings 8 and 10, but for the
renormalisation.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from widen.cpu.kernels.cache import device
from widen.cpu.kernels.floats import power_like, scale_exponent
from widen.cpu.kernels.rows import (
    add_rows,
    copy_row,
    deposit,
    deposit_product,
    fill_row,
    finish,
    grow,
    round_words,
)
from widen.cpu.kernels.triples import product_terms, sum_terms


@device
def _rounded(sums, z, plain, spare):
    """Make z the canonical words of the sum of the rows."""
    grow(sums)
    round_words(sums, z.shape[0], spare[0], spare[1])
    for l in range(z.shape[0]):
        copy_row(sums[l], z[l])
    finish(z, plain)


@device
def clear(sums):
    """Set all rows to zero."""
    for l in range(sums.shape[0]):
        fill_row(sums[l], sums.dtype.type(0))


@device
def add(x, y, z, sums, spare):
    """Sums, rounded once: `sums` has room for all words of both."""
    count = x.shape[0]
    for l in range(count):
        copy_row(x[l], sums[l])
        copy_row(y[l], sums[count + l])
    plain = spare[2]
    for t in range(plain.shape[0]):
        plain[t] = x[0, t] + y[0, t]
    _rounded(sums, z, plain, spare)


@device
def deposit_products(x, y, sign, sums, spare):
    """Add sign x y to the sums, its terms of orders 0 to count, for the count words of x and y."""
    count, bottom = x.shape[0], sums.shape[0] - 1
    for i in range(count):
        for j in range(count - i):
            deposit_product(sums, x[i], y[j], sign, i + j, bottom, spare)
        if i > 0:
            last, a, b = spare[0], x[i], y[count - i]
            for t in range(last.shape[0]):
                last[t] = sign * (a[t] * b[t])
            deposit(sums, last, count, bottom)


@device
def multiply(x, y, v, w, sign, z, sums, spare):
    """Products x y, or x y + sign v w if the sign is not 0: `sums` has count + 1 rows or more."""
    clear(sums)
    plain = spare[2]
    for t in range(plain.shape[0]):
        plain[t] = x[0, t] * y[0, t]
    deposit_products(x, y, sums.dtype.type(1), sums, spare)
    if sign != 0:
        for t in range(plain.shape[0]):
            plain[t] += sign * (v[0, t] * w[0, t])
        deposit_products(v, w, sign, sums, spare)
    _rounded(sums, z, plain, spare)


@device
def _lead(sums):
    """Bring what the rows hold to the top: sums[0] is nearly all of it."""
    for _ in range(2):
        for l in range(sums.shape[0] - 1, 0, -1):
            add_rows(sums[l - 1], sums[l])


@njit(error_model="numpy")
def divide(x, y, z, sums, digits, spare):
    """Quotients: `sums` has count + 2 rows or more, `digits` one less."""
    count, bottom = x.shape[0], sums.shape[0] - 1
    minus, zero = sums.dtype.type(-1), sums.dtype.type(0)
    clear(sums)
    for l in range(count):
        for t in range(sums.shape[1]):
            sums[l, t] = x[l, t] * power_like(-scale_exponent(x[0, t]), zero)
    divisor = z
    for l in range(count):
        for t in range(sums.shape[1]):
            divisor[l, t] = y[l, t] * power_like(-scale_exponent(y[0, t]), zero)
    for k in range(bottom):
        _lead(sums)
        for t in range(sums.shape[1]):
            digits[k, t] = sums[0, t] / divisor[0, t]
        for j in range(min(count, bottom + 1 - k)):
            deposit_product(sums, digits[k], divisor[j], minus, k + j, bottom, spare)
    plain = spare[2]
    for t in range(plain.shape[0]):
        plain[t] = x[0, t] / y[0, t]
        power = scale_exponent(x[0, t]) - scale_exponent(y[0, t])
        half = power >> 1
        for k in range(bottom):
            digits[k, t] = digits[k, t] * power_like(half, zero) * power_like(power - half, zero)
    _rounded(digits, z, plain, spare)


@njit(error_model="numpy")
def root(x, z, sums, digits, spare):
    """Square roots: `sums` has count + 2 rows or more, `digits` one less."""
    count, bottom = x.shape[0], sums.shape[0] - 1
    minus, zero = sums.dtype.type(-1), sums.dtype.type(0)
    clear(sums)
    for l in range(count):
        for t in range(sums.shape[1]):
            half = scale_exponent(x[0, t]) >> 1
            sums[l, t] = x[l, t] * power_like(-2 * half, zero)
    for k in range(bottom):
        _lead(sums)
        for t in range(sums.shape[1]):
            if k == 0:
                digits[k, t] = np.sqrt(sums[0, t])
            else:
                digits[k, t] = sums[0, t] / (digits[0, t] + digits[0, t])
        for j in range(min(k, bottom + 1 - k)):
            deposit_product(sums, digits[k], digits[j], minus + minus, k + j, bottom, spare)
        if 2 * k <= bottom:
            deposit_product(sums, digits[k], digits[k], minus, 2 * k, bottom, spare)
    plain = spare[2]
    for t in range(plain.shape[0]):
        plain[t] = np.sqrt(x[0, t])
        power = power_like(scale_exponent(x[0, t]) >> 1, zero)
        for k in range(bottom):
            digits[k, t] = digits[k, t] * power
    _rounded(digits, z, plain, spare)


@device
def combine_triples(product, x, y, z, sums, spare):
    """Products or sums of three words of float32, listings 10 and 8: `sums` has four rows."""
    plain = spare[2]
    for t in range(plain.shape[0]):
        six = x[0, t], x[1, t], x[2, t], y[0, t], y[1, t], y[2, t]
        four = product_terms(*six) if product else sum_terms(*six)
        sums[0, t], sums[1, t], sums[2, t], sums[3, t] = four
        plain[t] = sums[0, t]
    _rounded(sums, z, plain, spare)
