"""Panels of a product whose operands lie in host memory: which there are, and what they cost.

Operands and result do not fit the GPU's memory, or are not to be there. One operand is *kept*: a
panel of its lines (rows of the left one, columns of the right one) lies on the GPU, encoded once,
while all lines of the other one *stream* past it, panel by panel. Every two panels give a panel of
the result, which goes back. Lines are whole, since the scale of a line needs all of it; so an
element has the bits that it has anywhere.

Of one product, with |A| bytes kept in P panels, and |B| bytes that stream in Q panels,

    bytes sent = |A| + |B| + (P - 1) (|B| - the two panels that are there)
    seconds    = (|A| + a panel of B) / s + P Q max(p, (bytes sent - |A|) / (P Q s), r / s) + r / s

at s bytes a second each way, p seconds for a product of two panels, and r bytes of its result. The
stream turns round when a kept panel is done, so the last two panels of B are there for the next.
While a kept panel is sent nothing is multiplied: room for a second one would make both smaller.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

LINK = 50e9
"""Bytes a second each way between pinned host memory and a GPU (PCIe 5.0 x16; published: 64e9)."""

RATE = 1300e12
"""Operations a second of planes multiplied, two for a multiplication, and all that is around it.

A float64 product of n = 16384 with 14 planes takes 95 ms on an H200 (`python bench/gpu.py`).
"""

LAUNCHES = 1e-3
"""Seconds that the host takes to launch a product, while the GPU may have nothing to do."""

RESULTS = 1 << 28
"""Bytes of a panel of the result, at most: two of them wait in pinned host memory."""

FEWEST = 16
"""Lines that a panel must have room for, if there are as many."""

WHOLE_TILES = 256
"""Panels of many lines have a multiple of it."""


Items = Sequence[int] | np.ndarray[Any, Any]
"""Which of an operand's own items each item of a batch is made of."""


@dataclass(frozen=True)
class Sizes:
    """Bytes that a product takes on a GPU.

    Attributes
    ----------
    shape
        (batch, m, k, n).
    lines
        A row and a column, as they are sent.
    copies
        What kernels read of a row and of a column, where that is a converted copy.
    planes
        A line in planes, with leading integers and what is known of it: a kept one, and one that
        streams.
    element
        An element while it is computed.
    result, there
        An element of the result as it is sent back, and all that is there of it.
    addend
        An element of what is added, as it is sent.
    products
        Exact products of planes.
    kept_entry
        An entry of a kept line in all planes.
    """

    shape: tuple[int, int, int, int]
    lines: tuple[int, int]
    copies: tuple[int, int]
    planes: tuple[int, int]
    element: int
    result: int
    there: int
    addend: int
    products: int
    kept_entry: int = 0

    @property
    def count(self) -> tuple[int, int]:
        """Rows and columns."""
        return self.shape[1], self.shape[3]


@dataclass(frozen=True)
class Load:
    """A panel of an operand: which items of a batch, which lines, where it lies on the GPU.

    It is sent if it is `new`; otherwise it is there.
    """

    items: tuple[int, ...]
    lines: slice
    slot: int
    new: bool

    def takes_place_of(self, other: Load) -> bool:
        """Whether it is sent to where the other one lies."""
        return self.new and self.slot == other.slot


@dataclass(frozen=True)
class Step:
    """A product of two panels: which items, rows and columns of the result it gives."""

    items: range
    rows: slice
    columns: slice
    loads: tuple[Load, Load]


