"""Products of more than two matrices: chains and powers."""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from fractions import Fraction
from functools import cache, partial, reduce
from typing import Any

from numpy.linalg import LinAlgError

from widen.api import gemm, matmul
from widen.calls.foreign.arrays import exact, is_integral
from widen.formats.arrays import is_tensor
from widen.functions.arrays import (
    broadcast,
    common_format,
    delivered,
    namespace,
    operand,
    reshaped,
)
from widen.functions.products import reshaped_scalar
from widen.functions.several import Times, is_wanted, rounded_once
from widen.functions.whole import Integers, chain_element, power_element
from widen.linalg import inv
from widen.options import Accuracy
from widen.words import Words


def multi_dot(
    arrays: Sequence[Any], *, accuracy: Accuracy = "standard", dtype: Any = None, out: Any = None
) -> Any:
    """The product of a list of matrices, in the order that takes the fewest operations.

    Parameters
    ----------
    arrays
        Matrices (arrays, tensors, `Words` or lists); the first and the last may be vectors.
    accuracy, dtype
        As for `matmul`. With ``"correct"`` the exact value of the whole is rounded once. Under the
        other contracts every product keeps the contract and is rounded to the result's format.
    out
        Array (or tensor) to put the result in.

    Notes
    -----
    The order is a function of the shapes alone: the first split with the fewest multiplications.
    So, unless ``accuracy="correct"``, an element's bits depend on the shapes too if there are more
    than two matrices. Gradients are those of the products one by one.

    Examples
    --------
    >>> import numpy as np, widen
    >>> a, b, x = np.ones((30, 2)), np.ones((2, 30)), np.ones(30)
    >>> widen.multi_dot([a, b, x])[:3]
    array([60., 60., 60.])
    """
    given = [operand(x, f"arrays[{at}]") for at, x in enumerate(arrays)]
    if len(given) < 2:
        raise ValueError(f"arrays has {len(given)} matrices; give two or more")
    for at, x in enumerate(given):
        ends = at in (0, len(given) - 1)
        if x.ndim != 2 and not (ends and x.ndim == 1):
            raise LinAlgError(
                f"arrays[{at}] has shape {tuple(x.shape)}; give matrices, of which the first and "
                "the last may be vectors"
            )
    first, last = given[0].ndim == 1, given[-1].ndim == 1
    if first:
        given[0] = reshaped(given[0], (1, -1))
    if last:
        given[-1] = reshaped(given[-1], (-1, 1))
    for at in range(len(given) - 1):
        if given[at].shape[1] != given[at + 1].shape[0]:
            raise ValueError(
                f"shapes {tuple(given[at].shape)} and {tuple(given[at + 1].shape)} of arrays "
                f"{at} and {at + 1} do not match"
            )
    sizes = (*(int(x.shape[0]) for x in given), int(given[-1].shape[1]))
    wanted = common_format(given) if dtype is None and len(given) > 2 else dtype

    def evaluate(values: Sequence[Any], times: Times, ordered: bool) -> Any:
        if ordered:
            return reduce(times, values)

        def product(start: int, stop: int) -> Any:
            if stop - start == 1:
                return values[start]
            cut = _best(sizes[start : stop + 1])[1] + start
            return times(product(start, cut), product(cut, stop))

        return product(0, len(values))

    def plain(*values: Any) -> Any:
        return evaluate(values, partial(matmul, accuracy=accuracy, dtype=wanted), False)

    if is_wanted(accuracy, given, len(given), dtype):
        work = math.prod(sizes[1:-1])
        result = rounded_once(given, dtype, evaluate, chain_element, work, plain)
    else:
        result = plain(*given)
    rows, columns = result.shape
    shape = (() if first else (rows,)) + (() if last else (columns,))
    return delivered(reshaped_scalar(result, shape), out)


