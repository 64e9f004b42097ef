"""Sums for the Chinese remainder theorem, several moduli at a time: device functions only.

X is the sum of c_i P/p_i modulo P, c_i = (residue of X) (P/p_i)^-1 mod p_i. A group G is of SIZE
moduli, three or two of those in two digits; P_G is their product, S_G the sum of c_i P_G/p_i, and X
the sum of S_G P/P_G modulo P: the same integer with a third of the long products. Of other units'
moduli, whose c_i are 32-bit numbers of one part after the other, each is a group. A row of the
table has the P_G/p_i (three words), P_G, what stands for 1/P_G, and limbs of P/P_G. Where X is put
together in memory, it has the highest limb below the last chunk after 1/P_G, and limbs from word 8
on, of X times a power of two, so that P takes all bits. `gpu.constants` makes it, and
sees to it that nothing exceeds 64 bits.
"""

from __future__ import annotations

import triton
import triton.language as tl

from widen.gpu.kernels.triton.numbers import wide
from widen.gpu.kernels.triton.packed import times_add

HEADER = tl.constexpr(4)  # words of a row before the one that stands for 1/P_G
AHEAD = tl.constexpr(2)  # groups whose numbers are loaded while others are multiplied
TOGETHER = tl.constexpr(4)  # groups whose numbers are loaded before any is used


@triton.constexpr_function
def at_a_time(groups, streams):
    """How many of so many groups: each load costs the compiler a look at everything."""
    return int(groups) if streams == 1 else 1


@triton.jit
def four_words(at, ASSEMBLY: tl.constexpr):
    """Four neighbouring words of a table, the same for all elements."""
    if ASSEMBLY:  # one load; Triton has none for numbers that are not in a tensor
        return tl.inline_asm_elementwise(
            "ld.global.nc.v4.b32 {$0, $1, $2, $3}, [$4];", "=r,=r,=r,=r,l", [at.to(tl.int64)],
            (tl.int32, tl.int32, tl.int32, tl.int32), True, 1,
        )  # fmt: skip
    else:
        return tl.load(at), tl.load(at + 1), tl.load(at + 2), tl.load(at + 3)


@triton.jit
def below(value, modulus, MULTIPLE: tl.constexpr):
    """A uint32 below 2 MULTIPLE times the modulus becomes one below MULTIPLE times it."""
    less = value - (modulus * MULTIPLE).to(tl.uint32)  # wraps around if that is too much
    return tl.minimum(value, less)


@triton.jit
def loaded(
    groups, stream, first, moduli, inside, SIZE: tl.constexpr, STREAMS: tl.constexpr,
    COUNT: tl.constexpr,
):  # fmt: skip
    """The c_i of COUNT groups, plus a multiple of p_i; 0 where there are no more moduli.

    Those of moduli in two digits are sums of three numbers, of low digits, of high ones and of
    sums: -6 to 3p.
    """
    values = ()
    apart = wide(moduli) * stream
    numbers: tl.constexpr = 3 if SIZE == 2 else 1
    start = wide(SIZE * first) * stream
    for i in tl.static_range(SIZE * COUNT):
        there = inside & (tl.full(inside.shape, SIZE * first + i, tl.int32) < moduli)
        at = start + i * wide(stream)
        for of_stream in tl.static_range(STREAMS):
            place = at + numbers * of_stream * apart
            value = tl.load(groups + place, there, other=0).to(tl.int32)
            for more in tl.static_range(1, numbers):
                value += tl.load(groups + (place + more * apart), there, other=0).to(tl.int32)
            values = values + (value,)
    return values


@triton.jit
def row_of(basis, length, g, count, ASSEMBLY: tl.constexpr):
    """Where row g is, its factors and P_G: 0 if there are not so many rows."""
    row = basis + tl.minimum(g, count - 1) * length
    first, second, third, whole = four_words(row, ASSEMBLY)
    keep = (tl.full((), 0, tl.int32) + g < count).to(tl.int32)
    return row, (first * keep, second * keep, third * keep), whole * keep


@triton.jit
def of_streams(sums, most, STREAMS: tl.constexpr):
    """A part's sum from those of x x', y y' and (x + y)(x' + y'), plus a multiple of `most`."""
    if STREAMS == 1:
        return sums[0]
    elif STREAMS == 2:
        return sums[0] - sums[1] + most
    else:
        return sums[2] - sums[0] - sums[1] + 2 * most


