"""Parts of a product added up into numbers of several doubles: NumPy arrays, a Numba kernel.

And the kernels of `widen.Words`, whose operations `counts` counts.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from widen.cpu.kernels import word_pairs, words
from widen.cpu.threads import launch
from widen.papers.multiple_double.kernels.cpu.parts import add_parts

OPERATIONS = {"add": words.ADD, "multiply": words.MULTIPLY, "divide": words.DIVIDE}
DOUBLE_DOUBLES = (word_pairs.added, word_pairs.multiplied, word_pairs.divided)
"""The same three without NaN, infinities and the sign of zero."""


def arithmetic(words_of_a_number: int) -> Any:
    """Return the kernel that operates on numbers of so many words."""
    return words.pairs if words_of_a_number == 2 else words.several


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
