"""Lines of both operands, by the definition and as the CPU has them, for tests of single stages."""

from __future__ import annotations

import numpy as np
import pytest

import widen.testing as wt
from helpers import ACCURACIES, draw
from widen import bounds, definition
from widen.contract import CONTRACTS, as_contract
from widen.cpu import encode as cpu_encode
from widen.cpu import lines as cpu_lines
from widen.cpu.batches import lines, stack
from widen.cpu.operands import Survey
from widen.formats import FORMATS
from widen.planner import choose_layout, first_cap
from widen.units import UNITS

SIDES = ["left", "right"]
BY_DATA = [name for name, contract in CONTRACTS.items() if contract.certified_by_data]
INNER = sorted(
    {1, 2, 3, 5, 63, 64, 65, 1000, 1023, 1024, 1025, 2**16, 2**17 - 1, bounds.LARGEST_INNER}
    | {2**p + d for p in range(1, 29) for d in (-1, 0, 1)}
)

families = pytest.mark.parametrize("family", wt.FAMILIES)
accuracies = pytest.mark.parametrize("accuracy", ACCURACIES, ids=str)
units = pytest.mark.parametrize("unit", UNITS.values(), ids=UNITS)
parts_of_numbers = pytest.mark.parametrize("operand", ["float64", "complex128"])


def numbers_of(matrix, side):
    """The exact numbers of every row, or of every column."""
    return [definition.numbers(line) for line in (matrix if side == "left" else matrix.T)]


def operand_of(matrix, side, order="C"):
    """The same lines as the backend has them."""
    parts = 2 if matrix.dtype.kind == "c" else 1
    return lines(stack(np.array(matrix, order=order)[None]), side, parts)


def goals_of(accuracy, k, parts):
    """The goals that a contract may have for this inner dimension."""
    contract = as_contract(accuracy)
    for precision in (53, 24):
        yield bounds.goal(contract, precision, k, parts, None)
        if contract.correct:
            yield bounds.goal(contract, precision, k, parts, first_cap(precision, k))


def awkward(family, shape, operand):
    """A pair of a family, with a zero line and a subnormal one on either side."""
    a, b = draw(family, shape, 31, operand)
    a[0], b[:, 0] = 0.0, -0.0
    a[1], b[:, 1] = 2.0**-1074, 3 * 2.0**-1060
    return a, b


def encoded(family, operand, accuracy, unit, system, order="C", shape=(5, 13, 4)):
    """Both sides by the definition and by the backend, in one layout."""
    k, fmt = shape[1], FORMATS[operand]
    a, b = awkward(family, shape, operand)
    contract = as_contract(accuracy)
    cap = first_cap(fmt.precision, k) if contract.correct else None
    goal = bounds.goal(contract, fmt.precision, k, fmt.parts, cap)
    operands = [operand_of(x, side, order) for x, side in zip((a, b), SIDES, strict=True)]
    quantised = [cpu_lines.quantise(cpu_lines.survey(x), goal) for x in operands]
    defined = [
        [definition.quantise_line(line, goal) for line in numbers_of(x, side)]
        for x, side in zip((a, b), SIDES, strict=True)
    ]
    needs = cpu_lines.needs(*quantised, k)
    layout = choose_layout(contract, fmt, k, unit, system, needs, cap=cap)
    return operands, quantised, defined, layout, fmt


def planes_of(operands, quantised, layout):
    return [
        cpu_encode.encode(operand, found, layout, side)
        for side, (operand, found) in enumerate(zip(operands, quantised, strict=True))
    ]


def known_lines(special, **facts):
    """A survey of lines of which these facts are known; the others are 0."""
    names = ("top", "last", "q1", "q2", "nonzeros", "distances", "first", "stop", "least")
    zero = np.zeros_like(special, np.int64)
    return Survey(np.stack([facts.get(name, zero) for name in names]), special)
