"""Products of planes on a CPU: BLAS, every stretch of the inner dimension exact."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from widen.cpu.operands import Array
from widen.plan import Product
from widen.units import Unit


def multiply(
    left: Sequence[Array] | Array, right: Sequence[Array] | Array, products: Sequence[Product],
    unit: Unit, depth: int, *, groups: Array, partial: Array, add: bool = False,
) -> None:  # fmt: skip
    """Groups (+)= left planes times right planes, every stretch of `depth` exact on the unit.

    `partial` is room for one product, in the dtype of the unit's engine.
    """
    inner = left[0].shape[-1]
    whole = inner <= depth and unit.engine == groups.dtype and not add and _paired(tuple(products))
    if whole and isinstance(left, np.ndarray) and isinstance(right, np.ndarray):
        np.matmul(left, right.swapaxes(-1, -2), out=groups)  # one call for all planes
        return
    started = set(range(len(groups))) if add else set[int]()
    for x, y, group in products:
        for start in range(0, inner, depth):
            stretch = slice(start, min(start + depth, inner))
            ours = left[x][..., stretch].astype(unit.engine, copy=False)
            theirs = right[y][..., stretch].swapaxes(-1, -2).astype(unit.engine, copy=False)
            if group not in started and groups.dtype == ours.dtype:
                np.matmul(ours, theirs, out=groups[group])
            else:
                np.matmul(ours, theirs, out=partial)
                if group in started:
                    groups[group] += partial
                else:
                    groups[group] = partial
            started.add(group)


@lru_cache(maxsize=64)
def _paired(products: tuple[Product, ...]) -> bool:
    """Whether plane i times plane i is group i."""
    return all(product == (i, i, i) for i, product in enumerate(products))
