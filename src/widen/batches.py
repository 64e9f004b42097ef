"""Batches and broadcasting: an `np.matmul` of any shape as few three-dimensional products.

Nothing is copied: where views of the operands and of the result can be merged into one batch axis
that is done, and a batch times one matrix becomes one tall product, since rows do not know of each
other. Otherwise the items are taken one by one.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from widen.backends.operands import Array, Operand, joined
from widen.encoded import Encoded

Source = Operand | Encoded


@dataclass(frozen=True)
class Piece:
    """One run: operands as lines, and views (parts, batch, m, n) of what it reads and writes."""

    left: Source
    right: Source
    out: Array
    addend: Array | None
    bound: Array | None


def pieces(
    left: Array | Encoded, right: Array | Encoded, batch: tuple[int, ...], parts: int,
    out: Array, addend: Array | None, bound: Array | None,
) -> Iterator[Piece]:  # fmt: skip
    """Split a product of matrices (..., m, k) and (..., k, n); results are (*batch, m, n)."""
    count = math.prod(batch)
    if count == 0:
        return
    if not batch and isinstance(left, np.ndarray) and isinstance(right, np.ndarray):
        results = [None if x is None else x[None] for x in (out, addend, bound)]
        yield _piece(left[None], right[None], parts, results)
        return
    written = [out, addend, bound]
    merged = [_merge(x, batch) for x in (left, right)]
    results = [_reshaped(x, (count, *out.shape[-2:])) for x in written]
    if all(x is not None for x in merged) and _same(written, results):
        ours, theirs = merged
        if isinstance(ours, np.ndarray) and len(ours) > 1 and _length(theirs) == 1:
            tall = [_reshaped(x, (1, count * out.shape[-2], out.shape[-1])) for x in written]
            rows = _reshaped(ours, (1, -1, ours.shape[2]))
            if rows is not None and _same(written, tall):
                ours, results = rows, tall
        yield _piece(ours, theirs, parts, results)
        return
    for index in np.ndindex(*batch):
        ours, theirs = (_item(x, index, batch) for x in (left, right))
        yield _piece(ours, theirs, parts, [None if x is None else x[index][None] for x in written])


def _same(wanted: list[Array | None], found: list[Array | None]) -> bool:
    """Whether everything wanted was found."""
    return all((x is None) == (y is None) for x, y in zip(wanted, found, strict=True))


def split(piece: Piece, most: int) -> Iterator[Piece]:
    """The same in pieces of about `most` lines, whose exponents and norms take memory as well.

    Batch items first, then rows; an `Encoded` has its lines already and stays whole.
    """
    if isinstance(piece.left, Encoded) or isinstance(piece.right, Encoded):
        yield piece
        return
    _, batch, m, n = piece.out.shape
    if batch * (m + n) <= most:
        yield piece
        return
    items, rows = max(1, most // (m + n)), max(most // 2, most - n)
    for b in range(0, batch, items):
        for i in range(0, m, rows):
            some = slice(b, b + items), slice(i, i + rows)
            yield Piece(
                piece.left.cut(*some),
                piece.right.cut(some[0], slice(None)),
                piece.out[:, *some],
                None if piece.addend is None else piece.addend[:, *some],
                None if piece.bound is None else piece.bound[some],
            )


def _piece(left: Any, right: Any, parts: int, results: list[Any]) -> Piece:
    out, addend, bound = results
    return Piece(
        left if isinstance(left, Encoded) else lines(left, "left", parts),
        right if isinstance(right, Encoded) else lines(right, "right", parts),
        in_parts(out, parts),
        None if addend is None else in_parts(addend, parts),
        bound,
    )


def lines(matrices: Array, side: str, parts: int) -> Operand:
    """An operand (batch, m, k) or (batch, k, n) as its rows or columns, part by part, views."""
    if parts == 2 and not np.iscomplexobj(matrices):
        zero = np.broadcast_to(np.zeros((), matrices.dtype), matrices.shape)
        split: Any = (matrices, zero)
    else:
        split = in_parts(matrices, parts)
    return Operand(tuple(x if side == "left" else x.swapaxes(1, 2) for x in split))


def in_parts(x: Array, parts: int) -> Array:
    """Parts on a leading axis, a view where `x` has as many; a real x has no imaginary part."""
    if np.iscomplexobj(x):
        return joined((x.real, x.imag))[:parts]
    if parts == 1:
        return x[None]
    return np.stack([x, np.zeros_like(x)])


def _merge(x: Array | Encoded, batch: tuple[int, ...]) -> Array | Encoded | None:
    """One batch axis, of length 1 if every item is the same; None if that needs a copy."""
    count = math.prod(batch)
    if isinstance(x, Encoded):
        return x if x.shape[0] in (1, count) else None
    own = x.shape[:-2]
    if math.prod(own) == 1:
        return x.reshape(1, *x.shape[-2:])
    return _reshaped(np.broadcast_to(x, (*batch, *x.shape[-2:])), (count, *x.shape[-2:]))


def _reshaped(x: Array | None, shape: tuple[int, ...]) -> Array | None:
    """The same data in another shape, without a copy, or None."""
    if x is None:
        return None
    try:
        return np.reshape(x, shape, copy=False)
    except ValueError:
        return None


def _length(x: Array | Encoded | None) -> int:
    return x.shape[0] if x is not None else 0


def _item(x: Array | Encoded, index: tuple[int, ...], batch: tuple[int, ...]) -> Any:
    own = (x.dims if isinstance(x, Encoded) else x.shape)[:-2]
    place = tuple(
        0 if size == 1 else at for at, size in zip(index[len(batch) - len(own) :], own, strict=True)
    )
    if isinstance(x, Encoded):
        return x.item(int(np.ravel_multi_index(place, own)) if own else 0)
    return x[place][None]
