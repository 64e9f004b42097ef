"""Paper 000: DGEMM on FP16 tensor cores, and its accurate and reproducible versions.

Mukunoki, Ozaki, Ogita, Imamura, ISC High Performance 2020. `dgemm_tc` is DGEMM-TC in DP-mode and
CR-mode, `sgemm_tc` SGEMM-TC in SP-mode, `dgemm_dp_cr` DGEMM-DP-CR. Names of the paper in the code:
d, rho, tau (`top`), sigma; `docs/papers.md` says where we differ.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, Literal, overload

import numpy as np

from widen.papers.slicing.algorithm import (
    Operands,
    Ran,
    Scheme,
    Slices,
    checked,
    gamma,
    halved,
    left_over,
    run,
)

MEMORY = "20GB"
"""Working memory in all experiments of the paper (section 5.1)."""

BLOCK = 3584
"""Largest block there."""

ROWS_A_TIME = 4096
"""Columns of B whose magnitudes are summed at a time, a multiple of the lanes."""


def scheme_of(k: int, precision: int = 53, unit: str = "fp16", sums: int = 24) -> Scheme:
    """Algorithm 1's slicing for an inner dimension k: rho = gamma, sigma = 2^(rho + tau).

    At k = 1 negative entries would need 12 bits of FP16's 11 (sums are no limit there), which the
    paper overlooks; rho is one more then.

    >>> scheme_of(7168).bits, scheme_of(7168, 24).bits, scheme_of(7168, 53, "fp64", 53).bits
    ((5, 5), (5, 5), (20, 20))
    """
    held = {"fp16": 11, "fp64": 26}[unit]
    bits = min(precision - gamma(k, precision, sums), held)
    if bits < 1:
        raise ValueError(
            f"the inner dimension is {k}; Algorithm 1 leaves a slice no bit above 2^{sums - 2}: "
            "add up products of parts of it, or use widen.matmul"
        )
    return Scheme(unit, (bits, bits), 1.0, precision)


@overload
def dgemm_tc(
    a: Any, b: Any, mode: str = ..., alpha: Any = ..., beta: Any = ..., c: Any = ..., *,
    memory: int | str = ..., block: int | None = ..., info: Literal[False] = ...,
) -> Any: ...  # fmt: skip
@overload
def dgemm_tc(
    a: Any, b: Any, mode: str = ..., alpha: Any = ..., beta: Any = ..., c: Any = ..., *,
    memory: int | str = ..., block: int | None = ..., info: Literal[True],
) -> tuple[Any, Ran]: ...  # fmt: skip
def dgemm_tc(
    a: Any, b: Any, mode: str = "dp", alpha: Any = 1.0, beta: Any = 0.0, c: Any = None, *,
    memory: int | str = MEMORY, block: int | None = BLOCK, info: bool = False,
) -> Any:  # fmt: skip
    """DGEMM-TC: alpha A B + beta C in float64, from products of FP16 slices (section 4.1).

    Parameters
    ----------
    a, b
        float64 matrices (NumPy arrays or PyTorch tensors), finite.
    mode
        "dp": as accurate as an ordinary DGEMM by the paper's estimate (Algorithm 3, for numbers of
        similar magnitudes; no promise), which gives the number of slices d; products with p + q <=
        d + 1 (fast mode) unless A ran out of slices, summed in float64. "cr":
        slices until nothing is left, all products; with alpha = 1 and beta = 0 every element is
        the exact value rounded once, otherwise products are summed in float64.
    alpha, beta, c
        Scalars and the matrix to add.
    memory, block
        Working memory and largest block (None: no limit), which make the blocks by the paper's
        rule.
    info
        Also return a `Ran`: slices, products, time by stage.

    Examples
    --------
    >>> import numpy as np
    >>> a, b = np.random.default_rng(0).standard_normal((2, 64, 64))
    >>> c, ran = dgemm_tc(a, b, info=True)
    >>> bool((abs(c - a @ b) < 1e-13).all()), ran.slices, ran.products
    (True, ((7, 7),), (28,))
    """
    if mode not in ("dp", "cr"):
        raise ValueError(f"mode={mode!r} is not known; use 'dp' or 'cr'")
    given = checked(a, b, "float64", alpha, beta, c)
    return _run(given, scheme_of(given.shape[1]), mode, memory, block, info)


def sgemm_tc(
    a: Any, b: Any, alpha: Any = 1.0, beta: Any = 0.0, c: Any = None, *,
    memory: int | str = MEMORY, block: int | None = BLOCK, info: bool = False,
) -> Any:  # fmt: skip
    """SGEMM-TC in SP-mode: `dgemm_tc` in DP-mode for float32, slices and sums in float32.

    Parameters
    ----------
    a, b, alpha, beta, c, memory, block, info
        As for `dgemm_tc`; matrices are float32.

    Examples
    --------
    >>> import numpy as np
    >>> a, b = np.random.default_rng(0).random((2, 64, 64), np.float32)
    >>> sgemm_tc(a, b, info=True)[1].slices
    ((3, 3),)
    """
    given = checked(a, b, "float32", alpha, beta, c)
    return _run(given, scheme_of(given.shape[1], 24), "dp", memory, block, info)


def dgemm_dp_cr(
    a: Any, b: Any, alpha: Any = 1.0, beta: Any = 0.0, c: Any = None, *,
    memory: int | str = MEMORY, block: int | None = BLOCK, info: bool = False,
) -> Any:  # fmt: skip
    """DGEMM-DP-CR: `dgemm_tc` in CR-mode on float64 products instead of tensor cores (Table 1).

    Parameters
    ----------
    a, b, alpha, beta, c, memory, block, info
        As for `dgemm_tc`.

    Examples
    --------
    >>> import numpy as np
    >>> a, b = np.random.default_rng(0).random((2, 64, 64))
    >>> bool((dgemm_dp_cr(a, b) == dgemm_tc(a, b, "cr")).all())
    True
    """
    given = checked(a, b, "float64", alpha, beta, c)
    scheme = scheme_of(given.shape[1], 53, "fp64", 53)
    return _run(given, scheme, "cr", memory, block, info)


def _run(
    given: Operands, scheme: Scheme, mode: str, memory: int | str, block: int | None, info: bool
) -> Any:
    verbs = given.verbs
    if mode == "cr":
        nearest = given.alpha == 1 and not given.beta
        return run(given, scheme, in_order, memory, block, info, nearest=nearest)
    weights: list[Any] = []

    def left(rows: Any) -> tuple[Slices, bool]:
        if not weights:
            weights.append(magnitudes_of(given))
        return enough_slices(verbs, rows, weights[0], scheme)

    return run(given, scheme, in_order, memory, block, info, left=left)


def in_order(left: int, right: int, fast: bool) -> list[tuple[int, int]]:
    """Products in the order of Algorithm 2; in fast mode those with p + q <= d + 1.

    p and q count from 1 in the paper, from 0 here; d is the number of A's slices.

    >>> in_order(2, 2, True)
    [(0, 0), (1, 0), (0, 1)]
    """
    return [(p, q) for q in range(right) for p in range(left) if not fast or p + q < left]


def determine_slices(a: Any, b: Any) -> tuple[int, bool]:
    """Algorithm 3 alone: the number of slices that DP-mode takes, and whether in fast mode.

    Examples
    --------
    >>> import numpy as np
    >>> a, b = np.random.default_rng(0).standard_normal((2, 64, 64))
    >>> determine_slices(a, b)
    (7, True)
    """
    given = checked(a, b, "float64")
    with given.verbs.at(given.a):
        scheme = scheme_of(given.shape[1])
        slices, fast = enough_slices(given.verbs, given.a, magnitudes_of(given), scheme)
    return len(slices.planes), fast


def magnitudes_of(given: Operands) -> Any:
    """|B| e, the sum of magnitudes along every row of B (Algorithm 3), in one order everywhere."""
    verbs, lanes = given.verbs, None
    for start in range(0, max(given.b.shape[1], 1), ROWS_A_TIME):
        work = verbs.lines(given.b[:, start : start + ROWS_A_TIME].T)
        lanes = verbs.column_sums(work, lanes)
    return verbs.contiguous(halved(lanes))


def estimates(
    verbs: Any, rows: Any, weights: Any, scheme: Scheme
) -> Iterator[tuple[Any, Any, Any, Any, Any]]:
    """Algorithms 1 and 3 slice by slice: the slice, its tops, those of the rest, s and t by row.

    s = 2 sqrt(k) u |A| (|B| e) and t = (d + 1) |A_d| (|B| e), A_d the d-th slice.
    """
    work = verbs.lines(rows)
    k = work.shape[1]
    bound = verbs.magnitudes(work, weights) * (2 * math.sqrt(k) * 2.0**-scheme.precision)
    top, d = verbs.tops(work), 0
    while left_over(top):
        plane, following, sums = verbs.split(
            work, top, scheme.bits[0], scheme.constant, scheme.unit, weights=weights
        )
        d += 1
        yield plane, top, following, bound, sums * (d + 1)
        top = following


@np.errstate(over="ignore")  # estimates beyond the range ask for more slices
def enough_slices(verbs: Any, rows: Any, weights: Any, scheme: Scheme) -> tuple[Slices, bool]:
    """Algorithms 1 and 3 together: slices of A, and whether fast mode applies.

    The smallest d >= 2 with s_i > t_i in every row. Where A has nothing left by then, B must not be
    cut short either: no fast mode (section 3.2). Rows of zeros have nothing to lose and are passed
    over.
    """
    slices = Slices(scheme.bits[0])
    for plane, top, following, s, t in estimates(verbs, rows, weights, scheme):
        slices.planes.append(plane)
        slices.tops.append(top)
        if len(slices.planes) >= 2 and verbs.exceeds(s, t):
            return slices, left_over(following)
    return slices, False
