"""Arithmetic on planes of words on a GPU: launches of Triton kernels, the same bits as on a CPU."""

from __future__ import annotations

from typing import Any

import torch

from widen.gpu.kernels.triton.word_rows import several
from widen.gpu.kernels.triton.word_tuples import tuples
from widen.gpu.replay.launch import launch
from widen.words.elementwise import OPERATIONS

BLOCKS = {2: 1024, 3: 512, 4: 256}
"""Elements of a block, by the words that stay in registers. Eight would too, but the compiler takes
minutes."""
LISTED_BLOCK = 1024
"""The same for three words of float32, whose sums and products have fewer steps."""
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
        mixed = zb.shape[0] > 0
        words = count + mixed
        if words in BLOCKS:
            if not mixed:
                xb, yb, zb = xa, ya, za
            listed = kernel == "triples"
            block = LISTED_BLOCK if listed else BLOCKS[words]
            launch(
                tuples, (-(-size // block), parts),
                {
                    **common, "xb": xb, "yb": yb, "zb": zb, "DOUBLE": double, "COUNT": words,
                    "MIXED": mixed, "LISTED": listed, "BLOCK": block,
                },
                exact=True,
            )  # fmt: skip
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
