"""Plans made beforehand on a GPU: whether their planes will do for the data that came.

Such a plan is kept to without a read of the device, so that a CUDA graph can capture the call. Its
planes may be too few for the data, and its certificate looks at leading integers of seven bits
alone. What either leaves open is repaired by dot products, which takes long where it is much. So
outside of graphs the host asks once, when the planes are multiplied, how many elements are open. If
they are many, it starts again with the plan that the data ask for, whose second pass they get. A
call that a graph captures launches what the same call before it launched.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch

from widen.gpu.kernels.triton.reconstruct import UNCERTIFIED, UNFIT, UNSETTLED
from widen.gpu.operands import Lines, Tensor
from widen.gpu.replay import recording
from widen.gpu.replay.issuing import Guess
from widen.plan import Plan
from widen.stages.problem import Problem

OPEN = sum(1 << int(code) for code in (UNCERTIFIED, UNSETTLED, UNFIT))
"""A bit for each mark of elements that dot products would have to decide."""


def is_captured(device: torch.device) -> bool:
    """Whether a CUDA graph captures what is launched on a device now."""
    return device.type == "cuda" and torch.cuda.is_current_stream_capturing()


def may_wait(problem: Problem[Lines], plan: Plan, sides: tuple[Lines, Lines], fewest: int) -> bool:
    """Whether a call with a plan is to ask how many elements are open.

    Not if all elements together have too few terms for a second pass; nor with an integer contract,
    which certifies nothing; nor where products are left out, so that planes decide bits.
    """
    return (
        math.prod(problem.shape) > fewest
        and problem.contract.name != "bits"
        and plan.layout.dropped == 0
        and not is_captured(sides[0].bits.device)
    )


@dataclass(frozen=True)
class Openness:
    """Whether many elements are open; recorded launches are for those that have few."""

    many: bool

    @property
    def key(self) -> bool:
        """Equal where launches are."""
        return self.many

    def covers(self, other: Openness) -> bool:
        """Whether launches recorded for it do for another."""
        return self.many or not other.many


def _openness(fewest: int, numbers: Any) -> Openness:
    return Openness(numbers[0] > fewest)


def _count(numbers: Tensor, marks: Tensor) -> None:
    """How many marks are OPEN ones; three launches of PyTorch."""
    numbers.copy_(torch.bitwise_right_shift(OPEN, marks).bitwise_and_(1).sum())


def many_are_open(marks: Tensor, fewest: int) -> bool:
    """Whether more elements are open than dot products are for; waits for the device.

    Launches that are issued again wait here too, and what comes after them is for few.
    """
    numbers = torch.empty(1, dtype=torch.int64, device=marks.device)
    with recording.quietly():
        _count(numbers, marks)
    recorder = recording.listener()
    if recorder is not None and not recorder.lost:
        view = recorder.view(numbers)
        assert view is not None
        recorder.launched((numbers, marks), _count, tensors=True)
        recorder.guess = Guess(view, partial(_openness, fewest), Openness(many=False))
        recording.read_here()
        recording.check_here()
    with recording.quietly():
        found = _openness(fewest, numbers.tolist())
    if found.many and recorder is not None:
        recorder.give_up()
    return found.many
