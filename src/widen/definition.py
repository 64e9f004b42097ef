"""The living definition: the four stages in plain Python integers, slow and obviously right.

Every other backend must give the bits of this one. Numbers are tuples of parts (one, or two for
complex), each part a float or the sum of several words; a line is a row of A or a column of B.
First come the stages of lines and elements, then the same as a backend (`stages.backend`), for one
product of finite numbers.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np

from widen import bounds
from widen.bounds import NORM_BITS, Goal
from widen.encoded import Encoded
from widen.formats import BINARY
from widen.plan import Layout, Plan, Product
from widen.planner import Needs, make_plan
from widen.stages.backend import Block
from widen.stages.problem import Account, Problem
from widen.stages.rounding import round_once, round_words

Number = tuple[Fraction, ...]
Words = tuple[np.ndarray, ...]
"""An array of numbers of several words: one array for each word."""


@dataclass(frozen=True)
class Line:
    """A quantised line: integers a' = RN(2^exponent a), and the integer norms of a.

    Entries that are not 0 are at `first` or later, and before `stop`.
    """

    integers: tuple[tuple[int, ...], ...]
    exponent: int
    top: int
    q1: int
    q2: int
    exact: bool
    nonzeros: int = 0
    first: int = 0
    stop: int = 0

    @property
    def sigma(self) -> int:
        """Exponent of the largest magnitude after scaling."""
        return self.exponent + self.top

    @property
    def single(self) -> bool:
        """Whether one entry alone is not 0: products with it are correctly rounded."""
        return self.stop - self.first == 1

    def weighed(self, test: bounds.Certificate) -> bounds.Weighed:
        """What a certificate knows of it."""
        kept = self.exact and not test.dropped
        step = 0.0 if kept else math.ldexp(1.0, -self.sigma)
        return bounds.Weighed(test.weight(self.q1), step, self.nonzeros, self.first, self.stop)


def numbers(*words: np.ndarray) -> list[Number]:
    """The exact values of a finite line, part by part: the sums of its words."""
    entries = list(zip(*words, strict=True))
    if np.iscomplexobj(words[0]):
        return [(_sum(x.real for x in entry), _sum(x.imag for x in entry)) for entry in entries]
    return [(_sum(entry),) for entry in entries]


def _sum(floats: Iterable[Any]) -> Fraction:
    return sum((Fraction(float(x)) for x in floats), Fraction(0))


def quantise_line(line: Sequence[Number], goal: Goal | None) -> Line:
    """Scale a line by the power of two its goal allows, to its last bit or further; round."""
    values = [abs(part) for number in line for part in number if part]
    if not values:
        return Line(tuple((0,) * len(number) for number in line), 0, 0, 0, 0, exact=True)
    top = bounds.floor_log2_ratio(*max(values).as_integer_ratio())
    q = [math.ceil(value * Fraction(2) ** (NORM_BITS - top)) for value in values]
    q1, q2 = sum(q), sum(x * x for x in q)
    exponent = max(value.denominator.bit_length() - 1 - _trailing_zeros(value) for value in values)
    exact = True
    if goal is not None:
        norm = q1 if goal.norm == 1 else math.isqrt(q2 - 1) + 1
        sigma = bounds.floor_log2_ratio(goal.root, norm) + goal.shift + NORM_BITS
        if goal.spread:
            distances = sum(_distance(value, top) for value in values)
            sigma += bounds.extra_bits(q1, q2, len(values), distances, goal.spread)
        wanted = (bounds.filled_up(sigma, q2) if goal.filled else sigma) - top
        exact = wanted >= exponent
        exponent = wanted if goal.full else min(exponent, wanted)
    scale = Fraction(2) ** exponent
    integers = tuple(tuple(round(part * scale) for part in number) for number in line)
    places = [h for h, number in enumerate(line) if any(number)]
    return Line(integers, exponent, top, q1, q2, exact, len(values), places[0], places[-1] + 1)


def _distance(value: Fraction, top: int) -> int:
    """How far a number's exponent is below the largest one's."""
    return min(top - bounds.floor_log2_ratio(*value.as_integer_ratio()), bounds.FARTHEST)


def _trailing_zeros(value: Fraction) -> int:
    """Trailing zeros of the numerator: a value m / 2^d with odd m, or m 2^z, has its last bit."""
    return (value.numerator & -value.numerator).bit_length() - 1


def encode(lines: Sequence[Line], layout: Layout, side: int) -> list[list[list[int]]]:
    """planes[plane][line][h]."""
    written = [[layout.write(number, side) for number in line.integers] for line in lines]
    return [
        [[entry[plane] for entry in line] for line in written]
        for plane in range(layout.planes[side])
    ]


def multiply(
    left: list[list[list[int]]], right: list[list[list[int]]], products: Sequence[Product]
) -> list[list[list[int]]]:
    """groups[group][i][j], from planes of rows and planes of columns."""
    count = 1 + max(product.group for product in products)
    rows, columns = len(left[0]), len(right[0])
    groups = [[[0] * columns for _ in range(rows)] for _ in range(count)]
    for product in products:
        for i, row in enumerate(left[product.left]):
            for j, column in enumerate(right[product.right]):
                groups[product.group][i][j] += sum(x * y for x, y in zip(row, column, strict=True))
    return groups


def integers(groups: list[list[list[int]]], layout: Layout) -> list[list[tuple[int, ...]]]:
    """Elements X[i][j], tuples of parts: weights times groups, balanced residues if there is P."""
    p = layout.modulus

    def part(weights: Sequence[int], i: int, j: int) -> int:
        x = sum(w * group[i][j] for w, group in zip(weights, groups, strict=True))
        return (x + p // 2) % p - p // 2 if p else x

    return [
        [tuple(part(weights, i, j) for weights in layout.weights) for j in range(len(groups[0][0]))]
        for i in range(len(groups[0]))
    ]


def magnitude(left: Sequence[Number], row: Line, right: Sequence[Number], column: Line) -> Fraction:
    """The sum D of products of magnitudes, each line's in units of its largest power of two."""
    pairs = zip(left, right, strict=True)
    return sum((_short(x, row.top) * _short(y, column.top) for x, y in pairs), Fraction(0))


