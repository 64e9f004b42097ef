"""Encoding for any unit: residues by any moduli, or digits, in planes of the unit's own format.

`encode` and `encode_words` are the fast paths for int8 residues; here integers are reduced in 64
bits, whatever the modulus. Those of numbers of several words are longer than 64 bits: they have
kernels of their own.
"""

from __future__ import annotations

import triton
import triton.language as tl

from widen.gpu.kernels.triton.encode_words import integer_of, tile_of
from widen.gpu.kernels.triton.numbers import decode, scaled_integer, wide


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
def number_at(at, inside, s, FRACTION: tl.constexpr, EXPONENT: tl.constexpr):
    """Bits of x, whose sign counts, and round(|x| 2^s) = r 2^left: (bits, r, left)."""
    bits = tl.load(at, inside, other=0).to(tl.int64)
    m, e = decode(bits, FRACTION, EXPONENT)
    r, left = scaled_integer(m, e, s)
    return bits, r, left


@triton.jit
def residue_of(number, far, powers, p, reciprocal, LONGEST: tl.constexpr):
    """The balanced residue of what `number_at` gave; no `left` is above `far`.

    `powers` are 2^j mod p for j < LONGEST.
    """
    bits, r, left = number
    modulus = p.to(tl.uint64)
    rest = reduced(r.to(tl.uint64), modulus, reciprocal)
    if far > 0:
        power = tl.load(powers + tl.minimum(left, LONGEST - 1))
        rest = reduced(rest * power.to(tl.uint64), modulus, reciprocal)
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
def modulus_of(constants, c):
    """A modulus p, floor(2^64/p), and where the rest is that `store_residue` needs."""
    at = constants + 5 * c
    return tl.load(at), tl.load(at + 1).to(tl.uint64, bitcast=True), at + 2


@triton.jit
def store_parts(
    planes, stride, apart, c, real, imaginary, p, split, written, PARTS: tl.constexpr,
    SPLIT: tl.constexpr,
):  # fmt: skip
    """Store residues; of complex numbers also imaginary parts and sums, `apart` planes further."""
    store_residue(planes, stride, c, real, p, split, written, SPLIT)
    if PARTS == 2:
        second = planes + wide(apart) * stride
        store_residue(second, stride, c, imaginary, p, split, written, SPLIT)
        third = second + wide(apart) * stride
        store_residue(third, stride, c, balance(real + imaginary, p), p, split, written, SPLIT)


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
    at, s, inside, target, written = tile_of(
        bits, table, count, planes, lines, inner, pitch, batch_stride, line_stride, inner_stride,
        1, LINES, INNER,
    )  # fmt: skip
    ours = number_at(at, inside, s, FRACTION, EXPONENT)
    theirs, left = ours, ours[2]
    if PARTS == 2:
        theirs = number_at(at + part_stride, inside, s, FRACTION, EXPONENT)
        left = tl.maximum(left, theirs[2])
    far = tl.max(tl.max(left, 1), 0)
    for c in range(moduli):
        p, reciprocal, split = modulus_of(constants, c)
        of_p = powers + c * LONGEST
        real = residue_of(ours, far, of_p, p, reciprocal, LONGEST)
        imaginary = real
        if PARTS == 2:
            imaginary = residue_of(theirs, far, of_p, p, reciprocal, LONGEST)
        store_parts(
            target, plane_stride, planes_a_part, c, real, imaginary, p, split, written, PARTS, SPLIT
        )


@triton.jit(do_not_specialize=["count", "digits_a_part", "beta"])
def digits(
    bits, table, count, planes, lines, inner, pitch, plane_stride, part_stride, batch_stride,
    line_stride, inner_stride, beta, digits_a_part,
    PARTS: tl.constexpr, FRACTION: tl.constexpr, EXPONENT: tl.constexpr, LINES: tl.constexpr,
    INNER: tl.constexpr,
):  # fmt: skip
    """Planes of balanced digits of round(x 2^s) in base 2^beta, lowest first, part by part."""
    at, s, inside, target, written = tile_of(
        bits, table, count, planes, lines, inner, pitch, batch_stride, line_stride, inner_stride,
        1, LINES, INNER,
    )  # fmt: skip
    for part in tl.static_range(PARTS):
        x, r, left = number_at(at + part * part_stride, inside, s, FRACTION, EXPONENT)
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


