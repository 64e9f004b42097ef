"""GPU stages called by tests: on a GPU, or on tensors of a CPU in Triton's interpreter."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
import torch

import widen
from widen import bounds
from widen.bounds import Goal
from widen.calls import check
from widen.calls.check import check_call
from widen.calls.cpu_tensors import as_tensor
from widen.contract import as_contract
from widen.formats import FORMATS
from widen.gpu import lines as gpu_lines
from widen.gpu import operands
from widen.gpu import products as gpu_products
from widen.gpu import stages as gpu_stages
from widen.gpu.kernels.triton import numbers
from widen.gpu.products import lines_of
from widen.gpu.stages import Clock
from widen.options import Options
from widen.stages.problem import Problem, Scalars
from widen.stages.run import run

ON = "cuda" if torch.cuda.is_available() else "cpu"
"""Where kernels run."""

own_kernels = pytest.mark.usefixtures("own_kernels")  # the others are those of small products


def cases(names, *given, interpreted, slow=0):
    """Parameters of a test; the first few where they are interpreted, the first of them slow."""
    if ON == "cuda":
        return pytest.mark.parametrize(names, given)
    marked = [pytest.param(*case, marks=pytest.mark.slow) for case in given[:slow]]
    return pytest.mark.parametrize(names, [*marked, *given[slow:interpreted]])


def tensor(x):
    """A tensor with a NumPy array's numbers (and strides, on a CPU)."""
    if x.dtype == ml_dtypes.bfloat16:
        return torch.from_numpy(x.view(np.int16)).view(torch.bfloat16).to(ON)
    return as_tensor(x).to(ON)


def moved(x):
    """`Words` of arrays as `Words` of tensors."""
    planes = [torch.from_numpy(np.ascontiguousarray(plane)) for plane in x.planes]
    if len({plane.dtype for plane in planes}) == 1:
        planes = list(torch.stack(planes).to(ON))
    return widen.Words.of(x.format, [plane.to(ON) for plane in planes])


def product(a, b, accuracy="standard", dtype="float64", plan=None, workspace=1 << 30):
    """The product of NumPy arrays by the GPU's stages."""
    fmt = FORMATS[dtype]
    left, right = (lines_of(tensor(x), side, fmt.parts) for x, side in ((a, "left"), (b, "right")))
    shape = (*np.broadcast_shapes(a.shape[:-2], b.shape[:-2]), a.shape[-2], b.shape[-1])
    out = torch.full(shape, torch.nan, dtype=getattr(torch, dtype), device=ON)
    problem = Problem(left, right, as_contract(accuracy), fmt, workspace, plan=plan)
    bits = operands.bits_of(out.reshape(problem.shape[0], *shape[-2:]), fmt.parts)
    return run(gpu_stages, problem, bits, Clock(timed=False)), out.cpu().numpy()


def gemm(a, b, c=None, alpha=1.0, beta=0.0, bound=False, **options):
    """`widen.gemm` of NumPy arrays by the GPU's stages, and its bound if asked for."""
    a, b = tensor(a), tensor(b)
    c = None if c is None else tensor(c)
    if ON == "cuda":
        result = widen.gemm(a, b, c, alpha=alpha, beta=beta, info=bound, **options)
        if bound:
            return result[0].cpu().numpy(), result[1].bound.cpu().numpy()
        return result.cpu().numpy()
    alpha, beta = check.scalar(alpha, "alpha"), check.scalar(beta, "beta")
    c = None if beta == 0 else c
    of_complex = any(isinstance(x, complex) for x in (alpha, beta))
    options = Options(**options)
    complex_scalars = of_complex or (c is not None and c.is_complex())
    call = check_call(a, b, options, 1 << 30, complex_scalars=complex_scalars)
    out = torch.full(call.dims, 7.0, dtype=getattr(torch, call.fmt.name))
    limits = torch.empty(call.dims, dtype=torch.float64) if bound else None
    scaling = gpu_products._scaling(call, Scalars(alpha, beta, c), None, a.device)
    ledger = Clock(timed=False, bounds=bound)
    gpu_products._run(call, scaling, out, limits, options, ledger)
    return out.numpy() if limits is None else (out.numpy(), limits.numpy())


def surveyed(x, side, contract, cap):
    """Lines of an operand and its table, as the device quantises them; goal and certificate."""
    operand = lines_of(tensor(x), side, 1)
    fmt, k = FORMATS["float64"], operand.shape[2]
    goal, test = bounds.goal(contract, fmt.precision, k, 1, cap), None
    if contract.certified_by_data:
        test = bounds.certificate(contract, fmt.precision, k, 1, 0)
    looked_at = gpu_lines.survey_all([operand], None, 1, [goal])
    tables, needs = looked_at.tables, looked_at.needs
    gpu_lines.quantise([operand], tables, goal, test, needs[0].unbind())
    return operand, tables[0], goal, test


LEVEL, FLAGS, WEIGHT = (int(getattr(numbers, name)) for name in ("LEVEL", "FLAGS", "WEIGHT"))
NO_GOAL = Goal(1, 1, 0)
"""For certificates whose tables say what it would."""


def lines_of_a_certificate(rng, batch, lines, near):
    """A table whose exponents and weights leave about half of the elements open; some are odd."""
    table = rng.integers(0, 1 << 40, (gpu_lines.ROWS_OF_TABLE, batch * lines))
    table[LEVEL] = rng.integers(-near - 2, -near + 3, batch * lines)
    table[FLAGS] = rng.choice([0, 4, 4, 4, 5, 6], batch * lines)
    table[WEIGHT] = rng.integers(1 << 20, 1 << 22, batch * lines)
    odd = rng.random(batch * lines) < 0.05
    table[LEVEL, odd] = rng.choice([-(1 << 20), -200, 200, 0], odd.sum())
    table[WEIGHT, odd] = rng.choice([0, 1, 1 << 61], odd.sum())
    return torch.from_numpy(table)
