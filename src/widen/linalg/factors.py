"""`cholesky`: the factor of a positive definite matrix, every element rounded once where decided.

From an approximate factor L in words, D = A - LL', X about L^-1 in float64 and F = I - XL: with
E = L^-1 D L^-T the exact factor is L chol(I + E) = L (I + H), and |H|_F <= |E|_F for |E|_F <= 1/4:
from H + H' + HH' = E, H is the lower triangle of E - HH' with half of its diagonal, so
h <= (e + h^2) / sqrt(2), and h <= e by continuity from E = 0. Besides,
|E|_F <= | |X||D||X'| |_F / (1 - |F|_F)^2. So every element is within |L_i|_2 |E|_F of the exact
one, if the diagonal of L is real and positive. Refinement adds L times the lower triangle of
X D X', with half of its diagonal. X' is the adjoint: all of this holds for Hermitian matrices.

Small matrices that this leaves open are done in integers: elements are minors over square roots of
products of minors (Bareiss' elimination), and square roots of fractions round exactly.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from time import perf_counter
from typing import Any

import numpy as np

from widen import api
from widen.calls.foreign.functions import taking
from widen.formats import Format
from widen.formats.arrays import library_of
from widen.linalg import operands
from widen.linalg.arrays import adjoint, eye_like, filled, inverse, is_complex, moved_like
from widen.linalg.bounds import (
    FORMATS,
    PRECISION,
    above,
    as_words,
    first_words,
    format_name,
    magnitudes,
    product,
    product_above,
)
from widen.linalg.decide import decide, half_units, nearest, rounded
from widen.linalg.definite import is_positive_definite
from widen.linalg.errors import NotProvenError
from widen.linalg.integers import WORK, to_integers
from widen.linalg.modular import planes_of
from widen.linalg.powers import rounded_root
from widen.linalg.records import EigenInfo
from widen.linalg.scaling import is_equal, times_powers
from widen.linalg.singular import row_exponents
from widen.linalg.spectrum import check_symmetric
from widen.words import Words

STEPS = 10
"""Steps of refinement at most: they square a large error, and gain 26 bits or more of a small."""
WIDTHS = 2
"""Formats that are tried: condition numbers above 1e13 need one more word than the result."""


@dataclass(frozen=True)
class _Factor:
    """Words (parts, n, n) of a factor, upper bounds of its errors, and where it is decided."""

    planes: list[Any]
    radius: Any
    decided: Any


@taking("a")
def cholesky(a: Any, *, dtype: Any = None, info: bool = False) -> Any:
    """The lower triangular factor of positive definite matrices, a = L L', L' the adjoint.

    Every element is within a proven radius, and the nearest number of its format wherever that
    decides it, or the matrix is small enough for integers (n of about 100): `info.decided`. Larger
    sparse matrices have zeros that stay undecided.

    Parameters
    ----------
    a
        Matrices (..., n, n), as for `solve`, symmetric (or Hermitian) to the last bit.
    dtype
        Format of the result, as for `solve`.
    info
        True: also return an `EigenInfo`, with radii and what is decided.

    Raises
    ------
    numpy.linalg.LinAlgError
        Where a is not positive definite, which is proven.
    NotProvenError
        Where the condition number is above 1e30 or so, and n too large for integers.

    Notes
    -----
    Tensors have gradients, but not with `info` or several words.

    Examples
    --------
    >>> import numpy as np, widen
    >>> widen.linalg.cholesky(np.array([[4.0, 2.0], [2.0, 10.0]]))
    array([[2., 0.],
           [1., 3.]])
    """
    if operands.wants_gradient(a):
        from widen.linalg import gradients

        return gradients.cholesky(a, dtype, info)
    started = perf_counter()
    call = operands.given(dtype, a=a)
    (array,) = call.arrays
    operands.check_square(array)
    batch, n = tuple(array.shape[:-2]), array.shape[-1]
    factors = [_factor(matrix, call.fmt) for matrix in operands.each_matrix(array, batch)]
    like = first_words(operands.real(array))
    value = operands.assembled([one.planes for one in factors], (*batch, n, n), call, like)
    if not info:
        return value
    radius, decided = filled(like, (*batch, n, n), 0.0), filled(like, (*batch, n, n), 1.0)
    for at, one in enumerate(factors):
        radius.reshape(len(factors), n, n)[at] = one.radius
        decided.reshape(len(factors), n, n)[at] = one.decided
    record = EigenInfo(
        operands.returned(radius, call), operands.returned(decided > 0, call), 2,
        perf_counter() - started,
    )  # fmt: skip
    return value, record


def _factor(a: Any, fmt: Format) -> _Factor:
    """The factor of one matrix."""
    check_symmetric(a)
    factor = _by_refinement(a, fmt)
    if factor is not None and bool(factor.decided.all()):
        return factor
    exact = _by_integers(a, fmt)
    if exact is not None:
        return exact
    if factor is not None:
        return factor
    if not is_positive_definite(a):
        raise np.linalg.LinAlgError("a is not positive definite, which is proven")
    raise NotProvenError(
        "a is positive definite, but no factor in words was near enough: its condition number is "
        "above 1e30 or so, and it is too large for integers"
    )


# ── in words ─────────────────────────────────────────────────────────────────


def _by_refinement(a: Any, fmt: Format) -> _Factor | None:
    """The factor, or None where words have none."""
    n, part = a.shape[0], fmt.part
    first = first_words(a)
    like = first_words(operands.real(a))
    if n == 0:
        empty = [moved_like(np.zeros((fmt.parts, 0, 0), word.name), like) for word in part.words]
        return _Factor(empty, like, like == 0)
    most = float(abs(first).max())
    exponent = 2 * (int(np.frexp(most)[1]) // 2) if np.isfinite(most) else 1024
    powers = np.full(n, -exponent)
    near = times_powers(a, powers, -2)
    if not is_equal(times_powers(near, -powers, -2), a):
        return None
    scale = moved_like(np.full((n, n), exponent // 2), like)
    best = None
    for count in [k for k in FORMATS if k > 1 and PRECISION[k] >= part.precision + 40][:WIDTHS]:
        factor = _refined(near, count, scale, fmt)
        best = best if factor is None else factor
        if best is not None and bool(best.decided.all()):
            break
    return best


def _refined(near: Any, count: int, scale: Any, fmt: Format) -> _Factor | None:
    """The factor of a matrix near 1, in so many words."""
    for start in (_ordinary_start, _start_in_words):
        factor = start(near, count)
        x = None if factor is None else inverse(first_words(factor))
        if factor is not None and x is not None:
            x = library_of(x).tril(x)
            if _radius(near, factor, x) is not None:
                return _improved(near, factor, x, scale, fmt)
    return None


def _improved(near: Any, factor: Words, x: Any, scale: Any, fmt: Format) -> _Factor | None:
    """The factor after as many steps as bring it further; x is about its inverse."""
    library = library_of(x)
    best, before = None, math.inf
    for _ in range(STEPS):
        radius = _radius(near, factor, x)
        size = math.inf if radius is None else float(radius.max())
        if not size < 0.5 * before:
            return best
        before = size
        best = _decided(factor, radius, scale, fmt)
        if bool(best.decided.all()):
            break
        rest = api.gemm(
            factor, adjoint(factor), near, alpha=-1.0, beta=1.0, accuracy="correct",
            dtype=format_name(1, is_complex(near)),
        )  # fmt: skip
        e = product(product(x, rest), adjoint(x))
        half = library.tril(e, -1) + library.diag(library.diagonal(e).real + 0 * x[0, 0]) / 2
        factor = factor + library.tril(product(first_words(factor), half))
    return best


def _ordinary_start(a: Any, count: int) -> Words | None:
    """The factor of float64, if there is one."""
    first = first_words(a)
    library = library_of(first)
    try:
        return as_words(library.linalg.cholesky(first), count)
    except library.linalg.LinAlgError:
        return None


def _start_in_words(a: Any, count: int) -> Words | None:
    """A factor computed in words, column by column, if there is one."""
    wide = as_words(a, count)
    factor = wide.zeros_like()
    for j in range(a.shape[0]):
        column = wide[j:, j : j + 1]
        if j:
            column = api.gemm(
                factor[j:, :j], adjoint(factor[j : j + 1, :j]), column, alpha=-1.0, beta=1.0,
                accuracy="correct", dtype=wide.format,
            )  # fmt: skip
        pivot = column.real[0, 0]
        if not float(pivot) > 0:
            return None
        root = pivot.sqrt()
        factor[j:, j : j + 1] = column / root
        factor[j, j] = root
    return factor


def _decided(factor: Words, radius: Any, scale: Any, fmt: Format) -> _Factor:
    """The factor's words, those that the radius decides rounded once."""
    part, n = fmt.part, scale.shape[0]
    library = library_of(radius)
    pieces: list[list[Any]] = []
    errors, fine = [], []
    for k, x in enumerate([factor.real, factor.imag][: fmt.parts]):
        known = library.triu(eye_like(radius, n) * 0 + 1, 1 - k) > 0  # zeros, and real diagonals
        decision = decide(x, radius, scale, part)
        words, error = nearest(x, radius, scale, part)
        words = [library.where(known, library.zeros_like(word), word) for word in words]
        for word, sure in zip(words, decision.words, strict=True):
            word[decision.decided & ~known] = sure[decision.decided & ~known]
        pieces.append(words)
        errors.append(library.where(known, library.zeros_like(error), error))
        fine.append(decision.decided | known)
    planes = [library.stack(list(words)) for words in zip(*pieces, strict=True)]
    if fmt.parts == 1:
        return _Factor(planes, errors[0], fine[0])
    return _Factor(planes, above(library.hypot(*errors)), fine[0] & fine[1])


