"""Every inequality: exact depth, row exponents, planes needed, certificates, error bounds.

Notation: row i of A is scaled by 2^s and rounded to integers a'; column j of B by 2^t to b'. Norms
are integers: with e the exponent of the row's largest magnitude (2^e <= max < 2^(e+1)),
q = ceil(|a| 2^(15-e)), q1 = sum q and q2 = sum q^2, so ||a||_1 <= q1 2^(e-15) and
||a||_2^2 <= q2 2^(2e-30). sigma = s + e, tau = t + e of the column. X = A'B' is exact. For complex
numbers the parts count as separate entries of a row of length 2k.

Whatever is decided per element is decided in integers, so that every device decides alike.
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

LEAD_BITS = 14
"""Leading integers have so many bits after the first, unless the inner dimension is very long."""

WEIGHT_BITS = 21
"""Certificate weights of rows and columns are integers up to about 2^WEIGHT_BITS."""


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
    """

    norm: int
    root: int
    shift: int
    full: bool = False


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
    if contract.name == "fast":
        return Goal(1, 1, precision + 2 + complex_bit, full)
    if contract.name == "standard":
        return Goal(1, root_k, precision + 1 + complex_bit - ROOT_BITS, full)
    if contract.name == "bits":
        root = math.isqrt((max(k, 1) * parts) << (2 * ROOT_BITS))
        return Goal(2, root, contract.bits + 2 + complex_bit - ROOT_BITS)
    return None if cap is None else Goal(1, root_k, cap - ROOT_BITS, full)


def highest(goal: Goal | None) -> int:
    """No line is scaled by a goal so that its largest number is 2^highest or more.

    Its largest number is 2^top or more, so a norm is 2^15 or more of what 2^(15 - top) scales: the
    goal takes top to log2(root) + shift at most.
    """
    return UNBOUNDED if goal is None else (goal.root - 1).bit_length() + goal.shift + 1


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


def lead_bits(k: int) -> int:
    """Bits f of the leading integers floor(|a| 2^(f-e)) whose product bounds |A||B| from below.

    They are below 2^(f+1), in parts of a complex number below 2^(f+2) together, and their product
    over k must stay an exact float64 integer: 2(f + 2) + log2 k <= 53.
    """
    return min(LEAD_BITS, (53 - max(k, 1).bit_length()) // 2 - 2)


@dataclass(frozen=True)
class Certificate:
    """The test that an element keeps its contract, in integers.

    Real: the error of X is at most ((V + U) + k/2)/2, the contract allows lambda 2^(s+t)(|A||B|),
    and (|A||B|) 2^(s+t) >= D 2^(sigma+tau-2f), D the product of leading integers. So the test is
    V + U + k/2 <= 2 lambda D 2^(sigma+tau-2f). Complex: each part of the error is at most
    ((V + U) + k)/2, its modulus sqrt(2) times that, and |a||b| >= (|re a|+|im a|)(|re b|+|im b|)/2,
    so V + U + k <= (lambda / sqrt(2)) D 2^(sigma+tau-2f). Writing the factor as
    divisor 2^-gamma and dividing, rows and columns have weights v = ceil(V 2^unit / divisor), and

        v_i [column inexact] + u_j [row inexact] + both [neither exact] + always
            <= floor(D 2^(sigma + tau + shift)).

    Lines that were rounded are at the goal's scale. One that is exact may have stopped 2^d before
    it. If that is the column, V counts nothing, and U and D 2^(sigma+tau), which are compared, are
    both 2^d below what they would be at the goal (where products are left out, and `always` counts,
    every line is there). So all lines are weighed as if they were: `level` is their sigma there,
    and no weight is so small that rounding it up matters.
    """

    divisor: int
    unit: int
    shift: int
    both: int
    always: int
    goal: Goal

    def level(self, q1: int) -> int:
        """Exponent of the largest magnitude of a row or column at the goal's scale."""
        return floor_log2_ratio(self.goal.root, max(q1, 1)) + self.goal.shift + NORM_BITS

    def weight(self, q1: int) -> int:
        """Weight of a row or column: its V there in units of divisor 2^-unit, rounded up."""
        reduced = max(0, q1.bit_length() - 24)
        top = -(-q1 >> reduced)
        quotient = -(-(top << 22) // self.divisor)
        return ceil_shift(quotient, reduced + self.level(q1) - NORM_BITS - 22 + self.unit)

    def holds(self, weights: int, lead_product: int, levels: int) -> bool:
        """Whether an element with this total weight and this lower bound is certified."""
        return weights <= 0 or weights <= floor_shift(lead_product, levels + self.shift)


def least_error(dropped: int) -> int:
    """Bits of what the error of X has beside V and U, for deciding whether it changes a rounding.

    It is k/4 < 2^29, and what left-out products add.
    """
    return max(29, dropped.bit_length())


def ceil_shift(value: int, shift: int) -> int:
    """ceil(value 2^shift)."""
    return value << shift if shift >= 0 else -(-value >> -shift)


def floor_shift(value: int, shift: int) -> int:
    """floor(value 2^shift)."""
    return value << shift if shift >= 0 else value >> -shift


@lru_cache(maxsize=256)
def certificate(
    contract: Contract, precision: int, k: int, parts: int, dropped: int
) -> Certificate:
    """The certificate of "fast" and "standard".

    `dropped` bounds what left-out products add to the error of X, over and above quantisation.
    """
    if contract.name == "standard":  # 2 lambda = 4 sqrt(k) u, or lambda/sqrt(2) = sqrt(2k) u
        square, gamma = (k, precision - 2) if parts == 1 else (2 * k, precision)
    else:  # 2 lambda = 2 k u, or lambda/sqrt(2) = sqrt(k^2 / 2) u = sqrt(2 k^2) u / 2
        square, gamma = (k * k, precision - 1) if parts == 1 else (2 * k * k, precision + 1)
    root = math.isqrt(max(square, 1) << 128)
    excess = root.bit_length() - 24
    divisor, gamma = root >> excess, gamma + 64 - excess
    target = goal(contract, precision, k, parts, None)
    assert target is not None
    unit = WEIGHT_BITS + 23 - (target.root.bit_length() + target.shift)
    both = ceil_shift(-(-k * parts // 2), unit)
    return Certificate(
        divisor=divisor,
        unit=unit,
        shift=unit - gamma - 2 * lead_bits(k),
        both=-(-both // divisor),
        always=-(-ceil_shift(2 * dropped, unit) // divisor),
        goal=target,
    )
