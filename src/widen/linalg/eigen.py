"""Eigenvalues of a symmetric matrix within proven radii, from eigenvectors refined in words.

The refinement is Ogita and Aishima's: with R = I - X'X and S = X'AX, X <- X + XE for the E that
makes both diagonal to first order. It is a heuristic; `enclose` proves what came out, whatever X
is.
docs/linalg.md has the inequalities.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from widen import api
from widen.formats.arrays import library_of
from widen.linalg.arrays import eye_like, moved_like, on_host
from widen.linalg.bounds import (
    PRECISION,
    above,
    as_words,
    first_words,
    magnitudes,
    product,
    product_above,
    row_sums,
)
from widen.linalg.scaling import each_plane
from widen.words import Words
from widen.words.conversions import to_fraction

STEPS = 8
"""Steps of refinement in a format: errors are squared, so that four do but for clusters."""
NEAR = 2.0**-7
"""Corrections above this are no small ones: such pairs are a cluster."""


@dataclass(frozen=True)
class Enclosed:
    """Eigenvalues in order, as middles and radii, and the vectors that belong to them."""

    middles: list[Fraction]
    radii: list[Fraction]
    vectors: Words


def transposed(x: Any) -> Any:
    """The transpose of a matrix of numbers or of words."""
    return each_plane(x, lambda plane: library_of(plane).swapaxes(plane, -1, -2))


def start(a: Any) -> Words:
    """Eigenvectors in float64, as two words."""
    _, vectors = library_of(first_words(a)).linalg.eigh(first_words(a))
    return as_words(vectors, 2)


def refine(a: Any, x: Words) -> Words:
    """Eigenvectors refined as far as the words of x go."""
    count = len(x.planes)
    done = 2.0 ** -(PRECISION[count] // 2 + 6)
    for _ in range(STEPS):
        x, size = _refined(a, x)
        if not size > done:
            break
    return x


def _refined(a: Any, x: Words) -> tuple[Words, float]:
    """One step, and the size of its correction."""
    n, fmt = x.shape[1], x.format
    library = library_of(first_words(x))
    identity, at = eye_like(first_words(x), n), range(n)
    r_words = api.gemm(transposed(x), x, identity, alpha=-1.0, beta=1.0, dtype=fmt)
    s_words = api.matmul(transposed(x), api.matmul(a, x, dtype=fmt), dtype=fmt)
    values = s_words[at, at] / (1 - r_words[at, at])
    row, column = values.reshape(1, n), values.reshape(n, 1)
    r, s = first_words(r_words), first_words(s_words)
    rest, gap = first_words(s_words + r_words * row), first_words(row - column)
    off = s - library.diag(library.diagonal(s))
    size = 2 * (_norm(off) + float(abs(first_words(values)).max()) * _norm(r))
    near = (abs(gap) <= size) | (abs(rest) > NEAR * abs(gap))
    near = (near | near.T) & (identity == 0)
    safe = library.where(gap == 0, library.ones_like(gap), gap)
    upper = library.triu(library.where(near, r / 2, rest / safe), 1)
    # E + E' = R to the last bit, or orthogonality would be lost to 1 / gap.
    e = upper + library.tril((r + r.T) / 2 - upper.T, -1) + library.diag(library.diagonal(r) / 2)
    correction = product(first_words(x), e) if len(x.planes) == 2 else api.matmul(x, e, dtype=fmt)
    x = x + correction
    turned = _turned_groups(a, x, values, on_host(near))
    return x, max(_norm(e), turned)


def _norm(x: Any) -> float:
    return float((x * x).sum() ** 0.5)


def _turned_groups(a: Any, x: Words, values: Words, near: Any) -> float:
    """Rotate the vectors of every cluster to eigenvectors, in place; the size of the rotations."""
    if not near.any():
        return 0.0
    n, fmt, turned = len(near), x.format, 0.0
    noise = 2.0 ** (8 - PRECISION[len(x.planes)]) * n * float(abs(first_words(values)).max())
    for group in _groups(near):
        at = moved_like(group, first_words(x))
        part = x[:, at]
        centre = values[int(group[len(group) // 2])]
        block = api.matmul(
            transposed(part), api.matmul(a, part, dtype=fmt) - part * centre, dtype=fmt
        )
        matrix = first_words(block)
        spread, q = library_of(matrix).linalg.eigh((matrix + matrix.T) / 2)
        if float(spread[-1] - spread[0]) <= noise:
            continue  # equal as far as these words see: any basis will do
        x[:, at] = api.matmul(part, q, dtype=fmt)
        largest = library_of(q).amax(abs(q), 0)
        turned = max(turned, float(abs(largest - 1).max()))
    return turned


def _groups(near: Any) -> list[Any]:
    """Sets of two and more that are connected."""
    labels = np.arange(len(near))
    while True:
        new = np.minimum(labels, np.where(near, labels[None, :], len(near)).min(1))
        new = new[new]
        if (new == labels).all():
            break
        labels = new
    groups = [np.flatnonzero(labels == label) for label in np.unique(labels)]
    return [group for group in groups if len(group) > 1]


def enclose(a: Any, x: Words) -> Enclosed | None:
    """Proven eigenvalues from any X; None if its columns are not nearly orthonormal."""
    n, fmt = x.shape[1], x.format
    identity = eye_like(first_words(x), n)
    g, about_g = api.gemm(transposed(x), x, identity, alpha=-1.0, beta=1.0, dtype=fmt, info=True)
    ax, about_ax = api.matmul(a, x, dtype=fmt, info=True)
    s, about_s = api.matmul(transposed(x), ax, dtype=fmt, info=True)
    phi = float(row_sums(above(magnitudes(g) + about_g.bound)).max())
    if not phi < 0.5:
        return None
    error = above(about_s.bound + product_above(transposed(magnitudes(x)), about_ax.bound))
    diagonal = to_fraction(s[range(n), range(n)]).tolist()
    order = sorted(range(n), key=diagonal.__getitem__)
    share = Fraction(phi)
    radii = [
        (radius + share * (abs(diagonal[i]) + radius)) / (1 - share)
        for i, radius in zip(order, _radii(s, error, diagonal, order), strict=True)
    ]
    vectors = x[:, moved_like(np.array(order), first_words(x))]
    return Enclosed([diagonal[i] for i in order], radii, vectors)


def _radii(s: Any, error: Any, diagonal: list[Fraction], order: list[int]) -> list[Fraction]:
    """Radii around the diagonal of S for the eigenvalues of X'AX, in order.

    Weyl's for all; Gershgorin's with row i times tau, where its gap is large.
    """
    n = len(diagonal)
    entries = on_host(above(magnitudes(s) + error))
    entries[range(n), range(n)] = on_host(error)[range(n), range(n)]
    rows = on_host(row_sums(entries))
    most, own = Fraction(float(rows.max())), float(np.diagonal(entries).max())
    off = entries.copy()
    off[range(n), range(n)] = 0
    columns = np.maximum(off.max(axis=0), off.max(axis=1))
    found = []
    for place, i in enumerate(order):
        beside = [abs(diagonal[i] - diagonal[order[k]]) for k in (place - 1, place + 1)
                  if 0 <= k < n]  # fmt: skip
        gap = min(beside, default=None)
        radius = most
        if gap is not None and gap > 8 * most:
            tau = max(2 * Fraction(float(columns[i])) / gap, Fraction(1, 2**200))
            disc = tau * Fraction(float(rows[i]))
            if gap - 2 * Fraction(own) > disc + most + gap / 2:
                radius = min(most, disc + Fraction(float(entries[i, i])))
        found.append(radius)
    return found
