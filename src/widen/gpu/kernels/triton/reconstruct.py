"""Reconstruction: residues to one exact integer, rounded once."""

from __future__ import annotations

import triton
import triton.language as tl

from widen.gpu.kernels.triton.float_limbs import (
    any_bits,
    limbs_of,
    moduli_in_pairs,
    normal_bits,
    pair_sums,
    part_of,
)
from widen.gpu.kernels.triton.integers import combined, group_sums, magnitude, moduli_in, words_of
from widen.gpu.kernels.triton.numbers import (
    FLAGS,
    INEXACT,
    NORM,
    NORM_BITS,
    SCALE,
    SIGMA,
    SPECIAL,
    SUM,
    highest_bit,
    wide,
)
from widen.gpu.kernels.triton.rounding import leading_bits, rounded, rounded_normal, store_float

UNCERTIFIED = tl.constexpr(1)  # marks: to be tested again, and repaired if it fails
SPECIAL_ELEMENT = tl.constexpr(2)  # meets an infinity or a NaN
UNSETTLED = tl.constexpr(3)  # to be repaired
UNFIT = tl.constexpr(4)  # X does not fit its planes: to be computed by itself
ONE_ENTRY = tl.constexpr(5)  # of a line of one entry: to be rounded correctly
REPAIRED = tl.constexpr(6)  # has become the correctly rounded one


@triton.jit
def magnitude_bits(q1, sigma):
    """Exponents v with 2^s ||a||_1 < 2^v."""
    return tl.maximum(highest_bit(q1) + 1 + sigma - NORM_BITS, 0)


@triton.jit
def error_bits(
    at_row, at_column, heights, widths, i_inside, j_inside, row_flags, column_flags, always
):
    """Exponents e with |error of X| <= 2^e as in `bounds`; 1 where X is exact, else 2 or more."""
    sigma = tl.load(at_row + SIGMA * heights, i_inside, other=0).to(tl.int32)
    tau = tl.load(at_column + SIGMA * widths, j_inside, other=0).to(tl.int32)
    v = magnitude_bits(tl.load(at_row + SUM * heights, i_inside, other=0), sigma)
    u = magnitude_bits(tl.load(at_column + SUM * widths, j_inside, other=0), tau)
    rounded_row = (row_flags & INEXACT > 0)[:, None]
    rounded_column = (column_flags & INEXACT > 0)[None, :]
    largest = tl.where(rounded_column, tl.maximum(v[:, None], always), -1)
    other = tl.where(rounded_row, tl.maximum(u[None, :], always), -1)
    return tl.maximum(largest, other) + 2


@triton.jit
def is_settled(
    length, head, low, index, nonzero, base, error, PRECISION: tl.constexpr, LOWEST: tl.constexpr,
    HIGHEST: tl.constexpr,
):  # fmt: skip
    """Whether an error of 2^(error + base) cannot change how head 2^(length - 64 + base) rounds.

    It is a normal number and stays one, and its dropped bits are further from the half than the
    error, with one more unit for the bits that are not looked at; the error is below a quarter of
    an ulp, so that a power of two is no trap either. Of float64, bits after the head are looked at
    too: those that the third word, `low`, has left (`leading_bits`).
    """
    MORE: tl.constexpr = 32 if PRECISION > 32 else 0
    half: tl.constexpr = 1 << (63 + MORE - PRECISION)
    dropped = (head & ((half >> MORE) * 2 - 1)).to(tl.int64) << MORE
    unknown = tl.zeros_like(length)
    if MORE > 0:
        unknown = 32 * (index + 1) - length
        dropped |= (low << unknown.to(tl.uint32)).to(tl.int64)
    place = tl.minimum(tl.maximum(error + (65 + MORE) - length, unknown + 1), 62)
    margin = tl.full(head.shape, 1, tl.int64) << place.to(tl.int64)
    settled = (tl.abs(dropped - half) >= margin) & (margin <= half >> 2) & nonzero
    return settled & (length + base - PRECISION > LOWEST) & (length + base < HIGHEST)


