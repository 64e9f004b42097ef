"""The four stages over blocks, within a workspace, and the repair of what is not certified."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from widen import bounds
from widen.arguments import matrix_dims
from widen.backends import numpy as backend
from widen.backends.numpy import Array, Operand, Quantised, Scaling, Survey
from widen.batches import lines
from widen.contract import CONTRACTS, Contract
from widen.encoded import Encoded
from widen.formats import Format
from widen.plan import Plan
from widen.planner import Needs, choose_layout, first_cap, make_plan
from widen.units import UNITS, Unit

PART_OF_INNER = 0.625
"""Share of the inner dimension whose leading integers are multiplied first, in float32.

Typical elements are certified from a quarter of |A||B| on; three eighths of its terms usually show
that much, for a fifth of the cost of one product of planes.
"""

DENSE = 0.1
"""A row (or column) of which more than this share must be repaired is repaired as a whole: an
exact dot product costs what some 300 products of planes cost an element, and exact products of hard
rows take 10 to 100 of them."""

FEW = 256
"""So few elements are repaired by exact dot products, whatever their pattern."""


@dataclass
class Problem:
    """A product to compute: operands as lines, and what the caller asked for."""

    left: Operand | Encoded
    right: Operand | Encoded
    contract: Contract
    fmt: Format
    unit: str | None
    system: str | None
    workspace: int

    @property
    def shape(self) -> tuple[int, int, int, int]:
        """(batch, m, k, n)."""
        ours, theirs = self.left.shape, self.right.shape
        return max(ours[0], theirs[0]), ours[1], ours[2], theirs[1]


@dataclass
class Ledger:
    """What happened: seconds by stage, workspace in use, elements repaired."""

    seconds: dict[str, float] = field(
        default_factory=lambda: dict.fromkeys(
            ("quantise", "encode", "multiply", "certify", "reconstruct", "repair"), 0.0
        )
    )
    workspace: int = 0
    repaired: int = 0

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Count the time of a stage."""
        start = time.perf_counter()
        yield
        self.seconds[name] += time.perf_counter() - start

    def hold(self, *arrays: Array | Sequence[Array]) -> None:
        """Note that these arrays are held at the same time."""
        self.workspace = max(self.workspace, sum(_bytes(array) for array in arrays))


def _bytes(array: Array | Sequence[Array]) -> int:
    if isinstance(array, np.ndarray):
        return int(array.nbytes)
    return sum(_bytes(each) for each in array)


def quantise_both(problem: Problem, ledger: Ledger) -> tuple[Quantised, Quantised, Plan]:
    """Exponents of all lines, and the plan for the planes they need."""
    with ledger.stage("quantise"):
        surveys = [
            side.survey if isinstance(side, Encoded) else backend.survey(side)
            for side in (problem.left, problem.right)
        ]
        return _scaled_lines(problem, surveys)


