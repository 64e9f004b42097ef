"""`norm`: all norms of numpy.linalg, exact and rounded once, or within proven radii."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from time import perf_counter
from typing import Any

import numpy as np

from widen.calls.foreign.functions import taking
from widen.formats import Part
from widen.formats.arrays import library_of
from widen.linalg import operands, results
from widen.linalg.decide import decide_exactly, rounded
from widen.linalg.integers import to_integers
from widen.linalg.intervals import Interval, Intervals
from widen.linalg.modular import planes_of
from widen.linalg.powers import power_mean, root_ends
from widen.linalg.singular import row_exponents
from widen.linalg.singular_values import values_of
from widen.linalg.spectrum import Values
from widen.words import Words

OF_MATRICES = ("fro", "nuc", 1, -1, 2, -2, math.inf, -math.inf)


@taking("a")
def norm(
    a: Any, ord: Any = None, axis: Any = None, keepdims: bool = False, *, dtype: Any = None,
    info: bool = False,
) -> Any:  # fmt: skip
    """Norms of vectors and matrices, each the nearest number of its format where that is decided.

    All but ``'nuc'``, 2 and -2 of matrices and powers of vectors other than the integers 1 to 64
    are always decided: they are exact, and rounded once. `info.decided` tells of the others, which
    are within a proven radius. `widen.norm` gives the same numbers, faster for long real vectors,
    takes infinities and has gradients and ``out=``; it has no record.

    Parameters
    ----------
    a
        Vectors, matrices, or arrays of them, as for `solve`.
    ord
        None: the 2-norm of all numbers together. Of vectors: any number, also infinity, its
        negative, and 0, which counts what is not zero. Of matrices: ``'fro'``, ``'nuc'`` (the sum
        of singular values), 1, -1, 2, -2, infinity and its negative.
    axis
        An axis for vectors, two for matrices. None: all of a vector, or of a matrix; the last two
        axes of an array with more, if `ord` is given.
    keepdims
        True: keep these axes, with length 1.
    dtype, info
        As for `svdvals`.

    Examples
    --------
    >>> import numpy as np, widen
    >>> widen.linalg.norm(np.array([3.0, 4.0]) * 2.0**900) / 2.0**900
    np.float64(5.0)
    >>> a = np.array([[1.0, 2.0**-60], [-1.0, 1.0]])
    >>> widen.linalg.norm(a, np.inf), widen.linalg.norm(a, 2), widen.linalg.norm(a, 1)
    (np.float64(2.0), np.float64(1.618033988749895), np.float64(2.0))
    """
    started = perf_counter()
    call = results.real_result(dtype, a)
    (array,) = call.arrays
    axes = _axes(array.ndim, ord, axis)
    last = _moved(array, axes)
    batch = tuple(last.shape[: last.ndim - len(axes)])
    shape = tuple(1 if i in axes else n for i, n in enumerate(array.shape)) if keepdims else batch
    function = _matrix_norm(ord) if len(axes) == 2 and ord is not None else _vector_norm(ord)
    part = call.fmt.part
    each = [function(last[at] if batch else last, part) for at in np.ndindex(*batch)]
    value, record = results.collected(call, each, shape, started)
    return (value, record) if info else value


def _axes(ndim: int, ord: Any, axis: Any) -> tuple[int, ...]:
    """The axes over which a norm goes."""
    if axis is None:
        if ord is None:
            return tuple(range(ndim))
        return (0,) if ndim == 1 else (ndim - 2, ndim - 1)
    given = tuple(axis) if isinstance(axis, (tuple, list)) else (axis,)
    if len(given) > 2:
        raise ValueError(f"axis={axis}: a norm goes over one axis or two")
    axes_given = tuple(int(x) + ndim * (x < 0) for x in given)
    if any(not 0 <= x < ndim for x in axes_given) or len(set(axes_given)) < len(axes_given):
        raise ValueError(f"axis={axis} does not fit an array of {ndim} axes, or names one twice")
    return axes_given


def _moved(x: Any, axes: tuple[int, ...]) -> Any:
    """The array with some axes last, in their order."""
    order = (*(i for i in range(x.ndim) if i not in axes), *axes)
    if isinstance(x, Words):
        return x.transpose(order) if order else x
    return library_of(x).permute(x, order) if library_of(x) is not np else x.transpose(order)


# ── one norm ─────────────────────────────────────────────────────────────────

Norm = Callable[[Any, Part], Values]


def rounded_norm(x: Any, ord: Any, part: Part, *, of_matrix: bool = False) -> tuple[float, ...]:
    """The words of one norm of finite numbers: nearest where that is decided, else near.

    >>> from widen.formats import FORMATS
    >>> rounded_norm(np.array([3.0 + 4.0j, 2.0j]), 1, FORMATS["float64"])
    (7.0,)
    """
    enclosures = (_matrix_norm if of_matrix else _vector_norm)(ord)(operands.widened(x), part)
    low, high = enclosures.intervals.ends(0)
    return decide_exactly(low, high, part) or rounded((low + high) / 2, part)


def _exactly(value: Fraction) -> Values:
    return Values.of(value, value)


def _numbers(x: Any) -> tuple[list[Any], Fraction]:
    """Integers of a matrix or vector, of both parts if it is complex, and what they are times."""
    flat = x.reshape(1, -1) if x.ndim != 2 else x
    parts = [operands.real(flat)]
    if operands.parts_of(flat) == 2:
        parts.append(operands.imaginary(flat))
    low = int(row_exponents(*parts).min(initial=0))
    lines = np.full((flat.shape[0], 1), low)
    return [to_integers(planes_of(part), lines) for part in parts], Fraction(2) ** low


def _vector_norm(ord: Any) -> Norm:
    """The norm of all numbers of an array."""
    if ord is None or ord == 2:
        return _two_norm
    if isinstance(ord, str) or not isinstance(ord, (int, float, np.number)) or math.isnan(ord):
        raise ValueError(f"ord={ord!r} is not a norm of vectors; give a number")
    if math.isinf(ord):
        return lambda x, part: _extreme_of([_squares(x)[0]], _squares(x)[1], part, bool(ord > 0))
    if ord == 0:
        return lambda x, part: _exactly(Fraction(sum(map(bool, _squares(x)[0]))))
    if ord == 1:
        return lambda x, part: _largest_sum([_squares(x)[0]], _squares(x)[1], part, True)
    exponent = Fraction(float(ord))
    if not Fraction(1, 10**6) <= abs(exponent) <= 10**6:
        raise ValueError(f"ord={ord!r}: powers between 1e-6 and 1e6 have norms here")
    return lambda x, part: Values.of(*power_mean(*_squares(x), exponent, part))


def _squares(x: Any) -> tuple[list[int], Fraction]:
    """The squares of all moduli, as integers, and what they are times."""
    parts, unit = _numbers(x)
    total = sum(part * part for part in parts)
    return [int(v) for v in total.reshape(-1)], unit * unit


def _two_norm(x: Any, part: Part) -> Values:
    squares, unit = _squares(x)
    return Values.of(*root_ends(sum(squares) * unit, 2, part))


def _extreme_of(rows: list[list[int]], unit: Fraction, part: Part, largest: bool) -> Values:
    """The largest (or smallest) modulus."""
    (squares,) = rows
    if not squares:
        raise ValueError("nothing has no largest or smallest number; give vectors that hold some")
    return Values.of(*root_ends((max if largest else min)(squares) * unit, 2, part))


def _largest_sum(rows: list[list[int]], unit: Fraction, part: Part, largest: bool) -> Values:
    """The largest (or smallest) of sums of square roots: exact where all roots are integers.

    Otherwise every root is cut behind more and more bits, until that decides. Square roots of
    integers without square factors are independent over the rationals, so a sum of roots that is
    rational has rational roots alone, which are exact here; any other sum is no tie and does not
    end, and some number of bits decides it.
    """
    choose = max if largest else min
    scale = Fraction(math.isqrt(unit.numerator), math.isqrt(unit.denominator))  # a power of two
    most = max((v for row in rows for v in row), default=1).bit_length() // 2
    bits = 0
    while True:
        shift = max(0, bits - most)
        low, high = [], []
        for row in rows:
            roots = [math.isqrt(v << 2 * shift) for v in row]
            exact = [r * r == v << 2 * shift for v, r in zip(row, roots, strict=True)]
            low.append(sum(roots))
            high.append(sum(roots) + len(roots) - sum(exact))
        ends = [choose(side) * scale / 2**shift for side in (low, high)]
        if ends[0] == ends[1] or (bits and decide_exactly(ends[0], ends[1], part) is not None):
            return Values.of(*ends)
        bits = max(2 * bits, part.precision + 64)


def _matrix_norm(ord: Any) -> Norm:
    """The norm of a matrix."""
    if ord not in OF_MATRICES:
        raise ValueError(f"ord={ord!r} is not a norm of matrices; use one of {OF_MATRICES}")
    if ord == "fro":
        return _two_norm
    if ord == "nuc":
        return _nuclear
    if abs(ord) == 2:
        return lambda x, part: _singular(x, part, 0 if ord > 0 else -1)
    return lambda x, part: _sums(x, part, 1 if math.isinf(ord) else 0, ord > 0)


def _sums(x: Any, part: Part, axis: int, largest: bool) -> Values:
    """The largest (or smallest) sum of a row (axis 1) or a column (axis 0)."""
    parts, unit = _numbers(x)
    squares = sum(part * part for part in parts)
    rows = (squares if axis else squares.T).tolist()
    if not rows:
        raise ValueError(f"a has shape {tuple(x.shape)}: nothing has no largest or smallest sum")
    return _largest_sum(rows, unit * unit, part, largest)


def _singular(x: Any, part: Part, at: int) -> Values:
    """One singular value."""
    results.check_not_empty(x)
    enclosures = values_of(x, lambda found: decide_exactly(*found.ends(at), part) is not None, part)
    return Values.of(*enclosures.intervals.ends(at), enclosures.words)


def _nuclear(x: Any, part: Part) -> Values:
    """The sum of all singular values."""
    enclosures = values_of(x, lambda found: decide_exactly(*_sum(found), part) is not None, part)
    return Values.of(*_sum(enclosures.intervals), enclosures.words)


def _sum(found: Intervals) -> Interval:
    """Both ends of the sum of all values."""
    pairs, zero = found.pairs(), Fraction(0)
    return sum((low for low, _ in pairs), zero), sum((high for _, high in pairs), zero)
