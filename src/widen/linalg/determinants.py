"""`det`, `slogdet` and `matrix_rank`: proven signs, values rounded once, proven ranks."""

from __future__ import annotations

import math
from collections.abc import Iterator
from decimal import Context, Decimal
from fractions import Fraction
from typing import Any

import numpy as np

from widen.calls.foreign.functions import taking
from widen.formats import BINARY, PLAIN, Format
from widen.formats import complex_of as format_with_parts
from widen.linalg import operands
from widen.linalg.arrays import complex_of, moved_like
from widen.linalg.bounds import first_words
from widen.linalg.decide import decide_exactly, rounded
from widen.linalg.determinant import (
    Determinant,
    determinant,
    exact_determinant,
    small_determinants,
)
from widen.linalg.errors import NotProvenError
from widen.linalg.operands import Given
from widen.linalg.powers import rounded_root
from widen.linalg.progress import Progress, part, reported
from widen.linalg.singular import proven_rank
from widen.words import Words

FLOAT64 = BINARY["float64"]


@taking("a")
def det(a: Any, *, dtype: Any = None, progress: Progress | None = None) -> Any:
    """The determinant of a, the nearest number of its format.

    Parameters
    ----------
    a
        Matrices (..., n, n), as for `solve`.
    dtype
        Format of the result, as for `solve`.
    progress
        A function that is called with the share of the work that is done, from 0 to 1.

    Raises
    ------
    NotProvenError
        Where the enclosure does not decide the rounding, and the matrix is too large for exact
        integers: beyond n of about 250.

    Examples
    --------
    >>> import numpy as np, widen
    >>> a = np.array([[1e16, 1e16 + 2.0], [1.0, 1.0]])
    >>> widen.linalg.det(a)                          # np.linalg.det: -2.220446049250313
    np.float64(-2.0)
    """
    if operands.wants_gradient(a):
        from widen.linalg import gradients

        return gradients.det(a, dtype)
    call = operands.given(dtype, a=a)
    with reported(progress):
        each = [
            _rounded_parts(parts, enclosed, call.fmt) for parts, enclosed in _determinants(call)
        ]
    words = [[parts[k] for parts in each] for k in range(call.fmt.parts)]
    return _assembled(words, call.fmt, call)


@taking("a")
def slogdet(a: Any) -> tuple[Any, Any]:
    """The sign of the determinant of a, and the logarithm of its size, the nearest float64.

    Parameters
    ----------
    a
        Matrices (..., n, n), as for `solve`.

    Returns
    -------
    (sign, logarithm)
        1, -1 or 0, which is proven, and log |det a|, minus infinity where a is singular. Of complex
        matrices det a / |det a|, both parts the nearest float64, or 0.

    Examples
    --------
    >>> import numpy as np, widen
    >>> widen.linalg.slogdet(np.diag([1e-200, -1e-200, 2.0]))
    (np.float64(-1.0), np.float64(-920.3408900170583))
    """
    call = operands.given(None, a=a)
    pairs = [_sign_and_logarithm(parts, enclosed) for parts, enclosed in _determinants(call)]
    signs: list[list[tuple[float, ...]]] = [
        [(sign[k],) for sign, _ in pairs] for k in range(call.parts)
    ]
    logarithms: list[tuple[float, ...]] = [(logarithm,) for _, logarithm in pairs]
    fmt: Format = FLOAT64 if call.parts == 1 else format_with_parts(FLOAT64)
    return _assembled(signs, fmt, call), _assembled([logarithms], FLOAT64, call)


@taking("a")
def matrix_rank(a: Any) -> Any:
    """The rank of a as it is given, without any tolerance.

    Parameters
    ----------
    a
        Matrices (..., m, n), as for `solve`.

    Raises
    ------
    NotProvenError
        Where a is not of full rank and too large for a proof from above.

    Notes
    -----
    The rank modulo a prime is at most the rank, and primes whose product is larger than any minor
    prove that it is no more. What a measurement would call rank deficient is nearly always of full
    rank: for that, look at singular values.

    Examples
    --------
    >>> import numpy as np, widen
    >>> widen.linalg.matrix_rank(np.array([[1.0, 2.0], [2.0, 4.0 + 2.0**-50]]))
    2
    """
    call = operands.given(None, a=a)
    (array,) = call.arrays
    if array.ndim < 2:
        raise ValueError(f"a has shape {tuple(array.shape)}; give matrices (..., m, n)")
    batch = tuple(array.shape[:-2])
    ranks = []
    for matrix in operands.each_matrix(array, batch):
        least, most = proven_rank(matrix)
        if least != most:
            raise NotProvenError(
                f"the rank is at least {least}, which is proven, and {least} but for a chance of "
                f"1e-13; a proof that it is not up to {most} would take too many primes"
            )
        ranks.append(least)
    rank_array = np.array(ranks, np.int64).reshape(batch)
    like = first_words(operands.real(array))
    return operands.returned(moved_like(rank_array, like), call) if batch else ranks[0]


