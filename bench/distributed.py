"""Products over processes: share of time in communication here, and a model of many GPUs.

python bench/distributed.py             # 1, 2 and 4 processes of gloo on this machine
python bench/distributed.py --check     # fail if the model is off by more than FACTOR here
python bench/distributed.py --model     # 8 to 1,000 H200s, from measured and published rates

The inner dimension is cut, so that exact parts are exchanged. Strong scaling: one product. Weak
scaling: its inner dimension grows with the processes. Of several runs that with the least CPU time
counts; every process has one thread. On a machine that does other things the clock says little
(`load` is a part of every row), so the model is compared in CPU seconds of a process, which those
of gloo's own threads are a part of.

The model's rates are measured here: one process that makes exact parts and puts them together
alone, with two inner dimensions (a rate, and a time for each element of the result), and messages
of the product's size between as many processes. Rows go to bench/results/distributed.jsonl.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

os.environ |= {"OPENBLAS_NUM_THREADS": "1", "NUMBA_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}

from widen.cli.machines import machine
from widen.cli.results import append, stamped

FOLDER = Path(__file__).parent / "results"
RESULTS, GPU_ROWS = FOLDER / "distributed.jsonl", FOLDER / "gpu.jsonl"
LINKS = {"NVLink, 450 GB/s each way": 450e9, "InfiniBand NDR, 50 GB/s a GPU": 50e9}
BYTES = 15
"""Of an element's exact part, "standard" and float64."""
FACTOR = 1.75
"""CPU times that were measured are at most so many times the model's, or the other way round."""
COUNTS = (1, 2, 4)


@dataclass(frozen=True)
class Rates:
    """What a model is made of.

    Attributes
    ----------
    speed
        Operations a second of one process.
    link
        Bytes a second that a process sends.
    element
        Seconds for each element of the result, whatever the inner dimension.
    """

    speed: float
    link: float
    element: float = 0.0


def modelled(m: int, k: int, n: int, count: int, rates: Rates) -> tuple[float, float]:
    """Seconds in all, and of them in communication, with the inner dimension cut."""
    multiply = 2 * m * n * k / (count * rates.speed) + rates.element * m * n
    send = BYTES * m * n * (count - 1) / count / rates.link
    return multiply + send, send


# ── here ─────────────────────────────────────────────────────────────────────


def body(rank: int, count: int, store: str, size: int, repeat: int, queue: Any) -> None:
    """What a process measures: products, and messages of their size."""
    import numpy as np
    import torch
    import torch.distributed as dist
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import Shard, distribute_tensor

    import widen
    from widen.distributed.compute import computed
    from widen.distributed.jobs import job_of
    from widen.distributed.operands import sharded
    from widen.distributed.wire import Wire
    from widen.options import Options
    from widen.stages.problem import Scalars

    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=count)
    mesh = init_device_mesh("cpu", (count,))
    wire = Wire(mesh, "bench")
    m = n = size // 2
    waited = np.zeros(2)

    def clocks():
        return np.array([time.process_time(), time.perf_counter()])

    def timed(function):
        def call(*given):
            start = clocks()
            result = function(*given)
            waited[:] += clocks() - start
            return result

        return call

    exchange = Wire.exchange
    Wire.exchange, Wire.reduce = timed(Wire.exchange), timed(Wire.reduce)

    def quickest(call):
        """CPU and other seconds, and those of them in communication."""
        runs = []
        for _ in range(repeat):
            dist.barrier()
            waited[:], start = 0.0, clocks()
            call()
            runs.append((*(clocks() - start).tolist(), *waited.tolist()))
        return min(runs)

    def of_parts(x, y):
        """The product by exact parts, as it would be computed with others."""
        job = job_of(sharded(x, "a"), sharded(y, "b"), Scalars(), None, Options(), None)
        cut = {"left": (Shard(1),), "right": (Shard(0),), "result": (Shard(0),)}
        plan = replace(job.plan, forms=("inner",), wanted=(Shard(0),), **cut)
        return computed(replace(job, plan=plan), wire)

    found = []
    kinds = [("strong", size), ("weak", size * count)]
    if count == 1:
        kinds = [("strong", size), ("rate", size), ("rate", 4 * size)]
    for kind, k in kinds:
        g = torch.Generator().manual_seed(1)
        a = torch.randn(m, k, generator=g, dtype=torch.float64)
        b = torch.randn(k, n, generator=g, dtype=torch.float64)
        da, db = distribute_tensor(a, mesh, [Shard(1)]), distribute_tensor(b, mesh, [Shard(0)])
        product = of_parts if kind == "rate" else widen.matmul
        assert torch.equal(product(da, db).full_tensor(), widen.matmul(a, b))
        cpu, clock, cpu_waited, clock_waited = quickest(partial(product, da, db))
        found.append({"scaling": kind, "m": m, "k": k, "n": n, "seconds": clock,
                      "communication": clock_waited / clock, "cpu_s": cpu,
                      "cpu_communication": cpu_waited / cpu})  # fmt: skip
    others = [other for other in range(count) if other != rank]
    each = BYTES * m * n // count
    data = torch.zeros(each, dtype=torch.uint8)
    sent, received = dict.fromkeys(others, data), dict.fromkeys(others, each)
    seconds, *_ = quickest(lambda: exchange(wire, "link", sent, received))
    if rank == 0:
        queue.put((found, each * len(others) / seconds if others else float("inf")))
    dist.destroy_process_group()


