"""Modules of PyTorch whose products are widen's."""

from __future__ import annotations

from typing import Any

import torch

from widen.contract import as_contract
from widen.nn.functional import linear
from widen.options import Accuracy

Tensor = torch.Tensor


class Linear(torch.nn.Linear):
    """`torch.nn.Linear` with a contract: x weightᵀ + bias, exact and rounded once.

    Parameters
    ----------
    in_features, out_features, bias, device, dtype
        As for `torch.nn.Linear`, whose parameters, initial values and `state_dict` it has.
    accuracy
        The contract of the product and of its gradients, as for `widen.gemm`.

    Examples
    --------
    >>> import torch, widen
    >>> layer = widen.nn.Linear(3, 2, accuracy="correct")
    >>> layer
    Linear(in_features=3, out_features=2, bias=True, accuracy='correct')
    >>> layer.load_state_dict(torch.nn.Linear(3, 2).state_dict())
    <All keys matched successfully>
    """

    def __init__(
        self,
        in_features: int,
        out_features: int,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
        *,
        accuracy: Accuracy = "standard",
    ) -> None:
        super().__init__(in_features, out_features, bias, device, dtype)
        contract = as_contract("standard" if accuracy is None else accuracy)
        self.accuracy: str | int = contract.bits or contract.name

    def forward(self, input: Tensor) -> Tensor:
        """The layer's output.

        >>> import torch
        >>> from widen.nn import Linear
        >>> Linear(3, 2).forward(torch.zeros(1, 3)).shape
        torch.Size([1, 2])
        """
        result: Tensor = linear(input, self.weight, self.bias, accuracy=self.accuracy)
        return result

    def extra_repr(self) -> str:
        """What `print` says about it.

        >>> from widen.nn import Linear
        >>> Linear(3, 2, accuracy=60).extra_repr()
        'in_features=3, out_features=2, bias=True, accuracy=60'
        """
        return f"{super().extra_repr()}, accuracy={self.accuracy!r}"

    @classmethod
    def of(cls, layer: torch.nn.Linear, accuracy: Accuracy = "standard") -> Linear:
        """A layer with the parameters of another one, which both then share.

        >>> import torch
        >>> from widen.nn import Linear
        >>> theirs = torch.nn.Linear(3, 2)
        >>> Linear.of(theirs).weight is theirs.weight
        True
        """
        same = cls(layer.in_features, layer.out_features, layer.bias is not None, "meta",
                   accuracy=accuracy)  # fmt: skip
        same.weight, same.bias = layer.weight, layer.bias
        return same.train(layer.training)


def replace_linear(module: torch.nn.Module, accuracy: Accuracy = "standard") -> int:
    """Put `widen.nn.Linear` in the place of every `torch.nn.Linear` inside a module.

    Parameters
    ----------
    module
        A module, which is changed. Parameters stay the same objects, so that optimizers and
        files of parameters go on to serve. Classes derived from `torch.nn.Linear` stay as they
        are, since they may do something else.
    accuracy
        The contract of all of them.

    Returns
    -------
    int
        How many were replaced.

    Examples
    --------
    >>> import torch, widen
    >>> model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.ReLU(), torch.nn.Linear(4, 2))
    >>> widen.nn.replace_linear(model, accuracy="correct")
    2
    >>> model[0]
    Linear(in_features=3, out_features=4, bias=True, accuracy='correct')
    """
    replaced: dict[torch.nn.Module, Linear] = {}  # a layer that occurs twice stays one layer
    for parent in list(module.modules()):
        for name, child in list(parent._modules.items()):  # named_children has each child once
            if type(child) is torch.nn.Linear:
                if child not in replaced:
                    replaced[child] = Linear.of(child, accuracy)
                setattr(parent, name, replaced[child])
    return len(replaced)
