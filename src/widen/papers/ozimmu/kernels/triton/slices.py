"""Paper 002 on a GPU: slices of float64 lines as int8 digits, and sums added to C in float64.

Unlike all other kernels these compute in float64 where the paper does: splitting to nearest and
accumulation. Multiplications are by powers of two, so that a fused multiply-add changes nothing.
"""

from __future__ import annotations

import triton
import triton.language as tl

from widen.gpu.kernels.triton.numbers import decode, highest_bit, is_special, wide

SPECIAL = tl.constexpr(1 << 20)  # the unit's exponent of a line with NaN or Inf
SIGMA = tl.constexpr(6755399441055744.0)  # 0.75 * 2^53: adding it rounds to an integer
MAGNITUDE = tl.constexpr((1 << 63) - 1)
REACH = tl.constexpr(700)  # of one multiplication by a power of two


@triton.jit
def power(exponent):
    """2^exponent as a float64, for exponents of normal numbers; 0 below them."""
    field = tl.maximum(exponent + 1023, 0).to(tl.int64)
    return (field << 52).to(tl.float64, bitcast=True)


@triton.jit
def scaled(x, exponent):
    """Return x 2^exponent in three steps: exponents up to 2100, rounded once unless x is tiny."""
    for _ in tl.static_range(3):
        by = tl.minimum(tl.maximum(exponent, -REACH), REACH)
        x = x * power(by)
        exponent = exponent - by
    return x


@triton.jit
def unit_of(largest, beta, NEAREST: tl.constexpr):
    """The exponent of the first digits' unit, of the bits of a line's largest magnitude."""
    m, e = decode(largest, 52, 11)
    top = highest_bit(m)
    if NEAREST:  # rounded up: one more unless a power of two
        top += (m & (m - 1) != 0).to(tl.int32)
    unit = tl.where(m == 0, 0, e + top + 1 - beta)
    return tl.where(is_special(largest, 52, 11), SPECIAL, unit)


@triton.jit
def place(lines, inner, LINES: tl.constexpr, INNER: tl.constexpr):
    """Lines and entries of a program."""
    tiles = tl.cdiv(lines, LINES)
    line = tl.program_id(0) % tiles * LINES + tl.arange(0, LINES)
    h = tl.program_id(0) // tiles * INNER + tl.arange(0, INNER)
    return line, h


@triton.jit(do_not_specialize=["lines", "inner"])
def largest(x, out, lines, inner, along, beside, LINES: tl.constexpr, INNER: tl.constexpr):
    """out[line] = bits of the largest magnitude of a line, or what it was if that is more.

    `x` are bits; `along` and `beside` are the strides from entry to entry and from line to line.
    """
    line, h = place(lines, inner, LINES, INNER)
    at = x + (line.to(tl.int64) * beside)[:, None] + (h.to(tl.int64) * along)[None, :]
    bits = tl.load(at, (line < lines)[:, None] & (h < inner)[None, :], other=0)
    tl.atomic_max(out + line, tl.max(bits & MAGNITUDE, 1), line < lines)


@triton.jit
def entries(
    x, most, units, planes, lines, inner, pitch, along, beside, beta,
    NEAREST: tl.constexpr, LINES: tl.constexpr, INNER: tl.constexpr,
):  # fmt: skip
    """Bits of a program's entries, the units of its lines (stored), where digits go, and which."""
    line, h = place(lines, pitch, LINES, INNER)
    inside = line < lines
    at = x + (line.to(tl.int64) * beside)[:, None] + (h.to(tl.int64) * along)[None, :]
    bits = tl.load(at, inside[:, None] & (h < inner)[None, :], other=0)
    unit = unit_of(tl.load(most + line, inside, other=0), beta, NEAREST)
    tl.store(units + line, unit, inside)
    to = planes + (wide(1) * line * pitch)[:, None] + h[None, :]
    return bits, unit, to, inside[:, None] & (h < pitch)[None, :]


@triton.jit(do_not_specialize=["lines", "inner", "slices", "beta"])
def mask(
    x, most, units, planes, lines, inner, pitch, stride, along, beside, slices, beta,
    LINES: tl.constexpr, INNER: tl.constexpr,
):  # fmt: skip
    """Algorithm 3: the s-th beta bits of |x| from the leading one of the line on, with x's sign.

    |x| < 2^(unit + beta), so the digit of slice s is floor(|x| 2^(beta s - unit)) mod 2^beta. Of
    |x| = m 2^e the integer m 2^10 is kept, below 2^63: shifted right by less than 0 (taken as 0) it
    has beta zeros at the end, by more than 63 (taken as 63) nothing is left of it.
    """
    bits, unit, to, written = entries(
        x, most, units, planes, lines, inner, pitch, along, beside, beta, False, LINES, INNER
    )
    m, e = decode(bits, 52, 11)
    window = tl.where((unit == SPECIAL)[:, None], 0, m) << 10
    down = unit[:, None] - e + 10
    for s in range(slices):
        by = tl.minimum(tl.maximum(down, 0), 63).to(tl.int64)
        digit = (window >> by).to(tl.int32) & ((1 << beta) - 1)
        tl.store(to + wide(s) * stride, tl.where(bits < 0, -digit, digit).to(tl.int8), written)
        down -= beta


