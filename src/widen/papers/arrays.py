"""What the papers' code needs of arrays: operands that are checked, the bits of float64."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from widen.calls.check import as_operand, library, scalar
from widen.formats.arrays import is_tensor, library_of
from widen.words import Words


def matrix(x: Any, name: str, dtype: str) -> Any:
    """The matrix `x` of numbers of one format, or an error that names the fix."""
    x = as_operand(x, name)
    given = getattr(x.dtype, "name", str(x.dtype).removeprefix("torch."))
    if given != dtype:
        fix = f"to(torch.{dtype})" if is_tensor(x) else f"astype({dtype!r})"
        raise TypeError(f"{name} holds {given}; this routine multiplies {dtype}: give {name}.{fix}")
    if x.ndim != 2:
        raise ValueError(f"{name} has shape {tuple(x.shape)}; this routine takes matrices")
    return x


def check_words(a: Any, b: Any, formats: Sequence[str], *, finite: bool) -> None:
    """Whether these are matrices of one of the formats that can be multiplied; or say the fix."""
    for name, x in (("a", a), ("b", b)):
        if not isinstance(x, Words):
            raise TypeError(
                f"{name} is a {type(x).__name__}; give widen.Words({name}, dtype={formats[0]!r})"
            )
        if x.format.name not in formats:
            raise TypeError(
                f"{name} is {x.format.name}; this product takes {', '.join(formats)}: use "
                f"{name}.astype({formats[0]!r})"
            )
        if x.ndim != 2 or 0 in x.shape:
            raise ValueError(f"{name} has shape {x.shape}; give a matrix that is not empty")
        first = x.planes[0]
        if finite and not bool(library_of(first).isfinite(first).all()):
            raise ValueError(
                f"{name} holds an infinity or a NaN, which cannot be split; use widen.matmul"
            )
    library(a=a.planes[0], b=b.planes[0])
    if a.format != b.format:
        raise TypeError(
            f"a is {a.format.name} and b {b.format.name}; use b.astype({a.format.name!r})"
        )
    if a.shape[1] != b.shape[0]:
        raise ValueError(f"shapes {a.shape} and {b.shape} do not match: np.matmul's rules apply")


def addend(
    alpha: Any, beta: Any, c: Any, dtype: str, shape: tuple[int, ...]
) -> tuple[float, float, Any]:
    """Look at alpha, beta and c of alpha A B + beta C; without beta nobody reads c, so it is None.

    >>> addend(2, 0, None, "float64", (1, 1))
    (2.0, 0.0, None)
    """
    c = None if c is None else matrix(c, "c", dtype)
    alpha, beta = scalar(alpha, "alpha"), scalar(beta, "beta")
    for name, value in (("alpha", alpha), ("beta", beta)):
        if isinstance(value, complex):
            raise ValueError(f"{name}={value} is complex; the matrices are real")
    if not beta:
        return alpha, beta, None
    if c is None:
        raise ValueError(f"beta={beta} without c; give c, or beta=0")
    if tuple(c.shape) != shape:
        raise ValueError(f"c has shape {tuple(c.shape)}; a @ b has {shape}")
    return alpha, beta, c


def exponents(x: Any) -> Any:
    """Exponents e with 2^(e-1) <= |x| < 2^e for normal float64 numbers (as `frexp` has it), int64.

    Zeros and subnormal numbers have -1022.

    >>> import numpy as np
    >>> exponents(np.array([1.0, -0.75, 0.0])).tolist()
    [1, 0, -1022]
    """
    bits = x.view(library_of(x).int64)
    return ((bits >> 52) & 0x7FF) - 1022


def powers_of_two(e: Any) -> Any:
    """2^e as float64, for int64 e from -1022 to 1023; 0 below that.

    >>> import numpy as np
    >>> powers_of_two(np.array([-1, 0, 10, -2000])).tolist()
    [0.5, 1.0, 1024.0, 0.0]
    """
    xp = library_of(e)
    return (xp.clip(e + 1023, 0, 2046) << 52).view(xp.float64)


def leading_bits(x: Any, count: int) -> Any:
    """The `count` leading bits of every float64's significand; the others are cut off.

    >>> import numpy as np
    >>> leading_bits(np.array([1.9999, -3.9]), 2).tolist()
    [1.5, -3.0]
    """
    xp = library_of(x)
    return (x.view(xp.int64) & -(1 << (53 - count))).view(xp.float64)


def with_sign_of(magnitude: Any, x: Any) -> Any:
    """`magnitude`, not negative, with the sign of x."""
    xp = library_of(x)
    return xp.where(x < 0, -magnitude, magnitude)


def relative_error(computed: Any, exact: Any) -> float:
    """Return the largest |c - exact| / |exact|, where there is something to compare with."""
    nonzero = exact != 0
    c, reference = computed[nonzero], exact[nonzero]
    return float((abs(c - reference) / abs(reference)).max())
