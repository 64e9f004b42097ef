"""Panels and small triangles of `Words` on a GPU: launches of Triton kernels, a CPU's bits.

Neither form has been measured on a GPU yet. What the one before did, in float64x2 at n = 8192 on an
H200: 3.16 s, with a launch for every column of 128 panels, whose pivots the host read, and 448
triangles whose rows went through memory 2016 times. Now a panel of 128 columns is one launch, and
a triangle of 256 rows stays in registers. With sm_90, `eliminate` has 78 registers for two words,
72 for four, 70 for two of complex numbers; `substitute` 80 to 168 with 256 rows.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

import torch

from widen.gpu.kernels.triton import panels
from widen.gpu.replay import driver
from widen.gpu.replay.driver import processors
from widen.gpu.replay.launch import launch
from widen.words.exchanges import Exchanges

if TYPE_CHECKING:
    from widen.words.array import Words

MOST_WORDS = {1: 4, 2: 2}
"""Words of real and of complex numbers, at most: more take the compiler long.

For sm_90 that is 0.7 CPU seconds for two words, 13 s for four, 1 s for two of complex numbers, and
was 36 s for three. No kernel has local memory; those of four words and of complex numbers have 8 or
16 bytes of stack.
"""
BLOCK = 64
"""Rows of a program of `eliminate`: one for each thread."""
WARPS = 2
COLUMNS = 2
"""Columns of a program of `substitute`, a warp for each 64 rows: one warp has no barriers."""
GROUPS = 8
"""Programs that share the columns behind a pivot."""
ACROSS = 4
"""Columns of a program of `eliminate` at a time, of two real words: more fill the registers."""
RESIDENT = 8
"""Programs of `eliminate` for which a multiprocessor has room, at least: they meet behind every
step. With 2 warps each, 8 have 128 registers a thread, and need 78 or fewer."""
MOST_BLOCKS = 4096
"""The largest of so many blocks are looked at by every program."""


def are_served(*given: Words) -> bool:
    """Whether there are kernels for numbers of this format and size."""
    most = MOST_WORDS[given[0].format.parts]
    return all(len(x.planes) <= most and x.shape[0] <= BLOCK * MOST_BLOCKS for x in given)


def eliminate(panel: Words) -> Exchanges:
    """Overwrite a panel (m, b) with both triangles; its exchanges, which stay on the GPU."""
    (rows, columns), count, parts = panel.shape, len(panel.planes), panel.format.parts
    steps, blocks = min(rows, columns), -(-rows // BLOCK)
    w = torch.stack([plane.mT for plane in panel.planes]).contiguous()
    lower = w.clone()

    def integers(*shape: int) -> Any:
        return torch.empty(shape, dtype=torch.int64, device=w.device)

    places = torch.arange(rows, device=w.device).repeat(2, 1)
    pivots = integers(steps)
    groups, together = _shape(blocks, w.device)
    arguments = {
        "w": w, "lower": lower, "places": places, "keys": integers(2, blocks),
        "spots": integers(2, blocks), "lines": integers(2, blocks), "pivots": pivots,
        "arrivals": torch.zeros(1, dtype=torch.int32, device=w.device), "first": -1, "steps": steps,
        "rows": rows, "columns": columns, "blocks": blocks, "groups": groups, "TOGETHER": together,
        "PARTS": parts, "COUNT": count, "ALL": 1 << (blocks - 1).bit_length() if blocks else 1,
        "BLOCK": BLOCK, "ACROSS": ACROSS if parts * count == 2 else 1,
    }  # fmt: skip
    with _on(w):
        for first in range(-1, 0 if together else steps) if steps else ():
            launch(
                panels.eliminate, (blocks, groups), {**arguments, "first": first}, warps=WARPS,
                exact=True, together=together,
            )  # fmt: skip
    order = torch.empty_like(places[0])
    order[places[steps % 2]] = torch.arange(rows, device=w.device)
    below = torch.arange(columns, device=w.device)[:, None] < places[steps % 2]
    for plane, mixed in zip(panel.planes, torch.where(below, lower, w), strict=True):
        plane[...] = mixed[..., order].mT
    return Exchanges(pivots, order)


def _shape(blocks: int, device: Any) -> tuple[int, bool]:
    """Programs that share the columns of a block, and whether all have room at once."""
    most = RESIDENT * processors(device)
    together = driver.is_gpu(device) and torch.version.hip is None and blocks <= most
    return max(1, min(GROUPS, most // max(1, blocks))) if together else GROUPS, together


def substitute(t: Words, w: Words, *, upper: bool) -> None:
    """Overwrite w with T^-1 w for a small triangle, the upper one or the unit lower one."""
    size, width = w.shape
    if not size or not width:
        return
    sides, columns = torch.stack(w.planes), torch.stack([plane.mT for plane in t.planes])
    with _on(sides):
        launch(
            panels.substitute, (-(-width // COLUMNS),),
            {
                "t": columns.contiguous(), "w": sides, "size": size, "width": width,
                "UPPER": upper, "PARTS": w.format.parts, "COUNT": len(w.planes),
                "ROWS": 1 << (size - 1).bit_length(), "BLOCK": COLUMNS,
            },
            warps=max(1, min(4, size // 64)), exact=True,
        )  # fmt: skip
    for plane, found in zip(w.planes, sides, strict=True):
        plane[...] = found


def _on(x: Any) -> AbstractContextManager[Any]:
    return torch.cuda.device(x.device) if x.is_cuda else torch.no_grad()