def _short(number: Number, top: int) -> Fraction:
    """A number's parts without their signs, in units of 2^top, each rounded down to a bfloat16."""
    total = Fraction(0)
    for part in number:
        place = bounds.floor_log2_ratio(*abs(part).as_integer_ratio()) - top if part else -1 << 20
        if place >= bounds.LOWEST_SHORT:
            unit = Fraction(2) ** (place + 1 - bounds.SHORT_BITS)
            total += math.floor(abs(part) / Fraction(2) ** top / unit) * unit
    return total


def share_entries(left: Sequence[Number], right: Sequence[Number]) -> bool:
    """Whether there is a place where neither line has a 0."""
    return any(any(x) and any(y) for x, y in zip(left, right, strict=True))


def exact_dot(left: Sequence[Number], right: Sequence[Number]) -> Number:
    """The exact value of an element."""
    if len(left) and len(left[0]) == 2:
        pairs = list(zip(left, right, strict=True))
        return (
            sum((x[0] * y[0] - x[1] * y[1] for x, y in pairs), Fraction(0)),
            sum((x[0] * y[1] + x[1] * y[0] for x, y in pairs), Fraction(0)),
        )
    return (sum((x[0] * y[0] for x, y in zip(left, right, strict=True)), Fraction(0)),)


def certified(row: Line, column: Line, total: Fraction, test: bounds.Certificate) -> bool:
    """Whether lines that share entries keep the contract without repair, given `magnitude`."""
    return total >= test.needed(row.weighed(test), column.weighed(test))


# ── the same as a backend ────────────────────────────────────────────────────

