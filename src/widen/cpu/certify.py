"""Certificates on a CPU: which elements keep their contract, and by how much."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from widen.bounds import Certificate, Weighed
from widen.cpu import kernels
from widen.cpu.memory import Scratch
from widen.cpu.operands import Array, Chosen, Operand, Quantised, every
from widen.cpu.threads import launch
from widen.formats import Part
from widen.plan import Plan
from widen.stages.error_bounds import Losses, Terms, losses_of, ulps_by_field
from widen.stages.exactness import highest_place

FIRST_LOOK = 0.625
"""Share of the inner dimension whose magnitudes are multiplied first, in float32.

A typical element is certified by a quarter to a half of |A||B|, as its row and column fall between
powers of two. Five eighths of the terms show that much for a third of the cost of one product of
planes; with three eighths half of the elements stay open (k = 1024, phi = 0.1). Of short lines all
terms are looked at: the rest would save less than a second look costs.
"""

FEW_OPEN = 0.125
"""Share of the elements that a definitive look may take in after sketches, or all have another."""


@dataclass(frozen=True)
class WeighedLines:
    """`bounds.Weighed` of every line, arrays of shape (batch, lines)."""

    weight: Array
    step: Array
    spans: Array


def weighed(lines: Quantised, test: Certificate, batch: int, near: int) -> WeighedLines:
    """What a certificate knows of the lines of every batch item, and which do not reach further."""
    rounded, seen = ~lines.exact | (test.dropped > 0), lines.survey
    step = np.where(rounded & ~seen.special, np.ldexp(1.0, -lines.sigma), 0.0)
    spans = (seen.nonzeros, seen.first, seen.stop, (seen.reach <= near).astype(np.int64))
    return WeighedLines(
        every(seen.q1 * test.line, batch), every(step, batch),
        np.stack([every(fact, batch) for fact in spans]),
    )  # fmt: skip


NEAR = {"float32": 60, "float64": 126}
"""Products of magnitudes that reach no further down are not 0 in a format unless one of them is."""


def magnitudes(
    operand: Operand, lines: Quantised, dtype: Any,
    memory: Callable[[tuple[int, ...]], Array] | None = None,
) -> Array:  # fmt: skip
    """|x| 2^-top, each part rounded down to 8 bits, summed, in float32 or float64.

    What is below 2^-126 is 0. Numbers of one part, and products of them, are exact.
    """
    near = operand.lines_near
    batch, count, inner = operand.shape
    shape = (batch, inner, count) if near else (batch, count, inner)
    out = np.empty(shape, dtype) if memory is None else memory(shape)
    survey, jobs = lines.survey, batch * out.shape[1]
    for at, bits in enumerate(operand.bits()):
        launch(
            kernels.magnitudes.magnitudes, jobs, bits.size, out, bits, near, survey.top,
            survey.special, at > 0,
        )  # fmt: skip
    return out.swapaxes(1, 2) if near else out


SKETCH, SKETCH_TILE = 32, 64
"""Numbers in the sketch of a line, and lines that are one job."""

LEAST_SKETCHED = 512
"""Inner length from which sketches say enough: shorter lines differ too much from each other."""

MOST_SKETCHED, SKETCH_UNIT = 1 << 20, 2.0**-28
"""Inner length up to which sums of leading integers are exact; and the unit of their products."""


def sketched(operands: tuple[Operand, Operand]) -> bool:
    """Whether operands can be sketched: real, float64 or words, neither short nor very long."""
    inner = operands[0].shape[2]
    plain = all(len(side.parts) == 1 and (side.viewed or side.lower) for side in operands)
    return plain and LEAST_SKETCHED <= inner <= MOST_SKETCHED


def sketch(operand: Operand, lines: Quantised, side: int) -> Array:
    """A line in a few numbers, (batch, lines, SKETCH), as float32.

    Products of left and right sketches are lower bounds of the product of leading integers
    floor(|x| 2^(14 - top)): no order of two lines has a smaller product than one sorted
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
    total: Array, factor: float, lines: tuple[Quantised, Quantised], test: Certificate,
    slack: float = 0.0, near: int = -1,
) -> Array:  # fmt: skip
    """Mask of the elements that need more than total factor + slack.

    Where it is 0 and lines are no wider than `near`, nothing is needed.
    """
    batch = total.shape[0]
    marks = np.empty(total.shape, bool)
    ours, theirs = (weighed(side, test, batch, near) for side in lines)
    launch(
        kernels.certify.certify, batch * total.shape[1], total.size, total, factor, slack,
        ours.weight, ours.step, ours.spans, theirs.weight, theirs.step, theirs.spans,
        np.array([test.entry, test.both, test.dropped]), marks,
    )  # fmt: skip
    return marks


SLACK = 2.0**-90
"""More than what magnitudes below 2^-126 can add to any sum."""


