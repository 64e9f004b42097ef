"""Eigenvalues of a symmetric or Hermitian matrix within proven radii, from refined eigenvectors.

The refinement is Ogita and Aishima's: with R = I - X'X and S = X'AX, X <- X + XE for the E that
makes both diagonal to first order. It is a heuristic; `enclose` proves what came out, whatever X
is. X' is the adjoint. docs/linalg.md has the inequalities.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from widen import api
from widen.formats.arrays import library_of
from widen.linalg.arrays import (
    adjoint,
    diagonal_of,
    diagonal_view,
    eye_like,
    is_complex,
    moved_like,
    on_host,
)
from widen.linalg.bounds import (
    PRECISION,
    above,
    as_words,
    first_words,
    format_name,
    magnitudes,
    product,
    product_above,
    row_sums,
    sum_error,
)
from widen.linalg.intervals import Intervals, gaps, in_order
from widen.linalg.progress import report
from widen.words import Words

STEPS = 16
"""Steps of refinement in a format at most: an error is squared, or loses the 53 bits that a
correction has, and clusters take some more."""
SMALL = 2.0**-20
"""Corrections below this that do not become smaller are noise."""
NEAR = 2.0**-7
"""Corrections above this are no small ones: such pairs are a cluster."""


@dataclass(frozen=True)
class Enclosed:
    """Eigenvalues in ascending order of their middles, and the vectors that belong to them.

    `residuals` are upper bounds of the 2-norms of A x - (middle) x, `phi` one of I - X'X. Vectors
    and residuals are None where nobody asked for them.
    """

    intervals: Intervals
    vectors: Words | None
    residuals: Any
    phi: float


def start(a: Any) -> Words:
    """Eigenvectors in float64, as two words."""
    _, vectors = library_of(first_words(a)).linalg.eigh(first_words(a))
    return as_words(vectors, 2)


def refine(a: Any, x: Words, bits: int | None = None) -> Words:
    """Eigenvectors refined as far as the words of x go, or to errors of about 2^-bits."""
    progress = Progress(len(x.planes), bits)
    while progress.goes_on:
        x, size = _refined(a, x)
        progress.report(size)
    return x


class Progress:
    """Whether another step of refinement is worth it."""

    def __init__(self, count: int, wanted: int | None = None) -> None:
        bits = PRECISION[count] if wanted is None else min(wanted, PRECISION[count])
        # A step squares an error, or takes the 53 bits that a correction has.
        self.done = 2.0 ** -max(bits // 2, bits - 47)
        self.steps, self.before, self.goes_on = 0, 1.0, True

    def report(self, size: float) -> None:
        """Take note of the size of a correction."""
        self.steps += 1
        report(1 - 0.6**self.steps)
        # Noise over a small gap; a large correction is none, and the next step makes up for it.
        is_stuck = max(self.before, size) < SMALL and not size < 0.25 * self.before
        self.goes_on = size > self.done and not is_stuck and self.steps < STEPS
        self.before = size


def _refined(a: Any, x: Words) -> tuple[Words, float]:
    """One step, and the size of its correction."""
    n, fmt = x.shape[1], x.format
    library = library_of(first_words(x))
    squares = api.matmul(adjoint(x), x, dtype=fmt)  # I - R
    s_words = api.matmul(adjoint(x), api.matmul(a, x, dtype=fmt), dtype=fmt)
    values = diagonal_of(s_words.real) / diagonal_of(squares.real)
    row, column = values.reshape(1, n), values.reshape(n, 1)
    rest, gap = first_words(s_words - squares * row), first_words(row - column)
    most = float(abs(first_words(values)).max())
    noise = 2.0 ** (8 - PRECISION[len(x.planes)]) * n * most
    near, quotients = unsure(rest, gap, noise)
    diagonal_view(near)[...] = False
    r = _missing(squares)  # the adjoint of itself, as X'X is
    wanted = library.where(near, r / 2, quotients)
    # E + E' = R to the last bit, or orthogonality would be lost to 1 / gap.
    e = library.where(_above_diagonal(gap), wanted, r - adjoint(wanted))
    diagonal_view(e)[...] = library.diagonal(r) / 2
    correction = product(first_words(x), e) if len(x.planes) == 2 else api.matmul(x, e, dtype=fmt)
    x = x + correction
    turned = _turned_groups(a, x, (values, noise), on_host(near)) if bool(near.any()) else 0.0
    return x, max(size_of(e), turned)


def _above_diagonal(like: Any) -> Any:
    """Where a square matrix is above its diagonal."""
    at = library_of(like).cumsum(library_of(like).ones_like(like[0]), 0)
    return at[:, None] < at[None, :]


def unsure(rest: Any, gap: Any, noise: float) -> tuple[Any, Any]:
    """Pairs of values that are not told apart; and the corrections rest / gap of all.

    A pair is one of them where its correction is no small number, or where the gap is within the
    errors of both values, which are sums of rest^2 / gap: a value is the Rayleigh quotient of its
    vector; or where it is noise. A bound by norms of whole matrices would not do: it would take
    tiny values for a cluster again and again, and each rotation would undo what the last one had
    found.
    """
    library = library_of(gap)
    with np.errstate(all="ignore"):
        quotients = rest / gap
        errors = abs(rest * quotients)
    near = ~(abs(quotients) <= NEAR)  # also where it is not a number
    near = near | near.T
    errors = 2 * library.where(near, 0.0, errors).sum(0)
    gaps = abs(gap)
    near = near | (gaps <= errors[:, None] + errors[None, :]) | (gaps <= noise)
    return near, quotients


def _missing(squares: Words) -> Any:
    """First words of I - X'X. On the diagonal X'X is near 1: there, words are subtracted."""
    missing = -first_words(squares)
    diagonal_view(missing)[...] = first_words(1 - diagonal_of(squares))
    return missing


def size_of(x: Any) -> float:
    """The largest sum of a row: a norm, whose square bounds what a step leaves."""
    return float(abs(x).sum(-1).max())


def _turned_groups(a: Any, x: Words, known: tuple[Words, float], near: Any) -> float:
    """Rotate the vectors of every cluster to eigenvectors, in place; the size of the rotations."""
    (values, noise), fmt, turned = known, x.format, 0.0
    for group in groups_of(near):
        at = moved_like(group, first_words(x))
        part = x[:, at]
        centre = values[int(group[len(group) // 2])]
        block = api.matmul(adjoint(part), api.matmul(a, part, dtype=fmt) - part * centre, dtype=fmt)
        matrix = first_words(block)
        spread, q = library_of(matrix).linalg.eigh((matrix + adjoint(matrix)) / 2)
        if float(spread[-1] - spread[0]) <= noise or rest_of(matrix) <= noise:
            continue  # equal as far as these words see: any basis will do; or done already
        x[:, at] = orthonormal(api.matmul(part, q, dtype=fmt))
        turned = max(turned, turn_of(q))
    return turned


def orthonormal(x: Words) -> Words:
    """Columns that are nearly orthonormal, made so: X <- X (3I - X'X) / 2 squares what is off.

    After a rotation in float64 that is u. Left as it is, it would hide gaps below u, and the same
    vectors would be rotated again and again.
    """
    identity = eye_like(first_words(x), x.shape[1])
    bits = 50
    while bits < PRECISION[len(x.planes)]:
        r = api.gemm(adjoint(x), x, identity, alpha=-1.0, beta=1.0, dtype=x.format)
        x = x + api.matmul(x, r * 0.5, dtype=x.format)
        bits *= 2
    return x


def rest_of(block: Any) -> float:
    """The largest entry off the diagonal."""
    host = abs(on_host(block))
    return float((host - np.diag(np.diagonal(host))).max())


def turn_of(q: Any) -> float:
    """How far a matrix is from a permutation: its largest entry beside the largest of columns.

    A rotation in float64 by an angle t is orthogonal to t^2 if that is below u, and to u otherwise.
    """
    host = abs(on_host(q))
    host[host.argmax(0), range(host.shape[1])] = 0
    return float(host.max())


def labels_of(near: Any) -> Any:
    """The first member of the connected set of each."""
    labels = np.arange(len(near))
    while True:
        new = np.minimum(labels, np.where(near, labels[None, :], len(near)).min(1))
        new = new[new]
        if (new == labels).all():
            return labels
        labels = new


def groups_of(near: Any) -> list[Any]:
    """Sets of two and more that are connected."""
    labels = labels_of(near)
    groups = [np.flatnonzero(labels == label) for label in np.unique(labels)]
    return [group for group in groups if len(group) > 1]


def enclose(a: Any, x: Words, count: int = 0, *, vectors: bool = True) -> Enclosed | None:
    """Proven eigenvalues from any X; None if its columns are not nearly orthonormal.

    Products have so many words, or as many as X if these are more. Without `vectors`, these and
    their residuals are left out.
    """
    fmt = format_name(max(count, len(x.planes)), is_complex(x))
    squares, about_squares = api.matmul(adjoint(x), x, dtype=fmt, info=True)
    ax, about_ax = api.matmul(a, x, dtype=fmt, info=True)
    s, about_s = api.matmul(adjoint(x), ax, dtype=fmt, info=True)
    # I - X'X: off the diagonal X'X itself, and on it a difference of words.
    missing = 1 - diagonal_of(squares)
    lost = sum_error(len(squares.planes)) * magnitudes(missing)
    lost = above(lost + diagonal_of(about_squares.bound))
    off = above(abs(first_words(squares)) + about_squares.bound)
    diagonal_view(off)[...] = above(magnitudes(missing) + lost)
    phi = float(row_sums(off).max())
    if not phi < 0.5:
        return None
    error = above(about_s.bound + product_above(abs_adjoint(x), about_ax.bound))
    known = _Known.of(s, error)
    intervals, order = known.values()
    radii = intervals.radii
    radii = above((radii + phi * above(abs(first_words(intervals.middles)) + radii)) / (1 - phi))
    intervals, nearer = replace(intervals, radii=radii), np.zeros(len(order), bool)
    turn = known.diagonal * missing.real
    turned = known.turned(turn, off, lost)
    others, same = turned.values()
    if (order == same).all():
        others = replace(others, radii=above(others.radii + known.second_order(phi)))
        nearer = others.radii < intervals.radii
        intervals = intervals.replaced(nearer, others)
    if not vectors:
        return Enclosed(intervals, None, None, phi)
    # X'(A x_i - d_i x_i) = S e_i - d_i (I - G) e_i, and |y| <= |X'y| / sqrt(1 - phi).
    whole = off * known.sizes + known.apart
    diagonal_view(whole)[...] += known.own
    residuals = on_host(column_norms(above(whole)))[order] / (1 - phi)
    moved = above((abs(first_words(turn)) + turned.own) * (1 + phi))
    residuals = residuals + np.where(nearer, on_host(moved)[order], 0.0)
    return Enclosed(intervals, x[:, moved_like(order, first_words(x))], above(residuals), phi)


@dataclass(frozen=True)
class _Known:
    """What is known of a Hermitian matrix M that is nearly diagonal.

    `diagonal` is its diagonal in words, `own` are upper bounds of their errors, `sizes` of theirs
    and the exact one's magnitudes, `apart` of those of the rest.

    With N = X'X = I - R and T = N^(-1/2), XT is unitary, so that TMT has the eigenvalues of A for
    M = X'AX. T = I + R/2 + E, |E| <= (3/8 + 5/16 phi + ...) phi^2 <= 3/4 phi^2 for phi <= 1/2. Let
    m and M0 be the diagonal of M and the rest of it. Then TMT is the sum of
    - the diagonal m_i (1 + r_ii);
    - off it, m_ij + r_ij (m_i + m_j) / 2;
    - (R M0 + M0 R) / 2, at most phi |M0|;
    - R M R / 4 + E M + M E + (E M R + R M E) / 2 + E M E, at most
      (1/4 + 3/2 + 3/4 phi + 9/16 phi^2) phi^2 |M| < 2.5 phi^2 |M|.
    So errors of X count squared. Norms are at most the largest sums of rows.
    """

    diagonal: Words
    own: Any
    sizes: Any
    apart: Any

    @classmethod
    def of(cls, s: Any, error: Any) -> _Known:
        """The same of what S is within the errors of."""
        own, diagonal = diagonal_of(error), diagonal_of(s.real)
        apart = above(abs(first_words(s)) + error)
        diagonal_view(apart)[...] = 0.0
        return cls(diagonal, own, above(abs(first_words(diagonal)) + own), apart)

    def values(self) -> tuple[Intervals, Any]:
        """Its eigenvalues, and the order of its diagonal."""
        diagonal = on_host(self.diagonal)
        order = in_order(diagonal)
        middles = diagonal[order]
        about = _Rows.of(self.apart, self.own, order)
        return Intervals(middles, _radii(about, gaps(middles))), order

    def turned(self, turn: Words, off: Any, bound: Any) -> _Known:
        """The first two terms: `turn` is s_i g_ii in words, g_ii within `bound` of r_ii.

        m_i (1 + r_ii) - s_i (1 + g_ii) = (m_i - s_i) (1 + r_ii) + s_i (r_ii - g_ii), and words are
        rounded twice.
        """
        sizes, grown = self.sizes, 1 + diagonal_of(off)
        unit = 2.0 ** (5 - PRECISION[len(turn.planes)])
        own = above(self.own * grown + sizes * bound + unit * sizes * grown)
        half = sizes / 2
        apart = above(self.apart + off * (half[:, None] + half[None, :]))
        diagonal_view(apart)[...] = 0.0
        return _Known(self.diagonal + turn, own, above(sizes * grown), apart)

    def second_order(self, phi: float) -> float:
        """Upper bound of the norm of the other two."""
        rows = row_sums(self.apart)
        rest, whole = float(rows.max()), float(above(rows + self.sizes).max())
        return float(above(phi * rest + 2.5 * phi * phi * whole))


def abs_adjoint(x: Any) -> Any:
    """Upper bounds of the entries of |X'|."""
    return library_of(first_words(x)).swapaxes(magnitudes(x), -1, -2)


def column_norms(x: Any) -> Any:
    """Upper bounds of the 2-norms of columns that are not negative.

    They are brought near 1 first: squares of what 16 words leave would underflow.
    """
    power = 2.0 ** -int(np.frexp(float(x.max()) if 0 not in x.shape else 0.0)[1])
    near = x * power
    return above(above((near * near).sum(0), x.shape[0] + 2) ** 0.5) / power


@dataclass(frozen=True)
class _Rows:
    """What is known of every row of S, on the host, in the order of the eigenvalues.

    `own` are upper bounds of the errors of the diagonal, `rows` of these and the sums of what is
    apart from it, `columns` of the largest of that in a row and its column.
    """

    rows: Any
    columns: Any
    own: Any

    @classmethod
    def of(cls, apart: Any, own: Any, order: Any) -> _Rows:
        """The same from upper bounds of all entries that are apart from the diagonal."""
        library = library_of(apart)
        columns = library.maximum(library.amax(apart, 0), library.amax(apart, 1))
        rows = above(row_sums(apart) + own)
        return cls(*(on_host(line)[order] for line in (rows, columns, own)))


def _radii(about: _Rows, apart: Any) -> Any:
    """Radii around the diagonal of S for the eigenvalues of X'AX, in order.

    Weyl's for all; Gershgorin's with row i times tau, where its gap is large: the disc of any other
    row grows by an entry of column i over tau, half of the gap at most. `apart` are lower bounds of
    the differences of the diagonal in order.
    """
    most, worst = float(about.rows.max()), float(about.own.max())
    if not len(apart):
        return np.array([most])
    gap = np.minimum(np.concatenate([apart[:1], apart]), np.concatenate([apart, apart[-1:]]))
    wide = gap > 8 * most
    safe = np.where(wide, gap, 1.0)
    tau = np.maximum(above(2 * about.columns / safe), 2.0**-200)
    disc = above(tau * about.rows)
    wide &= 0.5 * gap > above(disc + most + 2 * worst)
    return np.where(wide, np.minimum(most, above(disc + about.own)), most)
