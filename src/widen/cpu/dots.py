"""Single elements by dot products: in float64, or in a superaccumulator where that is not enough.

Float64 gives the exact sum of all products but for what is below a last unit (`kernels.dots`).
Where no number within that error rounds to another, the rounding is right. Other elements go to the
superaccumulator, which takes ten times as long.

Why no addition rounds: a sum has N terms, products of numbers and their errors, each at most 2^top
in magnitude. The first unit is g_0 = 2^(top - 53) 2^n with N <= 2^n. N multiples of it, none above
2^top, add up to 2^53 g_0 at most. What is left of a term is at most g_0 / 2, so that the next unit,
g_1 = g_0 2^(n - 54), has sums up to 2^53 g_1, and so on. After the last unit, g, at most N g / 2 is
lost in all. What underflows is far below g.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from widen.cpu import kernels
from widen.cpu.memory import Scratch
from widen.cpu.operands import Array, Chosen, Operand, Quantised, marked, word_table
from widen.cpu.reconstruct import round_into
from widen.cpu.scaling import ScaledBlock
from widen.cpu.threads import PIECES, launch, thread_count
from widen.formats import Format, Part

MARGIN = 40
"""Bits that an element may be below the largest product, and be rounded in float64 all the same."""

LOWEST_UNIT = -900
"""Exponent of the last unit, at least: what underflows is far below it."""

SINGLES = 256
"""Elements that are one job where each is one product."""

LEAST_STRETCH = 1 << 14
"""Places of the inner dimension that a thread takes at least, where elements are few."""


def by_dots(
    chosen: Chosen, marks: Array, out: Array, scaling: ScaledBlock | None, fmt: Format,
    *, workspace: int, scratch: Scratch,
) -> None:  # fmt: skip
    """Make every marked element of `out`, (words, parts, batch, m, n), correctly rounded."""
    if not all(operand.viewed for operand in chosen.operands):
        scratch.make_room(workspace, workspace // 4)
    for i, j in chosen.tiles(workspace // 4):
        where = marked(marks[:, i, j])
        if where[0].size:
            part = None if scaling is None else scaling.cut(i, j)
            _exact_dots(chosen.cut(i, j), where, fmt.part, out[..., i, j], part)


def by_close_dots(
    chosen: Chosen, marks: Array, out: Array, scaling: ScaledBlock | None, fmt: Format,
    *, workspace: int, scratch: Scratch, single: bool = False,
) -> None:  # fmt: skip
    """The same where float64 is enough: those marks are taken away, and others' values are void.

    `single` says that every marked element has a line of one entry.
    """
    room = workspace // 8  # for both sides, scaled; as much where they are converted before that
    whole = sum(x.shape[1] * x.bytes_a_line for x in chosen.operands)
    scratch.make_room(workspace, min(3 * room, 2 * whole))
    for i, j in chosen.tiles(room, copied=True):
        open_elements = marks[:, i, j]
        where = marked(open_elements)
        if not where[0].size:
            continue
        part = None if scaling is None else scaling.cut(i, j)
        lines = CloseLines.of(chosen.cut(i, j), where, fmt, single=single)
        step = max(1, room // (8 * fmt.parts * (2 * lines.units.count + 2 * len(out) + 8)))
        for start in range(0, where[0].size, step):
            some: Any = tuple(index[start : start + step] for index in where)
            values, unsettled = lines.rounded(some, fmt, len(out), part)
            if step >= where[0].size > open_elements.size // 16:  # in the order of their places
                some = open_elements.copy()
            for word in np.ndindex(values.shape[:2]):
                out[word][:, i, j][some] = values[word]
            open_elements[some] = unsettled


@dataclass(frozen=True)
class Units:
    """Powers of two that products are cut into multiples of, largest first.

    `exponents` are theirs, `step` the difference of two; N <= 2^terms, and `first` says with which
    unit pieces begin: of products of words x and y in first[x, y, 0], of errors in first[x, y, 1].
    """

    exponents: Array
    step: int
    terms: int
    first: Array

    @property
    def count(self) -> int:
        """How many there are."""
        return len(self.exponents)

    @classmethod
    def of(cls, left: SideLines, right: SideLines, fmt: Format) -> Units:
        """Units that show an element MARGIN bits further down than its format has."""
        _, parts, _, inner = left.values.shape
        pairs = np.multiply.outer(left.largest, right.largest)
        terms = max((2 * inner * parts * pairs.size - 1).bit_length(), 2)
        tops = np.where(pairs > 0, np.frexp(pairs)[1], -(1 << 20))
        top = int(tops.max()) if (pairs > 0).any() else 0
        step, first = 54 - terms, top - 53 + terms
        # The sum may be 2^terms products, and 2^terms units are lost.
        count = 1 + math.ceil((fmt.part.precision + MARGIN + 2 * terms - 53) / step)
        count = min(max(count, 1), (first - LOWEST_UNIT) // step)
        exponents = first - step * np.arange(count)
        # A term of at most 2^t begins with unit l > 0 if 2^t <= g_(l-1) / 2.
        bounds = np.stack([tops, tops - 53], axis=-1)
        begins = (bounds[..., None] < exponents).sum(axis=-1)
        return cls(exponents, step, terms, begins)


@dataclass(frozen=True)
class SideLines:
    """Lines picked from an operand, times 2^-top: (words, parts, lines, inner).

    `places` (batch, lines) says where a line of the operand is among them. Lines with numbers that
    are too small for exact products are `small`; the numbers of every word are at most `largest`.
    """

    values: Array
    places: Array
    spans: Array
    tops: Array
    small: Array
    largest: Array

    @classmethod
    def of(cls, operand: Operand, lines: Quantised, used: Array) -> SideLines:
        """The lines of an operand where `used`, (batch, lines)."""
        items, at = (np.ascontiguousarray(index) for index in np.nonzero(used))
        places, spans = np.cumsum(used.ravel()) - 1, lines.survey.spans[:, items, at]
        tops, from_tops = lines.survey.top[items, at], lines.survey.top
        if not operand.viewed:  # only these are converted
            operand, from_tops = operand.gather(items, at), tops[None]
            items, at = np.zeros(at.size, np.int64), np.arange(at.size)
        bits = operand.word_bits()
        values = np.empty((len(bits), len(bits[0]), at.size, operand.shape[2]))
        small, largest = np.zeros(at.size, bool), np.empty((len(bits), at.size))
        for word, of_word in enumerate(bits):
            launch(
                kernels.dots.scaled, at.size, values[word].size, of_word, from_tops, items, at,
                values[word], small, largest[word],
            )  # fmt: skip
        return cls(
            values, places.reshape(used.shape), np.ascontiguousarray(spans), tops, small,
            largest.max(axis=1),
        )  # fmt: skip

    def index(self, batches: Array, lines: Array) -> Array:
        """Where lines of batch items are."""
        return np.asarray(
            self.places[batches, lines] if len(self.places) > 1 else self.places[0][lines]
        )

    @property
    def single(self) -> Array:
        """Which have one entry."""
        return np.asarray(self.spans[1] - self.spans[0] == 1)


@dataclass(frozen=True)
class CloseLines:
    """Rows and columns of some elements, and how their products are added up."""

    left: SideLines
    right: SideLines
    units: Units
    single: bool

    @classmethod
    def of(
        cls, chosen: Chosen, where: tuple[Array, ...], fmt: Format, *, single: bool
    ) -> CloseLines:
        """Those of elements: batch items, rows and columns."""
        sides = []
        for operand, lines, at in zip(chosen.operands, chosen.lines, where[1:], strict=True):
            used = np.zeros(operand.shape[:2], bool)
            used[where[0] if len(used) > 1 else 0, at] = True
            sides.append(SideLines.of(operand, lines, used))
        left, right = sides
        return cls(left, right, Units.of(left, right, fmt), single)

    def rounded(
        self, where: tuple[Array, ...], fmt: Format, words: int, scaling: ScaledBlock | None
    ) -> tuple[Array, Array]:
        """Elements, (words, parts, elements), and whose rounding is not sure."""
        batches, i, j = where
        rows, columns = self.left.index(batches, i), self.right.index(batches, j)
        sums, lost = (self._products if self.single else self._sums)(rows, columns)
        lost |= self.left.small[rows] | self.right.small[columns]
        lowest = self.units.exponents[-1]
        exponents = -(self.left.tops[rows] + self.right.tops[columns] + lowest)
        count = len(rows)
        # As one row: its bits are those of the error, and columns say whether there is any.
        row, nothing = np.zeros((1, 1), np.int64), np.zeros((1, count), np.int64)
        lines = (
            row, exponents[None], row, nothing, np.ones((1, 1), bool), ~lost[None],
            self.units.terms,
        )  # fmt: skip
        values = np.empty((words, fmt.parts, 1, 1, count))
        unsettled = np.zeros((1, 1, count), bool)
        if scaling is not None:
            addend = scaling.addend[:, :, batches, i, j][:, :, None, None]
            scaling = ScaledBlock(scaling.alpha, scaling.beta, addend)
        table = _table(self.units.count, self.units.step, fmt.parts)
        round_into(values, unsettled, sums, table, lines=lines, fmt=fmt.part, scaling=scaling)
        return values[:, :, 0, 0], unsettled[0, 0]

    def _sums(self, rows: Array, columns: Array) -> tuple[Array, Array]:
        """Sums in every unit, (parts * units, elements), and where anything is missing."""
        units, (words, parts, _, inner) = self.units, self.left.values.shape
        count = len(rows)
        stretches = max(1, min(inner // LEAST_STRETCH, thread_count() * PIECES // count))
        out = np.empty((stretches, parts * units.count, count))
        lost = np.empty((stretches, count), bool)
        launch(
            kernels.dots.partial_sums, count * stretches, count * inner * words * parts,
            self.left.values, self.right.values, self.left.spans, self.right.spans, rows, columns,
            units.first, np.ldexp(1.0, units.exponents), out, lost,
        )  # fmt: skip
        if stretches == 1:
            return out[0], lost[0]
        return out.sum(axis=0), np.asarray(lost.any(axis=0))

    def _products(self, rows: Array, columns: Array) -> tuple[Array, Array]:
        """The same for elements of lines of one entry."""
        units, parts, count = self.units, self.left.values.shape[1], len(rows)
        ours, theirs = self.left.spans[0][rows], self.right.spans[0][columns]
        places = np.where(self.left.single[rows], ours, theirs)
        out, lost = np.empty((parts * units.count, count)), np.empty(count, bool)
        launch(
            kernels.dots.single_products, -(-count // SINGLES), 8 * out.size, self.left.values,
            self.right.values, rows, columns, places, units.first,
            np.ldexp(1.0, units.exponents), out, lost,
        )  # fmt: skip
        return out, lost


@lru_cache(maxsize=64)
def _table(count: int, step: int, parts: int) -> tuple[Array, ...]:
    """How sums in units become integers, as `reconstruct` reads it: the sign and place of each."""
    signs = np.kron(np.eye(parts, dtype=np.int64), np.ones((1, count), np.int64))[:, None, :]
    offsets = np.tile(step * np.arange(count - 1, -1, -1), parts)
    width = (int(offsets.max()) + 69) // 32 + 3
    nothing = np.zeros((parts, 0, 2)), np.zeros((0, width), np.int32), np.zeros(width, np.int32)
    return np.ascontiguousarray(signs), *nothing, offsets


def _exact_dots(
    chosen: Chosen, where: tuple[Array, ...], fmt: Part, out: Array, scaling: ScaledBlock | None
) -> None:
    """Correctly rounded elements in a superaccumulator: out[..., b, i, j] for those listed.

    Over the places where both lines may have entries that are not 0, by their spans.
    """
    (left, right), parts = chosen.operands, out.shape[1]
    scalar = np.zeros(parts, np.int64)
    alpha, beta, addend = (
        (scalar, scalar, np.zeros((1, 1, 1, 1, 1), np.int64))
        if scaling is None
        else (scaling.alpha, scaling.beta, scaling.addend)
    )
    places = [np.ascontiguousarray(index) for index in where]
    pairs = len(left.words) * len(right.words)
    work = 8 * left.shape[2] * pairs * places[0].size
    spans = [lines.survey.spans for lines in chosen.lines]
    launch(
        kernels.repair.dots, places[0].size, work, left.stacked_bits(), right.stacked_bits(),
        *spans, *places, scaling is None, alpha, beta, addend, word_table(fmt), out,
    )  # fmt: skip
