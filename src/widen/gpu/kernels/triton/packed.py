"""Four bytes in a word, and four neighbours in a thread: device functions only.

NVIDIA's GPUs multiply and permute bytes in one instruction, which Triton has no word for: ASSEMBLY
uses it, and the plain form gives the same everywhere else.
"""

from __future__ import annotations

import triton
import triton.language as tl

from widen.gpu.kernels.triton.numbers import wide


@triton.jit
def dot4(word, weights, start, SIGNED: tl.constexpr, ASSEMBLY: tl.constexpr):
    """Start + the sum of a word's four bytes (SIGNED or not) times the weights' four, signed."""
    if ASSEMBLY:
        multiply: tl.constexpr = "dp4a.s32.s32" if SIGNED else "dp4a.u32.s32"
        total = tl.inline_asm_elementwise(
            multiply + " $0, $1, $2, $3;", "=r,r,r,r", [word, weights, start], tl.int32, True, 1
        )
    else:
        total = start
        for i in tl.static_range(4):
            byte = (word << (24 - 8 * i)) >> 24 if SIGNED else (word >> (8 * i)) & 255
            total += byte * ((weights << (24 - 8 * i)) >> 24)
    return total


@triton.constexpr_function
def weighing(a, b, c):
    """Instructions of `three_weighed`: pairs of bytes of two planes, then those of the third."""
    pair, low, high = a | b << 16, c, c << 16
    return (
        "{.reg .b32 s, t, p, l, h;"
        f" mov.b32 p, {pair}; mov.b32 l, {low}; mov.b32 h, {high};"
        " prmt.b32 s, $4, $5, 0x5140; prmt.b32 t, $4, $5, 0x7362;"
        " dp2a.lo.u32.u32 $0, p, s, 0; dp2a.hi.u32.u32 $1, p, s, 0;"
        " dp2a.lo.u32.u32 $2, p, t, 0; dp2a.hi.u32.u32 $3, p, t, 0;"
        " dp2a.lo.u32.u32 $0, l, $6, $0; dp2a.lo.u32.u32 $1, h, $6, $1;"
        " dp2a.hi.u32.u32 $2, l, $6, $2; dp2a.hi.u32.u32 $3, h, $6, $3;}"
    )


@triton.jit
def three_weighed(
    x, y, z, a: tl.constexpr, b: tl.constexpr, c: tl.constexpr, ASSEMBLY: tl.constexpr
):  # fmt: skip
    """Give a x + b y + c z of bytes, uint32; weights are below 2^16."""
    if ASSEMBLY:  # of four neighbours at a time: none is taken out of its word
        total = tl.inline_asm_elementwise(
            weighing(a, b, c), "=&r,=&r,=&r,=&r,r,r,r", [x, y, z], tl.uint32, True, 4
        )
    else:
        total = x.to(tl.uint32) * a + y.to(tl.uint32) * b + z.to(tl.uint32) * c
    return total


@triton.constexpr_function
def weighing_two(a, b, start):
    """Instructions of `two_weighed`."""
    return (
        "{.reg .b32 s, t, p, z;"
        f" mov.b32 p, {a | b << 16}; mov.b32 z, {start};"
        " prmt.b32 s, $4, $5, 0x5140; prmt.b32 t, $4, $5, 0x7362;"
        " dp2a.lo.u32.u32 $0, p, s, z; dp2a.hi.u32.u32 $1, p, s, z;"
        " dp2a.lo.u32.u32 $2, p, t, z; dp2a.hi.u32.u32 $3, p, t, z;}"
    )


@triton.jit
def two_weighed(
    x, y, a: tl.constexpr, b: tl.constexpr, start: tl.constexpr, ASSEMBLY: tl.constexpr
):  # fmt: skip
    """Give start + a x + b y of bytes, as `three_weighed`."""
    if ASSEMBLY:
        total = tl.inline_asm_elementwise(
            weighing_two(a, b, start), "=&r,=&r,=&r,=&r,r,r", [x, y], tl.uint32, True, 4
        )
    else:
        total = x.to(tl.uint32) * a + y.to(tl.uint32) * b + start
    return total


@triton.jit
def times_add(a, b: tl.constexpr, start, ASSEMBLY: tl.constexpr):
    """Give start + a b in 64 bits, of uint32 numbers."""
    if ASSEMBLY:  # one instruction; mad.wide becomes three where sums go round a loop
        total = tl.inline_asm_elementwise(
            "{.reg .u32 x, y; mov.b64 {x, y}, $3; mad.lo.cc.u32 x, $1, $2, x;"
            " madc.hi.u32 y, $1, $2, y; mov.b64 $0, {x, y};}",
            "=l,r,r,l", [a, b, start], tl.uint64, True, 1,
        )  # fmt: skip
    else:
        total = start + a.to(tl.uint64) * b
    return total


