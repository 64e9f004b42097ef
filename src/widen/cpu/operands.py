"""Operands as lines (rows of A, columns of B), and what is known of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from widen.cpu import kernels
from widen.cpu.threads import launch
from widen.formats import Part, arrays

Array = np.ndarray[Any, Any]

NOTHING = -(1 << 20)
"""Exponent of lines that hold nothing finite: every entry scaled by it rounds to 0."""


@dataclass(frozen=True)
class Operand:
    """A matrix (or a batch) as lines: rows of the left operand, columns of the right one.

    Each part is a view of shape (batch, lines, inner), of the caller's dtype and strides. A batch
    of 1 serves every batch of the other operand. Numbers of several words have `lower` words, each
    in as many parts.
    """

    parts: tuple[Array, ...]
    lower: tuple[tuple[Array, ...], ...] = ()

    @property
    def shape(self) -> tuple[int, int, int]:
        """(batch, lines, inner)."""
        batch, lines, inner = self.parts[0].shape
        return batch, lines, inner

    @property
    def words(self) -> tuple[tuple[Array, ...], ...]:
        """Parts of every word."""
        return (self.parts, *self.lower)

    @property
    def lines_near(self) -> bool:
        """Whether neighbouring lines lie closer in memory than neighbours within a line."""
        return arrays.lines_near(self.shape, self.parts[0].strides)

    @property
    def viewed(self) -> bool:
        """Whether its float64 bits, parts joined, are a view of the caller's memory."""
        plain = all(part.dtype == np.float64 and part.flags.aligned for part in self.parts)
        return plain and not self.lower and (len(self.parts) == 1 or joinable(self.parts))

    @property
    def nbytes(self) -> int:
        """Bytes of all parts."""
        return sum(part.nbytes for word in self.words for part in word)

    @property
    def bytes_a_line(self) -> int:
        """Bytes of a line in float64."""
        batch, _, inner = self.shape
        return 8 * len(self.words) * len(self.parts) * batch * max(inner, 1)

    def cut(self, batch: slice, lines: slice, inner: Any = slice(None)) -> Operand:
        """A block of it, a view. A batch of 1 stays whole."""
        batch = slice(None) if self.shape[0] == 1 else batch
        return self._each(lambda part: part[batch, lines, inner])

    def pick(self, item: int, lines: Array) -> Operand:
        """Chosen lines of one batch item, copies."""
        item = item if self.shape[0] > 1 else 0
        return self._each(lambda part: part[item, lines][None])

    def gather(self, items: Array, lines: Array) -> Operand:
        """Chosen lines of chosen batch items, copies, as one item."""
        return self._each(lambda part: part[items, lines][None])

    def inner(self, stretch: Any) -> Operand:
        """A stretch of the inner dimension of all lines, a view; or chosen places of it."""
        return self.cut(slice(None), slice(None), stretch)

    def transposed(self) -> Operand:
        """Lines and inner dimension exchanged, views."""
        return self._each(lambda part: part.swapaxes(1, 2))

    def _each(self, change: Callable[[Array], Array]) -> Operand:
        first, *lower = (tuple(change(part) for part in word) for word in self.words)
        return Operand(first, tuple(lower))

    def same_memory(self, other: Operand) -> bool:
        """Whether the lines of both are the same, entry by entry, in one memory.

        Those of x and of x transposed are, as operands of a product.
        """
        if self.shape != other.shape or len(self.words) != len(other.words):
            return False
        pairs = zip(
            (part for word in self.words for part in word),
            (part for word in other.words for part in word),
            strict=True,
        )
        return all(_place(x) == _place(y) for x, y in pairs)

    def conjugate_of(self, other: Operand) -> bool:
        """Whether the lines of both are conjugates, entry by entry, of complex numbers."""
        if self.shape != other.shape or len(self.words) != len(other.words):
            return False
        pairs = list(zip(self.words, other.words, strict=True))
        for lines in (slice(0, 1), slice(None)):  # most operands differ in the first line already
            for (x, x_imag), (y, y_imag) in pairs:
                if not np.array_equal(x[:, lines], y[:, lines]):
                    return False
                if not np.array_equal(x_imag[:, lines], -y_imag[:, lines]):
                    return False
        return True

    def joined_bits(self) -> Array:
        """The float64 bits as one array (parts, batch, lines, inner), a view where possible.

        Of several words, those of the first one, made to stand in for the value (`heads`).
        """
        if self.lower:
            return np.stack(self.bits())
        return joined(self.parts).astype(np.float64, copy=False).view(np.int64)

    def bits(self) -> list[Array]:
        """The same for each part; other formats are converted, which is exact."""
        first = [float64_bits(part) for part in self.parts]
        if not self.lower:
            return first
        return [heads(x, float64_bits(y)) for x, y in zip(first, self.lower[0], strict=True)]

    def word_bits(self) -> list[Array]:
        """The float64 bits of every word, (parts, batch, lines, inner)."""
        return [float64_bits(joined(word)) for word in self.words]

    def stacked_bits(self) -> Array:
        """The float64 bits of all words, (words, parts, batch, lines, inner); a view if it can."""
        if not self.lower:
            return self.joined_bits()[None]
        block = _block(self.words)
        return np.stack(self.word_bits()) if block is None else block.view(np.int64)

    @property
    def in_a_block(self) -> bool:
        """Whether `stacked_bits` is a view."""
        return self.viewed or (len(self.lower) > 0 and _block(self.words) is not None)


