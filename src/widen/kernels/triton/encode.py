"""Encoding: scaled and rounded integers as planes of int8, one pass over the operand."""

from __future__ import annotations

import triton
import triton.language as tl

from widen.kernels.triton.numbers import (
    MAGIC,
    SCALE,
    decode,
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
def residue_of(chunks, left, far, c, constants, powers, LONGEST: tl.constexpr):
    """The balanced residue of numbers in chunks, modulo the modulus c, as float32."""
    p, inverse = tl.load(constants + 5 * c), tl.load(constants + 5 * c + 1)
    k1, k2 = tl.load(constants + 5 * c + 2), tl.load(constants + 5 * c + 3)
    k3 = tl.load(constants + 5 * c + 4)
    r = nearest(chunks[0] + chunks[1] * k1 + chunks[2] * k2 + chunks[3] * k3, p, inverse)
    if far > 0:
        power = tl.load(powers + c * LONGEST + tl.minimum(left, LONGEST - 1))
        r = nearest(r * power, p, inverse)
    return r


@triton.jit
def byte_of(x, place: tl.constexpr):
    """The integer in a float32, |x| <= 128, as byte `place` of an int32 (128 becomes -128)."""
    return ((x + MAGIC).to(tl.int32, bitcast=True) & 0xFF) << (8 * place)


@triton.jit
def packed(values, ENTRIES: tl.constexpr):
    """Residues of ENTRIES (4 or 16) neighbours as int32 words on a last axis."""
    words = ()
    for word in tl.static_range(ENTRIES // 4):
        low = byte_of(values[4 * word], 0) | byte_of(values[4 * word + 1], 1)
        high = byte_of(values[4 * word + 2], 2) | byte_of(values[4 * word + 3], 3)
        words = words + (low | high,)
    if ENTRIES == 16:
        return tl.join(tl.join(words[0], words[2]), tl.join(words[1], words[3]))
    else:
        return words[0]


@triton.jit
def _residues(
    block, bits, table, count, constants, powers, planes, lines, inner, moduli, pitch, plane_stride,
    part_stride, batch_stride, line_stride, inner_stride,
    PARTS: tl.constexpr, FRACTION: tl.constexpr, EXPONENT: tl.constexpr, LONGEST: tl.constexpr,
    LINES: tl.constexpr, INNER: tl.constexpr,
):  # fmt: skip
    # A thread has ENTRIES neighbours of a line, so that it can store their bytes together.
    entries: tl.constexpr = 16 if PARTS == 1 else 4
    groups: tl.constexpr = INNER // entries
    tiles, stretches = tl.cdiv(lines, LINES), tl.cdiv(pitch, INNER)
    tile = block // stretches
    b, line = tile // tiles, tile % tiles * LINES + tl.arange(0, LINES)
    g = block % stretches * groups + tl.arange(0, groups)
    at = bits + wide(b) * batch_stride + line.to(tl.int64)[:, None] * line_stride
    at_line = table + b * lines + line
    s = tl.load(at_line + SCALE * count, line < lines, other=0).to(tl.int32)[:, None]
    chunks, others, lefts, downs = (), (), (), ()
    most = tl.zeros((LINES, groups), tl.int32)
    for e in tl.static_range(entries):
        h = g * entries + e
        inside = (line < lines)[:, None] & (h < inner)[None, :]
        here = at + h.to(tl.int64)[None, :] * inner_stride
        x = tl.load(here, inside, other=0).to(tl.int64)
        c0, c1, c2, c3, left = chunks_of(x, s, FRACTION, EXPONENT)
        chunks, lefts = chunks + ((c0, c1, c2, c3),), lefts + (left,)
        most = tl.maximum(most, left)
        if PARTS == 2:
            y = tl.load(here + part_stride, inside, other=0).to(tl.int64)
            d0, d1, d2, d3, down = chunks_of(y, s, FRACTION, EXPONENT)
            others, downs = others + ((d0, d1, d2, d3),), downs + (down,)
            most = tl.maximum(most, down)
    far = tl.max(tl.max(most, 1), 0)

    row = (wide(b) * lines + line)[:, None] * (pitch // 4)
    target = planes + row + (g * (entries // 4))[None, :]
    written = (line < lines)[:, None] & (g * entries < pitch)[None, :]
    if PARTS == 1:
        two = tl.arange(0, 2)
        inside_group = 2 * two[:, None] + two[None, :]
        target = target[:, :, None, None] + inside_group[None, None, :, :]
        written = written[:, :, None, None]
    for c in range(moduli):
        place = target + wide(c) * plane_stride
        real = ()
        for e in tl.static_range(entries):
            real = real + (residue_of(chunks[e], lefts[e], far, c, constants, powers, LONGEST),)
        tl.store(place, packed(real, entries), written)
        if PARTS == 2:
            p, inverse = tl.load(constants + 5 * c), tl.load(constants + 5 * c + 1)
            imaginary, both = (), ()
            for e in tl.static_range(entries):
                i = residue_of(others[e], downs[e], far, c, constants, powers, LONGEST)
                imaginary = imaginary + (i,)
                both = both + (nearest(real[e] + i, p, inverse),)
            tl.store(place + wide(moduli) * plane_stride, packed(imaginary, entries), written)
            tl.store(place + wide(2 * moduli) * plane_stride, packed(both, entries), written)


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
