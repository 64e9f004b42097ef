"""Numbers of two to four words on a GPU, in registers.

The steps are those of cpu/kernels/word_pairs.py for two words, and of word_rows.py. A program has a
block of elements of one part of the result. Expansions are tuples, largest first; loops over words
are unrolled, which takes the compiler minutes for eight: `word_rows` has those.
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
            total, below = fast_two_sum(e[N - 2], e[N - 1])  # no tie is broken: nothing is below
            rests = (below,)
            for up in tl.static_range(1, N - 1 - l):
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
def load_words(
    pointer, second, offset, length, mask, COUNT: tl.constexpr, MIXED: tl.constexpr
):  # fmt: skip
    """The words of elements; with MIXED the last is a float32, in `second`."""
    words = ()
    for l in tl.static_range(COUNT):
        if MIXED and l == COUNT - 1:
            last = tl.load(second + offset, mask=mask, other=1.0).to(tl.float64)
            words = words + (last,)
        else:
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
def sum_of(x, y, COUNT: tl.constexpr, LISTED: tl.constexpr):
    """Words of x + y."""
    if COUNT == 2:
        return added(x[0], x[1], y[0], y[1])
    elif LISTED:
        terms = sum_terms(x[0], x[1], x[2], y[0], y[1], y[2])
        return round_words(grow(terms, 4), 3, 4)
    else:
        return round_words(grow(x + y, 2 * COUNT), COUNT, 2 * COUNT)


@triton.jit
def product_of(
    x, y, v, w, sign, BOTH: tl.constexpr, COUNT: tl.constexpr, LISTED: tl.constexpr
):  # fmt: skip
    """Words of x y, or with BOTH of x y + sign v w."""
    n: tl.constexpr = COUNT + 1 + COUNT // 8
    if COUNT == 2:
        high, low = multiplied(x[0], x[1], y[0], y[1])
        if BOTH:
            more, less = multiplied(v[0], v[1], w[0], w[1])
            high, low = added(high, low, sign * more, sign * less)
        return high, low
    elif LISTED:
        terms = product_terms(x[0], x[1], x[2], y[0], y[1], y[2])
        return round_words(grow(terms, 4), 3, 4)
    else:
        one = tl.zeros_like(x[0]) + 1
        sums = deposit_products(zeros(x[0], n), x, y, one, COUNT, n)
        if BOTH:
            sums = deposit_products(sums, v, w, sign, COUNT, n)
        return round_words(grow(sums, n), COUNT, n)


@triton.jit
def quotient_of(x, y, COUNT: tl.constexpr, DOUBLE: tl.constexpr):
    """Words of x / y."""
    n: tl.constexpr = COUNT + 1 + COUNT // 8
    if COUNT == 2:
        return divided(x[0], x[1], y[0], y[1], DOUBLE)
    else:
        up, down = scale_exponent(x[0], DOUBLE), scale_exponent(y[0], DOUBLE)
        sums = scaled(x, power_of(-up, DOUBLE), COUNT) + zeros(x[0], n + 1 - COUNT)
        divisor = scaled(y, power_of(-down, DOUBLE), COUNT)
        digits = quotient_digits(sums, divisor, COUNT, n + 1, DOUBLE)
        half = (up - down) >> 1
        digits = scaled(digits, power_of(half, DOUBLE), n)
        digits = scaled(digits, power_of(up - down - half, DOUBLE), n)
        return round_words(grow(digits, n), COUNT, n)


@triton.jit
def root_of(x, COUNT: tl.constexpr, DOUBLE: tl.constexpr):
    """Words of the square root of x."""
    n: tl.constexpr = COUNT + 1 + COUNT // 8
    if COUNT == 2:
        return rooted(x[0], x[1], DOUBLE)
    else:
        half = scale_exponent(x[0], DOUBLE) >> 1
        sums = scaled(x, power_of(-2 * half, DOUBLE), COUNT) + zeros(x[0], n + 1 - COUNT)
        digits = scaled(root_digits(sums, n + 1, DOUBLE), power_of(half, DOUBLE), n)
        return round_words(grow(digits, n), COUNT, n)


@triton.jit
def store_mixed(za, zb, at, first, low, mask):
    """Store a float64 and a float32 of the same sum, the nearest there are."""
    near = tl.minimum(tl.maximum(low, -LARGEST), LARGEST).to(tl.float32).to(tl.float64)
    total, rest = fast_two_sum(first, near)  # it may have been rounded to a tie
    fine = is_finite(total) & (first != 0)
    tl.store(za + at, tl.where(fine, total, first), mask=mask)
    tl.store(zb + at, tl.where(fine, rest, 0.0).to(tl.float32) + 0.0, mask=mask)


@triton.jit
def tuples(
    xa, xb, ya, yb, za, zb, size, OPERATION: tl.constexpr, X_PARTS: tl.constexpr,
    Y_PARTS: tl.constexpr, PARTS: tl.constexpr, X_ONE: tl.constexpr, Y_ONE: tl.constexpr,
    DOUBLE: tl.constexpr, COUNT: tl.constexpr, MIXED: tl.constexpr, LISTED: tl.constexpr,
    BLOCK: tl.constexpr,
):  # fmt: skip
    """Numbers z = x op y of COUNT words; with MIXED the second is a float32, in xb, yb and zb.

    LISTED: sums and products of three words of float32 by listings 8 and 10 (`triples`).
    """
    at = wide(tl.program_id(0)) * BLOCK + tl.arange(0, BLOCK)
    part = tl.program_id(1)
    mask = at < size
    both: tl.constexpr = OPERATION == MULTIPLY and X_PARTS == 2 and Y_PARTS == 2
    x_at, x_length = places(at, 0 if both else part, size, X_PARTS, X_ONE)
    y_at, y_length = places(at, part, size, Y_PARTS, Y_ONE)
    x = load_words(xa, xb, x_at, x_length, mask, COUNT, MIXED)
    if OPERATION == ROOT:
        plain = square_root(x[0], DOUBLE)
        words = root_of(x, COUNT, DOUBLE)
    else:
        y = load_words(ya, yb, y_at, y_length, mask, COUNT, MIXED)
        if OPERATION == MULTIPLY:
            plain = x[0] * y[0]
            v, w, sign = x, y, plain
            if both:
                v_at, _ = places(at, 1, size, X_PARTS, X_ONE)
                w_at, _ = places(at, 1 - part, size, Y_PARTS, Y_ONE)
                v = load_words(xa, xb, v_at, x_length, mask, COUNT, MIXED)
                w = load_words(ya, yb, w_at, y_length, mask, COUNT, MIXED)
                sign = (2 * part - 1).to(plain.dtype)
                plain += sign * (v[0] * w[0])
            words = product_of(x, y, v, w, sign, both, COUNT, LISTED)
        elif OPERATION == DIVIDE:
            plain = quotient(x[0], y[0], DOUBLE)
            words = quotient_of(x, y, COUNT, DOUBLE)
        else:
            if OPERATION == SUBTRACT:
                y = scaled(y, -1.0, COUNT)
            plain = x[0] + y[0]
            words = sum_of(x, y, COUNT, LISTED)
    first = first_word(words[0], plain)
    z_at, z_length = places(at, part, size, PARTS, False)
    if MIXED:
        store_mixed(za, zb, z_at, first, later_word(words[1], first), mask)
    else:
        tl.store(za + z_at, first, mask=mask)
        for l in tl.static_range(1, COUNT):
            tl.store(za + l * z_length + z_at, later_word(words[l], first), mask=mask)
