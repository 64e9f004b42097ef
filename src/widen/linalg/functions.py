"""`solve` and `inv`: the exact solution of a linear system, every element rounded once."""

from __future__ import annotations

import math
from typing import Any

from widen.calls import check
from widen.formats.arrays import eager, empty, is_distributed, library_of, place_of
from widen.linalg import operands
from widen.linalg.arrays import eye_like
from widen.linalg.bounds import first_words
from widen.linalg.operands import Given
from widen.linalg.progress import Progress, part, reported
from widen.linalg.records import SolveInfo
from widen.linalg.scaling import each_plane
from widen.linalg.system import solve_real


@eager
def solve(
    a: Any, b: Any, *, dtype: Any = None, accuracy: str = "correct", info: bool = False,
    progress: Progress | None = None,
) -> Any:  # fmt: skip
    """The solution of a x = b as it is given, every element the nearest number of its format.

    Parameters
    ----------
    a
        Matrices (..., n, n): NumPy arrays or PyTorch tensors of float64, float32, float16,
        bfloat16, complex128 or complex64, or `Words`.
    b
        A vector (n,), or matrices (..., n, m), as for `np.linalg.solve`, of the same library.
    dtype
        Format of the result: float32, float64, complex64, complex128, or one of several words such
        as ``widen.float64x2``. By default the wider one of the operands', float32 for the half
        formats.
    accuracy
        ``"correct"``: the exact solution, rounded once, to nearest even. ``"enclosed"``: an
        approximation of about the format's accuracy with a proven radius (`info`), for less work:
        ties and zeros are not decided.
    info
        True: also return a `SolveInfo`.
    progress
        A function that is called with the share of the work that is done, from 0 to 1.

    Returns
    -------
    ndarray, tensor or Words, or (the same, SolveInfo)

    Raises
    ------
    SingularMatrixError
        Where a is singular, which is proven.
    NotProvenError
        Where nothing could be proven; the message says how far the proof came.

    Notes
    -----
    The answer is a function of the numbers in a and b alone: devices, libraries and the inverse
    that was used on the way do not change its bits. Zeros are +0, numbers out of range infinite.
    docs/linalg.md has the proofs. Tensors have gradients, which are solutions of systems too, but
    not with `info` or several words.

    Examples
    --------
    >>> import numpy as np, widen
    >>> a = np.array([[1e16, 1.0, 0.0], [1.0, 1.0, 1.0], [0.0, 1.0, -1e16]])
    >>> b = np.array([1e16, 3.0, -1e16])
    >>> widen.linalg.solve(a, b)
    array([1., 1., 1.])
    """
    if is_distributed(a) or is_distributed(b):
        from widen.distributed.systems import solve as solve_distributed

        return solve_distributed(a, b, dtype, accuracy, info)
    if operands.wants_gradient(a, b):
        from widen.linalg import gradients

        return gradients.solve(a, b, dtype, accuracy, info)
    call = operands.given(dtype, a=a, b=b)
    enclosed = operands.check_accuracy(accuracy)
    left, right = call.arrays
    operands.check_square(left)
    n = left.shape[-1]
    is_vector = right.ndim == 1
    if is_vector:
        right = right[:, None]
    if right.shape[-2] != n:
        raise ValueError(
            f"shapes {tuple(left.shape)} and {tuple(call.arrays[1].shape)} do not match: b needs "
            f"{n} rows"
        )
    batch = operands.batch_shape(tuple(left.shape[:-2]), tuple(right.shape[:-2]))
    systems = zip(
        operands.each_matrix(left, batch), operands.each_matrix(right, batch), strict=True
    )
    shape = (*batch, n, right.shape[-1])
    with reported(progress):
        value, record = solved(systems, shape, call, enclosed)
    if is_vector:
        value, record = value[..., 0], record.of_vector()
    return (value, record) if info else value


