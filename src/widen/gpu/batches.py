"""Operands and results of a call on a GPU, tensors or `Words`: shapes, memory, and as lines."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch

from widen.encoded import Encoded
from widen.formats import FORMATS, PLAIN, Binary, Format, computed_in
from widen.formats.arrays import format_of_array, meaningful, new_planes
from widen.gpu import operands
from widen.gpu.encode import held
from widen.gpu.operands import INTEGERS, Lines, Numbers, Target, Tensor
from widen.stages.problem import Call, matrix_dims
from widen.words import Words

Array = Tensor | Words


def planes(x: Array) -> list[Tensor]:
    """The tensors of an array: one, or one a word."""
    return list(x.planes) if isinstance(x, Words) else [x]


def each(x: Any, change: Callable[[Tensor, int], Tensor]) -> Any:
    """The same array with its tensors changed.

    `change` is given a tensor, and how many of its axes come before the array's own.
    """
    if isinstance(x, Words):
        return Words.of(x.format, [change(plane, 1) for plane in x.planes])
    return change(x, 0)


def reshaped(x: Any, dims: tuple[int, ...]) -> Any:
    """The same numbers in another shape."""
    return each(x, lambda tensor, before: tensor.reshape(*tensor.shape[:before], *dims))


def expanded(x: Any, dims: tuple[int, ...]) -> Any:
    """The same numbers, repeated to this shape."""
    return each(
        x,
        lambda tensor, before: tensor.reshape(
            *tensor.shape[:before], *(1,) * (len(dims) - len(x.shape)), *tensor.shape[before:]
        ).expand(*tensor.shape[:before], *dims),
    )


def copied(x: Any) -> Any:
    """The same numbers in memory of their own."""
    return x.copy() if isinstance(x, Words) else x.clone()


def copy_into(target: Any, x: Any) -> None:
    """Write the numbers of x to another array."""
    for to, source in zip(planes(target), planes(x), strict=True):
        to.copy_(source)


def empty(fmt: Format, dims: tuple[int, ...], where: torch.device) -> Any:
    """New memory for numbers of a format."""
    if fmt.name in PLAIN:
        return torch.empty(dims, dtype=getattr(torch, fmt.name), device=where)
    wide: Any = fmt
    return Words.of(wide, new_planes(wide, (wide.parts, *dims), where))


def room_for(fmt: Format, dims: tuple[int, ...], where: torch.device) -> Any:
    """New memory for what kernels write: of halves, 32 bits each (`operands.halves_of`)."""
    if is_half(fmt):
        return torch.empty(dims, dtype=torch.int32, device=where)
    return empty(fmt, dims, where)


def given_back(fmt: Format, target: Any, out: Any) -> Any:
    """What was computed as the caller wants it: halves of their own size, and in `out`."""
    if is_half(fmt):
        target = operands.halves_of(target, fmt.name)
    if out is None or target is out:
        return target
    copy_into(out, target)
    return out


def is_half(fmt: Format) -> bool:
    """Whether kernels write this format in 32 bits, of which it takes 16."""
    return fmt != computed_in(fmt)


def share_memory(x: Any, y: Any) -> bool:
    """Whether two arrays live in one storage."""
    return any(
        ours.untyped_storage().data_ptr() == theirs.untyped_storage().data_ptr()
        for ours, theirs in itertools.product(planes(x), planes(y))
    )


def lines_of(matrices: Any, side: str, parts: int) -> Lines:
    """(A batch of) matrices as lines, with one batch axis."""
    if matrices.ndim == 2:
        flat = reshaped(matrices, (1, *matrices.shape))
    else:
        dims = matrix_dims(tuple(matrices.shape), side)
        flat = reshaped(matrices, (math.prod(dims[:-2]), *dims[-2:]))
    if isinstance(matrices, Words):
        return operands.lines_of_words(list(flat.planes), side, parts)
    fmt = format_of_array(matrices).part
    if parts == 2 and not matrices.is_complex():
        fmt = FORMATS["float64" if matrices.dtype == torch.float64 else "float32"].part
    assert isinstance(fmt, Binary)
    return operands.as_lines(flat, side, parts, fmt)


def addend_lines(items: Any, fmt: Format) -> Lines:
    """Numbers (batch, m, n) as bits of the parts they have."""
    if isinstance(items, Words):
        return operands.lines_of_words(list(items.planes), "left", fmt.parts)
    assert isinstance(fmt.part, Binary)
    return Lines(operands.bits_of(items, fmt.parts), fmt.part)


def bits_of(out: Any, parts: int) -> Target:
    """Where a result (batch, m, n) is written: bits, of its first parts."""
    if not isinstance(out, Words):
        whole = out if parts == 2 or not out.is_complex() else out.real
        return operands.bits_of(whole, parts)
    words = [plane[:parts] for plane in out.planes]
    alike = [word for word in words if word.dtype == words[0].dtype]
    block = operands.stepped(operands.in_place(alike))
    assert len(alike) == 1 or block.data_ptr() == words[0].data_ptr()
    second = None
    if len(alike) < len(words):
        second = operands.stepped(words[-1].view(torch.int32))
        assert second.stride() == block.stride()[1:]
    return Numbers(block.view(operands.INTEGERS[block.element_size()]), second)


def in_one_block(out: Any) -> bool:
    """Whether kernels can write a result where it is: words at equal distances, strides alike.

    They cannot where PyTorch is to conjugate or negate what is there.
    """
    if not isinstance(out, Words):
        return not (out.is_conj() or out.is_neg())
    alike = [plane for plane in out.planes if plane.dtype == out.planes[0].dtype]
    if len({meaningful(plane.shape, plane.stride()) for plane in out.planes}) > 1:
        return False
    return len(alike) == 1 or operands.in_place(alike).data_ptr() == alike[0].data_ptr()


# ── the operands of a call ───────────────────────────────────────────────────────────────────────


def merged(call: Call) -> tuple[Lines | Encoded, Lines | Encoded]:
    """Operands with one batch axis; a batch times one matrix becomes one tall product.

    Rows do not know of each other, so that changes no bits. Axes that broadcast in between are
    copied.
    """
    sides: list[Any] = []
    given: Any = call.sides
    parts = call.work.parts
    if all(isinstance(x, torch.Tensor) and x.ndim == 2 for x, _ in given):  # as most calls are
        return lines_of(given[0][0], "left", parts), lines_of(given[1][0], "right", parts)
    for x, side in given:
        if isinstance(x, Encoded):
            sides.append(_repeated(x, call.batch))
            continue
        dims = matrix_dims(tuple(x.shape), side)
        matrices = reshaped(x, dims)
        if math.prod(dims[:-2]) != 1:
            matrices = expanded(matrices, (*call.batch, *dims[-2:]))
        sides.append(matrices)
    left, right = sides
    count = right.shape[0] if isinstance(right, Encoded) else math.prod(right.shape[:-2])
    if not isinstance(left, Encoded) and count == 1 and math.prod(left.shape[:-2]) > 1:
        left = reshaped(left, (1, math.prod(call.batch) * call.m, left.shape[-1]))
    ours, theirs = (
        x if isinstance(x, Encoded) else lines_of(x, side, parts)
        for x, side in ((left, "left"), (right, "right"))
    )
    return ours, theirs


def _repeated(x: Encoded, batch: tuple[int, ...]) -> Encoded:
    """An encoded operand with an item for each of a batch, or one for all, as kernels want it."""
    items = x.shape[0]
    if items in (1, math.prod(batch)):
        return x
    at = torch.arange(items, device=x.device).view(x.dims[:-2]).expand(batch).flatten()
    return replace(x, dims=(*batch, *x.dims[-2:]), held=held(x).items(at))


def zeros(call: Call, where: torch.device) -> tuple[Lines, Lines]:
    """Operands of one column and one row of zeros, in place of what is not read."""
    part = call.work.part.words[0]
    dtype = INTEGERS[8 if part.precision == 53 else 4]
    ours, theirs = (
        torch.zeros((1, count, 1, call.work.parts), dtype=dtype, device=where).movedim(-1, 0)
        for count in (math.prod(call.batch) * call.m, call.n)
    )
    return Lines(ours, part), Lines(theirs, part)