@dataclass(frozen=True)
class Panels:
    """A product in panels.

    Attributes
    ----------
    sizes
        What its parts take.
    kept
        The operand that is kept: 0 for the left one, 1 for the right one.
    items
        Items of a batch that are computed at one time; more than one if they are whole.
    step
        Rows and columns of a panel.
    slots
        Panels of each operand that are there at one time.
    workspace
        Bytes that a product of two panels may take beside operands and results.
    """

    sizes: Sizes
    kept: int
    items: int
    step: tuple[int, int]
    slots: tuple[int, int]
    workspace: int = 0

    @property
    def counts(self) -> tuple[int, int]:
        """Panels of rows and of columns."""
        rows, columns = (
            -(-count // max(step, 1))
            for count, step in zip(self.sizes.count, self.step, strict=True)
        )
        return rows, columns

    @property
    def encodes(self) -> bool:
        """Whether the kept panel meets several others, and is encoded once for all of them."""
        return self.counts[1 - self.kept] > 1

    def fixed_bytes(self) -> int:
        """Bytes of operands and results on the GPU, beside those that products take."""
        sizes, elements = self.sizes, self.items * math.prod(self.step)
        held = sum(
            self.items * step * (slots * line + copy)
            for step, slots, line, copy in zip(
                self.step, self.slots, sizes.lines, sizes.copies, strict=True
            )
        )
        return held + elements * (sizes.there + 2 * sizes.addend)

    def bytes_there(self) -> int:
        """All bytes on the GPU."""
        sizes, elements = self.sizes, self.items * math.prod(self.step)
        kept = [self.encodes and side == self.kept for side in (0, 1)]
        planes = sum(
            self.items * step * sizes.planes[0 if is_kept else 1]
            for step, is_kept in zip(self.step, kept, strict=True)
        )
        return self.fixed_bytes() + planes + elements * sizes.element

    def seconds(self) -> float:
        """The formula above, with no more items than are computed at one time after another."""
        sizes = self.sizes
        batch, _, k, _ = sizes.shape
        times = -(-batch // self.items)
        kept, other = self.kept, 1 - self.kept
        turns, steps = self.counts[kept], self.counts[other]
        mine, theirs = (
            self.items * self.step[side] * sizes.lines[side] / LINK for side in (kept, other)
        )
        elements = self.items * math.prod(self.step)
        back = elements * sizes.result / LINK
        computed = 2 * elements * k * sizes.products / RATE + LAUNCHES
        streams = steps + (turns - 1) * max(steps - self.slots[other], 0)
        arriving = theirs * streams / (turns * steps) + elements * sizes.addend / LINK
        if steps == 1:  # nothing is kept: all of it streams
            arriving += mine
        else:
            mine *= turns * times
        return mine + theirs + times * turns * steps * max(computed, arriving, back) + back

    def steps(self, own: tuple[Items, Items]) -> Iterator[Step]:
        """All products in their order.

        `own` is of the left and of the right operand.
        """
        places: tuple[list[tuple[object, int]], list[tuple[object, int]]] = (
            [(None, slot) for slot in range(self.slots[0])],
            [(None, slot) for slot in range(self.slots[1])],
        )  # the one used longest ago comes first
        for items, rows, columns in self._order():
            loads = []
            for held, which, lines in zip(places, own, (rows, columns), strict=True):
                mine = tuple(int(which[item]) for item in items)
                mine = mine[:1] if len(set(mine)) == 1 else mine
                key = mine, lines.start, lines.stop
                at = next((at for at, (there, _) in enumerate(held) if there == key), None)
                slot = held.pop(at or 0)[1]
                held.append((key, slot))
                loads.append(Load(mine, lines, slot, at is None))
            yield Step(items, rows, columns, (loads[0], loads[1]))

    def _order(self) -> Iterator[tuple[range, slice, slice]]:
        """Items, rows and columns of all panels; the stream turns round."""
        batch, m, _, n = self.sizes.shape
        lines = [
            [slice(start, min(start + step, count)) for start in range(0, count, max(step, 1))]
            for count, step in zip((m, n), self.step, strict=True)
        ]
        forwards = True
        for start in range(0, batch, self.items):
            items = range(start, min(start + self.items, batch))
            for mine in lines[self.kept]:
                others = lines[1 - self.kept]
                for theirs in others if forwards else reversed(others):
                    rows, columns = (mine, theirs) if self.kept == 0 else (theirs, mine)
                    yield items, rows, columns
                forwards = not forwards

    def bytes_sent(self, own: tuple[Items, Items]) -> int:
        """Bytes that go to the GPU."""
        sent = 0
        for step in self.steps(own):
            for load, line in zip(step.loads, self.sizes.lines, strict=True):
                sent += load.new * len(load.items) * (load.lines.stop - load.lines.start) * line
            elements = (step.rows.stop - step.rows.start) * (step.columns.stop - step.columns.start)
            sent += len(step.items) * elements * self.sizes.addend
        return sent


def choose_panels(sizes: Sizes, workspace: int, own: tuple[int, int]) -> Panels:
    """The panels that take the least time within a workspace; `own` counts operands' items."""
    best: Panels | None = None
    for candidate in _candidates(sizes, workspace, own):
        if best is None or candidate.seconds() < best.seconds():
            best = candidate
    if best is None:
        step = min(sizes.count[0], FEWEST), min(sizes.count[1], FEWEST)
        least = Panels(sizes, 0, 1, step, (1, 2)).bytes_there()
        raise ValueError(
            f"workspace={workspace} bytes have no room for {step[0]} rows and {step[1]} columns of "
            f"{sizes.shape[2]} numbers, which are sent whole; give workspace={least} or more, or "
            "leave device= out to multiply on the CPU"
        )
    return replace(best, workspace=workspace - best.fixed_bytes())


def _candidates(sizes: Sizes, workspace: int, own: tuple[int, int]) -> Iterator[Panels]:
    """Panels that fit."""
    batch, (m, n) = sizes.shape[0], sizes.count
    slots = tuple(min(2, count) for count in own)
    whole = Panels(sizes, 0, 1, (m, n), (slots[0], slots[1]))
    items = min(batch, workspace // max(whole.bytes_there(), 1))
    items = min(items, RESULTS // max(m * n * sizes.result, 1))
    if items > 0:
        # A few steps, so that copies and products overlap.
        yield replace(whole, items=min(items, max(1, -(-batch // 8))))
        yield replace(whole, items=items)
    for kept in (0, 1):
        for turns in _numbers(sizes.count[kept]):
            mine = _lines(sizes.count[kept], turns)
            most = _most_lines(sizes, workspace, kept, mine)
            if most < min(sizes.count[1 - kept], FEWEST):
                continue
            for steps in _numbers(sizes.count[1 - kept]):
                theirs = _lines(sizes.count[1 - kept], steps)
                if steps > 1 and theirs <= most:
                    yield _panels(sizes, kept, mine, theirs)
                if theirs < FEWEST or (steps > 64 and theirs <= most):
                    break


def _panels(sizes: Sizes, kept: int, mine: int, theirs: int) -> Panels:
    step, slots = ((mine, theirs), (1, 2)) if kept == 0 else ((theirs, mine), (2, 1))
    return Panels(sizes, kept, 1, step, slots)


def _most_lines(sizes: Sizes, workspace: int, kept: int, mine: int) -> int:
    """Lines that may stream at one time past so many; bytes are linear in them."""
    none, one = (_panels(sizes, kept, mine, theirs).bytes_there() for theirs in (0, 1))
    most = (workspace - none) // max(one - none, 1)
    return min(most, RESULTS // max(mine * sizes.result, 1))


def _numbers(count: int) -> Iterator[int]:
    """Numbers of panels that are tried: all up to 32, then an eighth more each time."""
    number = 1
    while number < count:
        yield number
        number += max(1, number // 8 if number >= 32 else 1)
    if count > 0:
        yield count


def _lines(count: int, panels: int) -> int:
    """Lines of a panel, where there are so many panels or fewer."""
    lines = -(-count // panels)
    return lines if lines < 2 * WHOLE_TILES else -(-lines // WHOLE_TILES) * WHOLE_TILES
