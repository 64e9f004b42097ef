"""Operands of a call on a GPU as lines with one batch axis; what does not merge is copied."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import torch

from widen.encoded import Encoded
from widen.gpu.arrays import expanded, lines_of, reshaped
from widen.gpu.encode import held
from widen.gpu.operands import INTEGERS, Lines
from widen.stages.problem import Call, matrix_dims


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
