"""Products of planes by a list, for any unit, and their sums as residues of X.

Groups are exact integers. X follows from them by weights; reconstruction wants its residues times
Chinese remainder coefficients: bytes by the moduli of int8, or for numbers of several words 32-bit
numbers by any moduli.
"""

from __future__ import annotations

import triton
import triton.language as tl

from widen.gpu.kernels.triton.multiply import sum_of_products, tile_at
from widen.gpu.kernels.triton.numbers import wide
from widen.gpu.kernels.triton.planes import reduced

LOW_BITS = tl.constexpr(26)
LOW_MASK = tl.constexpr((1 << 26) - 1)


@triton.jit
def product_of(left, right, ours, theirs, h, PLAIN: tl.constexpr):
    """The product of two tiles, float32 sums."""
    x, y = left.load([ours, h]), right.load([theirs, h])
    if PLAIN:
        return tl.dot(x, y.T, out_dtype=tl.float32)
    return tl.dot(
        x.to(tl.float32), y.to(tl.float32).T, out_dtype=tl.float32, input_precision="ieee"
    )


@triton.jit
def sum_of_short_sums(
    left, right, ours, theirs, start, stop, one,
    ROWS: tl.constexpr, COLUMNS: tl.constexpr, INNER: tl.constexpr, SHORT: tl.constexpr,
    PLAIN: tl.constexpr,
):  # fmt: skip
    """The same where the accumulator is emptied every SHORT terms, into float32 sums.

    If that is every step: `one` is 1.0; a compiler that knew it would add to the accumulator
    instead. If it is more often, the compiler does it, which it knows how to do for Hopper's FP8.
    """
    total = tl.zeros((ROWS, COLUMNS), tl.float32)
    for h in range(start, stop, INNER):
        if PLAIN and SHORT < INNER:
            x, y = left.load([ours, h]), right.load([theirs, h])
            total = tl.dot(x, y.T, total, max_num_imprecise_acc=SHORT)
        else:
            total += product_of(left, right, ours, theirs, h, PLAIN) * one
    return total


@triton.jit
def sum_of_floats(
    left, right, ours, theirs, start, stop,
    ROWS: tl.constexpr, COLUMNS: tl.constexpr, INNER: tl.constexpr, PLAIN: tl.constexpr,
):  # fmt: skip
    """Sums over [start, stop) of rows of two descriptors, in the accumulator of the unit."""
    total = tl.zeros((ROWS, COLUMNS), tl.float32)
    for h in range(start, stop, INNER):
        if PLAIN:
            total = tl.dot(left.load([ours, h]), right.load([theirs, h]).T, total)
        else:
            total += product_of(left, right, ours, theirs, h, PLAIN)
    return total


SIZES = ["m", "k", "groups", "batch", "left_batch", "right_batch", "depth", "one"]


@triton.jit(do_not_specialize=SIZES)
def products(
    left, right, out, firsts, pairs, m, n, k, pitch, groups, batch, left_batch, right_batch, depth,
    one,
    ROWS: tl.constexpr, COLUMNS: tl.constexpr, INNER: tl.constexpr, GROUP: tl.constexpr,
    SHORT: tl.constexpr, PLAIN: tl.constexpr,
):  # fmt: skip
    """out[g, b] = sum of left[x, b] right[y, b]^T over the pairs (x, y) of group g, exactly.

    `left` and `right` are descriptors of planes (planes * batch * rows, inner); the pairs of group
    g are firsts[g] up to firsts[g + 1]. Sums are exact over `depth` terms, a multiple of INNER, in
    the unit's accumulator, or if SHORT is not 0 over so many there and over `depth` in float32.
    `one` is 1.0. Without PLAIN tiles are multiplied as float32: Triton's interpreter knows no
    products of bfloat16.
    """
    dtype: tl.constexpr = out.dtype.element_ty
    rows, columns = tl.cdiv(m, ROWS), tl.cdiv(n, COLUMNS)
    for tile in range(tl.program_id(0), groups * batch * rows * columns, tl.num_programs(0)):
        item = tile // (rows * columns)
        row, column = tile_at(tile % (rows * columns), rows, columns, GROUP)
        g, b = item // batch, item % batch
        total = tl.zeros((ROWS, COLUMNS), dtype)
        for at in range(tl.load(firsts + g), tl.load(firsts + g + 1)):
            ours = (tl.load(pairs + 2 * at) * left_batch + b % left_batch) * m
            theirs = (tl.load(pairs + 2 * at + 1) * right_batch + b % right_batch) * n
            for start in range(0, k, depth):
                stop = tl.minimum(start + depth, k)
                if left.dtype == tl.int8:
                    part = sum_of_products(
                        left, right, ours, theirs, row, column, start, stop, ROWS, COLUMNS, INNER
                    )
                elif SHORT > 0:
                    part = sum_of_short_sums(
                        left, right, ours + row * ROWS, theirs + column * COLUMNS, start, stop, one,
                        ROWS, COLUMNS, INNER, SHORT, PLAIN,
                    )  # fmt: skip
                else:
                    part = sum_of_floats(
                        left, right, ours + row * ROWS, theirs + column * COLUMNS, start, stop,
                        ROWS, COLUMNS, INNER, PLAIN,
                    )  # fmt: skip
                total += part.to(dtype)
        i, j = row * ROWS + tl.arange(0, ROWS), column * COLUMNS + tl.arange(0, COLUMNS)
        to = out + (wide(item) * m + i)[:, None] * pitch + j[None, :]
        tl.store(to, total, (i < m)[:, None] & (j < n)[None, :])


