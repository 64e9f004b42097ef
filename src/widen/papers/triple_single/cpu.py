"""Blocked products of words, and sums of three words and floats: NumPy arrays, Numba kernels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from widen.cpu.threads import launch
from widen.papers.triple_single.algorithm import kind_of
from widen.papers.triple_single.kernels.cpu import blocked


def multiply(a: Sequence[Any], b: Sequence[Any], listings: str) -> tuple[Any, ...]:
    """Words of the product of matrices given by theirs, element by element in one order."""
    left, right = (np.stack([word.astype(x[0].dtype) for word in x]) for x in (a, b))
    (words, m, inner), n = left.shape, right.shape[2]
    out = np.empty((words, m, n), left.dtype)
    jobs = -(-m // blocked.ROWS) * -(-n // blocked.COLUMNS)
    launch(blocked.multiply, jobs, 8 * m * n * inner, kind_of(a, listings), left, right, out)
    return tuple(word.astype(x.dtype, copy=False) for word, x in zip(out, a, strict=True))


def accumulate(c: Any, x: Any) -> None:
    """Add floats x (m, n) to numbers c (3, m, n) of three words of float32, in place."""
    flat = c.reshape(3, -1)
    launch(blocked.accumulate, flat.shape[1], 16 * x.size, flat, x.reshape(-1))
