"""Operands that are sharded: tensors, or words, of which every process holds a part."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor, Replicate, Shard

from widen.distributed.boxes import Box, Placements, boxes
from widen.distributed.wire import Wire
from widen.words import Words

Tensor = torch.Tensor


@dataclass(frozen=True)
class Sharded:
    """An operand: its whole shape, where it lies, and what this process holds of it.

    `planes` are one tensor, or the planes (parts, ...) of words, whose format is `words`.
    """

    name: str
    shape: tuple[int, ...]
    placements: Placements
    mesh: DeviceMesh
    planes: tuple[Tensor, ...]
    words: Any = None

    @property
    def ndim(self) -> int:
        """Axes of the whole."""
        return len(self.shape)

    @property
    def bytes_an_element(self) -> int:
        """Bytes of a number."""
        parts = 1 if self.words is None else self.words.parts
        return sum(parts * plane.element_size() for plane in self.planes)

    @property
    def local(self) -> Any:
        """What this process holds: a tensor, or `Words`."""
        return self.planes[0] if self.words is None else Words.of(self.words, self.planes)

    def boxes(self) -> tuple[Box, ...]:
        """What every process holds."""
        return boxes(self.shape, self.placements, tuple(self.mesh.shape))

    def fetched(self, wire: Wire, step: str, wanted: tuple[Box, ...]) -> Any:
        """Another box of it, from whoever holds it: a tensor, or `Words`."""
        held, lead = self.boxes(), int(self.words is not None)
        planes = [wire.fetch(step, plane, held, wanted, lead) for plane in self.planes]
        return planes[0] if self.words is None else Words.of(self.words, planes)

    def spread(self, axes: Sequence[int], ndim: int) -> Sharded:
        """The same with more axes: its own become these, and the others have length 1."""
        lead = int(self.words is not None)

        def shaped(sizes: Sequence[int]) -> tuple[int, ...]:
            lengths = [1] * ndim
            for axis, size in zip(axes, sizes, strict=True):
                lengths[axis] = size
            return tuple(lengths)

        placements = tuple(
            Shard(axes[placement.dim]) if isinstance(placement, Shard) else placement
            for placement in self.placements
        )
        planes = tuple(
            plane.reshape(*plane.shape[:lead], *shaped(plane.shape[lead:])) for plane in self.planes
        )
        return Sharded(self.name, shaped(self.shape), placements, self.mesh, planes, self.words)

    def with_matrix_axes(self, side: str) -> Sharded:
        """The same with two axes or more: a vector is a row on the left, a column on the right."""
        return self if self.ndim != 1 else self.spread([1 if side == "left" else 0], 2)


def is_sharded(x: Any) -> bool:
    """Whether x is a DTensor, or words of them."""
    return isinstance(x.planes[0] if isinstance(x, Words) else x, DTensor)


def sharded(x: Any, name: str) -> Sharded:
    """An operand as it lies, with an error that names the fix where it cannot be taken."""
    if not is_sharded(x):
        kind = type(x).__name__
        raise TypeError(
            f"{name} is a {kind} and the other operand a DTensor: give distribute_tensor({name}, "
            "mesh, [Replicate()]) if every process has all of it"
        )
    first = x.planes[0] if isinstance(x, Words) else x
    lead = int(isinstance(x, Words))
    mesh: DeviceMesh = first.device_mesh
    if mesh.ndim > 2:
        raise ValueError(f"{name} lies on a mesh of {mesh.ndim} axes; meshes of 1 or 2 are served")
    ndim = first.ndim - lead
    placements: list[Any] = []
    for placement in first.placements:
        if placement.is_partial():
            raise ValueError(
                f"{name} is Partial: its parts are not summed yet, and a sum in floats would round "
                f"it silently. Give {name}.redistribute(placements=[Replicate()]), or multiply "
                "before you sum"
            )
        if placement.is_replicate():
            placements.append(Replicate())
        elif type(placement) is Shard and placement.dim % first.ndim >= lead:
            placements.append(Shard(placement.dim % first.ndim - lead))
        else:
            raise ValueError(
                f"{name} is placed as {placement}, which is not served; redistribute it to Shard "
                "or Replicate"
            )
    tensors = x.planes if isinstance(x, Words) else (x,)
    planes = tuple(tensor.to_local() for tensor in tensors)
    shape = tuple(first.shape[lead:])
    held = boxes(shape, tuple(placements), tuple(mesh.shape))
    at = mesh.mesh.flatten().tolist().index(torch.distributed.get_rank())
    own = tuple(stop - start for start, stop in held[at])
    if tuple(planes[0].shape[lead:]) != own:
        raise ValueError(
            f"{name} has shape {shape} and placements {tuple(placements)}, so this process should "
            f"hold {own} of it; it holds {tuple(planes[0].shape[lead:])}: redistribute it evenly"
        )
    assert ndim == len(shape)
    words = x.format if isinstance(x, Words) else None
    return Sharded(name, shape, tuple(placements), mesh, planes, words)


def whole(local: Any, shape: tuple[int, ...], placements: Placements, mesh: DeviceMesh) -> Any:
    """A DTensor (or words of them) from what every process has of it."""
    if isinstance(local, Words):
        moved = tuple(
            Shard(placement.dim + 1) if isinstance(placement, Shard) else placement
            for placement in placements
        )
        planes = [_dtensor(x, (x.shape[0], *shape), moved, mesh) for x in local.planes]
        return Words.of(local.format, planes)
    return _dtensor(local, shape, placements, mesh)


def _dtensor(
    local: Tensor, shape: tuple[int, ...], placements: Placements, mesh: DeviceMesh
) -> DTensor:
    stride: list[int] = []
    step = 1
    for size in reversed(shape):
        stride.insert(0, step)
        step *= max(size, 1)
    made: DTensor = DTensor.from_local(
        local.contiguous(), mesh, placements, run_check=False, shape=torch.Size(shape),
        stride=tuple(stride),
    )  # fmt: skip
    return made


def distribute_words(x: Words, mesh: DeviceMesh, placements: Placements) -> Words:
    """Words of DTensors from words that every process has all of, without communication.

    Parameters
    ----------
    x
        `Words` of tensors or arrays, the same in every process.
    mesh, placements
        As for `torch.distributed.tensor.distribute_tensor`; axes are those of the numbers.

    Examples
    --------
    >>> import torch, torch.distributed as dist, widen.distributed
    >>> from torch.distributed.device_mesh import init_device_mesh
    >>> from torch.distributed.tensor import Shard
    >>> dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    >>> mesh = init_device_mesh("cpu", (1,))
    >>> x = widen.Words([1, 2], dtype="float64x2")
    >>> widen.distributed.distribute_words(x, mesh, [Shard(0)]).shape
    (2,)
    >>> dist.destroy_process_group()
    """
    tensors = x if isinstance(x.planes[0], Tensor) else x.to_torch()
    full = Sharded("x", tuple(x.shape), (Replicate(),) * mesh.ndim, mesh, tuple(tensors.planes),
                   x.format)  # fmt: skip
    wanted = boxes(full.shape, tuple(placements), tuple(mesh.shape))
    local = full.fetched(Wire(mesh, "widen.distributed.distribute_words"), "distribute", wanted)
    made: Words = whole(local, full.shape, tuple(placements), mesh)
    return made
