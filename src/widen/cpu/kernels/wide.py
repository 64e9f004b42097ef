"""Numbers of several words: first words that speak for the whole, and planes of their integers.

Words are float64 bits, (words, parts, batch, rows, columns), each the nearest of the value less the
words before it; so |rest after a word| <= half a unit in its last place, and zeros come last.
"""

from __future__ import annotations

import numpy as np

from widen.cpu.kernels.cache import BITS2, BITS3, BITS4, BOOL, FLOAT, INT, device, kernel
from widen.cpu.kernels.encode import balance, half_is_negative
from widen.cpu.kernels.expansions import TILE
from widen.cpu.kernels.limbs import (
    INFINITY,
    MAGNITUDE,
    power_of_two,
    round_words,
    times_power,
    whole_mantissa,
)
from widen.cpu.kernels.loops import copy, largest_of
from widen.cpu.kernels.reconstruct import (
    ARGUMENTS,
    gather,
    leading_bits,
    nudged,
    places_of,
    round_easy,
    same,
    settle_all,
)

ROOM = 1 << 11
"""Numbers that the chunks of some entries may be: 16 kB, half of a first-level cache."""

PIECES = 4
"""Chunks of 18 bits or more that an integer of 53 bits reaches into."""


MOST_AS_FLOATS = 480
"""Bits up to which integers are taken apart in float64; longer ones bit by bit."""

MOST_TOGETHER = 4
"""Words up to which neighbouring elements are rounded together; longer ones one by one."""


@kernel(BITS3, BITS3, INT[:, :, ::1])
def heads(begin, end, first, second, out):
    """First words rounded to odd: floats that stand in for the value in every coarser question.

    Where there is a rest and the last bit of the first word is 0, that word goes one unit towards
    the rest. Exponents, floors and ceilings to 51 bits or fewer are then those of the value: an
    odd float lies between the same even ones as the value, and an even one is the value itself. A
    job is a row.
    """
    _, rows, columns = out.shape
    for job in range(begin, end):
        b, i = job // rows, job % rows
        ours, theirs, target = first[b, i], second[b, i], out[b, i]
        for j in range(columns):
            x, y = ours[j], theirs[j]
            rest = np.int64(y & MAGNITUDE != 0) & ~x & 1
            # Bits count magnitudes: up if the signs are alike.
            target[j] = x + (rest if (x ^ y) >= 0 else -rest)


@device
def _split(bits, row_shift, column_shift, b, i, start, width, chunks):
    """chunks[c, at] = chunk c of RN(x 2^shift) of neighbouring entries; how many there are.

    `bits` are words (words, batch, rows, columns). A word above the rounding point is an integer.
    The one that straddles it is rounded to nearest even, a tie going the way of the words below
    it, and those give 0: they add up to a quarter at most, and a tie is the only place where less
    than a unit of this word matters. Integers before it do not spoil the even choice: where it is
    a choice at all, the word before has a unit of 2 or more, or is even itself.

    Chunks are signed, up to 2^width in magnitude: words do not overlap.
    """
    count, size = bits.shape[0], min(chunks.shape[1], bits.shape[3] - start)
    chunks[:] = 0.0
    for w in range(count):
        source = bits[w, b, i, start : start + size]
        below = bits[min(w + 1, count - 1), b, i, start : start + size]
        shifts = column_shift[b, start : start + size]
        if chunks.shape[0] - PIECES <= MOST_AS_FLOATS // width:
            _add_float(source, below, w + 1 < count, row_shift[b, i], shifts, width, chunks)
        else:
            _add_word(source, below, w + 1 < count, row_shift[b, i], shifts, width, chunks)
    return size


@device
def _add_float(source, below, more, row_shift, column_shift, width, chunks):
    """`_add_word` in float64, exactly, for integers below 2^1000: neighbours are done together.

    Balanced digits of a word are at most half as large as its bits, so those of words that meet in
    a chunk still add up to little more than 2^width.
    """
    size, length = source.shape[0], chunks.shape[0] - PIECES
    y = chunks[length]  # beyond all chunks: room for `_add_word`
    for at in range(size):
        x, under = source[at], below[at] if more else np.int64(0)
        t = times_power(x, row_shift + column_shift[at])
        whole = np.rint(t)
        off = t - whole
        # A tie goes the way of what is below it.
        whole += 1.0 if (off == 0.5) & (under > 0) else 0.0
        whole -= 1.0 if (off == -0.5) & (under < 0) & (under & MAGNITUDE != 0) else 0.0
        y[at] = whole if x & MAGNITUDE < INFINITY else 0.0
    for step in range(1, length):
        c = length - step
        scale = power_of_two(np.int64(width * c))
        inverse, target = 1.0 / scale, chunks[c]
        for at in range(size):
            digit = np.rint(y[at] * inverse)
            y[at] -= digit * scale
            target[at] += digit
    target = chunks[0]
    for at in range(size):
        target[at] += y[at]


