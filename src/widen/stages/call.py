"""A checked call: operands, shapes and choices, as both wings take it."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

from widen.contract import Contract
from widen.encoded import Encoded
from widen.formats import Format
from widen.formats.arrays import format_of_array
from widen.plan import Info, Plan
from widen.planner import make_plan, typical_needs
from widen.stages.account import Account
from widen.stages.problem import Problem, Scaling


@dataclass(frozen=True)
class Scalars:
    """alpha, beta and c of alpha A B + beta c; c is None where beta is 0."""

    alpha: complex = 1.0
    beta: complex = 0.0
    c: Any = None

    @property
    def trivial(self) -> bool:
        """Whether this is the product alone."""
        return self.alpha == 1 and self.c is None


@dataclass(frozen=True)
class Call:
    """A checked call: operands, the result's shape and format, and the choices made.

    Operands are arrays, tensors, `Words` or `Encoded`.
    """

    left: Any
    right: Any
    batch: tuple[int, ...]
    m: int
    n: int
    contract: Contract
    fmt: Format
    unit: str | None
    system: str | None
    workspace: int
    complex_scalars: bool = False

    @property
    def work(self) -> Format:
        """The format computed in: real if everything that is read is, whatever the result's."""
        complex_operand = any(format_of_operand(x).parts == 2 for x in (self.left, self.right))
        return self.fmt if complex_operand or self.complex_scalars else self.fmt.part

    @property
    def dims(self) -> tuple[int, ...]:
        """The result's shape: what vectors add to make matrices is taken away again."""
        rows = () if len(dims_of(self.left)) == 1 else (self.m,)
        columns = () if len(dims_of(self.right)) == 1 else (self.n,)
        return (*self.batch, *rows, *columns)

    @property
    def shape(self) -> tuple[int, int, int, int]:
        """(batch, m, k, n) as the caller sees them, before batches are merged."""
        return math.prod(self.batch), self.m, self.k, self.n

    @property
    def k(self) -> int:
        """The inner dimension."""
        return dims_of(self.left)[-1]

    @property
    def sides(self) -> tuple[tuple[Any, str], tuple[Any, str]]:
        """The operands with the names of their sides."""
        return (self.left, "left"), (self.right, "right")

    @property
    def device(self) -> Any:
        """The GPU that the operands live on."""
        return next(x.device for x in (self.left, self.right) if x.device is not None)

    def problem(
        self, left: Any, right: Any, *, plan: Plan | None = None, scaling: Scaling | None = None
    ) -> Problem[Any]:
        """The product of these two, as this call wants it."""
        return Problem(
            left, right, self.contract, self.work, self.workspace, self.unit, self.system, plan,
            scaling,
        )  # fmt: skip

    def planned(self, plan: Plan) -> Plan:
        """The plan of a run as a plan for the whole call."""
        return replace(plan, shape=self.shape, result=self.fmt.name)

    def empty_plan(self) -> Plan:
        """A plan for a product that has no elements."""
        needs = typical_needs(self.contract, self.work, self.k)
        plan = make_plan(
            self.contract, self.work, self.shape, needs, unit=self.unit, system=self.system,
            workspace=self.workspace, why=("the result is empty",),
        )  # fmt: skip
        return self.planned(plan)


def dims_of(x: Any) -> tuple[int, ...]:
    """An operand's own shape."""
    return x.dims if isinstance(x, Encoded) else tuple(x.shape)


def format_of_operand(x: Any) -> Format:
    """An operand's own format."""
    return x.fmt if isinstance(x, Encoded) else format_of_array(x)


def matrix_dims(dims: tuple[int, ...], side: str) -> tuple[int, ...]:
    """Dimensions of (a batch of) matrices: a vector is a row on the left, a column on the right.

    >>> matrix_dims((5,), "left"), matrix_dims((5,), "right")
    ((1, 5), (5, 1))
    """
    if len(dims) == 1:
        return (1, *dims) if side == "left" else (*dims, 1)
    return dims


def info_of(plan: Plan, bound: Any, account: Account, elements: int) -> Info:
    """What ran for so many elements; without an array of bounds, the largest."""
    if bound is None:
        bound = account.largest if account.finite or not elements else math.nan
    return Info(
        plan, bound, account.repaired, plan.products, account.workspace, account.seconds,
        elements - account.finite,
    )  # fmt: skip
