"""`cholesky`: the factor of a positive definite matrix, every element rounded once where decided.

From an approximate factor L in words, D = A - LL', X about L^-1 in float64 and F = I - XL: with
E = L^-1 D L^-T the exact factor is L chol(I + E) = L (I + H), and |H|_F <= |E|_F for |E|_F <= 1/4:
from H + H' + HH' = E, H is the lower triangle of E - HH' with half of its diagonal, so
h <= (e + h^2) / sqrt(2), and h <= e by continuity from E = 0. Besides,
|E|_F <= | |X||D||X'| |_F / (1 - |F|_F)^2. So every element is within |L_i|_2 |E|_F of the exact
one. Refinement adds L times the lower triangle of X D X', with half of its diagonal.

Small matrices that this leaves open are done in integers: elements are minors over square roots of
products of minors (Bareiss' elimination), and square roots of fractions round exactly.
"""

from __future__ import annotations

import math
from fractions import Fraction
from time import perf_counter
from typing import Any

import numpy as np

from widen import api
from widen.formats import Part
from widen.formats.arrays import eager, library_of
from widen.linalg import operands
from widen.linalg.arrays import eye_like, filled, inverse, moved_like
from widen.linalg.bounds import (
    FORMATS,
    PRECISION,
    above,
    as_words,
    first_words,
    magnitudes,
    product,
    product_above,
)
from widen.linalg.decide import decide, decide_exactly, half_units, nearest, rounded
from widen.linalg.eigen import transposed
from widen.linalg.eigenvalues import is_positive_definite
from widen.linalg.errors import NotProvenError
from widen.linalg.integers import WORK, to_integers
from widen.linalg.modular import planes_of
from widen.linalg.records import EigenInfo
from widen.linalg.scaling import is_equal, times_powers
from widen.linalg.singular import row_exponents
from widen.linalg.spectrum import check_symmetric
from widen.words import Words

STEPS = 6
"""Steps of refinement: each gains as many bits as float64 has beyond those the condition costs."""


@eager
def cholesky(a: Any, *, dtype: Any = None, info: bool = False) -> Any:
    """The lower triangular factor of real positive definite matrices, a = L L'.

    Every element is within a proven radius, and the nearest number of its format wherever that
    decides it, or the matrix is small enough for integers (n of about 100): `info.decided`. Larger
    sparse matrices have zeros that stay undecided.

    Parameters
    ----------
    a
        Real matrices (..., n, n), as for `solve`, symmetric to the last bit.
    dtype
        Format of the result, as for `solve`.
    info
        True: also return an `EigenInfo`, with radii and what is decided.

    Raises
    ------
    numpy.linalg.LinAlgError
        Where a is not positive definite, which is proven.
    NotProvenError
        Where the condition number is too large for float64 factors, and n for integers.

    Examples
    --------
    >>> import numpy as np, widen
    >>> widen.linalg.cholesky(np.array([[4.0, 2.0], [2.0, 10.0]]))
    array([[2., 0.],
           [1., 3.]])
    """
    call = operands.given(dtype, a=a)
    (array,) = call.arrays
    if call.parts == 2 or call.fmt.parts == 2:
        raise TypeError("cholesky takes real matrices")
    operands.check_square(array)
    batch, n = tuple(array.shape[:-2]), array.shape[-1]
    started = perf_counter()
    factors = [_factor(matrix, call.fmt.part) for matrix in operands.each_matrix(array, batch)]
    like = first_words(array)
    pieces = [[plane[None] for plane in planes] for planes, _, _ in factors]
    value = operands.assembled(pieces, (*batch, n, n), call, like)
    if not info:
        return value
    radius, decided = filled(like, (*batch, n, n), 0.0), filled(like, (*batch, n, n), 1.0)
    for at, (_, radii, fine) in enumerate(factors):
        radius.reshape(len(factors), n, n)[at] = radii
        decided.reshape(len(factors), n, n)[at] = fine
    record = EigenInfo(
        operands.returned(radius, call), operands.returned(decided > 0, call), 2,
        perf_counter() - started,
    )  # fmt: skip
    return value, record


def _factor(a: Any, fmt: Part) -> tuple[list[Any], Any, Any]:
    """Words of the factor of one matrix, radii, and where they are decided."""
    check_symmetric(a)
    found = _by_refinement(a, fmt)
    if found is not None and bool(found[2].all()):
        return found
    exact = _by_integers(a, fmt)
    if exact is not None:
        return exact
    if found is not None:
        return found
    if not is_positive_definite(a):
        raise np.linalg.LinAlgError("a is not positive definite, which is proven")
    raise NotProvenError(
        "a is positive definite, but float64 has no factor that is near enough: its condition "
        "number is above 1e13, and it is too large for integers"
    )


# ── in words ─────────────────────────────────────────────────────────────────


