"""Panels, small triangles and differences of `Words` on a GPU: launches of kernels, a CPU's bits.

A panel of 128 columns is one launch, and a triangle of 256 rows stays in registers: before, every
column was a launch whose pivot the host read, and rows of triangles went through memory (float64x2,
n = 8192 on an H200: 3.16 s). Matrices are read and written where they are: turning planes and
gathering rows by PyTorch took some sixty operations a panel. `eliminate` has 72 registers for two
words with sm_90; `substitute` 64, and is bound by float64 arithmetic: of 256 rows, chunks of 64
leave out 6 of 16 parts of the work.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

import torch

from widen.gpu.kernels.triton import panels, triangles
from widen.gpu.operands import in_place
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
CHUNK = 64
"""Rows of a chunk there: behind a step, chunks that are finished take no work."""
GROUPS = 8
"""Programs that share the columns behind a pivot."""
ACROSS = 4
"""Columns of a program of `eliminate` at a time, of two real words: more fill the registers."""
RESIDENT = 8
"""Programs of `eliminate` for which a multiprocessor has room, at least: they meet behind every
step. With 2 warps each, 8 have 128 registers a thread, and need 78 or fewer."""
TURNED = 32
"""Rows and columns of a program of `put_back`, which reads columns and writes rows."""
ROWS, ACROSS_ROWS = 4, 128
"""Rows and columns of a program of `take_off`."""
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
    sizes = [3 * rows, steps, 2 * blocks, 2 * blocks, 2 * blocks]
    room = torch.empty(sum(sizes), dtype=torch.int64, device=w.device)
    lines, pivots, *known = torch.split(room, sizes)
    places, order = lines[: 2 * rows].view(2, rows), lines[2 * rows :]
    torch.arange(rows, out=places[0])
    groups, together = _shape(blocks, w.device)
    numbers = {"PARTS": parts, "COUNT": count}
    lower = torch.empty_like(w)
    arguments = {
        **numbers, "w": w, "lower": lower, "places": places, "keys": known[0], "spots": known[1],
        "lines": known[2], "pivots": pivots,
        "arrivals": torch.zeros(1, dtype=torch.int32, device=w.device), "first": -1, "steps": steps,
        "rows": rows, "columns": columns, "blocks": blocks, "groups": groups, "TOGETHER": together,
        "ALL": 1 << (blocks - 1).bit_length() if blocks else 1,
        "BLOCK": BLOCK, "ACROSS": ACROSS if parts * count == 2 else 1,
    }  # fmt: skip
    out = _Block(panel)
    with _on(w):
        for first in range(-1, 0 if together else steps) if steps else ():
            launch(
                panels.eliminate, (blocks, groups), {**arguments, "first": first}, warps=WARPS,
                exact=True, together=together,
            )  # fmt: skip
        if rows:
            launch(
                panels.put_back, (-(-rows // TURNED), max(1, -(-columns // TURNED))),
                {
                    **numbers, **out.named("out"), "w": w, "lower": lower,
                    "places": places[steps % 2], "order": order, "rows": rows, "columns": columns,
                    "BLOCK": TURNED, "ACROSS": TURNED,
                },
            )  # fmt: skip
    out.finish()
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
    out, columns = _Block(w), torch.stack([plane.mT for plane in t.planes])
    with _on(columns):
        launch(
            triangles.substitute, (-(-width // COLUMNS),),
            {
                **out.named("w"), "t": columns.contiguous(), "size": size, "width": width,
                "UPPER": upper, "PARTS": w.format.parts, "COUNT": len(w.planes),
                "ROWS": min(CHUNK, 1 << (size - 1).bit_length()), "CHUNKS": -(-size // CHUNK),
                "BLOCK": COLUMNS,
            },
            warps=1 if size < 128 else 2 if size < 256 else 4, exact=True,
        )  # fmt: skip
    out.finish()


def take_off(w: Words, other: Words) -> None:
    """Overwrite a matrix w with w - other."""
    rows, columns = w.shape
    if not rows or not columns:
        return
    out = _Block(w)
    with _on(out.block):
        launch(
            triangles.take_off, (-(-rows // ROWS), -(-columns // ACROSS_ROWS)),
            {
                **out.named("w"), **_Block(other).named("other", "other_"), "rows": rows,
                "columns": columns, "PARTS": w.format.parts, "COUNT": len(w.planes), "BLOCK": ROWS,
                "ACROSS": ACROSS_ROWS,
            },
            exact=True,
        )  # fmt: skip
    out.finish()


class _Block:
    """The planes of a matrix in one block of memory, in which entries of a row are neighbours.

    Where they are not so a copy is, which is brought back to `finish`.
    """

    def __init__(self, x: Words) -> None:
        self.planes, self.block = x.planes, in_place(list(x.planes))
        self.is_copy = self.block.data_ptr() != x.planes[0].data_ptr()
        if self.block.stride(3) != 1 and x.shape[1] > 1:
            self.block, self.is_copy = self.block.contiguous(), True

    def named(self, name: str, kind: str = "") -> dict[str, Any]:
        """Where it is, and how far words, parts and rows are apart, as kernels name them."""
        word, part, line, _ = self.block.stride()
        return {name: self.block, f"{kind}word": word, f"{kind}part": part, f"{kind}line": line}

    def finish(self) -> None:
        """Write back what became of a copy."""
        if self.is_copy:
            for plane, found in zip(self.planes, self.block, strict=True):
                plane[...] = found


def _on(x: Any) -> AbstractContextManager[Any]:
    return torch.cuda.device(x.device) if x.is_cuda else torch.no_grad()
