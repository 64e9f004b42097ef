"""Certificates on a CPU: which elements keep their contract, and by how much."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from widen import bounds
from widen.bounds import Certificate
from widen.cpu import kernels
from widen.cpu.memory import Scratch
from widen.cpu.operands import Array, Chosen, Operand, Quantised, every
from widen.cpu.threads import launch
from widen.formats import Part
from widen.plan import Plan
from widen.stages.error_bounds import Losses, Terms, losses_of, ulp

FIRST_LOOK = 0.625
"""Share of the inner dimension whose leading integers are multiplied first, in float32.

A typical element is certified by a quarter to a half of |A||B|, as its row and column fall between
powers of two. Five eighths of the terms show that much for a third of the cost of one product of
planes; with three eighths half of the elements stay open (k = 1024, phi = 0.1).
"""

FEW_OPEN = 0.125
"""Share of the elements that a definitive look may take in after sketches, or all have another."""


def weights(lines: Quantised, test: Certificate) -> tuple[Array, Array]:
    """`Certificate.weight` and `Certificate.level` of every line."""
    weighed, levels = (np.empty(lines.exponents.shape, np.int64) for _ in range(2))
    settings = np.array([test.divisor, test.unit, test.goal.root, test.goal.shift])
    jobs, q1 = len(weighed), lines.survey.q1
    launch(kernels.certify.weights, jobs, weighed.size, q1, settings, weighed, levels)
    return weighed, levels


def leads(
    operand: Operand, lines: Quantised, kept: int,
    memory: Callable[[tuple[int, ...]], Array] = lambda shape: np.empty(shape, np.float32),
) -> Array:  # fmt: skip
    """Leading integers floor(|x| 2^(kept - top)), summed over the parts, as float32."""
    near = operand.lines_near
    batch, count, inner = operand.shape
    out = memory((batch, inner, count) if near else (batch, count, inner))
    survey, jobs = lines.survey, batch * out.shape[1]
    for at, bits in enumerate(operand.bits()):
        lines_known = bits, near, survey.top, survey.special
        launch(kernels.lines.leads, jobs, bits.size, *lines_known, kept, at > 0, out)
    return out.swapaxes(1, 2) if near else out


SKETCH, SKETCH_TILE = 32, 64
"""Numbers in the sketch of a line, and lines that are one job."""

LEAST_SKETCHED = 512
"""Inner length from which sketches say enough: shorter lines differ too much from each other."""


def sketched(operands: tuple[Operand, Operand]) -> bool:
    """Whether operands can be sketched: real, float64 or words, neither short nor very long."""
    inner = operands[0].shape[2]
    plain = all(len(side.parts) == 1 and (side.viewed or side.lower) for side in operands)
    return plain and inner >= LEAST_SKETCHED and bounds.lead_bits(inner) == bounds.LEAD_BITS


def sketch(operand: Operand, lines: Quantised, side: int) -> Array:
    """A line in a few numbers, (batch, lines, SKETCH), as float32.

    Products of left and right sketches are lower bounds of the product of leading integers
    (`bounds.LEAD_BITS` of them): no order of two lines has a smaller product than one sorted
    upwards and the other downwards, and sketches bound the sorted entries from below.
    """
    batch, count, _ = operand.shape
    out = np.empty((batch, count, SKETCH), np.float32)
    bits, jobs = operand.bits()[0], batch * -(-count // SKETCH_TILE)
    survey = lines.survey
    launch(
        kernels.certify.sketch, jobs, bits.size,
        bits, operand.lines_near, survey.top, survey.special, side == 0, out,
    )  # fmt: skip
    return out


def sketch_products(ours: Array, theirs: Array, out: Array) -> Array:
    """Lower bounds of all products of leading integers, (batch, m, n), from sketches."""
    right = np.ascontiguousarray(theirs.swapaxes(1, 2))
    launch(
        kernels.certify.sketch_products, out.shape[0] * out.shape[1], 8 * out.size, ours, right, out
    )
    return out


def uncertified(
    lead: Array, factor: float, left: Quantised, right: Quantised, test: Certificate
) -> Array:
    """Mask of the elements that `test` does not certify, given (a lower bound of) D."""
    batch = lead.shape[0]
    marks = np.empty(lead.shape, bool)
    per_line = [
        every(of_lines, batch)
        for side in (left, right)
        for of_lines in (*weights(side, test), side.exact)
    ]
    always = min(test.always, 1 << 61)
    settings = np.array([test.shift, test.both, always])
    launch(
        kernels.certify.certify, batch * lead.shape[1], lead.size, lead, factor, *per_line,
        settings, marks,
    )  # fmt: skip
    return marks


@dataclass(frozen=True)
class Looks:
    """Looks at the leading integers of a block's lines, cheap ones first.

    What is known of columns is kept while blocks of rows pass.
    """

    chosen: Chosen
    block: tuple[slice, slice, slice]
    plan: Plan
    scratch: Scratch
    kept: dict[str, Any]

    def uncertified(self, test: Certificate) -> Array:
        """Elements that the certificate leaves open, after a quick look and a definitive one."""
        k = self.plan.shape[2]

        def marks_by(lead: Array, terms: int, side: int = -1) -> Array:
            # Sums of non-negative terms in float32 are off by a factor of at most 1 + terms 2^-24,
            # to first order; twice that covers the rest.
            factor = 1 + side * 2.0**-23 * (terms + 8)
            return uncertified(lead, factor, *self.chosen.lines, test)

        open_elements = None
        if sketched(self.chosen.operands):
            open_elements = unclear = marks_by(self._sketches(), SKETCH)
        if open_elements is None or _spread(open_elements) > FEW_OPEN:
            lead, terms = self._first_look(), self._first_terms
            open_elements = unclear = marks_by(lead, terms)
            if (
                terms == k and open_elements.any()
            ):  # those that even more would not certify are clear
                unclear = open_elements & ~marks_by(lead, terms, 1)
        items = np.flatnonzero(unclear.any(axis=(1, 2))) if unclear.any() else ()
        for b in items:
            rows = np.flatnonzero(unclear[b].any(axis=1))
            columns = np.flatnonzero(unclear[b].any(axis=0))
            unclear_lines = (int(b), rows, columns)
            exact_lead = self._lead_product(np.float64, k, unclear_lines)
            marks = uncertified(exact_lead, 1.0, *self.chosen.pick_lines(*unclear_lines), test)
            open_elements[b][np.ix_(rows, columns)] &= marks[0]
        return open_elements

    def _first_look(self) -> Array:
        """Leading integers multiplied over a part of the inner dimension, in float32."""
        stop = self._first_terms
        if stop > self.plan.blocks.inner:
            return self._lead_product(np.float32, stop)
        kept = bounds.lead_bits(self.plan.shape[2])
        if self.kept.get("lead columns") != (self.block[0], self.block[2]):
            self.kept["lead columns"] = (self.block[0], self.block[2])
            self.kept["leads"] = self._leads(1, stop, kept)
        ours, theirs = self._leads(0, stop, kept), self.kept["leads"]
        return np.matmul(ours, theirs.swapaxes(1, 2), out=self._lead_room(ours, theirs))

    def _leads(self, side: int, stop: int, kept: int) -> Array:
        def memory(shape: tuple[int, ...]) -> Any:
            return self.scratch.take(f"leads {side}", shape, "float32")

        operand = self.chosen.operands[side]
        if operand.shape[2] != stop:
            operand = operand.inner(slice(0, stop))
        return leads(operand, self.chosen.lines[side], kept, memory)

    @property
    def _first_terms(self) -> int:
        k = self.plan.shape[2]
        return min(k, max(256, int(FIRST_LOOK * k)))

    def _sketches(self) -> Array:
        """Sketches of rows times sketches of columns, which are kept."""
        if self.kept.get("sketched columns") != (self.block[0], self.block[2]):
            self.kept["sketched columns"] = (self.block[0], self.block[2])
            self.kept["sketches"] = sketch(self.chosen.operands[1], self.chosen.lines[1], 1)
        ours = sketch(self.chosen.operands[0], self.chosen.lines[0], 0)
        theirs = self.kept["sketches"]
        return sketch_products(ours, theirs, self._lead_room(ours, theirs))

    def _lead_room(self, ours: Array, theirs: Array) -> Array:
        shape = (max(len(ours), len(theirs)), ours.shape[1], theirs.shape[1])
        return np.asarray(self.scratch.take("lead product", shape, "float32"))

    def _lead_product(
        self, dtype: Any, stop: int, lines: tuple[int, Array, Array] | None = None
    ) -> Array:
        """Product of leading integers up to `stop`, of all lines or a few of one batch item."""
        kept = bounds.lead_bits(self.plan.shape[2])
        total: Any = 0
        for start in range(0, stop, self.plan.blocks.inner):
            inner = slice(start, min(start + self.plan.blocks.inner, stop))
            stretch = (
                self.chosen.inner(inner) if lines is None else self.chosen.inner(inner).pick(*lines)
            )
            ours, theirs = (
                leads(operand, lines_, kept).astype(dtype, copy=False)
                for operand, lines_ in zip(stretch.operands, stretch.lines, strict=True)
            )
            total = total + np.matmul(ours, theirs.swapaxes(1, 2))
        return np.asarray(total)


def _spread(marks: Array) -> float:
    """Share of the elements in rows and columns that have a mark."""
    touched = marks.any(axis=2).sum(axis=1) * marks.any(axis=1).sum(axis=1)
    return float(touched.sum()) / marks.size


def error_bound(
    left: Quantised, right: Quantised, fmt: Part, out: Array, repaired: Array, terms: Terms,
    *, target: Array | None, rounded_once: bool = False,
) -> tuple[float, int]:  # fmt: skip
    """`error_bounds.bound_of` for `out`, (words, parts, batch, m, n), into `target` if it is there.

    Gives the largest bound of a finite element (0 if there is none) and how many are finite.
    """
    _, parts, batch, m, n = out.shape
    rows, columns = (_losses(side, batch) for side in (left, right))
    largest, finite = np.empty(batch * m), np.empty(batch * m, np.int64)
    launch(
        kernels.error_bounds.bounds, batch * m, 4 * parts * batch * m * n, out[0],
        ulps_by_field(fmt), rows.lost, rows.norm, rows.shift, rows.exponent,
        columns.lost, columns.norm, columns.shift, columns.exponent, repaired, rounded_once,
        np.array([terms.both, terms.always, terms.factor]), terms.exponent,
        np.empty((0, 0, 0)) if target is None else target, largest, finite,
    )  # fmt: skip
    return float(largest.max()), int(finite.sum())


def _losses(lines: Quantised, batch: int) -> Losses:
    """What is known of the lines of every batch item."""
    own = losses_of(~lines.exact, lines.survey.q1, lines.exponents, lines.sigma)
    return Losses(*(every(x, batch) for x in (own.lost, own.norm, own.shift, own.exponent)))


@lru_cache(maxsize=64)
def ulps_by_field(fmt: Part) -> Array:
    """`error_bounds.ulp` of first words by their exponent fields: a number in every binade.

    Subnormal first words have no other ulp than 0: the smallest number, in every format.
    """
    fields = np.arange(0x7FF, dtype=np.int64) << 52
    return np.asarray(ulp(fields.view(np.float64), fmt))
