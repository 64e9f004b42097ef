"""Blocked products of words, and sums of three words and floats: paper 003's kernels launched.

Words are plain arrays or tensors here, each (rows, columns), not arrays of numbers in canonical
form: what the paper's operations leave is what the next one takes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from widen.cpu.threads import launch
from widen.formats.arrays import dtype_name, is_tensor
from widen.gpu import tiles

ONE, MIXED, PAIR, TRIPLE = 0, 1, 2, 3
"""Kinds of numbers: ordinary ones, float64 and float32, two words of one format, three float32."""
CPU_TILE = (32, 128)
"""Rows and columns of a job's tile (cpu/kernels/blocked.py)."""


def kind_of(words: Sequence[Any]) -> int:
    """Which kernel serves these words."""
    if len(words) != 2:
        return TRIPLE if len(words) == 3 else ONE
    return PAIR if words[0].dtype == words[1].dtype else MIXED


def multiply(a: Sequence[Any], b: Sequence[Any]) -> tuple[Any, ...]:
    """Words of the product of matrices given by theirs, element by element in one order.

    NumPy arrays, or tensors: on a GPU in Triton.
    """
    if is_tensor(a[0]):
        if a[0].device.type != "cpu":
            return multiply_tensors(a, b)
        import torch

        found = multiply([x.numpy() for x in a], [x.numpy() for x in b])
        return tuple(torch.from_numpy(word) for word in found)
    kind = kind_of(a)
    left, right = (np.stack([word.astype(x[0].dtype) for word in x]) for x in (a, b))
    (words, m, inner), n = left.shape, right.shape[2]
    out = np.empty((words, m, n), left.dtype)
    jobs = -(-m // CPU_TILE[0]) * -(-n // CPU_TILE[1])
    launch("blocked.multiply", jobs, 8 * m * n * inner, kind, left, right, out)
    return tuple(word.astype(x.dtype, copy=False) for word, x in zip(out, a, strict=True))


def multiply_tensors(a: Sequence[Any], b: Sequence[Any]) -> tuple[Any, ...]:
    """The same in Triton (on a CPU: in its interpreter)."""
    import torch

    from widen.gpu.kernels.triton import blocked
    from widen.gpu.replay.launch import launch as launch_triton

    a, b = ([word.contiguous() for word in x] for x in (a, b))
    (m, inner), n = a[0].shape, b[0].shape[1]
    c = [torch.empty((m, n), dtype=word.dtype, device=word.device) for word in a]
    kind, tile = kind_of(a), tiles.BLOCKED[kind_of(a), dtype_name(a[0])]
    pointers = [word for x in (a, b, c) for word in (x[0], x[len(x) > 1], x[-1])]
    arguments = (*pointers, m, n, inner, inner, n, n)
    grid = (-(-m // tile.rows) * -(-n // tile.columns),)
    constants = (kind, tile.rows, tile.columns, tile.stages)
    with torch.cuda.device(a[0].device) if a[0].is_cuda else torch.no_grad():
        launch_triton(blocked.multiply, grid, arguments, constants, tile.warps, exact=True)
    return tuple(c)


def accumulate(c: Any, x: Any) -> None:
    """Add floats x (m, n) to numbers c (3, m, n) of three words of float32, in place."""
    if is_tensor(c):
        if c.device.type != "cpu":
            accumulate_tensors(c, x)
            return
        c, x = c.numpy(), x.numpy()
    flat = c.reshape(3, -1)
    launch("blocked.accumulate", flat.shape[1], 16 * x.size, flat, x.reshape(-1))


def accumulate_tensors(c: Any, x: Any) -> None:
    """The same in Triton (on a CPU: in its interpreter)."""
    import torch

    from widen.gpu.kernels.triton import blocked
    from widen.gpu.replay.launch import launch as launch_triton

    assert c.is_contiguous()
    size, block = x.numel(), tiles.TRIPLES
    with torch.cuda.device(c.device) if c.is_cuda else torch.no_grad():
        launch_triton(
            blocked.accumulate,
            (-(-size // block),),
            (c, x.contiguous(), size),
            (block,),
            exact=True,
        )
