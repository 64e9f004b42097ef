"""Encoding: scaled and rounded integers as planes of int8, one pass over the operand."""

from __future__ import annotations

import triton
import triton.language as tl

from widen.gpu.kernels.triton.numbers import MAGIC, SCALE, SIGMA, wide
from widen.gpu.kernels.triton.packed import dot4, four_bytes, load_parts, pairs, quads

NEAREST = tl.constexpr(8)  # shifts to the left that the eight bytes of an integer hold
BIAS = tl.constexpr(1 << 61)  # more than any of them, so that they are positive
MIDDLE = tl.constexpr(42)  # shifts that twelve bytes hold
MIDDLE_BIAS = tl.constexpr(1 << 95)


# How far the numbers of a tile are shifted to the left, at most.
NEAR_SHIFTS = tl.constexpr(0)  # up to NEAREST: two words
MIDDLE_SHIFTS = tl.constexpr(1)  # up to MIDDLE: three words
FAR_SHIFTS = tl.constexpr(2)  # any: two words, and bytes below them that are 0


@triton.jit
def bytes_of(
    bits, s, SHIFTS: tl.constexpr, FRACTION: tl.constexpr, EXPONENT: tl.constexpr,
    BYTES: tl.constexpr,
):  # fmt: skip
    """round-to-nearest-even(x 2^s) = ((low, high) - BIAS) 256^skipped: two words, and skipped.

    Of MIDDLE_SHIFTS, (low, high, third) - MIDDLE_BIAS: three words. The mantissa, 53 bits, is put
    at the top of 62 and shifted down by one bit or more. What would skip BYTES or more fits no
    planes.
    """
    x = bits.to(tl.int64)
    field = ((x >> FRACTION) & ((1 << EXPONENT) - 1)).to(tl.int32)
    fraction = x & ((1 << FRACTION) - 1)
    m = (fraction << 9) | (tl.minimum(field, 1).to(tl.int64) << (FRACTION + 9))
    left = tl.maximum(field, 1) + (s - (FRACTION + (1 << (EXPONENT - 1)) - 1))
    third = left
    if SHIFTS == FAR_SHIFTS:
        third = tl.minimum(tl.maximum(left - 1, 0) >> 3, BYTES - 1)
        left -= 8 * third
    down = tl.minimum(tl.maximum(9 - left, 1), 63).to(tl.int64)
    # All but half of what is dropped, and one more if what stays is odd.
    up = (tl.full(m.shape, (1 << 63) - 1, tl.int64) >> (64 - down)) + ((m >> down) & 1)
    r = (m + up) >> down
    minus = x >> 63
    r = (r ^ minus) - minus
    if SHIFTS == MIDDLE_SHIFTS:
        more = tl.maximum(left - NEAREST, 0).to(tl.int64)
        third = ((r >> (63 - more)) >> 1).to(tl.int32) ^ -2147483648
        r = r << more
    else:
        r += BIAS
    return r.to(tl.int32), (r >> 32).to(tl.int32), third


@triton.jit
def weighed(number, weights, SHIFTS: tl.constexpr, ASSEMBLY: tl.constexpr):
    """An integer x with the residue of a number, |x| < 2^19."""
    low, high, third = number
    at = weights + 4 * third if SHIFTS == FAR_SHIFTS else weights
    bias = tl.load(at + 3) if SHIFTS == MIDDLE_SHIFTS else tl.load(at + 2)
    total = dot4(low, tl.load(at), bias, False, ASSEMBLY)
    total = dot4(high, tl.load(at + 1), total, False, ASSEMBLY)
    if SHIFTS == MIDDLE_SHIFTS:
        total = dot4(third, tl.load(at + 4 * 8), total, False, ASSEMBLY)
    return total


@triton.jit
def balanced(x, minus_p, inverse):
    """The residue x - p rint(x/p), and a multiple of 2^22 more: the quotient in float32.

    For |x| < 2^20 and p <= 256 it is the residue of smallest magnitude: x/p errs by less than 2^-9
    and is 1/(2p) or more from a midpoint unless it is one.
    """
    quotient = x.to(tl.float32) * inverse + MAGIC
    return quotient.to(tl.int32, bitcast=True) * minus_p + x


