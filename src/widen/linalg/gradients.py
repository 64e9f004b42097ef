"""Gradients of `solve`, `inv` and `det` for tensors, which are solutions of systems as well."""

from __future__ import annotations

from typing import Any

import torch

from widen import api
from widen.formats import PLAIN
from widen.linalg import determinants, functions

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


def _like(x: Tensor, shape: Any, kind: Any) -> Tensor:
    """A gradient summed over the axes along which an operand was repeated, in its dtype."""
    whole = x.sum_to_size(shape)
    return (whole if kind.is_complex or not whole.is_complex() else whole.real).to(kind)
