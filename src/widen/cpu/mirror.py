"""An operand times itself, transposed: how that is seen, and how half of the result is copied.

docs/method.md has the proof that the bits are those of the whole product.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from widen.cpu.lines import balanced_survey
from widen.cpu.operands import Array, Operand, Survey
from widen.cpu.scaling import Scaling
from widen.plan import Plan
from widen.stages.problem import Problem
from widen.systems import UnevenDigits

SYMMETRIC = "b is a transposed: it is encoded once, and half of the result is computed"
HERMITIAN = "b is a transposed and conjugated: half of the result is computed"

SIZE = 350
"""Rows of a block, about, where the whole is not one block for other reasons.

CPU time of one thread at n = 1000, the general way being 1 (`python bench/symmetric.py`, with other
numbers here). BLAS does half of a real block on the diagonal, so one block is best: 0.54, blocks of
500 0.60, of 250 0.68. With an addend, half of the rounding counts too: one block 0.74, of 334 0.65,
of 250 0.67, of 125 0.79. BLAS knows no conjugates: blocks of 500 0.76, of 334 0.65, of 250 0.66, of
125 0.81.
"""

LEAST = 256
"""Rows from which on it pays to compare all numbers of complex operands."""

FINEST = -1074
"""Every float64, so every addend, is a multiple of 2^FINEST."""


@dataclass(frozen=True)
class Mirror:
    """How half of a result gives the rest.

    `conjugated`: element (j, i) is the conjugate of (i, j). `shared`: whether planes of all rows,
    and of all columns, are kept from block to block.
    """

    conjugated: bool
    shared: tuple[bool, bool] = (False, False)

    def write(self, targets: list[Array], values: Array) -> None:
        """Values (words, parts, batch, rows, columns) to words of the block across the diagonal.

        A difference, because an exact zero is +0 in both halves.
        """
        for target, value in zip(targets, values, strict=False):
            target[0] = value[0]
            for part, numbers in zip(target[1:], value[1:], strict=True):
                part[...] = 0.0 - numbers if self.conjugated else numbers


def seen(problem: Problem[Any]) -> Mirror | None:
    """Whether the columns of the right operand are the rows of the left one, or conjugates."""
    left, right = problem.sources
    if not isinstance(left, Operand) or not isinstance(right, Operand):
        return None
    if left.same_memory(right):
        return Mirror(conjugated=False)
    if len(left.parts) == 2 and left.shape[1] >= LEAST and left.conjugate_of(right):
        return Mirror(conjugated=True)
    return None


def planned(
    mirror: Mirror | None, problem: Problem[Operand], surveys: list[Survey], plan: Plan
) -> tuple[Mirror | None, Plan]:
    """How the result is mirrored, if it is, and the plan for that."""
    if mirror is None:
        return None, plan
    whole = plan.blocks.whole(plan.shape)
    copied = _is_mirrored(mirror, problem, surveys)
    if not copied and (mirror.conjugated or not whole):
        return None, plan
    k, n = plan.shape[2:]
    thin = isinstance(plan.layout, UnevenDigits)
    kept = copied and not thin and plan.blocks.columns >= n and plan.blocks.inner >= k
    size = min(plan.blocks.rows, plan.blocks.columns)
    if kept and (mirror.conjugated or problem.scaling is not None):
        size = min(size, SIZE)
    count = -(-n // max(1, size))
    size = -(-n // count)
    blocks = replace(plan.blocks, rows=size, columns=size)
    why = HERMITIAN if mirror.conjugated else SYMMETRIC
    changed = replace(plan, blocks=blocks, why=(*plan.why, why), symmetric=True)
    shared = kept and (whole or not mirror.conjugated), kept
    return replace(mirror, shared=shared), changed


def _is_mirrored(mirror: Mirror, problem: Problem[Operand], surveys: list[Survey]) -> bool:
    """Whether the halves of the result are mirror images, bit for bit.

    Conjugates differ in the sign of a zero where numbers underflow, and in that of a NaN.
    """
    scaling = problem.scaling
    assert scaling is None or isinstance(scaling, Scaling)
    if not mirror.conjugated:
        return scaling is None or scaling.is_mirrored(conjugated=False)
    operand, lowest = problem.sources[0], problem.fmt.part.lowest
    assert isinstance(operand, Operand)
    if surveys[0].special.any():
        return False
    last = balanced_survey(operand, np.zeros(operand.shape[2], np.int64)).last
    if 2 * int(last.min(initial=0)) < lowest:
        return False
    if scaling is None:
        return True
    plain = {scaling.alpha, scaling.beta} <= {-1, 0, 1}
    return plain and lowest <= FINEST and scaling.is_mirrored(conjugated=True)
