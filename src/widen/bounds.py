"""Every inequality: exact depth, row exponents, planes needed, certificates, error bounds.

Notation: row i of A is scaled by 2^s and rounded to integers a'; column j of B by 2^t to b'. Norms
are integers: with e the exponent of the row's largest magnitude (2^e <= max < 2^(e+1)),
q = ceil(|a| 2^(15-e)), q1 = sum q and q2 = sum q^2, so ||a||_1 <= q1 2^(e-15) and
||a||_2^2 <= q2 2^(2e-30). sigma = s + e, tau = t + e of the column. X = A'B' is exact. For complex
numbers the parts count as separate entries of a row of length 2k.

Whatever is decided per element is decided exactly, so that every device decides alike.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

from widen.contract import Contract
from widen.units import Unit

NORM_BITS = 15
"""Norms count units of 2^(e - NORM_BITS)."""

LARGEST_INNER = 2**29 - 1
"""q <= 2^16, so q2 < 2^61 fits an int64; superaccumulators take 2^31 additions of 4 pieces."""

ACCUMULATOR = 2**53
"""Groups are gathered in float64 on a CPU: integers up to 2^53 are exact."""

ROOT_BITS = 20
"""Fraction bits of an integer square root of k."""

SHORT_BITS, LOWEST_SHORT = 8, -126
"""Certificates sum magnitudes rounded down to so many bits, none below 2^LOWEST_SHORT: bfloat16."""

FARTHEST = 48
"""Entries further than this below a line's largest exponent count as if they were there."""

MOST_EXTRA = 54
"""Most bits that the mean exponent may ask for; a line that wants more would gain nothing by them.

No line gets more for other reasons: rho is at most log2(sqrt(2) 2^30).
"""

MOST_FOR_ZEROS = 6
"""Most bits that a line gets because most of its entries are 0."""

RUNGS = (
    877, 1900, 2922, 3942, 4959, 5972, 6984, 7990, 8994, 9995, 10994, 11987, 12976, 13953, 14929,
    15901, 16871, 17831, 18788, 19740, 20685, 21626, 22560, 23486, 24410, 25321, 26230, 27130,
    28025, 28898, 29764, 30627, 31483, 32335, 33180, 34009, 34825, 35632, 36424, 37211, 37988,
    38747, 39500, 40233, 40944, 41638, 42324, 42991, 43613,
)  # fmt: skip
"""256 log2 of the 2-norms of lines that 1, 2, 3, ... moduli of int8 hold, if both sides have it."""

MOST_FILL = 4
"""Most bits by which a line is filled up: no rung is further above the one before it."""


