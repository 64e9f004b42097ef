"""On a GPU: what unit records claim is true of this GPU, and every unit gives the CPU's bits."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch

import widen
import widen.testing as wt
from helpers import assert_same_bits, draw
from widen import bounds
from widen.calls.cpu_tensors import as_array
from widen.cli import main
from widen.gpu.units import STORAGE, Engine
from widen.systems import SYSTEMS, Residues, residues
from widen.units import UNITS

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU"),
]

CHOICES = list(itertools.product(STORAGE, SYSTEMS))
choices = pytest.mark.parametrize(("unit", "system"), CHOICES)


def gpu(x):
    return torch.from_numpy(np.ascontiguousarray(x)).cuda()


def same(found, wanted):
    assert found.is_cuda
    assert_same_bits(as_array(found.cpu()), np.asarray(wanted))


def on_a_cpu(a, b, unit, system, **given):
    """The CPU's product; of the triangle alone that is one of its unit."""
    if system == "triangle":
        given |= {"unit": unit, "system": system}
    return widen.matmul(a, b, **given)


# ── what the records claim ───────────────────────────────────────────────────────────────────


def sums_of(unit, digit, k, signs):
    """Sums of k products of largest digits by the unit, and the exact ones.

    The last product differs from the others, so that its last bit counts.
    """
    record = UNITS[unit]
    layout = residues(128, 1.0, 1)
    engine = Engine(unit, layout, record.depth(digit), 1.0, k)
    generator = torch.Generator().manual_seed(k)
    shape = (1, 1, 130, -(-k // 16) * 16)
    ours = torch.full(shape, digit, dtype=torch.float64)
    theirs = torch.full(shape, digit, dtype=torch.float64)
    if signs == "alternating":
        ours[..., 1::2] *= -1
    elif signs == "random":
        ours *= 2 * torch.randint(0, 2, shape, generator=generator) - 1
    elif signs == "minus":
        ours *= -1
    if unit == "int8":  # it has -128, not 128
        ours, theirs = (-ours).clamp(-128, 127), (-theirs).clamp(-128, 127)
    theirs[..., k - 1] = digit - 1
    theirs[0, 0, 1::2, k - 1] = 1 - digit
    wanted = ours[..., :k] @ theirs[..., :k].mT
    left, right = (x.to(STORAGE[unit]).cuda() for x in (ours, theirs))
    assert torch.equal(left.double().cpu(), ours), "the format does not hold such digits"
    found = engine.products(left, right)[..., :130]
    return found.double().cpu(), wanted


@pytest.mark.parametrize("signs", ["plus", "minus", "alternating", "random"])
@pytest.mark.parametrize("unit", STORAGE)
def test_claims(unit, signs):
    """Digits as large and sums as deep as the record says are exact."""
    record = UNITS[unit]
    # Odd digits as well: sums of even ones may lose a bit unseen.
    some = {record.digit, record.digit - 1, record.digit // 3, bounds.plane_digit(record, 1 << 17)}
    for digit in some:
        depth = record.depth(digit)
        # Sums of many depths are made of digits that leave a step of the kernel room.
        longer = 1 if unit == "fp64" or depth < 64 else 3
        for k in {min(depth, 1 << 16), min(longer * depth, 1 << 18) + 5 * (longer > 1)}:
            found, wanted = sums_of(unit, digit, k, signs)
            assert torch.equal(found, wanted), (digit, k)


def test_fp8_would_be_wrong_without_emptying_the_accumulator():
    """Why the record of fp8 stops at 2^14: on Hopper a longer sum loses bits."""
    if torch.cuda.get_device_capability() != (9, 0):
        pytest.skip("this is about Hopper")
    import triton
    import triton.language as tl

    @triton.jit
    def chained(left, right, out, k, SIZE: tl.constexpr, INNER: tl.constexpr):
        i, h = tl.arange(0, SIZE), tl.arange(0, INNER)
        total = tl.zeros((SIZE, SIZE), tl.float32)
        for start in range(0, k, INNER):
            x = tl.load(left + i[:, None] * k + start + h[None, :])
            y = tl.load(right + i[:, None] * k + start + h[None, :])
            total = tl.dot(x, y.T, total)
        tl.store(out + i[:, None] * SIZE + i[None, :], total)

    for k, exact in ((64, True), (256, False)):
        x = torch.full((128, k), 16.0)
        x[:, -1] = 15
        planes = x.to(torch.float8_e4m3fn).cuda()
        out = torch.empty((128, 128), device="cuda")
        chained[(1,)](planes, planes, out, k, SIZE=128, INNER=64)
        assert torch.equal(out.cpu(), x @ x.T) == exact


# ── the interface ────────────────────────────────────────────────────────────────────────────


@choices
@pytest.mark.parametrize("accuracy", ["standard", "fast", "correct", 40])
def test_families(unit, system, accuracy):
    for family in wt.FAMILIES:
        a, b = draw(family, (33, 70, 20), 1)
        found = widen.matmul(gpu(a), gpu(b), accuracy=accuracy, unit=unit, system=system)
        same(found, on_a_cpu(a, b, unit, system, accuracy=accuracy))


@choices
def test_shapes_and_formats(unit, system):
    for shape in ((1, 1, 1), (300, 3, 257), (130, 1100, 67), (40, 5000, 24), (3, 140_000, 2)):
        a, b = draw("phi1", shape, 2)
        found, info = widen.matmul(gpu(a), gpu(b), unit=unit, system=system, info=True)
        same(found, on_a_cpu(a, b, unit, system))
        assert (info.unit, info.system) == (unit, system)
    for name in ("float32", "complex128", "complex64", "float16"):
        a, b = draw("phi2", (33, 70, 20), 3, name)
        for accuracy in ("standard", "correct"):
            found = widen.matmul(gpu(a), gpu(b), accuracy=accuracy, unit=unit, system=system)
            same(found, on_a_cpu(a, b, unit, system, accuracy=accuracy))


@choices
def test_batches_special_values_and_workspace(unit, system):
    rng = np.random.default_rng(4)
    a, b = rng.standard_normal((3, 1, 20, 30)), rng.standard_normal((1, 2, 30, 9))
    same(widen.matmul(gpu(a), gpu(b), unit=unit, system=system), on_a_cpu(a, b, unit, system))
    a, b = a[0, 0], b[0, 0]
    a[1, 2], b[3, 4], a[3] = np.inf, np.nan, 0
    given = {"unit": unit, "system": system, "workspace": "100KB", "info": True}
    found, info = widen.matmul(gpu(a), gpu(b), **given)
    same(found, on_a_cpu(a, b, unit, system))
    a, b = rng.standard_normal((200, 300)), rng.standard_normal((300, 150))
    found, info = widen.matmul(gpu(a), gpu(b), **given | {"workspace": "700KB"})
    same(found, on_a_cpu(a, b, unit, system))
    assert info.plan.blocks.rows < 200


@choices
def test_the_workspace_is_kept(unit, system):
    rng = np.random.default_rng(5)
    x, y = gpu(rng.standard_normal((1500, 1000))), gpu(rng.standard_normal((1000, 1500)))
    out = torch.empty((1500, 1500), dtype=torch.float64, device="cuda")
    given = {"unit": unit, "system": system, "workspace": "64MB"}
    widen.matmul(x, y, out=out, **given)  # tables of constants come to stay
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    widen.matmul(x, y, out=out, **given)
    assert torch.cuda.max_memory_allocated() - before <= 1.1 * 64e6


@choices
@pytest.mark.parametrize("accuracy", ["standard", "correct", 45])
def test_encoded(unit, system, accuracy):
    for name in ("float64", "complex128"):
        a, b = draw("phi1", (33, 70, 20), 5, name)
        wanted = on_a_cpu(a, b, unit, system, accuracy=accuracy)
        given = {"accuracy": accuracy, "unit": unit, "system": system}
        left = widen.encode(gpu(a), side="left", **given)
        right = widen.encode(gpu(b), side="right", **given)
        same(widen.matmul(gpu(a), right), wanted)
        same(widen.matmul(left, gpu(b)), wanted)
        same(widen.matmul(left, right), wanted)
        smaller, _ = draw("phi1", (5, 70, 4), 6, name)
        wanted = on_a_cpu(smaller, b, unit, system, accuracy=accuracy)
        same(widen.matmul(gpu(smaller), right), wanted)


@choices
@pytest.mark.parametrize("accuracy", ["standard", "correct"])
def test_a_plan_made_beforehand_is_captured(unit, system, accuracy):
    a, b = draw("phi1", (33, 70, 20), 7)
    plan = widen.plan(a.shape, b.shape, accuracy=accuracy, unit=unit, system=system, device="cuda")
    assert (plan.unit, plan.system) == (unit, system)
    assert f"unit={unit!r} was asked for" in str(plan)
    x, y = gpu(a), gpu(b)
    out = torch.empty((33, 20), dtype=torch.float64, device="cuda")
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        for _ in range(2):
            widen.matmul(x, y, out=out, plan=plan)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        widen.matmul(x, y, out=out, plan=plan)
    hostile = a[::-1].copy()
    hostile[3] *= 1e300
    hostile[3, 3], hostile[5, 5] = 1e-300, np.inf
    for some in (a, hostile):
        x.copy_(gpu(some))
        out.zero_()
        graph.replay()
        torch.cuda.synchronize()
        same(out, on_a_cpu(some, b, unit, system, accuracy=accuracy))


def test_the_planner_takes_the_unit_of_most_exact_bits():
    plan = widen.plan((64, 64), (64, 64), device="cuda")
    if "H200" in torch.cuda.get_device_name():
        assert plan.unit == "int8"
    assert plan.unit in STORAGE
    assert isinstance(plan.layout, Residues)
    assert set(SYSTEMS) > {"residues", "digits"}


def test_units_are_listed_with_their_rates(capsys):
    assert main(["units", "--device", "cuda"]) == 0
    out = capsys.readouterr().out
    for name in STORAGE:
        assert any(line.split()[:1] == [name] and line.split()[-1].isdigit()
                   for line in out.splitlines())  # fmt: skip
