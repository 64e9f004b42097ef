"""Bytes weighed by instructions of NVIDIA GPUs, or by what stands for them elsewhere."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import triton
import triton.language as tl

from device import ON
from widen.gpu.kernels.triton.packed import three_weighed
from widen.gpu.replay.launch import assembly, launch

pytestmark = pytest.mark.device


@triton.jit
def weigh(x, y, z, out, SIZE: tl.constexpr, WEIGHTS: tl.constexpr, ASSEMBLY: tl.constexpr):
    at = tl.arange(0, SIZE)
    total = three_weighed(
        tl.load(x + at), tl.load(y + at), tl.load(z + at), WEIGHTS[0], WEIGHTS[1], WEIGHTS[2],
        ASSEMBLY,
    )  # fmt: skip
    tl.store(out + at, total.to(tl.int32, bitcast=True))


@pytest.mark.parametrize("size", [32, 512])
@pytest.mark.parametrize("weights", [(65280, 64770, 1), (3, 0, 65535), (0, 0, 0), (65535,) * 3])
def test_three_bytes_weighed(size, weights):
    """Every byte with the largest weights; also with fewer numbers than threads."""
    rng = np.random.default_rng(size)
    x, y, z = rng.integers(0, 256, (3, size)).astype(np.uint8)
    x[:4], y[:4], z[:4] = 255, 255, 255
    out = torch.zeros(size, dtype=torch.int32, device=ON)
    x, y, z = (torch.from_numpy(v).to(ON) for v in (x, y, z))
    arguments = {"x": x, "y": y, "z": z, "out": out, "SIZE": size, "WEIGHTS": weights}
    launch(weigh, (1,), {**arguments, "ASSEMBLY": assembly(out.device)}, warps=1)
    wanted = sum(v.long() * w for v, w in zip((x, y, z), weights, strict=True))
    assert torch.equal(out.long(), wanted)
