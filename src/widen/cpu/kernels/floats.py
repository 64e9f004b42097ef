"""Floats without error: fused multiply-add, sums and products with their errors, powers of two.

Everything here is compiled for float64 and float32 alike. Nothing is contracted: Numba fuses a
product and a sum only where `fma` says so, and a CPU without the instruction calls libm's.
"""

from __future__ import annotations

from typing import Any

from numba import types
from numba.extending import intrinsic

from widen.cpu.kernels.cache import device

FRACTION = {64: 52, 32: 23}
"""Bits of the fraction of a float of so many bits."""


def _integers(context, width):
    """The compiler's type of integers as wide as a float."""
    return context.get_value_type(types.int64 if width == 64 else types.int32)


def _fma(context, a, b, c):
    def generate(context, builder, signature, arguments):
        return builder.fma(*arguments)

    return a(a, a, a), generate


def _scale_exponent(context, x):
    def generate(context, builder, signature, arguments):
        width = signature.args[0].bitwidth
        integer, fraction = _integers(context, width), FRACTION[width]
        top = (1 << (width - 1 - fraction)) - 1
        bits = builder.bitcast(arguments[0], integer)
        field = builder.and_(builder.lshr(bits, integer(fraction)), integer(top))
        field = builder.select(builder.icmp_signed("<", field, integer(1)), integer(1), field)
        most = integer(top - 2)
        field = builder.select(builder.icmp_signed(">", field, most), most, field)
        less = builder.sub(field, integer(top >> 1))
        return less if width == 64 else builder.sext(less, _integers(context, 64))

    return types.int64(x), generate


def _power_like(context, exponent, x):
    def generate(context, builder, signature, arguments):
        width = signature.args[1].bitwidth
        integer, fraction = _integers(context, width), FRACTION[width]
        bias = (1 << (width - 2 - fraction)) - 1
        field = arguments[0] if width == 64 else builder.trunc(arguments[0], integer)
        bits = builder.shl(builder.add(field, integer(bias)), integer(fraction))
        return builder.bitcast(bits, context.get_value_type(signature.return_type))

    return x(types.int64, x), generate


def _exact_sum(context, a, b):
    def generate(context, builder, signature, arguments):
        return builder.fadd(*arguments, flags=("reassoc", "nsz"))

    return a(a, a), generate


fma: Any = intrinsic(_fma)
"""fma(a, b, c) = a b + c, rounded once."""

exact_sum: Any = intrinsic(_exact_sum)
"""exact_sum(a, b) = a + b, where no order of additions rounds: the compiler may choose one."""

scale_exponent: Any = intrinsic(_scale_exponent)
"""k with 1 <= |x| 2^-k < 4, as an int64; below 1 for subnormal numbers and zero."""

power_like: Any = intrinsic(_power_like)
"""power_like(k, x) = 2^k as a float like x, for exponents k of normal numbers."""


@device
def two_sum(a, b):
    """(s, e) with s = RN(a + b) and s + e = a + b (Knuth)."""
    s = a + b
    shown = s - a
    return s, (a - (s - shown)) + (b - shown)


@device
def fast_two_sum(a, b):
    """The same for |a| >= |b| or a = 0 (Dekker)."""
    s = a + b
    return s, b - (s - a)


@device
def two_product(a, b):
    """(p, e) with p = RN(a b) and p + e = a b, unless e is below the smallest number."""
    p = a * b
    return p, fma(a, b, -p)


@device
def is_finite(x):
    """Whether x is neither NaN nor infinite."""
    return x - x == 0
