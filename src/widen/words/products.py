"""`widen.matmul` for those who stand below it; sums, dot products and norms as products on a GPU.

The interface stands above this room, and is imported when it is called.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from widen.formats.arrays import is_uniform, library_of, place_of
from widen.words import arithmetic
from widen.words.promotion import common_format, with_parts

if TYPE_CHECKING:
    from widen.words.array import Words

LARGEST_POWER = 511
"""Norms up to 2^this are found by products: 4^-511 is a normal float64."""


def matmul(x: Any, y: Any, **options: Any) -> Any:
    """`widen.matmul`."""
    from widen.api import matmul

    return matmul(x, y, **options)


def gemm(x: Any, y: Any, c: Any = None, **options: Any) -> Any:
    """`widen.gemm`."""
    from widen.api import gemm

    return gemm(x, y, c, **options)


def serve(*given: Words) -> bool:
    """Whether words are on a GPU, and finite: others are added on a CPU."""
    place = place_of(given[0].planes[0])
    if place is None or place.type == "cpu" or any(x.size == 0 for x in given):
        return False
    return all(bool(library_of(x.planes[0]).isfinite(x.planes[0]).all()) for x in given)


def total(lines: Words) -> Words:
    """Sums of rows: a product with ones."""
    ones = library_of(lines.planes[0]).ones_like(lines.planes[0][0, 0])
    sums: Words = matmul(lines, ones, dtype=lines.format, accuracy="correct")
    return sums


def dot(x: Words, y: Words) -> Words:
    """The dot product of two vectors."""
    fmt = common_format(x.format, y.format)
    product: Words = matmul(x, y, dtype=fmt, accuracy="correct")
    return product


def norm(lines: Words) -> Words | None:
    """2-norms of rows, or None if one is too large: 2^e times the root of a number in [1, 4).

    That number is rounded there, as on a CPU: words below the smallest float would be others
    elsewhere. Rows are scaled up, which is exact, and all together down again by alpha. e is found
    by trying: first from the largest number of a row.
    """
    library = library_of(lines.planes[0])
    outputs = lines.shape[0]
    rows = type(lines).of(
        with_parts(lines.format, 1),
        [library.moveaxis(plane, 0, 1).reshape(1, outputs, -1) for plane in lines.planes],
    )
    fmt = rows.format
    if not is_uniform(fmt):  # a float32 behind a float64 cannot be scaled as far
        rows = rows.astype("float64x2")
    largest = min(LARGEST_POWER, rows.format.part.words[0].highest - 2)
    exponent = library.frexp(library.amax(abs(rows.planes[0][0]), 1))[1]
    while True:
        most = max(int(exponent.max()), 0)
        if most > largest:
            return None
        scaled = arithmetic.times_power(rows, (most - exponent)[:, None])
        squares = gemm(
            scaled.reshape(outputs, 1, -1), scaled.reshape(outputs, -1, 1), alpha=4.0**-most,
            dtype=fmt, accuracy="correct",
        ).reshape(outputs)  # fmt: skip
        fraction, top = library.frexp(squares.planes[0][0])
        # The value is below the power of two that its first word is, if the next is negative.
        top = top - 1 - 1 * ((fraction == 0.5) & (squares.planes[1][0] < 0))
        wrong = (top >> 1) * (fraction != 0)
        if not bool((wrong != 0).any()):
            return arithmetic.times_power(arithmetic.root(squares), exponent)
        exponent = exponent + wrong
