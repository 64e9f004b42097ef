"""Twelve threads whose first products are twelve kinds, all at once: the CPU's bits in every one.

`test_gpu_threads.py` runs it in a process of its own, with empty caches:

    HOME=$(mktemp -d) TRITON_CACHE_DIR=$(mktemp -d) python tests/shared/cold_threads.py

Each thread has its own stream. It ends with an error if a thread fails or a bit differs.
"""

from __future__ import annotations

import argparse
import sys
import threading
import traceback
from contextlib import nullcontext

import numpy as np
import torch

import widen
from widen.calls.cpu_tensors import as_array, as_tensor
from widen.words import Words

# (m, k, n), dtype of the operands, options. Some are large enough for kernels of their own.
KINDS = [
    ((400, 400, 400), "float64", {}),
    ((400, 528, 352), "float64", {"accuracy": "fast"}),
    ((390, 401, 375), "float64", {"accuracy": "correct"}),
    ((384, 384, 416), "complex128", {}),
    ((512, 300, 300), "float32", {}),
    ((33, 70, 45), "float64", {}),
    ((1, 3000, 1), "float64", {}),
    ((40, 50, 30), "complex64", {"accuracy": "correct"}),
    ((64, 96, 80), "float64", {"accuracy": 40}),
    ((20, 30, 25), "float64", {"dtype": "float64x2"}),
    ((48, 64, 56), "float32", {"dtype": "float64"}),
    ((60, 400, 50), "float64", {"unit": "fp16"}),
]


def operands(shape, dtype):
    m, k, n = shape
    rng = np.random.default_rng(shape)
    pair = [rng.standard_normal(size) for size in ((m, k), (k, n))]
    if dtype.startswith("complex"):
        pair = [x + 1j * rng.standard_normal(x.shape) for x in pair]
    return [x.astype(dtype) for x in pair]


def bits(x):
    """The bytes of every word of a result, wherever it is."""
    planes = x.planes if isinstance(x, Words) else [x]
    arrays = [as_array(p.cpu()) if isinstance(p, torch.Tensor) else np.asarray(p) for p in planes]
    return [array.tobytes() for array in arrays]


def main(device: str, rounds: int) -> int:
    given = [operands(shape, dtype) for shape, dtype, _ in KINDS]
    options = [named for _, _, named in KINDS]
    wanted = [
        bits(widen.matmul(*pair, **named)) for pair, named in zip(given, options, strict=True)
    ]
    there = [[as_tensor(x).to(device) for x in pair] for pair in given]
    on_gpu = device == "cuda"
    if on_gpu:
        torch.cuda.synchronize()
    start, wrong = threading.Barrier(len(KINDS)), []

    def work(at):
        try:
            stream = torch.cuda.Stream() if on_gpu else None
            with torch.cuda.stream(stream) if on_gpu else nullcontext():
                start.wait(timeout=60)
                for turn in range(rounds):
                    found = widen.matmul(*there[at], **options[at])
                    if on_gpu:
                        stream.synchronize()
                    if bits(found) != wanted[at]:
                        wrong.append(f"{KINDS[at]}: other bits in call {turn}")
        except Exception:
            wrong.append(f"{KINDS[at]}:\n{traceback.format_exc()}")

    threads = [threading.Thread(target=work, args=(at,)) for at in range(len(KINDS))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for line in wrong:
        print(line, file=sys.stderr)
    print(f"{len(KINDS)} threads, {rounds} calls each on {device}: {len(wrong)} went wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="cuda", choices=["cuda", "cpu"])
    parser.add_argument("--rounds", type=int, default=3, help="calls of each thread")
    asked = parser.parse_args()
    sys.exit(main(asked.device, asked.rounds))
