"""Exchanges of rows, one after the other, as a factorisation makes them; where the rows are."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from widen.formats.arrays import as_tensor, is_tensor, library_of

if TYPE_CHECKING:
    from widen.words.array import Words


@dataclass(frozen=True)
class Exchanges:
    """Row i was exchanged with row pivots[i], in order; now row i is what row order[i] was.

    Both are integers on a CPU, or tensors where the rows are: then nobody waits for them.
    """

    pivots: Any
    order: Any

    @classmethod
    def of(cls, pivots: Any, rows: int) -> Exchanges:
        """Exchanges of so many rows that are known on a CPU."""
        order = np.arange(rows)
        for i, j in enumerate(pivots.tolist()):
            order[[i, j]] = order[[j, i]]
        return cls(pivots, order)

    def then(self, more: Exchanges) -> Exchanges:
        """The same, and then others among the last rows."""
        library, start = library_of(self.order), len(self.order) - len(more.order)
        order = [self.order[:start], self.order[start:][more.order]]
        pivots = [self.pivots, more.pivots + start]
        return Exchanges(library.concatenate(pivots), library.concatenate(order))

    @cached_property
    def moves(self) -> tuple[Any, Any]:
        """Where rows go, and where they come from: no others move than the first and the pivots.

        A row that stands twice among them gets the same numbers twice.
        """
        library, count = library_of(self.order), len(self.pivots)
        place = {"device": self.order.device} if is_tensor(self.order) else {}
        to = library.concatenate([library.arange(count, **place), self.pivots])
        return to, self.order[to]

    def apply(self, x: Words) -> None:
        """Exchange the rows of a matrix."""
        to, come = self.moves
        if is_tensor(x.planes[0]) and not is_tensor(to):
            to, come = (as_tensor(line).to(x.planes[0].device) for line in (to, come))
        for plane in x.planes:
            if is_tensor(plane):
                plane.index_copy_(1, to, plane.index_select(1, come))
            else:
                plane[:, to] = plane[:, come]
