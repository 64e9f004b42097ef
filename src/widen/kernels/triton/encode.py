"""Encoding: scaled and rounded integers as planes of int8, one pass over the operand."""

from __future__ import annotations

import triton
import triton.language as tl

from widen.kernels.triton.numbers import (
    SCALE,
    decode,
    low_byte,
    nearest,
    scaled_integer,
    wide,
)


@triton.jit
def chunks_of(bits, s, FRACTION: tl.constexpr, EXPONENT: tl.constexpr):
    """round(x 2^s) = (c0 + c1 2^14 + c2 2^28 + c3 2^42) 2^left, with signed float32 chunks."""
    m, e = decode(bits, FRACTION, EXPONENT)
    r, left = scaled_integer(m, e, s)
    sign = tl.where(bits < 0, -1.0, 1.0)
    c0 = (r & 16383).to(tl.int32).to(tl.float32) * sign
    c1 = ((r >> 14) & 16383).to(tl.int32).to(tl.float32) * sign
    c2 = ((r >> 28) & 16383).to(tl.int32).to(tl.float32) * sign
    c3 = (r >> 42).to(tl.int32).to(tl.float32) * sign
    return c0, c1, c2, c3, left


@triton.jit
def _residues(
    block, bits, table, count, constants, powers, planes, lines, inner, moduli, pitch, plane_stride,
    part_stride, batch_stride, line_stride, inner_stride,
    PARTS: tl.constexpr, FRACTION: tl.constexpr, EXPONENT: tl.constexpr, LONGEST: tl.constexpr,
    LINES: tl.constexpr, INNER: tl.constexpr,
):  # fmt: skip
    tiles, stretches = tl.cdiv(lines, LINES), tl.cdiv(pitch, INNER)
    tile = block // stretches
    b, line = tile // tiles, tile % tiles * LINES + tl.arange(0, LINES)
    h = block % stretches * INNER + tl.arange(0, INNER)
    inside = (line < lines)[:, None] & (h < inner)[None, :]
    at = bits + wide(b) * batch_stride + line.to(tl.int64)[:, None] * line_stride
    at += h.to(tl.int64)[None, :] * inner_stride
    at_line = table + b * lines + line
    s = tl.load(at_line + SCALE * count, line < lines, other=0).to(tl.int32)[:, None]
    target = planes + (wide(b) * lines + line)[:, None] * pitch + h[None, :]
    written = (line < lines)[:, None] & (h < pitch)[None, :]

    x = tl.load(at, inside, other=0).to(tl.int64)
    c0, c1, c2, c3, left = chunks_of(x, s, FRACTION, EXPONENT)
    far = tl.max(tl.max(left, 1), 0)
    index = tl.minimum(left, LONGEST - 1)
    if PARTS == 2:
        y = tl.load(at + part_stride, inside, other=0).to(tl.int64)
        d0, d1, d2, d3, down = chunks_of(y, s, FRACTION, EXPONENT)
        far = tl.maximum(far, tl.max(tl.max(down, 1), 0))
        other = tl.minimum(down, LONGEST - 1)
    for c in range(moduli):
        p, inverse = tl.load(constants + 5 * c), tl.load(constants + 5 * c + 1)
        k1, k2 = tl.load(constants + 5 * c + 2), tl.load(constants + 5 * c + 3)
        k3 = tl.load(constants + 5 * c + 4)
        r = nearest(c0 + c1 * k1 + c2 * k2 + c3 * k3, p, inverse)
        if far > 0:
            r = nearest(r * tl.load(powers + c * LONGEST + index), p, inverse)
        tl.store(target + wide(c) * plane_stride, low_byte(r), written)
        if PARTS == 2:
            i = nearest(d0 + d1 * k1 + d2 * k2 + d3 * k3, p, inverse)
            if far > 0:
                i = nearest(i * tl.load(powers + c * LONGEST + other), p, inverse)
            tl.store(target + wide(moduli + c) * plane_stride, low_byte(i), written)
            both = nearest(r + i, p, inverse)
            tl.store(target + wide(2 * moduli + c) * plane_stride, low_byte(both), written)


SIZES = ["left_count", "right_count", "left_blocks", "moduli"]


@triton.jit(do_not_specialize=SIZES)
def residues(
    left, left_table, left_count, left_planes, left_lines, left_plane, left_part, left_batch,
    left_line, left_inner, right, right_table, right_count, right_planes, right_lines, right_plane,
    right_part, right_batch, right_line, right_inner, left_blocks, constants, powers, inner, moduli,
    pitch,
    PARTS: tl.constexpr, LEFT_FRACTION: tl.constexpr, LEFT_EXPONENT: tl.constexpr,
    RIGHT_FRACTION: tl.constexpr, RIGHT_EXPONENT: tl.constexpr, LONGEST: tl.constexpr,
    LEFT_LINES: tl.constexpr, LEFT_INNER: tl.constexpr, RIGHT_LINES: tl.constexpr,
    RIGHT_INNER: tl.constexpr,
):  # fmt: skip
    """planes[c] = balanced residues modulo p_c of round(x 2^s), (planes, batch, lines, pitch).

    `constants` are (p, 1/p, 2^14, 2^28, 2^42 mod p) of every modulus as float32, `powers` 2^j mod p
    for j < LONGEST. Complex numbers have planes of real parts, imaginary parts and their sums.
    """
    block = tl.program_id(0)
    if block < left_blocks:
        _residues(
            block, left, left_table, left_count, constants, powers, left_planes, left_lines, inner,
            moduli, pitch, left_plane, left_part, left_batch, left_line, left_inner, PARTS,
            LEFT_FRACTION, LEFT_EXPONENT, LONGEST, LEFT_LINES, LEFT_INNER,
        )  # fmt: skip
    else:
        _residues(
            block - left_blocks, right, right_table, right_count, constants, powers, right_planes,
            right_lines, inner, moduli, pitch, right_plane, right_part, right_batch, right_line,
            right_inner, PARTS, RIGHT_FRACTION, RIGHT_EXPONENT, LONGEST, RIGHT_LINES, RIGHT_INNER,
        )  # fmt: skip
