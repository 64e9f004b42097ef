"""What a function of `linalg` tells about its answer: a frozen, printable record."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from widen.formats.arrays import is_tensor


@dataclass(frozen=True)
class SolveInfo:
    """What was proven about the solution of a system, and what it took.

    Attributes
    ----------
    radius
        Upper bound of the error of every element of the result, an array or tensor of its shape
        (of both parts of complex ones). It is at most half a unit in the last place with
        ``accuracy="correct"``, and infinite where the result overflowed.
    condition
        Estimate of the condition number in the maximum norm, after rows and columns were scaled by
        powers of two. NaN where the answer came from integer arithmetic.
    words
        Words of float64 of the approximate inverse and of the solution that was refined; zeros
        where integer arithmetic alone was used.
    iterations
        Steps of refinement.
    lifted
        Elements that needed exact integer lifting: zeros, ties, and what is close to them.
    seconds
        Wall-clock time by part.
    proven
        A sentence that says what was proven.

    Examples
    --------
    >>> import numpy as np, widen
    >>> a, b = np.array([[2.0, 1.0], [1.0, 3.0]]), np.ones(2)
    >>> x, info = widen.linalg.solve(a, b, info=True)
    >>> bool(np.all(info.radius < 1e-15))
    True
    """

    radius: Any
    condition: float
    words: tuple[int, int]
    iterations: int
    lifted: int
    seconds: dict[str, float]
    proven: str

    def of_vector(self) -> SolveInfo:
        """The same for a right-hand side that was a vector.

        >>> import numpy as np, widen
        >>> a, b = np.array([[2.0, 1.0], [1.0, 3.0]]), np.ones(2)
        >>> x, info = widen.linalg.solve(a, b[:, None], info=True)
        >>> info.radius.shape, info.of_vector().radius.shape
        ((2, 1), (2,))
        """
        return replace(self, radius=self.radius[..., 0])

    def __str__(self) -> str:
        radius = np.asarray(self.radius.cpu() if is_tensor(self.radius) else self.radius)
        finite = radius[np.isfinite(radius)]
        total = sum(self.seconds.values())
        parts = ", ".join(f"{name} {1e3 * value:.1f}" for name, value in self.seconds.items())
        return "\n".join(
            [
                f"proven    {self.proven}",
                f"radius    at most {float(finite.max(initial=0.0)):.3g}",
                f"condition {self.condition:.1e}; words of the inverse {self.words[0]}, of the "
                f"solution {self.words[1]}; {self.iterations} iterations, {self.lifted} lifted",
                f"time      {1e3 * total:.1f} ms ({parts})",
            ]
        )


@dataclass(frozen=True)
class EigenInfo:
    """What was proven about eigenvalues or singular values, and what it took.

    Attributes
    ----------
    radius
        Upper bound of the error of every value, an array or tensor of the result's shape.
    decided
        Where the value is proven to be the nearest number of its format.
    words
        Words of the eigenvectors at the end.
    seconds
        Wall-clock time.
    angle
        With vectors: upper bound of the sine of the angle between each of them, as it is returned,
        and the space of exact vectors of its cluster: the exact vector where a value is alone.
    cluster
        With vectors: the first value of those that cannot be told apart from each value, their
        enclosures being connected; its own place where it is alone.
    orthogonality
        With vectors: upper bound of the 2-norm of I - X'X for the columns of each side.

    Examples
    --------
    >>> import numpy as np, widen
    >>> a = np.array([[2.0, 1.0], [1.0, 3.0]])
    >>> values, info = widen.linalg.eigvalsh(a, info=True)
    >>> info.decided
    array([ True,  True])
    """

    radius: Any
    decided: Any
    words: int
    seconds: float
    angle: Any = None
    cluster: Any = None
    orthogonality: float | None = None

    def __str__(self) -> str:
        count = int(self.decided.sum())
        total = int(np.prod(tuple(self.decided.shape)))
        said = [
            f"proven    {total} values within their radii, {count} of them the nearest numbers",
            f"radius    at most {float(self.radius.max()) if total else 0.0:.3g}",
        ]
        if self.angle is not None:
            alone = (
                len(np.unique(np.asarray(self.cluster))) if self.cluster.ndim == 1 else "several"
            )
            said.append(
                f"vectors   within angles of {float(self.angle.max()) if total else 0.0:.3g}, "
                f"{alone} clusters, orthonormal within {self.orthogonality:.3g}"
            )
        return "\n".join([*said, f"words     {self.words}; {1e3 * self.seconds:.1f} ms"])


@dataclass(frozen=True)
class DefiniteInfo:
    """What was proven about the definiteness of matrices, one entry for each of a batch.

    Attributes
    ----------
    vectors
        Vectors x with x' a x <= 0, shown exactly, and a x = 0 where the smallest eigenvalue is
        zero. None where a matrix is definite, or where `proven` says why there is none. `Words`
        where float64 is too rough.
    proven
        Sentences that say how the answer was proven.

    Examples
    --------
    >>> import numpy as np, widen
    >>> a = np.array([[2.0, 1.0], [1.0, 3.0]])
    >>> definite, info = widen.linalg.is_positive_definite(a, info=True)
    >>> info.vectors
    [None]
    """

    vectors: list[Any]
    proven: list[str]

    def __str__(self) -> str:
        return "\n".join(f"proven    {sentence}" for sentence in self.proven)


@dataclass(frozen=True)
class FactorInfo:
    """What was proven about the factors of matrices, and what they took.

    Attributes
    ----------
    residual
        Upper bounds of |a - q r|, or of |p a - l u|, for the factors as they are returned: of every
        element, an array or tensor of a's shape.
    orthogonality
        Upper bound of the maximum norm of I - q' q, which is at least its 2-norm; None for LU.
    words
        Words of float64 of the arithmetic.
    seconds
        Wall-clock time.

    Examples
    --------
    >>> import numpy as np, widen
    >>> a = np.array([[2.0, 1.0], [1.0, 3.0]])
    >>> q, r, info = widen.linalg.qr(a, info=True)
    >>> bool(info.residual.max() < 1e-15)
    True
    """

    residual: Any
    orthogonality: float | None
    words: int
    seconds: float

    def __str__(self) -> str:
        most = float(self.residual.max()) if 0 not in self.residual.shape else 0.0
        said = f"proven    the product of the factors is within {most:.3g} of the matrix"
        if self.orthogonality is not None:
            said += f", q is orthonormal within {self.orthogonality:.3g}"
        return f"{said}\nwords     {self.words}; {1e3 * self.seconds:.1f} ms"
