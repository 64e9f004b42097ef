"""Products of planes by halves: seven products where the ordinary way takes eight (Strassen).

Residues make it exact: sums of planes are residues again, and the sums of the seven products are
taken modulo p. The inner dimension and both others are cut in two; what is missing of the second
halves is zero.
"""

from __future__ import annotations

import triton
import triton.language as tl

from widen.gpu.kernels.triton.numbers import wide


@triton.jit
def quarter(at, i, h, pitch, lines, inner):
    """Entries of a plane as int32, 0 outside of it."""
    inside = (i < lines)[:, None] & (h < inner)[None, :]
    return tl.load(at + i.to(tl.int64)[:, None] * pitch + h[None, :], inside, other=0).to(tl.int32)


@triton.jit
def residue(x, p):
    """An int8 that is x modulo p, for |x| <= 256 of balanced residues."""
    return (x - ((x + 128) >> 8) * p).to(tl.int8)


@triton.jit
def place(half_lines, half_inner, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    """Plane, lines and entries that a program takes, of a half."""
    across = tl.cdiv(half_inner, COLUMNS)
    each = tl.cdiv(half_lines, ROWS) * across
    z, tile = tl.program_id(0) // each, tl.program_id(0) % each
    i = tile // across * ROWS + tl.arange(0, ROWS)
    return z, i, tile % across * COLUMNS + tl.arange(0, COLUMNS)


@triton.jit(do_not_specialize=["lines", "half_lines"])
def split(
    planes, out, constants, lines, inner, pitch, stride, half_lines, half_inner,
    RIGHT: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    """The seven left (or right) factors of every plane: out (planes, 7, half_lines, half_inner).

    `planes` are int8 (planes, lines, pitch), `stride` bytes apart; `constants` are rows of four, p
    first.
    """
    z, i, h = place(half_lines, half_inner, ROWS, COLUMNS)
    p = tl.load(constants + 4 * z).to(tl.int32)
    at = planes + wide(z) * stride
    q00 = quarter(at, i, h, pitch, lines, inner)
    q01 = quarter(at, i, h + half_inner, pitch, lines, inner)
    q10 = quarter(at, i + half_lines, h, pitch, lines, inner)
    q11 = quarter(at, i + half_lines, h + half_inner, pitch, lines, inner)
    if RIGHT:
        made = (q00 + q11, q00, q10 - q11, q01 - q00, q11, q00 + q10, q01 + q11)
    else:
        made = (q00 + q11, q10 + q11, q00, q11, q00 + q01, q10 - q00, q01 - q11)
    written = (i < half_lines)[:, None] & (h < half_inner)[None, :]
    to = out + (wide(z) * 7 * half_lines + i)[:, None] * half_inner + h[None, :]
    for s in tl.static_range(7):
        tl.store(to + wide(s * half_lines) * half_inner, residue(made[s], p), written)


@triton.jit
def less(x, p):
    """The uint32 x less p, unless that is negative; x < 2^31."""
    return tl.minimum(x, x - p)


@triton.jit(do_not_specialize=["m", "half_m"])
def join(
    products, out, constants, m, pitch, half_m, half_n, ROWS: tl.constexpr, COLUMNS: tl.constexpr
):
    """The four quarters of every product: out (planes, m, pitch) of bytes in [0, p).

    `products` are bytes in [0, p), (planes, 7, half_m, half_n).
    """
    z, i, j = place(half_m, half_n, ROWS, COLUMNS)
    p = tl.load(constants + 4 * z)
    loaded = (i < half_m)[:, None] & (j < half_n)[None, :]
    at = products + (wide(z) * 7 * half_m + i)[:, None] * half_n + j[None, :]
    residues = ()
    for s in tl.static_range(7):
        one = tl.load(at + wide(s * half_m) * half_n, loaded, other=0)
        residues = residues + (one.to(tl.uint32),)
    made = (
        less(less(residues[0] + residues[3] + residues[6] + (p - residues[4]), 2 * p), p),
        less(residues[2] + residues[4], p),
        less(residues[1] + residues[3], p),
        less(less(residues[0] + residues[2] + residues[5] + (p - residues[1]), 2 * p), p),
    )
    for q in tl.static_range(4):
        row, column = i + q // 2 * half_m, j + q % 2 * half_n
        written = loaded & (row < m)[:, None] & (column < pitch)[None, :]
        to = out + (wide(z) * m + row)[:, None] * pitch + column[None, :]
        tl.store(to, made[q].to(tl.uint8), written)