def _scaled_lines(problem: Problem, surveys: list[Survey]) -> tuple[Quantised, Quantised, Plan]:
    contract, fmt, k = problem.contract, problem.fmt, problem.shape[2]

    def at(cap: int | None) -> tuple[Quantised, Quantised, Needs]:
        goal = bounds.goal(contract, fmt.precision, k, fmt.parts, cap)
        left, right = (backend.quantise(survey, goal) for survey in surveys)
        return left, right, backend.needs(left, right, k)

    def plan(needs: Needs, cap: int | None, *why: str) -> Plan:
        return make_plan(
            contract, fmt, problem.shape, needs, unit=problem.unit, system=problem.system,
            cap=cap, workspace=problem.workspace, why=why,
        )  # fmt: skip

    if not contract.correct:
        left, right, needed = at(None)
        return left, right, plan(needed, None)
    left, right, needed = at(None)
    encoded = isinstance(problem.left, Encoded) or isinstance(problem.right, Encoded)
    cap = first_cap(fmt.precision, k)
    if needed.bits <= 2 * cap + 2 and not encoded:
        return left, right, plan(needed, None, "every bit of both operands is kept")
    left, right, needed = at(cap)
    chosen = plan(needed, cap, "kept to 2^-11 ulp or so; what that leaves open is repaired")
    if chosen.layout.modulus and not encoded:
        # Use the planes to the full: half of the spare bits on either side.
        spare = int((chosen.layout.modulus.bit_length() - 2 - needed.bits) // 2)
        if spare > 0:
            left, right, needed = at(cap + spare)
            chosen = plan(needed, cap + spare, *chosen.why[2:])
    return left, right, chosen


def run(
    problem: Problem,
    out: Array,
    scaling: Scaling | None = None,
    bound: Array | None = None,
    progress: Callable[[float], None] = lambda done: None,
    ledger: Ledger | None = None,
) -> Plan:
    """Compute the product (k >= 1) into `out`, (parts, batch, m, n), block by block."""
    ledger = Ledger() if ledger is None else ledger
    left, right, plan = quantise_both(problem, ledger)
    blocks = list(_block_slices(plan))
    kept: tuple[Any, Any] = (None, None)
    for done, (batch, rows, columns) in enumerate(blocks):
        block = Block(problem, plan, left, right, batch, rows, columns, ledger)
        if kept[0] == (batch, rows):
            block.left_planes = kept[1]
        target = out[:, batch, rows, columns]
        # Kernels write float64; what they write is a number of the result's format already.
        values = target if out.dtype == np.float64 else np.empty(target.shape)
        part = None if scaling is None else scaling.cut(batch, rows, columns)
        repaired = block.compute(values, part)
        kept = ((batch, rows), block.left_planes)
        if values is not target:
            target[...] = values
        if bound is not None:
            block.bound(values, repaired, part, bound[batch, rows, columns])
        progress((done + 1) / len(blocks))
    return plan


def _block_slices(plan: Plan) -> Iterator[tuple[slice, slice, slice]]:
    batch, m, _, n = plan.shape
    for b in range(0, batch, plan.blocks.batch):
        for i in range(0, m, plan.blocks.rows):
            for j in range(0, n, plan.blocks.columns):
                yield (
                    slice(b, min(b + plan.blocks.batch, batch)),
                    slice(i, min(i + plan.blocks.rows, m)),
                    slice(j, min(j + plan.blocks.columns, n)),
                )


class Block:
    """One block of the result: rows by columns of some batch items."""

    def __init__(
        self, problem: Problem, plan: Plan, left: Quantised, right: Quantised,
        batch: slice, rows: slice, columns: slice, ledger: Ledger,
    ) -> None:  # fmt: skip
        self.problem, self.plan, self.ledger = problem, plan, ledger
        self.sources = (problem.left, problem.right)
        self.slices = ((batch, rows), (batch, columns))
        self.operands = (_operand(problem.left).cut(batch, rows),
                         _operand(problem.right).cut(batch, columns))  # fmt: skip
        self.lines = (left.cut(batch, rows), right.cut(batch, columns))
        self.left_planes: list[Array] | None = None

    def compute(self, out: Array, scaling: Scaling | None) -> Array:
        """Fill `out`; give the mask of repaired elements."""
        groups = self._groups(out.shape[1:])
        contract = self.plan.contract
        with self.ledger.stage("reconstruct"):
            approximate = self.plan.cap is not None or self.plan.layout.dropped > 0
            open_elements = backend.reconstruct(
                groups, self.plan.layout, *self.lines, self.problem.fmt.part, out,
                slack=contract.correct and approximate, scaling=scaling,
            )  # fmt: skip
        del groups
        if contract.certified_by_data:
            with self.ledger.stage("certify"):
                open_elements = self._uncertified(out.shape[1:])
        with self.ledger.stage("repair"):
            if open_elements.any():
                self.ledger.repaired += int(open_elements.sum())
                self._repair(open_elements, out, scaling)
            self._special_values(out, scaling)
        return open_elements

    def _groups(self, shape: tuple[int, ...]) -> Array:
        """Encode and multiply, cutting the inner dimension if the plan says so."""
        plan, k = self.plan, self.plan.shape[2]
        groups = np.empty((plan.layout.groups, *shape))
        whole = plan.blocks.inner >= k
        for start in range(0, k, plan.blocks.inner):
            inner = slice(start, min(start + plan.blocks.inner, k))
            with self.ledger.stage("encode"):
                left = self.left_planes if whole and self.left_planes else self._planes(0, inner)
                right = self._planes(1, inner)
            if whole:
                self.left_planes = left
            self.ledger.hold(left, right, groups, groups[0])
            with self.ledger.stage("multiply"):
                backend.multiply(
                    left, right, plan.layout.products, UNITS[plan.unit], plan.depth, groups,
                    add=start > 0,
                )  # fmt: skip
        return groups

    def _planes(self, side: int, inner: slice) -> list[Array]:
        source, (batch, lines) = self.sources[side], self.slices[side]
        if isinstance(source, Encoded):
            return source.planes_for(self.plan.layout, side, batch, lines, inner)
        operand = self.operands[side].cut(slice(None), slice(None), inner)
        return list(backend.encode(operand, self.lines[side], self.plan.layout, side))

    def _uncertified(self, shape: tuple[int, ...]) -> Array:
        """Elements that the certificate leaves open, after a cheap look and a definitive one."""
        plan, fmt = self.plan, self.problem.fmt
        left, right = self.lines
        if plan.layout.dropped == 0 and left.exact.all() and right.exact.all():
            return np.zeros(shape, bool)
        k = plan.shape[2]
        test = bounds.certificate(
            plan.contract, fmt.precision, k, fmt.parts, plan.layout.dropped
        )
        some = min(k, max(256, int(PART_OF_INNER * k)))
        # Sums of non-negative terms in float32 are off by at most a factor 1 +- some 2^-24 (1 + ..)
        lead = self._lead_product(np.float32, self.operands, self.lines, some)
        open_elements = backend.uncertified(lead, 1 - 2 * some * 2.0**-24 - 2.0**-20, left, right,
                                            test)  # fmt: skip
        del lead
        for b in np.flatnonzero(open_elements.any(axis=(1, 2))):
            rows = np.flatnonzero(open_elements[b].any(axis=1))
            columns = np.flatnonzero(open_elements[b].any(axis=0))
            operands, lines = self._chosen(b, rows, columns)
            lead = self._lead_product(np.float64, operands, lines, k)
            marks = backend.uncertified(lead, 1.0, *lines, test)[0]
            open_elements[b][np.ix_(rows, columns)] &= marks
        return open_elements

    def _lead_product(
        self, dtype: Any, operands: Sequence[Operand], lines: Sequence[Quantised], stop: int
    ) -> Array:
        """Product of leading integers over the first `stop` of the inner dimension."""
        k = self.plan.shape[2]
        kept = bounds.lead_bits(k)
        total: Array | None = None
        for start in range(0, stop, self.plan.blocks.inner):
            inner = slice(start, min(start + self.plan.blocks.inner, stop))
            ours, theirs = (
                backend.leads(operand.cut(slice(None), slice(None), inner), line, kept)
                for operand, line in zip(operands, lines, strict=True)
            )
            part = np.matmul(
                ours.astype(dtype, copy=False), theirs.swapaxes(1, 2).astype(dtype, copy=False)
            )
            total = part if total is None else total + part
        assert total is not None
        return total

    def _chosen(
        self, b: int, rows: Array, columns: Array
    ) -> tuple[tuple[Operand, Operand], tuple[Quantised, Quantised]]:
        """Some rows and columns of one batch item, as operands of their own."""
        picked = []
        for operand, lines, chosen in zip(
            self.operands, self.lines, (rows, columns), strict=True
        ):
            item = b if operand.shape[0] > 1 else 0
            parts = tuple(part[item][chosen][None] for part in operand.parts)
            picked.append((Operand(parts), lines.pick(item, chosen)))
        return (picked[0][0], picked[1][0]), (picked[0][1], picked[1][1])

    def _repair(self, marks: Array, out: Array, scaling: Scaling | None) -> None:
        """Make every marked element the correctly rounded one, and touch no other."""
        rest = marks.copy()
        for b in np.flatnonzero(marks.sum(axis=(1, 2)) >= FEW):
            for axis in (1, 0):
                columns = np.flatnonzero(rest[b].any(axis=0))
                rows = np.flatnonzero(rest[b].any(axis=1))
                counts = rest[b][np.ix_(rows, columns)].mean(axis=axis) if rows.size else rows
                dense = counts > DENSE
                if not dense.any():
                    continue
                rows, columns = (rows[dense], columns) if axis == 1 else (rows, columns[dense])
                self.left_planes = None  # make room
                self._exact_product(b, rows, columns, rest, out, scaling)
                rest[b][np.ix_(rows, columns)] = False
        where = np.nonzero(rest)
        if where[0].size:
            backend.dots(*self.operands, where, self.problem.fmt.part, out, scaling)

    def _exact_product(
        self, b: int, rows: Array, columns: Array, marks: Array, out: Array,
        scaling: Scaling | None,
    ) -> None:  # fmt: skip
        """Exact product of some rows and columns, written where marked."""
        fmt, k, workspace = self.problem.fmt, self.plan.shape[2], self.plan.workspace
        # Copies of the chosen lines take a quarter of the workspace, their blocks a half.
        step = max(1, workspace // (4 * 2 * 2 * 8 * fmt.parts * k))
        for i in range(0, rows.size, step):
            for j in range(0, columns.size, step):
                pick = rows[i : i + step], columns[j : j + step]
                operands, _ = self._chosen(b, *pick)
                for some_rows, some_columns, reconstruct in exact_blocks(
                    *operands, fmt, workspace // 2
                ):
                    at = np.ix_([b], pick[0][some_rows], pick[1][some_columns])
                    wanted = marks[at]
                    values = np.empty((fmt.parts, *wanted.shape))
                    part = None
                    if scaling is not None:
                        addend = np.ascontiguousarray(scaling.addend[:, *at])
                        part = Scaling(scaling.alpha, scaling.beta, addend)
                    reconstruct(values, part)
                    for target, value in zip(out, values, strict=True):
                        target[at] = np.where(wanted, value, target[at])

    def _special_values(self, out: Array, scaling: Scaling | None) -> None:
        """NaN and infinities where the ordinary product (and alpha, beta, c) has them."""
        rows, columns = (lines.survey.special for lines in self.lines)
        if rows.any() or columns.any():
            backend.special_values(*self.operands, rows, columns, out)
        if scaling is not None:
            touched = rows[:, :, None] | columns[:, None, :]
            backend.scale_special(out, scaling, touched)

    def bound(self, out: Array, repaired: Array, scaling: Scaling | None, target: Array) -> None:
        """Certified absolute error of every element, rounded up."""
        exact = repaired | self.plan.contract.correct
        scale = 1.0 if scaling is None else float(np.hypot.reduce(scaling.alpha.view(np.float64)))
        backend.error_bound(
            *self.lines, self.plan.shape[2], self.plan.layout, self.problem.fmt, out, exact,
            abs(scale) * (1 + 2.0**-50), target,
        )  # fmt: skip


def exact_blocks(
    ours: Operand, theirs: Operand, fmt: Format, workspace: int
) -> Iterator[tuple[slice, slice, Callable[[Array, Scaling | None], Array]]]:
    """Exact products of all rows and columns of one batch item, ready to be rounded.

    Powers of two are moved along the inner dimension first, (A D)(D^-1 B), which is exact and
    undoes graded columns; terms that are zero in every element are left out.
    """
    tops = [
        np.max([np.abs(part[0].astype(np.float64)).max(axis=0) for part in side.parts], axis=0)
        for side in (ours, theirs)
    ]
    inner = np.flatnonzero((tops[0] > 0) & (tops[1] > 0) & np.isfinite(tops[0] + tops[1]))
    if inner.size == 0:
        inner = np.arange(1)
    exponents = [np.frexp(top[inner])[1].astype(np.int64) for top in tops]
    balance = (exponents[1] - exponents[0]) // 2
    sides = [Operand(tuple(part[:, :, inner] for part in side.parts)) for side in (ours, theirs)]
    shifts = (balance, -balance)
    lines = [
        backend.quantise(backend.survey(side, shift, norms=False), None)
        for side, shift in zip(sides, shifts, strict=True)
    ]
    shape = (1, ours.shape[1], inner.size, theirs.shape[1])
    plan = make_plan(
        CONTRACTS["correct"], fmt, shape, backend.exact_needs(*lines, inner.size * fmt.parts),
        unit="fp64", workspace=workspace,
    )  # fmt: skip
    everything = slice(None)
    for _, rows, columns in _block_slices(plan):
        pieces = (rows, columns)
        block = [line.cut(everything, piece) for line, piece in zip(lines, pieces, strict=True)]
        groups = np.empty(
            (plan.layout.groups, 1, rows.stop - rows.start, columns.stop - columns.start)
        )
        for start in range(0, inner.size, plan.blocks.inner):
            stretch = slice(start, start + plan.blocks.inner)
            planes = [
                backend.encode(
                    side.cut(everything, piece, stretch), line, plan.layout, at, shift[stretch]
                )
                for at, (side, piece, line, shift) in enumerate(
                    zip(sides, pieces, block, shifts, strict=True)
                )
            ]
            backend.multiply(
                planes[0], planes[1], plan.layout.products, UNITS[plan.unit], plan.depth, groups,
                add=start > 0,
            )  # fmt: skip
            del planes

        def reconstruct(
            out: Array, scaling: Scaling | None, groups: Array = groups, block: Any = block
        ) -> Array:
            return backend.reconstruct(groups, plan.layout, *block, fmt.part, out, scaling=scaling)

        yield rows, columns, reconstruct


def _operand(source: Operand | Encoded) -> Operand:
    return source.operand if isinstance(source, Encoded) else source


def encode_operand(
    x: Array, side: str, contract: Contract, fmt: Format, unit: Unit, system: str | None
) -> Encoded:
    """Planes of a whole operand, enough of them for any operand on the other side.

    The other side is scaled to the same goal, and no 2-norm is above a 1-norm, so its norm is
    known before it is seen; "correct" is quantised at the planner's first cap for this reason.
    """
    matrices = x.reshape(-1, *matrix_dims(x.shape, side)[-2:])
    operand = lines(np.array(matrices), side, fmt.parts)  # a copy: it cannot go stale
    k = operand.shape[2]
    goal = bounds.goal(contract, fmt.precision, k, fmt.parts, first_cap(fmt.precision, k))
    assert goal is not None
    quantised = backend.quantise(backend.survey(operand), goal)
    own = backend.needs(quantised, quantised, k)
    largest = math.log2(goal.root) + goal.shift + 1
    widths = (own.widths[0], math.ceil(largest))
    needs = Needs((own.norms[0], largest), widths if side == "left" else (widths[1], widths[0]))
    at = 0 if side == "left" else 1
    layout = choose_layout(contract, fmt, k, unit, system, needs, None)
    planes = backend.encode(operand, quantised, layout, at)
    return Encoded(
        side, x.shape, contract, fmt, unit.name, layout.system, operand, quantised, layout, planes
    )
