"""Certified error of every element, and the largest of a tile, in one pass without temporaries.

The steps are those of `stages.error_bounds.bound_of`, one by one, so that the bits are the same:
to be compiled without contraction.
"""

from __future__ import annotations

import triton
import triton.language as tl

from widen.gpu.kernels.triton.numbers import FLAGS, INEXACT, NORM_BITS, SCALE, SIGMA, SUM, wide

WIDEST = tl.constexpr(900)  # of stages.error_bounds
FRACTION = tl.constexpr((1 << 52) - 1)
MAGNITUDE = tl.constexpr((1 << 63) - 1)
INFINITY = tl.constexpr(0x7FF << 52)
NOT_A_NUMBER = tl.constexpr(0xFFF << 51)


@triton.jit
def number_of(bits):
    """The float64 of these bits."""
    return bits.to(tl.float64, bitcast=True)


@triton.jit
def bits_of(x):
    """The bits of a float64."""
    return x.to(tl.int64, bitcast=True)


@triton.jit
def smallest_like(x):
    """The smallest positive number, as often as there are elements in x."""
    return number_of(tl.full(x.shape, 1, tl.int64))


@triton.jit
def near_power(exponent):
    """2^exponent of a normal number, of 0 (-1023) or of infinity (1024)."""
    return number_of((tl.minimum(tl.maximum(exponent, -1023), 1024) + 1023) << 52)


@triton.jit
def power(exponent):
    """2^exponent, rounded up into the range of float64."""
    half = exponent >> 1
    product = near_power(half) * near_power(exponent - half)
    return tl.maximum(product, smallest_like(product))


@triton.jit
def losses_of(table, line, real, count):
    """(lost, norm, shift, exponent) of lines: `error_bounds.Losses`."""
    at = table + line
    lost = (tl.load(at + FLAGS * count, real, other=0) & INEXACT) > 0
    q1 = tl.load(at + SUM * count, real, other=0)
    sigma = tl.load(at + SIGMA * count, real, other=0)
    shift = tl.where(q1 > 0, tl.maximum(sigma - WIDEST, 0), 0)
    norm = q1.to(tl.float64) * power(tl.minimum(sigma, WIDEST) - NORM_BITS)
    return lost, norm, shift, tl.load(at + SCALE * count, real, other=0)


@triton.jit
def next_above(x):
    """The next number above one that is positive."""
    bits = bits_of(x)
    return number_of(tl.where(bits == INFINITY, bits, bits + 1))


@triton.jit
def scaled_up(x, exponent):
    """The product x 2^exponent of 0 or of a positive normal number, rounded up."""
    bits = bits_of(x)
    field = (bits >> 52) + exponent
    down = tl.minimum(tl.maximum(1 - field, 0), 53)
    subnormal = (((bits & FRACTION) | (FRACTION + 1)) >> down) + 1
    scaled = tl.where(field > 0, bits + (exponent << 52), subnormal)
    scaled = tl.where(field > 2046, INFINITY, scaled)
    return number_of(tl.where(x > 0, scaled, 0))


@triton.jit
def ulp_of(ulps, magnitude):
    """The ulp of numbers whose first words have these bits, without their sign."""
    return tl.load(ulps + tl.minimum(magnitude >> 52, 0x7FE))


