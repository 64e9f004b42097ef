"""A matrix cut by rows over processes: how `linalg.solve` gathers, inverts and eliminates it.

What a process holds of a matrix is (n / count, n). Products with vectors gather rows of results,
products of matrices see panels of columns pass, an inverse and a rank see panels of pivots. No
process ever has more of a matrix than its own rows and such a panel.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import torch
from torch.distributed.tensor import Shard

from widen.distributed.boxes import boxes
from widen.distributed.wire import Wire
from widen.linalg.holding import Holding
from widen.linalg.modular import reduced, residues
from widen.words import Words

BLOCK = 32
"""Columns that are exchanged at a time: a sum of so many products of residues is below 2^53."""
LEAST = 32
"""Columns of a panel at least: narrower ones cost more in messages than they save in memory."""
NOBODY = -(1 << 62)
"""Below everything that processes may say."""

Array = Any


class SharedRows(Holding):
    """The rows of n that one process of many holds: stretches in the order of the processes."""

    def __init__(self, wire: Wire, n: int) -> None:
        self.wire, self.n = wire, n
        self.count = len(wire.ranks)
        cut = (Shard(0),) * len(wire.shape)
        self.stretches = [box[0] for box in boxes((n,), cut, wire.shape)]
        self.own = slice(*self.stretches[wire.me])
        self.width = max(LEAST, -(-n // self.count))

    def doubled(self) -> SharedRows:
        """The same where each row has become two."""
        twice = SharedRows(self.wire, 2 * self.n)
        twice.stretches = [(2 * start, 2 * stop) for start, stop in self.stretches]
        twice.own = slice(*twice.stretches[self.wire.me])
        return twice

    # ── rows that move ───────────────────────────────────────────────────────

    def routed(self, x: Array, wanted: Sequence[Array]) -> Array:
        """Rows for this process: of every process's wanted ones, each sends what it holds."""
        me, start, stop = self.wire.me, self.own.start, self.own.stop
        item = x.dtype.itemsize * int(np.prod(x.shape[1:]))
        outgoing, incoming = {}, {}
        for other, rows in enumerate(wanted):
            held = rows[(rows >= start) & (rows < stop)] - start
            if other != me and len(held) and item:
                data = np.ascontiguousarray(x[held]).reshape(-1).view(np.uint8)
                outgoing[other] = torch.from_numpy(data)
        mine = wanted[me]
        owners = [(mine >= first) & (mine < last) for first, last in self.stretches]
        for other, owned in enumerate(owners):
            if other != me and item and owned.any():
                incoming[other] = item * int(owned.sum())
        rows_wanted = np.empty((len(mine), *x.shape[1:]), x.dtype)
        rows_wanted[owners[me]] = x[mine[owners[me]] - start]
        for other, received in self.wire.exchange("rows", outgoing, incoming).items():
            piece = received.cpu().numpy().view(x.dtype).reshape(-1, *x.shape[1:])
            rows_wanted[owners[other]] = piece
        return rows_wanted

    def gathered(self, x: Any) -> Any:
        """All rows of an array or `Words`."""
        if isinstance(x, Words):
            planes = [np.moveaxis(np.asarray(plane), 0, 1) for plane in x.planes]
            whole = [np.moveaxis(self.gathered(plane), 1, 0) for plane in planes]
            return Words.of(x.format, [np.ascontiguousarray(plane) for plane in whole])
        return self.routed(x, [np.arange(self.n)] * self.count)

    def panels(self, x: Any) -> Iterator[tuple[slice, Any]]:
        """All rows of as many columns as a process has rows, one panel after the other."""
        for start in range(0, x.shape[1], self.width):
            at = slice(start, min(start + self.width, x.shape[1]))
            yield at, self.gathered(x[:, at])

    def height(self, x: Any) -> int:
        """Rows of the whole matrix."""
        return self.n

    def identity(self, like: Any, columns: slice) -> Any:
        """The process's rows of the identity in some columns."""
        start, stop, _ = columns.indices(self.n)
        own_rows = np.zeros((self.own.stop - self.own.start, stop - start))
        for row in range(max(start, self.own.start), min(stop, self.own.stop)):
            own_rows[row - self.own.start, row - start] = 1.0
        return own_rows

    def integers(self, x: list[int]) -> list[int]:
        """Integers of all rows, of any length, as many of each."""
        most = max((value.bit_length() for value in x), default=0) // 8 + 1
        size = int(self.largest(np.array([most]))[0])
        rows = self.own.stop - self.own.start
        data = b"".join(value.to_bytes(size, "little", signed=True) for value in x)
        each = int(self.largest(np.array([len(x) // max(rows, 1)]))[0])
        packed = np.frombuffer(data, np.uint8).reshape(rows, each * size)
        whole = self.gathered(packed).reshape(-1, size)
        return [int.from_bytes(line.tobytes(), "little", signed=True) for line in whole]

    # ── what all agree on ────────────────────────────────────────────────────

    def largest(self, x: Any) -> Any:
        """The largest of all processes at every place: integers, or floats >= 0, ordered alike."""
        whole = np.ascontiguousarray(x)
        bits = whole.view(np.int64) if whole.dtype == np.float64 else whole
        most = self.wire.reduce("rows", bits, "max", range(len(self.wire.shape)))
        return most.view(np.float64) if whole.dtype == np.float64 else most

    def everywhere(self, flag: bool) -> bool:
        """Whether something holds in all processes."""
        return not self.largest(np.array([int(not flag)]))[0]

    def first(self, number: int) -> int:
        """The integer that the first process has."""
        said = number if self.wire.me == 0 else NOBODY
        return int(self.largest(np.array([said]))[0])

    # ── elimination ──────────────────────────────────────────────────────────

    def inverse(self, x: Any) -> Any:
        """The process's rows of the inverse by Gauss' and Jordan's exchange, or None.

        For y = M x, exchanging y_s and x_k gives a table of the same size with x_k in row s and
        y_s in column k. When all are exchanged it is the inverse, but for the order of its rows and
        columns. Blocks of columns are exchanged at a time: with D = M[S, K] of the pivots, rows S
        become W = D^-1 M[S, :], all others less M[i, K] W, and the panel itself is exchanged by
        every process alike.
        """
        m, n = np.array(x, float), self.n
        free, row_of = np.ones(n, bool), np.empty(n, np.int64)
        with np.errstate(all="ignore"):
            for start in range(0, n, BLOCK):
                cut = slice(start, min(start + BLOCK, n))
                panel = self.gathered(m[:, cut])
                rows, columns = exchange(panel, free)
                if len(columns) < cut.stop - cut.start:
                    return None
                row_of[cut] = rows
                across = panel[rows] @ self.routed(m, [rows] * self.count)
                m -= m[:, cut] @ across
                here = (rows >= self.own.start) & (rows < self.own.stop)
                m[rows[here] - self.own.start] = across[here]
                m[:, cut] = panel[self.own]
        column_of = np.empty(n, np.int64)
        column_of[row_of] = np.arange(n)
        wanted = [row_of[first:last] for first, last in self.stretches]
        inverse = self.routed(m[:, column_of], wanted)
        return inverse if self.everywhere(bool(np.isfinite(inverse).all())) else None

    def rank_modulo(self, a: Any, p: int) -> int:
        """The rank modulo a prime: the same exchange, exactly, of rows that are no pivots yet."""
        m, n = residues(a, p), a.shape[1]
        free = np.ones(self.n, bool)
        for start in range(0, n, BLOCK):
            stop = min(start + BLOCK, n)
            before = m[:, start:stop].copy()
            panel = self.gathered(before)
            rows, columns = exchange(panel, free, p)
            if stop < n and len(rows):
                inverse = panel[rows][:, columns]
                across = reduced(inverse @ self.routed(m[:, stop:], [rows] * self.count), p)
                m[:, stop:] = reduced(m[:, stop:] - before[:, columns] @ across, p)
        return int((~free).sum())


def exchange(panel: Array, free: Array, p: int | None = None) -> tuple[Array, Array]:
    """Exchange columns of a panel with rows that are free, in place; which rows and columns.

    Every step is made of single operations on arrays, so that all processes have the same bits.
    With a prime p numbers are residues. Columns that are zero in all free rows are left out.

    >>> m = np.array([[1.0, 2.0], [3.0, 4.0]])
    >>> exchange(m, np.ones(2, bool))
    (array([1, 0]), array([0, 1]))
    >>> m[[1, 0]][:, [1, 0]].round(12)  # rows and columns in the order of the inverse
    array([[-2. ,  1. ],
           [ 1.5, -0.5]])
    """
    rows, columns = [], []
    for j in range(panel.shape[1]):
        sizes = np.where(free, np.abs(panel[:, j]), 0.0)
        at = int(sizes.argmax())
        if not 0 < sizes[at] < np.inf:
            continue
        pivot = panel[at, j]
        reciprocal = 1.0 / pivot if p is None else float(pow(int(pivot), -1, p))
        row = panel[at] * reciprocal
        row[j] = reciprocal
        factors = panel[:, j].copy()
        factors[at], panel[:, j] = 0.0, 0.0
        if p is not None:
            row = reduced(row, p)
        panel -= factors[:, None] * row
        panel[at] = row
        if p is not None:
            reduced(panel, p)
        free[at] = False
        rows.append(at)
        columns.append(j)
    return np.array(rows, np.int64), np.array(columns, np.int64)
