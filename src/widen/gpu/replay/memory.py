"""Memory of launches that are issued again: blocks, taken just before use, or all in one piece."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from widen.gpu.replay import driver

Step = Callable[[list[Any], list[int]], None]
"""A part of a call, given its blocks of memory and their addresses, those that are taken."""

TOGETHER = 1 << 29
"""Bytes that a call takes in one piece: PyTorch takes longer to find a block than we to launch.

More might not be found in one.
"""


@dataclass(frozen=True)
class Block:
    """A block of memory that a call takes: which of its blocks, and whether it must be zero."""

    index: int
    size: int
    zero: bool
    device: torch.device

    def take(self, blocks: list[Any], addresses: list[int]) -> None:
        """Take it by itself."""
        block = blocks[self.index] = torch.empty(self.size, dtype=torch.uint8, device=self.device)
        addresses[self.index] = block.data_ptr()
        if self.zero and block.is_cuda:
            self.clear(blocks, addresses)
        elif self.zero:
            block.zero_()

    def clear(self, _: list[Any], addresses: list[int]) -> None:
        """Make it zero, on the current stream."""
        driver.clear(addresses[self.index], self.size, self.device.index)


def taken_together(wanted: list[Block]) -> tuple[Step, dict[int, Step]]:
    """What takes all blocks in one piece, the last of a call's blocks; and what clears some.

    They are then known by their addresses alone.
    """
    sizes = [-(-block.size // 512) * 512 for block in wanted]
    starts = list(itertools.accumulate(sizes[:-1], initial=0))
    places = [(block.index, start) for block, start in zip(wanted, starts, strict=True)]
    total, device = sum(sizes), wanted[0].device

    def take(blocks: list[Any], addresses: list[int]) -> None:
        blocks[-1] = torch.empty(total, dtype=torch.uint8, device=device)
        base = blocks[-1].data_ptr()
        for index, start in places:
            addresses[index] = base + start

    return take, {block.index: block.clear for block in wanted if block.zero}


def in_time(
    steps: list[tuple[Step, set[int]]], takes: dict[int, Step], ready: set[int]
) -> list[Step]:
    """Steps, with what takes their memory before each: no launch waits for another's.

    `ready` blocks are there, and more of them when this ends.
    """
    ordered: list[Step] = []
    for step, uses in steps:
        ordered += [takes[index] for index in sorted(uses - ready) if index in takes]
        ordered.append(step)
        ready |= uses
    return ordered