def measured(count: int, size: int, repeat: int) -> tuple[list[dict[str, Any]], float]:
    """Rows of so many processes, and bytes a CPU second that each sends."""
    import torch.multiprocessing as mp

    with tempfile.TemporaryDirectory() as folder:
        queue = mp.get_context("spawn").SimpleQueue()
        mp.spawn(body, (count, f"{folder}/store", size, repeat, queue), nprocs=count)
        return queue.get()


def fitted(rows: list[dict[str, Any]]) -> tuple[float, float]:
    """A rate and a time for each element, from one process's products of two inner dimensions."""
    short, long = (row for row in rows if row["scaling"] == "rate")
    elements = short["m"] * short["n"]
    speed = 2 * elements * (long["k"] - short["k"]) / (long["cpu_s"] - short["cpu_s"])
    return speed, max(0.0, short["cpu_s"] / elements - 2 * short["k"] / speed)


def measure(size: int, repeat: int, save: bool) -> list[str]:
    """Print and keep rows; what the model does not hold for."""
    started, facts, complaints = time.perf_counter(), machine("cpu").facts(), []
    print("                              clock, communicating    CPU time, communicating     model")
    speed = element = 0.0
    for count in COUNTS:
        rows, link = measured(count, size, repeat)
        if count == 1:
            speed, element = fitted(rows)
        rates = Rates(speed, link, element)
        for row in rows:
            if row["scaling"] == "rate":
                continue
            shape = row["m"], row["k"], row["n"]
            model, sending = modelled(*shape, count, rates)
            load, sent = os.getloadavg()[0], link if count > 1 else None
            row |= {"processes": count, "model_s": model, "model_communication": sending / model,
                    "speed": speed, "element_s": element, "link": sent, "load": load}  # fmt: skip
            ratio = row["cpu_s"] / model
            wrong = count > 1 and not 1 / FACTOR <= ratio <= FACTOR
            complaints += [f"{row['scaling']}, {count}: {ratio:.2f} times the model"] * wrong
            if save:
                append(RESULTS, stamped(row, facts, time.perf_counter() - started))
            print(
                f"{row['scaling']:7} {count} {'x'.join(map(str, shape)):>13} "
                f"{row['seconds']:9.3f} s {row['communication']:13.0%} {row['cpu_s']:9.3f} s "
                f"{row['cpu_communication']:12.0%} {model:9.3f} s {sending / model:4.0%} "
                f"link {link / 1e9:.1f} GB/s, load {load:.1f}" + "  <- rule" * wrong,
                flush=True,
            )
    print(f"one process: {speed / 1e9:.1f} Gflop/s and {element * 1e9:.0f} ns an element")
    print("\n".join(complaints) or f"the model is within a factor of {FACTOR:g} everywhere")
    return complaints


# ── many GPUs ────────────────────────────────────────────────────────────────


def rate() -> float:
    """Operations a second of the last product of float64, n = 16384, on an H200."""
    rows = [json.loads(line) for line in GPU_ROWS.read_text().splitlines()]
    last = [
        row for row in rows
        if (row.get("m", 16384), row.get("k", 16384), row["n"]) == (16384,) * 3
        and (row["dtype"], row["accuracy"]) == ("float64", "standard")
    ][-1]  # fmt: skip
    return 2 * 16384**3 / last["widen_ms"] * 1e3


def model(speed: float) -> None:
    """Where multiplying and sending take the same time, inner dimension cut over many GPUs."""
    print(f"one H200: {speed / 1e12:.0f} Tflop/s, standard, float64 (bench/results/gpu.jsonl)")
    for name, link in LINKS.items():
        for count in (8, 64, 1000):
            # Both are proportional to m n; the first grows with k.
            both, send = modelled(1, 1, 1, count, Rates(speed, link))
            equal = send / (both - send)
            print(f"{name}: {count:4} GPUs, communication wins below k = {equal:,.0f}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", action="store_true", help="of many H200s")
    parser.add_argument("--check", action="store_true", help="fail if the model does not hold")
    parser.add_argument("--no-save", action="store_true", help="do not append to bench/results")
    parser.add_argument("-n", type=int, default=768, help="inner dimension of the strong case")
    parser.add_argument("--repeat", type=int, default=7)
    given = parser.parse_args()
    if given.model:
        model(rate())
    else:
        found = measure(given.n, given.repeat, not given.no_save)
        sys.exit(1 if found and given.check else 0)