@triton.jit
def round_part(
    sums, base, plain, MODULUS: tl.constexpr, TAKEN: tl.constexpr, INVERSE: tl.constexpr,
    PRECISION: tl.constexpr, LOWEST: tl.constexpr, HIGHEST: tl.constexpr, ASSEMBLY: tl.constexpr,
):  # fmt: skip
    """(bits, negative, length, head, third word, index of the first, if X is not 0) of a part.

    `plain` tiles hold normal numbers only, or 0.
    """
    words, negative = words_of(sums, MODULUS, TAKEN, INVERSE, ASSEMBLY)
    high, middle, low, below, index = magnitude(words, negative, len(MODULUS) // 2)
    nonzero = high != 0
    length, head, sticky = leading_bits(high, middle, low, below, index, ASSEMBLY)
    if plain:
        bits = rounded_normal(length, head, sticky, base, PRECISION, LOWEST)
    else:
        bits = rounded(length, head, sticky, base, PRECISION, LOWEST, HIGHEST)
    return tl.where(nonzero, bits, 0), negative, length, head, low, index, nonzero


@triton.jit
def facts_of(at, count, inside):
    """Exponents, flags and norms of lines at these places of a table of `count` lines."""
    s = tl.load(at + SCALE * count, inside, other=0).to(tl.int32)
    flags = tl.load(at + FLAGS * count, inside, other=0).to(tl.int32)
    return s, flags, tl.load(at + NORM * count, inside, other=0).to(tl.int32)


@triton.jit
def code_of(is_open, unfit, special, slack):
    """Marks of elements: of one that is unfit, the error may be unknown as well (`slack`)."""
    wrong = tl.where(slack, UNSETTLED, UNFIT)
    code = tl.where(is_open, UNSETTLED, tl.where(unfit, wrong, 0))
    return tl.where(special, SPECIAL_ELEMENT, code)


@triton.jit
def store_marks(
    marks, is_open, unfit, special, inside, SLACK: tl.constexpr, MARKED: tl.constexpr
):  # fmt: skip
    """Store what is not final; with MARKED only that."""
    code = code_of(is_open, unfit, special, SLACK)
    if MARKED:
        tl.store(marks, code.to(tl.uint8), inside & (code > 0))
    else:
        tl.store(marks, code.to(tl.uint8), inside)


SIZES = ["m", "left_batch", "right_batch", "limit", "always", "height"]


@triton.jit(do_not_specialize=SIZES)
def round_residues(
    groups, out, marks, rows_table, columns_table, m, n, pitch, stream, left_batch, right_batch,
    limit, always, part_stride, batch_stride, row_stride, column_stride, height,
    PARTS: tl.constexpr, BASIS: tl.constexpr, MODULUS: tl.constexpr, TAKEN: tl.constexpr,
    INVERSE: tl.constexpr, PRECISION: tl.constexpr, LOWEST: tl.constexpr, HIGHEST: tl.constexpr,
    SLACK: tl.constexpr, MARKED: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr,
    LIMBS: tl.constexpr, ASSEMBLY: tl.constexpr,
):  # fmt: skip
    """Round X 2^-(s+t) into `out`, part by part, and mark what is not final.

    `groups` is (streams * moduli, batch, m, pitch), `stream` bytes from one modulus to the next. An
    element is marked if its line norms exceed `limit` (X may have wrapped), if it meets an
    infinity or a NaN, or (SLACK) if the error of X, bounded as in `bounds`, might change its
    rounding. With MARKED, `marks` hold what the certificate found and are only added to. A program
    takes `height` rows of some columns. With LIMBS, X is put together in float64 and has so many
    limbs (`gpu.limbs`); otherwise in words, which SLACK looks at.
    """
    tiles = tl.cdiv(n, COLUMNS)
    per_item = tl.cdiv(m, height) * tiles
    b, tile = tl.program_id(0) // per_item, tl.program_id(0) % per_item
    start, j = tile // tiles * height, tile % tiles * COLUMNS + tl.arange(0, COLUMNS)
    heights, widths = left_batch * m, right_batch * n
    at_column = columns_table + b % right_batch * n + j
    t, column_flags, column_norm = facts_of(at_column, widths, j < n)
    most, least = tl.max(t, 0), tl.min(t, 0)
    some_special = tl.max(column_flags & SPECIAL, 0)
    largest_norm = tl.max(column_norm, 0)
    words_count: tl.constexpr = LIMBS + 1 if LIMBS > 0 else len(MODULUS) // 2
    for first in range(start, tl.minimum(start + height, m), ROWS):
        i = first + tl.arange(0, ROWS)
        inside = (i < m)[:, None] & (j < n)[None, :]
        loaded = (i < m)[:, None] & (j < pitch)[None, :]
        at_row = rows_table + b % left_batch * m + i
        s, row_flags, row_norm = facts_of(at_row, heights, i < m)
        base = -(s[:, None] + t[None, :])
        # Nothing to mark, and normal numbers whatever X is.
        plain = (tl.max(row_flags & SPECIAL, 0) | some_special) == 0
        plain &= tl.max(row_norm, 0) + largest_norm <= limit
        plain &= 1 - PRECISION - tl.max(s, 0) - most > LOWEST
        plain &= 32 * words_count - tl.min(s, 0) - least < HIGHEST
        groups_at = groups + (wide(b) * m + i)[:, None] * pitch + j[None, :]
        target = out + wide(b) * batch_stride + i.to(tl.int64)[:, None] * row_stride
        target += j.to(tl.int64)[None, :] * column_stride
        open_element = tl.zeros(base.shape, tl.int1)
        if SLACK:
            error = error_bits(
                at_row, at_column, heights, widths, i < m, j < n, row_flags, column_flags, always
            )
        if LIMBS > 0:
            ours = pair_sums(groups_at, stream, loaded, BASIS, LIMBS, ASSEMBLY)
            theirs, third = ours, ours
            if PARTS == 2:
                apart = wide(stream) * moduli_in_pairs(BASIS)
                theirs = pair_sums(groups_at + apart, stream, loaded, BASIS, LIMBS, ASSEMBLY)
                third = pair_sums(groups_at + 2 * apart, stream, loaded, BASIS, LIMBS, ASSEMBLY)
            for part in tl.static_range(PARTS):
                sums = part_of(ours, theirs, third, part) if PARTS == 2 else ours
                limbs = limbs_of(sums, INVERSE, MODULUS, LIMBS)
                if plain:
                    bits = normal_bits(limbs, base, LIMBS, PRECISION, ASSEMBLY)
                    tl.store(target + part * part_stride, bits, inside)
                else:
                    bits = any_bits(limbs, base, LIMBS, PRECISION, LOWEST, HIGHEST)
                    tl.store(target + part * part_stride, bits, inside)
        else:
            ours = group_sums(groups_at, stream, loaded, BASIS, ASSEMBLY)
            theirs, third = ours, ours
            if PARTS == 2:
                apart = wide(stream) * moduli_in(BASIS)
                theirs = group_sums(groups_at + apart, stream, loaded, BASIS, ASSEMBLY)
                third = group_sums(groups_at + 2 * apart, stream, loaded, BASIS, ASSEMBLY)
            for part in tl.static_range(PARTS):
                sums = combined(ours, theirs, third, part, BASIS, MODULUS) if PARTS == 2 else ours
                bits, negative, length, head, low, index, nonzero = round_part(
                    sums, base, plain, MODULUS, TAKEN, INVERSE, PRECISION, LOWEST, HIGHEST,
                    ASSEMBLY,
                )  # fmt: skip
                store_float(target + part * part_stride, bits, negative, inside, PRECISION)
                if SLACK:
                    settled = is_settled(
                        length, head, low, index, nonzero, base, error, PRECISION, LOWEST, HIGHEST
                    )
                    open_element |= (error >= 2) & ~settled
        if SLACK or not MARKED or not plain:
            unfit = row_norm[:, None] + column_norm[None, :] > limit
            special = ((row_flags & SPECIAL)[:, None] | (column_flags & SPECIAL)[None, :]) > 0
            at = marks + (wide(b) * m + i)[:, None] * n + j[None, :]
            store_marks(at, open_element, unfit, special, inside, SLACK, MARKED)
