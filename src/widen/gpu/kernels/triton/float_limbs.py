"""X in limbs of float64, all of whose sums are exact: device functions only.

X = sum of y P/(p p') - Q P over pairs of moduli. P/(p p') and P are cut into limbs of 32 bits, the
last of which has all the rest (`gpu.limbs` has the bounds).
"""

from __future__ import annotations

import triton
import triton.language as tl

from widen.gpu.kernels.triton.floats import fast_two_sum
from widen.gpu.kernels.triton.integers import magnitude
from widen.gpu.kernels.triton.numbers import wide
from widen.gpu.kernels.triton.packed import two_weighed
from widen.gpu.kernels.triton.rounding import leading_bits, rounded, with_sign

ROUND = tl.constexpr(1.5 * 2.0**52)  # adding it rounds a float64 to an integer
COARSE = tl.constexpr(2.0**52)  # unit of the upper part of four limbs


@triton.jit
def made_odd(x, lost):
    """A number's neighbour in the direction of what it has lost, if it has, unless it is odd."""
    bits = x.to(tl.int64, bitcast=True)
    away = ((bits ^ lost.to(tl.int64, bitcast=True)) >> 63) | 1
    changed = (lost != 0.0) & ((bits & 1) == 0)
    return tl.where(changed, bits + away, bits).to(tl.float64, bitcast=True)


@triton.constexpr_function
def unit(limb):
    """What limbs count: 2^32 of the one before."""
    return 2.0 ** (32 * limb)


@triton.jit
def pair_sums(
    groups, stream, inside, BASIS: tl.constexpr, LIMBS: tl.constexpr, ASSEMBLY: tl.constexpr
):  # fmt: skip
    """Sums of c P/p over all moduli in limbs, of bytes c, streams `stream` bytes apart.

    BASIS has, of every two moduli p and p', 8 p' and 8 p, and the limbs of P/(p p'); of a modulus
    that is left, 8 and 0, and those of P/p. y = c p' + c' p is below 2^17: times 8 it is what the
    higher word of 2^17 + y has below its exponent. BASIS begins with what takes all 2^17 away.
    """
    sums = ()
    for limb in tl.static_range(LIMBS):
        sums = sums + (tl.full(inside.shape, BASIS[0][limb], tl.float64),)
    for row in tl.static_range(1, len(BASIS)):
        first = tl.load(groups + wide(stream) * (2 * row - 2), inside)
        second = first
        if BASIS[row][1] != 0:
            second = tl.load(groups + wide(stream) * (2 * row - 1), inside)
        high = two_weighed(first, second, BASIS[row][0], BASIS[row][1], 0x41000000, ASSEMBLY)
        y = (high.to(tl.uint64) << 32).to(tl.float64, bitcast=True)
        more = ()
        for limb in tl.static_range(LIMBS):
            more = more + (sums[limb] + y * BASIS[row][2 + limb],)
        sums = more
    return sums


@triton.constexpr_function
def moduli_in_pairs(basis):
    """How many moduli there are."""
    return sum(factor != 0 for row in basis[1:] for factor in row[:2])


@triton.jit
def part_of(ours, theirs, third, PART: tl.constexpr):
    """Sums of a part of complex numbers: x x' - y y', or (x + y)(x' + y') - x x' - y y'."""
    sums = ()
    for limb in tl.static_range(len(ours)):
        if PART == 0:
            sums = sums + (ours[limb] - theirs[limb],)
        else:
            sums = sums + (third[limb] - ours[limb] - theirs[limb],)
    return sums


@triton.jit
def limbs_of(sums, inverse, modulus, LIMBS: tl.constexpr):
    """X in LIMBS limbs, the lowest first: all but the last are 2^31 of their units at most.

    `inverse` is 1/P, `modulus` has the limbs of P.
    """
    q = ((sums[LIMBS - 2] + sums[LIMBS - 1]) * inverse + ROUND) - ROUND
    limbs = ()
    carry = tl.zeros_like(q)
    for limb in tl.static_range(LIMBS):
        now = sums[limb] - q * modulus[limb]
        if limb > 0:
            now += carry
        if limb < LIMBS - 1:
            # To a multiple of the next limb's unit.
            carry = (now + ROUND * unit(limb + 1)) - ROUND * unit(limb + 1)
            now -= carry
        limbs = limbs + (now,)
    return limbs


