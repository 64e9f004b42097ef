"""Layers of PyTorch with widen's products: `widen.nn.Linear`, and `widen.nn.functional`.

>>> import torch, widen
>>> layer = widen.nn.Linear(3, 2, accuracy="correct")
>>> layer(torch.ones(4, 3)).shape
torch.Size([4, 2])
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from widen.gpu.replay.private import pytorch_for
from widen.nn import functional

if TYPE_CHECKING:
    from widen.nn.layers import Linear, replace_linear

__all__ = ["Linear", "functional", "replace_linear"]


def __getattr__(name: str) -> Any:
    """Layers, which import PyTorch, when they are asked for."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    with pytorch_for(f"{__name__}.{name}"):
        layers = import_module(f"{__name__}.layers")
    return getattr(layers, name)


def __dir__() -> list[str]:
    return sorted(__all__)