@eager
def inv(a: Any, *, dtype: Any = None, accuracy: str = "correct", info: bool = False) -> Any:
    """The inverse of a, every element the nearest number of its format.

    Parameters
    ----------
    a, dtype, accuracy, info
        As for `solve`.

    Examples
    --------
    >>> import numpy as np, widen
    >>> widen.linalg.inv(np.array([[1.0, 1.0], [1.0, 1.0 + 2.0**-52]]))
    array([[ 4.50359963e+15, -4.50359963e+15],
           [-4.50359963e+15,  4.50359963e+15]])
    """
    if operands.wants_gradient(a):
        from widen.linalg import gradients

        return gradients.inv(a, dtype, accuracy, info)
    call = operands.given(dtype, a=a)
    enclosed = operands.check_accuracy(accuracy)
    (left,) = call.arrays
    operands.check_square(left)
    batch, n = tuple(left.shape[:-2]), left.shape[-1]
    like = first_words(operands.real(left))
    identity = eye_like(like, n)
    systems = ((matrix, identity) for matrix in operands.each_matrix(left, batch))
    value, record = solved(systems, (*batch, n, n), call, enclosed)
    return (value, record) if info else value


@eager
def solve_triangular(
    a: Any, b: Any, *, lower: bool = False, dtype: Any = None, accuracy: str = "correct",
    info: bool = False,
) -> Any:  # fmt: skip
    """The same as `solve` for one triangle of a; what stands in the other is not looked at.

    Parameters
    ----------
    a, b, dtype, accuracy, info
        As for `solve`.
    lower
        Take the lower triangle, not the upper one.

    Examples
    --------
    >>> import numpy as np, widen
    >>> a = np.array([[2.0, np.nan], [1.0, 4.0]])
    >>> widen.linalg.solve_triangular(a, np.array([2.0, 3.0]), lower=True)
    array([1. , 0.5])
    """
    plain = check.as_operand(a, "a")
    operands.check_square(plain)
    return solve(_triangle(plain, lower), b, dtype=dtype, accuracy=accuracy, info=info)


def _triangle(x: Any, lower: bool) -> Any:
    def cut(plane: Any) -> Any:
        library = library_of(plane)
        return (library.tril if lower else library.triu)(plane)

    return each_plane(x, cut)


def solved(
    systems: Any, shape: tuple[int, ...], call: Given, enclosed: bool, solver: Any = solve_real
) -> Any:
    """Every system of a batch by a solver of real ones, and a record of all of them."""
    fmt, parts = call.fmt, call.parts
    pieces, radii, records = [], [], []
    like = first_words(operands.real(call.arrays[0]))
    share = 1 / max(1, math.prod(shape[:-2]))
    for at, (a, b) in enumerate(systems):
        sides = operands.real_sides(b, parts, fmt.parts)
        with part(at * share, share):
            solution, pre = solver(operands.real_matrix(a), sides, fmt.part, enclosed)
        pieces.append(operands.split(solution.planes, parts, fmt))
        radii.append(operands.joined_radius(solution.radius, parts, fmt))
        records.append((solution, pre))
    value = operands.assembled(pieces, shape, call, like)
    radius = empty(shape, "float64", place_of(like))
    flat = radius.reshape(len(radii), *shape[-2:])
    for at, piece in enumerate(radii):
        flat[at] = piece
    return value, _record(operands.returned(radius, call), records, enclosed)


def _record(radius: Any, records: list[Any], enclosed: bool) -> SolveInfo:
    """One record of all systems of a batch: sums of their work, the worst of the rest."""
    seconds: dict[str, float] = {}
    for solution, _ in records:
        for name, value in solution.seconds.items():
            seconds[name] = seconds.get(name, 0.0) + value
    with_inverse = [(solution, pre) for solution, pre in records if pre is not None]
    return SolveInfo(
        radius=radius,
        condition=max((pre.condition for _, pre in with_inverse), default=math.nan),
        words=(
            max((pre.words for _, pre in with_inverse), default=0),
            max((solution.words for solution, _ in with_inverse), default=0),
        ),
        iterations=sum(solution.iterations for solution, _ in records),
        lifted=sum(solution.lifted for solution, _ in records),
        seconds=seconds,
        proven="the matrix is nonsingular, and "
        + ("the solution is within the radius" if enclosed
           else "every element is the exact solution's, rounded once"),
    )  # fmt: skip
