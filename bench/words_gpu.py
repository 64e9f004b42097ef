"""Products of numbers of several words on a GPU: `python bench/words_gpu.py`.

Prints a table and appends dated rows to bench/results/words-gpu.jsonl: random numbers,
(randn) exp(randn / 2), every word full; medians of 10 after 3 warm-ups, timed by CUDA events.
TFLOP/s count 2 m n k, complex numbers 8 m n k. The last row is the example of paper 001's slides.
"""

from __future__ import annotations

import argparse
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import torch

import widen
from widen.cli.results import append
from widen.formats import FORMATS
from widen.words import Words

RESULTS = Path(__file__).parent / "results" / "words-gpu.jsonl"
ROWS = [
    ("float64x2", 8192, 8192), ("float32x2", 8192, 8192), ("float32x3", 8192, 8192),
    ("float64_float32", 8192, 8192), ("float64x4", 8192, 8192), ("complex128x2", 8192, 8192),
    ("float64x8", 4096, 4096), ("float64x16", 4096, 4096), ("float64x2", 8192, 341),
]  # fmt: skip
"""Format, n and k of n x k times k x n."""


def numbers(name: str, shape: tuple[int, int], generator: torch.Generator) -> Words:
    """Random numbers whose words follow each other without a gap."""
    fmt: Any = FORMATS[name]
    planes = []
    for word in fmt.part.words:
        kind = {"dtype": getattr(torch, word.name), "device": "cuda", "generator": generator}
        size = (fmt.parts, *shape)
        if not planes:
            scale = torch.exp(torch.randn(size, **kind) / 2)
            planes.append(torch.randn(size, **kind) * scale)
            continue
        # Less than half a unit of the word before, which is 2^-p of it or more.
        before, precision = planes[-1], fmt.part.words[len(planes) - 1].precision
        share = (1.98 * torch.rand(size, **kind) - 0.99) * 2.0 ** -(precision + 1)
        planes.append((before * share.to(before.dtype)).to(kind["dtype"]))
    if len({plane.dtype for plane in planes}) == 1:
        planes = list(torch.stack(planes))
    return Words.of(fmt, planes)


def milliseconds(a: Words, b: Words, unit: str | None) -> float:
    """Median time of a product."""
    times = []
    for at in range(13):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        widen.matmul(a, b, unit=unit)
        end.record()
        torch.cuda.synchronize()
        if at >= 3:
            times.append(begin.elapsed_time(end))
    return sorted(times)[len(times) // 2]


def measure(name: str, n: int, k: int, unit: str | None) -> dict[str, Any]:
    """One row."""
    generator = torch.Generator("cuda").manual_seed(1)
    a, b = numbers(name, (n, k), generator), numbers(name, (k, n), generator)
    _, info = widen.matmul(a, b, info=True, unit=unit)  # compiles
    spent = milliseconds(a, b, unit)
    _, info = widen.matmul(a, b, info=True, unit=unit)
    operations = (8 if FORMATS[name].parts == 2 else 2) * n * n * k
    return {
        "format": name,
        "unit": info.unit,
        "n": n,
        "k": k,
        "ms": spent,
        "tflops": operations / spent / 1e9,
        "products": info.products,
        "repaired": info.repaired,
        "stages_ms": {stage: 1e3 * seconds for stage, seconds in info.seconds.items()},
    }


def main() -> None:
    """Measure all rows, or those of some formats."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--formats", default="", help="which, with commas; all by default")
    parser.add_argument("--unit", help="the planner's choice by default")
    parser.add_argument("--no-save", action="store_true", help="do not append to bench/results")
    given = parser.parse_args()
    here = {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "gpu": torch.cuda.get_device_name(),
        "torch": torch.__version__,
        "cuda": torch.version.cuda,
        "widen": widen.__version__,
    }
    print(", ".join(f"{key} {value}" for key, value in here.items()))
    print(f"{'format':>16} {'n':>5} {'k':>5} {'ms':>8} {'TFLOP/s':>8} {'products':>8}  stages, ms")
    for name, n, k in ROWS:
        if given.formats and name not in given.formats.split(","):
            continue
        row = measure(name, n, k, given.unit)
        stages = " ".join(f"{stage} {ms:.1f}" for stage, ms in row["stages_ms"].items())
        print(
            f"{name:>16} {n:>5} {k:>5} {row['ms']:8.2f} {row['tflops']:8.1f} "
            f"{row['products']:8d}  {stages}",
            flush=True,
        )
        torch.cuda.empty_cache()
        if not given.no_save:
            append(RESULTS, here | row)


if __name__ == "__main__":
    main()
