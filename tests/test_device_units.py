"""Every unit and system on a GPU gives the CPU's bits; in Triton's interpreter on small shapes."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch

import widen
from helpers import assert_same_bits, draw
from test_device import ON, tensor
from widen import device
from widen.backends import torch as backend
from widen.backends import torch_units as units
from widen.backends.clock import Clock
from widen.contract import as_contract
from widen.device import Problem
from widen.formats import FORMATS
from widen.tensors import lines_of

CHOICES = [
    choice
    for choice in itertools.product(units.STORAGE, ("residues", "digits"))
    if choice != ("int8", "residues")
]
choices = pytest.mark.parametrize(("unit", "system"), CHOICES)
SHAPES = [(5, 7, 3)] if ON == "cpu" else [(5, 7, 3), (33, 70, 20), (130, 1100, 67)]


def product(a, b, unit, system, accuracy="standard", dtype="float64", plan=None, workspace=1 << 30):
    """The product of NumPy arrays by the GPU's stages; and its plan."""
    fmt = FORMATS[dtype]
    left, right = (lines_of(tensor(x), side, fmt.parts) for x, side in ((a, "left"), (b, "right")))
    shape = (*np.broadcast_shapes(a.shape[:-2], b.shape[:-2]), a.shape[-2], b.shape[-1])
    out = torch.full(shape, torch.nan, dtype=getattr(torch, dtype), device=ON)
    problem = Problem(
        left, right, as_contract(accuracy), fmt, workspace, plan, unit=unit, system=system
    )
    bits = backend.bits_of(out.reshape(problem.shape[0], *shape[-2:]), fmt.parts)
    ran = device.run(problem, bits, Clock(timed=False))
    assert (ran.unit, ran.system) == (unit, system)
    return ran, out.cpu().numpy()


def assert_as_on_a_cpu(a, b, unit, system, accuracy="standard", dtype="float64", **more):
    _, found = product(a, b, unit, system, accuracy, dtype, **more)
    assert_same_bits(found, widen.matmul(a, b, accuracy=accuracy, dtype=dtype))


@choices
@pytest.mark.parametrize("accuracy", ["standard", "fast", "correct", 40])
def test_contracts(unit, system, accuracy):
    for shape, family in itertools.product(SHAPES, ("phi1", "graded against")):
        assert_as_on_a_cpu(*draw(family, shape, 1), unit, system, accuracy)
