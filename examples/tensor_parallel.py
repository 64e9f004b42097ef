"""A tensor-parallel layer on 1, 2 and 4 ranks, with the same bits.

A layer that is too large for one device is cut: every rank (a process with its own device) has some
columns of x and the rows of the weights that belong to them, and multiplies what it has. The
result is the sum over all ranks. A sum of rounded parts depends on how it was cut, and so do the
logits of a model.

`widen.matmul` of DTensors sends exact parts, and rounds their sum once. So the bits are those of a
single process. `torchrun` starts ranks on many machines; here they are processes of this one.

It prints (~ marks what depends on PyTorch's BLAS):

    ranks  sum of rounded parts  widen
    1      ~5c27f5fd4d97849d     8b2d5f7241edd7bb
    2      ~134ae1c68c389834     8b2d5f7241edd7bb
    4      ~f2fc43bcf6bd304d     8b2d5f7241edd7bb
"""

import hashlib
import tempfile

import numpy as np
import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Shard, distribute_tensor
from torch.multiprocessing import start_processes

import widen


def checksum(tensor):
    """The beginning of a SHA-256."""
    return hashlib.sha256(tensor.numpy().tobytes()).hexdigest()[:16]


def layer(rank, ranks, store):
    """One rank's part of x times the weights, in two ways."""
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=ranks)
    mesh = init_device_mesh("cpu", (ranks,))
    rng = np.random.default_rng(1)
    x, weights = (torch.from_numpy(rng.random(size) - 0.5) for size in ((16, 1024), (1024, 64)))
    x = distribute_tensor(x, mesh, [Shard(1)])
    weights = distribute_tensor(weights, mesh, [Shard(0)])

    exact = widen.matmul(x, weights).full_tensor()
    ordinary = x.to_local() @ weights.to_local()
    dist.all_reduce(ordinary)  # adds what the ranks have
    if rank == 0:
        print(f"{ranks:<6} ~{checksum(ordinary)}     {checksum(exact)}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    print("ranks  sum of rounded parts  widen", flush=True)
    for ranks in (1, 2, 4):
        with tempfile.TemporaryDirectory() as folder:
            start_processes(layer, (ranks, f"{folder}/store"), ranks, start_method="fork")
