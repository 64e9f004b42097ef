"""`svd`, `svdvals` and `cond`: singular values within proven radii, vectors within angles."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from functools import partial
from time import perf_counter
from typing import Any

from widen import api
from widen.calls.foreign.functions import taking
from widen.formats import Part
from widen.linalg import angles, householder, operands, results, singular_vectors
from widen.linalg.arrays import adjoint
from widen.linalg.bounds import LARGEST, first_words
from widen.linalg.decide import decide_exactly
from widen.linalg.errors import NotProvenError
from widen.linalg.intervals import Interval, Intervals
from widen.linalg.spectrum import (
    Done,
    Look,
    Stop,
    Values,
    Vectors,
    all_decided,
    narrowed,
)


@taking("a")
def svd(a: Any, full_matrices: bool = True, *, dtype: Any = None, info: bool = False) -> Any:
    """The singular value decomposition a = u diag(s) vh, s as `svdvals` has it.

    Vectors are refined in words until they are proven to be as accurate as the format, then
    rounded, as those of `eigh` are: `info.angle` bounds the angles of both sides, `info.cluster`
    says which values could not be told apart, `info.orthogonality` how orthonormal the columns of u
    and the rows of vh are. The largest component of every column of u is real and positive.

    Parameters
    ----------
    a
        Matrices (..., m, n), as for `solve`, of any rank.
    full_matrices
        True: u (..., m, m) and vh (..., n, n). False: u (..., m, k) and vh (..., k, n) with
        k = min(m, n).
    dtype, info
        As for `eigh`.

    Returns
    -------
    (u, s, vh), or (u, s, vh, EigenInfo)

    Notes
    -----
    Where values are zero, vectors of the longer side are any of the space that a (or its adjoint)
    takes to zero.

    Examples
    --------
    >>> import numpy as np, widen
    >>> u, s, vh = widen.linalg.svd(np.array([[0.0, 2.0], [1.0, 0.0], [0.0, 0.0]]), False)
    >>> s
    array([2., 1.])
    >>> u.shape, vh.shape
    ((3, 2), (2, 2))
    """
    started = perf_counter()
    call = results.real_result(dtype, a)
    (array,) = call.arrays
    results.check_matrices(array)
    part, kind = call.fmt.part, results.vector_call(call)
    batch, (m, n) = tuple(array.shape[:-2]), array.shape[-2:]
    like, k = first_words(operands.real(array)), min(m, n)
    matrices = results.each_matrix(call)
    each = [decomposed(x, all_decided(part), part, vectors=True) for x in matrices]
    widths = (m, n) if full_matrices else (k, k)
    left, right = [], []
    for at, enclosures in enumerate(each):
        u, v = _sides(enclosures, array, widths)
        each[at] = _of_all(enclosures, (u, v))
        left.append(results.planes_for(u, kind.fmt))
        right.append(results.planes_for(adjoint(v), kind.fmt))
    value, record = results.collected(call, each, (*batch, k), started)
    parts = (
        operands.assembled(left, (*batch, m, widths[0]), kind, like),
        value,
        operands.assembled(right, (*batch, widths[1], n), kind, like),
    )
    return (*parts, record) if info else parts


def _sides(enclosures: Values, array: Any, widths: tuple[int, int]) -> list[Any]:
    """Vectors of both sides as columns, filled up to so many."""
    if enclosures.vectors is None:  # of an empty matrix
        lengths = tuple(array.shape[-2:])
        return [householder.identity(array, length, width, 2)
                for length, width in zip(lengths, widths, strict=True)]  # fmt: skip
    turned = results.turned_columns(*enclosures.vectors.sides)
    return [householder.completed(x, width) for x, width in zip(turned, widths, strict=True)]


def _of_all(enclosures: Values, sides: tuple[Any, Any]) -> Values:
    """The same with the bound of |I - X'X| of all columns, where some were added to them."""
    kept = enclosures.vectors
    if kept is None:
        return enclosures
    phi = kept.phi
    for own, whole in zip(kept.sides, sides, strict=True):
        if whole.shape[1] > own.shape[1]:
            phi = max(singular_vectors.defect(whole), phi)
    return replace(enclosures, vectors=replace(kept, phi=phi))


