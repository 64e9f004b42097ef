"""Slices of floats with a new shift each (papers 000 and 004), and the sums of their products.

kernels/cpu/slices.py on a GPU, bit for bit. With EMULATED no float64 instruction is left.
Kernels that add products of floats must be compiled without fused multiply-adds
(`launch(exact=True)`).
"""

from __future__ import annotations

import triton
import triton.language as tl

from widen.gpu.kernels.triton.numbers import decode, highest_bit, wide
from widen.gpu.kernels.triton.planes import store_entry
from widen.gpu.kernels.triton.rounding import leading_bits, magnitude, next_word, rounded
from widen.papers.slicing.kernels.triton import soft64

NOTHING = tl.constexpr(-(1 << 20))  # top of a line of zeros
SAFE = tl.constexpr(960)
MAGNITUDE = tl.constexpr(0x7FFFFFFFFFFFFFFF)


@triton.jit
def ceil_log2(bits):
    """ceil(log2 |x|) from the bits of a magnitude; NOTHING for 0."""
    m, e = decode(bits, 52, 11)
    return tl.where(bits == 0, NOTHING, tl.where(m > 1, highest_bit(m - 1) + 1, 0) + e)


@triton.jit
def power_of_two(e):
    """2^e for -1022 <= e <= 1023."""
    return ((e + 1023).to(tl.int64) << 52).to(tl.float64, bitcast=True)


@triton.jit
def times_power(x, e):
    """A float64 x of up to 53 bits times 2^e, rounded once; in two steps, as 2^e may not exist.

    As a float that is not tiny: if the first step underflows, so does the whole beyond doubt.
    """
    e = tl.minimum(tl.maximum(e, -2000), 2000)
    first = e >> 1
    return x * power_of_two(first) * power_of_two(e - first)


@triton.jit
def cut(bits, grid, COARSE: tl.constexpr):
    """(t, bits of x - t 2^grid) for the t nearest to x 2^-grid, in integers only.

    Ties go to even t; if COARSE, positive x take even t only, as adding a power of two does.
    """
    m, e = decode(bits, 52, 11)
    coarse = tl.where(bits >= 0, 1, 0) if COARSE else tl.zeros_like(e)
    down = grid + coarse - e
    left = tl.minimum(tl.maximum(-down, 0), 62).to(tl.int64)
    right = tl.minimum(tl.maximum(down, 0), 55).to(tl.int64)
    half = (tl.full(m.shape, 1, tl.int64) << right) >> 1
    up = tl.where(half > 0, half - 1 + ((m >> right) & 1), 0)
    t = (m + up) >> right
    rest = m - (t << right)
    t = (t << left) << coarse.to(tl.int64)
    negative = bits < 0
    stays = soft64.compose(negative != (rest < 0), tl.abs(rest), e, rest < rest)
    return tl.where(negative, -t, t).to(tl.int32), tl.where(rest == 0, 0, stays)


@triton.jit
def cut_floats(bits, grid, COARSE: tl.constexpr):
    """The same with float64 instructions, where sigma = 2^(grid + 53) is a normal number."""
    x = bits.to(tl.float64, bitcast=True)
    sigma = power_of_two(grid + 53) * (1.0 if COARSE else 0.75)
    v = (x + sigma) - sigma
    rest = (x - v).to(tl.int64, bitcast=True)
    return (v * power_of_two(-grid)).to(tl.int32), rest


