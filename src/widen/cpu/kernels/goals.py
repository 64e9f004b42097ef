"""How far a line is scaled, from what is known of it: the formulas of `widen.bounds`, no loops."""

from __future__ import annotations

import numpy as np

from widen.cpu.kernels.cache import device
from widen.cpu.kernels.limbs import bit_length
from widen.cpu.kernels.loops import place_of
from widen.cpu.kernels.tallies import NORM_BITS

MOST_EXTRA, MOST_FOR_ZEROS = 54, 6  # of bounds
MOST_FILL = 4  # of bounds


@device
def ceil_sqrt(square):
    """ceil(sqrt(x)) of an integer below 2^62."""
    root = np.int64(np.sqrt(np.float64(square)))
    while root * root > square:
        root -= 1
    while root * root < square:
        root += 1
    return root


@device
def floor_log2_ratio(numerator, denominator):
    """`bounds.floor_log2_ratio` for positive integers below 2^53."""
    ours, theirs = bit_length(numerator), bit_length(denominator)
    less = numerator << (53 - ours) < denominator << (53 - theirs)
    return ours - theirs - np.int64(less)


@device
def _log2_in_256ths(x):
    """`bounds.log2_in_256ths`, of positive integers below 2^62."""
    place = np.int64(0)
    while x >> (place + 1):
        place += 1
    leading = x >> (place - 8) if place >= 8 else x << (8 - place)
    return (place << 8) + leading - 256


@device
def _carried_by_few(q1, q2, entries):
    """Whether `bounds.extra_bits` asks for distances."""
    return 2 * _log2_in_256ths(q1) < _log2_in_256ths(min(64, max(entries // 4, 1))) + (
        _log2_in_256ths(q2)
    )


@device
def _extra_bits(q1, q2, nonzeros, distances, entries):
    """`bounds.extra_bits`."""
    one, two = _log2_in_256ths(q1), _log2_in_256ths(q2)
    rho = (_log2_in_256ths(entries) + two - 2 * one + 128) >> 8
    empty = _log2_in_256ths(entries) - _log2_in_256ths(nonzeros)
    more = min(max((2 * empty - 256) >> 8, 0), MOST_FOR_ZEROS)
    if not _carried_by_few(q1, q2, entries):
        return max(0, rho - 2) + more
    d = 256 * distances // nonzeros + one - _log2_in_256ths(nonzeros) - 256 * NORM_BITS
    wanted = (5 * d >> 10) + 2
    return min(max(0, rho - 1, wanted if wanted <= MOST_EXTRA else 0) + more, MOST_EXTRA)


@device
def _filled_up(sigma, q2, rungs):
    """`bounds.filled_up`."""
    norm = 256 * (sigma - NORM_BITS) + (_log2_in_256ths(q2) + 24) // 2
    at = place_of(rungs, norm)
    return sigma + (min((rungs[at] - norm) // 256, MOST_FILL) if at < rungs.shape[0] else 0)


@device
def wanted(top, q1, q2, nonzeros, distances, goal):
    """The exponent that a goal asks for: (norm, root, shift, full, spread, *rungs)."""
    if q1 == 0:
        return np.int64(0)
    norm = q1 if goal[0] == 1 else ceil_sqrt(q2)
    sigma = floor_log2_ratio(goal[1], norm) + goal[2] + NORM_BITS
    if goal[4]:
        sigma += _extra_bits(q1, q2, nonzeros, distances, goal[4])
    return _filled_up(sigma, q2, goal[5:]) - top


@device
def reads_distances(q1, q2, goal):
    """Whether a goal, or one that is not known yet, may ask for the distances of a line."""
    return goal[0] == 0 or (goal[4] > 0 and q1 > 0 and _carried_by_few(q1, q2, goal[4]))
