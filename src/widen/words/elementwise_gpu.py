"""Arithmetic on planes of words on a GPU: launches of Triton kernels, the same bits as on a CPU."""

from __future__ import annotations

from typing import Any

import torch

from widen.gpu.kernels.triton.word_pairs import pairs, triples
from widen.gpu.kernels.triton.word_rows import several
from widen.gpu.kernels.triton.word_tuples import tuples
from widen.gpu.replay.launch import launch
from widen.words.elementwise import OPERATIONS

BLOCK = 1024
MOST_IN_REGISTERS = 4
"""Words that stay in registers. Of eight they would too, but the compiler takes minutes."""
ROWS = 128
"""Elements of a block whose expansions lie in memory: one for each thread, which reads back what it
wrote."""
PROGRAMS = 2048


def apply(
    operation: str, kernel: str, operands: list[tuple[Any, Any]], result: tuple[Any, Any]
) -> None:
    """Launch the kernel of an operation; blocks are (words, parts, elements)."""
    (xa, xb), (ya, yb) = operands
    za, zb = result
    count, parts, size = za.shape
    common = {
        "xa": xa, "ya": ya, "za": za, "size": size, "OPERATION": OPERATIONS[operation],
        "X_PARTS": xa.shape[1], "Y_PARTS": ya.shape[1], "PARTS": parts, "X_ONE": xa.shape[2] == 1,
        "Y_ONE": ya.shape[2] == 1,
    }  # fmt: skip
    double = za.dtype == torch.float64
    with torch.cuda.device(za.device) if za.is_cuda else torch.no_grad():
        if kernel == "pairs":
            mixed = zb.shape[0] > 0
            if not mixed:
                xb, yb, zb = xa, ya, za
            grid = (-(-size // BLOCK), parts)
            launch(
                pairs, grid,
                {
                    **common, "xb": xb, "yb": yb, "zb": zb, "DOUBLE": double, "MIXED": mixed,
                    "BLOCK": BLOCK,
                },
                exact=True,
            )  # fmt: skip
        elif kernel == "triples":
            grid = (-(-size // BLOCK), parts)
            launch(triples, grid, {**common, "BLOCK": BLOCK}, exact=True)
        elif count <= MOST_IN_REGISTERS:
            block = 512 if count == 3 else 256
            grid = (-(-size // block), parts)
            launch(
                tuples,
                grid,
                {**common, "DOUBLE": double, "COUNT": count, "BLOCK": block},
                exact=True,
            )
        else:
            blocks = -(-size // ROWS)
            programs = min(blocks, PROGRAMS // parts)
            rows = programs * parts * (4 * count + 3)
            scratch = torch.empty(rows * ROWS, dtype=za.dtype, device=za.device)
            launch(
                several, (programs, parts),
                {
                    **common, "scratch": scratch, "count": count, "blocks": blocks,
                    "DOUBLE": double, "BLOCK": ROWS,
                },
                stages=1, exact=True,
            )  # fmt: skip
