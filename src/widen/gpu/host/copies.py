"""Copies between host memory and a device: pinned staging, streams each way, and arrays as bytes.

`Link` copies at once, for devices without streams (tensors of a CPU, in Triton's interpreter);
`Streams` does the same on a GPU while it computes. All else is written once, for both.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch

from widen.formats.arrays import as_tensor, dtype_name, numpy_dtype
from widen.gpu.operands import Tensor
from widen.gpu.replay import driver

Array = np.ndarray[Any, Any]

PIECE = 1 << 26
"""Bytes that are staged at one time."""

PIECES = 4
"""How many of them are on their way at one time."""

WORTH_THREADS = 1 << 20
"""Bytes from which on several threads copy from one place in host memory to another."""

MOST_THREADS = 16
"""Threads that copy within host memory; PyTorch's number of threads, if that is less."""

ALIGNED = 256
"""Words of an array begin at multiples of it."""

LEAST_ROW, FARTHEST = 1 << 10, 1 << 30
"""Bytes of rows that are copied where they lie in pinned memory, and how far apart they may be.

The driver copies shorter ones slowly, and those more than 2^31 bytes apart not at all.
"""


class Link:
    """Plain copies, done when they return. A mark stands for what was launched before it."""

    def __init__(self, device: torch.device) -> None:
        self.device = device

    def staging(self, size: int) -> Tensor:
        """Host memory that copies are quick from and to."""
        return torch.empty(size, dtype=torch.uint8)

    def is_quick(self, x: Tensor) -> bool:
        """Whether copies from this memory need no staging."""
        return False

    def computed(self) -> Any:
        """A mark of all that was computed so far."""
        return None

    def send(self, target: Tensor, source: Tensor, after: Any) -> Any:
        """Copy rows of bytes to the device, after a mark; give a mark of it."""
        target.copy_(source)

    def fetch(self, target: Tensor, source: Tensor, after: Any) -> Any:
        """Copy rows of bytes from the device, after a mark; give a mark of it."""
        target.copy_(source)

    def expect(self, mark: Any) -> None:
        """What is computed from now on waits for a mark, if there is one."""

    def wait(self, mark: Any) -> None:
        """The host waits for a mark."""

    def finish(self) -> None:
        """The host waits for all copies."""


class Streams(Link):
    """Copies on a stream each way, which a GPU does while it computes."""

    def __init__(self, device: torch.device) -> None:
        super().__init__(device)
        self.computing = torch.cuda.current_stream(device)
        stream: Any = torch.cuda.Stream
        self.sending, self.fetching = stream(device), stream(device)

    def staging(self, size: int) -> Tensor:
        """Host memory that the system does not move, which PyTorch keeps for the next call."""
        return torch.empty(size, dtype=torch.uint8, pin_memory=True)

    def is_quick(self, x: Tensor) -> bool:
        """Whether the caller's memory is pinned."""
        return bool(x.is_pinned())

    def computed(self) -> Any:
        """An event on the stream that computes."""
        return self.computing.record_event()

    def send(self, target: Tensor, source: Tensor, after: Any) -> Any:
        """Copy to the GPU, after an event; give an event."""
        return self._copy(self.sending, target, source, after)

    def fetch(self, target: Tensor, source: Tensor, after: Any) -> Any:
        """Copy from the GPU, after an event; give an event."""
        return self._copy(self.fetching, target, source, after)

    def _copy(self, stream: Any, target: Tensor, source: Tensor, after: Any) -> Any:
        stream.wait_event(after)
        if target.is_contiguous() and source.is_contiguous():
            with torch.cuda.stream(stream):
                target.copy_(source, non_blocking=True)
        else:  # PyTorch would make a copy on the host first
            driver.enter(self.device.index)
            driver.copy_rows(_rows(target), _rows(source), source.shape, stream.cuda_stream)
        return stream.record_event()

    def expect(self, mark: Any) -> None:
        """What is launched from now on waits for an event, if there is one."""
        if mark is not None:  # nothing was sent, for it has no entries
            self.computing.wait_event(mark)

    def wait(self, mark: Any) -> None:
        """The host waits for an event."""
        mark.synchronize()

    def finish(self) -> None:
        """The host waits for all streams: memory that they use may then be given back."""
        for stream in (self.sending, self.fetching, self.computing):
            stream.synchronize()


def _rows(x: Tensor) -> tuple[int, int]:
    """Where rows of bytes begin, and how far apart they are."""
    return x.data_ptr(), x.stride(0)


# ── host memory ──────────────────────────────────────────────────────────────────────────────────


def in_place(x: Array, link: Link) -> Tensor | None:
    """The rows of a matrix as bytes, if copies may read or write them where they are.

    That is in pinned memory, and if all is one stretch of it, or rows are long and do not overlap.
    """
    width, (apart, step) = x.shape[1] * x.itemsize, x.strides
    are_long = step == x.itemsize and LEAST_ROW <= width <= apart < FARTHEST  # none overlap
    if not ((x.flags.c_contiguous or are_long) and x.flags.writeable and x.dtype.isnative):
        return None
    tensor = as_tensor(as_bits(x))
    return tensor.view(torch.uint8) if link.is_quick(tensor) else None


