"""Table 3's formats that no unit here has, in software: FP6 digits, sums in FP16.

Slicing and accumulation are those of `algorithm`. Products of slices are made term by term: every
digit goes through Type2, and every product and every partial sum is rounded to Type3. So equation
11, that none of these roundings changes anything, is put to the test and not assumed.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np

from widen.papers.dgemm_fp8.algorithm import (
    DOUBLE,
    INPUTS,
    MANTISSAS,
    MEMORY,
    rho,
    slices_of,
    smallest_first,
)
from widen.papers.slicing.algorithm import Scheme, checked, run

Array = np.ndarray[Any, Any]

LARGEST = {"fp16": 65504.0, "fp8": 448.0, "fp6": 28.0}
"""Of FP16, E4M3 and E3M2; digits are integers, so that no format's smallest numbers matter."""

SUMS = {"fp32": np.float32, "fp16": np.float16}


def dgemm_in_software(
    a: Array, b: Array, inputs: str = "fp6", accumulate: str = "fp32", *, info: bool = False
) -> Any:
    """Multiply two float64 matrices by slices of a format, with sums in another.

    Parameters
    ----------
    a, b
        NumPy arrays of float64, finite. Time grows with k step by step: for small matrices.
    inputs, accumulate
        Type2, "fp16", "fp8" (E4M3) or "fp6" (E3M2), and Type3, "fp32" or "fp16".
    info
        Also return a `Ran`: slices and products.

    Examples
    --------
    >>> import numpy as np
    >>> a, b = 1 + np.random.default_rng(0).random((2, 4, 4))
    >>> dgemm_in_software(a, b, "fp6", "fp16", info=True)[1].products
    (196,)
    """
    from widen.papers.slicing import cpu

    if (inputs, accumulate) not in INPUTS:
        raise ValueError(f"{inputs!r} with sums in {accumulate!r} is not in Table 3; use {INPUTS}")
    held, k = MANTISSAS[inputs], a.shape[1]
    if slices_of(k, held, accumulate) is None:
        raise ValueError(f"k = {k} leaves no bit for a slice when sums are in {accumulate}")
    bits = DOUBLE - rho(k, held, accumulate)
    scheme = Scheme("fp16", (bits, bits), 0.75, DOUBLE)

    def multiply(
        left: list[Array], right: list[Array], pairs: list[tuple[int, int]], unit: str,
        largest: int, columns: slice,
    ) -> Array:  # fmt: skip
        ours, theirs = ([held_by(x, inputs) for x in side] for side in (left, right))
        return rounded_products(ours, [x[columns] for x in theirs], pairs, SUMS[accumulate])

    verbs = SimpleNamespace(**{**vars(cpu), "multiply": multiply})
    given = checked(a, b, "float64", verbs=verbs)
    return run(given, scheme, smallest_first, MEMORY, None, info)


def rounded_products(
    left: list[Array], right: list[Array], pairs: list[tuple[int, int]], dtype: Any
) -> Array:
    """Products (pairs, m, n), each a chain of sums over the inner index, all rounded to dtype."""
    x = np.stack([left[p] for p, _ in pairs]).astype(dtype)
    y = np.stack([right[q] for _, q in pairs]).astype(dtype)
    total = np.zeros((len(pairs), x.shape[1], y.shape[1]), dtype)
    for h in range(x.shape[2]):
        total += x[:, :, None, h] * y[:, None, :, h]
    return np.asarray(total, np.float32)


def held_by(digits: Array, inputs: str) -> Array:
    """Digits rounded to a format of so many bits, to nearest even; too large ones are infinite.

    >>> held_by(np.array([7.0, 9.0, 13.0, 30.0]), "fp6").tolist()
    [7.0, 8.0, 12.0, inf]
    """
    fraction, exponent = np.frexp(digits)
    kept = np.ldexp(np.rint(np.ldexp(fraction, MANTISSAS[inputs])), exponent - MANTISSAS[inputs])
    return np.asarray(np.where(np.abs(kept) > LARGEST[inputs], np.copysign(np.inf, kept), kept))
