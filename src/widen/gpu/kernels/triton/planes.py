"""Encoding for any unit: residues by any moduli, or digits, in planes of the unit's own format.

`encode` is the fast path for int8 residues; here integers are reduced in 64 bits, whatever the
modulus.
"""

from __future__ import annotations

import triton
import triton.language as tl

from widen.gpu.kernels.triton.numbers import SCALE, decode, scaled_integer, wide


@triton.jit
def reduced(u, p, reciprocal):
    """The remainder of a uint64 u for p < 2^32; reciprocal = floor(2^64 / p).

    The quotient floor(u reciprocal / 2^64) is floor(u / p) or one less.
    """
    rest = u - tl.umulhi(u, tl.zeros_like(u) + reciprocal) * p
    return tl.minimum(rest, rest - p)


@triton.jit
def balance(x, p):
    """The residue in [-p/2, p/2) of an integer, |x| < 3p/2."""
    x = tl.where(2 * x >= p, x - p, x)
    return tl.where(2 * x < -p, x + p, x)


@triton.jit
def residue_of(bits, r, left, far, powers, p, reciprocal):
    """The balanced residue of +-r 2^left, the sign being that of `bits`; no `left` is above `far`.

    `powers` are 2^j mod p.
    """
    modulus = p.to(tl.uint64)
    rest = reduced(r.to(tl.uint64), modulus, reciprocal)
    if far > 0:
        rest = reduced(rest * tl.load(powers + left).to(tl.uint64), modulus, reciprocal)
    x = rest.to(tl.int64)
    return balance(tl.where(bits < 0, -x, x), p)


@triton.jit
def store_entry(at, x, written):
    """Store small integers in the format that `at` points at."""
    dtype: tl.constexpr = at.dtype.element_ty
    if dtype == tl.int8 or dtype == tl.float64:
        tl.store(at, x.to(tl.int32).to(dtype), written)
    else:
        tl.store(at, x.to(tl.int32).to(tl.float32).to(dtype), written)


