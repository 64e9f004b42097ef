"""Numbers of three and four words on a GPU, in registers: the steps of cpu/kernels/word_rows.py.

Expansions are tuples, largest first; loops over words are unrolled.
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
from widen.gpu.kernels.triton.word_pairs import DIVIDE, MULTIPLY, ROOT, SUBTRACT


@triton.jit
def deposit(sums, term, FIRST: tl.constexpr, N: tl.constexpr):
    """Add a term to component FIRST, its error to the next, and so on; the last is dropped."""
    new = ()
    for l in tl.static_range(N):
        if l < FIRST:
            new = new + (sums[l],)
        else:
            s, term = two_sum(sums[l], term)
            new = new + (s,)
    return new


@triton.jit
def deposit_product(sums, x, y, sign, ORDER: tl.constexpr, N: tl.constexpr):
    """Add sign x y exactly at component ORDER, its error below it."""
    product, error = two_product(x, y)
    sums = deposit(sums, sign * product, ORDER, N)
    return deposit(sums, sign * error, ORDER + 1, N)


@triton.jit
def grow(e, N: tl.constexpr):
    """A nonadjacent expansion of the same sum, largest first."""
    for back in tl.static_range(1, N):
        total = e[N - 1 - back]
        rests = ()
        for up in tl.static_range(back):
            total, rest = two_sum(total, e[N - 1 - up])
            rests = (rest,) + rests
        new = ()
        for l in tl.static_range(N - 1 - back):
            new = new + (e[l],)
        e = new + (total,) + rests
    return e


@triton.jit
def round_words(e, COUNT: tl.constexpr, N: tl.constexpr):
    """The first COUNT components are canonical words of the sum of a nonadjacent expansion."""
    for l in tl.static_range(COUNT):
        if l < N - 1:
            total = e[N - 1]
            below = tl.zeros_like(total)
            rests = ()
            for up in tl.static_range(N - 1 - l):
                near, rest = fast_two_sum(e[N - 2 - up], total)
                total, rest = broken_tie(near, rest, below)
                rests = (rest,) + rests
                below = tl.where(rest != 0, rest, below)
            new = ()
            for m in tl.static_range(l):
                new = new + (e[m],)
            e = new + (total,) + rests
    high, low = fast_two_sum(e[COUNT - 2], e[COUNT - 1])
    words = ()
    for l in tl.static_range(COUNT - 2):
        words = words + (e[l],)
    return words + (high, low)


@triton.jit
def lead(sums, N: tl.constexpr):
    """What the components hold, brought to the top: the first is nearly all of it."""
    for _ in tl.static_range(2):
        total = sums[N - 1]
        rests = ()
        for up in tl.static_range(N - 1):
            total, rest = two_sum(sums[N - 2 - up], total)
            rests = (rest,) + rests
        sums = (total,) + rests
    return sums


@triton.jit
def zeros(like, N: tl.constexpr):
    """An expansion of N components that are 0."""
    new = ()
    for _ in tl.static_range(N):
        new = new + (tl.zeros_like(like),)
    return new


@triton.jit
def load_words(pointer, offset, length, mask, COUNT: tl.constexpr):
    """The words of elements."""
    words = ()
    for l in tl.static_range(COUNT):
        words = words + (tl.load(pointer + l * length + offset, mask=mask, other=1.0),)
    return words


@triton.jit
def scaled(words, power, COUNT: tl.constexpr):
    """All words times a power of two."""
    new = ()
    for l in tl.static_range(COUNT):
        new = new + (words[l] * power,)
    return new


@triton.jit
def deposit_products(sums, x, y, sign, COUNT: tl.constexpr, N: tl.constexpr):
    """Add sign x y, its terms of orders 0 to COUNT."""
    for i in tl.static_range(COUNT):
        for j in tl.static_range(COUNT - i):
            sums = deposit_product(sums, x[i], y[j], sign, i + j, N)
        if i > 0:
            sums = deposit(sums, sign * (x[i] * y[COUNT - i]), COUNT, N)
    return sums


@triton.jit
def quotient_digits(sums, y, COUNT: tl.constexpr, N: tl.constexpr, DOUBLE: tl.constexpr):
    """The first N - 1 digits of what `sums` hold divided by y."""
    minus = tl.zeros_like(y[0]) - 1
    digits = ()
    for k in tl.static_range(N - 1):
        sums = lead(sums, N)
        digit = quotient(sums[0], y[0], DOUBLE)
        digits = digits + (digit,)
        for j in tl.static_range(COUNT):
            if k + j < N:
                sums = deposit_product(sums, digit, y[j], minus, k + j, N)
    return digits


@triton.jit
def root_digits(sums, N: tl.constexpr, DOUBLE: tl.constexpr):
    """The first N - 1 digits of the square root of what `sums` hold."""
    minus = tl.zeros_like(sums[0]) - 1
    digits = ()
    for k in tl.static_range(N - 1):
        sums = lead(sums, N)
        if k == 0:
            digit = square_root(sums[0], DOUBLE)
        else:
            digit = quotient(sums[0], digits[0] + digits[0], DOUBLE)
        for j in tl.static_range(k):
            if k + j < N:
                sums = deposit_product(sums, digit, digits[j], minus + minus, k + j, N)
        if 2 * k < N:
            sums = deposit_product(sums, digit, digit, minus, 2 * k, N)
        digits = digits + (digit,)
    return digits


@triton.jit
def tuples(
    xa, ya, za, size, OPERATION: tl.constexpr, X_PARTS: tl.constexpr, Y_PARTS: tl.constexpr,
    PARTS: tl.constexpr, X_ONE: tl.constexpr, Y_ONE: tl.constexpr, DOUBLE: tl.constexpr,
    COUNT: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Numbers z = x op y of COUNT words."""
    at = wide(tl.program_id(0)) * BLOCK + tl.arange(0, BLOCK)
    part = tl.program_id(1)
    mask = at < size
    both: tl.constexpr = OPERATION == MULTIPLY and X_PARTS == 2 and Y_PARTS == 2
    more: tl.constexpr = COUNT // 8
    x_at, x_length = places(at, 0 if both else part, size, X_PARTS, X_ONE)
    y_at, y_length = places(at, part, size, Y_PARTS, Y_ONE)
    x = load_words(xa, x_at, x_length, mask, COUNT)
    if OPERATION == ROOT:
        half = scale_exponent(x[0], DOUBLE) >> 1
        sums = scaled(x, power_of(-2 * half, DOUBLE), COUNT) + zeros(x[0], 2 + more)
        digits = root_digits(sums, COUNT + 2 + more, DOUBLE)
        result = scaled(digits, power_of(half, DOUBLE), COUNT + 1 + more)
        plain = square_root(x[0], DOUBLE)
        words = round_words(grow(result, COUNT + 1 + more), COUNT, COUNT + 1 + more)
    else:
        y = load_words(ya, y_at, y_length, mask, COUNT)
        if OPERATION == MULTIPLY:
            one = tl.zeros_like(x[0]) + 1
            sums = deposit_products(
                zeros(x[0], COUNT + 1 + more), x, y, one, COUNT, COUNT + 1 + more
            )
            plain = x[0] * y[0]
            if both:
                v_at, x_length = places(at, 1, size, X_PARTS, X_ONE)
                w_at, y_length = places(at, 1 - part, size, Y_PARTS, Y_ONE)
                v = load_words(xa, v_at, x_length, mask, COUNT)
                w = load_words(ya, w_at, y_length, mask, COUNT)
                sign = one * (2 * part - 1)
                plain += sign * (v[0] * w[0])
                sums = deposit_products(sums, v, w, sign, COUNT, COUNT + 1 + more)
            words = round_words(grow(sums, COUNT + 1 + more), COUNT, COUNT + 1 + more)
        elif OPERATION == DIVIDE:
            up, down = scale_exponent(x[0], DOUBLE), scale_exponent(y[0], DOUBLE)
            sums = scaled(x, power_of(-up, DOUBLE), COUNT) + zeros(x[0], 2 + more)
            divisor = scaled(y, power_of(-down, DOUBLE), COUNT)
            digits = quotient_digits(sums, divisor, COUNT, COUNT + 2 + more, DOUBLE)
            half = (up - down) >> 1
            result = scaled(digits, power_of(half, DOUBLE), COUNT + 1 + more)
            result = scaled(result, power_of(up - down - half, DOUBLE), COUNT + 1 + more)
            plain = quotient(x[0], y[0], DOUBLE)
            words = round_words(grow(result, COUNT + 1 + more), COUNT, COUNT + 1 + more)
        else:
            if OPERATION == SUBTRACT:
                y = scaled(y, -1.0, COUNT)
            plain = x[0] + y[0]
            words = round_words(grow(x + y, 2 * COUNT), COUNT, 2 * COUNT)
    first = first_word(words[0], plain)
    z_at, z_length = places(at, part, size, PARTS, False)
    tl.store(za + z_at, first, mask=mask)
    for l in tl.static_range(1, COUNT):
        tl.store(za + l * z_length + z_at, later_word(words[l], first), mask=mask)
