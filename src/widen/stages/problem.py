"""What all stages share: a checked call, the problems it becomes, and an account of the run."""

from __future__ import annotations

import math
import time
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from typing import Any, Generic, Protocol, TypeVar

from widen import bounds
from widen.bounds import Certificate, Goal
from widen.contract import Contract
from widen.encoded import Encoded
from widen.formats import Format, computed_in
from widen.formats.arrays import format_of_array
from widen.plan import Info, Plan
from widen.planner import make_plan, typical_needs


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
        The promise, and the format that elements are rounded to: real unless something that is
        read is not.
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
    def work(self) -> Format:
        """The format that the promise is for."""
        return computed_in(self.fmt)

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
        precision, parts, full = self.work.precision, self.fmt.parts, self.system == "triangle"
        return bounds.goal(self.contract, precision, self.shape[2], parts, cap, full=full)

    @property
    def test(self) -> Certificate | None:
        """The certificate that the contract asks for, if any."""
        return self.test_of(0)

    def test_of(self, dropped: int) -> Certificate | None:
        """The same where products were left out; it has the same weights of lines."""
        return _certificate(self.contract, self.work, self.shape[2], dropped)


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

    @property
    def work(self) -> Format:
        """The format that the promise is for."""
        return computed_in(self.fmt)

    def test(self, k: int) -> Certificate | None:
        """The certificate that products with it will ask for, if any."""
        return _certificate(self.contract, self.work, k, 0)


def _certificate(contract: Contract, fmt: Format, k: int, dropped: int) -> Certificate | None:
    if not contract.certified_by_data:
        return None
    return bounds.certificate(contract, fmt.precision, k, fmt.parts, dropped)


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
    def rounded(self) -> Format:
        """The format rounded to: real if everything that is read is, whatever the result's."""
        complex_operand = any(format_of_operand(x).parts == 2 for x in (self.left, self.right))
        return self.fmt if complex_operand or self.complex_scalars else self.fmt.part

    @property
    def work(self) -> Format:
        """The format that the promise is for."""
        return computed_in(self.rounded)

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
            left, right, self.contract, self.rounded, self.workspace, self.unit, self.system,
            plan, scaling,
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


STAGES = ("quantise", "encode", "multiply", "certify", "reconstruct", "repair", "bound")


class Account:
    """Seconds by stage, elements repaired, most bytes of workspace held at one time.

    Where bounds are asked for, also the largest of a finite element (0 if there is none), and how
    many elements are finite.
    """

    def __init__(self, *, bounds: bool = False) -> None:
        self.seconds = dict.fromkeys(STAGES, 0.0)
        self.repaired = 0
        self.workspace = 0
        self.bounds = bounds
        self.largest = 0.0
        self.finite = 0

    def add_bounds(self, largest: float, finite: int) -> None:
        """Take in the largest bound of a finite element, of so many."""
        self.largest = max(self.largest, largest)
        self.finite += finite

    def stage(self, name: str) -> AbstractContextManager[None]:
        """Count the time of a stage."""
        return _Stage(self.seconds, name)


class _Stage:
    """A stretch of time; a generator would take two microseconds more, seven times a call."""

    def __init__(self, seconds: dict[str, float], name: str) -> None:
        self.seconds, self.name = seconds, name

    def __enter__(self) -> None:
        self.start = time.perf_counter()

    def __exit__(self, *error: object) -> None:
        self.seconds[self.name] += time.perf_counter() - self.start
