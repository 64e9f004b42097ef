"""Gradients for tensors, which are products and solutions of systems, by the same functions."""

from __future__ import annotations

from typing import Any

import torch

from widen import api
from widen.formats import PLAIN
from widen.linalg import determinants, eigenvalues, factors, functions

Tensor = torch.Tensor


def _checked(info: bool, dtype: Any) -> str | None:
    """The name of a result's dtype that has gradients."""
    if info:
        raise TypeError("info=True has no gradient: use .detach() or torch.no_grad()")
    name = None if dtype is None else getattr(dtype, "name", str(dtype).removeprefix("torch."))
    if name is not None and name not in PLAIN:
        raise TypeError(f"dtype={name} has no gradient: use .detach() or torch.no_grad()")
    return name


def solve(a: Any, b: Any, dtype: Any, accuracy: str, info: bool) -> Any:
    """The solution of a x = b, differentiable in both."""
    name = _checked(info, dtype)
    if b.ndim == 1:
        return _Solve.apply(a, b[:, None], name, accuracy)[..., 0]  # type: ignore[no-untyped-call]
    return _Solve.apply(a, b, name, accuracy)  # type: ignore[no-untyped-call]


def inv(a: Tensor, dtype: Any, accuracy: str, info: bool) -> Any:
    """The inverse of a, differentiable."""
    identity = torch.eye(a.shape[-1], dtype=a.dtype, device=a.device)
    return solve(a, identity, dtype, accuracy, info)


def det(a: Tensor, dtype: Any) -> Any:
    """The determinant of a, differentiable where it is not zero."""
    return _Det.apply(a, _checked(False, dtype))  # type: ignore[no-untyped-call]


def cholesky(a: Tensor, dtype: Any, info: bool) -> Any:
    """The factor of a, differentiable."""
    return _Cholesky.apply(a, _checked(info, dtype))  # type: ignore[no-untyped-call]


def eigh(a: Tensor, dtype: Any, info: bool) -> Any:
    """Eigenvalues and vectors of a, differentiable where the values are apart."""
    return _Eigh.apply(a, _checked(info, dtype))  # type: ignore[no-untyped-call]


def eigvalsh(a: Tensor, dtype: Any, info: bool) -> Any:
    """Eigenvalues of a, differentiable."""
    return eigh(a, dtype, info)[0]


def svdvals(a: Tensor, dtype: Any, info: bool) -> Any:
    """Singular values of a, differentiable where they are apart and not zero.

    They are the largest eigenvalues of [[0, a], [a^H, 0]].
    """
    m, n = a.shape[-2:]
    top = torch.cat([a.new_zeros(*a.shape[:-2], m, m), a], -1)
    bottom = torch.cat([a.mH, a.new_zeros(*a.shape[:-2], n, n)], -1)
    return eigh(torch.cat([top, bottom], -2), dtype, info)[0][..., max(m, n) :].flip(-1)


class _Solve(torch.autograd.Function):
    """With x = a^-1 b: the gradient of b is y = a^-H g, that of a is -y x^H."""

    @staticmethod
    def forward(ctx: Any, a: Tensor, b: Tensor, dtype: Any, accuracy: str) -> Any:
        x = functions.solve(a.detach(), b.detach(), dtype=dtype, accuracy=accuracy)
        ctx.save_for_backward(a, x)
        ctx.right = b.shape, b.dtype
        ctx.accuracy = accuracy
        return x

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        a, x = ctx.saved_tensors
        (gradient,) = gradients
        shape, kind = ctx.right
        y = functions.solve(a.mH.to(x.dtype), gradient, accuracy=ctx.accuracy)
        left = right = None
        if ctx.needs_input_grad[0]:
            left = _like(-api.matmul(y, x.mH), a.shape, a.dtype)
        if ctx.needs_input_grad[1]:
            right = _like(y, shape, kind)
        return left, right, None, None


class _Det(torch.autograd.Function):
    """The gradient of a is conj(det a) g a^-H."""

    @staticmethod
    def forward(ctx: Any, a: Tensor, dtype: Any) -> Any:
        value = determinants.det(a.detach(), dtype=dtype)
        ctx.save_for_backward(a, value)
        return value

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        a, value = ctx.saved_tensors
        (gradient,) = gradients
        scale = (gradient * value.conj())[..., None, None]
        inverse = functions.inv(a.to(value.dtype)).mH
        return _like(scale * inverse, a.shape, a.dtype), None


class _Cholesky(torch.autograd.Function):
    """With P the lower triangle of L^H g, half of its diagonal: L^-H P L^-1, its Hermitian part."""

    @staticmethod
    def forward(ctx: Any, a: Tensor, dtype: Any) -> Any:
        factor = factors.cholesky(a.detach(), dtype=dtype)
        ctx.save_for_backward(factor)
        ctx.kind = a.dtype
        return factor

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        (factor,) = ctx.saved_tensors
        (gradient,) = gradients
        lower = api.matmul(factor.mH, gradient).tril()
        lower = lower - 0.5 * torch.diag_embed(lower.diagonal(dim1=-2, dim2=-1))
        half = functions.solve(factor.mH, lower)
        whole = functions.solve(factor.mH, half.mH)  # its adjoint is L^-H P L^-1
        return _like((whole + whole.mH) / 2, whole.shape, ctx.kind), None


class _Eigh(torch.autograd.Function):
    """V (diag(g) + V^H h / (w_j - w_i)) V^H for gradients g of the values and h of the vectors.

    Its Hermitian part, that is: matrices stay Hermitian.
    """

    @staticmethod
    def forward(ctx: Any, a: Tensor, dtype: Any) -> Any:
        values, vectors = eigenvalues.eigh(a.detach(), dtype=dtype)
        ctx.save_for_backward(values, vectors)
        ctx.kind = a.dtype
        ctx.set_materialize_grads(False)
        return values, vectors

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        values, vectors = ctx.saved_tensors
        of_values, of_vectors = gradients
        inner = torch.zeros_like(vectors)
        if of_vectors is not None:
            gap = values[..., None, :] - values[..., :, None]
            gap = gap + torch.eye(gap.shape[-1], dtype=gap.dtype, device=gap.device)
            inner = api.matmul(vectors.mH, of_vectors)
            inner = inner - torch.diag_embed(inner.diagonal(dim1=-2, dim2=-1))
            inner = torch.where(inner == 0, inner, inner / gap)  # 0 for what nothing depends on
            inner = (inner + inner.mH) / 2
        if of_values is not None:
            inner = inner + torch.diag_embed(of_values)
        whole = api.matmul(api.matmul(vectors, inner), vectors.mH)
        return _like(whole, whole.shape, ctx.kind), None


def _like(x: Tensor, shape: Any, kind: Any) -> Tensor:
    """A gradient summed over the axes along which an operand was repeated, in its dtype."""
    whole = x.sum_to_size(shape)
    return (whole if kind.is_complex or not whole.is_complex() else whole.real).to(kind)
