"""`qr`, `lu_factor` and `lu_solve`: factors in any format, with proven residuals."""

from __future__ import annotations

from time import perf_counter
from typing import Any

import numpy as np

from widen import api
from widen.calls import check
from widen.calls.cpu_tensors import as_array
from widen.calls.foreign.functions import taking
from widen.formats import Format
from widen.formats.arrays import is_tensor, library_of
from widen.linalg import householder, operands, results, triangles
from widen.linalg.arrays import adjoint, eye_like, is_complex, moved_like, on_host
from widen.linalg.bounds import (
    FORMATS,
    PRECISION,
    above,
    as_words,
    first_words,
    format_name,
    magnitudes,
    row_sums,
)
from widen.linalg.errors import NotProvenError, SingularMatrixError
from widen.linalg.operands import Given
from widen.linalg.records import FactorInfo
from widen.linalg.scaling import exponents_of, is_equal, times_powers
from widen.words import Words

MODES = ("reduced", "complete", "r")
SPARE = 12
"""Bits of words beyond the format of orthogonal factors."""


def _count_for(fmt: Format, spare: int) -> int:
    """Words of float64 to compute in for a result of a format."""
    wide = [k for k in FORMATS if k > 1 and PRECISION[k] >= fmt.precision + spare]
    return wide[0] if wide else max(FORMATS)


@taking("a")
def qr(a: Any, mode: str = "reduced", *, dtype: Any = None, info: bool = False) -> Any:
    """The factors a = q r, q with orthonormal columns, r upper triangular.

    They are computed in more words than the format has (Householder's reflections) and rounded:
    columns are orthonormal to the format whatever the rank of a. The diagonal of r is real and not
    negative, which makes both factors unique where a is of full column rank. Where it is not, some
    elements of that diagonal are of the size of rounding errors, or zero: the rank is not proven
    here (`matrix_rank` does that).

    Parameters
    ----------
    a
        Matrices (..., m, n), as for `solve`, of any rank.
    mode
        ``"reduced"``: q (..., m, k) and r (..., k, n), k = min(m, n). ``"complete"``: q (..., m, m)
        and r (..., m, n). ``"r"``: r alone, as of ``"reduced"``.
    dtype
        Format of the results, as for `solve`; with 16 words, q is orthonormal to n of its units.
    info
        True: also return a `FactorInfo`: proven bounds of a - q r, and of I - q' q.

    Returns
    -------
    (q, r), or r; or the same and a FactorInfo

    Examples
    --------
    >>> import numpy as np, widen
    >>> q, r = widen.linalg.qr(np.array([[3.0, 1.0], [4.0, 2.0]]))
    >>> r
    array([[5. , 2.2],
           [0. , 0.4]])
    """
    if mode not in MODES:
        raise ValueError(f"mode={mode!r} is not known; use one of {', '.join(MODES)}")
    started = perf_counter()
    call = operands.given(dtype, a=a)
    (array,) = call.arrays
    results.check_matrices(array)
    batch, (m, n) = tuple(array.shape[:-2]), array.shape[-2:]
    width = m if mode == "complete" else min(m, n)
    count = _count_for(call.fmt, SPARE)
    like = first_words(operands.real(array))
    pairs = [_orthogonal(matrix, count, width) for matrix in results.each_matrix(call)]
    q, r = (
        operands.assembled([results.planes_for(_complex_if(pair[k], call.fmt), call.fmt)
                            for pair in pairs], (*batch, *shape), call, like)
        for k, shape in enumerate(((m, width), (width, n)))
    )  # fmt: skip
    factors = (r,) if mode == "r" else (q, r)
    if info:
        record = _record(call, (q, r), array, count, started, is_orthogonal=True)
        return (*factors, record)
    return factors[0] if mode == "r" else factors


def _complex_if(x: Words, fmt: Format) -> Words:
    """Real words as complex ones where the result is complex."""
    return x if fmt.parts == 1 or is_complex(x) else x.astype(format_name(len(x.planes), True))