def _block(words: tuple[tuple[Array, ...], ...]) -> Array | None:
    """Words and parts at even distances in one piece of memory as one float64 array, or None."""
    first = words[0][0]
    owner = first.base
    every = [part for word in words for part in word]
    if owner is None or first.dtype != np.float64 or not first.flags.aligned:
        return None
    if any(part.base is not owner or _steps(part) != _steps(first) for part in every):
        return None
    places = np.array([[part.__array_interface__["data"][0] for part in word] for word in words])
    count, parts = len(words), len(words[0])
    a_word = int(places[-1, 0] - places[0, 0]) // (count - 1)
    a_part = int(places[0, -1] - places[0, 0]) // max(parts - 1, 1)
    word, part = np.indices(places.shape)
    if (places != places[0, 0] + word * a_word + part * a_part).any():
        return None
    shape, steps = (count, parts, *first.shape), (a_word, a_part, *first.strides)
    return np.lib.stride_tricks.as_strided(first, shape, steps)


def _place(x: Array) -> tuple[Any, ...]:
    """Where an array is in memory, and how it lies there."""
    return x.__array_interface__["data"][0], x.dtype, _steps(x)


def _steps(x: Array) -> tuple[int, ...]:
    """Bytes from entry to entry, along axes that have several."""
    return arrays.meaningful(x.shape, x.strides)


def float64_bits(x: Array) -> Array:
    """The bits of numbers as float64, a view where they are."""
    return x.astype(np.float64, copy=False).view(np.int64)


def heads(first: Array, second: Array) -> Array:
    """First words (batch, lines, inner), rounded to odd; laid out in memory as they are."""
    flip = arrays.lines_near(first.shape, first.strides)
    if flip:
        first, second = first.swapaxes(1, 2), second.swapaxes(1, 2)
    out: Array = np.empty(first.shape, np.int64)
    launch(kernels.wide.heads, out.shape[0] * out.shape[1], out.size, first, second, out)
    return out.swapaxes(1, 2) if flip else out


def joined(parts: tuple[Array, ...]) -> Array:
    """Equal views, the parts of one complex array for instance, as one array, without copying."""
    first = parts[0]
    if len(parts) == 1:
        return first[None]
    if not joinable(parts):
        return np.stack(parts)
    shape, steps = (2, *first.shape), (first.itemsize, *first.strides)
    return np.lib.stride_tricks.as_strided(first, shape, steps)


def joinable(parts: tuple[Array, ...]) -> bool:
    """Whether two arrays are the real and imaginary parts of one complex array."""
    ours, theirs = (part.__array_interface__["data"][0] for part in parts)
    return _steps(parts[0]) == _steps(parts[1]) and theirs - ours == parts[0].itemsize


@dataclass(frozen=True)
class Survey:
    """What is known of lines before they are scaled: arrays of shape (batch, lines).

    `facts` are (fields, batch, lines): `top` and `last`, exponents of the largest magnitude and of
    the last set bit, 0 for lines that are zero or hold an infinity or a NaN (`special`); the
    integer norms `q1` and q2; how many numbers are not 0, and the sum of their distances
    (`bounds.extra_bits`); the `first` entry that is not 0, and where there are no more (`stop`);
    and the `reach`, how far down the exponents of its numbers go.
    """

    facts: Array
    special: Array

    @property
    def top(self) -> Array:
        """Exponents of the largest magnitude."""
        return np.asarray(self.facts[0])

    @property
    def last(self) -> Array:
        """Exponents of the last set bit."""
        return np.asarray(self.facts[1])

    @property
    def q1(self) -> Array:
        """The integer 1-norm."""
        return np.asarray(self.facts[2])

    @property
    def q2(self) -> Array:
        """The integer 2-norm squared."""
        return np.asarray(self.facts[3])

    @property
    def nonzeros(self) -> Array:
        """How many numbers are not 0."""
        return np.asarray(self.facts[4])

    @property
    def reach(self) -> Array:
        """How far below the largest the smallest number is that is not 0, in powers of two."""
        return np.asarray(self.facts[0] - self.facts[8])

    @property
    def first(self) -> Array:
        """Where the first entry is that is not 0."""
        return np.asarray(self.facts[6])

    @property
    def stop(self) -> Array:
        """Where there are no more of them."""
        return np.asarray(self.facts[7])

    @property
    def spans(self) -> Array:
        """Both, (2, batch, lines)."""
        return np.asarray(self.facts[6:8])

    @property
    def single(self) -> Array:
        """Whether one entry alone is not 0."""
        return np.asarray(self.stop - self.first == 1)


