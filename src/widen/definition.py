"""The living definition: the four stages in plain Python integers, slow and obviously right.

Every other backend must give the bits of this one. Numbers are tuples of parts (one, or two for
complex), each part a float or the sum of several words; a line is a row of A or a column of B.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from widen import bounds
from widen.bounds import NORM_BITS, Goal
from widen.contract import Contract
from widen.formats import Binary, Multiple, Part
from widen.plan import Layout, Product

Number = tuple[Fraction, ...]
Words = tuple[np.ndarray, ...]
"""An array of numbers of several words: one array for each word."""


@dataclass(frozen=True)
class Line:
    """A quantised line: integers a' = RN(2^exponent a), and the integer norms of a."""

    integers: tuple[tuple[int, ...], ...]
    exponent: int
    top: int
    q1: int
    q2: int
    exact: bool

    @property
    def sigma(self) -> int:
        """Exponent of the largest magnitude after scaling."""
        return self.exponent + self.top


def numbers(*words: np.ndarray) -> list[Number]:
    """The exact values of a finite line, part by part: the sums of its words."""
    entries = list(zip(*words, strict=True))
    if np.iscomplexobj(words[0]):
        return [(_sum(x.real for x in entry), _sum(x.imag for x in entry)) for entry in entries]
    return [(_sum(entry),) for entry in entries]


def _sum(floats: Iterable[Any]) -> Fraction:
    return sum((Fraction(float(x)) for x in floats), Fraction(0))


