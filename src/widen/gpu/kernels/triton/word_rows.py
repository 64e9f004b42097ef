"""Numbers of many words on a GPU: the steps of cpu/kernels/word_rows.py.

Expansions are rows of a scratch area in memory, so that loops can run over words (`word_tuples` has
the same steps in registers, unrolled): a program has rows of its own, and each of its threads reads
back only what it wrote itself.
"""

from __future__ import annotations

import triton
import triton.language as tl

from widen.gpu.kernels.triton.floats import (
    broken_tie,
    fast_two_sum,
    first_word,
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
from widen.gpu.kernels.triton.word_tuples import DIVIDE, MULTIPLY, ROOT, SUBTRACT


@triton.jit
def deposit(sums, term, first, last, ROW: tl.constexpr):
    """Add a term to row `first`, its error to the next row, and so on; the last is dropped."""
    for l in range(first, last + 1):
        s, term = two_sum(tl.load(sums + l * ROW), term)
        tl.store(sums + l * ROW, s)


@triton.jit
def deposit_product(sums, x, y, sign, order, last, ROW: tl.constexpr):
    """Add sign x y exactly at row `order`, its error below it."""
    product, error = two_product(x, y)
    deposit(sums, sign * product, order, last, ROW)
    deposit(sums, sign * error, order + 1, last, ROW)


@triton.jit
def grow(e, last, ROW: tl.constexpr):
    """Rows 0 .. last become a nonadjacent expansion of the same sum, largest first."""
    for back in range(1, last + 1):
        i = last - back
        total = tl.load(e + i * ROW)
        for up in range(back):
            l = last - up
            total, rest = two_sum(total, tl.load(e + l * ROW))
            tl.store(e + l * ROW, rest)
        tl.store(e + i * ROW, total)


@triton.jit
def round_words(e, last, count, ROW: tl.constexpr):
    """Make the first `count` rows canonical words of the sum, a nonadjacent expansion."""
    for l in range(tl.minimum(count, last)):
        total = tl.load(e + last * ROW)
        below = tl.zeros_like(total)
        for up in range(last - l):
            i = last - 1 - up
            near, rest = fast_two_sum(tl.load(e + i * ROW), total)
            total, rest = broken_tie(near, rest, below)
            tl.store(e + (i + 1) * ROW, rest)
            below = tl.where(rest != 0, rest, below)
        tl.store(e + l * ROW, total)
    high, low = fast_two_sum(tl.load(e + (count - 2) * ROW), tl.load(e + (count - 1) * ROW))
    tl.store(e + (count - 2) * ROW, high)
    tl.store(e + (count - 1) * ROW, low)


@triton.jit
def clear(rows, count, like, ROW: tl.constexpr):
    """Set rows to zero."""
    for l in range(count):
        tl.store(rows + l * ROW, tl.zeros_like(like))


@triton.jit
def lead(sums, last, ROW: tl.constexpr):
    """Bring what rows 0 .. last hold to the top: nearly all of it, which is given back."""
    for _ in range(2):
        total = tl.load(sums + last * ROW)
        for up in range(last):
            l = last - up
            total, rest = two_sum(tl.load(sums + (l - 1) * ROW), total)
            tl.store(sums + l * ROW, rest)
        tl.store(sums, total)
    return tl.load(sums)


@triton.jit
def deposit_products(sums, x, x_length, y, y_length, sign, count, bottom, mask,
                     ROW: tl.constexpr):  # fmt: skip
    """Add sign x y to rows 0 .. bottom, its terms of orders 0 to count."""
    for i in range(count):
        a = tl.load(x + i * x_length, mask=mask, other=1.0)
        for j in range(count - i):
            b = tl.load(y + j * y_length, mask=mask, other=1.0)
            deposit_product(sums, a, b, sign, i + j, bottom, ROW)
        if i > 0:
            c = tl.load(y + (count - i) * y_length, mask=mask, other=1.0)
            deposit(sums, sign * (a * c), count, bottom, ROW)


@triton.jit
def quotient_digits(sums, digits, divisor, count, bottom, ROW: tl.constexpr,
                    DOUBLE: tl.constexpr):  # fmt: skip
    """The digits of what is in `sums` divided by `divisor`; remainders stay in `sums`."""
    y0 = tl.load(divisor)
    minus = tl.zeros_like(y0) - 1
    for k in range(bottom):
        digit = quotient(lead(sums, bottom, ROW), y0, DOUBLE)
        tl.store(digits + k * ROW, digit)
        for j in range(tl.minimum(count, bottom + 1 - k)):
            y = tl.load(divisor + j * ROW)
            deposit_product(sums, digit, y, minus, k + j, bottom, ROW)


@triton.jit
def root_digits(sums, digits, bottom, ROW: tl.constexpr, DOUBLE: tl.constexpr):
    """The digits of the square root of what is in `sums`."""
    first = square_root(lead(sums, bottom, ROW), DOUBLE)
    minus = tl.zeros_like(first) - 1
    tl.store(digits, first)
    deposit_product(sums, first, first, minus, 0, bottom, ROW)
    for k in range(1, bottom):
        digit = quotient(lead(sums, bottom, ROW), first + first, DOUBLE)
        tl.store(digits + k * ROW, digit)
        for j in range(tl.minimum(k, bottom + 1 - k)):
            y = tl.load(digits + j * ROW)
            deposit_product(sums, digit, y, minus + minus, k + j, bottom, ROW)
        if 2 * k <= bottom:
            deposit_product(sums, digit, digit, minus, 2 * k, bottom, ROW)


@triton.jit
def store_rounded(e, last, plain, za, length, count, mask, ROW: tl.constexpr):
    """Store canonical words of the sum of rows 0 .. last."""
    grow(e, last, ROW)
    round_words(e, last, count, ROW)
    first = first_word(tl.load(e), plain)
    tl.store(za, first, mask=mask)
    for l in range(1, count):
        word = later_word(tl.load(e + l * ROW), first)
        tl.store(za + l * length, word, mask=mask)


@triton.jit(do_not_specialize=["count", "blocks"])
def several(xa, ya, za, scratch, size, count, blocks, OPERATION: tl.constexpr,
            X_PARTS: tl.constexpr, Y_PARTS: tl.constexpr, PARTS: tl.constexpr,
            X_ONE: tl.constexpr, Y_ONE: tl.constexpr, DOUBLE: tl.constexpr,
            BLOCK: tl.constexpr):  # fmt: skip
    """Numbers z = x op y of any number of words.

    A program takes every so many-th block of elements; `scratch` has 4 count + 3 rows for it.
    """
    more = count // 8  # rows that keep what many carries make of the last one
    part = tl.program_id(1)
    program = wide(part) * tl.num_programs(0) + tl.program_id(0)
    lane = tl.arange(0, BLOCK)
    sums = scratch + program * (4 * count + 3) * BLOCK + lane
    for block in range(tl.program_id(0), blocks, tl.num_programs(0)):
        at = wide(block) * BLOCK + lane
        mask = at < size
        both: tl.constexpr = OPERATION == MULTIPLY and X_PARTS == 2 and Y_PARTS == 2
        x_at, x_length = places(at, 0 if both else part, size, X_PARTS, X_ONE)
        y_at, y_length = places(at, part, size, Y_PARTS, Y_ONE)
        x0 = tl.load(xa + x_at, mask=mask, other=1.0)
        y0 = tl.load(ya + y_at, mask=mask, other=1.0)
        one = tl.zeros_like(x0) + 1
        z_at, z_length = places(at, part, size, PARTS, False)
        last = count + more
        if OPERATION == MULTIPLY:
            clear(sums, last + 1, x0, BLOCK)
            plain = x0 * y0
            deposit_products(
                sums, xa + x_at, x_length, ya + y_at, y_length, one, count, last, mask, BLOCK
            )
            if both:
                v_at, x_length = places(at, 1, size, X_PARTS, X_ONE)
                w_at, y_length = places(at, 1 - part, size, Y_PARTS, Y_ONE)
                v0 = tl.load(xa + v_at, mask=mask, other=1.0)
                w0 = tl.load(ya + w_at, mask=mask, other=1.0)
                sign = one * (2 * part - 1)
                plain += sign * (v0 * w0)
                deposit_products(
                    sums, xa + v_at, x_length, ya + w_at, y_length, sign, count, last, mask, BLOCK
                )
            store_rounded(sums, last, plain, za + z_at, z_length, count, mask, BLOCK)
        elif OPERATION == DIVIDE:
            digits = sums + (last + 2) * BLOCK
            divisor = digits + (last + 1) * BLOCK
            clear(sums, last + 2, x0, BLOCK)
            up, down = scale_exponent(x0, DOUBLE), scale_exponent(y0, DOUBLE)
            for l in range(count):
                x = tl.load(xa + l * x_length + x_at, mask=mask, other=1.0)
                y = tl.load(ya + l * y_length + y_at, mask=mask, other=1.0)
                tl.store(sums + l * BLOCK, x * power_of(-up, DOUBLE))
                tl.store(divisor + l * BLOCK, y * power_of(-down, DOUBLE))
            quotient_digits(sums, digits, divisor, count, last + 1, BLOCK, DOUBLE)
            half = (up - down) >> 1
            for l in range(last + 1):
                digit = tl.load(digits + l * BLOCK) * power_of(half, DOUBLE)
                tl.store(digits + l * BLOCK, digit * power_of(up - down - half, DOUBLE))
            plain = quotient(x0, y0, DOUBLE)
            store_rounded(digits, last, plain, za + z_at, z_length, count, mask, BLOCK)
        elif OPERATION == ROOT:
            digits = sums + (last + 2) * BLOCK
            clear(sums, last + 2, x0, BLOCK)
            half = scale_exponent(x0, DOUBLE) >> 1
            for l in range(count):
                x = tl.load(xa + l * x_length + x_at, mask=mask, other=1.0)
                tl.store(sums + l * BLOCK, x * power_of(-2 * half, DOUBLE))
            root_digits(sums, digits, last + 1, BLOCK, DOUBLE)
            for l in range(last + 1):
                digit = tl.load(digits + l * BLOCK) * power_of(half, DOUBLE)
                tl.store(digits + l * BLOCK, digit)
            plain = square_root(x0, DOUBLE)
            store_rounded(digits, last, plain, za + z_at, z_length, count, mask, BLOCK)
        else:
            for l in range(count):
                x = tl.load(xa + l * x_length + x_at, mask=mask, other=1.0)
                y = tl.load(ya + l * y_length + y_at, mask=mask, other=1.0)
                if OPERATION == SUBTRACT:
                    y = -y
                tl.store(sums + l * BLOCK, x)
                tl.store(sums + (count + l) * BLOCK, y)
            plain = x0 - y0 if OPERATION == SUBTRACT else x0 + y0
            store_rounded(sums, 2 * count - 1, plain, za + z_at, z_length, count, mask, BLOCK)
