"""Matrices of paper 003's experiments, and Algorithm 1 on their words."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import widen
from widen.formats.arrays import cast, library_of
from widen.papers.items import Setting
from widen.papers.triple_single.algorithm import multiply_sliced, slice_matrix

COUNTS = (9, 10, 11, 12)
"""Slices, as in the paper."""

WORDS = {
    "double": ("float64",),
    "DF": ("float32", "float32"),
    "TS": ("float32", "float32", "float32"),
    "D+S": ("float64", "float32"),
    "DD": ("float64", "float64"),
}
SCALE = 2.0**40
"""Of all matrices: products of their last slices are then no subnormal float32, slow on a CPU."""

INPUTS = "Matrices are (u - 0.5) exp(rn), all words filled to their last bit."


def numbers(setting: Setting, shape: tuple[int, int], name: str, stream: int) -> list[Any]:
    """Words of (u - 0.5) exp(rn), every later one below half a unit of the one before it."""
    first, *later = WORDS[name]
    words = [SCALE * setting.random(shape, 1.0, 10 * stream, first)]
    for at, word in enumerate(later):
        share = setting.random(shape, 0.0, 10 * stream + at + 1, first)  # from -1/2 to 1/2
        small = words[-1] * share * 2.0 ** (-53 if first == "float64" else -24)
        words.append(cast(small, word))
    return words


def doubles(setting: Setting, shape: tuple[int, int], stream: int) -> list[Any]:
    """(u - 0.5) exp(rn) computed in float64, as three float32 that sum to it."""
    rest, words = SCALE * setting.random(shape, 1.0, 10 * stream), []
    for _ in range(3):
        words.append(cast(rest, "float32"))
        rest = rest - cast(words[-1], "float64")
    return words


KINDS: dict[str, Callable[[Setting, tuple[int, int], int], list[Any]]] = {
    "numbers of 53 bits": doubles,
    "all words filled": lambda setting, shape, stream: numbers(setting, shape, "TS", stream),
}
"""TS matrices: the paper does not say which of them it has."""


def scheme(a: list[Any], b: list[Any], slices: int, order: str = "rows") -> tuple[Any, ...]:
    """Algorithm 1 on words."""
    cut = slice_matrix(tuple(a), slices, 1), slice_matrix(tuple(b), slices, 0)
    return multiply_sliced(*cut, order)


def quad_product(a: list[Any], b: list[Any]) -> Any:
    """The quad double product of TS matrices by the library's own product: words (4, m, n)."""
    left, right = (
        widen.Words.from_words([cast(word, "float64") for word in x], widen.float64x4)
        for x in (a, b)
    )
    return widen.matmul(left, right, dtype=widen.float64x4).words


def errors(computed: Any, exact: Any) -> tuple[float, float, float]:
    """Largest and median relative error, and the largest error over the largest element.

    The differences cancel word by word, each exactly but for the last.
    """
    rest = exact[0]
    for word in computed:
        rest = rest - word
    wrong = abs(rest + exact[1])
    relative, against_largest = wrong / abs(exact[0]), wrong.max() / abs(exact[0]).max()
    median = library_of(relative).median(relative)
    return float(relative.max()), float(median), float(against_largest)