@triton.jit
def store_residue(planes, stride, c, x, p, split, written, SPLIT: tl.constexpr):
    """Store residues modulo p, or their two digits and the sum of these (`moduli.two_digits`).

    `split` tells the base of two digits, or 0, and the planes of the high one and the sum, or -1.
    """
    if SPLIT:
        base, above, sums = tl.load(split), tl.load(split + 1), tl.load(split + 2)
        high = tl.zeros_like(x)
        if base * base == p:
            high = (x + base // 2 + p) // base - base
        elif base > 0:
            high = (tl.abs(x) + base - 1) // base
            high = tl.where(x < 0, -high, high)
        low = x - base * high
        store_entry(planes + wide(c) * stride, low, written)
        if base > 0:
            store_entry(planes + wide(above) * stride, high, written)
        if sums >= 0:
            store_entry(planes + wide(sums) * stride, low + high, written)
    else:
        store_entry(planes + wide(c) * stride, x, written)


@triton.jit
def place(table, count, lines, inner, pitch, LINES: tl.constexpr, INNER: tl.constexpr):
    """What a program works on: item, lines, entries, masks to read and write, exponents."""
    tiles, stretches = tl.cdiv(lines, LINES), tl.cdiv(pitch, INNER)
    tile, h = tl.program_id(0) // stretches, tl.program_id(0) % stretches * INNER
    h += tl.arange(0, INNER)
    b, line = tile // tiles, tile % tiles * LINES + tl.arange(0, LINES)
    inside = (line < lines)[:, None] & (h < inner)[None, :]
    written = (line < lines)[:, None] & (h < pitch)[None, :]
    s = tl.load(table + SCALE * count + b * lines + line, line < lines, other=0)
    return b, line, h, inside, written, s.to(tl.int32)[:, None]


SIZES = ["count", "moduli", "planes_a_part"]


@triton.jit(do_not_specialize=SIZES)
def residues(
    bits, table, count, planes, lines, inner, pitch, plane_stride, part_stride, batch_stride,
    line_stride, inner_stride, constants, powers, moduli, planes_a_part,
    PARTS: tl.constexpr, FRACTION: tl.constexpr, EXPONENT: tl.constexpr, LONGEST: tl.constexpr,
    SPLIT: tl.constexpr, LINES: tl.constexpr, INNER: tl.constexpr,
):  # fmt: skip
    """Planes of balanced residues of round(x 2^s), (planes, batch, lines, pitch).

    `constants` are p, floor(2^64/p) and what `store_residue` needs of every modulus, `powers`
    2^j mod p for j < LONGEST. Complex numbers have planes of real parts,
    imaginary parts and their sums, `planes_a_part` each.
    """
    b, line, h, inside, written, s = place(table, count, lines, inner, pitch, LINES, INNER)
    at = bits + wide(b) * batch_stride + line.to(tl.int64)[:, None] * line_stride
    at += h.to(tl.int64)[None, :] * inner_stride
    target = planes + (wide(b) * lines + line)[:, None] * pitch + h[None, :]
    x = tl.load(at, inside, other=0).to(tl.int64)
    m, e = decode(x, FRACTION, EXPONENT)
    r, left = scaled_integer(m, e, s)
    left = tl.minimum(left, LONGEST - 1)
    far = tl.max(tl.max(left, 1), 0)
    if PARTS == 2:
        y = tl.load(at + part_stride, inside, other=0).to(tl.int64)
        m, e = decode(y, FRACTION, EXPONENT)
        q, down = scaled_integer(m, e, s)
        down = tl.minimum(down, LONGEST - 1)
        far = tl.maximum(far, tl.max(tl.max(down, 1), 0))
    for c in range(moduli):
        p, split = tl.load(constants + 5 * c), constants + 5 * c + 2
        reciprocal = tl.load(constants + 5 * c + 1).to(tl.uint64, bitcast=True)
        of_p = powers + c * LONGEST
        real = residue_of(x, r, left, far, of_p, p, reciprocal)
        store_residue(target, plane_stride, c, real, p, split, written, SPLIT)
        if PARTS == 2:
            imaginary = residue_of(y, q, down, far, of_p, p, reciprocal)
            second = target + wide(planes_a_part) * plane_stride
            store_residue(second, plane_stride, c, imaginary, p, split, written, SPLIT)
            both = balance(real + imaginary, p)
            third = second + wide(planes_a_part) * plane_stride
            store_residue(third, plane_stride, c, both, p, split, written, SPLIT)


@triton.jit(do_not_specialize=["count", "digits_a_part", "beta"])
def digits(
    bits, table, count, planes, lines, inner, pitch, plane_stride, part_stride, batch_stride,
    line_stride, inner_stride, beta, digits_a_part,
    PARTS: tl.constexpr, FRACTION: tl.constexpr, EXPONENT: tl.constexpr, LINES: tl.constexpr,
    INNER: tl.constexpr,
):  # fmt: skip
    """Planes of balanced digits of round(x 2^s) in base 2^beta, lowest first, part by part."""
    b, line, h, inside, written, s = place(table, count, lines, inner, pitch, LINES, INNER)
    at = bits + wide(b) * batch_stride + line.to(tl.int64)[:, None] * line_stride
    at += h.to(tl.int64)[None, :] * inner_stride
    target = planes + (wide(b) * lines + line)[:, None] * pitch + h[None, :]
    for part in tl.static_range(PARTS):
        x = tl.load(at + part * part_stride, inside, other=0).to(tl.int64)
        m, e = decode(x, FRACTION, EXPONENT)
        r, left = scaled_integer(m, e, s)
        rest = tl.where(x < 0, -r, r)
        one = tl.full(rest.shape, 1, tl.int64)
        for d in range(digits_a_part):
            # Digits below 2^left are 0; the first one has `inside` zeros at its end.
            zeros = tl.minimum(tl.maximum(left - d * beta, 0), beta).to(tl.int64)
            width = beta - zeros
            digit = (rest & ((one << width) - 1)) << zeros
            carry = (digit >> (beta - 1)) & 1
            rest = (rest >> width) + carry
            digit -= carry << beta
            to = target + wide(part * digits_a_part + d) * plane_stride
            store_entry(to, digit, written)
