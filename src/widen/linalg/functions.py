"""`solve` and `inv`: the exact solution of a linear system, every element rounded once."""

from __future__ import annotations

import math
from dataclasses import dataclass
from time import perf_counter
from typing import Any

import numpy as np

from widen.calls import check
from widen.calls.foreign.functions import taking
from widen.formats import Part
from widen.formats.arrays import empty, is_distributed, library_of, place_of
from widen.linalg import operands, together
from widen.linalg.arrays import eye_like, on_host
from widen.linalg.bounds import first_words
from widen.linalg.operands import Given
from widen.linalg.preconditioner import Preconditioner
from widen.linalg.progress import Progress, part, reported
from widen.linalg.records import SolveInfo
from widen.linalg.refine import Solution
from widen.linalg.scaling import each_plane
from widen.linalg.system import goal_for, solve_real


@taking("a", "b")
def solve(
    a: Any, b: Any, *, dtype: Any = None, accuracy: str = "correct", info: bool = False,
    progress: Progress | None = None,
) -> Any:  # fmt: skip
    """The solution of a x = b as it is given, every element the nearest number of its format.

    Parameters
    ----------
    a
        Matrices (..., n, n): NumPy arrays or PyTorch tensors of float64, float32, float16,
        bfloat16, complex128 or complex64, or `Words`; lists, integers and arrays of other
        libraries as `matmul` takes them.
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


@taking("a")
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


@taking("a", "b")
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
    pairs = [(operands.real_matrix(a), operands.real_sides(b, parts, fmt.parts))
             for a, b in systems]  # fmt: skip
    easy = _easy_ones(pairs, fmt.part) if solver is solve_real else {}
    hard, share = 0, 1 / max(1, len(pairs) - len(easy))
    for at, (a, b) in enumerate(pairs):
        if at in easy:
            record = easy[at]
        else:
            with part(hard * share, share):
                record = Solved.of(*solver(a, b, fmt.part, enclosed))
            hard += 1
        solution = record.solution
        pieces.append(operands.split(solution.planes, parts, fmt))
        radii.append(operands.joined_radius(solution.radius, parts, fmt))
        records.append(record)
    value = operands.assembled(pieces, shape, call, like)
    radius = empty(shape, "float64", place_of(like))
    flat = radius.reshape(len(radii), *shape[-2:])
    for at, piece in enumerate(radii):
        flat[at] = piece
    return value, _record(operands.returned(radius, call), records, enclosed)


@dataclass(frozen=True)
class Solved:
    """A solution, and the condition number and words of the inverse that it was found by."""

    solution: Solution
    condition: float = math.nan
    words: int = 0

    @classmethod
    def of(cls, solution: Solution, pre: Preconditioner | None) -> Solved:
        """What a solver returned; without an inverse where integers did it."""
        return cls(solution) if pre is None else cls(solution, pre.condition, pre.words)


def _easy_ones(pairs: list[Any], fmt: Part) -> dict[int, Solved]:
    """Solutions of the systems of a batch that are found together."""
    matrices, sides = [a for a, _ in pairs], [b for _, b in pairs]
    if not together.are_taken(matrices, sides):
        return {}
    started = perf_counter()
    library, goal = library_of(matrices[0]), goal_for(*sides[0].shape)
    solved = together.solve_together(library.stack(matrices), library.stack(sides), fmt, goal)
    steps, easy = on_host(solved.iterations), {}
    for at in np.flatnonzero(on_host(solved.done)).tolist():
        solution = Solution([plane[at] for plane in solved.planes], solved.radius[at])
        solution.words, solution.iterations = solved.words, int(steps[at])
        easy[at] = Solved(solution, solved.condition, 1)
    for record in list(easy.values())[:1]:
        record.solution.seconds["together"] = perf_counter() - started
    return easy


def _record(radius: Any, records: list[Solved], enclosed: bool) -> SolveInfo:
    """One record of all systems of a batch: sums of their work, the worst of the rest."""
    seconds: dict[str, float] = {}
    solutions = [record.solution for record in records]
    for solution in solutions:
        for name, value in solution.seconds.items():
            seconds[name] = seconds.get(name, 0.0) + value
    with_inverse = [record for record in records if record.words]
    return SolveInfo(
        radius=radius,
        condition=max((record.condition for record in with_inverse), default=math.nan),
        words=(
            max((record.words for record in with_inverse), default=0),
            max((record.solution.words for record in with_inverse), default=0),
        ),
        iterations=sum(solution.iterations for solution in solutions),
        lifted=sum(solution.lifted for solution in solutions),
        seconds=seconds,
        proven="the matrix is nonsingular, and "
        + ("the solution is within the radius" if enclosed
           else "every element is the exact solution's, rounded once"),
    )  # fmt: skip
