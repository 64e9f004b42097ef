"""Paper 002: Uchino, Ozaki, Imamura 2025, the Ozaki scheme on integer matrix multiplication units.

``ozIMMU`` (Ootomo, Ozaki, Yokota 2024) and the three variants of the paper, by its algorithms. A is
m×n and B is n×p here, as there. The functions `slice_bits`, `addends` and `schedule` are its
equations (4) and (12) and the loops of Algorithms 4, 6 and 7; `fast_fp16` is its Algorithms 1 and
2, which it builds on; `error_bound` is its section 5.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from operator import add
from typing import Any, NamedTuple

import numpy as np

from widen.papers.arrays import leading_bits
from widen.papers.slicing.algorithm import Operands, Scheme, checked, gamma, length, operands, take
from widen.papers.slicing.algorithm import run as run_slices

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


@dataclass(frozen=True)
class Recipe:
    """How a product is made: slices of so many bits, and how many products one sum may hold."""

    slices: int
    bits: int
    way: str
    addends: int
    unit: str = "int8"


Step = Callable[..., Any]
"""Calls a step of the scheme as step(name, function, *given), to time it or not."""


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


def slice_bits(n: int) -> int:
    """Bits of a slice, beta of equation (4): min(7, floor((31 - log2 n) / 2)), in integers.

    >>> [slice_bits(n) for n in (1, 2**17, 2**17 + 1, 2**19 + 1, 2**29)]
    [7, 7, 6, 5, 1]
    """
    return next(bits for bits in range(7, 0, -1) if n << 2 * bits <= 1 << 31)


def addends(n: int) -> int:
    """Products whose sum int32 holds, equation (12): max(1, 2^(31 - 2 beta - ceil(log2 n))).

    >>> [addends(n) for n in (1000, 4096, 4097, 16384, 2**17)]
    [128, 32, 16, 8, 1]
    """
    return 1 << max(0, 31 - 2 * slice_bits(n) - (n - 1).bit_length())


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


def recipe_of(n: int, slices: int, variant: str) -> Recipe:
    """What a variant does for an inner dimension n."""
    chosen = VARIANTS[variant]
    return Recipe(slices, slice_bits(n), chosen.way, addends(n) if chosen.grouped else 1)


def ozimmu(
    a: Any, b: Any, slices: int, variant: str = "ozimmu", *, alpha: Any = 1.0, beta: Any = 0.0,
    c: Any = None, k_block: int | None = None,
) -> Any:  # fmt: skip
    """Multiply two float64 matrices by products of int8 slices: alpha A B + beta C.

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
    alpha, beta, c
        Scalars and the matrix to add, the scheme's step (v).
    k_block
        Length of blocks of the inner dimension, each a product of its own; None for one block.
        Blocks of 2^17 keep slices of 7 bits however long the inner dimension is.

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
    given = check(a, b, slices, variant, alpha=alpha, beta=beta, c=c)
    return run(given, partial(recipe_of, slices=slices, variant=variant), untimed, k_block)


def untimed(name: str, function: Callable[..., Any], *given: Any) -> Any:
    """A step that nobody times."""
    return function(*given)


def run(
    given: Operands, recipe: Callable[[int], Recipe], step: Step, k_block: int | None = None
) -> Any:
    """All five steps of the scheme; `recipe` says how a block of an inner length is multiplied."""
    (m, n, p), d = given.shape, None
    depth = length(k_block, "k_block") or max(n, 1)
    if min(depth, n) > 1 << 29:
        raise ValueError(f"the inner dimension is {n}; int32 holds sums of 2^29: give k_block")
    with given.verbs.on(given.a):
        if m * n * p == 0:
            d = given.a @ given.b
        for h in range(0, n if m * p else 0, depth):
            lines = given.a[:, h : h + depth], given.b[h : h + depth].swapaxes(0, 1)
            part = product(given.verbs, *lines, recipe(min(depth, n - h)), step)
            d = part if d is None else step("accumulate", add, d, part)
        if given.alpha != 1 or given.beta:
            d = step("copy", _combined, d, given.alpha, given.beta, given.c)
    return given.back(d)