@dataclass(frozen=True)
class Looks:
    """Looks at the magnitudes of a block's lines: cheap ones, that only accept, first.

    What is known of columns is kept while blocks of rows pass. `sums` are those of products of
    magnitudes, (batch, rows, columns) in float64, if they are known already.
    """

    chosen: Chosen
    block: tuple[slice, slice, slice]
    plan: Plan
    scratch: Scratch
    kept: dict[str, Any]
    sums: Array | None = None

    def uncertified(self, test: Certificate) -> Array:
        """Elements that the certificate leaves open: by their sums of magnitudes, exactly."""
        k, lines = self.plan.shape[2], self.chosen.lines
        open_elements = None
        if self.sums is not None:
            near = NEAR["float64"]
            open_elements = uncertified(self.sums, 1 - _wide_error(k), lines, test, near=near)
        elif sketched(self.chosen.operands):
            factor = SKETCH_UNIT * (1 - relative_error(SKETCH))
            open_elements = uncertified(self._sketches(), factor, lines, test)
        if open_elements is None or (self.sums is None and _spread(open_elements) > FEW_OPEN):
            terms = self._first_terms
            total = self._first_look()
            near = NEAR["float32"] if terms == k else -1
            open_elements = uncertified(total, 1 - relative_error(terms), lines, test, near=near)
            if terms < k and _spread(open_elements) > FEW_OPEN:
                total += self._sums(np.float32, slice(terms, k))
                near = NEAR["float32"]
                open_elements = uncertified(total, 1 - relative_error(k), lines, test, near=near)
                terms = k
            unclear = open_elements
            if terms == k and open_elements.any():  # what more would not certify is clear
                unclear = open_elements & ~uncertified(
                    total, 1 + relative_error(k), lines, test, SLACK
                )
        else:
            unclear = open_elements
        for b in np.flatnonzero(unclear.any(axis=(1, 2))) if unclear.any() else ():
            rows = np.flatnonzero(unclear[b].any(axis=1))
            columns = np.flatnonzero(unclear[b].any(axis=0))
            self._decide(test, (int(b), rows, columns), open_elements)
        return open_elements

    def _decide(
        self, test: Certificate, lines: tuple[int, Array, Array], open_elements: Array
    ) -> None:
        """Decide about the open elements of these lines; those too close by exact sums."""
        k, (b, rows, columns) = self.plan.shape[2], lines
        place: Any = (b, *np.ix_(rows, columns))
        picked = self.chosen.pick_lines(*lines)
        total, error = self._sums(np.float64, slice(0, k), lines), _wide_error(k)
        near = NEAR["float64"]
        marks = uncertified(total, 1 - error, picked, test, near=near)[0] & open_elements[place]
        # Sums of 0 are exact: what the element needs is nothing if its lines share no entries.
        nothing = marks & (total[0] == 0)
        if nothing.any():
            marks &= ~nothing | self._share_entries(lines)
        close = marks & ~nothing & ~uncertified(total, 1 + error, picked, test)[0]
        open_elements[place] = marks
        for at, to in np.argwhere(close):
            i, j = int(rows[at]), int(columns[to])
            open_elements[b, i, j] = not self._is_certified(test, b, i, j)

    def _is_certified(self, test: Certificate, b: int, i: int, j: int) -> bool:
        """The definition of the test for one element."""
        one = np.array([i]), np.array([j])
        chosen = self.chosen.pick(b, *one)
        weighed_lines = []
        for lines in chosen.lines:
            own = weighed(lines, test, 1, 0)
            facts = (own.weight, own.step, *own.spans[:3])
            weighed_lines.append(Weighed(*(fact[0, 0].item() for fact in facts)))
        shared = np.logical_and.reduce(
            [np.any([part[0, 0] != 0 for part in x.parts], axis=0) for x in chosen.operands]
        )
        if not shared.any():
            return True
        ours, theirs = map(exact_magnitudes, chosen.operands, chosen.lines)
        total = sum((x * y for x, y in zip(ours, theirs, strict=True)), Fraction(0))
        return total >= test.needed(*weighed_lines)

    def _first_look(self) -> Array:
        """Sums over a part of the inner dimension, in float32."""
        stop = self._first_terms
        if stop > self.plan.blocks.inner:
            return self._sums(np.float32, slice(0, stop))
        if self.kept.get("columns looked at") != (self.block[0], self.block[2]):
            self.kept["columns looked at"] = (self.block[0], self.block[2])
            self.kept["magnitudes"] = self._magnitudes(1, stop)
        ours, theirs = self._magnitudes(0, stop), self.kept["magnitudes"]
        return np.matmul(ours, theirs.swapaxes(1, 2), out=self._room_for_sums(ours, theirs))

    def _magnitudes(self, side: int, stop: int) -> Array:
        def memory(shape: tuple[int, ...]) -> Any:
            return self.scratch.take(f"magnitudes {side}", shape, "float32")

        operand = self.chosen.operands[side]
        if operand.shape[2] != stop:
            operand = operand.inner(slice(0, stop))
        return magnitudes(operand, self.chosen.lines[side], np.float32, memory)

    @property
    def _first_terms(self) -> int:
        k = self.plan.shape[2]
        return k if k < LEAST_SKETCHED else int(FIRST_LOOK * k)

    def _sketches(self) -> Array:
        """Sketches of rows times sketches of columns, which are kept."""
        if self.kept.get("sketched columns") != (self.block[0], self.block[2]):
            self.kept["sketched columns"] = (self.block[0], self.block[2])
            self.kept["sketches"] = sketch(self.chosen.operands[1], self.chosen.lines[1], 1)
        ours = sketch(self.chosen.operands[0], self.chosen.lines[0], 0)
        theirs = self.kept["sketches"]
        return sketch_products(ours, theirs, self._room_for_sums(ours, theirs))

    def _room_for_sums(self, ours: Array, theirs: Array) -> Array:
        shape = (max(len(ours), len(theirs)), ours.shape[1], theirs.shape[1])
        return np.asarray(self.scratch.take("sums of magnitudes", shape, "float32"))

    def _sums(
        self, dtype: Any, terms: slice, lines: tuple[int, Array, Array] | None = None
    ) -> Array:
        """Sums of products of magnitudes, of all lines or a few of one batch item."""
        total: Any = 0
        for chosen in self._stretches(terms, lines):
            ours, theirs = (
                magnitudes(operand, lines_, dtype)
                for operand, lines_ in zip(chosen.operands, chosen.lines, strict=True)
            )
            total = total + np.matmul(ours, theirs.swapaxes(1, 2))
        return np.asarray(total)

    def _share_entries(self, lines: tuple[int, Array, Array]) -> Array:
        """Which rows and columns of one batch item have a place where neither is 0."""
        total: Any = 0
        for chosen in self._stretches(slice(0, self.plan.shape[2]), lines):
            ours, theirs = (
                np.logical_or.reduce([part[0] != 0 for part in x.parts]).astype(np.float32)
                for x in chosen.operands
            )
            total = total + ours @ theirs.T
        return np.asarray(total > 0)

    def _stretches(self, terms: slice, lines: tuple[int, Array, Array] | None) -> Iterator[Chosen]:
        """All lines, or a few of one batch item, in stretches that blocks have room for."""
        for start in range(terms.start, terms.stop, self.plan.blocks.inner):
            inner = slice(start, min(start + self.plan.blocks.inner, terms.stop))
            chosen = self.chosen.inner(inner)
            yield chosen if lines is None else chosen.pick(*lines)