@taking("a")
def svdvals(a: Any, *, dtype: Any = None, info: bool = False) -> Any:
    """The singular values of matrices, in descending order, as `eigvalsh` has eigenvalues.

    Parameters
    ----------
    a
        Matrices (..., m, n), as for `solve`.
    dtype, info
        As for `eigvalsh`.

    Examples
    --------
    >>> import numpy as np, widen
    >>> widen.linalg.svdvals(np.array([[3.0, 0.0], [0.0, -4.0], [0.0, 0.0]]))
    array([4., 3.])
    """
    if operands.wants_gradient(a):
        from widen.linalg import gradients

        return gradients.svdvals(a, dtype, info)
    started = perf_counter()
    call = results.real_result(dtype, a)
    (array,) = call.arrays
    results.check_matrices(array)
    part = call.fmt.part
    check = all_decided(part)
    each = [values_of(matrix, check, part) for matrix in results.each_matrix(call)]
    shape = (*array.shape[:-2], min(array.shape[-2:]))
    value, record = results.collected(call, each, shape, started)
    return (value, record) if info else value


@taking("a")
def cond(a: Any, *, dtype: Any = None, info: bool = False) -> Any:
    """The condition number: the largest singular value over the smallest; infinite if that is 0.

    Parameters
    ----------
    a, dtype, info
        As for `svdvals`.

    Examples
    --------
    >>> import numpy as np, widen
    >>> widen.linalg.cond(np.array([[1.0, 0.0], [0.0, 1e-20]]))
    np.float64(1e+20)
    """
    started = perf_counter()
    call = results.real_result(dtype, a)
    (array,) = call.arrays
    results.check_not_empty(array)
    part = call.fmt.part
    infinite = Fraction(2) ** (part.highest + 2)  # rounds to infinity

    def quotient(found: Intervals) -> Interval:
        (low, high), (least, most) = found.ends(0), found.ends(-1)
        return infinite if most <= 0 else low / most, infinite if least <= 0 else high / least

    each = []
    for matrix in results.each_matrix(call):
        enclosures = values_of(
            matrix, lambda found: decide_exactly(*quotient(found), part) is not None, part
        )
        each.append(Values.of(*quotient(enclosures.intervals), enclosures.words))
    value, record = results.collected(call, each, tuple(array.shape[:-2]), started)
    return (value, record) if info else value


# ── one matrix ───────────────────────────────────────────────────────────────


def values_of(a: Any, done: Done, part: Part) -> Values:
    """Intervals of the singular values of a matrix, in descending order."""
    return decomposed(a, done, part)


def decomposed(a: Any, done: Done, part: Part, *, vectors: bool = False) -> Values:
    """Intervals of singular values, and both sides' vectors: see `narrowed`.

    A wide matrix is taken by its adjoint, a tall one by the triangle of its QR in words.
    """
    if min(a.shape) == 0:
        return Values(Intervals.of([]), 0)
    if max(a.shape) > LARGEST:
        raise NotProvenError(
            f"singular values of up to {LARGEST} rows or columns are proven; a has {max(a.shape)}"
        )
    if a.shape[0] < a.shape[1]:
        enclosures = decomposed(adjoint(a), done, part, vectors=vectors)
        kept = enclosures.vectors
        turned = None if kept is None else replace(kept, sides=kept.sides[::-1])
        return replace(enclosures, vectors=turned)
    return narrowed(a, done, part, _looks, vectors=vectors, singular=True)


def _looks(near: Any, way: list[Stop]) -> Iterator[Look]:
    """At singular vectors of more and more words; where they are not nearly orthonormal, none."""
    pair, width, q, triangle = None, 0, None, near
    for stop in way:
        if near.shape[0] > near.shape[1] and stop.width > width:
            q, triangle = householder.factor(near, stop.width)
        width = stop.width
        pair = singular_vectors.start(triangle) if pair is None else pair
        pair = singular_vectors.refine(triangle, pair.as_words(width), stop.bits)
        if not stop.looks:
            continue
        whole = pair
        if q is not None:
            whole = singular_vectors.Pair(api.matmul(q, pair.u, dtype=q.format), pair.v)
        enclosed = singular_vectors.enclose(near, whole)
        if enclosed is not None:
            yield Look(width, enclosed.intervals, partial(_vectors, enclosed))


def _vectors(enclosed: singular_vectors.Enclosed, intervals: Intervals) -> Vectors:
    """Angles by the eigenvectors (u, v) of [[0, A], [A', 0]], whose eigenvalues are +-s and 0.

    Zero stands first among the intervals: the negative ones are farther away.
    """
    labels, distances = angles.clusters(intervals.after_zero())
    sines = angles.sines(enclosed.residuals, distances[1:][::-1], enclosed.phi)
    count = len(intervals)
    names = [max(label, 1) for label in labels[1:]]  # from the smallest value, which is 1
    last = {name: count - place - 1 for place, name in enumerate(names)}
    return Vectors(
        (enclosed.pair.u, enclosed.pair.v), sines, [last[name] for name in names][::-1],
        enclosed.phi,
    )  # fmt: skip
