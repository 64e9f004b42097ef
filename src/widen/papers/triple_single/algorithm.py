"""Paper 003: triple-single arithmetic on consumer GPUs, and the Ozaki scheme for it.

A TS number is an unevaluated sum of three float32, a DF number of two, a D+S number of a float64
and a float32, a DD number of two float64. Their additions and multiplications are the library's
(`triples` and `word_pairs` of cpu/kernels, `triples` and `word_tuples` of gpu/kernels/triton) but
for the renormalisation of TS numbers, which is the paper's own (kernels/cpu/triples.py).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import product
from typing import Any, Literal

from widen.formats.arrays import is_tensor, library_of
from widen.papers.arrays import check_words
from widen.words import Words

TYPES = {
    "TS": "float32x3",
    "DF": "float32x2",
    "D+S": "float64_float32",
    "DD": "float64x2",
}
"""The paper's names of its types, and the library's."""

ORDERS: dict[str, Callable[[tuple[int, int]], int]] = {"rows": lambda pair: pair[0], "weights": sum}
"""Of products of slices (i, j), by what they are sorted; those alike stay in the order of rows."""

ONE, MIXED, PAIR, TRIPLE, FUSED = 0, 1, 2, 3, 4
"""Kinds of numbers: ordinary ones, float64 and float32, two words of one format, three float32 by
listings 8 and 10, or by listings 15 and 17."""

LISTINGS = {"cpu": TRIPLE, "gpu": FUSED}

SLICES = (2, 64)
LARGEST_EXPONENT = 100
"""Slicing adds a number 2^12 times the largest of a row and more, which float32 must hold."""


def blocked_matmul(a: Words, b: Words, listings: Literal["cpu", "gpu"] = "cpu") -> Words:
    """Blocked matrix product of TS, DF, D+S or DD numbers by the paper's own operations.

    c_ij = c_ij + a_ih b_hj for h = 0, 1, …, each a multiplication and an addition of the type with
    its rounding: the error grows with the inner dimension. Tiles are in shared memory on a GPU
    (Triton) and in cache on a CPU (Numba), and change no bit.

    Parameters
    ----------
    a, b
        Matrices of one of the formats float32x3 (TS), float32x2 (DF), float64_float32 (D+S),
        float64x2 (DD), both of the same.
    listings
        Of TS operations, on any device: ``"cpu"`` are 8 and 10, ``"gpu"`` 15 and 17, whose last
        additions have another order and are fused. Other types have one version.

    Examples
    --------
    >>> import numpy as np, widen
    >>> third = widen.Words(np.full((1, 1), 1 / 3), dtype="float32x3")
    >>> c = blocked_matmul(third, widen.Words(np.full((1, 1), 3.0), dtype="float32x3"))
    >>> abs(float(c.words.astype(float).sum()) - 1) < 1e-15
    True
    """
    check_words(a, b, list(TYPES.values()), finite=False)
    if listings not in LISTINGS:
        raise ValueError(f"listings={listings!r} is not known; use one of {', '.join(LISTINGS)}")
    return _words(multiply(_planes(a), _planes(b), listings), a)


def ozaki_matmul(
    a: Words, b: Words, slices: int = 12, order: str = "rows", orders: int | None = None
) -> Words:
    """Matrix product of TS numbers by the Ozaki scheme over float32 products (Algorithm 1).

    Both operands are cut in float32 matrices of few bits a row (a column), whose products SGEMM
    computes without error; all of them are added up in TS arithmetic, slice by slice. The paper
    takes 9 to 12 slices, slices^2 products.

    Parameters
    ----------
    a, b
        Matrices of float32x3.
    slices
        d of the paper. The last one is the rest, rounded to float32, whose products do round.
    order
        Of the sum. ``"rows"``: all products of A's first slice, then of the second, as in the
        paper. ``"weights"`` (ours): products of slices i and j by i + j, so that a sum is rounded
        only when it is about as large as the element will be, also where that cancels.
    orders
        How many orders i + j of products are computed (ours); all of them unless given. At
        n = 4096, 15 orders of 12 slices are 108 of 144 products with the same median error, but
        3 to 4,000 times the largest (bench/results/papers-h200/003-future-orders.csv).

    Examples
    --------
    >>> import numpy as np, widen
    >>> x = widen.Words(np.array([[1.0, 2.0**-40], [0.0, 1.0]]), dtype="float32x3")
    >>> float(ozaki_matmul(x, x).words[1, 0, 1]) == 2.0**-39  # 2^-40 + 2^-40
    False
    >>> float(ozaki_matmul(x, x).words[0, 0, 1]) == 2.0**-39
    True
    """
    if slices not in range(SLICES[0], SLICES[1] + 1):
        raise ValueError(f"slices={slices!r}; give a number from {SLICES[0]} to {SLICES[1]}")
    if orders is not None and orders < 1:
        raise ValueError(f"orders={orders!r}; give a number from 1 to {2 * slices - 1}, or None")
    if order not in ORDERS:
        raise ValueError(f"order={order!r} is not known; use one of {', '.join(ORDERS)}")
    check_words(a, b, ["float32x3"], finite=True)
    xp = library_of(a.planes[0])
    if xp.__name__ == "torch" and xp.get_float32_matmul_precision() != "highest":
        raise ValueError(
            "float32 products are rounded to TF32 or bfloat16 here, which slices do not survive: "
            "torch.set_float32_matmul_precision('highest')"
        )
    cut = slice_matrix(_planes(a), slices, 1), slice_matrix(_planes(b), slices, 0)
    return _words(multiply_sliced(*cut, order, orders), a)


def slice_matrix(words: tuple[Any, ...], slices: int, axis: int) -> list[Any]:
    """Lines 1 to 17 of Algorithm 1: a matrix of TS numbers as float32 slices, largest first.

    T = 2^(ceil(log2 M) + ceil((24 + log2 n) / 2)) for M the largest magnitude along `axis`, whose
    length is n, and a slice is (A + T) - T. Line 16 as printed would take the last but one slice
    from the rest a second time; the last slice is the rest.
    """
    xp = library_of(words[0])
    rest = xp.stack(list(words))
    extra = math.ceil((24 + math.log2(words[0].shape[axis])) / 2)
    pieces = []
    for _ in range(slices - 1):
        largest = xp.amax(abs(rest[0]), axis, keepdims=True)
        fraction, exponent = xp.frexp(largest)
        power = xp.where(fraction > 0.5, exponent, exponent - 1)  # ceil(log2), 2^power >= M
        if int(power.max()) > LARGEST_EXPONENT:
            raise ValueError(
                f"a number is 2^{int(power.max())} or nearly; slices of float32 want less than "
                f"2^{LARGEST_EXPONENT}: scale the matrix by a power of two"
            )
        shift = ((xp.clip(power + (127 + extra), 1, 254)) << 23).view(xp.float32)
        piece = (rest[0] + shift) - shift
        pieces.append(piece)
        accumulate(rest, -piece)
    return [*pieces, rest[0]]


def kept_products(slices: int, orders: int | None) -> list[tuple[int, int]]:
    """Pairs of slices to be multiplied.

    >>> [len(kept_products(12, orders)) for orders in (None, 23, 15, 1)]
    [144, 144, 108, 1]
    """
    pairs = product(range(slices), repeat=2)
    return [(i, j) for i, j in pairs if orders is None or i + j < orders]


def multiply_sliced(
    a: list[Any], b: list[Any], order: str = "rows", orders: int | None = None
) -> tuple[Any, ...]:
    """Lines 18 to 23: products of slices by SGEMM, added up in TS arithmetic in some order.

    Those of slices i and j, counted from 0, with i + j >= `orders` are left out. An entry of slice
    i is at most 2^(-w i) of its row's largest (rounded up to a power of two), w = 6 bits at
    n = 4096: 15 orders leave out what is 2^-90 of the largest product.
    """
    xp = library_of(a[0])
    pairs = kept_products(len(a), orders)
    first, *others = sorted(pairs, key=ORDERS[order])
    leading = xp.matmul(a[first[0]], b[first[1]])
    total = xp.stack([leading, xp.zeros_like(leading), xp.zeros_like(leading)])
    for i, j in others:
        accumulate(total, xp.matmul(a[i], b[j]))
    return tuple(total)


# ── what the paper's kernels do ──────────────────────────────────────────────────────────────────
# Words are plain arrays or tensors here, each (rows, columns), not arrays of numbers in canonical
# form: what the paper's operations leave is what the next one takes.


def kind_of(words: Sequence[Any], listings: str) -> int:
    """Which kernel serves these words."""
    if len(words) != 2:
        return LISTINGS[listings] if len(words) == 3 else ONE
    return PAIR if words[0].dtype == words[1].dtype else MIXED


def multiply(a: Sequence[Any], b: Sequence[Any], listings: str = "cpu") -> tuple[Any, ...]:
    """Words of the product of matrices given by theirs, element by element in one order.

    NumPy arrays, or tensors: on a GPU in Triton.
    """
    if is_tensor(a[0]) and a[0].device.type != "cpu":
        from widen.papers.triple_single import gpu

        return gpu.multiply(a, b, listings)
    from widen.papers.triple_single import cpu

    if not is_tensor(a[0]):
        return cpu.multiply(a, b, listings)
    words = cpu.multiply([x.numpy() for x in a], [x.numpy() for x in b], listings)
    return tuple(map(library_of(a[0]).from_numpy, words))


def accumulate(c: Any, x: Any) -> None:
    """Add floats x (m, n) to numbers c (3, m, n) of three words of float32, in place.

    By listing 8, which has the bits of listing 15 where one operand has one word.
    """
    if is_tensor(c) and c.device.type != "cpu":
        from widen.papers.triple_single import gpu

        gpu.accumulate(c, x)
        return
    from widen.papers.triple_single import cpu

    cpu.accumulate(*((c.numpy(), x.numpy()) if is_tensor(c) else (c, x)))


def _planes(x: Words) -> tuple[Any, ...]:
    """The words of a matrix."""
    return tuple(plane[0] for plane in x.planes)


def _words(words: tuple[Any, ...], like: Words) -> Words:
    """What the paper's operations left, as numbers in canonical form."""
    return Words.from_words(list(words), like.format)