FACTS = 9
"""Fields of a survey."""


@dataclass(frozen=True)
class Quantised:
    """Scaled lines: a' = RN(2^exponents a); `sigma` is exponents + top.

    `norm` is log2 of a bound of ||2^exponents a||_2, -inf where there is none.
    """

    survey: Survey
    exponents: Array
    exact: Array
    norm: Array

    @property
    def sigma(self) -> Array:
        """Exponent of the largest magnitude after scaling."""
        return self.exponents + self.survey.top

    def cut(self, batch: slice, lines: slice) -> Quantised:
        """The same for a block of lines."""
        batch = slice(None) if self.exponents.shape[0] == 1 else batch
        return self._indexed((batch, lines))

    def pick(self, item: int, lines: Array) -> Quantised:
        """The same for chosen lines of one batch item."""
        item = item if len(self.exponents) > 1 else 0
        return self._indexed((slice(item, item + 1), lines))

    def _indexed(self, at: Any) -> Quantised:
        batch, lines = at
        survey = Survey(self.survey.facts[:, batch, lines], self.survey.special[at])
        return Quantised(survey, self.exponents[at], self.exact[at], self.norm[at])


@dataclass(frozen=True)
class Chosen:
    """Some rows and columns: operands, and their lines as they were quantised."""

    operands: tuple[Operand, Operand]
    lines: tuple[Quantised, Quantised]

    def inner(self, stretch: slice) -> Chosen:
        """A stretch of the inner dimension, views."""
        ours, theirs = (operand.inner(stretch) for operand in self.operands)
        return Chosen((ours, theirs), self.lines)

    def pick(self, b: int, rows: Array, columns: Array) -> Chosen:
        """Fewer rows and columns, of one batch item: copies of them."""
        ours, theirs = self.operands
        picked = ours.pick(b, rows), theirs.pick(b, columns)
        return Chosen(picked, self.pick_lines(b, rows, columns))

    def pick_lines(self, b: int, rows: Array, columns: Array) -> tuple[Quantised, Quantised]:
        """The same, quantised lines alone."""
        return self.lines[0].pick(b, rows), self.lines[1].pick(b, columns)

    def cut(self, rows: slice, columns: slice) -> Chosen:
        """Fewer rows and columns, of all batch items: views."""
        everything, pieces = slice(None), (rows, columns)
        ours, theirs = (x.cut(everything, at) for x, at in zip(self.operands, pieces, strict=True))
        left, right = (x.cut(everything, at) for x, at in zip(self.lines, pieces, strict=True))
        return Chosen((ours, theirs), (left, right))

    def tiles(self, room: int, *, copied: bool = False) -> Iterator[tuple[slice, slice]]:
        """Rows and columns in pieces whose float64 bits take no more than `room` bytes of copies.

        One piece if they can be had as views, unless they are copied all the same.
        """
        m, n = (operand.shape[1] for operand in self.operands)
        steps = [
            size if operand.viewed and not copied else max(1, room // (2 * operand.bytes_a_line))
            for size, operand in zip((m, n), self.operands, strict=True)
        ]
        for i in range(0, m, steps[0]):
            for j in range(0, n, steps[1]):
                yield slice(i, min(i + steps[0], m)), slice(j, min(j + steps[1], n))


def marked(marks: Array) -> tuple[Array, ...]:
    """Where a mask is set, as `np.nonzero` has it; ten times as fast where that is rare."""
    flat = np.flatnonzero(marks)
    return tuple(np.ascontiguousarray(index) for index in np.unravel_index(flat, marks.shape))


def every(of_lines: Array, batch: int) -> Array:
    """The same lines for every batch, contiguous."""
    if len(of_lines) == batch:
        return np.ascontiguousarray(of_lines)
    return np.repeat(of_lines, batch, axis=0)


@lru_cache(maxsize=64)
def word_table(fmt: Part) -> Array:
    """A format as kernels read it: (precision, lowest, highest) of every word."""
    return np.array([[word.precision, word.lowest, word.highest] for word in fmt.words])
