"""GPU stages called by tests: on a GPU, or on tensors of a CPU in Triton's interpreter."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

import widen
from widen import bounds
from widen.calls import check
from widen.calls.check import check_call
from widen.calls.cpu_tensors import as_array, as_tensor
from widen.contract import as_contract
from widen.formats import FORMATS
from widen.gpu import batches as gpu_batches
from widen.gpu import lines as gpu_lines
from widen.gpu import operands
from widen.gpu import products as gpu_products
from widen.gpu import stages as gpu_stages
from widen.gpu.clock import Clock
from widen.gpu.kernels.triton import numbers
from widen.gpu.products import lines_of
from widen.gpu.scaling import Scaling
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
    return as_tensor(x).to(ON)


def moved(x):
    """`Words` of arrays as `Words` of tensors."""
    planes = [torch.from_numpy(np.ascontiguousarray(plane)) for plane in x.planes]
    if len({plane.dtype for plane in planes}) == 1:
        planes = list(torch.stack(planes).to(ON))
    return widen.Words.of(x.format, [plane.to(ON) for plane in planes])


def problem_of(a, b, accuracy, dtype="float64"):
    """The product of NumPy arrays as a GPU's stages take it."""
    fmt = FORMATS[dtype]
    left, right = (lines_of(tensor(x), side, fmt.parts) for x, side in ((a, "left"), (b, "right")))
    return Problem(left, right, as_contract(accuracy), fmt, 1 << 30)


def product(a, b, accuracy="standard", dtype="float64", plan=None, workspace=1 << 30):
    """The product of NumPy arrays by the GPU's stages."""
    fmt = FORMATS[dtype]
    left, right = (lines_of(tensor(x), side, fmt.parts) for x, side in ((a, "left"), (b, "right")))
    shape = (*np.broadcast_shapes(a.shape[:-2], b.shape[:-2]), a.shape[-2], b.shape[-1])
    out = gpu_batches.room_for(fmt, shape, torch.device(ON)).fill_(7)
    problem = Problem(left, right, as_contract(accuracy), fmt, workspace, plan=plan)
    bits = operands.bits_of(out.reshape(problem.shape[0], *shape[-2:]), fmt.parts)
    plan = run(gpu_stages, problem, bits, Clock(timed=False))
    return plan, as_array(gpu_batches.given_back(fmt, out, None).cpu())


def words_product(a, b, name, accuracy="standard", alpha=1.0, beta=0.0, c=None, **choices):
    """alpha a b + beta c of `Words` of arrays by the GPU's stages, and its plan.

    `choices` are a unit, a system and a plan.
    """
    fmt = FORMATS[name]
    left, right = (lines_of(moved(x), side, fmt.parts) for x, side in ((a, "left"), (b, "right")))
    shape = (max(left.shape[0], right.shape[0]), a.shape[-2], b.shape[-1])
    out = gpu_batches.empty(fmt, shape, torch.device(ON))
    scaling = None
    if c is not None:
        added = gpu_batches.addend_lines(gpu_batches.reshaped(moved(c), shape), c.format)
        scaling = Scaling(alpha, beta, added)
    problem = Problem(left, right, as_contract(accuracy), fmt, 1 << 30, scaling=scaling, **choices)
    plan = run(gpu_stages, problem, gpu_batches.bits_of(out, fmt.parts), Clock(timed=False))
    found = gpu_batches.reshaped(out, np.broadcast_shapes(a.shape[:-2], b.shape[:-2]) + shape[1:])
    return plan, widen.Words.of(found.format, [plane.cpu().numpy() for plane in found.planes])


def gemm(a, b, c=None, alpha=1.0, beta=0.0, bound=False, **options):
    """`widen.gemm` of NumPy arrays by the GPU's stages, and its bound if asked for."""
    a, b = tensor(a), tensor(b)
    c = None if c is None else tensor(c)
    if ON == "cuda":
        result = widen.gemm(a, b, c, alpha=alpha, beta=beta, info=bound, **options)
        if bound:
            return as_array(result[0].cpu()), result[1].bound.cpu().numpy()
        return as_array(result.cpu())
    alpha, beta = check.scalar(alpha, "alpha"), check.scalar(beta, "beta")
    c = None if beta == 0 else c
    of_complex = any(isinstance(x, complex) for x in (alpha, beta))
    options = Options(**options)
    complex_scalars = of_complex or (c is not None and c.is_complex())
    call = check_call(a, b, options, 1 << 30, complex_scalars=complex_scalars)
    out = gpu_batches.room_for(call.fmt, call.dims, a.device).fill_(7)
    limits = torch.empty(call.dims, dtype=torch.float64) if bound else None
    scaling = gpu_products._scaling(call, Scalars(alpha, beta, c), a.device)
    ledger = Clock(timed=False, bounds=bound)
    gpu_products._run(call, scaling, out, limits, options, ledger)
    found = as_array(gpu_batches.given_back(call.fmt, out, None))
    return found if limits is None else (found, limits.numpy())


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


def set_row(table, name, values):
    """Write a row of a table of lines, floats as their bits."""
    values = np.asarray(values)
    table[int(getattr(numbers, name))] = torch.from_numpy(values.view(np.int64))


def lines_of_a_certificate(rng, count, k, test, total):
    """A table of lines of k numbers, and its lines as the definition weighs them; some are odd.

    About half of the elements whose magnitudes have the sum `total` stay open.
    """
    sigma = round(math.log2(2 * test.weight(k << 15) / total)) + rng.integers(-2, 3, count)
    weight = test.line * rng.integers(k << 14, k << 16, count)
    step = np.ldexp(1.0, -sigma)
    odd = rng.random(count) < 0.05
    step[odd] = rng.choice([0.0, 2.0**-900, 1.0, 2.0**900], odd.sum())
    weight[odd] = rng.choice([0.0, test.line, 2.0**45 * test.line], odd.sum())
    nonzeros = np.full(count, k)
    spans = np.stack([np.zeros_like(nonzeros), nonzeros])
    sparse = rng.random(count) < 0.3
    nonzeros[sparse] = rng.integers(1, k + 1, sparse.sum())
    spans[:, sparse] = np.sort(rng.integers(0, k + 1, (2, sparse.sum())), axis=0)
    table = torch.from_numpy(rng.integers(0, 1 << 40, (gpu_lines.ROWS_OF_TABLE, count)))
    reach = rng.choice([20, 60, 61, 500], count)
    rows = {
        "WEIGHT": weight, "STEP": step, "NONZEROS": nonzeros, "AHEAD": k - spans[0],
        "STOP": spans[1], "REACH": reach,
    }  # fmt: skip
    for name, values in rows.items():
        set_row(table, name, values)
    facts = (weight, step, nonzeros, *spans)
    return table, [bounds.Weighed(*line) for line in zip(*(x.tolist() for x in facts), strict=True)]
