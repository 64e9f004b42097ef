"""Paper 002 on a GPU gives the CPU's bits; in Triton's interpreter on small shapes."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import torch

from device import ON
from helpers import assert_same_bits
from paper_operands import awkward
from widen.gpu.tiles import HOPPER
from widen.papers.dgemm_fp8.algorithm import dgemm_fp8_groups, groups_recipe
from widen.papers.ozimmu import algorithm as system
from widen.papers.ozimmu import cpu as on_cpu
from widen.papers.ozimmu import gpu as on_gpu
from widen.papers.ozimmu.algorithm import VARIANTS, fast_fp16, ozimmu

pytestmark = pytest.mark.device

variants = pytest.mark.parametrize("variant", VARIANTS)


def on_device(a, b, recipe, block=slice(None)):
    """The product, or that of a block of the inner dimension, by the GPU's verbs."""
    a, b = (torch.from_numpy(np.ascontiguousarray(x)).to(ON) for x in (a, b))
    lines = a[:, block], b[block].mT
    return system.product(on_gpu, *lines, recipe, system.untimed).cpu().numpy()


@variants
def test_a_gpu_gives_the_same_bits(variant):
    a, b = awkward(5, 19, 4)
    b[2, 3] = np.nan
    for scale in (0, -1030):
        given = np.ldexp(a, scale)
        recipe = system.recipe_of(19, 4, variant)
        assert_same_bits(on_device(given, b, recipe), ozimmu(given, b, 4, variant))
    part = slice(3, 17)
    recipe = system.recipe_of(14, 4, variant)
    wanted = ozimmu(a[:, part], b[part], 4, variant)
    assert_same_bits(on_device(a, b, recipe, part), wanted)


@pytest.mark.parametrize("addends", [1, 2, 4])
def test_fp8_digits_in_groups_have_the_cpus_bits(addends):
    a, b = awkward(5, 19, 4)
    recipe = replace(groups_recipe(19, 4), addends=addends)
    wanted = system.product(on_cpu, a, b.T, recipe, system.untimed)
    assert_same_bits(on_device(a, b, recipe), wanted)


@pytest.mark.gpu
@pytest.mark.parametrize("shape", [(5, 7, 3), (130, 1100, 67), (70, 40000, 33)])
def test_groups_step_v_and_blocks_at_size(shape):
    a, b = awkward(*shape)
    c = a @ b
    device = [torch.from_numpy(x).cuda() for x in (a, b, c)]
    for product in (partial(ozimmu, slices=5, variant="h"), partial(dgemm_fp8_groups, slices=5)):
        for how in ({}, {"alpha": 0.3, "beta": -1.7}, {"k_block": 500}):
            more = [{"c": x} if "beta" in how else {} for x in (c, device[2])]
            found = product(*device[:2], **how, **more[1])
            assert_same_bits(found.cpu().numpy(), product(a, b, **how, **more[0]))
    assert_same_bits(fast_fp16(*device[:2], 5).cpu().numpy(), fast_fp16(a, b, 5))


@pytest.mark.gpu
@variants
@pytest.mark.parametrize("shape", [(5, 7, 3), (130, 1100, 67), (300, 256, 512), (70, 40000, 33)])
def test_a_gpu_gives_the_same_bits_at_size(variant, shape):
    a, b = awkward(*shape)
    for slices in (3, 9):
        wanted = ozimmu(a, b, slices, variant)
        device = [torch.from_numpy(x).cuda() for x in (a, b)]
        assert_same_bits(ozimmu(*device, slices, variant).cpu().numpy(), wanted)
        views = device[0].mT.contiguous().mT, device[1].mT.contiguous().mT
        assert_same_bits(ozimmu(*views, slices, variant).cpu().numpy(), wanted)


@pytest.mark.gpu
@pytest.mark.parametrize("tile", HOPPER, ids=lambda tile: f"{tile.rows}x{tile.columns}")
def test_every_tile_of_the_hopper_kernel_adds_every_pair(tile):
    from widen.gpu.kernels.cuda.launcher import is_hopper
    from widen.papers.ozimmu.kernels.cuda.sums import multiply_sums

    if not is_hopper(torch.device("cuda")):
        pytest.skip("this kernel needs a Hopper GPU")
    m, k, n, sums = 333, 300, 410, ((0, 3, 4), (1, 2, 2), (3, 0, 1))
    left, right = (
        torch.randint(-128, 128, (4, 1, lines, 304), dtype=torch.int8, device="cuda")
        for lines in (m, n)
    )
    out = torch.full((len(sums), 1, m, 416), -1, dtype=torch.int32, device="cuda")
    multiply_sums(left, right, out, k, sums, tile)
    planes = [x[:, 0, :, :k].double() for x in (left, right)]
    for found, (first, last, count) in zip(out, sums, strict=True):
        wanted = sum(planes[0][first + q] @ planes[1][last - q].mT for q in range(count))
        assert torch.equal(found[0, :, :n].double(), wanted)
