"""Rows and columns scaled: exponents, flags, weights, and what planes must hold of them."""

from __future__ import annotations

import triton
import triton.language as tl

from widen.gpu.kernels.triton.numbers import (
    DEPTH,
    FLAGS,
    INEXACT,
    LARGEST,
    LEVEL,
    NORM,
    NORM_BITS,
    NOTHING,
    SCALE,
    SIGMA,
    SPECIAL,
    SQUARES,
    SUM,
    WEIGHT,
    ZERO_LINE,
    decode,
    highest_bit,
    is_special,
)


@triton.jit
def ceil_sqrt(square):
    """ceil(sqrt(x)) of int64 numbers below 2^62, bit by bit."""
    root = tl.zeros(square.shape, tl.int64)
    for bit in tl.static_range(30, -1, -1):
        tried = root | (1 << bit)
        root = tl.where(tried * tried <= square, tried, root)
    return root + (root * root < square).to(tl.int64)


@triton.jit
def floor_log2_ratio(numerator, denominator):
    """`bounds.floor_log2_ratio` of positive integers below 2^53."""
    ours, theirs = highest_bit(numerator), highest_bit(denominator)
    less = (numerator << (60 - ours).to(tl.int64)) < (denominator << (60 - theirs).to(tl.int64))
    return ours - theirs - less.to(tl.int32)


@triton.jit
def weight_of(q1, level, divisor, unit):
    """`Certificate.weight` of lines."""
    reduced = tl.maximum(highest_bit(q1) - 23, 0)
    one = tl.full(q1.shape, 1, tl.int64)
    rounded = (q1 + (one << reduced.to(tl.int64)) - 1) >> reduced.to(tl.int64)
    quotient = ((rounded << 22) + divisor - 1) // divisor
    shift = reduced + level + unit - NORM_BITS - 22
    down = tl.minimum(tl.maximum(-shift, 0), 61).to(tl.int64)
    up = tl.minimum(tl.maximum(shift, 0), 38).to(tl.int64)
    return tl.where(shift >= 0, quotient << up, (quotient + (one << down) - 1) >> down)


