"""Beyond paper 000: every row of A has its own number of slices.

Algorithm 3 takes as many slices for a block of rows as its worst row needs. Here rows that need the
same number are multiplied together, so that only the rows that need another slice get it. A row's
result is that of `dgemm_tc` for this row alone, bit for bit: it does not depend on the other rows,
nor on blocks.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Literal, overload

import numpy as np
from numpy.typing import NDArray

from widen.papers.slicing.algorithm import NOTHING, Operands, Ran, Scheme, checked, run
from widen.papers.tensor_core_dgemm.algorithm import (
    BLOCK,
    MEMORY,
    ROWS_A_TIME,
    enough_slices,
    estimates,
    in_order,
    magnitudes_of,
    scheme_of,
)

Groups = dict[tuple[int, bool], NDArray[Any]]
"""Rows by their number of slices, and whether they are multiplied in fast mode."""


def rows_by_slices(a: Any, b: Any) -> Groups:
    """Algorithm 3 for every row as if it were alone.

    Examples
    --------
    >>> import numpy as np
    >>> a, b = np.random.default_rng(0).standard_normal((2, 64, 64))
    >>> a[5, 0] = 1e6
    >>> {key: len(rows) for key, rows in rows_by_slices(a, b).items()}
    {(7, False): 55, (7, True): 8, (8, True): 1}
    """
    given = checked(a, b, "float64")
    with given.verbs.at(given.a):
        return _groups(given, scheme_of(given.shape[1]), magnitudes_of(given))


@overload
def dgemm_tc_by_row(
    a: Any, b: Any, *, memory: int | str = ..., block: int | None = ..., info: Literal[False] = ...
) -> Any: ...
@overload
def dgemm_tc_by_row(
    a: Any, b: Any, *, memory: int | str = ..., block: int | None = ..., info: Literal[True]
) -> tuple[Any, list[tuple[int, Ran]]]: ...
def dgemm_tc_by_row(
    a: Any, b: Any, *, memory: int | str = MEMORY, block: int | None = BLOCK, info: bool = False
) -> Any:
    """A B as by `dgemm_tc` in DP-mode, with the slices that each row needs.

    Parameters
    ----------
    a, b, memory, block
        As for `dgemm_tc`.
    info
        Also return, for every group of rows, how many they are and its `Ran`.

    Examples
    --------
    >>> import numpy as np
    >>> from widen.papers.tensor_core_dgemm import dgemm_tc
    >>> a, b = np.random.default_rng(0).standard_normal((2, 64, 64))
    >>> bool((dgemm_tc_by_row(a, b)[3] == dgemm_tc(a[3:4], b)[0]).all())
    True
    """
    given = checked(a, b, "float64")
    verbs, (m, k, n) = given.verbs, given.shape
    scheme, ran = scheme_of(k), []
    with verbs.at(given.a):
        weights = magnitudes_of(given)
        out = verbs.zeros(m, n, scheme.precision, given.a)

        def left(rows: Any) -> Any:
            return enough_slices(verbs, rows, weights, scheme)

        for rows in _groups(given, scheme, weights).values():
            part = replace(given, a=given.a[rows], back=lambda x: x)
            out[rows], what = run(part, scheme, in_order, memory, block, True, left=left)
            ran.append((len(rows), what))
    return (given.back(out), ran) if info else given.back(out)


@np.errstate(over="ignore")  # as in `enough_slices`
def _groups(given: Operands, scheme: Scheme, weights: Any) -> Groups:
    """Rows by (slices, fast), in this order; rows are looked at some at a time."""
    keys: list[tuple[int, bool]] = []
    for start in range(0, len(given.a), ROWS_A_TIME):
        rows = given.a[start : start + ROWS_A_TIME]
        count, fast = np.zeros(len(rows), int), np.zeros(len(rows), bool)
        wanting = np.ones(len(rows), bool)
        slices = estimates(given.verbs, rows, weights, scheme)
        for d, (_, top, following, s, t) in enumerate(slices, 1):
            masks = (top != NOTHING, following != NOTHING, (s > t) | (t == 0))
            here, left, enough = (np.array(mask.tolist()) for mask in masks)  # from any device
            wanting &= here
            count += wanting
            if d >= 2:
                fast |= wanting & enough & left
                wanting &= ~enough
            if not wanting.any():
                break
        keys += zip(count.tolist(), fast.tolist(), strict=True)
    return {key: np.flatnonzero([each == key for each in keys]) for key in sorted(set(keys))}
