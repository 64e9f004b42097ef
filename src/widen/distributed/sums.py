"""Sums over processes: exact, rounded once, the same bits in any order of any number of terms."""

from __future__ import annotations

import math
from functools import cache

import numpy as np
import torch
import torch.distributed as dist
from torch.distributed.device_mesh import DeviceMesh

from widen.calls import dispatch
from widen.distributed.boxes import chunk
from widen.distributed.wire import Wire, as_bytes, from_bytes
from widen.options import Options

Tensor = torch.Tensor

MOST_WORDS = 200
"""More than any sum of floats takes: exponents of float64 span 2100 bits, a word has 53."""


def all_reduce(x: Tensor, mesh: DeviceMesh | None = None, *, addends: int | None = None) -> Tensor:
    """The sum of a tensor over processes, exact, every element rounded once.

    Parameters
    ----------
    x
        A tensor of float16, bfloat16, float32, float64, complex64 or complex128, of the same shape
        in every process.
    mesh
        Processes to sum over, a mesh of one axis; all of them by default.
    addends
        An axis of x along which this process has several terms: they are summed as well, in the
        same exact sum. Then the number of processes that share the terms does not matter.

    Returns
    -------
    Tensor
        The same in every process. NaN and infinities as ordinary sums have them, zeros are +0.

    Notes
    -----
    Terms are sent as they are, each element to the process that sums it, and sums to all: as many
    bytes as the ordinary all-reduce takes. With `addends`, the exact sum of a process's terms is
    sent in as many words as it needs, two or three as a rule.

    Examples
    --------
    >>> import torch, torch.distributed as dist, widen.distributed
    >>> dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    >>> terms = torch.tensor([[1e16], [1.0], [-1e16]], dtype=torch.float64)
    >>> widen.distributed.all_reduce(terms, addends=0)
    tensor([1.], dtype=torch.float64)
    >>> dist.destroy_process_group()
    """
    wire = _wire(mesh, "widen.distributed.all_reduce")
    words = _agreed_words(wire, x, addends, "all_reduce")
    shape = words.shape[1:]
    size = math.prod(shape)
    own = _owned_sums(wire, words.reshape(len(words), size), x.dtype)
    held = tuple((chunk(0, size, wire.shape[0], at),) for at in range(wire.shape[0]))
    every = (((0, size),),) * wire.shape[0]
    return wire.fetch("sums", own, held, every).reshape(shape)


def reduce_scatter(
    x: Tensor, mesh: DeviceMesh | None = None, *, axis: int = 0, addends: int | None = None
) -> Tensor:
    """The process's own part of a sum over processes, exact, every element rounded once.

    Parameters
    ----------
    x, mesh, addends
        As for `all_reduce`.
    axis
        Which axis of the sum is cut, as PyTorch cuts it: parts as long as the first, or shorter.

    Examples
    --------
    >>> import torch, torch.distributed as dist, widen.distributed
    >>> dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    >>> widen.distributed.reduce_scatter(torch.tensor([1.0, 2.0]))
    tensor([1., 2.])
    >>> dist.destroy_process_group()
    """
    wire = _wire(mesh, "widen.distributed.reduce_scatter")
    words = _agreed_words(wire, x, addends, f"reduce_scatter axis={axis}")
    if not -(words.ndim - 1) <= axis < words.ndim - 1:
        raise ValueError(f"axis={axis}, but the sum has {words.ndim - 1} axes")
    axis %= words.ndim - 1
    return _owned_sums(wire, words, x.dtype, axis)


def _wire(mesh: DeviceMesh | None, what: str) -> Wire:
    mesh = _everybody() if mesh is None else mesh
    if mesh.ndim != 1:
        raise ValueError(f"{what}: the mesh has {mesh.ndim} axes; give one of them, mesh['name']")
    return Wire(mesh, what)


def _everybody() -> DeviceMesh:
    """All processes, as a mesh."""
    return _mesh_of(id(dist.group.WORLD), dist.get_world_size(), str(dist.get_backend()))


@cache
def _mesh_of(group: int, size: int, backend: str) -> DeviceMesh:
    """One for every process group that there was."""
    return DeviceMesh("cuda" if "nccl" in backend else "cpu", torch.arange(size))


def _agreed_words(wire: Wire, x: Tensor, addends: int | None, what: str) -> Tensor:
    """Words (count, *shape) whose exact sum is that of this process's terms."""
    given = list(x.shape)
    try:
        if not (x.is_floating_point() or x.is_complex()):
            raise TypeError(f"x holds {x.dtype}; widen sums floats: give x.to(torch.float64)")
        if addends is not None:
            del given[addends]
    except (TypeError, IndexError) as error:
        wire.agree(f"error: {type(error).__name__}: {error}")
        raise
    wire.agree(f"{what} {given} {x.dtype} {addends is not None}")
    x = x.detach()
    if addends is None:
        return x[None]
    terms = x.movedim(addends, 0)
    return terms if len(terms) < 2 else _distilled(terms)


def _distilled(terms: Tensor) -> Tensor:
    """Fewer words with the same exact sum: the rounded sum, what that leaves, and so on.

    Terms as they are where that is no gain, or where a sum overflows.
    """
    flat = terms.reshape(len(terms), math.prod(terms.shape[1:]))
    special = ~torch.isfinite(flat).all(0)
    rest, words = flat, list[Tensor]()
    while len(words) < min(len(terms), MOST_WORDS):
        word = _rounded(rest, flat.dtype)
        words.append(torch.where(special, flat.sum(0) if not words else 0 * word, word))
        if bool((~torch.isfinite(word) & ~special).any()):
            return terms
        rest = torch.cat([rest, -word[None]])
        if not bool(((word != 0) & ~special).any()):
            break
    else:
        return terms
    kept = torch.stack(words[:-1] or words)
    kept[1:, special] = 0
    return kept.reshape(len(kept), *terms.shape[1:])


def _rounded(terms: Tensor, dtype: torch.dtype) -> Tensor:
    """The exact sums of terms (count, n), each rounded once."""
    ones = terms.new_ones(1, len(terms))
    options = Options("correct", str(dtype).removeprefix("torch."))
    total: Tensor = dispatch.matmul(ones, terms, None, options)
    return total[0]


def _owned_sums(wire: Wire, words: Tensor, dtype: torch.dtype, axis: int = 0) -> Tensor:
    """Rounded sums of the elements that this process owns, cut along an axis of them."""
    me, count = wire.me, wire.shape[0]
    size = words.shape[1 + axis]
    parts = [chunk(0, size, count, at) for at in range(count)]
    counts = np.zeros(count, np.int64)
    counts[me] = len(words)
    counts = wire.reduce("counts", counts, "max", [0])

    def part(at: int) -> Tensor:
        return words.narrow(1 + axis, parts[at][0], parts[at][1] - parts[at][0]).contiguous()

    own = part(me)
    outgoing = {at: as_bytes(part(at)) for at in range(count) if at != me and part(at).numel()}
    item = words.element_size() * math.prod(own.shape[1:])
    incoming = {at: int(counts[at]) * item for at in range(count) if at != me and item}
    received = wire.exchange("terms", outgoing, {at: n for at, n in incoming.items() if n})
    others = [
        from_bytes(data, words).reshape(int(counts[at]), *own.shape[1:])
        for at, data in sorted(received.items())
    ]
    terms = torch.cat([own, *others])
    if not terms.numel():
        return terms.new_zeros(own.shape[1:])
    return _rounded(terms.reshape(len(terms), math.prod(own.shape[1:])), dtype).reshape(
        own.shape[1:]
    )
