"""What a backend does: the stages of a product, verb by verb.

`cpu.stages`, `gpu.stages` and `definition` are backends. What they pass from verb to verb is their
own business; the bits of planes, groups and results are not: those of the definition are
everybody's. `stages.run` alone knows in which order the verbs are called.
"""

from __future__ import annotations

from typing import Any, Protocol, TypeVar

from widen.bounds import Goal
from widen.encoded import Encoded, Held
from widen.plan import Layout, Plan
from widen.stages.problem import Account, Encoding, Problem

Block = tuple[slice, slice, slice]
"""Batch items, rows and columns of a result."""

Planes = TypeVar("Planes")
Groups = TypeVar("Groups")
Marks = TypeVar("Marks")


class Stages(Protocol[Planes, Groups, Marks]):
    """The stages of one block of a result, after quantisation."""

    def certify(self) -> Marks | None:
        """Which elements the contract's certificate leaves open; None if it does not ask."""

    def encode(self, inner: slice) -> Planes:
        """Planes of the block's rows and columns over a stretch of the inner dimension."""

    def multiply(self, planes: Planes, groups: Groups | None) -> Groups:
        """Exact products of planes, added to the groups of earlier stretches if there are any."""

    def reconstruct(self, groups: Groups, marks: Marks | None) -> Marks:
        """Every element rounded once, and which of them are not final.

        These are the ones that were not certified (`marks`), and for "correct" those whose rounding
        the quantised product does not decide.
        """

    def repair(self, marks: Marks) -> Marks:
        """Make every element final: correctly rounded where marked, special where lines are.

        Gives which elements are the correctly rounded ones for sure.
        """

    def bound(self, repaired: Marks, bound: Any) -> None:
        """Work out the certified absolute error of every element, rounded up.

        Each goes to its place in `bound` unless that is None; the account takes in the largest.
        """


class Prepared(Protocol):
    """A product whose operands are quantised, and whose plan is made."""

    @property
    def plan(self) -> Plan:
        """Planes, products and blocks."""

    def stages(self, block: Block, out: Any) -> Stages[Any, Any, Any]:
        """The stages of a block of the result, which goes to its place in `out`."""

    def wait(self) -> None:
        """Wait until what was asked for is done."""

    def finish(self) -> None:
        """Give memory back, and complete the account."""


class Backend(Protocol):
    """Where a product runs."""

    def quantise(self, problem: Problem[Any], account: Account) -> Prepared:
        """Exponents of all rows and columns, and the plan for the planes they need."""


class Encoder(Protocol):
    """A backend that also encodes an operand for many products."""

    def encode_operand(
        self, operand: Any, wanted: Encoding, goal: Goal, wider: Encoded | None
    ) -> tuple[str, Layout, Held]:
        """Planes of an operand scaled to `goal`, for any operand on the other side.

        Gives the unit that multiplies them, their layout, and what is kept of the operand. `wider`
        is the same operand, encoded for a wider format: if its lines were scaled alike, its planes
        begin with those that are wanted, and may be given instead (the GPU wing does not).
        """
