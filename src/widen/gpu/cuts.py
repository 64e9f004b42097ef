"""Some rows or columns of what is known of all of them: operands, tables, planes, results."""

from __future__ import annotations

import torch

from widen.gpu.operands import Lines

Tensor = torch.Tensor
Piece = slice | Tensor
"""Some rows or columns: a stretch, or their numbers."""

ALL = slice(None)


def lines(side: Lines, batch: slice, piece: Piece) -> Lines:
    """Some lines of an operand, a view if it can be. A batch of 1 stays whole."""
    if isinstance(piece, slice):
        return side.cut(batch, piece)
    return Lines(_items(side.bits, batch)[:, :, piece], side.fmt)


def table(whole: Tensor, shape: tuple[int, ...], batch: slice, piece: Piece) -> Tensor:
    """The table of some of the lines of an operand of this shape, (batch, lines, ...)."""
    count, size = shape[:2]
    if _is_all(piece, size) and (count == 1 or _is_all(batch, count)):
        return whole
    columns = _items(whole.view(-1, count, size), batch)[:, :, piece]
    return columns.reshape(whole.shape[0], -1).contiguous()


def planes(whole: Tensor, batch: slice, piece: slice) -> Tensor:
    """Some lines of planes (planes, batch, lines, pitch), a copy unless they are all."""
    return _items(whole, batch)[:, :, piece].contiguous()


def elements(x: Tensor, rows: Piece, columns: Piece) -> Tensor:
    """Some rows and columns, the last two axes, a view if it can be."""
    return x[..., rows, :][..., columns]


def _items(x: Tensor, batch: slice) -> Tensor:
    return x if x.shape[1] == 1 else x[:, batch]


def _is_all(piece: Piece, size: int) -> bool:
    return isinstance(piece, slice) and piece.start in (None, 0) and piece.stop in (None, size)
