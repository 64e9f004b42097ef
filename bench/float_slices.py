"""Speed of papers 000 and 004 on a GPU: `python bench/float_slices.py` prints a line a version.

The ordinary product, DGEMM-TC in both modes (phi = 0.1), DGEMM-FP16TC and DGEMM-FP8TC (numbers in
(1, 2), whose products Table 3 counts), with FP64emu and with blocks; medians of 3 after 1 warm-up,
timed by CUDA events, and the time of every stage of one more run.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from functools import partial
from statistics import median
from typing import Any

import torch

from widen.papers.dgemm_fp8 import dgemm_fp8tc, dgemm_fp16tc
from widen.papers.tensor_core_dgemm import dgemm_tc

ROOM = {"memory": "60GB"}
MIXED: dict[str, Callable[..., Any]] = {
    "DGEMM-TC DP": partial(dgemm_tc, block=None, **ROOM),
    "DGEMM-TC DP, the paper's blocks": dgemm_tc,
    "DGEMM-TC CR": partial(dgemm_tc, mode="cr", block=None, **ROOM),
}
ALIGNED: dict[str, Callable[..., Any]] = {
    "FP16TC": partial(dgemm_fp16tc, **ROOM),
    "FP16TC, FP64emu": partial(dgemm_fp16tc, fp64emu=True, **ROOM),
    "FP8TC": partial(dgemm_fp8tc, **ROOM),
    "FP8TC, digits 16 and 8": partial(dgemm_fp8tc, digits=(16, 8), **ROOM),
    "FP8TC, digits 16 and 8, FP64emu": partial(
        dgemm_fp8tc, digits=(16, 8), fp64emu=True, **ROOM
    ),
    "FP16TC, k_block 1024": partial(dgemm_fp16tc, k_block=1024, **ROOM),
    "FP16TC, k_block 4096": partial(dgemm_fp16tc, k_block=4096, **ROOM),
    "FP16TC, 1 GB": partial(dgemm_fp16tc, memory="1GB"),
}  # fmt: skip


def milliseconds(run: Callable[[], Any], repeats: int) -> float:
    """The median time of a call."""
    run()
    found = []
    for _ in range(repeats):
        start, stop = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        run()
        stop.record()
        stop.synchronize()
        found.append(start.elapsed_time(stop))
    return median(found)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sizes", type=int, nargs="+", default=[2048, 4096, 8192], metavar="N")
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    print(torch.cuda.get_device_name(), torch.__version__)
    for n in options.sizes:
        shape = {"size": (n, n), "dtype": torch.float64, "device": "cuda"}
        mixed = [(torch.rand(**shape) - 0.5) * torch.exp(0.1 * torch.randn(**shape)) for _ in "ab"]
        aligned = [1 + torch.rand(**shape) for _ in "ab"]
        native = milliseconds(lambda x=aligned: x[0] @ x[1], options.repeats)
        print(f"{n:6} a @ b {2e-9 * n**3 / native:.1f} TFLOP/s")
        for versions, given in ((MIXED, mixed), (ALIGNED, aligned)):
            for name, version in versions.items():
                took = milliseconds(partial(version, *given), options.repeats)
                ran = version(*given, info=True)[1]
                stages = ", ".join(f"{key} {1e3 * value:.1f}" for key, value in ran.seconds.items())
                print(
                    f"{n:6} {name:32} {took:7.2f} ms {2e-9 * n**3 / took:5.2f} TFLOP/s "
                    f"{ran.products[0]:3} products, {len(ran.products)} blocks ({stages})",
                    flush=True,
                )


if __name__ == "__main__":
    main()
