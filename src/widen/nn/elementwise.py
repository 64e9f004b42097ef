"""Activations whose elements do not depend on their place in an array.

PyTorch's own kernels of these, on a CPU, take one formula in the middle of an array and another one
at the end of what a thread works on, and the two round differently. Here they are made of
operations that PyTorch computes in one way everywhere: exp, erf, tanh, expm1, log1p and the four
basic ones, one after the other. `python bench/places.py` measures on a machine which kernels depend
on places, these included.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch

Tensor = torch.Tensor
HALVES = (torch.float16, torch.bfloat16)
SLOPE = math.sqrt(2 / math.pi)
CUBIC = 0.044715
"""Of the approximation of gelu by tanh, as PyTorch has it."""


def _wide(x: Tensor) -> Tensor:
    """Halves are computed in float32 and rounded at the end."""
    return x.float() if x.dtype in HALVES else x


def _as(result: Tensor, x: Tensor) -> Tensor:
    return result.to(x.dtype) if x.dtype in HALVES else result


def sigmoid(x: Tensor) -> Tensor:
    """1 / (1 + exp(-x))."""
    return _as(1 / (1 + (-_wide(x)).exp()), x)


def silu(x: Tensor) -> Tensor:
    """The quotient x / (1 + exp(-x))."""
    wide = _wide(x)
    return _as(wide / (1 + (-wide).exp()), x)


def silu_backward(grad: Tensor, x: Tensor) -> Tensor:
    """The gradient of silu."""
    wide = _wide(x)
    part = sigmoid(wide)
    return _as(_wide(grad) * (part * (1 + wide * (1 - part))), x)


def gelu(x: Tensor, approximate: str = "none") -> Tensor:
    """The product of x and the normal distribution function, or of its approximation by tanh."""
    wide = _wide(x)
    if approximate == "tanh":
        inner = SLOPE * (wide + CUBIC * (wide * wide * wide))
        return _as(0.5 * wide * (1 + inner.tanh()), x)
    return _as(0.5 * wide * (1 + (wide * math.sqrt(0.5)).erf()), x)


def gelu_backward(grad: Tensor, x: Tensor, approximate: str = "none") -> Tensor:
    """The gradient of gelu."""
    wide = _wide(x)
    square = wide * wide
    if approximate == "tanh":
        bent = (SLOPE * (wide + CUBIC * (square * wide))).tanh()
        steep = 0.5 * wide * (1 - bent * bent) * (SLOPE * (1 + (3 * CUBIC) * square))
        return _as(_wide(grad) * (0.5 * (1 + bent) + steep), x)
    below = 0.5 * (1 + (wide * math.sqrt(0.5)).erf())
    density = (-0.5 * square).exp() * (1 / math.sqrt(2 * math.pi))
    return _as(_wide(grad) * (below + wide * density), x)


def softplus(x: Tensor, beta: float = 1, threshold: float = 20) -> Tensor:
    """log(1 + exp(beta x)) / beta; x itself where beta x is above the threshold."""
    wide = _wide(x)
    scaled = wide * beta
    return _as(torch.where(scaled > threshold, wide, scaled.exp().log1p() / beta), x)


def softplus_backward(grad: Tensor, x: Tensor, beta: float, threshold: float) -> Tensor:
    """The gradient of softplus."""
    scaled, wide = _wide(x) * beta, _wide(grad)
    return _as(torch.where(scaled > threshold, wide, wide * sigmoid(scaled)), x)


def mish(x: Tensor) -> Tensor:
    """The product x tanh(log(1 + exp(x)))."""
    wide = _wide(x)
    return _as(wide * softplus(wide).tanh(), x)


def elu(x: Tensor, alpha: float = 1, scale: float = 1, input_scale: float = 1) -> Tensor:
    """The product scale x above 0, else scale alpha (exp(input_scale x) - 1)."""
    wide = _wide(x)
    below = (wide * input_scale).expm1() * (alpha * scale)
    return _as(torch.where(wide > 0, wide * scale, below), x)


def celu(x: Tensor, alpha: float = 1) -> Tensor:
    """The same with input_scale = 1 / alpha."""
    return elu(x, alpha, 1, 1 / alpha)


def elu_backward(
    grad: Tensor, alpha: float, scale: float, input_scale: float, is_result: bool, x: Tensor
) -> Tensor:
    """The gradient of elu, from x or from the result."""
    wide, above = _wide(x), _wide(grad)
    slope = alpha * scale
    if is_result:
        below = (wide + slope) * input_scale
    else:
        below = (wide * input_scale).exp() * (input_scale * slope)
    return _as(above * torch.where(wide > 0, torch.full_like(wide, scale), below), x)


def rsqrt(x: Tensor) -> Tensor:
    """1 / sqrt(x)."""
    return _as(_wide(x).rsqrt(), x)


OPERATORS: dict[str, Callable[..., Tensor]] = {
    "sigmoid": sigmoid,
    "silu": silu,
    "silu_backward": silu_backward,
    "gelu": gelu,
    "gelu_backward": gelu_backward,
    "softplus": softplus,
    "softplus_backward": softplus_backward,
    "mish": mish,
    "elu": elu,
    "celu": celu,
    "elu_backward": elu_backward,
    "rsqrt": rsqrt,
}
"""Operators of PyTorch's namespace aten whose kernels depend on places, and what replaces them."""


def run(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Tensor:
    """An operator, its form in place (`silu_`) or its form with `out=`."""
    in_place = name.endswith("_")
    named = {key: value for key, value in kwargs.items() if key not in ("out", "grad_input")}
    result = OPERATORS[name.removesuffix("_")](*args, **named)
    target = args[0] if in_place else kwargs.get("out", kwargs.get("grad_input"))
    if target is None:
        return result
    if target.shape != result.shape:
        target.resize_(result.shape)
    copied: Tensor = target.copy_(result)
    return copied