class Copier:
    """Copies within host memory, by several threads where that pays."""

    def __init__(self, threads: int) -> None:
        self.threads = threads
        self.pool = ThreadPoolExecutor(threads, "widen-copies")

    def __enter__(self) -> Copier:
        return self

    def __exit__(self, *error: object) -> None:
        self.pool.shutdown(cancel_futures=True)

    def copy(self, target: Array, source: Array) -> None:
        """Copy numbers, whatever their strides and byte order."""
        if target.nbytes < WORTH_THREADS or self.threads == 1:
            np.copyto(target, source)
            return
        axis = max(range(target.ndim), key=lambda axis: (target.shape[axis] >= 64, -axis))
        step = -(-target.shape[axis] // self.threads)
        cuts = [
            (*(slice(None),) * axis, slice(start, start + step))
            for start in range(0, target.shape[axis], step)
        ]
        list(self.pool.map(lambda cut: np.copyto(target[cut], source[cut]), cuts))


def cuts(shape: Sequence[int], most: int) -> Iterator[tuple[slice, slice, slice]]:
    """Pieces of an array (count, rows, width), each in one stretch of memory, of so many entries.

    >>> [(rows.start, rows.stop) for items, rows, entries in cuts((1, 3, 4), 8)]
    [(0, 2), (2, 3)]
    """
    count, rows, width = shape
    most = max(most, 1)
    items = max(1, most // max(rows * width, 1))
    few = rows if items > 1 else max(1, most // max(width, 1))
    for item in range(0, count, items):
        for row in range(0, rows, max(few, 1)):
            for start in range(0, width, most):
                yield (
                    slice(item, min(item + items, count)),
                    slice(row, min(row + few, rows)),
                    slice(start, min(start + most, width)),
                )


def as_bits(x: Array) -> Array:
    """The same array; NumPy copies its own integers faster than the bfloat16 of another package."""
    return x.view(np.int16) if dtype_name(x) == "bfloat16" else x


class Staging:
    """Pieces of pinned memory in a ring: one is filled while others are on their way."""

    def __init__(self, link: Link, copier: Copier, size: int) -> None:
        self.link, self.copier, self.size = link, copier, size
        self.marks: list[Any] = [None] * PIECES
        self.at = 0
        self.sent = 0

    @cached_property
    def pieces(self) -> list[Tensor]:
        """The pieces, which are taken when the first is needed."""
        return [self.link.staging(self.size) for _ in range(PIECES)]

    def send(self, target: Tensor, sources: Sequence[Array], after: Any) -> Any:
        """Copy matrices (rows, width) of the host to a contiguous tensor (count, rows, width)."""
        mark, item_size = None, target.element_size()
        if target.numel() == 0:
            return mark
        bits = [as_bits(source) for source in sources]
        self.sent += target.nbytes
        there = in_place(bits[0], self.link) if len(bits) == 1 else None
        if there is not None:
            return self.link.send(target[0].view(torch.uint8), there, after)
        dtype = bits[0].dtype.newbyteorder("=")
        for items, rows, columns in cuts(target.shape, self.size // item_size):
            part = target[items, rows, columns]
            piece = self._next()[: part.nbytes]
            filled = piece.numpy().view(dtype).reshape(part.shape)
            if part.shape[0] == 1:
                self.copier.copy(filled[0], bits[items.start][rows, columns])
            else:
                for row, source in zip(filled, bits[items], strict=True):
                    np.copyto(row, source)
            mark = self.link.send(_bytes(part), piece, after)
            self.marks[self.at] = mark
        return mark

    def _next(self) -> Tensor:
        """A piece that is not on its way any more."""
        self.at = (self.at + 1) % PIECES
        if self.marks[self.at] is not None:
            self.link.wait(self.marks[self.at])
        return self.pieces[self.at]


def _bytes(x: Tensor) -> Tensor:
    """A contiguous tensor as bytes."""
    return x.reshape(-1).view(torch.uint8)


@dataclass
class Arriving:
    """A panel of the result on its way to host memory."""

    mark: Any
    tensors: list[Tensor]
    staged: list[Array]
    targets: list[list[Array]]

    def put(self, copier: Copier) -> None:
        """Write it to its place, when it is there."""
        for staged, targets in zip(self.staged, self.targets, strict=True):
            for part, target in zip(staged, targets, strict=True):
                copier.copy(as_bits(target), as_bits(part))


class Results:
    """Panels of the result come back, each through one of two pieces of pinned memory.

    Those whose places are pinned go there.
    """

    def __init__(self, link: Link, copier: Copier, size: int) -> None:
        self.link, self.copier, self.size = link, copier, size
        self.waiting: list[Arriving] = []
        self.fetched = 0

    @cached_property
    def pieces(self) -> list[Tensor]:
        """The pieces, which are taken when the first is needed."""
        return [self.link.staging(self.size) for _ in range(2)]

    def fetch(self, tensors: Sequence[Tensor], targets: list[list[Array]]) -> None:
        """Begin to copy tensors (count, ...) to as many arrays of the host each."""
        self.put(most=1)
        after, start = self.link.computed(), 0
        staged: list[Array] = []
        staged_for: list[list[Array]] = []
        mark = after
        for tensor, arrays in zip(tensors, targets, strict=True):
            self.fetched += tensor.nbytes
            found = [in_place(array, self.link) for array in arrays]
            places = [place for place in found if place is not None]
            if len(places) == len(arrays):
                for place, matrix in zip(places, tensor, strict=True):
                    mark = self.link.fetch(place, matrix.view(torch.uint8), after)
                continue
            if not staged:
                self.pieces.reverse()
            stop = start + tensor.nbytes
            piece = self.pieces[0][start:stop]
            mark = self.link.fetch(piece, _bytes(tensor), after)
            dtype = numpy_dtype(str(tensor.dtype).removeprefix("torch."))
            staged.append(piece.numpy().view(dtype).reshape(tensor.shape))
            staged_for.append(arrays)
            start = -(-stop // ALIGNED) * ALIGNED
        self.waiting.append(Arriving(mark, list(tensors), staged, staged_for))

    def put(self, most: int = 0) -> None:
        """Write what came back to its place, until no more than so many are on their way."""
        while len(self.waiting) > most:
            arriving = self.waiting.pop(0)
            self.link.wait(arriving.mark)
            arriving.put(self.copier)
