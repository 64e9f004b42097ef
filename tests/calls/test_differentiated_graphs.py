"""Compiled and traced products: of integers, and those that torch.func differentiates."""

from __future__ import annotations

import pytest
import torch
from torch.autograd import forward_ad

import widen

A = torch.randn(3, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
X = torch.randn(4, dtype=torch.float64, generator=torch.Generator().manual_seed(1))

TRANSFORMS = {
    "jvp": lambda f, x: torch.func.jvp(f, (x,), (x,))[1],
    "grad": lambda f, x: torch.func.grad(lambda x: f(x).sin().sum())(x),
    "hessian": lambda f, x: torch.func.hessian(lambda x: f(x).sin().sum())(x),
    "map of gradients": lambda f, x: torch.vmap(torch.func.grad(lambda x: f(x).sum()))(x[None]),
}


@pytest.fixture
def compiled():
    torch.compiler.reset()
    yield lambda function: torch.compile(function, backend="aot_eager")
    torch.compiler.reset()


@pytest.mark.parametrize(
    "name",
    ["jvp", "grad", *(pytest.param(x, marks=pytest.mark.slow) for x in list(TRANSFORMS)[2:])],
)
def test_a_compiled_function_has_the_derivatives_of_the_same_uncompiled(compiled, name):
    """A custom operator would lose tangents silently, and has no gradient for torch.func."""

    def derivative(a, x):
        return TRANSFORMS[name](lambda x: widen.matmul(a, x), x)

    found = compiled(derivative)(A, X)
    assert found.abs().max() > 0
    assert torch.equal(found, derivative(A, X))


def test_forward_mode_in_a_compiled_function(compiled):
    def tangent(a, x):
        with forward_ad.dual_level():
            dual = forward_ad.make_dual(x, x)
            return forward_ad.unpack_dual(widen.matmul(a, dual)).tangent

    assert torch.equal(compiled(tangent)(A, X), widen.matmul(A, X))


def test_a_linear_map_that_torch_func_traces():
    """The tracer calls the operator in forward mode, where there is no tangent to ask for."""
    value, tangent = torch.func.linearize(lambda x: widen.matmul(A, x, accuracy="correct"), X)
    assert torch.equal(value, widen.matmul(A, X, accuracy="correct"))
    assert torch.equal(tangent(X), value)


@pytest.mark.slow
def test_integers_in_a_compiled_function(compiled):
    whole = torch.arange(6).reshape(2, 3)
    found = compiled(lambda a, b: widen.matmul(a, b) + 1)(whole, whole.mT)
    assert torch.equal(found, whole @ whole.mT + 1)
    found = compiled(lambda a, b: widen.matmul(a, b))(whole.double(), whole.mT)
    assert torch.equal(found, (whole @ whole.mT).double())
