"""Singular values of a matrix within proven radii, from singular vectors refined in words.

With R = I - U'U, Q = I - V'V and S = U'AV, U <- U + UF and V <- V + VG for the F and G that make
F + F' = R, G + G' = Q and S + F'S + SG diagonal: the conditions to first order. It is a heuristic
for square matrices; `enclose` proves what came out, whatever U and V are. X' is the adjoint.
docs/linalg.md has the inequalities.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from widen import api
from widen.formats.arrays import library_of
from widen.linalg.arrays import (
    adjoint,
    diagonal_of,
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
    magnitudes,
    product,
    product_above,
    row_sums,
)
from widen.linalg.eigen import (
    NEAR,
    Progress,
    abs_adjoint,
    column_norms,
    groups_of,
    orthonormal,
    rest_of,
    size_of,
    turn_of,
    unsure,
)
from widen.linalg.intervals import Intervals, in_order
from widen.linalg.scaling import each_plane
from widen.words import Words


@dataclass
class Pair:
    """Left and right singular vectors, in the columns of two matrices."""

    u: Any
    v: Any

    def as_words(self, count: int) -> Pair:
        """The same in a format of so many words."""
        return Pair(as_words(self.u, count), as_words(self.v, count))

    def take(self, which: Any) -> Pair:
        """Some columns of both."""
        return Pair(self.u[:, which], self.v[:, which])


def start(a: Any) -> Pair:
    """Singular vectors of a square matrix in float64, as two words."""
    first = first_words(a)
    u, _, vh = library_of(first).linalg.svd(first)
    return Pair(as_words(u, 2), as_words(adjoint(vh), 2))


def refine(a: Any, pair: Pair, bits: int | None = None) -> Pair:
    """Singular vectors of a square matrix, refined as far as their words go, or to such bits."""
    progress = Progress(len(pair.u.planes), bits)
    while progress.goes_on:
        pair, size = _refined(a, pair)
        progress.report(size)
    return pair


@dataclass
class _Step:
    """What one step of refinement works with: S and sigma in words, R, Q and S in float64."""

    pair: Pair
    s: Words
    sigma: Words
    noise: float

    @classmethod
    def of(cls, a: Any, pair: Pair) -> tuple[_Step, Any, Any]:
        """The step, and R and Q in words."""
        n, fmt = pair.v.shape[1], pair.v.format
        identity, at = eye_like(first_words(pair.v), n), range(n)
        r, q = (api.gemm(adjoint(x), x, identity, alpha=-1.0, beta=1.0, dtype=fmt)
                for x in (pair.u, pair.v))  # fmt: skip
        s = api.matmul(adjoint(pair.u), api.matmul(a, pair.v, dtype=fmt), dtype=fmt)
        sigma = s.real[at, at] / (1 - (r.real[at, at] + q.real[at, at]) * 0.5)
        most = float(abs(first_words(sigma)).max())
        noise = 2.0 ** (8 - PRECISION[len(s.planes)]) * n * most
        return cls(pair, s, sigma, noise), r, q


def _refined(a: Any, pair: Pair) -> tuple[Pair, float]:
    """One step, and the size of its correction."""
    now, r_words, q_words = _Step.of(a, pair)
    n, fmt, sigma = now.s.shape[0], pair.v.format, now.sigma
    first = first_words(now.s)
    library = library_of(first)
    row, column = sigma.reshape(1, n), sigma.reshape(n, 1)
    r, q = ((x + adjoint(x)) / 2 for x in map(first_words, (r_words, q_words)))
    left = first_words(now.s + r_words * row)
    right = first_words(adjoint(now.s) + q_words * row)
    gap, total = first_words(row - column), first_words(row + column)
    plus, near = _divided(left + right, gap, (r + q) / 2, now.noise)
    minus, small = _divided(left - right, total, (r - q) / 2, now.noise)
    f, g = (_with_adjoint((plus + sign * minus) / 2, whole) for sign, whole in ((1, r), (-1, q)))
    # On the diagonal, half of what the phase of s_ii asks for goes to either side.
    if is_complex(first):
        phase, sizes = library.diagonal(first).imag, library.diagonal(total)
        turn = library.where(abs(phase) <= NEAR * abs(sizes), phase, 0 * phase)
        turn = turn / library.where(sizes == 0, library.ones_like(sizes), sizes)
        f, g = f + library.diag(1j * turn), g - library.diag(1j * turn)
    moved = []
    for x, e in ((pair.u, f), (pair.v, g)):
        added = product(first_words(x), e) if len(x.planes) == 2 else api.matmul(x, e, dtype=fmt)
        moved.append(x + added)
    pair = Pair(*moved)
    turned = _turned_groups(a, pair, now, (on_host(near), on_host(small)))
    return pair, max(size_of(f), size_of(g), turned)


def _divided(rest: Any, by: Any, otherwise: Any, noise: float) -> tuple[Any, Any]:
    """Quotients above the diagonal, or `otherwise` where they are not small; where that is."""
    library = library_of(by)
    near, quotients = unsure(rest, by, noise)
    return library.triu(library.where(near, otherwise, quotients), 1), near


def _with_adjoint(upper: Any, whole: Any) -> Any:
    """The E with this upper triangle and E + E' = whole, to the last bit."""
    library = library_of(upper)
    diagonal = library.diag(library.diagonal(whole) / 2)
    return upper + library.tril(whole - adjoint(upper), -1) + diagonal


