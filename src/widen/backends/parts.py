"""Parts of a product added up into numbers of several doubles, on a CPU or a GPU."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import numpy as np

from widen.cpu.threads import launch

TILE = 512
"""Elements of one program on a GPU."""


def sum_parts(products: Sequence[Any], words: int) -> Any:
    """Words (words, m, n) of the sums of all parts (parts, m, n) of all products, in their order.

    The parts of a product come largest first. NumPy arrays or tensors; on a GPU in Triton.
    """
    first = products[0]
    if isinstance(first, np.ndarray):
        found = np.zeros((words, first.shape[1] * first.shape[2]))
        for parts in products:
            flat = parts.reshape(len(parts), -1)
            launch("parts.add_parts", found.shape[1], 8 * words * flat.size, flat, found)
        return found.reshape(words, *first.shape[1:])
    if first.device.type == "cpu":
        summed = sum_parts([parts.numpy() for parts in products], words)
        return sys.modules["torch"].from_numpy(summed)
    return sum_tensors(products, words)


def sum_tensors(products: Sequence[Any], words: int) -> Any:
    """The same for tensors, in Triton (on a CPU: in its interpreter)."""
    import torch

    from widen.gpu.kernels.triton.parts import add_parts
    from widen.gpu.replay.launch import launch as launch_triton

    count, rows, columns = products[0].shape
    found = torch.zeros((words, rows, columns), dtype=torch.float64, device=products[0].device)
    size = rows * columns
    with torch.cuda.device(found.device) if found.is_cuda else torch.no_grad():
        for parts in products:
            arguments = (parts, found, count, rows, columns, *parts.stride(), size)
            launch_triton(add_parts, (-(-size // TILE),), arguments, (words, TILE))
    return found
