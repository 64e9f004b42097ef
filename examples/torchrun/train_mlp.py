"""Training on 1, 2 and 4 processes: the same bits every time.

An MLP with its weights cut over processes (tensor parallelism) is trained for some steps, by one
process, by two and by four. With the layers of `widen.distributed` all three end with the same
weights, bit for bit, because sums over processes are exact and rounded once. With ordinary sums
they differ.

    torchrun --nproc-per-node 4 examples/torchrun/train_mlp.py

It prints three checksums that are equal, beside three of the ordinary sums:

    processes  widen.distributed  ordinary sums
            1  ...                ...
            2  ...                ...
            4  ...                ...
    the same bits with widen: True, with ordinary sums: False
"""

import hashlib

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor

from widen.distributed import ColumnLinear, RowLinear

STEPS, RATE = 5, 0.05
INPUTS, HIDDEN, OUTPUTS, ROWS = 64, 96, 16, 128


def data():
    """The same numbers for everybody."""
    g = torch.Generator().manual_seed(1)
    return torch.randn(ROWS, INPUTS, generator=g), torch.randn(ROWS, OUTPUTS, generator=g)


def weights():
    """Weights to begin with, the same for everybody."""
    g = torch.Generator().manual_seed(2)
    return [
        torch.randn(HIDDEN, INPUTS, generator=g) / INPUTS**0.5,
        torch.randn(OUTPUTS, HIDDEN, generator=g) / HIDDEN**0.5,
    ]


def trained(mesh):
    """The output after some steps of gradient descent, with exact sums over processes."""
    layers = [
        ColumnLinear(INPUTS, HIDDEN, mesh, bias=False),
        RowLinear(HIDDEN, OUTPUTS, mesh, bias=False),
    ]
    for layer, weight in zip(layers, weights(), strict=True):
        whole = DTensor.from_local(weight, mesh, run_check=False)
        layer.weight.data.copy_(whole.redistribute(placements=layer.weight.placements))
    x, wanted = data()
    for _ in range(STEPS):
        y = layers[1](torch.relu(layers[0](x))).to_local()
        loss = ((y - wanted) ** 2).mean()
        loss.backward()
        for layer in layers:
            layer.weight.data -= RATE * layer.weight.grad
            layer.weight.grad = None
    return layers[1](torch.relu(layers[0](x))).to_local().detach()


def trained_ordinarily(mesh):
    """The same with ordinary products, and sums over processes by all_reduce."""
    size, me, group = mesh.size(), mesh.get_local_rank(), mesh.get_group()
    first, second = weights()
    first, second = first.chunk(size)[me].clone(), second.chunk(size, 1)[me].clone()
    x, wanted = data()

    def output(hidden):
        y = hidden @ second.T
        dist.all_reduce(y, group=group)
        return y

    for _ in range(STEPS):
        before = x @ first.T
        hidden = torch.relu(before)
        gradient = 2 * (output(hidden) - wanted) / wanted.numel()
        back = (gradient @ second) * (before > 0)
        second -= RATE * gradient.T @ hidden
        first -= RATE * back.T @ x
    return output(torch.relu(x @ first.T))


def checksum(x):
    """The first digits of SHA-256 of a tensor's bytes."""
    return hashlib.sha256(x.contiguous().numpy().tobytes()).hexdigest()[:16]


def main():
    """Train with as many processes as there are, and with fewer."""
    dist.init_process_group("gloo")
    torch.set_num_threads(1)
    rank, found = dist.get_rank(), {}
    for size in (1, 2, 4):
        if size > dist.get_world_size():
            continue
        mesh = DeviceMesh("cpu", torch.arange(size))
        if rank < size:
            found[size] = checksum(trained(mesh)), checksum(trained_ordinarily(mesh))
        dist.barrier()
    if rank == 0:
        print("processes  widen.distributed  ordinary sums")
        for size, (exact, ordinary) in found.items():
            print(f"{size:9}  {exact:17}  {ordinary}")
        alike = [len(set(column)) == 1 for column in zip(*found.values(), strict=True)]
        print(f"the same bits with widen: {alike[0]}, with ordinary sums: {alike[1]}")
    dist.destroy_process_group()


main()
