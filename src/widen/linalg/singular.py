"""Whether a matrix is singular, and its rank, modulo primes.

The rank modulo a prime is at most the rank. A matrix of rank r has a minor of size r that is not
zero; where all primes of a set with a product above that minor's size give ranks below r, the minor
is zero modulo all of them, hence zero. So ranks are proven from both sides.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from widen.formats.arrays import cast, library_of
from widen.linalg.arrays import is_complex
from widen.linalg.errors import NotProvenError, SingularMatrixError
from widen.linalg.holding import WHOLE, Holding
from widen.linalg.modular import TOP, eliminate, planes_of, primes, reduced, residues
from widen.linalg.operands import real_matrix

BITS = math.log2(TOP) - 1
"""Bits that each prime adds at least to their product."""
NONE = 1 << 20
"""The exponent of the last bit of zero."""
WORK = 2.0**34
"""Multiplications modulo primes, half a minute of one core, that a proof may take."""


def last_exponents(plane: Any) -> Any:
    """The exponent of the last bit of every number; a large one for zeros."""
    library = library_of(plane)
    mantissa, exponent = library.frexp(plane)
    integers = cast(mantissa * 2.0**53, "int64")
    low = library.frexp(cast(integers & -integers, "float64"))[1] - 1
    return library.where(plane == 0, NONE, cast(exponent, "int64") - 53 + low)


def row_exponents(*parts: Any) -> Any:
    """Exponents that make the rows of matrices, taken together, integers; 0 for rows of zeros."""
    planes = [plane for part in parts for plane in planes_of(part)]
    low = np.min([last_exponents(plane).min(axis=1, initial=NONE) for plane in planes], axis=0)
    return np.where(low == NONE, 0, low)


def row_bits(*parts: Any) -> Any:
    """Upper bounds of log2 of the rows' 2-norms, of a matrix of integers 2^-row_exponents.

    The parts are those of complex numbers. Powers of two change determinants in a way that no odd
    prime sees.
    """
    firsts = np.concatenate([planes_of(part)[0] for part in parts], axis=1)
    exponents = np.frexp(firsts)[1].astype(np.int64) - row_exponents(*parts)[:, None]
    exponents = np.where(firsts == 0, -NONE, exponents)
    most = exponents.max(axis=1, initial=-NONE)
    # A number is at most 2^e, e of its first word, whatever words follow.
    sums = np.square(np.ldexp(1.0, np.maximum(exponents - most[:, None], -1000))).sum(axis=1)
    with np.errstate(all="ignore"):
        return np.where(most == -NONE, 0.0, most + 0.5 * np.log2(sums) + 2.0**-20)


def shifted_bits(a: Any, c: Fraction) -> Any:
    """The same for A - cI, whose rows have the unit of c too if that is smaller."""
    bits, own = row_bits(a), row_exponents(a)
    end = 1 - c.denominator.bit_length() if c.denominator > 1 else _zeros_behind(c.numerator)
    ends = np.minimum(own, end)
    size = c.numerator.bit_length() - c.denominator.bit_length() + 1
    # A row of zeros has 0 bits and the exponent 0, which is not less than it has.
    return np.maximum(bits + own - ends, size - ends) + 1


def _zeros_behind(value: int) -> int:
    return (value & -value).bit_length() - 1


def primes_needed(bits: Any, size: int) -> int:
    """Primes whose product is above twice any minor of this size, for rows of so many bits.

    By Hadamard's bound no minor is above the product of the rows' norms.
    """
    return math.floor((float(np.sort(bits)[::-1][:size].clip(0).sum()) + 1) / BITS) + 1


def work_of(shape: tuple[int, int], count: int) -> float:
    """Multiplications that so many eliminations take, small ones counted for their overhead."""
    return count * (max(shape) * min(shape) ** 2 + 2.0**19)


def proven_rank(a: Any, held: Holding = WHOLE) -> tuple[int, int]:
    """The rank of a matrix: what it is at least, and at most; equal where both are proven.

    `a` is what this process holds of it. A complex matrix of rank r is a real one of rank 2 r,
    [[Re, -Im], [Im, Re]].
    """
    if is_complex(a):
        least, most = proven_rank(real_matrix(a), held)
        return (least + 1) // 2, most // 2

    def needed(size: int) -> int:
        return held.first(primes_needed(held.gathered(row_bits(a)), size))

    shape = held.height(a), int(a.shape[1])
    return _by_primes(shape, lambda p: held.rank_modulo(a, p), needed, Room(WORK))


@dataclass
class Room:
    """Multiplications modulo primes that a proof may take, and that it took."""

    most: float
    spent: float = 0.0


def shifted_rank(a: Any, c: Fraction, room: Room) -> tuple[int, int]:
    """The same for A - cI, c an integer times a power of two, within some room."""
    if is_complex(a):
        least, most = shifted_rank(real_matrix(a), c, room)
        return (least + 1) // 2, most // 2
    n = int(a.shape[0])

    def modulo(p: int) -> int:
        m = residues(a, p)
        m[range(n), range(n)] -= float(c.numerator * pow(c.denominator, -1, p) % p)
        return eliminate(reduced(m, p), p)[0]

    return _by_primes((n, n), modulo, lambda size: primes_needed(shifted_bits(a, c), size), room)


def _by_primes(
    shape: tuple[int, int], rank_modulo: Callable[[int], int], needed_for: Callable[[int], int],
    room: Room,
) -> tuple[int, int]:  # fmt: skip
    """A rank from those modulo primes: one or two, and no proof from above, beyond the room."""
    rank = 0
    for used, p in enumerate(primes(), 1):
        if min(shape) == 0:
            break
        rank = max(rank, rank_modulo(p))
        room.spent += work_of(shape, 1)
        if rank == min(shape):
            return rank, rank
        needed = needed_for(rank + 1)
        affordable = work_of(shape, needed) <= room.most
        if used >= (needed if affordable else 2):
            return rank, rank if affordable else min(shape)
    return rank, min(shape)


def check_nonsingular(a: Any, held: Holding = WHOLE) -> None:
    """Raise unless a square matrix is proven to be nonsingular."""
    n = a.shape[1]
    least, most = proven_rank(a, held)
    if least == n:
        return
    if most < n:
        raise SingularMatrixError(
            f"a is singular: its rank is {most} of {n}, proven modulo primes whose product is "
            "larger than any minor"
        )
    raise NotProvenError(
        f"the determinant of a is zero modulo two primes of 23 bits (rank {least} of {n}), so a is "
        f"singular but for a chance of 1e-13; a proof would take "
        f"{held.first(primes_needed(held.gathered(row_bits(a)), n))} primes"
    )
