"""Memory of launches that are issued again: blocks, taken just before use, or all in one piece."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch

from widen.gpu.replay import driver
from widen.gpu.replay.driver import Call, Movable, Move

Tensor = torch.Tensor

Step = Callable[[list[Any], list[int]], None]
"""A part of a call, given its blocks of memory and their addresses, those that are taken.

Those that are `Movable` are a single call of the driver.
"""

TOGETHER = 1 << 29
"""Bytes that a call takes in one piece: PyTorch takes longer to find a block than we to launch.

More might not be found in one.
"""


class View(NamedTuple):
    """A tensor in a block of memory, `offset` bytes after its beginning."""

    block: int
    offset: int
    dtype: torch.dtype
    shape: tuple[int, ...]
    stride: tuple[int, ...]

    def of(self, blocks: Sequence[Tensor]) -> Tensor:
        """The tensor, in other blocks."""
        block = blocks[self.block]
        start = block.storage_offset() * block.element_size() + self.offset
        made = torch.empty(0, dtype=self.dtype, device=block.device)
        return made.set_(
            block.untyped_storage(), start // self.dtype.itemsize, self.shape, self.stride
        )


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
            Clearing(self)(blocks, addresses)
        elif self.zero:
            block.zero_()


class Clearing(Movable):
    """Makes a block zero."""

    def __init__(self, block: Block) -> None:
        self.index, self.size, self.device = block.index, block.size, block.device.index

    def mover(self) -> Move:
        """What gives the call."""
        index, size = self.index, self.size
        return lambda addresses, stream: driver.cleared(addresses[index], size, stream)


class Copying(Movable):
    """Copies bytes from one place to another, (block, offset) each."""

    def __init__(self, to: tuple[int, int], come: tuple[int, int], size: int, device: int) -> None:
        self.to, self.come, self.size, self.device = to, come, size, device

    def mover(self) -> Move:
        """What gives the call."""
        (to, after), (come, behind), size = self.to, self.come, self.size

        def move(addresses: list[int], stream: int) -> Call:
            return driver.copied(addresses[to] + after, addresses[come] + behind, size, stream)

        return move


@dataclass(frozen=True)
class Arena:
    """All blocks that a call takes, in one piece: how many bytes, and where each block begins."""

    size: int
    places: tuple[tuple[int, int], ...]
    device: torch.device

    @classmethod
    def of(cls, wanted: list[Block], device: torch.device) -> Arena:
        """Blocks one behind the other."""
        sizes = [-(-block.size // 512) * 512 for block in wanted]
        starts = itertools.accumulate(sizes[:-1], initial=0) if sizes else ()
        places = tuple((block.index, at) for block, at in zip(wanted, starts, strict=True))
        return cls(sum(sizes), places, device)

    def take(self) -> Tensor:
        """Memory for them."""
        return torch.empty(self.size, dtype=torch.uint8, device=self.device)


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