def product(verbs: Any, rows: Any, columns: Any, recipe: Recipe, step: Step) -> Any:
    """Steps (i) to (iv): split A and B, multiply, accumulate."""
    slices, c = recipe.slices, None
    left = step("split A", verbs.split, rows, "left", recipe)
    right = step("split B", verbs.split, columns, "right", recipe)
    sums = schedule(slices, recipe.addends)
    for start in range(0, len(sums), slices):  # as many int32 matrices as slices are held
        chunk, last = sums[start : start + slices], start + slices >= len(sums)
        products = step("multiply", verbs.multiply, left, right, chunk)
        c = step("accumulate", verbs.accumulate, c, products, chunk, left, right, last)
    return c


@np.errstate(all="ignore")
def _combined(d: Any, alpha: float, beta: float, c: Any) -> Any:
    """Step (v), three roundings: on a GPU these are kernels of their own, and nothing is fused."""
    return d * alpha if c is None else d * alpha + c * beta


def check(
    a: Any, b: Any, slices: int, variant: str = "ozimmu", *, alpha: Any = 1.0, beta: Any = 0.0,
    c: Any = None,
) -> Operands:  # fmt: skip
    """Return the operands, or say what is wrong with the arguments."""
    if variant not in VARIANTS:
        raise ValueError(f"variant={variant!r} is not known; use one of {', '.join(VARIANTS)}")
    if isinstance(slices, bool) or not isinstance(slices, int | np.integer):
        raise TypeError(f"slices is a {type(slices).__name__}; give an integer, such as slices=8")
    if not 1 <= slices <= MOST_SLICES:
        raise ValueError(f"slices={slices}; give 1 to {MOST_SLICES}")
    return operands(a, b, "float64", alpha=alpha, beta=beta, c=c, verbs_of=_verbs_of)


def _verbs_of(gpu: bool) -> Any:
    if gpu:
        from widen.papers.ozimmu import gpu as on_gpu

        return on_gpu
    from widen.papers.ozimmu import cpu as on_cpu

    return on_cpu


# ── section 2: FP16 slices, on which the integers build ──────────────────────────────────────────


def fast_fp16(a: Any, b: Any, slices: int, *, memory: int | str = "8GB") -> Any:
    """Algorithms 1 and 2: products of FP16 slices in fast mode (Mukunoki and others 2020).

    Line 1 of Algorithm 1, beta = ceil((29 - log2 n) / 2), would leave a slice 44 bits at n = 4096.
    What must be added is 0.75 2^beta max|a| with beta = ceil((82 + log2 n) / 2) = ceil(53 -
    (24 - log2 n) / 2), or 42 if that is more: then float32 holds sums and FP16 slices exactly.

    >>> import numpy as np
    >>> a = np.array([[1.0, 1 / 3]])
    >>> bool(abs(fast_fp16(a, a.T, 6)[0, 0] - 10 / 9) < 1e-15)
    True
    """
    check(a, b, slices)
    given = checked(a, b, "float64")
    bits = 53 - max(gamma(given.shape[1], 53, 24), 42)
    scheme = Scheme("fp16", (bits, bits), 0.75, 53)

    def left(rows: Any) -> tuple[Any, bool]:
        return take(given.verbs, rows, scheme, 0, slices), True

    def order(ours: int, theirs: int, fast: bool) -> list[tuple[int, int]]:
        pairs = [(s, g - s) for g in range(slices) for s in range(g + 1)]
        return [(s, t) for s, t in pairs if s < ours and t < theirs]

    return run_slices(given, scheme, order, memory, None, False, left=left, most=slices)


# ── section 5: rounding error analysis ───────────────────────────────────────────────────────────


def exact_slices(n: int) -> int:
    """Return k'_max, the largest k' with 2u ufp(8n) <= 2^(-beta (k' + 1) + 2), inequality (29).

    As many slices are added without any rounding error.

    >>> exact_slices(1024), exact_slices(16384)
    (4, 4)
    """
    bound = -52 + (8 * n).bit_length() - 1  # log2 of the left side
    return max(0, (2 - bound) // slice_bits(n) - 1)


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
    return 4 * (slices + 1) * n * 2.0 ** (-slice_bits(n) * slices) * g[:, None] * f


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
    given = check(a, b, slices, variant)
    a, b, n = given.a, given.b, given.shape[1]
    if n == 0:
        return given.back(a @ b)
    magnitude = (abs(a) @ abs(b)) * (1 + (n + 2) * U)
    rounding = additions(n, slices, variant) * U * magnitude
    return given.back(truncation_bound(a, b, slices) + rounding)
