"""Paper 002: Uchino, Ozaki, Imamura 2025, the Ozaki scheme on integer matrix multiplication units.

``ozIMMU`` (Ootomo, Ozaki, Yokota 2024) and the three variants of the paper, by its algorithms. A is
m×n and B is n×p here, as there. The functions `beta`, `addends` and `schedule` are its equations
(4) and (12) and the loops of Algorithms 4, 6 and 7; `error_bound` is its section 5.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from widen.calls.check import library
from widen.papers.arrays import leading_bits, matrix

MOST_SLICES = 32
U = 2.0**-53


@dataclass(frozen=True)
class Variant:
    """How a variant splits, and whether it adds groups in int32."""

    name: str
    way: str
    grouped: bool


VARIANTS = {
    "ozimmu": Variant("ozIMMU", "mask", grouped=False),
    "rn": Variant("ozIMMU_RN", "anew", grouped=False),
    "ef": Variant("ozIMMU_EF", "mask", grouped=True),
    "h": Variant("ozIMMU_H", "nearest", grouped=True),
}
"""Of section 4: Algorithms 3 and 4; 5 and 4; 3 and 6; 8 and 6."""


class Sum(NamedTuple):
    """Products that one int32 sum holds: slices `left` going up times `right` going down."""

    left: int
    right: int
    pairs: int


@dataclass(frozen=True)
class Slices:
    """Digits of lines (rows of A, columns of B) and the exponents of their units.

    ``units`` is (1, lines) if slice s has the unit 2^(units - beta s), else (slices, lines).
    """

    digits: Any
    units: Any
    beta: int


def beta(n: int) -> int:
    """Bits of a slice, equation (4): min(7, floor((31 - log2 n) / 2)), in integers.

    >>> [beta(n) for n in (1, 2**17, 2**17 + 1, 2**19 + 1, 2**29)]
    [7, 7, 6, 5, 1]
    """
    return next(bits for bits in range(7, 0, -1) if n << 2 * bits <= 1 << 31)


def addends(n: int) -> int:
    """Products whose sum int32 holds, equation (12): max(1, 2^(31 - 2 beta - ceil(log2 n))).

    >>> [addends(n) for n in (1000, 4096, 4097, 16384, 2**17)]
    [128, 32, 16, 8, 1]
    """
    return 1 << max(0, 31 - 2 * beta(n) - (n - 1).bit_length())


def schedule(slices: int, r: int) -> list[Sum]:
    """Return the sums that are added to C in float64, in the order of Algorithm 6.

    With r = 1 that is Algorithm 4, with r >= slices Algorithm 7. Slices are counted from 0.

    >>> schedule(3, 8)
    [Sum(left=0, right=0, pairs=1), Sum(left=0, right=1, pairs=2), Sum(left=0, right=2, pairs=3)]
    """
    return [
        Sum(s, g - 2 - s, min(r, g - 1 - s))
        for g in range(2, slices + 2)
        for s in range(0, g - 1, r)
    ]


def products(slices: int) -> int:
    """Return how many int8 products every variant computes: k (k + 1) / 2."""
    return slices * (slices + 1) // 2


def ozimmu(a: Any, b: Any, slices: int, variant: str = "ozimmu") -> Any:
    """Multiply two float64 matrices by products of int8 slices.

    Parameters
    ----------
    a, b
        m×n and n×p matrices of float64: NumPy arrays, or tensors on a CPU or a GPU, where the
        int8 tensor cores multiply. A row of A or a column of B with NaN or Inf gives NaN.
    slices
        The paper's k: 1 to 32.
    variant
        "ozimmu": bit masks, every product added in float64. "rn": rounded to nearest with a new
        shift each slice. "ef": bit masks, products of equal weight added in the int32 accumulator.
        "h": rounded to nearest with one shift, and added so.

    Returns
    -------
    array
        The product, of the same library on the same device; the same bits everywhere.

    Examples
    --------
    >>> import numpy as np
    >>> a, b = np.array([[1.0, 2.0], [3.0, 4.0]]), np.array([[0.5], [0.25]])
    >>> ozimmu(a, b, 2, "h")
    array([[1. ],
           [2.5]])
    """
    return run(a, b, slices, variant, lambda name, function, *given: function(*given))


def run(a: Any, b: Any, slices: int, variant: str, step: Callable[..., Any]) -> Any:
    """The same, every step of the scheme called as step(name, function, *given) to be timed."""
    a, b, place = check(a, b, slices, variant)
    if place == "cpu":
        from widen.calls.cpu_tensors import as_array, as_tensor

        return as_tensor(run(as_array(a), as_array(b), slices, variant, step))
    n, chosen = a.shape[1], VARIANTS[variant]
    if a.shape[0] * n * b.shape[1] == 0:
        return a @ b
    verbs = _verbs(place)
    how, c = (slices, beta(n), chosen.way), None
    sums = schedule(slices, addends(n) if chosen.grouped else 1)
    with verbs.on(a):
        left = step("split A", verbs.split, a, "left", *how)
        right = step("split B", verbs.split, b.swapaxes(0, 1), "right", *how)
        for start in range(0, len(sums), slices):  # as many int32 matrices as slices are held
            chunk, last = sums[start : start + slices], start + slices >= len(sums)
            products = step("multiply", verbs.multiply, left, right, chunk)
            c = step("accumulate", verbs.accumulate, c, products, chunk, left, right, last)
    return c


def _verbs(place: str) -> Any:
    """What splits, multiplies and accumulates there."""
    if place == "numpy":
        from widen.papers.ozimmu import cpu

        return cpu
    from widen.papers.ozimmu import gpu

    return gpu


def check(a: Any, b: Any, slices: int, variant: str) -> tuple[Any, Any, str]:
    """Return the matrices and where they are, or say what is wrong with the arguments."""
    if variant not in VARIANTS:
        raise ValueError(f"variant={variant!r} is not known; use one of {', '.join(VARIANTS)}")
    if isinstance(slices, bool) or not isinstance(slices, int | np.integer):
        raise TypeError(f"slices is a {type(slices).__name__}; give an integer, such as slices=8")
    if not 1 <= slices <= MOST_SLICES:
        raise ValueError(f"slices={slices}; give 1 to {MOST_SLICES}")
    place = library(a=a, b=b)
    a, b = matrix(a, "a", "float64"), matrix(b, "b", "float64")
    if a.shape[1] != b.shape[0]:
        raise ValueError(
            f"a is {a.shape[0]}×{a.shape[1]} and b {b.shape[0]}×{b.shape[1]}; the columns of a "
            "must be as many as the rows of b"
        )
    if a.shape[1] > 1 << 29:
        raise ValueError(f"the inner dimension is {a.shape[1]}; int32 holds sums of at most 2^29")
    return a, b, place


# ── section 5: rounding error analysis ───────────────────────────────────────────────────────────


def exact_slices(n: int) -> int:
    """Return k'_max, the largest k' with 2u ufp(8n) <= 2^(-beta (k' + 1) + 2), inequality (29).

    As many slices are added without any rounding error.

    >>> exact_slices(1024), exact_slices(16384)
    (4, 4)
    """
    bound = -52 + (8 * n).bit_length() - 1  # log2 of the left side
    return max(0, (2 - bound) // beta(n) - 1)


def additions(n: int, slices: int, variant: str) -> float:
    """Return the factor of u|A||B| in the bound of the accumulation's error.

    Inequality (30) for Algorithm 4, and w - 1 for Algorithm 6, where w is the number of its terms.

    >>> additions(4096, 8, "ozimmu"), additions(4096, 8, "h")
    (25.0, 7.0)
    """
    k, r = slices, addends(n)
    if not VARIANTS[variant].grouped:
        exact = min(exact_slices(n), k)
        return max(0.0, k * (k + 1) / 2 - exact * (exact + 1) / 2 - 1)
    return -(-k // r) * (k - r / 2 * ((k - 1) // r)) - 1


def truncation_bound(a: Any, b: Any, slices: int) -> Any:
    """Return 4 (k + 1) n 2^(-beta k) g f^T, inequality (18)."""
    n = a.shape[1]
    g, f = (ufp(largest(x)) for x in (a, b.swapaxes(0, 1)))
    return 4 * (slices + 1) * n * 2.0 ** (-beta(n) * slices) * g[:, None] * f


def ufp(x: Any) -> Any:
    """Return 2^floor(log2 |x|), or 0 for 0 and subnormal numbers.

    >>> import numpy as np
    >>> ufp(np.array([0.0, 1.0, 3.9, 4.0]))
    array([0., 1., 2., 4.])
    """
    return abs(leading_bits(x, 1))


def largest(x: Any) -> Any:
    """Return the largest magnitude of every row."""
    return abs(x).max(axis=1) if isinstance(x, np.ndarray) else abs(x).amax(1)


def error_bound(a: Any, b: Any, slices: int, variant: str = "ozimmu") -> Any:
    """Return section 5's bound of |AB - T| for every element.

    The paper proves it for bit masks, "ozimmu" and "ef", and says that it is the same for "rn" and
    "h", and where nothing under- or overflows. |A||B| is computed in float64 and rounded up.

    >>> import numpy as np
    >>> a = np.ones((1, 4))
    >>> bool(error_bound(a, a.T, 8)[0, 0] < 1e-13)
    True
    """
    a, b, _ = check(a, b, slices, variant)
    n = a.shape[1]
    if n == 0:
        return a @ b
    magnitude = (abs(a) @ abs(b)) * (1 + (n + 2) * U)
    return truncation_bound(a, b, slices) + additions(n, slices, variant) * U * magnitude
