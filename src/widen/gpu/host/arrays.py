"""Arrays in host memory as matrices, word by word, and their panels on the device."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from widen.formats import PLAIN, Format
from widen.formats.arrays import dtype_name, empty, format_of_array, new_planes
from widen.gpu.host.copies import ALIGNED, Array, Link, Staging
from widen.gpu.operands import Tensor
from widen.stages.problem import Call
from widen.words import Words


@dataclass(frozen=True)
class Matrices:
    """An operand or a result in host memory, word by word: views (parts, *batch, rows, columns).

    Numbers of one word have no parts of their own here: a complex one is one entry.
    """

    planes: tuple[Array, ...]
    batch: tuple[int, ...]

    @property
    def columns_near(self) -> bool:
        """Whether neighbours in a column lie closer in memory than neighbours in a row."""
        rows, columns = self.planes[0].strides[-2:]
        return abs(rows) < abs(columns)

    def views(self, items: Sequence[int], rows: slice, columns: slice) -> list[list[Array]]:
        """For each word, matrices of these items, one part of all of them after the other."""
        places = [np.unravel_index(item, self.batch) for item in items]
        return [
            [part[(*place, rows, columns)] for part in plane for place in places]
            for plane in self.planes
        ]

    def room_for(self, numbers: int) -> int:
        """Bytes of so many numbers, words at multiples of `ALIGNED`."""
        return sum(
            -(-plane.itemsize * plane.shape[0] * numbers // ALIGNED) * ALIGNED
            for plane in self.planes
        )

    def laid_out(self, memory: Tensor, shape: tuple[int, int, int]) -> list[Tensor]:
        """Tensors (parts, items, rows, columns) for each word in a memory, in the same order."""
        made, start = [], 0
        for plane in self.planes:
            whole = (plane.shape[0], *shape)
            size = plane.itemsize * math.prod(whole)
            dtype = getattr(torch, dtype_name(plane))
            made.append(memory[start : start + size].view(dtype).view(whole))
            start += -(-size // ALIGNED) * ALIGNED
        return made


def words_in(x: Any) -> list[Array]:
    """The arrays that an array in host memory is made of."""
    return list(x.planes) if isinstance(x, Words) else [np.asarray(x)]


def matrices_of(x: Any, missing: tuple[int, ...], dims: tuple[int, ...] | None = None) -> Matrices:
    """An array as matrices, repeated to a shape; `missing` are axes that vectors do not have."""
    made = []
    for word in words_in(x):
        plane = word if isinstance(x, Words) else word[None]
        if dims is not None:
            more = (1,) * (len(dims) - len(x.shape))
            plane = plane.reshape(len(plane), *more, *x.shape)
            plane = np.broadcast_to(plane, (len(plane), *dims))
        for axis in missing:
            plane = np.expand_dims(plane, axis)
        made.append(plane)
    return Matrices(tuple(made), tuple(made[0].shape[1:-2]))


def new_result(fmt: Format, dims: tuple[int, ...]) -> Any:
    """Host memory for a result."""
    if fmt.name in PLAIN:
        return empty(dims, fmt.name, None)
    wide: Any = fmt
    return Words.of(wide, new_planes(wide, (wide.parts, *dims), None))


def result_for(call: Call, c: Any, out: Any) -> Any:
    """Where panels of the result are written: `out`, unless something that is read lies there.

    What is added may, element by element: it is sent before its place is written.
    """
    if out is None:
        return new_result(call.fmt, call.dims)
    read = [call.left, call.right]
    if c is not None and not _is_same(c, out):
        read.append(c)
    words, written = [word for x in read for word in words_in(x)], words_in(out)
    shared = any(np.may_share_memory(x, y) for x, y in itertools.product(words, written))
    return new_result(call.fmt, call.dims) if shared else out


def given_back(target: Any, out: Any) -> Any:
    """A result as the caller wants it: in `out`, or a scalar where it has no axes."""
    if out is None:
        return target[()] if isinstance(target, np.ndarray) and not target.ndim else target
    if out is not target:
        for word, value in zip(words_in(out), words_in(target), strict=True):
            word[...] = value
    return out


def _is_same(x: Any, y: Any) -> bool:
    """Whether two arrays have the same numbers at the same places of one memory."""
    ours, theirs = words_in(x), words_in(y)
    return len(ours) == len(theirs) and all(
        (a.shape, a.strides, a.dtype, a.__array_interface__["data"][0])
        == (b.shape, b.strides, b.dtype, b.__array_interface__["data"][0])
        for a, b in zip(ours, theirs, strict=True)
    )


@dataclass
class Place:
    """Memory on the device for a panel; marks of its last reader, and of its arrival."""

    memory: Tensor
    free: Any
    arrived: Any = None


class Operand:
    """An operand in host memory, and its places on the device."""

    def __init__(self, x: Any, matrices: Matrices, places: int, numbers: int, link: Link) -> None:
        self.fmt, self.matrices = format_of_array(x), matrices
        size = matrices.room_for(numbers)
        self.places = [
            Place(torch.empty(size, dtype=torch.uint8, device=link.device), link.computed())
            for _ in range(places)
        ]

    @property
    def nbytes(self) -> int:
        """Bytes on the device."""
        return sum(place.memory.nbytes for place in self.places)

    def _tensors(self, slot: int, items: int, rows: int, columns: int) -> list[Tensor]:
        """Where a panel lies, each word (parts, items, ...), in the order of the host's memory."""
        shape = (items, columns, rows) if self.matrices.columns_near else (items, rows, columns)
        return self.matrices.laid_out(self.places[slot].memory, shape)

    def send(
        self, staging: Staging, slot: int, items: Sequence[int], rows: slice, columns: slice
    ) -> None:
        """Send a panel to its place."""
        place, swapped = self.places[slot], self.matrices.columns_near
        shape = len(items), rows.stop - rows.start, columns.stop - columns.start
        views = self.matrices.views(items, rows, columns)
        for tensor, sources in zip(self._tensors(slot, *shape), views, strict=True):
            given = [x.T for x in sources] if swapped else sources
            place.arrived = staging.send(tensor.flatten(0, 1), given, place.free)

    def panel(self, slot: int, items: int, rows: int, columns: int) -> Any:
        """A panel on the device, a tensor or `Words`; a single item has no batch axis."""
        made = self._tensors(slot, items, rows, columns)
        if self.matrices.columns_near:
            made = [tensor.mT for tensor in made]
        if items == 1:
            made = [tensor[:, 0] for tensor in made]
        if self.fmt.name in PLAIN:
            return made[0][0]
        wide: Any = self.fmt
        return Words.of(wide, made)
