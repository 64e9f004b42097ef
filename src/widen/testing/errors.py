"""Error measures, and the accuracy contracts as exact comparisons: no tolerance anywhere."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from .dyadic import RANGES, Dyadic, Range, part_dtype
from .exact import Exact, exact_product

Float = NDArray[np.float64]


def magnitude(a: ArrayLike, b: ArrayLike) -> tuple[Float, Float]:
    """(|A||B|)_ij rounded down and rounded up to float64: rigorous bounds, one ulp apart.

    Examples
    --------
    >>> low, high = magnitude([[1.0, -(2.0**-60)]], [[1.0], [1.0]])
    >>> low[0, 0] == 1.0, high[0, 0] == 1 + 2.0**-52
    (np.True_, np.True_)
    """
    low, high = _magnitude(a, b)
    return low.rounded("float64", "down"), high.rounded("float64", "up")


def error_in_u(c: ArrayLike, a: ArrayLike, b: ArrayLike, dtype: DTypeLike | None = None) -> Float:
    """|c - AB| / (u (|A||B|)_ij), elementwise; u belongs to ``dtype``, by default that of c.

    0/0 counts as 0. An infinity is right (0) where the exact value overflows, else infinitely
    wrong; NaN is always wrong.

    Examples
    --------
    >>> error_in_u([[1 + 2.0**-52]], [[1.0]], [[1.0]]).tolist()
    [[2.0]]
    """
    result = np.asarray(c)
    error, valid = _error(result, exact_product(a, b))
    unit = RANGES[part_dtype(result.dtype if dtype is None else dtype).name].bits
    measure = _magnitude(a, b)[0].scaled(1, -unit)
    return _ratio(error.modulus()[0], measure, valid & np.isfinite(result))


def error_in_ulps(c: ArrayLike, a: ArrayLike, b: ArrayLike) -> Float:
    """|c - AB| in ulps of the correctly rounded value in c's format; complex: the worse part.

    A correctly rounded result has at most 0.5.

    Examples
    --------
    >>> error_in_ulps([[1 + 2.0**-51]], [[1.0]], [[1.0]]).tolist()
    [[2.0]]
    """
    result = np.asarray(c)
    exact = exact_product(a, b)
    error, valid = _error(result, exact)
    part = part_dtype(result.dtype)
    ulps = [_ulp(x.rounded(part), RANGES[part.name]) for x in _like(exact, result).parts]
    values = [
        _ratio(abs(x), ulp, valid & np.isfinite(values))
        for x, ulp, values in zip(error.parts, ulps, _parts(result, len(ulps)), strict=True)
    ]
    return values[0] if len(values) == 1 else np.maximum(*values)


def violations(c: ArrayLike, bound: ArrayLike, a: ArrayLike, b: ArrayLike) -> int:
    """How many elements have |c - AB| above ``bound``, a float64 array; compared exactly.

    An infinity is a violation unless a value within the bound rounds to it; NaN always is one.

    Examples
    --------
    >>> violations([[1.0, 3.0]], [[0.0, 0.5]], [[1.0]], [[1.0, 2.0]])
    1
    """
    error, valid = _error(np.asarray(c), exact_product(a, b))
    limits = np.broadcast_to(np.asarray(bound, dtype=np.float64), error.shape)
    limit = Dyadic.of(np.where(np.isfinite(limits), limits, 0.0))
    above = (error.squared_modulus() - limit * limit).positive() & ~(limits == np.inf)
    return int((above | ~valid | ~(limits >= 0)).sum())


def check_contract(
    c: ArrayLike,
    a: ArrayLike,
    b: ArrayLike,
    accuracy: str | int = "standard",
    dtype: DTypeLike | None = None,
) -> int:
    """How many elements of ``c`` break a contract: 0 for a product that keeps its promise.

    Parameters
    ----------
    c, a, b : array_like
        The product and its operands, real or complex.
    accuracy : {"standard", "fast", "correct"} or int
        2 sqrt(k) u (|A||B|), k u (|A||B|), the exact bits, or 2**-accuracy ||a_i|| ||b_j||; half
        an ulp of c is added to all but "correct".
    dtype : dtype, optional
        The format whose u the contract speaks of; default c's. The half ulp is always c's.

    Notes
    -----
    With E = |error|^2, B = bound^2 and H = the sum of squares of the half ulps of all parts,
    |error| <= bound + sqrt(H) iff E - B - H <= 0 or (E - B - H)^2 <= 4BH: exact integers only.
    Complex |A||B| is irrational; it is replaced by a lower bound 2**-120 below, so nothing that
    breaks the contract passes. An infinity stands for all it is rounded from, without half an ulp.

    Examples
    --------
    >>> a, b = [[1.0, 2.0**-60]], [[1.0], [1.0]]
    >>> check_contract([[1.0]], a, b, "correct"), check_contract([[1 + 2.0**-52]], a, b, "correct")
    (0, 1)
    >>> check_contract([[1 + 2.0**-52]], a, b), check_contract([[1 + 2.0**-50]], a, b)
    (0, 1)
    """
    result = np.asarray(c)
    exact = exact_product(a, b)
    if accuracy == "correct":
        return int((~_same_bits(result, exact.rounded(result.dtype))).sum())
    error, valid = _error(result, exact)
    squared_bound = _squared_bound(a, b, accuracy, result.dtype if dtype is None else dtype)
    form = RANGES[part_dtype(result.dtype).name]
    halves = [_ulp(part, form).scaled(1, -1) for part in _parts(result, len(error.parts))]
    finite = [np.isfinite(part) for part in _parts(result, len(error.parts))]
    kept = [h.where(f, h.scaled(0)) for h, f in zip(halves, finite, strict=True)]
    squared_half = Exact(tuple(kept)).squared_modulus()
    excess = error.squared_modulus() - squared_bound - squared_half
    beyond = (excess * excess - (squared_bound * squared_half).scaled(4)).positive()
    return int(((excess.positive() & beyond) | ~valid).sum())


def _squared_bound(a: ArrayLike, b: ArrayLike, accuracy: str | int, dtype: DTypeLike) -> Dyadic:
    """The square of a contract's bound, without the half ulp."""
    k = np.shape(a)[1]
    if isinstance(accuracy, (int, np.integer)) and not isinstance(accuracy, bool):
        rows, columns = Exact.of(a).squared_modulus(), Exact.of(b).squared_modulus()
        ones = Dyadic.of(np.ones((k, 1))), Dyadic.of(np.ones((1, k)))
        return ((rows @ ones[0]) * (ones[1] @ columns)).scaled(1, -2 * int(accuracy))
    factors = {"standard": 4 * k, "fast": k * k}
    if accuracy not in factors:
        raise ValueError(
            f"got accuracy {accuracy!r}; expected 'standard', 'fast', 'correct' or an integer"
        )
    low = _magnitude(a, b)[0]
    return (low * low).scaled(factors[accuracy], -2 * RANGES[part_dtype(dtype).name].bits)


