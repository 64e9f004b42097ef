"""PyTorch tensors on a CPU: views of NumPy arrays, through which everything runs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import ml_dtypes
import numpy as np
import torch

from widen.words import Words


def as_array(x: Any) -> Any:
    """A tensor on a CPU (or `Words` of such) as a NumPy array (`Words` of such), a view.

    Anything else as it is.
    """
    if isinstance(x, Words):
        return Words.of(x.format, [as_array(plane) for plane in x.planes])
    if not isinstance(x, torch.Tensor):
        return x
    x = x.detach().resolve_conj().resolve_neg()
    if x.dtype == torch.bfloat16:
        return x.view(torch.int16).numpy().view(ml_dtypes.bfloat16)
    return x.numpy()


def as_tensor(x: Any) -> Any:
    """A NumPy array (or scalar, or `Words` of arrays) as a tensor (`Words` of tensors), a view."""
    if isinstance(x, Words):
        return Words.of(x.format, _planes(x))
    return torch.from_numpy(np.asarray(x))


def _planes(x: Words) -> list[torch.Tensor]:
    """Planes that lie in one block stay in one."""
    block = x.planes[0].base
    if block is not None and block.shape == (len(x.planes), *x.planes[0].shape):
        return list(torch.from_numpy(block))
    return [torch.from_numpy(plane) for plane in x.planes]


def through_numpy(function: Callable[..., Any], given: list[Any], out: Any, **more: Any) -> Any:
    """Call a function of the interface with tensors on a CPU as arrays; give tensors back."""
    *arrays, target = map(as_array, (*given, out))
    result = function(*arrays, out=target, **more)
    value, record = result if isinstance(result, tuple) else (result, None)
    tensor = as_tensor(value) if out is None else out
    if isinstance(out, torch.Tensor) and (out.is_conj() or out.is_neg()):
        out.copy_(as_tensor(value))  # its array was a copy
    if record is None:
        return tensor
    if isinstance(record.bound, float):  # the largest
        return tensor, record
    return tensor, replace(record, bound=as_tensor(record.bound))
