"""An encoded operand: quantised and written in planes once, to be multiplied often."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import Any

from widen.contract import Contract
from widen.formats import Format
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
    repaired), so it cannot go stale when the array it came from changes. It serves one contract
    and one precision of the result; `matmul` refuses others.

    Attributes
    ----------
    side
        ``"left"`` or ``"right"``.
    dims
        The shape of the array it came from.
    contract, fmt
        What it was encoded for.
    unit, system
        What multiplies its planes, and the number system they are written in.
    layout
        Its planes, as a plan has them.
    held
        The planes and the numbers themselves, in the memory of a CPU or of a GPU.
    """

    side: str
    dims: tuple[int, ...]
    contract: Contract
    fmt: Format
    unit: str
    system: str
    layout: Layout
    held: Held

    @property
    def shape(self) -> tuple[int, int, int]:
        """(batch, lines, inner)."""
        return self.held.shape

    @property
    def device(self) -> Any:
        """The GPU it lives on, or None."""
        return self.held.device

    @property
    def serves(self) -> tuple[str, ...]:
        """The contracts it can be used with."""
        return (str(self.contract),)

    @property
    def nbytes(self) -> int:
        """Bytes of its planes and of the numbers it keeps."""
        return self.held.nbytes

    def item(self, index: int) -> Encoded:
        """One item of a batch, as a view."""
        if self.shape[0] == 1:
            return self
        return replace(self, dims=self.dims[-2:], held=self.held.item(index))

    __array_ufunc__ = None  # NumPy leaves a @ encoded to what follows

    def __matmul__(self, other: Any) -> Any:
        from widen.api import matmul

        return matmul(self, other)

    def __rmatmul__(self, other: Any) -> Any:
        from widen.api import matmul

        return matmul(other, self)

    def __repr__(self) -> str:
        return (
            f"<widen.Encoded {self.side} operand {self.dims}, for {self.fmt.name} results, "
            f"accuracy={str(self.contract)!r}: {self.held.planes_shape[0]} planes of {self.system} "
            f"for {self.unit}, {self.nbytes / 1e6:.1f} MB>"
        )
