"""Products with few lines on one side: the other side is read once, and never written as planes.

An operand of many lines is read as floats, scaled and rounded, and its integers become int8 digits
in registers. Those of the few lines are planes in memory. Sums of products of digits are exact.
"""

from __future__ import annotations

import triton
import triton.language as tl

from widen.gpu.kernels.triton.groups import LOW_BITS, LOW_MASK
from widen.gpu.kernels.triton.numbers import SCALE, wide
from widen.gpu.kernels.triton.planes import reduced

NEAREST = tl.constexpr(1.5 * 2.0**52)  # adding it rounds |x| <= 2^51 to an integer, in the low bits
NEAREST_BITS = tl.constexpr(0x4338 << 48)
HIGH_BITS = tl.constexpr(31)  # shifted out of an integer of up to 62 bits, which is rounded in two
ONE_WORD = tl.constexpr(6)  # digits up to which an integer is rounded at once
EVERY_BYTE = tl.constexpr(-0x7F7F7F7F7F7F7F80)  # 0x80 in each byte
LIMB = tl.constexpr(4)  # groups in a limb of 32 bits


@triton.jit
def power_of_two(exponent):
    """2^exponent as a float64, of a normal one."""
    field = tl.minimum(tl.maximum(exponent + 1023, 1), 2046)
    return (field.to(tl.int64) << 52).to(tl.float64, bitcast=True)


@triton.jit
def integer_of(x, first, second, DIGITS: tl.constexpr):
    """round-to-nearest-even(x first second), where the factors are powers of two.

    Products by powers of two are exact, or far below a half; so is what a sum with NEAREST leaves.
    Hence it does not matter which of them are fused. With more than ONE_WORD digits `second` has
    HIGH_BITS less: the high part h is rounded first, x - h is exact, and as h 2^31 is even the
    low part breaks ties as the whole would. Bits of a sum with NEAREST are its own and the integer;
    its own are all shifted out of h.
    """
    scaled = x.to(tl.float64) * first * second
    near = scaled + NEAREST
    if DIGITS > ONE_WORD:
        low = (scaled - (near - NEAREST)) * 2.0**31 + NEAREST
        high = near.to(tl.int64, bitcast=True) << HIGH_BITS
        return high + (low.to(tl.int64, bitcast=True) - NEAREST_BITS)
    else:
        return near.to(tl.int64, bitcast=True) - NEAREST_BITS


@triton.jit
def digits_of(x, ASSEMBLY: tl.constexpr):
    """Balanced digits of int64 numbers in base 256, lowest first, as int8.

    Adding 128 to every digit makes each of them the byte that it is, less 128.
    """
    u = (x + EVERY_BYTE) ^ EVERY_BYTE
    if ASSEMBLY:  # of four numbers at a time: digits of neighbours in a word
        return tl.inline_asm_elementwise(
            """{
            .reg .b32 a0, a1, b0, b1, c0, c1, d0, d1, s, t, v, w;
            mov.b64 {a0, a1}, $8; mov.b64 {b0, b1}, $9;
            mov.b64 {c0, c1}, $10; mov.b64 {d0, d1}, $11;
            prmt.b32 s, a0, b0, 0x5140; prmt.b32 t, c0, d0, 0x5140;
            prmt.b32 v, a0, b0, 0x7362; prmt.b32 w, c0, d0, 0x7362;
            prmt.b32 $0, s, t, 0x5410; prmt.b32 $1, s, t, 0x7632;
            prmt.b32 $2, v, w, 0x5410; prmt.b32 $3, v, w, 0x7632;
            prmt.b32 s, a1, b1, 0x5140; prmt.b32 t, c1, d1, 0x5140;
            prmt.b32 v, a1, b1, 0x7362; prmt.b32 w, c1, d1, 0x7362;
            prmt.b32 $4, s, t, 0x5410; prmt.b32 $5, s, t, 0x7632;
            prmt.b32 $6, v, w, 0x5410; prmt.b32 $7, v, w, 0x7632;
            }""",
            "=r,=r,=r,=r,=r,=r,=r,=r,l,l,l,l", [u], (tl.int8,) * 8, True, 4,
        )  # fmt: skip
    else:
        digits = ()
        for d in tl.static_range(8):
            digits = digits + ((u >> (8 * d)).to(tl.int8),)
        return digits


@triton.jit
def floats_of(bits, FRACTION: tl.constexpr):
    """The floats with these bits, of the format with so many bits of fraction."""
    if FRACTION == 52:
        return bits.to(tl.float64, bitcast=True)
    elif FRACTION == 23:
        return bits.to(tl.float32, bitcast=True)
    elif FRACTION == 10:
        return bits.to(tl.float16, bitcast=True).to(tl.float32)
    else:  # bfloat16 is the upper half of a float32
        tl.static_assert(FRACTION == 7)
        return (bits.to(tl.int32) << 16).to(tl.float32, bitcast=True)


@triton.constexpr_function
def groups_of(digits):
    """How many weights products of so many digits a side have."""
    return 2 * digits - 1


SIZES = ["count", "few", "batch", "many_batch", "few_batch"]