def plane_digit(unit: Unit, k: int) -> int:
    """Largest magnitude of plane entries so that a stretch of the inner dimension sums exactly.

    A stretch of min(k, span) products of entries up to d is exact if stretch * d^2 <= exact; the
    whole sum then also has to fit the float64 that gathers stretches: k d^2 <= 2^53.
    """
    k = max(k, 1)
    stretch = min(k, unit.span)
    return min(unit.digit, math.isqrt(unit.exact // stretch), math.isqrt(ACCUMULATOR // k))


@dataclass(frozen=True)
class Goal:
    """A row is scaled by the largest 2^s with 2^s ||a|| <= root 2^shift, in the given norm.

    One that ends before that is scaled to its last bit only, unless all lines are to be `full`.

    With `spread`, the number of entries of a line, one whose entries differ much in magnitude is
    scaled further, by `extra_bits`; with `filled`, as far as the moduli that it needs anyway hold
    it (`filled_up`).
    """

    norm: int
    root: int
    shift: int
    full: bool = False
    spread: int = 0
    filled: bool = False


@lru_cache(maxsize=256)
def goal(
    contract: Contract, precision: int, k: int, parts: int, cap: int | None, *, full: bool = False
) -> Goal | None:
    """How far rows and columns are scaled up; None means as far as their last bit.

    With V = 2^s ||a_i||_1 and U = 2^t ||b_j||_1 the quantisation error of X is at most
    (V + U)/2 + k/4 (`Certificate` below), while the contract allows lambda 2^(s+t) (|A||B|)_ij.
    Unrelated rows and columns have 2^(s+t) |A||B| ~ V U / k, so V = U = 2^(p+1) sqrt(k) leaves
    "standard" (lambda = 2 sqrt(k) 2^-p) a factor 2 to 4 in hand, and V = U = 2^(p+2) leaves
    "fast" (lambda = k 2^-p) the same. A complex error is sqrt(2) times its parts': one bit more.

    An integer contract b: 2^-s <= 2^-(b+1) N / sqrt(k), N the computed 2-norm, which is at most
    1.71 ||a|| for k < 2^29 (q2 <= sum (x+1)^2 and sum x^2 >= 2^30). As ||b||_1 <= sqrt(k)||b||_2
    the error is at most (0.86 + 0.19 * 2^-b) 2^-b ||a|| ||b||: it holds by construction.

    "correct" may stop at any cap: what then does not round to one number is repaired.

    `full` lines serve those who leave out products of digits by their weight (an integer contract
    leaves out none): short ones then have zeros there, and what is left out does not matter more.
    """
    complex_bit = parts - 1
    root_k = math.isqrt(max(k, 1) << (2 * ROOT_BITS))
    entries = max(k, 1) * parts
    if contract.name == "fast":
        return Goal(1, 1, precision + 2 + complex_bit, full, entries, filled=True)
    if contract.name == "standard":
        shift = precision + 1 + complex_bit - ROOT_BITS
        return Goal(1, root_k, shift, full, entries, filled=True)
    if contract.name == "bits":
        root = math.isqrt(entries << (2 * ROOT_BITS))
        return Goal(2, root, contract.bits + 2 + complex_bit - ROOT_BITS)
    return None if cap is None else Goal(1, root_k, cap - ROOT_BITS, full, entries)


def log2_in_256ths(x: int) -> int:
    """256 log2 of a positive integer, from below, by less than 24: its mantissa as it is.

    >>> [log2_in_256ths(x) for x in (1, 2, 3, 4, 65536)]
    [0, 256, 384, 512, 4096]
    """
    place = x.bit_length() - 1
    leading = x >> (place - 8) if place >= 8 else x << (8 - place)
    return (place << 8) + leading - 256


def extra_bits(q1: int, q2: int, nonzeros: int, distances: int, entries: int) -> int:
    """How many bits more a line gets for its spread; 0 for one of similar magnitudes.

    The goal rests on (|A||B|)_ij ~ ||a_i||_1 ||b_j||_1 / k. Where few entries of a line carry its
    norm, the other line need not be large there, and an element may be far below that. Two signs of
    it: rho = log2(sqrt(2) k ||a||_2^2 / ||a||_1^2), and the distance d from the mean of the
    exponents to that of the mean, which counts where fewer than 64 entries (or a quarter of
    them all) carry the line. `distances` is the sum of how far exponents of entries are below the
    largest, FARTHEST at most. Where most entries are 0, few places are left at which neither line
    is: an element of one or two products is small by chance, so such a line gets a few bits more.
    What this gives is a choice, no part of any proof.
    """
    one, two = log2_in_256ths(q1), log2_in_256ths(q2)
    rho = (log2_in_256ths(entries) + two - 2 * one + 128) >> 8
    empty = log2_in_256ths(entries) - log2_in_256ths(nonzeros)
    more = min(max((2 * empty - 256) >> 8, 0), MOST_FOR_ZEROS)
    if 2 * one >= log2_in_256ths(min(64, max(entries // 4, 1))) + two:
        return max(0, rho - 2) + more
    d = 256 * distances // nonzeros + one - log2_in_256ths(nonzeros) - 256 * NORM_BITS
    wanted = (5 * d >> 10) + 2
    return min(max(0, rho - 1, wanted if wanted <= MOST_EXTRA else 0) + more, MOST_EXTRA)


def filled_up(sigma: int, q2: int) -> int:
    """Scale a line further, as far as the moduli hold it that it needs anyway.

    Moduli come whole: up to four bits cost nothing. They are those of int8 for every unit, so that
    all devices scale alike.
    """
    norm = 256 * (sigma - NORM_BITS) + (log2_in_256ths(q2) + 24) // 2
    rung = next((rung for rung in RUNGS if rung >= norm), norm)
    return sigma + min((rung - norm) // 256, MOST_FILL)


def highest(goal: Goal | None) -> int:
    """No line is scaled by a goal so that its largest number is 2^highest or more.

    Its largest number is 2^top or more, so a norm is 2^15 or more of what 2^(15 - top) scales: the
    goal takes top to log2(root) + shift at most, without what it gets for its spread.
    """
    if goal is None:
        return UNBOUNDED
    more = (MOST_EXTRA if goal.spread else 0) + (MOST_FILL if goal.filled else 0)
    return (goal.root - 1).bit_length() + goal.shift + 1 + more


UNBOUNDED = 1 << 24
"""Further than exponents of any format."""


def floor_log2_ratio(numerator: int, denominator: int) -> int:
    """Floor of log2(numerator / denominator) for positive integers.

    >>> floor_log2_ratio(8, 2), floor_log2_ratio(7, 2), floor_log2_ratio(1, 3)
    (2, 1, -2)
    """
    difference = numerator.bit_length() - denominator.bit_length()
    if difference >= 0:
        return difference - (numerator < denominator << difference)
    return difference - (numerator << -difference < denominator)


@dataclass(frozen=True)
class Certificate:
    """The test that an element keeps its contract: (|A||B|)_ij is as large as `needed`.

    Where an entry is 0, so is its integer: only places count where neither is. If there are none,
    X is exact. There are no more than S of them, which is how many entries of either line are
    not 0, or how many places are between the first and the last of both, whatever is least.
    There |a'| < 2^(sigma+1), so that V = 2^s ||a||_1
    may be taken to be min(q1, S 2^16) 2^(sigma-15), and U alike. Real: the error of X is at
    most ((V + U) + S/2)/2, the contract allows lambda 2^(s+t) (|A||B|). Complex: each part of the
    error is at most ((V + U) + S)/2, its modulus sqrt(2) times that, and |a||b| is half of
    (|re a| + |im a|)(|re b| + |im b|) or more. D is the sum of products of such magnitudes, each
    line's in units of 2^e and every part rounded down to a bfloat16, so that it is at most that
    large, less by 2^-6 of it or so, and easily had exactly. With mu = 2 lambda, or
    lambda / sqrt(2), the test is

        V [column rounded] + U [row rounded] + parts S/2 [both] + 2 dropped <= mu D 2^(sigma+tau),

    divided by mu 2^(sigma+tau). Rows and columns have weights g = q1 2^-15 / mu and steps
    h = 2^-sigma, or 0 if they were not rounded.

    Whether D is enough is decided exactly, so that every device decides alike: `needed` is a float,
    and how it is computed is part of the definition. Constants have 24 bits and are rounded up, by
    2^-20 at least; S is below 2^29 and h a power of two, so that of all operations the sums alone
    round, with or without fused multiplications. What they lose is far less than 2^-20.
    """

    line: float
    entry: float
    both: float
    dropped: float

    def weight(self, q1: int) -> float:
        """The weight g of a row or column."""
        return q1 * self.line

    def needed(self, ours: Weighed, theirs: Weighed) -> float:
        """What D must be at least."""
        shared = max(0, min(ours.stop, theirs.stop) - max(ours.first, theirs.first))
        shared = min(shared, ours.nonzeros, theirs.nonzeros)
        most = shared * self.entry
        sum_of_both = min(ours.weight, most) * theirs.step + min(theirs.weight, most) * ours.step
        return sum_of_both + (shared * self.both + self.dropped) * ours.step * theirs.step


@dataclass(frozen=True)
class Weighed:
    """What certificates know of a line: weight, step, and which entries are not 0.

    So many numbers, parts of complex ones by themselves, at `first` or later, and before `stop`.
    """

    weight: float
    step: float
    nonzeros: int
    first: int
    stop: int


def least_error(dropped: int) -> int:
    """Bits of what the error of X has beside V and U, for deciding whether it changes a rounding.

    It is k/4 < 2^29, and what left-out products add.
    """
    return max(29, dropped.bit_length())


def floor_shift(value: int, shift: int) -> int:
    """floor(value 2^shift)."""
    return value << shift if shift >= 0 else value >> -shift


@lru_cache(maxsize=256)
def certificate(
    contract: Contract, precision: int, k: int, parts: int, dropped: int
) -> Certificate:
    """The certificate of "fast" and "standard".

    `dropped` bounds what left-out products add to the error of X, over and above quantisation.
    Where there is any, no line counts as exact.
    """
    # mu 2^precision squared: 2 lambda is 4 sqrt(k) u or 2 k u, lambda / sqrt(2) sqrt(2k) u or
    # sqrt(k^2 / 2) u.
    k = max(k, 1)
    if contract.name == "standard":
        square = 16.0 * k if parts == 1 else 2.0 * k
    else:
        square = 4.0 * k * k if parts == 1 else 0.5 * k * k
    inverse = math.ldexp((1 + 2.0**-20) / math.sqrt(square), precision)
    line = _in_24_bits(inverse * 2.0**-NORM_BITS)
    try:
        left_out = _in_24_bits(2.0 * dropped * inverse)
    except OverflowError:  # more than any element has
        left_out = math.inf
    return Certificate(
        line=line,
        entry=parts * 2.0 ** (NORM_BITS + 1) * line,
        both=_in_24_bits(0.5 * parts * inverse),
        dropped=left_out,
    )


def _in_24_bits(x: float) -> float:
    """A number of 24 bits that is not below x."""
    mantissa, exponent = math.frexp(x)
    return math.ldexp(math.ceil(mantissa * 2.0**24), exponent - 24)
