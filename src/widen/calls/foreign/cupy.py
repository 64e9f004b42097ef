"""CuPy: arrays become tensors by DLPack, without a copy, and results arrays, on CuPy's stream."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
import torch.utils.dlpack

from widen.options import Options
from widen.stages.problem import Scalars


def product(
    of_tensors: Callable[..., Any], a: Any, b: Any, scalars: Scalars, out: Any, options: Options
) -> Any:
    """The sum alpha a b + beta c of CuPy's arrays, one of CuPy's, by that of tensors."""
    with _same_stream(a, b, scalars.c, out):
        target = _forward(out)
        left, right, c, written = map(_as_tensor, (a, b, scalars.c, target))
        result = of_tensors(left, right, replace(scalars, c=c), written, options)
        value, record = result if isinstance(result, tuple) else (result, None)
        array = out if out is not None else _as_cupy(value)
        if target is not out:
            out[...] = target
    return array if record is None else (array, record)


def computed(of_tensors: Callable[..., Any], operands: dict[str, Any]) -> Any:
    """A function of CuPy's arrays by that of tensors, which is given them by their names."""
    with _same_stream(*operands.values()):
        results = of_tensors({name: _as_tensor(x) for name, x in operands.items()})
        return tuple(map(_as_cupy, results)) if isinstance(results, tuple) else _as_cupy(results)


def _same_stream(*given: Any) -> Any:
    """A scope in which PyTorch's stream is CuPy's current one."""
    import cupy

    device = next(x.device.id for x in given if isinstance(x, cupy.ndarray))
    stream = cupy.cuda.get_current_stream(device)
    same = torch.cuda.ExternalStream(stream.ptr, device)  # type: ignore[no-untyped-call]
    return torch.cuda.stream(same)


def _forward(x: Any) -> Any:
    """An array without negative strides, which PyTorch does not have: it would end the process."""
    import cupy

    if isinstance(x, cupy.ndarray) and any(stride < 0 for stride in x.strides):
        return cupy.ascontiguousarray(x)
    return x


def _as_tensor(x: Any) -> Any:
    import cupy

    return torch.utils.dlpack.from_dlpack(_forward(x)) if isinstance(x, cupy.ndarray) else x


def _as_cupy(x: Any) -> Any:
    """A tensor as an array; `Words` of tensors stay what they are."""
    import cupy

    return cupy.from_dlpack(x) if isinstance(x, torch.Tensor) else x
