"""Arrays of floats as Python's integers times a power of two, and sums of products of these."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from widen.formats.arrays import is_tensor
from widen.linalg.arrays import on_host
from widen.linalg.integers import to_integers
from widen.words import Words


def words_of(x: Any) -> list[Any]:
    """The words of numbers on the host, float64 or complex128 arrays of their shape."""
    host = on_host(x.float() if is_tensor(x) and x.dtype.itemsize == 2 else x)
    if not isinstance(host, Words):
        kind = np.complex128 if np.iscomplexobj(host) else np.float64
        return [np.asarray(host).astype(kind)]
    if host.format.parts == 1:
        return [np.asarray(plane[0], np.float64) for plane in host.planes]
    return [_complex(*np.asarray(plane, np.float64)) for plane in host.planes]


def _complex(real: Any, imaginary: Any) -> Any:
    both = np.empty(real.shape, np.complex128)
    both.real, both.imag = real, imaginary
    return both


@dataclass(frozen=True)
class Integers:
    """Numbers parts 2^exponent: object arrays of integers, one for each part.

    Attributes
    ----------
    parts
        Real numbers have one, complex ones two.
    exponent
        The same for all.
    """

    parts: tuple[Any, ...]
    exponent: int

    @classmethod
    def of(cls, x: Any) -> Integers:
        """Finite numbers; what is not finite becomes 0, and nobody may ask for it."""
        words = [np.where(np.isfinite(word), word, 0) for word in words_of(x)]
        parts = [[w.real for w in words]]
        if np.iscomplexobj(words[0]):
            parts.append([w.imag for w in words])
        low = 0
        for plane in itertools.chain(*parts):
            if plane.any():
                low = min(low, int(np.frexp(plane[plane != 0])[1].min()) - 53)
        return cls(tuple(to_integers(planes, low) for planes in parts), low)

    def __getitem__(self, at: Any) -> Integers:
        return Integers(tuple(np.asarray(part[at], object) for part in self.parts), self.exponent)

    def broadcast(self, shape: Sequence[int]) -> Integers:
        """The same numbers, repeated to this shape."""
        whole = tuple(shape)
        parts = (
            part if part.shape == whole else np.broadcast_to(part, whole) for part in self.parts
        )
        return Integers(tuple(parts), self.exponent)


Axes = Sequence[int]


def contracted(terms: Sequence[Integers], axes: Sequence[Axes]) -> tuple[Fraction, ...]:
    """The sum of products over all axes, which are numbered: its parts, exactly.

    >>> x = Integers.of(np.array([0.5, 3.0]))
    >>> contracted([x, x, x], [[0], [0], [0]])
    (Fraction(217, 8),)
    """
    exponent = sum(term.exponent for term in terms)
    totals = [0, 0]
    for chosen in itertools.product(*(range(len(term.parts)) for term in terms)):
        arrays = [term.parts[part] for term, part in zip(terms, chosen, strict=True)]
        pairs = [x for pair in zip(arrays, axes, strict=True) for x in pair]
        value = int(np.einsum(*pairs, [], optimize=len(arrays) > 2)[()])
        turns = sum(chosen)  # i^turns
        totals[turns % 2] += -value if turns % 4 > 1 else value
    is_complex = any(len(term.parts) == 2 for term in terms)
    whole = Fraction(2) ** exponent
    return tuple(whole * total for total in totals[: 2 if is_complex else 1])


def power_element(base: Integers, n: int, at: tuple[int, ...]) -> tuple[Fraction, ...]:
    """One element of the n-th power of square matrices: a row times the matrix, n - 1 times."""
    *batch, i, j = at
    real, *imaginary = (part[tuple(batch)] for part in base.parts)
    row = [part[tuple(batch)][i] for part in base.parts]
    for _ in range(n - 1):
        if imaginary:
            row = [row[0] @ real - row[1] @ imaginary[0], row[0] @ imaginary[0] + row[1] @ real]
        else:
            row = [row[0] @ real]
    whole = Fraction(2) ** (n * base.exponent)
    return tuple(whole * int(part[j]) for part in row)


def chain_element(matrices: Sequence[Integers], at: tuple[int, ...]) -> tuple[Fraction, ...]:
    """One element of a product of matrices."""
    last = len(matrices) - 1
    ends = [matrices[0][at[0]], matrices[last][:, at[1]]]
    axes = [[number, number + 1] for number in range(last - 1)]
    return contracted([ends[0], *matrices[1:last], ends[1]], [[0], *axes, [last - 1]])
