"""What goes from process to process, counted: messages, maxima, sums, and agreement on a call."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from torch.distributed.device_mesh import DeviceMesh

from widen.distributed.boxes import Box, count, dims, messages, overlap, within

Tensor = torch.Tensor

TEXT = 1024
"""Bytes in which a process says what it was asked for."""


class CommunicationError(RuntimeError):
    """A process did not answer: it has stopped, or took longer than the group's timeout.

    >>> import widen.distributed
    >>> issubclass(widen.distributed.CommunicationError, RuntimeError)
    True
    """


class MismatchError(ValueError):
    """Processes that should do the same were asked for different things.

    >>> import widen.distributed
    >>> issubclass(widen.distributed.MismatchError, ValueError)
    True
    """


_counting: ContextVar[tuple[dict[str, int], ...]] = ContextVar("counting", default=())
_checking: ContextVar[bool] = ContextVar("checking", default=False)


@contextmanager
def checked() -> Iterator[None]:
    """Compare what processes are asked for in a block, for products that send nothing, too.

    Products that send something always compare shapes, formats, contracts and placements first.
    Where rows, columns, batches or replicas alone are cut, processes need nothing of each other,
    and do not wait for each other. In this block they do: one maximum of 40 bytes a product, which
    all processes have to take part in. Use it to test a program, or to find out which call differs.

    Examples
    --------
    >>> import widen.distributed
    >>> with widen.distributed.checked():
    ...     print("products that are called here are compared first")
    products that are called here are compared first
    """
    token = _checking.set(True)
    try:
        yield
    finally:
        _checking.reset(token)


def is_checking() -> bool:
    """Whether products that send nothing are compared, too."""
    return _checking.get()


@contextmanager
def counted() -> Iterator[dict[str, int]]:
    """Count the bytes that this process sends to others in a block, by step.

    A sum or a maximum over R processes counts 2 (R - 1)/R of its bytes, as every algorithm that
    sends the fewest does.

    Examples
    --------
    >>> import widen.distributed
    >>> with widen.distributed.counted() as sent:
    ...     pass    # widen.matmul(a, b), for instance
    >>> sent
    {}
    """
    sent: dict[str, int] = {}
    token = _counting.set((*_counting.get(), sent))
    try:
        yield sent
    finally:
        _counting.reset(token)


class Wire:
    """The processes of a mesh, as one of them sees them."""

    def __init__(self, mesh: DeviceMesh, what: str) -> None:
        self.mesh, self.what = mesh, what
        self.shape = tuple(mesh.shape)
        self.ranks: list[int] = mesh.mesh.flatten().tolist()
        place = mesh.get_coordinate()
        if place is None:
            raise ValueError(f"this process is none of {mesh}, so it has no part in {what}")
        self.place = tuple(place)
        self.me = self.ranks.index(dist.get_rank())
        backend = str(dist.get_backend())
        self.device = torch.device("cuda" if "nccl" in backend else "cpu")

    def count(self, step: str, size: int) -> None:
        """Take in bytes that were sent."""
        for sent in _counting.get():
            sent[step] = sent.get(step, 0) + size

    @contextmanager
    def _answered(self, step: str) -> Iterator[None]:
        """Say what was going on where somebody does not answer."""
        try:
            yield
        except RuntimeError as error:
            lines = str(error).splitlines() or [type(error).__name__]
            raise CommunicationError(
                f"{self.what}: a process of {self.mesh} did not answer during {step!r}, so there "
                f"is no result ({lines[0]}); see whether all processes still run and call the same "
                "in the same order, or give init_process_group a longer timeout"
            ) from error

    def exchange(
        self, step: str, outgoing: Mapping[int, Tensor], incoming: Mapping[int, int]
    ) -> dict[int, Tensor]:
        """Send bytes to some processes, and receive so many from others; by number in the mesh."""
        operations, received = [], {}
        with self._answered(step):
            for other, size in incoming.items():
                received[other] = torch.empty(size, dtype=torch.uint8, device=self.device)
                operations.append(dist.P2POp(dist.irecv, received[other], self.ranks[other]))
            for other, data in outgoing.items():
                sent = data.to(self.device).contiguous()
                self.count(step, sent.numel())
                operations.append(dist.P2POp(dist.isend, sent, self.ranks[other]))
            if operations:
                for work in dist.batch_isend_irecv(operations):
                    work.wait()
        return received

    def reduce(self, step: str, array: np.ndarray[Any, Any], how: str, axes: Sequence[int]) -> Any:
        """The maximum ("max") or sum ("sum") of integers over axes of the mesh."""
        data = torch.from_numpy(np.ascontiguousarray(array, np.int64))
        return self.merge(step, data, how, axes).cpu().numpy()

    def merge(self, step: str, tensor: Tensor, how: str, axes: Sequence[int]) -> Tensor:
        """The same of a tensor of integers, where that is; it may be changed."""
        data = tensor.to(self.device).contiguous()
        operation = {"max": dist.ReduceOp.MAX, "sum": dist.ReduceOp.SUM}[how]
        for axis in axes:
            size = self.shape[axis]
            if size > 1 and data.numel():
                with self._answered(step):
                    dist.all_reduce(data, operation, group=self.mesh.get_group(axis))
                self.count(step, 2 * (size - 1) * data.nbytes // size)
        return data.to(tensor.device)

    def agree(self, said: str) -> None:
        """Make sure that all processes were asked for the same, or raise an error in all of them.

        What begins with "error:" is an error of its own process, which all hear of.
        """
        axes = range(len(self.shape))
        digest = np.frombuffer(hashlib.sha256(said.encode()).digest()[:8], np.uint32).astype(int)
        failed = said.startswith("error:")
        most = self.reduce("agree", np.array([*digest, *-digest, failed]), "max", axes)
        if (most[:2] == -most[2:4]).all() and not most[4]:
            return
        own = np.zeros((len(self.ranks), TEXT), np.int64)
        text = said.encode()[:TEXT]
        own[self.me, : len(text)] = list(text)
        every = self.reduce("agree", own, "max", axes)
        words = [bytes(line[line > 0].astype(np.uint8)).decode(errors="replace") for line in every]
        by_text: dict[str, list[int]] = {}
        for rank, word in zip(self.ranks, words, strict=True):
            by_text.setdefault(word, []).append(rank)
        asked = "; ".join(
            f"rank{'s' * (len(ranks) > 1)} {', '.join(map(str, ranks))}: {word}"
            for word, ranks in by_text.items()
        )
        raise MismatchError(f"{self.what}: processes were asked for different things. {asked}")

    def fetch(
        self, step: str, tensor: Tensor, held: Sequence[Box], wanted: Sequence[Box], lead: int = 0
    ) -> Tensor:
        """The wanted box of a tensor of which it holds one.

        `lead` axes come before those of the boxes.
        """
        mine, target = held[self.me], wanted[self.me]
        shape = (*tensor.shape[:lead], *dims(target))
        if all(map(_holds, held, wanted)):
            if not count(target):
                return tensor.new_empty(shape)
            return tensor[(slice(None),) * lead + within(target, mine)]
        plan = messages(held, wanted, self.shape)
        result = tensor.new_empty(shape)
        every = (slice(None),) * lead
        here = overlap(mine, target)
        if count(here):
            result[every + within(here, target)] = tensor[every + within(here, mine)]
        item = tensor.element_size() * math.prod(tensor.shape[:lead])
        outgoing: dict[int, list[Tensor]] = {}
        incoming: dict[int, list[Box]] = {}
        for message in plan:
            if message.source == self.me:
                part = tensor[every + within(message.box, mine)].contiguous()
                outgoing.setdefault(message.target, []).append(as_bytes(part))
            if message.target == self.me:
                incoming.setdefault(message.source, []).append(message.box)
        sizes = {
            source: sum(count(box) * item for box in of_source)
            for source, of_source in incoming.items()
        }
        given = {other: torch.cat(parts) for other, parts in outgoing.items()}
        for source, data in self.exchange(step, given, sizes).items():
            start = 0
            for box in incoming[source]:
                part_shape = (*tensor.shape[:lead], *dims(box))
                size = count(box) * item
                part = from_bytes(data[start : start + size], tensor).reshape(part_shape)
                result[every + within(box, target)] = part
                start += size
        return result


def _holds(ours: Box, theirs: Box) -> bool:
    """Whether a box holds another."""
    return not count(theirs) or overlap(ours, theirs) == theirs


def as_bytes(x: Tensor) -> Tensor:
    """A contiguous tensor as bytes, a view."""
    x = x.resolve_conj().resolve_neg()
    return (torch.view_as_real(x) if x.is_complex() else x).reshape(-1).view(torch.uint8)


def from_bytes(data: Tensor, like: Tensor) -> Tensor:
    """Bytes as numbers of a tensor's kind, flat, where that tensor is."""
    return data.to(like.device).contiguous().view(like.dtype)
