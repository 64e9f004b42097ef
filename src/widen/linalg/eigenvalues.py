"""`eigvalsh` and `eigh`: eigenvalues within proven radii, vectors within proven angles."""

from __future__ import annotations

from time import perf_counter
from typing import Any

from widen.calls.foreign.functions import taking
from widen.linalg import operands, results
from widen.linalg.bounds import first_words
from widen.linalg.progress import Progress, reported
from widen.linalg.progress import part as progress_part
from widen.linalg.spectrum import all_decided, check_symmetric, symmetric_values


@taking("a")
def eigvalsh(
    a: Any, *, dtype: Any = None, info: bool = False, progress: Progress | None = None
) -> Any:
    """The eigenvalues of symmetric (or Hermitian) matrices, in ascending order.

    Every one is within a proven radius, and the nearest number of its format wherever that radius
    decides it, which `info.decided` says: nearly always. Values that end, such as 2 in several
    words, and ties are proven by integers.

    Parameters
    ----------
    a
        Matrices (..., n, n), as for `solve`, symmetric to the last bit.
    dtype
        Format of the result: float64 (the default for float64), float32, or several words.
    info
        True: also return an `EigenInfo`.
    progress
        A function that is called with the share of the work that is done, from 0 to 1.

    Examples
    --------
    >>> import numpy as np, widen
    >>> widen.linalg.eigvalsh(np.array([[1.0, 1e-9], [1e-9, 1.0]]))
    array([1., 1.])
    >>> print(widen.linalg.eigvalsh(np.array([[2.0, 1.0], [1.0, 1.0]]), dtype="float64x2")[0])
    0.38196601125010515179541316563436
    """
    if operands.wants_gradient(a):
        from widen.linalg import gradients

        return gradients.eigvalsh(a, dtype, info)
    with reported(progress):
        values, _, record = _solved(a, dtype, False)
    return (values, record) if info else values


@taking("a")
def eigh(a: Any, *, dtype: Any = None, info: bool = False) -> Any:
    """The eigenvalues of symmetric (or Hermitian) matrices as in `eigvalsh`, and eigenvectors.

    Vectors are refined in words until they are proven to be as accurate as the format, then
    rounded: `info.angle` bounds the angle between each of them and the exact one, or the space of
    the exact ones of its cluster, eigenvalues that could not be told apart (`info.cluster`). All of
    them are orthonormal to the format (`info.orthogonality`). The component of the largest size is
    real and positive.

    Parameters
    ----------
    a
        Matrices (..., n, n), as for `solve`, symmetric (or Hermitian) to the last bit.
    dtype, info
        As for `eigvalsh`; `dtype` is that of the values, and of the vectors' parts.

    Returns
    -------
    (values, vectors), or (values, vectors, EigenInfo)

    Examples
    --------
    >>> import numpy as np, widen
    >>> values, vectors = widen.linalg.eigh(np.array([[2.0, 1.0], [1.0, 2.0]]))
    >>> values
    array([1., 3.])
    >>> vectors[:, 1]
    array([0.70710678, 0.70710678])
    """
    if operands.wants_gradient(a):
        from widen.linalg import gradients

        return gradients.eigh(a, dtype, info)
    values, vectors, record = _solved(a, dtype, True)
    return (values, vectors, record) if info else (values, vectors)


def _solved(a: Any, dtype: Any, with_vectors: bool) -> tuple[Any, Any, Any]:
    """Values, vectors (or None) and the record."""
    started = perf_counter()
    call = results.real_result(dtype, a)
    part = call.fmt.part
    (array,) = call.arrays
    operands.check_square(array)
    each = []
    matrices = results.each_matrix(call)
    share = 1 / max(1, len(matrices))
    for at, matrix in enumerate(matrices):
        check_symmetric(matrix)
        with progress_part(at * share, share):
            enclosures = symmetric_values(matrix, all_decided(part), part, vectors=with_vectors)
        each.append(enclosures)
    value, record = results.collected(call, each, tuple(array.shape[:-1]), started)
    if not with_vectors:
        return value, None, record
    kind, shape = results.vector_call(call), tuple(array.shape)
    like = first_words(operands.real(array))
    pieces = []
    for enclosures in each:
        if enclosures.vectors is None:
            pieces.append(results.zero_planes(shape[-2:], kind.fmt, like))
        else:
            (turned,) = results.turned_columns(*enclosures.vectors.sides)
            pieces.append(results.planes_for(turned, kind.fmt))
    return value, operands.assembled(pieces, shape, kind, like), record
