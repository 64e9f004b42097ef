"""Encoding of numbers of several words: a long integer each, then its residues in planes of int8.

Integers of few bytes are multiplied by the residues of 256^i four bytes at a time; the bytes of
longer ones times these are a product of int8 matrices, elements by moduli, which tensor cores
compute. What is left is a reduction of every sum. The kernel stands apart from `encode`, whose
integers are always eight bytes and which reads both operands in one launch.

The integer is round(x 2^s), to nearest even, of the value x: its words are put, in two's
complement, into limbs of 64 bits, the lowest of which is below the point, and the sum is rounded.
Words of a canonical number do not overlap, so they are put there without carries:

- A word v whose lower neighbours sum to S < 0 has v - 1 in its place, and S's sign fills all bits
  above S. Both together: -v instead of v, its own sign above it, and all of it by exclusive or,
  since v - 1 = ~(-v). `below` is -1 where S < 0.
- A word whose last bit is below the lowest limb leaves its sign alone, and `tail` not zero. The
  words above it, a sum A, end above its first bit: A is 1/2 and a multiple of something or not, so
  that A > 1/2, A = 1/2 with a tail that is positive, negative (then A - 2^-64 stands there) or
  zero, and A < 1/2 are all told apart.
"""

from __future__ import annotations

import triton
import triton.language as tl

from widen.gpu.kernels.triton.encode import balanced, balanced_parts, store_four
from widen.gpu.kernels.triton.numbers import SCALE, decode, wide
from widen.gpu.kernels.triton.packed import dot4, four_bytes, quads, xor_where


@triton.jit
def put(limbs, u, t, HIGHEST: tl.constexpr, ASSEMBLY: tl.constexpr):
    """Limbs with the two that u 2^t covers changed, by exclusive or: what is above has its sign.

    U 2^t does not reach beyond limb HIGHEST, its sign one further.
    """
    up, place = (t & 63).to(tl.int64), t >> 6
    low, high = u << up, (u >> 1) >> (63 - up)
    more = ()
    for j in tl.static_range(len(limbs)):
        limb = limbs[j]
        if j <= HIGHEST:
            limb = xor_where(limb, place, j, low, ASSEMBLY)
        if j > 0 and j - 1 <= HIGHEST:
            limb = xor_where(limb, place, j - 1, high, ASSEMBLY)
        more = more + (limb,)
    return more


