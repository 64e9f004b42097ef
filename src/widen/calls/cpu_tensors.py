"""PyTorch tensors on a CPU: views of NumPy arrays, through which everything runs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from widen.formats.arrays import as_tensor as tensor_of
from widen.formats.arrays import dtype_name, is_tensor, library_of, numpy_dtype
from widen.options import Options
from widen.stages.problem import Scalars
from widen.words import Words


def as_array(x: Any) -> Any:
    """A tensor on a CPU (or `Words` of such) as a NumPy array (`Words` of such), a view.

    Anything else as it is.
    """
    if isinstance(x, Words):
        return Words.of(x.format, [as_array(plane) for plane in x.planes])
    if not is_tensor(x):
        return x
    x = x.detach().resolve_conj().resolve_neg()
    if dtype_name(x) == "bfloat16":
        return x.view(library_of(x).int16).numpy().view(numpy_dtype("bfloat16"))
    return x.numpy()


def as_tensor(x: Any) -> Any:
    """A NumPy array (or scalar, or `Words` of arrays) as a tensor (`Words` of tensors), a view."""
    return Words.of(x.format, _planes(x)) if isinstance(x, Words) else tensor_of(x)


def _planes(x: Words) -> list[Any]:
    """Planes that lie in one block stay in one."""
    block = x.planes[0].base
    if block is not None and block.shape == (len(x.planes), *x.planes[0].shape):
        return list(tensor_of(block))
    return [tensor_of(plane) for plane in x.planes]


def through_numpy(
    function: Callable[..., Any], a: Any, b: Any, scalars: Scalars, out: Any, options: Options
) -> Any:
    """Call a product of arrays with tensors on a CPU as arrays; give tensors back."""
    left, right, c, target = map(as_array, (a, b, scalars.c, out))
    result = function(left, right, replace(scalars, c=c), target, options)
    value, record = result if isinstance(result, tuple) else (result, None)
    tensor = as_tensor(value) if out is None else out
    if is_tensor(out) and (out.is_conj() or out.is_neg()):
        out.copy_(as_tensor(value))  # its array was a copy
    if record is None:
        return tensor
    if isinstance(record.bound, float):  # the largest
        return tensor, record
    return tensor, replace(record, bound=as_tensor(record.bound))