def quantise(line: Sequence[Number], goal: Goal | None) -> Line:
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
        wanted = bounds.floor_log2_ratio(goal.root, norm) + goal.shift + NORM_BITS - top
        exact = wanted >= exponent
        exponent = wanted if goal.full else min(exponent, wanted)
    scale = Fraction(2) ** exponent
    integers = tuple(tuple(round(part * scale) for part in number) for number in line)
    return Line(integers, exponent, top, q1, q2, exact)


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
    """X[i][j], a tuple of parts: weights times groups, as a balanced residue if there is P."""
    p = layout.modulus

    def part(weights: Sequence[int], i: int, j: int) -> int:
        x = sum(w * group[i][j] for w, group in zip(weights, groups, strict=True))
        return (x + p // 2) % p - p // 2 if p else x

    return [
        [tuple(part(weights, i, j) for weights in layout.weights) for j in range(len(groups[0][0]))]
        for i in range(len(groups[0]))
    ]


def reconstruct(
    groups: list[list[list[int]]],
    layout: Layout,
    rows: Sequence[Line],
    columns: Sequence[Line],
    fmt: Part,
) -> list[list[tuple[tuple[float, ...], ...]]]:
    """RN(X 2^-(s+t)), element by element, part by part, word by word."""
    return [
        [
            tuple(
                round_words(part * Fraction(2) ** -(row.exponent + column.exponent), fmt)
                for part in x
            )
            for column, x in zip(columns, of_row, strict=True)
        ]
        for row, of_row in zip(rows, integers(groups, layout), strict=True)
    ]


def round_once(value: Fraction, fmt: Binary) -> float:
    """The nearest number of a format, ties to even; zero is +0, beyond the range +-infinity."""
    if not value:
        return 0.0
    length = bounds.floor_log2_ratio(*abs(value).as_integer_ratio()) + 1
    unit = max(length - fmt.precision, fmt.lowest)
    whole = round(abs(value) / Fraction(2) ** unit)
    magnitude = math.inf if whole >= 2 ** (fmt.highest - unit) else math.ldexp(whole, unit)
    return -magnitude if value < 0 else magnitude


def round_words(value: Fraction, fmt: Part) -> tuple[float, ...]:
    """The nearest value of the first word, then the nearest of what is left, and so on.

    Equal numbers of several words have equal bits: every zero is +0, infinity stands alone, and a
    last word that was rounded to half a unit of the one before it has the sign that makes that one
    even, which is what the words of the words' sum have.
    """
    if isinstance(fmt, Binary):
        return (round_once(value, fmt),)
    words = _nearest_words(value, fmt)
    return _nearest_words(_sum(words), fmt) if math.isfinite(words[0]) else words


def _nearest_words(value: Fraction, fmt: Multiple) -> tuple[float, ...]:
    words: list[float] = []
    for word in fmt.words:
        x = round_once(value, word) + 0.0  # -0.0 + 0.0 is 0.0
        if math.isinf(x) and not words:
            return (x, *(0.0,) * (len(fmt.words) - 1))
        if math.isinf(x):  # a float32 after a large float64: the nearest there is
            x = math.copysign(math.ldexp(2.0 - 2.0 ** (1 - word.precision), word.highest - 1), x)
        words.append(x)
        value -= Fraction(x)
    return tuple(words)


def lead_product(left: Sequence[Number], row: Line, right: Sequence[Number], column: Line) -> int:
    """D, the product of leading integers: D 2^(e_i + e_j - 2f) <= (|A||B|)_ij."""
    kept = bounds.lead_bits(len(left))

    def lead(number: Number, top: int) -> int:
        return sum(math.floor(abs(part) * Fraction(2) ** (kept - top)) for part in number)

    return sum(lead(x, row.top) * lead(y, column.top) for x, y in zip(left, right, strict=True))


def exact_dot(left: Sequence[Number], right: Sequence[Number]) -> Number:
    """The exact value of an element."""
    if len(left) and len(left[0]) == 2:
        pairs = list(zip(left, right, strict=True))
        return (
            sum((x[0] * y[0] - x[1] * y[1] for x, y in pairs), Fraction(0)),
            sum((x[0] * y[1] + x[1] * y[0] for x, y in pairs), Fraction(0)),
        )
    return (sum((x[0] * y[0] for x, y in zip(left, right, strict=True)), Fraction(0)),)


@dataclass(frozen=True)
class Defined:
    """A product by the definition: the rounded elements and which of them were repaired.

    `values` has a leading axis of words where the format has several.
    """

    values: np.ndarray
    repaired: np.ndarray
    rows: list[Line]
    columns: list[Line]
    planes: tuple[list[list[list[int]]], list[list[list[int]]]]
    groups: list[list[list[int]]]


def matmul(
    a: np.ndarray | Words, b: np.ndarray | Words, contract: Contract, fmt: Part, layout_of: Any,
    *, full: bool = False,
) -> Defined:  # fmt: skip
    """A finite two-dimensional product, k >= 1, in the part format `fmt`.

    ``layout_of(rows, columns)`` chooses the layout; any that holds X gives the same values, and so
    do those that leave out the same products of `full` lines.
    """
    left, right = (x if isinstance(x, tuple) else (x,) for x in (a, b))
    parts = 2 if any(np.iscomplexobj(x) for x in (*left, *right)) else 1
    k = left[0].shape[1]
    row_numbers = [_with_parts(numbers(*row), parts) for row in zip(*left, strict=True)]
    column_numbers = [
        _with_parts(numbers(*column), parts) for column in zip(*(x.T for x in right), strict=True)
    ]
    goal = bounds.goal(contract, fmt.precision, k, parts, None, full=full)
    rows = [quantise(line, goal) for line in row_numbers]
    columns = [quantise(line, goal) for line in column_numbers]
    layout = layout_of(rows, columns)
    planes = encode(rows, layout, 0), encode(columns, layout, 1)
    groups = multiply(*planes, layout.products)
    values = np.array(reconstruct(groups, layout, rows, columns, fmt))

    repaired = np.zeros((len(rows), len(columns)), bool)
    for i, j in _indices(len(rows), len(columns)):
        row, column = rows[i], columns[j]
        repaired[i, j] = contract.certified_by_data and not certified(
            row, column, lead_product(row_numbers[i], row, column_numbers[j], column),
            bounds.certificate(contract, fmt.precision, k, parts, layout.dropped),
        )  # fmt: skip
        if repaired[i, j]:
            exact = exact_dot(row_numbers[i], column_numbers[j])
            values[i, j] = [round_words(part, fmt) for part in exact]
    by_word = np.ascontiguousarray(np.moveaxis(values, -1, 0))
    joined = (by_word.view(np.complex128) if parts == 2 else by_word)[..., 0]
    found = joined if len(fmt.words) > 1 else joined[0]
    return Defined(found, repaired, rows, columns, planes, groups)


def certified(row: Line, column: Line, lead: int, test: bounds.Certificate) -> bool:
    """Whether an element keeps its contract without repair."""
    weights = (
        (0 if column.exact else test.weight(row.q1))
        + (0 if row.exact else test.weight(column.q1))
        + (0 if row.exact or column.exact else test.both)
        + test.always
    )
    return test.holds(weights, lead, test.level(row.q1) + test.level(column.q1))


def _with_parts(line: list[Number], parts: int) -> list[Number]:
    return [number + (Fraction(0),) * (parts - len(number)) for number in line]


def _indices(rows: int, columns: int) -> Iterator[tuple[int, int]]:
    return ((i, j) for i in range(rows) for j in range(columns))