@cache
def _best(sizes: tuple[int, ...]) -> tuple[int, int]:
    """Multiplications of the best order of a chain, and where its last product cuts it.

    >>> _best((30, 2, 30, 1))
    (120, 1)
    """
    if len(sizes) == 2:
        return 0, 0
    return min(
        (
            _best(sizes[: cut + 1])[0] + _best(sizes[cut:])[0] + sizes[0] * sizes[cut] * sizes[-1],
            cut,
        )
        for cut in range(1, len(sizes) - 1)
    )


def matrix_power(
    a: Any, n: int, *, accuracy: Accuracy = "standard", dtype: Any = None, out: Any = None
) -> Any:
    """The n-th power of square matrices, by repeated squares.

    Parameters
    ----------
    a
        Square matrices (..., m, m): an array, a tensor, `Words` or a list.
    n
        An integer. Negative powers are those of the inverse (`widen.linalg.inv`), rounded once.
    accuracy, dtype
        As for `matmul`. With ``"correct"`` the exact power (of the inverse that was rounded, if n
        is negative) is rounded once. Under the other contracts every product keeps the contract and
        is rounded to the result's format.
    out
        Array (or tensor) to put the result in.

    Notes
    -----
    Squares a^2, a^4, ... are multiplied for the bits of n that are set, the lowest first.

    Examples
    --------
    >>> import widen
    >>> widen.matrix_power([[1.0, 1.0], [0.0, 1.0]], 10)
    array([[ 1., 10.],
           [ 0.,  1.]])
    """
    if not hasattr(n, "__index__"):
        raise TypeError(f"n={n!r} is not an integer")
    square = operand(a, "a")
    if square.ndim < 2 or square.shape[-1] != square.shape[-2]:
        raise LinAlgError(f"a has shape {tuple(square.shape)}; give square matrices (..., m, m)")
    left = operator.index(n)
    if left < 0:
        square, left = inv(exact(square, "a")), -left
    if left == 0:
        return delivered(_identity(square, dtype), out)
    if left == 1:
        return delivered(_converted(square, dtype), out)

    def evaluate(values: Sequence[Any], times: Times, _: bool) -> Any:
        return _power(values[0], left, times)

    def plain(matrix: Any) -> Any:
        return _power(matrix, left, partial(matmul, accuracy=accuracy, dtype=dtype))

    if not is_wanted(accuracy, [square], left, dtype):
        return delivered(plain(square), out)
    work = (left - 1) * int(square.shape[-1]) ** 2

    def element(values: Sequence[Integers], at: tuple[int, ...]) -> tuple[Fraction, ...]:
        return power_element(values[0], left, at)

    return delivered(rounded_once([square], dtype, evaluate, element, work, plain), out)


def _power(x: Any, n: int, times: Times) -> Any:
    """The product of those of x, x^2, x^4, ... that n has bits of, the lowest first."""
    result = None
    while True:
        if n & 1:
            result = x if result is None else times(result, x)
        n >>= 1
        if not n:
            return result
        x = times(x, x)


def _converted(x: Any, dtype: Any) -> Any:
    """The same numbers, rounded once to a format; a copy."""
    if dtype is None and is_integral(x):
        return x + 0
    return gemm(x, x, x, alpha=0.0, beta=1.0, dtype=dtype)  # which reads c alone


def _identity(x: Any, dtype: Any) -> Any:
    """Identity matrices in the place of x."""
    library, size = namespace(x), x.shape[-1]
    if isinstance(x, Words):
        first = x.planes[0]
        eye = _eye(library, size, first, first.dtype)
        return broadcast(Words(eye, dtype=dtype or x.format), x.shape)
    eye = _eye(library, size, x, x.dtype)
    if dtype is not None:
        eye = matmul(eye, eye, dtype=dtype)
    return broadcast(eye, x.shape)


def _eye(library: Any, size: int, like: Any, dtype: Any) -> Any:
    if is_tensor(like):
        return library.eye(size, dtype=dtype, device=like.device)
    return library.eye(size, dtype=dtype)
