"""Kernels are launched by the names of their parameters, in whatever order these are given."""

from __future__ import annotations

import pytest
import torch
import triton
import triton.language as tl

from device import ON
from widen.gpu.replay.launch import Parameters, general, launch
from widen.gpu.replay.recording import Recorder

pytestmark = pytest.mark.device


@triton.jit(do_not_specialize=["second"])
def note(out, first, second, THIRD: tl.constexpr, FOURTH: tl.constexpr):
    """Write down what was given."""
    tl.store(out, first)
    tl.store(out + 1, second)
    tl.store(out + 2, THIRD)
    tl.store(out + 3, FOURTH)


@triton.jit
def constant_first(THIRD: tl.constexpr, out):
    """A kernel that cannot be launched."""
    tl.store(out, THIRD)


def numbers():
    return torch.zeros(4, dtype=torch.int32, device=ON)


@pytest.mark.parametrize("kernel", [note, general(note)])
def test_values_meet_their_parameters_by_name(kernel):
    out = numbers()
    launch(kernel, (1,), {"FOURTH": 4, "second": 2, "out": out, "THIRD": 3, "first": 1})
    assert out.tolist() == [1, 2, 3, 4]


def test_a_recorder_gets_tensors_and_numbers_in_the_kernel_s_order():
    out, other = numbers(), numbers()
    given = {"FOURTH": 4, "second": 2, "THIRD": 3, "first": 1, "out": out}
    with Recorder([out]) as recorder:
        launch(note, (1,), given, warps=1)
    recording = recorder.recording()
    recording.issue([], other)
    assert other.tolist() == out.tolist() == [1, 2, 3, 4]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"first": 1, "second": 2, "THIRD": 3}, "needs FOURTH; it has no parameter for none"),
        ({"first": 1, "second": 2, "THIRD": 3, "fourth": 4}, "FOURTH; .* parameter for fourth"),
        (
            {"first": 1, "second": 2, "THIRD": 3, "FOURTH": 4, "fifth": 5},
            "needs nothing; it has no parameter for fifth",
        ),
    ],
)
def test_wrong_names_are_refused_each_time(given, message):
    out = numbers()
    launch(note, (1,), {"out": out, "first": 0, "second": 0, "THIRD": 0, "FOURTH": 0})
    for _ in range(2):
        with pytest.raises(TypeError, match=message):
            launch(note, (1,), {"out": out, **given})
    assert out.tolist() == [0, 0, 0, 0]


def test_constants_come_last():
    assert Parameters(note).given == 3
    with pytest.raises(TypeError, match="constant_first: constants need to be its last"):
        launch(constant_first, (1,), {"out": numbers(), "THIRD": 1})
