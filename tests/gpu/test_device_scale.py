"""How far lines are scaled on a GPU: rungs, and what all lines need together."""

from __future__ import annotations

import numpy as np
import pytest
import torch

pytest.importorskip("triton")
import triton
import triton.language as tl

from device import ON
from widen import bounds
from widen.gpu import constants
from widen.gpu.kernels.triton.quantise import filled_up, raise_to, set_bits
from widen.gpu.replay.launch import launch

pytestmark = pytest.mark.device


@triton.jit
def fill(sigmas, squares, rungs, out, count, SIZE: tl.constexpr):
    at = tl.program_id(0) * SIZE + tl.arange(0, SIZE)
    tl.store(out + at, filled_up(tl.load(sigmas + at), tl.load(squares + at), rungs, count))


@pytest.mark.parametrize("filled", [True, False])
def test_filled_up(filled):
    """Just below every rung, on it and above, and beyond the last; or not at all."""
    rng = np.random.default_rng(0)
    squares = rng.integers(1, 1 << 44, 1024)
    logarithms = np.array([(bounds.log2_in_256ths(int(x)) + 24) // 2 for x in squares])
    aims = rng.choice([0, *bounds.RUNGS, 50000], 1024) + rng.integers(-300, 300, 1024)
    sigmas = (aims - logarithms) // 256 + bounds.NORM_BITS
    x, y = torch.from_numpy(sigmas.astype(np.int32)).to(ON), torch.from_numpy(squares).to(ON)
    out = torch.zeros(1024, dtype=torch.int32, device=ON)
    rungs, count = constants.rungs(out.device), len(bounds.RUNGS) if filled else 0
    arguments = {"sigmas": x, "squares": y, "rungs": rungs, "out": out, "count": count}
    launch(fill, (4,), {**arguments, "SIZE": 256})
    wanted = map(bounds.filled_up, sigmas.tolist(), squares.tolist()) if filled else sigmas
    assert out.tolist() == list(wanted)


@triton.jit
def gather(values, out, SIZE: tl.constexpr):
    value = tl.load(values + tl.program_id(0))
    raise_to(out, value)
    set_bits(out + 1, value)


def test_the_largest_and_all_bits():
    """Of programs in any order, from 0 on."""
    values = torch.tensor([-5, 3, 1 << 40, 4, 1 << 40, 8, 0], device=ON)
    out = torch.zeros(2, dtype=torch.int64, device=ON)
    launch(gather, (len(values) - 1,), {"values": values[1:], "out": out, "SIZE": 1})
    assert out.tolist() == [1 << 40, (1 << 40) | 15]
    less = torch.zeros(2, dtype=torch.int64, device=ON)
    launch(gather, (1,), {"values": values, "out": less, "SIZE": 1})
    assert less.tolist() == [0, -5]