@triton.jit(do_not_specialize=["lines", "bits", "inner"])
def split(
    work, plane, top, following, weights, lanes, lines, inner, pitch, bits,
    COARSE: tl.constexpr, EMULATED: tl.constexpr, ESTIMATE: tl.constexpr, LINES: tl.constexpr,
    LANES: tl.constexpr,
):  # fmt: skip
    """One slice of every line of `work` into `plane`; what is left stays, `following` is its top.

    COARSE is paper 000's Algorithm 1 (sigma a power of two), otherwise paper 004's equation 5
    (0.75 times one). With ESTIMATE, lanes receive sums of |t 2^g| weight.
    """
    line = tl.program_id(0) * LINES + tl.arange(0, LINES)
    here = (line < lines)[:, None]
    tau = tl.load(top + line, line < lines, other=NOTHING).to(tl.int32)
    grid = tl.where(tau == NOTHING, 0, tau - bits)[:, None]
    far = tl.max((tl.abs(grid + 53) > SAFE).to(tl.int32)) > 0
    largest = tl.zeros((LINES, LANES), tl.int64)
    if ESTIMATE:
        sums = tl.zeros((LINES, LANES), tl.float64)
    lane = tl.arange(0, LANES)
    for start in range(0, pitch, LANES):
        h = start + lane
        inside = here & (h < inner)[None, :]
        at = work + line.to(tl.int64)[:, None] * inner + h[None, :]
        x = tl.load(at, inside, other=0)
        if EMULATED:
            t, rest = cut(x, grid, COARSE)
        else:
            if far:
                t, rest = cut(x, grid, COARSE)
            else:
                t, rest = cut_floats(x, grid, COARSE)
        tl.store(at, rest, inside)
        to = plane + line.to(tl.int64)[:, None] * pitch + h[None, :]
        store_entry(to, t, here & (h < pitch)[None, :])
        largest = tl.maximum(largest, tl.where(inside, rest & MAGNITUDE, 0))
        if ESTIMATE:
            weight = tl.load(weights + h, h < inner, other=0.0)[None, :]
            term = times_power(tl.abs(t).to(tl.float64), grid) * weight
            sums += tl.where(inside, term, 0.0)
    tl.store(following + line, ceil_log2(tl.max(largest, 1)).to(tl.int64), line < lines)
    if ESTIMATE:
        tl.store(lanes + line[:, None] * LANES + lane[None, :], sums, here)


@triton.jit(do_not_specialize=["lines"])
def tops(work, top, lines, inner, LINES: tl.constexpr, LANES: tl.constexpr):
    """ceil(log2 max |x|) of every line, NOTHING where all are 0."""
    line = tl.program_id(0) * LINES + tl.arange(0, LINES)
    largest = tl.zeros((LINES, LANES), tl.int64)
    for start in range(0, inner, LANES):
        h = start + tl.arange(0, LANES)
        inside = (line < lines)[:, None] & (h < inner)[None, :]
        at = work + line.to(tl.int64)[:, None] * inner + h[None, :]
        largest = tl.maximum(largest, tl.load(at, inside, other=0) & MAGNITUDE)
    tl.store(top + line, ceil_log2(tl.max(largest, 1)).to(tl.int64), line < lines)


@triton.jit(do_not_specialize=["lines"])
def magnitudes(work, weights, lanes, lines, inner, LINES: tl.constexpr, LANES: tl.constexpr):
    """Lanes of the sums of |x| weight."""
    line, lane = tl.program_id(0) * LINES + tl.arange(0, LINES), tl.arange(0, LANES)
    sums = tl.zeros((LINES, LANES), tl.float64)
    for start in range(0, inner, LANES):
        h = start + lane
        inside = (line < lines)[:, None] & (h < inner)[None, :]
        x = tl.load(work + line.to(tl.int64)[:, None] * inner + h[None, :], inside, other=0.0)
        weight = tl.load(weights + h, h < inner, other=0.0)[None, :]
        sums += tl.where(inside, tl.abs(x) * weight, 0.0)
    at = lanes + line[:, None] * LANES + lane[None, :]
    tl.store(at, sums, (line < lines)[:, None])


@triton.jit(do_not_specialize=["lines"])
def column_sums(work, lanes, lines, inner, ROW_LANES: tl.constexpr, BLOCK: tl.constexpr):
    """Add |x| of all lines to the lanes (ROW_LANES, inner)."""
    h, lane = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK), tl.arange(0, ROW_LANES)
    at = lane[:, None] * inner + h[None, :]
    inside = (lane >= 0)[:, None] & (h < inner)[None, :]
    sums = tl.load(lanes + at, inside, other=0.0)
    for start in range(0, lines, ROW_LANES):
        there = inside & (start + lane < lines)[:, None]
        sums += tl.abs(tl.load(work + wide(start) * inner + at, there, other=0.0))
    tl.store(lanes + at, sums, inside)


