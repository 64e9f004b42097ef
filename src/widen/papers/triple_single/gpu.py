"""Blocked products of words, and sums of three words and floats: tensors, Triton kernels.

The functions of `cpu`, and their bits. On a CPU they run in Triton's interpreter.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from widen.formats.arrays import dtype_name
from widen.gpu.replay.launch import launch
from widen.gpu.tiles import ProductTile
from widen.papers.triple_single.algorithm import FUSED, MIXED, ONE, PAIR, TRIPLE, kind_of
from widen.papers.triple_single.kernels.triton import blocked

TILES = {
    (ONE, "float64"): ProductTile(64, 64, inner=1, warps=4, stages=2),
    (MIXED, "float64"): ProductTile(32, 32, inner=1, warps=4, stages=2),
    (PAIR, "float64"): ProductTile(32, 32, inner=1, warps=4, stages=2),
    (PAIR, "float32"): ProductTile(32, 32, inner=1, warps=4, stages=2),
    (TRIPLE, "float32"): ProductTile(32, 32, inner=1, warps=4, stages=2),
    (FUSED, "float32"): ProductTile(32, 32, inner=1, warps=4, stages=2),
}
"""Of blocked products of words, by kind and format.

Measured on an H200, n = 2048, GFLOP/s of TS, DF, DD and D+S, with listings 15 and 17: these tiles
318, 1094, 807, 610; with one stage, so that operands come through L1 and not through shared memory,
344, 1336, 831, 708; tiles of 64 x 32 242, 989, 593, 645; 64 x 64 with 8 warps 265, 952, 571, 521.
"""

ELEMENTS = 1024
"""Elements of a program that adds floats to numbers of three words."""


def multiply(a: Sequence[Any], b: Sequence[Any], listings: str) -> tuple[Any, ...]:
    """Words of the product of matrices given by theirs, element by element in one order."""
    a, b = ([word.contiguous() for word in x] for x in (a, b))
    (m, inner), n = a[0].shape, b[0].shape[1]
    c = [torch.empty((m, n), dtype=word.dtype, device=word.device) for word in a]
    kind = kind_of(a, listings)
    tile = TILES[kind, dtype_name(a[0])]
    words: dict[str, Any] = {
        f"{name}{place}": word
        for name, x in (("a", a), ("b", b), ("c", c))
        for place, word in enumerate((x[0], x[len(x) > 1], x[-1]))
    }
    grid = (-(-m // tile.rows) * -(-n // tile.columns),)
    with torch.cuda.device(a[0].device) if a[0].is_cuda else torch.no_grad():
        launch(
            blocked.multiply, grid,
            {
                **words, "m": m, "n": n, "inner": inner, "a_row": inner, "b_row": n, "c_row": n,
                "KIND": kind, "ROWS": tile.rows, "COLUMNS": tile.columns, "STAGES": tile.stages,
            },
            warps=tile.warps, exact=True,
        )  # fmt: skip
    return tuple(c)


def accumulate(c: Any, x: Any) -> None:
    """Add floats x (m, n) to numbers c (3, m, n) of three words of float32, in place."""
    assert c.is_contiguous()
    size = x.numel()
    with torch.cuda.device(c.device) if c.is_cuda else torch.no_grad():
        launch(
            blocked.accumulate, (-(-size // ELEMENTS),),
            {
                "c": c, "x": x.contiguous(), "size": size, "ELEMENTS": ELEMENTS,
            },
            exact=True,
        )  # fmt: skip
