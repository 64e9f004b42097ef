"""Encoding of numbers of several words: a long integer each, then its residues in planes of int8.

round(x 2^s) is the sum of its words' integers. A word that lies above the point is an integer. The
first that reaches below it is rounded to nearest; in a tie the sign of the next word decides, and
only where there is none the even number wins (of the sum as well: what is above is a multiple of 4,
or it is even because its own last word was a tie). Words after it are 1/4 at most, and one below
1/2 is rounded to 0: with all that follows it stays below 1/2.
"""

from __future__ import annotations

import triton
import triton.language as tl

from widen.kernels.triton.encode import balanced
from widen.kernels.triton.numbers import MAGIC, SCALE, decode, wide
from widen.kernels.triton.packed import dot4, four_bytes, quads
from widen.kernels.triton.words import side_of


@triton.jit
def word_integer(x, y, s, FRACTION: tl.constexpr, EXPONENT: tl.constexpr):
    """(r, left) with |x| 2^s rounded to r 2^left, y being the next word: r <= 2^53, left >= 0."""
    m, e = decode(x, FRACTION, EXPONENT)
    left = e + s
    right = tl.minimum(tl.maximum(-left, 0), 55).to(tl.int64)
    whole = m >> right
    rest = m - (whole << right)
    half = (tl.full(m.shape, 1, tl.int64) << right) >> 1
    side = side_of(x, y, FRACTION + EXPONENT + 1)
    away = (rest > half) | ((rest == half) & ((side > 0) | ((side == 0) & (whole & 1 == 1))))
    return whole + (away & (half > 0)).to(tl.int64), tl.maximum(left, 0)


@triton.jit
def plus_word(limbs, r, left, negative, LIMBS: tl.constexpr):
    """A long integer, two's complement, with r 2^left added or subtracted."""
    flip = tl.where(negative, 0xFFFFFFFF, 0).to(tl.uint32)
    carry = negative.to(tl.uint64)
    up = (left & 31).to(tl.int64)
    low = r << up
    middle = r >> (32 - up)
    high = (r >> 32) >> (32 - up)
    place = left >> 5
    more = ()
    for j in tl.static_range(LIMBS):
        piece = tl.where(place == j, low.to(tl.uint32), 0)
        piece = tl.where(place == j - 1, middle.to(tl.uint32), piece)
        piece = tl.where(place == j - 2, high.to(tl.uint32), piece)
        total = limbs[j].to(tl.uint64) + (piece ^ flip).to(tl.uint64) + carry
        more = more + (total.to(tl.uint32),)
        carry = total >> 32
    return more


@triton.jit
def integer_of(
    at, s, word_stride, part_stride, words, begin, end, inside, FRACTION: tl.constexpr,
    EXPONENT: tl.constexpr, LIMBS: tl.constexpr,
):  # fmt: skip
    """Sum of the integers of parts `begin` to `end`, plus 2^(32 LIMBS - 1): limbs of bytes."""
    limbs = ()
    for _ in tl.static_range(LIMBS - 1):
        limbs = limbs + (tl.zeros(inside.shape, tl.uint32),)
    limbs = limbs + (tl.full(inside.shape, 0x80000000, tl.uint32),)
    for part in range(begin, end):
        of_part = at + wide(part) * part_stride
        x = tl.load(of_part, inside, other=0).to(tl.int64)
        for w in range(words):
            following = tl.minimum(w + 1, words - 1)
            y = tl.load(of_part + following * word_stride, inside, other=0).to(tl.int64)
            y = tl.where(w + 1 < words, y, 0)
            r, left = word_integer(x, y, s, FRACTION, EXPONENT)
            limbs = plus_word(limbs, r, left, x < 0, LIMBS)
            x = y
    return limbs


@triton.jit
def weighed(limbs, at, start, STEP: tl.constexpr, ASSEMBLY: tl.constexpr):
    """Start + the sum of the bytes of limbs times their weights."""
    total = start
    for j in tl.static_range(len(limbs)):
        weight = tl.load(at + STEP * j)
        total = dot4(limbs[j].to(tl.int32, bitcast=True), weight, total, ASSEMBLY)
    return total


@triton.jit
def nearest(x, minus_p, inverse):
    """X - p rint(x/p), the quotient in float32."""
    quotient = (x.to(tl.float32) * inverse + MAGIC).to(tl.int32, bitcast=True) - 0x4B400000
    return quotient * minus_p + x


@triton.jit
def two_digits(r):
    """(low, high, sum) of residues in two digits of base 128 (`systems.moduli.two_digits`)."""
    high = (tl.abs(r) + 127) >> 7
    high = tl.where(r < 0, -high, high)
    low = r - 128 * high
    return low, high, low + high


@triton.jit
def store_four(to, a, b, c, d, written, ASSEMBLY: tl.constexpr):
    """Store the lowest bytes of four neighbours."""
    tl.store(to, four_bytes(a, b, c, d, ASSEMBLY), written)


