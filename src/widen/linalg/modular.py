"""Elimination modulo a prime, in float64: ranks and determinants that are exact modulo p.

Every float is m 2^e, and 2 has an inverse modulo an odd prime, so matrices of floats need no
scaling. Primes are below 2^23: a sum of 64 products of residues is below 2^52, so blocks of 64
columns go through ordinary matrix products without any rounding.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any

import numpy as np

from widen.linalg.arrays import on_host
from widen.words import Words

TOP = 1 << 23
BLOCK = 64


@cache
def _sieve() -> Any:
    """Primes in [2^22, 2^23), the largest first: 272,748 of them."""
    flags = np.ones(TOP // 2, bool)  # of odd numbers
    for q in range(3, int(TOP**0.5) + 1, 2):
        if flags[q // 2]:
            flags[q * q // 2 :: q] = False
    odd = 2 * np.flatnonzero(flags) + 1
    return odd[odd >= TOP // 2][::-1].copy()


def primes() -> Iterator[int]:
    """Primes of 23 bits, the largest first.

    >>> p, q = (prime for prime, _ in zip(primes(), range(2)))
    >>> p, q
    (8388593, 8388587)
    """
    return map(int, _sieve())


def planes_of(a: Any) -> list[Any]:
    """The words of real numbers as NumPy arrays."""
    a = on_host(a)
    return [plane[0] for plane in a.planes] if isinstance(a, Words) else [a]


def residues(a: Any, p: int) -> Any:
    """The numbers of a matrix modulo p, as floats in [0, p)."""
    total: Any = 0
    for plane in planes_of(a):
        mantissa, exponent = np.frexp(plane)
        integers = (mantissa * 2.0**53).astype(np.int64) % p
        exponent = exponent.astype(np.int64) - 53
        low = int(exponent.min(initial=0))
        powers = [pow(2, low, p)]
        for _ in range(int(exponent.max(initial=0)) - low):
            powers.append(powers[-1] * 2 % p)
        total = total + integers * np.array(powers)[exponent - low]
    return (total % p).astype(float)


def reduced(x: Any, p: int) -> Any:
    """Integers below 2^53 in magnitude modulo p; x is overwritten."""
    x -= np.floor(x * (1.0 / p)) * p  # off by one multiple of p at most
    x += p * (x < 0)
    x -= p * (x >= p)
    return x


def eliminate(m: Any, p: int, columns: list[int] | None = None) -> tuple[int, int]:
    """The rank modulo p, and the determinant modulo p (0 if the rank is not full).

    `m` holds residues and is overwritten. Columns that are independent of those before them are
    added to `columns`, if that is given.

    >>> eliminate(np.array([[1.0, 2.0], [3.0, 4.0]]), 8388593)
    (2, 8388591)
    """
    rows, width = m.shape
    rank, determinant = 0, 1
    for start in range(0, width, BLOCK):
        stop, top = min(start + BLOCK, width), rank
        pivots = []
        for column in range(start, stop):
            if rank == rows:
                break
            at = int(np.argmax(m[rank:, column] != 0)) + rank
            if m[at, column] == 0:
                continue
            if at != rank:
                m[[rank, at]] = m[[at, rank]]
                determinant = -determinant
            pivot = int(m[rank, column])
            determinant = determinant * pivot % p
            factors = m[rank + 1 :, column] * pow(pivot, -1, p)
            m[rank + 1 :, column] = reduced(factors, p)
            below = m[rank + 1 :, column + 1 : stop]
            below -= m[rank + 1 :, column, None] * m[rank, None, column + 1 : stop]
            reduced(below, p)
            pivots.append(column)
            rank += 1
        if columns is not None:
            columns += pivots
        count = len(pivots)
        if not count or stop == width:
            continue
        block = m[:, pivots]
        for k in range(1, count):  # the rows of the pivots, behind the block
            row = m[top + k, stop:]
            row -= block[top + k, :k] @ m[top : top + k, stop:]
            reduced(row, p)
        rest = m[top + count :, stop:]
        rest -= block[top + count :] @ m[top : top + count, stop:]
        reduced(rest, p)
    full = rank == rows == width
    return rank, determinant % p if full else 0