def _by_refinement(a: Any, fmt: Part) -> tuple[list[Any], Any, Any] | None:
    """The factor as `_factor` has it, or None where float64 has none."""
    n = a.shape[0]
    first = first_words(a)
    library = library_of(first)
    if n == 0:
        return [library.zeros_like(first)] * len(fmt.words), first, first == 0
    exponent = 2 * (int(np.frexp(float(abs(first).max()))[1]) // 2)
    powers = np.full(n, -exponent)
    near = times_powers(a, powers, -2)
    if not is_equal(times_powers(near, -powers, -2), a):
        return None
    try:
        start = library.linalg.cholesky(first_words(near))
    except library.linalg.LinAlgError:
        return None
    wide = [k for k in FORMATS if k > 1 and PRECISION[k] >= fmt.precision + 40]
    x = inverse(start)
    if not wide or x is None:
        return None
    x = library.tril(x)
    factor = as_words(start, wide[0])
    scale = moved_like(np.full((n, n), exponent // 2), first)
    best = None
    for _ in range(STEPS):
        radius = _radius(near, factor, x)
        if radius is None:
            return best
        decision = decide(factor, radius, scale, fmt)
        upper = library.triu(eye_like(first, n) * 0 + 1, 1) > 0
        words, error = nearest(factor, radius, scale, fmt)
        words = [library.where(upper, library.zeros_like(word), word) for word in words]
        for word, sure in zip(words, decision.words, strict=True):
            word[decision.decided] = sure[decision.decided]
        error = library.where(upper, library.zeros_like(error), error)
        best = (words, error, decision.decided | upper)
        if bool(best[2].all()):
            break
        rest = api.gemm(
            factor, transposed(factor), near, alpha=-1.0, beta=1.0, accuracy="correct",
            dtype="float64",
        )  # fmt: skip
        e = product(product(x, rest), x.T)
        half = library.tril(e, -1) + library.diag(library.diagonal(e)) / 2
        factor = factor + library.tril(product(first_words(factor), half))
    return best


def _radius(a: Any, factor: Words, x: Any) -> Any:
    """Radii of the elements of a factor, or None where its error is not small."""
    n = a.shape[0]
    d, about = api.gemm(
        factor, transposed(factor), a, alpha=-1.0, beta=1.0, accuracy="correct", dtype="float64",
        info=True,
    )  # fmt: skip
    f, about_f = api.gemm(
        x, factor, eye_like(x, n), alpha=-1.0, beta=1.0, accuracy="correct", dtype="float64",
        info=True,
    )  # fmt: skip
    phi = _norm(above(abs(f) + about_f.bound))
    size = product_above(product_above(abs(x), above(abs(d) + about.bound)), abs(x).T)
    if not phi < 0.5:
        return None
    error = _norm(size) / (1 - phi) ** 2 * (1 + 2.0**-40)
    if not error <= 0.25:
        return None
    rows = above((magnitudes(factor) ** 2).sum(1), n + 2) ** 0.5
    return above(rows[:, None] * error + filled(x, (n, n), 0.0), 8)


def _norm(x: Any) -> float:
    """Upper bound of the Frobenius norm of a matrix that is not negative."""
    total = float(above((x * x).sum(), x.shape[0] ** 2 + 4))
    return math.sqrt(total) * (1 + 2.0**-50)


# ── in integers ──────────────────────────────────────────────────────────────


def _by_integers(a: Any, fmt: Part) -> tuple[list[Any], Any, Any] | None:
    """The factor as `_factor` has it, exactly; None if that takes too long."""
    n = a.shape[0]
    low = int(row_exponents(a).min(initial=0))
    low -= low % 2
    whole = to_integers(planes_of(a), np.full((n, 1), low)).tolist()
    bits = sum(max(1, sum(map(abs, row))).bit_length() for row in whole)
    if n**3 * (bits / 1000) ** 1.5 > WORK:
        return None
    words = [[rounded(Fraction(0), fmt)] * n for _ in range(n)]
    last = 1
    for k in range(n):
        pivot = whole[k][k]
        if pivot <= 0:
            raise np.linalg.LinAlgError(
                f"a is not positive definite: its leading minor of size {k + 1} is not positive"
            )
        for i in range(k, n):
            square = Fraction(whole[i][k] ** 2, pivot * last) * Fraction(2) ** low
            words[i][k] = _rounded_root(square, whole[i][k] < 0, fmt)
        for i in range(k + 1, n):
            row, factor = whole[i], whole[i][k]
            for j in range(k + 1, n):
                row[j] = (pivot * row[j] - factor * whole[k][j]) // last
        last = pivot
    first = first_words(a)
    planes = [
        moved_like(np.array([[word[k] for word in row] for row in words], part.name), first)
        for k, part in enumerate(fmt.words)
    ]
    size = np.array([[abs(word[0]) for word in row] for row in words], float)
    radius = np.where(size == 0, 0.0, half_units(size, fmt))
    return planes, moved_like(radius, first), abs(first) >= 0


def _rounded_root(square: Fraction, is_negative: bool, fmt: Part) -> tuple[float, ...]:
    """The words of a square root, or of its negative."""
    sign = -1 if is_negative else 1
    top, bottom = math.isqrt(square.numerator), math.isqrt(square.denominator)
    if top * top == square.numerator and bottom * bottom == square.denominator:
        return rounded(Fraction(sign * top, bottom), fmt)
    bits = fmt.precision + 64
    while True:
        size = square.numerator.bit_length() - square.denominator.bit_length()
        shift = max(0, bits - size // 2)
        root = math.isqrt((square.numerator << 2 * shift) // square.denominator)
        ends = sorted(Fraction(sign * value, 1 << shift) for value in (root, root + 1))
        words = decide_exactly(ends[0], ends[1], fmt)
        if words is not None:
            return words
        bits *= 2  # it is irrational, so that it is decided some time
