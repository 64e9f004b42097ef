"""Long integers from their residues by products of int8: device functions only.

X modulo P is a sum of c_i P/p_i. Where P has a thousand bits the bytes of all P/p_i are a matrix,
and the digits of the c_i, seven bits each, another: tensor cores multiply them.
"""

from __future__ import annotations

import triton
import triton.language as tl

from widen.kernels.triton.limbs import NEVER, last_bit
from widen.kernels.triton.numbers import wide
from widen.kernels.triton.packed import times_add
from widen.kernels.triton.residues import byte_of, long_of

MODULI = tl.constexpr(32)  # taken together


@triton.jit
def plus_products(
    total, value, table, i, apart, BYTES: tl.constexpr, DIGITS: tl.constexpr
):  # fmt: skip
    """Sums of bytes, (BYTES, columns), with those of some c_i P/p_i added."""
    byte = tl.arange(0, BYTES)
    for d in tl.static_range(DIGITS):
        digit = value >> (7 * d)
        if d < DIGITS - 1:
            digit &= 127
        factors = tl.load(table + d * apart + i[None, :] * BYTES + byte[:, None])
        total = tl.dot(factors, digit.to(tl.int8), total, out_dtype=tl.int32)
    return total


@triton.jit
def store_sums(
    groups, stream, moduli, long_groups, long_stream, long_moduli, basis, length, limbs, table,
    part, parts, inside, to, stride, BYTES: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    """Store limbs of the sum of c_i P/p_i, not carried, 64 bits each; give sum(c_i/p_i) 2^40.

    `basis` as `crt.chunk_of` has it. `table` has rows of BYTES for moduli (in MODULI, padded by
    zeros) and then for those in two digits: bytes, -128 to 127, of P/p_i, then of 128 P/p_i, and
    then of 128^2 P/p_i.
    """
    total = tl.zeros((BYTES, COLUMNS), tl.int32)
    fraction = tl.zeros((COLUMNS,), tl.uint64)
    padded = tl.cdiv(moduli, MODULI) * MODULI
    apart = (padded + tl.cdiv(long_moduli, MODULI) * MODULI) * BYTES
    for start in range(0, moduli, MODULI):
        i = start + tl.arange(0, MODULI)
        real = i < moduli
        p = tl.load(basis + i * length, real, other=0).to(tl.int32)
        inverse = tl.load(basis + i * length + 1, real, other=0).to(tl.uint64)
        value = byte_of(
            groups[None, :], stream, i[:, None], moduli, p[:, None], part, parts,
            real[:, None] & inside[None, :],
        )  # fmt: skip
        total = plus_products(total, value, table, i, apart, BYTES, 2)
        fraction += tl.sum(value.to(tl.uint64) * inverse[:, None], 0)
    for start in range(0, long_moduli, MODULI):
        i = start + tl.arange(0, MODULI)
        real = i < long_moduli
        p = tl.load(basis + (moduli + i) * length, real, other=0).to(tl.int32)
        inverse = tl.load(basis + (moduli + i) * length + 1, real, other=0).to(tl.uint64)
        value = long_of(
            long_groups[None, :], long_stream, i[:, None], long_moduli, p[:, None], part, parts,
            real[:, None] & inside[None, :],
        )  # fmt: skip
        total = plus_products(total, value, table, padded + i, apart, BYTES, 3)
        fraction += tl.sum(value.to(tl.uint64) * inverse[:, None], 0)
    four = tl.reshape(total, (BYTES // 4, 4, COLUMNS)).to(tl.int64)
    sums = tl.sum(four << (8 * tl.arange(0, 4)).to(tl.int64)[None, :, None], 1)
    limb, lane = tl.arange(0, BYTES // 4)[:, None], tl.arange(0, COLUMNS)[None, :]
    tl.store(to + limb * stride + lane, sums, (limb < limbs) & (lane >= 0))
    return fraction


@triton.jit
def carried_in_memory(
    sums, to, stride, limbs, fraction, modulus, change, place, ASSEMBLY: tl.constexpr
):  # fmt: skip
    """Store limbs of X + change 2^place from their sums: (last bit's place, sign).

    Not in the sums' place: an element may be in several threads, which do not run in step.
    """
    quotient = ((fraction + (1 << 39)) >> 40).to(tl.uint32)
    one = tl.full(place.shape, 1, tl.int64) << (place & 31).to(tl.int64)
    carry = tl.zeros(place.shape, tl.int64)
    lowest = tl.full(place.shape, -1, tl.int32)
    lowest_word, top = tl.zeros(place.shape, tl.uint32), tl.zeros(place.shape, tl.uint32)
    for pair in range(0, limbs, 2):
        both = tl.load(modulus + pair // 2)
        for w in tl.static_range(2):
            minus = (both >> 32 * w).to(tl.uint32)
            product = times_add(quotient, minus, tl.zeros(place.shape, tl.uint64), ASSEMBLY)
            carry += tl.load(sums + wide(pair + w) * stride) + product.to(tl.int64)
            carry += tl.where((place >> 5) == pair + w, change * one, 0)
            top = carry.to(tl.uint32)
            tl.store(to + wide(pair + w) * stride, top.to(tl.int32, bitcast=True))
            new = (lowest < 0) & (top != 0)
            lowest = tl.where(new, pair + w, lowest)
            lowest_word = tl.where(new, top, lowest_word)
            carry = carry >> 32
    last = tl.where(lowest < 0, NEVER, 32 * lowest + last_bit(lowest_word))
    return last, top.to(tl.int32, bitcast=True) < 0
