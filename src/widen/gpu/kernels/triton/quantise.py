"""Rows and columns scaled: exponents, flags, weights, and what planes must hold of them."""

from __future__ import annotations

import triton
import triton.language as tl

from widen.gpu.kernels.triton.numbers import (
    AHEAD,
    DEPTH,
    DISTANCES,
    FLAGS,
    INEXACT,
    LARGEST,
    NONZEROS,
    NORM,
    NORM_BITS,
    NOTHING,
    SCALE,
    SIGMA,
    SPECIAL,
    SQUARES,
    STEP,
    STOP,
    SUM,
    WEIGHT,
    ZERO_LINE,
    decode,
    highest_bit,
    is_special,
    wide,
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
def log2_in_256ths(x):
    """`bounds.log2_in_256ths`."""
    place = highest_bit(x)
    down, up = tl.maximum(place - 8, 0).to(tl.int64), tl.maximum(8 - place, 0).to(tl.int64)
    return (place << 8) + ((x >> down) << up).to(tl.int32) - 256


MOST_EXTRA = tl.constexpr(54)  # of bounds
MOST_FOR_ZEROS = tl.constexpr(6)
MOST_FILL = tl.constexpr(4)  # of bounds


@triton.jit
def extra_bits(q1, q2, nonzeros, distances, entries):
    """`bounds.extra_bits`; and whether few entries carry a line whose others are much alike.

    (The distance d of 3.25 tells outliers and Cauchy's distribution from logarithms that are spread
    normally, by 2 or more, where leads near the mean see enough.)
    """
    one, two = log2_in_256ths(q1), log2_in_256ths(q2)
    entries = tl.zeros_like(q1) + entries
    rho = (log2_in_256ths(entries) + two - 2 * one + 128) >> 8
    few = 2 * one < log2_in_256ths(tl.minimum(tl.maximum(entries // 4, 1), 64)) + two
    mean = (256 * distances // nonzeros).to(tl.int32)
    d = mean + one - log2_in_256ths(nonzeros) - 256 * NORM_BITS
    wanted = (5 * d >> 10) + 2
    wanted = tl.where(wanted <= MOST_EXTRA, wanted, 0)
    extra = tl.maximum(tl.where(few, tl.maximum(rho - 1, wanted), rho - 2), 0)
    empty = log2_in_256ths(entries) - log2_in_256ths(nonzeros)
    more = tl.minimum(tl.maximum((2 * empty - 256) >> 8, 0), MOST_FOR_ZEROS)
    return tl.minimum(extra + more, MOST_EXTRA), few & (4 * d < 13 * 256)


NO_RUNG = tl.constexpr(1 << 30)


@triton.jit
def filled_up(sigma, q2, rungs, count):
    """`bounds.filled_up`, of up to 63 rungs: each line looks for its own, halving what is left."""
    norm = 256 * (sigma - NORM_BITS) + (log2_in_256ths(q2) + 24) // 2
    below = tl.zeros_like(norm)
    for half in tl.static_range(5, -1, -1):
        at = below + ((1 << half) - 1)
        below += tl.where(tl.load(rungs + at, at < count, other=NO_RUNG) < norm, 1 << half, 0)
    rung = tl.load(rungs + below, below < count, other=NO_RUNG)
    return sigma + tl.where(rung < NO_RUNG, tl.minimum((rung - norm) // 256, MOST_FILL), 0)


@triton.jit
def raise_to(at, value):
    """Make what is there the larger one: most programs find that it is, and do not wait in line."""
    if value > tl.load(at, volatile=True):
        tl.atomic_max(at, value, sem="relaxed")


@triton.jit
def set_bits(at, bits):
    """The same of bits that are to be set."""
    if (bits & ~tl.load(at, volatile=True)) != 0:
        tl.atomic_or(at, bits, sem="relaxed")


HARD = tl.constexpr(1)  # some line has many zeros or a wide spread
ZEROS = tl.constexpr(2)  # some line has zeros, or is of length 1
HEAVY = tl.constexpr(4)  # some line has many zeros, or a few entries far above all others


@triton.jit
def power_of_two(exponent):
    """2^exponent as a float64, for -1022 <= exponent <= 1023."""
    return ((exponent + 1023).to(tl.int64) << 52).to(tl.float64, bitcast=True)


@triton.jit
def _scale(
    block, table, needs, count, goal_norm, root, goal_shift, spread, rungs, filled, weight,
    rounding, inner, entries, full,
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
    level = floor_log2_ratio(wide_root, tl.maximum(norm, 1)) + goal_shift + NORM_BITS
    nonzeros = tl.load(at + NONZEROS * count, real, other=0)
    extra, outlying = tl.zeros((LINES,), tl.int32), tl.zeros((LINES,), tl.int1)
    if spread > 0:
        distances = tl.load(at + DISTANCES * count, real, other=0)
        extra, outlying = extra_bits(
            tl.maximum(q1, 1), tl.maximum(q2, 1), tl.maximum(nonzeros, 1), distances, spread
        )
    wanted = filled_up(level + extra, tl.maximum(q2, 1), rungs, filled) - top
    if goal_norm == 0:
        wanted = s
    inexact = (q1 > 0) & (wanted < s)
    at_goal = (q1 > 0) & (inexact | (full != 0))
    s = tl.where(special, NOTHING, tl.where(at_goal, wanted, s))
    sigma = s + top
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
    # `bounds.Weighed`: every operation is exact but one.
    g = q1.to(tl.float64) * wide(weight).to(tl.float64, bitcast=True)
    h = tl.where(inexact, power_of_two(tl.where(inexact, -sigma, 0)), 0.0)
    tl.store(at + WEIGHT * count, g.to(tl.int64, bitcast=True), real)
    tl.store(at + STEP * count, h.to(tl.int64, bitcast=True), real)
    full_span = tl.where(empty, 0, tl.zeros((LINES,), tl.int64) + inner)
    tl.store(at + AHEAD * count, full_span, real)
    tl.store(at + STOP * count, full_span, real)
    tl.store(at + NORM * count, bound.to(tl.int64), real)
    held = real & ~empty
    # Lines with many zeros, or of wide spread, want more than a first look.
    sparse = held & (4 * nonzeros < 3 * wide(entries))
    kinds = tl.max((sparse | (held & (extra > 0))).to(tl.int32), 0) * HARD
    kinds |= tl.max((sparse | (held & outlying)).to(tl.int32), 0) * HEAVY
    # A line of length 1 has no zeros, but one entry (`spans.mark_singles`).
    sparse_or_single = held & ((nonzeros < entries) | (inner == 1))
    kinds |= tl.max(sparse_or_single.to(tl.int32), 0) * ZEROS
    set_bits(needs + 5, kinds.to(tl.int64))
    raise_to(needs, tl.max(tl.where(held, bound, NOTHING), 0).to(tl.int64))
    raise_to(needs + 1, tl.max(tl.where(held, sigma, NOTHING), 0).to(tl.int64))
    all_flags = tl.max((real & (flags & SPECIAL > 0)).to(tl.int32), 0) * SPECIAL
    all_flags |= tl.max((real & inexact).to(tl.int32), 0) * INEXACT
    set_bits(needs + 2, all_flags.to(tl.int64))
    # V is more than half of what the goal allows: that share tells how much of |A||B| is needed.
    room = wide_root.to(tl.float32) * tl.exp2((goal_shift + NORM_BITS - sigma).to(tl.float32))
    inverse = tl.minimum(65536.0 * room / tl.maximum(q1, 1).to(tl.float32), 1e9).to(tl.int32) + 1
    raise_to(needs + 4, tl.max(tl.where(held & at_goal, inverse, 0), 0).to(tl.int64))
    small = (tl.full((LINES,), 1 << 24, tl.int64) * entries) // tl.maximum(q1, 1)
    raise_to(needs + 3, tl.max(tl.where(held, small, 0), 0))


GOALS = [
    "left_count", "right_count", "left_blocks", "goal_norm", "root", "goal_shift", "spread",
    "filled", "weight", "rounding", "inner", "entries", "full",
]  # fmt: skip


@triton.jit(do_not_specialize=GOALS)
def scale(
    left_table, left_needs, left_count, right_table, right_needs, right_count, left_blocks,
    goal_norm, root, goal_shift, spread, rungs, filled, weight, rounding, inner, entries, full,
    LEFT_FRACTION: tl.constexpr, LEFT_EXPONENT: tl.constexpr, RIGHT_FRACTION: tl.constexpr,
    RIGHT_EXPONENT: tl.constexpr, LINES: tl.constexpr,
):  # fmt: skip
    """The rest of the table: exponents by the goal, but no further than a line's last bit.

    With `full`, by the goal alone. A `goal_norm` of 0 keeps every bit; `spread` and `filled` rungs
    are those of `bounds.Goal`, `weight` the bits of `bounds.Certificate.line`. `rounding` is
    log2(sqrt(2k)/2), what rounding may add to a norm; a line has `entries` numbers. `needs` gets
    (largest NORM, largest SIGMA, flags of all lines, the smallest mean of q, inverted and times
    2^24, the smallest share of the goal that a line uses, inverted and times 2^16, and HARD,
    ZEROS or HEAVY if there are such lines).
    """
    block = tl.program_id(0)
    if block < left_blocks:
        _scale(
            block, left_table, left_needs, left_count, goal_norm, root, goal_shift, spread, rungs,
            filled, weight, rounding, inner, entries, full, LEFT_FRACTION, LEFT_EXPONENT, LINES,
        )  # fmt: skip
    else:
        _scale(
            block - left_blocks, right_table, right_needs, right_count, goal_norm, root, goal_shift,
            spread, rungs, filled, weight, rounding, inner, entries, full, RIGHT_FRACTION,
            RIGHT_EXPONENT, LINES,
        )  # fmt: skip
