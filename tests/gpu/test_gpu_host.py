"""On a GPU: products of operands in host memory, on real streams, within the workspace."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import widen
from helpers import assert_same_bits, draw, draw_words
from widen.gpu.host import products

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU"),
]

RNG = np.random.default_rng(3)
WORKSPACE = 96 * 10**6
"""Bytes in which products of n = 3000 are cut on both sides."""


def peak(call):
    """The result, and the most bytes that were taken of the GPU at one time."""
    torch.cuda.synchronize()
    before = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    return call(), torch.cuda.max_memory_allocated() - before


@pytest.mark.parametrize("accuracy", ["standard", "fast", "correct", 40])
@pytest.mark.parametrize("where", ["arrays", "pinned", "columns"])
def test_bits_and_memory(where, accuracy):
    a, b = RNG.standard_normal((3000, 2000)), RNG.standard_normal((2000, 2900))
    wanted = widen.matmul(torch.from_numpy(a).cuda(), torch.from_numpy(b).cuda(), accuracy=accuracy)
    if where == "pinned":
        a, b = (torch.from_numpy(x).pin_memory() for x in (a, b))
    elif where == "columns":
        a, b = (np.asfortranarray(x) for x in (a, b))
    options = {"accuracy": accuracy, "device": "cuda"}
    widen.matmul(a[:100], b[:, :100], **options)  # tables are made once and kept
    for _ in range(2):
        found, taken = peak(lambda: widen.matmul(a, b, workspace=WORKSPACE, **options))
        assert_same_bits(np.asarray(found), wanted.cpu().numpy())
        assert taken <= WORKSPACE
    _, info = widen.matmul(a, b, workspace=WORKSPACE, info="largest", **options)
    assert info.workspace <= WORKSPACE
    assert "2900 columns" not in info.plan.why[-1]


def test_a_memory_map_is_the_result(tmp_path):
    maps = [
        np.lib.format.open_memmap(tmp_path / f"{name}.npy", "w+", "float64", (2500, 2500))
        for name in "ABC"
    ]
    for x in maps[:2]:
        x[:] = RNG.standard_normal(x.shape)
    shares = []
    assert widen.matmul(
        *maps[:2], out=maps[2], device="cuda", workspace=WORKSPACE, progress=shares.append
    ) is maps[2]  # fmt: skip
    assert shares == sorted(shares)
    assert len(shares) > 2
    assert shares[-1] == 1
    assert_same_bits(np.load(tmp_path / "C.npy"), widen.matmul(*maps[:2]))


@pytest.mark.parametrize("name", ["float16", "float32", "complex128"])
def test_formats(name):
    a, b = draw("phi2", (700, 600, 650), 5, name)
    c = RNG.standard_normal((700, 650))
    dtype = "complex128" if name == "complex128" else "float64"
    there = {"device": "cuda", "workspace": 12 * 10**6}
    assert_same_bits(widen.matmul(a, b, **there), widen.matmul(a, b))
    found = widen.gemm(a, b, c, alpha=-1.5, beta=0.5, dtype=dtype, **there)
    assert_same_bits(found, widen.gemm(a, b, c, alpha=-1.5, beta=0.5, dtype=dtype))


def test_words_and_batches():
    a, b = draw_words("phi2", (150, 120, 130), 5, "float64x2")
    found = widen.matmul(a, b, device="cuda", workspace=6 * 10**6)
    for x, y in zip(found.planes, widen.matmul(a, b).planes, strict=True):
        assert_same_bits(x, y)
    a, b = RNG.standard_normal((40, 1, 30, 50)), RNG.standard_normal((3, 50, 20))
    assert_same_bits(widen.matmul(a, b, device="cuda", workspace=4 * 10**6), widen.matmul(a, b))


def test_an_error_half_way_leaves_the_gpu_as_it_was():
    a = RNG.standard_normal((3000, 2000))
    torch.cuda.synchronize()
    widen.matmul(a, a.T, device="cuda", workspace=WORKSPACE)
    before = torch.cuda.memory_allocated()

    def interrupt(share):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        widen.matmul(a, a.T, device="cuda", workspace=WORKSPACE, progress=interrupt)
    assert torch.cuda.memory_allocated() == before
    found = widen.matmul(a, a.T, device="cuda", workspace=WORKSPACE)
    assert_same_bits(found, widen.matmul(a, a.T))


def test_gpus_that_there_are_not():
    with pytest.raises(ValueError, match="GPUs, and the first is 'cuda:0'"):
        widen.matmul(np.eye(2), np.eye(2), device="cuda:99")
    with pytest.raises(ValueError, match="the operands are on cuda:0; leave device= out"):
        widen.matmul(torch.eye(2).cuda(), torch.eye(2).cuda(), device="cpu")
    assert products.device_named("cuda") == f"cuda:{torch.cuda.current_device()}"
    x = torch.eye(2, dtype=torch.float64).cuda()
    assert torch.equal(widen.matmul(x, x, device="cuda"), x)