@triton.jit
def weighted(groups, stream, inside, terms, count, p, reciprocal):
    """sum(w group) mod p in [0, p), as int64.

    `terms` are (place of the group, w mod p, 2^26 w mod p); |group| < 2^53 and p < 2^24, so that a
    term stays below 2^51.
    """
    total = tl.zeros(inside.shape, tl.int64)
    for t in range(count):
        at = groups + wide(tl.load(terms + 3 * t)) * stream
        value = tl.load(at, inside, other=0).to(tl.int64)
        total += (value & LOW_MASK) * tl.load(terms + 3 * t + 1)
        total += (value >> LOW_BITS) * tl.load(terms + 3 * t + 2)
    rest = reduced(tl.abs(total).to(tl.uint64), p.to(tl.uint64), reciprocal).to(tl.int64)
    return tl.where((total < 0) & (rest > 0), p - rest, rest)


@triton.jit(do_not_specialize=["rows", "count"])
def as_residues(groups, out, size, terms, moduli, rows, count, BLOCK: tl.constexpr):
    """out[row] = sum(w group) mod p, in [0, p).

    That is all where X is a sum of weighted groups, or where moduli are the carrier's own. Both
    are (.., size); a row has `count` terms, and (p, floor(2^64/p)) in `moduli`.
    """
    element = wide(tl.program_id(0)) * BLOCK + tl.arange(0, BLOCK)
    inside = element < size
    for row in range(rows):
        p = tl.load(moduli + 2 * row)
        reciprocal = tl.load(moduli + 2 * row + 1).to(tl.uint64, bitcast=True)
        rest = weighted(
            groups + element, size, inside, terms + 3 * count * row, count, p, reciprocal
        )
        tl.store(out + wide(row) * size + element, rest.to(out.dtype.element_ty), inside)


@triton.jit(do_not_specialize=["targets", "count"])
def through_x(
    groups, out, size, terms, moduli, inverses, targets_table, basis, targets, count,
    PARTS: tl.constexpr, MODULI: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """The same for other moduli: X = sum c_i P/p_i - q P first, then X modulo every byte's modulus.

    c_i in [0, p_i) are sums of `count` groups by `terms` and (p, floor(2^64/p)) in `moduli`;
    q = rint(sum c_i/p_i) by float32 `inverses`: |X|/P < 1/2 - 2^-9, and fifty terms err by 2^-13.
    `basis` has rows (w P/p_i mod p of all i, then -w P mod p), and `targets_table` p and
    floor(2^64/p) of every byte. Complex numbers give re, 0, re + im, which the reconstruction takes
    for its three products.
    """
    element = wide(tl.program_id(0)) * BLOCK + tl.arange(0, BLOCK)
    inside = element < size
    rests, quotients = (), ()
    for part in tl.static_range(PARTS):
        quotient = tl.zeros((BLOCK,), tl.float32)
        for i in tl.static_range(MODULI):
            p = tl.load(moduli + 2 * i)
            reciprocal = tl.load(moduli + 2 * i + 1).to(tl.uint64, bitcast=True)
            start = terms + 3 * count * (part * MODULI + i)
            rest = weighted(groups + element, size, inside, start, count, p, reciprocal)
            rests = rests + (rest.to(tl.int32),)
            quotient += rest.to(tl.float32) * tl.load(inverses + i)
        quotients = quotients + ((quotient + 0.5).to(tl.int32),)
    for t in range(targets):
        byte_p = tl.load(targets_table + 2 * t).to(tl.uint64)
        byte_reciprocal = tl.load(targets_table + 2 * t + 1).to(tl.uint64, bitcast=True)
        row = basis + t * (MODULI + 1)
        both = tl.zeros((BLOCK,), tl.uint64)
        for part in tl.static_range(PARTS):
            total = quotients[part].to(tl.int64) * tl.load(row + MODULI)
            for i in tl.static_range(MODULI):
                total += rests[part * MODULI + i].to(tl.int64) * tl.load(row + i)
            both += reduced(total.to(tl.uint64), byte_p, byte_reciprocal)
            if part == 0:
                tl.store(out + wide(t) * size + element, both.to(tl.uint8), inside)
        if PARTS == 2:
            both = tl.minimum(both, both - byte_p)
            tl.store(out + wide(targets + t) * size + element, (both * 0).to(tl.uint8), inside)
            tl.store(out + wide(2 * targets + t) * size + element, both.to(tl.uint8), inside)
