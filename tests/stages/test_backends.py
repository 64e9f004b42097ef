"""One protocol: the same run gives the same bits on a CPU, on a GPU and by the definition."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
import torch

from device import ON
from helpers import assert_same_bits, draw
from widen import definition
from widen.calls.cpu_tensors import as_tensor
from widen.contract import as_contract
from widen.cpu import scaling as cpu_scaling
from widen.cpu import stages as cpu_stages
from widen.cpu.batches import lines, stack
from widen.formats import FORMATS
from widen.gpu import batches, operands
from widen.gpu import scaling as gpu_scaling
from widen.gpu import stages as gpu_stages
from widen.gpu.clock import Clock
from widen.stages.backend import Backend
from widen.stages.problem import Account, Problem, Scaling
from widen.stages.run import run

pytestmark = pytest.mark.device

BACKENDS: dict[str, Backend] = {"cpu": cpu_stages, "gpu": gpu_stages, "definition": definition}
VERBS = ("certify", "encode", "multiply", "reconstruct", "repair", "bound")


def on_cpu(a, b, c, scalars, options):
    fmt = options[1]
    sides = [lines(stack(x)[None], side, fmt.parts) for x, side in ((a, "left"), (b, "right"))]
    scaling = None
    if scalars is not None:
        scaling = cpu_scaling.Scaling(*scalars, stack(c)[None].parts(fmt.parts))
    out = np.full((1, a.shape[0], b.shape[1]), np.nan, fmt.name)
    account = Account()
    problem = Problem(*sides, *options, scaling=scaling)
    run(cpu_stages, problem, stack(out).parts(fmt.parts), account)
    return out[0], account.repaired


def on_gpu(a, b, c, scalars, options):
    fmt = options[1]
    sides = [
        batches.lines_of(as_tensor(np.ascontiguousarray(x)).to(ON), side, fmt.parts)
        for x, side in ((a, "left"), (b, "right"))
    ]
    scaling = None
    if scalars is not None:
        bits = operands.bits_of(as_tensor(c)[None].to(ON), fmt.parts)
        scaling = gpu_scaling.Scaling(*scalars, operands.Lines(bits, fmt.part))
    shape = (1, a.shape[0], b.shape[1])
    out = torch.full(shape, torch.nan, dtype=getattr(torch, fmt.name), device=ON)
    problem, clock = Problem(*sides, *options, scaling=scaling), Clock(timed=False)
    prepared = gpu_stages.quantise(problem, clock)
    run(gpu_stages, problem, operands.bits_of(out, fmt.parts), clock)
    assert prepared.plan.shape == problem.shape
    return out[0].cpu().numpy(), None


def by_definition(a, b, c, scalars, options):
    fmt = options[1]
    sides = [definition.operand(x, side, fmt.parts) for x, side in ((a, "left"), (b, "right"))]
    scaling = None
    if scalars is not None:
        scaling = Scaling(*scalars, definition.operand(c, "left", fmt.parts))
    out, account = np.empty((1, fmt.parts, 1, a.shape[0], b.shape[1])), Account()
    run(definition, Problem(*sides, *options, scaling=scaling), out, account)
    values = out[0, 0, 0] if fmt.parts == 1 else out[0, 0, 0] + 1j * out[0, 1, 0]
    return values.astype(fmt.name), account.repaired


@pytest.mark.covering(1)  # pairs of them meet in tests/gpu
@pytest.mark.parametrize("dtype", ["float64", "complex128", "float32"])
@pytest.mark.parametrize("accuracy", ["standard", "fast", "correct", 30])
@pytest.mark.parametrize("scalars", [None, (-1.5, 0.75)])
def test_one_run_for_all(dtype, accuracy, scalars):
    a, b = draw("graded circulant" if scalars is None else "phi1", (4, 9, 3), 1, dtype)
    c = (np.arange(12).reshape(4, 3) / 7).astype(dtype)
    options = (as_contract(accuracy), FORMATS[dtype], 1 << 30)
    given = (a, b, c, scalars, options)
    wanted, repaired = by_definition(*given)
    assert repaired > 0 or scalars is not None or accuracy not in ("standard", "fast")
    found, ours = on_cpu(*given)
    assert_same_bits(found, wanted)
    if accuracy != "correct":  # which a CPU may keep fewer bits of, and repair
        assert ours == repaired
    assert_same_bits(on_gpu(*given)[0], wanted)


def test_the_inner_dimension_may_be_cut():
    a, b = draw("phi1", (3, 50, 4), 2)
    options = (as_contract("standard"), FORMATS["float64"])
    whole = on_cpu(a, b, None, None, (*options, 1 << 30))[0]
    assert_same_bits(on_cpu(a, b, None, None, (*options, 1 << 12))[0], whole)
    assert_same_bits(by_definition(a, b, None, None, (*options, 1 << 12))[0], whole)


def test_the_definition_knows_its_error():
    a, b = draw("phi1", (2, 30, 2), 3)
    sides = [definition.operand(x, side, 1) for x, side in ((a, "left"), (b, "right"))]
    problem = Problem(*sides, as_contract("fast"), FORMATS["float64"], 1 << 30)
    out, bound = np.empty((1, 1, 1, 2, 2)), np.empty((1, 2, 2))
    account = Account(bounds=True)
    run(definition, problem, out, account, bound=bound)
    assert (account.largest, account.finite) == (bound.max(), 4)
    without = Account(bounds=True)
    run(definition, problem, out, without)
    assert without.largest == account.largest
    exact = sum(
        (np.array([[Fraction(x) * Fraction(y) for y in b[h]] for x in a[:, h]]) for h in range(30)),
        Fraction(0),
    )
    for i, j in np.ndindex(2, 2):
        error = abs(Fraction(out[0, 0, 0, i, j]) - exact[i, j])
        assert error <= Fraction(bound[0, i, j]) <= error * (1 + Fraction(2) ** -50)
        assert error > 0


@pytest.mark.parametrize("backend", BACKENDS.values(), ids=BACKENDS)
def test_every_backend_has_every_verb(backend):
    assert callable(backend.quantise)
    assert {name for name in VERBS if callable(getattr(backend.Stages, name))} == {*VERBS}
    for name in ("stages", "wait", "finish"):
        assert callable(getattr(backend.Prepared, name))
