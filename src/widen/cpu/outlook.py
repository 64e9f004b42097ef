"""What is worth computing: whether a first pass would leave elements that need no other."""

from __future__ import annotations

import numpy as np

from widen.cpu.operands import Array, Chosen, Operand
from widen.cpu.reconstruct import magnitude_bits
from widen.formats import Format

LEAST_REACH = 64
"""Powers of two that a line spans where "correct" may leave every element open."""

SAMPLES, MOST = 16, 0.75
"""Elements that are looked at, and the share of them that must be hopeless."""


def nothing_settles(chosen: Chosen, fmt: Format) -> bool:
    """Whether "correct" would leave about every element open, judged by a few.

    An error of half an ulp leaves every rounding open. Such are rows and columns that are graded
    against each other, so that sums are far below what their norms say. A wrong guess costs time.
    """
    rows, columns = chosen.lines
    if max(int(side.survey.reach.max()) for side in chosen.lines) < LEAST_REACH:
        return False
    places = [_spread_out(~side.survey.special[0]) for side in chosen.lines]
    count = min(SAMPLES, *map(len, places))
    if count == 0:
        return False
    i, j = places[0][:count], places[1][:count]
    left, right = (
        _scaled(operand, lines.survey.top[0], at)
        for operand, lines, at in zip(chosen.operands, chosen.lines, (i, j), strict=True)
    )
    sums = (left * right).sum(axis=-1)
    sizes = np.minimum(abs(sums.real), abs(sums.imag)) if fmt.parts == 2 else abs(sums)
    ours, theirs = (magnitude_bits(side)[0] for side in chosen.lines)
    error = np.maximum(
        np.where(columns.exact[0][j], -1, ours[i]), np.where(rows.exact[0][i], -1, theirs[j])
    )
    place = rows.sigma[0][i] + columns.sigma[0][j]
    hopeless = (error >= 0) & (sizes < np.ldexp(1.0, error + fmt.part.precision + 3 - place))
    return float(hopeless.mean()) >= MOST


def _spread_out(allowed: Array) -> Array:
    """SAMPLES places of those that are allowed, far from each other."""
    places = np.flatnonzero(allowed)
    picked = np.linspace(0, len(places) - 1, min(SAMPLES, len(places))).astype(int)
    return np.asarray(places[picked])


def _scaled(operand: Operand, top: Array, lines: Array) -> Array:
    """First words of some lines of the first batch item, times 2^-top; complex if they are."""
    parts = [
        np.ldexp(part[0, lines].astype(np.float64), -top[lines, None]) for part in operand.parts
    ]
    return np.asarray(parts[0] if len(parts) == 1 else parts[0] + 1j * parts[1])