@triton.jit
def xor_where(x, place, j: tl.constexpr, y, ASSEMBLY: tl.constexpr):
    """Exclusive or of int64 numbers where an int32 is j, else the first."""
    if ASSEMBLY:  # plain, it takes four instructions and not two
        result = tl.inline_asm_elementwise(
            "{.reg .pred p; setp.eq.s32 p, $2, $3; mov.b64 $0, $1; @p xor.b64 $0, $0, $4;}",
            "=l,l,r,r,l", [x, place, j, y], tl.int64, True, 1,
        )  # fmt: skip
    else:
        result = x ^ tl.where(place == j, y, 0)
    return result


@triton.jit
def four_bytes(a, b, c, d, ASSEMBLY: tl.constexpr):
    """A word of the lowest bytes of four, the first lowest."""
    if ASSEMBLY:
        word = tl.inline_asm_elementwise(
            "{.reg .b32 x, y; prmt.b32 x, $1, $2, 0x0040; prmt.b32 y, $3, $4, 0x0040;"
            " prmt.b32 $0, x, y, 0x5410;}",
            "=r,r,r,r,r", [a, b, c, d], tl.int32, True, 1,
        )  # fmt: skip
    else:
        word = (a & 255) | ((b & 255) << 8) | ((c & 255) << 16) | (d << 24)
    return word


@triton.jit
def quads(x, LINES: tl.constexpr, INNER: tl.constexpr):
    """The first, second, third and fourth of every four neighbours of (LINES, INNER)."""
    even, odd = tl.split(tl.reshape(x, (LINES, INNER // 4, 2, 2)))
    first, third = tl.split(even)
    second, fourth = tl.split(odd)
    return first, second, third, fourth


@triton.jit
def pairs(base, b, stride, PARTS: tl.constexpr):
    """Where a batch item begins; with two parts all strides are even."""
    return base + wide(b) * (stride // PARTS) * PARTS


@triton.jit
def load_parts(
    base, line, h, inside, line_stride, inner_stride,
    PARTS: tl.constexpr, NEAR: tl.constexpr,
):  # fmt: skip
    """The parts of numbers, (lines, inner) each: one load of neighbours, whichever dimension is.

    NEAR: neighbouring lines lie closer in memory than neighbours within a line. The second part of
    real numbers is the first.
    """
    if PARTS == 1:
        at_line, at_inner = line.to(tl.int64) * line_stride, h.to(tl.int64) * inner_stride
        first = tl.load(base + at_line[:, None] + at_inner[None, :], inside, other=0)
        return first, first
    else:
        # Parts are neighbours and all other strides even, as the compiler is told here.
        at_line = line.to(tl.int64) * (line_stride // 2) * 2
        at_inner = h.to(tl.int64) * (inner_stride // 2) * 2
        part = tl.arange(0, 2).to(tl.int64)[None, None, :]
        if NEAR:
            at = base + at_inner[:, None, None] + at_line[None, :, None] + part
            both = tl.load(at, tl.trans(inside)[:, :, None], other=0)
            both = tl.permute(both, (1, 0, 2))
        else:
            at = base + at_line[:, None, None] + at_inner[None, :, None] + part
            both = tl.load(at, inside[:, :, None], other=0)
        first, second = tl.split(both)
        return first, second


@triton.jit
def store_two(to, first, second, written, ASSEMBLY: tl.constexpr):
    """Two neighbouring words where `written`: as they lie, and not sorted by their places first."""
    if ASSEMBLY:
        tl.inline_asm_elementwise(
            "{.reg .pred p; setp.ne.s32 p, $4, 0; @p st.global.v2.b32 [$1], {$2, $3};"
            " mov.b32 $0, 0;}",
            "=r,l,r,r,r", [to.to(tl.int64), first, second, written.to(tl.int32)], tl.int32, False,
            1,
        )  # fmt: skip
    else:
        tl.store(to, first, written)
        tl.store(to + 1, second, written)


@triton.jit
def store_long(to, value, written, ASSEMBLY: tl.constexpr):
    """The same of an int64."""
    if ASSEMBLY:
        tl.inline_asm_elementwise(
            "{.reg .pred p; setp.ne.s32 p, $3, 0; @p st.global.b64 [$1], $2; mov.b32 $0, 0;}",
            "=r,l,l,r", [to.to(tl.int64), value, written.to(tl.int32)], tl.int32, False, 1,
        )  # fmt: skip
    else:
        tl.store(to, value, written)