Planes = list[list[list[int]]]
Open = set[tuple[int, int]]
"""Elements that are not final, by row and column."""


@dataclass(frozen=True)
class Operand:
    """An operand of finite numbers as lines."""

    lines: list[list[Number]]

    @property
    def shape(self) -> tuple[int, int, int]:
        """(batch, lines, inner); there is one item in a batch."""
        return 1, len(self.lines), len(self.lines[0])


def operand(x: np.ndarray | Words, side: str, parts: int) -> Operand:
    """A finite matrix, or the words of one, as rows (left) or columns (right)."""
    words = x if isinstance(x, tuple) else (x,)
    turned = [word if side == "left" else word.T for word in words]
    return Operand([_with_parts(numbers(*line), parts) for line in zip(*turned, strict=True)])


def quantise(problem: Problem[Operand], account: Account) -> Prepared:
    """Exponents of all rows and columns, and the plan for the planes they need."""
    goal = problem.goal(None)
    rows, columns = (
        [quantise_line(line, goal) for line in _plain(source).lines] for source in problem.sources
    )
    ours, theirs = _needs(rows), _needs(columns)
    needs = Needs((ours[0], theirs[0]), (ours[1], theirs[1]))
    plan = make_plan(
        problem.contract, problem.work, problem.shape, needs,
        unit=problem.unit, system=problem.system, workspace=problem.workspace,
    )  # fmt: skip
    return Prepared(problem, plan, rows, columns, account)


def _plain(source: Operand | Encoded) -> Operand:
    assert isinstance(source, Operand), "the definition multiplies operands as they are"
    return source


def _needs(lines: Sequence[Line]) -> tuple[float, int]:
    """log2 of the largest 2-norm of integers, rounded up, and a width with |a'| <= 2^width."""
    squares = max(sum(x * x for number in line.integers for x in number) for line in lines)
    largest = max(abs(x) for line in lines for number in line.integers for x in number)
    return 0.5 * math.log2(max(squares, 1)) + 1e-6, largest.bit_length()


@dataclass(frozen=True)
class Prepared:
    """A product whose lines are quantised."""

    problem: Problem[Operand]
    plan: Plan
    rows: list[Line]
    columns: list[Line]
    account: Account

    def stages(self, block: Block, out: np.ndarray) -> Stages:
        """The stages of a block; `out` is float64, (words, parts, 1, m, n)."""
        _, rows, columns = block
        return Stages(self, rows, columns, out[:, :, 0, rows, columns])

    def wait(self) -> None:
        """Nothing: what was asked for is done."""

    def finish(self) -> None:
        """Nothing: no memory is kept."""