def _matrices(call: Given) -> Any:
    (array,) = call.arrays
    operands.check_square(array)
    return operands.each_matrix(array, tuple(array.shape[:-2]))


def _parts(matrix: Any) -> tuple[Any, ...]:
    if operands.parts_of(matrix) == 1:
        return (matrix,)
    return operands.real(matrix), operands.imaginary(matrix)


def _determinants(call: Given) -> Iterator[tuple[tuple[Any, ...], Determinant]]:
    """The parts of all matrices, and their determinants: small ones at once, others in turn."""
    matrices = list(_matrices(call))
    (array,) = call.arrays
    n, small = array.shape[-1], None
    if call.parts == 1 and matrices:
        small = small_determinants(array.reshape(len(matrices), n, n))
    share = 1 / max(1, len(matrices))
    for at, matrix in enumerate(matrices):
        if small is not None:
            yield (matrix,), small[at]
            continue
        with part(at * share, share):
            enclosed = determinant(*_parts(matrix))
        yield _parts(matrix), enclosed


def _rounded_parts(
    parts: tuple[Any, ...], enclosed: Determinant, fmt: Format
) -> list[tuple[float, ...]]:
    """The words of the real and the imaginary part of a determinant."""
    words = [decide_exactly(low, high, fmt.part) for low, high in enclosed.parts]
    if None in words and not enclosed.is_exact:
        enclosed = exact_determinant(*parts)
        words = [rounded(low, fmt.part) for low, _ in enclosed.parts]
    words += [rounded(Fraction(0), fmt.part)] * (fmt.parts - len(words))
    return [word for word in words if word is not None]


def _sign_and_logarithm(
    parts: tuple[Any, ...], enclosed: Determinant
) -> tuple[tuple[float, ...], float]:
    """The sign, by its parts, and the logarithm of the modulus."""
    value = _logarithm(enclosed)
    if value is None:
        enclosed = exact_determinant(*parts)
        value = _logarithm(enclosed)
    assert value is not None, "exact values are never undecided"
    if len(parts) == 1:
        (low, high) = enclosed.parts[0]
        return (float((high > 0) - (low < 0)),), value
    numbers = [low for low, _ in enclosed.parts]  # those of complex matrices are exact
    square = sum((number * number for number in numbers), Fraction(0))
    if not square:
        return (0.0, 0.0), value
    return tuple(rounded_root(v * v / square, v < 0, FLOAT64)[0] for v in numbers), value


def _logarithm(enclosed: Determinant) -> float | None:
    """The logarithm of |det|, rounded to float64, or None if the enclosure does not decide that."""
    ends = [sorted(map(abs, part)) for part in enclosed.parts]
    if len(ends) == 2:  # half of that of the square
        low, high = (ends[0][k] ** 2 + ends[1][k] ** 2 for k in (0, 1))
        half = Fraction(1, 2)
    else:
        (low, high), half = ends[0], Fraction(1)
    if high == 0:
        return -math.inf
    if low == high == 1:
        return 0.0
    digits = 60
    while True:
        context = Context(prec=digits, Emax=10**12, Emin=-(10**12))
        slack = Fraction(1, 10 ** (digits - 20))  # numbers are below 10^8, each off by 10^-digits
        first, last = (half * _decimal_logarithm(value, context) for value in (low, high))
        words = decide_exactly(first - slack, last + slack, FLOAT64)
        if words is not None:
            return words[0]
        if low != high:
            return None
        digits *= 4  # log x is not rational but for x = 1, so that it is decided some time


def _decimal_logarithm(value: Fraction, context: Context) -> Fraction:
    ratio = context.divide(Decimal(value.numerator), Decimal(value.denominator))
    return Fraction(ratio.ln(context))


def _assembled(words: list[list[tuple[float, ...]]], fmt: Format, call: Given) -> Any:
    """Numbers of a batch, given as [part][matrix][word], as what the caller gave."""
    array = call.arrays[0]
    like, batch = first_words(operands.real(array)), tuple(array.shape[:-2])
    planes = [
        moved_like(
            np.array([[word[k] for word in part] for part in words], name.name).reshape(
                fmt.parts, *batch
            ),
            like,
        )
        for k, name in enumerate(fmt.part.words)
    ]
    if fmt.name not in PLAIN:
        return operands.returned(Words.of(fmt, planes), call)  # type: ignore[arg-type]
    value = planes[0][0] if fmt.parts == 1 else complex_of(planes[0])
    if call.place == "numpy":
        return value[()]
    return operands.returned(value, call)
