"""Batches and broadcasting: an `np.matmul` of any shape as few three-dimensional products.

Nothing is copied: where views of the operands and of the result can be merged into one batch axis
that is done, and a batch times one matrix becomes one tall product, since rows do not know of each
other. Otherwise the items are taken one by one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from widen.cpu.operands import Array, Operand
from widen.encoded import Encoded
from widen.words import Words

Source = Operand | Encoded


@dataclass(frozen=True)
class Stack:
    """An array of numbers as views (*shape, parts) of its words, one for each of them.

    Plain arrays have one word; a part more or less does not change the shape.
    """

    words: tuple[Array, ...]

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the array of numbers."""
        return tuple(self.words[0].shape[:-1])

    def __getitem__(self, index: Any) -> Stack:
        return self._each(lambda word: word[index])

    def copied(self, shape: tuple[int, ...]) -> Stack:
        """The same numbers in this shape, in memory of their own, laid out as they were."""
        return self._each(lambda word: word.reshape(*shape, word.shape[-1]))._copy()

    def _copy(self) -> Stack:
        if len(self.words) == 1:
            return self._each(np.array)
        # One block, as kernels like it.
        first = self.words[0]
        order = sorted(range(first.ndim), key=lambda axis: -abs(first.strides[axis]))
        back = [order.index(axis) for axis in range(first.ndim)]
        dtype = np.result_type(*(word.dtype for word in self.words))
        block = np.empty((len(self.words), *(first.shape[axis] for axis in order)), dtype)
        made = Stack(tuple(word.transpose(back) for word in block))
        for target, word in zip(made.words, self.words, strict=True):
            target[...] = word
        return made

    def reshaped(self, shape: tuple[int, ...]) -> Stack | None:
        """The same numbers in another shape, without a copy, or None."""
        try:
            return self._each(lambda word: np.reshape(word, (*shape, word.shape[-1]), copy=False))
        except ValueError:
            return None

    def broadcast(self, shape: tuple[int, ...]) -> Stack:
        """The same numbers, repeated to this shape."""
        return self._each(lambda word: np.broadcast_to(word, (*shape, word.shape[-1])))

    def parts(self, count: int) -> tuple[Array, ...]:
        """Words as views (parts, *shape); imaginary parts that there are not are zeros."""
        return tuple(
            _with_parts(word, count).transpose(-1, *range(word.ndim - 1)) for word in self.words
        )

    def shares_memory(self, other: Stack) -> bool:
        """Whether writing to one may change the other."""
        return any(np.may_share_memory(x, y) for x in self.words for y in other.words)

    def _each(self, change: Callable[[Array], Array]) -> Stack:
        return Stack(tuple(change(word) for word in self.words))


def stack(x: Any) -> Stack:
    """An array or `Words` (of NumPy arrays) as views of its words."""
    if isinstance(x, Words):
        return Stack(tuple(plane.transpose(*range(1, plane.ndim), 0) for plane in x.planes))
    x = np.asarray(x)  # a matrix keeps two axes whatever one does
    if x.dtype.kind != "c":
        return Stack((x[..., None],))
    real = x.real
    shape, strides = (*real.shape, 2), (*real.strides, real.itemsize)
    whole = np.lib.stride_tricks.as_strided(real, shape, strides, writeable=real.flags.writeable)
    return Stack((whole,))


def _with_parts(word: Array, count: int) -> Array:
    """As many parts as asked for: fewer, or zeros where there is no imaginary one."""
    own = word.shape[-1]
    return word[..., :count] if own >= count else np.concatenate([word, np.zeros_like(word)], -1)


@dataclass(frozen=True)
class Piece:
    """One run: operands as lines, and views (parts, batch, m, n) of what it reads and writes.

    What is written and added has one view a word.
    """

    left: Source
    right: Source
    out: tuple[Array, ...]
    addend: tuple[Array, ...] | None
    bound: Array | None

    @property
    def shape(self) -> tuple[int, ...]:
        """(parts, batch, m, n)."""
        return tuple(self.out[0].shape)


