"""Arithmetic on planes of words: one fused kernel an operation, on the CPU or the GPU they are on.

Kernels see an operand as (words, parts, elements), where one element stands for all and a real
number for both parts of a complex one.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from widen.cpu import kernels
from widen.cpu.threads import launch
from widen.formats import Multiple
from widen.formats.arrays import (
    Planes,
    block_of,
    eager,
    empty,
    is_tensor,
    library_of,
    new_planes,
    place_of,
    words_of,
)
from widen.gpu.replay.private import pytorch_and_triton

Array = np.ndarray[Any, Any]

OPERATIONS = {"add": 0, "subtract": 1, "multiply": 2, "divide": 3, "root": 4}
TILE = 512
"""Elements of a tile of the CPU kernels (cpu/kernels/words.py)."""


def kernel_of(part: Multiple, operation: str, parts: int) -> str:
    """Which kernel serves a format: pairs, three words of float32, or any number of words."""
    if len(part.words) == 2:
        return "pairs"
    if part.name == "float32x3" and (operation in ("add", "subtract") or parts == 1):
        return "triples" if operation in ("add", "subtract", "multiply") else "several"
    return "several"


@eager
def apply(
    operation: str, part: Multiple, x: Planes, y: Planes | None, parts: int, shape: tuple[int, ...]
) -> Planes:
    """The numbers x op y, both with words of the format `part`, as new planes (parts, *shape).

    Products of two complex numbers are complex ones; everything else goes part by part, and a
    divisor is real.
    """
    place = place_of(x[0])
    z = new_planes(part, (parts, *shape), place)
    if math.prod((parts, *shape)) == 0:
        return z
    operands = [_operand(planes, shape) for planes in (x, x if y is None else y)]
    result = _blocks(z)
    if place is not None and place.type != "cpu":
        if place.type != "cuda":
            raise ValueError(f"tensors on {place} are not served; use a CUDA device or .cpu()")
        with pytorch_and_triton():
            from widen.words import elementwise_gpu
        elementwise_gpu.apply(operation, kernel_of(part, operation, parts), operands, result)
        return z
    blocks = [_array(block) for pair in (*operands, result) for block in pair]
    tiles = parts * -(-result[0].shape[2] // TILE)
    work = result[0].shape[2] * parts * len(words_of(part)) ** 2
    by_name = {
        "pairs": kernels.words.pairs,
        "triples": kernels.words.triples,
        "several": kernels.words.several,
    }
    kernel = by_name[kernel_of(part, operation, parts)]
    launch(kernel, tiles, work, OPERATIONS[operation], *blocks)
    return z


def _blocks(planes: Planes) -> tuple[Any, Any]:
    """Words of the first dtype, and float32 words behind them, as (words, parts, elements)."""
    parts = planes[0].shape[0]
    size = math.prod(planes[0].shape[1:])
    if planes[0].dtype == planes[-1].dtype:
        block = block_of(planes).reshape(len(planes), parts, size)
        return block, empty((0, parts, size), "float32", place_of(block))
    first, second = (block_of((plane,)).reshape(1, parts, size) for plane in planes)
    return first, second


def _operand(planes: Planes, shape: tuple[int, ...]) -> tuple[Any, Any]:
    """An operand for results of this shape: its own elements, or one that stands for all."""
    own = tuple(planes[0].shape[1:])
    if own != shape and math.prod(own) != 1:
        whole = (planes[0].shape[0], *shape)
        grown = (len(shape) - len(own)) * (1,)
        planes = tuple(
            library_of(plane).broadcast_to(plane.reshape((plane.shape[0], *grown, *own)), whole)
            for plane in planes
        )
    return _blocks(planes)


def _array(block: Any) -> Any:
    """A block as the kernels are compiled for: a contiguous, aligned, writeable array."""
    if is_tensor(block):
        block = block.detach().numpy()
    return np.require(block, requirements=["C", "A", "W"])


@eager
def totals(
    part: Multiple, x: Array, y: Array | None, signs: list[int], scaled: bool = False
) -> tuple[Array, Array]:
    """Words (count, outputs) of exact sums of x, or of products x y, and the powers of 4 taken out.

    Operands are float64 arrays (terms, words, outputs, inner), of finite numbers.
    """
    terms, count, outputs, inner = x.shape
    out, shifts = np.zeros((len(part.words), outputs)), np.zeros(outputs, np.int64)
    if y is None:
        y = np.empty((terms, 0, outputs, inner))
    settings = np.array([(word.precision, word.lowest, word.highest) for word in part.words])
    work = 4 * terms * count * max(y.shape[1], 1) * outputs * max(inner, 1)
    launch(
        kernels.totals.totals, outputs, work, x.view(np.int64), y.view(np.int64),
        np.array(signs, np.int64), scaled, settings, out, shifts,
    )  # fmt: skip
    return out, shifts
