"""Slices with a new shift each, on a CPU: NumPy arrays, Numba kernels, BLAS products.

The verbs of papers 000 and 004; `gpu` has the same for a GPU, with the same bits.
Lines are rows of A or columns of B, a working copy (lines, inner) of float64 that slices are taken
from.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np
from numpy.typing import NDArray

from widen.cpu.threads import launch
from widen.formats import BINARY
from widen.papers.slicing.algorithm import LANES, NOTHING, ROW_LANES, halved
from widen.papers.slicing.kernels.cpu import slices as kernels
from widen.papers.slicing.kernels.cpu import soft64
from widen.stages.problem import Account
from widen.units import UNITS

Array = NDArray[Any]

ROOM = 1 << 28
"""Bytes of products held at a time, so that they stay in memory near the processor."""


def clock(timed: bool) -> Account:
    """What takes the time of stages."""
    return Account()


def finite(x: Array) -> bool:
    """Whether there is no infinity and no NaN."""
    return bool(np.isfinite(x).all())


def lines(x: Array) -> Array:
    """A working copy of rows, float64."""
    return np.array(x, np.float64, order="C")


def tops(work: Array) -> Array:
    """ceil(log2 of the largest magnitude) of every line."""
    out = np.empty(len(work), np.int64)
    launch(kernels.tops, len(work), work.size, work.view(np.int64), out)
    return out


def split(
    work: Array, top: Array, bits: int, constant: float, unit: str, *, emulated: bool = False,
    weights: Array | None = None,
) -> tuple[Array, Array, Array | None]:  # fmt: skip
    """Take a slice from every line: the plane, tops of what is left, sums of |slice| weights."""
    plane = np.empty(work.shape, UNITS[unit].engine)
    following = np.empty(len(work), np.int64)
    lanes = np.empty((len(work) if weights is not None else 0, LANES))
    given = np.empty(0) if weights is None else weights
    launch(
        kernels.split, len(work), 2 * work.size, plane, work, top, bits, constant, emulated,
        given, lanes, following,
    )  # fmt: skip
    return plane, following, None if weights is None else halved(lanes.T)


def magnitudes(work: Array, weights: Array) -> Array:
    """Sums of |x| weight along every line."""
    lanes = np.empty((len(work), LANES))
    launch(kernels.magnitudes, len(work), work.size, work, weights, lanes)
    return np.asarray(halved(lanes.T))


def column_sums(work: Array, lanes: Array | None) -> Array:
    """Lanes of the sums of |x| over lines, added to those of the lines before."""
    if lanes is None:
        lanes = np.zeros((ROW_LANES, work.shape[1]))
    launch(kernels.column_sums, ROW_LANES, work.size, work, lanes)
    return lanes


def exceeds(bound: Array, sums: Array) -> bool:
    """Whether bound > sums in every line; lines of zeros have nothing to lose."""
    return bool(((bound > sums) | (sums == 0)).all())


def multiply(
    left: list[Array], right: list[Array], pairs: list[tuple[int, int]], unit: str, largest: int,
    columns: slice,
) -> Array:  # fmt: skip
    """Exact products (pairs, m, columns): integers, on the BLAS product that stands for the unit.

    Sums stay within 2^24 (float32) or 2^53 (float64) by the choice of bits, in whatever order.
    """
    shape = (len(pairs), len(left[0]), columns.stop - columns.start)
    out = np.empty(shape, UNITS[unit].engine)
    for target, (p, q) in zip(out, pairs, strict=True):
        np.matmul(left[p], right[q][columns].T, out=target)
    return out


def exponents(tops_of: list[Array], order: list[int], bits: int) -> Array:
    """Exponents (pairs, lines) of the unit of every slice that a list of products names.

    A line that has nothing left has that of its first slice.
    """
    stacked = np.stack([tops_of[p] for p in order])
    stacked = np.where(stacked == NOTHING, tops_of[0], stacked) - bits
    return np.where(stacked < NOTHING // 2, 0, stacked)


def accumulate(
    products: Array, left: Array, right: Array, precision: int, *, emulated: bool
) -> Array:
    """0 + T_0 2^e_0 + T_1 2^e_1 + ... in floating-point arithmetic, one order: that of the list."""
    out = np.empty(products.shape[1:])
    launch(
        kernels.accumulate, len(out), products.size, products, left, right, precision == 24,
        emulated, out,
    )  # fmt: skip
    return out if precision == 53 else out.astype(np.float32)


def nearest(products: Array, left: Array, right: Array) -> Array:
    """The exact sum of all T 2^e, rounded once."""
    out, fmt = np.empty(products.shape[1:]), BINARY["float64"]
    launch(
        kernels.nearest, len(out), 4 * products.size, products, left, right,
        np.array([fmt.precision, fmt.lowest, fmt.highest]), out,
    )  # fmt: skip
    return out


def add(x: Array, y: Array, *, emulated: bool) -> Array:
    """The sum x + y in float64, or in integer instructions."""
    if not emulated:
        return np.asarray(x + y)
    x, y, out = np.ascontiguousarray(x), np.ascontiguousarray(y), np.empty(x.shape)
    launch(soft64.sums, len(x), x.size, x.view(np.int64), y.view(np.int64), out.view(np.int64))
    return out


def combine(
    x: Array, alpha: float, beta: float, c: Array | None, precision: int, *, emulated: bool
) -> Array:
    """The sum alpha x + beta c in the result's own arithmetic; beta = 0 reads no c."""
    dtype = np.float64 if precision == 53 else np.float32
    if emulated:
        out = np.empty(x.shape)
        addend = x if c is None else np.array(c, np.float64, order="C")
        scalars = np.array([alpha, beta]).view(np.int64).tolist()
        launch(
            soft64.combine, len(x), x.size, x.view(np.int64), addend.view(np.int64), *scalars,
            int(c is not None), out.view(np.int64),
        )  # fmt: skip
        return out
    scalars = np.array([alpha, beta], dtype)
    with np.errstate(all="ignore"):
        scaled: Array = scalars[0] * x
        return scaled if c is None else np.asarray(scaled + scalars[1] * c)


def zeros(m: int, n: int, precision: int, like: Array) -> Array:
    """A result to be filled."""
    return np.zeros((m, n), np.float64 if precision == 53 else np.float32)


def contiguous(x: Array) -> Array:
    """The same without gaps."""
    return np.ascontiguousarray(x)


def at(x: Array) -> AbstractContextManager[Any]:
    """Where x is, for the time being."""
    return nullcontext()


def read(account: Account) -> None:
    """Nothing to wait for."""