def _magnitude(a: ArrayLike, b: ArrayLike) -> tuple[Dyadic, Dyadic]:
    """Bounds of |A||B|: equal (and exact) for real matrices."""
    (low_a, high_a), (low_b, high_b) = Exact.of(a).modulus(), Exact.of(b).modulus()
    low = low_a @ low_b
    return low, low if low_a is high_a and low_b is high_b else high_a @ high_b


def _error(c: NDArray[Any], exact: Exact) -> tuple[Exact, NDArray[np.bool_]]:
    """The exact c - AB, and where c is no NaN.

    An infinity stands for everything that rounds to it: its error is the distance of the exact
    value from the least such number, 0 if the exact value is beyond.
    """
    if c.shape != exact.shape:
        raise ValueError(f"got c of shape {c.shape}; expected {exact.shape}")
    integer, exponent = RANGES[part_dtype(c.dtype).name].overflow
    target = _like(exact, c)
    errors = []
    for part, value in zip(_parts(c, len(target.parts)), target.parts, strict=True):
        finite = np.isfinite(part)
        error = Dyadic.of(np.where(finite, part, np.zeros_like(part))) - value
        signs = Dyadic.of(np.where(part < 0, -1.0, 1.0))
        missing = signs.scaled(integer, exponent) - value
        missing = missing.where((missing * signs).positive(), missing.scaled(0))
        errors.append(error.where(finite, missing))
    return Exact(tuple(errors)), ~np.isnan(c)


def _like(exact: Exact, c: NDArray[Any]) -> Exact:
    """Two parts if either is complex."""
    return exact.as_complex() if c.dtype.kind == "c" else exact


def _parts(c: NDArray[Any], count: int) -> list[NDArray[Any]]:
    """The real part, or both parts."""
    return [c.real, c.imag][:count] if c.dtype.kind == "c" else [c, np.zeros_like(c)][:count]


def _ulp(x: NDArray[Any], form: Range) -> Dyadic:
    """The spacing of the format from |x| upwards; of the largest finite numbers, if infinite."""
    exponents = np.frexp(np.where(np.isfinite(x), x, np.zeros_like(x)).astype(np.float64))[1]
    exponents = np.where(np.isfinite(x), np.where(x == 0, form.emin, exponents), form.emax)
    lowest = np.maximum(exponents.astype(np.int64) - form.bits, form.emin - 1)
    return Dyadic(np.ones(x.shape, dtype=np.int64).astype(object), lowest)


def _ratio(x: Dyadic, y: Dyadic, finite: NDArray[np.bool_]) -> Float:
    """The quotient x / y; 0 where x is 0, else infinite where y is 0 or c is not finite."""
    regular = ~x.zero() & ~y.zero() & finite
    quotients = np.where(x.zero(), 0.0, np.inf)
    quotients[regular] = (x.mpfr()[regular] / y.mpfr()[regular]).astype(np.float64)
    return quotients


def _same_bits(x: NDArray[Any], y: NDArray[Any]) -> NDArray[np.bool_]:
    """Equal with the signs of zeros, both parts; NaN never equal."""
    if x.shape != y.shape:
        raise ValueError(f"got c of shape {x.shape}; expected {y.shape}")
    if x.dtype.kind == "c":
        return _same_bits(x.real, y.real) & _same_bits(x.imag, y.imag)
    return np.asarray((x == y) & (np.signbit(x) == np.signbit(y)), dtype=np.bool_)