@triton.constexpr_function
def highest(w, words, word_bits, longs):
    """The highest limb of the word that is number w from the last."""
    return max(longs - (words - 1 - w) * word_bits // 64, 0)


@triton.jit
def loaded(at, word_stride, inside, BEGIN: tl.constexpr, END: tl.constexpr):
    """Words number BEGIN to END, counted from the last."""
    words = ()
    for w in tl.static_range(BEGIN, END):
        words = words + (tl.load(at + w * word_stride, inside, other=0),)
    return words


@triton.jit
def integer_of(
    at, s, word_stride, inside, WORDS: tl.constexpr, WORD_BITS: tl.constexpr,
    FRACTION: tl.constexpr, EXPONENT: tl.constexpr, LONGS: tl.constexpr, ASSEMBLY: tl.constexpr,
):  # fmt: skip
    """Limbs whose bytes, from -128 to 127 each, are the digits of round(x 2^s) to base 256."""
    limbs = ()
    for _ in tl.static_range(LONGS + 1):
        limbs = limbs + (tl.zeros(inside.shape, tl.int64),)
    # Bit j: whether signs that end in limb j change all limbs from there on.
    flips = tl.zeros(inside.shape, tl.int32 if LONGS <= 28 else tl.int64)
    below, tail = tl.zeros(inside.shape, tl.int32), tl.zeros(inside.shape, tl.int32)
    last = at + (WORDS - 1) * word_stride
    ahead: tl.constexpr = 2  # words are on their way while as many are put into limbs
    held = loaded(last, -word_stride, inside, 0, ahead if ahead < WORDS else WORDS)
    for w in tl.static_range(WORDS):
        if w % ahead == 0 and w + ahead < WORDS:
            held = held + loaded(
                last, -word_stride, inside, w + ahead,
                w + 2 * ahead if w + 2 * ahead < WORDS else WORDS,
            )  # fmt: skip
        x = held[w].to(tl.int64)
        m, e = decode(x, FRACTION, EXPONENT)
        t = e + (s + 64)
        minus, before = x >> 63, below.to(tl.int64)
        v = (m ^ minus) + (before - minus)
        u = v ^ before
        below = (v >> 63).to(tl.int32)
        sign = (u >> 63).to(tl.int32)
        tail |= tl.where(t < 0, m.to(tl.int32) | (m >> 32).to(tl.int32), 0)
        u = tl.where(t < 0, sign.to(tl.int64), u)
        t = tl.minimum(tl.maximum(t, 0), 64 * LONGS + 63)
        flips ^= (sign & 1).to(flips.dtype) << ((t >> 6) + 2)
        limbs = put(limbs, u, t, highest(w, WORDS, WORD_BITS, LONGS), ASSEMBLY)
    # Half a unit but for one of its last bits, and that too if the integer is odd or a tail is
    # there; then 128 in every byte, which exclusive or takes away again, makes digits signed.
    digits = ()
    run = tl.zeros(inside.shape, tl.int32)
    carry = ((limbs[1].to(tl.int32) & 1) | (tail != 0).to(tl.int32)).to(tl.uint64)
    for j in tl.static_range(LONGS + 1):
        if j > 1:
            run ^= ((flips >> j) & 1).to(tl.int32)
        limb = (limbs[j] ^ (-run).to(tl.int64)).to(tl.uint64, bitcast=True)
        if j == 0:
            added = carry + 0x7FFFFFFFFFFFFFFF
        elif j < LONGS:
            added = carry + 0x8080808080808080
        else:  # the last byte is signed as it is
            added = carry + 0x0080808080808080
        limb += added
        carry = (limb < added).to(tl.uint64)
        if j == LONGS:
            digits = digits + ((limb ^ 0x0080808080808080).to(tl.int64, bitcast=True),)
        elif j > 0:
            digits = digits + ((limb ^ 0x8080808080808080).to(tl.int64, bitcast=True),)
    return digits


@triton.jit
def joined(tensors):
    """Tensors, a power of two of them, side by side on a last axis of as many twos."""
    if len(tensors) == 1:
        return tensors[0]
    else:
        half: tl.constexpr = len(tensors) // 2
        more = ()
        for i in tl.static_range(half):
            more = more + (tl.join(tensors[i], tensors[i + half]),)
        return joined(more)


@triton.jit
def bytes_of(
    limbs, ROOM: tl.constexpr, NEAR: tl.constexpr, LINES: tl.constexpr, INNER: tl.constexpr
):  # fmt: skip
    """Bytes of ROOM limbs, those that are not there zero: (elements, 8 ROOM), sorted as rows.

    A thread has rows r, r + 8 and r + 64 of a product: these are four neighbours of a line. Rows r
    to r + 7, which lie in different banks of shared memory, are other fours of the line, or of
    neighbouring lines if NEAR: what a warp loads together.
    """
    elements: tl.constexpr = LINES * INNER
    held = limbs
    for _ in tl.static_range(ROOM - len(limbs)):
        held = held + (tl.zeros_like(limbs[0]),)
    x = joined(held)
    each = ()
    for i in tl.static_range(8):
        each = each + ((x >> (8 * i)).to(tl.int8),)
    rows = joined(each)
    if NEAR:
        rows = tl.reshape(rows, (LINES, INNER // 4, 4 * 8 * ROOM))
        rows = tl.permute(rows, (1, 0, 2))
    rows = tl.reshape(rows, (elements // 128, 4, 8, 2, 2, 8 * ROOM))
    return tl.reshape(tl.permute(rows, (0, 3, 1, 4, 2, 5)), (elements, 8 * ROOM))


@triton.jit
def store_bytes(place, values, written, FORM: tl.constexpr):
    """Store the lowest bytes of (elements, columns), in rows as above, four in a word.

    FORM is NEAR, LINES, INNER, how many columns, and ASSEMBLY.
    """
    lines: tl.constexpr = FORM[1]
    words: tl.constexpr = FORM[2] // 4
    columns: tl.constexpr = FORM[3]
    x = tl.reshape(values, (lines * words // 32, 2, 4, 2, 8, columns))
    x = tl.permute(x, (0, 2, 4, 5, 1, 3))
    if FORM[0]:
        x = tl.permute(tl.reshape(x, (words, lines, columns, 2, 2)), (1, 0, 2, 3, 4))
    even, odd = tl.split(tl.reshape(x, (lines, words, columns, 2, 2)))
    first, third = tl.split(even)
    second, fourth = tl.split(odd)
    tl.store(place, four_bytes(first, second, third, fourth, FORM[4]), written)


@triton.jit
def store_digits(place, r, plane, long_moduli, written, FORM: tl.constexpr):
    """Store residues below 8256 in two digits of base 128, and their sums: 64 and 128 at most."""
    high = (r + 64) >> 7
    low = r - 128 * high
    store_bytes(place, low, written, FORM)
    place += wide(long_moduli) * plane
    store_bytes(place, high, written, FORM)
    place += wide(long_moduli) * plane
    store_bytes(place, low + high, written, FORM)


@triton.jit
def tile_of(
    bits, table, count, planes, lines, inner, pitch, batch_stride, line_stride, inner_stride,
    PACKED: tl.constexpr, LINES: tl.constexpr, INNER: tl.constexpr,
):  # fmt: skip
    """Where a program's first words are, s, which are there; and its part of a plane, likewise.

    A word of a plane has PACKED entries. `pitch` is a multiple of 16.
    """
    tiles, stretches = tl.cdiv(lines, LINES), tl.cdiv(pitch, INNER)
    tile, stretch = tl.program_id(0) // stretches, tl.program_id(0) % stretches
    b, first = tile // tiles, tile % tiles * LINES
    line, h = first + tl.arange(0, LINES), stretch * INNER + tl.arange(0, INNER)
    inside = (line < lines)[:, None] & (h < inner)[None, :]
    at = bits + wide(b) * batch_stride + line.to(tl.int64)[:, None] * line_stride
    at += h.to(tl.int64)[None, :] * inner_stride
    s = tl.load(table + SCALE * count + b * lines + line, line < lines, other=0).to(tl.int32)
    word = stretch * (INNER // PACKED) + tl.arange(0, INNER // PACKED)
    words = tl.multiple_of(pitch // PACKED, 4)
    target = (planes + (wide(b) * lines + line) * words)[:, None] + word[None, :]
    written = (line < lines)[:, None] & (word < words)[None, :]
    return at, s[:, None], inside, target, written


@triton.jit
def quarters_of(limbs, LINES: tl.constexpr, INNER: tl.constexpr):
    """Limbs of 32 bits of the first, second, third and fourth of every four neighbours."""
    first, second, third, fourth = (), (), (), ()
    for j in tl.static_range(2 * len(limbs)):
        half = (limbs[j // 2] >> (32 * (j % 2))).to(tl.int32)
        one, two, three, four = quads(half, LINES, INNER)
        first, second = first + (one,), second + (two,)
        third, fourth = third + (three,), fourth + (four,)
    return first, second, third, fourth


@triton.jit
def weighed(limbs, at, ASSEMBLY: tl.constexpr):
    """The sum of the bytes of limbs times their weights."""
    total = tl.zeros(limbs[0].shape, tl.int32)
    for j in tl.static_range(len(limbs)):
        total = dot4(limbs[j], tl.load(at + j), total, True, ASSEMBLY)
    return total


@triton.jit
def store_by_bytes(
    sides, target, written, plane_stride, constants, weights, moduli, PARTS: tl.constexpr,
    LONGS: tl.constexpr, ASSEMBLY: tl.constexpr,
):  # fmt: skip
    """Store the residues of `quarters_of` every part, modulo p <= 256."""
    plane = wide(plane_stride // 4)
    rows = weights.to(tl.pointer_type(tl.int32), bitcast=True)
    for c in range(moduli):
        minus_p = tl.load(constants + c)
        inverse = tl.load(constants + moduli + c).to(tl.float32, bitcast=True)
        four = ()
        for i in tl.static_range(4):
            x = weighed(sides[0][i], rows + c * (2 * LONGS), ASSEMBLY)
            y = weighed(sides[1][i], rows + c * (2 * LONGS), ASSEMBLY) if PARTS == 2 else x
            four = four + (balanced_parts(x, y, minus_p, inverse, PARTS),)
        store_four(target + wide(c) * plane, four, wide(moduli) * plane, written, ASSEMBLY)


@triton.jit
def store_by_products(
    sides, target, written, plane_stride, constants, weights, moduli, long_moduli,
    PARTS: tl.constexpr, LONG_MODULI: tl.constexpr, ROOM: tl.constexpr, FORM: tl.constexpr,
):  # fmt: skip
    """Store the residues of `bytes_of` every part."""
    plane = wide(tl.multiple_of(plane_stride // 4, 4))
    target, written = target[:, :, None], written[:, :, None]
    columns: tl.constexpr = FORM[3]
    column = tl.arange(0, columns)
    stream = (moduli + 3 * long_moduli) * plane
    filled = tl.cdiv(moduli, columns) * columns
    rows = filled + tl.cdiv(long_moduli, columns) * columns
    at_weights = weights + column[None, :] * (8 * ROOM) + tl.arange(0, 8 * ROOM)[:, None]
    for start in range(0, moduli, columns):
        c = start + column
        minus_p = tl.load(constants + c)[None, :]
        inverse = tl.load(constants + rows + c).to(tl.float32, bitcast=True)[None, :]
        factors = tl.load(at_weights)
        at_weights += columns * 8 * ROOM
        place = target + (c.to(tl.int64) * plane)[None, None, :]
        there = written & (c < moduli)[None, None, :]
        r = balanced(tl.dot(sides[0], factors, out_dtype=tl.int32), minus_p, inverse)
        store_bytes(place, r, there, FORM)
        if PARTS == 2:
            x = tl.dot(sides[1], factors, out_dtype=tl.int32)
            both = balanced(r.to(tl.int8).to(tl.int32) + x, minus_p, inverse)
            store_bytes(place + stream, balanced(x, minus_p, inverse), there, FORM)
            store_bytes(place + 2 * stream, both, there, FORM)
    if LONG_MODULI:
        for start in range(0, long_moduli, columns):
            c = start + column
            minus_p = tl.load(constants + filled + c)[None, :]
            inverse = tl.load(constants + rows + filled + c).to(tl.float32, bitcast=True)[None, :]
            lows = tl.load(at_weights)
            at_weights += columns * 8 * ROOM
            highs = tl.load(at_weights)
            at_weights += columns * 8 * ROOM
            place = target + ((moduli + c).to(tl.int64) * plane)[None, None, :]
            there = written & (c < long_moduli)[None, None, :]
            high = tl.dot(sides[0], highs, out_dtype=tl.int32)
            # A difference: the compiler would start the product from a sum.
            x = tl.dot(sides[0], lows, out_dtype=tl.int32) - high * -128
            r = balanced(x, minus_p, inverse)
            store_digits(place, r, plane, long_moduli, there, FORM)
            if PARTS == 2:
                high = tl.dot(sides[1], highs, out_dtype=tl.int32)
                x = tl.dot(sides[1], lows, out_dtype=tl.int32) - high * -128
                both = balanced(((r << 10) >> 10) + x, minus_p, inverse)
                r = balanced(x, minus_p, inverse)
                store_digits(place + stream, r, plane, long_moduli, there, FORM)
                store_digits(place + 2 * stream, both, plane, long_moduli, there, FORM)


SIZES = ["count", "pitch", "plane_stride", "moduli", "long_moduli"]


@triton.jit(do_not_specialize=SIZES)
def residues(
    bits, table, count, planes, lines, inner, pitch, plane_stride, word_stride, part_stride,
    batch_stride, line_stride, inner_stride, constants, weights, moduli, long_moduli,
    WORDS: tl.constexpr, WORD_BITS: tl.constexpr, PARTS: tl.constexpr, FRACTION: tl.constexpr,
    EXPONENT: tl.constexpr, LONGS: tl.constexpr, ASSEMBLY: tl.constexpr, LINES: tl.constexpr,
    INNER: tl.constexpr, LONG_MODULI: tl.constexpr, ROOM: tl.constexpr, NEAR: tl.constexpr,
    COLUMNS: tl.constexpr,
):  # fmt: skip
    """planes[c] = residues modulo p_c of round(x 2^s), (planes, batch, lines, pitch).

    Planes are words of four bytes. `weights` are rows of 8 ROOM bytes, the residues of 256^i of a
    modulus; moduli in two digits (LONG_MODULI: there are some), which come last, have 256^i = 128
    w' + w: COLUMNS rows of w, then as many of w'. Moduli of both kinds are filled up with zeros to
    a multiple of COLUMNS. `constants` are -p of all, then 1/p, a float's bits. Those in two digits
    have three planes: low digits, with the other residues, high digits, and sums. Complex numbers
    have planes of real parts, of imaginary parts, and of their sums. A word lies WORD_BITS or more
    below the one before it.

    COLUMNS are moduli of one product of matrices; 1 if integers are so short, and moduli as well,
    that bytes are multiplied four at a time instead. ROOM is LONGS then.

    Up to 256 digits and weights of 128 at most, and of 127 where p < 256, are a sum below 2^22:
    x/p errs by less than 2 |x|/p 2^-24 < 1/(2p), so residues are balanced. In two digits, |128 w' +
    w| <= p/2 with both within 64: sums are below 2^28, and for p > 2^13 the quotient errs by less
    than 2^-8: residues stay below p/2 + 64 < 8256.
    """
    at, s, inside, target, written = tile_of(
        bits, table, count, planes, lines, inner, pitch, batch_stride, line_stride, inner_stride,
        4, LINES, INNER,
    )  # fmt: skip
    sides = ()
    for part in tl.static_range(PARTS):
        limbs = integer_of(
            at + part * wide(part_stride), s, wide(word_stride), inside, WORDS, WORD_BITS, FRACTION,
            EXPONENT, LONGS, ASSEMBLY,
        )  # fmt: skip
        if COLUMNS == 1:
            sides = sides + (quarters_of(limbs, LINES, INNER),)
        else:
            sides = sides + (bytes_of(limbs, ROOM, NEAR, LINES, INNER),)
    if COLUMNS == 1:
        store_by_bytes(
            sides, target, written, plane_stride, constants, weights, moduli, PARTS, LONGS,
            ASSEMBLY,
        )  # fmt: skip
    else:
        store_by_products(
            sides, target, written, plane_stride, constants, weights, moduli, long_moduli, PARTS,
            LONG_MODULI, ROOM, (NEAR, LINES, INNER, COLUMNS, ASSEMBLY),
        )  # fmt: skip
