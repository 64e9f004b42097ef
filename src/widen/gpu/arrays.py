"""Tensors and `Words` of tensors alike: shapes, memory, what a GPU's stages read and write."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any

import torch

from widen.formats import FORMATS, PLAIN, Binary, Format
from widen.formats.arrays import format_of_array, meaningful, new_planes
from widen.gpu import operands
from widen.gpu.operands import Lines, Numbers, Target, Tensor
from widen.stages.problem import matrix_dims
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
