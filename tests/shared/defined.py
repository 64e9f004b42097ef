"""A product by the definition, with all that its stages give."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from widen import definition
from widen.contract import Contract
from widen.formats import Part, complex_of
from widen.stages.problem import Account, Problem


@dataclass(frozen=True)
class Defined:
    """A product by the definition: the rounded elements and which of them were repaired.

    `values` has a leading axis of words where the format has several.
    """

    values: np.ndarray
    repaired: np.ndarray
    rows: list[definition.Line]
    columns: list[definition.Line]
    planes: tuple[definition.Planes, definition.Planes]
    groups: definition.Planes


def matmul(
    a: np.ndarray | definition.Words, b: np.ndarray | definition.Words, contract: Contract,
    fmt: Part, layout_of: Any,
    *, full: bool = False,
) -> Defined:  # fmt: skip
    """A finite two-dimensional product, k >= 1, in the part format `fmt`, with all its stages.

    ``layout_of(rows, columns)`` chooses the layout; any that holds X gives the same values, and so
    do those that leave out the same products of `full` lines.
    """
    given = [x if isinstance(x, tuple) else (x,) for x in (a, b)]
    parts = 2 if any(np.iscomplexobj(word) for words in given for word in words) else 1
    left, right = (
        definition.operand(given[0], "left", parts),
        definition.operand(given[1], "right", parts),
    )
    system = "triangle" if full else None
    form = complex_of(fmt) if parts == 2 else fmt
    prepared = definition.quantise(
        Problem(left, right, contract, form, 1 << 30, system=system), Account()
    )
    layout = layout_of(prepared.rows, prepared.columns)
    prepared = replace(prepared, plan=replace(prepared.plan, layout=layout))
    rows, columns = prepared.rows, prepared.columns
    out = np.empty((len(fmt.words), parts, 1, len(rows), len(columns)))
    stages = prepared.stages((slice(None), slice(None), slice(None)), out)
    marks = stages.certify()
    planes = stages.encode(slice(None))
    groups = stages.multiply(planes, None)
    repaired = np.zeros((len(rows), len(columns)), bool)
    for at in stages.repair(stages.reconstruct(groups, marks)):
        repaired[at] = True
    by_word = np.ascontiguousarray(np.moveaxis(out[:, :, 0], 1, -1))
    values = (by_word.view(np.complex128) if parts == 2 else by_word)[..., 0]
    values = values if len(fmt.words) > 1 else values[0]
    return Defined(values, repaired, rows, columns, planes, groups)
