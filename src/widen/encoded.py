"""An encoded operand: quantised and written in planes once, to be multiplied often."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from widen.contract import Contract
from widen.cpu.operands import Array
from widen.formats import Format
from widen.plan import Layout
from widen.words import products


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
    """

    side: str
    dims: tuple[int, ...]
    contract: Contract
    fmt: Format
    unit: str
    system: str
    operand: Any
    lines: Any
    layout: Layout
    planes: Any

    # What `operand`, `lines` and `planes` are is the business of the backend that made them: on a
    # CPU an Operand, a Quantised and an array; on a GPU Lines, their table and leads, and a tensor.

    @property
    def shape(self) -> tuple[int, int, int]:
        """(batch, lines, inner)."""
        batch, lines, inner = self.operand.shape
        return batch, lines, inner

    @property
    def device(self) -> Any:
        """The GPU it lives on, or None."""
        return getattr(self.planes, "device", None) if hasattr(self.planes, "is_cuda") else None

    @property
    def serves(self) -> tuple[str, ...]:
        """The contracts it can be used with."""
        return (str(self.contract),)

    @property
    def nbytes(self) -> int:
        """Bytes of its planes and of the numbers it keeps."""
        return int(self.planes.nbytes + self.operand.nbytes)

    def planes_for(
        self, layout: Layout, side: int, batch: slice, lines: slice, inner: slice
    ) -> list[Array]:
        """Views of the planes a layout asks for, a block of each."""
        chosen = self.layout.planes_of(layout, side)
        batch = slice(None) if self.shape[0] == 1 else batch
        return [self.planes[plane][batch, lines, inner] for plane in chosen]

    def item(self, index: int) -> Encoded:
        """One item of a batch, as a view."""
        if self.shape[0] == 1:
            return self
        only = slice(index, index + 1)
        everything = slice(None)
        return replace(
            self,
            dims=self.dims[-2:],
            operand=self.operand.cut(only, everything),
            lines=self.lines.cut(only, everything),
            planes=self.planes[:, only],
        )

    __array_ufunc__ = None  # NumPy leaves a @ encoded to what follows

    def __matmul__(self, other: Any) -> Any:
        return products.matmul(self, other)

    def __rmatmul__(self, other: Any) -> Any:
        return products.matmul(other, self)

    def __repr__(self) -> str:
        return (
            f"<widen.Encoded {self.side} operand {self.dims}, for {self.fmt.name} results, "
            f"accuracy={str(self.contract)!r}: {self.planes.shape[0]} planes of {self.system} "
            f"for {self.unit}, {self.nbytes / 1e6:.1f} MB>"
        )
