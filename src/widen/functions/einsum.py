"""Einstein sums: products and sums by labels of axes."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
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
from widen.functions.several import Enclosed, Times, is_wanted, rounded_once
from widen.functions.sums import sum as exact_sum
from widen.functions.whole import Integers, contracted
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
    operands all of it is one exact sum of products. So it is with more if ``accuracy="correct"``:
    the exact value is rounded once, and no order changes a bit. Under the other contracts each
    product keeps the contract and is rounded to the result's format. Sums of a single operand are
    correctly rounded. Gradients are those of the products one by one.

    Examples
    --------
    >>> import numpy as np, widen
    >>> a, b = np.arange(6.0).reshape(2, 3), np.ones((3, 2))
    >>> widen.einsum("ij,jk->ik", a, b)
    array([[ 3.,  3.],
           [12., 12.]])
    >>> widen.einsum("ii", np.eye(3))
    np.float64(3.0)
    >>> big = np.array([[1e200, 1.0], [-1e200, 1.0]])
    >>> widen.einsum("i,ij,jk->k", [1.0, 1.0], big, big, accuracy="correct")
    array([-2.e+200,  2.e+000])
    """
    if not isinstance(subscripts, str):
        subscripts, operands = _from_lists((subscripts, *operands))
    given = [operand(x, f"operand {at}") for at, x in enumerate(operands)]
    form = parse(subscripts, [tuple(x.shape) for x in given])
    wanted = common_format(given) if dtype is None and len(given) > 2 else dtype
    shape = tuple(form.sizes[label] for label in form.output)
    if len(given) == 1:
        last = _summed(_Term(given[0], form.inputs[0]), form.output, dtype)
        result = permuted(last.array, [last.labels.index(label) for label in form.output])
        if tuple(result.shape) != shape:
            result = broadcast(result, shape)
        return delivered(reshaped_scalar(result, shape), out)
    in_turn = [tuple(range(len(given)))]
    path = _path(optimize, subscripts, given)

    def plain(*operands: Any) -> Any:
        return form.evaluate(operands, path, partial(matmul, accuracy=accuracy, dtype=wanted))

    if not is_wanted(accuracy, given, len(given), dtype):
        return delivered(reshaped_scalar(plain(*given), shape), out)
    result = rounded_once(
        given, dtype,
        lambda values, times, ordered: form.evaluate(values, in_turn if ordered else path, times),
        form.element, form.work, plain,
    )  # fmt: skip
    return delivered(reshaped_scalar(result, shape), out)


@dataclass(frozen=True)
class Form:
    """Labels of operands and of the result, and the size of each."""

    inputs: list[Labels]
    output: Labels
    sizes: dict[str, int]

    @property
    def work(self) -> int:
        """Products that are added up for one element."""
        return math.prod(size for label, size in self.sizes.items() if label not in self.output)

    def evaluate(self, values: Sequence[Any], path: Sequence[tuple[int, ...]], times: Times) -> Any:
        """The result, by products of two, in the order of a path."""
        terms = [_Term(x, labels) for x, labels in zip(values, self.inputs, strict=True)]
        for taken in path:
            chosen = [terms[at] for at in taken]
            terms = [term for at, term in enumerate(terms) if at not in taken]
            needed = set(self.output).union(*(term.labels for term in terms))
            while len(chosen) > 1:
                later = needed.union(*(term.labels for term in chosen[2:]))
                chosen = [_product(chosen[0], chosen[1], later, self.sizes, times), *chosen[2:]]
            terms.append(chosen[0])
        (last,) = terms
        order = [last.labels.index(label) for label in self.output]
        return last.changed(lambda array: permuted(array, order))

    def element(self, values: Sequence[Integers], at: tuple[int, ...]) -> tuple[Fraction, ...]:
        """One element of the result, exactly."""
        place = dict(zip(self.output, at, strict=True))
        numbers = {label: number for number, label in enumerate(self.sizes) if label not in place}
        terms, axes = [], []
        for value, labels in zip(values, self.inputs, strict=True):
            shape = value.parts[0].shape
            index = [
                slice(None) if label not in place else place[label] if size > 1 else 0
                for label, size in zip(labels, shape, strict=True)
            ]
            left = [label for label in labels if label not in place]
            whole = [self.sizes[label] for label in left]
            terms.append(value[tuple(index)].broadcast(whole))
            axes.append([numbers[label] for label in left])
        return contracted(terms, axes)


