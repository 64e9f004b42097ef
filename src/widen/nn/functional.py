"""Functions with the names of `torch.nn.functional` that multiply with widen."""

from __future__ import annotations

from typing import Any

from widen import api
from widen.formats.arrays import dtype_name, is_tensor, library_of
from widen.options import Accuracy

__all__ = ["linear"]


def linear(x: Any, weight: Any, bias: Any = None, *, accuracy: Accuracy = "standard") -> Any:
    """The sum x weightᵀ + bias, exact and rounded once.

    Parameters
    ----------
    x
        A tensor (..., inputs).
    weight
        A tensor (outputs, inputs), or (inputs,), of the dtype of x.
    bias
        A tensor (outputs,), or None. For a weight of one axis, a tensor of one number.
    accuracy
        The contract, as for `widen.gemm`. Gradients keep it, too.

    Returns
    -------
    tensor
        (..., outputs), or (...) if weight has one axis, of the dtype of x.

    Notes
    -----
    Inside of `torch.autocast` all three are cast to its dtype first, as PyTorch's own layer does;
    float64 stays what it is. Gradients of all three are sums of the same kind, over the whole
    batch. `torch.nn.Linear` inside `widen.emulate` rounds twice, the product and the sum with the
    bias.

    Examples
    --------
    >>> import torch, widen
    >>> x = torch.tensor([[1e16, 1.0, -1e16]], dtype=torch.float64)
    >>> widen.nn.functional.linear(x, torch.ones(2, 3, dtype=torch.float64), accuracy="correct")
    tensor([[1., 1.]], dtype=torch.float64)
    """
    given = {"x": x, "weight": weight, **({} if bias is None else {"bias": bias})}
    for name, tensor in given.items():
        if not is_tensor(tensor):
            raise TypeError(
                f"{name} is a {type(tensor).__name__}; linear takes tensors: "
                f"torch.as_tensor({name}), or use widen.matmul"
            )
    given = {name: _as_autocast_has(tensor) for name, tensor in given.items()}
    x, weight, bias = given["x"], given["weight"], given.get("bias")
    dtypes = {name: dtype_name(tensor) for name, tensor in given.items()}
    if len(set(dtypes.values())) > 1:
        raise ValueError(f"dtypes differ, {dtypes}; convert them with .to(torch.{dtypes['x']})")
    if x.ndim == 0 or weight.ndim not in (1, 2) or x.shape[-1] != weight.shape[-1]:
        raise ValueError(
            f"x of shape {tuple(x.shape)} and weight of shape {tuple(weight.shape)} do not match; "
            "they are (..., inputs) and (outputs, inputs)"
        )
    outputs = weight.shape[:-1]
    if bias is not None and bias.shape not in (outputs, (1,), ()):
        raise ValueError(
            f"bias has shape {tuple(bias.shape)}; weight of shape {tuple(weight.shape)} needs "
            f"{tuple(outputs)}"
        )
    right = weight.mT if weight.ndim == 2 else weight
    if bias is None:
        return api.matmul(x, right, accuracy=accuracy, dtype=dtypes["x"])
    if weight.ndim == 1 and bias.ndim == 1:
        bias = bias[0]
    return api.gemm(x, right, bias, beta=1.0, accuracy=accuracy, dtype=dtypes["x"])


def _as_autocast_has(x: Any) -> Any:
    """A tensor in the dtype that `torch.autocast` gives products where it is on."""
    library, kind = library_of(x), x.device.type
    if not library.amp.is_autocast_available(kind) or not library.is_autocast_enabled(kind):
        return x
    narrow = x.is_floating_point() and x.dtype != library.float64
    return x.to(library.get_autocast_dtype(kind)) if narrow else x