@triton.jit
def value_of(
    numbers, factors, whole, FIRST: tl.constexpr, SIZE: tl.constexpr, STREAMS: tl.constexpr
):  # fmt: skip
    """The sum S of a group: c_1 p_2 p_3 + c_2 p_1 p_3 + c_3 p_1 p_2, or c_1 p_2 + c_2 p_1.

    Of three moduli it is below three times their product `whole`, or nine times for a part of a
    complex X, of two in two digits below their product. Where there are fewer, factors are 0.
    """
    sums = ()
    for stream in tl.static_range(STREAMS):
        total = numbers[FIRST + stream] * factors[0]
        for i in tl.static_range(1, SIZE):
            total += numbers[FIRST + STREAMS * i + stream] * factors[i]
        if SIZE == 2:
            value = (total + whole).to(tl.uint32)
            value = below(below(below(value, whole, 4), whole, 2), whole, 1)
            total = value.to(tl.int32)
        sums = sums + (total,)
    most = whole if SIZE == 2 else 3 * whole
    value = of_streams(sums, most, STREAMS).to(tl.uint32)
    if SIZE == 2 and STREAMS > 1:
        value = below(below(value, whole, 2), whole, 1)
    return value


@triton.jit
def plus_multiple(sums, value, at, ASSEMBLY: tl.constexpr):
    """Sums, with a value times the words of a table there added."""
    more = ()
    for quad in tl.static_range((len(sums) + 3) // 4):
        words = four_words(at + 4 * quad, ASSEMBLY)
        for i in tl.static_range(4):
            if 4 * quad + i < len(sums):
                word = words[i].to(tl.uint32)
                more = more + (times_add(value, word, sums[4 * quad + i], ASSEMBLY),)
    return more


@triton.jit
def values_of(
    numbers, basis, length, first, count, SIZE: tl.constexpr, STREAMS: tl.constexpr,
    COUNT: tl.constexpr, ASSEMBLY: tl.constexpr,
):  # fmt: skip
    """The sums S of COUNT groups, 0 where there are no more."""
    values = ()
    for i in tl.static_range(COUNT):
        _, factors, whole = row_of(basis, length, first + i, count, ASSEMBLY)
        value = value_of(numbers, factors, whole, i * SIZE * STREAMS, SIZE, STREAMS)
        values = values + (value,)
    return values


@triton.jit
def plus_groups(
    sums, groups, stream, moduli, basis, length, inside, SIZE: tl.constexpr,
    STREAMS: tl.constexpr, ASSEMBLY: tl.constexpr,
):  # fmt: skip
    """Sums, with every S_G times its row's 1/P_G and limbs added.

    Numbers are loaded while others are multiplied; those of moduli in two digits, few, are not.
    """
    step: tl.constexpr = at_a_time(AHEAD, STREAMS)
    count = (moduli + SIZE - 1) // SIZE
    if SIZE != 2:
        numbers = loaded(groups, stream, 0, moduli, inside, SIZE, STREAMS, step)
        values = values_of(numbers, basis, length, 0, count, SIZE, STREAMS, step, ASSEMBLY)
    for g in range(0, count, step):
        if SIZE == 2:
            more = loaded(groups, stream, g, moduli, inside, SIZE, STREAMS, step)
            values = values_of(more, basis, length, g, count, SIZE, STREAMS, step, ASSEMBLY)
        else:
            more = loaded(groups, stream, g + step, moduli, inside, SIZE, STREAMS, step)
        for i in tl.static_range(step):
            row = basis + tl.minimum(g + i, count - 1) * length
            sums = plus_multiple(sums, values[i], row + HEADER, ASSEMBLY)
        if SIZE != 2:
            values = values_of(more, basis, length, g + step, count, SIZE, STREAMS, step, ASSEMBLY)
    return sums


@triton.jit
def store_values(
    sums, groups, stream, moduli, basis, length, inside, to, stride, SIZE: tl.constexpr,
    STREAMS: tl.constexpr, ASSEMBLY: tl.constexpr,
):  # fmt: skip
    """Store every S_G, and zeros up to TOGETHER - 1 after them; add their multiples to two sums.

    Those are of what stands for 1/P_G, and of the word after it.
    """
    step: tl.constexpr = at_a_time(TOGETHER, STREAMS)
    count = (moduli + SIZE - 1) // SIZE
    for g in range(0, count, step):
        numbers = loaded(groups, stream, g, moduli, inside, SIZE, STREAMS, step)
        for i in tl.static_range(step):
            row, factors, whole = row_of(basis, length, g + i, count, ASSEMBLY)
            value = value_of(numbers, factors, whole, i * SIZE * STREAMS, SIZE, STREAMS)
            inverse, limb, _, _ = four_words(row + HEADER, ASSEMBLY)
            sums = (
                times_add(value, inverse.to(tl.uint32), sums[0], ASSEMBLY),
                times_add(value, limb.to(tl.uint32), sums[1], ASSEMBLY),
            )
            tl.store(to + wide(g + i) * stride, value.to(tl.int32, bitcast=True))
    return sums


@triton.jit
def plus_values(
    sums, values, stride, count, basis, length, ASSEMBLY: tl.constexpr
):  # fmt: skip
    """Sums, with values from memory times limbs in `basis`, a row each, added."""
    value = tl.load(values).to(tl.uint32, bitcast=True)
    for g in range(count):
        more = tl.load(values + wide(tl.minimum(g + 1, count - 1)) * stride)
        sums = plus_multiple(sums, value, basis + g * length, ASSEMBLY)
        value = more.to(tl.uint32, bitcast=True)
    return sums
