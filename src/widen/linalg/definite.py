"""`is_positive_definite`: proven, or refuted by a vector."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from widen import api
from widen.calls.foreign.functions import taking
from widen.formats.arrays import library_of
from widen.linalg import operands, results
from widen.linalg.arrays import adjoint, filled, is_complex, moved_like, on_host
from widen.linalg.bounds import (
    FORMATS,
    U,
    above,
    as_words,
    first_words,
    format_name,
    magnitudes,
    product,
    product_above,
    row_sums,
)
from widen.linalg.errors import NotProvenError
from widen.linalg.integers import WORK, integer_rows, row_lengths
from widen.linalg.intervals import Intervals
from widen.linalg.null_vectors import null_vector
from widen.linalg.records import DefiniteInfo
from widen.linalg.spectrum import check_symmetric, scaled_by_two, symmetric_values
from widen.words import Words

ZERO = "an eigenvalue is zero: the rank is not full, proven modulo primes"


@dataclass(frozen=True)
class _Answer:
    """Whether one matrix is definite, a vector that refutes it or None, and how that is known."""

    definite: bool
    vector: Any
    proven: str


@taking("a")
def is_positive_definite(a: Any, *, info: bool = False) -> Any:
    """Whether symmetric (or Hermitian) matrices are positive definite, proven.

    Parameters
    ----------
    a
        Matrices (..., n, n), as for `solve`, symmetric (or Hermitian) to the last bit.
    info
        True: also return a `DefiniteInfo`, with a vector x that has x' a x <= 0, which is shown
        exactly, wherever the answer is False; of singular matrices one with a x = 0, unless its
        numbers have more bits than 16 words or take too long to find. Where numbers are so far
        apart that only integers decide, there is none.

    Raises
    ------
    NotProvenError
        Where 16 words do not tell the smallest eigenvalue from zero, and a is too large for
        integers.

    Examples
    --------
    >>> import numpy as np, widen
    >>> hilbert = 1.0 / (np.arange(8.0)[:, None] + np.arange(8.0) + 1)
    >>> widen.linalg.is_positive_definite(hilbert)
    True
    >>> a = np.array([[1.0, 2.0], [2.0, 1.0]])
    >>> answer, info = widen.linalg.is_positive_definite(a, info=True)
    >>> answer, info.vectors[0]
    (False, array([ 0.70710678, -0.70710678]))
    """
    call = operands.given(None, a=a)
    operands.check_square(call.arrays[0])
    answers = [_answer(matrix) for matrix in results.each_matrix(call)]
    batch = tuple(call.arrays[0].shape[:-2])
    like = first_words(operands.real(call.arrays[0]))
    answer: Any = np.array([one.definite for one in answers], bool).reshape(batch)
    answer = operands.returned(moved_like(answer, like), call) if batch else answers[0].definite
    if not info:
        return answer
    vectors = [one.vector if one.vector is None else operands.returned(one.vector, call)
               for one in answers]  # fmt: skip
    return answer, DefiniteInfo(vectors, [one.proven for one in answers])


def _answer(a: Any) -> _Answer:
    """The answer for one matrix: the cheapest proof that there is."""
    check_symmetric(a)
    n = a.shape[0]
    if n == 0:
        return _Answer(True, None, "it is empty")
    diagonal = on_host(first_words(operands.real(a)))[range(n), range(n)]
    at = int(diagonal.argmin())
    if diagonal[at] <= 0:
        unit = filled(first_words(operands.real(a)), (n,), 0.0)
        unit[at] = 1.0
        return _Answer(False, unit, f"element ({at}, {at}) of a is not positive")
    if _by_cholesky(a):
        return _Answer(
            True, None, "a - c I - L L' is less than c in norm for a triangle L and c > 0"
        )
    try:
        return _by_eigenvalue(a)
    except NotProvenError:
        answer = _by_minors(a)
        if answer is None:
            raise
        return answer


def _has_sign(intervals: Intervals) -> bool:
    """Whether the smallest value is positive, or is not."""
    low, high = intervals.ends(0)
    return low > 0 or high <= 0


def _by_eigenvalue(a: Any) -> _Answer:
    """The answer by the smallest eigenvalue and its vector."""
    enclosures = symmetric_values(a, _has_sign, vectors=True)
    low, high = enclosures.intervals.ends(0)
    if low > 0:
        return _Answer(True, None, "the enclosure of the smallest eigenvalue is positive")
    if high > 0:
        raise NotProvenError(
            f"the smallest eigenvalue is within {float(high):.1e} of zero, and 16 "
            "words do not tell on which side"
        )
    if high == 0:
        vector, how = null_vector(a)
        return _Answer(False, vector, f"{ZERO}; {how}")
    assert enclosures.vectors is not None
    (x,) = results.turned_columns(enclosures.vectors.sides[0][:, :1])
    return _refuted(a, x)


def _by_minors(a: Any) -> _Answer | None:
    """By the signs of the leading minors (Sylvester), in integers; None if that takes too long.

    Rows times powers of two, which make them integers, leave these signs. Every entry of Bareiss'
    elimination is a minor, those of the diagonal are the leading ones. A complex matrix is definite
    if the real one of twice the size is.
    """
    (rows,), _ = integer_rows(operands.real_matrix(a))
    n, bits = len(rows), int(row_lengths(rows).sum())
    if n**3 * (bits / 1000) ** 1.5 > WORK:
        return None
    last = 1
    for k in range(n):
        pivot = rows[k, k]
        if pivot <= 0:
            return _Answer(
                False, None, "a leading minor is not positive, in integers; that gives no vector"
            )
        rest = rows[k + 1 :, k + 1 :]
        rest[...] = (pivot * rest - np.multiply.outer(rows[k + 1 :, k], rows[k, k + 1 :])) // last
        last = pivot
    return _Answer(True, None, "all leading minors are positive, in integers")


def _refuted(a: Any, x: Words) -> _Answer:
    """The shortest of a vector's formats in which x' a x < 0 is shown."""
    for count in [k for k in FORMATS if k <= len(x.planes)]:
        vector = first_words(x) if count == 1 else as_words(x, count)
        if is_refuted_by(a, vector):
            return _Answer(False, vector[:, 0], "x' a x is negative for the vector x")
    return _Answer(False, None, "the enclosure of the smallest eigenvalue is negative")


def is_refuted_by(a: Any, x: Any) -> bool:
    """Whether x' a x < 0 for a column x of floats or words, by bounds of an exact product's error.

    y = a x correctly rounded to 16 words has an error d, and x' y one of its own: x' a x is at most
    their sum with |x|' d, which is compared with zero.
    """
    near, _ = scaled_by_two(a, "a vector")
    wide = format_name(max(FORMATS), is_complex(a))
    y, about = api.matmul(near, x, accuracy="correct", dtype=wide, info=True)
    value, about_value = api.matmul(
        adjoint(x), y, accuracy="correct", dtype=format_name(1, is_complex(a)), info=True
    )
    reach = above(about_value.bound + product_above(magnitudes(x).T, about.bound))
    total = float(on_host(operands.real(value))[0, 0])
    return total < 0 and -total > float(on_host(reach)[0, 0])


def _by_cholesky(a: Any) -> bool:
    """Whether float64's own factor proves that a is definite.

    With B = A - cI to rounding, L a lower triangle of finite numbers and E = B - LL', A = LL' + E +
    (A - B), so that A is definite if |E| < min (A - B)_ii in norm: whatever L is. |E| is at most
    |B - fl(LL')| + (n + 3) u (|L||L'| + |B|).
    """
    if isinstance(a, Words):
        return False
    try:
        near, _ = scaled_by_two(a, "a factor")
    except NotProvenError:
        return False
    n, library = near.shape[0], library_of(near)
    own = library.diagonal(operands.real(near))
    root = own**0.5
    shift = 8 * (n + 4) * U * float(root.max()) * float(root.sum())
    b = near - library.diag(own * 0 + shift)
    try:
        lower = library.tril(library.linalg.cholesky(b))
    except library.linalg.LinAlgError:
        return False
    if not bool(library.isfinite(lower).all()):
        return False
    size = magnitudes(lower)
    rest = magnitudes(b - product(lower, adjoint(lower)))
    error = (n + 3) * U * 1.01 * above(product_above(size, size.T) + magnitudes(b))
    norm = float(row_sums(above(rest + error)).max())
    taken = float((own - library.diagonal(operands.real(b))).min()) * (1 - 4 * U)
    return norm < taken
