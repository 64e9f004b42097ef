"""Numbers of lines looked at in few instructions, which tell all of most lines: device functions.

Most of a float64 is in its upper word. Whether that was enough is known of a line as a whole.
"""

from __future__ import annotations

import triton
import triton.language as tl

from widen.gpu.kernels.triton.numbers import FARTHEST, MAGNITUDES, NORM_BITS

MARGIN = tl.constexpr(127)  # what a float32's exponent adds to the place of a bit


@triton.constexpr_function
def bias_of(double):
    """What a float64's, or a float32's exponent field is more than its exponent."""
    return 1023 if double else 127


@triton.constexpr_function
def above_of(double):
    """Fraction bits in the upper 32 bits of a float64, or in a float32."""
    return 20 if double else 23


@triton.jit
def upper(x, DOUBLE: tl.constexpr):
    """The upper 32 bits of a float64's magnitude, or the bits of a float32's."""
    return ((x >> 32).to(tl.int32) if DOUBLE else x) & 0x7FFFFFFF


@triton.jit
def power_of_two(exponent):
    """2^exponent as a float32, a normal one."""
    return ((exponent + 127) << 23).to(tl.float32, bitcast=True)


@triton.jit
def shifted(m, by, ASSEMBLY: tl.constexpr):
    """Floor(m 2^-by) of int32 numbers, however large `by` is."""
    if ASSEMBLY:  # the instruction gives 0 beyond 31
        return tl.inline_asm_elementwise(
            "shr.u32 $0, $1, $2;", "=r,r,r", [m, by], tl.int32, True, 1
        )
    else:
        return m >> tl.minimum(by, 31)


@triton.jit
def fields_of(high, ASSEMBLY: tl.constexpr):
    """Exponent field and mantissa in an upper word of a float64, and 1 unless it is 0."""
    if ASSEMBLY:  # plain, it takes seven instructions and not three
        return tl.inline_asm_elementwise(
            "shr.u32 $0, $3, 20; lop3.b32 $1, $3, 0xFFFFF, $4, 0xEA; min.u32 $2, $3, 1;",
            "=&r,=&r,=r,r,r", [high, tl.full(high.shape, 1 << 20, tl.int32)],
            (tl.int32, tl.int32, tl.int32), True, 1,
        )  # fmt: skip
    else:
        return high >> 20, high & 0xFFFFF | 1 << 20, tl.minimum(high, 1)


@triton.constexpr_function
def rounding(way):
    """Instructions: x y rounded to an integer, which is in the last bits of x y + 2^23."""
    return (
        f"{{.reg .f32 t; .reg .b32 h; fma.{way}.f32 t, $1, $2, 0f4B000000;"
        " mov.b32 h, t; sub.s32 $0, h, 0x4B000000;}"
    )


@triton.jit
def rounded_up(high, scale, top, ASSEMBLY: tl.constexpr):
    """ceil(x scale) of the bits of a float32, for a scale of 2^(NORM_BITS - top)."""
    if ASSEMBLY:
        return tl.inline_asm_elementwise(
            rounding("rp"), "=r,f,f", [high.to(tl.float32, bitcast=True), scale], tl.int32, True, 1
        )
    else:  # 1 + the floor of the float before x
        before = high - 1
        m = before & 0x7FFFFF | 0x800000
        by = top - (before >> 23) + (23 - NORM_BITS)
        return shifted(m, by, False) + (high != 0).to(tl.int32)


@triton.jit
def rounded_down(high, scale, top, LEAD: tl.constexpr, ASSEMBLY: tl.constexpr):
    """floor(x scale) of the bits of a float32, for a scale of 2^(LEAD - top)."""
    if ASSEMBLY:
        return tl.inline_asm_elementwise(
            rounding("rm"), "=r,f,f", [high.to(tl.float32, bitcast=True), scale], tl.int32, True, 1
        )
    else:
        by = top - (high >> 23) + (23 - LEAD)
        return shifted(high & 0x7FFFFF | 0x800000, by, False)