@triton.jit
def limbs_of(
    at, s, word_stride, inside, WORDS: tl.constexpr, FRACTION: tl.constexpr,
    EXPONENT: tl.constexpr, LIMBS: tl.constexpr, ASSEMBLY: tl.constexpr,
):  # fmt: skip
    """LIMBS words of round(x 2^s) plus 128 in every byte."""
    held = integer_of(
        at, s, wide(word_stride), inside, WORDS, FRACTION + 1, FRACTION, EXPONENT, LIMBS // 2,
        ASSEMBLY,
    )  # fmt: skip
    limbs = ()
    for j in tl.static_range(LIMBS // 2):
        both = held[j].to(tl.uint64, bitcast=True) ^ 0x8080808080808080
        limbs = limbs + (both.to(tl.uint32), (both >> 32).to(tl.uint32))
    return limbs


@triton.jit
def remainder(limbs, weights, bias, p, reciprocal):
    """Sum(limb weight) + bias modulo p: weights are below 2^23, so that 64 limbs fit 62 bits."""
    total = tl.zeros(limbs[0].shape, tl.uint64) + bias.to(tl.uint64)
    for j in tl.static_range(len(limbs)):
        total += limbs[j].to(tl.uint64) * tl.load(weights + j).to(tl.uint64)
    return reduced(total, p.to(tl.uint64), reciprocal).to(tl.int64)


# Sizes of any value: these kernels take long to compile.
WORDS_SIZES = [
    "count", "inner", "pitch", "plane_stride", "word_stride", "part_stride", "batch_stride",
    "moduli", "planes_a_part",
]  # fmt: skip


@triton.jit(do_not_specialize=WORDS_SIZES)
def residues_of_words(
    bits, table, count, planes, lines, inner, pitch, plane_stride, word_stride, part_stride,
    batch_stride, line_stride, inner_stride, constants, weights, moduli, planes_a_part,
    PARTS: tl.constexpr, WORDS: tl.constexpr, FRACTION: tl.constexpr, EXPONENT: tl.constexpr,
    LIMBS: tl.constexpr, ASSEMBLY: tl.constexpr, SPLIT: tl.constexpr, LINES: tl.constexpr,
    INNER: tl.constexpr,
):  # fmt: skip
    """Planes of balanced residues of round(x 2^s), (planes, batch, lines, pitch).

    As `residues`; `weights` are, of every modulus, the residues of 2^(32 j) for j < LIMBS,
    and that of what `limbs_of` adds, negated.
    """
    at, s, inside, target, written = tile_of(
        bits, table, count, planes, lines, inner, pitch, batch_stride, line_stride, inner_stride,
        1, LINES, INNER,
    )  # fmt: skip
    ours = limbs_of(at, s, word_stride, inside, WORDS, FRACTION, EXPONENT, LIMBS, ASSEMBLY)
    theirs = ours
    if PARTS == 2:
        at += wide(part_stride)
        theirs = limbs_of(at, s, word_stride, inside, WORDS, FRACTION, EXPONENT, LIMBS, ASSEMBLY)
    for c in range(moduli):
        p, reciprocal, split = modulus_of(constants, c)
        of_p = weights + c * (LIMBS + 1)
        bias = tl.load(of_p + LIMBS)
        real = balance(remainder(ours, of_p, bias, p, reciprocal), p)
        imaginary = real
        if PARTS == 2:
            imaginary = balance(remainder(theirs, of_p, bias, p, reciprocal), p)
        store_parts(
            target, plane_stride, planes_a_part, c, real, imaginary, p, split, written, PARTS, SPLIT
        )


@triton.jit
def plus(limbs, addend):
    """A long integer plus one in memory, modulo 2^(32 limbs)."""
    carry = tl.zeros(limbs[0].shape, tl.uint64)
    more = ()
    for j in tl.static_range(len(limbs)):
        total = limbs[j].to(tl.uint64) + tl.load(addend + j).to(tl.uint64) + carry
        more = more + (total.to(tl.uint32),)
        carry = total >> 32
    return more


@triton.jit
def shifted(limbs, by):
    """A long integer without its lowest bits, 1 to 31 of them."""
    more = ()
    for j in tl.static_range(len(limbs) - 1):
        more = more + ((limbs[j] >> by) | (limbs[j + 1] << (32 - by)),)
    return more + (limbs[len(limbs) - 1] >> by,)


@triton.jit(do_not_specialize=[*WORDS_SIZES[:-2], "parts", "beta", "digits_a_part"])
def digits_of_words(
    bits, table, count, planes, lines, inner, pitch, plane_stride, word_stride, part_stride,
    batch_stride, line_stride, inner_stride, parts, offset, beta, digits_a_part,
    WORDS: tl.constexpr, FRACTION: tl.constexpr, EXPONENT: tl.constexpr, LIMBS: tl.constexpr,
    ASSEMBLY: tl.constexpr, LINES: tl.constexpr, INNER: tl.constexpr,
):  # fmt: skip
    """Planes of balanced digits of round(x 2^s) in base 2^beta, lowest first, part by part.

    `offset` has the limbs of sum(2^(beta - 1) 2^(beta d)) less what `limbs_of` adds: an integer
    with the first of these added is written in digits that are each 2^(beta - 1) above its own.
    """
    at, s, inside, target, written = tile_of(
        bits, table, count, planes, lines, inner, pitch, batch_stride, line_stride, inner_stride,
        1, LINES, INNER,
    )  # fmt: skip
    half = tl.full((), 1, tl.int32) << (beta - 1)
    for part in range(parts):
        of_part = at + wide(part) * part_stride
        limbs = limbs_of(
            of_part, s, word_stride, inside, WORDS, FRACTION, EXPONENT, LIMBS, ASSEMBLY
        )
        limbs = plus(limbs, offset)
        for d in range(digits_a_part):
            digit = (limbs[0] & (2 * half - 1).to(tl.uint32)).to(tl.int32) - half
            to = target + wide(part * digits_a_part + d) * plane_stride
            store_entry(to, digit, written)
            limbs = shifted(limbs, beta.to(tl.uint32))
