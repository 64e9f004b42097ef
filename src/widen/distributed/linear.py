"""Layers whose weights are cut over processes: the bits of one process, forward and backward."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor, Replicate, Shard, distribute_tensor
from torch.distributed.tensor.parallel import ParallelStyle

from widen import api
from widen.options import Accuracy

Tensor = torch.Tensor


class _Linear(nn.Linear):
    """A linear layer of DTensors on a mesh of one axis; `cut` is the axis of its weights."""

    cut: int
    mesh: DeviceMesh
    accuracy: Accuracy

    def __init__(
        self, in_features: int, out_features: int, mesh: DeviceMesh, *, bias: bool = True,
        accuracy: Accuracy = "standard", dtype: torch.dtype | None = None,
    ) -> None:  # fmt: skip
        super().__init__(in_features, out_features, bias=bias, dtype=dtype)
        self._place(mesh, accuracy)

    def _place(self, mesh: DeviceMesh, accuracy: Accuracy) -> None:
        """Cut the weights; those of the first process are everybody's."""
        if mesh.ndim != 1:
            raise ValueError(f"the mesh has {mesh.ndim} axes; give one of them, mesh['name']")
        self.mesh, self.accuracy = mesh, accuracy
        weight = distribute_tensor(self.weight.detach(), mesh, [Shard(self.cut)])
        self.weight = nn.Parameter(weight)
        if self.bias is not None:
            placement = Shard(0) if self.cut == 0 else Replicate()
            self.bias = nn.Parameter(distribute_tensor(self.bias.detach(), mesh, [placement]))

    def _product(self, x: Tensor) -> Any:
        given = x if isinstance(x, DTensor) else DTensor.from_local(
            x, self.mesh, [Replicate()], run_check=False
        )  # fmt: skip
        bias: Any = self.bias  # None without one
        beta = 0.0 if bias is None else 1.0
        return api.gemm(given, self.weight.mT, bias, beta=beta, accuracy=self.accuracy)


class ColumnLinear(_Linear):
    """A linear layer whose outputs are cut over the processes of a mesh.

    Parameters
    ----------
    in_features, out_features, bias, dtype
        As for `torch.nn.Linear`.
    mesh
        A `DeviceMesh` of one axis.
    accuracy
        The contract of its products and of their gradients.

    Notes
    -----
    Takes a tensor that every process has, or a DTensor, and gives a DTensor cut along its last
    axis. Nothing is sent forward; backward, the gradient of the input is an exact sum over
    processes. The bias is part of the same sum, which is rounded once.

    Examples
    --------
    >>> import torch, torch.distributed as dist, widen.distributed
    >>> from torch.distributed.device_mesh import init_device_mesh
    >>> dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    >>> mesh = init_device_mesh("cpu", (1,))
    >>> layer = widen.distributed.ColumnLinear(4, 3, mesh)
    >>> layer.weight.placements, layer(torch.ones(2, 4)).shape
    ((Shard(dim=0),), torch.Size([2, 3]))
    >>> dist.destroy_process_group()
    """

    cut = 0

    def forward(self, x: Tensor) -> Tensor:
        """The layer's output, x weight^T + bias.

        >>> import torch, torch.distributed as dist, widen.distributed
        >>> from torch.distributed.device_mesh import init_device_mesh
        >>> dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
        >>> mesh = init_device_mesh("cpu", (1,))
        >>> layer = widen.distributed.ColumnLinear(4, 3, mesh)
        >>> layer(torch.ones(2, 4)).shape
        torch.Size([2, 3])
        >>> dist.destroy_process_group()
        """
        y: Tensor = self._product(x)
        return y


class RowLinear(_Linear):
    """A linear layer whose inputs are cut over the processes of a mesh.

    Parameters
    ----------
    in_features, out_features, mesh, bias, accuracy, dtype
        As for `ColumnLinear`, whose output it takes as it is.

    Notes
    -----
    The output is one exact sum over processes, rounded once, and every process has all of it.

    Examples
    --------
    >>> import torch, torch.distributed as dist, widen.distributed
    >>> from torch.distributed.device_mesh import init_device_mesh
    >>> dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    >>> mesh = init_device_mesh("cpu", (1,))
    >>> layer = widen.distributed.RowLinear(4, 3, mesh)
    >>> layer.weight.placements, layer(torch.ones(2, 4)).placements
    ((Shard(dim=1),), (Replicate(),))
    >>> dist.destroy_process_group()
    """

    cut = 1

    def forward(self, x: Tensor) -> Tensor:
        """The layer's output, x weight^T + bias, in every process.

        >>> import torch, torch.distributed as dist, widen.distributed
        >>> from torch.distributed.device_mesh import init_device_mesh
        >>> dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
        >>> mesh = init_device_mesh("cpu", (1,))
        >>> layer = widen.distributed.RowLinear(4, 3, mesh)
        >>> layer(torch.ones(2, 4)).shape
        torch.Size([2, 3])
        >>> dist.destroy_process_group()
        """
        y: Tensor = self._product(x).redistribute(placements=[Replicate()])
        return y


class _Style(ParallelStyle):
    """What `parallelize_module` does with a linear layer."""

    layer: type[_Linear]

    def __init__(self, accuracy: Accuracy = "standard") -> None:
        super().__init__()
        self.accuracy = accuracy

    def _apply(self, module: nn.Module, device_mesh: DeviceMesh) -> nn.Module:
        if type(module) is not nn.Linear:
            raise TypeError(
                f"{type(self).__name__} is for torch.nn.Linear; the module is a "
                f"{type(module).__name__}"
            )
        module.__class__ = self.layer
        assert isinstance(module, _Linear)
        module._place(device_mesh, self.accuracy)
        return module


class ColumnParallel(_Style):
    """For `torch.distributed.tensor.parallel.parallelize_module`: a Linear becomes a ColumnLinear.

    Parameters
    ----------
    accuracy
        The contract of its products.

    Examples
    --------
    >>> import torch, torch.distributed as dist, widen.distributed
    >>> from torch.distributed.device_mesh import init_device_mesh
    >>> dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    >>> mesh = init_device_mesh("cpu", (1,))
    >>> from torch.distributed.tensor.parallel import parallelize_module
    >>> model = torch.nn.Sequential(torch.nn.Linear(4, 3))
    >>> model = parallelize_module(model, mesh, {"0": widen.distributed.ColumnParallel()})
    >>> type(model[0]).__name__
    'ColumnLinear'
    >>> dist.destroy_process_group()
    """

    layer = ColumnLinear


class RowParallel(_Style):
    """For `torch.distributed.tensor.parallel.parallelize_module`: a Linear becomes a RowLinear.

    Parameters
    ----------
    accuracy
        The contract of its products.

    Examples
    --------
    >>> import torch, torch.distributed as dist, widen.distributed
    >>> from torch.distributed.device_mesh import init_device_mesh
    >>> dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    >>> mesh = init_device_mesh("cpu", (1,))
    >>> from torch.distributed.tensor.parallel import parallelize_module
    >>> model = torch.nn.Sequential(torch.nn.Linear(4, 3))
    >>> model = parallelize_module(model, mesh, {"0": widen.distributed.RowParallel()})
    >>> type(model[0]).__name__
    'RowLinear'
    >>> dist.destroy_process_group()
    """

    layer = RowLinear