def _radius(a: Any, factor: Words, x: Any) -> Any:
    """Radii of the elements of a factor, or None where its error is not small."""
    n, name = a.shape[0], format_name(1, is_complex(a))
    if not _is_positive(factor, n):
        return None
    identity = eye_like(x, n)
    d, about = api.gemm(
        factor, adjoint(factor), a, alpha=-1.0, beta=1.0, accuracy="correct", dtype=name, info=True
    )
    f, about_f = api.gemm(
        x, factor, identity, alpha=-1.0, beta=1.0, accuracy="correct", dtype=name, info=True
    )
    phi = _norm(above(magnitudes(f) + about_f.bound))
    around = magnitudes(x)
    size = product_above(product_above(around, above(magnitudes(d) + about.bound)), around.T)
    if not phi < 0.5:
        return None
    error = _norm(size) / (1 - phi) ** 2 * (1 + 2.0**-40)
    if not error <= 0.25:
        return None
    rows = above((magnitudes(factor) ** 2).sum(1), n + 2) ** 0.5
    return above(rows[:, None] * error + filled(around, (n, n), 0.0), 8)


def _is_positive(factor: Words, n: int) -> bool:
    """Whether the diagonal is real and positive: other triangles have L L' = A as well."""
    at = range(n)
    if not bool((first_words(factor.real)[at, at] > 0).all()):
        return False
    return not is_complex(factor) or all(
        bool((plane[0][at, at] == 0).all()) for plane in factor.imag.planes
    )