@triton.jit(do_not_specialize=["lines", "inner", "slices", "beta"])
def nearest(
    x, most, units, planes, lines, inner, pitch, stride, along, beside, slices, beta,
    LINES: tl.constexpr, INNER: tl.constexpr,
):  # fmt: skip
    """Algorithm 8: x rounded to the unit of each slice in turn, ties to even, one shift a line."""
    bits, unit, to, written = entries(
        x, most, units, planes, lines, inner, pitch, along, beside, beta, True, LINES, INNER
    )
    special = unit == SPECIAL
    bits = tl.where(special[:, None], 0, bits)
    rest = scaled(bits.to(tl.float64, bitcast=True), tl.where(special, 0, -unit)[:, None])
    base = power(tl.zeros((1, 1), tl.int32) + beta)
    for s in range(slices):
        shifted = rest + SIGMA
        rest = (rest - (shifted - SIGMA)) * base
        digit = shifted.to(tl.int64, bitcast=True).to(tl.int8)  # the low byte is the integer's
        tl.store(to + wide(s) * stride, digit, written)


@triton.jit(do_not_specialize=["lines", "known", "beta"])
def anew(
    rest, most, following, units, before, planes, lines, inner, pitch, known, beta,
    LINES: tl.constexpr, INNER: tl.constexpr,
):  # fmt: skip
    """Algorithm 5, one slice: `rest` (lines, inner) rounded by its own largest, and what is left.

    `before` are the last slice's units, of `known` lines, which lines of zeros keep; `following`
    becomes the largest magnitude of what is left.
    """
    line, h = place(lines, pitch, LINES, INNER)
    inside, written = line < lines, (line < lines)[:, None] & (h < pitch)[None, :]
    read = inside[:, None] & (h < inner)[None, :]
    at = rest + (wide(1) * line * inner)[:, None] + h[None, :]
    bits = tl.load(at, read, other=0)
    top = tl.load(most + line, inside, other=0)
    unit = unit_of(top, beta, True)
    old = tl.load(before + line, line < known, other=0)
    unit = tl.where(top == 0, old, unit)
    tl.store(units + line, unit, inside)
    special = unit == SPECIAL
    bits = tl.where(special[:, None], 0, bits)
    unit = tl.where(special, 0, unit)[:, None]
    x = bits.to(tl.float64, bitcast=True)
    shifted = scaled(x, -unit) + SIGMA
    left = (x - scaled(shifted - SIGMA, unit)).to(tl.int64, bitcast=True)
    to = planes + (wide(1) * line * pitch)[:, None] + h[None, :]
    tl.store(to, shifted.to(tl.int64, bitcast=True).to(tl.int8), written)
    tl.store(at, left, read)
    most_left = tl.max(left & MAGNITUDE, 1)
    tl.atomic_max(following + line, tl.where(special, top, most_left), inside)


@triton.jit(do_not_specialize=["m", "count", "started", "last", "beta"])
def accumulate(
    c, sums, terms, rows, columns, m, n, pitch, stride, count, started, last, beta,
    ANEW: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    """Add 2^e sum to c for every term (place of the sum, slice of A, of B) in turn, in float64.

    C is in units of the first digits, whose exponents are in `rows` and `columns` (one row of them,
    or if ANEW one for each slice), until it is scaled after the `last` terms. The first `started`
    rows of it are there, 0 or all.
    """
    across = tl.cdiv(n, COLUMNS)
    i = tl.program_id(0) // across * ROWS + tl.arange(0, ROWS)
    j = tl.program_id(0) % across * COLUMNS + tl.arange(0, COLUMNS)
    inside = (i < m)[:, None] & (j < n)[None, :]
    row = tl.load(rows + i, i < m, other=0)
    column = tl.load(columns + j, j < n, other=0)
    to = c + (wide(1) * i * n)[:, None] + j[None, :]
    total = tl.load(to, inside & (i < started)[:, None], other=0.0)
    at = sums + (wide(1) * i * pitch)[:, None] + j[None, :]
    for t in range(count):
        first, second = tl.load(terms + 3 * t + 1), tl.load(terms + 3 * t + 2)
        value = tl.load(at + wide(tl.load(terms + 3 * t)) * stride, inside, other=0).to(tl.float64)
        if ANEW:
            ours = power(tl.load(rows + first * m + i, i < m, other=0) - row)
            theirs = power(tl.load(columns + second * n + j, j < n, other=0) - column)
            total += value * ours[:, None] * theirs[None, :]
        else:
            total += value * power(tl.zeros((1, 1), tl.int32) - beta * (first + second))
    if last != 0:
        special = (row == SPECIAL)[:, None] | (column == SPECIAL)[None, :]
        exponent = tl.where(special, 0, row[:, None] + column[None, :])
        total = tl.where(special, float("nan"), scaled(total, exponent))
    tl.store(to, total, inside)