@triton.jit(do_not_specialize=SIZES)
def products(
    bits, table, planes, sums, count, lines, inner, batch_stride, line_stride, inner_stride, few,
    pitch, plane_stride, batch, many_batch, few_batch, share,
    FRACTION: tl.constexpr, DIGITS: tl.constexpr, LINES: tl.constexpr, FEW: tl.constexpr,
    INNER: tl.constexpr, ASSEMBLY: tl.constexpr,
):  # fmt: skip
    """Of each share of the inner dimension sum(x y) as limbs: sums[share, limb, b, line, i].

    x are the integers of `lines` many lines, `bits` their floats and `table` what is known of them,
    y those of `few`, as `planes` of DIGITS digits. A limb is what LIMB groups weigh together, the
    lowest of them 1: below 2^56 if a share has less than 2^31 / (2^14 DIGITS) entries, as no group
    then exceeds an int32.
    """
    tiles, pieces = tl.cdiv(few, FEW), tl.cdiv(lines, LINES)
    program = tl.program_id(0)
    i = program % tiles * FEW + tl.arange(0, FEW)
    line = program // tiles % pieces * LINES + tl.arange(0, LINES)
    b, part = program // (tiles * pieces) % batch, program // (tiles * pieces * batch)
    item = b % many_batch
    at_line = bits + wide(item) * batch_stride + line.to(tl.int64) * line_stride
    inside = line < lines
    s = tl.load(table + SCALE * count + item * lines + line, inside, other=0).to(tl.int32)
    first = power_of_two(s >> 1)[:, None]
    second = s - (s >> 1) - (HIGH_BITS if DIGITS > ONE_WORD else 0)
    second = power_of_two(second)[:, None]
    at_few = planes + (wide(b % few_batch) * few + i)[:, None] * pitch
    groups = ()
    for g in tl.static_range(groups_of(DIGITS)):
        groups = groups + (tl.zeros((LINES, FEW), tl.int32),)
    for start in range(part * share, tl.minimum((part + 1) * share, inner), INNER):
        h = start + tl.arange(0, INNER)
        at = at_line[:, None] + (h.to(tl.int64) * inner_stride)[None, :]
        x = tl.load(at, inside[:, None] & (h < inner)[None, :], other=0)
        ours = digits_of(integer_of(floats_of(x, FRACTION), first, second, DIGITS), ASSEMBLY)
        written = (i < few)[:, None] & (h < pitch)[None, :]
        for e in tl.static_range(DIGITS):
            theirs = tl.load(at_few + wide(e) * plane_stride + h[None, :], written, other=0).T
            added = ()
            for g in tl.static_range(groups_of(DIGITS)):
                if g >= e and g < e + DIGITS:
                    total = tl.dot(ours[g - e], theirs, groups[g], out_dtype=tl.int32)
                    added = added + (total,)
                else:
                    added = added + (groups[g],)
            groups = added
    apart = wide(batch) * lines * few
    limbs: tl.constexpr = (groups_of(DIGITS) + LIMB - 1) // LIMB
    at = sums + (wide(part) * limbs * batch + b) * lines * few
    at = at + line.to(tl.int64)[:, None] * few + i[None, :]
    for limb in tl.static_range(limbs):
        total = tl.zeros((LINES, FEW), tl.int64)
        for g in tl.static_range(LIMB):
            if LIMB * limb + g < groups_of(DIGITS):
                total += groups[LIMB * limb + g].to(tl.int64) << (8 * g)
        tl.store(at + limb * apart, total, inside[:, None] & (i < few)[None, :])


@triton.jit
def residue_of(limbs, weights, p, reciprocal):
    """sum(w limb) mod p in [0, p), for p up to 256; `weights` are (w mod p, 2^26 w mod p)."""
    total = tl.zeros(limbs[0].shape, tl.int64)
    for at in tl.static_range(len(limbs)):
        total += (limbs[at] & LOW_MASK) * tl.load(weights + 2 * at)
        total += (limbs[at] >> LOW_BITS) * tl.load(weights + 2 * at + 1)
    rest = reduced(tl.abs(total).to(tl.uint64), p.to(tl.uint64), reciprocal).to(tl.int64)
    return tl.where((total < 0) & (rest > 0), p - rest, rest)


@triton.jit(do_not_specialize=["lines", "few", "batch", "shares", "moduli"])
def residues(
    sums, out, constants, lines, few, batch, shares, moduli, stride, batch_stride, line_stride,
    few_stride, LIMBS: tl.constexpr, LINES: tl.constexpr, FEW: tl.constexpr,
):  # fmt: skip
    """out[c, b, ..] = (w_c X) mod p_c in [0, p_c), where X is the sum of all shares' limbs.

    `constants` are p, floor(2^64/p) and the weights of limbs (`residue_of`), of every modulus.
    Limbs of up to 2^7 shares fit an int64.
    """
    tiles, pieces = tl.cdiv(few, FEW), tl.cdiv(lines, LINES)
    program = tl.program_id(0)
    i = program % tiles * FEW + tl.arange(0, FEW)
    line = program // tiles % pieces * LINES + tl.arange(0, LINES)
    b = program // (tiles * pieces)
    inside = (line < lines)[:, None] & (i < few)[None, :]
    apart = wide(batch) * lines * few
    at = sums + wide(b) * lines * few + line.to(tl.int64)[:, None] * few + i[None, :]
    limbs = ()
    for limb in tl.static_range(LIMBS):
        limbs = limbs + (tl.zeros((LINES, FEW), tl.int64),)
    for _ in range(shares):
        more = ()
        for limb in tl.static_range(LIMBS):
            more = more + (limbs[limb] + tl.load(at + limb * apart, inside, other=0),)
        limbs = more
        at += LIMBS * apart
    to = out + wide(b) * batch_stride + line.to(tl.int64)[:, None] * line_stride
    to += i.to(tl.int64)[None, :] * few_stride
    for c in range(moduli):
        row = constants + c * (2 + 2 * LIMBS)
        p, reciprocal = tl.load(row), tl.load(row + 1).to(tl.uint64, bitcast=True)
        rest = residue_of(limbs, row + 2, p, reciprocal)
        tl.store(to + wide(c) * stride, rest.to(tl.uint8), inside)
