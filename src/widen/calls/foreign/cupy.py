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
    import cupy

    arrays = [x for x in (a, b, scalars.c, out) if isinstance(x, cupy.ndarray)]
    device = arrays[0].device.id
    stream = cupy.cuda.get_current_stream(device)
    same = torch.cuda.ExternalStream(stream.ptr, device)  # type: ignore[no-untyped-call]
    with torch.cuda.stream(same):
        left, right, c, target = map(_as_tensor, (a, b, scalars.c, out))
        result = of_tensors(left, right, replace(scalars, c=c), target, options)
        value, record = result if isinstance(result, tuple) else (result, None)
        array = out if out is not None else _as_cupy(value)
    return array if record is None else (array, record)


def _as_tensor(x: Any) -> Any:
    import cupy

    return torch.utils.dlpack.from_dlpack(x) if isinstance(x, cupy.ndarray) else x


def _as_cupy(x: Any) -> Any:
    """A tensor as an array; `Words` of tensors stay what they are."""
    import cupy

    return cupy.from_dlpack(x) if isinstance(x, torch.Tensor) else x
