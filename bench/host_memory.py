"""Products on a GPU of operands in host memory: `python bench/host_memory.py`.

Beside them, in the same run, the product of operands in the GPU's memory with the same workspace,
and the bare copies: as many bytes as are sent, pinned, one after the other, while as many as the
result has come back. Medians of some runs after one that is not timed; rows are appended to
bench/results/. `--model` prints the planned panels, their bytes and seconds, and needs no GPU.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

import numpy as np
import torch

import widen
from widen.calls.check import check_call, workspace_bytes
from widen.cli.errors import CommandError
from widen.cli.machines import machine
from widen.cli.results import append, stamped
from widen.gpu.host.panels import LINK, RATE, Panels
from widen.gpu.host.sizes import panels_of
from widen.options import Options
from widen.stages.problem import Scalars

RESULTS = Path(__file__).parent / "results" / "host-memory.jsonl"
PIECE = 1 << 26


def planned(n: int, workspace: str) -> Panels:
    """The panels of a float64 product."""
    nothing = np.broadcast_to(np.zeros(()), (n, n))
    call = check_call(nothing, nothing, Options(), workspace_bytes(workspace))
    return panels_of(call, Scalars(), Options(), torch.device("cpu"))


def said(n: int, plan: Panels) -> dict[str, object]:
    """What a plan says of itself."""
    return {
        "n": n,
        "kept": ("rows", "columns")[plan.kept],
        "step": list(plan.step),
        "bytes_sent": plan.bytes_sent(([0], [0])),
        "model_s": plan.seconds(),
        "model_products_s": 2 * n**3 * plan.sizes.products / RATE,
        "link": LINK,
    }


def wall(call: Callable[[], object]) -> float:
    """Seconds of a call and all that it launched."""
    torch.cuda.synchronize()
    started = time.perf_counter()
    call()
    torch.cuda.synchronize()
    return time.perf_counter() - started


def typical(call: Callable[[], object], repeats: int) -> float:
    """The median of some runs, after one that is not timed."""
    return median([wall(call) for _ in range(repeats + 1)][1:])


def bare_copies(sent: int, fetched: int) -> None:
    """As many bytes each way as a product moves, from pinned memory, at one time."""
    host, there = (
        [torch.empty(PIECE, dtype=torch.uint8, **where) for _ in range(2)]
        for where in ({"pin_memory": True}, {"device": "cuda"})
    )
    streams = torch.cuda.Stream(), torch.cuda.Stream()
    for way, count in enumerate((sent, fetched)):
        target, source = (there[0], host[0]) if way == 0 else (host[1], there[1])
        with torch.cuda.stream(streams[way]):
            for start in range(0, count, PIECE):
                size = min(PIECE, count - start)
                target[:size].copy_(source[:size], non_blocking=True)
    for stream in streams:
        stream.synchronize()


def in_memory(
    a: torch.Tensor, b: torch.Tensor, workspace: str, repeats: int
) -> tuple[float, torch.Tensor]:
    """Seconds of the product in the GPU's memory, and the product."""
    left, right = a.cuda(), b.cuda()
    seconds = typical(lambda: widen.matmul(left, right, workspace=workspace), repeats)
    return seconds, widen.matmul(left, right, workspace=workspace).cpu()


def measured(n: int, workspace: str, repeats: int) -> dict[str, object]:
    """A row: seconds in memory, from host memory (pinned or not), and of the copies alone."""
    plan, rng = planned(n, workspace), np.random.default_rng(n)
    row = said(n, plan) | {"workspace": workspace, "repeats": repeats}
    pinned = [torch.empty(n, n, dtype=torch.float64, pin_memory=True) for _ in range(3)]
    for x in pinned[:2]:
        rng.random(out=x.numpy())
        x -= 0.5
    a, b, out = pinned
    row["in_memory_s"], right = in_memory(a, b, workspace, repeats)
    torch.cuda.empty_cache()
    sent = plan.bytes_sent(([0], [0]))
    row["copies_s"] = typical(lambda: bare_copies(sent, out.nbytes), repeats)
    plain = [x.numpy().copy() for x in (a, b)]
    given = {"device": "cuda", "workspace": workspace}
    target = np.empty((n, n))
    for name, call in (
        ("pinned_s", lambda: widen.matmul(a, b, out=out, **given)),
        ("plain_s", lambda: widen.matmul(*plain, out=target, **given)),
    ):
        torch.cuda.reset_peak_memory_stats()
        row[name] = typical(call, repeats)
        row[f"{name[:-2]}_peak_bytes"] = torch.cuda.max_memory_allocated()
        row[f"{name[:-2]}_of_in_memory"] = row["in_memory_s"] / row[name]
    for x in (out, torch.from_numpy(target)):
        assert torch.equal(x.view(torch.int64), right.view(torch.int64)), "bits differ"
    return row


def main() -> None:
    """Print rows, and append them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", type=int, nargs="+", default=[8192, 16384, 32768])
    parser.add_argument("--workspace", default="8GB")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--model", action="store_true", help="print the plan alone")
    parser.add_argument("--no-save", action="store_true", help="append to no file")
    options = parser.parse_args()
    if options.model:
        for n in options.sizes:
            print(
                ", ".join(
                    f"{key} {value}"
                    for key, value in said(n, planned(n, options.workspace)).items()
                )
            )
        return
    try:
        facts = machine("cuda").facts()
    except CommandError as error:
        parser.error(str(error))
    started = time.perf_counter()
    for n in options.sizes:
        row = stamped(
            {"row": "host-memory", **measured(n, options.workspace, options.repeats)}, facts,
            time.perf_counter() - started,
        )  # fmt: skip
        print(", ".join(f"{key} {value}" for key, value in row.items()), flush=True)
        if not options.no_save:
            append(RESULTS, row)


if __name__ == "__main__":
    main()