def relative_error(terms: int) -> float:
    """Sums of non-negative terms in float32 are off by this share at most.

    Magnitudes are rounded, and so are products and sums: (terms + 4) 2^-24 to first order, of which
    twice as much covers the rest.
    """
    return 2.0**-23 * (terms + 8)


def _wide_error(terms: int) -> float:
    """The same in float64."""
    return 2.0**-50 * (terms + 16)


def exact_magnitudes(operand: Operand, lines: Quantised) -> list[Fraction]:
    """The magnitudes of one line: float64 holds those of a part, but not every sum of two."""
    parts = [
        Operand((part,), tuple((word[at],) for word in operand.lower))
        for at, part in enumerate(operand.parts)
    ]
    exact = [[Fraction(x) for x in magnitudes(part, lines, np.float64)[0, 0]] for part in parts]
    return [sum(of_parts, Fraction(0)) for of_parts in zip(*exact, strict=True)]


def _spread(marks: Array) -> float:
    """Share of the elements in rows and columns that have a mark."""
    touched = marks.any(axis=2).sum(axis=1) * marks.any(axis=1).sum(axis=1)
    return float(touched.sum()) / marks.size


def error_bound(
    left: Quantised, right: Quantised, fmt: Part, out: Array, repaired: Array, terms: Terms,
    *, target: Array | None, rounded_once: bool = False, addend_units: Array | None = None,
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
        np.array([terms.unit, fmt.precision, fmt.lowest, highest_place(fmt)]),
        np.empty((0, 0, 0), np.int64) if addend_units is None else addend_units,
        np.empty((0, 0, 0)) if target is None else target, largest, finite,
    )  # fmt: skip
    return float(largest.max()), int(finite.sum())


def _losses(lines: Quantised, batch: int) -> Losses:
    """What is known of the lines of every batch item."""
    own = losses_of(~lines.exact, lines.survey.q1, lines.exponents, lines.sigma)
    return Losses(*(every(x, batch) for x in (own.lost, own.norm, own.shift, own.exponent)))


def singles_of(lines: tuple[Quantised, Quantised], shape: tuple[int, ...]) -> Array | None:
    """A mask of the elements of lines of one entry, None if there are none."""
    rows, columns = (side.survey.single for side in lines)
    if not rows.any() and not columns.any():
        return None
    return np.array(np.broadcast_to(rows[:, :, None] | columns[:, None, :], shape))


def all_else(marks: Array, special: Sequence[Array], singles: Array | None) -> bool:
    """Whether all elements are open, special or of lines of one entry."""
    if any(lines.any() for lines in special):
        marks = marks | special[0][:, :, None] | special[1][:, None, :]
    return bool((marks if singles is None else marks | singles).all())