@triton.jit
def bounds(
    values, rounded_once, addend_units, target, largest, finite, ulps, rows_table, columns_table, m,
    n, left_batch, right_batch, part_stride, batch_stride, row_stride, column_stride,
    target_batch_stride, target_row_stride, target_column_stride, both, always, factor, moved,
    alpha_unit, precision, lowest, highest,
    PARTS: tl.constexpr, ADDED: tl.constexpr, STORED: tl.constexpr, ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
):  # fmt: skip
    """Bounds of the errors of `values`, (PARTS, batch, m, n), into `target` if they are STORED.

    `ulps` are those of numbers by the exponent field of their first words. `rounded_once` says
    which were. `both`, `always` and `factor` are bits of float64, and with `moved` those of a
    `Terms`; `alpha_unit`, `precision`, `lowest` and `highest` are the last bit of alpha and places
    of the format, `addend_units` those of beta c, if it is ADDED: `exactness.is_exact` says which
    bounds are 0. Of every program, the largest bound of a finite element (0 if there is none) and
    their number.
    """
    tiles = tl.cdiv(n, COLUMNS)
    per_item = tl.cdiv(m, ROWS) * tiles
    b, tile = tl.program_id(0) // per_item, tl.program_id(0) % per_item
    i, j = tile // tiles * ROWS + tl.arange(0, ROWS), tile % tiles * COLUMNS + tl.arange(0, COLUMNS)
    row_lost, row_norm, row_shift, row_exponent = losses_of(
        rows_table, b % left_batch * m + i, i < m, left_batch * m
    )
    column_lost, column_norm, column_shift, column_exponent = losses_of(
        columns_table, b % right_batch * n + j, j < n, right_batch * n
    )
    inside = (i < m)[:, None] & (j < n)[None, :]
    place = (wide(b) * m + i)[:, None] * n + j[None, :]
    at = values + wide(b) * batch_stride
    at = at + (wide(i) * row_stride)[:, None] + (wide(j) * column_stride)[None, :]
    first = bits_of(tl.load(at, inside, other=0).to(tl.float64)) & MAGNITUDE
    half, size = 0.5 * ulp_of(ulps, first), first
    if PARTS == 2:
        second = bits_of(tl.load(at + part_stride, inside, other=0).to(tl.float64)) & MAGNITUDE
        one, other = ulp_of(ulps, first), ulp_of(ulps, second)
        large = tl.maximum(one, other)
        ratio = tl.minimum(one, other) / large
        half = next_above(large * (0.5 * tl.sqrt(1 + ratio * ratio) * (1 + 2.0**-40)))
        size = tl.maximum(first, second)
    # What a line has lost counts times the norm of the other one.
    our_lost, their_lost = row_lost[:, None], column_lost[None, :]
    ours = tl.where(their_lost, row_shift[:, None], 0)
    theirs = tl.where(our_lost, column_shift[None, :], 0)
    base = tl.maximum(ours, theirs)
    ours = tl.where(their_lost, row_norm[:, None] * power(tl.maximum(ours - base, -1000)), 0.0)
    theirs = tl.where(our_lost, column_norm[None, :] * power(tl.maximum(theirs - base, -1000)), 0.0)
    both_lost = tl.where(our_lost & their_lost, number_of(wide(both)), 0.0)
    others = both_lost + number_of(wide(always))
    error = 0.5 * (ours + theirs) + others * power(tl.maximum(-base, -1000))
    once = tl.load(rounded_once + place, inside, other=0) != 0
    error = tl.where(once, 0.0, error * number_of(wide(factor)))
    exponents = row_exponent[:, None] + column_exponent[None, :]
    error = scaled_up(error, base - exponents + moved)
    total = tl.where(error > 0, next_above(error + half), tl.maximum(half, smallest_like(half)))
    units = alpha_unit - exponents
    if ADDED:
        units = tl.minimum(units, tl.load(addend_units + place, inside, other=0))
    length = (size >> 52) - 1022
    small = ((length <= units + precision) & (length <= highest)) | (size == 0)
    kept = (our_lost | their_lost) == 0
    total = tl.where(kept & (error == 0) & small & (units >= lowest), 0.0, total)
    special = size >= INFINITY
    fine = inside & (special == 0)
    program = tl.program_id(0)
    tl.store(largest + program, tl.max(tl.max(tl.where(fine, total, 0.0), 1), 0))
    tl.store(finite + program, tl.sum(tl.sum(fine.to(tl.int64), 1), 0))
    if STORED:
        odd = number_of(tl.where(size == INFINITY, INFINITY, NOT_A_NUMBER))
        at = target + wide(b) * target_batch_stride
        at = at + (wide(i) * target_row_stride)[:, None]
        at = at + (wide(j) * target_column_stride)[None, :]
        tl.store(at, tl.where(special, odd, total), inside)
