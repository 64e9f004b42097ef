"""`eigvalsh`, `svdvals`, `norm`, `cond`, `is_positive_definite`: values within proven radii."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from time import perf_counter
from typing import Any

import numpy as np

from widen.formats import BINARY, PLAIN, Format, Part
from widen.formats.arrays import cast, eager
from widen.linalg import eigen, operands
from widen.linalg.arrays import filled, moved_like, on_host
from widen.linalg.bounds import PRECISION, first_words
from widen.linalg.decide import decide_exactly, rounded
from widen.linalg.errors import NotProvenError
from widen.linalg.operands import Given
from widen.linalg.records import EigenInfo
from widen.linalg.scaling import each_plane
from widen.linalg.spectrum import WIDTHS, Values, all_decided, check_symmetric, symmetric_values
from widen.stages.rounding import round_once
from widen.words import Words

FLOAT64 = BINARY["float64"]


def _each(call: Given, check: Callable[[Any], None]) -> Any:
    (array,) = call.arrays
    check(array)
    return operands.each_matrix(array, tuple(array.shape[:-2]))


@eager
def eigvalsh(a: Any, *, dtype: Any = None, info: bool = False) -> Any:
    """The eigenvalues of symmetric (or Hermitian) matrices, in ascending order.

    Every one is within a proven radius, and the nearest number of its format wherever that radius
    decides it, which `info.decided` says: nearly always. Zeros are proven by the rank.

    Parameters
    ----------
    a
        Matrices (..., n, n), as for `solve`, symmetric to the last bit.
    dtype
        Format of the result: float64 (the default for float64), float32, or several words.
    info
        True: also return an `EigenInfo`.

    Examples
    --------
    >>> import numpy as np, widen
    >>> widen.linalg.eigvalsh(np.array([[1.0, 1e-9], [1e-9, 1.0]]))
    array([1., 1.])
    >>> print(widen.linalg.eigvalsh(np.array([[2.0, 1.0], [1.0, 1.0]]), dtype="float64x2")[0])
    0.38196601125010515179541316563436
    """
    call = _real_result(dtype, a)

    def values(matrix: Any, part: Part) -> Values:
        whole = operands.real_matrix(matrix)
        check_symmetric(whole)
        found = symmetric_values(whole, all_decided(part))
        step = operands.parts_of(matrix)  # every eigenvalue of a Hermitian matrix twice
        return Values(found.lows[::step], found.highs[::step], found.words)

    return _results(call, _each(call, operands.check_square), values, info)


@eager
def eigh(a: Any, *, dtype: Any = None, info: bool = False) -> Any:
    """The eigenvalues of real symmetric matrices as `eigvalsh` has them, and their eigenvectors.

    Vectors are refined in twice the words of the result and more, then rounded: they are as
    accurate as the format where eigenvalues are apart, and orthogonal to its accuracy everywhere.
    Nothing is proven about a vector. Its component of the largest size is positive.

    Parameters
    ----------
    a
        Real matrices (..., n, n), as for `solve`, symmetric to the last bit.
    dtype, info
        As for `eigvalsh`.

    Returns
    -------
    (values, vectors), or (values, vectors, EigenInfo)

    Examples
    --------
    >>> import numpy as np, widen
    >>> values, vectors = widen.linalg.eigh(np.array([[2.0, 1.0], [1.0, 2.0]]))
    >>> values
    array([1., 3.])
    >>> vectors[:, 1]
    array([0.70710678, 0.70710678])
    """
    call = _real_result(dtype, a)
    if call.parts == 2:
        raise TypeError("eigh takes real matrices; eigvalsh takes Hermitian ones")
    kept = []

    def values(matrix: Any, part: Part) -> Values:
        check_symmetric(matrix)
        found = symmetric_values(matrix, all_decided(part), _words_for(part))
        kept.append(_vectors(found.vectors, matrix, call.fmt))
        return found

    value, record = _results(call, _each(call, operands.check_square), values, True)
    (array,) = call.arrays
    vectors = operands.assembled(kept, tuple(array.shape), call, first_words(array))
    return (value, vectors, record) if info else (value, vectors)


def _words_for(part: Part) -> int:
    """Words of eigenvectors that are then rounded to a format."""
    return next((k for k in WIDTHS if PRECISION[k] >= part.precision + 40), WIDTHS[-1])


def _vectors(x: Any, like: Any, fmt: Format) -> list[Any]:
    """Planes (1, n, n) of vectors in the format of a result, with signs."""
    if x is None:  # of an empty matrix
        return [cast(first_words(like)[None], word.name) for word in fmt.part.words]
    first = on_host(first_words(x))
    largest = np.take_along_axis(first, abs(first).argmax(0)[None], 0)[0]
    signs = moved_like(np.where(largest < 0, -1.0, 1.0), first_words(x))
    turned = each_plane(x, lambda plane: plane * signs + 0.0)
    if fmt.name in PLAIN:
        return [cast(turned.planes[0], fmt.name)]
    return list(turned.astype(fmt).planes)


@eager
def svdvals(a: Any, *, dtype: Any = None, info: bool = False) -> Any:
    """The singular values of matrices, in descending order, as `eigvalsh` has eigenvalues.

    Parameters
    ----------
    a
        Matrices (..., m, n), as for `solve`.
    dtype, info
        As for `eigvalsh`.

    Examples
    --------
    >>> import numpy as np, widen
    >>> widen.linalg.svdvals(np.array([[3.0, 0.0], [0.0, -4.0], [0.0, 0.0]]))
    array([4., 3.])
    """
    call = _real_result(dtype, a)
    return _results(call, _each(call, _check_matrices), _singular_values, info)


@eager
def norm(a: Any, ord: int = 2, *, dtype: Any = None, info: bool = False) -> Any:
    """The largest singular value of matrices, as `svdvals` has it.

    Parameters
    ----------
    a, dtype, info
        As for `svdvals`.
    ord
        2, the only norm here; `Words` has others.

    Examples
    --------
    >>> import numpy as np, widen
    >>> widen.linalg.norm(np.array([[3.0, 0.0], [4.0, 0.0]]), 2)
    np.float64(5.0)
    """
    if ord != 2:
        raise ValueError(f"ord={ord!r} is not known here; use 2, or np.linalg.norm of widen.Words")
    call = _real_result(dtype, a)

    def values(matrix: Any, part: Part) -> Values:
        return _singular_values(matrix, part, 1)

    return _results(call, _each(call, _check_not_empty), values, info, single=True)


@eager
def cond(a: Any, *, dtype: Any = None, info: bool = False) -> Any:
    """The condition number: the largest singular value over the smallest; infinite if that is 0.

    Parameters
    ----------
    a, dtype, info
        As for `svdvals`.

    Examples
    --------
    >>> import numpy as np, widen
    >>> widen.linalg.cond(np.array([[1.0, 0.0], [0.0, 1e-20]]))
    np.float64(1e+20)
    """
    call = _real_result(dtype, a)

    def values(matrix: Any, part: Part) -> Values:
        whole, count = _symmetric_double(matrix)

        def quotient(lows: list[Fraction], highs: list[Fraction]) -> tuple[Fraction, Fraction]:
            infinite = Fraction(2) ** (part.highest + 2)  # rounds to infinity
            low, high = lows[-count], highs[-count]
            most = infinite if low <= 0 else highs[-1] / low
            return (infinite if high <= 0 else max(lows[-1], Fraction(0)) / high), most

        found = symmetric_values(
            whole, lambda *ends: decide_exactly(*quotient(*ends), part) is not None
        )
        low, high = quotient(found.lows, found.highs)
        return Values([low], [high], found.words)

    return _results(call, _each(call, _check_not_empty), values, info, single=True)


@eager
def is_positive_definite(a: Any) -> Any:
    """Whether symmetric (or Hermitian) matrices are positive definite, proven.

    Parameters
    ----------
    a
        Matrices (..., n, n), as for `solve`, symmetric to the last bit.

    Raises
    ------
    NotProvenError
        Where 16 words do not tell the smallest eigenvalue from zero.

    Examples
    --------
    >>> import numpy as np, widen
    >>> hilbert = 1.0 / (np.arange(8.0)[:, None] + np.arange(8.0) + 1)
    >>> widen.linalg.is_positive_definite(hilbert)
    True
    >>> widen.linalg.is_positive_definite(np.ones((2, 2)))
    False
    """
    call = operands.given(None, a=a)
    answers = []
    for matrix in _each(call, operands.check_square):
        whole = operands.real_matrix(matrix)
        check_symmetric(whole)
        found = symmetric_values(whole, lambda lows, highs: lows[0] > 0 or highs[0] <= 0)
        if found.lows and not (found.lows[0] > 0 or found.highs[0] <= 0):
            raise NotProvenError(
                f"the smallest eigenvalue is within {float(found.highs[0]):.1e} of zero, and 16 "
                "words do not tell on which side"
            )
        answers.append(not found.lows or found.lows[0] > 0)
    batch = tuple(call.arrays[0].shape[:-2])
    if not batch:
        return answers[0]
    like = first_words(operands.real(call.arrays[0]))
    return operands.returned(moved_like(np.array(answers, bool).reshape(batch), like), call)


# ── what they share ──────────────────────────────────────────────────────────


def _check_matrices(x: Any) -> None:
    if x.ndim < 2:
        raise ValueError(f"a has shape {tuple(x.shape)}; give matrices (..., m, n)")


def _check_not_empty(x: Any) -> None:
    _check_matrices(x)
    if 0 in x.shape[-2:]:
        raise ValueError(f"a has shape {tuple(x.shape)}, and nothing in it has no size")


def _real_result(dtype: Any, a: Any) -> Given:
    """Checked operands, and a real result."""
    call = operands.given(None, a=a)
    fmt: Format = call.fmt.part
    if dtype is not None:
        fmt = operands.given(dtype, a=operands.real(call.arrays[0])).fmt
        if fmt.parts == 2:
            raise ValueError(f"dtype={fmt.name}: these values are real; use {fmt.part.name}")
    return Given(call.arrays, fmt, call.place)


def _symmetric_double(matrix: Any) -> tuple[Any, int]:
    """The matrix [[0, A], [A', 0]], and how many of its eigenvalues are singular values."""
    a = operands.real_matrix(matrix)
    m, n = a.shape
    like = first_words(a)
    top = operands.beside([filled(like, (m, m), 0.0), a], 1)
    bottom = operands.beside([eigen.transposed(a), filled(like, (n, n), 0.0)], 1)
    return operands.beside([top, bottom], 0), min(m, n)


def _singular_values(matrix: Any, part: Part, wanted: int | None = None) -> Values:
    """Intervals of the largest singular values, all by default, in descending order."""
    whole, count = _symmetric_double(matrix)
    if count == 0:
        return Values([], [], 0)
    step = operands.parts_of(matrix)
    taken = count if wanted is None else wanted * step
    check = all_decided(part)
    found = symmetric_values(whole, lambda lows, highs: check(lows[-taken:], highs[-taken:]))
    lows, highs = (ends[-taken:][::-1][::step] for ends in (found.lows, found.highs))
    return Values([max(low, Fraction(0)) for low in lows], highs, found.words)


def _results(call: Given, matrices: Any, values: Any, info: bool, single: bool = False) -> Any:
    """Values of all matrices as what the caller gave, and a record."""
    part = call.fmt.part
    started = perf_counter()
    each = [values(matrix, part) for matrix in matrices]
    (array,) = call.arrays
    batch, count = tuple(array.shape[:-2]), len(each[0].lows) if each else min(array.shape[-2:])
    shape = batch if single else (*batch, count)
    words, radii, decided = [], [], []
    for found in each:
        for low, high in zip(found.lows, found.highs, strict=True):
            sure = decide_exactly(low, high, part)
            value = rounded((low + high) / 2, part) if sure is None else sure
            decided.append(sure is not None)
            words.append(value)
            radii.append(_radius(value, low, high))
    like = first_words(operands.real(array))

    def placed(line: Any, name: str) -> Any:
        return moved_like(np.array(line, name).reshape(shape), like)

    planes = [placed([word[k] for word in words], w.name) for k, w in enumerate(part.words)]
    if call.fmt.name in PLAIN:
        result: Any = planes[0]
    else:
        result = Words.of(call.fmt, [plane[None] for plane in planes])  # type: ignore[arg-type]
    if single and isinstance(result, np.ndarray) and call.place == "numpy":
        result = result[()]
    else:
        result = operands.returned(result, call)
    if not info:
        return result
    record = EigenInfo(
        operands.returned(placed(radii, "float64"), call),
        operands.returned(placed(decided, "bool"), call),
        max((found.words for found in each), default=0),
        perf_counter() - started,
    )
    return result, record


def _radius(value: tuple[float, ...], low: Fraction, high: Fraction) -> float:
    """The distance of a result from the ends, rounded up."""
    if not np.isfinite(value[0]):
        return float("inf")
    middle = sum((Fraction(float(word)) for word in value), Fraction(0))
    reach = max(high - middle, middle - low)
    return float(np.nextafter(round_once(reach, FLOAT64), np.inf)) if reach else 0.0
