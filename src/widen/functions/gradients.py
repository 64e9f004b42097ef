"""Functions that PyTorch differentiates."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

Tensor = torch.Tensor


class _Norm(torch.autograd.Function):
    """A 2-norm along axes, whose gradient is x / norm, and 0 where the norm is 0."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, axes: tuple[int, ...], norm: Callable[[Tensor], Any]) -> Any:
        result = norm(x.detach())
        ctx.save_for_backward(x, result)
        ctx.axes = axes
        return result

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        x, result = ctx.saved_tensors
        shape = [1 if at in ctx.axes else size for at, size in enumerate(x.shape)]
        length = torch.linalg.vector_norm(x, dim=ctx.axes, keepdim=True)
        same = result.detach().reshape(shape).to(length.dtype)
        # The value is ours; what depends on x, for gradients of gradients, is PyTorch's.
        length = length + (same - length).detach()
        direction = torch.where(length == 0, 0, x / torch.where(length == 0, 1, length))
        return grads[0].reshape(shape).to(length.dtype) * direction, None, None


def differentiable_norm(x: Tensor, axes: tuple[int, ...], norm: Callable[[Tensor], Any]) -> Any:
    """`norm` of x along axes, with a gradient."""
    if not axes:
        return x.abs()
    return _Norm.apply(x, axes, norm)  # type: ignore[no-untyped-call]


class _Value(torch.autograd.Function):
    """A value of ours, with the gradient of a function that PyTorch differentiates."""

    @staticmethod
    def forward(ctx: Any, value: Callable[..., Any], plain: Callable[..., Any], *given: Any) -> Any:
        ctx.plain = plain
        ctx.save_for_backward(*given)
        return value(*(x.detach() for x in given))

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        saved = ctx.saved_tensors
        further = torch.is_grad_enabled()
        with torch.enable_grad():
            given = [x if further else x.detach().requires_grad_(x.requires_grad) for x in saved]
            wanted = [x for x in given if x.requires_grad]
            gradients = torch.autograd.grad(ctx.plain(*given), wanted, grads, create_graph=further)
        there = iter(gradients)
        return None, None, *(next(there) if x.requires_grad else None for x in given)


def with_gradient(
    value: Callable[..., Any], plain: Callable[..., Any], given: Sequence[Tensor]
) -> Any:
    """What `value` gives of tensors, with the gradient of `plain`."""
    return _Value.apply(value, plain, *given)  # type: ignore[no-untyped-call]
