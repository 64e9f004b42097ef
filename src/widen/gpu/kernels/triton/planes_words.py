"""Encoding of numbers of several words for any unit: residues by any moduli, or digits.

`encode_words` is the fast path for int8 residues; here the same long integers are reduced in 64
bits, limb by limb.
"""

from __future__ import annotations

import triton
import triton.language as tl

from widen.gpu.kernels.triton.encode_words import integer_of
from widen.gpu.kernels.triton.numbers import wide
from widen.gpu.kernels.triton.planes import balance, place, reduced, store_entry, store_residue


@triton.jit
def limbs_of(
    at, s, word_stride, inside, WORDS: tl.constexpr, FRACTION: tl.constexpr,
    EXPONENT: tl.constexpr, LIMBS: tl.constexpr, ASSEMBLY: tl.constexpr,
):  # fmt: skip
    """LIMBS words of round(x 2^s) plus 128 in every byte."""
    held = integer_of(
        at, s, wide(word_stride), inside, WORDS, FRACTION, EXPONENT, LIMBS // 2, ASSEMBLY
    )
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


SIZES = [
    "count", "inner", "pitch", "plane_stride", "word_stride", "part_stride", "batch_stride",
    "moduli", "planes_a_part",
]  # fmt: skip


@triton.jit(do_not_specialize=SIZES)
def residues(
    bits, table, count, planes, lines, inner, pitch, plane_stride, word_stride, part_stride,
    batch_stride, line_stride, inner_stride, constants, weights, moduli, planes_a_part,
    PARTS: tl.constexpr, WORDS: tl.constexpr, FRACTION: tl.constexpr, EXPONENT: tl.constexpr,
    LIMBS: tl.constexpr, ASSEMBLY: tl.constexpr, SPLIT: tl.constexpr, LINES: tl.constexpr,
    INNER: tl.constexpr,
):  # fmt: skip
    """Planes of balanced residues of round(x 2^s), (planes, batch, lines, pitch).

    As `planes.residues`; `weights` are, of every modulus, the residues of 2^(32 j) for j < LIMBS,
    and that of what `limbs_of` adds, negated.
    """
    b, line, h, inside, written, s = place(table, count, lines, inner, pitch, LINES, INNER)
    at = bits + wide(b) * batch_stride + line.to(tl.int64)[:, None] * line_stride
    at += h.to(tl.int64)[None, :] * inner_stride
    target = planes + (wide(b) * lines + line)[:, None] * pitch + h[None, :]
    ours = limbs_of(at, s, word_stride, inside, WORDS, FRACTION, EXPONENT, LIMBS, ASSEMBLY)
    theirs = ours
    if PARTS == 2:
        at += wide(part_stride)
        theirs = limbs_of(at, s, word_stride, inside, WORDS, FRACTION, EXPONENT, LIMBS, ASSEMBLY)
    for c in range(moduli):
        p, split = tl.load(constants + 5 * c), constants + 5 * c + 2
        reciprocal = tl.load(constants + 5 * c + 1).to(tl.uint64, bitcast=True)
        of_p = weights + c * (LIMBS + 1)
        bias = tl.load(of_p + LIMBS)
        real = balance(remainder(ours, of_p, bias, p, reciprocal), p)
        store_residue(target, plane_stride, c, real, p, split, written, SPLIT)
        if PARTS == 2:
            imaginary = balance(remainder(theirs, of_p, bias, p, reciprocal), p)
            second = target + wide(planes_a_part) * plane_stride
            store_residue(second, plane_stride, c, imaginary, p, split, written, SPLIT)
            third = second + wide(planes_a_part) * plane_stride
            both = balance(real + imaginary, p)
            store_residue(third, plane_stride, c, both, p, split, written, SPLIT)


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


@triton.jit(do_not_specialize=[*SIZES[:-2], "parts", "beta", "digits_a_part"])
def digits(
    bits, table, count, planes, lines, inner, pitch, plane_stride, word_stride, part_stride,
    batch_stride, line_stride, inner_stride, parts, offset, beta, digits_a_part,
    WORDS: tl.constexpr, FRACTION: tl.constexpr, EXPONENT: tl.constexpr, LIMBS: tl.constexpr,
    ASSEMBLY: tl.constexpr, LINES: tl.constexpr, INNER: tl.constexpr,
):  # fmt: skip
    """Planes of balanced digits of round(x 2^s) in base 2^beta, lowest first, part by part.

    `offset` has the limbs of sum(2^(beta - 1) 2^(beta d)) less what `limbs_of` adds: an integer
    with the first of these added is written in digits that are each 2^(beta - 1) above its own.
    """
    b, line, h, inside, written, s = place(table, count, lines, inner, pitch, LINES, INNER)
    at = bits + wide(b) * batch_stride + line.to(tl.int64)[:, None] * line_stride
    at += h.to(tl.int64)[None, :] * inner_stride
    target = planes + (wide(b) * lines + line)[:, None] * pitch + h[None, :]
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
