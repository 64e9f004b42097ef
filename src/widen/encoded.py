"""An encoded operand: quantised and written in planes once, to be multiplied often."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import Any

from widen.contract import Contract
from widen.formats import Format, computed_in
from widen.plan import Layout


@dataclass(frozen=True)
class Held(ABC):
    """What a wing keeps of an encoded operand: its numbers, their planes, and its lines.

    `Encoded` shows these to users, and each wing has its own kind of it (`EncodedLines`).
    """

    operand: Any
    planes: Any

    @property
    def shape(self) -> tuple[int, int, int]:
        """(batch, lines, inner)."""
        batch, lines, inner = self.operand.shape
        return batch, lines, inner

    @property
    def planes_shape(self) -> tuple[int, ...]:
        """(planes, batch, lines, inner or a little more)."""
        return tuple(self.planes.shape)

    @property
    def nbytes(self) -> int:
        """Bytes of its planes and of the numbers it keeps."""
        return int(self.planes.nbytes + self.operand.nbytes)

    @property
    def device(self) -> Any:
        """The GPU it lives on, or None."""
        return None

    @abstractmethod
    def item(self, index: int) -> Held:
        """One item of a batch."""


@dataclass(frozen=True, eq=False)
class Encoded:
    """A left or right operand, with its planes; made by `widen.encode`.

    It owns everything it holds (a private copy of the numbers as well, for elements that must be
    repaired), so it cannot go stale when the array it came from changes. It serves one contract,
    and the formats of results that it was encoded for; `matmul` refuses others.

    Attributes
    ----------
    side
        ``"left"`` or ``"right"``.
    dims
        The shape of the array it came from.
    contract
        The contract that it was encoded for.
    fmt
        The first of the formats of results that it was encoded for.
    unit
        What multiplies its planes.
    system
        The number system that its planes are written in.
    layout
        Its planes, as a plan has them.
    held
        The planes and the numbers themselves, in the memory of a CPU or of a GPU.
    others
        The same operand, encoded for other formats.

    Examples
    --------
    >>> import numpy as np, widen
    >>> eb = widen.encode(np.eye(3), side="right")
    >>> print(widen.matmul(np.ones((1, 3)), eb))
    [[1. 1. 1.]]
    """

    side: str
    dims: tuple[int, ...]
    contract: Contract
    fmt: Format
    unit: str
    system: str
    layout: Layout
    held: Held
    others: tuple[Encoded, ...] = ()

    @property
    def shape(self) -> tuple[int, int, int]:
        """(batch, lines, inner).

        >>> import numpy as np, widen
        >>> eb = widen.encode(np.eye(3), side="right")
        >>> eb.shape
        (1, 3, 3)
        """
        return self.held.shape

    @property
    def device(self) -> Any:
        """The GPU it lives on, or None.

        >>> import numpy as np, widen
        >>> eb = widen.encode(np.eye(3), side="right")
        >>> print(eb.device)
        None
        """
        return self.held.device

    @property
    def serves(self) -> tuple[str, ...]:
        """The contracts it can be used with.

        >>> import numpy as np, widen
        >>> eb = widen.encode(np.eye(3), side="right")
        >>> eb.serves
        ('standard',)
        """
        return (str(self.contract),)

    @property
    def formats(self) -> tuple[str, ...]:
        """The formats of results it can be used for.

        >>> import numpy as np, widen
        >>> widen.encode(np.eye(2), side="left", dtype=["float64", "float64x2"]).formats
        ('float64', 'float64x2')
        """
        return tuple(x.fmt.name for x in (self, *self.others))

    def serving(self, fmt: Format) -> Encoded | None:
        """What it holds for results that are computed in a format, or None.

        >>> import numpy as np, widen
        >>> both = widen.encode(np.eye(2), side="left", dtype=["float64", "float64x2"])
        >>> both.serving(widen.float64x2).formats, both.serving(widen.float64x4)
        (('float64x2',), None)
        """
        for member in (replace(self, others=()), *self.others):
            if (computed_in(member.fmt).precision, member.fmt.parts) == (fmt.precision, fmt.parts):
                return member
        return None

    def has_planes_of(self, unit: str, layout: Layout, side: int) -> bool:
        """Whether its planes begin with those of a layout, if its lines were scaled alike.

        >>> import numpy as np, widen
        >>> wide, narrow = (
        ...     widen.encode(np.eye(2), side="left", dtype=d) for d in ("float64x4", "float64")
        ... )
        >>> wide.has_planes_of("fp64", narrow.layout, 0)
        True
        >>> narrow.has_planes_of("fp64", wide.layout, 0)
        False
        """
        alike = self.unit == unit and self.layout.system == layout.system
        return alike and not layout.dropped and self.layout.holds(layout, side)

    @property
    def nbytes(self) -> int:
        """Bytes of its planes and of the numbers it keeps, which all formats share.

        >>> import numpy as np, widen
        >>> eb = widen.encode(np.eye(3), side="right")
        >>> eb.nbytes > 0
        True
        """
        planes = {id(x.held.planes): x.held.planes.nbytes for x in (self, *self.others)}
        return int(sum(planes.values())) + int(self.held.operand.nbytes)

    def item(self, index: int) -> Encoded:
        """One item of a batch, as a view.

        >>> import numpy as np, widen
        >>> many = widen.encode(np.ones((5, 3, 3)), side="right")
        >>> many.shape, many.item(0).shape
        ((5, 3, 3), (1, 3, 3))
        """
        if self.shape[0] == 1:
            return self
        others = tuple(x.item(index) for x in self.others)
        return replace(self, dims=self.dims[-2:], held=self.held.item(index), others=others)

    @property
    def _planes(self) -> int:
        """How many planes it holds; formats may share them."""
        held = {id(x.held.planes): x.held.planes_shape[0] for x in (self, *self.others)}
        return sum(held.values())

    __array_ufunc__ = None  # NumPy leaves a @ encoded to what follows

    def __matmul__(self, other: Any) -> Any:
        from widen.api import matmul

        return matmul(self, other)

    def __rmatmul__(self, other: Any) -> Any:
        from widen.api import matmul

        return matmul(other, self)

    def __repr__(self) -> str:
        return (
            f"<widen.Encoded {self.side} operand {self.dims}, for {', '.join(self.formats)} "
            f"results, accuracy={str(self.contract)!r}: {self._planes} planes of {self.system} "
            f"for {self.unit}, {self.nbytes / 1e6:.1f} MB>"
        )