def pieces(
    left: Stack | Encoded, right: Stack | Encoded, batch: tuple[int, ...], parts: int, *,
    out: Stack, addend: Stack | None = None, bound: Stack | None = None,
) -> Iterator[Piece]:  # fmt: skip
    """Split a product of matrices (..., m, k) and (..., k, n); results are (*batch, m, n)."""
    count = math.prod(batch)
    if count == 0:
        return
    written = [out, addend, bound]
    if not batch and isinstance(left, Stack) and isinstance(right, Stack):
        yield _piece(
            left[None], right[None], parts, [None if x is None else x[None] for x in written]
        )
        return
    merged = [_merge(x, batch) for x in (left, right)]
    results = [_reshaped(x, (count, *out.shape[-2:])) for x in written]
    if all(x is not None for x in merged) and _same(written, results):
        ours, theirs = merged
        if isinstance(ours, Stack) and ours.shape[0] > 1 and _length(theirs) == 1:
            tall = [_reshaped(x, (1, count * out.shape[-2], out.shape[-1])) for x in written]
            rows = ours.reshaped((1, ours.shape[0] * ours.shape[1], ours.shape[2]))
            if rows is not None and _same(written, tall):
                ours, results = rows, tall
        yield _piece(ours, theirs, parts, results)
        return
    for index in np.ndindex(*batch):
        ours, theirs = (_item(x, index, batch) for x in (left, right))
        yield _piece(ours, theirs, parts, [None if x is None else x[index][None] for x in written])


def _same(wanted: list[Stack | None], given: list[Stack | None]) -> bool:
    """Whether both lists have something at the same places."""
    return all((x is None) == (y is None) for x, y in zip(wanted, given, strict=True))


def split(piece: Piece, most: int) -> Iterator[Piece]:
    """The same in pieces of about `most` lines, whose exponents and norms take memory as well.

    Batch items first, then rows; an `Encoded` has its lines already and stays whole.
    """
    if isinstance(piece.left, Encoded) or isinstance(piece.right, Encoded):
        yield piece
        return
    _, batch, m, n = piece.shape
    if batch * (m + n) <= most:
        yield piece
        return
    items, rows = max(1, most // (m + n)), max(most // 2, most - n)
    for b in range(0, batch, items):
        for i in range(0, m, rows):
            block = slice(b, b + items), slice(i, i + rows)
            yield Piece(
                piece.left.cut(*block),
                piece.right.cut(block[0], slice(None)),
                tuple(word[:, *block] for word in piece.out),
                None if piece.addend is None else tuple(word[:, *block] for word in piece.addend),
                None if piece.bound is None else piece.bound[block],
            )


def _piece(left: Any, right: Any, parts: int, results: list[Any]) -> Piece:
    out, addend, bound = results
    return Piece(
        left if isinstance(left, Encoded) else lines(left, "left", parts),
        right if isinstance(right, Encoded) else lines(right, "right", parts),
        out.parts(parts),
        None if addend is None else addend.parts(parts),
        None if bound is None else bound.words[0][..., 0],
    )


def lines(matrices: Stack, side: str, parts: int) -> Operand:
    """An operand (batch, m, k) or (batch, k, n) as its rows or columns, part by part, views."""
    words = []
    for word in matrices.words:
        split = [word[..., part] for part in range(word.shape[-1])][:parts]
        if len(split) < parts:
            split.append(np.broadcast_to(np.zeros((), word.dtype), split[0].shape))
        words.append(tuple(x if side == "left" else x.swapaxes(1, 2) for x in split))
    return Operand(words[0], tuple(words[1:]))


def _merge(x: Stack | Encoded, batch: tuple[int, ...]) -> Stack | Encoded | None:
    """One batch axis, of length 1 if every item is the same; None if that needs a copy."""
    count = math.prod(batch)
    if isinstance(x, Encoded):
        return x if x.shape[0] in (1, count) else None
    own = x.shape[:-2]
    if math.prod(own) == 1:
        return x.reshaped((1, *x.shape[-2:]))
    return x.broadcast((*batch, *x.shape[-2:])).reshaped((count, *x.shape[-2:]))


def _reshaped(x: Stack | None, shape: tuple[int, ...]) -> Stack | None:
    return None if x is None else x.reshaped(shape)


def _length(x: Stack | Encoded | None) -> int:
    return x.shape[0] if x is not None else 0


def _item(x: Stack | Encoded, index: tuple[int, ...], batch: tuple[int, ...]) -> Any:
    own = (x.dims if isinstance(x, Encoded) else x.shape)[:-2]
    place = tuple(
        0 if size == 1 else at for at, size in zip(index[len(batch) - len(own) :], own, strict=True)
    )
    if isinstance(x, Encoded):
        return x.item(int(np.ravel_multi_index(place, own)) if own else 0)
    return x[place][None]
