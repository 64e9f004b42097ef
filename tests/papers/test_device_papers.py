"""Papers 000 and 004 on a GPU give the CPU's bits; in Triton's interpreter on small shapes."""

from __future__ import annotations

import re
import subprocess

import numpy as np
import pytest
import torch

from device import ON, tensor
from helpers import assert_same_bits, draw
from paper_operands import random_bits
from widen.papers.dgemm_fp8 import algorithm as dgemm_fp8
from widen.papers.slicing import algorithm as slicing
from widen.papers.slicing import cpu as slices
from widen.papers.slicing import gpu as gpu_slices
from widen.papers.tensor_core_dgemm import algorithm as dgemm
from widen.papers.tensor_core_dgemm import by_row
from widen.stages.compiling.once import Once

pytestmark = pytest.mark.device

CASES = [("phi1", (2, 9, 3))]
if ON != "cpu":
    CASES += [("phi1", (130, 1100, 67)), ("phi4", (20, 4100, 40))]
    CASES += [
        (family, (33, 200, 70)) for family in ("zero lines", "graded against", "cancellation")
    ]
cases = pytest.mark.parametrize(("family", "shape"), CASES)


def on_device(monkeypatch):
    """Calls with tensors go to the GPU's verbs, also where there is only the interpreter."""
    checked = slicing.checked

    def ours(*given):
        return checked(*given, verbs=gpu_slices if isinstance(given[0], torch.Tensor) else None)

    monkeypatch.setattr(gpu_slices, "clock", slices.clock if ON == "cpu" else gpu_slices.clock)
    monkeypatch.setattr(gpu_slices, "read", lambda account: None)
    for module in (dgemm, by_row, dgemm_fp8):
        monkeypatch.setattr(module, "checked", ours)


def agree(function, a, b, c=None, **how):
    """The device's result and counts are the CPU's."""
    more = {} if c is None else {"c": c}
    wanted, on_cpu = function(a, b, info=True, **how, **more)
    more = {} if c is None else {"c": tensor(c)}
    found, ran = function(tensor(a), tensor(b), info=True, **how, **more)
    assert_same_bits(found.cpu().numpy(), wanted)
    assert (ran.slices, ran.products, ran.fast) == (on_cpu.slices, on_cpu.products, on_cpu.fast)


def test_estimates_are_summed_in_one_order(monkeypatch):
    """Also where B has more columns than are looked at in one go."""
    on_device(monkeypatch)
    monkeypatch.setattr(dgemm, "ROWS_A_TIME", 64)
    _, b = draw("phi4", (1, 9, 200), 3)
    left = np.ones((1, 9))
    wanted = dgemm.magnitudes_of(dgemm.checked(left, b, "float64"))
    found = dgemm.magnitudes_of(dgemm.checked(tensor(left), tensor(b), "float64"))
    assert_same_bits(found.cpu().numpy(), wanted)
    np.testing.assert_allclose(wanted, np.abs(b).sum(axis=1), rtol=1e-14)


def few_bits(x):
    """Fewer slices, where Triton's interpreter has to take them."""
    return np.ldexp(np.rint(np.ldexp(x, 6)), -6) if ON == "cpu" else x


@cases
def test_dgemm_tc(family, shape, monkeypatch):
    on_device(monkeypatch)
    a, b = draw(family, shape, 1)
    agree(dgemm.dgemm_tc, a, b)
    a, b = few_bits(a), few_bits(b)
    agree(dgemm.dgemm_tc, a, b, mode="cr")
    agree(dgemm.dgemm_tc, a, b, alpha=0.3, beta=-1.7, c=a @ b, block=shape[2] - 1)


@cases
def test_dgemm_tc_by_row(family, shape, monkeypatch):
    on_device(monkeypatch)
    a, b = draw(family, shape, 1)
    a[0] = np.rint(a[0])  # runs out of slices before the others do
    wanted, on_cpu = by_row.dgemm_tc_by_row(a, b, info=True)
    found, ran = by_row.dgemm_tc_by_row(tensor(a), tensor(b), info=True)
    assert_same_bits(found.cpu().numpy(), wanted)
    assert [(count, x.slices) for count, x in ran] == [(count, x.slices) for count, x in on_cpu]
    assert len(ran) > 1


@cases
def test_sgemm_tc_and_dgemm_dp_cr(family, shape, monkeypatch):
    on_device(monkeypatch)
    a, b = (few_bits(x) for x in draw(family, shape, 2))
    agree(dgemm.dgemm_dp_cr, a, b)
    with np.errstate(over="ignore"):
        a, b = a.astype(np.float32), b.astype(np.float32)
    if np.isfinite(a).all() and np.isfinite(b).all():
        agree(dgemm.sgemm_tc, a, b)