def _turned_groups(a: Any, pair: Pair, now: _Step, marks: tuple[Any, Any]) -> float:
    """Rotate the vectors of every cluster, in place; the size of the rotations.

    Values near one another but not near zero: both sides alike, by the eigenvectors of the
    Hermitian part of their block. Values near zero, which may have any phase: each side by the
    singular vectors of the block.
    """
    near, small = marks
    fmt, turned = pair.v.format, 0.0
    np.fill_diagonal(near, False)
    alone = np.diagonal(small).copy()
    np.fill_diagonal(small, False)
    joined = groups_of(near | small)
    together = {int(i) for group in joined for i in group}
    joined += [np.array([i]) for i in np.flatnonzero(alone) if int(i) not in together]
    for group in joined:
        at = moved_like(group, first_words(pair.v))
        part = pair.take(at)
        is_small = bool(alone[group].any() or small[np.ix_(group, group)].any())
        image = api.matmul(a, part.v, dtype=fmt)
        if not is_small:
            image = image - part.u * now.sigma[int(group[len(group) // 2])]
        block = first_words(api.matmul(adjoint(part.u), image, dtype=fmt))
        linalg = library_of(block).linalg
        if is_small:
            p, sizes, qh = linalg.svd(block)
            q, idle = adjoint(qh), float(abs(sizes).max()) <= now.noise
        else:
            spread, q = linalg.eigh((block + adjoint(block)) / 2)
            p, idle = q, float(spread[-1] - spread[0]) <= now.noise
        is_done = rest_of(block) <= now.noise and _is_positive(block, now.noise, is_small)
        if idle or is_done:
            continue  # equal as far as these words see: any basis will do; or done already
        pair.u[:, at] = orthonormal(api.matmul(part.u, p, dtype=fmt))
        pair.v[:, at] = orthonormal(api.matmul(part.v, q, dtype=fmt))
        turned = max(turned, turn_of(p), turn_of(q))
    return turned


def _is_positive(block: Any, noise: float, is_small: bool) -> bool:
    """Whether the diagonal of a block is real and not negative, but for noise."""
    diagonal = np.diagonal(on_host(block))
    return not is_small or bool((abs(abs(diagonal) - diagonal) <= noise).all())


# ── the proof ────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class Enclosed:
    """Singular values in descending order, the vectors, and what is known of these.

    `residuals` are upper bounds of the 2-norm of (A v - s u, A'u - s v) for every pair of columns,
    `phi` one of I - U'U and of I - V'V.
    """

    intervals: Intervals
    pair: Pair
    residuals: Any
    phi: float


def enclose(a: Any, pair: Pair) -> Enclosed | None:
    """Proven singular values of A (m, n), m >= n, from any U (m, n) and V (n, n).

    None if their columns are not nearly orthonormal.
    """
    (m, n), fmt = a.shape, pair.v.format
    grams = [_defect(x) for x in (pair.u, pair.v)]
    phi, psi = (float(row_sums(defect).max()) for defect in grams)
    if not (phi < 0.5 and psi < 0.5):  # false for NaN
        return None
    image, about = api.matmul(a, pair.v, dtype=fmt, info=True)
    s, about_s = api.matmul(adjoint(pair.u), image, dtype=fmt, info=True)
    error = above(about_s.bound + product_above(abs_adjoint(pair.u), about.bound))
    diagonal = on_host(diagonal_of(s.real))
    off = _off_diagonal(s, error)
    outside = _outside(pair.u, s, image, about.bound) if m > n else 0.0
    order = in_order(abs(diagonal), descending=True)
    intervals = _intervals(abs(diagonal)[order], _two_norm(off), outside, (phi, psi))
    signs, sizes = np.sign(first_words(diagonal)), abs(first_words(diagonal))
    norms = _residuals(off, grams, moved_like(sizes, off), (max(phi, psi), outside))
    signs = moved_like(np.where(signs < 0, -1.0, 1.0), first_words(pair.v))
    turned = Pair(each_plane(pair.u, lambda plane: plane * signs), pair.v)
    at = moved_like(order, first_words(pair.v))
    return Enclosed(intervals, turned.take(at), norms[order], max(phi, psi))


def defect(x: Any) -> float:
    """Upper bound of the 2-norm of I - X'X."""
    return float(row_sums(_defect(x)).max())


def _defect(x: Any) -> Any:
    """Upper bounds of the entries of I - X'X."""
    identity = eye_like(first_words(x), x.shape[1])
    g, about = api.gemm(
        adjoint(x), x, identity, alpha=-1.0, beta=1.0, dtype=x.format, info=True
    )  # fmt: skip
    return above(magnitudes(g) + about.bound)


def _off_diagonal(s: Any, error: Any) -> Any:
    """Upper bounds of the entries of U'AV less the real part of the computed diagonal."""
    library, own = library_of(error), diagonal_of(error)
    if s.format.parts == 2:
        own = above(own + above(abs(diagonal_of(first_words(s.imag)))))
    apart = eye_like(error, error.shape[0]) == 0
    return library.where(apart, above(magnitudes(s) + error), 0.0) + library.diag(own)


def _two_norm(x: Any) -> float:
    """Upper bound of the 2-norm of a matrix that is not negative: the root of its norms 1, inf."""
    sums = [float(above(x.sum(axis), x.shape[0]).max()) ** 0.5 for axis in (0, 1)]
    return float(above(above(sums[0]) * above(sums[1])))


def _outside(u: Any, s: Any, image: Any, bound: Any) -> float:
    """Upper bound of the Frobenius norm of AV outside the space of U: of AV - UY for any Y."""
    rest, about = api.gemm(u, s, image, alpha=-1.0, beta=1.0, dtype=u.format, info=True)
    entries = above(magnitudes(rest) + about.bound + bound)
    return float(column_norms(entries.reshape(-1, 1))[0])


def _intervals(
    middles: Words, reach: float, outside: float, defects: tuple[float, float]
) -> Intervals:
    """Singular values of A, from those of U'AV, which are within reach of the middles.

    1 - x/2 <= (1 + x)^(-1/2) and (1 - x)^(-1/2) <= 1 + x/2 + x^2 for 0 <= x <= 1/2. So the lower
    end falls by (phi + psi) / 2 of itself at most, and the upper one, h = middle + reach, goes to
    (h (1 + p) + r) (1 + q), p = phi/2 + phi^2 and q likewise. r is at most what is outside, and its
    square over twice the rest: the root of x^2 + r^2 is at most x + r, and x + r^2 / (2 x). Where
    the lower end is negative, it is 0 instead.
    """
    phi, psi = defects
    p, q = (0.5 * x + x * x for x in defects)
    sizes = above(abs(first_words(middles)))
    least = (abs(first_words(middles)) + reach) * (1 - 2.0**-40)  # no more than what x may be
    with np.errstate(all="ignore"):
        rest = np.minimum(outside, above(outside * (outside / (2 * least))))
    grown = above(sizes * (p + q + p * q) + reach * (1 + p) * (1 + q) + rest * (1 + q))
    found = Intervals(middles, np.maximum(grown, above(reach + sizes * 0.5 * (phi + psi))))
    below = np.flatnonzero(abs(first_words(middles)) * (1 - 2.0**-50) <= found.radii).tolist()
    ends = {i: found.ends(i) for i in below}
    return found.with_ends({i: (Fraction(0), high) for i, (low, high) in ends.items() if low < 0})


def _residuals(off: Any, grams: list[Any], sizes: Any, rest: tuple[float, float]) -> Any:
    """Upper bounds of the 2-norms of (A v_i - s_i u_i, A'u_i - s_i v_i), s_i of the diagonal of S.

    U'(A v_i - s_i u_i) = S e_i - s_i (I - R) e_i, V'(A'u_i - s_i v_i) = S'e_i - s_i (I - Q) e_i,
    and what is outside of the space of U has the norm `outside` at most.
    """
    phi, outside = rest
    r, q = grams
    left = column_norms(above(off + r * above(sizes)))
    right = column_norms(above(off.T + q * above(sizes)))
    sizes = library_of(left).hypot(left, right)
    return on_host(above(above(sizes) / (1 - phi) + outside))