@triton.jit(do_not_specialize=["count"])
def accumulate(
    products, left, right, out, count, rows, columns, stride, pitch, edges,
    PRECISION: tl.constexpr, EMULATED: tl.constexpr, ASSEMBLY: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Sums 0 + T_0 2^e_0 + T_1 2^e_1 + ..., rounded after every addition.

    `products` are (count, rows, columns) with `stride` and `pitch`, e = left[g, i] + right[g, j].
    `edges` are the least and the largest e of all. A program has a part of a row.
    """
    parts = tl.cdiv(columns, BLOCK)
    i, j = tl.program_id(0) // parts, tl.program_id(0) % parts * BLOCK + tl.arange(0, BLOCK)
    inside = j < columns
    at, source = wide(i) * columns + j, products + wide(i) * pitch + j
    if EMULATED:
        # Sums are multiples of 2^e, and normal numbers (or 0) if that is one.
        if (tl.load(edges) >= -SAFE) & (tl.load(edges + 1) <= SAFE - 64):
            m, unit = tl.zeros((BLOCK,), tl.int64), tl.full((BLOCK,), soft64.NOWHERE, tl.int32)
            for g in range(count):
                term = tl.load(source + wide(g) * stride, inside, other=0.0)
                e = tl.load(left + g * rows + i) + tl.load(right + g * columns + j, inside, other=0)
                m, unit = soft64.add_term(m, unit, term, e, ASSEMBLY)
            total = soft64.packed(m, unit)
        else:
            total = tl.zeros((BLOCK,), tl.int64)
            for g in range(count):
                t = tl.load(source + wide(g) * stride, inside, other=0.0).to(tl.int64)
                e = tl.load(left + g * rows + i) + tl.load(right + g * columns + j, inside, other=0)
                total = soft64.add(total, soft64.compose(t < 0, tl.abs(t), e, t != t))
        tl.store(out + at, total, inside)
    else:
        dtype: tl.constexpr = tl.float64 if PRECISION == 53 else tl.float32
        running = tl.zeros((BLOCK,), dtype)
        for g in range(count):
            term = tl.load(source + wide(g) * stride, inside, other=0.0)
            e = tl.load(left + g * rows + i) + tl.load(right + g * columns + j, inside, other=0)
            running += times_power(term.to(tl.float64), e).to(dtype)
        tl.store(out + at, running, inside)


@triton.jit(do_not_specialize=["count"])
def nearest(
    products, left, right, out, count, rows, columns, stride, pitch, edges, left_edges, right_edges,
    BLOCK: tl.constexpr,
):  # fmt: skip
    """Bits of the sum of all T_g 2^e_g, rounded once: what NearSum gives.

    Words of 32 bits from the lowest e of a row up: `left_edges` (2, rows) are the least and the
    largest left[g, i] of a row, `right_edges` (2, count) those of right[g, j] of a product, and
    `edges` those of all right. T 2^e is added to two words: the lower gets what it holds, the
    next one all the rest, with its sign. Products that reach neither word are passed over.
    """
    parts = tl.cdiv(columns, BLOCK)
    i, j = tl.program_id(0) // parts, tl.program_id(0) % parts * BLOCK + tl.arange(0, BLOCK)
    inside = j < columns
    at, source = wide(i) * columns + j, products + wide(i) * pitch + j
    low = tl.load(left_edges + i) + tl.load(edges)
    high = tl.load(left_edges + rows + i) + tl.load(edges + 1)
    carry = tl.zeros((BLOCK,), tl.int64)
    two, head = tl.zeros((BLOCK,), tl.uint64), tl.zeros((BLOCK,), tl.uint64)
    third, rest = tl.zeros((BLOCK,), tl.uint32), tl.zeros((BLOCK,), tl.uint32)
    last, below = tl.zeros((BLOCK,), tl.uint32), tl.zeros((BLOCK,), tl.uint32)
    index = tl.full((BLOCK,), -1, tl.int32)
    for step in range((high - low) // 32 + 5):  # |T| <= 2^53, and a billion of them
        for g in range(count):
            place = tl.load(left + g * rows + i) - low - 32 * step
            if (place + tl.load(right_edges + g) < 32) & (
                place + tl.load(right_edges + count + g) >= -32
            ):
                t = tl.load(source + wide(g) * stride, inside, other=0.0).to(tl.int64)
                up = place + tl.load(right + g * columns + j, inside, other=0)
                here = (t << (up & 31).to(tl.int64)) & 0xFFFFFFFF
                above = t >> (-up & 31).to(tl.int64)
                above = tl.where(up == -32, t >> 32, above)
                carry += tl.where((up >= 0) & (up < 32), here, 0)
                carry += tl.where((up >= -32) & (up < 0), above, 0)
        two, head, third, rest, last, below, index = next_word(
            (carry & 0xFFFFFFFF).to(tl.uint64), step, two, head, third, rest, last, below, index
        )
        carry = carry >> 32
    high_word, middle, last, index, minus = magnitude(two, head, last, below, index)
    length, leading, sticky = leading_bits(high_word, middle, last, below, index)
    bits = rounded(length, leading, sticky, low, 53, -1074, 1024)
    bits = tl.where(high_word != 0, bits, 0)
    tl.store(out + at, bits | (minus.to(tl.int64) << 63), inside)