@device
def _add_word(source, below, more, row_shift, column_shift, width, chunks):
    """Add one word of neighbouring entries to their chunks; there are `more` below it."""
    mask = (np.int64(1) << width) - 1
    for at in range(source.shape[0]):
        x, y = source[at], below[at]
        m = whole_mantissa(x)
        left = max((x >> 52) & 0x7FF, 1) - 1075 + row_shift + column_shift[at]
        right = min(max(-left, 0), 55)
        half = (np.int64(1) << right) >> 1
        odd = (m >> right) & 1
        if more and y & MAGNITUDE != 0:
            odd = np.int64((x ^ y) >= 0)
        r = (m + (half - 1 + odd if half else np.int64(0))) >> right
        if r == 0:
            continue
        left = max(left, 0)
        c = left // width
        inside = left - c * width
        sign = 1.0 if x >= 0 else -1.0
        piece = (r & (mask >> inside)) << inside
        rest = r >> (width - inside)
        chunks[c, at] += sign * np.float64(piece)
        for step in range(1, PIECES):
            chunks[c + step, at] += sign * np.float64(rest & mask)
            rest >>= width


@device
def _add_two(x, y, a, b, c, d, e, f, g, h, one, two, three, four):
    """Add two chunks to the sums of four moduli: a third of the time of one modulus by itself."""
    for at in range(one.shape[0]):
        one[at] += x[at] * a + y[at] * b
        two[at] += x[at] * c + y[at] * d
        three[at] += x[at] * e + y[at] * f
        four[at] += x[at] * g + y[at] * h


@device
def _weigh(chunks, p, totals):
    """totals[i, at] = sum(chunks[c, at] p[i, c]) for four moduli."""
    totals[:] = 0.0
    for c in range(0, p.shape[1], 2):
        _add_two(
            chunks[c], chunks[c + 1], p[0, c], p[0, c + 1], p[1, c], p[1, c + 1],
            p[2, c], p[2, c + 1], p[3, c], p[3, c + 1], totals[0], totals[1], totals[2], totals[3],
        )  # fmt: skip


