"""The product of matrices of multiple doubles by float64 products of their parts (paper 001)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Literal

from widen.formats.arrays import is_tensor, library_of
from widen.papers.arrays import check_words, exponents
from widen.papers.multiple_double.parts import parts_of_lines, parts_of_numbers
from widen.papers.multiple_double.rewriting import WAYS, extract, rewrite_left, rewrite_right
from widen.words import Words

FORMATS = ("float64x2", "float64x4", "float64x8", "float64x16")
GRIDS = ("number", "row")
GROUPS = (None, "sign", "exponent", "both")
EXPONENTS = 13
"""Groups A_0 to A_12: a matrix's largest exponent and those below it; the last has the rest."""


def multiple_double_matmul(
    a: Words,
    b: Words,
    *,
    way: Literal[1, 2] = 1,
    equalise: bool = True,
    balance: bool = True,
    group: Literal["sign", "exponent", "both"] | None = None,
    grid: Literal["number", "row"] = "number",
) -> Words:
    """Product of matrices of double, quad, octo or hexa doubles on the float64 unit.

    Every number is split in parts of few bits (12 for a double double), the product of the matrices
    of parts is rewritten into one float64 product (`np.matmul` on a CPU, FP64 tensor cores on a
    GPU), and the parts of its elements are added up in multiple double arithmetic. It has no
    promise: double doubles of one exponent are as accurate as the format, of numbers of (0, 1) one
    element in a hundred is not, and where exponents are far apart all extra words are lost.
    ``group="exponent"`` and ``grid="row"`` help. `widen.matmul` with ``dtype=widen.float64x2``
    keeps a contract on every input.

    Parameters
    ----------
    a, b
        Matrices of finite numbers, float64x2, float64x4, float64x8 or float64x16, both the same.
    way
        1: numbers of `a` become triangular matrices, those of `b` columns; 2: the other way round.
    equalise, balance
        Give all words of a number one sign; give neighbouring parts the expected exponents.
    group
        Split both matrices by the ``"sign"`` of their numbers (4 products), by their leading
        ``"exponent"`` (up to 13 x 13 products), or by ``"both"``.
    grid
        ``"number"``: parts follow the exponents of each number, as in the slides. ``"row"``: all
        numbers of a row of `a` and of a column of `b` are cut at the same places, so that every sum
        is exact; `equalise` and `balance` are then without meaning and left out.

    Examples
    --------
    >>> import numpy as np, widen
    >>> third = widen.Words.from_words([[[1 / 3]], [[1.850371707708594e-17]]], widen.float64x2)
    >>> c = multiple_double_matmul(third, widen.Words(np.array([[3.0]]), widen.float64x2))
    >>> float(c.words[0, 0, 0]), abs(float(c.words[1, 0, 0])) < 1e-32
    (1.0, True)
    """
    check_words(a, b, FORMATS, finite=True)
    for name, given, known in (("way", way, WAYS), ("group", group, GROUPS),
                               ("grid", grid, GRIDS)):  # fmt: skip
        if given not in known:
            raise ValueError(f"{name}={given!r}; give one of {', '.join(map(repr, known))}")
    words = multiply_words(
        a.words, b.words, way=way, equalise=equalise, balance=balance, group=group, grid=grid
    )
    if len(words) == 2:
        return Words.of(a.format, [word[None] for word in words])
    return Words.from_words(words, a.format)


def multiply_words(
    a: Any, b: Any, *, way: int, equalise: bool, balance: bool, group: str | None, grid: str
) -> Any:
    """The same on words (count, m, k) and (count, k, n): those of the product, (count, m, n)."""
    if grid == "row":
        left, right = parts_of_lines(a, 1), parts_of_lines(b, 0)
    else:
        left, right = (parts_of_numbers(x, equalise=equalise, balance=balance) for x in (a, b))
    lefts = [rewrite_left(part, way) for part in groups(left, group)]
    rights = [rewrite_right(part, way) for part in groups(right, group)]
    products = [extract(x @ y, len(left), way) for x in lefts for y in rights]
    return sum_parts(products, len(a))


def sum_parts(products: Sequence[Any], words: int) -> Any:
    """Words (words, m, n) of the sums of all parts (parts, m, n) of all products, in their order.

    The parts of a product come largest first. NumPy arrays or tensors; on a GPU in Triton.
    """
    first = products[0]
    if is_tensor(first) and first.device.type != "cpu":
        from widen.papers.multiple_double import gpu

        return gpu.sum_parts(products, words)
    from widen.papers.multiple_double import cpu

    if not is_tensor(first):
        return cpu.sum_parts(products, words)
    return library_of(first).from_numpy(cpu.sum_parts([x.numpy() for x in products], words))


def groups(parts: Any, by: str | None) -> Iterator[Any]:
    """Matrices that sum to the one in parts: its numbers by sign, by leading exponent, or both."""
    leading = parts[0]
    signs = [leading >= 0, leading < 0] if by in ("sign", "both") else [None]
    places: list[Any] = [None]
    if by in ("exponent", "both"):
        place = exponents(leading).max() - exponents(leading)
        last = min(int(place.max()), EXPONENTS - 1)
        places = [place == at for at in range(last)] + [place >= last]
    for sign in signs:
        for place in places:
            kept = sign if place is None else place if sign is None else sign & place
            if kept is None:
                yield parts
            elif kept.any():
                yield library_of(parts).where(kept, parts, 0.0)