def _orthogonal(a: Any, count: int, width: int) -> tuple[Words, Words]:
    """Q and R of one matrix: columns are brought near 1 by powers of two, which R gets back."""
    if 0 in a.shape:
        q = householder.identity(a, a.shape[0], width, count)
        return q, as_words(a[:width], count)
    powers, _ = exponents_of(a, 0)
    near = times_powers(a, -powers, -1)
    if not is_equal(times_powers(near, powers, -1), a):
        raise NotProvenError("the numbers of a column of a are too far apart for qr; scale a")
    q, r = householder.factor(near, count, width)
    return q, times_powers(r, powers, -1)


@taking("a")
def lu_factor(a: Any, *, dtype: Any = None, info: bool = False) -> Any:
    """The triangles of a with rows exchanged, p a = l u, in any format of words.

    Parameters
    ----------
    a
        Matrices (..., m, n), as for `solve`.
    dtype
        Format of the result, as for `solve`.
    info
        True: also return a `FactorInfo`: proven bounds of p a - l u.

    Returns
    -------
    (lu, pivots), or (lu, pivots, FactorInfo)
        Both triangles in one matrix, that of l without its diagonal of ones; row i was exchanged
        with row pivots[i], in order. Pivots count from 0 for arrays, as SciPy's do, and from 1 for
        tensors, as PyTorch's do.

    Notes
    -----
    The arithmetic is that of the format, two words of float64 at least. Its operations have one
    answer everywhere, so that the factors have, too. A matrix that is singular has factors as well,
    with zeros, or what rounding left of them, on the diagonal of u.

    Examples
    --------
    >>> import numpy as np, widen
    >>> lu, pivots = widen.linalg.lu_factor(np.array([[1.0, 2.0], [4.0, 4.0]]))
    >>> lu, pivots
    (array([[4.  , 4.  ],
           [0.25, 1.  ]]), array([1, 1]))
    """
    started = perf_counter()
    call = operands.given(dtype, a=a)
    (array,) = call.arrays
    results.check_matrices(array)
    batch, (m, n) = tuple(array.shape[:-2]), array.shape[-2:]
    count = _count_for(call.fmt, 0)
    like = first_words(operands.real(array))
    planes, pivots = [], []
    for matrix in results.each_matrix(call):
        w = _complex_if(as_words(matrix, count), call.fmt)
        pivots.append(on_host(triangles.factor_words(w).pivots))
        planes.append(results.planes_for(w, call.fmt))
    lu = operands.assembled(planes, (*batch, m, n), call, like)
    order = np.array(pivots, int).reshape(*batch, min(m, n))
    is_tensors = call.place != "numpy"
    swaps = (order + 1).astype("int32") if is_tensors else order
    swaps = operands.returned(moved_like(swaps, like), call)
    if not info:
        return lu, swaps
    return (
        lu,
        swaps,
        _record(call, (lu, order), array, count, started, is_orthogonal=False),
    )


def lu_solve(lu_and_pivots: tuple[Any, Any], b: Any, *, dtype: Any = None) -> Any:
    """The solution of a x = b by substitution with the triangles of `lu_factor`, in its format.

    Nothing is proven: the error is that of any solution by LU in so many words, about the condition
    number times a unit of the format. `solve` gives the exact solution.

    Parameters
    ----------
    lu_and_pivots
        What `lu_factor` returned for a square matrix.
    b
        A vector (n,) or a matrix (n, k).
    dtype
        Format of the result; that of the triangles by default.

    Raises
    ------
    SingularMatrixError
        Where u has a zero on its diagonal.

    Examples
    --------
    >>> import numpy as np, widen
    >>> factors = widen.linalg.lu_factor(np.array([[1.0, 2.0], [4.0, 4.0]]), dtype="float64x2")
    >>> print(widen.linalg.lu_solve(factors, np.array([5.0, 12.0])))
    [1.0, 2.0]
    """
    lu, pivots = lu_and_pivots
    return _substituted(lu, b, pivots, dtype=dtype)


