"""Einstein sums: products and sums by labels of axes."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from widen.api import matmul
from widen.functions.arrays import (
    broadcast,
    common_format,
    delivered,
    diagonal,
    operand,
    permuted,
    reshaped,
)
from widen.functions.products import reshaped_scalar
from widen.functions.sums import sum as exact_sum
from widen.options import Accuracy

Labels = tuple[str, ...]
"""A name for every axis; those of an ellipsis are called "...1" and so on, from the right."""

LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"


def einsum(
    subscripts: Any,
    *operands: Any,
    optimize: Any = False,
    accuracy: Accuracy = "standard",
    dtype: Any = None,
    out: Any = None,
) -> Any:
    """Sums of products by labels of axes, as `np.einsum`: of two operands one sum, rounded once.

    Parameters
    ----------
    subscripts, operands
        As for `np.einsum`: ``"ij,jk->ik"`` and arrays, tensors, `Words` or lists; with or without
        ``->``, with ellipses and repeated labels (diagonals). Or operands and lists of integers in
        turn.
    optimize
        In which order more than two operands are multiplied. False: from left to right, whatever
        their sizes. A path as `np.einsum_path` gives, or what it takes (True, ``"greedy"``,
        ``"optimal"``): the order is then a function of the shapes.
    accuracy, dtype, out
        As for `matmul`.

    Notes
    -----
    Labels that are not in the result are summed as soon as no other operand has them. With two
    operands all of it is one exact sum of products. With more, each product keeps the contract and
    is rounded to the result's format. Sums of a single operand are correctly rounded.

    Examples
    --------
    >>> import numpy as np, widen
    >>> a, b = np.arange(6.0).reshape(2, 3), np.ones((3, 2))
    >>> widen.einsum("ij,jk->ik", a, b)
    array([[ 3.,  3.],
           [12., 12.]])
    >>> widen.einsum("ii", np.eye(3))
    np.float64(3.0)
    """
    if not isinstance(subscripts, str):
        subscripts, operands = _from_lists((subscripts, *operands))
    given = [operand(x, f"operand {at}") for at, x in enumerate(operands)]
    form = parse(subscripts, [tuple(x.shape) for x in given])
    wanted = common_format(given) if dtype is None and len(given) > 2 else dtype
    terms = [_Term(x, labels) for x, labels in zip(given, form.inputs, strict=True)]
    for taken in _path(optimize, subscripts, given):
        chosen = [terms[at] for at in taken]
        terms = [term for at, term in enumerate(terms) if at not in taken]
        needed = set(form.output).union(*(term.labels for term in terms))
        while len(chosen) > 1:
            later = needed.union(*(term.labels for term in chosen[2:]))
            pair = _product(chosen[0], chosen[1], later, form.sizes, (accuracy, wanted))
            chosen = [pair, *chosen[2:]]
        terms.append(chosen[0])
    (last,) = terms
    if len(given) == 1:
        last = _summed(last, form.output, dtype)
    order = [last.labels.index(label) for label in form.output]
    result = permuted(last.array, order)
    shape = tuple(form.sizes[label] for label in form.output)
    if len(given) == 1 and tuple(result.shape) != shape:
        result = broadcast(result, shape)
    return delivered(reshaped_scalar(result, shape), out)


@dataclass(frozen=True)
class Form:
    """Labels of operands and of the result, and the size of each."""

    inputs: list[Labels]
    output: Labels
    sizes: dict[str, int]


@dataclass(frozen=True)
class _Term:
    array: Any
    labels: Labels


def parse(subscripts: str, shapes: Sequence[tuple[int, ...]]) -> Form:
    """Labels of operands of these shapes, checked.

    >>> parse("i...j,j", [(2, 3, 4), (4,)]).output
    ('...1', 'i')
    """
    text = subscripts.replace(" ", "")
    left, arrow, right = text.partition("->")
    words = left.split(",")
    if len(words) != len(shapes):
        raise ValueError(
            f"{subscripts!r} has labels of {len(words)} operands; {len(shapes)} were given"
        )
    pairs = zip(words, shapes, strict=True)
    inputs = [_labels(word, len(shape), subscripts) for word, shape in pairs]
    sizes: dict[str, int] = {}
    for labels, shape in zip(inputs, shapes, strict=True):
        for label, size in zip(labels, shape, strict=True):
            known = sizes.setdefault(label, size)
            if known == 1:
                sizes[label] = size
            elif size not in (1, known):
                raise ValueError(
                    f"the label {label!r} of {subscripts!r} has sizes {known} and {size}"
                )
    counts = Counter(label for labels in inputs for label in labels)
    dots = sorted((x for x in counts if x.startswith("...")), key=lambda x: -int(x[3:]))
    if arrow:
        output = _output(right, dots, subscripts)
    else:
        output = (*dots, *sorted(x for x, n in counts.items() if n == 1 and x not in dots))
    for label, count in Counter(output).items():
        if count > 1 or label not in counts:
            why = "is there twice" if count > 1 else "is of no operand"
            raise ValueError(f"the label {label!r} of the result of {subscripts!r} {why}")
    return Form(inputs, output, sizes)


def _labels(word: str, ndim: int, subscripts: str) -> Labels:
    """Labels of an operand with so many axes."""
    before, dots, after = word.partition("...")
    letters = before + after
    if not all(letter in LETTERS for letter in letters):
        raise ValueError(f"{subscripts!r}: labels are letters, and one ellipsis for each operand")
    rest = ndim - len(letters)
    if rest < 0 or (rest and not dots):
        raise ValueError(f"{word!r} of {subscripts!r} labels {len(letters)} axes of {ndim}")
    return (*before, *(f"...{at}" for at in range(rest, 0, -1)), *after)


def _output(word: str, dots: list[str], subscripts: str) -> Labels:
    before, there, after = word.partition("...")
    if not all(letter in LETTERS for letter in before + after):
        raise ValueError(f"{subscripts!r}: labels are letters, and one ellipsis for each operand")
    if dots and not there:
        raise ValueError(f"{subscripts!r}: operands have axes of an ellipsis, the result has none")
    return (*before, *dots, *after)


def _from_lists(given: Sequence[Any]) -> tuple[str, tuple[Any, ...]]:
    """Subscripts and operands from operands and lists of integers in turn."""
    given = list(given)
    out = given.pop() if len(given) % 2 else None
    operands, lists = given[0::2], given[1::2]
    numbers = sorted({x for each in lists for x in each if x is not Ellipsis})
    if len(numbers) > len(LETTERS):
        raise ValueError(f"{len(numbers)} labels were given; there are {len(LETTERS)} letters")
    letters = dict(zip(numbers, LETTERS, strict=False))

    def word(each: Any) -> str:
        return "".join("..." if x is Ellipsis else letters[x] for x in each)

    text = ",".join(map(word, lists)) + ("" if out is None else f"->{word(out)}")
    return text, tuple(operands)


def _path(optimize: Any, subscripts: str, given: Sequence[Any]) -> list[tuple[int, ...]]:
    """Which operands are multiplied next, each time; results come last."""
    count = len(given)
    if optimize is False or optimize is None or count < 3:
        return [tuple(range(count))]
    if isinstance(optimize, (list, tuple)):
        steps = [step for step in optimize if not isinstance(step, str)]
    else:
        alike = [np.broadcast_to(np.float64(0), tuple(x.shape)) for x in given]
        steps = np.einsum_path(subscripts, *alike, optimize=optimize)[0][1:]
    left, path = count, []
    for step in steps:
        places = tuple(sorted(int(at) for at in step))
        if len(set(places)) < len(places) or not all(0 <= at < left for at in places):
            raise ValueError(f"optimize={optimize!r}: {tuple(step)} are no operands of {left}")
        path.append(places)
        left += 1 - len(places)
    if left != 1:
        raise ValueError(f"optimize={optimize!r} leaves {left} operands")
    return path


def _without_repeats(term: _Term) -> _Term:
    """Diagonals of axes with one label."""
    array, labels = term.array, list(term.labels)
    while len(set(labels)) < len(labels):
        label = next(x for x, n in Counter(labels).items() if n > 1)
        first = labels.index(label)
        second = labels.index(label, first + 1)
        if array.shape[first] != array.shape[second]:  # one entry, repeated
            sizes = list(array.shape)
            sizes[first] = sizes[second] = max(sizes[first], sizes[second])
            array = broadcast(array, sizes)
        array = diagonal(array, first, second)
        labels = [x for at, x in enumerate(labels) if at not in (first, second)] + [label]
    return _Term(array, tuple(labels))


def _summed(term: _Term, output: Labels, dtype: Any) -> _Term:
    """The sum of one operand over the labels that are not in the result."""
    term = _without_repeats(term)
    axes = tuple(at for at, label in enumerate(term.labels) if label not in output)
    if not axes and dtype is None:
        return term
    array = exact_sum(term.array, axes, dtype=dtype)
    return _Term(np.asarray(array) if np.isscalar(array) else array,
                 tuple(x for x in term.labels if x in output))  # fmt: skip


def _product(
    a: _Term, b: _Term, needed: set[str], sizes: dict[str, int], choices: tuple[Any, Any]
) -> _Term:
    """The product of two operands, summed over what nobody needs: one product of matrices."""
    a, b = _without_repeats(a), _without_repeats(b)
    both = [x for x in a.labels if x in b.labels]
    batch = [x for x in both if x in needed]
    summed = list(dict.fromkeys(x for x in (*a.labels, *b.labels) if x not in needed))
    left = [x for x in a.labels if x in needed and x not in both]
    right = [x for x in b.labels if x in needed and x not in both]
    ours = _matrices(a, (batch, left, summed), sizes)
    theirs = _matrices(b, (batch, summed, right), sizes)
    accuracy, dtype = choices
    product = matmul(ours, theirs, accuracy=accuracy, dtype=dtype)
    shape = [sizes[x] for x in (*batch, *left, *right)]
    return _Term(reshaped(product, shape), (*batch, *left, *right))


def _matrices(
    term: _Term, groups: tuple[list[str], list[str], list[str]], sizes: dict[str, int]
) -> Any:
    """A batch of matrices of an operand: labels of the batch, of rows and of columns.

    A label that it does not have is one that the other is summed over: it is repeated along it.
    """
    wanted = [x for group in groups for x in group]
    there = [x for x in wanted if x in term.labels]
    array = permuted(term.array, [term.labels.index(x) for x in there])
    array = reshaped(array, [array.shape[there.index(x)] if x in there else 1 for x in wanted])
    array = broadcast(array, [sizes[x] for x in wanted])
    batch, rows, columns = ([sizes[x] for x in group] for group in groups)
    return reshaped(array, (*batch, math.prod(rows), math.prod(columns)))
