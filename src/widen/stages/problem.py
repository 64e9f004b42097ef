"""A product to compute: operands as lines, and what the caller asked for."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Generic, Protocol, TypeVar

from widen import bounds
from widen.bounds import Certificate, Goal
from widen.contract import Contract
from widen.encoded import Encoded
from widen.formats import Format
from widen.plan import Plan


class Lines(Protocol):
    """An operand as lines: rows of the left one, columns of the right one."""

    @property
    def shape(self) -> tuple[int, int, int]:
        """(batch, lines, inner). A batch of 1 serves every item of the other operand."""


L = TypeVar("L", bound=Lines)


@dataclass(frozen=True)
class Scaling:
    """alpha and beta, and the addend c as a backend keeps it, or None.

    Each wing has its own kind of it, which says how its kernels read them.
    """

    alpha: complex
    beta: complex
    addend: Any


@dataclass(frozen=True)
class Problem(Generic[L]):
    """A product to compute, k >= 1.

    Attributes
    ----------
    left, right
        The operands as lines, or encoded before.
    contract, fmt
        The promise, and the format that is computed in: real unless something that is read is not.
    workspace
        Bytes of extra memory.
    unit, system
        The caller's choice, or None.
    plan
        A plan made beforehand, or None.
    scaling
        alpha, beta and c, or None for the product alone.
    shape
        (batch, m, k, n).
    """

    left: L | Encoded
    right: L | Encoded
    contract: Contract
    fmt: Format
    workspace: int
    unit: str | None = None
    system: str | None = None
    plan: Plan | None = None
    scaling: Scaling | None = None
    shape: tuple[int, int, int, int] = field(init=False)

    def __post_init__(self) -> None:
        ours, theirs = self.left.shape, self.right.shape
        shape = max(ours[0], theirs[0]), ours[1], ours[2], theirs[1]
        object.__setattr__(self, "shape", shape)  # a cached property takes 5 us

    @property
    def sources(self) -> tuple[L | Encoded, L | Encoded]:
        """Both operands."""
        return self.left, self.right

    @property
    def encoded(self) -> list[Encoded]:
        """The operands that come with their planes."""
        return [source for source in self.sources if isinstance(source, Encoded)]

    def goal(self, cap: int | None) -> Goal | None:
        """How far lines are scaled; the triangle leaves out products of full lines."""
        precision, parts, full = self.fmt.precision, self.fmt.parts, self.system == "triangle"
        return bounds.goal(self.contract, precision, self.shape[2], parts, cap, full=full)

    @property
    def test(self) -> Certificate | None:
        """The certificate that the contract asks for, if any."""
        return self.test_of(0)

    def test_of(self, dropped: int) -> Certificate | None:
        """The same where products were left out; it has the same weights of lines."""
        if not self.contract.certified_by_data:
            return None
        return bounds.certificate(
            self.contract, self.fmt.precision, self.shape[2], self.fmt.parts, dropped
        )


@dataclass(frozen=True)
class Encoding:
    """What an operand is encoded for: a side, a contract, a format, and the caller's choices."""

    side: str
    contract: Contract
    fmt: Format
    unit: str | None
    system: str | None

    @property
    def at(self) -> int:
        """0 for the left operand, 1 for the right one."""
        return 0 if self.side == "left" else 1

    def test(self, k: int) -> Certificate | None:
        """The certificate that products with it will ask for, if any."""
        if not self.contract.certified_by_data:
            return None
        return bounds.certificate(self.contract, self.fmt.precision, k, self.fmt.parts, 0)