@cases
@pytest.mark.parametrize("function", [dgemm_fp8.dgemm_fp8tc, dgemm_fp8.dgemm_fp16tc])
def test_fp8_and_fp16(function, family, shape, monkeypatch):
    on_device(monkeypatch)
    a, b = (few_bits(x) for x in draw(family, shape, 3))
    agree(function, a, b)
    if function is dgemm_fp8.dgemm_fp16tc or ON != "cpu":
        agree(function, a, b, fp64emu=True, k_block=shape[1] // 2, alpha=0.3, beta=-1.7, c=a @ b)
    if function is dgemm_fp8.dgemm_fp8tc and ON != "cpu":
        agree(function, a, b, digits=(16, 8))
        agree(function, a, b, digits=(8, 8))


@pytest.mark.parametrize("spread", [40] if ON == "cpu" else [3, 40, 400, 1100])
def test_sums_of_any_products(spread):
    """Exponents near and far, large and small integers, sums that cancel."""
    rng = np.random.default_rng(spread)
    count, rows, columns = (6, 1, 200) if ON == "cpu" else (64, 30, 200)
    size = 2.0 ** rng.integers(0, 24, (count, rows, columns))
    products = np.rint((2 * rng.random((count, rows, columns)) - 1) * size).astype(np.float32)
    left, right = (
        rng.integers(-spread // 2, spread // 2 + 1, (count, lines)) for lines in (rows, columns)
    )
    for at in (left, right):  # every other term takes the one before away again, or nearly
        at[1::2] = at[::2]
    products[1::2, :, ::2] = -products[::2, :, ::2]
    given = tensor(products), *(tensor(x.astype(np.int32)) for x in (left, right))
    wanted = slices.nearest(products, left, right)
    assert_same_bits(gpu_slices.nearest(*given).cpu().numpy(), wanted)
    for precision, emulated in ((53, False), (53, True), (24, False)):
        with np.errstate(all="ignore"):
            wanted = slices.accumulate(products, left, right, precision, emulated=emulated)
        found = gpu_slices.accumulate(*given, precision, emulated=emulated)
        assert_same_bits(found.cpu().numpy(), wanted)


@pytest.mark.parametrize("scale", [1000, -1070])
def test_largest_and_smallest_numbers(scale, monkeypatch):
    """Where sigma is no normal number, and sums are subnormal."""
    on_device(monkeypatch)
    a, b = np.ldexp([[1.75, -1.0], [0.3, 1e-2]], scale), np.ldexp([[0.5], [1.25]], -scale - 1060)
    agree(dgemm.dgemm_tc, a, b, mode="cr")
    agree(dgemm_fp8.dgemm_fp16tc, a, b)
    agree(dgemm_fp8.dgemm_fp16tc, a, b, fp64emu=True)


def test_addition_and_multiplication_in_integers():
    x, y = (random_bits(1500, seed) for seed in (2, 3))
    ours, theirs = tensor(x), tensor(y)
    with np.errstate(all="ignore"):
        found = gpu_slices.add(ours, theirs, emulated=True)
        assert_same_bits(found.cpu().numpy(), x + y)
        for scalar in (0.3, -1e-310, 1e300):
            found = gpu_slices.combine(ours, scalar, 0.0, None, 53, emulated=True)
            assert_same_bits(found.cpu().numpy(), scalar * x)


@pytest.mark.gpu
@pytest.mark.parametrize("digits", [(16, 8), (8, 16), (16, 16)])
@pytest.mark.parametrize("k", [64, 128, 1024, 16384])
def test_fp8_products_are_exact(digits, k):
    """The largest digits, all or nearly all of one sign: what the accumulator must hold."""
    rng = np.random.default_rng(k)
    for take in (0, 1, 2):
        planes = [
            torch.from_numpy(digit - (rng.random((256, k)) < 0.3 * take) * 1.0).to(ON)
            for digit in digits
        ]
        given = [[x.to(torch.float8_e4m3fn)] for x in planes]
        found = gpu_slices.multiply(
            *given, [(0, 0)], "fp8", digits[0] * digits[1], slice(0, 256)
        )  # fmt: skip
        assert torch.equal(found[0].double(), planes[0] @ planes[1].T)


@pytest.mark.gpu
def test_emulation_has_no_float64_instruction(monkeypatch, tmp_path):
    from widen.gpu.replay import launch as gpu_launch

    monkeypatch.setattr(gpu_launch, "_compiled", Once())
    a, b = (1 + torch.rand((64, 64), dtype=torch.float64, device=ON) for _ in range(2))
    dgemm_fp8.dgemm_fp8tc(a, b, fp64emu=True, k_block=32, alpha=0.3, beta=0.5, c=a)
    assert len(gpu_launch._compiled) >= 4
    for at, loaded in enumerate(gpu_launch._compiled.values()):
        path = tmp_path / f"{at}.cubin"
        path.write_bytes(loaded.code.binary)
        done = subprocess.run(["cuobjdump", "-sass", path], capture_output=True, text=True)
        assert "EXIT" in done.stdout
        assert not re.findall(r"\b(DADD|DMUL|DFMA|DSETP|DMMA)\b", done.stdout), loaded.code.entry
