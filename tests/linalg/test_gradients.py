"""Gradients of `solve`, `inv` and `det`."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import widen

linalg = widen.linalg


def tensor(*shape, seed=1, dtype=torch.float64):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=generator, dtype=dtype).requires_grad_()


@pytest.mark.parametrize("dtype", [torch.float64, torch.complex128])
@pytest.mark.parametrize(
    ("left", "right"), [((3, 3), (3,)), ((2, 2), (2, 2)), ((2, 2, 2), (2, 1)), ((2, 2), (2, 2, 1))]
)
def test_gradients_of_solve(left, right, dtype):
    a, b = tensor(*left, dtype=dtype), tensor(*right, seed=2, dtype=dtype)
    assert torch.autograd.gradcheck(linalg.solve, (a, b))


@pytest.mark.parametrize("function", [linalg.inv, linalg.det])
def test_gradients_of_one_matrix(function):
    assert torch.autograd.gradcheck(function, (tensor(3, 3),))
    assert torch.autograd.gradcheck(function, (tensor(2, 2, 2),))


def test_gradients_of_gradients():
    a, b = tensor(2, 2), tensor(2, seed=2)
    assert torch.autograd.gradgradcheck(linalg.solve, (a, b))
    assert torch.autograd.gradgradcheck(linalg.det, (tensor(2, 2),))


def test_values_are_those_without_gradients():
    a, b = tensor(5, 5), tensor(5, 2, seed=2)
    x = linalg.solve(a, b)
    assert x.requires_grad
    wanted = linalg.solve(a.detach().numpy(), b.detach().numpy())
    assert np.array_equal(x.detach().numpy(), wanted)
    with torch.no_grad():
        assert not linalg.solve(a, b).requires_grad
    narrow = tensor(3, 3, dtype=torch.float32)
    linalg.inv(narrow).sum().backward()
    assert narrow.grad.dtype == torch.float32


def test_what_has_no_gradient_says_so():
    a = tensor(2, 2)
    with pytest.raises(TypeError, match="info=True has no gradient"):
        linalg.inv(a, info=True)
    with pytest.raises(TypeError, match="float64x2 has no gradient"):
        linalg.inv(a, dtype=widen.float64x2)
    with pytest.raises(TypeError, match="detach"):
        linalg.matrix_rank(a)