SIZES = [
    "count", "inner", "pitch", "plane_stride", "word_stride", "part_stride", "batch_stride",
    "words", "streams", "moduli", "long_moduli",
]  # fmt: skip


@triton.jit(do_not_specialize=SIZES)
def residues(
    bits, table, count, planes, lines, inner, pitch, plane_stride, word_stride, part_stride,
    batch_stride, line_stride, inner_stride, words, streams, constants, weights, moduli,
    long_moduli,
    FRACTION: tl.constexpr, EXPONENT: tl.constexpr, LIMBS: tl.constexpr, ASSEMBLY: tl.constexpr,
    LINES: tl.constexpr, INNER: tl.constexpr,
):  # fmt: skip
    """planes[c] = balanced residues modulo p_c of round(x 2^s), (planes, batch, lines, pitch).

    Planes are words of four bytes. A row of `constants` is (-p, 1/p as a float's bits, the residue
    of -2^(32 LIMBS - 1), 0); `weights` are, of every modulus, the residues of 256^i, a byte each;
    of the moduli in two digits, which come last, of 256^i = 128 w' + w the w and w' of four bytes
    each. Those have three planes: low digits, with the other residues, high digits, and sums.
    Complex numbers have `streams` of real parts, imaginary parts, and their sums.
    """
    tiles, stretches = tl.cdiv(lines, LINES), tl.cdiv(pitch, INNER)
    tile, start = tl.program_id(0) // stretches, tl.program_id(0) % stretches * INNER
    b, first = tile // tiles, tile % tiles * LINES
    line, h = first + tl.arange(0, LINES), start + tl.arange(0, INNER)
    inside = (line < lines)[:, None] & (h < inner)[None, :]
    at = bits + wide(b) * batch_stride + line.to(tl.int64)[:, None] * line_stride
    at += h.to(tl.int64)[None, :] * inner_stride
    s = tl.load(table + SCALE * count + b * lines + line, line < lines, other=0).to(tl.int32)
    word = start // 4 + tl.arange(0, INNER // 4)
    target = planes + (wide(b) * lines + line)[:, None] * (pitch // 4) + word[None, :]
    written = (line < lines)[:, None] & (4 * word < pitch)[None, :]
    plane = wide(plane_stride // 4)
    every = moduli + long_moduli
    for stream in range(streams):
        begin, end = stream & 1, tl.minimum(stream + 1, 2)
        limbs = integer_of(
            at, s[:, None], wide(word_stride), wide(part_stride), words, begin, end, inside,
            FRACTION, EXPONENT, LIMBS,
        )  # fmt: skip
        first_of, second_of, third_of, fourth_of = (), (), (), ()
        for j in tl.static_range(LIMBS):
            one, two, three, four = quads(limbs[j], LINES, INNER)
            first_of, second_of = first_of + (one,), second_of + (two,)
            third_of, fourth_of = third_of + (three,), fourth_of + (four,)
        fours = (first_of, second_of, third_of, fourth_of)
        to = target + (every + 2 * long_moduli) * wide(stream) * plane
        for c in range(moduli):
            minus_p, bias = tl.load(constants + 4 * c), tl.load(constants + 4 * c + 2)
            inverse = tl.load(constants + 4 * c + 1).to(tl.float32, bitcast=True)
            weight = weights + c * LIMBS
            found = ()
            for i in tl.static_range(4):
                begun = tl.zeros((LINES, INNER // 4), tl.int32) + bias
                total = weighed(fours[i], weight, begun, 1, ASSEMBLY)
                found = found + (balanced(total, minus_p, inverse),)
            store_four(
                to + wide(c) * plane, found[0], found[1], found[2], found[3], written, ASSEMBLY
            )
        for c in range(moduli, every):
            minus_p, bias = tl.load(constants + 4 * c), tl.load(constants + 4 * c + 2)
            inverse = tl.load(constants + 4 * c + 1).to(tl.float32, bitcast=True)
            weight = weights + moduli * LIMBS + (c - moduli) * (2 * LIMBS)
            lows, highs, sums = (), (), ()
            for i in tl.static_range(4):
                begun = tl.zeros((LINES, INNER // 4), tl.int32)
                low = weighed(fours[i], weight, begun + bias, 2, ASSEMBLY)
                high = weighed(fours[i], weight + 1, begun, 2, ASSEMBLY)
                # |x| < 2^29: the first quotient may be one off, the second is not.
                rest = nearest(128 * high + low, minus_p, inverse)
                low, high, both = two_digits(nearest(rest, minus_p, inverse))
                lows, highs, sums = lows + (low,), highs + (high,), sums + (both,)
            place = to + wide(c) * plane
            store_four(place, lows[0], lows[1], lows[2], lows[3], written, ASSEMBLY)
            place += wide(long_moduli) * plane
            store_four(place, highs[0], highs[1], highs[2], highs[3], written, ASSEMBLY)
            place += wide(long_moduli) * plane
            store_four(place, sums[0], sums[1], sums[2], sums[3], written, ASSEMBLY)
