"""LU in words, in blocks, and substitution with its triangles."""

from __future__ import annotations

from typing import Any

import numpy as np

from widen import api
from widen.formats.arrays import library_of
from widen.linalg.arrays import is_complex, moved_like, on_host
from widen.linalg.bounds import first_words
from widen.linalg.scaling import each_plane
from widen.words import Words, elementwise_panels
from widen.words.arithmetic import plane_times_power
from widen.words.exchanges import Exchanges

BLOCK = 128
"""Columns of a panel: bits depend on it.

CPU milliseconds of `lu_factor`, one thread, float64x2, n = 100, 200, 400: 8.9, 36, 123 with 32, and
4.2, 18, 84 with 64. On a busy machine, n = 100, 400, 800 with 64 and triangles of 64: 2.4, 150 or
more, 530; with 128 and triangles of 256: 1.1, 65, 409.
"""
TRIANGLE = 256
"""Rows of a triangle that is not halved any more: bits depend on it. The fewer, the more products,
each of which takes a GPU as long as its launches: at n = 8192, 448 of them with 64 and 64 rows, 112
with 128 and 256.
"""


def factor_words(w: Words) -> Exchanges:
    """Overwrite a matrix (m, n) with both triangles, and tell how rows were exchanged.

    Pivots are the largest first words of their columns, the first of them: the same everywhere.
    The left half of the columns goes first: so most of the work is in products of long rows.
    """
    m, n = w.shape
    if n <= BLOCK:
        return eliminated(w)
    half = m if m < n else -(-n // (2 * BLOCK)) * BLOCK
    left, right = w[:, :half], w[:, half:]
    exchanges = factor_words(left)
    exchanges.apply(right)
    solve_lower(w[:half, :half], right[:half])
    if half == m:
        return exchanges
    take_off(right[half:], left[half:], right[:half])
    more = factor_words(right[half:])
    more.apply(left[half:])
    return exchanges.then(more)


def eliminated(panel: Words) -> Exchanges:
    """Overwrite a panel (m, b) with both triangles, and tell its exchanges of rows."""
    if elementwise_panels.are_served(panel):
        return elementwise_panels.eliminate(panel)
    return eliminated_by_columns(panel)


def eliminated_by_columns(w: Words) -> Exchanges:
    """The same in elementwise operations, two for every column: these are the bits."""
    m, n = w.shape
    pivots = np.arange(min(m, n))
    for j in range(len(pivots)):
        pivots[j] = _pivot(w, j)
        Exchanges.of(pivots[j : j + 1] - j, m - j).apply(w[j:])
        if not float(abs(first_words(w[j, j]))):
            continue  # a column of zeros: nothing to take off
        below = slice(j + 1, None)
        w[below, j : j + 1] = _over(w[below, j : j + 1], w[j : j + 1, j : j + 1])
        rest = (below, slice(j + 1, n))
        w[rest] = w[rest] - w[below, j : j + 1] * w[j : j + 1, j + 1 :]
    return Exchanges.of(pivots, m)


def _pivot(w: Words, j: int) -> int:
    """The row of the largest |x|, of complex numbers |re| + |im|: an exact modulus has a root."""
    column = abs(on_host(w.planes[0][:, j:, j]))
    with np.errstate(over="ignore"):
        return j + int(column.sum(0).argmax())


def _over(x: Words, p: Words) -> Words:
    """Quotients x / p: of complex numbers x conj(p) / |p|^2, near p = 1 by a power of two.

    That goes for x, too, which is as large as p, or the quotient is out of range in any case.
    """
    if not is_complex(p):
        quotient: Words = x / p
        return quotient
    first = p.planes[0]
    library = library_of(first)
    power = 1 - library.frexp(library.amax(abs(first), 0))[1]
    power = library.clip(power, -1022, 1022)
    half = power >> 1

    def scaled(plane: Any) -> Any:
        return plane_times_power(plane_times_power(plane, half), power - half)

    turned = each_plane(p, scaled).conj()
    result: Words = (each_plane(x, scaled) * turned) / (each_plane(p, scaled) * turned).real
    return result


def permuted(a: Any, pivots: Any) -> Any:
    """The rows of a matrix in the order to which exchanges brought them."""
    return a[moved_like(Exchanges.of(pivots, a.shape[0]).order, first_words(a))]


def solve_lower(t: Words, w: Words) -> None:
    """Overwrite w with T^-1 w for the unit lower triangle of T: by halves, most of it products."""
    n = t.shape[0]
    if n <= TRIANGLE:
        return _solved(t, w, upper=False)
    half = n // 2
    solve_lower(t[:half, :half], w[:half])
    take_off(w[half:], t[half:, :half], w[:half])
    solve_lower(t[half:, half:], w[half:])


def solve_upper(t: Words, w: Words) -> None:
    """Overwrite w with T^-1 w for the upper triangle of T, by halves."""
    n = t.shape[0]
    if n <= TRIANGLE:
        return _solved(t, w, upper=True)
    half = n // 2
    solve_upper(t[half:, half:], w[half:])
    take_off(w[:half], t[:half, half:], w[half:])
    solve_upper(t[:half, :half], w[:half])


def _solved(t: Words, w: Words, *, upper: bool) -> None:
    """Overwrite w with T^-1 w for a small triangle."""
    if elementwise_panels.are_served(t, w):
        elementwise_panels.substitute(t, w, upper=upper)
    else:
        solve_by_rows(t, w, upper=upper)


def solve_by_rows(t: Words, w: Words, *, upper: bool) -> None:
    """The same in elementwise operations, two for every row: these are the bits."""
    n = t.shape[0]
    for j in range(n)[:: -1 if upper else 1]:
        row = slice(j, j + 1)
        if upper:
            w[row] = _over(w[row], t[row, row])
        rest = slice(0, j) if upper else slice(j + 1, n)
        w[rest] = w[rest] - t[rest, row] * w[row]


def take_off(w: Words, left: Words, right: Words) -> None:
    """Subtract a product in place: an addend of `gemm` would be exact, and take as long again."""
    product = api.matmul(left, right, dtype=w.format)
    if elementwise_panels.are_served(w, product):
        elementwise_panels.take_off(w, product)
    else:
        w[...] = w - product


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
