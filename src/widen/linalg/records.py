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
    """

    radius: Any
    condition: float
    words: tuple[int, int]
    iterations: int
    lifted: int
    seconds: dict[str, float]
    proven: str

    def of_vector(self) -> SolveInfo:
        """The same for a right-hand side that was a vector."""
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
    """

    radius: Any
    decided: Any
    words: int
    seconds: float

    def __str__(self) -> str:
        count = int(self.decided.sum())
        total = int(np.prod(tuple(self.decided.shape)))
        return (
            f"proven    {total} values within their radii, {count} of them the nearest numbers\n"
            f"radius    at most {float(self.radius.max()) if total else 0.0:.3g}\n"
            f"words     {self.words}; {1e3 * self.seconds:.1f} ms"
        )
