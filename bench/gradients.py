"""A product and the gradients of both operands on a GPU, beside torch's: what training costs.

`python bench/gradients.py` prints milliseconds, medians of 10 by CUDA events after 4 warm-ups, of
random float64 matrices, (rand-0.5)·exp(0.5 randn). Gradients are products under the same contract.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from statistics import median
from typing import Any

import torch

import widen


def timed(work: Callable[[], object], repeats: int) -> float:
    """Milliseconds of work that begins with an idle GPU."""
    times = []
    for _ in range(4 + repeats):
        start, stop = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        torch.cuda.synchronize()
        start.record()
        work()
        stop.record()
        stop.synchronize()
        times.append(start.elapsed_time(stop))
    return median(times[4:])


def step(product: Callable[..., Any], a: Any, b: Any, above: Any) -> None:
    """The product, and gradients of both operands by the gradient of what is above it."""
    a.grad = b.grad = None
    product(a, b).backward(above)


def main() -> None:
    """Print a line for each size."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--sizes", type=int, nargs="+", default=[1024, 2048, 4096, 8192])
    parser.add_argument("--accuracy", default="standard")
    parser.add_argument("--repeats", type=int, default=10)
    given = parser.parse_args()
    print(f"{torch.cuda.get_device_name()}, PyTorch {torch.__version__}, {given.accuracy}")
    for n in given.sizes:
        where: dict[str, Any] = {"dtype": torch.float64, "device": "cuda"}
        a, b, above = (
            (torch.rand(n, n, **where) - 0.5) * torch.exp(0.5 * torch.randn(n, n, **where))
            for _ in range(3)
        )
        operands = (a.requires_grad_(), b.requires_grad_(), above)

        def product(a: Any, b: Any) -> Any:
            return widen.matmul(a, b, accuracy=given.accuracy)

        ours, theirs = (
            timed(lambda f=f, x=operands: step(f, *x), given.repeats)
            for f in (product, torch.matmul)
        )
        print(f"n = {n:5d}: {ours:7.2f} ms, torch {theirs:7.2f}: {theirs / ours:.2f} times as fast")


if __name__ == "__main__":
    main()