def _norm(x: Any) -> float:
    """Upper bound of the Frobenius norm of a matrix that is not negative."""
    total = float(above((x * x).sum(), x.shape[0] ** 2 + 4))
    return math.sqrt(total) * (1 + 2.0**-50)


# ── in integers ──────────────────────────────────────────────────────────────


def _by_integers(a: Any, fmt: Format) -> _Factor | None:
    """The factor, exactly; None if that takes too long.

    Every entry of Bareiss' elimination is a minor, those of the diagonal are real; of complex
    matrices all are integers of Gauss, in two parts.
    """
    n, part = a.shape[0], fmt.part
    parts = [operands.real(a)] + ([operands.imaginary(a)] if is_complex(a) else [])
    low = int(row_exponents(*parts).min(initial=0))
    low -= low % 2
    wholes = [to_integers(planes_of(x), np.full((n, 1), low)) for x in parts]
    bits = sum(max(1, int(sum(abs(x[i]).sum() for x in wholes))).bit_length() for i in range(n))
    if len(parts) ** 2 * n**3 * (bits / 1000) ** 1.5 > WORK:
        return None
    wholes += [np.zeros((n, n), object)] * (2 - len(wholes))
    re, im = wholes
    zero = rounded(Fraction(0), part)
    words = [[[zero] * n for _ in range(n)] for _ in range(fmt.parts)]
    is_zero = np.ones((fmt.parts, n, n), bool)
    last, unit = 1, Fraction(2) ** low
    for k in range(n):
        pivot = re[k, k]
        if pivot <= 0:
            raise np.linalg.LinAlgError(
                f"a is not positive definite: its leading minor of size {k + 1} is not positive"
            )
        for rows, empty, x in zip(words, is_zero, (re, im), strict=False):
            empty[k:, k] = x[k:, k] == 0
            for i in range(k, n):
                square = Fraction(x[i, k] ** 2, pivot * last) * unit
                rows[i][k] = rounded_root(square, x[i, k] < 0, part)
        p, q = re[k + 1 :, k], im[k + 1 :, k]
        tail = (slice(k + 1, None), slice(k + 1, None))
        real = np.multiply.outer(p, p) + np.multiply.outer(q, q)  # the row is the column's adjoint
        re[tail] = (pivot * re[tail] - real) // last
        if len(parts) == 2:
            imaginary = np.multiply.outer(q, p) - np.multiply.outer(p, q)
            im[tail] = (pivot * im[tail] - imaginary) // last
        last = pivot
    like = first_words(operands.real(a))
    planes = [
        moved_like(np.array([[[w[k] for w in row] for row in rows] for rows in words], word.name),
                   like)
        for k, word in enumerate(part.words)
    ]  # fmt: skip
    size = np.array([[[abs(w[0]) for w in row] for row in rows] for rows in words], float)
    radius = np.where(is_zero, 0.0, half_units(size, part))  # a result of 0 may have underflowed
    total = radius[0] if fmt.parts == 1 else above(np.hypot(radius[0], radius[1]))
    return _Factor(planes, moved_like(total, like), abs(like) >= 0)
