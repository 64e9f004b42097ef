"""Parts of a product added up into numbers of several doubles: NumPy arrays, a Numba kernel."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from widen.cpu.threads import launch
from widen.papers.multiple_double.kernels.cpu.parts import add_parts


def sum_parts(products: Sequence[Any], words: int) -> Any:
    """Words (words, m, n) of the sums of all parts (parts, m, n) of all products, in their order.

    The parts of a product come largest first.
    """
    shape = products[0].shape[1:]
    sums = np.zeros((words, shape[0] * shape[1]))
    for parts in products:
        flat = parts.reshape(len(parts), -1)
        launch(add_parts, sums.shape[1], 8 * words * flat.size, flat, sums)
    return sums.reshape(words, *shape)
