"""`lstsq` and `pinv`: exact least squares of full rank, every element rounded once.

The system A'A x = A'b is formed exactly, in words that hold every bit of the products, and solved
as any other: its condition number is the square of A's, which `preconditioner` takes with more
words. Where the products have more bits than 16 words, and for solutions of minimum norm, it is the
system [[I, A], [A', 0]] (t, x) = (b, 0), which needs no products at all, and is of size m + n.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from widen import api
from widen.calls.foreign.functions import taking
from widen.formats import Part
from widen.formats.arrays import library_of
from widen.linalg import operands
from widen.linalg.arrays import eye_like, filled, moved_like
from widen.linalg.bounds import FORMATS, PRECISION, first_words
from widen.linalg.errors import NotProvenError, SingularMatrixError
from widen.linalg.functions import solved
from widen.linalg.modular import planes_of
from widen.linalg.refine import Solution
from widen.linalg.scaling import each_plane, exponents_of, is_equal, times_powers
from widen.linalg.singular import NONE, last_exponents
from widen.linalg.system import solve_real

LARGEST = 6000
"""Rows and columns together of the larger system."""


@taking("a", "b")
def lstsq(
    a: Any, b: Any, *, dtype: Any = None, accuracy: str = "correct", info: bool = False
) -> Any:
    """The x of the smallest |a x - b|, of full rank, every element the nearest of its format.

    Parameters
    ----------
    a
        Matrices (..., m, n) of full rank, as for `solve`. With m < n, x is the solution of a x = b
        of the smallest norm.
    b
        A vector (m,), or matrices (..., m, k).
    dtype, accuracy, info
        As for `solve`.

    Returns
    -------
    ndarray, tensor or Words (..., n, k), or (the same, SolveInfo)
        x alone, unlike `np.linalg.lstsq`.

    Raises
    ------
    SingularMatrixError
        Where a is not of full rank, which is proven.

    Examples
    --------
    >>> import numpy as np, widen
    >>> a = np.array([[1.0, 1.0], [1.0, 2.0], [1.0, 3.0]])
    >>> widen.linalg.lstsq(a, np.array([1.0, 2.0, 2.0]))
    array([0.66666667, 0.5       ])
    """
    call = operands.given(dtype, a=a, b=b)
    enclosed = operands.check_accuracy(accuracy)
    left, right = call.arrays
    if left.ndim < 2:
        raise ValueError(f"a has shape {tuple(left.shape)}; give matrices (..., m, n)")
    is_vector = right.ndim == 1
    right = right[:, None] if is_vector else right
    if right.shape[-2] != left.shape[-2]:
        raise ValueError(
            f"shapes {tuple(left.shape)} and {tuple(call.arrays[1].shape)} do not match: b needs "
            f"{left.shape[-2]} rows"
        )
    batch = operands.batch_shape(tuple(left.shape[:-2]), tuple(right.shape[:-2]))
    problems = zip(
        operands.each_matrix(left, batch), operands.each_matrix(right, batch), strict=True
    )
    shape = (*batch, left.shape[-1], right.shape[-1])
    value, record = solved(problems, shape, call, enclosed, least_squares_real)
    if is_vector:
        value, record = value[..., 0], record.of_vector()
    return (value, record) if info else value


@taking("a")
def pinv(a: Any, *, dtype: Any = None, accuracy: str = "correct", info: bool = False) -> Any:
    """The pseudoinverse of a matrix of full rank, every element the nearest of its format.

    Parameters
    ----------
    a, dtype, accuracy, info
        As for `lstsq`.

    Examples
    --------
    >>> import numpy as np, widen
    >>> widen.linalg.pinv(np.array([[1.0], [2.0]]))
    array([[0.2, 0.4]])
    """
    call = operands.given(dtype, a=a)
    enclosed = operands.check_accuracy(accuracy)
    (left,) = call.arrays
    if left.ndim < 2:
        raise ValueError(f"a has shape {tuple(left.shape)}; give matrices (..., m, n)")
    batch, (m, n) = tuple(left.shape[:-2]), left.shape[-2:]
    identity = eye_like(first_words(operands.real(left)), m)
    problems = ((matrix, identity) for matrix in operands.each_matrix(left, batch))
    value, record = solved(problems, (*batch, n, m), call, enclosed, least_squares_real)
    return (value, record) if info else value


def least_squares_real(a: Any, b: Any, fmt: Part, enclosed: bool) -> Any:
    """The least squares solution of one real problem."""
    m, n = a.shape
    if min(m, n) == 0:  # the smallest of all x
        like, shape = first_words(a), (n, b.shape[1])
        zeros = [moved_like(np.zeros(shape, word.name), like) for word in fmt.words]
        return Solution(zeros, filled(like, shape, 0.0)), None
    try:
        if m >= n:
            normal = _normal_equations(a, b)
            if normal is not None:
                return solve_real(*normal, fmt, enclosed)
        return _by_larger_system(a, b, fmt, enclosed)
    except SingularMatrixError as error:
        raise SingularMatrixError(f"a is not of full rank {min(m, n)}: {error}") from None


def _range(x: Any) -> tuple[Any, Any]:
    """Exponents of the last bit of every column, and of its largest number."""
    planes = planes_of(x)
    last = np.min([last_exponents(plane).min(axis=0) for plane in planes], axis=0)
    most = exponents_of(x, 0)[0]
    return np.where(last == NONE, 0, last), np.where(last == NONE, 0, most)


def _normal_equations(a: Any, b: Any) -> tuple[Any, Any] | None:
    """A'A and A'b, exactly, with every row times a power of two; None if 16 words do not do.

    A sum of m products of columns that end in 2^l and 2^l', and begin below 2^e and 2^e', is a
    multiple of 2^(l + l') below m 2^(e + e'). A format holds integers of as many bits as it has.
    """
    (last, most), (last_b, most_b) = _range(a), _range(b)
    ends, tops = np.concatenate([last, last_b]), np.concatenate([most, most_b])
    grown = math.ceil(math.log2(a.shape[0])) + 1
    needed = int((most - last).max() + (tops - ends).max(initial=0)) + grown
    fits = [k for k in FORMATS if k > 1 and PRECISION[k] >= needed]
    lowest, highest = int((last - most).min() + ends.min()), int(tops.max()) + grown
    if not fits or lowest < -1070 or highest > 1000:
        return None
    near = times_powers(a, -most, -1)  # columns near 1: A' of these are rows of the system
    if not is_equal(times_powers(near, most, -1), a):
        return None
    rows = each_plane(near, lambda plane: library_of(plane).swapaxes(plane, -1, -2))
    fmt = FORMATS[fits[0]]
    # Half of a symmetric product is computed; it is exact, and so is its scaling by columns.
    gram, right = (api.matmul(rows, x, accuracy="correct", dtype=fmt) for x in (near, b))
    return times_powers(gram, most, -1), right


def _by_larger_system(a: Any, b: Any, fmt: Part, enclosed: bool) -> Any:
    """The same by a system of m + n unknowns, in which x stands last, or first if m < n."""
    m, n = a.shape
    if m + n > LARGEST:
        raise NotProvenError(
            f"the products of a have more bits than 16 words, or m < n: then {m + n} unknowns are "
            f"needed, and {LARGEST} are the most; scale a so that its numbers are closer together"
        )
    like = first_words(a)
    transposed = each_plane(a, lambda plane: library_of(plane).swapaxes(plane, -1, -2))
    zero = filled(like, (min(m, n), min(m, n)), 0.0)
    sides = filled(like, (n, b.shape[1]), 0.0)
    if m >= n:
        top = operands.beside([eye_like(like, m), a], 1)
        whole = operands.beside([top, operands.beside([transposed, zero], 1)], 0)
        right, wanted = operands.beside([b, sides], 0), slice(m, None)
    else:
        top = operands.beside([eye_like(like, n), transposed], 1)
        whole = operands.beside([top, operands.beside([a, zero], 1)], 0)
        right, wanted = operands.beside([sides, b], 0), slice(None, n)
    solution, pre = solve_real(whole, right, fmt, enclosed)
    solution.planes = [plane[wanted] for plane in solution.planes]
    solution.radius = solution.radius[wanted]
    return solution, pre
