"""Operands as lines (rows of A, columns of B), and what is known of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]

NOTHING = -(1 << 20)
"""Exponent of lines that hold nothing finite: every entry scaled by it rounds to 0."""


@dataclass(frozen=True)
class Operand:
    """A matrix (or a batch) as lines: rows of the left operand, columns of the right one.

    Each part is a view of shape (batch, lines, inner), of the caller's dtype and strides. A batch
    of 1 serves every batch of the other operand.
    """

    parts: tuple[Array, ...]

    @property
    def shape(self) -> tuple[int, int, int]:
        """(batch, lines, inner)."""
        batch, lines, inner = self.parts[0].shape
        return batch, lines, inner

    @property
    def lines_near(self) -> bool:
        """Whether neighbouring lines lie closer in memory than neighbours within a line."""
        _, line, inner = (abs(stride) for stride in self.parts[0].strides)
        return line < inner

    @property
    def viewed(self) -> bool:
        """Whether its float64 bits, parts joined, are a view of the caller's memory."""
        plain = all(part.dtype == np.float64 and part.flags.aligned for part in self.parts)
        return plain and (len(self.parts) == 1 or joinable(self.parts))

    @property
    def nbytes(self) -> int:
        """Bytes of all parts."""
        return sum(part.nbytes for part in self.parts)

    @property
    def bytes_a_line(self) -> int:
        """Bytes of a line in float64."""
        batch, _, inner = self.shape
        return 8 * len(self.parts) * batch * max(inner, 1)

    def cut(self, batch: slice, lines: slice, inner: slice = slice(None)) -> Operand:
        """A block of it, a view. A batch of 1 stays whole."""
        batch = slice(None) if self.shape[0] == 1 else batch
        return Operand(tuple(part[batch, lines, inner] for part in self.parts))

    def pick(self, item: int, lines: Array) -> Operand:
        """Chosen lines of one batch item, copies."""
        item = item if self.shape[0] > 1 else 0
        return Operand(tuple(part[item, lines][None] for part in self.parts))

    def inner(self, stretch: slice) -> Operand:
        """A stretch of the inner dimension of all lines, a view."""
        return self.cut(slice(None), slice(None), stretch)

    def joined_bits(self) -> Array:
        """The float64 bits as one array (parts, batch, lines, inner), a view where possible."""
        return joined(self.parts).astype(np.float64, copy=False).view(np.int64)

    def bits(self) -> list[Array]:
        """The float64 bits of each part; other formats are converted, which is exact."""
        return [part.astype(np.float64, copy=False).view(np.int64) for part in self.parts]


def joined(parts: tuple[Array, ...]) -> Array:
    """Equal views, the parts of one complex array for instance, as one array, without copying."""
    first = parts[0]
    if len(parts) == 1:
        return first[None]
    if not joinable(parts):
        return np.stack(parts)
    shape, strides = (2, *first.shape), (first.itemsize, *first.strides)
    return np.lib.stride_tricks.as_strided(first, shape, strides)


def joinable(parts: tuple[Array, ...]) -> bool:
    """Whether two arrays are the real and imaginary parts of one complex array."""
    ours, theirs = (part.__array_interface__["data"][0] for part in parts)
    return parts[0].strides == parts[1].strides and theirs - ours == parts[0].itemsize


@dataclass(frozen=True)
class Survey:
    """What is known of lines before they are scaled: arrays of shape (batch, lines).

    `top` and `last` are exponents of the largest magnitude and of the last set bit, 0 for lines
    that are zero or hold an infinity or a NaN (`special`); q1 and q2 are the integer norms.
    """

    top: Array
    last: Array
    q1: Array
    q2: Array
    special: Array


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
        old = self.survey
        found = Survey(old.top[at], old.last[at], old.q1[at], old.q2[at], old.special[at])
        return Quantised(found, self.exponents[at], self.exact[at], self.norm[at])


def every(of_lines: Array, batch: int) -> Array:
    """The same lines for every batch, contiguous."""
    if len(of_lines) == batch:
        return np.ascontiguousarray(of_lines)
    return np.repeat(of_lines, batch, axis=0)
