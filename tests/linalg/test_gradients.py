"""Gradients of systems, factors and spectra, against differences and PyTorch's own."""

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


def made_symmetric(function, *extra):
    """A function of any square matrix, by its Hermitian part."""
    return lambda x: function((x + x.mH) / 2, *extra)


def definite_of(x):
    return x @ x.mH + torch.eye(x.shape[-1], dtype=x.dtype)


def invariant(vectors):
    """What does not depend on the phases of vectors: the moduli of their elements."""
    return vectors.abs() ** 2


@pytest.mark.parametrize("dtype", [torch.float64, torch.complex128])
@pytest.mark.parametrize(
    "shape",
    [(2, 2), *(pytest.param(s, marks=pytest.mark.slow) for s in ((1, 1), (3, 3), (2, 2, 2)))],
)
def test_gradients_of_factors_and_spectra(shape, dtype):
    x = tensor(*shape, dtype=dtype)
    assert torch.autograd.gradcheck(lambda x: linalg.cholesky(definite_of(x)), (x,))
    assert torch.autograd.gradcheck(made_symmetric(linalg.eigvalsh), (x,))
    assert torch.autograd.gradcheck(made_symmetric(lambda a: linalg.eigh(a)[0]), (x,))
    assert torch.autograd.gradcheck(made_symmetric(lambda a: invariant(linalg.eigh(a)[1])), (x,))
    assert torch.autograd.gradcheck(linalg.svdvals, (x,))


@pytest.mark.parametrize("shape", [(2, 4), (4, 2)])
def test_gradients_of_singular_values_of_any_shape(shape):
    assert torch.autograd.gradcheck(linalg.svdvals, (tensor(*shape),))


def test_gradients_are_those_of_pytorch():
    x = tensor(4, 4)
    a = (x + x.mH).detach()
    for ours, theirs in (
        (linalg.eigvalsh, torch.linalg.eigvalsh),
        (lambda a: invariant(linalg.eigh(a)[1]), lambda a: invariant(torch.linalg.eigh(a)[1])),
        (
            lambda a: linalg.cholesky(definite_of(a)),
            lambda a: torch.linalg.cholesky(definite_of(a)),
        ),
        (linalg.svdvals, torch.linalg.svdvals),
    ):
        both = []
        for function in (ours, theirs):
            leaf = a.clone().requires_grad_()
            value = function(leaf)
            (
                value * torch.arange(1.0, value.numel() + 1).reshape(value.shape).sin()
            ).sum().backward()
            both.append(leaf.grad)
        assert torch.allclose(*both, atol=1e-10)


def test_gradients_of_gradients():
    x = tensor(2, 2)
    assert torch.autograd.gradgradcheck(lambda x: linalg.cholesky(definite_of(x)), (x,))
    assert torch.autograd.gradgradcheck(made_symmetric(linalg.eigvalsh), (x,))
    assert torch.autograd.gradgradcheck(linalg.svdvals, (tensor(3, 1),))
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
    with pytest.raises(TypeError, match="float64x2 has no gradient"):
        linalg.svdvals(a, dtype=widen.float64x2)
    with pytest.raises(TypeError, match="detach"):
        linalg.matrix_rank(a)