@dataclass(frozen=True)
class Stages:
    """The stages of one block."""

    product: Prepared
    chosen_rows: slice
    chosen_columns: slice
    out: np.ndarray

    @property
    def rows(self) -> list[Line]:
        """Its rows."""
        return self.product.rows[self.chosen_rows]

    @property
    def columns(self) -> list[Line]:
        """Its columns."""
        return self.product.columns[self.chosen_columns]

    @property
    def _numbers(self) -> tuple[list[list[Number]], list[list[Number]]]:
        ours, theirs = (_plain(source).lines for source in self.product.problem.sources)
        return ours[self.chosen_rows], theirs[self.chosen_columns]

    def certify(self) -> Open | None:
        """Elements that the contract's certificate leaves open."""
        test = self.product.problem.test_of(self.product.plan.layout.dropped)
        if test is None:
            return None
        left, right = self._numbers
        return {
            (i, j)
            for i, j in _indices(len(left), len(right))
            if share_entries(left[i], right[j])
            and not certified(
                self.rows[i],
                self.columns[j],
                magnitude(left[i], self.rows[i], right[j], self.columns[j]),
                test,
            )
        }

    def encode(self, inner: slice) -> tuple[Planes, Planes]:
        """Planes of rows and of columns over a stretch of the inner dimension."""
        layout = self.product.plan.layout
        rows, columns = (
            [replace(line, integers=line.integers[inner]) for line in lines]
            for lines in (self.rows, self.columns)
        )
        return encode(rows, layout, 0), encode(columns, layout, 1)

    def multiply(self, planes: tuple[Planes, Planes], groups: Planes | None) -> Planes:
        """Exact groups, added to those of earlier stretches."""
        added = multiply(*planes, self.product.plan.layout.products)
        if groups is None:
            return added
        return [
            [[x + y for x, y in zip(*rows, strict=True)] for rows in zip(*both, strict=True)]
            for both in zip(groups, added, strict=True)
        ]

    def reconstruct(self, groups: Planes, marks: Open | None) -> Open:
        """Round every element once; none is open that was certified."""
        for i, of_row in enumerate(integers(groups, self.product.plan.layout)):
            for j, x in enumerate(of_row):
                scale = Fraction(2) ** -(self.rows[i].exponent + self.columns[j].exponent)
                self._write(i, j, tuple(part * scale for part in x))
        return set() if marks is None else marks

    def repair(self, marks: Open) -> Open:
        """Open elements, and those of lines of one entry, become the correctly rounded ones."""
        left, right = self._numbers
        singles = {
            (i, j)
            for i, j in _indices(len(left), len(right))
            if self.rows[i].single or self.columns[j].single
        }
        self.product.account.repaired += len(marks - singles)
        for i, j in marks | singles:
            self._write(i, j, exact_dot(left[i], right[j]))
        return marks | singles

    def _write(self, i: int, j: int, product: Number) -> None:
        """An element of alpha A B + beta c, rounded once, given that of A B."""
        for part, value in enumerate(self._scaled(i, j, product)):
            self.out[:, part, i, j] = round_words(value, self.product.problem.fmt.part)

    def _scaled(self, i: int, j: int, product: Number) -> Number:
        """The exact value of alpha A B + beta c."""
        scaling = self.product.problem.scaling
        if scaling is None:
            return product
        c = scaling.addend.lines[self.chosen_rows][i][self.chosen_columns][j]
        alpha, beta = (_parts_of(x, len(product)) for x in (scaling.alpha, scaling.beta))
        return exact_dot([alpha, beta], [product, c])

    def bound(self, repaired: Open, bound: np.ndarray | None) -> None:
        """Take the error itself, rounded up: |c - AB|, of complex numbers its modulus."""
        left, right = self._numbers
        for i, j in _indices(len(self.rows), len(self.columns)):
            exact = self._scaled(i, j, exact_dot(left[i], right[j]))
            errors = [_sum(self.out[:, part, i, j]) - value for part, value in enumerate(exact)]
            error = _root_above(sum((x * x for x in errors), Fraction(0)))
            self.product.account.add_bounds(error, 1)
            if bound is not None:
                bound[0, self.chosen_rows, self.chosen_columns][i, j] = error


def _parts_of(x: complex, parts: int) -> Number:
    """A scalar as a number."""
    return tuple(Fraction(part) for part in (complex(x).real, complex(x).imag)[:parts])


def _root_above(value: Fraction) -> float:
    """A float64 that is at least the square root, by less than two units in the last place."""
    if not value:
        return 0.0
    shift = 2 * (110 + value.denominator.bit_length() - value.numerator.bit_length() // 2)
    shift += shift % 2
    scaled = value * Fraction(2) ** shift
    root = Fraction(math.isqrt(math.ceil(scaled)) + 1) / Fraction(2) ** (shift // 2)
    nearest = round_once(root, BINARY["float64"])
    return nearest if Fraction(nearest) >= root else math.nextafter(nearest, math.inf)


def _with_parts(line: list[Number], parts: int) -> list[Number]:
    return [number + (Fraction(0),) * (parts - len(number)) for number in line]


def _indices(rows: int, columns: int) -> Iterator[tuple[int, int]]:
    return ((i, j) for i in range(rows) for j in range(columns))