@kernel(BITS4, BITS2, BITS2, INT, INT, FLOAT[:, ::1], FLOAT[:, ::1], FLOAT[:, :, :, ::1])
def residues(
    begin, end, bits, row_shift, column_shift, offset, width, constants, powers, planes
):  # fmt: skip
    """Residues modulo p_i of x 2^(row_shift + column_shift), rounded, into planes[i].

    `bits` are words (words, batch, rows, columns), rows counted from `offset` in planes and shifts
    of rows. ``constants[i]`` is (p, 1/p, ...), ``powers[i]`` the balanced 2^(width c) mod p of so
    few chunks that 2^width p/2 for each makes 2^26 p at most: all is exact in float64, and
    `balance` takes it. Zeros fill up to four moduli and two chunks. A job is a row.
    """
    _, _, rows, columns = bits.shape
    count, length = constants.shape[0], powers.shape[1]
    entries = min(max(ROOM // length, 64), 512)
    chunks, totals = np.empty((length + PIECES, entries)), np.empty((4, entries))
    for job in range(begin, end):
        b, i = job // rows, job % rows
        for start in range(0, columns, entries):
            size = _split(bits, row_shift[:, offset:], column_shift, b, i, start, width, chunks)
            for c in range(count):
                if c % 4 == 0:
                    _weigh(chunks, powers[c : c + 4], totals)
                p, inverse, total = constants[c, 0], constants[c, 1], totals[c % 4]
                target = planes[c, b, offset + i, start : start + size]
                for at in range(target.shape[0]):
                    target[at] = balance(total[at], p, inverse)
                if p % 2.0 == 0.0:
                    half_is_negative(target, p)


@kernel(BITS4, BITS2, BITS2, INT, INT, INT, INT, FLOAT[:, :, :, ::1])
def digits(begin, end, bits, row_shift, column_shift, offset, width, length, beta, planes):
    """planes[d] = balanced digit d, in base 2^beta, of the same integers; a job is a row."""
    _, _, rows, columns = bits.shape
    half = np.int64(1) << (beta - 1)
    entries = min(max(ROOM // length, 64), 512)
    chunks = np.empty((length + PIECES, entries))
    for job in range(begin, end):
        b, i = job // rows, job % rows
        for start in range(0, columns, entries):
            size = _split(bits, row_shift[:, offset:], column_shift, b, i, start, width, chunks)
            for at in range(size):
                rest, held, c = np.int64(0), np.int64(0), 0
                for d in range(planes.shape[0]):
                    while held < beta and c < length:
                        rest += np.int64(chunks[c, at]) << held
                        held += width
                        c += 1
                    digit = ((rest + half) & (2 * half - 1)) - half
                    planes[d, b, offset + i, start + at] = np.float64(digit)
                    rest = (rest - digit) >> beta
                    held -= beta


@device
def _leave_all(limbs, last, size, precision, length, up, sign):
    """Leave of magnitudes in limbs 0..last what their rounding has dropped, |magnitude - value|.

    The low length - precision bits, or what they lack to the next power of two if the value is
    above; then the sign changes. Without branches, so that neighbours are done together.
    """
    carry = up.copy()
    for l in range(last + 1):
        row = limbs[l]
        for at in range(size):
            keep = min(max(length[at] - precision - 32 * l, 0), 32)
            mask = (np.int64(1) << keep) - 1
            value = ((row[at] & mask) ^ (mask & -up[at])) + carry[at]
            row[at] = value & mask
            carry[at] = np.int64(value > mask)
    for at in range(size):
        sign[at] = -sign[at] if up[at] else sign[at]


@device
def _round_all(limbs, size, base, nudge, fmt, room, words, sure):
    """Round magnitudes word by word into `words`, (words, size), where all words are normal.

    `sure` says where; elsewhere a word is subnormal, beyond its range or near its end, or an error
    of 2^nudge might change it (a word that it cannot change leaves the same error to the next).
    `room` is for (sign, head, tail, length, up), signs in the first. The limbs are used up.
    """
    sign, head, tail, length, up = room[0], room[1], room[2], room[3], room[4]
    count, last = fmt.shape[0], limbs.shape[0] - 1
    easy = np.empty(TILE, np.bool_)
    sure[:size] = True
    for w in range(count):
        leading_bits(limbs[: last + 1], size, head, tail, length)
        round_easy(
            head[:size], tail[:size], length[:size], sign[:size], base[:size], nudge[:size],
            fmt[w, 0], fmt[w, 1], fmt[w, 2], words[w, :size], up[:size], easy[:size],
        )  # fmt: skip
        for at in range(size):
            words[w, at] += 0.0  # -0.0 becomes 0.0
            sure[at] &= easy[at]
        if w + 1 < count:
            _leave_all(limbs, last, size, fmt[w, 0], length, up, sign)
            last = min(last, max(largest_of(length[:size]) - fmt[w, 0], 0) >> 5)
    high, low = words[count - 2], words[count - 1]
    narrow = fmt[count - 2, 0] == 24
    for at in range(size):
        both = high[at] + low[at]
        both = np.float64(np.float32(both)) if narrow else both
        low[at] -= both - high[at]
        high[at] = both


@kernel(*ARGUMENTS, INT[:, ::1], FLOAT[:, :, :, :, :], BOOL[:, :, ::1])
def rounded(
    begin, end, groups, places, constants, basis, modulus, offsets,
    row_exponent, column_exponent, row_bits, column_bits, row_exact, column_exact,
    always, fmt, out, unsettled,
):  # fmt: skip
    """`reconstruct.in_limbs` into several words, (words, parts, batch, rows, columns).

    A tile begins as it does there: Numba has no records to hand so many arrays on in.
    """
    count, parts, batch, rows, columns = out.shape
    total_size = batch * rows * columns
    width = modulus.shape[0]
    limbs, work = np.empty((width, TILE), np.int64), np.empty((width, 1), np.int64)
    base, nudge, error = np.empty(TILE, np.int64), np.full(TILE, -1), np.zeros(TILE)
    room, whole = np.empty((5, TILE), np.int64), np.empty((width, TILE), np.int64)
    sign, sure = np.empty(TILE, np.int64), np.zeros(TILE, np.bool_)
    tile, words, other = np.empty((count, TILE)), np.empty(count), np.empty(count)
    together = count <= MOST_TOGETHER
    for job in range(begin, end):
        start = job * TILE
        size = min(TILE, total_size - start)
        places_of(
            start, size, rows, columns, row_exponent, column_exponent, row_bits, column_bits,
            row_exact, column_exact, always, base, nudge, error,
        )  # fmt: skip
        for part in range(parts):
            gather(
                groups, start, size, places[part], constants[part], basis, modulus, offsets, limbs
            )
            settle_all(limbs, size, sign)
            if together:
                for l in range(width):
                    copy(limbs[l], whole[l])
                copy(sign, room[0])
                _round_all(whole, size, base, nudge, fmt, room, tile, sure)
            j, i, b = start % columns, start // columns % rows, start // columns // rows
            for at in range(size):
                if together and sure[at]:
                    for w in range(count):
                        out[w, part, b, i, j] = tile[w, at]
                else:
                    if nudge[at] < 0:
                        round_words(limbs, at, 0, width - 1, base[at], sign[at], fmt, words)
                    else:
                        up = nudged(limbs, at, sign[at], work, nudge[at], 1)
                        round_words(work, 0, 0, width - 1, base[at], up, fmt, words)
                        down = nudged(limbs, at, sign[at], work, nudge[at], -1)
                        round_words(work, 0, 0, width - 1, base[at], down, fmt, other)
                        for w in range(count):
                            unsettled[b, i, j] |= not same(words[w], other[w])
                    for w in range(count):
                        out[w, part, b, i, j] = words[w]
                j += 1
                if j == columns:
                    j, i = 0, i + 1
                    if i == rows:
                        i, b = 0, b + 1