@triton.jit
def odd_sum(a, b, ASSEMBLY: tl.constexpr):
    """The sum of two such numbers, rounded to odd: to the next that is odd if it is not exact."""
    if ASSEMBLY:  # towards 0, and odd if anything is lost
        return tl.inline_asm_elementwise(
            "{.reg .f64 s, t; .reg .b32 l, h, x, y; .reg .pred p;"
            " add.rz.f64 s, $1, $2; sub.rn.f64 t, s, $1; sub.rn.f64 t, $2, t;"
            " mov.b64 {x, y}, t; and.b32 y, y, 0x7FFFFFFF; setp.ne.s32 p, y, 0;"
            " mov.b64 {l, h}, s; @p or.b32 l, l, 1; mov.b64 $0, {l, h};}",
            "=d,d,d", [a, b], tl.float64, True, 1,
        )  # fmt: skip
    else:
        total, lost = fast_two_sum(a, b)
        return made_odd(total, lost)


@triton.jit
def two_limbs(limbs, LIMBS: tl.constexpr, ASSEMBLY: tl.constexpr):
    """Two numbers whose sum rounds as that of all limbs does, the larger first.

    The first sum's rest is 0, or no less than what is added to it, an integer. Something of that
    sum is only lost if it is 2^53 or more: then the first number's last bit is 2^54 or more, and
    the rest's far below a quarter of it, so that an odd one rounds as all of it would.
    """
    total, rest = limbs[LIMBS - 1], limbs[LIMBS - 2]
    below = limbs[0]
    if LIMBS == 4:  # so that the lower two are exact in one number: 2^51 and a bit
        near = (limbs[1] + ROUND * COARSE) - ROUND * COARSE
        rest, below = rest + near, (limbs[1] - near) + below
    if LIMBS > 2:
        total, rest = fast_two_sum(total, rest)
        rest = odd_sum(rest, below, ASSEMBLY)
    return total, rest


@triton.jit
def normal_bits(limbs, base, LIMBS: tl.constexpr, PRECISION: tl.constexpr, ASSEMBLY: tl.constexpr):
    """Bits of X 2^base, which is a normal number, or 0."""
    scale = ((base + 1023).to(tl.int64) << 52).to(tl.float64, bitcast=True)
    total, rest = two_limbs(limbs, LIMBS, ASSEMBLY)
    if PRECISION == 53:
        return ((total + rest) * scale).to(tl.int64, bitcast=True)
    else:
        number = (odd_sum(total, rest, ASSEMBLY) * scale).to(tl.float32)
        return number.to(tl.int32, bitcast=True)


@triton.jit
def any_bits(
    limbs, base, LIMBS: tl.constexpr, PRECISION: tl.constexpr, LOWEST: tl.constexpr,
    HIGHEST: tl.constexpr,
):  # fmt: skip
    """The same of any number."""
    words = ()
    carry = tl.zeros(base.shape, tl.int64)
    for limb in tl.static_range(LIMBS):
        carry += (limbs[limb] * (1 / unit(limb))).to(tl.int64)
        words = words + ((carry & 0xFFFFFFFF).to(tl.uint32),)
        carry = carry >> 32
    words = words + ((carry & 0xFFFFFFFF).to(tl.uint32),)
    negative = carry < 0
    high, middle, low, below, index = magnitude(words, negative, LIMBS + 1)
    length, head, sticky = leading_bits(high, middle, low, below, index)
    bits = rounded(length, head, sticky, base, PRECISION, LOWEST, HIGHEST)
    return with_sign(tl.where(high != 0, bits, 0), negative, PRECISION)
