"""QR by Householder's reflections in words, in blocks: orthogonal to the words, whatever the rank.

A reflection is I - v v' with v'v = 2. A block of them, H_1 ... H_b, is I - Y T Y' with the vectors
in the columns of Y, and T upper triangular with T^-1 + T^-H = Y'Y. The diagonal of the triangle is
made real and not negative at the end, which makes Q and R unique for full column rank.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from widen import api
from widen.linalg import triangles
from widen.linalg.arrays import adjoint, filled, is_complex, moved_like, on_host
from widen.linalg.bounds import as_words, first_words
from widen.linalg.scaling import each_plane, times_powers
from widen.words import Words, sums

BLOCK = 32
"""Columns of a block: inside, vectors go one after the other."""


@dataclass(frozen=True)
class _Block:
    """Reflections that begin at a row."""

    at: int
    y: Words
    t: Words

    def applied(self, x: Words) -> None:
        """Multiply the rows from `at` on by H_1 ... H_b, in place."""
        rows = x[self.at :]
        inner = api.matmul(adjoint(self.y), rows, dtype=x.format)
        inner = api.matmul(self.t, inner, dtype=x.format)
        triangles.take_off(rows, self.y, inner)


def factor(a: Any, count: int, width: int | None = None) -> tuple[Words, Words]:
    """Q (m, width) and R (width, n) of a matrix (m, n), in so many words.

    `width` is min(m, n), or m for all of Q.
    """
    m, n = a.shape
    width = min(m, n) if width is None else width
    r = as_words(a, count)
    blocks = []
    for start in range(0, min(m, n), BLOCK):
        stop = min(start + BLOCK, m, n)
        block = _reflected(r, start, stop)
        blocks.append(block)
        if stop < n:
            _Block(start, block.y, adjoint(block.t)).applied(_view(r, stop))
    q = identity(a, m, width, count)
    for block in reversed(blocks):
        block.applied(_view(q, block.at))  # what stands before is zero in these rows
    return _positive(q, _upper(r[:width]))


def _view(r: Words, start: int) -> Words:
    """The columns from one on, which share memory with the whole."""
    return Words.of(r.format, [plane[..., start:] for plane in r.planes])


def _upper(r: Words) -> Words:
    return Words.of(r.format, [plane * _mask(plane) for plane in r.planes])


def _mask(plane: Any) -> Any:
    mask = np.triu(np.ones(tuple(plane.shape[-2:])))
    return moved_like(mask.astype("float64"), plane)


def _reflected(r: Words, start: int, stop: int) -> _Block:
    """Make the columns of a block triangular, in place."""
    y = r[start:, start:stop].zeros_like()
    for j in range(stop - start):
        at = start + j
        v = _reflection(r[at:, at : at + 1])
        if v is None:  # a column of zeros: nothing to do, and no vector
            continue
        rest = r[at:, at:stop]
        r[at:, at:stop] = rest - v * sums.dots(v[:, 0].conj(), rest)
        y[j:, j : j + 1] = v
    return _Block(start, y, _joined(y))


def _joined(y: Words) -> Words:
    """The triangle T of a block: the inverse of I + S, S what Y'Y has above its diagonal."""
    count = y.shape[1]
    gram = api.matmul(adjoint(y), y, dtype=y.format)
    above = moved_like(np.triu(np.ones((count, count)), 1), y.planes[0])
    ones = identity(gram, count, count, len(y.planes))
    t = ones.copy()
    triangles.solve_upper(each_plane(gram, lambda plane: plane * above) + ones, t)
    return t


def _reflection(x: Words) -> Words | None:
    """The v with v'v = 2 and (I - v v') x along the first axis; None for x = 0.

    It is the same for x times a power of two: x is brought near 1, for what words leave of a
    column that depends on others is so small that its squares would underflow.
    """
    most = float(abs(on_host(x.planes[0])).max())
    if most == 0:
        return None
    x = times_powers(x, np.full(x.shape[0], -int(np.frexp(most)[1])), -2).copy()
    norm = x.norm()
    sizes, phases = _polar(x[:1])
    total = norm + sizes
    x[:1] = phases * total
    v: Words = x / (norm * total).sqrt()
    return v


def _positive(q: Words, r: Words) -> tuple[Words, Words]:
    """Columns of Q and rows of R turned so that the diagonal of R is real and not negative."""
    count = min(r.shape)
    at = range(count)
    diagonal = r[at, at]
    if not is_complex(r):
        signs = moved_like(np.ones(r.shape[0]), first_words(r))
        signs[:count][diagonal.planes[0][0] < 0] = -1.0
        turned = each_plane(r, lambda plane: plane * signs[:, None] + 0.0)
        return each_plane(q, lambda plane: plane * signs), turned
    sizes, phases = _polar(diagonal.reshape(count, 1))
    r[:count] = phases.conj() * r[:count]
    q[:, :count] = q[:, :count] * phases.reshape(1, count)
    r[at, at] = sizes.reshape(count)
    return q, r


def _polar(x: Words) -> tuple[Words, Any]:
    """Moduli and phases of a column, each found near 1: squares of small numbers would underflow.

    The phase of zero is 1. Those of real numbers are floats.
    """
    if not is_complex(x):
        first = first_words(x)
        return abs(x), 1.0 - 2.0 * (first < 0)
    powers = np.frexp(on_host(abs(x.planes[0])).max(axis=(0, 2)))[1].astype(np.int64)
    near = times_powers(x, -powers, -2)
    sizes = abs(near)
    empty = (first_words(sizes) == 0) * 1.0
    return times_powers(sizes, powers, -2), (near + empty) / (sizes + empty)


def identity(like: Any, rows: int, columns: int, count: int) -> Words:
    """The first columns of the identity, real or complex as `like` is, in so many words."""
    first = first_words(like)
    ones = filled(first.real if is_complex(first) else first, (rows, columns), 0.0)
    diagonal = range(min(rows, columns))
    ones[diagonal, diagonal] = 1.0
    return as_words(ones + 0j if is_complex(like) else ones, count)


def completed(x: Words, width: int) -> Words:
    """Orthonormal columns, and more of them up to a width, orthonormal to all."""
    if x.shape[1] >= width:
        return x
    whole, _ = factor(x, len(x.planes), width)
    whole[:, : x.shape[1]] = x
    return whole
