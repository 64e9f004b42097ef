"""Slices of float64 matrices on a CPU: int8 digits held as float64, multiplied by BLAS, exactly.

Paper 002's verbs: `split` (its Algorithms 3, 5 and 8), `multiply` (int32 sums of products) and
`accumulate` (float64). `gpu` has the same verbs for a GPU, and gives the same bits.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np

from widen.papers.ozimmu.algorithm import Recipe, Slices, Sum

Array = np.ndarray[Any, Any]

SIGMA = 0.75 * 2.0**53
"""Adding and subtracting it rounds a float64 below 2^51 to an integer, ties to even."""

SPECIAL = 1 << 20
"""The unit's exponent of a line that holds NaN or Inf: its elements become NaN."""


def on(x: Array) -> AbstractContextManager[Any]:
    """A context in which the device of x is the current one."""
    return nullcontext()


def split(lines: Array, side: str, recipe: Recipe) -> Slices:
    """Cut lines into slices of signed digits, as (lines, slices, inner).

    The right operand's slices lie in reverse, so that a sum's pairs are one long inner product.

    Parameters
    ----------
    lines
        float64 (lines, inner).
    side
        "left" or "right".
    recipe
        How many slices, of how many bits, and in which way. "mask": bits from the leading one of
        the line on (Algorithm 3); "nearest": rounded to nearest, one shift a line (8); "anew":
        rounded to nearest, a new shift each slice (5).
    """
    (count, inner), slices = lines.shape, recipe.slices
    beta, way = recipe.bits, recipe.way
    digits = np.empty((count, slices, inner))
    order = range(slices) if side == "left" else range(slices)[::-1]
    units = _units(lines, beta, way, np.zeros(count, np.int64))
    special = units == SPECIAL
    finite = np.where(special[:, None], 0.0, lines)
    if way == "anew":
        every = np.empty((slices, count), np.int64)
        every[0] = units
        for s, place in enumerate(order):
            if s:
                every[s] = _units(finite, beta, way, every[s - 1])
            shift = np.where(special, 0, every[s])
            digits[:, place] = (_scaled(finite, -shift) + SIGMA) - SIGMA
            finite = finite - _scaled(digits[:, place], shift)
        return Slices(digits, every, beta)
    rest = _scaled(finite, -np.where(special, 0, units))
    if way == "mask":
        rest = np.abs(rest)
    for place in order:
        if way == "mask":
            digits[:, place] = np.floor(rest)
        else:
            digits[:, place] = (rest + SIGMA) - SIGMA
        rest = (rest - digits[:, place]) * 2.0**beta
    if way == "mask":
        digits = np.copysign(digits, lines[:, None])
    return Slices(digits, units[None], beta)


def _scaled(lines: Array, exponents: Array) -> Array:
    """Return lines times powers of two, each in two factors that float64 has."""
    half = exponents // 2
    factors = np.ldexp(1.0, half), np.ldexp(1.0, exponents - half)
    return np.asarray(lines * factors[0][:, None] * factors[1][:, None])


def _units(lines: Array, beta: int, way: str, empty: Array) -> Array:
    """Exponents of the units of the first digits; `empty` where a line has nothing but zeros."""
    largest = np.abs(lines).max(axis=1, initial=0.0)
    fraction, exponent = np.frexp(largest)  # fraction in [1/2, 1): floor(log2) is one less
    up = exponent - ((way == "mask") | (fraction == 0.5))
    units = np.where(largest == 0, empty, up.astype(np.int64) + 1 - beta)
    return np.where(np.isfinite(largest), units, SPECIAL)


def multiply(left: Slices, right: Slices, sums: Sequence[Sum]) -> Array:
    """Return sums of products of slices, (sums, m, n): integers below 2^31 in any order."""
    rows, slices, inner = left.digits.shape
    columns = right.digits.shape[0]
    totals = np.empty((len(sums), rows, columns))
    for total, (first, last, pairs) in zip(totals, sums, strict=True):
        back = slices - 1 - last
        ours = left.digits[:, first : first + pairs].reshape(rows, pairs * inner)
        theirs = right.digits[:, back : back + pairs].reshape(columns, pairs * inner)
        np.matmul(ours, theirs.T, out=total)
    return totals


def accumulate(
    c: Array | None, products: Array, sums: Sequence[Sum], left: Slices, right: Slices, last: bool
) -> Array:
    """Add scaled sums to C one by one in float64; after the last ones, scale C itself.

    All is in units of the first digits: what the paper multiplies by mu_i and nu_j, powers of two,
    is multiplied at the end, which commutes with rounding.
    """
    total = np.zeros(products.shape[1:]) if c is None else c
    for product, (first, second, _) in zip(products, sums, strict=True):
        if left.units.shape[0] == 1:
            total += product * 2.0 ** (-left.beta * (first + second))
        else:
            ours, theirs = (
                np.ldexp(1.0, side.units[s] - side.units[0])
                for side, s in ((left, first), (right, second))
            )
            total += product * ours[:, None] * theirs
    if not last:
        return total
    rows, columns = left.units[0], right.units[0]
    special = (rows == SPECIAL)[:, None] | (columns == SPECIAL)
    with np.errstate(over="ignore", under="ignore"):
        total = np.ldexp(total, np.where(special, 0, rows[:, None] + columns))
    total[special] = np.nan
    return total