@taking("lu", "b", as_given="pivots")
def _substituted(lu: Any, b: Any, pivots: Any, *, dtype: Any) -> Any:
    """The same for triangles and pivots one by one."""
    call = operands.given(dtype, lu=lu, b=b)
    triangle, right = call.arrays
    operands.check_square(triangle, "lu")
    is_vector = right.ndim == 1
    right = right[:, None] if is_vector else right
    n = triangle.shape[0]
    if triangle.ndim != 2 or right.ndim != 2 or right.shape[0] != n:
        raise ValueError(
            f"shapes {tuple(triangle.shape)} and {tuple(call.arrays[1].shape)} do not match: give "
            "one square matrix, and b of as many rows"
        )
    first = on_host(first_words(triangle))
    if (first[range(n), range(n)] == 0).any():
        raise SingularMatrixError("u has a zero on its diagonal: the matrix is singular, or nearly")
    order = on_host(pivots) - 1 if is_tensor(pivots) else np.asarray(pivots)
    count = max(_count_for(call.fmt, 0), _count_for(check.format_of(lu.dtype, "lu"), 0))
    wide = [_complex_if(as_words(x, count), call.fmt) for x in (triangle, right)]
    x = triangles.permuted(wide[1], order)
    if x.size:
        triangles.solve_lower(wide[0], x)
        triangles.solve_upper(wide[0], x)
    like = first_words(operands.real(triangle))
    solution = operands.assembled([results.planes_for(x, call.fmt)], tuple(right.shape), call, like)
    return solution[:, 0] if is_vector else solution


def _record(
    call: Given, factors: tuple[Any, Any], array: Any, count: int, started: float, *,
    is_orthogonal: bool,
) -> FactorInfo:  # fmt: skip
    """Proven bounds of what two factors leave of a matrix, for all of a batch."""
    batch = tuple(array.shape[:-2])
    left, right = (_as_operand(x, call) for x in factors)
    like = first_words(operands.real(array))
    residual = np.zeros(tuple(array.shape))
    worst = 0.0
    for place, matrix in zip(np.ndindex(*batch), operands.each_matrix(array, batch), strict=True):
        p, q = left[place], right[place]
        is_finite = _is_finite(p) and _is_finite(q)
        if is_finite and not is_orthogonal:
            k = min(matrix.shape)
            matrix = triangles.permuted(matrix, q)
            wide = as_words(p, max(2, len(p.planes) if isinstance(p, Words) else 1))
            p, q = triangles.lower_of(wide, k), triangles.upper_of(wide, k)
        # Numbers beyond the range of the format have no product.
        residual[place] = on_host(_distance(p, q, matrix)) if is_finite else np.inf
        if is_orthogonal and p.shape[1]:
            identity = eye_like(first_words(operands.real(p)), p.shape[1])
            off = row_sums(_distance(adjoint(p), p, identity))
            worst = max(worst, float(off.max()))
    return FactorInfo(
        operands.returned(moved_like(residual, like), call),
        worst if is_orthogonal else None, count, perf_counter() - started,
    )  # fmt: skip


def _as_operand(x: Any, call: Given) -> Any:
    """A result as an operand again: tensors on a CPU as arrays."""
    if isinstance(x, np.ndarray) and x.dtype.kind == "i":
        return x
    return operands.widened(as_array(x) if call.place == "cpu" else x)


def _is_finite(x: Any) -> bool:
    first = first_words(x)
    return bool(library_of(first).isfinite(first).all())


def _distance(p: Any, q: Any, c: Any) -> Any:
    """Upper bounds of |c - p q|, element by element."""
    if 0 in (*p.shape, *q.shape):
        return magnitudes(c)
    both = is_complex(p) or is_complex(q) or is_complex(c)
    rest, about = api.gemm(
        p, q, c, alpha=-1.0, beta=1.0, accuracy="correct", dtype=format_name(1, both), info=True
    )
    return above(magnitudes(rest) + about.bound)
