"""Products over processes: share of time in communication here, and a model of many GPUs.

python bench/distributed.py             # 1, 2 and 4 processes of gloo on this machine
python bench/distributed.py --model     # 8 to 1,000 H200s, from measured and published rates
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from pathlib import Path

ROWS = Path(__file__).parent / "results/gpu.jsonl"
LINKS = {"NVLink, 450 GB/s each way": 450e9, "InfiniBand NDR, 50 GB/s a GPU": 50e9}
BYTES = 15


def body(rank, world, store, kind, n):
    import torch
    import torch.distributed as dist
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import Shard, distribute_tensor

    import widen
    from widen.distributed.wire import Wire

    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=world)
    mesh = init_device_mesh("cpu", (world,))
    k = n * world if kind == "weak" else n
    g = torch.Generator().manual_seed(1)
    a = torch.randn(n // 2, k, generator=g, dtype=torch.float64)
    b = torch.randn(k, n // 2, generator=g, dtype=torch.float64)
    da, db = distribute_tensor(a, mesh, [Shard(1)]), distribute_tensor(b, mesh, [Shard(0)])
    waited = [0.0]

    def timed(function):
        def call(*given):
            start = time.perf_counter()
            result = function(*given)
            waited[0] += time.perf_counter() - start
            return result

        return call

    Wire.exchange, Wire.reduce = timed(Wire.exchange), timed(Wire.reduce)
    best = (float("inf"), 0.0)
    for _ in range(3):
        dist.barrier()
        waited[0], start = 0.0, time.perf_counter()
        widen.matmul(da, db)
        best = min(best, (time.perf_counter() - start, waited[0]))
    if rank == 0:
        share = best[1] / best[0]
        print(f"{kind:7} {world:9} {n // 2}x{k}x{n // 2} {best[0]:8.3f} s {share:6.0%}", flush=True)
    dist.destroy_process_group()


def measure(n):
    import torch.multiprocessing as mp

    print("scaling processes shape            time     in communication")
    for kind in ("strong", "weak"):
        for world in (1, 2, 4):
            with tempfile.TemporaryDirectory() as folder:
                mp.spawn(body, (world, f"{folder}/store", kind, n), nprocs=world)


def rate():
    """Operations a second of the last product of float64, n = 16384, on an H200."""
    rows = [json.loads(line) for line in ROWS.read_text().splitlines()]
    last = [
        row for row in rows
        if (row.get("m", 16384), row.get("k", 16384), row["n"]) == (16384,) * 3
        and (row["dtype"], row["accuracy"]) == ("float64", "standard")
    ][-1]  # fmt: skip
    return 2 * 16384**3 / last["widen_ms"] * 1e3


def model(speed):
    """Time to multiply and to exchange, inner dimension cut over R GPUs; where they are equal."""
    print(f"one H200: {speed / 1e12:.0f} Tflop/s, standard, float64 (bench/results/gpu.jsonl)")
    for name, link in LINKS.items():
        # 2 m n k/R / speed against 15 m n (R-1)/R / link: equal at k = 7.5 speed / link.
        for count in (8, 64, 1000):
            equal = BYTES * (count - 1) * speed / (2 * link)
            print(f"{name}: {count:4} GPUs, communication wins below k = {equal:,.0f}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", action="store_true")
    parser.add_argument("-n", type=int, default=2048)
    given = parser.parse_args()
    if given.model:
        model(rate())
    else:
        measure(given.n)
