"""`norm`: norms of matrices and vectors."""

from __future__ import annotations

from time import perf_counter
from typing import Any

from widen.formats.arrays import eager
from widen.linalg import results
from widen.linalg.singular_values import values_of
from widen.linalg.spectrum import Values, all_decided


@eager
def norm(a: Any, ord: int = 2, *, dtype: Any = None, info: bool = False) -> Any:
    """The largest singular value of matrices, as `svdvals` has it.

    Parameters
    ----------
    a, dtype, info
        As for `svdvals`.
    ord
        2, the only norm here; `Words` has others.

    Examples
    --------
    >>> import numpy as np, widen
    >>> widen.linalg.norm(np.array([[3.0, 0.0], [4.0, 0.0]]), 2)
    np.float64(5.0)
    """
    if ord != 2:
        raise ValueError(f"ord={ord!r} is not known here; use 2, or np.linalg.norm of widen.Words")
    started = perf_counter()
    call = results.real_result(dtype, a)
    (array,) = call.arrays
    results.check_not_empty(array)
    check = all_decided(call.fmt.part)
    each = []
    for matrix in results.each_matrix(call):
        found = values_of(matrix, lambda lows, highs: check(lows[:1], highs[:1]))
        each.append(Values(found.lows[:1], found.highs[:1], found.words))
    value, record = results.collected(call, each, tuple(array.shape[:-2]), started)
    return (value, record) if info else value