@triton.jit
def balanced_parts(x, y, minus_p, inverse, PARTS: tl.constexpr):
    """`balanced` of a number; of complex numbers that of x, of y and of x + y."""
    if PARTS == 1:
        return (balanced(x, minus_p, inverse),)
    else:
        real, imaginary = balanced(x, minus_p, inverse), balanced(y, minus_p, inverse)
        return real, imaginary, balanced(x + y, minus_p, inverse)


@triton.jit
def store_four(to, four, apart, written, ASSEMBLY: tl.constexpr):
    """Store what `balanced_parts` gave of four neighbours, in planes so many words `apart`."""
    for part in tl.static_range(len(four[0])):
        word = four_bytes(four[0][part], four[1][part], four[2][part], four[3][part], ASSEMBLY)
        tl.store(to, word, written)
        to += apart


@triton.jit
def _tile(
    base, at_line, planes, constants, weights, line, start, lines, count, inner, moduli, pitch,
    plane, line_stride, inner_stride, SHIFTS: tl.constexpr, PARTS: tl.constexpr,
    FRACTION: tl.constexpr, EXPONENT: tl.constexpr, BYTES: tl.constexpr, ASSEMBLY: tl.constexpr,
    NEAR: tl.constexpr, LINES: tl.constexpr, INNER: tl.constexpr,
):  # fmt: skip
    h = start + tl.arange(0, INNER)
    inside = (line < lines)[:, None] & (h < inner)[None, :]
    first, second = load_parts(base, line, h, inside, line_stride, inner_stride, PARTS, NEAR)
    s = tl.load(at_line + line + SCALE * count, line < lines, other=0).to(tl.int32)[:, None]
    first, second = quads(first, LINES, INNER), quads(second, LINES, INNER)
    ours, theirs = (), ()
    for i in tl.static_range(4):
        ours = ours + (bytes_of(first[i], s, SHIFTS, FRACTION, EXPONENT, BYTES),)
        if PARTS == 2:
            theirs = theirs + (bytes_of(second[i], s, SHIFTS, FRACTION, EXPONENT, BYTES),)
    word = start // 4 + tl.arange(0, INNER // 4)
    target = planes + line.to(tl.int64)[:, None] * (pitch // 4) + word[None, :]
    written = (line < lines)[:, None] & (4 * word < pitch)[None, :]
    for c in range(moduli):
        minus_p = tl.load(constants + 2 * c)
        inverse = tl.load(constants + 2 * c + 1).to(tl.float32, bitcast=True)
        at = weights + 4 * BYTES * c
        four = ()
        for i in tl.static_range(4):
            x = weighed(ours[i], at, SHIFTS, ASSEMBLY)
            y = weighed(theirs[i], at, SHIFTS, ASSEMBLY) if PARTS == 2 else x
            four = four + (balanced_parts(x, y, minus_p, inverse, PARTS),)
        store_four(target + wide(c) * plane, four, wide(moduli) * plane, written, ASSEMBLY)


@triton.jit
def _residues(
    block, bits, table, count, constants, weights, planes, lines, inner, moduli, pitch,
    plane_stride, batch_stride, line_stride, inner_stride,
    PARTS: tl.constexpr, FRACTION: tl.constexpr, EXPONENT: tl.constexpr, BYTES: tl.constexpr,
    ASSEMBLY: tl.constexpr, NEAR: tl.constexpr, LINES: tl.constexpr, INNER: tl.constexpr,
):  # fmt: skip
    tiles, stretches = tl.cdiv(lines, LINES), tl.cdiv(pitch, INNER)
    tile = block // stretches
    b, first = tile // tiles, tile % tiles * LINES
    start = block % stretches * INNER
    base = pairs(bits, b, batch_stride, PARTS)
    at_line = table + b * lines
    to = planes + wide(b) * lines * (pitch // 4)
    # The largest number of a line is shifted furthest; subnormal numbers as much as the smallest
    # normal one.
    line = first + tl.arange(0, LINES)
    s = tl.load(at_line + line + SCALE * count, line < lines, other=0).to(tl.int32)
    sigma = tl.load(at_line + line + SIGMA * count, line < lines, other=0).to(tl.int32)
    lowest: tl.constexpr = FRACTION + (1 << (EXPONENT - 1)) - 2
    furthest = tl.max(tl.maximum(sigma - FRACTION, s - lowest), 0)
    if furthest > MIDDLE:
        # A few lines at a time: every number has weights of its own, and so its registers.
        STEP: tl.constexpr = LINES // 4 if LINES >= 4 else LINES
        for more in range(0, LINES, STEP):
            _tile(
                base, at_line, to, constants, weights, first + more + tl.arange(0, STEP), start,
                lines, count, inner, moduli, pitch, plane_stride // 4, line_stride, inner_stride,
                FAR_SHIFTS, PARTS, FRACTION, EXPONENT, BYTES, ASSEMBLY, NEAR, STEP, INNER,
            )  # fmt: skip
    elif furthest > NEAREST:
        _tile(
            base, at_line, to, constants, weights, line, start, lines, count, inner, moduli, pitch,
            plane_stride // 4, line_stride, inner_stride, MIDDLE_SHIFTS, PARTS, FRACTION, EXPONENT,
            BYTES, ASSEMBLY, NEAR, LINES, INNER,
        )  # fmt: skip
    else:
        _tile(
            base, at_line, to, constants, weights, line, start, lines, count, inner, moduli, pitch,
            plane_stride // 4, line_stride, inner_stride, NEAR_SHIFTS, PARTS, FRACTION, EXPONENT,
            BYTES, ASSEMBLY, NEAR, LINES, INNER,
        )  # fmt: skip


SIZES = ["left_count", "right_count", "left_blocks", "moduli"]


@triton.jit(do_not_specialize=SIZES)
def residues(
    left_bits, left_table, left_count, left_planes, left_lines, left_plane_stride,
    left_batch_stride, left_line_stride, left_inner_stride, right_bits, right_table, right_count,
    right_planes, right_lines, right_plane_stride, right_batch_stride, right_line_stride,
    right_inner_stride, left_blocks, constants, weights, inner, moduli, pitch,
    PARTS: tl.constexpr, LEFT_FRACTION: tl.constexpr, LEFT_EXPONENT: tl.constexpr,
    RIGHT_FRACTION: tl.constexpr, RIGHT_EXPONENT: tl.constexpr, BYTES: tl.constexpr,
    ASSEMBLY: tl.constexpr, LEFT_NEAR: tl.constexpr, LEFT_LINES: tl.constexpr,
    LEFT_INNER: tl.constexpr, RIGHT_NEAR: tl.constexpr, RIGHT_LINES: tl.constexpr,
    RIGHT_INNER: tl.constexpr, BOTH: tl.constexpr,
):  # fmt: skip
    """planes[c] = balanced residues modulo p_c of round(x 2^s), (planes, batch, lines, pitch).

    Planes are words of four bytes. `constants` are (-p, 1/p) of every modulus, the latter a float's
    bits; `weights`, (moduli, BYTES, 4), are the residues of 256^(j + i) for i = 0 to 3 and for 4
    to 7, a byte each, that of -BIAS 256^j, and of -MIDDLE_BIAS. Complex numbers have planes of real
    parts, imaginary parts and their sums. Without BOTH there is left alone.
    """
    block = tl.program_id(0)
    if not BOTH or block < left_blocks:
        _residues(
            block, left_bits, left_table, left_count, constants, weights, left_planes, left_lines,
            inner, moduli, pitch, left_plane_stride, left_batch_stride, left_line_stride,
            left_inner_stride, PARTS, LEFT_FRACTION, LEFT_EXPONENT, BYTES, ASSEMBLY, LEFT_NEAR,
            LEFT_LINES, LEFT_INNER,
        )  # fmt: skip
    else:
        _residues(
            block - left_blocks, right_bits, right_table, right_count, constants, weights,
            right_planes, right_lines, inner, moduli, pitch, right_plane_stride, right_batch_stride,
            right_line_stride, right_inner_stride, PARTS, RIGHT_FRACTION, RIGHT_EXPONENT, BYTES,
            ASSEMBLY, RIGHT_NEAR, RIGHT_LINES, RIGHT_INNER,
        )  # fmt: skip
