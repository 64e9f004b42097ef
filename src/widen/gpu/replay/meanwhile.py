"""What answers while another process compiles: slower launches, or none where nothing is to do.

Nobody waits for a kernel that takes seconds to compile where something else gives the same bits.
A call that went so is not recorded: the next one of its kind may be.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch

from widen.gpu.replay.launch import Launching, is_watched
from widen.gpu.replay.recording import postpone, quietly


def soonest(fast: Sequence[Launching], slow: Callable[[], Sequence[Launching]]) -> None:
    """Make `fast` launches; or slow ones, which do the same, if kernels of these would be late.

    Late are those that another process compiles; it is asked to. Slow kernels are compiled sooner,
    and are more often there. Who watches is told of both.
    """
    if is_watched():
        for launching in (*slow(), *fast):
            launching.make()
        return
    chosen, late = fast, any(launching.waits_for_compiler() for launching in fast)
    if late and not _is_captured():
        with quietly():  # their memory is part of no recording
            others = slow()
        if _are_coming([*others, *fast]):
            postpone()
            chosen = others
    for launching in chosen:
        launching.make()


def make_for_marked(launching: Launching, marks: torch.Tensor, below: int) -> None:
    """Make a launch that works on elements with marks from 1 to `below` - 1, and on no others.

    If its kernel would be late, the device is asked whether there are any.
    """
    late = launching.waits_for_compiler() and not _is_captured()
    if late and launching.is_coming() and not _has(marks, below):
        postpone()
    else:
        launching.make()


def _are_coming(launchings: Sequence[Launching]) -> bool:
    """Whether all of their kernels are; all are asked for, the first ones first."""
    coming = [launching.is_coming() for launching in launchings]
    return all(coming)


def _has(marks: torch.Tensor, below: int) -> bool:
    """Whether there is a mark from 1 to `below` - 1; waits for the device."""
    with quietly():
        return bool(((marks > 0) & (marks < below)).any())


def _is_captured() -> bool:
    """Whether a CUDA graph captures this thread's launches: it would keep slow ones for good."""
    return torch.cuda.is_available() and torch.cuda.is_current_stream_capturing()