@dataclass(frozen=True)
class _Term:
    array: Any
    labels: Labels

    def changed(self, change: Callable[[Any], Any]) -> Any:
        """The array with other axes."""
        return (
            self.array.changed(change) if isinstance(self.array, Enclosed) else change(self.array)
        )


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
    if len(given) < 2:
        raise ValueError(
            'einsum takes subscripts and operands, as in einsum("ij,jk->ik", a, b), or operands '
            "and lists of integers in turn"
        )
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
    label = next((x for x, n in Counter(term.labels).items() if n > 1), None)
    if label is None:
        return term
    first = term.labels.index(label)
    second = term.labels.index(label, first + 1)

    def joined(array: Any) -> Any:
        if array.shape[first] != array.shape[second]:  # one entry, repeated
            sizes = list(array.shape)
            sizes[first] = sizes[second] = max(sizes[first], sizes[second])
            array = broadcast(array, sizes)
        return diagonal(array, first, second)

    labels = [x for at, x in enumerate(term.labels) if at not in (first, second)]
    return _without_repeats(_Term(term.changed(joined), (*labels, label)))


def _summed(term: _Term, output: Labels, dtype: Any) -> _Term:
    """The sum of one operand over the labels that are not in the result."""
    term = _without_repeats(term)
    axes = tuple(at for at, label in enumerate(term.labels) if label not in output)
    if not axes and dtype is None:
        return term
    array = exact_sum(term.array, axes, dtype=dtype)
    return _Term(np.asarray(array) if np.isscalar(array) else array,
                 tuple(x for x in term.labels if x in output))  # fmt: skip


def _product(a: _Term, b: _Term, needed: set[str], sizes: dict[str, int], times: Times) -> _Term:
    """The product of two operands, summed over what nobody needs: one product of matrices."""
    a, b = _without_repeats(a), _without_repeats(b)
    both = [x for x in a.labels if x in b.labels]
    batch = [x for x in both if x in needed]
    summed = list(dict.fromkeys(x for x in (*a.labels, *b.labels) if x not in needed))
    left = [x for x in a.labels if x in needed and x not in both]
    right = [x for x in b.labels if x in needed and x not in both]
    ours = _matrices(a, (batch, left, summed), sizes)
    theirs = _matrices(b, (batch, summed, right), sizes)
    product = _Term(times(ours, theirs), (*batch, *left, *right))
    shape = [sizes[x] for x in product.labels]
    return _Term(product.changed(lambda array: reshaped(array, shape)), product.labels)


def _matrices(
    term: _Term, groups: tuple[list[str], list[str], list[str]], sizes: dict[str, int]
) -> Any:
    """A batch of matrices of an operand: labels of the batch, of rows and of columns.

    A label that it does not have is one that the other is summed over: it is repeated along it.
    """
    wanted = [x for group in groups for x in group]
    there = [x for x in wanted if x in term.labels]
    batch, rows, columns = ([sizes[x] for x in group] for group in groups)

    def arranged(array: Any) -> Any:
        array = permuted(array, [term.labels.index(x) for x in there])
        array = reshaped(array, [array.shape[there.index(x)] if x in there else 1 for x in wanted])
        array = broadcast(array, [sizes[x] for x in wanted])
        return reshaped(array, (*batch, math.prod(rows), math.prod(columns)))

    return term.changed(arranged)