@triton.jit
def short_magnitude(high, scale, top, DOUBLE: tl.constexpr):
    """The bits of |x| 2^-top rounded down to a bfloat16, 0 below 2^-126."""
    if DOUBLE:
        bits = (high >> 13) - ((top - 127) << 7)
    else:  # times 2^20 more, so that subnormal numbers are not rounded
        more = high.to(tl.float32, bitcast=True) * scale
        bits = (more.to(tl.int32, bitcast=True) >> 16) - (20 << 7)
    return tl.where(bits < 128, 0, bits)


@triton.jit
def with_square(total, q, ASSEMBLY: tl.constexpr):
    """Total + q^2."""
    if ASSEMBLY:
        return tl.inline_asm_elementwise(
            "mad.wide.u32 $0, $1, $1, $2;", "=l,r,l", [q, total], tl.int64, True, 1
        )
    else:
        return total + q.to(tl.int64) * q


@triton.jit
def exponent_of(word):
    """The biased exponent of a power of two below 2^32, 0 of 0."""
    x = word.to(tl.uint32, bitcast=True).to(tl.float32)
    return x.to(tl.int32, bitcast=True)


@triton.jit
def one_less(x):
    """X - 1 as an uint32: 0 becomes the largest."""
    return (x - 1).to(tl.uint32, bitcast=True)


@triton.jit
def looked_at(
    sums, x, top, scale, lead_scale, LEAD: tl.constexpr, DOUBLE: tl.constexpr,
    ASSEMBLY: tl.constexpr,
):  # fmt: skip
    """Sums with a number added, and its leading integer, or its short magnitude's bits.

    Sums are of q and of q^2, how many numbers are not 0, less their distances and FARTHEST for
    every 0; then, less 1, the least upper word that is not 0, and the least of such a word with the
    lowest bit's exponent added (`glances_suffice` says whether they tell where the last bit is).
    Of float64 the q are rounded down here: all are one more if the last word of none is 0.
    """
    q1, q2, many, near, least, last = sums
    above: tl.constexpr = above_of(DOUBLE)
    high = upper(x, DOUBLE)
    if DOUBLE:
        field, mantissa, there = fields_of(high, ASSEMBLY)
    else:
        field = high >> above
    above_farthest = tl.maximum(field - top, -FARTHEST)
    if DOUBLE:
        q = shifted(mantissa, -above_farthest + (20 - NORM_BITS), ASSEMBLY)
        low = x.to(tl.int32)
        bit = low & -low
    else:
        q = rounded_up(high, scale, top, ASSEMBLY)
        there = tl.minimum(q, 1)
        bit = tl.minimum(high & -high, 1 << 23)
    if LEAD == MAGNITUDES:
        lead = short_magnitude(high, lead_scale, top, DOUBLE)
    elif DOUBLE:
        lead = q >> (NORM_BITS - LEAD)
    else:
        lead = rounded_down(high, lead_scale, top, LEAD, ASSEMBLY)
    place = (exponent_of(bit) >> (23 - above)) + high
    sums = (
        q1 + q, with_square(q2, q, ASSEMBLY), many + there, near + above_farthest,
        tl.minimum(least, one_less(high)), tl.minimum(last, one_less(place)),
    )  # fmt: skip
    return sums, lead


@triton.jit
def glances_suffice(least, last, top, DOUBLE: tl.constexpr):
    """Whether sums of `looked_at` tell all of a line: no number is subnormal or has last bits of 0.

    A float64 that ends in a word of 0 adds no MARGIN to its upper word, so within a range of MARGIN
    exponents it undercuts what all others can give. One with an upper word of 0 stays below
    MARGIN + 32, which others do not if all of them are 64 or more.
    """
    above: tl.constexpr = above_of(DOUBLE)
    if DOUBLE:
        close = ((top + 1).to(tl.int64) << above) - least < (MARGIN << above)
        return close & (least >= (64 << above)) & (last - least >= (MARGIN << above))
    else:
        return least >= (1 << above)
