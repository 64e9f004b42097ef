"""LU in words, in blocks, and substitution with its triangles."""

from __future__ import annotations

from typing import Any

import numpy as np

from widen import api
from widen.linalg.arrays import moved_like, on_host
from widen.linalg.bounds import first_words
from widen.linalg.scaling import each_plane
from widen.words import Words

BLOCK = 32
"""Columns of a panel: inside, they go one after the other, elementwise."""


def factor_words(w: Words) -> Any:
    """Overwrite a matrix (m, n) with both triangles; row i was exchanged with row pivots[i].

    Pivots are the largest first words of their columns, the first of them: the same everywhere.
    """
    m, n = w.shape
    count = min(m, n)
    pivots = np.arange(count)
    for start in range(0, count, BLOCK):
        stop = min(start + BLOCK, count)
        for j in range(start, stop):
            pivots[j] = _pivot(w, j)
            _exchange(w, j, int(pivots[j]))
            if not float(abs(first_words(w[j, j]))):
                continue  # a column of zeros: nothing to take off
            below = slice(j + 1, None)
            w[below, j : j + 1] = w[below, j : j + 1] / w[j, j]
            if j + 1 < stop:
                rest = (below, slice(j + 1, stop))
                w[rest] = w[rest] - w[below, j : j + 1] * w[j : j + 1, j + 1 : stop]
        if stop < n:
            rows = w[start:stop, stop:]
            solve_lower(w[start:stop, start:stop], rows)
            w[start:stop, stop:] = rows
            if stop < m:
                w[stop:, stop:] = api.gemm(
                    w[stop:, start:stop], rows, w[stop:, stop:], alpha=-1.0, beta=1.0,
                    dtype=w.format,
                )  # fmt: skip
    return pivots


def _pivot(w: Words, j: int) -> int:
    column = abs(on_host(first_words(w[j:, j])))
    return j + int(column.argmax())


def _exchange(w: Words, i: int, j: int) -> None:
    if i == j:
        return
    for plane in w.planes:
        both = plane[:, [j, i]]
        plane[:, [i, j]] = both


def permuted(a: Any, pivots: Any) -> Any:
    """The rows of a matrix in the order to which exchanges brought them."""
    order = np.arange(a.shape[0])
    for i, j in enumerate(pivots.tolist()):
        order[[i, j]] = order[[j, i]]
    return a[moved_like(order, first_words(a))]


def solve_lower(t: Words, w: Words) -> None:
    """Overwrite w with T^-1 w for the unit lower triangle of T: by halves, most of it products."""
    n = t.shape[0]
    if n <= 1:
        return
    half = n // 2
    solve_lower(t[:half, :half], w[:half])
    _taken_off(w[half:], t[half:, :half], w[:half])
    solve_lower(t[half:, half:], w[half:])


def solve_upper(t: Words, w: Words) -> None:
    """Overwrite w with T^-1 w for the upper triangle of T, by halves."""
    n = t.shape[0]
    if n == 1:
        w[...] = w / t[0, 0]
    if n <= 1:
        return
    half = n // 2
    solve_upper(t[half:, half:], w[half:])
    _taken_off(w[:half], t[:half, half:], w[half:])
    solve_upper(t[:half, :half], w[:half])


def _taken_off(w: Words, left: Words, right: Words) -> None:
    """Subtract a product in place."""
    if left.shape == (1, 1):
        w[...] = w - left * right
    else:
        w[...] = api.gemm(left, right, w, alpha=-1.0, beta=1.0, dtype=w.format)


def lower_of(w: Any, count: int) -> Any:
    """The unit lower triangle (m, count) of both."""
    mask = np.tril(np.ones((w.shape[0], count)), -1)
    ones = np.eye(w.shape[0], count)

    def cut(plane: Any, first: bool) -> Any:
        kept = plane[..., :count] * moved_like(mask, plane)
        if first:
            kept[0] = kept[0] + moved_like(ones, plane)
        return kept

    return Words.of(w.format, [cut(plane, k == 0) for k, plane in enumerate(w.planes)])


def upper_of(w: Any, count: int) -> Any:
    """The upper triangle (count, n) of both."""
    mask = np.triu(np.ones((count, w.shape[1])))
    return each_plane(w, lambda plane: plane[..., :count, :] * moved_like(mask, plane))
