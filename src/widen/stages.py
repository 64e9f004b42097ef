"""The four stages over blocks, within a workspace."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from widen import bounds
from widen.backends import certificates, elements
from widen.backends import numpy as backend
from widen.backends.elements import Scaling
from widen.backends.error_bounds import terms_of
from widen.backends.operands import Array, Quantised
from widen.encoded import Encoded
from widen.ledger import Ledger, Scratch, scratch
from widen.plan import Plan
from widen.planner import block_slices
from widen.problem import Problem, quantise_both
from widen.repair import Chosen, repair
from widen.units import UNITS

FIRST_LOOK = 0.625
"""Share of the inner dimension whose leading integers are multiplied first, in float32.

A typical element is certified by a quarter to a half of |A||B|, as its row and column fall between
powers of two. Five eighths of the terms show that much for a third of the cost of one product of
planes; with three eighths half of the elements stay open (k = 1024, phi = 0.1).
"""

FEW_OPEN = 0.125
"""Share of the elements that a definitive look may take in after sketches, or all have another."""


def run(
    problem: Problem,
    out: tuple[Array, ...],
    scaling: Scaling | None = None,
    bound: Array | None = None,
    progress: Callable[[float], None] = lambda done: None,
    ledger: Ledger | None = None,
) -> Plan:
    """Compute the product (k >= 1) into `out`, its words (parts, batch, m, n), block by block."""
    ledger = Ledger() if ledger is None else ledger
    left, right, plan = quantise_both(problem, ledger)
    with scratch(ledger) as memory:
        stages = Stages(problem, plan, (left, right), ledger, memory)
        _run_blocks(stages, out, scaling, bound, progress)
    return plan


def _run_blocks(
    stages: Stages, out: tuple[Array, ...], scaling: Scaling | None, bound: Array | None,
    progress: Callable[[float], None],
) -> None:  # fmt: skip
    blocks = list(block_slices(stages.plan))
    for done, block in enumerate(blocks, start=1):
        batch, rows, columns = block
        targets = [word[:, batch, rows, columns] for word in out]
        # Kernels write float64; what they write is a number of the result's format already.
        direct = len(out) == 1 and out[0].dtype == np.float64
        shape = (len(out), *targets[0].shape)
        values = targets[0][None] if direct else stages.scratch.take("values", shape)
        part = None if scaling is None else scaling.cut(batch, rows, columns)
        repaired = stages.compute(block, values, part)
        if not direct:
            for target, value in zip(targets, values, strict=True):
                target[...] = value
        if stages.ledger.bounds:
            limits = None if bound is None else bound[batch, rows, columns]
            stages.bound(block, values, repaired, part, limits)
        progress(done / len(blocks))


class Stages:
    """The stages of one product, with what is kept from block to block."""

    def __init__(
        self, problem: Problem, plan: Plan, quantised: tuple[Quantised, Quantised],
        ledger: Ledger, memory: Scratch,
    ) -> None:  # fmt: skip
        self.problem, self.plan, self.quantised = problem, plan, quantised
        self.ledger, self.scratch = ledger, memory
        self.unit = UNITS[plan.unit]
        self.kept: dict[str, Any] = {}

    def compute(
        self, block: tuple[slice, slice, slice], out: Array, scaling: Scaling | None
    ) -> Array:
        """Fill `out`, (words, parts, batch, rows, columns); give a mask of what was repaired."""
        plan, ledger, correct = self.plan, self.ledger, self.plan.contract.correct
        chosen = self._chosen(block)
        uncertified = None
        if plan.contract.certified_by_data and not self._all_exact(chosen):
            with ledger.stage("certify"):
                uncertified = self._uncertified(chosen, block)
        groups = self._groups(chosen, block, out.shape[2:])
        with ledger.stage("reconstruct"):
            approximate = plan.cap is not None or plan.layout.dropped > 0
            open_elements = backend.reconstruct(
                groups, plan.layout, *chosen.lines, self.problem.fmt.part, out,
                slack=correct and approximate, scaling=scaling,
            )  # fmt: skip
        del groups
        if uncertified is not None:
            open_elements = uncertified
        rows, columns = (lines_.survey.special for lines_ in chosen.lines)
        if rows.any() or columns.any():  # these elements are decided by special values alone
            open_elements &= ~(rows[:, :, None] | columns[:, None, :])
        with ledger.stage("repair"):
            if open_elements.any():
                ledger.repaired += int(open_elements.sum())
                self.scratch.clear()
                self.kept.clear()
                repair(chosen, open_elements, out, scaling, self.problem.fmt, plan.workspace)
            self._special_values(chosen, out, scaling)
        return open_elements

    def _chosen(self, block: tuple[slice, slice, slice]) -> Chosen:
        """The lines of a block."""
        batch, rows, columns = block
        if self.plan.blocks.whole(self.plan.shape):
            operands = [x.operand if isinstance(x, Encoded) else x for x in self.problem.sources]
            return Chosen((operands[0], operands[1]), self.quantised)
        operands, quantised = [], []
        for source, lines_, piece in zip(
            self.problem.sources, self.quantised, (rows, columns), strict=True
        ):
            operand = source.operand if isinstance(source, Encoded) else source
            operands.append(operand.cut(batch, piece))
            quantised.append(lines_.cut(batch, piece))
        return Chosen((operands[0], operands[1]), (quantised[0], quantised[1]))

    def _groups(
        self, chosen: Chosen, block: tuple[slice, slice, slice], shape: tuple[int, ...]
    ) -> Array:
        """Encode and multiply, cutting the inner dimension if the plan says so."""
        plan, k = self.plan, self.plan.shape[2]
        groups: Array = self.scratch.take("groups", (plan.layout.groups, *shape))
        partial: Array = self.scratch.take("partial", shape, self.unit.engine)
        whole = plan.blocks.inner >= k
        batch, rows, columns = block
        for start in range(0, k, plan.blocks.inner):
            inner = slice(start, min(start + plan.blocks.inner, k))
            with self.ledger.stage("encode"):
                left = self._planes(chosen, 0, (batch, rows, inner))
                # Columns stay while blocks of rows pass.
                if not whole or self.kept.get("columns") != (batch, columns):
                    self.kept["planes"] = self._planes(chosen, 1, (batch, columns, inner))
                    self.kept["columns"] = (batch, columns) if whole else None
            with self.ledger.stage("multiply"):
                backend.multiply(
                    left, self.kept["planes"], plan.layout.products, self.unit, plan.depth, groups,
                    partial, add=start > 0,
                )  # fmt: skip
        return groups

    def _planes(
        self, chosen: Chosen, side: int, block: tuple[slice, slice, slice]
    ) -> Sequence[Array] | Array:
        source, layout = self.problem.sources[side], self.plan.layout
        if isinstance(source, Encoded):
            return source.planes_for(layout, side, *block)
        operand = chosen.operands[side]
        if operand.shape[2] != block[2].stop - block[2].start:
            operand = operand.inner(block[2])

        def memory(shape: tuple[int, ...]) -> Any:
            return self.scratch.take(f"planes {side}", shape)

        room = min(backend.CONVERSION, self.plan.workspace // 4)
        return backend.encode(operand, chosen.lines[side], layout, side, memory=memory, room=room)

    def _all_exact(self, chosen: Chosen) -> bool:
        """Whether X is the exact product, so that there is nothing to certify."""
        exact = all(bool(lines_.exact.all()) for lines_ in chosen.lines)
        return exact and self.plan.layout.dropped == 0

    def _first_look(self, chosen: Chosen, block: tuple[slice, slice, slice]) -> Array:
        """Leading integers multiplied over a part of the inner dimension, in float32."""
        stop = self._looked_at
        if stop > self.plan.blocks.inner:
            return self._lead_product(np.float32, chosen, stop)
        kept = bounds.lead_bits(self.plan.shape[2])
        if self.kept.get("lead columns") != (block[0], block[2]):
            self.kept["lead columns"] = (block[0], block[2])
            self.kept["leads"] = self._leads(chosen, 1, stop, kept)
        ours, theirs = self._leads(chosen, 0, stop, kept), self.kept["leads"]
        return np.matmul(ours, theirs.swapaxes(1, 2), out=self._lead_room(ours, theirs))

    def _leads(self, chosen: Chosen, side: int, stop: int, kept: int) -> Array:
        def memory(shape: tuple[int, ...]) -> Any:
            return self.scratch.take(f"leads {side}", shape, "float32")

        operand = chosen.operands[side]
        if operand.shape[2] != stop:
            operand = operand.inner(slice(0, stop))
        return certificates.leads(operand, chosen.lines[side], kept, memory)

    @property
    def _looked_at(self) -> int:
        k = self.plan.shape[2]
        return min(k, max(256, int(FIRST_LOOK * k)))

    def _uncertified(self, chosen: Chosen, block: tuple[slice, slice, slice]) -> Array:
        """Elements that the certificate leaves open, after a quick look and a definitive one."""
        k, fmt = self.plan.shape[2], self.problem.fmt
        test = bounds.certificate(
            self.plan.contract, fmt.precision, k, fmt.parts, self.plan.layout.dropped
        )

        def marks_by(lead: Array, terms: int, side: int = -1) -> Array:
            # Sums of non-negative terms in float32 are off by a factor of at most 1 + terms 2^-24,
            # to first order; twice that covers the rest.
            factor = 1 + side * 2.0**-23 * (terms + 8)
            return certificates.uncertified(lead, factor, *chosen.lines, test)

        open_elements = None
        if certificates.sketched(chosen.operands):
            open_elements = unclear = marks_by(self._sketches(chosen, block), certificates.SKETCH)
        if open_elements is None or _spread(open_elements) > FEW_OPEN:
            lead, terms = self._first_look(chosen, block), self._looked_at
            open_elements = unclear = marks_by(lead, terms)
            if (
                terms == k and open_elements.any()
            ):  # those that even more would not certify are clear
                unclear = open_elements & ~marks_by(lead, terms, 1)
        items = np.flatnonzero(unclear.any(axis=(1, 2))) if unclear.any() else ()
        for b in items:
            rows = np.flatnonzero(unclear[b].any(axis=1))
            columns = np.flatnonzero(unclear[b].any(axis=0))
            few = (int(b), rows, columns)
            exact_lead = self._lead_product(np.float64, chosen, k, few)
            marks = certificates.uncertified(exact_lead, 1.0, *chosen.pick_lines(*few), test)
            open_elements[b][np.ix_(rows, columns)] &= marks[0]
        return open_elements

    def _sketches(self, chosen: Chosen, block: tuple[slice, slice, slice]) -> Array:
        """Sketches of rows times sketches of columns, which are kept."""
        if self.kept.get("sketched columns") != (block[0], block[2]):
            self.kept["sketched columns"] = (block[0], block[2])
            self.kept["sketches"] = certificates.sketch(chosen.operands[1], chosen.lines[1], 1)
        ours = certificates.sketch(chosen.operands[0], chosen.lines[0], 0)
        theirs = self.kept["sketches"]
        return certificates.sketch_products(ours, theirs, self._lead_room(ours, theirs))

    def _lead_room(self, ours: Array, theirs: Array) -> Array:
        shape = (max(len(ours), len(theirs)), ours.shape[1], theirs.shape[1])
        return np.asarray(self.scratch.take("lead product", shape, "float32"))

    def _lead_product(
        self, dtype: Any, chosen: Chosen, stop: int, few: tuple[int, Array, Array] | None = None
    ) -> Array:
        """Product of leading integers up to `stop`, of all lines or a few of one batch item."""
        kept = bounds.lead_bits(self.plan.shape[2])
        total: Any = 0
        for start in range(0, stop, self.plan.blocks.inner):
            inner = slice(start, min(start + self.plan.blocks.inner, stop))
            stretch = chosen.inner(inner) if few is None else chosen.inner(inner).pick(*few)
            ours, theirs = (
                certificates.leads(operand, lines_, kept).astype(dtype, copy=False)
                for operand, lines_ in zip(stretch.operands, stretch.lines, strict=True)
            )
            total = total + np.matmul(ours, theirs.swapaxes(1, 2))
        return np.asarray(total)

    def _special_values(self, chosen: Chosen, out: Array, scaling: Scaling | None) -> None:
        """NaN and infinities where the ordinary product (and alpha, beta, c) has them."""
        rows, columns = (lines_.survey.special for lines_ in chosen.lines)
        if rows.any() or columns.any():
            room = self.plan.workspace // 4
            for i, j in chosen.tiles(room):
                ours, theirs = (
                    operand.cut(slice(None), piece)
                    for operand, piece in zip(chosen.operands, (i, j), strict=True)
                )
                elements.special_values(ours, theirs, rows[:, i], columns[:, j], out[..., i, j])
        if scaling is not None:
            elements.scale_special(out, scaling, rows[:, :, None] | columns[:, None, :])

    def bound(
        self, block: tuple[slice, slice, slice], out: Array, repaired: Array,
        scaling: Scaling | None, target: Array | None,
    ) -> None:  # fmt: skip
        """Certified absolute error of every element, rounded up, and the largest."""
        plan, fmt = self.plan, self.problem.fmt
        alpha = 1.0 if scaling is None else complex(*scaling.alpha.view(np.float64))
        terms = terms_of(plan.shape[2], fmt.parts, plan.layout.dropped, alpha)
        with self.ledger.stage("certify"):
            found = certificates.error_bound(
                *self._chosen(block).lines, fmt.part, out, repaired, terms, target,
                rounded_once=plan.contract.correct,
            )  # fmt: skip
        self.ledger.add_bounds(*found)


def _spread(marks: Array) -> float:
    """Share of the elements in rows and columns that have a mark."""
    touched = marks.any(axis=2).sum(axis=1) * marks.any(axis=1).sum(axis=1)
    return float(touched.sum()) / marks.size