@triton.jit
def _scale(
    block, table, needs, count, goal_norm, root, goal_shift, divisor, unit, rounding, entries, full,
    FRACTION: tl.constexpr, EXPONENT: tl.constexpr, LINES: tl.constexpr,
):  # fmt: skip
    line = block * LINES + tl.arange(0, LINES)
    real = line < count
    at = table + line
    magnitude = tl.load(at + LARGEST * count, real, other=0)
    q1 = tl.load(at + SUM * count, real, other=0)
    q2 = tl.load(at + SQUARES * count, real, other=0)
    m, e = decode(magnitude, FRACTION, EXPONENT)
    special = is_special(magnitude, FRACTION, EXPONENT)
    empty = special | (m == 0)
    top = tl.where(empty, 0, highest_bit(m) + e)
    depth = tl.load(at + DEPTH * count, real, other=0).to(tl.int32)
    s = tl.where(empty, 0, depth + NOTHING)
    norm = q1
    if goal_norm == 2:
        norm = ceil_sqrt(q2)
    wide_root = tl.full((LINES,), 0, tl.int64) + root
    wanted = floor_log2_ratio(wide_root, tl.maximum(norm, 1)) + goal_shift + NORM_BITS - top
    if goal_norm == 0:
        wanted = s
    inexact = (q1 > 0) & (wanted < s)
    at_goal = (q1 > 0) & (inexact | (full != 0))
    s = tl.where(special, NOTHING, tl.where(at_goal, wanted, s))
    sigma, level = s + top, tl.where(special, NOTHING, wanted) + top
    # ||a'|| <= 2^(sigma - 15) sqrt(q2) + sqrt(2k)/2; a margin of 2/256 covers the floats.
    length = sigma.to(tl.float32) - 15.0 + 0.5 * tl.log2(tl.maximum(q2, 1).to(tl.float32))
    high, low = tl.maximum(length, rounding), tl.minimum(length, rounding)
    length = high + tl.log2(1.0 + tl.exp2(low - high))
    bound = tl.where(empty, NOTHING, tl.ceil(length * 256.0).to(tl.int32) + 2)
    flags = tl.where(special, SPECIAL, tl.where(empty, ZERO_LINE, 0)) | tl.where(
        inexact, INEXACT, 0
    )
    tl.store(at + SCALE * count, s.to(tl.int64), real)
    tl.store(at + SIGMA * count, sigma.to(tl.int64), real)
    tl.store(at + FLAGS * count, flags.to(tl.int64), real)
    tl.store(at + WEIGHT * count, weight_of(q1, level, divisor, unit), real)
    tl.store(at + LEVEL * count, level.to(tl.int64), real)
    tl.store(at + NORM * count, bound.to(tl.int64), real)
    held = real & ~empty
    tl.atomic_max(needs, tl.max(tl.where(held, bound, NOTHING), 0).to(tl.int64), sem="relaxed")
    tl.atomic_max(needs + 1, tl.max(tl.where(held, sigma, NOTHING), 0).to(tl.int64), sem="relaxed")
    all_flags = tl.max((real & (flags & SPECIAL > 0)).to(tl.int32), 0) * SPECIAL
    all_flags |= tl.max((real & inexact).to(tl.int32), 0) * INEXACT
    tl.atomic_or(needs + 2, all_flags.to(tl.int64), sem="relaxed")
    # V is more than half of what the goal allows: that share tells how much of |A||B| is needed.
    room = wide_root.to(tl.float32) * tl.exp2((goal_shift + NORM_BITS - sigma).to(tl.float32))
    inverse = (65536.0 * room / tl.maximum(q1, 1).to(tl.float32)).to(tl.int32) + 1
    tl.atomic_max(
        needs + 4, tl.max(tl.where(held & at_goal, inverse, 0), 0).to(tl.int64), sem="relaxed"
    )
    sparse = (tl.full((LINES,), 1 << 24, tl.int64) * entries) // tl.maximum(q1, 1)
    tl.atomic_max(needs + 3, tl.max(tl.where(held, sparse, 0), 0), sem="relaxed")


GOALS = [
    "left_count", "right_count", "left_blocks", "goal_norm", "root", "goal_shift", "divisor",
    "unit", "rounding", "entries", "full",
]  # fmt: skip


@triton.jit(do_not_specialize=GOALS)
def scale(
    left_table, left_needs, left_count, right_table, right_needs, right_count, left_blocks,
    goal_norm, root, goal_shift, divisor, unit, rounding, entries, full,
    LEFT_FRACTION: tl.constexpr, LEFT_EXPONENT: tl.constexpr, RIGHT_FRACTION: tl.constexpr,
    RIGHT_EXPONENT: tl.constexpr, LINES: tl.constexpr,
):  # fmt: skip
    """The rest of the table: exponents by the goal, but no further than a line's last bit.

    With `full`, by the goal alone. A `goal_norm` of 0 keeps every bit. `rounding` is
    log2(sqrt(2k)/2), what rounding may add to a norm; a line has `entries` numbers. `needs` gets
    (largest NORM, largest SIGMA, flags of all lines, the smallest mean of q, inverted and times
    2^24, and the smallest share of the goal that a line uses, inverted and times 2^16).
    """
    block = tl.program_id(0)
    if block < left_blocks:
        _scale(
            block, left_table, left_needs, left_count, goal_norm, root, goal_shift, divisor, unit,
            rounding, entries, full, LEFT_FRACTION, LEFT_EXPONENT, LINES,
        )  # fmt: skip
    else:
        _scale(
            block - left_blocks, right_table, right_needs, right_count, goal_norm, root, goal_shift,
            divisor, unit, rounding, entries, full, RIGHT_FRACTION, RIGHT_EXPONENT, LINES,
        )  # fmt: skip
